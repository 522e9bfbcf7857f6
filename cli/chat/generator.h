/* generator.h - computes the replies of a chat, by a session or by an engine that guesses tokens. On the CPU the
 * replies of both are the same. An engine finds the earlier turns among the prefixes of its cache. */
#ifndef CLI_CHAT_GENERATOR_H
#define CLI_CHAT_GENERATOR_H

#include "cli/guesses.h"

typedef struct Generator {
    RpSession       *session; /* or NULL: */
    RpEngine        *engine;
    const GuessArgs *guesses; /* of the engine */
    GuessResult      latest;  /* of the engine, in the latest reply */
    int32_t          n_seen;  /* tokens of the latest prompt that the sampler had accepted in the turns before */
} Generator;

const RpModel *cli_generator_model(const Generator *g);
int32_t        cli_generator_n_ctx(const Generator *g);

/* Goes back to n tokens, or to fewer if a session cannot stop there; *out is their number. An engine keeps all that it
 * has. */
RP_NODISCARD RpStatus cli_generator_rewind(Generator *g, size_t n, size_t *out);

/* As rp_generate, for a reply to `context` and the prompt behind it, of which the sampler has accepted n_seen tokens in
 * the turns before. `context` gets the tokens that the session has afterwards, which after a failure may be a part of
 * the prompt. With an engine it gets cli_guessed_context, and nothing after a failure. Tokens of the reply are appended
 * to o->tokens, which is empty before. */
RP_NODISCARD RpStatus cli_generator_reply(Generator *g, RpSampler *sampler, RpTokenList *context,
                                          const RpTokenList *prompt, size_t n_seen, const RpGenerateOptions *o,
                                          RpGenerateResult *result);

/* As rp_chat_generate. */
RP_NODISCARD RpStatus cli_generator_chat(Generator *g, RpSampler *sampler, const RpChatOptions *o,
                                         RpChatResult *result);

/* As rp_session_save and rp_session_restore; `context` is the tokens that the session has. *n_kept is that of
 * rp_engine_restore. */
RP_NODISCARD RpStatus cli_generator_save(const Generator *g, const RpTokenList *context, const char *note,
                                         const char *path);
RP_NODISCARD RpStatus cli_generator_restore(Generator *g, const char *path, RpTokenList *context, int32_t *n_kept,
                                            char **note);

#endif
