/* guesses.h - replies whose next tokens are guessed, by prompt lookup, a draft model or the layer of the model that
 * predicts further tokens (MTP). On the CPU the text is the same as without guesses, on a GPU the same as that of an
 * engine without guesses. */
#ifndef CLI_GUESSES_H
#define CLI_GUESSES_H

#include "cli/common.h"

#include "reprise/chat.h"

typedef struct GuessArgs {
    int32_t     lookup, n_draft; /* tokens of a step, at most; 0: the default */
    const char *draft;           /* a file, or NULL */
    bool        no_mtp;
} GuessArgs;

enum { GUESSES_OF_A_DRAFT = 4 };

#define OPTIONS_GUESSES(v)                                                                                             \
    CLI_INT("lookup", 0, (v).lookup, "N",                                                                              \
            "guess up to N tokens ahead where the text repeats itself, at most 15; 0 (default): none; the reply "      \
            "stays the same, on the CPU; --repack is auto if it is not given",                                         \
            0, 15),                                                                                                    \
        CLI_FILE(FILE_READ, "draft", 0, (v).draft, "FILE",                                                             \
                 "a smaller model of the same vocabulary, or an assistant of MODEL, guesses ahead; the reply stays "   \
                 "the same, on the CPU; --repack is auto if it is not given"),                                         \
        CLI_INT("draft-tokens", 0, (v).n_draft, "N", "guesses of --draft or MTP, 1 to 15; default 4, of MTP 3", 1,     \
                15),                                                                                                   \
        CLI_FLAG("no-mtp", 0, (v).no_mtp,                                                                              \
                 "do not guess by the model's own layer that predicts further tokens (MTP), if it has one")

/* Options that exclude each other, with --mode or NULL; NULL: none. */
const char *cli_guesses_wrong(const GuessArgs *a, const char *mode);

/* The weights are then copied to the faster layout of steps of several tokens. An MTP layer guesses without being asked
 * to, and the copy takes memory. */
static inline bool cli_guesses_wanted(const GuessArgs *a) { return a->lookup > 0 || a->draft != NULL; }

/* RpRequest.n_draft */
static inline int32_t cli_n_draft(const GuessArgs *a) {
    if (a->draft == NULL) return a->lookup;
    return a->n_draft > 0 ? a->n_draft : GUESSES_OF_A_DRAFT;
}

/* RpEngineOptions.n_mtp */
static inline int32_t cli_n_mtp(const GuessArgs *a) { return a->no_mtp || a->lookup > 0 ? -1 : a->n_draft; }

/* Whether the model guesses by itself, with its MTP layer. With --mode it does not, because an engine on a GPU
 * always replays. */
bool cli_guesses_by_mtp(const GuessArgs *a, const RpModel *m, const DeviceArgs *d);

/* Fills in what the command line says of the device and of MTP layers. */
void cli_engine_options(const GuessArgs *a, const DeviceArgs *d, RpEngineOptions *o);

typedef struct GuessResult {
    RpGenerateResult reply;
    int32_t          n_guessed, n_right;
    RpExecutorInfo   device; /* its texts are those of the engine */
} GuessResult;

/* As rp_generate on an engine with one request. `o` has what rp_generate takes, without force_token and on_token. The
 * sampler has seen the first n_seen tokens of the prompt. A callback that returns false ends the reply. n_prompt of the
 * result counts the tokens that were not in the cache. */
RP_NODISCARD RpStatus cli_generate_guessing(const GuessArgs *a, RpEngine *e, RpSampler *sampler,
                                            const RpTokenList *prompt, size_t n_seen, const RpGenerateOptions *o,
                                            GuessResult *result);

/* Replaces *out by the context after a reply. It has the prompt, and the tokens of the reply without the last one,
 * which was not run. *out stays as it was if memory runs out. */
RP_NODISCARD RpStatus cli_guessed_context(const RpTokenList *prompt, const RpTokenList *reply, RpTokenList *out);

/* As rp_chat_generate on an engine with one request. `context` gets cli_guessed_context, also after a reply or a prompt
 * that a callback ended; it stays as it was after a failure of the request. `guesses` gets all but its `reply`. */
RP_NODISCARD RpStatus cli_chat_guessing(const GuessArgs *a, RpEngine *e, RpSampler *sampler, const RpChatOptions *o,
                                        RpChatResult *result, GuessResult *guesses);

/* Opens the engine and the draft model. The caller frees the engine first, and both also after a failure. */
RP_NODISCARD RpStatus cli_open_guessing(const GuessArgs *a, const RpModel *m, const DeviceArgs *d, bool quiet,
                                        RpEngineOptions *o, RpEngine **engine, RpModel **draft);

/* Prints the report on stderr. The times are as of Report. */
void cli_report_guessing(const GuessResult *r, double load_s, double first_token_s);

/* Prints the JSON members of cli_reply_json, and "guesses" and "right_guesses". */
void cli_guessing_json(const GuessResult *r, int32_t n_ctx, double load_s, double first_token_s, FILE *out);

#endif
