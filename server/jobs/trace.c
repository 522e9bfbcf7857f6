#include "server/jobs/trace.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/http/query.h"
#include "server/jobs/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SECONDS = 30, MOST_BYTES = 32 << 20, LOOK_NS = 20000000 };

/* ---- replies ---- */

void trace_added(Work *w, Choice *c) {
    ServerTrace *t = &w->trace;
    pthread_mutex_lock(&t->lock);
    c->times = (ChoiceTimes){.added = rp_trace_now()};
    c->next  = t->first;
    t->first = c;
    pthread_mutex_unlock(&t->lock);
}

void trace_seen(Work *w, Choice *c, const RpEngineEvent *e) {
    ServerTrace *t = &w->trace;
    pthread_mutex_lock(&t->lock);
    c->times.latest = rp_trace_now();
    if (e->n_generated > 0 && c->times.first_token == 0) {
        c->times.started     = c->times.added + (int64_t)(1e9 * e->queued_s);
        c->times.first_token = c->times.added + (int64_t)(1e9 * e->first_token_s);
    }
    c->times.n_prompt    = e->n_prompt;
    c->times.n_cached    = e->n_cached;
    c->times.n_generated = e->n_generated;
    pthread_mutex_unlock(&t->lock);
}

static char *describe(const Choice *c) {
    json_t *o    = json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "model", c->job->model->name, "choice", c->index,
                             "prompt_tokens", c->times.n_prompt, "cached_tokens", c->times.n_cached, "generated_tokens",
                             c->times.n_generated, "running", !c->times.over);
    char   *text = o != NULL ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(o);
    return text;
}

/* A span of a reply, if it has begun. Spans in the span of the request end before it. */
static void put(const ServerTrace *t, const Choice *c, const char *name, int64_t start, int64_t end, const char *args) {
    char id[64];
    snprintf(id, sizeof id, c->job->n_choices > 1 ? "%s/%d" : "%s", c->job->id, c->index);
    if (end < start || end < t->since) return;
    const RpStatus st = rp_trace_span(t->trace, "request", id, name, start, end, args);
    (void)st; /* the end is not before the start */
}

/* The spans of a reply that has ended, or of one that runs still. Under the lock. */
static void put_spans(const ServerTrace *t, const Choice *c) {
    const ChoiceTimes *x   = &c->times;
    const int64_t      now = rp_trace_now(), end = now - 1;
    char              *args = describe(c);
    put(t, c, "request", c->job->created_ns, now, args);
    put(t, c, "prepare", c->job->created_ns + 1, x->added, NULL);
    if (x->first_token == 0) {
        put(t, c, "queue", x->added + 1, end, NULL);
    } else {
        put(t, c, "queue", x->added + 1, x->started, NULL);
        put(t, c, "prefill", x->started + 1, x->first_token, NULL);
        put(t, c, "decode", x->first_token + 1, end, NULL);
    }
    free(args);
}

void trace_ended(Work *w, Choice *c) {
    ServerTrace *t = &w->trace;
    pthread_mutex_lock(&t->lock);
    c->times.over = true;
    if (t->trace != NULL) put_spans(t, c);
    for (Choice **at = &t->first; *at != NULL; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&t->lock);
}

bool trace_runs(Work *w) {
    ServerTrace *t = &w->trace;
    pthread_mutex_lock(&t->lock);
    const bool runs = t->trace != NULL;
    pthread_mutex_unlock(&t->lock);
    return runs;
}

/* ---- the job ---- */

/* 1 without `seconds`; 0 if it is no number of the allowed range. */
static double seconds_of(const Job *j) {
    char  *text = http_query(j->query, "seconds"), *end;
    double s    = 1.0;
    if (text != NULL) {
        s = strtod(text, &end);
        if (end == text || *end != '\0' || !(s > 0.0 && s <= MOST_SECONDS)) s = 0.0;
    }
    free(text);
    return s;
}

/* Waits until the time is over or the client no longer wants the trace. */
static void wait(const Job *j, double seconds) {
    const struct timespec look = {.tv_nsec = LOOK_NS};
    const double          end  = http_now() + seconds;
    while (http_now() < end && !atomic_load(&j->cancelled)) nanosleep(&look, NULL);
}

static RpStatus start(ServerTrace *t, FILE *out) {
    const RpTraceOptions o = {.stream = out, .most_bytes = MOST_BYTES};
    RpTrace             *trace;
    RP_TRY(rp_trace_open(&o, &trace));
    pthread_mutex_lock(&t->lock);
    t->trace = trace;
    t->since = rp_trace_now();
    pthread_mutex_unlock(&t->lock);
    return RP_OK;
}

/* Replies that run still have their spans up to now. */
static RpStatus stop(ServerTrace *t) {
    pthread_mutex_lock(&t->lock);
    RpTrace *trace = t->trace;
    for (const Choice *c = t->first; c != NULL; c = c->next) put_spans(t, c);
    t->trace = NULL;
    pthread_mutex_unlock(&t->lock);
    return rp_trace_close(trace);
}

static RpStatus record(Job *j, double seconds, Bytes *out) {
    ServerTrace *t      = &j->work->trace;
    FILE        *stream = open_memstream(&out->p, &out->n);
    if (stream == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a trace");
    RpStatus st = start(t, stream);
    if (st == RP_OK) {
        wait(j, seconds);
        st = stop(t);
    }
    if (fclose(stream) != 0 || st == RP_E_IO) st = rp_fail(RP_E_NOMEM, "out of memory for a trace");
    out->room = out->n + 1;
    return st;
}

/* Lets another trace begin. The second call for a job does nothing. */
static void release(Job *j) {
    Job *owner = j;
    (void)atomic_compare_exchange_strong(&j->work->trace.owner, &owner, NULL);
}

static void prepare(Job *j) {
    const double seconds = seconds_of(j);
    Bytes        out     = {0};
    ApiError     error;
    if (seconds == 0.0) {
        release(j);
        (void)http_refuse(&error, 400, "invalid_request_error", "invalid_value",
                          "seconds must be a number above 0, up to %d.", MOST_SECONDS);
        job_fail(j, &error);
        return;
    }
    const RpStatus st = record(j, seconds, &out);
    release(j); /* before the client hears of it */
    if (st == RP_OK && !atomic_load(&j->cancelled)) {
        job_give(j, &out);
        return;
    }
    bytes_free(&out);
    if (!job_fail_cancelled(j)) job_fail_status(j, st);
}

const JobType trace_job = {.prepare = prepare, .release = release};
