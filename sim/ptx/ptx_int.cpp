// ptx_int.cpp - integer arithmetic, logic, shifts and bit fields (sections 9.7.1, 9.7.2, 9.7.8), carries
// (9.7.2).
#include "sim/ptx/ptx_lanes.h"

#include <type_traits>

namespace ptx {
namespace {
template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> struct Twice;
template <> struct Twice<uint16_t> { typedef uint32_t type; };
template <> struct Twice<int16_t> { typedef int32_t type; };
template <> struct Twice<uint32_t> { typedef uint64_t type; };
template <> struct Twice<int32_t> { typedef int64_t type; };
template <> struct Twice<uint64_t> { typedef unsigned __int128 type; };
template <> struct Twice<int64_t> { typedef __int128 type; };
template <class T> using Wide = typename Twice<T>::type;

// Arithmetic wraps, so it is done on unsigned values of at least 32 bits.
#define OP2(Name, expression)                                                                                          \
    template <class T> struct Name {                                                                                   \
        static T f(T a, T b) { return (T)(expression); }                                                               \
    };
OP2(Add, (uint64_t)a + (uint64_t)b)
OP2(Sub, (uint64_t)a - (uint64_t)b)
OP2(MulLo, (uint64_t)a *(uint64_t)b)
OP2(MulHi, (Wide<T>)a *(Wide<T>)b >> 8 * sizeof(T))
OP2(And, a &b)
OP2(Or, a | b)
OP2(Xor, a ^ b)
OP2(Min, a < b ? a : b)
OP2(Max, a > b ? a : b)
// Division by zero gives ones here; the ISA leaves it open. -2^31 / -1 wraps.
OP2(Div, b == 0 ? (T)-1 : std::is_signed<T>::value && b == (T)-1 ? (T)(0 - (uint64_t)a) : (T)(a / b))
OP2(Rem, b == 0 ? a : std::is_signed<T>::value && b == (T)-1 ? (T)0 : (T)(a % b))
#define OP1(Name, expression)                                                                                          \
    template <class T> struct Name {                                                                                   \
        static T f(T a) { return (T)(expression); }                                                                    \
    };
OP1(Neg, 0 - (uint64_t)a)
OP1(Not, ~a)
OP1(Cnot, a == 0)
OP1(Abs, a < 0 ? (T)(0 - (uint64_t)a) : a)

template <class T, template <class> class O> void run2(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l], b[l]); });
}
template <class T, template <class> class O> void run2_active(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    active_lanes(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l], b[l]); });
}
template <class T, template <class> class O> void run1(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l]); });
}
template <class T> void mul_wide(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    each_lane(w.reg<Wide<T>>(i.d[0]), lanes, [=](int l) { return (Wide<T>)((Wide<T>)a[l] * (Wide<T>)b[l]); });
}
template <class T, template <class> class O> void mad(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]), *c = w.at<T>(i.s[2]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return Add<T>::f(O<T>::f(a[l], b[l]), c[l]); });
}
template <class T> void mad_wide(Warp &w, const Inst &i, uint32_t lanes) {
    const T       *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    const Wide<T> *c = w.at<Wide<T>>(i.s[2]);
    each_lane(w.reg<Wide<T>>(i.d[0]), lanes,
              [=](int l) { return (Wide<T>)((uint64_t)((Wide<T>)a[l] * (Wide<T>)b[l]) + (uint64_t)c[l]); });
}
// Shift amounts over the width are clamped (9.7.8.8): the result is 0, or the sign for shr.s.
template <class T, bool LEFT> void shift(Warp &w, const Inst &i, uint32_t lanes) {
    const T        *a    = w.at<T>(i.s[0]);
    const uint32_t *n    = w.at<uint32_t>(i.s[1]);
    const uint32_t  bits = 8 * sizeof(T);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) {
        if (LEFT) return n[l] >= bits ? (T)0 : (T)((Unsigned<T>)a[l] << (n[l] & (bits - 1)));
        if (n[l] >= bits) return std::is_signed<T>::value && a[l] < 0 ? (T)-1 : (T)0;
        return (T)(a[l] >> (n[l] & (bits - 1)));
    });
}
// shf.l: the upper word of b:a << n; shf.r: the lower word of b:a >> n; n & 31 or min(n, 32) (9.7.8.7).
template <bool LEFT, bool WRAP> void funnel(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        const uint32_t n = WRAP ? c[l] & 31 : c[l] > 32 ? 32 : c[l];
        const uint64_t v = (uint64_t)b[l] << 32 | a[l];
        return (uint32_t)(LEFT ? v >> (32 - n) : v >> n);
    });
}
template <class T> int leading_zeros(T v) {
    return v == 0 ? 8 * (int)sizeof(T) : __builtin_clzll((uint64_t)v) - 64 + 8 * (int)sizeof(T);
}
template <class T> struct Popc {
    static uint32_t f(T a) { return (uint32_t)__builtin_popcountll(a); }
};
template <class T> struct Clz {
    static uint32_t f(T a) { return (uint32_t)leading_zeros(a); }
};
// bfind: the highest bit that is not the sign; ones if there is none (9.7.1.15).
template <class T> struct Bfind {
    static uint32_t f(T a) {
        const auto v = (Unsigned<T>)(std::is_signed<T>::value && a < 0 ? ~a : a);
        return v == 0 ? ~0u : (uint32_t)(8 * (int)sizeof(T) - 1 - leading_zeros(v));
    }
};
template <class T, template <class> class O> void count(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    active_lanes(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l]); });
}
template <class T> void brev(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    active_lanes(w.reg<T>(i.d[0]), lanes, [=](int l) {
        T r = 0;
        for (unsigned k = 0; k < 8 * sizeof(T); k++) r = (T)(r | (a[l] >> k & 1) << (8 * sizeof(T) - 1 - k));
        return r;
    });
}
// bfe: len bits of a from bit pos, extended by the sign: the last bit taken, at most the top bit (9.7.1.19).
template <class T> void bfe(Warp &w, const Inst &i, uint32_t lanes) {
    const T        *a = w.at<T>(i.s[0]);
    const uint32_t *p = w.at<uint32_t>(i.s[1]), *n = w.at<uint32_t>(i.s[2]);
    active_lanes(w.reg<T>(i.d[0]), lanes, [=](int l) {
        const int         bits = 8 * sizeof(T), pos = p[l] & 0xff, len = n[l] & 0xff;
        const int         top  = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
        const Unsigned<T> v    = (Unsigned<T>)a[l];
        const bool        sign = std::is_signed<T>::value && len > 0 && (v >> top & 1);
        Unsigned<T>       r    = 0;
        for (int k = 0; k < bits; k++) {
            const bool bit = k < len && pos + k < bits ? (v >> (pos + k) & 1) != 0 : sign;
            r |= (Unsigned<T>)bit << k;
        }
        return (T)r;
    });
}
// bfi: the low len bits of a replace those of b from bit pos (9.7.1.20).
template <class T> void bfi(Warp &w, const Inst &i, uint32_t lanes) {
    const T        *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    const uint32_t *p = w.at<uint32_t>(i.s[2]), *n = w.at<uint32_t>(i.s[3]);
    active_lanes(w.reg<T>(i.d[0]), lanes, [=](int l) {
        const unsigned bits = 8 * sizeof(T), pos = p[l] & 0xff, len = n[l] & 0xff;
        if (pos >= bits || len == 0) return b[l];
        const T mask = (T)((len >= bits ? (T) ~(T)0 : (T)(((T)1 << len) - 1)) << pos);
        return (T)((b[l] & ~mask) | ((T)(a[l] << pos) & mask));
    });
}
// prmt: byte k of the result is byte (c >> 4k & 7) of b:a, or its sign in all bits if c >> 4k & 8 (9.7.8.6).
void prmt(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        const uint64_t v = (uint64_t)b[l] << 32 | a[l];
        uint32_t       r = 0;
        for (int k = 0; k < 4; k++) {
            const uint32_t n = c[l] >> 4 * k, x = (uint32_t)(v >> 8 * (n & 7)) & 0xff;
            r |= (n & 8 ? (x & 0x80 ? 0xffu : 0u) : x) << 8 * k;
        }
        return r;
    });
}
// prmt with a mode: the bytes of b:a that a result byte k is, as the selector of the plain form. c: its two low bits.
//     f4e c+k    b4e c-k, both modulo 8    rc8 c    ecl max(c, k)    ecr min(c, k)    rc16 2*(c%2) + k%2
template <int MODE> void prmt_mode(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        const uint64_t v = (uint64_t)b[l] << 32 | a[l];
        const int      n = (int)(c[l] & 3);
        uint32_t       r = 0;
        for (int k = 0; k < 4; k++) {
            const int from = MODE == 0   ? n + k
                             : MODE == 1 ? (n - k) & 7
                             : MODE == 2 ? n
                             : MODE == 3 ? (n > k ? n : k)
                             : MODE == 4 ? (n < k ? n : k)
                                         : 2 * (n & 1) + (k & 1);
            r |= (uint32_t)(v >> 8 * from & 0xff) << 8 * k;
        }
        return r;
    });
}
Exec *decode_prmt(const Decoder &d) {
    if (d.parts.size() == 2) return prmt;
    const string_view mode = d.parts[2];
    return mode == "f4e"    ? prmt_mode<0>
           : mode == "b4e"  ? prmt_mode<1>
           : mode == "rc8"  ? prmt_mode<2>
           : mode == "ecl"  ? prmt_mode<3>
           : mode == "ecr"  ? prmt_mode<4>
           : mode == "rc16" ? prmt_mode<5>
                            : nullptr;
}
// lop3: bit = table at (a b c) as a number (9.7.8.5).
void lop3(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    const uint32_t  t = i.sub;
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        uint32_t r = 0;
        for (int k = 0; k < 8; k++)
            if (t >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
        return r;
    });
}
// dp4a: c + the sum of four products of bytes (9.7.1.23); A and B: int8_t or uint8_t.
template <class A, class B> void dp4a(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        uint32_t r = c[l];
        for (int k = 0; k < 4; k++) r += (uint32_t)((int32_t)(A)(a[l] >> 8 * k) * (int32_t)(B)(b[l] >> 8 * k));
        return r;
    });
}
// dp2a: c + the sum of two products of 16 bits and a byte, bytes 0 and 1 of b or with HI 2 and 3 (9.7.1.24).
template <class A, class B, bool HI> void dp2a(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int l) {
        uint32_t r = c[l];
        for (int k = 0; k < 2; k++)
            r += (uint32_t)((int32_t)(A)(a[l] >> 16 * k) * (int32_t)(B)(b[l] >> 8 * (HI ? k + 2 : k)));
        return r;
    });
}
template <bool HI> Exec *pick_dp2a(bool a, bool b) {
    if (a) return b ? dp2a<int16_t, int8_t, HI> : dp2a<int16_t, uint8_t, HI>;
    return b ? dp2a<uint16_t, int8_t, HI> : dp2a<uint16_t, uint8_t, HI>;
}

