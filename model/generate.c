/* Whole replies: prefill the prompt, then sample and append until something ends the reply.
 *
 * The last token of a reply is sampled but not appended: that would cost a step whose logits nobody reads. */
#include "model/reply.h"

#include "base/argument.h"
#include "base/clock.h"

#include "base/sized.h"
#include "model/text/text_out.h"

static RpStatus check_call(RpSession *s, const RpSampler *sampler, size_t n_prompt, const RpGenerateOptions *o) {
    const int32_t n_vocab = rp_model_info(rp_session_model(s))->n_vocab;
    if (rp_sampler_n_vocab(sampler) != n_vocab)
        return rp_fail(RP_E_ARG, "the sampler is for a vocabulary of %d tokens, the model has %d",
                       rp_sampler_n_vocab(sampler), n_vocab);
    if (o->max_tokens < 0) return rp_fail(RP_E_ARG, "a reply of %d tokens", o->max_tokens);
    if (n_prompt == 0 && rp_session_logits(s) == NULL)
        return rp_fail(RP_E_ARG, "the prompt is empty and there is nothing before it to go on from");
    return RP_OK;
}

static RpStatus take_prompt(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n,
                            const RpGenerateOptions *o) {
    if (n == 0) return RP_OK;
    RP_TRY(rp_session_prefill(s, prompt, n, o->prefill_progress, o->user));
    for (size_t i = 0; i < n; i++) rp_sampler_accept(sampler, prompt[i]);
    return RP_OK;
}

/* Samples on the host, from the session's logits. */
static RpStatus sample_token(RpSession *s, RpSampler *sampler, const RpGenerateOptions *o, RpGenerateResult *result,
                             int32_t *token) {
    RP_TRY(rp_sampler_sample(sampler, rp_session_logits(s), token));
    result->n_generated++;
    return o->tokens != NULL ? rp_token_list_push(o->tokens, *token) : RP_OK;
}

/* Appends *token and replaces it by the next, sampled on the device where that is possible. The reply on the
 * device starts here, with the first token that it can produce. */
static RpStatus next_token(RpSession *s, RpSampler *sampler, const RpGenerateOptions *o, RpGenerateResult *result,
                           int32_t *token) {
    if (!rp_session_samples_on_device(s, sampler)) {
        RP_TRY(rp_session_step(s, *token));
        return sample_token(s, sampler, o, result, token);
    }
    if (!s->replying) {
        /* the device must not run past the context or the limit */
        const int32_t room = s->n_ctx - s->n_past, wanted = o->max_tokens - result->n_generated;
        RP_TRY(rp_session_reply_begin(s, sampler, *token, o->max_tokens > 0 && wanted < room ? wanted : room,
                                      o->ignore_end));
    }
    RP_TRY(rp_session_reply_next(s, sampler, token));
    result->n_generated++;
    return o->tokens != NULL ? rp_token_list_push(o->tokens, *token) : RP_OK;
}

/* The decode loop, from the logits after the prompt. The first token is always sampled on the host. */
static RpStatus reply(RpSession *s, RpSampler *sampler, TextOut *text, double start, RpGenerateResult *result) {
    const RpGenerateOptions *o = text->options;
    int32_t                  token;
    bool                     done = false;
    RP_TRY(sample_token(s, sampler, o, result, &token));
    result->first_token_s = rp_seconds() - start;
    for (;;) {
        if (!o->ignore_end && text->tokenizer != NULL && rp_tokenizer_is_end(text->tokenizer, token)) {
            result->reason = RP_STOP_END_TOKEN;
            break;
        }
        RP_TRY(rp_text_out_put(text, token, &done, &result->reason));
        if (done) break;
        if (o->max_tokens > 0 && result->n_generated >= o->max_tokens) {
            result->reason = RP_STOP_LIMIT;
            break;
        }
        if (rp_session_n_past(s) == rp_session_n_ctx(s)) {
            result->reason = RP_STOP_CONTEXT;
            break;
        }
        const double before = rp_seconds();
        RP_TRY(next_token(s, sampler, o, result, &token));
        result->decode_s += rp_seconds() - before;
    }
    if (result->reason != RP_STOP_CANCELLED) rp_text_out_rest(text);
    return RP_OK;
}

static RpStatus generate(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n_prompt,
                         const RpGenerateOptions *options, RpGenerateResult *result) {
    const double start = rp_seconds();
    TextOut      text;
    RP_TRY(check_call(s, sampler, n_prompt, options));
    RpStatus st = rp_text_out_open(&text, rp_model_tokenizer(rp_session_model(s)), options);
    if (st == RP_OK) {
        const int32_t n_before = rp_session_n_past(s);
        st                     = take_prompt(s, sampler, prompt, n_prompt, options);
        result->prefill_s      = rp_seconds() - start;
        result->n_prompt       = rp_session_n_past(s) - n_before;
        if (st == RP_OK) st = reply(s, sampler, &text, start, result);
        if (st == RP_OK)
            st = rp_session_reply_end(s);
        else /* keeps the error of the reply */
            rp_session_reply_drop(s);
    }
    rp_text_out_close(&text);
    return st == RP_E_CANCELLED ? RP_OK : st; /* result->reason says so */
}

RpStatus rp_generate_sized(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n_prompt,
                           const RpGenerateOptions *options, size_t options_bytes, RpGenerateResult *result,
                           size_t result_bytes) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(sampler, "sampler");
    RP_NOT_NULL(result, "result");
    if (n_prompt > 0) RP_NOT_NULL(prompt, "prompt");

    RpGenerateOptions o;
    RpGenerateResult  r  = {.reason = RP_STOP_CANCELLED};
    RpStatus          st = rp_sized_in(&o, sizeof o, options, options_bytes, "RpGenerateOptions");
    if (st == RP_OK) st = generate(s, sampler, prompt, n_prompt, &o, &r);
    rp_sized_out(result, result_bytes, &r, sizeof r);
    return st;
}

const char *rp_stop_reason_name(RpStopReason reason) {
    static const char *const names[] = {[RP_STOP_END_TOKEN] = "end token",
                                        [RP_STOP_STRING]    = "stop string",
                                        [RP_STOP_LIMIT]     = "limit",
                                        [RP_STOP_CONTEXT]   = "context is full",
                                        [RP_STOP_CANCELLED] = "cancelled"};
    return reason >= RP_STOP_END_TOKEN && reason <= RP_STOP_CANCELLED ? names[reason] : "unknown";
}
