/* dot_neon.h - decode and tiles of a prefill for one NEON variant, by the sums of dot.h, bit for bit.
 *
 * Included by one file a variant, which defines INLINE, NEON(name) as the name of its functions, and
 * dot16 and dot32: sum + w . x of one vector or two, lane by lane. */
#include "fallback/spans_neon.h"

/* The lanes of four units and, of types that have minima, four sums; one row and one column. */
typedef struct Lanes {
    float32x4_t acc[RP_SPAN_UNITS], low;
} Lanes;

/* ---- columns ---- */

INLINE float32x4_t first_floats(const float *p, int n) {
    float v[4] = {0};
    if (n >= 4) return vld1q_f32(p);
    for (int i = 0; i < n; i++) v[i] = p[i];
    return vld1q_f32(v);
}

/* Scales of the span from element i on, of `units` units of 32 or of four of 16. */
INLINE float32x4_t column_scales(const QuantForm *form, const DotColumn *x, int64_t i, int units) {
    if (form->unit == 32) return first_floats(x->scale + i / 32, units);
    const float32x2_t pair = vld1_f32(x->scale + i / 32);
    return vcombine_f32(vdup_lane_f32(pair, 0), vdup_lane_f32(pair, 1));
}

/* Sums of `units` units of 32. */
INLINE float32x4_t column_sums(const DotColumn *x, int64_t i, int units) {
    const float *sum = x->sum + i / RP_GROUP;
    return vpaddq_f32(first_floats(sum, 2 * units), first_floats(sum + 4, 2 * units - 4));
}

/* start + w . x of a unit. */
INLINE float32x4_t unit_dot(int unit, int32x4_t start, const int8x16_t *w, const int8x16_t *x) {
    return vcvtq_f32_s32(unit == 32 ? dot32(start, w, x) : dot16(start, w, x));
}

/* What the weights' offset adds to each lane. */
INLINE int32x4_t unit_start(const QuantForm *form, const int8x16_t *x) {
    const int32x4_t zero     = vdupq_n_s32(0);
    const int8x16_t minus    = vdupq_n_s8((int8_t)-form->offset);
    const int8x16_t minus2[] = {minus, minus};
    if (form->offset == 0) return zero;
    return form->unit == 32 ? dot32(zero, minus2, x) : dot16(zero, minus2, x);
}

INLINE float tree4(float32x4_t v) {
    const float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

INLINE float result(const float32x4_t *acc, float32x4_t low) {
    return tree4(vaddq_f32(vaddq_f32(acc[0], acc[2]), vaddq_f32(acc[1], acc[3]))) + tree4(low);
}

/* ---- decode: a few rows at a time share the column ---- */

/* Bytes between what is multiplied and what is asked of memory, as in gemv_avx512.c. Reading past the last row
 * is harmless. */
enum { AHEAD = 4096, CACHE_LINE = 64 };

INLINE void prefetch(const char *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += CACHE_LINE) __builtin_prefetch(p + AHEAD + k);
}

/* As many rows as leave registers for what is unpacked. */
INLINE int rows_at_a_time(const SpanType *t) { return t->n_spans == 1 ? 4 : 2; }

/* Scales of n_rows rows times those of the column; adds the minima's part. */
INLINE void add_scales(const SpanType *t, const char *w, size_t stride, int n_rows, int units,
                       const DotColumn *x, int64_t i, float32x4_t (*scale)[MAX_SPANS], Lanes *s) {
    float32x4_t xs[MAX_SPANS], sum[MAX_SPANS];
    for (int h = 0; h < t->n_spans; h++) {
        const int64_t at = i + h * RP_SPAN_UNITS * t->form.unit;
        xs[h]            = column_scales(&t->form, x, at, units);
        if (t->form.has_min) sum[h] = column_sums(x, at, units);
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        float32x4_t min[MAX_SPANS];
        const char *p = w + (size_t)r * stride;
        prefetch(p, t->bytes);
        t->scales(p, units, scale[r], min);
        for (int h = 0; h < t->n_spans; h++) {
            scale[r][h] = vmulq_f32(scale[r][h], xs[h]);
            if (t->form.has_min) s[r].low = vfmaq_f32(s[r].low, min[h], sum[h]);
        }
    }
}