// Chains of additions, one bit of carry per lane: CC.CF. SUB: a - b - (borrow), where CF is the borrow (9.7.2).
enum Carry : uint8_t { CARRY_IN = 1, CARRY_OUT = 2, CARRY_SUB = 4, CARRY_HI = 8 };
template <class T> void carry(Warp &w, const Inst &i, uint32_t lanes) {
    typedef unsigned __int128 Big;
    const bool                product = i.count == 3;
    const T                  *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]), *c = product ? w.at<T>(i.s[2]) : nullptr;
    T                        *d = w.reg<T>(i.d[0]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l  = __builtin_ctz(m);
        const Big in = i.sub & CARRY_IN ? w.carry >> l & 1 : 0;
        Big       x = a[l], y = b[l];
        if (product) {
            const Big p = (Big)a[l] * b[l];
            x           = (T)(i.sub & CARRY_HI ? p >> 8 * sizeof(T) : p);
            y           = c[l];
        }
        const Big r = i.sub & CARRY_SUB ? x - y - in : x + y + in;
        d[l]        = (T)r;
        if (i.sub & CARRY_OUT) w.carry = (w.carry & ~(1u << l)) | (uint32_t)(r >> 8 * sizeof(T) & 1) << l;
    }
}
Exec *decode_carry(Decoder &d) {
    const string_view op = d.parts[0];
    const Type        t  = d.type();
    d.i.count            = op == "mad" || op == "madc" ? 3 : 2;
    d.i.sub              = (uint8_t)((op.back() == 'c' && op != "cc" ? CARRY_IN : 0) | (d.has("cc") ? CARRY_OUT : 0) |
                        (op.substr(0, 3) == "sub" ? CARRY_SUB : 0) | (d.has("hi") ? CARRY_HI : 0));
    d.i.d[0]             = d.dst(0, bytes_of(t));
    for (size_t k = 0; k < d.i.count; k++) d.i.s[k] = d.src(k + 1, t);
    return bytes_of(t) == 8 ? carry<uint64_t> : carry<uint32_t>;
}

