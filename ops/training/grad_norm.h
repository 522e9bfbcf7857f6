/* grad_norm.h - what the kernels of op grad_norm share. */
#ifndef OPS_TRAINING_GRAD_NORM_H
#define OPS_TRAINING_GRAD_NORM_H

#include "base/kernels.h"

/* Into how many parts of equal size grad_norm divides n elements. Part p has the groups of 4 elements from
 * groups * p / parts to groups * (p + 1) / parts - 1. The division depends on n only, and so does the order of the
 * sum. */
static inline int64_t rp_grad_norm_parts(int64_t n) {
    const int64_t parts = (n + 4095) / 4096, most = RP_GRAD_NORM_PARTS;
    return parts < most ? parts : most;
}

#endif
