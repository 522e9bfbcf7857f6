/* Panels and tiles of AVX-512: a lane is a row. A quad of 16 rows fills a register, which is multiplied with the same quad
 * of each column, broadcast from memory. */
#include "fallback/blocks_avx512.h"

#ifdef RP_X86

/* ---- panels ---- */

/* The first `units` units of a load. */
INLINE void pack_load(const BlockType *t, const PanelRows *rows, int units, const Ahead *ahead, int64_t first,
                      char *to) {
    const size_t unit_bytes = rp_panel_unit_bytes(&t->form);
    Load         l;
    t->begin(rows, units, &l);
#pragma GCC unroll 4
    for (int s = 0; s < LOAD_STEPS; s++) {
        if (s * t->step_units >= units) break;
        rp_prefetch_units(ahead, first + s * t->step_units, t->step_units);
        t->step(rows, s, &l);
#pragma GCC unroll 4
        for (int v = 0; v < t->step_units; v++) {
            const int u     = unit_of(t, s, v);
            char     *unit  = to + (size_t)u * unit_bytes;
            char     *scale = unit + RP_PANEL_ROWS * t->form.unit;
#pragma GCC unroll 8
            for (int k = 0; k < t->form.unit / RP_QUAD; k++)
                _mm512_store_si512(unit + 64 * k, t->quad(&l, s, v, k));
            _mm512_store_ps((float *)(void *)scale, l.scale[u]);
            if (t->form.has_min) _mm512_store_ps((float *)(void *)(scale + 64), l.min[u]);
        }
    }
}

INLINE void pack_rows(const BlockType *t, PanelRows *rows, int64_t n, const Ahead *ahead, char *panel) {
    const int     units      = load_units(t);
    const size_t  load_bytes = (size_t)units * rp_panel_unit_bytes(&t->form);
    const int64_t all        = rp_units(&t->form, n);
    int64_t       u          = 0;
    for (; u + units <= all; u += units, panel += load_bytes) {
        pack_load(t, rows, units, ahead, u, panel);
        next_load(rows, t->bytes);
    }
    if (t->step_units == 1 && u < all) pack_load(t, rows, (int)(all - u), ahead, u, panel);
}

INLINE void pack_panel(const BlockType *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const Ahead *ahead, char *panel) {
    PanelRows strided = strided_rows(rows, stride);
    if (n_rows == RP_PANEL_ROWS) {
        pack_rows(t, &strided, n, ahead, panel);
        return;
    }
    const char *row[RP_PANEL_ROWS];
    PanelRows   listed = {.listed = true, .row = row};
    rp_take_rows(rows, stride, n_rows, RP_PANEL_ROWS, row);
    pack_rows(t, &listed, n, ahead, panel);
}

#define PACK(ID, name, Block, spans, ...)                                                                    \
    RP_TARGET_AVX512 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,         \
                                             const Ahead *ahead, char *panel) {                              \
        static const BlockType t = BLOCK_TYPE(name, Block, spans, __VA_ARGS__);                              \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                               \
    }
SPAN_TYPES(PACK)
#undef PACK

void rp_pack_panel_avx512(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                          const Ahead *ahead, char *panel) {
    typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const Ahead *ahead,
                      char *panel);
#define ENTRY(ID, name, ...) [RP_##ID]       = pack_##name,
    static Pack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
#undef ENTRY
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}

/* ---- tiles ---- */

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
INLINE void tile(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_units,
                 const Ahead *ahead, TileSums *sums) {
    const size_t w_bytes = rp_panel_unit_bytes(form), x_bytes = rp_group_unit_bytes(form, n_cols);
    const bool   empty = sums->empty;
    int64_t      first = 0;
    sums->empty        = false;
    for (int p = 0; p < RP_SPAN_UNITS && (p < n_units || empty); p++) {
        const char *w = panel + (size_t)p * w_bytes, *x = group + (size_t)p * x_bytes;
        __m512      part[RP_GROUP_COLS];
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++)
            part[c] = empty ? _mm512_setzero_ps() : _mm512_load_ps(sums->part[p][c]);
        for (int64_t u = p; u < n_units;
             u += RP_SPAN_UNITS, w += RP_SPAN_UNITS * w_bytes, x += RP_SPAN_UNITS * x_bytes) {
            rp_prefetch_units(ahead, first++, 1);
            add_unit(form, w, x, n_cols, part);
        }
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) _mm512_store_ps(sums->part[p][c], part[c]);
    }
}

/* Constant numbers of columns, so that the loops over them unroll into registers. */
INLINE void any_columns(const QuantForm *form, const char *panel, const char *group, int n_cols,
                        int64_t n_units, const Ahead *ahead, TileSums *sums) {
#define COLUMNS(n)                                                                                           \
    case n:                                                                                                  \
        tile(form, panel, group, n, n_units, ahead, sums);                                                   \
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
    default: /* a group has no more */
        break;
    }
#undef COLUMNS
}

RP_TARGET_AVX512 void rp_tile_avx512(const QuantForm *form, const char *panel, const char *group, int n_cols,
                                     int64_t n_units, const Ahead *ahead, TileSums *sums) {
    if (form->has_min)
        any_columns(&(QuantForm){32, 0, true}, panel, group, n_cols, n_units, ahead, sums);
    else if (form->unit == 32)
        any_columns(&(QuantForm){32, 1, false}, panel, group, n_cols, n_units, ahead, sums);
    else
        any_columns(&(QuantForm){16, 1, false}, panel, group, n_cols, n_units, ahead, sums);
}
#endif
