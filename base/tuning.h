/* tuning.h - constants of a device that CUDA launchers size their grids by. They are set once, when a device is opened,
 * and every launch of an executor gets the same ones, so results have the same bits in every mode (I8). Those that are
 * measured change no bit at all: no order of additions depends on them. */
#ifndef BASE_TUNING_H
#define BASE_TUNING_H

#include "reprise/kernel.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RP_TUNING_SM           = 132,      /* multiprocessors assumed where there is no device: those of an H100 */
    RP_TUNING_EARLY        = 12 << 20, /* about what an H100 reads while a kernel waits and prepares its column: 4 us */
    RP_TUNING_GRID         = 100,      /* what the launch bounds of the kernels are made for */
    RP_TUNING_SPLIT_TOKENS = 8,        /* of an 8B model: 16 blocks without splits; more tokens write more partial results */
    RP_TUNING_OVERLAP      = 32768     /* every grid */
};

struct RpCudaTuning {
    int n_sm;         /* multiprocessors */
    int blas_columns; /* q8_act columns from which cuBLASLt multiplies them, in f16; fewer are multiplied in tiles, in int8 */
    /* Measured at the first open (executor/cuda/tune.c): */
    int early_bytes;    /* of weights that a kernel prefetches into L2 before griddepcontrol.wait */
    int grid_percent;   /* blocks of a fused product, in percent of those that the multiprocessors hold at a time */
    int split_tokens;   /* attention of at most so many tokens has blocks for each split of a token */
    int overlap_blocks; /* a multiprocessor: larger grids start when the kernel before them has ended, without
                           programmatic dependent launch; 0: all do */
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
    t.n_sm           = n_sm > 0 ? n_sm : RP_TUNING_SM;
    t.blas_columns   = RP_TUNING_BLAS_COLUMNS;
    t.early_bytes    = RP_TUNING_EARLY;
    t.grid_percent   = RP_TUNING_GRID;
    t.split_tokens   = RP_TUNING_SPLIT_TOKENS;
    t.overlap_blocks = RP_TUNING_OVERLAP;
    return t;
}

/* Those of a call. */
static inline RpCudaTuning rp_tuning_of(const RpKernelCtx *ctx) {
    return ctx->tuning != NULL ? *ctx->tuning : rp_tuning_defaults(0);
}

/* Blocks of a grid of which a multiprocessor holds `resident` at a time; at least one for each multiprocessor. */
static inline int64_t rp_tuning_blocks(const RpKernelCtx *ctx, int64_t resident) {
    const RpCudaTuning t    = rp_tuning_of(ctx);
    const int64_t      each = resident * t.grid_percent / 100;
    return t.n_sm * (each > 1 ? each : 1);
}

/* Whether a grid may start before the kernel in front of it has ended. */
static inline bool rp_tuning_overlaps(const RpCudaTuning *t, const unsigned grid[3]) {
    return (uint64_t)grid[0] * grid[1] * grid[2] <= (uint64_t)t->overlap_blocks * (uint64_t)t->n_sm;
}

#endif
