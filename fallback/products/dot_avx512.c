/* GEMM for AVX-512 VNNI: packed panels and the micro-kernel of 16 rows times 1 to 8 columns, bit for bit as dot.h.
 *
 * A register holds one quad of all 16 rows. VPDPBUSD multiplies it by the same quad of one column, broadcast from
 * memory, and adds the four products to the row's lane. Register blocking: 8 integer sums and 8 float accumulators,
 * so the four accumulators of the sum are computed one after the other, each over every fourth sub-block. Panels
 * hold unsigned q with the offset; the correction of the column group (dot.h) starts the integer sum. */
#include "fallback/products/blocks_avx512.h"
#include "fallback/products/expand_panel_x86.h"

#ifdef RP_X86

/* ---- panels ---- */

/* Packs the first n_subs sub-blocks of a load. `first` is the load's index of sub-blocks in the row, for the
 * prefetch. */
INLINE void pack_load(const PanelLoader *t, const PanelRows *rows, int n_subs, const PrefetchStream *ahead,
                      int64_t first, char *to) {
    const size_t sub_bytes = rp_panel_sub_bytes(&t->form);
    Load         l;
    t->begin(rows, n_subs, &l);
#pragma GCC unroll 4
    for (int s = 0; s < LOAD_STEPS; s++) {
        if (s * t->step_subs >= n_subs) break;
        if (s * t->step_subs % RP_KSTEP_SUBS == 0) /* several sub-blocks at once: the call is not free */
            rp_prefetch_subs(ahead, first + s * t->step_subs, RP_KSTEP_SUBS);
        t->step(rows, s, &l);
#pragma GCC unroll 4
        for (int v = 0; v < t->step_subs; v++) {
            const int u     = sub_of(t, s, v);
            char     *sub   = to + (size_t)u * sub_bytes;
            char     *scale = sub + RP_PANEL_ROWS * t->form.sub_elems;
#pragma GCC unroll 8
            for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++)
                _mm512_store_si512(sub + 64 * k, t->quad(&l, s, v, k));
            _mm512_store_ps((float *)(void *)scale, l.scale[u]);
            if (t->form.has_min) _mm512_store_ps((float *)(void *)(scale + 64), l.min[u]);
        }
    }
}

/* Packs whole loads, then the 1 to 3 blocks that rows of blocks of 32 may have left. */
INLINE void pack_rows(const PanelLoader *t, PanelRows *rows, int64_t n, const PrefetchStream *ahead, char *panel) {
    const int     n_subs     = load_subs(t);
    const size_t  load_bytes = (size_t)n_subs * rp_panel_sub_bytes(&t->form);
    const int64_t all        = rp_n_subs(&t->form, n);
    int64_t       u          = 0;
    for (; u + n_subs <= all; u += n_subs, panel += load_bytes) {
        pack_load(t, rows, n_subs, ahead, u, panel);
        next_load(rows, t->bytes);
    }
    if (t->step_subs == 1 && u < all) pack_load(t, rows, (int)(all - u), ahead, u, panel);
}

/* A whole panel takes the strided addressing of PanelRows, a panel at the end of the matrix the list. */
INLINE void pack_panel(const PanelLoader *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const PrefetchStream *ahead, char *panel) {
    PanelRows strided = strided_rows(rows, stride);
    if (n_rows == RP_PANEL_ROWS) {
        pack_rows(t, &strided, n, ahead, panel);
        return;
    }
    const char *row[RP_PANEL_ROWS];
    PanelRows   listed = {.listed = true, .row = row};
    rp_row_pointers(rows, stride, n_rows, RP_PANEL_ROWS, row);
    pack_rows(t, &listed, n, ahead, panel);
}

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define PACK(ID, name, ...)                                                                                            \
    RP_TARGET_AVX512 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,                   \
                                             const PrefetchStream *ahead, char *panel) {                               \
        static const PanelLoader t = PANEL_LOADER(ID, name);                                                           \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                                         \
    }
RP_DIRECT_QUANTS(PACK)
#undef PACK

