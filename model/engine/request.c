/* Requests of an engine: their memory, their blocks and their events. */
#include "model/engine/engine.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PRIORITY = 1000, ERROR_BYTES = 512 };

static RpStatus check(const RpEngine *e, const RpRequest *r) {
    const int32_t n_vocab = rp_model_info(e->model)->n_vocab;
    if (r->n_prompt == 0) return rp_fail(RP_E_ARG, "a request without a prompt");
    if (r->n_prompt > (size_t)e->o.n_ctx)
        return rp_fail(RP_E_CONTEXT_FULL, "a prompt of %zu tokens does not fit: a sequence holds %d", r->n_prompt,
                       e->o.n_ctx);
    if (r->n_seen > r->n_prompt)
        return rp_fail(RP_E_ARG, "a prompt of %zu tokens, of which the sampler has seen %zu: must be at most as many",
                       r->n_prompt, r->n_seen);
    for (size_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "token %d at %zu is outside of the vocabulary of %d", r->prompt[i], i, n_vocab);
    if (rp_sampler_n_vocab(r->sampler) != n_vocab)
        return rp_fail(RP_E_ARG, "the sampler is for a vocabulary of %d tokens, the model has %d",
                       rp_sampler_n_vocab(r->sampler), n_vocab);
    if (r->max_tokens < 0) return rp_fail(RP_E_ARG, "a reply of %d tokens: must be at least 0", r->max_tokens);
    if (r->priority < -MAX_PRIORITY || r->priority > MAX_PRIORITY)
        return rp_fail(RP_E_ARG, "a priority of %d: must be from %d to %d", r->priority, -MAX_PRIORITY, MAX_PRIORITY);
    if (r->n_draft < 0 || r->n_draft > MAX_DRAFT)
        return rp_fail(RP_E_ARG, "guesses of %d tokens: must be from 0 to %d", r->n_draft, MAX_DRAFT);
    if (r->n_logprobs < 0 || r->n_logprobs > n_vocab)
        return rp_fail(RP_E_ARG, "n_logprobs %d: must be from 0 to %d", r->n_logprobs, n_vocab);
    for (size_t i = 0; i < r->n_stop; i++)
        if (r->stop == NULL || r->stop[i] == NULL)
            return rp_fail(RP_E_ARG, "stop string %zu of %zu is NULL", i, r->n_stop);
    return RP_OK;
}

/* Text is appended to that of earlier events; rp_engine_add has reserved room for it. */
static bool collect(const char *text, size_t len, void *user) {
    Request  *r = user;
    RpEngine *e = r->engine;
    memcpy(e->texts + e->n_texts, text, len);
    e->n_texts += len;
    return true;
}

/* The stop strings, in one block of memory: pointers, then texts. */
static RpStatus copy_stops(Request *r, const RpRequest *from) {
    size_t bytes = from->n_stop * sizeof(char *);
    for (size_t i = 0; i < from->n_stop; i++) bytes += strlen(from->stop[i]) + 1;
    if (from->n_stop == 0) return RP_OK;
    const char **copy = malloc(bytes);
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a request");
    char *at = (char *)(copy + from->n_stop);
    for (size_t i = 0; i < from->n_stop; i++) {
        const size_t n = strlen(from->stop[i]) + 1;
        copy[i]        = memcpy(at, from->stop[i], n);
        at += n;
    }
    r->stops        = copy;
    r->options.stop = copy;
    return RP_OK;
}

/* The most events of one step, with the event of its end, and the bytes of their texts. */
static void count_room(const RpEngine *e, Request *r) {
    const size_t held = rp_stop_match_longest(&r->out.stop), forced = r->given.matcher != NULL ? MAX_FORCED : 0;
    r->n_events  = (size_t)r->given.n_draft + 2 + forced;
    r->text_room = r->n_events * (4 * (e->longest_piece + held) + 16) + ERROR_BYTES;
}

