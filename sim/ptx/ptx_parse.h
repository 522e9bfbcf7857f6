// ptx_parse.h - tokens of PTX text and the index of a module; used by ptx_lex.cpp, ptx_module.cpp and
// ptx_parse.cpp.
#ifndef TESTS_PTX_PTX_PARSE_H
#define TESTS_PTX_PTX_PARSE_H
#include "sim/ptx/ptx.h"

namespace ptx {
enum class Tok : uint8_t { end, word, number, string, sign };
struct Lexer {
    const char *p, *end, *begin;
    Tok         kind = Tok::end;
    string_view text; // of the present token
    Lexer(string_view s, const char *text_begin) : p(s.data()), end(s.data() + s.size()), begin(text_begin) { next(); }
    void        next();
    bool        is(char c) const { return kind == Tok::sign && text[0] == c; }
    bool        is(string_view w) const { return kind == Tok::word && text == w; }
    bool        take(char c);
    void        expect(char c);
    string_view word();
    uint64_t    integer();
    void        skip_line();
    void        skip_to(char c); // the token after it is the present one then
    void        skip_braces();   // from { to after its }
    bool        ends_here() const { return kind == Tok::end; }
    int         line_number() const;
};
uint64_t number_value(string_view text, char *literal);

// Functions and variables of a module. The text of a function is from its parameters to its last brace.
struct FunctionText {
    string_view text;
    bool        entry;
};
struct ModuleText {
    string                              text;
    std::map<string_view, FunctionText> functions;
    std::map<string_view, Symbol>       symbols; // .global, .const, extern .shared, .shared
    std::vector<vector<char>>           memory;  // of .global and .const
    std::map<int, string>               files;
    size_t                              shared_bytes = 0;
};
void index_module(ModuleText &m);
// A declaration such as ".align 8 .b8 name[144]" after its state space; the present token is after it then.
struct Declaration {
    string_view name;
    Type        type;
    size_t      align, count;
    bool        unsized;
    size_t      bytes() const { return count * (size_t)bytes_of(type); }
};
Declaration declaration(Lexer &x);
} // namespace ptx
#endif
