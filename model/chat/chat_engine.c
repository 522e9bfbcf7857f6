/* Whole replies on an engine: prompt -> request, tokens -> events. */
#include "model/chat/chat_reply.h"

#include "base/argument.h"
#include "base/sized.h"

#include <stdlib.h>

RpStatus rp_chat_reply_new_sized(const RpModel *m, RpSampler *sampler, const RpChatOptions *options,
                                 size_t options_bytes, RpChatReply **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(sampler, "sampler");
    RP_NOT_NULL(options, "options");
    RpChatReply *r = calloc(1, sizeof *r);
    if (r == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a reply");
    const RpStatus st = rp_chat_reply_open(r, m, sampler, options, options_bytes);
    r->o.log          = NULL; /* puts would be on the engine's thread */
    if (st == RP_OK)
        *out = r;
    else
        rp_chat_reply_free(r);
    return st;
}

void rp_chat_reply_free(RpChatReply *r) {
    if (r == NULL) return;
    rp_chat_reply_close(r);
    free(r);
}

const RpTokenList *rp_chat_reply_prompt(const RpChatReply *r) { return r != NULL ? &r->prompt : NULL; }

RpStatus rp_chat_reply_request_sized(RpChatReply *r, RpRequest *request, size_t request_bytes) {
    RpRequest q = {0};
    RP_NOT_NULL(r, "r");
    RP_NOT_NULL(request, "request");
    RP_TRY(rp_sized_in(&q, sizeof q, request, request_bytes, "RpRequest"));
    q.prompt      = r->prompt.ids;
    q.n_prompt    = r->prompt.n;
    q.n_seen      = (size_t)r->result.n_seen;
    q.sampler     = r->sampler;
    q.max_tokens  = r->max_tokens;
    q.force_token = rp_chat_reply_forces(r) ? rp_chat_reply_force : NULL;
    q.on_token    = rp_chat_reply_token;
    q.token_user  = r;
    rp_sized_out(request, request_bytes, &q, sizeof q);
    return RP_OK;
}

static RpStatus end(RpChatReply *r, const RpEngineEvent *last) {
    if (!last->end) return rp_fail(RP_E_ARG, "an event that is not the last one of its request");
    r->result.n_kept        = last->n_cached;
    r->result.n_generated   = last->n_generated;
    r->result.first_token_s = last->first_token_s;
    r->result.prefill_s     = last->n_generated > 0 ? last->first_token_s - last->queued_s : 0.0;
    r->result.decode_s      = last->n_generated > 0 ? last->total_s - last->first_token_s : 0.0;
    if (last->status != RP_OK) return rp_fail(last->status, "%s", last->error);
    return rp_chat_reply_finish(r, last->reason);
}

RpStatus rp_chat_reply_end_sized(RpChatReply *r, const RpEngineEvent *last, size_t last_bytes, RpChatResult *result,
                                 size_t result_bytes) {
    RP_NOT_NULL(r, "r");
    RP_NOT_NULL(last, "last");
    RP_NOT_NULL(result, "result");
    RpEngineEvent v  = {0};
    RpStatus      st = rp_sized_in(&v, sizeof v, last, last_bytes, "RpEngineEvent");
    if (st == RP_OK) st = end(r, &v);
    rp_sized_out(result, result_bytes, &r->result, sizeof r->result);
    return st;
}
