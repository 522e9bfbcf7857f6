/* Draft models and MTP layers guess here (drafter.h), and assistants in assistant.c. */
#include "model/engine/drafter.h"

#include "base/clock.h"

#include <string.h>

_Static_assert((int)MAX_SEQ <= (int)DRAFTER_STEP, "a round fits into one run");

/* Tokens of one run. */
typedef struct Batch {
    int32_t      n;
    DraftJob    *job[DRAFTER_STEP]; /* of each column */
    int32_t      token[DRAFTER_STEP];
    int32_t      pos[DRAFTER_STEP];
    bool         output[DRAFTER_STEP]; /* a guess follows */
    const float *hidden[DRAFTER_STEP]; /* with mtp */
} Batch;

static const int32_t *tokens_of_row(const Drafter *d, int32_t row) {
    return d->tokens + (size_t)row * (size_t)d->n_ctx;
}

static void put_batch(const Drafter *d, const Runner *r, const Batch *b) {
    const int32_t of_row = (d->n_ctx + d->block - 1) / d->block;
    const size_t  n_embd = (size_t)d->n_embd;
    int32_t       n_out  = 0;
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        const bool    used = i < b->n;
        const int32_t row  = used ? b->job[i]->row : 0;
        const int32_t pos  = used && d->mtp ? b->pos[i] - d->rows[row].first : b->pos[i];
        r->tokens[i]       = used ? b->token[i] : 0;
        r->pos[i]          = used ? pos : -1;
        r->kv_rows[i]      = used ? row * of_row * d->block + pos : -1;
        r->seq[i]          = row;
        if (d->mtp && used) memcpy(r->hidden + (size_t)i * n_embd, b->hidden[i], n_embd * sizeof(float));
        if (used && b->output[i]) r->out_rows[n_out++] = i;
    }
    while (n_out < r->o.n_out) r->out_rows[n_out++] = 0;
    for (int32_t i = 0; i < d->n_seq * of_row; i++) r->table[i] = i;
}

/* Runs the columns and takes the guesses. */
static RpStatus run(Drafter *d, Batch *b) {
    const Runner *r       = &d->runners[rp_engine_find_runner(d->runners, (RunnerSet){0, d->n_runners}, b->n)];
    const size_t  n_vocab = (size_t)rp_model_info(d->model)->n_vocab;
    const size_t  n_embd  = (size_t)d->n_embd;
    size_t        row     = 0;
    put_batch(d, r, b);
    RP_TRY(rp_executor_run(r->executor));
    for (int32_t i = 0; i < b->n; i++) {
        DraftJob *job                                                      = b->job[i];
        d->tokens[(size_t)job->row * (size_t)d->n_ctx + (size_t)b->pos[i]] = b->token[i];
        if (!d->mtp || b->pos[i] < job->n_tokens) d->n_past[job->row] = b->pos[i] + 1;
        if (!b->output[i]) continue;
        job->guess[b->pos[i] + 1 - job->n_tokens] = rp_drafter_most_probable(r->logits + row * n_vocab, d->n_vocab);
        if (d->mtp) memcpy(d->next + (size_t)job->row * n_embd, r->next_hidden + row * n_embd, n_embd * sizeof(float));
        row++;
    }
    b->n = 0;
    return RP_OK;
}

/* The hidden state that predicted the token at `pos`. */
static const float *hidden_of(const Drafter *d, const DraftJob *job, int32_t pos) {
    const size_t n_embd = (size_t)d->n_embd, row = (size_t)job->row;
    if (pos >= job->n_tokens) return d->next + row * n_embd;
    return d->waiting + (row * MTP_WAITING + (size_t)(pos - d->rows[row].waits_from)) * n_embd;
}

/* False after a run that failed. */
static bool is_whole(const Drafter *d, int32_t row) { return d->n_past[row] == d->rows[row].waits_from; }

static int32_t last_waiting(const Drafter *d, int32_t row) {
    return d->rows[row].waits_from + d->rows[row].n_waiting - 1;
}

static RpStatus add(Drafter *d, Batch *b, DraftJob *job, int32_t pos, bool output) {
    const int32_t i = b->n++;
    b->job[i]       = job;
    b->token[i]     = pos < job->n_tokens ? job->tokens[pos] : job->guess[pos - job->n_tokens];
    b->pos[i]       = pos;
    b->output[i]    = output;
    if (d->mtp) b->hidden[i] = hidden_of(d, job, pos);
    return b->n == d->runners[d->n_runners - 1].o.n_tok ? run(d, b) : RP_OK;
}

/* The first position that the cache lacks; at most the position of the last token, whose logits are needed. */
static int32_t first_unseen(const Drafter *d, const DraftJob *job) {
    const int32_t *had = tokens_of_row(d, job->row);
    int32_t        n   = d->n_past[job->row];
    if (d->mtp) return n;
    if (n > job->n_tokens - 1) n = job->n_tokens - 1;
    int32_t i = 0;
    while (i < n && had[i] == job->tokens[i]) i++;
    return i;
}

