/* Whole replies: prefill the prompt, then sample and append until something ends the reply.
 *
 * The last token of a reply is sampled but not appended: that would cost a step whose logits nobody reads. */
#include "model/reply.h"

#include "base/argument.h"
#include "base/clock.h"
#include "base/trace/trace.h"

#include "base/sized.h"
#include "model/sampler/sampler.h"
#include "model/structured.h"
#include "model/text/text_out.h"

#include <stdlib.h>

/* One call of rp_generate. */
typedef struct Call {
    RpSession               *s;
    RpSampler               *sampler;
    const RpGenerateOptions *o;
    RpGenerateResult        *result;
    RpTokenLogprob          *top; /* [n_logprobs], or NULL */
    Structured               structured;
} Call;

static RpStatus check_call(const Call *c, size_t n_prompt) {
    const int32_t n_vocab = rp_model_info(rp_session_model(c->s))->n_vocab;
    if (rp_sampler_n_vocab(c->sampler) != n_vocab)
        return rp_fail(RP_E_ARG, "the sampler is for a vocabulary of %d tokens, the model has %d",
                       rp_sampler_n_vocab(c->sampler), n_vocab);
    if (c->o->max_tokens < 0) return rp_fail(RP_E_ARG, "a reply of %d tokens: must be at least 0", c->o->max_tokens);
    if (c->o->n_logprobs < 0 || c->o->n_logprobs > n_vocab)
        return rp_fail(RP_E_ARG, "n_logprobs %d: must be from 0 to %d", c->o->n_logprobs, n_vocab);
    if (c->o->n_seen > n_prompt)
        return rp_fail(RP_E_ARG, "a prompt of %zu tokens, of which the sampler has seen %zu: must be at most as many",
                       n_prompt, c->o->n_seen);
    if (n_prompt == 0 && rp_session_logits(c->s) == NULL)
        return rp_fail(RP_E_ARG, "the prompt is empty and there is nothing before it to go on from");
    return RP_OK;
}

static RpStatus take_prompt(const Call *c, const int32_t *prompt, size_t n) {
    if (n == 0) return RP_OK;
    RP_TRY(rp_session_prefill(c->s, prompt, n, c->o->prefill_progress, c->o->user));
    for (size_t i = c->o->n_seen; i < n; i++) rp_sampler_accept(c->sampler, prompt[i]);
    return RP_OK;
}

static RpStatus note_token(const Call *c, int32_t token) {
    c->result->n_generated++;
    return c->o->tokens != NULL ? rp_token_list_push(c->o->tokens, token) : RP_OK;
}

/* The log probabilities of the logits that `token` was sampled from. */
static RpStatus note_logprobs(const Call *c, const float *logits, int32_t token) {
    RpTokenLogprob chosen;
    const int32_t  n = c->o->n_logprobs;
    if (c->o->on_logprobs == NULL) return RP_OK;
    RP_TRY(rp_logprobs(logits, rp_sampler_n_vocab(c->sampler), token, &chosen, c->top, n));
    if (!c->o->on_logprobs(&chosen, c->top, (size_t)n, c->o->user)) return rp_fail(RP_E_CANCELLED, "a reply");
    return RP_OK;
}

/* Samples on the host, from the session's logits, among the tokens that the grammar allows. */
static RpStatus sample_token(Call *c, int32_t *token) {
    const float *logits = rp_session_logits(c->s);
    RP_TRY(rp_structured_sample(&c->structured, c->sampler, logits, token));
    RP_TRY(note_token(c, *token));
    return note_logprobs(c, logits, *token);
}

static RpStatus begin(const Call *c, int32_t token, bool held) {
    /* the device must not run past the context or the limit */
    const RpSession *s    = c->s;
    const int32_t    room = s->n_ctx - s->n_past, wanted = c->o->max_tokens - c->result->n_generated;
    const ReplyBegin o = {.token      = token,
                          .max_tokens = c->o->max_tokens > 0 && wanted < room ? wanted : room,
                          .ignore_end = c->o->ignore_end,
                          .held       = held};
    return rp_session_reply_begin(c->s, c->sampler, &o);
}

static RpStatus prepare(void *user, int32_t *given) {
    Structured    *x  = &((Call *)user)->structured;
    const RpStatus st = rp_structured_prepare(x, rp_sampler_n_vocab(((Call *)user)->sampler));
    *given            = x->given;
    return st;
}

/* The device runs *token and samples. It goes on by itself unless each token has a mask, or may be forced. */
static RpStatus device_token(Call *c, int32_t *token) {
    RpSession    *s = c->s;
    RpSampleExtra extra;
    const bool    held =
        c->o->matcher != NULL || c->o->force_token != NULL || rp_sampler_extra(c->sampler, &extra) != NULL;
    if (held != s->held) RP_TRY(rp_session_reply_end(s));
    if (!s->replying) RP_TRY(begin(c, *token, held));
    RP_TRY(held ? rp_session_reply_held(s, c->sampler, prepare, c, token)
                : rp_session_reply_next(s, c->sampler, token));
    RP_TRY(rp_structured_take(&c->structured, *token));
    return note_token(c, *token);
}

