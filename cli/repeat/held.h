/* held.h - a reply that a grammar held, held again. */
#ifndef CLI_REPEAT_HELD_H
#define CLI_REPEAT_HELD_H

#include "cli/common.h"

#include "manifest/manifest.h"

/* Zero-initialise it. Either a matcher, or a chat with the callbacks that set its masks. */
typedef struct Held {
    RpGrammar      *grammar;
    RpMatcher      *matcher;
    RpChatTemplate *chat_template;
    RpChatReply    *chat;
    RpRequest       hooks; /* force_token, on_token and token_user of the chat */
} Held;

/* Makes the matcher or the chat that held the turn. `vocab` is made at the first call and reused; the caller frees it
 * after *h. The sampler must have no mask. Call cli_held_close also after a failure. */
RP_NODISCARD RpStatus cli_held_open(const ManifestTurn *t, const RpModel *m, RpSampler *sampler, RpGrammarVocab **vocab,
                                    Held *h);
void                  cli_held_close(Held *h);

#endif
