/* GEMM for AVX2: packed panels and the micro-kernel of 16 rows times up to 4 columns, bit for bit as dot.h.
 *
 * A lane is a row, so no sum is added across lanes; 16 rows are two registers (sides). Panels hold unsigned q with
 * the offset, of Q8_0 signed q. With 16 registers, the integer sums of a sub-block take 4 columns x 2 sides = 8 of
 * them; the float accumulators (4 x 8 registers for four columns) stay in memory. */
#include "fallback/products/gemv_load_avx2.h"

#ifdef RP_X86

enum { COLS = 4, SIDES = 2, LANES = 8 };

/* ---- panels ---- */

/* Stores four rows' vectors as quads: a 4 x 4 transposition of words in each half. Quads of the lower halves go to
 * `first`, those of the upper halves to `second` unless it is NULL. `at` is the distance between quads of a panel. */
INLINE void store_quads(const __m256i v[ROWS], char *first, char *second) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i quad[] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d),
                            _mm256_unpackhi_epi64(c, d)};
    for (int k = 0; k < 4; k++) {
        const size_t at = (size_t)k * RP_QUAD * RP_PANEL_ROWS;
        _mm_store_si128((void *)(first + at), _mm256_castsi256_si128(quad[k]));
        if (second != NULL) _mm_store_si128((void *)(second + at), _mm256_extracti128_si256(quad[k], 1));
    }
}

/* Packs pair h of k-step j of four rows, which are rows r to r + 3 of the panel. `to` is the first sub-block of the
 * pair in the panel; the second is stored only if `both`. `half` is the distance from element 0 to element 16. */
INLINE void pack_pair(const QuantLoader *t, const char *const *p, int j, int h, int r, bool both, char *to) {
    const size_t sub_bytes = rp_panel_sub_bytes(&t->form), half = 16 * RP_PANEL_ROWS;
    __m256i      v[2][ROWS];
#pragma GCC unroll 4
    for (int k = 0; k < ROWS; k++) {
        __m256i q[2];
        t->load(p[k], j, h, q);
        v[0][k] = q[0];
        v[1][k] = q[1];
    }
    char *first = to + r * RP_QUAD, *second = first + sub_bytes;
    if (pair_shape(t) == WHOLE) {
        store_quads(v[0], first, first + half);
        if (both) store_quads(v[1], second, second + half);
        return;
    }
    store_quads(v[0], first, both ? second : NULL);
    if (pair_shape(t) == HALVES) store_quads(v[1], first + half, both ? second + half : NULL);
}

INLINE void pack_scales(const QuantLoader *t, const PairScales *s, int r, bool both, char *to) {
    float *first  = (float *)(void *)(to + RP_PANEL_ROWS * t->form.sub_elems) + r;
    float *second = first + rp_panel_sub_bytes(&t->form) / sizeof *first;
    _mm_store_ps(first, _mm256_castps256_ps128(s->scale));
    if (t->form.has_min) _mm_store_ps(first + RP_PANEL_ROWS, _mm256_castps256_ps128(s->min));
    if (!both) return;
    _mm_store_ps(second, _mm256_extractf128_ps(s->scale, 1));
    if (t->form.has_min) _mm_store_ps(second + RP_PANEL_ROWS, _mm256_extractf128_ps(s->min, 1));
}

/* Packs the first n_subs sub-blocks of a load of four rows. */
INLINE void pack_load(const QuantLoader *t, const char *const *p, int r, int n_subs, char *panel) {
    Header header;
    load_header(t, p, &header);
#pragma GCC unroll 8
    for (int k = 0; k < PAIRS * t->n_ksteps; k++) {
        if (2 * k >= n_subs) break;
        const int  j = k / PAIRS, h = k % PAIRS;
        const bool both = 2 * k + 1 < n_subs;
        char      *to   = panel + (size_t)(2 * k) * rp_panel_sub_bytes(&t->form);
        PairScales s;
        t->scales(p, &header, j, h, &s);
        pack_pair(t, p, j, h, r, both, to);
        pack_scales(t, &s, r, both, to);
    }
}

/* Four rows at a time. Prefetches are spread over the four passes, a quarter of the panel's stream in each. A last
 * load with an odd number of blocks is read from a copy (copy_last_blocks). */
