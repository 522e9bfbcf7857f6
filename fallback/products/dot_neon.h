/* dot_neon.h - GEMV and the GEMM micro-kernel of one NEON variant, bit for bit as dot.h.
 *
 * Included once by each variant, which defines INLINE, NEON(name) as the name of its public functions, and the exact
 * integer dot products, where the variants differ:
 *
 *     kstep_start   the terms of the weights' offset in a k-step, from the column alone
 *     kstep_sums    dot products of a k-step, lane u = sub-block u
 *     tile_sums     dot products of one sub-block of 8 rows and up to 4 columns, lane = row
 *     tile_cols     columns that tile_sums takes at once */
#include "fallback/products/gemv_load_neon.h"
#include "fallback/simd/prefetch.h"

/* ---- GEMV: a few rows share the prepared column; lane u of acc[r] is accumulator u of row r ---- */

/* A slice of the column, prepared for all rows of a row group. */
typedef struct ColumnSlice {
    int8x16_t   q[SLICE_VECTORS];
    int32x4_t   start[SLICE_KSTEPS][RP_KSTEP_SUBS]; /* kstep_start, of each k-step */
    float32x4_t scale[SLICE_KSTEPS], sum[SLICE_KSTEPS];
} ColumnSlice;

/* The first n floats, at most 4, then -0. A missing sub-block has dot product 0 and scale >= 0, so its term is
 * -0: adding it leaves an accumulator as it is. */
INLINE float32x4_t first_floats(const float *p, int n) {
    float32x4_t v = vdupq_n_f32(-0.0f);
    if (n >= 4) return vld1q_f32(p);
    if (n > 0) v = vld1q_lane_f32(p, v, 0);
    if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}

/* Prepares the slice from element i on: n_subs sub-blocks of 32 (zeros after them), or eight of 16. */
INLINE ColumnSlice column_slice(const QuantLoader *t, const DotColumn *x, int64_t i, int n_subs) {
    const int    n_ksteps = SLICE / RP_KSTEP_SUBS / t->form.sub_elems;
    const float *scale = x->scale + i / 32, *sum = x->sum + i / RP_SUM_BLOCK;
    ColumnSlice  s;
    for (int k = 0; k < SLICE_VECTORS; k++)
        s.q[k] = k < 2 * n_subs ? vld1q_s8(x->q + i + VECTOR_ELEMS * k) : vdupq_n_s8(0);
    for (int h = 0; h < n_ksteps; h++) {
        for (int u = 0; u < RP_KSTEP_SUBS; u++) s.start[h][u] = vdupq_n_s32(0);
        if (t->form.offset > 0)
            kstep_start(t->form.sub_elems, vdupq_n_s8((int8_t)-t->form.offset), s.q + 4 * h, s.start[h]);
    }
    s.scale[0] = first_floats(scale, n_subs);
    if (t->form.sub_elems == 16) {
        s.scale[1] = vzip2q_f32(s.scale[0], s.scale[0]);
        s.scale[0] = vzip1q_f32(s.scale[0], s.scale[0]);
    }
    if (t->form.has_min && t->form.sub_elems == 16)
        for (int h = 0; h < n_ksteps; h++) s.sum[h] = vld1q_f32(sum + RP_KSTEP_SUBS * h);
    else if (t->form.has_min)
        s.sum[0] = vpaddq_f32(first_floats(sum, 2 * n_subs), first_floats(sum + 4, 2 * n_subs - 4));
    return s;
}

enum { GEMV_ROWS = 4 };

/* n rows from w on. `ahead` is the prefetch distance. */
typedef struct GemvRows {
    const char *w;
    size_t      stride, ahead;
    int         n;
} GemvRows;

/* One load of the rows, from element i of the column on. n_subs is RP_KSTEP_SUBS, or 1 to 3 in the last load of
 * rows of blocks of 32. */
