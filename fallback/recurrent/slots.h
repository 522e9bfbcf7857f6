/* slots.h - the slots that a call of a recurrent op uses (ops/private.h). */
#ifndef FALLBACK_RECURRENT_SLOTS_H
#define FALLBACK_RECURRENT_SLOTS_H

#include "base/kernels.h"

/* *n_tok: the tokens up to the last one with a slot; those behind it are padding. RP_E_ARG for a slot that the state
 * does not have. */
RP_NODISCARD static inline RpStatus rp_read_slots(const char *op, const RpTensorView *slots, int64_t n_slots,
                                                  int64_t *n_tok) {
    const int32_t *slot = slots->data;
    for (int64_t i = 0; i < slots->ne[0]; i++) {
        if (slot[i] >= n_slots || slot[i] < -1)
            return rp_fail(RP_E_ARG, "%s: slot %d, the state has %lld", op, slot[i], (long long)n_slots);
        if (slot[i] >= 0) *n_tok = i; /* slot[0] is the one before the first token */
    }
    return RP_OK;
}

#endif
