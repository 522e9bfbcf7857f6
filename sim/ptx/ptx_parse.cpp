// ptx_parse.cpp - the statements of a function (section 4, 5, 7.1).
//
// Functions that a kernel calls are parsed into the same Body, so that nothing is left to call when it runs:
//
//     st.param.b64 [param0], %rd1;                      st.local of the caller's array param0
//     call.uni (retval0), f, (param0);             ->   statements of f, whose f_param_0 is the same array,
//     ld.param.f32 %f1, [retval0];                      func_retval0 is retval0, and ret jumps behind them
//
// A branch with an index becomes comparisons, behind a check of the index:
//
//     targets: .branchtargets L1, L2, L3;               brx.idx %r1, 3;       an error if %r1 is 3 or more
//     brx.idx %r1, targets;                        ->   setp.eq.u32 %p, %r1, 0; @%p bra L1;
//                                                       setp.eq.u32 %p, %r1, 1; @%p bra L2; bra L3;
//
// A call of a function without a body stays a statement (ptx_flow.cpp knows cudaGraphSetConditional).
#include "sim/ptx/ptx_parse.h"

#include <algorithm>

namespace ptx {
namespace {
struct RegRange {
    string_view prefix;
    int         first, count;
};
struct Scope {
    const Scope                          *parent;
    std::map<string_view, int>            regs;
    vector<RegRange>                      ranges;
    std::map<string_view, const Symbol *> symbols;
};
struct Parser {
    const ModuleText                          &m;
    Body                                      &b;
    int                                        file = 0, line = 0;
    vector<string_view>                        calls;   // functions being inlined, outermost first
    string_view                                label;   // the last one
    std::map<string_view, vector<string_view>> targets; // of .branchtargets, by label
    std::map<string_view, const Symbol *>      shared;  // every copy of an inlined function has the same shared memory

