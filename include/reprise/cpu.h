/* cpu.h - settings of the CPU kernels for the whole process: instruction set and software prefetch. They change the
 * speed, never a result.
 *
 *   printf("%s\n", rp_cpu_isa_name(rp_cpu_isa()));         // "avx512-vnni"
 */
#ifndef REPRISE_CPU_H
#define REPRISE_CPU_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instruction sets that the CPU kernels have variants for; those of one architecture in rising order. All variants give
 * the same bits (I8). */
typedef enum RpCpuIsa {
    RP_ISA_PLAIN,
    RP_ISA_AVX2,
    RP_ISA_AVX512_VNNI,
    RP_ISA_NEON,
    RP_ISA_NEON_DOTPROD,
    RP_ISA_COUNT
} RpCpuIsa;

/* The variant in use: the best that this CPU has, or the one that REPRISE_ISA names. */
RP_API RpCpuIsa rp_cpu_isa(void);

/* Checks REPRISE_ISA; rp_executor_open calls it. RP_E_ARG if it names no variant, RP_E_NOT_AVAILABLE if this CPU or
 * build lacks it. */
RP_API RP_NODISCARD RpStatus rp_cpu_isa_check(void);

/* "plain", "avx2", "avx512-vnni", "neon", "neon-dotprod"; "?" for any other number. Static storage. */
RP_API const char *rp_cpu_isa_name(RpCpuIsa isa);

/* Switches the variant of the whole process, for tests and measurements; not while an executor runs.
 * RP_E_NOT_AVAILABLE if this CPU or build lacks it, RP_E_ARG for a number that is no variant. */
RP_API RP_NODISCARD RpStatus rp_cpu_isa_set(RpCpuIsa isa);

/* Software prefetch of weights in the CPU kernels of products: the prefetch hint (into which cache) and the prefetch
 * distance (how far ahead). It changes the speed, never a result. */
typedef enum RpCpuPrefetchHint { RP_PREFETCH_NONE, RP_PREFETCH_L1, RP_PREFETCH_L2 } RpCpuPrefetchHint;

typedef struct RpCpuPrefetch {
    RpCpuPrefetchHint hint;
    int32_t           distance; /* bytes, a multiple of 64; 0 for RP_PREFETCH_NONE */
} RpCpuPrefetch;

/* The setting that all executors of this process use; RP_PREFETCH_DEFAULT until the first one is opened. */
#define RP_PREFETCH_DEFAULT ((RpCpuPrefetch){RP_PREFETCH_L2, 4096})
RP_API RpCpuPrefetch rp_cpu_prefetch(void);

/* Changes the setting, also while executors run. RP_E_ARG unless the distance is a multiple of 64 below 1 MiB. */
RP_API RP_NODISCARD RpStatus rp_cpu_prefetch_set(RpCpuPrefetch prefetch);

/* Writes "none", "l1:4096", ... to `out`, which has room for 16 bytes, and returns `out`. */
RP_API const char *rp_cpu_prefetch_text(RpCpuPrefetch prefetch, char *out);

/* Parses REPRISE_PREFETCH. *measure is true for auto: the setting is to be measured, and *out is the default. RP_E_ARG
 * for a value that is not understood. */
RP_API RP_NODISCARD RpStatus rp_cpu_prefetch_option(RpCpuPrefetch *out, bool *measure);

/* Software prefetch is measured once per process, when the first executor with enough block-quantised weights is
 * opened on the CPU and REPRISE_PREFETCH is auto. One entry per candidate, the default first. rp_cpu_prefetch is
 * the one in use. */
typedef struct RpCpuPrefetchTrial {
    RpCpuPrefetch prefetch;
    double        bytes_per_s;     /* weights read by the one thread that measures, per second of its processor time */
    int           workers, rounds; /* 1; rounds that count */
} RpCpuPrefetchTrial;

/* Fills at most `max` entries and returns their number; 0 if nothing was measured. */
RP_API int        rp_cpu_prefetch_trials_sized(RpCpuPrefetchTrial *out, size_t trial_bytes, int max);
static inline int rp_cpu_prefetch_trials(RpCpuPrefetchTrial *out, int max) {
    return rp_cpu_prefetch_trials_sized(out, sizeof *out, max);
}

#ifdef __cplusplus
}
#endif
#endif
