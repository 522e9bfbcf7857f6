/* Guesses of a draft model (drafter.h). */
#include "model/engine/drafter.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Vocabularies are padded differently in models of one family: what both have must be the same. Without a tokenizer
 * this is not known; guesses of another vocabulary are wrong, and do no harm. */
static RpStatus check_vocabulary(const RpModel *target, const RpModel *draft, int32_t *n) {
    const RpTokenizer *a = rp_model_tokenizer(target), *b = rp_model_tokenizer(draft);
    const int32_t      n_a = rp_model_info(target)->n_vocab, n_b = rp_model_info(draft)->n_vocab;
    *n = n_a < n_b ? n_a : n_b;
    for (int32_t i = 0; i < *n && i < rp_tokenizer_n_vocab(a) && i < rp_tokenizer_n_vocab(b); i++) {
        RpGgufString s, t;
        RP_TRY(rp_token_bytes(a, i, true, &s));
        RP_TRY(rp_token_bytes(b, i, true, &t));
        if (s.len != t.len || memcmp(s.ptr, t.ptr, s.len) != 0)
            return rp_fail(RP_E_ARG, "the draft model has another vocabulary: its token %d is '%.*s', not '%.*s'", i,
                           (int)(t.len < 64 ? t.len : 64), t.ptr, (int)(s.len < 64 ? s.len : 64), s.ptr);
    }
    return RP_OK;
}

RpStatus rp_drafter_plan(Drafter *d, const RpModel *target, const RpEngineOptions *o, const char *passes) {
    const int32_t n_train = o->draft != NULL ? rp_model_info(o->draft)->n_ctx_train : 0;
    if (o->draft == NULL) return RP_OK;
    *d = (Drafter){
        .model = o->draft, .n_seq = o->n_seq, .block = o->block, .n_ctx = o->n_ctx < n_train ? o->n_ctx : n_train};
    if (rp_config_state_bytes(&d->model->config) > 0)
        return rp_fail(RP_E_UNSUPPORTED, "a draft model with recurrent states (%s)", rp_model_info(d->model)->arch);
    RP_TRY(check_vocabulary(target, d->model, &d->n_vocab));
    const int32_t             of_row = (d->n_ctx + d->block - 1) / d->block;
    const RpModelGraphOptions shape  = {
         .n_ctx = d->n_ctx, .n_seq = d->n_seq, .block = d->block, .n_blocks = d->n_seq * of_row};
    return rp_engine_plan_runners(d->model, &shape, DRAFTER_STEP, passes, d->runners, &d->n_runners);
}

RpStatus rp_drafter_open(Drafter *d, const RpExecutorOptions *o) {
    if (d->model == NULL) return RP_OK;
    d->tokens = malloc((size_t)d->n_seq * (size_t)d->n_ctx * sizeof *d->tokens);
    if (d->tokens == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a draft model");
    return rp_engine_open_runners(d->model, o, d->runners, d->n_runners);
}

void rp_drafter_free(Drafter *d) {
    for (int i = 0; i < d->n_runners; i++) rp_runner_close(&d->runners[i]); /* the others share the last one */
    free(d->tokens);
    *d = (Drafter){0};
}

size_t rp_drafter_bytes(const Drafter *d) {
    const RpPlanMemory p = rp_runner_memory(d->runners, d->n_runners);
    return p.arena + p.state;
}

/* ---- guessing ---- */

_Static_assert((int)MAX_SEQ <= (int)DRAFTER_STEP, "a round fits into one run");

/* Tokens of one run. */
typedef struct Batch {
    int32_t   n;
    DraftJob *job[DRAFTER_STEP]; /* of each column */
    int32_t   token[DRAFTER_STEP];
    int32_t   pos[DRAFTER_STEP];
    bool      output[DRAFTER_STEP]; /* a guess follows */
} Batch;

static void put_batch(const Drafter *d, const Runner *r, const Batch *b) {
    const int32_t of_row = (d->n_ctx + d->block - 1) / d->block;
    int32_t       n_out  = 0;
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        const bool    used = i < b->n;
        const int32_t row  = used ? b->job[i]->row : 0;
        r->tokens[i]       = used ? b->token[i] : 0;
        r->pos[i]          = used ? b->pos[i] : -1;
        r->kv_rows[i]      = used ? row * of_row * d->block + b->pos[i] : -1;
        r->seq[i]          = row;
        if (used && b->output[i]) r->out_rows[n_out++] = i;
    }
    while (n_out < r->o.n_out) r->out_rows[n_out++] = 0;
    for (int32_t i = 0; i < d->n_seq * of_row; i++) r->table[i] = i;
}