INLINE void add_load(const QuantLoader *t, const GemvRows *rows, int n_subs, const DotColumn *x, int64_t i,
                     float32x4_t *acc) {
    const int   n_ksteps = SLICE / RP_KSTEP_SUBS / t->form.sub_elems;
    float32x4_t scale[GEMV_ROWS][MAX_KSTEPS], min[GEMV_ROWS][MAX_KSTEPS];
#pragma GCC unroll 2
    for (int k = 0; k < n_slices(t); k++) {
        const ColumnSlice column = column_slice(t, x, i + k * SLICE, n_subs);
#pragma GCC unroll 4
        for (int r = 0; r < rows->n; r++) {
            const char *p = rows->w + (size_t)r * rows->stride;
            int8x16_t   v[SLICE_VECTORS];
            if (k == 0) {
                rp_prefetch(p + rows->ahead, t->bytes);
                t->scales(p, n_subs, scale[r], min[r]);
            }
            load_slice(t, p, k, n_subs, v);
#pragma GCC unroll 2
            for (int h = 0; h < n_ksteps; h++) {
                const int       at = k * n_ksteps + h;
                const int32x4_t dot =
                    kstep_sums(t->form.sub_elems, t->wide, column.start[h], v + 4 * h, column.q + 4 * h);
                acc[r] = vfmaq_f32(acc[r], vmulq_f32(scale[r][at], column.scale[h]), vcvtq_f32_s32(dot));
                if (t->form.has_min) acc[r] = vfmaq_f32(acc[r], min[r][at], column.sum[h]);
            }
        }
    }
}

INLINE void rows_times_column(const QuantLoader *t, GemvRows rows, int64_t n, const DotColumn *x, float *y) {
    const int64_t elems = n_slices(t) * SLICE;
    float32x4_t   acc[GEMV_ROWS];
    int64_t       i = 0;
    for (int r = 0; r < rows.n; r++) acc[r] = vdupq_n_f32(0.0f);
    for (; i + elems <= n; i += elems, rows.w += t->bytes) add_load(t, &rows, RP_KSTEP_SUBS, x, i, acc);
    if (t->n_ksteps == 1 && i < n) add_load(t, &rows, (int)((n - i) / 32), x, i, acc);
    for (int r = 0; r < rows.n; r++) {
        const float32x2_t two = vadd_f32(vget_low_f32(acc[r]), vget_high_f32(acc[r]));
        y[r]                  = vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
    }
}

/* Rows that share the prepared column. Four rows of Q4_K or Q5_K need more registers than there are. */
INLINE int rows_at_a_time(const QuantLoader *t) { return t->n_ksteps == 2 ? 2 : GEMV_ROWS; }

INLINE void gemv(const QuantLoader *t, const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                 float *y) {
    const int    step  = rows_at_a_time(t);
    const size_t ahead = rp_prefetch_distance((size_t)step * stride);
    int64_t      m     = 0;
    for (; m + step <= n_rows; m += step, w += (size_t)step * stride)
        rows_times_column(t, (GemvRows){w, stride, ahead, step}, n, x, y + m);
    for (; m < n_rows; m++, w += stride) rows_times_column(t, (GemvRows){w, stride, ahead, 1}, n, x, y + m);
}

#define KERNEL(ID, name, ...)                                                                                          \
    static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y) {   \
        const QuantLoader t = QUANT_LOADER(ID, name);                                                                  \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                          \
    }
RP_QUANTS(KERNEL)
#undef KERNEL

void NEON(rp_gemv)(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                   float *y) {
    typedef void Gemv(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);
#define ROW(ID, name, ...) [RP_##ID]         = gemv_##name,
    static Gemv *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ROW)};
#undef ROW
    table[dtype](rows, stride, n_rows, n, x, y);
}

/* ---- GEMM: eight rows of a panel and up to four columns of a group; a lane is a row ---- */

typedef struct Tile {
    QuantForm             form;
    const char           *panel, *group;
    int                   n_cols;
    int64_t               n_subs;
    const PrefetchStream *ahead;
} Tile;

/* Accumulator p of rows r to r + 7 and columns c to c + cols: sub-blocks p, p + 4, p + 8, ... The four accumulators
 * are independent, so only one is in registers at a time. */
