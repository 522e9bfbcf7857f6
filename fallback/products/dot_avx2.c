/* GEMM for AVX2: packed panels and the micro-kernel of 16 rows times up to 4 columns, bit for bit as dot.h.
 *
 * A lane is a row, so no sum is added across lanes; 16 rows are two registers (sides). Panels hold unsigned q with
 * the offset, of Q8_0 signed q. With 16 registers, the integer sums of a sub-block take 4 columns x 2 sides = 8 of
 * them; the float accumulators (4 x 8 registers for four columns) stay in memory. */
#include "fallback/products/blocks_avx2.h"
#include "fallback/products/expand_panel_x86.h"

#ifdef RP_X86

enum { COLS = 4, SIDES = 2, LANES = 8, LONGEST_LOAD = 210 /* bytes of a row, in blocks_avx2.h */ };

#define X(ID, name, ...) static_assert(RP_LOAD_BYTES(ID) <= LONGEST_LOAD, #name ": pack_side has room for a load");
RP_DIRECT_QUANTS(X)
#undef X

/* ---- panels ---- */

/* Packs the first n_subs sub-blocks of a load of 8 rows, the half of the panel that begins at `to`. `first` is the
 * load's index of sub-blocks in the row, for the prefetch. */
INLINE void pack_load(const SideLoader *t, const SideRows *rows, int64_t n_subs, const PrefetchStream *ahead,
                      int64_t first, char *to) {
    Load l;
    t->begin(rows, &l);
#pragma GCC unroll 4
    for (int s = 0; s < LOAD_STEPS; s++) {
        if (t->step_subs == 1 && s >= n_subs) break;
        if (s * t->step_subs % RP_KSTEP_SUBS == 0) /* several sub-blocks at once: the call is not free */
            rp_prefetch_subs(ahead, first + s * t->step_subs, RP_KSTEP_SUBS);
        t->step(rows, s, &l);
#pragma GCC unroll 4
        for (int v = 0; v < t->step_subs; v++) {
            const int u     = sub_of(t, s, v);
            char     *sub   = to + (size_t)u * rp_panel_sub_bytes(&t->form);
            float    *scale = (float *)(void *)(sub + RP_PANEL_ROWS * t->form.sub_elems);
#pragma GCC unroll 8
            for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++)
                _mm256_store_si256((void *)(sub + RP_QUAD * RP_PANEL_ROWS * k), t->quad(&l, s, v, k));
            _mm256_store_ps(scale, l.scale[u]);
            if (t->form.has_min) _mm256_store_ps(scale + RP_PANEL_ROWS, l.min[u]);
        }
    }
}

/* Packs half a panel. Missing rows repeat the last one: their loads are copied. Prefetches half of the stream: the
 * sides are packed one after the other. */
INLINE void pack_side(const SideLoader *t, const char *rows, size_t stride, int n_rows, int64_t n,
                      const PrefetchStream *ahead, char *panel) {
    SideRows side = side_rows(rows, stride);
    char     copy[SIDE_ROWS * LONGEST_LOAD];
    for (int64_t u = 0, left = rp_n_subs(&t->form, n); left > 0; u += load_subs(t), left -= load_subs(t)) {
        const size_t bytes = left < load_subs(t) ? t->bytes / LOAD_STEPS * (size_t)left : t->bytes;
        for (int r = 0; r < SIDE_ROWS && n_rows < SIDE_ROWS; r++)
            memcpy(copy + (size_t)r * t->bytes, rows + (size_t)(r < n_rows ? r : n_rows - 1) * stride, bytes);
        if (n_rows < SIDE_ROWS) side = side_rows(copy, t->bytes);
        pack_load(t, &side, left, ahead, u, panel);
        next_load(&side, t->bytes);
        rows += t->bytes;
        panel += (size_t)load_subs(t) * rp_panel_sub_bytes(&t->form);
    }
}

