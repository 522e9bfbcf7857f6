/* Panels of rows, and tiles of four columns: the lanes of a vector are rows, so no sum is added up across lanes. A
 * panel holds quants with their offset, of Q8_0 signed ones. Integer sums stay in registers for a unit, the parts in
 * memory: there are 4 times 8 vectors of them for four columns. */
#include "fallback/spans_avx2.h"

#ifdef RP_X86

enum { COLS = 4, SIDES = 2, LANES = 8 };

/* ---- panels ---- */

/* Rows to quads. Of the vectors' lower halves quad 0 goes to `first`, of the upper ones to `second`, if it is there. */
INLINE void store_quads(const __m256i v[ROWS], char *first, char *second) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i quad[] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b),
                            _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)};
    for (int k = 0; k < 4; k++) {
        const size_t at = (size_t)k * RP_QUAD * RP_PANEL_ROWS;
        _mm_store_si128((void *)(first + at), _mm256_castsi256_si128(quad[k]));
        if (second != NULL) _mm_store_si128((void *)(second + at), _mm256_extracti128_si256(quad[k], 1));
    }
}

/* Pair h of span j of four rows, which are the panel's from row r on. `to` is the pair's first unit; the other one is
 * stored if `both`. */
INLINE void pack_pair(const SpanType *t, const char *const *p, int j, int h, int r, bool both, char *to) {
    const size_t unit = rp_panel_unit_bytes(&t->form), half = 16 * RP_PANEL_ROWS;
    __m256i      v[2][ROWS];
#pragma GCC unroll 4
    for (int k = 0; k < ROWS; k++) {
        __m256i q[2];
        t->load(p[k], j, h, q);
        v[0][k] = q[0];
        v[1][k] = q[1];
    }
    char *first = to + r * RP_QUAD, *second = first + unit;
    if (pair_shape(t) == WHOLE) {
        store_quads(v[0], first, first + half);
        if (both) store_quads(v[1], second, second + half);
        return;
    }
    store_quads(v[0], first, both ? second : NULL);
    if (pair_shape(t) == HALVES) store_quads(v[1], first + half, both ? second + half : NULL);
}

INLINE void pack_scales(const SpanType *t, const PairScales *s, int r, bool both, char *to) {
    float *first  = (float *)(void *)(to + RP_PANEL_ROWS * t->form.unit) + r;
    float *second = first + rp_panel_unit_bytes(&t->form) / sizeof *first;
    _mm_store_ps(first, _mm256_castps256_ps128(s->scale));
    if (t->form.has_min) _mm_store_ps(first + RP_PANEL_ROWS, _mm256_castps256_ps128(s->min));
    if (!both) return;
    _mm_store_ps(second, _mm256_extractf128_ps(s->scale, 1));
    if (t->form.has_min) _mm_store_ps(second + RP_PANEL_ROWS, _mm256_extractf128_ps(s->min, 1));
}

/* One load of four rows, of which the first `units` units are stored. */
INLINE void pack_load(const SpanType *t, const char *const *p, int r, int units, char *panel) {
    Header header;
    load_header(t, p, &header);
#pragma GCC unroll 8
    for (int k = 0; k < PAIRS * t->n_spans; k++) {
        if (2 * k >= units) break;
        const int  j = k / PAIRS, h = k % PAIRS;
        const bool both = 2 * k + 1 < units;
        char      *to   = panel + (size_t)(2 * k) * rp_panel_unit_bytes(&t->form);
        PairScales s;
        t->scales(p, &header, j, h, &s);
        pack_pair(t, p, j, h, r, both, to);
        pack_scales(t, &s, r, both, to);
    }
}

