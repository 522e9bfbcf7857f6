// ptx_lex.cpp - tokens of PTX text (section 4): words with their dots, numbers, strings, signs. Comments are
// skipped.
#include "sim/ptx/ptx_parse.h"

#include <cctype>
#include <cstdlib>

namespace ptx {
static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

static const char *skip_blanks(const char *p, const char *end) {
    while (p < end) {
        if (isspace((unsigned char)*p))
            p++;
        else if (*p == '/' && p + 1 < end && p[1] == '/')
            while (p < end && *p != '\n') p++;
        else if (*p == '/' && p + 1 < end && p[1] == '*') {
            p += 2;
            while (p + 1 < end && !(*p == '*' && p[1] == '/')) p++;
            p += 2;
        } else
            break;
    }
    return p < end ? p : end;
}

void Lexer::next() {
    p                = skip_blanks(p, end);
    const char *from = p;
    if (p == end) {
        kind = Tok::end;
        text = {};
        return;
    }
    if (isdigit((unsigned char)*p) || (*p == '-' && p + 1 < end && isdigit((unsigned char)p[1]))) {
        kind = Tok::number;
        for (p++; p < end && isalnum((unsigned char)*p);) p++;
    } else if (word_char(*p)) {
        kind = Tok::word;
        while (p < end && (word_char(*p) || (*p == ':' && p + 1 < end && p[1] == ':') || (*p == ':' && p[-1] == ':')))
            p++;
    } else if (*p == '"') {
        kind = Tok::string;
        for (p++; p < end && *p != '"';) p++;
        if (p < end) p++;
        text = string_view(from + 1, (size_t)(p - from) - 2);
        return;
    } else {
        kind = Tok::sign;
        p++;
    }
    text = string_view(from, (size_t)(p - from));
}

int Lexer::line_number() const {
    int n = 1;
    for (const char *q = begin; q < p; q++) n += *q == '\n';
    return n;
}
bool Lexer::take(char c) {
    if (!is(c)) return false;
    next();
    return true;
}
void Lexer::expect(char c) {
    if (!take(c)) fail("PTX line %d: '%c' expected before '%.*s'", line_number(), c, (int)text.size(), text.data());
}
string_view Lexer::word() {
    if (kind != Tok::word)
        fail("PTX line %d: a name expected before '%.*s'", line_number(), (int)text.size(), text.data());
    const string_view w = text;
    next();
    return w;
}
uint64_t Lexer::integer() {
    if (kind != Tok::number)
        fail("PTX line %d: a number expected before '%.*s'", line_number(), (int)text.size(), text.data());
    const uint64_t v = number_value(text, nullptr);
    next();
    return v;
}
void Lexer::skip_line() {
    p = text.data();
    while (p < end && *p != '\n') p++;
    next();
}
void Lexer::skip_to(char c) {
    while (!ends_here() && !is(c)) next();
    next();
}
void Lexer::skip_braces() {
    int depth = 0; // no string or comment that nvcc writes holds a brace
    for (p = text.data(); p < end; p++) {
        if (*p == '{') depth++;
        if (*p == '}' && --depth == 0) break;
    }
    if (p < end) p++;
    next();
}

// Section 4.5: 12, -12, 0x1f, 0b101, 017, 1U; 0f3F800000 and 0d3FF0000000000000 are the bits of a float.
uint64_t number_value(string_view s, char *literal) {
    string      t(s);
    const bool  minus = t[0] == '-';
    const char *p     = t.c_str() + minus;
    uint64_t    v;
    if (literal != nullptr) *literal = 0;
    if (p[0] == '0' && (p[1] == 'f' || p[1] == 'F' || p[1] == 'd' || p[1] == 'D')) {
        if (literal != nullptr) *literal = (char)tolower(p[1]);
        return strtoull(p + 2, nullptr, 16);
    }
    if (p[0] == '0' && (p[1] == 'b' || p[1] == 'B'))
        v = strtoull(p + 2, nullptr, 2);
    else
        v = strtoull(p, nullptr, 0);
    return minus ? 0 - v : v;
}
} // namespace ptx
