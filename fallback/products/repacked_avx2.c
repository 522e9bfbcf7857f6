/* Repacked weights (repack.h) times a column group for AVX2, without a panel, bit for bit as dot.h.
 *
 * A lane is a row, 16 rows are two registers (sides), and up to 4 columns are multiplied at a time, as in dot_avx2.c.
 * The products of a run of quads are added in 16 bits: VPMADDUBSW adds two to a lane. */
#include "fallback/products/repacked_types_avx2.h"

#ifdef RP_X86

/* ---- products ---- */

/* Keeps a header in memory, where its uses are operands of one instruction. In registers it would leave too few for
 * the sums, whose chains of additions would go through memory. */
INLINE void in_memory(Header *h) { __asm__("" : "+m"(*h)); }

/* Keeps loads from p behind the code before. */
INLINE const char *after(const char *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

INLINE __m256i quad_products(const RepackedType *t, __m256i w, __m256i x) {
    if (t->form.offset == SIGNED && t->raise == 0)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

/* 16-bit sums of all quads of sub-block u, whose run is the whole sub-block, into run[c][s]. */
INLINE void run_of_quads(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                         __m256i run[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < t->run; k++) {
        const __m256i w0 = t->quad(block, u, j, k, 0), w1 = t->quad(block, u, j, k, 1);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = _mm256_set1_epi32(word32(x + c * t->form.sub_elems + RP_QUAD * k));
            const __m256i a = quad_products(t, w0, xq), b = quad_products(t, w1, xq);
            run[c][0] = k == 0 ? a : add16(run[c][0], a);
            run[c][1] = k == 0 ? b : add16(run[c][1], b);
        }
    }
}

/* Adds runs of one or two quads to 32-bit sums column by column: the 16-bit sums of all columns would not fit in the
 * registers beside them. */
INLINE void short_runs(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                       __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k += t->run) {
        __m256i w[2][SIDES];
#pragma GCC unroll 4
        for (int i = 0; i < SIDES * t->run; i++)
            w[i / SIDES][i % SIDES] = t->quad(block, u, j, k + i / SIDES, i % SIDES);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const char   *xk = x + c * t->form.sub_elems + RP_QUAD * k;
            const __m256i x0 = _mm256_set1_epi32(word32(xk));
#pragma GCC unroll 2
            for (int s = 0; s < SIDES; s++) {
                __m256i v = quad_products(t, w[0][s], x0);
                if (t->run == 2) v = add16(v, quad_products(t, w[1][s], _mm256_set1_epi32(word32(xk + RP_QUAD))));
                v         = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
                sum[c][s] = k == 0 ? v : add32(sum[c][s], v);
            }
        }
    }
}

/* Dot products of sub-block u: 32-bit, lane r of sum[c][s] is row 8s + r. */
INLINE void sub_sums(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                     __m256i sum[COLS][SIDES]) {
    if (t->run <= 2) {
        short_runs(t, block, u, j, x, n_cols, sum);
        return;
    }
    run_of_quads(t, block, u, j, x, n_cols, sum);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++)
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) sum[c][s] = _mm256_madd_epi16(sum[c][s], _mm256_set1_epi16(1));
}

/* raise = 128 >> shift. */
INLINE int shift_of(int raise) { return raise == 64 ? 1 : raise == 16 ? 3 : raise == 4 ? 5 : 7; }

/* Sub-block u of a block times n_cols columns from x on. x_scale has the columns' scales, x_extra their sums or
 * corrections (dot.h). acc[c] is the accumulator of column c. */
INLINE void add_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, const char *x,
                    const float *x_scale, const float *x_extra, int n_cols, float (*acc)[RP_PANEL_ROWS]) {
    __m256i sum[COLS][SIDES];
    sub_sums(t, block, u, j, x, n_cols, sum);
    Header own;
    if (t->subs == 1) t->header(after(block), &own), h = &own;
    __m256 scale[SIDES], min[SIDES];
#pragma GCC unroll 2
    for (int s = 0; s < SIDES; s++) {
        scale[s] = t->scale(block, h, u, s);
        min[s]   = t->form.has_min ? t->min(block, h, u, s) : scale[s];
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m256 extra = _mm256_broadcast_ss(x_extra + c), dx = _mm256_broadcast_ss(x_scale + c);
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) {
            __m256i total = sum[c][s];
            if (t->raise > 0) /* -128 times the sum, to -raise times it */
                total = _mm256_add_epi32(total, _mm256_srai_epi32(_mm256_castps_si256(extra), shift_of(t->raise)));
            else if (!t->form.has_min && t->form.offset != SIGNED)
                total = _mm256_add_epi32(total, _mm256_castps_si256(extra));
            __m256 p = _mm256_fmadd_ps(_mm256_mul_ps(scale[s], dx), _mm256_cvtepi32_ps(total),
                                       _mm256_load_ps(acc[c] + LANES * s));
            if (t->form.has_min) p = _mm256_fmadd_ps(min[s], extra, p);
            _mm256_store_ps(acc[c] + LANES * s, p);
        }
    }
}

