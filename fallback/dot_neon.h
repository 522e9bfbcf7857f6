/* dot_neon.h - decode and tiles of a prefill for one NEON variant, by the sums of dot.h, bit for bit.
 *
 * Included by one file a variant, which defines INLINE, NEON(name) as the name of its functions, and what
 * both are made of, exact sums of units: span_start, span_sums, tile_sums and tile_cols. */
#include "fallback/prefetch.h"
#include "fallback/spans_neon.h"

INLINE float32x4_t sum_of_parts(const float32x4_t *part) {
    return vaddq_f32(vaddq_f32(part[0], part[2]), vaddq_f32(part[1], part[3]));
}

/* ---- decode: a few rows at a time share the column; the lanes of a vector are the parts of a sum ---- */

typedef struct ColumnStretch {
    int8x16_t   q[STRETCH_VECTORS];
    int32x4_t   start[STRETCH_SPANS][RP_SPAN_UNITS]; /* what the weights' offset adds */
    float32x4_t scale[STRETCH_SPANS], sum;
} ColumnStretch;

/* The first n, at most 4; then -0, which as a factor of 0 leaves a sum as it is. */
INLINE float32x4_t first_floats(const float *p, int n) {
    float32x4_t v = vdupq_n_f32(-0.0f);
    if (n >= 4) return vld1q_f32(p);
    if (n > 0) v = vld1q_lane_f32(p, v, 0);
    if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}

/* From element i on, `units` units of 32 or eight of 16. */
INLINE ColumnStretch column_stretch(const SpanType *t, const DotColumn *x, int64_t i, int units) {
    const int     n_spans = STRETCH / RP_SPAN_UNITS / t->form.unit;
    const float  *scale = x->scale + i / 32, *sum = x->sum + i / RP_GROUP;
    ColumnStretch s;
    for (int k = 0; k < STRETCH_VECTORS; k++)
        s.q[k] = k < 2 * units ? vld1q_s8(x->q + i + RP_GROUP * k) : vdupq_n_s8(0);
    for (int h = 0; h < n_spans; h++) {
        for (int u = 0; u < RP_SPAN_UNITS; u++) s.start[h][u] = vdupq_n_s32(0);
        if (t->form.offset > 0)
            span_start(t->form.unit, vdupq_n_s8((int8_t)-t->form.offset), s.q + 4 * h, s.start[h]);
    }
    s.scale[0] = first_floats(scale, units);
    if (t->form.unit == 16) {
        s.scale[1] = vzip2q_f32(s.scale[0], s.scale[0]);
        s.scale[0] = vzip1q_f32(s.scale[0], s.scale[0]);
    }
    if (t->form.has_min)
        s.sum = vpaddq_f32(first_floats(sum, 2 * units), first_floats(sum + 4, 2 * units - 4));
    return s;
}

enum { GEMV_ROWS = 4 };

typedef struct GemvRows {
    const char *w;
    size_t      stride, ahead; /* of what is asked of memory */
    int         n;
} GemvRows;

/* What one load holds of some rows: all its spans, or of a last one `units` units. */
INLINE void add_load(const SpanType *t, const GemvRows *rows, int units, const DotColumn *x, int64_t i,
                     float32x4_t *part) {
    const int   n_spans = STRETCH / RP_SPAN_UNITS / t->form.unit;
    float32x4_t scale[GEMV_ROWS][MAX_SPANS], min[GEMV_ROWS][MAX_SPANS];
#pragma GCC unroll 2
    for (int k = 0; k < stretches(t); k++) {
        const ColumnStretch column = column_stretch(t, x, i + k * STRETCH, units);
#pragma GCC unroll 4
        for (int r = 0; r < rows->n; r++) {
            const char *p = rows->w + (size_t)r * rows->stride;
            int8x16_t   v[STRETCH_VECTORS];
            if (k == 0) {
                rp_prefetch(p + rows->ahead, t->bytes);
                t->scales(p, units, scale[r], min[r]);
            }
            load_stretch(t, p, k, units, v);
#pragma GCC unroll 2
            for (int h = 0; h < n_spans; h++) {
                const int       at = k * n_spans + h;
                const int32x4_t dot =
                    span_sums(t->form.unit, t->wide, column.start[h], v + 4 * h, column.q + 4 * h);
                part[r] = vfmaq_f32(part[r], vmulq_f32(scale[r][at], column.scale[h]), vcvtq_f32_s32(dot));
                if (t->form.has_min) part[r] = vfmaq_f32(part[r], min[r][at], column.sum);
            }
        }
    }
}

INLINE void rows_times_column(const SpanType *t, GemvRows rows, int64_t n, const DotColumn *x, float *y) {
    const int64_t elems = stretches(t) * STRETCH;
    float32x4_t   part[GEMV_ROWS];
    int64_t       i = 0;
    for (int r = 0; r < rows.n; r++) part[r] = vdupq_n_f32(0.0f);
    for (; i + elems <= n; i += elems, rows.w += t->bytes) add_load(t, &rows, RP_SPAN_UNITS, x, i, part);
    if (t->n_spans == 1 && i < n) add_load(t, &rows, (int)((n - i) / 32), x, i, part);
    for (int r = 0; r < rows.n; r++) {
        const float32x2_t two = vadd_f32(vget_low_f32(part[r]), vget_high_f32(part[r]));
        y[r]                  = vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
    }
}