INLINE void pack_panel(const SpanType *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const Ahead *ahead, char *panel) {
    const int    units = t->n_spans * RP_SPAN_UNITS;
    const size_t bytes = (size_t)units * rp_panel_unit_bytes(&t->form);
    const char  *row[RP_PANEL_ROWS];
    rp_take_rows(rows, stride, n_rows, RP_PANEL_ROWS, row);
    for (int r = 0; r < RP_PANEL_ROWS; r += ROWS) {
        char        *to = panel, last[ROWS][MAX_BYTES] = {0};
        const char **p = row + r;
        for (int64_t left = rp_units(&t->form, n); left > 0; left -= units, to += bytes) {
            rp_prefetch_units(ahead, (r / ROWS * rp_units(&t->form, n) + rp_units(&t->form, n) - left) / 4,
                              units / 4);
            const bool whole = !blocks_of_32(t) || left >= units;
            for (int k = 0; k < ROWS && !whole && left % 2 != 0; k++) {
                copy_last_blocks(t, p[k], (int)left, last[k]);
                p[k] = last[k];
            }
            pack_load(t, p, r, whole ? units : (int)left, to);
            for (int k = 0; k < ROWS; k++) p[k] += span_bytes(t);
        }
    }
}

typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const Ahead *ahead, char *panel);

#define PACK(ID, name, ...)                                                                                  \
    RP_TARGET_AVX2 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,           \
                                           const Ahead *ahead, char *panel) {                                \
        const SpanType t = SPAN_TYPE(name, __VA_ARGS__);                                                     \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                               \
    }
SPAN_TYPES(PACK)
#undef PACK

#define ENTRY(ID, name, ...) [RP_##ID] = pack_##name,
void rp_pack_panel_avx2(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                        const Ahead *ahead, char *panel) {
    static Pack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}
#undef ENTRY

/* ---- tiles ---- */

INLINE __m256i quad_of_column(const char *x) { return _mm256_set1_epi32(word32(x)); }

INLINE __m256i madd_ones(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

/* Left to itself gcc reorders chains of integer sums into trees that do not fit in the registers. */
INLINE __m256i in_order(__m256i sum) {
    __asm__("" : "+x"(sum));
    return sum;
}

/* The first n_quads of a unit's quads, from w and x on. */
INLINE void add_quads(const QuantForm *form, const char *w, const char *x, int n_quads, int n_cols,
                      __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < n_quads; k++) {
        const __m256i w0 = load32(w + 64 * k), w1 = load32(w + 64 * k + 32);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = quad_of_column(x + c * form->unit + RP_QUAD * k);
            const __m256i a = _mm256_maddubs_epi16(w0, xq), b = _mm256_maddubs_epi16(w1, xq);
            sum[c][0] = k == 0 ? a : in_order(_mm256_add_epi16(sum[c][0], a));
            sum[c][1] = k == 0 ? b : in_order(_mm256_add_epi16(sum[c][1], b));
        }
    }
}

/* Two magnitudes give 128 * 127 * 2 = 32512 at most (quantize makes no -128). */
INLINE void signed_unit(const char *w, const char *x, int n_cols, __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < 32 / RP_QUAD; k++) {
        const __m256i w0 = load32(w + 64 * k), w1 = load32(w + 64 * k + 32);
        const __m256i abs0 = _mm256_abs_epi8(w0), abs1 = _mm256_abs_epi8(w1);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = quad_of_column(x + c * 32 + RP_QUAD * k);
            const __m256i a  = madd_ones(_mm256_maddubs_epi16(abs0, _mm256_sign_epi8(xq, w0)));
            const __m256i b  = madd_ones(_mm256_maddubs_epi16(abs1, _mm256_sign_epi8(xq, w1)));
            sum[c][0]        = k == 0 ? a : in_order(_mm256_add_epi32(sum[c][0], a));
            sum[c][1]        = k == 0 ? b : in_order(_mm256_add_epi32(sum[c][1], b));
        }
    }
}

/* Quads of which the sums fit in 16 bits: a unit of Q4_0, 15 * 128 * 16 = 30720, half a unit of the other types, at
 * most 31 * 128 * 8 = 31744, of Q6_K 63 * 128 * 4 = 32256. */
INLINE int quads_at_a_time(const QuantForm *form) {
    const int quads = form->unit / RP_QUAD;
    return form->offset == 8 ? quads : quads / 2;
}

