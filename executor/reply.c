/* Replies: each token is sampled from the logits of the one before it. Everything that changes from token to
 * token is in the step state, which the sample op updates (I4):
 *
 *     step {token, pos} --run--> logits --sample--> step {token', pos + 1} --run--> ...
 *
 * In loop mode the device does this, in one launch per 128 tokens. In other modes the host starts one run per token.
 * The host also does so in loop mode while weights or states are bound that the loop was not captured with, and for
 * tokens whose mask it makes (base/sampling/held.h). */
#include "base/sized.h"

#include "base/argument.h"
#include "base/step_state.h"
#include "executor/backend.h"

#include <string.h>

static RpStatus check_options(const RpExecutor *e, const RpReplyOptions *o) {
    if (e->step == NULL) return rp_fail(RP_E_STATE, "a reply: this executor has no step state");
    if (e->reply.active) return rp_fail(RP_E_STATE, "a reply is under way already");
    const RpTensorView view = rp_node_view(e->step);
    if (o->state == NULL || (o->end == NULL && o->n_end > 0))
        return rp_fail(RP_E_ARG, "a reply: state must not be NULL, nor end if n_end is above 0");
    if (o->n_state < RP_STEP_WORDS || o->n_state > rp_view_extent_bytes(&view) / sizeof *o->state)
        return rp_fail(RP_E_ARG, "a step state of %zu words: must be from %d to %zu", o->n_state, (int)RP_STEP_WORDS,
                       rp_view_extent_bytes(&view) / sizeof *o->state);
    if (o->max_tokens < 1) return rp_fail(RP_E_ARG, "a reply of %d tokens: must be at least 1", o->max_tokens);
    if (o->n_end > RP_REPLY_MAX_END)
        return rp_fail(RP_E_ARG, "%zu end tokens: must be at most %d", o->n_end, RP_REPLY_MAX_END);
    return RP_OK;
}

/* Checks every number that becomes an index: tokens select rows of the embedding and of the logits, and ring positions
 * select words behind the state. */
static RpStatus check_state(const RpExecutor *e, const RpReplyOptions *o, const RpStepState *s) {
    const PlanStep *sample  = &e->plan->steps[e->plan->n_steps - 1];
    const int64_t   n_vocab = sample->op == RP_OP_SAMPLE ? sample->args.sample.logits.ne[0] : INT32_MAX;
    if (s->token < 0 || s->token >= n_vocab)
        return rp_fail(RP_E_ARG, "a reply from token %d: must be from 0 to %lld", s->token, (long long)n_vocab - 1);
    return rp_step_check(s, o->state + RP_STEP_WORDS, (int64_t)o->n_state - RP_STEP_WORDS, n_vocab);
}

static RpStatus reply_begin(RpExecutor *e, const RpReplyOptions *o, bool held) {
    RP_TRY(check_options(e, o));
    RpStepState s;
    memcpy(&s, o->state, sizeof s);
    RP_TRY(check_state(e, o, &s));
    if (s.pos < 0 || s.pos >= o->n_ctx)
        return rp_fail(RP_E_CONTEXT_FULL, "a reply from position %d: must be from 0 to %d", s.pos, o->n_ctx - 1);
    RP_TRY(rp_executor_set(e, e->step, o->state, o->n_state * sizeof *o->state));
    Reply r = {.active  = true,
               .in_loop = !held && rp_executor_loops(e),
               .held    = held,
               .left    = o->max_tokens,
               .pos     = s.pos,
               .n_ctx   = o->n_ctx,
               .n_end   = (int32_t)o->n_end};
    if (o->n_end > 0) memcpy(r.end, o->end, o->n_end * sizeof *o->end);
    e->n_launches = 0;
    if (r.in_loop) RP_TRY(e->backend->loop_begin(e, &r));
    e->reply = r;
    return RP_OK;
}

RpStatus rp_executor_reply_begin_sized(RpExecutor *e, const RpReplyOptions *options, size_t options_bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(options, "options");

    RpReplyOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpReplyOptions"));
    return reply_begin(e, &o, false);
}

RpStatus rp_executor_held_begin(RpExecutor *e, const RpReplyOptions *o) { return reply_begin(e, o, true); }

/* A reply ends after an end token, after max_tokens tokens, or with the token whose position would be n_ctx:
 * that token can still be sampled, but not run. `r` already counts the token. The loop on the device applies
 * the same rules. */
static bool ends(const Reply *r, int32_t token) {
    for (int32_t i = 0; i < r->n_end; i++)
        if (r->end[i] == token) return true;
    return r->left == 0 || r->pos >= r->n_ctx;
}

static RpStatus next_token(RpExecutor *e, void *token) {
    if (e->reply.in_loop) return e->backend->loop_next(e, token);
    e->n_done = 0;
    RP_TRY(e->backend->run(e));
    e->n_done = e->plan->n_steps;
    return e->backend->token(e, token);
}

typedef RpStatus RunStep(RpExecutor *e, StepBody *body, void *arg);

static RpStatus fetch(RpExecutor *e, RunStep *step, StepBody *body, void *arg, const int32_t *token) {
    Reply *r = &e->reply;
    if (!r->active || r->left == 0) return rp_fail(RP_E_STATE, "no reply is under way, or it has ended");
    RP_TRY(step(e, body, arg));
    r->left--;
    r->pos++;
    if (*token < 0) r->left = 0; /* also when it fails, the reply is over */
    if (*token == -1) return rp_fail(RP_E_ARG, "nothing to sample: every logit is NaN or -inf");
    if (ends(r, *token)) r->left = 0;
    return RP_OK;
}

static RpStatus plain_step(RpExecutor *e, StepBody *body, void *arg) { return rp_executor_step(e, NULL, body, arg); }

RpStatus rp_executor_reply_next(RpExecutor *e, int32_t *token) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(token, "token");
    return fetch(e, plain_step, next_token, token, token);
}

typedef struct HeldToken {
    RpHeldPrepare *prepare;
    void          *user;
    int32_t       *token;
} HeldToken;

static RpStatus held_token(RpExecutor *e, void *arg) {
    const HeldToken *h = arg;
    e->n_done          = 0;
    RP_TRY(e->backend->held(e, h->prepare, h->user, h->token));
    e->n_done = e->plan->n_steps - (*h->token == RP_HELD_NOT_SAMPLED);
    return RP_OK;
}

RpStatus rp_executor_held_next(RpExecutor *e, RpHeldPrepare *prepare, void *user, int32_t *token) {
    HeldToken h = {prepare, user, token};
    return fetch(e, rp_executor_step_with_calls, held_token, &h, token);
}

RpStatus rp_executor_reply_end(RpExecutor *e, bool *ran_on) {
    RP_NOT_NULL(e, "exec");

    /* A loop that is stopped early may have run tokens that were never returned. */
    if (ran_on != NULL) *ran_on = e->reply.active && e->reply.in_loop && e->reply.left > 0;
    if (!e->reply.active) return RP_OK;
    e->reply.active = false;
    return e->reply.in_loop ? e->backend->loop_end(e) : RP_OK;
}
