/* run.c - jobs on an engine: each choice of a job is a request of the engine. */
#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUTPUT_BYTES = 1 << 20, /* of a stream that the event loop has not taken */
    TAIL_BYTES   = 4096,
    MOST_FAILED  = 3 /* steps in a row */
};

static bool on_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    Choice *c = user;
    Job    *j = c->job;
    pthread_mutex_lock(&j->lock);
    if (!j->over) api_answer_logprobs(j->answer, c->index, chosen, top, n_top);
    pthread_mutex_unlock(&j->lock);
    return true;
}

/* Keeps a call for the call log. If memory runs out, the template writes this call later. */
static void keep_call(Model *m, const RpReplyEvent *e) {
    WrittenCall *call = malloc(sizeof *call + e->len);
    if (call == NULL) return;
    call->n = e->len;
    snprintf(call->id, sizeof call->id, "%s", e->id);
    memcpy(call->text, e->text, e->len);
    pthread_mutex_lock(&m->calls_lock);
    call->next = m->calls;
    m->calls   = call;
    pthread_mutex_unlock(&m->calls_lock);
}

static void keep_stop(Choice *c, const RpReplyEvent *e) {
    const ApiRequest *r = &c->job->request;
    for (size_t i = 0; i < r->n_stop && c->stop == NULL; i++)
        if (strcmp(r->stop[i], e->text) == 0) c->stop = r->stop[i];
}

bool run_on_reply(const RpReplyEvent *e, void *user) {
    Choice *c = user;
    Job    *j = c->job;
    if (e->kind == RP_REPLY_END) keep_stop(c, e);
    if (e->kind == RP_REPLY_CALL_END) keep_call(j->model, e);
    pthread_mutex_lock(&j->lock);
    if (!j->over && !c->complete) j->format->event(j->answer, c->index, e, &j->out);
    pthread_mutex_unlock(&j->lock);
    if (e->kind == RP_REPLY_CALL_END && j->request.one_call) c->complete = true;
    return !c->complete;
}

static RpStatus add_choice(Model *m, Choice *c) {
    const ApiRequest *r       = &c->job->request;
    RpRequest         request = {.prompt      = c->prompt.ids,
                                 .n_prompt    = c->prompt.n,
                                 .sampler     = c->sampler,
                                 .max_tokens  = r->max_tokens,
                                 .stop        = (const char *const *)r->stop,
                                 .n_stop      = r->n_stop,
                                 .ignore_end  = r->ignore_end,
                                 .priority    = r->priority,
                                 .n_draft     = m->work->options->n_draft,
                                 .user        = c,
                                 .matcher     = c->matcher,
                                 .on_logprobs = r->n_logprobs >= 0 ? on_logprobs : NULL,
                                 .n_logprobs  = r->n_logprobs > 0 ? r->n_logprobs : 0};
    if (c->reply != NULL) {
        request.stop   = NULL; /* the reply has them */
        request.n_stop = 0;
        RP_TRY(rp_chat_reply_request(c->reply, &request));
    }
    RP_TRY(rp_engine_add(m->engine, &request, &c->id));
    m->live[m->n_live++] = c;
    trace_added(m->work, c);
    return RP_OK;
}

static bool make_room(Model *m, int n) {
    if (m->n_live + (size_t)n <= m->room) return true;
    const size_t room  = 2 * (m->n_live + (size_t)n);
    Choice     **grown = realloc(m->live, room * sizeof *grown);
    if (grown == NULL) return false;
    m->live = grown;
    m->room = room;
    return true;
}

void run_start(Model *m, Job *j) {
    RpStatus st = m->engine == NULL            ? rp_fail(RP_E_STATE, "the engine of %s has failed", m->name)
                  : make_room(m, j->n_choices) ? RP_OK
                                               : rp_fail(RP_E_NOMEM, "out of memory for replies");
    int      n  = 0;
    while (n < j->n_choices && st == RP_OK) {
        st = add_choice(m, &j->choices[n]);
        if (j->request.kind == API_COMPLETION)
            st = job_name_place(st, j->request.prompts, "prompt", (size_t)(n / j->request.n));
        n += st == RP_OK;
    }
    if (st != RP_OK) {
        ApiError error;
        api_error_of(st, &error);
        job_error(j, &error);
        j->n_ended = j->n_choices - n;
        if (n == 0) job_end(j);
        return;
    }
    pthread_mutex_lock(&j->lock);
    if (!j->over) {
        api_answer_begin(j->answer, &j->out);
        j->begun       = true;
        j->begun_bytes = j->out.n;
        if (j->stream) job_ready(j);
    }
    pthread_mutex_unlock(&j->lock);
}

