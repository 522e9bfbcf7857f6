/* trace.h - what the library does and when. A trace receives an event at the start and at the end of every run, step
 * and node, or writes them to a file that ui.perfetto.dev and chrome://tracing open. Results do not change by it.
 *
 *   RpTrace             *trace;
 *   const RpTraceOptions options = {.path = "trace.json"};
 *   RP_TRY(rp_trace_open(&options, &trace));
 *   RP_TRY(rp_session_prefill(session, ids, n, NULL, NULL));
 *   RP_TRY(rp_trace_close(trace));
 *
 *     run     a call: "generate", "prefill", "score", "engine step", or of a plain executor "run", "part of a run"
 *             (rp_executor_run_steps) and "verify". Runs nest
 *     step    one execution of a plan: a token, or a chunk of a prompt. "part": the nodes of rp_executor_run_steps;
 *             "verify": rp_executor_verify
 *     node    one step of that plan
 *
 * A trace sees the sessions, engines and executors of all threads of the process. Without any trace a step takes one
 * branch more.
 * A node on the CPU is timed between the barriers of the interpreter, by the thread that called. A step on a GPU has
 * its launches and no nodes, because the host does not see the nodes of a graph: rp_executor_profile times these. In
 * mode eager, and in parts of a run, the nodes of a step on a GPU are their launches by the host. A node of "verify"
 * lasts from the copies before it to the return of the callback, in which calls of the library are not traced. Its
 * bytes and launches are those of the executor's kernel, without the reference and the copies. rp_executor_profile is
 * not traced.
 */
#ifndef REPRISE_TRACE_H
#define REPRISE_TRACE_H

#include "reprise/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpTrace RpTrace;

typedef enum RpTraceKind { RP_TRACE_RUN, RP_TRACE_STEP, RP_TRACE_NODE } RpTraceKind;

/* Valid during the call. Members that a kind does not have are 0, NULL or "". The library allocates it, so it can grow
 * at its end. */
typedef struct RpTraceEvent {
    RpTraceKind       kind;
    const char       *name;          /* of the run or the node; of a step "step", "part" or "verify" */
    const char       *op;            /* of a node */
    int32_t           layer;         /* of a node; -1: none */
    int32_t           index;         /* the number in the plan, of a node, or of the first node of a step */
    int32_t           n;             /* run: tokens that it is given; step: nodes that it has */
    size_t            bytes_read;    /* of a node, and of a step at its end: as in RpStepLaunch.bytes */
    size_t            bytes_written; /* of the same */
    int32_t           n_launches;    /* at the end of a step on a GPU: launches of the host, kernels or graphs */
    const char       *device;        /* of a step or a node: "cpu", "cuda:0" */
    RpExecMode        mode;          /* of a step or a node */
    const TensorNode *node;          /* of a node */
    const ExecPlan   *plan;          /* of a step or a node */
    RpStatus          status;        /* at the end: whether it failed */
    int64_t           start_ns;      /* as of rp_trace_now; on one thread every time is later than the one before */
    int64_t           end_ns;        /* 0 at the start */
} RpTraceEvent;

/* Called by the thread that runs. While it runs, the thread's own calls of the library are not traced, and it must not
 * open or close a trace. */
typedef void RpTraceCallback(const RpTraceEvent *event, void *user);

typedef struct RpTraceOptions {
    RpTraceCallback *start; /* or NULL; this and the next are called by several threads at a time if several run */
    RpTraceCallback *end;
    void            *user;   /* handed to both */
    const char      *path;   /* or NULL: write trace events to this file, JSON, or JSON lines if it ends in .jsonl */
    FILE            *stream; /* or NULL: write JSON to this one instead; borrowed until the close */
    size_t           most_bytes; /* of the file: later events are counted, not written; 0: no limit */
} RpTraceOptions;

/* Begins a trace; several may be open. A run or step that is already running has no events in it. A file is written as
 * by rp_new_file_open: it gets its name at the close. An existing file is replaced only if it is a trace, else
 * RP_E_ARG; RP_E_ARG too for options without any output. RP_E_IO, RP_E_NOMEM. The caller closes *out; on failure it is
 * NULL. */
RP_API RP_NODISCARD RpStatus rp_trace_open_sized(const RpTraceOptions *options, size_t options_bytes, RpTrace **out);
RP_NODISCARD static inline RpStatus rp_trace_open(const RpTraceOptions *options, RpTrace **out) {
    return rp_trace_open_sized(options, sizeof *options, out);
}

/* Waits for the steps that are under way, ends the trace and frees it. Callbacks are not called afterwards. RP_E_IO if
 * the file or stream could not be written: then the old file stays. RP_E_STATE within a callback: nothing has changed.
 * RP_OK for NULL. */
RP_API RP_NODISCARD RpStatus rp_trace_close(RpTrace *trace);

/* Events that were not written because of most_bytes; 0 for NULL. */
RP_API uint64_t rp_trace_dropped(const RpTrace *trace);

/* Nanoseconds of the clock of all traces, CLOCK_MONOTONIC. */
RP_API int64_t rp_trace_now(void);

/* Writes a span of the calling program, such as the time that a request waits, if the trace writes a file. Spans of one
 * category and id are one track. Write a span that contains others before them. `args` is a JSON object, or NULL.
 * RP_E_ARG for an end before the start. */
RP_API RP_NODISCARD RpStatus rp_trace_span(RpTrace *trace, const char *category, const char *id, const char *name,
                                           int64_t start_ns, int64_t end_ns, const char *args);

/* The trace of the process, which REPRISE_TRACE=FILE begins at the first rp_executor_open. Errors as rp_trace_open;
 * RP_E_STATE if it has begun. */
RP_API RP_NODISCARD RpStatus rp_trace_begin(const char *path);

/* Ends it; RP_OK without one. A process that exits without this call ends it too, and writes a failure to standard
 * error, since nobody is left to return it to. */
RP_API RP_NODISCARD RpStatus rp_trace_end(void);

#ifdef __cplusplus
}
#endif
#endif