INLINE void tile_acc(const Tile *t, int r, int c, int cols, int p, TileAccs *accs) {
    const int    sub_elems = t->form.sub_elems;
    const size_t w_bytes = rp_panel_sub_bytes(&t->form), x_bytes = rp_group_sub_bytes(&t->form, t->n_cols);
    float32x4_t  sum[TILE_COLS][TILE_VECTORS];
    for (int i = 0; i < cols; i++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[i][v] = vld1q_f32(&accs->acc[p][c + i][r + 4 * v]);
    for (int64_t u = p; u < t->n_subs; u += RP_KSTEP_SUBS) {
        if (r == 0 && c == 0) rp_prefetch_subs(t->ahead, u, 1);
        const char       *w        = t->panel + (size_t)u * w_bytes + r * RP_QUAD; /* also moves `scale` by r floats */
        const char       *x        = t->group + (size_t)u * x_bytes;
        const float      *scale    = (const float *)(const void *)(w + RP_PANEL_ROWS * sub_elems);
        const float      *x_floats = (const float *)(const void *)(x + t->n_cols * sub_elems) + c;
        const float32x4_t x_scale = first_floats(x_floats, cols), x_sum = first_floats(x_floats + t->n_cols, cols);
        int32x4_t         dot[TILE_COLS][TILE_VECTORS];
        tile_sums(&t->form, (const int8_t *)w, (const int8_t *)x + c * sub_elems, cols, dot);
#pragma GCC unroll 4
        for (int i = 0; i < cols; i++)
#pragma GCC unroll 2
            for (int v = 0; v < TILE_VECTORS; v++) {
                const float32x4_t d = vmulq_n_f32(vld1q_f32(scale + 4 * v), x_scale[i]);
                sum[i][v]           = vfmaq_f32(sum[i][v], d, vcvtq_f32_s32(dot[i][v]));
                if (!t->form.has_min) continue;
                sum[i][v] = vfmaq_n_f32(sum[i][v], vld1q_f32(scale + RP_PANEL_ROWS + 4 * v), x_sum[i]);
            }
    }
    for (int i = 0; i < cols; i++)
        for (int v = 0; v < TILE_VECTORS; v++) vst1q_f32(&accs->acc[p][c + i][r + 4 * v], sum[i][v]);
}

INLINE void tile_block(const Tile *t, int r, int c, int cols, TileAccs *accs) {
    for (int p = 0; p < RP_KSTEP_SUBS; p++) tile_acc(t, r, c, cols, p, accs);
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void tile(const Tile *t, TileAccs *accs) {
    const int step = tile_cols(&t->form);
    for (int c = 0; c < t->n_cols; c += step)
        for (int r = 0; r < RP_PANEL_ROWS; r += TILE_ROWS)
            if (step > 3 && t->n_cols - c > 3)
                tile_block(t, r, c, 4, accs);
            else if (step > 2 && t->n_cols - c > 2)
                tile_block(t, r, c, 3, accs);
            else if (t->n_cols - c > 1)
                tile_block(t, r, c, 2, accs);
            else
                tile_block(t, r, c, 1, accs);
}

void NEON(rp_tile)(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                   const PrefetchStream *ahead, TileAccs *accs) {
/* Panels hold signed q without the offset, so only the width of the q and the minima matter. */
#define TILE(...) tile(&(Tile){{__VA_ARGS__}, panel, group, n_cols, n_subs, ahead}, accs)
    rp_begin_accs(accs, n_cols);
    if (form->has_min && form->sub_elems == 16)
        TILE(16, 0, true, 255);
    else if (form->has_min)
        TILE(32, 0, true, 255);
    else if (form->sub_elems == 16 && form->offset == WIDE_OFFSET)
        TILE(16, WIDE_OFFSET, false, 255);
    else if (form->sub_elems == 16)
        TILE(16, 0, false, 255);
    else if (form->offset == WIDE_OFFSET)
        TILE(32, WIDE_OFFSET, false, 255);
    else
        TILE(32, 0, false, 255);
#undef TILE
}
