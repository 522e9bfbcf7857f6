/* A step: its columns are run, and every logit row that was asked for is sampled. */
#include "model/engine/engine.h"

#include "base/clock.h"
#include "base/sampling/held.h"

#include <string.h>

/* Columns [first, first + n) of the step, and their runner. */
typedef struct Part {
    int     runner;
    int32_t first, n;
} Part;

/* Slots of recurrent states: a request's first column starts from its state. Its last one writes the state back, or to
 * the slot of a prefix that ends there; the next step then starts from that slot. */
static void put_slots(const Runner *r, const Column *columns, int32_t n, int32_t i) {
    const Column  *c    = &columns[i];
    const Request *of   = c->request;
    const bool     last = i + 1 == n || c[1].request != of;
    r->slots[1 + i]     = last && c->keep == STATE_NONE ? of->state : c->keep;
    if (i > 0 && c[-1].request == of)
        r->starts[i] = -2;
    else
        r->starts[i] = of->start != STATE_NONE ? of->start : of->n_done == 0 ? -1 : of->state;
}

/* The row of a cache that holds a position of a request; `blocks` are those of the request. */
static int32_t row_of(const RpEngine *e, const int32_t *blocks, int32_t pos) {
    return blocks[pos / e->o.block] * e->o.block + pos % e->o.block;
}

static void put_columns(const RpEngine *e, const Runner *r, const Column *columns, int32_t n) {
    int32_t n_out = 0;
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        const bool    used = i < n;
        const Column *c    = used ? &columns[i] : NULL;
        r->tokens[i]       = used ? c->token : 0;
        r->pos[i]          = used ? c->pos : -1;
        if (r->kv_rows != NULL) r->kv_rows[i] = used ? row_of(e, c->request->blocks, c->pos) : -1;
        if (r->window_rows != NULL) r->window_rows[i] = used ? row_of(e, c->request->windows, c->pos) : -1;
        r->seq[i] = used ? c->request->row : 0;
        if (used && c->output) r->out_rows[n_out++] = i;
        if (r->slots != NULL && used) put_slots(r, columns, n, i);
        if (r->slots != NULL && !used) r->slots[1 + i] = -1, r->starts[i] = -1;
    }
    while (n_out < r->o.n_out) r->out_rows[n_out++] = 0;
    if (r->slots != NULL) r->slots[0] = -1;
    for (int i = 0; i < e->n_running; i++) {
        const Request *q = e->running[i];
        rp_engine_put_blocks(r, q->row, q->blocks, q->windows, q->first_window, q->n_blocks);
    }
}

/* The end of a reply, or its next token. */
typedef struct Ending {
    bool         end;
    RpStatus     status;
    RpStopReason reason;
} Ending;

static Ending ending_of(Request *r, int32_t token) {
    const RpTokenizer *tk = r->out.tokenizer;
    Ending             is = {.status = RP_OK};
    if (!r->given.ignore_end && tk != NULL && rp_tokenizer_is_end(tk, token))
        return (Ending){.end = true, .reason = RP_STOP_END_TOKEN};
    is.status = rp_text_out_put(&r->out, token, &is.end, &is.reason);
    if (is.status != RP_OK) is.end = true;
    if (is.end) return is;
    if (rp_matcher_finished(r->given.matcher))
        is.end = true, is.reason = RP_STOP_GRAMMAR;
    else if (r->given.max_tokens > 0 && r->n_generated >= r->given.max_tokens)
        is.end = true, is.reason = RP_STOP_LIMIT;
    else if (r->n_tokens == r->engine->o.n_ctx)
        is.end = true, is.reason = RP_STOP_CONTEXT;
    return is;
}