/* Keeps the end of a completion, to find out which of several stop strings it was. */
static void keep_tail(Model *m, Choice *c, int32_t token) {
    RpGgufString text;
    if (token < 0 || c->job->request.n_stop < 2 || c->reply != NULL) return;
    if (rp_token_bytes(rp_model_tokenizer(m->model), token, false, &text) != RP_OK) return;
    if (c->tail.n > TAIL_BYTES) {
        memmove(c->tail.p, c->tail.p + c->tail.n / 2, c->tail.n - c->tail.n / 2);
        c->tail.n -= c->tail.n / 2;
    }
    bytes_put(&c->tail, text.ptr, text.len);
    c->n_last = text.len;
}

/* The first of the stop strings that end in the last token; of several that end there together the longest. */
static const char *stop_of(const Choice *c) {
    const ApiRequest *r     = &c->job->request;
    const char       *first = NULL, *found = NULL;
    if (c->reply != NULL) return c->stop;
    if (r->n_stop == 1) return r->stop[0];
    for (size_t i = 0; i < r->n_stop && c->tail.p != NULL; i++) {
        const size_t n = strlen(r->stop[i]), before = c->tail.n - c->n_last + 1;
        const size_t from = before > n ? before - n : 0;
        const char  *at   = memmem(c->tail.p + from, c->tail.n - from, r->stop[i], n);
        if (at == NULL || (first != NULL && (at + n > first || (at + n == first && n <= strlen(found))))) continue;
        first = at + n;
        found = r->stop[i];
    }
    return found;
}

static RpStopReason reason_of(const Choice *c, const RpEngineEvent *e, const RpChatResult *chat) {
    return c->complete ? RP_STOP_END_TOKEN : c->reply != NULL ? chat->reason : e->reason;
}

static void end_choice(Job *j, Choice *c, const RpEngineEvent *e, const RpChatResult *chat) {
    const RpStopReason reason = reason_of(c, e, chat);
    const ApiEnd       end    = {.reason        = reason,
                                 .stop          = reason == RP_STOP_STRING ? stop_of(c) : NULL,
                                 .n_reasoning   = chat->n_reasoning,
                                 .n_calls       = chat->n_calls,
                                 .n_prompt      = e->n_prompt,
                                 .n_cached      = e->n_cached,
                                 .n_generated   = e->n_generated,
                                 .n_drafted     = e->n_drafted,
                                 .n_accepted    = e->n_accepted,
                                 .queued_s      = e->queued_s,
                                 .first_token_s = e->first_token_s,
                                 .total_s       = e->total_s};
    j->format->end_choice(j->answer, c->index, &end, &j->out);
}

static void count(Model *m, Choice *c, const RpEngineEvent *e) {
    Metrics *metrics = m->work->metrics;
    Job     *j       = c->job;
    if (e->token >= 0 && c->latest_s > 0.0) metrics_observe(metrics, TIME_BETWEEN_TOKENS, e->total_s - c->latest_s);
    if (e->token >= 0 && c->latest_s == 0.0) metrics_observe(metrics, TIME_FIRST_TOKEN, e->first_token_s);
    if (e->token >= 0) c->latest_s = e->total_s;
    pthread_mutex_lock(&j->lock);
    j->tokens.prompt += e->n_prompt - c->counted.prompt;
    j->tokens.cached += e->n_cached - c->counted.cached;
    j->tokens.generated += e->n_generated - c->counted.generated;
    pthread_mutex_unlock(&j->lock);
    c->counted = (TokenCounts){e->n_prompt, e->n_cached, e->n_generated};
    if (!e->end) return;
    metrics_observe(metrics, TIME_QUEUE, e->queued_s);
    metrics_observe(metrics, TIME_TOTAL, e->total_s);
    /* Called before the client has the answer, because it may then send its next request. A prompt counts once, for the
     * first of its replies, as in api_usage. */
    const int64_t prompt = c->index % j->request.n == 0 ? e->n_prompt : 0;
    if (j->key != NULL) key_charge(j->key, prompt + e->n_generated);
}

