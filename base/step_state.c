/* The range of every member of the step state. It comes from callers and is used as an index by the kernels. */
#include "base/step_state.h"

#include <math.h>

/* Each condition is written so that NaN fails it (I11). */
RpStatus rp_sampling_check(float temperature, int32_t top_k, float top_p, float min_p) {
    if (!(temperature >= 0.0f && temperature < INFINITY))
        return rp_fail(RP_E_ARG, "temperature %g: must be finite and at least 0", (double)temperature);
    if (top_k < 0) return rp_fail(RP_E_ARG, "top_k %d: must be at least 0 (0: all tokens)", top_k);
    if (!(top_p > 0.0f && top_p <= 1.0f))
        return rp_fail(RP_E_ARG, "top_p %g: must be above 0 and at most 1", (double)top_p);
    if (!(min_p >= 0.0f && min_p <= 1.0f)) return rp_fail(RP_E_ARG, "min_p %g: must be from 0 to 1", (double)min_p);
    return RP_OK;
}

RpStatus rp_step_check(const RpStepState *s, const int32_t *recent, int64_t room, int64_t n_vocab) {
    RP_TRY(rp_sampling_check(s->temperature, s->top_k, s->top_p, s->min_p));
    if (!(s->repeat_penalty > 0.0f && s->repeat_penalty < INFINITY))
        return rp_fail(RP_E_ARG, "repeat_penalty %g: must be finite and above 0", (double)s->repeat_penalty);
    if (s->repeat_last_n < 0 || s->repeat_last_n > room)
        return rp_fail(RP_E_ARG, "repeat_last_n %d: must be from 0 to %lld", s->repeat_last_n, (long long)room);
    if (s->n_recent < 0 || s->n_recent > s->repeat_last_n || s->next_recent < 0 ||
        s->next_recent > (s->repeat_last_n > 0 ? s->repeat_last_n - 1 : 0))
        return rp_fail(RP_E_ARG, "step state: %d recent tokens, the next one at %d, in a ring of %d", s->n_recent,
                       s->next_recent, s->repeat_last_n);
    for (int32_t i = 0; i < s->n_recent; i++)
        if (recent[i] < 0 || recent[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "step state: recent token %d, the vocabulary has %lld", recent[i],
                           (long long)n_vocab);
    return RP_OK;
}
