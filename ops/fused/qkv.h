/* qkv.h - the sources of op qkv, for its check and its kernels. */
#ifndef OPS_FUSED_QKV_H
#define OPS_FUSED_QKV_H

#include "base/kernels.h"

/* The sources of projection 0 (queries), 1 (keys) or 2 (values). */
typedef struct QkvSources {
    const RpTensorView *w, *bias;
    const RpTensorView *norm;  /* NULL for values */
    const RpTensorView *cache; /* NULL for queries */
} QkvSources;

static inline QkvSources rp_qkv_sources(const RpOpArgs *args, int proj) {
    const QkvSources q = {&args->qkv.wq, &args->qkv.bq, &args->qkv.q_norm, NULL},
                     k = {&args->qkv.wk, &args->qkv.bk, &args->qkv.k_norm, &args->qkv.k_cache},
                     v = {&args->qkv.wv, &args->qkv.bv, NULL, &args->qkv.v_cache};
    return proj == 0 ? q : proj == 1 ? k : v;
}

#endif
