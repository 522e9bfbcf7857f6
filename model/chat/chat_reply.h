/* chat_reply.h - a reply of a chat, in a session or an engine: its prompt, its parser, its grammar, its stop strings
 * and its budget of reasoning.
 *
 *     rp_chat_reply_open -> force (before each token), token (after it) -> rp_chat_reply_finish */
#ifndef MODEL_CHAT_CHAT_REPLY_H
#define MODEL_CHAT_CHAT_REPLY_H

#include "model/chat/call_hold.h"
#include "model/chat/hold.h"
#include "model/chat/stop.h"

struct RpChatReply {
    RpChatOptions      o;
    RpSampler         *sampler;
    const RpTokenizer *tk;
    RpReplyParser     *parser;
    RpTokenList        prompt;
    RpTokenList        closing; /* of the reasoning, after the budget */
    size_t             n_forced;
    RpChatResult       result;
    RpStatus           status; /* the first failure between open and finish */
    char               error[512];
    char              *tools;
    Json               request;
    Hold               hold;
    CallHold           calls;
    ReplyStop          stop;
    bool               whole; /* the reply that the grammar holds is complete */
    int32_t            max_tokens;
    size_t             n_common; /* tokens with which the context and the prompt begin, without its last one */
    int32_t            last;     /* token, if result.n_generated > 0 */
};

/* Checks the options and makes prompt and parser. `r` is zero-initialised; close it also after a failure. */
RP_NODISCARD RpStatus rp_chat_reply_open(RpChatReply *r, const RpModel *m, RpSampler *sampler,
                                         const RpChatOptions *options, size_t options_bytes);
void                  rp_chat_reply_close(RpChatReply *r);

/* As RpForceToken and RpTokenCallback; user is the reply. */
int32_t rp_chat_reply_force(void *user);
bool    rp_chat_reply_token(int32_t token, void *user);

/* True if rp_chat_reply_force is needed. */
bool rp_chat_reply_forces(const RpChatReply *r);

/* The last token has come, `reason` ended the reply: gives the rest of the events, and result.reason. */
RP_NODISCARD RpStatus rp_chat_reply_finish(RpChatReply *r, RpStopReason reason);

#endif
