/* The setting of software prefetch: hint and distance, kept in one atomic word so that it can change while executors
 * run. REPRISE_PREFETCH is `auto` (measured at open), `none`, `l1`, `l2`, or a cache with a distance, `l2:8192`. */
#include "fallback/simd/prefetch.h"

#include "base/argument.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DISTANCE = 1 << 20 };

static const char *const names[] = {[RP_PREFETCH_NONE] = "none", [RP_PREFETCH_L1] = "l1", [RP_PREFETCH_L2] = "l2"};
enum { N_HINTS = sizeof names / sizeof names[0] };

atomic_int rp_prefetch_in_use = 4096 + RP_PREFETCH_L2;

RpCpuPrefetch rp_cpu_prefetch(void) { return rp_prefetch_now(); }

RpStatus rp_cpu_prefetch_set(RpCpuPrefetch p) {
    if ((unsigned)p.hint >= N_HINTS || p.distance < 0 || p.distance >= MAX_DISTANCE || p.distance % RP_CACHE_LINE != 0)
        return rp_fail(RP_E_ARG, "prefetch hint %d, distance %d bytes: must be a multiple of %d below %d", (int)p.hint,
                       (int)p.distance, (int)RP_CACHE_LINE, (int)MAX_DISTANCE);
    atomic_store_explicit(&rp_prefetch_in_use, p.distance + (int)p.hint, memory_order_relaxed);
    return RP_OK;
}

const char *rp_cpu_prefetch_text(RpCpuPrefetch p, char *out) {
    if (out == NULL) return NULL;
    if (p.hint == RP_PREFETCH_NONE)
        snprintf(out, 16, "none");
    else
        snprintf(out, 16, "%s:%d", names[(unsigned)p.hint < N_HINTS ? p.hint : 0], (int)p.distance);
    return out;
}

RpStatus rp_cpu_prefetch_option(RpCpuPrefetch *out, bool *measure) {
    RP_NOT_NULL(out, "out");
    RP_NOT_NULL(measure, "measure");

    const char *text = rp_option(RP_OPT_PREFETCH);
    *out             = RP_PREFETCH_DEFAULT;
    *measure         = strcmp(text, "auto") == 0;
    if (*measure) return RP_OK;
    for (int i = 0; i < N_HINTS; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(text, names[i], n) != 0) continue;
        char *end   = NULL;
        long  bytes = i == RP_PREFETCH_NONE ? 0 : out->distance;
        if (text[n] == ':' && i != RP_PREFETCH_NONE) {
            bytes = strtol(text + n + 1, &end, 10);
            if (end == text + n + 1 || *end != '\0' || bytes < 0 || bytes >= MAX_DISTANCE || bytes % RP_CACHE_LINE != 0)
                break;
        } else if (text[n] != '\0') {
            break;
        }
        *out = (RpCpuPrefetch){(RpCpuPrefetchHint)i, (int32_t)bytes};
        return RP_OK;
    }
    return rp_fail(RP_E_ARG, "%s=%s: must be auto, none, l1, l2, l1:BYTES or l2:BYTES, BYTES a multiple of %d below %d",
                   rp_option_name(RP_OPT_PREFETCH), text, (int)RP_CACHE_LINE, (int)MAX_DISTANCE);
}
