/* The open traces, and the calls that tell them of events.
 *
 *     step       read lock ......... start, nodes, end ......... unlock
 *     run        read lock, start, unlock   ...   read lock, end, unlock
 *     open, close                                                       write lock
 *
 * The lock prefers writers, else engines whose steps overlap would keep a trace from being opened. So no thread may
 * take it twice: within a callback nothing is traced. */
#include "base/trace/trace.h"

#include "base/argument.h"
#include "base/sized.h"
#include "reprise/options.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct RpTrace {
    RpTrace       *next;
    RpTraceOptions o;
    TraceWriter   *writer; /* or NULL */
    uint64_t       number; /* of the traces that were opened before it */
};

/* State of each thread. */
static _Thread_local struct {
    int     runs;   /* that it is in and that are traced */
    bool    inside; /* a callback runs */
    bool    muted;  /* rp_trace_mute */
    int64_t last;   /* time of its latest event */
} mine;

atomic_int              rp_trace_n;
static RpTrace         *traces; /* under the lock */
static uint64_t         opened; /* how many so far; under the lock */
static pthread_rwlock_t lock;
static pthread_once_t   once = PTHREAD_ONCE_INIT;

/* The trace of the process (rp_trace_begin). */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static RpTrace        *process_trace;
static bool            has_begun; /* REPRISE_TRACE has been looked at, or a program has begun it */

static void make_lock(void) {
    pthread_rwlockattr_t a;
    pthread_rwlockattr_init(&a);
#ifdef __GLIBC__
    pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    pthread_rwlock_init(&lock, &a);
    pthread_rwlockattr_destroy(&a);
}

/* A process that was forked has no traces: their files belong to its parent. */
static void forget_all(void) {
    atomic_store(&rp_trace_n, 0);
    traces        = NULL;
    process_trace = NULL;
    mine.runs     = 0;
    make_lock();
    pthread_mutex_init(&process_lock, NULL);
}

static void init(void) {
    make_lock();
    (void)pthread_atfork(NULL, NULL, forget_all);
}

int64_t rp_trace_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- events ---- */

/* No two events of a thread have the same time, because readers derive the nesting of events from their times. */
static int64_t next_time(void) {
    const int64_t now = rp_trace_now();
    mine.last         = now > mine.last ? now : mine.last + 1;
    return mine.last;
}

/* To traces that were opened before number `before`. */
static void tell(const RpTraceEvent *e, uint64_t before) {
    mine.inside = true;
    for (const RpTrace *t = traces; t != NULL; t = t->next) {
        RpTraceCallback *callback = e->end_ns != 0 ? t->o.end : t->o.start;
        if (t->number >= before) continue;
        if (callback != NULL) callback(e, t->o.user);
        if (t->writer != NULL && e->end_ns != 0) rp_trace_write(t->writer, e);
    }
    rp_probe(e);
    mine.inside = false;
}

bool rp_trace_enter(void) {
    if (mine.inside || mine.muted) return false;
    pthread_once(&once, init);
    pthread_rwlock_rdlock(&lock);
    return true;
}

void rp_trace_leave(void) { pthread_rwlock_unlock(&lock); }

bool rp_trace_in_run(void) { return mine.runs > 0; }

void rp_trace_start(RpTraceEvent *e) {
    e->start_ns = next_time();
    e->end_ns   = 0;
    tell(e, UINT64_MAX);
}

void rp_trace_stop(RpTraceEvent *e) {
    e->end_ns = next_time();
    tell(e, UINT64_MAX);
}

bool rp_trace_mute(bool mute) {
    const bool before = mine.muted;
    mine.muted        = mute;
    return before;
}

bool rp_trace_enter_unlocked(RpTraceEvent *step, uint64_t *n) {
    if (!rp_trace_enter()) return false;
    rp_trace_start(step);
    *n = opened;
    rp_trace_leave();
    return true;
}

void rp_trace_start_unlocked(RpTraceEvent *e, uint64_t n) {
    if (!rp_trace_enter()) return;
    e->start_ns = next_time();
    e->end_ns   = 0;
    tell(e, n);
    rp_trace_leave();
}

void rp_trace_stop_unlocked(RpTraceEvent *e, uint64_t n) {
    if (!rp_trace_enter()) return;
    e->end_ns = next_time();
    tell(e, n);
    rp_trace_leave();
}

static RpTraceEvent event_of(const RpTraceRun *run) {
    return (RpTraceEvent){.kind     = RP_TRACE_RUN,
                          .name     = run->name,
                          .op       = "",
                          .layer    = -1,
                          .n        = run->n,
                          .device   = "",
                          .start_ns = run->start_ns};
}

RpTraceRun rp_trace_run_begin(const char *name, size_t n) {
    RpTraceRun run = {.name = name, .n = n < INT32_MAX ? (int32_t)n : INT32_MAX};
    if (!rp_trace_enter()) return (RpTraceRun){0};
    RpTraceEvent e = event_of(&run);
    rp_trace_start(&e);
    run.start_ns = e.start_ns;
    run.opened   = opened;
    rp_trace_leave();
    mine.runs++;
    return run;
}

