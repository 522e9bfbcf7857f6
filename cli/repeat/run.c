/* run.c - takes each token as the manifest says that it was taken, and compares it and the hash of its logits.
 *
 * A reply that was held by a grammar is held by it again (held.h): its tokens are drawn and forced as they were. If the
 * manifest does not have the grammar, a masked token is sampled from itself alone: the random sequence continues as
 * recorded, and its logits are compared. */
#include "cli/repeat/repeat.h"

#include <string.h>

/* Compares a token and its logits with the manifest; false: they differ. `logits` is NULL if there are none. */
static bool compare(Repeat *r, int32_t token, const float *logits) {
    const ManifestTurn *t    = &r->m->turns[r->turn];
    const size_t        i    = r->step;
    const int32_t       then = t->tokens.ids[i], n_vocab = rp_sampler_n_vocab(r->sampler);
    const bool          has = r->is_held || t->draws[i] != DRAW_GRAMMAR; /* forced tokens are run with others */
    const uint64_t      now = has && logits != NULL ? rp_xxh64(logits, (size_t)n_vocab * sizeof *logits) : 0;
    if (token == then && now == t->logits[i]) {
        r->n_equal++;
        r->n_held += !r->is_held && t->draws[i] != DRAW_FREE;
        r->step++;
        return true;
    }
    r->parting = (Parting){.parts       = true,
                           .turn        = r->turn,
                           .step        = i,
                           .then        = then,
                           .now         = token,
                           .logits_then = t->logits[i],
                           .logits_now  = now};
    return false;
}

/* Sets the mask for the present token: none, or one that allows it alone. */
static void set_mask(Repeat *r) {
    const ManifestTurn *t      = &r->m->turns[r->turn];
    const int32_t       token  = t->tokens.ids[r->step];
    const bool          masked = t->draws[r->step] == DRAW_MASKED;
    memset(r->mask, 0, ((size_t)rp_sampler_n_vocab(r->sampler) + 31) / 32 * sizeof *r->mask);
    r->mask[token / 32] = 1u << (token % 32);
    rp_sampler_set_mask(r->sampler, masked ? r->mask : NULL);
}

static bool is_drawn(const ManifestTurn *t, size_t i) { return t->draws[i] == DRAW_FREE || t->draws[i] == DRAW_MASKED; }

/* ---- sessions ---- */

static RpStatus append(Repeat *r, const int32_t *tokens, size_t n) {
    if (n == 0) return RP_OK;
    RP_TRY(rp_session_prefill(r->session, tokens, n, NULL, NULL));
    for (size_t i = 0; i < n; i++) RP_TRY(rp_token_list_push(&r->context, tokens[i]));
    return RP_OK;
}

/* Rewinds the context to the prefix that it shares with the tokens before the turn, and appends the rest. */
static RpStatus take_kept(Repeat *r, const ManifestTurn *t) {
    size_t n = 0;
    while (n < r->context.n && n < (size_t)t->kept && r->context.ids[n] == t->prompt.ids[n]) n++;
    n = (size_t)rp_session_rewind_point(r->session, (int32_t)n);
    RP_TRY(rp_session_rewind(r->session, (int32_t)n));
    r->context.n = n;
    return append(r, t->prompt.ids + n, (size_t)t->kept - n);
}

static RpStatus run_free(Repeat *r, const ManifestTurn *t) {
    RP_TRY(take_kept(r, t));
    const int32_t *prompt = t->prompt.ids + t->kept;
    const size_t   n      = t->prompt.n - (size_t)t->kept;
    size_t         ran    = 0; /* tokens of the reply that the session has */
    RP_TRY(append(r, prompt, n));
    for (size_t i = 0; i < n; i++) rp_sampler_accept(r->sampler, prompt[i]);
    for (size_t i = 0; i < t->tokens.n; i++) {
        int32_t      token  = t->tokens.ids[i];
        const float *logits = NULL;
        if (t->draws[i] != DRAW_GRAMMAR) {
            RP_TRY(append(r, t->tokens.ids + ran, i - ran));
            ran    = i;
            logits = rp_session_logits(r->session);
        }
        set_mask(r);
        if (is_drawn(t, i))
            RP_TRY(rp_sampler_sample(r->sampler, logits, &token));
        else
            rp_sampler_accept(r->sampler, token);
        if (!compare(r, token, logits)) return RP_OK;
    }
    return append(r, t->tokens.ids + ran, t->tokens.n - 1 - ran);
}

/* ---- replies whose tokens the library takes ---- */

static void on_sampled(const RpSampledToken *s, void *user) {
    Repeat *r = user;
    if (!r->parting.parts && r->step < r->m->turns[r->turn].tokens.n) (void)compare(r, s->token, s->logits);
}

