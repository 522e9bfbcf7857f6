/* Whole replies on a session: prompt -> rp_generate -> events. */
#include "model/chat/chat_reply.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/sampler/sampler.h"

typedef struct Chat {
    RpChatReply reply;
    RpSession  *session;
    RpTokenList tokens; /* of the reply */
} Chat;

static bool on_prefill(int64_t done, int64_t total, void *user) {
    const RpChatReply *r = user;
    return r->o.prefill_progress == NULL || r->o.prefill_progress(done, total, r->o.user);
}

/* Rewinds to the end of the common prefix of session and prompt, or to the last position before it that can be rewound
 * to. */
static RpStatus rewind_to_common(Chat *c) {
    const RpTokenList *held = c->reply.o.context;
    size_t             keep = c->reply.n_common;
    if (held != NULL && held->n != (size_t)rp_session_n_past(c->session))
        return rp_fail(RP_E_ARG, "the context has %zu tokens, the session %d", held->n, rp_session_n_past(c->session));
    keep                   = (size_t)rp_session_rewind_point(c->session, (int32_t)keep);
    c->reply.result.n_kept = (int32_t)keep;
    if (c->reply.o.context != NULL) c->reply.o.context->n = keep;
    return rp_session_rewind(c->session, (int32_t)keep);
}

static RpStatus record_context(Chat *c) {
    RpTokenList *to = c->reply.o.context;
    if (to == NULL) return RP_OK;
    for (size_t i = (size_t)c->reply.result.n_kept; i < c->reply.prompt.n; i++)
        RP_TRY(rp_token_list_push(to, c->reply.prompt.ids[i]));
    for (size_t i = 0; i < c->tokens.n; i++) RP_TRY(rp_token_list_push(to, c->tokens.ids[i]));
    to->n = (size_t)rp_session_n_past(c->session);
    return RP_OK;
}

static RpStatus run(Chat *c, RpSampler *sampler) {
    RpChatReply      *r = &c->reply;
    RpGenerateResult  g = {.reason = RP_STOP_CANCELLED};
    RpGenerateOptions o = {.max_tokens       = r->max_tokens,
                           .prefill_progress = on_prefill,
                           .user             = r,
                           .tokens           = &c->tokens,
                           .force_token      = rp_chat_reply_forces(r) ? rp_chat_reply_force : NULL,
                           .on_token         = rp_chat_reply_token};
    RP_TRY(rewind_to_common(c));
    const size_t kept = (size_t)r->result.n_kept, seen = (size_t)r->result.n_seen;
    const bool   is_new = rp_sampler_is_new(sampler);
    o.n_seen            = seen > kept ? seen - kept : 0;
    for (size_t i = seen; i < kept; i++) rp_sampler_accept(sampler, r->prompt.ids[i]);
    RpStatus st = rp_generate(c->session, sampler, r->prompt.ids + kept, r->prompt.n - kept, &o, &g);
    if (is_new && g.n_generated == 0) rp_sampler_reset(sampler); /* a prompt that was cancelled leaves no token in it */
    const RpStatus noted    = record_context(c);
    r->result.n_generated   = g.n_generated;
    r->result.prefill_s     = g.prefill_s;
    r->result.decode_s      = g.decode_s;
    r->result.first_token_s = g.first_token_s;
    r->result.host_sampling = g.host_sampling;
    r->result.reason        = g.reason;
    RP_TRY(st);
    RP_TRY(noted);
    return rp_chat_reply_finish(r, g.reason);
}

RpStatus rp_chat_generate_sized(RpSession *s, RpSampler *sampler, const RpChatOptions *options, size_t options_bytes,
                                RpChatResult *result, size_t result_bytes) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(sampler, "sampler");
    RP_NOT_NULL(options, "options");
    RP_NOT_NULL(result, "result");
    Chat     c  = {.session = s};
    RpStatus st = rp_chat_reply_open(&c.reply, rp_session_model(s), sampler, options, options_bytes);
    if (st == RP_OK) st = run(&c, sampler);
    rp_chat_reply_close(&c.reply);
    rp_token_list_free(&c.tokens);
    rp_sized_out(result, result_bytes, &c.reply.result, sizeof c.reply.result);
    return st;
}
