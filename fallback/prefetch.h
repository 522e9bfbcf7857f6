/* prefetch.h - software prefetch of weights that a product reads soon. */
#ifndef FALLBACK_PREFETCH_H
#define FALLBACK_PREFETCH_H

#include "fallback/simd.h"

#include <stdatomic.h>

enum { RP_CACHE_LINE = 64 };

/* What rp_cpu_prefetch tells: distance + hint. */
extern atomic_int rp_prefetch_in_use;

RP_BODY CpuPrefetch rp_prefetch_now(void) {
    const int v = atomic_load_explicit(&rp_prefetch_in_use, memory_order_relaxed);
    return (CpuPrefetch){(CpuPrefetchHint)(v % RP_CACHE_LINE), v - v % RP_CACHE_LINE};
}

/* `bytes` bytes from p on. Prefetching past the end of a mapping is harmless. */
RP_BODY void rp_prefetch(const char *p, size_t bytes) {
    const CpuPrefetchHint hint = rp_prefetch_now().hint;
    if (hint == RP_PREFETCH_L2)
#pragma GCC unroll 64
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 2);
    else if (hint == RP_PREFETCH_L1)
#pragma GCC unroll 64
        for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 3);
}

/* What to prefetch meanwhile: `each` bytes a unit of 16 rows, one after the other from `at` on. */
typedef struct Ahead {
    const char *at;
    size_t      each;
} Ahead;

RP_BODY void rp_prefetch_units(const Ahead *a, int64_t unit, int n) {
    const CpuPrefetchHint hint = rp_prefetch_now().hint;
    const char           *from = a->at + (size_t)unit * a->each, *end = from + (size_t)n * a->each;
    if (hint == RP_PREFETCH_L2)
        for (; from < end; from += RP_CACHE_LINE) __builtin_prefetch(from, 0, 2);
    else if (hint == RP_PREFETCH_L1)
        for (; from < end; from += RP_CACHE_LINE) __builtin_prefetch(from, 0, 3);
}

/* For what is read next: into L1, whatever is in use for weights. */
RP_BODY void rp_prefetch_next(const char *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k, 0, 3);
}

/* The prefetch distance for rows that are read in groups of `group` bytes: whole groups, so that each cache line is
 * prefetched exactly once. */
RP_BODY size_t rp_rows_ahead(size_t group) {
    const size_t distance = (size_t)rp_prefetch_now().distance;
    return group > 0 ? (distance + group - 1) / group * group : distance;
}

#endif
