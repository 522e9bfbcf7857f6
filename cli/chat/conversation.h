/* conversation.h - messages and replies in turn, which keep the KV cache from turn to turn. */
#ifndef CLI_CHAT_CONVERSATION_H
#define CLI_CHAT_CONVERSATION_H

#include "cli/chat/generator.h"
#include "cli/chat_format.h"

/* Zero-initialise, set the first four members, and `pending` and `last` to -1. */
typedef struct Conversation {
    Generator     *generator; /* borrowed, as is the sampler */
    RpSampler     *sampler;
    ChatFormat     format;        /* owned */
    bool           parse_special; /* control tokens are recognised in messages */
    RpChatMessage *messages;      /* texts are malloc */
    size_t         n_messages;
    RpTokenList    context;    /* the tokens that have been run */
    char          *known_text; /* text of `context` and `pending` together; NULL: not known */
    int32_t        pending;    /* last sampled token, printed but not run yet; -1: none */
    int32_t        last;       /* last sampled token, which the sampler has accepted; -1: none */
} Conversation;

/* Sends a message and streams the reply; both join the conversation. On an error the message does not, so that the
 * next one can be tried. RP_E_CONTEXT_FULL if the message does not fit. */
RP_NODISCARD RpStatus cli_converse(Conversation *c, const char *message, const RpGenerateOptions *options,
                                   RpGenerateResult *result);

/* Starts a new conversation with the system message `system`, NULL: with none. */
RP_NODISCARD RpStatus cli_conversation_reset(Conversation *c, const char *system);
void                  cli_conversation_free(Conversation *c);

#endif
