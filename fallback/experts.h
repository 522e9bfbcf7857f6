/* experts.h - what the kernels that take ids of experts check. */
#ifndef FALLBACK_EXPERTS_H
#define FALLBACK_EXPERTS_H

#include "reprise/check.h"

/* Expert j of token t, or -1 where the id is none of n_expert. */
static inline int32_t rp_expert(const TensorView *ids, int64_t j, int64_t t, int64_t n_expert) {
    const int32_t id = ((const int32_t *)ids->data)[t * ids->ne[0] + j];
    return id >= 0 && id < n_expert ? id : -1;
}

#endif
