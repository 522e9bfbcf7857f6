/* Panels and tiles: a lane is a row. A quad of 16 rows fills a register, which is multiplied with the same quad of each
 * column, broadcast from memory. */
#include "fallback/spans_avx512.h"

#ifdef RP_X86

/* ---- panels ---- */

/* From 16 rows, whose quarters are four units of 16 bytes: quad k of unit u of all rows, at to[u] + 64 * k. */
INLINE void store_quads(const __m512i *row, int units, size_t unit_bytes, char *to) {
    __m512i quad[4][4]; /* k, then four rows */
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        const __m512i *v     = row + 4 * g;
        const __m512i  low01 = _mm512_unpacklo_epi32(v[0], v[1]), high01 = _mm512_unpackhi_epi32(v[0], v[1]);
        const __m512i  low23 = _mm512_unpacklo_epi32(v[2], v[3]), high23 = _mm512_unpackhi_epi32(v[2], v[3]);
        quad[0][g] = _mm512_unpacklo_epi64(low01, low23);
        quad[1][g] = _mm512_unpackhi_epi64(low01, low23);
        quad[2][g] = _mm512_unpacklo_epi64(high01, high23);
        quad[3][g] = _mm512_unpackhi_epi64(high01, high23);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const __m512i *v     = quad[k];
        const __m512i  low01 = _mm512_shuffle_i32x4(v[0], v[1], 0x44),
                      low23  = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
        const __m512i high01 = _mm512_shuffle_i32x4(v[0], v[1], 0xee),
                      high23 = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
        char *at             = to + 64 * k;
        _mm512_store_si512(at, _mm512_shuffle_i32x4(low01, low23, 0x88));
        if (units > 1) _mm512_store_si512(at + unit_bytes, _mm512_shuffle_i32x4(low01, low23, 0xdd));
        if (units > 2) _mm512_store_si512(at + 2 * unit_bytes, _mm512_shuffle_i32x4(high01, high23, 0x88));
        if (units > 3) _mm512_store_si512(at + 3 * unit_bytes, _mm512_shuffle_i32x4(high01, high23, 0xdd));
    }
}

/* The quarters of v, one a unit: four rows' scales or minima. */
INLINE void store_by_unit(__m512 v, int units, size_t unit_bytes, char *to) {
    _mm_store_ps((float *)(void *)to, _mm512_castps512_ps128(v));
    if (units > 1) _mm_store_ps((float *)(void *)(to + unit_bytes), _mm512_extractf32x4_ps(v, 1));
    if (units > 2) _mm_store_ps((float *)(void *)(to + 2 * unit_bytes), _mm512_extractf32x4_ps(v, 2));
    if (units > 3) _mm_store_ps((float *)(void *)(to + 3 * unit_bytes), _mm512_extractf32x4_ps(v, 3));
}

/* What one load holds of 16 rows. */
INLINE void pack_load(const SpanType *t, const char *const *row, size_t at, size_t ahead, int units,
                      char *to) {
    const size_t unit_bytes = rp_panel_unit_bytes(&t->form);
    __m512i      a[MAX_SPANS][RP_PANEL_ROWS], b[MAX_SPANS][RP_PANEL_ROWS];
    for (int r = 0; r < RP_PANEL_ROWS; r++) {
        Span s[MAX_SPANS];
        rp_prefetch(row[r] + at + ahead, t->bytes);
        t->load(row[r] + at, units, s);
        for (int h = 0; h < t->n_spans; h++) a[h][r] = s[h].a, b[h][r] = s[h].b;
    }
    for (int h = 0; h < t->n_spans; h++) {
        char *span = to + (size_t)(h * RP_SPAN_UNITS) * unit_bytes;
        store_quads(a[h], units, unit_bytes, span);
        if (t->form.unit == 32) store_quads(b[h], units, unit_bytes, span + 4 * 64);
    }
    for (int r = 0; r < RP_PANEL_ROWS; r += 4) {
        SpanScales w[MAX_SPANS];
        t->scales(row + r, at, units, w);
        for (int h = 0; h < t->n_spans; h++) {
            char *scale =
                to + (size_t)(h * RP_SPAN_UNITS) * unit_bytes + RP_PANEL_ROWS * t->form.unit + 4 * r;
            store_by_unit(w[h].scale, units, unit_bytes, scale);
            if (t->form.has_min) store_by_unit(w[h].min, units, unit_bytes, scale + 64);
        }
    }
}

INLINE void pack_panel(const SpanType *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       char *panel) {
    const int    units      = t->n_spans * RP_SPAN_UNITS;
    const size_t load_bytes = (size_t)units * rp_panel_unit_bytes(&t->form), ahead = RP_PANEL_ROWS * stride;
    const char  *row[RP_PANEL_ROWS];
    int64_t      left = rp_units(&t->form, n);
    size_t       at   = 0;
    rp_take_rows(rows, stride, n_rows, RP_PANEL_ROWS, row);
    for (; left >= units; left -= units, at += t->bytes, panel += load_bytes)
        pack_load(t, row, at, ahead, RP_SPAN_UNITS, panel);
    if (t->n_spans == 1 && left > 0) pack_load(t, row, at, ahead, (int)left, panel);
}

