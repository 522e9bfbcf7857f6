/* reply.h - replies whose tokens are sampled on the device that runs the model. */
#ifndef MODEL_REPLY_H
#define MODEL_REPLY_H

#include "model/runner.h"

/* Why a session that can sample on its device does not with this sampler and these options (I10): logits are copied to
 * the host and sampled there. NULL: it does, or cannot. */
const char *rp_session_host_sampling(const RpSession *s, const RpSampler *sampler, const RpGenerateOptions *o);

/* A reply on the device: begin, next for each token, then end or, after a failure, drop.
 *
 *     begin   `token` was sampled but is not in the context yet; at most max_tokens follow it
 *     next    appends the token before, returns the one sampled after it, updates the host's sampler to match
 *     held    the same where the host has a say in each token, for a reply that begins with o->held
 *     end     stops the device; the logits stay available unless it ran past the last token asked for
 *     drop    as end; rp_last_error() keeps the text of the failure
 */
typedef struct ReplyBegin {
    int32_t token, max_tokens;
    bool    ignore_end, held;
} ReplyBegin;

RP_NODISCARD RpStatus rp_session_reply_begin(RpSession *s, const RpSampler *sampler, const ReplyBegin *o);
RP_NODISCARD RpStatus rp_session_reply_next(RpSession *s, RpSampler *sampler, int32_t *token);

/* Called while the device computes the logits of a token: sets the mask of the sampler, or *given to the token that the
 * caller wants instead; *given is -1. The reply then ends with that token. */
typedef RpStatus      RpPrepareToken(void *user, int32_t *given);
RP_NODISCARD RpStatus rp_session_reply_held(RpSession *s, RpSampler *sampler, RpPrepareToken *prepare, void *user,
                                            int32_t *token);
RP_NODISCARD RpStatus rp_session_reply_end(RpSession *s);
void                  rp_session_reply_drop(RpSession *s);

#endif
