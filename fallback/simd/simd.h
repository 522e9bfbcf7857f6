/* simd.h - one C body, compiled for each instruction set and chosen at run time.
 *
 *   RP_VARIANTS(silu_rows, (const float *x, float *y, int64_t n), (x, y, n))
 *
 * defines silu_rows(...), which calls silu_rows_body(...), an RP_BODY function, as compiled for rp_cpu_isa(). All
 * variants are the same C with explicit lanes and fmaf, and no fast-math, so they give the same bits (I8). */
#ifndef FALLBACK_SIMD_SIMD_H
#define FALLBACK_SIMD_SIMD_H

#include "base/kernels.h"

#define RP_BODY static inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__)
#define RP_X86           1
#define RP_TARGET_AVX2   __attribute__((target("avx2,fma,f16c")))
#define RP_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define RP_VARIANTS(name, params, args)                                                                                \
    static void name##_plain   params { name##_body args; }                                                            \
    RP_TARGET_AVX2 static void name##_avx2 params { name##_body args; }                                                \
    RP_TARGET_AVX512 static void name##_avx512 params { name##_body args; }                                            \
    static void name                           params {                                                                \
        const RpCpuIsa isa = rp_cpu_isa();                                                   \
        if (isa == RP_ISA_AVX512_VNNI)                                                       \
            name##_avx512 args;                                                              \
        else if (isa == RP_ISA_AVX2)                                                         \
            name##_avx2 args;                                                                \
        else                                                                                 \
            name##_plain args;                                                               \
    }
#else /* every AArch64 CPU has NEON: the body is compiled once, vectorised */
#define RP_VARIANTS(name, params, args)                                                                                \
    static void name params { name##_body args; }
#endif

#endif
