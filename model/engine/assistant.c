/* Guesses of an assistant (drafter.h). A round is one run, in which each request has one column:
 *
 *     round 0   the last token of the text, and the hidden state of the model that predicted it
 *     round j   the guess of round j - 1, and the hidden state of the assistant behind it
 *
 * All columns of a request have the position of its last token, which the model has not run yet: it runs that token
 * together with the guesses. They attend to the positions before it. The assistant stores nothing, so that wrong
 * guesses leave nothing behind. */
#include "model/engine/drafter.h"

#include "base/clock.h"

#include <string.h>

static float *next_of(const Drafter *d, const DraftJob *job) { return d->next + (size_t)job->row * (size_t)d->n_embd; }

/* Only the last hidden state predicts the next token. */
void rp_assistant_put(Drafter *d, const DraftJob *job, int32_t pos, int32_t n, const float *hidden) {
    const size_t n_embd = (size_t)d->n_embd;
    memcpy(next_of(d, job), hidden + (size_t)(n - 1) * n_embd, n_embd * sizeof(float));
    d->rows[job->row] = (MtpRow){.id = job->id, .waits_from = pos + n};
}

/* The hidden state is that of the request before its last token, and no token is unknown to the assistant. */
static bool can_guess(const Drafter *d, const DraftJob *job) {
    const MtpRow *r    = &d->rows[job->row];
    const int32_t last = job->n_tokens - 1, n_train = rp_model_info(d->model)->n_ctx_train;
    return job->n > 0 && r->id == job->id && r->waits_from == last && last > 0 && last < n_train &&
           job->tokens[last] < d->n_vocab;
}

static void put_column(const Drafter *d, const Runner *r, int32_t i, const DraftJob *job, int32_t round) {
    const size_t n_embd = (size_t)d->n_embd;
    r->tokens[i]        = job == NULL ? 0 : round > 0 ? job->guess[round - 1] : job->tokens[job->n_tokens - 1];
    r->pos[i]           = job == NULL ? -1 : job->n_tokens - 1;
    r->reach[i]         = job == NULL ? -1 : job->n_tokens - 2;
    r->seq[i]           = job == NULL ? 0 : job->row;
    if (i < r->o.n_out) r->out_rows[i] = job == NULL ? 0 : i;
    if (job == NULL) return;
    memcpy(r->hidden + (size_t)i * n_embd, next_of(d, job), n_embd * sizeof(float));
    rp_engine_put_blocks(r, job->row, job->blocks, job->windows, job->first_window, job->n_blocks);
}

/* Adds a guess for each request that wants more guesses than there were rounds. */
static RpStatus run_round(Drafter *d, DraftJob *jobs, int n, int32_t round) {
    const size_t n_embd = (size_t)d->n_embd, n_vocab = (size_t)rp_model_info(d->model)->n_vocab;
    DraftJob    *of[MAX_SEQ];
    int32_t      n_columns = 0;
    for (int k = 0; k < n; k++)
        if (jobs[k].n > round) of[n_columns++] = &jobs[k];
    const Runner *r = &d->runners[rp_engine_find_runner(d->runners, (RunnerSet){0, d->n_runners}, n_columns)];
    for (int32_t i = 0; i < r->o.n_tok; i++) put_column(d, r, i, i < n_columns ? of[i] : NULL, round);
    RP_TRY(rp_executor_run(r->executor));
    for (int32_t i = 0; i < n_columns; i++) {
        of[i]->guess[round] = rp_drafter_most_probable(r->logits + (size_t)i * n_vocab, d->n_vocab);
        memcpy(next_of(d, of[i]), r->next_hidden + (size_t)i * n_embd, n_embd * sizeof(float));
    }
    return RP_OK;
}

RpStatus rp_assistant_guess(Drafter *d, DraftJob *jobs, int n) {
    int32_t most = 0;
    for (int k = 0; k < n; k++) {
        if (!can_guess(d, &jobs[k])) jobs[k].n = 0;
        if (jobs[k].n > 0) d->rows[jobs[k].row].waits_from = 0; /* the rounds take its hidden state */
        if (jobs[k].n > most) most = jobs[k].n;
    }
    for (int32_t round = 0; round < most; round++) {
        const double start = rp_seconds();
        RP_TRY(run_round(d, jobs, n, round));
        rp_drafter_note_seconds(d, rp_seconds() - start);
    }
    return RP_OK;
}