RpStatus rp_request_new(RpEngine *e, const RpRequest *from, Request **out) {
    RP_TRY(check(e, from));
    const size_t n_blocks = (size_t)rp_engine_blocks_of(&e->o, e->o.n_ctx);
    Request     *r        = calloc(1, sizeof *r);
    if (r == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a request");
    *r = (Request){
        .engine      = e,
        .given       = *from,
        .n_prompt    = (int32_t)from->n_prompt,
        .n_tokens    = (int32_t)from->n_prompt,
        .row         = -1,
        .state       = STATE_NONE,
        .start       = STATE_NONE,
        .accepts     = 0.7,
        .last_draft  = e->stats.steps,
        .probe_steps = PROBE_STEPS,
        .added_s     = rp_seconds(),
        .options     = {.n_stop        = from->n_stop,
                        .ignore_end    = from->ignore_end,
                        .print_special = from->print_special,
                        .on_text       = collect,
                        .user          = r}
    };
    if (e->drafter.mtp && from->n_draft == 0) r->given.n_draft = e->o.n_mtp;
    r->tokens   = malloc(((size_t)e->o.n_ctx + 1) * sizeof *r->tokens);
    r->blocks   = malloc(n_blocks * sizeof *r->blocks);
    r->windows  = malloc((e->windows.n > 0 ? n_blocks : 1) * sizeof *r->windows);
    RpStatus st = r->tokens == NULL || r->blocks == NULL || r->windows == NULL
                      ? rp_fail(RP_E_NOMEM, "out of memory for a request")
                      : copy_stops(r, from);
    if (st == RP_OK) st = rp_text_out_open(&r->out, rp_model_tokenizer(e->model), &r->options);
    if (st == RP_OK && from->n_logprobs > 0 && (r->top = malloc((size_t)from->n_logprobs * sizeof *r->top)) == NULL)
        st = rp_fail(RP_E_NOMEM, "out of memory for a request");
    if (st == RP_OK)
        st = rp_structured_open(&r->structured, from->matcher, from->sampler, rp_sampler_n_vocab(from->sampler),
                                from->force_token, from->token_user);
    if (st == RP_OK) st = rp_sampler_suppress(from->sampler, rp_model_tokenizer(e->model));
    if (st != RP_OK) {
        rp_request_free(r);
        return st;
    }
    memcpy(r->tokens, from->prompt, from->n_prompt * sizeof *r->tokens);
    count_room(e, r);
    *out = r;
    return RP_OK;
}

void rp_request_free(Request *r) {
    if (r == NULL) return;
    rp_text_out_close(&r->out);
    rp_structured_close(&r->structured, r->given.sampler);
    free(r->top);
    free(r->stops);
    free(r->tokens);
    free(r->blocks);
    free(r->windows);
    free(r);
}

/* Block i lies in the window at the end of the first n blocks. */
static bool in_window_of(const Windows *w, int32_t i, int32_t n) {
    return i < n && i >= rp_windows_first(w, n * w->block);
}

void rp_request_leave_windows(Request *r) {
    Windows      *w     = &r->engine->windows;
    const int32_t first = rp_windows_first(w, r->n_done);
    /* The next turn is likely to begin at the end of the prompt. A request with the same prompt begins one token
     * earlier, since its last token is run again. Other texts begin where this one diverged from them. */
    const int32_t ends[] = {r->n_prompt / w->block, (r->n_prompt - 1) / w->block, r->parting};
    for (; r->first_window < first && r->first_window < r->n_blocks; r->first_window++) {
        const int32_t i      = r->first_window;
        bool          is_end = false;
        for (int k = 0; k < 3; k++) is_end = is_end || in_window_of(w, i, ends[k]);
        rp_windows_release(w, r->windows[i], is_end);
    }
}

static void release_windows(Request *r) {
    for (int32_t i = r->n_blocks - 1; i >= r->first_window; i--)
        rp_windows_release(&r->engine->windows, r->windows[i], i < r->n_published);
    r->first_window = 0;
}

void rp_request_release(Request *r) {
    RpEngine *e = r->engine;
    rp_blocks_use(&e->blocks, r->blocks, r->n_published);
    if (e->windows.n > 0) release_windows(r);
    while (r->n_blocks > 0) rp_blocks_release(&e->blocks, r->blocks[--r->n_blocks]);
    if (r->start != STATE_NONE) e->states.starts[r->start]--;
    rp_states_give(&e->states, r->state);
    if (r->row >= 0) e->rows[r->row] = false;
    r->state = r->start = STATE_NONE;
    r->row              = -1;
    r->n_done = r->n_published = r->n_hidden = 0;
}

void rp_request_event(Request *r, const RpEngineEvent *what, size_t text) {
    RpEngine     *e        = r->engine;
    RpEngineEvent v        = *what;
    const double  now      = rp_seconds();
    v.id                   = r->id;
    v.user                 = r->given.user;
    v.n_text               = e->n_texts - text;
    e->texts[e->n_texts++] = '\0';
    v.n_prompt             = r->n_prompt;
    v.n_cached             = r->n_cached;
    v.n_generated          = r->n_generated;
    v.n_drafted            = r->n_drafted;
    v.n_accepted           = r->n_accepted;
    v.queued_s             = r->started ? r->started_s - r->added_s : now - r->added_s;
    v.first_token_s        = r->n_generated > 0 ? r->first_s - r->added_s : 0.0;
    v.total_s              = now - r->added_s;
    EngineEvent *to        = &e->events[e->n_events++];
    *to                    = (EngineEvent){.event = v, .text = text};
    if (v.status == RP_OK) return;
    to->error      = e->n_texts;
    const size_t n = (size_t)snprintf(e->texts + e->n_texts, ERROR_BYTES, "%s", rp_last_error());
    e->n_texts += (n < ERROR_BYTES ? n : ERROR_BYTES - 1) + 1;
}