static int32_t most_probable(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Runs the columns and takes the guesses. */
static RpStatus run(Drafter *d, Batch *b) {
    const Runner *r       = &d->runners[rp_engine_find_runner(d->runners, d->n_runners, b->n)];
    const size_t  n_vocab = (size_t)rp_model_info(d->model)->n_vocab;
    int32_t       row     = 0;
    put_batch(d, r, b);
    RP_TRY(rp_executor_run(r->executor));
    for (int32_t i = 0; i < b->n; i++) {
        DraftJob *job                                                      = b->job[i];
        d->tokens[(size_t)job->row * (size_t)d->n_ctx + (size_t)b->pos[i]] = b->token[i];
        d->n_past[job->row]                                                = b->pos[i] + 1;
        if (b->output[i])
            job->guess[b->pos[i] + 1 - job->n_tokens] = most_probable(r->logits + (size_t)row++ * n_vocab, d->n_vocab);
    }
    b->n = 0;
    return RP_OK;
}

static RpStatus add(Drafter *d, Batch *b, DraftJob *job, int32_t pos, bool output) {
    const int32_t i = b->n++;
    b->job[i]       = job;
    b->token[i]     = pos < job->n_tokens ? job->tokens[pos] : job->guess[pos - job->n_tokens];
    b->pos[i]       = pos;
    b->output[i]    = output;
    return b->n == d->runners[d->n_runners - 1].o.n_tok ? run(d, b) : RP_OK;
}

/* The first position that the cache does not have, at most that of the last token, whose logits are needed. */
static int32_t first_unseen(const Drafter *d, const DraftJob *job) {
    const int32_t *had = d->tokens + (size_t)job->row * (size_t)d->n_ctx;
    int32_t        n   = d->n_past[job->row];
    if (n > job->n_tokens - 1) n = job->n_tokens - 1;
    int32_t i = 0;
    while (i < n && had[i] == job->tokens[i]) i++;
    return i;
}

/* Tokens that the draft model cannot have are not guessed behind. */
static bool can_guess(const Drafter *d, const DraftJob *job, int32_t from) {
    if (job->n <= 0 || job->n_tokens >= d->n_ctx) return false;
    for (int32_t i = from; i < job->n_tokens; i++)
        if (job->tokens[i] >= d->n_vocab) return false;
    return true;
}

RpStatus rp_drafter_guess(Drafter *d, DraftJob *jobs, int n) {
    Batch   b    = {0};
    int32_t most = 0;
    for (int k = 0; k < n; k++) {
        DraftJob     *job  = &jobs[k];
        const int32_t from = first_unseen(d, job), room = d->n_ctx - job->n_tokens + 1;
        if (job->n > room) job->n = room;
        if (!can_guess(d, job, from)) job->n = 0;
        for (int32_t pos = from; pos < job->n_tokens && job->n > 0; pos++)
            RP_TRY(add(d, &b, job, pos, pos == job->n_tokens - 1));
        if (job->n > most) most = job->n;
    }
    if (b.n > 0) RP_TRY(run(d, &b));
    for (int32_t round = 1; round < most; round++) {
        const double start = rp_seconds();
        for (int k = 0; k < n; k++)
            if (jobs[k].n > round) RP_TRY(add(d, &b, &jobs[k], jobs[k].n_tokens + round - 1, true));
        if (b.n > 0) RP_TRY(run(d, &b));
        const double took = rp_seconds() - start;
        d->seconds        = d->seconds == 0.0 ? took : 0.75 * d->seconds + 0.25 * took;
    }
    return RP_OK;
}
