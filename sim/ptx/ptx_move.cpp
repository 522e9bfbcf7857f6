// ptx_move.cpp - moves, packing, special registers, comparisons, selection, logic of predicates (sections
// 9.7.6 to 9.7.9, 10).
#include "sim/ptx/ptx_lanes.h"

#include <cstring>
#include <ctime>

namespace ptx {
namespace {
template <class T> void move(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return a[l]; });
}
void move_pred(Warp &w, const Inst &i, uint32_t lanes) { put_mask(w, i.d[0], lanes, *w.at<uint32_t>(i.s[0])); }

// {a, b, ...} with a in the low bits; E: an element, N: how many.
template <class E, class T, int N> void pack(Warp &w, const Inst &i, uint32_t lanes) {
    active_lanes(w.reg<T>(i.d[0]), lanes, [&](int l) {
        T r = 0;
        for (int k = 0; k < N; k++) r |= (T)w.at<E>(i.s[k])[l] << 8 * sizeof(E) * k;
        return r;
    });
}
template <class E, class T, int N>
void unpack(Warp &w, const Inst &i, uint32_t lanes) { // target: bit k, element k is wanted
    const T *a = w.at<T>(i.s[0]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const T   v = a[l];
        for (int k = 0; k < N; k++)
            if (i.sub >> k & 1) w.reg<E>(i.d[k])[l] = (E)(v >> 8 * sizeof(E) * k);
    }
}
Exec *decode_pack(Decoder &d, Type t) {
    const vector<Operand> &list = d.s.args[1].list;
    const int              n = (int)list.size(), each = n ? bytes_of(t) / n : 0;
    d.i.d[0] = d.dst(0, bytes_of(t));
    if (n > 4) return nullptr;
    for (int k = 0; k < n; k++) d.i.s[k] = d.src_of(list[(size_t)k], each);
    if (n == 2 && each == 4) return pack<uint32_t, uint64_t, 2>;
    if (n == 2 && each == 2) return pack<uint16_t, uint32_t, 2>;
    return n == 4 && each == 2 ? pack<uint16_t, uint64_t, 4> : nullptr;
}
Exec *decode_unpack(Decoder &d, Type t) {
    const vector<Operand> &list = d.s.args[0].list;
    const int              n = (int)list.size(), each = n ? bytes_of(t) / n : 0;
    if (n > 4) return nullptr;
    d.i.s[0] = d.src(1, t);
    for (int k = 0; k < n; k++) {
        if (list[(size_t)k].kind == Operand::WORD && list[(size_t)k].word == "_") continue;
        d.i.sub |= (uint8_t)(1 << k);
        d.i.d[k] = d.dst_of(list[(size_t)k].reg, each);
    }
    if (n == 2 && each == 4) return unpack<uint32_t, uint64_t, 2>;
    if (n == 2 && each == 2) return unpack<uint16_t, uint32_t, 2>;
    return n == 4 && each == 2 ? unpack<uint16_t, uint64_t, 4> : nullptr;
}

// ---- special registers ----
enum Special : uint8_t {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANEID,
    WARPID,
    NWARPID,
    SMID,
    NSMID,
    LANEMASK_EQ,
    LANEMASK_LT,
    LANEMASK_LE,
    LANEMASK_GT,
    LANEMASK_GE,
    CLOCK,
    DYNAMIC_SMEM
};
// clang-format off
const char *const special_names[] = {
    "%tid.x",    "%tid.y",   "%tid.z",  "%ntid.x", "%ntid.y", "%ntid.z",      "%ctaid.x",     "%ctaid.y",
    "%ctaid.z",  "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid",     "%smid",
    "%nsmid",    "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%clock",
     "%dynamic_smem_size"};
// clang-format on