void rp_trace_run_close(const RpTraceRun *run, RpStatus st) {
    RpTraceEvent e = event_of(run);
    mine.runs--;
    if (!rp_trace_enter()) return;
    e.status = st;
    e.end_ns = next_time();
    tell(&e, run->opened);
    rp_trace_leave();
}

/* ---- open, close ---- */

RpStatus rp_trace_open_sized(const RpTraceOptions *options, size_t options_bytes, RpTrace **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(options, "options");

    RpTraceOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpTraceOptions"));
    if (mine.inside) return rp_fail(RP_E_STATE, "a trace is opened within a callback of a trace");
    if (o.start == NULL && o.end == NULL && o.path == NULL && o.stream == NULL)
        return rp_fail(RP_E_ARG, "a trace without a callback, a path and a stream");
    if (o.path != NULL && o.stream != NULL) return rp_fail(RP_E_ARG, "a trace with a path and a stream");
    RpTrace *t = calloc(1, sizeof *t);
    if (t == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a trace");
    t->o = o;
    const RpStatus st =
        o.path != NULL || o.stream != NULL ? rp_trace_writer_open(&o, rp_trace_now(), &t->writer) : RP_OK;
    if (st != RP_OK) {
        free(t);
        return st;
    }
    t->o.path = NULL; /* of the caller */
    pthread_once(&once, init);
    pthread_rwlock_wrlock(&lock);
    t->number = opened++;
    t->next   = traces;
    traces    = t;
    atomic_fetch_add(&rp_trace_n, 1);
    pthread_rwlock_unlock(&lock);
    *out = t;
    return RP_OK;
}

/* Waits for all steps that are under way. False: a fork has taken the trace away. */
static bool take_out(const RpTrace *t) {
    bool found = false;
    pthread_once(&once, init);
    pthread_rwlock_wrlock(&lock);
    for (RpTrace **at = &traces; *at != NULL; at = &(*at)->next)
        if (*at == t) {
            *at   = t->next;
            found = true;
            break;
        }
    if (found) atomic_fetch_sub(&rp_trace_n, 1);
    pthread_rwlock_unlock(&lock);
    return found;
}

RpStatus rp_trace_close(RpTrace *t) {
    if (t == NULL) return RP_OK;
    if (mine.inside) return rp_fail(RP_E_STATE, "a trace is closed within a callback of a trace");
    if (!take_out(t)) return rp_fail(RP_E_STATE, "a trace is closed in another process than the one that opened it");
    const RpStatus st = t->writer != NULL ? rp_trace_writer_close(t->writer) : RP_OK;
    free(t);
    return st;
}

uint64_t rp_trace_dropped(const RpTrace *t) {
    return t != NULL && t->writer != NULL ? rp_trace_writer_dropped(t->writer) : 0;
}

RpStatus rp_trace_span(RpTrace *t, const char *category, const char *id, const char *name, int64_t start_ns,
                       int64_t end_ns, const char *args) {
    RP_NOT_NULL(t, "trace");
    RP_NOT_NULL(category, "category");
    RP_NOT_NULL(id, "id");
    RP_NOT_NULL(name, "name");
    if (end_ns < start_ns)
        return rp_fail(RP_E_ARG, "span '%s' of a trace ends %llu ns before its start", name,
                       (unsigned long long)start_ns - (unsigned long long)end_ns);
    if (t->writer != NULL) rp_trace_write_span(t->writer, category, id, name, start_ns, end_ns, args);
    return RP_OK;
}

/* ---- the trace of the process ---- */

static void end_at_exit(void) {
    if (rp_trace_end() != RP_OK) fprintf(stderr, "reprise: the trace was lost: %s\n", rp_last_error());
}

/* Under process_lock. */
static RpStatus begin(const char *path) {
    static bool registered;
    if (process_trace != NULL) return rp_fail(RP_E_STATE, "%s: the trace of the process has begun already", path);
    const RpTraceOptions o = {.path = path};
    RP_TRY(rp_trace_open(&o, &process_trace));
    has_begun = true;
    if (!registered) registered = atexit(end_at_exit) == 0;
    return RP_OK;
}

RpStatus rp_trace_begin(const char *path) {
    RP_NOT_NULL(path, "path");

    pthread_mutex_lock(&process_lock);
    const RpStatus st = begin(path);
    pthread_mutex_unlock(&process_lock);
    return st;
}

RpStatus rp_trace_end(void) {
    if (mine.inside) return rp_fail(RP_E_STATE, "a trace is closed within a callback of a trace");
    pthread_mutex_lock(&process_lock);
    RpTrace *t    = process_trace;
    process_trace = NULL;
    pthread_mutex_unlock(&process_lock);
    return rp_trace_close(t);
}

RpStatus rp_trace_environment(void) {
    const char *path = rp_option(RP_OPT_TRACE);
    RpStatus    st   = RP_OK;
    if (path[0] == '\0') return RP_OK;
    pthread_mutex_lock(&process_lock);
    if (!has_begun) st = begin(path);
    pthread_mutex_unlock(&process_lock);
    return st;
}
