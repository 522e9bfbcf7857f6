/* Repacked weights (repack.h) times a column group for AVX-512 VNNI, without a panel, bit for bit as dot.h.
 *
 * A register has a quad of 16 rows. VPDPBUSD multiplies it by the same quad of a column, broadcast from memory, and
 * adds the four products to the row's lane. Signed q are raised by 128; the correction of the column group starts the
 * sum. */
#include "fallback/products/repacked_types_avx512.h"

#ifdef RP_X86

/* ---- products ---- */

/* Sub-block u of a block times the columns at x. acc[c] is the accumulator of column c. */
INLINE void add_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, const char *x, int n_cols,
                    __m512 *acc) {
    const float *x_scale = (const float *)(const void *)(x + n_cols * t->form.sub_elems);
    __m512i      dot[RP_GROUP_COLS]; /* lane r = row r; starts with the column's correction */
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        dot[c] = t->form.has_min ? _mm512_setzero_si512()
                                 : _mm512_set1_epi32(*(const Quad *)(const void *)(x_scale + n_cols + c));
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++) {
        const __m512i quad = t->quad(block, u, j, k);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) dot[c] = dot_quad(dot[c], quad, x + c * t->form.sub_elems + RP_QUAD * k);
    }
    const __m512 d = t->scale(block, h, u);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        acc[c] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x_scale[c])), _mm512_cvtepi32_ps(dot[c]), acc[c]);
    if (!t->form.has_min) return;
    const __m512 min = t->min(block, h, u);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++) acc[c] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_scale[n_cols + c]), acc[c]);
}

/* Up to RP_FEW_COLS columns, whose four accumulators stay in registers. */
INLINE void few_columns(const RepackedType *t, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
    const size_t of_group = rp_group_sub_bytes(&t->form, n_cols);
    __m512       acc[RP_KSTEP_SUBS][RP_GROUP_COLS];
#pragma GCC unroll 4
    for (int j = 0; j < RP_KSTEP_SUBS; j++)
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++)
            acc[j][c] = accs->empty ? _mm512_setzero_ps() : _mm512_load_ps(accs->acc[j][c]);
    for (int64_t u = 0; u < n_subs; u += RP_KSTEP_SUBS) {
        const char *first = blocks + (size_t)(u / t->subs) * t->bytes;
        const int   step  = t->subs > 1 ? (int)(u % t->subs) : 0;
        Header      h;
        if (t->subs > 1) t->header(first, &h);
#pragma GCC unroll 4
        for (int j = 0; j < RP_KSTEP_SUBS; j++) {
            const char *block = t->subs > 1 ? first : first + (size_t)j * t->bytes;
            if (t->subs == 1 && u + j >= n_subs) break;
            rp_prefetch_subs(ahead, u + j, 1);
            if (t->subs == 1) t->header(block, &h);
            add_sub(t, block, &h, step + j, j, group + (size_t)(u + j) * of_group, n_cols, acc[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < RP_KSTEP_SUBS; j++)
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) _mm512_store_ps(accs->acc[j][c], acc[j][c]);
    accs->empty = false;
}

/* The four accumulators of more columns would not fit in the registers beside their dot products. So the outer loop
 * runs over them, and the weights of the slice come from L1 four times. */
INLINE void many_columns(const RepackedType *t, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                         const PrefetchStream *ahead, TileAccs *accs) {
    const size_t of_group = rp_group_sub_bytes(&t->form, n_cols);
#pragma GCC unroll 4
    for (int j = 0; j < RP_KSTEP_SUBS; j++) {
        __m512 acc[RP_GROUP_COLS];
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) acc[c] = accs->empty ? _mm512_setzero_ps() : _mm512_load_ps(accs->acc[j][c]);
        for (int64_t u = j; u < n_subs; u += RP_KSTEP_SUBS) {
            const char *block = blocks + (size_t)(u / t->subs) * t->bytes;
            Header      h;
            rp_prefetch_subs(ahead, u, 1);
            t->header(block, &h);
            add_sub(t, block, &h, (int)(u % t->subs), j, group + (size_t)u * of_group, n_cols, acc);
        }
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) _mm512_store_ps(accs->acc[j][c], acc[c]);
    }
    accs->empty = false;
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void any_columns(const RepackedType *t, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
#define COLUMNS(n)                                                                                                     \
    case n:                                                                                                            \
        (n <= RP_FEW_COLS ? few_columns : many_columns)(t, blocks, group, n, n_subs, ahead, accs);                     \
        break;
    switch (n_cols) {
        COLUMNS(1)
        COLUMNS(2)
        COLUMNS(3)
        COLUMNS(4)
        COLUMNS(5)
        COLUMNS(6)
        COLUMNS(7)
        COLUMNS(8)
    default: /* a group has at most 8 columns */
        break;
    }
#undef COLUMNS
}

/* ---- panels ---- */

/* Sub-block u of a block, to its place `to` in a panel. */
INLINE void unpack_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, char *to) {
    float *scale = (float *)(void *)(to + RP_PANEL_ROWS * t->form.sub_elems);
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++)
        _mm512_store_si512((void *)(to + RP_QUAD * RP_PANEL_ROWS * k), t->quad(block, u, j, k));
    _mm512_store_ps(scale, t->scale(block, h, u));
    if (t->form.has_min) _mm512_store_ps(scale + RP_PANEL_ROWS, t->min(block, h, u));
}

#include "fallback/products/repacked_unpack.h"

/* Two functions a type, so that the fields of RepackedType are compile-time constants. */
#define TYPE(ID, name)                                                                                                 \
    {                                                                                                                  \
        repacked_header_##name, repacked_quad_##name, scale_##name, min_##name, sizeof(Repacked##ID),                  \
            RP_##ID##_ELEMS / RP_##ID##_SUB, RP_QUANT_FORM(ID)                                                         \
    }
#define FUNCTIONS(ID, name)                                                                                            \
    RP_TARGET_AVX512 static void tile_##name(const char *blocks, const char *group, int n_cols, int64_t n_subs,        \
                                             const PrefetchStream *ahead, TileAccs *accs) {                            \
        const RepackedType t = TYPE(ID, name);                                                                         \
        any_columns(&t, blocks, group, n_cols, n_subs, ahead, accs);                                                   \
    }                                                                                                                  \
    RP_TARGET_AVX512 static void unpack_##name(const char *blocks, int64_t n, const PrefetchStream *ahead,             \
                                               char *panel) {                                                          \
        const RepackedType t = TYPE(ID, name);                                                                         \
        unpack(&t, blocks, rp_n_subs(&t.form, n), ahead, panel);                                                       \
    }
RP_REPACKED(FUNCTIONS)
#undef FUNCTIONS

void rp_repacked_avx512(RpDtype dtype, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
    typedef void Tile(const char *blocks, const char *group, int n_cols, int64_t n_subs, const PrefetchStream *ahead,
                      TileAccs *accs);
#define ENTRY(ID, name) [RP_##ID]            = tile_##name,
    static Tile *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    table[dtype](blocks, group, n_cols, n_subs, ahead, accs);
}

void rp_unpack_panel_avx512(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel) {
    typedef void Unpack(const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel);
#define ENTRY(ID, name) [RP_##ID]              = unpack_##name,
    static Unpack *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    table[dtype](blocks, n, ahead, panel);
}
#endif
