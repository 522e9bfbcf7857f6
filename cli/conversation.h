/* conversation.h - messages in turn, over one session whose cache is kept from turn to turn. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include "cli/common.h"

/* Zero-initialise, then set the first three. */
typedef struct Conversation {
    Session     *session; /* borrowed, as is the sampler */
    Sampler     *sampler;
    ChatKind     kind;
    ChatMessage *messages; /* texts are owned */
    size_t       n_messages;
    TokenList    context; /* the tokens that the session holds */
    char        *covered; /* the text that they and `pending` stand for; NULL where that is not known */
    int32_t      pending; /* drawn and shown but not in the session yet, or -1 */
} Conversation;

/* Sends a message and streams the reply; both are kept. After a failure the message is not, so that the next
 * one can be tried: RP_E_CONTEXT_FULL where it does not fit. */
RP_NODISCARD RpStatus cli_converse(Conversation *c, const char *message, const GenerateOptions *options,
                                   GenerateResult *result);

/* Forgets everything; `system` (or NULL) is the system message from now on. */
RP_NODISCARD RpStatus cli_conversation_reset(Conversation *c, const char *system);
void                  cli_conversation_free(Conversation *c);

#endif
