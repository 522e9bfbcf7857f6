// test_ptx_instructions.cpp - single instructions against C on edge values and random ones.
#include "sim/ptx/ptx_half.h"
#include "tests/sim/ptx/test_ptx.h"

#include <cmath>
#include <cstring>

typedef uint64_t (*Reference)(uint64_t a, uint64_t b, uint64_t c);
struct Row {
    const char *text, *result;
    double      tolerance; // relative, of a float result; 0: the bits are equal
    Reference   want;
};
// The low bytes of a register as a value of type To, and back.
template <class To, class From> static To low_bytes(From v) {
    To r = 0;
    memcpy(&r, &v, sizeof r < sizeof v ? sizeof r : sizeof v);
    return r;
}
using ptx::half_of;
static float    f16_to_float(uint16_t h) { return ptx::half_to(h); }
static uint16_t f16_of_float(float v) { return half_of((double)v); }
static float    f(uint64_t v) { return low_bytes<float>(v); }
static double   d(uint64_t v) { return low_bytes<double>(v); }
static uint64_t of(float v) { return low_bytes<uint64_t>(v); }
static uint64_t of(double v) { return low_bytes<uint64_t>(v); }
#define WANT(e)                                                                                                        \
    [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {                                                               \
        (void)a, (void)b, (void)c;                                                                                     \
        return (uint64_t)(e);                                                                                          \
    }
#define A32 ((uint32_t)a)
#define B32 ((uint32_t)b)
#define C32 ((uint32_t)c)
#define SA  ((int32_t)a)
#define SB  ((int32_t)b)

static uint64_t reversed_bits(uint64_t a, uint64_t, uint64_t) {
    uint64_t r = 0;
    for (int k = 0; k < 32; k++) r |= (a >> k & 1) << (31 - k);
    return r;
}
static uint64_t dp4a_signed(uint64_t a, uint64_t b, uint64_t c) {
    int64_t r = (int64_t)(int32_t)c;
    for (int k = 0; k < 32; k += 8) r += (int8_t)(a >> k) * (int8_t)(b >> k);
    return (uint32_t)r;
}
static uint64_t dp4a_mixed(uint64_t a, uint64_t b, uint64_t c) {
    int64_t r = (int64_t)(int32_t)c;
    for (int k = 0; k < 32; k += 8) r += (int)(uint8_t)(a >> k) * (int8_t)(b >> k);
    return (uint32_t)r;
}
static uint64_t dp2a_low_unsigned(uint64_t a, uint64_t b, uint64_t c) {
    return (uint32_t)(c + (a & 0xffff) * (b & 0xff) + (a >> 16 & 0xffff) * (b >> 8 & 0xff));
}
static uint64_t dp2a_high_mixed(uint64_t a, uint64_t b, uint64_t c) { // signed halves, unsigned bytes
    return (uint32_t)((int64_t)c + (int16_t)a * (int64_t)(b >> 16 & 0xff) +
                      (int16_t)(a >> 16) * (int64_t)(b >> 24 & 0xff));
}

static uint64_t bytes_backwards(uint64_t a, uint64_t b, uint64_t c) { // byte k is byte c - k of b:a, around
    const uint64_t v = b << 32 | (uint32_t)a;
    uint64_t       r = 0;
    for (uint64_t k = 0; k < 4; k++) r |= (v >> 8 * ((c % 4 - k) % 8) & 255) << 8 * k;
    return r;
}
// clang-format off
static const Row integers[] = {
    {"add.s32 %r4, %r1, %r2;", "%r4", 0, WANT(A32 + B32)},
    {"sub.s64 %rd4, %rd11, %rd12;", "%rd4", 0, WANT(a - b)},
    {"mul.lo.s32 %r4, %r1, %r2;", "%r4", 0, WANT(A32 *B32)},
    {"mul.hi.u32 %r4, %r1, %r2;", "%r4", 0, WANT((uint64_t)A32 *B32 >> 32)},
    {"mul.hi.s32 %r4, %r1, %r2;", "%r4", 0, WANT((uint32_t)((int64_t)SA * SB >> 32))},
    {"mul.hi.u64 %rd4, %rd11, %rd12;", "%rd4", 0, WANT((unsigned __int128)a *b >> 64)},
    {"mul.wide.s32 %rd4, %r1, %r2;", "%rd4", 0, WANT((int64_t)SA *SB)},
    {"mul.wide.u16 %r4, %rs1, %rs2;", "%r4", 0, WANT((uint32_t)(uint16_t)a *(uint16_t)b)},
    {"mad.lo.s32 %r4, %r1, %r2, %r3;", "%r4", 0, WANT(A32 *B32 + C32)},
    {"mad.wide.u32 %rd4, %r1, %r2, %rd13;", "%rd4", 0, WANT((uint64_t)A32 *B32 + c)},
    {"and.b32 %r4, %r1, 255;", "%r4", 0, WANT(A32 & 255)},
    {"not.b64 %rd4, %rd11;", "%rd4", 0, WANT(~a)},
    {"neg.s16 %rs4, %rs1;", "%rs4", 0, WANT((uint16_t)(0 - a))},
    {"abs.s32 %r4, %r1;", "%r4", 0, WANT(SA < 0 ? 0u - A32 : A32)},
    {"min.s32 %r4, %r1, %r2;", "%r4", 0, WANT((uint32_t)(SA < SB ? SA : SB))},
    {"max.u64 %rd4, %rd11, %rd12;", "%rd4", 0, WANT(a > b ? a : b)},
    {"shl.b32 %r4, %r1, %r2;", "%r4", 0, WANT(B32 > 31 ? 0 : A32 << B32)},
    {"shr.s32 %r4, %r1, %r2;", "%r4", 0, WANT((uint32_t)(B32 > 31 ? SA >> 31 : SA >> B32))},
    {"shr.u64 %rd4, %rd11, %r2;", "%rd4", 0, WANT(B32 > 63 ? 0 : a >> B32)},
    {"shr.s16 %rs4, %rs1, 3;", "%rs4", 0, WANT((uint16_t)((int16_t)a >> 3))},
    {"div.u32 %r4, %r1, 7;", "%r4", 0, WANT(A32 / 7)},
    {"div.s64 %rd4, %rd11, -10;", "%rd4", 0, WANT((int64_t)a / -10)},
    {"rem.s32 %r4, %r1, 10;", "%r4", 0, WANT((uint32_t)(SA % 10))},
    {"popc.b32 %r4, %r1;", "%r4", 0, WANT(__builtin_popcount(A32))},
    {"clz.b64 %r4, %rd11;", "%r4", 0, WANT(a ? __builtin_clzll(a) : 64)},
    {"brev.b32 %r4, %r1;", "%r4", 0, reversed_bits},
    {"bfe.u32 %r4, %r1, 5, 7;", "%r4", 0, WANT(A32 >> 5 & 127)},
    {"bfe.s32 %r4, %r1, 5, 7;", "%r4", 0, WANT((uint32_t)((int32_t)(A32 << 20) >> 25))},
    {"bfi.b32 %r4, %r1, %r2, 8, 4;", "%r4", 0, WANT((B32 & ~0xf00u) | (A32 & 15) << 8)},
    {"bfind.u32 %r4, %r1;", "%r4", 0, WANT(A32 ? 31 - __builtin_clz(A32) : ~0u)},
    {"prmt.b32 %r4, %r1, %r2, 0x6250;", "%r4", 0,
     WANT((A32 & 255) | (B32 >> 8 & 255) << 8 | (A32 >> 16 & 255) << 16 | (B32 >> 16 & 255) << 24)},
    {"prmt.b32.f4e %r4, %r1, %r2, %r3;", "%r4", 0, WANT((uint32_t)((b << 32 | A32) >> 8 * (c & 3)))},
    {"prmt.b32.b4e %r4, %r1, %r2, %r3;", "%r4", 0, bytes_backwards},
    {"prmt.b32.rc8 %r4, %r1, %r2, %r3;", "%r4", 0, WANT((uint64_t)(A32 >> 8 * (c & 3) & 255) * 0x1010101)},
    {"prmt.b32.ecl %r4, %r1, %r2, 2;", "%r4", 0, WANT((A32 >> 16 & 255) * 0x10101 | (A32 & 0xff000000u))},
    {"prmt.b32.ecr %r4, %r1, %r2, 1;", "%r4", 0, WANT((A32 & 255) | (uint64_t)(A32 >> 8 & 255) * 0x1010100)},
    {"prmt.b32.rc16 %r4, %r1, %r2, 3;", "%r4", 0, WANT((A32 >> 16) * 0x10001ull)},
    {"prmt.b32 %r4, %r1, %r2, 0x8888;", "%r4", 0, WANT(A32 & 128 ? ~0u : 0u)},
    {"lop3.b32 %r4, %r1, %r2, %r3, 0xca;", "%r4", 0, WANT((A32 & B32) | (~A32 & C32))},
    {"shf.l.wrap.b32 %r4, %r1, %r2, 9;", "%r4", 0, WANT(B32 << 9 | A32 >> 23)},
    {"shf.r.clamp.b32 %r4, %r1, %r2, 40;", "%r4", 0, WANT(B32)},
    {"dp4a.s32.s32 %r4, %r1, %r2, %r3;", "%r4", 0, dp4a_signed},
    {"dp4a.u32.s32 %r4, %r1, %r2, %r3;", "%r4", 0, dp4a_mixed},
    {"dp2a.lo.u32.u32 %r4, %r1, %r2, %r3;", "%r4", 0, dp2a_low_unsigned},
    {"dp2a.hi.s32.u32 %r4, %r1, %r2, %r3;", "%r4", 0, dp2a_high_mixed},
    {"add.cc.u32 %r4, %r1, %r2;\naddc.u32 %r5, %r3, 0;", "%r5", 0,
     WANT((uint32_t)(C32 + (((uint64_t)A32 + B32) >> 32)))},
    {"sub.cc.u32 %r4, %r1, %r2;\nsubc.u32 %r5, %r3, 0;", "%r5", 0, WANT((uint32_t)(C32 - (A32 < B32)))},
    {"mad.lo.cc.u32 %r4, %r1, %r2, %r3;\nmadc.hi.u32 %r5, %r1, %r2, 0;", "%r5", 0,
     WANT((uint32_t)(((uint64_t)A32 * B32 + C32) >> 32))},
    {"cvt.u16.u32 %rs4, %r1;", "%rs4", 0, WANT((uint16_t)a)},
    {"cvt.s16.s8 %rs4, %rs1;", "%rs4", 0, WANT((uint16_t)(int8_t)a)},
    {"cvt.s64.s32 %rd4, %r1;", "%rd4", 0, WANT((int64_t)SA)},
    {"cvt.u64.u32 %rd4, %r1;", "%rd4", 0, WANT(A32)},
    {"mov.b64 %rd4, {%r1, %r2};", "%rd4", 0, WANT((uint64_t)B32 << 32 | A32)},
    {"mov.b64 {%r4, %r5}, %rd11;", "%r5", 0, WANT(a >> 32)},
    {"mov.b32 %r4, {%rs1, %rs2};", "%r4", 0, WANT((uint32_t)(uint16_t)b << 16 | (uint16_t)a)},
    {"setp.lt.s32 %p1, %r1, %r2;\nselp.b32 %r4, %r1, %r3, %p1;", "%r4", 0, WANT(SA < SB ? A32 : C32)},
    {"setp.hs.u32 %p1, %r1, %r2;\nsetp.eq.or.s32 %p2, %r3, 0, !%p1;\nselp.u32 %r4, 1, 0, %p2;", "%r4", 0,
     WANT(C32 == 0 || !(A32 >= B32))},
    {"setp.lt.s64 %p1|%p2, %rd11, %rd12;\nselp.u32 %r4, 1, 0, %p2;", "%r4", 0,
     WANT(!((int64_t)a < (int64_t)b))},
    {"set.gt.u32.s32 %r4, %r1, %r2;", "%r4", 0, WANT(SA > SB ? ~0u : 0u)},
    {"slct.b32.s32 %r4, %r1, %r2, %r3;", "%r4", 0, WANT((int32_t)c >= 0 ? A32 : B32)},
    {"mov.u32 %r4, 5;\n{\n.reg .pred q;\nsetp.ne.s32 q, %r1, %r2;\n@!q mov.u32 %r4, 6;\n}", "%r4", 0,
     WANT(A32 != B32 ? 5 : 6)},
};
// clang-format on
static float zero_for_subnormal(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? copysignf(0, v) : v; }
static float Z(uint64_t v) { return zero_for_subnormal(f(v)); }
// f16 arithmetic on numbers that f16 holds exactly: a register is rounded to f16 first.
static float H(uint64_t v) { return f16_to_float(f16_of_float(f(v))); }
static float sum_rounded_down(double a, double b) { // no NaN
    const double v = a + b, part = v - a,
                 error = (a - (v - part)) + (b - part); // a + b = v + error, if v is finite
    const float r      = (float)v;
    return (double)r > v || ((double)r == v && error < 0) ? nextafterf(r, -INFINITY) : r;
}
// clang-format off
static const Row floats[] = {
    {"add.rn.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(f(a) + f(b)))},
    {"mul.f32 %f4, %f1, 0f3FC00000;", "%f4", 0, WANT(of(f(a) * 1.5f))},
    {"sub.f64 %fd4, %fd1, %fd2;", "%fd4", 0, WANT(of(d(a) - d(b)))},
    {"fma.rn.f32 %f4, %f1, %f2, %f3;", "%f4", 0, WANT(of(fmaf(f(a), f(b), f(c))))},
    {"fma.rn.f64 %fd4, %fd1, %fd2, %fd3;", "%fd4", 0, WANT(of(fma(d(a), d(b), d(c))))},
    {"add.rm.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(sum_rounded_down((double)f(a), (double)f(b))))},
    {"div.rn.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(f(a) / f(b)))},
    {"rcp.rn.f64 %fd4, %fd1;", "%fd4", 0, WANT(of(1.0 / d(a)))},
    {"sqrt.rn.f32 %f4, %f1;", "%f4", 0, WANT(of(sqrtf(f(a))))},
    {"abs.f32 %f4, %f1;", "%f4", 0, WANT(a & 0x7fffffff)},
    {"neg.f64 %fd4, %fd1;", "%fd4", 0, WANT(a ^ 1ull << 63)},
    {"min.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(fminf(f(a), f(b))))},
    {"max.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(fmaxf(f(a), f(b))))},
    {"copysign.f32 %f4, %f1, %f2;", "%f4", 0, WANT((A32 & 0x80000000u) | (B32 & 0x7fffffffu))},
    {"setp.ltu.f32 %p1, %f1, %f2;\nselp.u32 %r4, 1, 0, %p1;", "%r4", 0, WANT(!(f(a) >= f(b)))},
    {"setp.neu.f32 %p1, %f1, %f2;\nselp.u32 %r4, 1, 0, %p1;", "%r4", 0, WANT(f(a) != f(b))},
    {"setp.nan.f32 %p1, %f1, %f2;\nselp.u32 %r4, 1, 0, %p1;", "%r4", 0, WANT(f(a) != f(a) || f(b) != f(b))},
    {"ex2.approx.ftz.f32 %f4, %f1;", "%f4", 1e-6, WANT(of((float)exp2((double)f(a))))},
    {"lg2.approx.f32 %f4, %f1;", "%f4", 1e-6, WANT(of((float)log2((double)f(a))))},
    {"rsqrt.approx.f32 %f4, %f1;", "%f4", 1e-6, WANT(of((float)(1 / sqrt((double)f(a)))))},
    {"tanh.approx.f32 %f4, %f1;", "%f4", 1e-3, WANT(of((float)tanh((double)f(a))))},
    {"rcp.approx.ftz.f64 %fd4, %fd1;", "%fd4", 1e-5, WANT(of(1.0 / d(a)))},
    {"cvt.rni.s32.f32 %r4, %f1;", "%r4", 0,
     WANT((uint32_t)(f(a) != f(a) ? 0 : f(a) >= 2147483648.0f ? INT32_MAX : f(a) <= -2147483648.0f ? INT32_MIN
                    : (int32_t)lrint((double)f(a))))},
    {"cvt.rzi.u64.f64 %rd4, %fd1;", "%rd4", 0,
     WANT(d(a) != d(a) ? 1ull << 63 : d(a) <= 0 ? 0 : d(a) >= 18446744073709551616.0 ? ~0ull : (uint64_t)d(a))},
    {"cvt.rn.f32.s32 %f4, %r1;", "%f4", 0, WANT(of((float)SA))},
    {"cvt.rn.f32.f64 %f4, %fd1;", "%f4", 0, WANT(of((float)d(a)))},
    {"cvt.f64.f32 %fd4, %f1;", "%fd4", 0, WANT(of((double)f(a)))},
    {"cvt.rzi.f32.f32 %f4, %f1;", "%f4", 0, WANT(of(truncf(f(a))))},
    {"cvt.sat.f32.f32 %f4, %f1;", "%f4", 0, WANT(of(f(a) > 0 ? fminf(f(a), 1) : 0.0f))},
    {"cvt.rn.f16.f32 %rs4, %f1;\ncvt.f32.f16 %f4, %rs4;\ncvt.rn.f16.f32 %rs5, %f4;\nsub.s16 %rs6, %rs5, %rs4;", "%rs6", 0, WANT(0)},
    {"setp.lt.ftz.f32 %p1, %f1, %f2;\nselp.u32 %r4, 1, 0, %p1;", "%r4", 0, WANT(Z(a) < Z(b))},
    {"set.eq.ftz.f32.f32 %f4, %f1, 0f00000000;", "%f4", 0, WANT(of(Z(a) == 0 ? 1.0f : 0.0f))},
    {"slct.ftz.u32.f32 %r4, %r1, %r2, %f3;", "%r4", 0, WANT(Z(c) >= 0 ? A32 : B32)},
    {"cvt.ftz.f64.f32 %fd4, %f1;", "%fd4", 0, WANT(of((double)Z(a)))},
    {"cvt.rn.ftz.f32.f64 %f4, %fd1;", "%f4", 0, WANT(of(zero_for_subnormal((float)d(a))))},
    {"cvt.rpi.ftz.f32.f32 %f4, %f1;", "%f4", 0, WANT(of(ceilf(Z(a))))},
    {"add.ftz.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(zero_for_subnormal(Z(a) + Z(b))))},
    {"fma.rn.ftz.sat.f32 %f4, %f1, %f2, %f3;", "%f4", 0, WANT(of(zero_for_subnormal(fminf(fmaxf(fmaf(Z(a), Z(b), Z(c)), 0), 1))))},
    {"min.ftz.NaN.f32 %f4, %f1, %f2;", "%f4", 0, WANT(of(Z(a) != Z(a) || Z(b) != Z(b) ? NAN : fminf(Z(a), Z(b))))},
    {"cvt.rn.f16.f32 %rs4, %f1;\ncvt.rn.f16.f32 %rs5, %f2;\nadd.sat.f16 %rs6, %rs4, %rs5;\ncvt.f32.f16 %f4, %rs6;", "%f4", 0,
     WANT(of(fminf(fmaxf(f16_to_float(f16_of_float(H(a) + H(b))), 0), 1)))},
    {"cvt.rn.f16.f32 %rs4, %f1;\nmax.ftz.NaN.f16 %rs6, %rs4, 0x0001;\ncvt.f32.f16 %f4, %rs6;", "%f4", 0,
     WANT(of(H(a) != H(a) ? NAN : H(a) > 0 ? H(a) : 0.0f))},
    {"cvt.rn.f16.f32 %rs4, %f1;\nfma.rn.relu.f16 %rs6, %rs4, 0x3c00, 0x8000;\ncvt.f32.f16 %f4, %rs6;", "%f4", 0,
     WANT(of(H(a) != H(a) ? NAN : H(a) > 0 ? H(a) : 0.0f))},
    {"cvt.rn.bf16.f32 %rs4, %f1;\nmov.b32 %r4, {0, %rs4};", "%r4", 1e-2, WANT(a & 0xffffffff)},
};
// clang-format on

static bool near(const Row &r, uint64_t got, uint64_t want) {
    if (got == want) return true;
    const bool is_double = !strncmp(r.result, "%fd", 3),
               is_single = !is_double && (r.result[1] == 'f' || r.tolerance > 0);
    const double x = is_double ? d(got) : (double)f(got), y = is_double ? d(want) : (double)f(want);
    if ((is_double || is_single) && x != x && y != y) return true;
    return r.tolerance > 0 &&
           (std::fabs(x - y) <= r.tolerance * std::fabs(y) || (std::fabs(x) < 1e-37 && std::fabs(y) < 1.2e-38));
}
static void check(const Row &r, const std::vector<Cell> &operands) {
    std::vector<Cell> cells = operands;
    execute(wrap(r.text, r.result), cells);
    for (auto &c : cells) {
        const uint64_t want = r.want(c.a, c.b, c.c);
        if (near(r, c.result, want)) continue;
        expect(false, "%s\n  a %llx b %llx c %llx: %llx, expected %llx", r.text, (unsigned long long)c.a,
               (unsigned long long)c.b, (unsigned long long)c.c, (unsigned long long)c.result,
               (unsigned long long)want);
        return;
    }
    expect(true, "%s", r.text);
}
void test_instructions() {
    uint64_t   state = 1;
    const auto rnd   = [&]() {
        return state = state * 6364136223846793005ull + 1442695040888963407ull, state ^ state >> 29;
    };
    const uint64_t edges[] = {
        0, 1, 2, 31, 32, 33, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x8000000000000000, ~0ull, 0x100000000};
    std::vector<Cell> cells(32);
    for (int l = 0; l < 32; l++)
        cells[(size_t)l] = {l < 13 ? edges[l] : rnd(), l < 6 || l > 13 ? rnd() >> (l % 3 * 24) : edges[12 - (l - 1)],
                            l % 4 ? rnd() : 0, 0};
    for (auto &r : integers) check(r, cells);
    for (int l = 0; l < 32; l++) { // a float in the low word and, with another exponent, a double over both
        const float special[] = {0.0f,      -0.0f, 1.0f, -2.5f, 0.5f,     1.5f,   INFINITY,
                                 -INFINITY, NAN,   3e9f, -3e9f, 65520.0f, 1e-40f, -1e-39f};
        const auto  value     = [&](int n) { return n < 14 ? special[n] : (float)((double)(int64_t)rnd() / 1e18); };
        cells[(size_t)l]      = {0, 0, 0, 0};
        for (uint64_t *v : {&cells[(size_t)l].a, &cells[(size_t)l].b, &cells[(size_t)l].c})
            *v = of(value(v == &cells[(size_t)l].a ? l : (int)(rnd() % 40))) | (rnd() & 0xbfffffffull) << 32;
    }
    for (auto &r : floats) check(r, cells);
}