/* Columns c to c + n_cols of a group of `all` columns. */
INLINE void columns(const RepackedType *t, const char *blocks, const char *group, int all, int c, int n_cols,
                    int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    const size_t of_group = rp_group_sub_bytes(&t->form, all);
    for (int64_t u = 0; u < n_subs; u += RP_KSTEP_SUBS) {
        const char *first = blocks + (size_t)(u / t->subs) * t->bytes;
        const int   step  = t->subs > 1 ? (int)(u % t->subs) : 0;
        Header      h;
        if (t->subs > 1) t->header(first, &h);
        if (t->subs > 1) in_memory(&h);
#pragma GCC unroll 4
        for (int j = 0; j < RP_KSTEP_SUBS; j++) {
            const char  *block = t->subs > 1 ? first : first + (size_t)j * t->bytes;
            const char  *x     = group + (size_t)(u + j) * of_group;
            const float *scale = (const float *)(const void *)(x + all * t->form.sub_elems) + c;
            if (t->subs == 1 && u + j >= n_subs) break;
            if (c == 0) rp_prefetch_subs(ahead, u + j, 1);
            add_sub(t, block, &h, step + j, j, x + c * t->form.sub_elems, scale, scale + all, n_cols, &accs->acc[j][c]);
            stored(accs->acc[j]);
        }
    }
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void all_columns(const RepackedType *t, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
    int c = 0;
    for (; c + COLS <= n_cols; c += COLS) columns(t, blocks, group, n_cols, c, COLS, n_subs, ahead, accs);
    if (n_cols - c == 3)
        columns(t, blocks, group, n_cols, c, 3, n_subs, ahead, accs);
    else if (n_cols - c == 2)
        columns(t, blocks, group, n_cols, c, 2, n_subs, ahead, accs);
    else if (n_cols - c == 1)
        columns(t, blocks, group, n_cols, c, 1, n_subs, ahead, accs);
}

/* ---- panels ---- */

/* Sub-block u of a block, to its place `to` in a panel. */
INLINE void unpack_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, char *to) {
    float *scale = (float *)(void *)(to + RP_PANEL_ROWS * t->form.sub_elems);
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++)
        for (int s = 0; s < SIDES; s++) {
            const __m256i q = _mm256_sub_epi8(t->quad(block, u, j, k, s), _mm256_set1_epi8((char)t->raise));
            _mm256_store_si256((void *)(to + RP_QUAD * (RP_PANEL_ROWS * k + LANES * s)), q);
        }
    for (int s = 0; s < SIDES; s++) {
        _mm256_store_ps(scale + LANES * s, t->scale(block, h, u, s));
        if (t->form.has_min) _mm256_store_ps(scale + RP_PANEL_ROWS + LANES * s, t->min(block, h, u, s));
    }
}

#include "fallback/products/repacked_unpack.h"

/* Two functions a type, so that the fields of RepackedType are compile-time constants. */
#define TYPE(ID, name)                                                                                                 \
    {                                                                                                                  \
        repacked_header_##name, repacked_quad_##name, scale_##name, min_##name, sizeof(Repacked##ID),                  \
            RP_##ID##_ELEMS / RP_##ID##_SUB, RUN(ID), RAISE(ID), RP_QUANT_FORM(ID)                                     \
    }
#define FUNCTIONS(ID, name)                                                                                            \
    RP_TARGET_AVX2 static void tile_##name(const char *blocks, const char *group, int n_cols, int64_t n_subs,          \
                                           const PrefetchStream *ahead, TileAccs *accs) {                              \
        const RepackedType t = TYPE(ID, name);                                                                         \
        all_columns(&t, blocks, group, n_cols, n_subs, ahead, accs);                                                   \
    }                                                                                                                  \
    RP_TARGET_AVX2 static void unpack_##name(const char *blocks, int64_t n, const PrefetchStream *ahead,               \
                                             char *panel) {                                                            \
        const RepackedType t = TYPE(ID, name);                                                                         \
        unpack(&t, blocks, rp_n_subs(&t.form, n), ahead, panel);                                                       \
    }
RP_REPACKED(FUNCTIONS)
#undef FUNCTIONS

void rp_repacked_avx2(RpDtype dtype, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                      const PrefetchStream *ahead, TileAccs *accs) {
    typedef void Tile(const char *blocks, const char *group, int n_cols, int64_t n_subs, const PrefetchStream *ahead,
                      TileAccs *accs);
#define ENTRY(ID, name) [RP_##ID]            = tile_##name,
    static Tile *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    rp_begin_accs(accs, n_cols);
    table[dtype](blocks, group, n_cols, n_subs, ahead, accs);
}

void rp_unpack_panel_avx2(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel) {
    typedef void Unpack(const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel);
#define ENTRY(ID, name) [RP_##ID]              = unpack_##name,
    static Unpack *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    table[dtype](blocks, n, ahead, panel);
}
#endif