template <template <class> class O> Exec *pick2(Type t) {
    switch (t) {
    case Type::u16:
    case Type::b16:
        return run2<uint16_t, O>;
    case Type::s16:
        return run2<int16_t, O>;
    case Type::u32:
    case Type::b32:
        return run2<uint32_t, O>;
    case Type::s32:
        return run2<int32_t, O>;
    case Type::u64:
    case Type::b64:
        return run2<uint64_t, O>;
    case Type::s64:
        return run2<int64_t, O>;
    default:
        return nullptr;
    }
}
template <template <class> class O> Exec *pick_division(Type t) {
    switch (t) {
    case Type::u16:
        return run2_active<uint16_t, O>;
    case Type::s16:
        return run2_active<int16_t, O>;
    case Type::u32:
        return run2_active<uint32_t, O>;
    case Type::s32:
        return run2_active<int32_t, O>;
    case Type::u64:
        return run2_active<uint64_t, O>;
    case Type::s64:
        return run2_active<int64_t, O>;
    default:
        return nullptr;
    }
}
template <template <class> class O> Exec *pick1(Type t) {
    switch (bytes_of(t)) {
    case 2:
        return run1<int16_t, O>;
    case 4:
        return run1<int32_t, O>;
    case 8:
        return run1<int64_t, O>;
    default:
        return nullptr;
    }
}
template <template <class> class O> Exec *pick_mad(Type t) {
    switch (t) {
    case Type::u16:
        return mad<uint16_t, O>;
    case Type::s16:
        return mad<int16_t, O>;
    case Type::u32:
        return mad<uint32_t, O>;
    case Type::s32:
        return mad<int32_t, O>;
    case Type::u64:
        return mad<uint64_t, O>;
    case Type::s64:
        return mad<int64_t, O>;
    default:
        return nullptr;
    }
}
#define PICK_WIDE(f)                                                                                                   \
    (t == Type::u16   ? f<uint16_t>                                                                                    \
     : t == Type::s16 ? f<int16_t>                                                                                     \
     : t == Type::u32 ? f<uint32_t>                                                                                    \
     : t == Type::s32 ? f<int32_t>                                                                                     \
                      : nullptr)