/* Appends *token and replaces it by the next, sampled on the device where that is possible. The reply on the device
 * starts here, with the first token that it can produce. Behind forced tokens the host samples, since their chunk is a
 * plan without a sampler. */
static RpStatus next_token(Call *c, int32_t *token) {
    RpSession  *s         = c->s;
    Structured *x         = &c->structured;
    const bool  on_device = c->result->host_sampling == NULL && s->sampling.executor != NULL;
    bool        found     = false;
    if (c->o->matcher != NULL) {
        RP_TRY(rp_structured_next(x, c->sampler, token, &found));
        if (found) return note_token(c, *token);
    } else if (!on_device) {
        RP_TRY(rp_session_step(s, *token));
    }
    if (on_device && x->pending.n <= 1) {
        x->pending.n = 0;
        return device_token(c, token);
    }
    RP_TRY(rp_session_reply_end(s));
    RP_TRY(rp_structured_flush(x, s));
    return sample_token(c, token);
}

/* The decode loop, from the logits after the prompt. The first token is always sampled on the host. */
static RpStatus reply(Call *c, TextOut *text, double start) {
    const RpGenerateOptions *o      = c->o;
    RpGenerateResult        *result = c->result;
    int32_t                  token;
    bool                     done = false;
    RP_TRY(sample_token(c, &token));
    result->first_token_s = rp_seconds() - start;
    for (;;) {
        if (o->on_token != NULL && !o->on_token(token, o->user)) break; /* RP_STOP_CANCELLED */
        if (!o->ignore_end && text->tokenizer != NULL && rp_tokenizer_is_end(text->tokenizer, token)) {
            result->reason = RP_STOP_END_TOKEN;
            break;
        }
        RP_TRY(rp_text_out_put(text, token, &done, &result->reason));
        if (done) break;
        if (rp_matcher_finished(o->matcher)) {
            result->reason = RP_STOP_GRAMMAR;
            break;
        }
        if (o->max_tokens > 0 && result->n_generated >= o->max_tokens) {
            result->reason = RP_STOP_LIMIT;
            break;
        }
        if (rp_session_n_past(c->s) + (int32_t)c->structured.pending.n == rp_session_n_ctx(c->s)) {
            result->reason = RP_STOP_CONTEXT;
            break;
        }
        const double before = rp_seconds();
        RP_TRY(next_token(c, &token));
        result->decode_s += rp_seconds() - before;
    }
    if (result->reason != RP_STOP_CANCELLED) rp_text_out_rest(text);
    RP_TRY(rp_session_reply_end(c->s));
    return rp_structured_flush(&c->structured, c->s);
}

static RpStatus generate(Call *c, const int32_t *prompt, size_t n_prompt) {
    const double      start  = rp_seconds();
    RpGenerateResult *result = c->result;
    TextOut           text;
    RP_TRY(check_call(c, n_prompt));
    if (c->o->on_logprobs != NULL && c->o->n_logprobs > 0) {
        c->top = malloc((size_t)c->o->n_logprobs * sizeof *c->top);
        if (c->top == NULL)
            return rp_fail(RP_E_NOMEM, "out of memory for the log probabilities of %d tokens", c->o->n_logprobs);
    }
    result->host_sampling = rp_session_host_sampling(c->s, c->sampler, c->o);
    const RpTokenizer *tk = rp_model_tokenizer(rp_session_model(c->s));
    RpStatus           st = rp_text_out_open(&text, tk, c->o);
    if (st == RP_OK) st = rp_sampler_suppress(c->sampler, tk);
    if (st == RP_OK)
        st = rp_structured_open(&c->structured, c->o->matcher, c->sampler, rp_sampler_n_vocab(c->sampler),
                                c->o->force_token, c->o->user);
    if (st == RP_OK) {
        const int32_t n_before = rp_session_n_past(c->s);
        st                     = take_prompt(c, prompt, n_prompt);
        result->prefill_s      = rp_seconds() - start;
        result->n_prompt       = rp_session_n_past(c->s) - n_before;
        if (st == RP_OK) st = reply(c, &text, start);
        if (st != RP_OK) rp_session_reply_drop(c->s); /* keeps the error of the reply */
    }
    rp_structured_close(&c->structured, c->sampler);
    rp_text_out_close(&text);
    free(c->top);
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
    if (st == RP_OK) {
        const RpTraceRun trace = rp_trace_run("generate", n_prompt);
        st                     = generate(&(Call){.s = s, .sampler = sampler, .o = &o, .result = &r}, prompt, n_prompt);
        st                     = rp_trace_run_end(&trace, st);
    }
    rp_sized_out(result, result_bytes, &r, sizeof r);
    return st;
}

const char *rp_stop_reason_name(RpStopReason reason) {
    static const char *const names[] = {
        [RP_STOP_END_TOKEN] = "end token",     [RP_STOP_STRING] = "stop string",  [RP_STOP_LIMIT] = "limit",
        [RP_STOP_CONTEXT] = "context is full", [RP_STOP_CANCELLED] = "cancelled", [RP_STOP_GRAMMAR] = "grammar"};
    return reason >= RP_STOP_END_TOKEN && reason <= RP_STOP_GRAMMAR ? names[reason] : "unknown";
}
