// ptx_module.cpp - index of a PTX module: where its functions are, its variables, its source files (section 5,
// 11). The statements of a function are parsed when one of its entries is wanted (ptx_parse.cpp).
#include "sim/ptx/ptx_parse.h"

#include <cstring>

namespace ptx {
// clang-format off
static const struct {
    string_view name;
    Type        type;
    int         bytes;
} type_table[] = {
    {"pred", Type::pred, 4}, {"b8", Type::b8, 1},   {"u8", Type::u8, 1},   {"s8", Type::s8, 1},
    {"b16", Type::b16, 2},   {"u16", Type::u16, 2}, {"s16", Type::s16, 2}, {"f16", Type::f16, 2},
    {"bf16", Type::bf16, 2}, {"b32", Type::b32, 4}, {"u32", Type::u32, 4}, {"s32", Type::s32, 4},
    {"f32", Type::f32, 4},   {"f16x2", Type::f16x2, 4}, {"bf16x2", Type::bf16x2, 4},
    {"b64", Type::b64, 8},   {"u64", Type::u64, 8}, {"s64", Type::s64, 8}, {"f64", Type::f64, 8}};
// clang-format on

Type type_of(string_view name) {
    for (auto &t : type_table)
        if (name == t.name) return t.type;
    return Type::none;
}
int bytes_of(Type t) {
    for (auto &e : type_table)
        if (e.type == t) return e.bytes;
    return 0;
}
bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }
bool is_float(Type t) {
    return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::f16x2 ||
           t == Type::bf16x2;
}
size_t align_up(size_t n, size_t a) { return (n + a - 1) / a * a; }

Declaration declaration(Lexer &x) {
    Declaration d = {{}, Type::none, 0, 1, false};
    if (x.is(".align")) {
        x.next();
        d.align = x.integer();
    }
    const string_view type = x.word();
    d.type                 = type_of(type.substr(1));
    if (d.type == Type::none) fail("PTX line %d: unknown type %.*s", x.line_number(), (int)type.size(), type.data());
    if (d.align == 0) d.align = (size_t)bytes_of(d.type);
    while (x.is(".ptr") || x.is(".global") || x.is(".shared") || x.is(".align")) { // attributes of a pointer parameter
        const bool number = x.is(".align");
        x.next();
        if (number) x.integer();
    }
    d.name = x.word();
    while (x.take('[')) {
        if (x.take(']')) {
            d.unsized = true;
            d.count   = 0;
            continue;
        }
        d.count *= x.integer();
        x.expect(']');
    }
    return d;
}

// = {1, 2, ...} or = 5: elements of the type; the rest is 0.
static void initialise(Lexer &x, const Declaration &d, char *memory) {
    if (!x.take('=')) return;
    const size_t n      = (size_t)bytes_of(d.type);
    const bool   braces = x.take('{');
    for (size_t k = 0; k < d.count && x.kind == Tok::number; k++) {
        const uint64_t v = x.integer();
        memcpy(memory + k * n, &v, n);
        if (!x.take(',')) break;
    }
    if (braces) x.expect('}');
}
static void variable(ModuleText &m, Lexer &x, string_view space, bool is_extern) {
    const Declaration d = declaration(x);
    if (space == ".shared" && (is_extern || d.unsized)) {
        m.symbols[d.name] = {Space::shared, 0, 0, true};
    } else if (space == ".shared") {
        m.shared_bytes    = align_up(m.shared_bytes, d.align);
        m.symbols[d.name] = {Space::shared, m.shared_bytes, d.bytes(), false};
        m.shared_bytes += d.bytes();
    } else {
        m.memory.emplace_back(d.bytes() + d.align, 0);
        char *p           = (char *)align_up((size_t)m.memory.back().data(), d.align);
        m.symbols[d.name] = {space == ".const" ? Space::constant : Space::global, (uint64_t)p, d.bytes(), false};
        initialise(x, d, p);
    }
    x.skip_to(';');
}
static void function(ModuleText &m, Lexer &x, bool entry) {
    const char *from = x.text.data();
    if (x.is('(')) x.skip_to(')'); // result
    const string_view name = x.word();
    while (!x.is('{') && !x.is(';') && !x.ends_here()) x.next();
    if (x.take(';')) return; // only declared
    x.skip_braces();
    const char *to    = x.ends_here() ? x.end : x.text.data();
    m.functions[name] = {string_view(from, (size_t)(to - from)), entry};
}
void index_module(ModuleText &m) {
    Lexer x(m.text, m.text.data());
    bool  is_extern = false;
    while (!x.ends_here()) {
        const string_view w = x.text;
        x.next();
        if (w == ".extern") {
            is_extern = true;
            continue;
        }
        if (w == ".visible" || w == ".weak" || w == ".common") continue;
        if (w == ".entry" || w == ".func")
            function(m, x, w == ".entry");
        else if (w == ".global" || w == ".const" || w == ".shared")
            variable(m, x, w, is_extern);
        else if (w == ".file") {
            const int number = (int)x.integer();
            m.files[number]  = string(x.text);
            x.skip_line();
        } else if (w == ".version" || w == ".target" || w == ".address_size")
            x.skip_line();
        else if (w == ".section") {
            while (!x.is('{') && !x.ends_here()) x.next();
            x.skip_braces();
        } else
            fail("PTX line %d: '%.*s' at the top level", x.line_number(), (int)w.size(), w.data());
        is_extern = false;
    }
}

struct Module::Impl {
    ModuleText                                text;
    std::map<string, std::unique_ptr<Kernel>> kernels;
};
Module::Module(string text) : impl(new Impl) {
    impl->text.text = std::move(text);
    index_module(impl->text);
}
Module::~Module() {}
vector<string> Module::entries() const {
    vector<string> names;
    for (auto &f : impl->text.functions)
        if (f.second.entry) names.emplace_back(f.first);
    return names;
}
const Kernel *Module::kernel(const string &name) {
    auto &k = impl->kernels[name];
    if (k == nullptr && impl->text.functions.count(name) != 0) {
        k        = std::make_unique<Kernel>();
        k->files = impl->text.files;
        for (auto &v : impl->text.memory) k->variables.push_back({(uint64_t)v.data(), (uint64_t)v.data() + v.size()});
        parse_body(impl->text, name, k->body);
        decode(*k);
    }
    return k.get();
}
} // namespace ptx