#define PICK_32_64(f) (bytes_of(t) == 8 ? f<uint64_t> : f<uint32_t>)
#define PICK_COUNT(O) (bytes_of(t) == 8 ? count<uint64_t, O> : count<uint32_t, O>)

Exec *decode_mul(Decoder &d, Type t) {
    const bool is_mad = d.parts[0] == "mad", wide = d.has("wide");
    const int  n   = bytes_of(t) * (wide ? 2 : 1);
    const Type sum = n == 8 ? Type::u64 : n == 4 ? Type::u32 : Type::u16;
    d.i.d[0]       = d.dst(0, n);
    d.i.s[0]       = d.src(1, t);
    d.i.s[1]       = d.src(2, t);
    if (is_mad) d.i.s[2] = d.src(3, sum);
    if (d.has("sat")) return nullptr;
    if (wide) return is_mad ? PICK_WIDE(mad_wide) : PICK_WIDE(mul_wide);
    if (d.has("hi")) return is_mad ? pick_mad<MulHi>(t) : pick2<MulHi>(t);
    return is_mad ? pick_mad<MulLo>(t) : pick2<MulLo>(t);
}
Exec *decode_shift(Decoder &d, Type t) {
    const bool left = d.parts[0] == "shl";
    d.i.d[0]        = d.dst(0, bytes_of(t));
    d.i.s[0]        = d.src(1, t);
    d.i.s[1]        = d.src(2, Type::u32);
    switch (t) {
    case Type::b16:
    case Type::u16:
        return left ? shift<uint16_t, true> : shift<uint16_t, false>;
    case Type::s16:
        return left ? nullptr : shift<int16_t, false>;
    case Type::b32:
    case Type::u32:
        return left ? shift<uint32_t, true> : shift<uint32_t, false>;
    case Type::s32:
        return left ? nullptr : shift<int32_t, false>;
    case Type::b64:
    case Type::u64:
        return left ? shift<uint64_t, true> : shift<uint64_t, false>;
    case Type::s64:
        return left ? nullptr : shift<int64_t, false>;
    default:
        return nullptr;
    }
}
Exec *decode_bits(Decoder &d, Type t) {
    const string_view op = d.parts[0];
    const int         n  = bytes_of(t);
    if (op == "popc" || op == "clz" || op == "bfind") {
        d.i.d[0] = d.dst(0, 4);
        d.i.s[0] = d.src(1, t);
        if (op == "popc") return PICK_COUNT(Popc);
        if (op == "clz") return PICK_COUNT(Clz);
        if (d.has("shiftamt")) return nullptr;
        if (!is_signed(t)) return PICK_COUNT(Bfind);
        return n == 8 ? count<int64_t, Bfind> : count<int32_t, Bfind>;
    }
    if (op == "brev") {
        d.i.d[0] = d.dst(0, n);
        d.i.s[0] = d.src(1, t);
        return PICK_32_64(brev);
    }
    if (op == "bfe") {
        d.i.d[0] = d.dst(0, n);
        d.i.s[0] = d.src(1, t);
        for (size_t k = 1; k < 3; k++) d.i.s[k] = d.src(k + 1, Type::u32);
        if (is_signed(t)) return n == 8 ? bfe<int64_t> : bfe<int32_t>;
        return PICK_32_64(bfe);
    }
    if (op == "bfi") {
        d.i.d[0] = d.dst(0, n);
        for (size_t k = 0; k < 4; k++) d.i.s[k] = d.src(k + 1, k < 2 ? t : Type::u32);
        return PICK_32_64(bfi);
    }
    return nullptr;
}
Exec *decode_words(Decoder &d) { // three operands of 32 bits
    const string_view op = d.parts[0];
    d.i.d[0]             = d.dst(0, 4);
    for (size_t k = 0; k < 3; k++) d.i.s[k] = d.src(k + 1, Type::u32);
    if (op == "prmt") return decode_prmt(d);
    if (op == "lop3") {
        d.i.sub = (uint8_t)d.s.args[4].number;
        return lop3;
    }
    if (op == "shf") {
        const bool wrap = d.has("wrap");
        if (d.has("l")) return wrap ? funnel<true, true> : funnel<true, false>;
        return wrap ? funnel<false, true> : funnel<false, false>;
    }
    const bool a = is_signed(d.type(1)), b = is_signed(d.type(0));
    if (op == "dp2a") return d.has("hi") ? pick_dp2a<true>(a, b) : pick_dp2a<false>(a, b);
    if (a) return b ? dp4a<int8_t, int8_t> : dp4a<int8_t, uint8_t>;
    return b ? dp4a<uint8_t, int8_t> : dp4a<uint8_t, uint8_t>;
}
Exec *decode_simple(Decoder &d, Type t, int sources, Exec *run) {
    if (d.has("sat")) return nullptr;
    d.i.d[0] = d.dst(0, bytes_of(t));
    for (int k = 0; k < sources; k++) d.i.s[k] = d.src((size_t)k + 1, t);
    return run;
}
} // namespace

