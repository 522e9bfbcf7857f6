/* dot.h - GEMV and GEMM of block-quantised weights and q8_act activations: data layouts and the definition of the
 * sum.
 *
 * The sum of one row and one column has a fixed order, so that every instruction set, worker count and batch size
 * gives the same bits (I8). A row is cut into sub-blocks (quants.h), and four consecutive sub-blocks are a k-step.
 * The sum has four accumulators; sub-block u adds to accumulator u % 4:
 *
 *     k         | sub 0 | sub 1 | sub 2 | sub 3 | sub 4 | sub 5 | ...
 *               |<------------ k-step --------->|<------ k-step ...
 *     adds to     acc 0   acc 1   acc 2   acc 3   acc 0   acc 1
 *
 *     dot    = sum over k in sub-block u of (q[k] - offset) * x.q[k]             an exact integer
 *     acc[a] = fma(scale[u] * x.scale[u], (float)dot, acc[a])                    a = u % 4
 *     acc[a] = fma(min[u], x.sum[u], acc[a])                                     only types with minima
 *     y      = (acc[0] + acc[2]) + (acc[1] + acc[3])
 *
 * x.scale[u] is the scale of the 32 activations around sub-block u; x.sum[u] is the sum of its activations,
 * of 16 or of twice 16. The integer dot product is exact, so each kernel may add its products in any order. Four
 * accumulators are what the SIMD kernels need: either one vector lane each, or four independent FMA chains.
 *
 * One column (GEMV) reads the blocks as they lie in the file. More columns (GEMM) are packed into column groups, 16
 * rows at a time are packed into a panel, and a tile is a panel times a column group. */
#ifndef FALLBACK_PRODUCTS_DOT_H
#define FALLBACK_PRODUCTS_DOT_H

#include "fallback/quants/quants.h"
#include "fallback/simd/prefetch.h"

#include <string.h>

enum {
    RP_KSTEP_SUBS = 4, /* sub-blocks of a k-step, and accumulators of a sum */
    RP_QUAD       = 4, /* consecutive k of one row: the int8 elements in a 32-bit lane */
    RP_PANEL_ROWS = 16,
    RP_GROUP_COLS = 8, /* columns of a column group, at most */
    RP_ROWS_COLS  = 3  /* columns of a RowsTile, at most */
};

/* Most columns for which a RowsTile is faster than a panel; less than 2: none. Fifth bits need registers of their own,
 * and a step of Q6_K alone would fill the registers. */
#define RP_ROWS_MOST(ID) (RP_##ID##_SUB == 16 ? 0 : RP_##ID##_TOP > 15 && RP_##ID##_OFFSET < 128 ? 2 : RP_ROWS_COLS)

/* The SIMD kernels load a part of each row at once: four blocks of 32 (one k-step), or one super-block of 256 (two
 * k-steps; four in Q6_K, whose sub-blocks have 16 elements). */
#define RP_LOAD_BLOCKS(ID) (RP_##ID##_ELEMS == 32 ? RP_KSTEP_SUBS : 1)
#define RP_LOAD_KSTEPS(ID) (RP_LOAD_BLOCKS(ID) * RP_##ID##_ELEMS / (RP_KSTEP_SUBS * RP_##ID##_SUB))
#define RP_LOAD_BYTES(ID)  (RP_LOAD_BLOCKS(ID) * (size_t)RP_##ID##_BYTES)

/* A q8_act column of n elements: q[n], scale[n/32], sum[n/16]. sum[i] is scale times the sum of 16 quants. */
typedef struct DotColumn {
    const int8_t *q;
    const float  *scale, *sum;
} DotColumn;

/* Sub-blocks of n elements. The divisors are constants: a division by a variable is measurable in small products. */
static inline int64_t rp_n_subs(const QuantForm *form, int64_t n) { return form->sub_elems == 32 ? n / 32 : n / 16; }

/* The column in the q8_act row at x, which has n elements. */
static inline DotColumn rp_dot_column(const char *x, int64_t n) {
    const float *scale = (const float *)(const void *)(x + n);
    return (DotColumn){.q = (const int8_t *)x, .scale = scale, .sum = scale + n / 32};
}

/* x.sum of the sub-block that begins with element i. */
static inline float rp_sub_sum(const QuantForm *form, const DotColumn *x, int64_t i) {
    const float *sum = x->sum + i / RP_SUM_BLOCK;
    return form->sub_elems == 32 ? sum[0] + sum[1] : sum[0];
}

/* row[r] = the address of row r, for r < rows. Only n_rows rows exist; the pointers after them repeat the last row,
 * so that kernels need no test for a short row group. */
static inline void rp_row_pointers(const char *p, size_t stride, int64_t n_rows, int rows, const char **row) {
    for (int r = 0; r < rows; r++) row[r] = p + (size_t)(r < n_rows ? r : n_rows - 1) * stride;
}

/* Packed panel of 16 rows, sub-block by sub-block:
 *
 *     q[k/4][row][k%4] 8 bits, then scale[row] f32, then min[row] f32 (unused without minima)
 *
 *     byte 0          4          8              64
 *          row 0      row 1      row 2 ...      row 0      row 1 ...
 *          k 0 1 2 3  k 0 1 2 3  k 0 1 2 3      k 4 5 6 7  k 4 5 6 7
 *
 * So a vector register of 32-bit lanes has a row in each lane, and no sum is ever added across lanes. Each
 * instruction set chooses its own encoding of q: unsigned with the offset, or signed without. Panels are aligned to
 * 64 bytes, and so is each sub-block. */
