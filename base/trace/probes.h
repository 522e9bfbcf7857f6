/* probes.h - static probes of SystemTap (USDT) for perf, bpftrace and gdb: provider "reprise", probes run__start,
 * run__end, step__start, step__end, node__start and node__end. Each is one nop and a semaphore, which the tool that
 * attaches counts up. A build without sys/sdt.h has none.
 *
 *     arguments   1        2        3            4             5               6
 *     run         name     tokens   ns
 *     step        device   nodes    ns           bytes read    bytes written   launches
 *     node        name     op       plan step    ns            bytes read      bytes written
 *
 * Times, bytes and launches are those of the end probes only. */
#ifndef BASE_TRACE_PROBES_H
#define BASE_TRACE_PROBES_H

#include "reprise/trace.h"

#define RP_PROBES(X) X(run__start) X(run__end) X(step__start) X(step__end) X(node__start) X(node__end)

/* The names are those that sys/sdt.h gives them. */
#define X(name) extern volatile unsigned short reprise_##name##_semaphore __attribute__((visibility("hidden")));
RP_PROBES(X)
#undef X

/* Not 0 if a tool is attached to a probe. */
#define X(name) | reprise_##name##_semaphore
static inline int rp_probes_on(void) { return 0 RP_PROBES(X); }
#undef X

/* Fires the probe of the event, if a tool is attached to it. */
void rp_probe(const RpTraceEvent *e);

#endif