uint32_t special(const Warp &w, uint8_t which, int l) {
    const Launch  &g   = *w.block->launch;
    const uint32_t t   = w.id * 32 + (uint32_t)l;
    const uint32_t bit = 1u << l;
    switch (which) {
    case TID_X:
        return t % g.block[0];
    case TID_Y:
        return t / g.block[0] % g.block[1];
    case TID_Z:
        return t / g.block[0] / g.block[1];
    case NTID_X:
    case NTID_Y:
    case NTID_Z:
        return g.block[which - NTID_X];
    case CTAID_X:
        return w.block->x;
    case CTAID_Y:
        return w.block->y;
    case CTAID_Z:
        return w.block->z;
    case NCTAID_X:
    case NCTAID_Y:
    case NCTAID_Z:
        return g.grid[which - NCTAID_X];
    case LANEID:
        return (uint32_t)l;
    case WARPID:
        return w.id;
    case NWARPID:
        return (uint32_t)w.block->warps.size();
    case SMID:
        return 0;
    case NSMID:
        return 1;
    case LANEMASK_EQ:
        return bit;
    case LANEMASK_LT:
        return bit - 1;
    case LANEMASK_LE:
        return bit | (bit - 1);
    case LANEMASK_GT:
        return ~(bit | (bit - 1));
    case LANEMASK_GE:
        return ~(bit - 1);
    case DYNAMIC_SMEM:
        return g.dynamic_shared;
    default:
        return (uint32_t)n_executed; // a clock: instructions so far
    }
}
template <class T> void move_special(Warp &w, const Inst &i, uint32_t lanes) {
    active_lanes(w.reg<T>(i.d[0]), lanes, [&](int l) { return (T)special(w, i.sub, l); });
}
template <class T> void move_clock(Warp &w, const Inst &i, uint32_t lanes) {
    active_lanes(w.reg<T>(i.d[0]), lanes, [&](int) { return (T)n_executed; });
}
Exec *decode_special(Decoder &d, Type t) {
    const string_view name = d.s.args[1].word;
    d.i.d[0]               = d.dst(0, bytes_of(t));
    if (name == "%clock64" || name == "%globaltimer") return bytes_of(t) == 8 ? move_clock<uint64_t> : nullptr;
    for (size_t k = 0; k < sizeof special_names / sizeof *special_names; k++) {
        if (name != special_names[k]) continue;
        d.i.sub = (uint8_t)k;
        return bytes_of(t) == 4 ? move_special<uint32_t> : bytes_of(t) == 2 ? move_special<uint16_t> : nullptr;
    }
    return nullptr;
}
Exec *decode_mov(Decoder &d, Type t) {
    const Operand &to = d.s.args.at(0), &from = d.s.args.at(1);
    if (from.kind == Operand::VECTOR) return decode_pack(d, t);
    if (to.kind == Operand::VECTOR) return decode_unpack(d, t);
    if (from.kind == Operand::WORD) return decode_special(d, t);
    d.i.s[0] = d.src(1, t);
    if (t == Type::pred) {
        d.i.d[0] = d.dst(0, 4);
        return move_pred;
    }
    d.i.d[0] = d.dst(0, bytes_of(t));
    return bytes_of(t) == 2 ? move<uint16_t> : bytes_of(t) == 4 ? move<uint32_t> : move<uint64_t>;
}
// cvta: between a state space and the generic one; sub: the window (9.7.9.20).
template <class T> void to_generic(Warp &w, const Inst &i, uint32_t lanes) {
    const T       *a      = w.at<T>(i.s[0]);
    const uint64_t window = (uint64_t)i.sub * WINDOW;
    each_lane(w.reg<uint64_t>(i.d[0]), lanes, [=](int l) { return a[l] | window; });
}
void from_generic(Warp &w, const Inst &i, uint32_t lanes) {
    const uint64_t *a = w.at<uint64_t>(i.s[0]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (a[l] >> 56 != i.sub)
            fail_at(w, l, "address 0x%llx is not in the state space it is converted to", (unsigned long long)a[l]);
    }
    each_lane(w.reg<uint64_t>(i.d[0]), lanes, [=](int l) { return a[l] & (WINDOW - 1); });
}
Exec *decode_cvta(Decoder &d, Type t) {
    d.i.sub  = d.has("shared") || d.has("shared::cta") ? 1 : d.has("local") ? 2 : d.has("param") ? 3 : 0;
    d.i.d[0] = d.dst(0, 8);
    d.i.s[0] = d.src(1, t);
    return d.has("to") ? from_generic : to_generic<uint64_t>;
}