/* What one load holds of n_rows rows: all its spans, or of a last one `units` units. */
INLINE void add_load(const SpanType *t, const char *w, size_t stride, int n_rows, int units,
                     const DotColumn *x, int64_t i, Lanes *s) {
    const int   n_halves = t->form.unit / RP_GROUP, n_units = t->n_vectors / n_halves;
    float32x4_t scale[RP_DOT_ROWS][MAX_SPANS];
    add_scales(t, w, stride, n_rows, units, x, i, scale, s);
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {
        if (t->n_spans == 1 && part >= units) break;
        int8x16_t column[MAX_VECTORS];
        int32x4_t start[MAX_VECTORS];
#pragma GCC unroll 4
        for (int k = 0; k < t->n_vectors; k++) column[k] = vld1q_s8(x->q + i + RP_GROUP * place(t, part, k));
#pragma GCC unroll 4
        for (int e = 0; e < n_units; e++) start[e] = unit_start(&t->form, column + n_halves * e);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            int8x16_t v[MAX_VECTORS];
            t->part(w + (size_t)r * stride, part, v);
#pragma GCC unroll 4
            for (int e = 0; e < n_units; e++) {
                const int         unit = place(t, part, n_halves * e) / n_halves, u = unit % RP_SPAN_UNITS;
                const float32x4_t dot =
                    unit_dot(t->form.unit, start[e], v + n_halves * e, column + n_halves * e);
                s[r].acc[u] = vfmaq_n_f32(s[r].acc[u], dot, scale[r][unit / RP_SPAN_UNITS][u]);
            }
        }
    }
}

INLINE void rows_times_column(const SpanType *t, const char *w, size_t stride, int n_rows, int64_t n,
                              const DotColumn *x, float *y) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    Lanes         s[RP_DOT_ROWS];
    int64_t       i = 0;
    for (int r = 0; r < n_rows; r++) {
        for (int u = 0; u < RP_SPAN_UNITS; u++) s[r].acc[u] = vdupq_n_f32(0.0f);
        s[r].low = vdupq_n_f32(0.0f);
    }
    for (; i + elems <= n; i += elems, w += t->bytes) add_load(t, w, stride, n_rows, RP_SPAN_UNITS, x, i, s);
    if (t->n_spans == 1 && i < n) add_load(t, w, stride, n_rows, (int)((n - i) / 32), x, i, s);
    for (int r = 0; r < n_rows; r++) y[r] = result(s[r].acc, s[r].low);
}

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const int step = rows_at_a_time(t);
    int64_t   m    = 0;
    for (; m + step <= n_rows; m += step, w += (size_t)step * stride)
        rows_times_column(t, w, stride, step, n, x, y + m);
    for (; m < n_rows; m++, w += stride) rows_times_column(t, w, stride, 1, n, x, y + m);
}

#define KERNEL(ID, name, Block, scales, spans, vectors, ...)                                                 \
    static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,     \
                            float *y) {                                                                      \
        const SpanType t = {part_##name,  scales, spans, vectors, sizeof(Block) * (spans == 1 ? 4 : 1),      \
                            {__VA_ARGS__}};                                                                  \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                \
    }
SPAN_TYPES(KERNEL)
#undef KERNEL

GemvFunction *NEON(rp_gemv)(RpDtype dtype) {
#define ROW(ID, name, ...) [RP_##ID]                 = gemv_##name,
    static GemvFunction *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ROW)};
#undef ROW
    return table[dtype];
}

/* ---- prefill: rows unpacked to bytes without offsets (dot_neon.c), two of them times two columns ---- */

enum { TILE_ROWS = 2, TILE_COLS = 2 };

