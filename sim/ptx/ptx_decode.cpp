// ptx_decode.cpp - from statements to instructions: operands become offsets of slots, immediate operands
// constants that are stored once for all 32 lanes, the opcode a function. Reads of registers that some path
// has not written get a check in front of the instruction, and writes of them a note behind it (pseudo
// instructions).
#include "sim/ptx/ptx.h"

#include <cstring>

namespace ptx {
bool Decoder::has(string_view part) const {
    for (auto &p : parts)
        if (p == part) return true;
    return false;
}
Type Decoder::type(int from_end) const {
    for (size_t k = parts.size(); k-- > 0;) {
        const Type t = type_of(parts[k]);
        if (t != Type::none && from_end-- == 0) return t;
    }
    return Type::none;
}
void Decoder::bad(const char *why) const {
    const auto f = k.files.find(s.file);
    fail("%s (%s:%d): %.*s: %s", k.body.name.c_str(), f == k.files.end() ? "?" : f->second.c_str(), s.line,
         (int)s.op.size(), s.op.data(), why);
}
int32_t Decoder::constant(uint64_t value, int bytes) {
    const size_t n  = bytes == 1 ? 4 : 32 * (size_t)bytes; // 1: a predicate, one word
    const size_t at = align_up(k.constants.size(), 32);
    k.constants.resize(at + n);
    for (size_t l = 0; l * (size_t)bytes < n && bytes > 1; l++)
        memcpy(k.constants.data() + at + l * (size_t)bytes, &value, (size_t)bytes);
    if (bytes == 1) memset(k.constants.data() + at, value != 0 ? 0xff : 0, 4);
    return (int32_t)(0x80000000u | (uint32_t)at);
}
uint64_t Decoder::symbol_value(const Symbol &y) const {
    switch (y.space) {
    case Space::shared:
        return SHARED_FIRST + (y.dynamic ? align_up(k.body.shared_bytes, 16) : y.at);
    case Space::local:
        return LOCAL_FIRST + y.at;
    default:
        return y.at;
    }
}
int32_t Decoder::dst_of(int reg, int bytes) {
    if (reg < 0) bad("the result is not a register");
    if (bytes != 0 && bytes_of(k.body.regs[(size_t)reg]) != bytes) bad("a result register of another size");
    return regs.slot[(size_t)reg];
}
int32_t Decoder::dst(size_t arg, int bytes) {
    if (arg >= s.args.size() || s.args[arg].kind != Operand::REG) bad("the result is not a register");
    return dst_of(s.args[arg].reg, bytes);
}
int32_t Decoder::src_of(const Operand &o, int bytes) {
    if (o.kind == Operand::REG) {
        if (bytes_of(k.body.regs[(size_t)o.reg]) != bytes) bad("a source register of another size");
        return regs.slot[(size_t)o.reg];
    }
    if (o.kind == Operand::SYMBOL) return constant(symbol_value(*o.symbol) + o.number, bytes);
    if (o.kind != Operand::NUMBER) bad("an operand of an unknown kind");
    uint64_t v = o.number;
    if (o.literal == 'd' && bytes == 4) {
        double d;
        memcpy(&d, &v, 8);
        const float f = (float)d;
        uint32_t    u;
        memcpy(&u, &f, 4);
        v = u;
    }
    return constant(v, bytes);
}
int32_t Decoder::src(size_t arg, Type t) {
    if (arg >= s.args.size()) bad("an operand is missing");
    const Operand &o = s.args[arg];
    if (t == Type::pred && o.kind == Operand::NUMBER) return constant(o.number, 1);
    return src_of(o, bytes_of(t));
}
// The base register or none, the offset, and the space of an address operand.
void Decoder::address(const Operand &o, Space space) {
    if (o.kind != Operand::ADDRESS) bad("an address expected");
    if (space == Space::constant) space = Space::global;
    i.space  = space;
    i.offset = (int64_t)o.number;
    i.s[0]   = 0;
    i.wide   = 0;
    if (o.symbol != nullptr) {
        if (o.symbol->space == Space::local) i.space = Space::local; // parameters of calls
        i.offset += (int64_t)symbol_value(*o.symbol);
        i.wide = 2; // no base register
    } else if (o.reg >= 0) {
        i.s[0] = regs.slot[(size_t)o.reg];
        i.wide = bytes_of(k.body.regs[(size_t)o.reg]) == 8;
    } else
        i.wide = 2;
}

namespace {
void check_written(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t missing = lanes & ~*w.reg<uint32_t>(i.s[0]);
    if (missing != 0) fail_at(w, __builtin_ctz(missing), "reads a register that it has not written");
}
void note_written(Warp &w, const Inst &i, uint32_t lanes) { *w.reg<uint32_t>(i.s[0]) |= lanes; }

Exec *decode_any(Decoder &d) {
    static DecodeFn *const all[] = {decode_int,    decode_float, decode_convert, decode_move, decode_memory,
                                    decode_atomic, decode_warp,  decode_mma,     decode_flow};
    for (auto *f : all)
        if (Exec *run = f(d)) return run;
    d.bad("unknown instruction");
}
} // namespace
// An instruction that is not counted, with the guard of another.
Inst pseudo(const Inst &of, Exec *run, int32_t slot) {
    Inst i{};
    i.run       = run;
    i.guard     = of.guard;
    i.guard_not = of.guard_not;
    i.flags     = INST_PSEUDO;
    i.s[0]      = slot;
    i.statement = of.statement;
    return i;
}

void decode(Kernel &k) {
    const Registers        regs = assign_slots(k.body);
    const vector<uint32_t> join = immediate_post_dominators(k.body);
    vector<uint32_t>       at(k.body.code.size() + 1); // first instruction of a statement
    vector<int>            defs, uses;
    for (size_t n = 0; n < k.body.code.size(); n++) {
        const Statement &s = k.body.code[n];
        at[n]              = (uint32_t)k.code.size();
        Decoder d{k, s, regs, {}, {}, {}};
        for (size_t from = 0; from <= s.op.size();) {
            const size_t dot = std::min(s.op.find('.', from), s.op.size());
            d.parts.push_back(s.op.substr(from, dot - from));
            from = dot + 1;
        }
        d.i.statement = (uint32_t)n;
        d.i.guard     = s.guard < 0 ? -1 : regs.slot[(size_t)s.guard];
        d.i.guard_not = s.guard_not;
        d.i.target    = (uint32_t)s.target;
        d.i.join      = join[n];
        d.i.run       = decode_any(d);
        definitions(s, defs, uses);
        for (int r : uses)
            if (regs.init[(size_t)r] >= 0) {
                Inst check = pseudo(d.i, check_written, regs.init[(size_t)r]);
                if (r == s.guard) check.guard = -1;
                k.code.push_back(check);
            }
        before(d, (int32_t)align_up(regs.bytes, 64), k.code);
        k.code.push_back(d.i);
        after(d, k.code);
        for (int r : defs)
            if (regs.init[(size_t)r] >= 0) k.code.push_back(pseudo(d.i, note_written, regs.init[(size_t)r]));
    }
    at.back() = (uint32_t)k.code.size();
    for (Inst &i : k.code) {
        if (!(i.flags & INST_BRANCH)) continue;
        i.target = at[i.target];
        if (i.join != NOWHERE) i.join = at[i.join];
    }
    k.reg_bytes  = align_up(regs.bytes, 64) + N_SCRATCH * 128;
    k.live_words = regs.live_words;
    for (int32_t slot : regs.init)
        if (slot >= 0) k.init_slots.push_back(slot);
}
} // namespace ptx
