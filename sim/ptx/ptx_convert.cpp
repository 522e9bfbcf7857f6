// ptx_convert.cpp - cvt (section 9.7.9.21). A source register may be wider than the source type, whose bits
// are then the low ones; a result register may be wider than the type, which is extended by its sign.
#include "sim/ptx/ptx_half.h"
#include "sim/ptx/ptx_lanes.h"

#include <limits>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace ptx {
namespace {
enum Sub : uint8_t {
    TO_NEAREST = 0,
    TO_ZERO    = 1,
    DOWN       = 2,
    UP         = 3,
    ROUNDING   = 3,
    SATURATE   = 4,
    INTEGRAL   = 8,
    FLUSH      = 16
};

// R: the source register, T: the source type, D: the result register.
template <class R, class T, class D> void int_to_int(Warp &w, const Inst &i, uint32_t lanes) {
    const R *a = w.at<R>(i.s[0]);
    each_lane(w.reg<D>(i.d[0]), lanes, [=](int l) { return (D)(T)a[l]; });
}
template <class R, class D> Exec *pick_type(Type t) {
    switch (t) {
    case Type::u8:
    case Type::b8:
        return int_to_int<R, uint8_t, D>;
    case Type::s8:
        return int_to_int<R, int8_t, D>;
    case Type::u16:
    case Type::b16:
        return int_to_int<R, uint16_t, D>;
    case Type::s16:
        return int_to_int<R, int16_t, D>;
    case Type::u32:
    case Type::b32:
        return int_to_int<R, uint32_t, D>;
    case Type::s32:
        return int_to_int<R, int32_t, D>;
    case Type::u64:
    case Type::b64:
        return int_to_int<R, uint64_t, D>;
    case Type::s64:
        return int_to_int<R, int64_t, D>;
    default:
        return nullptr;
    }
}
template <class D> Exec *pick_source(Type t, int bytes) {
    return bytes == 2 ? pick_type<uint16_t, D>(t) : bytes == 4 ? pick_type<uint32_t, D>(t) : pick_type<uint64_t, D>(t);
}

double round_to_integer(double v, int mode) {
    switch (mode) {
    case TO_ZERO:
        return std::trunc(v);
    case DOWN:
        return std::floor(v);
    case UP:
        return std::ceil(v);
    default:
        return std::nearbyint(v);
    }
}
// Out of range clamps. NaN is 0 from f32 to at most 32 bits, else only the top bit is set.
template <class T> T clamped(double v, bool wide) {
    if (v != v) return wide ? (T)((uint64_t)1 << (8 * sizeof(T) - 1)) : (T)0;
    const double lo = (double)std::numeric_limits<T>::min(), hi = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (v < lo) return std::numeric_limits<T>::min();
    return v >= hi ? std::numeric_limits<T>::max() : (T)v;
}
template <class F, class T, class D> void float_to_int(Warp &w, const Inst &i, uint32_t lanes) {
    const F *a = w.at<F>(i.s[0]);
    active_lanes(w.reg<D>(i.d[0]), lanes, [=](int l) {
        return (D)clamped<T>(round_to_integer((double)a[l], i.sub & ROUNDING), sizeof(F) == 8 || sizeof(T) == 8);
    });
}
template <class F> Exec *pick_to_int(Type t, int bytes) {
    switch (t) {
    case Type::u8:
        return bytes == 2 ? float_to_int<F, uint8_t, uint16_t> : float_to_int<F, uint8_t, uint32_t>;
    case Type::s8:
        return bytes == 2 ? float_to_int<F, int8_t, int16_t> : float_to_int<F, int8_t, int32_t>;
    case Type::u16:
        return bytes == 2 ? float_to_int<F, uint16_t, uint16_t> : float_to_int<F, uint16_t, uint32_t>;
    case Type::s16:
        return bytes == 2 ? float_to_int<F, int16_t, int16_t> : float_to_int<F, int16_t, int32_t>;
    case Type::u32:
        return float_to_int<F, uint32_t, uint32_t>;
    case Type::s32:
        return float_to_int<F, int32_t, int32_t>;
    case Type::u64:
        return float_to_int<F, uint64_t, uint64_t>;
    case Type::s64:
        return float_to_int<F, int64_t, int64_t>;
    default:
        return nullptr;
    }
}

// Floats: F1 to F2, in double between, with rounding to an integer or to [0, 1] on the way.
struct F32 {
    typedef float type;
    static double to(float v) { return (double)v; }
    static float  of(double v) { return (float)v; }
};
struct F64 {
    typedef double type;
    static double  to(double v) { return v; }
    static double  of(double v) { return v; }
};
struct F16 {
    typedef uint16_t type;
    static double    to(uint16_t v) { return (double)half_to(v); }
    static uint16_t  of(double v) { return half_of(v); }
};
struct BF16 {
    typedef uint16_t type;
    static double    to(uint16_t v) { return (double)bfloat_to(v); }
    static uint16_t  of(double v) { return bfloat_of(v); }
};
template <class A, class B> void float_to_float(Warp &w, const Inst &i, uint32_t lanes) {
    const auto *a = w.at<typename A::type>(i.s[0]);
    active_lanes(w.reg<typename B::type>(i.d[0]), lanes, [=](int l) {
        double v = A::to(a[l]);
        if (i.sub & INTEGRAL) v = round_to_integer(v, i.sub & ROUNDING);
        if (i.sub & SATURATE) v = v > 0 ? (v < 1 ? v : 1) : 0;
        return B::of(v);
    });
}
template <class A> Exec *pick_float(Type to) {
    switch (to) {
    case Type::f32:
        return float_to_float<A, F32>;
    case Type::f64:
        return float_to_float<A, F64>;
    case Type::f16:
        return float_to_float<A, F16>;
    case Type::bf16:
        return float_to_float<A, BF16>;
    default:
        return nullptr;
    }
}
template <class B>
void small_from_int(Warp &w, const Inst &i,
                    uint32_t lanes) { // count: bytes of the register, bytes: of the type
    active_lanes(w.reg<uint16_t>(i.d[0]), lanes, [&](int l) {
        uint64_t u = 0;
        memcpy(&u, w.at<char>(i.s[0]) + l * i.count, i.bytes);
        const int up = 64 - 8 * i.bytes;
        return B::of(i.wide ? (double)((int64_t)(u << up) >> up) : (double)u);
    });
}
#ifdef __F16C__
void f16_to_f32(Warp &w, const Inst &i, uint32_t lanes) {
    const uint16_t   *a = w.at<uint16_t>(i.s[0]);
    alignas(32) float t[32];
    for (int k = 0; k < 4; k++)
        _mm256_store_ps(t + 8 * k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(a + 8 * k))));
    each_lane(w.reg<float>(i.d[0]), lanes, [&](int l) { return t[l]; });
}
#endif
void sat_f32(Warp &w, const Inst &i, uint32_t lanes) {
    const float *a = w.at<float>(i.s[0]);
    each_lane(w.reg<float>(i.d[0]), lanes, [=](int l) { return a[l] > 0 ? (a[l] < 1 ? a[l] : 1.0f) : 0.0f; });
}
// Two f32 in one register: the first operand is the upper half (cvt.rn.f16x2.f32 d, a, b).
template <class B> void pack_two(Warp &w, const Inst &i, uint32_t lanes) {
    const float *a = w.at<float>(i.s[0]), *b = w.at<float>(i.s[1]);
    active_lanes(w.reg<uint32_t>(i.d[0]), lanes,
                 [=](int l) { return (uint32_t)B::of((double)a[l]) << 16 | B::of((double)b[l]); });
}
template <class D> void int_to_narrow(Warp &w, const Inst &i, uint32_t lanes) {
    const int bytes = i.count;
    active_lanes(w.reg<D>(i.d[0]), lanes, [&](int l) {
        uint64_t u = 0;
        memcpy(&u, w.at<char>(i.s[0]) + l * bytes, i.bytes); // the narrower of both types
        const int up = 64 - 8 * i.bytes;
        return (D)(i.wide ? (uint64_t)((int64_t)(u << up) >> up) : u);
    });
}

