/* tuning.h - constants of a device that CUDA launchers size their grids by. They are set once, when a device is opened,
 * and every launch of an executor gets the same ones, so results have the same bits in every mode (I8). */
#ifndef BASE_TUNING_H
#define BASE_TUNING_H

#include "reprise/kernel.h"

enum {
    RP_TUNING_SM    = 132,     /* multiprocessors assumed where there is no device: those of an H100 */
    RP_TUNING_EARLY = 12 << 20 /* about what an H100 reads while a kernel waits and prepares its column: 4 us */
};

struct RpCudaTuning {
    int n_sm;         /* multiprocessors */
    int blas_columns; /* q8_act columns from which cuBLASLt multiplies them, in f16; fewer are multiplied in tiles, in int8 */
    int early_bytes;  /* of weights that a kernel prefetches into L2 before griddepcontrol.wait */
};

/* GPUs for data centers (8.0, 9.0, 10.0, 10.3) have four times as many f16 products a clock, relative to other
 * instructions, as GeForce. There the library is predicted faster for long chunks (docs/gpu-kernels.md). */
enum { RP_TUNING_BLAS_COLUMNS = 256, RP_TUNING_NO_BLAS = 65536 };

static inline int rp_tuning_blas_columns(int major, int minor) {
    return major >= 8 && major <= 10 && (minor == 0 || minor == 3) ? RP_TUNING_BLAS_COLUMNS : RP_TUNING_NO_BLAS;
}

/* The constants for a device with so many multiprocessors that was not measured. */
static inline RpCudaTuning rp_tuning_defaults(int n_sm) {
    RpCudaTuning t;
    t.n_sm         = n_sm > 0 ? n_sm : RP_TUNING_SM;
    t.blas_columns = RP_TUNING_BLAS_COLUMNS;
    t.early_bytes  = RP_TUNING_EARLY;
    return t;
}

/* Those of a call. */
static inline RpCudaTuning rp_tuning_of(const RpKernelCtx *ctx) {
    return ctx->tuning != NULL ? *ctx->tuning : rp_tuning_defaults(0);
}

#endif
