// ptx_float.cpp - floating-point arithmetic (section 9.7.3 to 9.7.5).
//
// add, sub, mul, fma, div, rcp and sqrt are IEEE operations of the host in the rounding mode of the
// instruction. The approximate functions are computed in double and rounded once, which is inside the error
// that the ISA states:
//
//     ex2 2^-22 relative    lg2 2^-22 absolute    rcp 1 ulp    rsqrt 2^-22.9    sqrt 1 ulp    sin, cos 2^-20.9 absolute
//     tanh 2^-11 relative   rcp.approx.ftz.f64: the upper word of the quotient, the lower is 0
//
// .ftz: subnormal operands and results become zeros of the same sign. Results that are NaN are 0x7fffffff
// (f32) in the ISA; here they are the host's NaN, which no kernel may look into.
#include "sim/ptx/ptx_half.h"
#include "sim/ptx/ptx_lanes.h"

#include <cfenv>

namespace ptx {
namespace {
template <class T> T flush(T v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign((T)0, v) : v; }

#define OP(Name, args, expression)                                                                                     \
    template <class T> struct Name {                                                                                   \
        static T f args { return (T)(expression); }                                                                    \
    };
OP(Add, (T a, T b), a + b)
OP(Sub, (T a, T b), a - b)
OP(Mul, (T a, T b), a *b)
OP(Div, (T a, T b), a / b)
OP(Neg, (T a), -a)
OP(Abs, (T a), std::fabs(a))
OP(Rcp, (T a), (T)1 / a)
OP(Sqrt, (T a), std::sqrt(a))
OP(Fma, (T a, T b, T c), std::fma(a, b, c))
// One NaN operand is ignored, and -0 < +0 (9.7.3.11).
OP(Min, (T a, T b), a < b || b != b || (a == b && std::signbit(a)) ? a : b)
OP(Max, (T a, T b), a > b || b != b || (a == b && !std::signbit(a)) ? a : b)
OP(MinNan, (T a, T b), a != a || b != b ? (T)NAN : Min<T>::f(a, b))
OP(MaxNan, (T a, T b), a != a || b != b ? (T)NAN : Max<T>::f(a, b))
OP(CopySign, (T a, T b), std::copysign(b, a)) // the sign of a, the value of b

template <class T, template <class> class O> void run1(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l]); });
}
template <class T, template <class> class O> void run2(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l], b[l]); });
}
template <class T, template <class> class O> void run3(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]), *c = w.at<T>(i.s[2]);
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int l) { return O<T>::f(a[l], b[l], c[l]); });
}
// The same in another rounding mode, and with .ftz or .sat: Inst.sub holds the mode and these flags.
enum Variant : uint8_t { MODE = 3, FTZ = 4, SAT = 8 };
const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <class T> T finish(T v, uint8_t sub) {
    if (sub & FTZ) v = flush(v);
    if (sub & SAT) v = v > 0 ? (v < 1 ? v : (T)1) : (T)0; // NaN becomes 0
    return v;
}
template <class T> T operand(const T *p, int l, uint8_t sub) { return sub & FTZ ? flush(p[l]) : p[l]; }

template <class T, template <class> class O, int N>
__attribute__((noinline)) void run_variant(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]), *b = w.at<T>(i.s[1]), *c = w.at<T>(i.s[2]);
    std::fesetround(modes[i.sub & MODE]);
    active_lanes(w.reg<T>(i.d[0]), lanes, [=](int l) {
        volatile T x = operand(a, l, i.sub), y = N > 1 ? operand(b, l, i.sub) : (T)0,
                   r; // not moved over fesetround
        if constexpr (N == 1)
            r = O<T>::f(x);
        else if constexpr (N == 2)
            r = O<T>::f(x, y);
        else
            r = O<T>::f(x, y, operand(c, l, i.sub));
        return finish((T)r, i.sub);
    });
    std::fesetround(FE_TONEAREST);
}

// Approximate functions of one f32, from their double version.
struct Ex2 {
    static double f(double x) { return std::exp2(x); }
};
struct Lg2 {
    static double f(double x) { return std::log2(x); }
};
struct Sin {
    static double f(double x) { return std::sin(x); }
};
struct Cos {
    static double f(double x) { return std::cos(x); }
};
struct Tanh {
    static double f(double x) { return std::tanh(x); }
};
struct Rsqrt {
    static double f(double x) { return 1.0 / std::sqrt(x); }
};
template <class F> void approx(Warp &w, const Inst &i, uint32_t lanes) {
    const float *a = w.at<float>(i.s[0]);
    active_lanes(w.reg<float>(i.d[0]), lanes,
                 [=](int l) { return finish((float)F::f((double)operand(a, l, i.sub)), i.sub); });
}
template <class F> void approx64(Warp &w, const Inst &i, uint32_t lanes) {
    const double *a = w.at<double>(i.s[0]);
    active_lanes(w.reg<double>(i.d[0]), lanes, [=](int l) { return F::f(a[l]); });
}
struct Rcp64 {
    static double f(double x) {
        const double r = flush(1.0 / flush(x));
        uint64_t     u;
        memcpy(&u, &r, 8);
        u &= ~0xffffffffull;
        double d;
        memcpy(&d, &u, 8);
        return d;
    }
};
struct Rsqrt64 {
    static double f(double x) { return 1.0 / std::sqrt(flush(x)); }
};