Exec *from_int(Decoder &d, Type to, Type from, int to_bytes, int from_bytes) {
    if (to == Type::f16 || to == Type::bf16) {
        d.i.bytes = (uint8_t)bytes_of(from), d.i.count = (uint8_t)from_bytes, d.i.wide = is_signed(from);
        return to == Type::f16 ? small_from_int<F16> : small_from_int<BF16>;
    }
    if (to == Type::f32) return d.i.sub & ROUNDING ? nullptr : pick_source<float>(from, from_bytes);
    if (to == Type::f64) return d.i.sub & ROUNDING ? nullptr : pick_source<double>(from, from_bytes);
    if (d.i.sub & SATURATE) return nullptr;
    if (bytes_of(to) < to_bytes) { // the low bytes of the narrower type, extended as that type
        const Type t = bytes_of(from) < bytes_of(to) ? from : to;
        d.i.bytes = (uint8_t)bytes_of(t), d.i.count = (uint8_t)from_bytes, d.i.wide = is_signed(t);
        return to_bytes == 2   ? int_to_narrow<uint16_t>
               : to_bytes == 4 ? int_to_narrow<uint32_t>
                               : int_to_narrow<uint64_t>;
    }
    return to_bytes == 2   ? pick_source<uint16_t>(from, from_bytes)
           : to_bytes == 4 ? pick_source<uint32_t>(from, from_bytes)
                           : pick_source<uint64_t>(from, from_bytes);
}
Exec *from_float(Decoder &d, Type to, Type from, int to_bytes) {
    if (!is_float(to)) {
        if (from == Type::f64) return pick_to_int<double>(to, to_bytes);
        return from == Type::f32 ? pick_to_int<float>(to, to_bytes) : nullptr;
    }
    if (!(d.i.sub & INTEGRAL) && (d.i.sub & ROUNDING)) return nullptr; // directed rounding between floats
#ifdef __F16C__
    if (to == Type::f32 && from == Type::f16 && d.i.sub == 0) return f16_to_f32;
#endif
    if (to == Type::f32 && from == Type::f32 && d.i.sub == SATURATE) return sat_f32;
    switch (from) {
    case Type::f32:
        return pick_float<F32>(to);
    case Type::f64:
        return pick_float<F64>(to);
    case Type::f16:
        return pick_float<F16>(to);
    case Type::bf16:
        return pick_float<BF16>(to);
    default:
        return nullptr;
    }
}
} // namespace