/* `units` units of a span from element i on, of rows from row r on. */
INLINE void tile_span(const DotRows *rows, const QuantForm *form, int r0, int n_rows, int64_t i, int units,
                      const DotColumn *cols, int n_cols, Lanes (*s)[TILE_ROWS]) {
    const int     unit = form->unit;
    const int64_t size = RP_SPAN_UNITS * unit, at = i / size * rows->n_rows + r0;
    const int8_t *q     = (const int8_t *)rows->q + at * size;
    const float  *scale = rows->scale + at * RP_SPAN_UNITS, *min = rows->min + at * RP_SPAN_UNITS;
    float32x4_t   d[TILE_COLS][TILE_ROWS];
    for (int c = 0; c < n_cols; c++) {
        const float32x4_t xs = column_scales(form, &cols[c], i, units);
        for (int r = 0; r < n_rows; r++) d[c][r] = vmulq_f32(vld1q_f32(scale + r * RP_SPAN_UNITS), xs);
        if (!form->has_min) continue;
        const float32x4_t sum = column_sums(&cols[c], i, units);
        for (int r = 0; r < n_rows; r++)
            s[c][r].low = vfmaq_f32(s[c][r].low, vld1q_f32(min + r * RP_SPAN_UNITS), sum);
    }
#pragma GCC unroll 4
    for (int u = 0; u < RP_SPAN_UNITS; u++) {
        if (u >= units) break;
        int8x16_t x[TILE_COLS][2];
        for (int c = 0; c < n_cols; c++)
            for (int k = 0; k < unit / RP_GROUP; k++)
                x[c][k] = vld1q_s8(cols[c].q + i + u * unit + k * RP_GROUP);
        for (int r = 0; r < n_rows; r++) {
            int8x16_t w[2];
            for (int k = 0; k < unit / RP_GROUP; k++) w[k] = vld1q_s8(q + r * size + 64 * k + RP_GROUP * u);
            for (int c = 0; c < n_cols; c++)
                s[c][r].acc[u] =
                    vfmaq_n_f32(s[c][r].acc[u], unit_dot(unit, vdupq_n_s32(0), w, x[c]), d[c][r][u]);
        }
    }
}

INLINE void tile(const DotRows *rows, const QuantForm *form, int r0, int n_rows, const DotColumn *cols,
                 int n_cols, bool first, DotSums *sums) {
    const int64_t size = RP_SPAN_UNITS * form->unit;
    Lanes         s[TILE_COLS][TILE_ROWS];
    int64_t       i = 0;
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < n_rows; r++) {
            for (int u = 0; u < RP_SPAN_UNITS; u++)
                s[c][r].acc[u] = first ? vdupq_n_f32(0.0f) : vld1q_f32(sums[c].acc[r0 + r] + 4 * u);
            s[c][r].low = first ? vdupq_n_f32(0.0f) : vld1q_f32(sums[c].low[r0 + r]);
        }
    for (; i + size <= rows->n; i += size)
        tile_span(rows, form, r0, n_rows, i, RP_SPAN_UNITS, cols, n_cols, s);
    if (i < rows->n) tile_span(rows, form, r0, n_rows, i, (int)((rows->n - i) / 32), cols, n_cols, s);
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < n_rows; r++) {
            for (int u = 0; u < RP_SPAN_UNITS; u++) vst1q_f32(sums[c].acc[r0 + r] + 4 * u, s[c][r].acc[u]);
            vst1q_f32(sums[c].low[r0 + r], s[c][r].low);
        }
}

/* Constant numbers of rows and columns, so that the loops over them unroll into registers. */
INLINE void tiles(const DotRows *rows, const QuantForm *form, const DotColumn *cols, int n_cols, bool first,
                  DotSums *sums) {
    if (rows->n_rows == 1) {
        for (int c = 0; c < n_cols; c++) tile(rows, form, 0, 1, cols + c, 1, first, sums + c);
        return;
    }
    for (int r = 0; r < RP_DOT_ROWS; r += TILE_ROWS) {
        int c = 0;
        for (; c + TILE_COLS <= n_cols; c += TILE_COLS)
            tile(rows, form, r, TILE_ROWS, cols + c, TILE_COLS, first, sums + c);
        if (c < n_cols) tile(rows, form, r, TILE_ROWS, cols + c, 1, first, sums + c);
    }
}

void NEON(rp_dot)(const DotRows *rows, const DotColumn *cols, int n_cols, bool first, DotSums *sums) {
    if (rows->form->has_min)
        tiles(rows, &(QuantForm){32, 0, true}, cols, n_cols, first, sums);
    else if (rows->form->unit == 32)
        tiles(rows, &(QuantForm){32, 0, false}, cols, n_cols, first, sums);
    else
        tiles(rows, &(QuantForm){16, 0, false}, cols, n_cols, first, sums);
}
