#include "model/structured.h"

#include "model/sampler/sampler.h"

#include <stdlib.h>

RpStatus rp_structured_open(Structured *x, RpMatcher *matcher, RpSampler *sampler, int32_t n_vocab, RpForceToken *force,
                            void *user) {
    *x = (Structured){.matcher = matcher, .force = force, .user = user};
    if (matcher == NULL) return RP_OK;
    if (rp_matcher_n_vocab(matcher) != n_vocab)
        return rp_fail(RP_E_ARG, "the matcher is for a vocabulary of %d tokens, the model has %d",
                       rp_matcher_n_vocab(matcher), n_vocab);
    x->bits = calloc(((size_t)n_vocab + 31) / 32, sizeof *x->bits);
    if (x->bits == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a mask of %d tokens", n_vocab);
    rp_sampler_set_mask(sampler, x->bits);
    return RP_OK;
}

void rp_structured_close(Structured *x, RpSampler *sampler) {
    if (x->bits != NULL) rp_sampler_set_mask(sampler, NULL);
    free(x->bits);
    rp_token_list_free(&x->forced);
    rp_token_list_free(&x->pending);
}

RpStatus rp_structured_prepare(Structured *x, int32_t n_vocab) {
    if (x->ready) return RP_OK;
    if (!x->asked) x->given = x->force != NULL ? x->force(x->user) : -1;
    x->asked = true;
    if (x->given >= n_vocab)
        return rp_fail(RP_E_ARG, "force_token gave token %d, the vocabulary has %d", x->given, n_vocab);
    if (x->given < 0 && x->matcher != NULL) RP_TRY(rp_matcher_mask(x->matcher, x->bits));
    x->ready = true;
    return RP_OK;
}

RpStatus rp_structured_take(Structured *x, int32_t token) {
    x->asked = x->ready = false;
    return x->matcher != NULL ? rp_matcher_accept(x->matcher, token) : RP_OK;
}

RpStatus rp_structured_sample(Structured *x, RpSampler *sampler, const float *logits, int32_t *token) {
    RP_TRY(rp_structured_prepare(x, rp_sampler_n_vocab(sampler)));
    if (x->given < 0) RP_TRY(rp_sampler_sample(sampler, logits, token));
    if (x->given >= 0) rp_sampler_force(sampler, logits, *token = x->given);
    return rp_structured_take(x, *token);
}

RpStatus rp_structured_flush(Structured *x, RpSession *s) {
    if (x->pending.n == 0) return RP_OK;
    const RpStatus st = rp_session_prefill(s, x->pending.ids, x->pending.n, NULL, NULL);
    x->pending.n      = 0;
    return st;
}

RpStatus rp_structured_forced(Structured *x, RpSampler *sampler, int32_t *token, bool *found) {
    if (!rp_structured_has_forced(x)) {
        x->forced.n = x->n_taken = 0;
        RP_TRY(rp_matcher_forced(x->matcher, &x->forced));
    }
    *found = rp_structured_has_forced(x);
    if (!*found) return RP_OK;
    *token = x->forced.ids[x->n_taken++];
    rp_sampler_force(sampler, NULL, *token);
    return rp_matcher_accept(x->matcher, *token);
}

RpStatus rp_structured_next(Structured *x, RpSampler *sampler, int32_t *token, bool *found) {
    RP_TRY(rp_token_list_push(&x->pending, *token));
    return rp_structured_forced(x, sampler, token, found);
}
