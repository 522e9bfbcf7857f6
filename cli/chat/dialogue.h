/* dialogue.h - a conversation as the JSON of a request: messages with tool calls and their results, tools, and
 * variables of the chat template. */
#ifndef CLI_CHAT_DIALOGUE_H
#define CLI_CHAT_DIALOGUE_H

#include "cli/chat/generator.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t; /* a value of Jansson */

typedef struct Dialogue {
    Generator            *generator; /* borrowed, as are the sampler and the template */
    RpSampler            *sampler;
    const RpChatTemplate *chat_template;
    struct json_t        *request; /* {"messages": [...], "tools": [...], ...} */
    char                 *asked;   /* the request that the latest reply answers, as text; NULL before the first reply */
    RpToolCallLog        *log;
    RpTokenList           context; /* the tokens that have been run */
    int32_t n_restored, n_kept; /* tokens of the last file that was loaded, 0: it was no context; and how many of them
                                   need not be computed again */
} Dialogue;

/* Begins without messages. Zero-initialise *d; the caller frees it, also after a failure. */
RP_NODISCARD RpStatus cli_dialogue_open(Dialogue *d, Generator *generator, RpSampler *sampler,
                                        const RpChatTemplate *chat_template);
void                  cli_dialogue_free(Dialogue *d);

/* Starts a new conversation with the system message `system`, NULL: with none. Tools and variables stay. */
RP_NODISCARD RpStatus cli_dialogue_reset(Dialogue *d, const char *system);

/* Appends a message of the user, or the result of the i-th call of the last message with calls. */
RP_NODISCARD RpStatus cli_dialogue_ask(Dialogue *d, const char *text);
RP_NODISCARD RpStatus cli_dialogue_result(Dialogue *d, const struct json_t *call, const char *text);

/* The i-th call of the last message, borrowed; NULL behind the last one. `name` is borrowed too. */
struct json_t *cli_dialogue_call(const Dialogue *d, size_t i, const char **name);

/* Returns the messages, for cli_dialogue_restore after a failure. NULL if memory ran out. */
struct json_t *cli_dialogue_keep(const Dialogue *d);
/* Makes `kept` the messages again and frees it. */
void cli_dialogue_restore(Dialogue *d, struct json_t *kept);
void cli_dialogue_drop(struct json_t *kept); /* frees them */

/* Removes the messages after the last user message, and that message too unless `keep_it`. With `keep_it` tool results
 * that have no reply yet are kept. False if there is no message of the user. */
bool cli_dialogue_back(Dialogue *d, bool keep_it);

typedef struct ReplyOptions {
    int32_t            max_tokens, budget;
    uint64_t           seed; /* of the ids of calls */
    RpPrefillProgress *on_prefill;
    RpReplyCallback   *on_event;
    void              *user;    /* of both */
    RpChatNote        *on_note; /* or NULL */
} ReplyOptions;

/* Streams a reply to the messages and appends it. A reply that was interrupted before it had any text is not appended,
 * and `*kept` is false. Calls of an interrupted reply are dropped. Errors of rp_chat_generate; RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_dialogue_reply(Dialogue *d, const ReplyOptions *o, RpChatResult *result, bool *kept);

/* ---- dialogue_files.c ---- */

/* Sets a variable of the template. */
RP_NODISCARD RpStatus cli_dialogue_set(Dialogue *d, const char *name, bool value);

/* Sets the tools to those of a file, a JSON array; NULL: none. They are tried with the template; after a failure the
 * old ones stay. */
RP_NODISCARD RpStatus cli_dialogue_tools(Dialogue *d, const char *path);

/* Replaces the conversation by that of a file, which is tried with the template; after a failure the old one stays. A
 * file of rp_session_save or rp_engine_save also gives the generator its context. */
RP_NODISCARD RpStatus cli_dialogue_load(Dialogue *d, const char *path);

/* Writes the conversation to a file, which is replaced as a whole or stays. A path that ends with ".context" gets the
 * context too (rp_session_save). RP_E_ARG if the file exists and is of another kind; the second function only checks
 * this. */
RP_NODISCARD RpStatus cli_dialogue_save(const Dialogue *d, const char *path);
RP_NODISCARD RpStatus cli_dialogue_check_save(const char *path);

size_t cli_dialogue_n_messages(const Dialogue *d);
size_t cli_dialogue_n_tools(const Dialogue *d);

#endif