// f16, bf16 and pairs of them, computed in double and rounded once.
template <bool BF, int PAIR, class F> void small(Warp &w, const Inst &i, uint32_t lanes) {
    const uint16_t *a = w.at<uint16_t>(i.s[0]), *b = w.at<uint16_t>(i.s[1]), *c = w.at<uint16_t>(i.s[2]);
    uint16_t       *d  = w.reg<uint16_t>(i.d[0]);
    const auto      to = [](uint16_t h) { return (double)(BF ? bfloat_to(h) : half_to(h)); };
    for (uint32_t m = lanes; m; m &= m - 1)
        for (int l = __builtin_ctz(m) * PAIR, k = 0; k < PAIR; k++) {
            const double r = F::f(to(a[l + k]), to(b[l + k]), to(c[l + k]));
            d[l + k]       = BF ? bfloat_of(r) : half_of(r);
        }
}
struct SAdd {
    static double f(double a, double b, double) { return a + b; }
};
struct SSub {
    static double f(double a, double b, double) { return a - b; }
};
struct SMul {
    static double f(double a, double b, double) { return a * b; }
};
struct SFma {
    static double f(double a, double b, double c) { return std::fma(a, b, c); }
};
struct SNeg {
    static double f(double a, double, double) { return -a; }
};
struct SAbs {
    static double f(double a, double, double) { return std::fabs(a); }
};
struct SMin {
    static double f(double a, double b, double) { return Min<double>::f(a, b); }
};
struct SMax {
    static double f(double a, double b, double) { return Max<double>::f(a, b); }
};
struct SMinNan {
    static double f(double a, double b, double) { return MinNan<double>::f(a, b); }
};
struct SMaxNan {
    static double f(double a, double b, double) { return MaxNan<double>::f(a, b); }
};
struct SEx2 {
    static double f(double a, double, double) { return std::exp2(a); }
};
struct STanh {
    static double f(double a, double, double) { return std::tanh(a); }
};
template <class F> Exec *pick_small(Type t) {
    switch (t) {
    case Type::f16:
        return small<false, 1, F>;
    case Type::f16x2:
        return small<false, 2, F>;
    case Type::bf16:
        return small<true, 1, F>;
    default:
        return small<true, 2, F>;
    }
}
Exec *decode_small(Decoder &d, Type t) {
    static const struct {
        const char *name;
        int         sources;
        Exec *(*pick)(Type);
    } table[] = {
        {"add",  2, pick_small<SAdd> },
        {"sub",  2, pick_small<SSub> },
        {"mul",  2, pick_small<SMul> },
        {"fma",  3, pick_small<SFma> },
        {"neg",  1, pick_small<SNeg> },
        {"abs",  1, pick_small<SAbs> },
        {"min",  2, pick_small<SMin> },
        {"max",  2, pick_small<SMax> },
        {"ex2",  1, pick_small<SEx2> },
        {"tanh", 1, pick_small<STanh>}
    };
    for (auto &e : table) {
        if (d.parts[0] != e.name) continue;
        if (d.has("xorsign")) return nullptr;
        d.around = {
            t, t, (uint8_t)(d.has("ftz") ? (1 << e.sources) - 1 : 0), d.has("ftz"), d.has("sat"), d.has("relu")};
        d.i.d[0] = d.dst(0, bytes_of(t));
        for (int k = 0; k < e.sources; k++) d.i.s[k] = d.src((size_t)k + 1, t);
        for (int k = e.sources; k < 3; k++) d.i.s[k] = d.i.s[0];
        if (d.has("NaN")) return d.parts[0] == "min" ? pick_small<SMinNan>(t) : pick_small<SMaxNan>(t);
        return e.pick(t);
    }
    return nullptr;
}

