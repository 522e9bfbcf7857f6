/* slots.h - the slots that a call of a recurrent op uses (ops/private.h). */
#ifndef FALLBACK_RECURRENT_SLOTS_H
#define FALLBACK_RECURRENT_SLOTS_H

#include "base/kernels.h"

enum { SLOT_ZEROS = -1, SLOT_FOLLOWS = -2 };

/* *n_tok: the tokens up to the last one with a slot; those behind it are padding. RP_E_ARG for a slot that the state
 * does not have. */
RP_NODISCARD static inline RpStatus rp_read_slots(const char *op, const RpTensorView *slots, const RpTensorView *starts,
                                                  int64_t n_slots, int64_t *n_tok) {
    const int32_t *slot = slots->data, *start = rp_is_present(starts) ? starts->data : NULL;
    for (int64_t i = 0; i + 1 < slots->ne[0] && start != NULL; i++)
        if (start[i] >= n_slots || start[i] < (i == 0 ? SLOT_ZEROS : SLOT_FOLLOWS))
            return rp_fail(RP_E_ARG, "%s: token %lld starts from slot %d, the state has %lld", op, (long long)i,
                           start[i], (long long)n_slots);
    for (int64_t i = 0; i < slots->ne[0]; i++) {
        if (slot[i] >= n_slots || slot[i] < -1)
            return rp_fail(RP_E_ARG, "%s: slot %d, the state has %lld", op, slot[i], (long long)n_slots);
        if (slot[i] >= 0) *n_tok = i; /* slot[0] is the one before the first token */
    }
    return RP_OK;
}

/* The slot of the state before token t, SLOT_ZEROS or SLOT_FOLLOWS: that after token t - 1. */
static inline int32_t rp_slot_before(const RpTensorView *slots, const RpTensorView *starts, int64_t t) {
    if (rp_is_present(starts)) return ((const int32_t *)starts->data)[t];
    return t == 0 ? ((const int32_t *)slots->data)[0] : SLOT_FOLLOWS;
}

/* Whether a token continues from the state after another one of the call. */
static inline bool rp_slots_follow(const RpTensorView *slots, const RpTensorView *starts, int64_t n_tok) {
    for (int64_t t = 1; t < n_tok; t++)
        if (rp_slot_before(slots, starts, t) == SLOT_FOLLOWS) return true;
    return false;
}

#endif
