/* attention_backward.h - what the kernels of op attention_backward share. */
#ifndef OPS_TRAINING_ATTENTION_BACKWARD_H
#define OPS_TRAINING_ATTENTION_BACKWARD_H

#include "base/kernels.h"

/* The keys that query t sees end with t + this number: without `causal` with the last one. */
static inline int64_t rp_attention_ahead(const RpOpArgs *args) {
    const int64_t n_q = args->attention_backward.q.ne[1], n_k = args->attention_backward.k.ne[1];
    return args->params->attention_backward.causal != 0 ? n_k - n_q : n_k;
}

#endif
