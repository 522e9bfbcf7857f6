/* prefetch.h - what is asked of memory ahead of its use. */
#ifndef FALLBACK_PREFETCH_H
#define FALLBACK_PREFETCH_H

#include "fallback/simd.h"

/* Bytes between what is multiplied and what is asked of memory: the processor's own prefetching stops at the end
 * of a page of 4 KB, and starts late on several rows. Asking for what is past the last row is harmless. */
enum { RP_AHEAD = 4096, RP_CACHE_LINE = 64 };

RP_BODY void rp_prefetch(const char *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += RP_CACHE_LINE) __builtin_prefetch(p + k);
}

/* Of rows that are taken a group at a time, whose bytes these are: whole groups, so that each byte is asked for
 * once, in time. */
RP_BODY size_t rp_rows_ahead(size_t group) {
    return group > 0 ? (RP_AHEAD + group - 1) / group * group : RP_AHEAD;
}

#endif