INLINE void pack_panel(const QuantLoader *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const PrefetchStream *ahead, char *panel) {
    const int    n_subs = t->n_ksteps * RP_KSTEP_SUBS;
    const size_t bytes  = (size_t)n_subs * rp_panel_sub_bytes(&t->form);
    const char  *row[RP_PANEL_ROWS];
    rp_row_pointers(rows, stride, n_rows, RP_PANEL_ROWS, row);
    for (int r = 0; r < RP_PANEL_ROWS; r += ROWS) {
        char        *to = panel, last[ROWS][MAX_BYTES] = {0};
        const char **p = row + r;
        for (int64_t left = rp_n_subs(&t->form, n); left > 0; left -= n_subs, to += bytes) {
            rp_prefetch_subs(ahead, (r / ROWS * rp_n_subs(&t->form, n) + rp_n_subs(&t->form, n) - left) / 4,
                             n_subs / 4);
            const bool whole = !blocks_of_32(t) || left >= n_subs;
            for (int k = 0; k < ROWS && !whole && left % 2 != 0; k++) {
                copy_last_blocks(t, p[k], (int)left, last[k]);
                p[k] = last[k];
            }
            pack_load(t, p, r, whole ? n_subs : (int)left, to);
            for (int k = 0; k < ROWS; k++) p[k] += load_bytes(t);
        }
    }
}

typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const PrefetchStream *ahead, char *panel);

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define PACK(ID, name, ...)                                                                                            \
    RP_TARGET_AVX2 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,                     \
                                           const PrefetchStream *ahead, char *panel) {                                 \
        const QuantLoader t = QUANT_LOADER(ID, name);                                                                  \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                                         \
    }
RP_QUANTS(PACK)
#undef PACK

#define ENTRY(ID, name, ...) [RP_##ID] = pack_##name,
void rp_pack_panel_avx2(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                        const PrefetchStream *ahead, char *panel) {
    static Pack *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}
#undef ENTRY

/* ---- tiles ---- */

INLINE __m256i quad_of_column(const char *x) { return _mm256_set1_epi32(word32(x)); }

INLINE __m256i madd_ones(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

/* Keeps gcc from reassociating a chain of integer additions into a tree, whose values would not fit in the
 * registers. */
INLINE __m256i in_order(__m256i sum) {
    __asm__("" : "+x"(sum));
    return sum;
}

/* 16-bit sums of n_quads quads of a sub-block, from w and x on: sum[c][s] lanes 2r and 2r + 1 belong to row r of
 * side s. */
INLINE void add_quads(const QuantForm *form, const char *w, const char *x, int n_quads, int n_cols,
                      __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < n_quads; k++) {
        const __m256i w0 = load32(w + 64 * k), w1 = load32(w + 64 * k + 32);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = quad_of_column(x + c * form->sub_elems + RP_QUAD * k);
            const __m256i a = _mm256_maddubs_epi16(w0, xq), b = _mm256_maddubs_epi16(w1, xq);
            sum[c][0] = k == 0 ? a : in_order(_mm256_add_epi16(sum[c][0], a));
            sum[c][1] = k == 0 ? b : in_order(_mm256_add_epi16(sum[c][1], b));
        }
    }
}

/* Q8_0: w . x as |w| . (x with w's sign). Two products are at most 128 * 127 * 2 = 32512; activations are never
 * -128. */