/* Tells of a token, or of the failure to sample one. False at the end of the reply. */
static bool tell(Request *r, int32_t token, RpStatus st) {
    const size_t  text = r->engine->n_texts;
    RpEngineEvent v    = {.token = -1};
    Ending        is   = {.end = true, .status = st};
    if (st == RP_OK) {
        if (r->n_generated++ == 0) r->first_s = rp_seconds();
        r->engine->stats.generated++;
        v.token = token;
        if (r->given.on_token != NULL && !r->given.on_token(token, r->given.token_user))
            is.reason = RP_STOP_CANCELLED;
        else
            is = ending_of(r, token);
    }
    if (st == RP_E_CANCELLED) is.status = RP_OK, is.reason = RP_STOP_CANCELLED; /* by on_logprobs */
    if (is.end && is.status == RP_OK && is.reason != RP_STOP_CANCELLED) rp_text_out_rest(&r->out);
    v.end = is.end, v.status = is.status, v.reason = is.reason;
    r->ended = is.end;
    rp_request_event(r, &v, text);
    return !is.end;
}

static RpStatus note_logprobs(const Request *r, const float *logits, int32_t token) {
    RpTokenLogprob chosen;
    if (r->given.on_logprobs == NULL) return RP_OK;
    RP_TRY(rp_logprobs(logits, rp_sampler_n_vocab(r->given.sampler), token, &chosen, r->top, r->given.n_logprobs));
    if (r->given.on_logprobs(&chosen, r->top, (size_t)r->given.n_logprobs, r->given.user)) return RP_OK;
    return rp_fail(RP_E_CANCELLED, "a reply");
}

/* The token after a column: forced, or sampled among those that the grammar allows. */
static RpStatus next_token(Request *r, const float *logits, int32_t *token) {
    const RpRequest *q = &r->given;
    bool             found;
    if (rp_structured_has_forced(&r->structured))
        return rp_structured_forced(&r->structured, r->given.sampler, token, &found);
    RP_TRY(rp_structured_sample(&r->structured, q->sampler, logits, token));
    return note_logprobs(r, logits, *token);
}

/* A prompt that was cancelled leaves no token in the sampler. */
static void accept_prompt(Request *r) {
    for (size_t i = r->given.n_seen; i < r->given.n_prompt && !r->accepted; i++)
        rp_sampler_accept(r->given.sampler, r->tokens[i]);
    r->accepted = true;
}

static bool sample(Request *r, const float *logits, int32_t *token) {
    accept_prompt(r);
    const RpStatus st = next_token(r, logits, token);
    return tell(r, *token, st);
}

/* Appends the forced tokens, which the next step runs; at most as many as there is room for events. */
static void append_forced(Request *r) {
    for (int i = 0; i < MAX_FORCED - 1 && r->structured.matcher != NULL; i++) {
        bool           found;
        int32_t        token = -1;
        const RpStatus st    = rp_structured_forced(&r->structured, r->given.sampler, &token, &found);
        if (st == RP_OK && !found) return;
        if (!tell(r, token, st)) return;
        r->tokens[r->n_tokens++] = token;
    }
}

/* Publishes the blocks that are full now. States that were kept go beside them, others are given back. If that of the
 * last column was kept, the request starts from it. */
