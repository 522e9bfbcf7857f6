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
 *     end     stops the device; the logits stay available unless it ran past the last token asked for
 *     drop    as end; rp_last_error() keeps the text of the failure
 */
RP_NODISCARD RpStatus rp_session_reply_begin(RpSession *s, const RpSampler *sampler, int32_t token, int32_t max_tokens,
                                             bool ignore_end);
RP_NODISCARD RpStatus rp_session_reply_next(RpSession *s, RpSampler *sampler, int32_t *token);
RP_NODISCARD RpStatus rp_session_reply_end(RpSession *s);
void                  rp_session_reply_drop(RpSession *s);

#endif
