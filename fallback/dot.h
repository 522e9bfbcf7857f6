/* dot.h - rows of block-quantised weights times q8_act columns.
 *
 * The sum of one row and one column is defined so that every variant gives the same bits. The elements that share a
 * scale are a unit: 32 of them, or 16 in Q6_K. Four units are a span, and a sum has four parts, one for each unit of
 * a span. Unit u adds to part u % 4
 *
 *     part = fma(scale[u] * x.scale[u], (float)(sum of (q - offset) * x.q of the unit), part)
 *     part = fma(min[u], x.sum[u], part)                            of types that have minima
 *
 * where x.scale[u] is that of unit u's block, and x.sum[u] the two sums of its 16s, added. The result is
 * (part 0 + part 2) + (part 1 + part 3).
 *
 * One column is multiplied straight from the blocks of the file (GemvFunction). For more, columns are packed to groups
 * and 16 rows at a time are unpacked to a panel, whole or some units after the other; a tile is a panel times a group. */
#ifndef FALLBACK_DOT_H
#define FALLBACK_DOT_H

#include "fallback/prefetch.h"
#include "fallback/quants.h"

#include <string.h>

enum {
    RP_SPAN_UNITS = 4,
    RP_QUAD       = 4, /* elements: what a lane of 32 bits holds */
    RP_PANEL_ROWS = 16,
    RP_GROUP_COLS = 8
};

typedef struct DotColumn {
    const int8_t *q;
    const float  *scale, *sum;
} DotColumn;

/* Whole units; a division by what is not constant would show in small products. */
static inline int64_t rp_units(const QuantForm *form, int64_t n) {
    return form->unit == 32 ? n / 32 : n / 16;
}

/* A q8_act row of n elements. */
static inline DotColumn rp_dot_column(const char *x, int64_t n) {
    const float *scale = (const float *)(const void *)(x + n);
    return (DotColumn){.q = (const int8_t *)x, .scale = scale, .sum = scale + n / 32};
}

/* `rows` rows from p on, of which n_rows are there: the others repeat the last. */
static inline void rp_take_rows(const char *p, size_t stride, int64_t n_rows, int rows, const char **row) {
    for (int r = 0; r < rows; r++) row[r] = p + (size_t)(r < n_rows ? r : n_rows - 1) * stride;
}

/* RP_PANEL_ROWS rows, unit by unit: its quads, of each the rows one after the other; the rows' scales; their minima, if
 * any. What a byte of a quad is, with or without the offset, is the variant's matter. A panel starts at a multiple of
 * 64, as do its units. */
static inline size_t rp_panel_unit_bytes(const QuantForm *form) {
    return RP_PANEL_ROWS * ((size_t)form->unit + 2 * sizeof(float));
}

static inline size_t rp_panel_bytes(const QuantForm *form, int64_t n) {
    return (size_t)rp_units(form, n) * rp_panel_unit_bytes(form);
}

/* 1 to RP_GROUP_COLS columns, unit by unit: the columns' quants one after the other, their scales, and their sums where
 * the weights have minima, else the 32-bit integers -offset * (sum of quants). */
static inline size_t rp_group_unit_bytes(const QuantForm *form, int n_cols) {
    return (size_t)n_cols * ((size_t)form->unit + 2 * sizeof(float));
}

static inline size_t rp_group_bytes(const QuantForm *form, int64_t n, int n_cols) {
    return (size_t)rp_units(form, n) * rp_group_unit_bytes(form, n_cols);
}

/* n_rows rows of n elements, 1 to RP_PANEL_ROWS, that stand `stride` bytes apart; the panel's other rows repeat the
 * last. */
typedef void PackPanel(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                       const Ahead *ahead, char *panel);

/* The parts of the sums of 16 rows and up to RP_GROUP_COLS columns. */
typedef struct TileSums {
    _Alignas(64) float part[RP_SPAN_UNITS][RP_GROUP_COLS][RP_PANEL_ROWS];
    bool empty; /* nothing was added: part is undefined */
} TileSums;

/* For variants that add to memory: zeros for what is empty. */
static inline void rp_begin_sums(TileSums *sums, int n_cols) {
    for (int p = 0; p < RP_SPAN_UNITS && sums->empty; p++)
        memset(sums->part[p], 0, (size_t)n_cols * sizeof sums->part[p][0]);
    sums->empty = false;
}

/* Adds n_units units of a panel times those of a group of n_cols columns. Unit 0 is one that adds to part 0. */
typedef void TileFunction(const QuantForm *form, const char *panel, const char *group, int n_cols,
                          int64_t n_units, const Ahead *ahead, TileSums *sums);

/* y[m] = row m times the column, for rows of n elements that stand `stride` bytes apart. */
typedef void GemvFunction(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                          const DotColumn *x, float *y);

/* Of the variant in use. */
typedef struct DotKernels {
    PackPanel    *pack;
    TileFunction *tile;
    GemvFunction *gemv;
} DotKernels;

DotKernels rp_dot_kernels(void);

PackPanel    rp_pack_panel_plain;
TileFunction rp_tile_plain;
GemvFunction rp_gemv_plain;
#if defined(__x86_64__)
PackPanel    rp_pack_panel_avx2, rp_pack_panel_avx512;
TileFunction rp_tile_avx2, rp_tile_avx512;
GemvFunction rp_gemv_avx2, rp_gemv_avx512;
#endif
#if defined(__aarch64__)
PackPanel    rp_pack_panel_neon;
TileFunction rp_tile_neon, rp_tile_neon_dotprod;
GemvFunction rp_gemv_neon, rp_gemv_neon_dotprod;
#endif

#endif
