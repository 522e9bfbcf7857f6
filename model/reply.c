#include "model/reply.h"

#include "reprise/step.h"

#include <stdio.h>
#include <string.h>

bool rp_session_draws(const Session *s, const Sampler *sampler) {
    size_t n_words;
    (void)rp_sampler_state(sampler, &n_words);
    return s->draws.executor != NULL && n_words <= RP_STEP_WORDS + RECENT_TOKENS;
}

RpStatus rp_session_reply_begin(Session *s, const Sampler *sampler, int32_t token, int32_t max_tokens,
                                bool ignore_end) {
    int32_t        words[RP_STEP_WORDS + RECENT_TOKENS];
    size_t         n_words;
    StepState      step;
    const int32_t *from = rp_sampler_state(sampler, &n_words);
    memcpy(words, from, n_words * sizeof *words);
    memcpy(&step, words, sizeof step);
    step.token = token;
    step.pos   = s->n_past;
    memcpy(words, &step, sizeof step);
    const ReplyOptions o = {.state      = words,
                            .n_state    = n_words,
                            .max_tokens = max_tokens,
                            .n_ctx      = s->n_ctx,
                            .end        = s->end_tokens,
                            .n_end      = ignore_end ? 0 : s->n_end_tokens};
    RP_TRY(rp_executor_reply_begin(s->draws.executor, &o));
    s->replying         = true;
    s->logits           = NULL;
    s->logits_on_device = false;
    return RP_OK;
}

RpStatus rp_session_reply_next(Session *s, Sampler *sampler, int32_t *token) {
    const RpStatus st = rp_executor_reply_next(s->draws.executor, token);
    if (st == RP_OK || st == RP_E_ARG)
        s->n_past++; /* the token before was appended, though nothing follows it */
    RP_TRY(st);
    rp_sampler_follow(sampler, *token);
    return RP_OK;
}

RpStatus rp_session_reply_end(Session *s) {
    bool ran_on;
    if (!s->replying) return RP_OK;
    s->replying = false;
    RP_TRY(rp_executor_reply_end(s->draws.executor, &ran_on));
    s->logits_on_device = !ran_on;
    return RP_OK;
}

void rp_session_reply_drop(Session *s) {
    char text[1024];
    if (!s->replying) return;
    snprintf(text, sizeof text, "%s", rp_last_error());
    if (rp_session_reply_end(s) == RP_OK)
        s->logits_on_device = false; /* half of them may be of the token before */
    (void)rp_fail(RP_E_STATE, "%s", text);
}
