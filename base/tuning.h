/* tuning.h - constants of a device that CUDA launchers size their grids by. They are set once, when a device is opened,
 * and every launch of an executor gets the same ones, so results have the same bits in every mode (I8). */
#ifndef BASE_TUNING_H
#define BASE_TUNING_H

#include "reprise/kernel.h"

enum { RP_TUNING_SM = 132 }; /* multiprocessors assumed where there is no device: those of an H100 */

struct RpCudaTuning {
    int n_sm; /* multiprocessors */
};

/* The constants for a device with so many multiprocessors that was not measured. */
static inline RpCudaTuning rp_tuning_defaults(int n_sm) {
    RpCudaTuning t;
    t.n_sm = n_sm > 0 ? n_sm : RP_TUNING_SM;
    return t;
}

/* Those of a call. */
static inline RpCudaTuning rp_tuning_of(const RpKernelCtx *ctx) {
    return ctx->tuning != NULL ? *ctx->tuning : rp_tuning_defaults(0);
}

#endif
