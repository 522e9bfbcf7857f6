/* trace.h - the inside of traces (reprise/trace.h): who listens, and the calls that tell them.
 *
 *     RpTraceRun run = rp_trace_run("prefill", n);             // nothing but a test while nobody listens
 *     ...                                                      // steps: executor/traced.c
 *     rp_trace_run_end(&run, st);
 *
 * Listeners are the open traces, the probes of SystemTap (probes.h), and NVTX as a trace of its own. A step holds a
 * lock that opening and closing a trace waits for, so a listener has all nodes of a step or none. */
#ifndef BASE_TRACE_TRACE_H
#define BASE_TRACE_TRACE_H

#include "base/trace/probes.h"
#include "reprise/trace.h"

#include <stdatomic.h>

extern atomic_int rp_trace_n; /* open traces */

/* True if somebody listens. */
static inline bool rp_trace_on(void) {
    return __builtin_expect((atomic_load_explicit(&rp_trace_n, memory_order_relaxed) | rp_probes_on()) != 0, 0);
}

typedef struct RpTraceRun {
    const char *name; /* NULL: nobody listened at its start */
    int32_t     n;
    int64_t     start_ns;
    uint64_t    opened; /* traces that were opened so far: later ones do not see its end */
} RpTraceRun;

RpTraceRun rp_trace_run_begin(const char *name, size_t n);
void       rp_trace_run_close(const RpTraceRun *run, RpStatus st);

static inline RpTraceRun rp_trace_run(const char *name, size_t n) {
    return rp_trace_on() ? rp_trace_run_begin(name, n) : (RpTraceRun){0};
}

/* Returns `st`. */
static inline RpStatus rp_trace_run_end(const RpTraceRun *run, RpStatus st) {
    if (run->name != NULL) rp_trace_run_close(run, st);
    return st;
}

/* True if the thread is in a run that is traced. */
bool rp_trace_in_run(void);

/* Between the two, which a step calls at its start and end, rp_trace_start and rp_trace_stop tell of events. False: the
 * thread is in a callback, and must not tell of anything. */
bool rp_trace_enter(void);
void rp_trace_leave(void);

/* Both set the time of the event. */
void rp_trace_start(RpTraceEvent *e);
void rp_trace_stop(RpTraceEvent *e);

/* The same for a step in which functions of the caller run, which may open and close traces: no lock is held between
 * its events. The first call starts the step, and *opened is the number of traces that were opened so far: later ones
 * do not see the step, and one that is closed meanwhile does not see its end. */
bool rp_trace_enter_unlocked(RpTraceEvent *step, uint64_t *opened);
void rp_trace_start_unlocked(RpTraceEvent *e, uint64_t opened);
void rp_trace_stop_unlocked(RpTraceEvent *e, uint64_t opened);

/* While true, the thread's calls of the library are not traced. Returns what it was. */
bool rp_trace_mute(bool mute);

/* Begins the trace of the process if REPRISE_TRACE has a path and it was not begun before. */
RP_NODISCARD RpStatus rp_trace_environment(void);

/* ---- writer.c ---- */

typedef struct TraceWriter TraceWriter;

RP_NODISCARD RpStatus rp_trace_writer_open(const RpTraceOptions *o, int64_t start_ns, TraceWriter **out);
RP_NODISCARD RpStatus rp_trace_writer_close(TraceWriter *w);
void                  rp_trace_write(TraceWriter *w, const RpTraceEvent *e);
void     rp_trace_write_span(TraceWriter *w, const char *category, const char *id, const char *name, int64_t start_ns,
                             int64_t end_ns, const char *args);
uint64_t rp_trace_writer_dropped(TraceWriter *w);

#endif