/* Signed q are raised by 128. */
#define EXPANDED(ID, name, ...) RP_PACK_EXPANDED(RP_TARGET_AVX512, RP_##ID##_OFFSET, ID, name)
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED

void rp_pack_panel_avx512(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                          const PrefetchStream *ahead, char *panel) {
    typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const PrefetchStream *ahead, char *panel);
#define ENTRY(ID, name, ...) [RP_##ID]       = pack_##name,
    static Pack *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
#undef ENTRY
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}

/* ---- tiles ---- */

/* One sub-block of the panel, at w, times n_cols columns of the group, at x. acc[c] is the accumulator of column c. */
INLINE void add_sub(const QuantForm *form, const char *w, const char *x, int n_cols, __m512 *acc) {
    const float *scale   = (const float *)(const void *)(w + RP_PANEL_ROWS * form->sub_elems);
    const float *x_scale = (const float *)(const void *)(x + n_cols * form->sub_elems);
    __m512i      dot[RP_GROUP_COLS]; /* lane r = row r; starts with the column's correction */
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        dot[c] = form->has_min ? _mm512_setzero_si512()
                               : _mm512_set1_epi32(*(const Quad *)(const void *)(x_scale + n_cols + c));
#pragma GCC unroll 8
    for (int k = 0; k < form->sub_elems; k += RP_QUAD) {
        const __m512i quad = _mm512_load_si512(w + RP_PANEL_ROWS * k);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) dot[c] = dot_quad(dot[c], quad, x + c * form->sub_elems + k);
    }
    const __m512 d = _mm512_load_ps(scale);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++)
        acc[c] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x_scale[c])), _mm512_cvtepi32_ps(dot[c]), acc[c]);
    if (!form->has_min) return;
    const __m512 min = _mm512_load_ps(scale + RP_PANEL_ROWS);
#pragma GCC unroll 8
    for (int c = 0; c < n_cols; c++) acc[c] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_scale[n_cols + c]), acc[c]);
}

/* acc[p] takes sub-blocks p, p + 4, p + 8, ... The four accumulators are independent, so the outer loop runs over
 * them and only one is in registers. Each prefetches a quarter of the stream. */
INLINE void tile(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                 const PrefetchStream *ahead, TileAccs *accs) {
    const size_t w_bytes = rp_panel_sub_bytes(form), x_bytes = rp_group_sub_bytes(form, n_cols);
    const bool   empty = accs->empty;
    accs->empty        = false;
    for (int p = 0; p < RP_KSTEP_SUBS && (p < n_subs || empty); p++) {
        const char *w = panel + (size_t)p * w_bytes, *x = group + (size_t)p * x_bytes;
        rp_prefetch_subs(ahead, p * n_subs / RP_KSTEP_SUBS,
                         (int)((p + 1) * n_subs / RP_KSTEP_SUBS - p * n_subs / RP_KSTEP_SUBS));
        __m512 acc[RP_GROUP_COLS];
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) acc[c] = empty ? _mm512_setzero_ps() : _mm512_load_ps(accs->acc[p][c]);
        for (int64_t u = p; u < n_subs;
             u += RP_KSTEP_SUBS, w += RP_KSTEP_SUBS * w_bytes, x += RP_KSTEP_SUBS * x_bytes) {
            add_sub(form, w, x, n_cols, acc);
        }
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) _mm512_store_ps(accs->acc[p][c], acc[c]);
    }
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void any_columns(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
#define COLUMNS(n)                                                                                                     \
    case n:                                                                                                            \
        tile(form, panel, group, n, n_subs, ahead, accs);                                                              \
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

/* Four compiled forms. Any offset is in the correction, so 1 stands for every offset above 0, and no sum depends
 * on the largest q. */
RP_TARGET_AVX512 void rp_tile_avx512(const QuantForm *form, const char *panel, const char *group, int n_cols,
                                     int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    if (form->has_min && form->sub_elems == 16)
        any_columns(&(QuantForm){16, 0, true, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->has_min)
        any_columns(&(QuantForm){32, 0, true, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->sub_elems == 32)
        any_columns(&(QuantForm){32, 1, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else
        any_columns(&(QuantForm){16, 1, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
}
#endif
