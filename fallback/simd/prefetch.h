/* prefetch.h - software prefetch of weights. Decode is limited by memory bandwidth and the hardware prefetcher
 * stops at page boundaries, so kernels request the weights that they read next, a fixed distance ahead. It changes
 * speed only. */
#ifndef FALLBACK_SIMD_PREFETCH_H
#define FALLBACK_SIMD_PREFETCH_H

#include "fallback/simd/simd.h"

#include <stdatomic.h>

enum { RP_CACHE_LINE = 64 };

/* The setting in use, rp_cpu_prefetch(), in one atomic word: distance + hint. The distance is a multiple of 64
 * bytes, so the hint fits below it. */
extern atomic_int rp_prefetch_in_use;

RP_BODY RpCpuPrefetch rp_prefetch_now(void) {
    const int v = atomic_load_explicit(&rp_prefetch_in_use, memory_order_relaxed), hint = v & (RP_CACHE_LINE - 1);
    return (RpCpuPrefetch){(RpCpuPrefetchHint)hint, v - hint};
}

/* Prefetches p[0..bytes) with the hint in use. Prefetch instructions never fault, so p may point past a mapping.
 * `bytes` is a constant once the kernels are inlined, so the loop unrolls. */
RP_BODY void rp_prefetch(const char *p, size_t bytes) {
    const RpCpuPrefetchHint hint = rp_prefetch_now().hint;
    if (hint == RP_PREFETCH_L2)
#pragma GCC unroll 64
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 2);
    else if (hint == RP_PREFETCH_L1)
#pragma GCC unroll 64
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 3);
}

/* A contiguous stream of weights to prefetch while a panel is packed or multiplied: sub_bytes for each sub-block of
 * 16 rows, sub-block u from at + u * sub_bytes on. */
typedef struct PrefetchStream {
    const char *at;
    size_t      sub_bytes;
} PrefetchStream;

/* The share of n sub-blocks, from sub-block `sub` on. */
RP_BODY void rp_prefetch_subs(const PrefetchStream *a, int64_t sub, int n) {
    const RpCpuPrefetchHint hint = rp_prefetch_now().hint;
    const char             *from = a->at + (size_t)sub * a->sub_bytes, *end = from + (size_t)n * a->sub_bytes;
    if (hint == RP_PREFETCH_L2)
        for (; from < end; from += RP_CACHE_LINE) __builtin_prefetch(from, 0, 2);
    else if (hint == RP_PREFETCH_L1)
        for (; from < end; from += RP_CACHE_LINE) __builtin_prefetch(from, 0, 3);
}

/* Prefetches data that is read next into L2 if `to` says so, else into L1, whatever the hint for weights is. `bytes`
 * need not be a constant, so the loops do not unroll. */
RP_BODY void rp_prefetch_next(RpCpuPrefetchHint to, const char *p, size_t bytes) {
    if (to == RP_PREFETCH_L2)
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 2);
    else
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 3);
}

/* The prefetch distance in bytes, rounded up to whole row groups of `row_group` bytes, so that each cache line is
 * prefetched exactly once. Example: four rows of 1152 bytes are a group of 4608; a distance of 4096 becomes 4608. */
RP_BODY size_t rp_prefetch_distance(size_t row_group) {
    const size_t distance = (size_t)rp_prefetch_now().distance;
    return row_group > 0 ? (distance + row_group - 1) / row_group * row_group : distance;
}

#endif