static void publish(RpEngine *e, Request *r, const Column *c, int32_t n) {
    const int32_t block = e->o.block, may = rp_request_public(r), end = r->n_done < may ? r->n_done : may;
    while ((r->n_published + 1) * block <= end) {
        const int32_t i = r->n_published++;
        r->blocks[i]    = rp_blocks_publish(&e->blocks, i > 0 ? r->blocks[i - 1] : BLOCK_ROOT, r->blocks[i],
                                            r->tokens + (size_t)i * (size_t)block);
        if (e->windows.n > 0) r->windows[i] = rp_windows_publish(&e->windows, &e->blocks, r->blocks[i], r->windows[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        if (c[i].keep == STATE_NONE) continue;
        const int32_t at = r->blocks[c[i].pos / block];
        if ((c[i].pos + 1) % block == 0 && c[i].pos < end)
            rp_states_keep(&e->states, &e->blocks, at, c[i].keep);
        else
            rp_states_give(&e->states, c[i].keep);
        if (i == n - 1) rp_states_start(&e->states, r->start = e->blocks.all[at].state);
    }
}

/* After guesses of which the last ones were wrong, the state is that after the last right token. */
static void choose_state(RpEngine *e, Request *r, Column *c, int32_t n, int32_t right) {
    if (e->states.n == 0 || right == n) return;
    rp_states_give(&e->states, r->state);
    r->state          = c[right - 1].keep;
    c[right - 1].keep = STATE_NONE;
}

static void count_guesses(RpEngine *e, Request *r, int32_t n, int32_t right) {
    enum { MEMORY = 8 };
    r->n_drafted += n;
    r->n_accepted += right;
    r->goes_on = right == n;
    e->stats.drafted += (uint64_t)n;
    e->stats.accepted += (uint64_t)right;
    for (int32_t i = 0; i < n && i <= right; i++) r->accepts += ((i < right ? 1.0 : 0.0) - r->accepts) / MEMORY;
}

/* The number of columns that have tokens of the reply; the first `right` ones are known to. */
static int32_t right_columns(const Request *r, const Column *c, int32_t n, int32_t right) {
    while (right < n && c[right].pos < r->n_tokens && c[right].token == r->tokens[c[right].pos]) right++;
    return right;
}

/* Columns c[0..n) of a request have been run. A guess is right if it is what the grammar forces, or else what the
 * sampler draws, so that the reply is the same with and without guesses. */
static void finish_columns(RpEngine *e, Column *c, int32_t n) {
    Request      *r       = c->request;
    const int32_t guesses = c[0].pos + 1 == r->n_tokens ? n - 1 : 0, known = n - guesses;
    int32_t       right = known, token = -1;
    r->n_done += known;
    if (r->start != STATE_NONE) e->states.starts[r->start]--, r->start = STATE_NONE;
    if (!c[known - 1].output) {
        publish(e, r, c, n);
        return;
    }
    do {
        if (sample(r, c[right - 1].logits, &token)) {
            r->tokens[r->n_tokens++] = token;
            append_forced(r);
        }
        right = right_columns(r, c, n, right);
    } while (!r->ended && c[right - 1].pos + 1 == r->n_tokens);
    r->n_done += right - known;
    if (guesses > 0) count_guesses(e, r, guesses, right - 1);
    choose_state(e, r, c, n, right);
    publish(e, r, c, n);
}

/* Undoes the step: no token of it counts, and data that it may have overwritten is computed again. */
static void undo(RpEngine *e) {
    for (int32_t i = 0; i < e->n_columns; i++) {
        rp_states_give(&e->states, e->columns[i].keep);
        Request *r = e->columns[i].request;
        if (i == 0 || e->columns[i - 1].request != r) rp_engine_preempt(e, r);
    }
    e->n_columns = 0;
}

static void first_run(RpEngine *e) {
    for (int i = 0; i < e->n_running; i++) {
        Request *r = e->running[i];
        if (r->started || r->n_columns == 0) continue;
        r->started   = true;
        r->started_s = rp_seconds();
        r->n_cached  = r->n_done;
        e->stats.prompt_tokens += (uint64_t)r->n_prompt;
        e->stats.cached += (uint64_t)r->n_done;
    }
}

typedef struct Masks {
    const RpEngine *e;
    const Part     *part;
} Masks;

/* The masks of a part, while a GPU computes its logits: of each request that samples after its first output. An error
 * comes again when the token is sampled. */
static void make_masks(void *user) {
    const Masks *m = user;
    for (int32_t at = 0, n; at < m->part->n; at += n) {
        const Column *c = &m->e->columns[m->part->first + at];
        for (n = 1; at + n < m->part->n && c[n].request == c->request;) n++;
        Structured *x     = &c->request->structured;
        const bool  first = c->pos + 1 == c->request->n_tokens; /* the others are guesses */
        if (!c[first ? 0 : n - 1].output || rp_structured_has_forced(x)) continue;
        const RpStatus st = rp_structured_prepare(x, rp_sampler_n_vocab(c->request->given.sampler));
        (void)st;
    }
}

static bool has_masks(const RpEngine *e, const Part *p) {
    for (int32_t i = 0; i < p->n; i++) {
        const Structured *x = &e->columns[p->first + i].request->structured;
        if (x->matcher != NULL || x->force != NULL) return true;
    }
    return false;
}

/* Notes the time of a run. It replaces a time that is old, which may have been that of a stall. A runner with fewer
 * columns takes no longer. */
static void measure(RpEngine *e, int runner, double took) {
    RunTime       *t     = &e->times[runner];
    const bool     old   = t->seconds > 0.0 && e->stats.steps - t->last_step >= PROBE_STEPS;
    const uint64_t twice = 2 * t->probe_steps < MAX_PROBE_STEPS ? 2 * t->probe_steps : MAX_PROBE_STEPS;
    t->seconds           = old || t->seconds == 0.0 ? took : 0.75 * t->seconds + 0.25 * took;
    t->last_step         = e->stats.steps;
    if (took * 1e3 <= e->o.step_ms)
        t->probe_steps = 0;
    else if (t->probe_steps == 0)
        t->probe_steps = PROBE_STEPS;
    else if (old)
        t->probe_steps = twice;
    for (int i = runner < e->replies.end ? e->replies.first : e->prompts.first; i < runner; i++)
        if (e->times[i].seconds > t->seconds) e->times[i].seconds = t->seconds;
}

/* Runs the columns of a part. */
static RpStatus run_part(RpEngine *e, const Part *p) {
    const Runner *r       = &e->runners[p->runner];
    const size_t  n_vocab = (size_t)rp_model_info(e->model)->n_vocab;
    const double  start   = rp_seconds();
    Column       *c       = e->columns + p->first;
    put_columns(e, r, c, p->n);
    RP_TRY(rp_executor_run_while(r->executor, has_masks(e, p) ? make_masks : NULL, &(Masks){e, p}));
    const double took   = rp_seconds() - start;
    const float *logits = r->logits;
    measure(e, p->runner, took);
    for (int32_t i = 0; i < p->n; i++)
        if (c[i].output) c[i].logits = logits, logits += n_vocab;
    if (e->drafter.n_embd > 0) {
        const size_t n_embd = (size_t)e->drafter.n_embd;
        memcpy(e->drafter.step + (size_t)p->first * n_embd, r->hidden, (size_t)p->n * n_embd * sizeof(float));
    }
    return RP_OK;
}

/* The logits of prompts, which the run of the replies overwrites. */
static void save_logits(RpEngine *e, const Part *p) {
    const size_t n_vocab = (size_t)rp_model_info(e->model)->n_vocab;
    float       *to      = e->logits;
    for (int32_t i = p->first; i < p->first + p->n; i++) {
        if (!e->columns[i].output) continue;
        e->columns[i].logits = memcpy(to, e->columns[i].logits, n_vocab * sizeof *to);
        to += n_vocab;
    }
}

RpStatus rp_engine_run(RpEngine *e) {
    const int32_t n_prompt = e->n_columns - e->n_replies;
    const Part    replies  = {rp_engine_runner(e, e->n_replies), 0, e->n_replies};
    const Part    prompts  = {rp_engine_find_runner(e->runners, e->prompts, n_prompt), e->n_replies, n_prompt};
    const double  start    = rp_seconds();
    RpStatus      st       = RP_OK;
    first_run(e);
    if (prompts.n > 0) st = run_part(e, &prompts);
    if (prompts.n > 0 && replies.n > 0 && st == RP_OK) save_logits(e, &prompts);
    if (replies.n > 0 && st == RP_OK) st = run_part(e, &replies);
    if (st != RP_OK) {
        undo(e);
        return st;
    }
    e->stats.steps++;
    e->stats.tokens += (uint64_t)e->n_columns;
    if (replies.n > 0) e->stats.padding += (uint64_t)(e->runners[replies.runner].o.n_tok - replies.n);
    if (prompts.n > 0) e->stats.padding += (uint64_t)(e->runners[prompts.runner].o.n_tok - prompts.n);
    e->stats.last_step_s      = rp_seconds() - start;
    e->stats.last_step_tokens = e->n_columns;
    for (int32_t at = 0, n; at < e->n_columns; at += n) {
        Request *of = e->columns[at].request;
        for (n = 1; at + n < e->n_columns && e->columns[at + n].request == of;) n++;
        finish_columns(e, &e->columns[at], n);
        of->column   = at;
        of->n_hidden = of->n_done - e->columns[at].pos;
    }
    for (int k = e->n_running - 1; k >= 0; k--)
        if (e->running[k]->ended) rp_request_end(e->running[k]);
    return RP_OK;
}
