/* Opens and closes drafters (drafter.h): runners of a draft model, of an MTP layer or of an assistant. */
#include "model/engine/drafter.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Models of one family pad their vocabularies differently, so only the tokens that both have must be equal. Without a
 * tokenizer this cannot be checked; guesses of another vocabulary are wrong, but change no reply. */
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

bool rp_drafter_is_mtp(const RpModel *target, const RpEngineOptions *o) {
    return o->draft == NULL && o->n_mtp > 0 && rp_model_info(target)->mtp;
}

bool rp_drafter_reads_hidden(const RpModel *target, const RpEngineOptions *o) {
    return rp_drafter_is_mtp(target, o) || (o->draft != NULL && rp_model_info(o->draft)->assistant);
}

/* Each request has one guess in a run. */
static RpStatus plan_runners(Drafter *d, const DraftedEngine *of, const char *passes) {
    const int32_t       of_row = (d->n_ctx + d->block - 1) / d->block;
    RpModelGraphOptions shape  = {.n_ctx    = d->n_ctx,
                                  .n_out    = d->n_seq,
                                  .n_seq    = d->n_seq,
                                  .block    = d->block,
                                  .n_blocks = d->n_seq * of_row,
                                  .mtp      = d->mtp};
    if (d->assistant) {
        shape.target          = of->model;
        shape.n_blocks        = of->n_blocks;
        shape.n_window_blocks = of->n_windows;
        shape.kv_type         = of->o->kv_type;
    }
    return rp_engine_plan_runners(d->model, &shape,
                                  (RunnerShapes){.first = 1, .last = d->assistant ? d->n_seq : DRAFTER_STEP}, passes,
                                  d->runners, &d->n_runners);
}

RpStatus rp_drafter_plan(Drafter *d, const DraftedEngine *of, const char *passes) {
    const RpEngineOptions *o = of->o;
    *d              = (Drafter){.n_seq = o->n_seq, .block = o->block, .n_ctx = o->n_ctx, .step_tokens = o->step_tokens};
    d->mtp          = rp_drafter_is_mtp(of->model, o);
    d->model        = d->mtp ? of->model : o->draft;
    d->n_vocab      = rp_model_info(of->model)->n_vocab;
    d->shared_arena = of->arena;
    if (d->model == NULL) return RP_OK;
    d->assistant = rp_model_info(d->model)->assistant;
    if (d->mtp || d->assistant) d->n_embd = rp_model_info(of->model)->n_embd;
    d->shares = d->assistant || (d->mtp && of->apart);
    if (d->mtp) return plan_runners(d, of, passes);
    const int32_t n_train = rp_model_info(d->model)->n_ctx_train;
    if (d->n_ctx > n_train && !d->assistant) d->n_ctx = n_train;
    if (rp_config_state_bytes(&d->model->config) > 0)
        return rp_fail(RP_E_UNSUPPORTED, "a draft model with recurrent states (%s)", rp_model_info(d->model)->arch);
    RP_TRY(check_vocabulary(of->model, d->model, &d->n_vocab));
    return plan_runners(d, of, passes);
}

static size_t hidden_bytes(const Drafter *d) {
    const size_t of_row = d->mtp ? MTP_WAITING + 1 : 1;
    return ((size_t)d->n_seq * of_row + (size_t)d->step_tokens) * (size_t)d->n_embd * sizeof(float);
}

RpStatus rp_drafter_open(Drafter *d, const RpExecutorOptions *o, RpExecutor *engine) {
    RpExecutorOptions mine = *o;
    if (d->model == NULL) return RP_OK;
    d->tokens = malloc(d->assistant ? 1 : (size_t)d->n_seq * (size_t)d->n_ctx * sizeof *d->tokens);
    d->next   = malloc(hidden_bytes(d) + 1);
    if (d->tokens == NULL || d->next == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a drafter");
    if (d->n_embd > 0) d->step = d->next + (size_t)d->n_seq * (size_t)d->n_embd;
    if (d->mtp) d->waiting = d->step + (size_t)d->step_tokens * (size_t)d->n_embd;
    if (d->shares) mine.share = engine, mine.backend = NULL;
    return rp_engine_open_runners(d->model, &mine, d->runners, d->n_runners);
}

void rp_drafter_free(Drafter *d) {
    for (int i = 0; i < d->n_runners; i++) rp_runner_close(&d->runners[i]); /* the others share the last one */
    free(d->tokens);
    free(d->next);
    *d = (Drafter){0};
}

size_t rp_drafter_bytes(const Drafter *d) {
    const RpPlanMemory all = rp_runner_memory(d->runners, d->n_runners);
    size_t sum = hidden_bytes(d) + (d->assistant ? 0 : all.state); /* an assistant has no cache of its own */
    if (!d->shares) return sum + all.arena;
    for (int i = 0; i < d->n_runners; i++) {
        const size_t arena = rp_plan_memory(d->runners[i].plan).arena;
        if (arena > d->shared_arena) sum += arena; /* that of the engine is too small */
    }
    return sum;
}

/* ---- for all guesses ---- */

int32_t rp_drafter_most_probable(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

void rp_drafter_note_seconds(Drafter *d, double took) {
    d->seconds = d->seconds == 0.0 ? took : 0.75 * d->seconds + 0.25 * took;
}
