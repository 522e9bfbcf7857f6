/* A reply whose tokens are sampled on the device. The sampler's state is copied there once. Each step then
 * reads its token and position from the step state and writes the next (I4), and only token ids return.
 *
 *     step state, i32 words:  RpStepState [RP_STEP_WORDS], recent tokens [repeat_last_n] as a ring
 */
#include "model/reply.h"

#include "base/sampling/held.h"
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
    if (n_words > RP_STEP_WORDS + RECENT_TOKENS) return "repeat_last_n";
    return rp_sampler_host_only(sampler)[0] != '\0' ? rp_sampler_host_only(sampler) : NULL;
}

/* Mask and penalties are data of the graph that samples (I4): 16 bytes, with a mask also one bit a token. Returns the
 * words. */
static size_t put_extra(const RpSampler *sampler, int32_t *to) {
    RpSampleExtra   e;
    const uint32_t *mask = rp_sampler_extra(sampler, &e);
    const size_t    n    = mask != NULL ? ((size_t)rp_sampler_n_vocab(sampler) + 31) / 32 : 0;
    memcpy(to, &e, sizeof e);
    if (n > 0) memcpy(to + RP_SAMPLE_EXTRA_WORDS, mask, n * sizeof *mask);
    return RP_SAMPLE_EXTRA_WORDS + n;
}

/* The penalties of a reply that the device runs by itself. Nothing is copied where there are none. */
static RpStatus set_penalties(RpSession *s, const RpSampler *sampler) {
    RpSampleExtra e;
    (void)rp_sampler_extra(sampler, &e);
    const bool used = e.frequency_penalty != 0.0f || e.presence_penalty != 0.0f;
    if (!used && !s->has_extra) return RP_OK;
    s->has_extra = used;
    return rp_executor_set(s->sampling.executor, s->sampling.extra, &e, sizeof e);
}

RpStatus rp_session_reply_begin(RpSession *s, const RpSampler *sampler, const ReplyBegin *begin) {
    int32_t        words[RP_STEP_WORDS + RECENT_TOKENS];
    size_t         n_words;
    RpStepState    step;
    const int32_t *from = rp_sampler_state(sampler, &n_words);
    memcpy(words, from, n_words * sizeof *words);
    /* by memcpy: `words` is an array of int32_t, not an RpStepState */
    memcpy(&step, words, sizeof step);
    step.token = begin->token;
    step.pos   = s->n_past;
    memcpy(words, &step, sizeof step);
    const RpReplyOptions o = {.state      = words,
                              .n_state    = n_words,
                              .max_tokens = begin->max_tokens,
                              .n_ctx      = s->n_ctx,
                              .end        = s->end_tokens,
                              .n_end      = begin->ignore_end ? 0 : s->n_end_tokens};
    if (!begin->held) RP_TRY(set_penalties(s, sampler));
    RP_TRY(begin->held ? rp_executor_held_begin(s->sampling.executor, &o)
                       : rp_executor_reply_begin(s->sampling.executor, &o));
    s->replying         = true;
    s->held             = begin->held;
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

typedef struct HeldToken {
    const RpSampler *sampler;
    RpPrepareToken  *prepare;
    void            *user;
    int32_t          given;
    RpStatus         status; /* of `prepare` */
} HeldToken;

static RpStatus prepare_held(void *user, int32_t *extra, size_t *n_words) {
    HeldToken *h = user;
    h->status    = h->prepare(h->user, &h->given);
    if (h->status == RP_OK && h->given < 0) *n_words = put_extra(h->sampler, extra);
    return h->status;
}

RpStatus rp_session_reply_held(RpSession *s, RpSampler *sampler, RpPrepareToken *prepare, void *user, int32_t *token) {
    HeldToken h       = {sampler, prepare, user, -1, RP_OK};
    s->has_extra      = true;
    const RpStatus st = rp_executor_held_next(s->sampling.executor, prepare_held, &h, token);
    /* The token before was run and stored, also where nothing could be sampled or prepared. */
    if (st == RP_OK || st == RP_E_ARG || (h.status != RP_OK && st == h.status)) s->n_past++;
    RP_TRY(st);
    if (h.given < 0) {
        rp_sampler_follow(sampler, *token);
        return RP_OK;
    }
    rp_sampler_force(sampler, NULL, *token = h.given);
    return rp_session_reply_end(s); /* the step state on the device does not have this token */
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
