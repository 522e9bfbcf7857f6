/* projections.h - the sources of op projections, for its check and its kernels. */
#ifndef OPS_FUSED_PROJECTIONS_H
#define OPS_FUSED_PROJECTIONS_H

#include "base/kernels.h"

enum { RP_PROJECTIONS = 4 };

/* Weights 0 to RP_PROJECTIONS - 1, in the order of their rows in the result; NULL if absent. */
static inline const RpTensorView *rp_projection(const RpOpArgs *args, int i) {
    const RpTensorView *const w[] = {&args->projections.wa, &args->projections.wb, &args->projections.wc,
                                     &args->projections.wd};
    return rp_is_present(w[i]) ? w[i] : NULL;
}

/* The column that these weights read: only quantised ones read it quantised. */
static inline RpColumnParams rp_projection_column(const RpColumnParams *c, const RpTensorView *w) {
    RpColumnParams column = *c;
    if (!rp_dtype_is_quant(w->dtype)) column.round = 0;
    return column;
}

#endif
