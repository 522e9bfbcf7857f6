/* experts.h - ids of selected experts as the kernels read them. They are data that the graph computes (I4), so kernels
 * must accept any number: an expert that does not exist contributes nothing. */
#ifndef FALLBACK_EXPERTS_H
#define FALLBACK_EXPERTS_H

#include "ops/rules.h"

/* Expert j of token t, or -1 if the id is not in 0..n_expert-1. ids: contiguous i32 [k, n_tok]. */
static inline int32_t rp_expert(const RpTensorView *ids, int64_t j, int64_t t, int64_t n_expert) {
    const int32_t id = ((const int32_t *)ids->data)[t * ids->ne[0] + j];
    return id >= 0 && id < n_expert ? id : -1;
}

#endif