INLINE void signed_sub_sums(const char *w, const char *x, int n_cols, __m256i sum[COLS][SIDES]) {
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

/* Quads whose products can be added in 16 bits, two products a lane and quad:
 *
 *     Q4_0 (offset 8)        8 quads   15 * 128 * 16 = 30720
 *     Q6_K                   2 quads   63 * 128 * 4  = 32256
 *     other types            4 quads   31 * 128 * 8  = 31744 at most */
INLINE int quads_at_a_time(const QuantForm *form) {
    const int quads = form->sub_elems / RP_QUAD;
    return form->offset == 8 ? quads : quads / 2;
}

#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top)*128 * ((offset) == 8 ? (sub) / 2 : (sub) / 4) <= INT16_MAX,              \
                  #name ": the products that quads_at_a_time adds fit in 16 bits");                                    \
    static_assert(((offset) != 8 && (offset) != SIGNED) || (sub) == 32, #name ": a form of rp_tile_avx2");
RP_QUANTS(X)
#undef X

/* Dot products of one sub-block: 32-bit, lane r of sum[c][s] is row 8s + r. */
INLINE void sub_sums(const QuantForm *form, const char *w, const char *x, int n_cols, __m256i sum[COLS][SIDES]) {
    const int quads = quads_at_a_time(form), len = quads * RP_QUAD;
    __m256i   first[COLS][SIDES];
    if (form->offset == SIGNED) {
        signed_sub_sums(w, x, n_cols, sum);
        return;
    }
    add_quads(form, w, x, quads, n_cols, first);
    if (len < form->sub_elems) add_quads(form, w + RP_PANEL_ROWS * len, x + len, quads, n_cols, sum);
    for (int c = 0; c < n_cols; c++)
        for (int s = 0; s < SIDES; s++) {
            const __m256i a = madd_ones(first[c][s]);
            sum[c][s]       = len < form->sub_elems ? _mm256_add_epi32(a, madd_ones(sum[c][s])) : a;
        }
}

/* One sub-block of the panel, at w, times n_cols columns from x on. x_scale has the columns' scales, x_extra their
 * sums or corrections (dot.h). acc[c] is the accumulator of column c. */
INLINE void add_sub(const QuantForm *form, const char *w, const char *x, const float *x_scale, const float *x_extra,
                    int n_cols, float (*acc)[RP_PANEL_ROWS]) {
    const float *w_scale = (const float *)(const void *)(w + RP_PANEL_ROWS * form->sub_elems);
    __m256i      sum[COLS][SIDES];
    sub_sums(form, w, x, n_cols, sum);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m256 dx = _mm256_broadcast_ss(x_scale + c), m = _mm256_broadcast_ss(x_extra + c);
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) {
            const __m256 scale = _mm256_mul_ps(dx, _mm256_load_ps(w_scale + LANES * s));
            __m256i      total = sum[c][s];
            if (!form->has_min && form->offset != SIGNED) total = _mm256_add_epi32(total, _mm256_castps_si256(m));
            __m256 p = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total), _mm256_load_ps(acc[c] + LANES * s));
            if (form->has_min) p = _mm256_fmadd_ps(_mm256_load_ps(w_scale + RP_PANEL_ROWS + LANES * s), m, p);
            _mm256_store_ps(acc[c] + LANES * s, p);
        }
    }
}

/* Columns c to c + n_cols of a group of `all` columns. */
INLINE void tile_columns(const QuantForm *form, const char *panel, const char *group, int all, int c, int n_cols,
                         int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    const size_t panel_sub = rp_panel_sub_bytes(form), group_sub = rp_group_sub_bytes(form, all);
    for (int64_t u = 0; u < n_subs; u++, panel += panel_sub, group += group_sub) {
        const float *x_scale = (const float *)(const void *)(group + all * form->sub_elems) + c;
        if (c == 0) rp_prefetch_subs(ahead, u, 1);
        add_sub(form, panel, group + c * form->sub_elems, x_scale, x_scale + all, n_cols,
                &accs->acc[u % RP_KSTEP_SUBS][c]);
    }
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void tile(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                 const PrefetchStream *ahead, TileAccs *accs) {
    int c = 0;
    for (; c + COLS <= n_cols; c += COLS) tile_columns(form, panel, group, n_cols, c, COLS, n_subs, ahead, accs);
    if (n_cols - c == 3)
        tile_columns(form, panel, group, n_cols, c, 3, n_subs, ahead, accs);
    else if (n_cols - c == 2)
        tile_columns(form, panel, group, n_cols, c, 2, n_subs, ahead, accs);
    else if (n_cols - c == 1)
        tile_columns(form, panel, group, n_cols, c, 1, n_subs, ahead, accs);
}

/* Five compiled forms. Offsets other than 8 and SIGNED only need their correction, so 1 stands for them. */
RP_TARGET_AVX2 void rp_tile_avx2(const QuantForm *form, const char *panel, const char *group, int n_cols,
                                 int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    rp_begin_accs(accs, n_cols);
    if (form->has_min)
        tile(&(QuantForm){32, 0, true}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->offset == SIGNED)
        tile(&(QuantForm){32, SIGNED, false}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->offset == 8)
        tile(&(QuantForm){32, 8, false}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->sub_elems == 32)
        tile(&(QuantForm){32, 1, false}, panel, group, n_cols, n_subs, ahead, accs);
    else
        tile(&(QuantForm){16, 1, false}, panel, group, n_cols, n_subs, ahead, accs);
}
#endif
