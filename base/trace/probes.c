#include "base/trace/probes.h"

#if __has_include(<sys/sdt.h>)
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#define FIRE(n, ...) DTRACE_PROBE##n(reprise, __VA_ARGS__)
#else
#define FIRE(n, ...) ((void)0)
#endif

#define X(name) volatile unsigned short reprise_##name##_semaphore __attribute__((section(".probes")));
RP_PROBES(X)
#undef X

static void start(const RpTraceEvent *e) {
    if (e->kind == RP_TRACE_RUN) FIRE(2, run__start, e->name, e->n);
    if (e->kind == RP_TRACE_STEP) FIRE(2, step__start, e->device, e->n);
    if (e->kind == RP_TRACE_NODE) FIRE(3, node__start, e->name, e->op, e->index);
}

static void end(const RpTraceEvent *e, int64_t ns) {
    (void)ns;
    if (e->kind == RP_TRACE_RUN) FIRE(3, run__end, e->name, e->n, ns);
    if (e->kind == RP_TRACE_STEP)
        FIRE(6, step__end, e->device, e->n, ns, e->bytes_read, e->bytes_written, e->n_launches);
    if (e->kind == RP_TRACE_NODE) FIRE(6, node__end, e->name, e->op, e->index, ns, e->bytes_read, e->bytes_written);
}

void rp_probe(const RpTraceEvent *e) {
    if (e->end_ns != 0)
        end(e, e->end_ns - e->start_ns);
    else
        start(e);
}