#define PACK(ID, name, Block, spans, ...)                                                                    \
    RP_TARGET_AVX512 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,         \
                                             char *panel) {                                                  \
        const SpanType t = SPAN_TYPE(name, Block, spans, __VA_ARGS__);                                       \
        pack_panel(&t, rows, stride, n_rows, n, panel);                                                      \
    }
SPAN_TYPES(PACK)
#undef PACK

void rp_pack_panel_avx512(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                          char *panel) {
    typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, char *panel);
#define ENTRY(ID, name, ...) [RP_##ID]       = pack_##name,
    static Pack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
#undef ENTRY
    table[dtype](rows, stride, n_rows, n, panel);
}

/* ---- tiles ---- */

typedef int32_t Quad __attribute__((may_alias, aligned(1)));

/* sum + w . x of each lane. As an intrinsic gcc 12 takes an instruction more, for the broadcast. */
INLINE __m512i dot_quad(__m512i sum, __m512i w, const char *x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const Quad *)(const void *)x));
    return sum;
}

/* Adds one unit of n_cols columns to their parts. */
INLINE void add_unit(const QuantForm *form, const char *w, const char *x, int n_cols, __m512 *part) {
    const float *scale = (const float *)(const void *)(w + RP_PANEL_ROWS * form->unit);
    const float *of_x  = (const float *)(const void *)(x + n_cols * form->unit);
    __m512i      dot[RP_GROUP_COLS];
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        dot[c] = form->has_min ? _mm512_setzero_si512()
                               : _mm512_set1_epi32(*(const Quad *)(const void *)(of_x + n_cols + c));
#pragma GCC unroll 8
    for (int k = 0; k < form->unit; k += RP_QUAD) {
        const __m512i quad = _mm512_load_si512(w + RP_PANEL_ROWS * k);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) dot[c] = dot_quad(dot[c], quad, x + c * form->unit + k);
    }
    const __m512 d = _mm512_load_ps(scale);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        part[c] =
            _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(of_x[c])), _mm512_cvtepi32_ps(dot[c]), part[c]);
    if (!form->has_min) return;
    const __m512 min = _mm512_load_ps(scale + RP_PANEL_ROWS);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        part[c] = _mm512_fmadd_ps(min, _mm512_set1_ps(of_x[n_cols + c]), part[c]);
}

/* One of the four parts after the other, so that the others need no registers. */
INLINE void tile(const QuantForm *form, const char *panel, int n_rows, const char *group, int n_cols,
                 int64_t n_units, float *const *y) {
    const size_t    w_bytes = rp_panel_unit_bytes(form), x_bytes = rp_group_unit_bytes(form, n_cols);
    const __mmask16 some = (__mmask16)((1 << n_rows) - 1);
    __m512          sum[RP_SPAN_UNITS][RP_GROUP_COLS];
    for (int p = 0; p < RP_SPAN_UNITS; p++) {
        const char *w = panel + (size_t)p * w_bytes, *x = group + (size_t)p * x_bytes;
        __m512      part[RP_GROUP_COLS];
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) part[c] = _mm512_setzero_ps();
        for (int64_t u = p; u < n_units;
             u += RP_SPAN_UNITS, w += RP_SPAN_UNITS * w_bytes, x += RP_SPAN_UNITS * x_bytes)
            add_unit(form, w, x, n_cols, part);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) sum[p][c] = part[c];
    }
    for (int c = 0; c < n_cols; c++)
        _mm512_mask_storeu_ps(
            y[c], some,
            _mm512_add_ps(_mm512_add_ps(sum[0][c], sum[2][c]), _mm512_add_ps(sum[1][c], sum[3][c])));
}

/* Constant numbers of columns, so that the loops over them unroll into registers. */
INLINE void any_columns(const QuantForm *form, const char *panel, int n_rows, const char *group, int n_cols,
                        int64_t n_units, float *const *y) {
    switch (n_cols) {
    case 8:
        tile(form, panel, n_rows, group, 8, n_units, y);
        break;
    case 7:
        tile(form, panel, n_rows, group, 7, n_units, y);
        break;
    case 6:
        tile(form, panel, n_rows, group, 6, n_units, y);
        break;
    case 5:
        tile(form, panel, n_rows, group, 5, n_units, y);
        break;
    case 4:
        tile(form, panel, n_rows, group, 4, n_units, y);
        break;
    case 3:
        tile(form, panel, n_rows, group, 3, n_units, y);
        break;
    case 2:
        tile(form, panel, n_rows, group, 2, n_units, y);
        break;
    default:
        tile(form, panel, n_rows, group, 1, n_units, y);
    }
}

RP_TARGET_AVX512 void rp_tile_avx512(const QuantForm *form, const char *panel, int n_rows, const char *group,
                                     int n_cols, int64_t n_units, float *const *y) {
    if (form->has_min)
        any_columns(&(QuantForm){32, 0, true}, panel, n_rows, group, n_cols, n_units, y);
    else if (form->unit == 32)
        any_columns(&(QuantForm){32, 1, false}, panel, n_rows, group, n_cols, n_units, y);
    else
        any_columns(&(QuantForm){16, 1, false}, panel, n_rows, group, n_cols, n_units, y);
}
#endif