// ---- comparison (9.7.6); the names ending in u are true if an operand is NaN ----
#define CMP(Name, expression)                                                                                          \
    struct Name {                                                                                                      \
        template <class T> static bool f(T a, T b) { return expression; }                                              \
    };
CMP(Eq, a == b)
CMP(Ne, a<b || a> b)
CMP(Lt, a < b)
CMP(Le, a <= b)
CMP(Gt, a > b)
CMP(Ge, a >= b)
CMP(Equ, !(a < b || a > b))
CMP(Neu, !(a == b))
CMP(Ltu, !(a >= b))
CMP(Leu, !(a > b))
CMP(Gtu, !(a <= b))
CMP(Geu, !(a < b))
CMP(Num, a == a && b == b)
CMP(Nan, a != a || b != b)
template <class T, class C> uint32_t compare(const Warp &w, const Inst &i) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    return lane_mask([=](int l) { return C::template f<T>(a[l], b[l]); });
}
// setp.cmp p, a, b. count: 0 none, 1 and, 2 or, 3 xor with a predicate c; sub: 1 c is inverted, 2 a second
// result gets the comparison's opposite.
template <class T, class C> void setp(Warp &w, const Inst &i, uint32_t lanes) {
    uint32_t r = compare<T, C>(w, i), opposite = ~r;
    if (i.count != 0) {
        uint32_t c = *w.at<uint32_t>(i.s[2]);
        if (i.sub & 1) c = ~c;
        r        = i.count == 1 ? r & c : i.count == 2 ? r | c : r ^ c;
        opposite = i.count == 1 ? opposite & c : i.count == 2 ? opposite | c : opposite ^ c;
    }
    put_mask(w, i.d[0], lanes, r);
    if (i.sub & 2) put_mask(w, i.d[1], lanes, opposite);
}
// set.cmp: all ones, or 1.0, where the comparison holds, else 0.
template <class T, class C> void set(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t r = compare<T, C>(w, i), yes = i.sub != 0 ? 0x3f800000u : ~0u;
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) { return r >> l & 1 ? yes : 0u; });
}
template <class T, class C> Exec *setp_or_set(bool p) { return p ? (Exec *)setp<T, C> : set<T, C>; }
template <class C> Exec          *pick_compare(Type t, bool p) {
             switch (t) {
             case Type::b16:
             case Type::u16:
        return setp_or_set<uint16_t, C>(p);
             case Type::s16:
        return setp_or_set<int16_t, C>(p);
             case Type::b32:
             case Type::u32:
        return setp_or_set<uint32_t, C>(p);
             case Type::s32:
        return setp_or_set<int32_t, C>(p);
             case Type::b64:
             case Type::u64:
        return setp_or_set<uint64_t, C>(p);
             case Type::s64:
        return setp_or_set<int64_t, C>(p);
             case Type::f32:
        return setp_or_set<float, C>(p);
             case Type::f64:
        return setp_or_set<double, C>(p);
             default:
        return nullptr;
    }
}
Exec *decode_compare(Decoder &d, Type t) {
    // clang-format off
    static const struct {
        const char *name;
        Exec *(*pick)(Type, bool);
    } table[] = {{"eq", pick_compare<Eq>},   {"ne", pick_compare<Ne>},   {"lt", pick_compare<Lt>},   {"le",
     pick_compare<Le>},
                 {"gt", pick_compare<Gt>},   {"ge", pick_compare<Ge>},   {"lo", pick_compare<Lt>},   {"ls",
                  pick_compare<Le>},
                 {"hi", pick_compare<Gt>},   {"hs", pick_compare<Ge>},   {"equ", pick_compare<Equ>}, {"neu",
                  pick_compare<Neu>},
                 {"ltu", pick_compare<Ltu>}, {"leu", pick_compare<Leu>}, {"gtu", pick_compare<Gtu>}, {"geu",
                  pick_compare<Geu>},
                 {"num", pick_compare<Num>}, {"nan", pick_compare<Nan>}};
    // clang-format on
    const bool p = d.parts[0] == "setp";
    if (d.has("ftz")) d.around.source = t, d.around.flush = 3;
    d.i.count = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
    d.i.s[0]  = d.src(1, t);
    d.i.s[1]  = d.src(2, t);
    d.i.d[0]  = d.dst(0, 4);
    if (p && d.s.args[0].pair >= 0) {
        d.i.sub |= 2;
        d.i.d[1] = d.dst_of(d.s.args[0].pair, 4);
    }
    if (d.i.count != 0) {
        if (!p) return nullptr;
        d.i.s[2] = d.src(3, Type::pred);
        d.i.sub |= d.s.args[3].inverted;
    }
    if (!p) d.i.sub = d.type(1) == Type::f32;
    for (auto &e : table)
        if (d.parts[1] == e.name) return e.pick(t, p);
    return nullptr;
}
template <class T> void selp(Warp &w, const Inst &i, uint32_t lanes) {
    const T       *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    const uint32_t p = *w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return p >> l & 1 ? a[l] : b[l]; });
}
template <class T, class C> void slct(Warp &w, const Inst &i, uint32_t lanes) { // c >= 0 ? a : b
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    const C *c = w.at<C>(i.s[2]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return c[l] >= 0 ? a[l] : b[l]; });
}
Exec *decode_select(Decoder &d) {
    const bool slct_ = d.parts[0] == "slct";
    const Type t = d.type(slct_), c = slct_ ? d.type() : Type::pred;
    d.i.d[0] = d.dst(0, bytes_of(t));
    d.i.s[0] = d.src(1, t);
    d.i.s[1] = d.src(2, t);
    d.i.s[2] = d.src(3, c);
    if (slct_ && bytes_of(t) == 2) return nullptr;
    if (d.has("ftz")) d.around.source = c, d.around.flush = 4;
    if (slct_ && c == Type::f32) return bytes_of(t) == 8 ? slct<uint64_t, float> : slct<uint32_t, float>;
    if (slct_) return bytes_of(t) == 8 ? slct<uint64_t, int32_t> : slct<uint32_t, int32_t>;
    return bytes_of(t) == 2 ? selp<uint16_t> : bytes_of(t) == 4 ? selp<uint32_t> : selp<uint64_t>;
}
void logic(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t a = *w.at<uint32_t>(i.s[0]), b = *w.at<uint32_t>(i.s[1]);
    put_mask(w, i.d[0], lanes, i.sub == 0 ? a & b : i.sub == 1 ? a | b : i.sub == 2 ? a ^ b : ~a);
}
Exec *decode_logic(Decoder &d) {
    const string_view op = d.parts[0];
    d.i.sub              = op == "and" ? 0 : op == "or" ? 1 : op == "xor" ? 2 : 3;
    if (d.i.sub == 3 && op != "not") return nullptr;
    d.i.d[0] = d.dst(0, 4);
    d.i.s[0] = d.src(1, Type::pred);
    d.i.s[1] = d.i.sub == 3 ? d.i.s[0] : d.src(2, Type::pred);
    for (auto &a : d.s.args)
        if (a.inverted) return nullptr;
    return logic;
}
} // namespace

Exec *decode_move(Decoder &d) {
    const string_view op = d.parts[0];
    const Type        t  = d.type();
    if (op == "mov" && d.s.args.size() == 2) return decode_mov(d, t);
    if (op == "cvta") return decode_cvta(d, t);
    if (op == "setp" || op == "set") return decode_compare(d, t);
    if (op == "selp" || op == "slct") return decode_select(d);
    return t == Type::pred && op != "vote" ? decode_logic(d) : nullptr;
}
} // namespace ptx
