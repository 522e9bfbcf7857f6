/* Replies of a session or of an engine (generator.h). */
#include "cli/chat/generator.h"

const RpModel *cli_generator_model(const Generator *g) {
    return g->session != NULL ? rp_session_model(g->session) : rp_engine_model(g->engine);
}

int32_t cli_generator_n_ctx(const Generator *g) {
    return g->session != NULL ? rp_session_n_ctx(g->session) : rp_engine_stats(g->engine).n_ctx;
}

RpStatus cli_generator_rewind(Generator *g, size_t n, size_t *out) {
    *out = g->session != NULL ? (size_t)rp_session_rewind_point(g->session, (int32_t)n) : n;
    return g->session != NULL ? rp_session_rewind(g->session, (int32_t)*out) : RP_OK;
}

static RpStatus append(RpTokenList *to, const RpTokenList *from, size_t n) {
    for (size_t i = 0; i < n; i++) RP_TRY(rp_token_list_push(to, from->ids[i]));
    return RP_OK;
}

/* The session holds the prompt and the reply, or less: not the last sampled token, and after a failure perhaps only a
 * part of the prompt. */
static RpStatus reply_of_session(const Generator *g, RpSampler *sampler, RpTokenList *context,
                                 const RpTokenList *prompt, const RpGenerateOptions *o, RpGenerateResult *result) {
    const RpStatus st = rp_generate(g->session, sampler, prompt->ids, prompt->n, o, result);
    RP_TRY(append(context, prompt, prompt->n));
    RP_TRY(append(context, o->tokens, o->tokens->n));
    context->n = (size_t)rp_session_n_past(g->session);
    return st;
}

static RpStatus reply_of_engine(Generator *g, RpSampler *sampler, RpTokenList *context, const RpTokenList *prompt,
                                const RpGenerateOptions *o, RpGenerateResult *result) {
    RpTokenList all = {0};
    RpStatus    st  = append(&all, context, context->n);
    if (st == RP_OK) st = append(&all, prompt, prompt->n);
    if (st == RP_OK)
        st = cli_generate_guessing(g->guesses, g->engine, sampler, &all, context->n + o->n_seen, o, &g->latest);
    *result = g->latest.reply;
    if (st == RP_OK) st = cli_guessed_context(&all, o->tokens, context);
    rp_token_list_free(&all);
    return st;
}

RpStatus cli_generator_reply(Generator *g, RpSampler *sampler, RpTokenList *context, const RpTokenList *prompt,
                             size_t n_seen, const RpGenerateOptions *o, RpGenerateResult *result) {
    RpGenerateOptions with = *o;
    with.n_seen            = n_seen;
    g->n_seen              = (int32_t)(context->n + n_seen);
    return g->session != NULL ? reply_of_session(g, sampler, context, prompt, &with, result)
                              : reply_of_engine(g, sampler, context, prompt, &with, result);
}

RpStatus cli_generator_chat(Generator *g, RpSampler *sampler, const RpChatOptions *o, RpChatResult *result) {
    const RpStatus st = g->session != NULL ? rp_chat_generate(g->session, sampler, o, result)
                                           : cli_chat_guessing(g->guesses, g->engine, sampler, o, result, &g->latest);
    g->n_seen         = result->n_seen;
    return st;
}

RpStatus cli_generator_save(const Generator *g, const RpTokenList *context, const char *note, const char *path) {
    return g->session != NULL ? rp_session_save(g->session, context, note, path)
                              : rp_engine_save(g->engine, context, note, path);
}

RpStatus cli_generator_restore(Generator *g, const char *path, RpTokenList *context, int32_t *n_kept, char **note) {
    if (g->session == NULL) return rp_engine_restore(g->engine, path, context, n_kept, note);
    const RpStatus st = rp_session_restore(g->session, path, context, note);
    if (st == RP_OK) *n_kept = (int32_t)context->n;
    return st;
}