INLINE void unit_sums(const QuantForm *form, const char *w, const char *x, int n_cols,
                      __m256i sum[COLS][SIDES]) {
    const int quads = quads_at_a_time(form), len = quads * RP_QUAD;
    __m256i   first[COLS][SIDES];
    if (form->offset == SIGNED) {
        signed_unit(w, x, n_cols, sum);
        return;
    }
    add_quads(form, w, x, quads, n_cols, first);
    if (len < form->unit) add_quads(form, w + RP_PANEL_ROWS * len, x + len, quads, n_cols, sum);
    for (int c = 0; c < n_cols; c++)
        for (int s = 0; s < SIDES; s++) {
            const __m256i a = madd_ones(first[c][s]);
            sum[c][s]       = len < form->unit ? _mm256_add_epi32(a, madd_ones(sum[c][s])) : a;
        }
}

/* `x` is the first of n_cols columns of a unit, of_x their scales, and `more` of them sums or offsets. */
INLINE void add_unit(const QuantForm *form, const char *w, const char *x, const float *of_x,
                     const float *more, int n_cols, float (*part)[RP_PANEL_ROWS]) {
    const float *of_w = (const float *)(const void *)(w + RP_PANEL_ROWS * form->unit);
    __m256i      sum[COLS][SIDES];
    unit_sums(form, w, x, n_cols, sum);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m256 dx = _mm256_broadcast_ss(of_x + c), m = _mm256_broadcast_ss(more + c);
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) {
            const __m256 scale = _mm256_mul_ps(dx, _mm256_load_ps(of_w + LANES * s));
            __m256i      total = sum[c][s];
            if (!form->has_min && form->offset != SIGNED)
                total = _mm256_add_epi32(total, _mm256_castps_si256(m));
            __m256 p = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total), _mm256_load_ps(part[c] + LANES * s));
            if (form->has_min) p = _mm256_fmadd_ps(_mm256_load_ps(of_w + RP_PANEL_ROWS + LANES * s), m, p);
            _mm256_store_ps(part[c] + LANES * s, p);
        }
    }
}

/* n_cols columns from c on of a group of `all`. */
INLINE void tile_columns(const QuantForm *form, const char *panel, const char *group, int all, int c,
                         int n_cols, int64_t n_units, const Ahead *ahead, TileSums *sums) {
    const size_t panel_unit = rp_panel_unit_bytes(form), group_unit = rp_group_unit_bytes(form, all);
    for (int64_t u = 0; u < n_units; u++, panel += panel_unit, group += group_unit) {
        const float *of_x = (const float *)(const void *)(group + all * form->unit) + c;
        if (c == 0) rp_prefetch_units(ahead, u, 1);
        add_unit(form, panel, group + c * form->unit, of_x, of_x + all, n_cols,
                 &sums->part[u % RP_SPAN_UNITS][c]);
    }
}

/* Constant numbers of columns, so that the loops over them unroll into registers. */
INLINE void tile(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_units,
                 const Ahead *ahead, TileSums *sums) {
    int c = 0;
    for (; c + COLS <= n_cols; c += COLS)
        tile_columns(form, panel, group, n_cols, c, COLS, n_units, ahead, sums);
    if (n_cols - c == 3)
        tile_columns(form, panel, group, n_cols, c, 3, n_units, ahead, sums);
    else if (n_cols - c == 2)
        tile_columns(form, panel, group, n_cols, c, 2, n_units, ahead, sums);
    else if (n_cols - c == 1)
        tile_columns(form, panel, group, n_cols, c, 1, n_units, ahead, sums);
}

RP_TARGET_AVX2 void rp_tile_avx2(const QuantForm *form, const char *panel, const char *group, int n_cols,
                                 int64_t n_units, const Ahead *ahead, TileSums *sums) {
    rp_begin_sums(sums, n_cols);
    if (form->has_min)
        tile(&(QuantForm){32, 0, true}, panel, group, n_cols, n_units, ahead, sums);
    else if (form->offset == SIGNED)
        tile(&(QuantForm){32, SIGNED, false}, panel, group, n_cols, n_units, ahead, sums);
    else if (form->offset == 8)
        tile(&(QuantForm){32, 8, false}, panel, group, n_cols, n_units, ahead, sums);
    else if (form->unit == 32)
        tile(&(QuantForm){32, 1, false}, panel, group, n_cols, n_units, ahead, sums);
    else
        tile(&(QuantForm){16, 1, false}, panel, group, n_cols, n_units, ahead, sums);
}
#endif
