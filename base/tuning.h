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
    RP_TUNING_SPLIT_TOKENS = 8, /* of an 8B model: 16 blocks without splits; more tokens write more partial results */
    RP_TUNING_OVERLAP      = 32768 /* every grid */
};

/* How products of quantised weights with five and more q8_act columns are computed on tensor cores. The two differ in
 * their last bits and in their error:
 *
 *     RP_PREFILL_INT8    exact integer products of 32 elements, scaled in f32    kernels/device/tile_int8.cuh
 *     RP_PREFILL_F16     factors rounded to f16, sums in f32                     kernels/device/tile_f16.cuh */
typedef enum RpPrefillTile { RP_PREFILL_INT8, RP_PREFILL_F16 } RpPrefillTile;

struct RpCudaTuning {
    int           n_sm; /* multiprocessors */
    RpPrefillTile prefill_tile;
    int           tile_columns; /* q8_act columns from which tiles multiply them; fewer take a GEMV */
    int           blas_columns; /* q8_act columns from which cuBLASLt multiplies them; fewer are multiplied in tiles */
    /* Measured at the first open (executor/cuda/tune.c): */
    int early_bytes;    /* of weights that a kernel prefetches into L2 before griddepcontrol.wait */
    int grid_percent;   /* blocks of a fused product, in percent of those that the multiprocessors hold at a time */
    int split_tokens;   /* up to this number of tokens attention has a block for each split of a token */
    int next_bytes;     /* of the weights behind it that attention prefetches into L2 */
    int overlap_blocks; /* grids of more blocks per multiprocessor are launched without PDL; 0: all grids are */
};

enum { RP_TUNING_BLAS_COLUMNS = 2048, RP_TUNING_NO_BLAS = 65536 };

/* A GEMV reads the weights once for four columns. RpColumns (reprise/executor.h) replaces the number by one of the
 * other two, so that columns have the same bits for any number of them. */
enum { RP_TUNING_TILE_COLUMNS = 5, RP_TUNING_NO_TILES = 65536, RP_TUNING_ALWAYS_TILES = 1 };

/* GPUs for data centers (8.0, 9.0, 10.0, 10.3) multiply f16 with f32 sums at half the rate of int8, and a multiply-add
 * of tensor cores takes a fourth of the time that it takes on others, relative to other instructions. There f16 is
 * predicted faster, and the library for very many columns; on GeForce, with a quarter of the rate, int8 is
 * (docs/gpu-kernels.md). */
static inline bool rp_tuning_prefers_f16(int major, int minor) {
    return major >= 8 && major <= 10 && (minor == 0 || minor == 3);
}

/* The constants without a measurement, for a device of n_sm multiprocessors and this compute capability. */
static inline RpCudaTuning rp_tuning_of_device(int n_sm, int major, int minor) {
    const bool   f16 = rp_tuning_prefers_f16(major, minor);
    RpCudaTuning t;
    t.n_sm           = n_sm > 0 ? n_sm : RP_TUNING_SM;
    t.prefill_tile   = f16 ? RP_PREFILL_F16 : RP_PREFILL_INT8;
    t.tile_columns   = RP_TUNING_TILE_COLUMNS;
    t.blas_columns   = f16 ? RP_TUNING_BLAS_COLUMNS : RP_TUNING_NO_BLAS;
    t.early_bytes    = RP_TUNING_EARLY;
    t.grid_percent   = RP_TUNING_GRID;
    t.split_tokens   = RP_TUNING_SPLIT_TOKENS;
    t.overlap_blocks = RP_TUNING_OVERLAP;
    t.next_bytes     = 0;
    return t;
}

/* The same without a device: the constants of an H100 with n_sm multiprocessors; 0: RP_TUNING_SM. */
static inline RpCudaTuning rp_tuning_defaults(int n_sm) { return rp_tuning_of_device(n_sm, 9, 0); }

/* The constants of a call: its context may have constants, else the defaults hold. */
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

/* ---- what attention prefetches ---- */

enum { RP_NEXT_MATRICES = 4, RP_NEXT_LEAST_ROWS = 64 /* fewer are norms and biases */ };

/* The weights that the steps behind attention read. Attention leaves the memory of a device idle for most of its time,
 * so it may prefetch them into L2 (next_bytes). */
struct RpNextWeights {
    const char *data[RP_NEXT_MATRICES];
    int         bytes[RP_NEXT_MATRICES]; /* to prefetch from `data` on; 0 behind the last matrix */
    int         n;
};

/* Adds the matrices of a step that are weights (`constant` as in RpKernelCtx), in their order, while *left bytes are
 * left. Returns whether later steps may be added: not if *next is full, nor behind experts, which are chosen only when
 * the step runs. */
static inline bool rp_next_weights_add(RpNextWeights *next, TensorOp op, const RpOpArgs *args, unsigned constant,
                                       int64_t *left) {
    if (op == RP_OP_GET_ROWS) return true;
    for (int k = 0; k < RP_MAX_SRC; k++) {
        const RpTensorView *w = &args->src[k];
        if ((constant >> k & 1) == 0 || w->ne[1] < RP_NEXT_LEAST_ROWS) continue;
        if (w->ne[2] != 1 || *left <= 0 || next->n == RP_NEXT_MATRICES) return false;
        const int64_t bytes  = w->ne[1] * (int64_t)w->nb[1];
        next->data[next->n]  = (const char *)w->data;
        next->bytes[next->n] = (int)(bytes < *left ? bytes : *left);
        *left -= next->bytes[next->n++];
    }
    return *left > 0;
}

#endif
