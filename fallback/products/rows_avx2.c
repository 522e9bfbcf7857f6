/* GEMM for AVX2: 16 rows times 2 or 3 columns straight from the blocks of the file, without a panel, bit for bit as
 * dot.h.
 *
 * 8 rows are loaded transposed (blocks_avx2.h), so a lane is a row and no sum is added across lanes. A quad is
 * unpacked in a register and multiplied by all columns at once:
 *
 *     for side of 8 rows: for load: for sub-block: for quad: unpack it; for column: sum += quad x column
 *
 * A quad of a column is loaded for 8 rows, with a panel for 16. From 4 columns on these loads, and sums that no longer
 * fit in the registers, cost what the panel does. */
#include "fallback/products/blocks_avx2.h"

#ifdef RP_X86

enum { COLS = RP_ROWS_COLS };

INLINE __m256i quad_products(const QuantForm *form, __m256i w, __m256i x) {
    if (form->offset == SIGNED) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

/* Dot products of sub-block v of a step: 32-bit, lane r of sum[c] is row r. */
INLINE void sub_sums(const SideLoader *t, const Load *l, int step, int v, const char *x, int n_cols,
                     __m256i sum[COLS]) {
    const int run = quads_at_a_time(&t->form), sub_elems = t->form.sub_elems;
#pragma GCC unroll 8
    for (int k = 0; k < sub_elems / RP_QUAD; k += run) {
        __m256i part[COLS];
#pragma GCC unroll 8
        for (int i = k; i < k + run; i++) {
            const __m256i w = t->quad(l, step, v, i);
#pragma GCC unroll 4
            for (int c = 0; c < n_cols; c++) {
                const __m256i p = quad_products(&t->form, w, quad_of_column(x + c * sub_elems + RP_QUAD * i));
                part[c]         = i == k ? p : add16(part[c], p);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) sum[c] = k == 0 ? madd_ones(part[c]) : add32(sum[c], madd_ones(part[c]));
    }
}

/* Sub-block v of a step times n_cols columns, whose packed sub-block is at x (dot.h). acc[c] is the accumulator of
 * column c. */
INLINE void add_sub(const SideLoader *t, const Load *l, int step, int v, const char *x, int n_cols,
                    float (*acc)[RP_PANEL_ROWS]) {
    const int    u       = sub_of(t, step, v);
    const float *x_scale = (const float *)(const void *)(x + n_cols * t->form.sub_elems), *x_extra = x_scale + n_cols;
    __m256i      sum[COLS];
    sub_sums(t, l, step, v, x, n_cols, sum);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m256 extra = _mm256_broadcast_ss(x_extra + c), dx = _mm256_broadcast_ss(x_scale + c);
        __m256i      total = sum[c];
        if (!t->form.has_min && t->form.offset != SIGNED) total = _mm256_add_epi32(total, _mm256_castps_si256(extra));
        __m256 p = _mm256_fmadd_ps(_mm256_mul_ps(l->scale[u], dx), _mm256_cvtepi32_ps(total), _mm256_load_ps(acc[c]));
        if (t->form.has_min) p = _mm256_fmadd_ps(l->min[u], extra, p);
        _mm256_store_ps(acc[c], p);
    }
}

/* One load of 8 rows: its first n_subs sub-blocks. `first` is its index of sub-blocks in the row, for the prefetch;
 * `side` the first of the rows. */
INLINE void add_load(const SideLoader *t, const SideRows *rows, int64_t n_subs, const char *group, int n_cols,
                     const PrefetchStream *ahead, int64_t first, int side, TileAccs *accs) {
    Load l;
    t->begin(rows, &l);
#pragma GCC unroll 4
    for (int s = 0; s < LOAD_STEPS; s++) {
        if (t->step_subs == 1 && s >= n_subs) break;
        if (s * t->step_subs % RP_KSTEP_SUBS == 0) rp_prefetch_subs(ahead, first + s * t->step_subs, RP_KSTEP_SUBS);
        t->step(rows, s, &l);
#pragma GCC unroll 4
        for (int v = 0; v < t->step_subs; v++) {
            const int u = sub_of(t, s, v);
            add_sub(t, &l, s, v, group + (size_t)u * rp_group_sub_bytes(&t->form, n_cols), n_cols,
                    (float(*)[RP_PANEL_ROWS])(accs->acc[u % RP_KSTEP_SUBS][0] + side));
            stored(accs->acc[u % RP_KSTEP_SUBS]);
        }
    }
}

INLINE void columns(const SideLoader *t, const char *rows, size_t stride, const char *group, int n_cols, int64_t n_subs,
                    const PrefetchStream *ahead, TileAccs *accs) {
    PrefetchStream half = {ahead->at, ahead->sub_bytes / 2};
    for (int side = 0; side < RP_PANEL_ROWS; side += SIDE_ROWS, rows += SIDE_ROWS * stride) {
        SideRows    at = side_rows(rows, stride);
        const char *x  = group;
        for (int64_t u = 0; u < n_subs; u += load_subs(t)) {
            add_load(t, &at, n_subs - u, x, n_cols, &half, u, side, accs);
            next_load(&at, t->bytes);
            x += (size_t)load_subs(t) * rp_group_sub_bytes(&t->form, n_cols);
        }
        half.at += (size_t)n_subs * half.sub_bytes;
    }
}

typedef void Rows(const char *rows, size_t stride, const char *group, int n_cols, int64_t n_subs,
                  const PrefetchStream *ahead, TileAccs *accs);

/* One function a weight type, so that the loader's fields are compile-time constants, as are the numbers of columns. */
#define ROWS(ID, name, ...)                                                                                            \
    RP_TARGET_AVX2 static void rows_##name(const char *rows, size_t stride, const char *group, int n_cols,             \
                                           int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {              \
        const SideLoader t = SIDE_LOADER(ID, name);                                                                    \
        if (RP_ROWS_MOST(ID) >= 2 && n_cols == 2) columns(&t, rows, stride, group, 2, n_subs, ahead, accs);            \
        if (RP_ROWS_MOST(ID) >= 3 && n_cols == 3) columns(&t, rows, stride, group, 3, n_subs, ahead, accs);            \
    }
RP_DIRECT_QUANTS(ROWS)
#undef ROWS

#define ENTRY(ID, name, ...) [RP_##ID] = rows_##name,
void rp_rows_avx2(RpDtype dtype, const char *rows, size_t stride, const char *group, int n_cols, int64_t n_subs,
                  const PrefetchStream *ahead, TileAccs *accs) {
    static Rows *const table[RP_DTYPE_COUNT] = {RP_DIRECT_QUANTS(ENTRY)};
    rp_begin_accs(accs, n_cols);
    table[dtype](rows, stride, group, n_cols, n_subs, ahead, accs);
}
#undef ENTRY
#endif
