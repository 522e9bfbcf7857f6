// ptx_lanes.h - loops over the lanes of a warp, written so that the compiler turns them into vector code.
#ifndef TESTS_PTX_PTX_LANES_H
#define TESTS_PTX_PTX_LANES_H
#include "sim/ptx/ptx.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __clang__
#define PTX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PTX_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace ptx {
// d[l] = f(l) for the lanes of a mask. f is also called for other lanes, on values left over there, so it must
// accept any. d is the same slot as an operand or does not overlap it.
template <class T, class F> static inline void each_lane(T *d, uint32_t lanes, F f) {
    if (lanes == ALL_LANES) {
        PTX_INDEPENDENT
        for (int l = 0; l < 32; l++) d[l] = f(l);
    } else {
        PTX_INDEPENDENT
        for (int l = 0; l < 32; l++) d[l] = lanes >> l & 1 ? f(l) : d[l];
    }
}
// The same, for f that costs much or must not see other lanes.
template <class T, class F> static inline void active_lanes(T *d, uint32_t lanes, F f) {
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        d[l]        = f(l);
    }
}
// Bit l of the result: f(l) is true.
template <class F> static inline uint32_t lane_mask(F f) {
    alignas(32) int32_t t[32];
    PTX_INDEPENDENT
    for (int l = 0; l < 32; l++) t[l] = f(l) ? -1 : 0;
    uint32_t m = 0;
#ifdef __AVX2__
    for (int k = 0; k < 4; k++) m |= (uint32_t)_mm256_movemask_ps(_mm256_load_ps((const float *)(t + 8 * k))) << 8 * k;
#else
    for (int l = 0; l < 32; l++) m |= (uint32_t)(t[l] & 1) << l;
#endif
    return m;
}
// Writes the bits of `lanes` in a predicate.
static inline void put_mask(Warp &w, int32_t slot, uint32_t lanes, uint32_t value) {
    uint32_t *p = w.reg<uint32_t>(slot);
    *p          = (*p & ~lanes) | (value & lanes);
}
} // namespace ptx
#endif