/* Tokens that the draft model cannot have are not guessed behind. */
static bool can_guess(const Drafter *d, const DraftJob *job, int32_t from) {
    if (job->n <= 0 || job->n_tokens >= d->n_ctx) return false;
    if (d->mtp && d->rows[job->row].id != job->id) return false;
    if (d->mtp) return is_whole(d, job->row) && last_waiting(d, job->row) + 1 == job->n_tokens && from < job->n_tokens;
    for (int32_t i = from; i < job->n_tokens; i++)
        if (job->tokens[i] >= d->n_vocab) return false;
    return true;
}

/* ---- hidden states ---- */

/* Runs the waiting columns without a guess. */
static RpStatus run_waiting(Drafter *d, DraftJob *job) {
    MtpRow *r = &d->rows[job->row];
    Batch   b = {0};
    for (int32_t pos = r->waits_from; pos < r->waits_from + r->n_waiting; pos++) RP_TRY(add(d, &b, job, pos, false));
    if (b.n > 0) RP_TRY(run(d, &b));
    r->waits_from = d->n_past[job->row];
    r->n_waiting  = 0;
    return RP_OK;
}

/* The next column of the row is `from`. The columns before it are kept, if the row has computed them for the same
 * text. */
static void begin_row(Drafter *d, const DraftJob *job, int32_t from) {
    MtpRow      *r    = &d->rows[job->row];
    int32_t     *had  = d->tokens + (size_t)job->row * (size_t)d->n_ctx;
    const size_t text = (size_t)from * sizeof *had;
    const bool   same = r->first <= from && d->n_past[job->row] >= from && memcmp(had, job->tokens, text) == 0;
    if (!same || r->id == 0) r->first = from;
    memcpy(had, job->tokens, text);
    d->n_past[job->row] = r->waits_from = from;
    r->n_waiting                        = 0;
}

RpStatus rp_drafter_put(Drafter *d, const DraftJob *job, int32_t pos, int32_t n, const float *hidden) {
    if (d->assistant) {
        rp_assistant_put(d, job, pos, n, hidden);
        return RP_OK;
    }
    const size_t n_embd = (size_t)d->n_embd;
    DraftJob     of     = *job;
    MtpRow      *r      = &d->rows[of.row];
    if (r->id != of.id || !is_whole(d, of.row) || pos != last_waiting(d, of.row)) begin_row(d, &of, pos + 1);
    r->id = of.id;
    for (int32_t i = 0; i < n; i++) {
        if (r->n_waiting == MTP_WAITING) RP_TRY(run_waiting(d, &of));
        memcpy(d->waiting + ((size_t)of.row * MTP_WAITING + (size_t)r->n_waiting++) * n_embd,
               hidden + (size_t)i * n_embd, n_embd * sizeof(float));
    }
    return RP_OK;
}

/* ---- rounds ---- */

/* Tokens that were not seen, and the first guess behind them. A draft model reads at most MOST_UNSEEN tokens, because
 * all requests wait for it. It guesses for a request once it has read all of its text. */
static RpStatus first_round(Drafter *d, DraftJob *jobs, int n) {
    const double start   = rp_seconds();
    int32_t      columns = 0, guessing = 0, left = MOST_UNSEEN;
    Batch        b = {0};
    for (int k = 0; k < n; k++) {
        DraftJob     *job  = &jobs[k];
        const int32_t from = first_unseen(d, job), room = d->n_ctx - job->n_tokens + 1;
        if (job->n > room) job->n = room;
        if (!can_guess(d, job, from)) job->n = 0;
        if (job->n <= 0) continue;
        const int32_t end = d->mtp || job->n_tokens - from <= left ? job->n_tokens : from + left;
        left -= end - from, columns += end - from, guessing++;
        for (int32_t pos = from; pos < end; pos++) RP_TRY(add(d, &b, job, pos, pos == job->n_tokens - 1));
        if (end < job->n_tokens) job->n = 0;
    }
    if (b.n > 0) RP_TRY(run(d, &b));
    if (guessing > 0 && columns <= 2 * guessing) rp_drafter_note_seconds(d, rp_seconds() - start);
    for (int k = 0; k < n && d->mtp; k++)
        if (jobs[k].n > 0) d->rows[jobs[k].row].waits_from = jobs[k].n_tokens, d->rows[jobs[k].row].n_waiting = 0;
    return RP_OK;
}

RpStatus rp_drafter_guess(Drafter *d, DraftJob *jobs, int n) {
    Batch   b    = {0};
    int32_t most = 0;
    if (d->assistant) return rp_assistant_guess(d, jobs, n);
    RP_TRY(first_round(d, jobs, n));
    for (int k = 0; k < n; k++)
        if (jobs[k].n > most) most = jobs[k].n;
    for (int32_t round = 1; round < most; round++) {
        const double start = rp_seconds();
        for (int k = 0; k < n; k++)
            if (jobs[k].n > round) RP_TRY(add(d, &b, &jobs[k], jobs[k].n_tokens + round - 1, true));
        if (b.n > 0) RP_TRY(run(d, &b));
        rp_drafter_note_seconds(d, rp_seconds() - start);
    }
    return RP_OK;
}