    void          function(const FunctionText &f, string_view name, const vector<const Symbol *> &actual);
    const Symbol *add_symbol(Scope &s, string_view name, Space space, size_t bytes, size_t align, bool dynamic);
    void          parameters(Lexer &x, Scope &s, vector<Declaration> &list);
    void          block(Lexer &x, Scope &s, std::map<string_view, int> &labels, vector<size_t> &returns);
    void          directive(Lexer &x, Scope &s);
    void          registers(Lexer &x, Scope &s);
    void          statement(Lexer &x, Scope &s, vector<size_t> &returns);
    void          call(Lexer &x, Scope &s, Statement &st);
    void          indexed_branch(const Statement &st);
    Operand       operand(Lexer &x, const Scope &s);
    Operand       named(string_view w, const Scope &s, Lexer &x);
};

int find_register(const Scope *s, string_view name) {
    size_t n = name.size();
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    int number = -1;
    if (n < name.size()) {
        number = 0;
        for (size_t k = n; k < name.size(); k++) number = number * 10 + (name[k] - '0');
    }
    for (; s != nullptr; s = s->parent) {
        auto i = s->regs.find(name);
        if (i != s->regs.end()) return i->second;
        for (auto &r : s->ranges)
            if (number >= 0 && number < r.count && r.prefix == name.substr(0, n)) return r.first + number;
    }
    return -1;
}
const Symbol *find_symbol(const ModuleText &m, const Scope *s, string_view name) {
    for (; s != nullptr; s = s->parent) {
        auto i = s->symbols.find(name);
        if (i != s->symbols.end()) return i->second;
    }
    auto i = m.symbols.find(name);
    return i == m.symbols.end() ? nullptr : &i->second;
}
const Symbol *Parser::add_symbol(Scope &s, string_view name, Space space, size_t bytes, size_t align, bool dynamic) {
    if (space == Space::shared && shared.count(name) != 0) return s.symbols[name] = shared[name];
    size_t &total = space == Space::shared ? b.shared_bytes : space == Space::local ? b.local_bytes : b.params_bytes;
    if (!dynamic) total = align_up(total, align);
    b.symbols.push_back(std::make_unique<Symbol>(Symbol{space, total, bytes, dynamic}));
    total += bytes;
    if (space == Space::shared) shared[name] = b.symbols.back().get();
    return s.symbols[name] = b.symbols.back().get();
}

Operand Parser::named(string_view w, const Scope &s, Lexer &x) {
    Operand o;
    o.reg = find_register(&s, w);
    if (o.reg >= 0) {
        o.kind = Operand::REG;
        return o;
    }
    o.symbol = find_symbol(m, &s, w);
    if (o.symbol != nullptr) {
        o.kind = Operand::SYMBOL;
        if (x.take('+')) o.number = x.integer();
        return o;
    }
    o.kind = Operand::WORD;
    o.word = w;
    return o;
}
Operand Parser::operand(Lexer &x, const Scope &s) {
    Operand o;
    if (x.take('!')) {
        o          = operand(x, s);
        o.inverted = true;
    } else if (x.take('{')) {
        o.kind = Operand::VECTOR;
        while (!x.take('}')) {
            o.list.push_back(operand(x, s));
            x.take(',');
        }
    } else if (x.take('[')) {
        if (x.kind == Tok::word) o = named(x.word(), s, x);
        if (o.kind == Operand::WORD && !o.word.empty())
            fail("PTX line %d: unknown name %.*s", x.line_number(), (int)o.word.size(), o.word.data());
        o.kind = Operand::ADDRESS;
        x.take('+');
        if (x.kind == Tok::number) o.number += x.integer();
        x.expect(']');
    } else if (x.kind == Tok::number) {
        o.kind   = Operand::NUMBER;
        o.number = number_value(x.text, &o.literal);
        x.next();
    } else {
        o = named(x.word(), s, x);
        if (x.take('|')) o.pair = operand(x, s).reg;
    }
    return o;
}

void Parser::registers(Lexer &x, Scope &s) {
    const Type type = type_of(x.word().substr(1));
    if (type == Type::none) fail("PTX line %d: registers of an unknown type", x.line_number());
    do {
        const string_view name  = x.word();
        int               count = 1;
        const int         first = (int)b.regs.size();
        if (x.take('<')) {
            count = (int)x.integer();
            x.expect('>');
            s.ranges.push_back({name, first, count});
        } else
            s.regs[name] = first;
        b.regs.insert(b.regs.end(), (size_t)count, type);
    } while (x.take(','));
    x.expect(';');
}
void Parser::directive(Lexer &x, Scope &s) {
    const string_view w = x.word();
    if (w == ".reg") return registers(x, s);
    if (w == ".loc") {
        const int f = (int)x.integer(), l = (int)x.integer();
        if (l != 0) file = f, line = l; // line 0: made by the compiler
        return x.skip_line();
    }
    if (w == ".pragma") return x.skip_to(';');
    if (w == ".branchtargets") {
        vector<string_view> &list = targets[label];
        list.clear();
        do list.push_back(x.word());
        while (x.take(','));
        return x.expect(';');
    }
    const Space space = w == ".shared" ? Space::shared : w == ".local" || w == ".param" ? Space::local : Space::generic;
    if (space == Space::generic) fail("PTX line %d: unknown directive %.*s", x.line_number(), (int)w.size(), w.data());
    const Declaration d = declaration(x);
    add_symbol(s, d.name, space, d.bytes(), d.align, d.unsized);
    x.expect(';');
}

void Parser::call(Lexer &x, Scope &s, Statement &st) {
    vector<const Symbol *> actual;
    vector<Operand>        values;
    const auto             list = [&]() {
        while (!x.take(')')) {
            values.push_back(operand(x, s));
            actual.push_back(values.back().symbol);
            x.take(',');
        }
    };
    if (x.take('(')) {
        list();
        x.expect(',');
    }
    const string_view name = x.word();
    if (x.take(',') && x.take('(')) list();
    x.expect(';');
    auto f = m.functions.find(name);
    if (f == m.functions.end()) {
        Operand o;
        o.word = name;
        st.args.push_back(o);
        for (auto &v : values) st.args.push_back(v);
        b.code.push_back(st);
        return;
    }
    if (std::find(calls.begin(), calls.end(), name) != calls.end())
        fail("%s: recursive call of %.*s", b.name.c_str(), (int)name.size(), name.data());
    function(f->second, name, actual);
}
void Parser::statement(Lexer &x, Scope &s, vector<size_t> &returns) {
    Statement st;
    st.file = file;
    st.line = line;
    if (x.take('@')) {
        st.guard_not = x.take('!');
        st.guard     = find_register(&s, x.word());
        if (st.guard < 0) fail("PTX line %d: unknown guard", x.line_number());
    }
    st.op = x.word();
    if (st.op == "call" || st.op == "call.uni") {
        if (st.guard >= 0) fail("PTX line %d: a call with a guard", x.line_number());
        return call(x, s, st);
    }
    if (st.op.substr(0, 3) == "ret" && calls.size() > 1) {
        st.op = "bra";
        returns.push_back(b.code.size());
    }
    while (!x.take(';')) {
        st.args.push_back(operand(x, s));
        if (!x.take(',') && !x.is(';'))
            fail("PTX line %d: ';' expected before '%.*s'", x.line_number(), (int)x.text.size(), x.text.data());
    }
    if (st.op.substr(0, 7) == "brx.idx") return indexed_branch(st);
    b.code.push_back(st);
}
void Parser::indexed_branch(const Statement &st) {
    const auto list = targets.find(st.args.size() > 1 ? st.args[1].word : string_view());
    if (list == targets.end() || st.guard >= 0)
        fail("%s: brx.idx with a guard, or without .branchtargets before it", b.name.c_str());
    Statement check = st, compare = st, branch = st;
    Operand   number, target, is_equal;
    number.kind   = Operand::NUMBER;
    is_equal.kind = Operand::REG;
    is_equal.reg  = (int)b.regs.size();
    b.regs.push_back(Type::pred);
    number.number = list->second.size();
    check.args    = {st.args[0], number};
    b.code.push_back(check);
    compare.op = "setp.eq.u32", branch.op = "bra";
    for (size_t k = 0; k < list->second.size(); k++) {
        number.number = k;
        target.word   = list->second[k];
        compare.args  = {is_equal, st.args[0], number};
        branch.args   = {target};
        branch.guard  = k + 1 < list->second.size() ? is_equal.reg : -1;
        if (branch.guard >= 0) b.code.push_back(compare);
        b.code.push_back(branch);
    }
}
void Parser::block(Lexer &x, Scope &s, std::map<string_view, int> &labels, vector<size_t> &returns) {
    while (!x.take('}')) {
        if (x.ends_here()) fail("%s: the text ends inside a block", b.name.c_str());
        if (x.take('{')) {
            Scope inner{&s, {}, {}, {}};
            block(x, inner, labels, returns);
            continue;
        }
        if (x.kind == Tok::word && x.text[0] == '.') {
            directive(x, s);
            continue;
        }
        if (x.kind == Tok::word && *x.p == ':') {
            label         = x.word();
            labels[label] = (int)b.code.size();
            x.expect(':');
            continue;
        }
        statement(x, s, returns);
    }
}
void Parser::parameters(Lexer &x, Scope &, vector<Declaration> &list) {
    if (!x.take('(')) return;
    while (!x.take(')')) {
        x.word(); // .param or .reg
        list.push_back(declaration(x));
        x.take(',');
    }
}
// The entry's own parameters are in the param space; those of a callee are arrays of the caller.
void Parser::function(const FunctionText &f, string_view name, const vector<const Symbol *> &actual) {
    Lexer               x(f.text, m.text.data());
    Scope               s{nullptr, {}, {}, {}};
    vector<Declaration> formal;
    const bool          entry = calls.empty();
    calls.push_back(name);
    parameters(x, s, formal);
    x.word();
    parameters(x, s, formal);
    if (!entry && formal.size() != actual.size()) fail("call of %.*s: parameters", (int)name.size(), name.data());
    for (size_t k = 0; k < formal.size(); k++)
        if (entry) {
            add_symbol(s, formal[k].name, Space::param, formal[k].bytes(), formal[k].align, false);
            b.param_at.push_back(b.symbols.back()->at);
            b.param_bytes.push_back(formal[k].bytes());
        } else
            s.symbols[formal[k].name] = actual[k];
    while (!x.take('{')) {
        if (x.is(".maxntid")) {
            x.next();
            b.max_threads = (unsigned)x.integer();
            while (x.take(',')) b.max_threads *= (unsigned)x.integer();
        } else
            x.next();
    }
    std::map<string_view, int> labels;
    vector<size_t>             returns;
    const size_t               begin = b.code.size();
    block(x, s, labels, returns);
    const int end = (int)b.code.size();
    for (size_t k : returns) b.code[k].target = end;
    for (size_t k = begin; k < (size_t)end; k++) {
        Statement &st = b.code[k];
        if (st.op.substr(0, 3) != "bra" || st.target >= 0) continue;
        auto l = labels.find(st.args.empty() ? string_view() : st.args[0].word);
        if (l == labels.end()) fail("%s: branch to an unknown label", b.name.c_str());
        st.target = l->second;
    }
    calls.pop_back();
}
} // namespace

void parse_body(const ModuleText &m, const string &name, Body &body) {
    body.name         = name;
    body.shared_bytes = m.shared_bytes;
    Parser p{m, body, 0, 0, {}, {}, {}, {}};
    p.function(m.functions.find(name)->second, name, {});
    Statement end;
    end.op   = "exit"; // where the last label of a kernel may point
    end.file = p.file;
    end.line = p.line;
    body.code.push_back(end);
}
} // namespace ptx