uint8_t variant(const Decoder &d) {
    return (uint8_t)((d.has("rz")   ? 1
                      : d.has("rm") ? 2
                      : d.has("rp") ? 3
                                    : 0) |
                     (d.has("ftz") ? FTZ : 0) | (d.has("sat") ? SAT : 0));
}
Exec *decode_approx(Decoder &d, Type t) {
    const string_view op = d.parts[0];
    d.i.d[0]             = d.dst(0, bytes_of(t));
    d.i.s[0]             = d.src(1, t);
    if (t == Type::f64) {
        if (op == "rcp" && d.has("ftz")) return approx64<Rcp64>;
        return op == "rsqrt" ? approx64<Rsqrt64> : nullptr;
    }
    if (op == "ex2") return approx<Ex2>;
    if (op == "lg2") return approx<Lg2>;
    if (op == "sin") return approx<Sin>;
    if (op == "cos") return approx<Cos>;
    if (op == "tanh") return approx<Tanh>;
    if (op == "rsqrt") return approx<Rsqrt>;
    if (op == "rcp") return run_variant<float, Rcp, 1>;
    if (op == "sqrt") return run_variant<float, Sqrt, 1>;
    if (op != "div") return nullptr;
    d.i.s[1] = d.src(2, t);
    return run_variant<float, Div, 2>;
}
template <class T> Exec *decode_ieee(Decoder &d, Type t) {
    // clang-format off
    static const struct {
        const char *name;
        int         sources;
        Exec       *plain, *variant;
    } table[] = {{"add", 2, run2<T, Add>, run_variant<T, Add, 2>},   {"sub", 2, run2<T, Sub>, run_variant<T,
     Sub, 2>},
                 {"mul", 2, run2<T, Mul>, run_variant<T, Mul, 2>},   {"div", 2, run2<T, Div>, run_variant<T,
                  Div, 2>},
                 {"fma", 3, run3<T, Fma>, run_variant<T, Fma, 3>},   {"mad", 3, run3<T, Fma>, run_variant<T,
                  Fma, 3>},
                 {"neg", 1, run1<T, Neg>, run_variant<T, Neg, 1>},   {"abs", 1, run1<T, Abs>, run_variant<T,
                  Abs, 1>},
                 {"rcp", 1, run1<T, Rcp>, run_variant<T, Rcp, 1>},   {"sqrt", 1, run1<T, Sqrt>,
                  run_variant<T, Sqrt, 1>},
                 {"min", 2, run2<T, Min>, run_variant<T, Min, 2>},   {"max", 2, run2<T, Max>, run_variant<T,
                  Max, 2>},
                 {"copysign", 2, run2<T, CopySign>, nullptr}};
    // clang-format on
    for (auto &e : table) {
        if (d.parts[0] != e.name) continue;
        d.i.d[0] = d.dst(0, bytes_of(t));
        for (int k = 0; k < e.sources; k++) d.i.s[k] = d.src((size_t)k + 1, t);
        for (int k = e.sources; k < 3; k++) d.i.s[k] = d.i.s[0];
        if (d.has("NaN") && d.i.sub == FTZ) d.around = {t, t, 3, true, false, false}, d.i.sub = 0;
        if (d.has("NaN") && d.i.sub == 0 && d.parts[0] == "min") return run2<T, MinNan>;
        if (d.has("NaN") && d.i.sub == 0 && d.parts[0] == "max") return run2<T, MaxNan>;
        if (d.has("NaN") || d.has("xorsign") || d.has("abs")) return d.parts[0] == "abs" ? e.plain : nullptr;
        return d.i.sub == 0 ? e.plain : e.variant;
    }
    return nullptr;
}
// testp: what kind of number (9.7.3.1).
template <class T> void testp(Warp &w, const Inst &i, uint32_t lanes) {
    const T *a = w.at<T>(i.s[0]);
    put_mask(w, i.d[0], lanes, lane_mask([=](int l) {
                 const int c = std::fpclassify(a[l]);
                 switch (i.sub) {
                 case 0:
                     return c != FP_NAN && c != FP_INFINITE;
                 case 1:
                     return c == FP_INFINITE;
                 case 2:
                     return c != FP_NAN;
                 case 3:
                     return c == FP_NAN;
                 case 4:
                     return c == FP_NORMAL;
                 default:
                     return c == FP_SUBNORMAL;
                 }
             }));
}
Exec *decode_testp(Decoder &d, Type t) {
    static const char *const kinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    for (int k = 0; k < 6; k++)
        if (d.has(kinds[k])) d.i.sub = (uint8_t)k;
    d.i.d[0] = d.dst(0, 4);
    d.i.s[0] = d.src(1, t);
    return t == Type::f64 ? testp<double> : testp<float>;
}
} // namespace

Exec *decode_float(Decoder &d) {
    const string_view op = d.parts[0];
    const Type        t  = d.type();
    if (!is_float(t) || op == "cvt" || op == "setp" || op == "set" || op == "selp" || op == "mov" || op == "slct")
        return nullptr;
    if (op == "ld" || op == "st" || op == "atom" || op == "red") return nullptr;
    d.i.sub = variant(d);
    if (op == "testp") return decode_testp(d, t);
    if (t != Type::f32 && t != Type::f64) return decode_small(d, t);
    if (d.has("approx") || d.has("full")) return decode_approx(d, t);
    return t == Type::f64 ? decode_ieee<double>(d, t) : decode_ieee<float>(d, t);
}
} // namespace ptx