Exec *decode_int(Decoder &d) {
    const string_view op = d.parts[0];
    const Type        t  = d.type();
    if (is_float(t) || t == Type::pred || t == Type::none) return nullptr;
    if (d.has("cc") || op == "addc" || op == "subc" || op == "madc") return decode_carry(d);
    if (op == "mul" || op == "mad") return decode_mul(d, t);
    if (op == "shl" || op == "shr") return decode_shift(d, t);
    if (op == "prmt" || op == "lop3" || op == "shf" || op == "dp4a" || op == "dp2a") return decode_words(d);
    if (op == "add") return decode_simple(d, t, 2, pick2<Add>(t));
    if (op == "sub") return decode_simple(d, t, 2, pick2<Sub>(t));
    if (op == "div") return decode_simple(d, t, 2, pick_division<Div>(t));
    if (op == "rem") return decode_simple(d, t, 2, pick_division<Rem>(t));
    if (op == "min") return decode_simple(d, t, 2, pick2<Min>(t));
    if (op == "max") return decode_simple(d, t, 2, pick2<Max>(t));
    if (op == "and") return decode_simple(d, t, 2, pick2<And>(t));
    if (op == "or") return decode_simple(d, t, 2, pick2<Or>(t));
    if (op == "xor") return decode_simple(d, t, 2, pick2<Xor>(t));
    if (op == "neg") return decode_simple(d, t, 1, pick1<Neg>(t));
    if (op == "not") return decode_simple(d, t, 1, pick1<Not>(t));
    if (op == "cnot") return decode_simple(d, t, 1, pick1<Cnot>(t));
    if (op == "abs") return decode_simple(d, t, 1, pick1<Abs>(t));
    return decode_bits(d, t);
}
} // namespace ptx
