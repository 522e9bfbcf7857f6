/* reply.h - the tokens of a reply drawn where the model runs. */
#ifndef MODEL_REPLY_H
#define MODEL_REPLY_H

#include "model/runner.h"

/* Whether this session draws by itself with such a sampler; otherwise logits come back to the host. */
bool rp_session_draws(const Session *s, const Sampler *sampler);

/* Starts with `token`, drawn but not appended, as it follows the context; at most max_tokens are drawn. Each
 * next token appends the one before it and brings the sampler along. */
RP_NODISCARD RpStatus rp_session_reply_begin(Session *s, const Sampler *sampler, int32_t token,
                                             int32_t max_tokens, bool ignore_end);
RP_NODISCARD RpStatus rp_session_reply_next(Session *s, Sampler *sampler, int32_t *token);
RP_NODISCARD RpStatus rp_session_reply_end(Session *s);
void                  rp_session_reply_drop(Session *s); /* after a failure, whose text stays the latest */

#endif