/* Ends a choice that the engine has finished. */
static void release_choice(Model *m, Choice *c) {
    Job *j = c->job;
    trace_ended(m->work, c);
    for (size_t i = 0; i < m->n_live; i++)
        if (m->live[i] == c) {
            m->live[i] = m->live[--m->n_live];
            break;
        }
    if (++j->n_ended < j->n_choices) return;
    pthread_mutex_lock(&j->lock);
    if (!j->over) {
        api_answer_end(j->answer, &j->out);
        j->content_type = "application/json";
        j->status       = 200;
        j->over         = true;
    }
    pthread_mutex_unlock(&j->lock);
    job_end(j);
}

static void take_event(Model *m, const RpEngineEvent *e) {
    Choice  *c = e->user;
    Job     *j = c->job;
    ApiError error;
    keep_tail(m, c, e->token);
    count(m, c, e);
    trace_seen(m->work, c, e);
    RpChatResult chat = {0};
    RpStatus     st   = e->end && e->status != RP_OK ? rp_fail(e->status, "%s", e->error) : RP_OK;
    if (e->end && c->reply != NULL) st = rp_chat_reply_end(c->reply, e, &chat);
    if (c->complete && st == RP_E_CANCELLED) st = RP_OK;
    if (st != RP_OK) {
        api_error_of(st, &error);
        job_error(j, &error);
    } else {
        bool               lost = false;
        const RpReplyEvent text = {.kind = RP_REPLY_TEXT, .call = -1, .text = e->text, .len = e->n_text};
        pthread_mutex_lock(&j->lock);
        j->describes_tools |= chat.describes_tools;
        if (!j->over) {
            if (e->n_text > 0 && c->reply == NULL) j->format->event(j->answer, c->index, &text, &j->out);
            if (e->end) end_choice(j, c, e, &chat);
            if (j->stream && j->out.n > 0) job_ready(j);
            lost = j->out.failed || (j->stream && j->out.n > OUTPUT_BYTES + j->begun_bytes);
        }
        pthread_mutex_unlock(&j->lock);
        if (lost) {
            api_error_of(rp_fail(RP_E_NOMEM, "out of memory for an answer"), &error);
            job_error(j, &error);
        }
    }
    if (e->end && st == RP_OK) record_end(m, c, e, reason_of(c, e, &chat));
    if (e->end) release_choice(m, c);
}

static void cancel_unwanted(Model *m) {
    for (size_t i = 0; i < m->n_live; i++) {
        Choice *c = m->live[i];
        if (c->ended || !atomic_load(&c->job->cancelled)) continue;
        const RpStatus st = rp_engine_cancel(m->engine, c->id);
        (void)st; /* it fails if the last event is there already */
        c->ended = true;
    }
}

/* The engine cannot go on: all its requests fail, and it is opened again. */
static void restart(Model *m, const char *why) {
    ApiError error;
    api_error_of(rp_fail(RP_E_STATE, "%s", why), &error);
    log_line(m->work->log, "engine_failed", json_pack("{s:s, s:s}", "model", m->name, "error", why));
    pthread_mutex_lock(&m->work->lock);
    worker_keep_stats(m);
    pthread_mutex_unlock(&m->work->lock);
    rp_engine_free(m->engine);
    m->engine       = NULL;
    m->failed_steps = 0;
    while (m->n_live > 0) {
        Choice *c = m->live[0];
        job_error(c->job, &error);
        release_choice(m, c);
    }
    if (m->work->options->memory_bytes > 0 && !m->repacked) m->no_copy = true; /* its room was given away */
    const RpStatus st = worker_open_engine(m);
    if (st == RP_OK) return;
    pthread_mutex_lock(&m->work->lock);
    m->state       = MODEL_STOPPING; /* the next request loads it again */
    m->lost_device = st == RP_E_CUDA;
    snprintf(m->error, sizeof m->error, "%s", rp_last_error());
    pthread_mutex_unlock(&m->work->lock);
}

void run_step(Model *m) {
    RpEngineEvent e;
    char          why[512];
    cancel_unwanted(m);
    const RpStatus st = rp_engine_step(m->engine);
    snprintf(why, sizeof why, "%s", st != RP_OK ? rp_last_error() : "");
    m->failed_steps = st != RP_OK ? m->failed_steps + 1 : 0;
    pthread_mutex_lock(&m->work->lock); /* who has an answer sees it in the metrics */
    m->stats       = rp_engine_stats(m->engine);
    m->n_live_seen = m->n_live;
    pthread_mutex_unlock(&m->work->lock);
    while (rp_engine_poll(m->engine, &e)) take_event(m, &e); /* a step that fails has ended cancelled requests before */
    if (m->failed_steps == MOST_FAILED) restart(m, why);
}
