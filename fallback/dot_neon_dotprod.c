/* Products for CPUs of AArch64 that have dot product instructions (FEAT_DotProd). */
#include "fallback/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON_TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON(name)  name##_neon_dotprod

NEON_TARGET static inline __attribute__((always_inline)) int32x4_t dot16(int32x4_t sum, int8x16_t w,
                                                                         int8x16_t x) {
    return vdotq_s32(sum, w, x);
}

#include "fallback/dot_neon.h"
#endif
