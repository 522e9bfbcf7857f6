/* experts.h - what the kernels that take ids of experts check. */
#ifndef FALLBACK_EXPERTS_H
#define FALLBACK_EXPERTS_H

#include "reprise/kernel.h"

/* Expert j of token t, or -1 where the id is none of n_expert. */
static inline int32_t rp_expert(const TensorView *ids, int64_t j, int64_t t, int64_t n_expert) {
    const int32_t id = ((const int32_t *)ids->data)[t * ids->ne[0] + j];
    return id >= 0 && id < n_expert ? id : -1;
}

static inline RpStatus rp_check_ids(const char *op, const TensorView *ids, int64_t k, int64_t n_tok) {
    if (ids->dtype != RP_I32)
        return rp_fail(RP_E_DTYPE, "%s: ids are %s: i32 is wanted", op, rp_dtype_name(ids->dtype));
    if (ids->ne[0] != k || ids->ne[1] != n_tok)
        return rp_fail(RP_E_SHAPE, "%s: ids [%lld,%lld], [%lld,%lld] is wanted", op, (long long)ids->ne[0],
                       (long long)ids->ne[1], (long long)k, (long long)n_tok);
    return RP_OK;
}

#endif