static int32_t force(void *user) {
    Repeat             *r = user;
    const ManifestTurn *t = &r->m->turns[r->turn];
    if (r->step >= t->tokens.n) return -1;
    set_mask(r);
    return is_drawn(t, r->step) ? -1 : t->tokens.ids[r->step];
}

static bool on_token(int32_t token, void *user) {
    const Repeat    *r = user;
    const RpRequest *h = &r->held.hooks;
    return !r->parting.parts && (h->on_token == NULL || h->on_token(token, h->token_user));
}

/* The chat sets the mask, or forces a token. */
static int32_t force_held(void *user) {
    const RpRequest *h = &((Repeat *)user)->held.hooks;
    return h->force_token(h->token_user);
}

static RpForceToken *force_of(const Repeat *r) {
    return !r->is_held ? force : r->held.hooks.force_token != NULL ? force_held : NULL;
}

static RpStatus check_whole(const Repeat *r, const ManifestTurn *t, RpStopReason reason) {
    if (r->parting.parts || r->step == t->tokens.n) return RP_OK;
    return rp_fail(RP_E_STATE, "turn %zu: the reply ends after %zu of %zu tokens (%s)", r->turn + 1, r->step,
                   t->tokens.n, rp_stop_reason_name(reason));
}

static RpStatus generate_held(Repeat *r, const ManifestTurn *t) {
    const size_t            n = t->prompt.n - (size_t)t->kept;
    RpGenerateResult        result;
    const RpGenerateOptions o = {.max_tokens  = (int32_t)t->tokens.n,
                                 .ignore_end  = true,
                                 .matcher     = r->held.matcher,
                                 .force_token = force_of(r),
                                 .on_token    = on_token,
                                 .user        = r};
    rp_sampler_observe(r->sampler, on_sampled, r);
    const RpStatus st = rp_generate(r->session, r->sampler, t->prompt.ids + t->kept, n, &o, &result);
    rp_sampler_observe(r->sampler, NULL, NULL);
    RP_TRY(st);
    RP_TRY(check_whole(r, t, result.reason));
    for (size_t i = 0; i < n; i++) RP_TRY(rp_token_list_push(&r->context, t->prompt.ids[(size_t)t->kept + i]));
    for (size_t i = 0; r->context.n < (size_t)rp_session_n_past(r->session); i++)
        RP_TRY(rp_token_list_push(&r->context, t->tokens.ids[i]));
    return RP_OK;
}

static RpStatus run_session(Repeat *r, const ManifestTurn *t) {
    if (!r->is_held) return run_free(r, t);
    RP_TRY(take_kept(r, t));
    return generate_held(r, t);
}

/* ---- engines ---- */

static RpStatus run_engine(Repeat *r, const ManifestTurn *t) {
    RpEngineEvent   e = {0};
    uint64_t        id;
    const RpRequest q = {.prompt      = t->prompt.ids,
                         .n_prompt    = t->prompt.n,
                         .sampler     = r->sampler,
                         .max_tokens  = (int32_t)t->tokens.n,
                         .ignore_end  = true,
                         .n_draft     = r->m->n_draft,
                         .matcher     = r->held.matcher,
                         .force_token = force_of(r),
                         .on_token    = on_token,
                         .token_user  = r,
                         .n_seen      = (size_t)t->kept};
    rp_sampler_observe(r->sampler, on_sampled, r);
    RP_TRY(rp_engine_add(r->engine, &q, &id));
    while (rp_engine_pending(r->engine) > 0) {
        RP_TRY(rp_engine_step(r->engine));
        while (rp_engine_poll(r->engine, &e)) {
        }
    }
    if (e.status != RP_OK) return rp_fail(e.status, "%s", e.error);
    return check_whole(r, t, e.reason);
}

static RpStatus run_turn(Repeat *r, const ManifestTurn *t) {
    r->is_held = t->grammar.kind != MANIFEST_FREE;
    rp_sampler_set_mask(r->sampler, NULL);
    RpStatus st = r->is_held ? cli_held_open(t, r->model, r->sampler, &r->vocab, &r->held) : RP_OK;
    if (st == RP_OK) st = r->engine != NULL ? run_engine(r, t) : run_session(r, t);
    cli_held_close(&r->held);
    return st;
}

RpStatus cli_repeat_run(Repeat *r) {
    for (r->turn = 0; r->turn < r->m->n_turns && !r->parting.parts; r->turn++) {
        const ManifestTurn *t = &r->m->turns[r->turn];
        r->step               = 0;
        if (t->fresh) rp_sampler_reset(r->sampler);
        RP_TRY(run_turn(r, t));
    }
    return RP_OK;
}
