// ptx_around.cpp - .ftz, .sat and .relu of instructions that do not implement them themselves. Sources are flushed into
// scratch slots by an instruction before, the result is changed by one after; neither is counted.
//
//     setp.lt.ftz.f32 %p1, %f1, %f2;    ->    scratch 0 = flush(%f1); scratch 1 = flush(%f2); setp on the scratch slots
//
// .ftz: subnormals become zeros of the same sign. .sat: [0, 1], NaN becomes 0. .relu: negative numbers become 0, NaN
// stays one (0x7fff in f16 and bf16).
#include "sim/ptx/ptx_half.h"
#include "sim/ptx/ptx_lanes.h"

namespace ptx {
namespace {
template <class T, T EXPONENT> void flush(Warp &w, const Inst &i, uint32_t lanes) { // count: elements of a lane
    const T *a = w.at<T>(i.s[0]);
    T       *d = w.reg<T>(i.d[0]);
    for (uint32_t m = lanes; m; m &= m - 1)
        for (int l = __builtin_ctz(m) * i.count, k = 0; k < i.count; k++) {
            const T v = a[l + k];
            d[l + k]  = (v & EXPONENT) == 0 ? (T)(v & ~(T)((T)-1 >> 1)) : v;
        }
}
Exec *pick_flush(Type t) {
    if (t == Type::f32) return flush<uint32_t, 0x7f800000>;
    return t == Type::f16 || t == Type::f16x2 ? flush<uint16_t, 0x7c00> : flush<uint16_t, 0x7f80>;
}
uint8_t elements(Type t) { return t == Type::f16x2 || t == Type::bf16x2 ? 2 : 1; }
// sub: 1 .relu, else .sat; EXPONENT: the bits of infinity, ONE: those of 1.0.
template <uint16_t EXPONENT, uint16_t ONE> void clamp(Warp &w, const Inst &i, uint32_t lanes) {
    uint16_t *d = w.reg<uint16_t>(i.d[0]);
    for (uint32_t m = lanes; m; m &= m - 1)
        for (int l = __builtin_ctz(m) * i.count, k = 0; k < i.count; k++) {
            const uint16_t v   = d[l + k];
            const bool     nan = (v & 0x7fff) > EXPONENT;
            if (nan)
                d[l + k] = i.sub ? 0x7fff : 0;
            else if (v & 0x8000)
                d[l + k] = 0;
            else if (!i.sub && v > ONE)
                d[l + k] = ONE;
        }
}
} // namespace

void before(Decoder &d, int32_t scratch, vector<Inst> &out) {
    for (int k = 0; k < N_SCRATCH; k++) {
        if (!(d.around.flush >> k & 1)) continue;
        Inst i   = pseudo(d.i, pick_flush(d.around.source), d.i.s[k]);
        i.d[0]   = scratch + 128 * k;
        i.count  = elements(d.around.source);
        d.i.s[k] = i.d[0];
        out.push_back(i);
    }
}
void after(const Decoder &d, vector<Inst> &out) {
    const Around &a   = d.around;
    const bool    f16 = a.result == Type::f16 || a.result == Type::f16x2;
    Inst          i   = pseudo(d.i, nullptr, d.i.d[0]);
    i.d[0]            = d.i.d[0];
    i.count           = elements(a.result);
    i.sub             = a.relu;
    if (a.flush_result) i.run = pick_flush(a.result), out.push_back(i);
    if (a.saturate || a.relu) i.run = f16 ? clamp<0x7c00, 0x3c00> : clamp<0x7f80, 0x3f80>, out.push_back(i);
}
} // namespace ptx