INLINE void pack_panel(const SideLoader *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const PrefetchStream *ahead, char *panel) {
    PrefetchStream half = {ahead->at, ahead->sub_bytes / SIDES};
    for (int s = 0; s < SIDES; s++, panel += SIDE_ROWS * RP_QUAD) {
        const int row = s * SIDE_ROWS < n_rows ? s * SIDE_ROWS : n_rows - 1, left = n_rows - row;
        pack_side(t, rows + (size_t)row * stride, stride, left < SIDE_ROWS ? left : SIDE_ROWS, n, &half, panel);
        half.at += (size_t)rp_n_subs(&t->form, n) * half.sub_bytes;
    }
}

typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const PrefetchStream *ahead, char *panel);

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define PACK(ID, name, ...)                                                                                            \
    RP_TARGET_AVX2 static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,                     \
                                           const PrefetchStream *ahead, char *panel) {                                 \
        const SideLoader t = SIDE_LOADER(ID, name);                                                                    \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                                         \
    }
RP_DIRECT_QUANTS(PACK)
#undef PACK

#define EXPANDED(ID, name, ...) RP_PACK_EXPANDED(RP_TARGET_AVX2, 0, ID, name)
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED

#define ENTRY(ID, name, ...) [RP_##ID] = pack_##name,
void rp_pack_panel_avx2(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                        const PrefetchStream *ahead, char *panel) {
    static Pack *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}
#undef ENTRY

/* ---- tiles ---- */

/* 32 q of the panel, unsigned. */
INLINE __m256i panel_quads(const QuantForm *form, const char *w) {
    return is_raised(form) ? _mm256_add_epi8(load32(w), _mm256_set1_epi8(RAISE)) : load32(w);
}

/* 16-bit sums of n_quads quads of a sub-block, from w and x on: sum[c][s] lanes 2r and 2r + 1 belong to row r of
 * side s. */
INLINE void add_quads(const QuantForm *form, const char *w, const char *x, int n_quads, int n_cols,
                      __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < n_quads; k++) {
        const __m256i w0 = panel_quads(form, w + 64 * k), w1 = panel_quads(form, w + 64 * k + 32);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = quad_of_column(x + c * form->sub_elems + RP_QUAD * k);
            const __m256i a = _mm256_maddubs_epi16(w0, xq), b = _mm256_maddubs_epi16(w1, xq);
            sum[c][0] = k == 0 ? a : add16(sum[c][0], a);
            sum[c][1] = k == 0 ? b : add16(sum[c][1], b);
        }
    }
}

/* Dot products of a sub-block in runs of two quads. Each column is added up to 32 bits before the next one: with the
 * 16-bit sums of all columns beside the 32-bit ones, half of them would go through memory. */
INLINE void short_runs(const char *w, const char *x, int sub_elems, int n_cols, __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 4
    for (int k = 0; k < sub_elems / RP_QUAD; k += 2) {
        const __m256i first[SIDES]  = {load32(w + 64 * k), load32(w + 64 * k + 32)};
        const __m256i second[SIDES] = {load32(w + 64 * k + 64), load32(w + 64 * k + 96)};
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const char   *xk = x + c * sub_elems + RP_QUAD * k;
            const __m256i x0 = quad_of_column(xk), x1 = quad_of_column(xk + RP_QUAD);
#pragma GCC unroll 2
            for (int s = 0; s < SIDES; s++) {
                const __m256i v =
                    madd_ones(add16(_mm256_maddubs_epi16(first[s], x0), _mm256_maddubs_epi16(second[s], x1)));
                sum[c][s] = k == 0 ? v : add32(sum[c][s], v);
            }
        }
    }
}

/* Q8_0: w . x as |w| . (x with w's sign). Two products are at most 128 * 127 * 2 = 32512; activations are never
 * -128. */
