/* GEMV for AVX-512 VNNI: y[m] = row m . x, straight from the blocks of the file, bit for bit as dot.h.
 *
 * Four rows at a time. A row's k-step is one register (two for sub-blocks of 32) whose quarter u is sub-block u;
 * VPDPBUSD leaves four partial dot products of sub-block u in the lanes of quarter u. Adding those across lanes for
 * four rows at once gives one register, and conversion, scaling and the float addition are one instruction for all:
 *
 *     accs, lane 4u + r = accumulator u of row r
 *
 * The column is prepared once (ColumnKstep: order of lanes, scales, offset) and used for ROW_BLOCK rows. */
#include "fallback/products/expand_avx512.h"

#ifdef RP_X86

enum {
    ROWS      = 4,
    ROW_BLOCK = 256,  /* rows that share a prepared slice of the column: a multiple of ROWS */
    SLICE     = 16384 /* elements of the column prepared at a time: whole k-steps and blocks */
};

#define X(ID, ...) static_assert(SLICE % (RP_LOAD_BLOCKS(ID) * RP_##ID##_ELEMS) == 0, "a slice is whole loads");
RP_QUANTS(X)
#undef X

/* Adds the four lanes of each sub-block, for four rows: lane 4u + r = the sum of quarter u of v[r]. Two levels of a
 * 4 x 4 transposition, each followed by an addition. */
INLINE __m512i sums_of_subs(const __m512i *v) {
    const __m512i v01 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i v23 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(v01, v23), _mm512_unpackhi_epi64(v01, v23));
}

/* A row group, and its prefetches. Four rows of `stride` bytes are contiguous, so while byte `at` of each row is
 * multiplied, byte ROWS * at of a later row group is prefetched, `ahead` bytes on (step = ROWS). The group's loads
 * then prefetch each cache line of that group once, in order. Rows longer than SLICE are not read in one go; for
 * those only the first row of the later group is prefetched (step = 1). */
typedef struct Rows {
    const char *row[ROWS];
    size_t      ahead, step;
} Rows;

/* One load of the row group, `at` bytes from the rows' starts. n_subs is RP_KSTEP_SUBS, or 1 to 3 in the last load of
 * rows of blocks of 32. */
INLINE __m512 add_load(const QuantLoader *t, const Rows *rows, size_t at, int n_subs, const ColumnKstep *x,
                       __m512 accs) {
    KstepScales w[MAX_KSTEPS];
    __m512i     lanes[MAX_KSTEPS][ROWS];
    rp_prefetch(rows->row[0] + rows->ahead + rows->step * at, ROWS * t->bytes);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        Kstep s[MAX_KSTEPS];
        t->load(rows->row[r] + at, n_subs, s);
        for (int h = 0; h < t->n_ksteps; h++) lanes[h][r] = lane_dots(t, &s[h], &x[h]);
    }
    t->scales(rows->row, at, n_subs, w);
    for (int h = 0; h < t->n_ksteps; h++) {
        const __m512 dots = _mm512_cvtepi32_ps(sums_of_subs(lanes[h]));
        accs              = _mm512_fmadd_ps(_mm512_mul_ps(w[h].scale, x[h].scale), dots, accs);
        if (t->form.has_min) accs = _mm512_fmadd_ps(w[h].min, x[h].sum, accs);
    }
    return accs;
}

/* A slice of n elements, whose bytes begin `at` bytes from the rows' starts. */
INLINE __m512 add_slice(const QuantLoader *t, const Rows *rows, size_t at, int64_t n, const ColumnKstep *x,
                        __m512 accs) {
    const int64_t elems = t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems;
    for (; n >= elems; n -= elems, at += t->bytes, x += t->n_ksteps)
        accs = add_load(t, rows, at, RP_KSTEP_SUBS, x, accs);
    if (t->n_ksteps == 1 && n > 0) accs = add_load(t, rows, at, (int)(n / 32), x, accs);
    return accs;
}

/* Prepares the column's elements [from, end). */
INLINE void column_slice(const QuantForm *form, const DotColumn *x, int64_t from, int64_t end, ColumnKstep *out) {
    const int64_t kstep_elems = RP_KSTEP_SUBS * form->sub_elems;
    for (int64_t i = from; i < end; i += kstep_elems, out++)
        *out = column_kstep(form, x, i, end - i < kstep_elems ? (int)((end - i) / 32) : RP_KSTEP_SUBS);
}

/* At most ROW_BLOCK rows. Their accumulators wait in `accs` between slices. */
INLINE void row_block(const QuantLoader *t, const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                      float *y) {
    const int64_t elems = t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems;
    Rows          rows  = {.ahead = rp_prefetch_distance(ROWS * stride), .step = n <= SLICE ? ROWS : 1};
    ColumnKstep   column[SLICE / RP_KSTEP_SUBS / 16];
    __m512        accs[ROW_BLOCK / ROWS];
    for (int64_t from = 0; from < n; from += SLICE) {
        const int64_t end = n - from < SLICE ? n : from + SLICE;
        const size_t  at  = (size_t)(from / elems) * t->bytes;
        column_slice(&t->form, x, from, end, column);
        for (int64_t m = 0; m < n_rows; m += ROWS) {
            const __m512 before = from == 0 ? _mm512_setzero_ps() : accs[m / ROWS];
            rp_row_pointers(w + (size_t)m * stride, stride, n_rows - m, ROWS, rows.row);
            accs[m / ROWS] = add_slice(t, &rows, at, end - from, column, before);
        }
    }
    for (int64_t m = 0; m < n_rows; m += ROWS) {
        const __m512 v    = accs[m / ROWS];
        const int    left = n_rows - m < ROWS ? (int)(n_rows - m) : ROWS;
        const __m256 two  = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
        _mm_mask_storeu_ps(y + m, (__mmask8)((1 << left) - 1),
                           _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1)));
    }
}

INLINE void gemv(const QuantLoader *t, const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                 float *y) {
    for (int64_t m = 0; m < n_rows; m += ROW_BLOCK)
        row_block(t, w + (size_t)m * stride, stride, n_rows - m < ROW_BLOCK ? n_rows - m : ROW_BLOCK, n, x, y + m);
}

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define GEMV(ID, name, ...)                                                                                            \
    RP_TARGET_AVX512 static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n,                  \
                                             const DotColumn *x, float *y) {                                           \
        const QuantLoader t = QUANT_LOADER(ID, name);                                                                  \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                          \
    }
RP_QUANTS(GEMV)
#undef GEMV

void rp_gemv_avx512(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                    float *y) {
    typedef void Gemv(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);
#define ENTRY(ID, name, ...) [RP_##ID]       = gemv_##name,
    static Gemv *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
#undef ENTRY
    table[dtype](rows, stride, n_rows, n, x, y);
}
#endif
