/* Products for CPUs of AArch64 that have dot product instructions (FEAT_DotProd); compiled for those. */
#include "fallback/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON(name) name##_neon_dotprod
#define INLINE     static inline __attribute__((always_inline))

INLINE int32x4_t dot16(int32x4_t sum, const int8x16_t *w, const int8x16_t *x) {
    return vdotq_s32(sum, w[0], x[0]);
}

INLINE int32x4_t dot32(int32x4_t sum, const int8x16_t *w, const int8x16_t *x) {
    return vdotq_s32(vdotq_s32(sum, w[0], x[0]), w[1], x[1]);
}

#include "fallback/dot_neon.h"
#endif