INLINE void signed_sub_sums(const char *w, const char *x, int sub_elems, int n_cols, __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < sub_elems / RP_QUAD; k++) {
        const __m256i w0 = load32(w + 64 * k), w1 = load32(w + 64 * k + 32);
        const __m256i abs0 = _mm256_abs_epi8(w0), abs1 = _mm256_abs_epi8(w1);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = quad_of_column(x + c * sub_elems + RP_QUAD * k);
            const __m256i a  = madd_ones(_mm256_maddubs_epi16(abs0, _mm256_sign_epi8(xq, w0)));
            const __m256i b  = madd_ones(_mm256_maddubs_epi16(abs1, _mm256_sign_epi8(xq, w1)));
            sum[c][0]        = k == 0 ? a : add32(sum[c][0], a);
            sum[c][1]        = k == 0 ? b : add32(sum[c][1], b);
        }
    }
}

/* Dot products of one sub-block: 32-bit, lane r of sum[c][s] is row 8s + r. */
INLINE void sub_sums(const QuantForm *form, const char *w, const char *x, int n_cols, __m256i sum[COLS][SIDES]) {
    const int quads = quads_at_a_time(form), len = quads * RP_QUAD;
    __m256i   first[COLS][SIDES];
    if (quads == 1) {
        signed_sub_sums(w, x, form->sub_elems, n_cols, sum);
        return;
    }
    if (quads == 2) {
        short_runs(w, x, form->sub_elems, n_cols, sum);
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
        const __m256  dx = _mm256_broadcast_ss(x_scale + c), m = _mm256_broadcast_ss(x_extra + c);
        const __m256i correction = _mm256_castps_si256(m); /* -offset * the sum of the column's q */
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) {
            const __m256 scale = _mm256_mul_ps(dx, _mm256_load_ps(w_scale + LANES * s));
            __m256i      total = sum[c][s];
            if (is_raised(form))
                total = _mm256_add_epi32(total, _mm256_srai_epi32(correction, 3)); /* SIGNED = 8 * RAISE */
            else if (!form->has_min && form->offset != SIGNED)
                total = _mm256_add_epi32(total, correction);
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
        if (c == 0 && u % RP_KSTEP_SUBS == 0) rp_prefetch_subs(ahead, u, RP_KSTEP_SUBS);
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

#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert(!(has_min) || (sub) == 32 || (top) <= FOUR_BITS, #name ": has a compiled form");
RP_QUANTS(X)
#undef X

/* Ten compiled forms. Offsets other than SIGNED only need their correction, so 1 stands for them. */
RP_TARGET_AVX2 void rp_tile_avx2(const QuantForm *form, const char *panel, const char *group, int n_cols,
                                 int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    rp_begin_accs(accs, n_cols);
    if (form->has_min && form->sub_elems == 16)
        tile(&(QuantForm){16, 0, true, FOUR_BITS}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->has_min && form->top <= FOUR_BITS)
        tile(&(QuantForm){32, 0, true, FOUR_BITS}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->has_min)
        tile(&(QuantForm){32, 0, true, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else if (is_raised(form) && form->sub_elems == 16)
        tile(&(QuantForm){16, SIGNED, false, RAISED_TOP}, panel, group, n_cols, n_subs, ahead, accs);
    else if (is_raised(form))
        tile(&(QuantForm){32, SIGNED, false, RAISED_TOP}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->offset == SIGNED && form->sub_elems == 16)
        tile(&(QuantForm){16, SIGNED, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->offset == SIGNED)
        tile(&(QuantForm){32, SIGNED, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->sub_elems == 32 && form->top <= FOUR_BITS)
        tile(&(QuantForm){32, 1, false, FOUR_BITS}, panel, group, n_cols, n_subs, ahead, accs);
    else if (form->sub_elems == 32)
        tile(&(QuantForm){32, 1, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
    else
        tile(&(QuantForm){16, 1, false, 255}, panel, group, n_cols, n_subs, ahead, accs);
}
#endif
