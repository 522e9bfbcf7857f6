/* A reply whose tokens are sampled on the device. The sampler's state is copied there once. Each step then
 * reads its token and position from the step state and writes the next (I4), and only token ids return.
 *
 *     step state, i32 words:  RpStepState [RP_STEP_WORDS], recent tokens [repeat_last_n] as a ring
 */
#include "model/reply.h"

#include "model/sampler/sampler.h"
#include "reprise/step.h"

#include <stdio.h>
#include <string.h>

/* The step state on the device has a ring of RECENT_TOKENS. */
const char *rp_session_host_sampling(const RpSession *s, const RpSampler *sampler, const RpGenerateOptions *o) {
    size_t n_words;
    (void)rp_sampler_state(sampler, &n_words);
    if (s->sampling.executor == NULL) return NULL;
    if (rp_sampler_is_observed(sampler)) return "an observer of the sampler";
    if (o->on_logprobs != NULL) return "log probabilities";
    if (o->matcher != NULL) return "grammar";
    if (o->force_token != NULL) return "forced tokens";
    if (n_words > RP_STEP_WORDS + RECENT_TOKENS) return "repeat_last_n";
    return rp_sampler_host_only(sampler)[0] != '\0' ? rp_sampler_host_only(sampler) : NULL;
}

/* Mask and penalties are data of the graph that samples (I4): a copy of 16 bytes, with a mask also of one bit a token,
 * and nothing where there are none. */
static RpStatus set_extra(RpSession *s, const RpSampler *sampler) {
    RpSampleExtra   e;
    const uint32_t *mask = rp_sampler_extra(sampler, &e);
    const bool      used = mask != NULL || e.frequency_penalty != 0.0f || e.presence_penalty != 0.0f;
    const size_t    n    = mask != NULL ? ((size_t)rp_sampler_n_vocab(sampler) + 31) / 32 : 0;
    if (!used && !s->has_extra) return RP_OK;
    memcpy(s->extra, &e, sizeof e);
    if (n > 0) memcpy(s->extra + RP_SAMPLE_EXTRA_WORDS, mask, n * sizeof *mask);
    s->has_extra = used;
    return rp_executor_set(s->sampling.executor, s->sampling.extra, s->extra, sizeof e + n * sizeof *mask);
}

RpStatus rp_session_reply_begin(RpSession *s, const RpSampler *sampler, int32_t token, int32_t max_tokens,
                                bool ignore_end) {
    int32_t        words[RP_STEP_WORDS + RECENT_TOKENS];
    size_t         n_words;
    RpStepState    step;
    const int32_t *from = rp_sampler_state(sampler, &n_words);
    memcpy(words, from, n_words * sizeof *words);
    /* by memcpy: `words` is an array of int32_t, not an RpStepState */
    memcpy(&step, words, sizeof step);
    step.token = token;
    step.pos   = s->n_past;
    memcpy(words, &step, sizeof step);
    const RpReplyOptions o = {.state      = words,
                              .n_state    = n_words,
                              .max_tokens = max_tokens,
                              .n_ctx      = s->n_ctx,
                              .end        = s->end_tokens,
                              .n_end      = ignore_end ? 0 : s->n_end_tokens};
    RP_TRY(set_extra(s, sampler));
    RP_TRY(rp_executor_reply_begin(s->sampling.executor, &o));
    s->replying         = true;
    s->logits           = NULL;
    s->logits_on_device = false;
    return RP_OK;
}

RpStatus rp_session_reply_next(RpSession *s, RpSampler *sampler, int32_t *token) {
    const RpStatus st = rp_executor_reply_next(s->sampling.executor, token);
    if (st == RP_OK || st == RP_E_ARG)
        s->n_past++; /* RP_E_ARG: no logit was finite, but the token before was run and stored */
    RP_TRY(st);
    rp_sampler_follow(sampler, *token);
    return RP_OK;
}

RpStatus rp_session_reply_end(RpSession *s) {
    bool ran_on;
    if (!s->replying) return RP_OK;
    s->replying = false;
    RP_TRY(rp_executor_reply_end(s->sampling.executor, &ran_on));
    s->logits_on_device = !ran_on;
    return RP_OK;
}

/* Ends the reply after a failure. The text of that failure is restored, because ending may record another. */
void rp_session_reply_drop(RpSession *s) {
    char text[1024];
    if (!s->replying) return;
    snprintf(text, sizeof text, "%s", rp_last_error());
    if (rp_session_reply_end(s) == RP_OK)
        s->logits_on_device = false; /* the failed step may have overwritten some of them */
    (void)rp_fail(RP_E_STATE, "%s", text);
}