/* As many rows as leave registers for what is unpacked. */
INLINE int rows_at_a_time(const SpanType *t) { return t->n_spans == 2 ? 2 : GEMV_ROWS; }

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const int    step  = rows_at_a_time(t);
    const size_t ahead = rp_rows_ahead((size_t)step * stride);
    int64_t      m     = 0;
    for (; m + step <= n_rows; m += step, w += (size_t)step * stride)
        rows_times_column(t, (GemvRows){w, stride, ahead, step}, n, x, y + m);
    for (; m < n_rows; m++, w += stride) rows_times_column(t, (GemvRows){w, stride, ahead, 1}, n, x, y + m);
}

#define KERNEL(ID, name, ...)                                                                                \
    static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,     \
                            float *y) {                                                                      \
        const SpanType t = SPAN_TYPE(name, __VA_ARGS__);                                                     \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                \
    }
SPAN_TYPES(KERNEL)
#undef KERNEL

void NEON(rp_gemv)(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                   const DotColumn *x, float *y) {
    typedef void Gemv(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);
#define ROW(ID, name, ...) [RP_##ID]         = gemv_##name,
    static Gemv *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ROW)};
#undef ROW
    table[dtype](rows, stride, n_rows, n, x, y);
}

/* ---- prefill: eight rows of a panel and up to four columns of a group; lanes of a vector are rows ---- */

typedef struct Tile {
    QuantForm   form;
    const char *panel, *group;
    int         n_cols;
    int64_t     n_units;
    const Ahead *ahead;
} Tile;

/* Part p of the sums of rows from row r on and `cols` columns from column c on. */
INLINE void tile_part(const Tile *t, int r, int c, int cols, int p, TileSums *sums) {
    const int    unit    = t->form.unit;
    const size_t w_bytes = rp_panel_unit_bytes(&t->form), x_bytes = rp_group_unit_bytes(&t->form, t->n_cols);
    float32x4_t  sum[TILE_COLS][TILE_VECTORS];
    for (int i = 0; i < cols; i++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[i][v] = vld1q_f32(&sums->part[p][c + i][r + 4 * v]);
    for (int64_t u = p; u < t->n_units; u += RP_SPAN_UNITS) {
        if (r == 0 && c == 0) rp_prefetch_units(t->ahead, u, 1);
        const char       *w = t->panel + (size_t)u * w_bytes + r * RP_QUAD; /* a scale is as long as a quad */
        const char       *x = t->group + (size_t)u * x_bytes;
        const float      *scale   = (const float *)(const void *)(w + RP_PANEL_ROWS * unit);
        const float      *of_x    = (const float *)(const void *)(x + t->n_cols * unit) + c;
        const float32x4_t x_scale = first_floats(of_x, cols), x_sum = first_floats(of_x + t->n_cols, cols);
        int32x4_t         dot[TILE_COLS][TILE_VECTORS];
        tile_sums(&t->form, (const int8_t *)w, (const int8_t *)x + c * unit, cols, dot);
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
        for (int v = 0; v < TILE_VECTORS; v++) vst1q_f32(&sums->part[p][c + i][r + 4 * v], sum[i][v]);
}

INLINE void tile_block(const Tile *t, int r, int c, int cols, TileSums *sums) {
    for (int p = 0; p < RP_SPAN_UNITS; p++) tile_part(t, r, c, cols, p, sums);
}

/* Constant numbers of columns, so that the loops over them unroll into registers. */
INLINE void tile(const Tile *t, TileSums *sums) {
    const int step = tile_cols(&t->form);
    for (int c = 0; c < t->n_cols; c += step)
        for (int r = 0; r < RP_PANEL_ROWS; r += TILE_ROWS)
            if (step > 3 && t->n_cols - c > 3)
                tile_block(t, r, c, 4, sums);
            else if (step > 2 && t->n_cols - c > 2)
                tile_block(t, r, c, 3, sums);
            else if (t->n_cols - c > 1)
                tile_block(t, r, c, 2, sums);
            else
                tile_block(t, r, c, 1, sums);
}

void NEON(rp_tile)(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_units,
                   const Ahead *ahead, TileSums *sums) {
#define TILE(...) tile(&(Tile){{__VA_ARGS__}, panel, group, n_cols, n_units, ahead}, sums)
    rp_begin_sums(sums, n_cols);
    if (form->has_min)
        TILE(32, 0, true);
    else if (form->unit == 16)
        TILE(16, 0, false);
    else if (form->offset == WIDE_OFFSET)
        TILE(32, WIDE_OFFSET, false);
    else
        TILE(32, 0, false);
#undef TILE
}