static inline size_t rp_panel_sub_bytes(const QuantForm *form) {
    return RP_PANEL_ROWS * ((size_t)form->sub_elems + 2 * sizeof(float));
}

static inline size_t rp_panel_bytes(const QuantForm *form, int64_t n) {
    return (size_t)rp_n_subs(form, n) * rp_panel_sub_bytes(form);
}

/* Packed column group of 1 to RP_GROUP_COLS columns, sub-block by sub-block:
 *
 *     q[col][k] int8, then scale[col] f32, then with minima sum[col] f32, else correction[col] i32
 *
 * correction = -offset * (sum of the sub-block's q): added to a dot product of unsigned q, it subtracts the offset. */
static inline size_t rp_group_sub_bytes(const QuantForm *form, int n_cols) {
    return (size_t)n_cols * ((size_t)form->sub_elems + 2 * sizeof(float));
}

static inline size_t rp_group_bytes(const QuantForm *form, int64_t n, int n_cols) {
    return (size_t)rp_n_subs(form, n) * rp_group_sub_bytes(form, n_cols);
}

/* Packs n_rows rows (1 to RP_PANEL_ROWS) of n elements, `stride` bytes apart, into a panel, and prefetches from
 * `ahead` meanwhile. Missing rows of the panel repeat the last row. */
typedef void PackPanel(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                       const PrefetchStream *ahead, char *panel);

/* The accumulators of one tile: 16 rows times up to RP_GROUP_COLS columns. */
typedef struct TileAccs {
    _Alignas(64) float acc[RP_KSTEP_SUBS][RP_GROUP_COLS][RP_PANEL_ROWS];
    bool empty; /* nothing was added yet: acc is undefined and counts as 0 */
} TileAccs;

/* For variants that keep accumulators in memory: writes the zeros of empty ones. */
static inline void rp_begin_accs(TileAccs *accs, int n_cols) {
    for (int p = 0; p < RP_KSTEP_SUBS && accs->empty; p++)
        memset(accs->acc[p], 0, (size_t)n_cols * sizeof accs->acc[p][0]);
    accs->empty = false;
}

/* Micro-kernel: adds n_subs sub-blocks of a panel times those of a group of n_cols columns to the accumulators.
 * Panel and group start at a whole k-step, so that sub-block 0 adds to accumulator 0. */
typedef void TileFunction(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                          const PrefetchStream *ahead, TileAccs *accs);

/* y[m] = row m . x, for rows of n elements, `stride` bytes apart. */
typedef void GemvFunction(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                          float *y);

/* As TileFunction, for 16 rows of the file, `stride` bytes apart, instead of a panel: all sub-blocks of the rows, and 2
 * to RP_ROWS_MOST columns. Every row exists. Only types in RP_DIRECT_QUANTS. */
typedef void RowsTile(RpDtype dtype, const char *rows, size_t stride, const char *group, int n_cols, int64_t n_subs,
                      const PrefetchStream *ahead, TileAccs *accs);

/* As TileFunction, for 16 repacked rows at `blocks` (repack.h) instead of a panel. */
typedef void RepackedTile(RpDtype dtype, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                          const PrefetchStream *ahead, TileAccs *accs);

/* Unpacks n elements of 16 repacked rows at `blocks` to a panel as the PackPanel of the same instruction set makes it,
 * and prefetches from `ahead` meanwhile. */
typedef void UnpackPanel(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel);

/* The kernels of one instruction set. */
typedef struct DotKernels {
    PackPanel    *pack;
    TileFunction *tile;
    GemvFunction *gemv;
    UnpackPanel  *unpack;
    RepackedTile *repacked;  /* NULL: repacked rows are always unpacked to a panel */
    int       repacked_cols; /* most columns for which `repacked` is faster than a panel, at most 4 groups; 0: none */
    int       q6_k_cols;     /* the same for Q6_K, whose quads take longest to unpack */
    RowsTile *rows;          /* NULL: panels for all numbers of columns */
} DotKernels;

/* The kernels of the instruction set in use (rp_cpu_isa). */
DotKernels rp_dot_kernels(void);

PackPanel    rp_pack_panel_plain;
TileFunction rp_tile_plain;
GemvFunction rp_gemv_plain;
UnpackPanel  rp_unpack_panel_plain;
#if defined(__x86_64__)
PackPanel    rp_pack_panel_avx2, rp_pack_panel_avx512;
TileFunction rp_tile_avx2, rp_tile_avx512;
GemvFunction rp_gemv_avx2, rp_gemv_avx512;
UnpackPanel  rp_unpack_panel_avx2, rp_unpack_panel_avx512;
RepackedTile rp_repacked_avx2, rp_repacked_avx512;
RowsTile     rp_rows_avx2;
#endif
#if defined(__aarch64__)
PackPanel    rp_pack_panel_neon;
TileFunction rp_tile_neon, rp_tile_neon_dotprod;
GemvFunction rp_gemv_neon, rp_gemv_neon_dotprod;
UnpackPanel  rp_unpack_panel_neon;
#endif

#endif