Exec *decode_convert(Decoder &d) {
    if (d.parts[0] != "cvt") return nullptr;
    const Type to = d.type(1), from = d.type(0);
    if (to == Type::none || d.s.args.size() < 2) return nullptr;
    if (d.has("relu") || d.has("satfinite")) return nullptr;
    if (d.has("ftz")) {
        d.around.source = d.around.result = Type::f32;
        d.around.flush                    = from == Type::f32 ? d.s.args.size() > 2 ? 3 : 1 : 0;
        d.around.flush_result             = to == Type::f32;
    }
    if (d.has("rzi") || d.has("rz")) d.i.sub |= TO_ZERO;
    if (d.has("rmi") || d.has("rm")) d.i.sub |= DOWN;
    if (d.has("rpi") || d.has("rp")) d.i.sub |= UP;
    if (d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi")) d.i.sub |= INTEGRAL;
    if (d.has("sat")) d.i.sub |= SATURATE;
    d.i.d[0] = d.dst(0, 0);
    if ((to == Type::f16x2 || to == Type::bf16x2) && from == Type::f32 && d.i.sub == 0) {
        for (size_t k = 0; k < 2; k++) d.i.s[k] = d.src(k + 1, Type::f32);
        return to == Type::f16x2 ? pack_two<F16> : pack_two<BF16>;
    }
    const Operand &source   = d.s.args[1];
    const int      to_bytes = bytes_of(d.k.body.regs[(size_t)d.s.args[0].reg]);
    const int from_bytes = source.kind == Operand::REG ? bytes_of(d.k.body.regs[(size_t)source.reg]) : bytes_of(from);
    if (from_bytes < bytes_of(from) || to_bytes < bytes_of(to)) d.bad("a register narrower than the type");
    d.i.s[0] = d.src_of(source, from_bytes);
    return is_float(from) ? from_float(d, to, from, to_bytes) : from_int(d, to, from, to_bytes, from_bytes);
}
} // namespace ptx
