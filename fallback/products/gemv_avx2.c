/* GEMV for AVX2: y[m] = row m . x, straight from the blocks of the file, bit for bit as dot.h.
 *
 * Four rows at a time, a pair of sub-blocks (gemv_load_avx2.h) at a time. Horizontal additions bring the pair's dot
 * products of four rows into one register, so that conversion and scaling are one instruction for eight sums:
 *
 *     acc[h], lane r = accumulator 2h of row r,  lane 4 + r = accumulator 2h + 1
 *
 * VPMADDUBSW multiplies unsigned q by signed activations and adds pairs of products in saturating 16-bit lanes. Each
 * limit below shows that a sum fits, so the result is exact. Activations are never -128 (quantize.c). */
#include "fallback/products/expand_avx2.h"

#ifdef RP_X86

/* A pair of sub-blocks of the column, in the order of the weights' pair. `offset` is offset * (sum of the column's
 * q), as 16-bit partial sums that are subtracted from those of the products; it is the same for every row. */
typedef struct ColumnPair {
    __m256i q[2], offset;
    __m256  scale, sum;
} ColumnPair;

/* The column, and a padded copy of its last k-step if that is not whole. */
typedef struct Column {
    DotColumn all, last;
    int8_t    q[128];
    float     scale[4], sum[8];
} Column;

/* Pads the last k-step with zero quants, and with scales and sums of -0. The padded weights have scales and minima
 * that are not negative, so each missing term is -0: adding it leaves every accumulator as it is, even one that is
 * -0. */
INLINE void fill_last(const DotColumn *x, int64_t i, int n_subs, Column *out) {
    for (int u = 0; u < RP_KSTEP_SUBS; u++) {
        const bool    there = u < n_subs;
        const __m256i q     = there ? load32(x->q + i + 32 * u) : _mm256_setzero_si256();
        _mm256_storeu_si256((void *)(out->q + 32 * u), q);
        out->scale[u] = there ? x->scale[i / 32 + u] : -0.0f;
        for (int k = 2 * u; k < 2 * u + 2; k++) out->sum[k] = there ? x->sum[i / RP_SUM_BLOCK + k] : -0.0f;
    }
    out->last = (DotColumn){out->q, out->scale, out->sum};
}

/* Values of sub-blocks 2h and 2h + 1, in the order of PairScales. */
INLINE __m256 for_rows(__m128 four, int h) {
    const __m256i lanes = _mm256_or_si256(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * h));
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), lanes);
}

INLINE void column_quants(const QuantLoader *t, const int8_t *q, __m256i out[2]) {
    if (pair_shape(t) == HALVES) {
        out[0] = two_halves(q, q + 32);
        out[1] = two_halves(q + 16, q + 48);
    } else {
        out[0] = load32(q);
        out[1] = pair_shape(t) == WHOLE ? load32(q + 32) : out[0];
    }
}

/* ColumnPair.offset. Types with minima have offset 0, and Q8_0 is signed. */
INLINE __m256i column_offset(const QuantLoader *t, const __m256i q[2]) {
    const __m256i every = _mm256_set1_epi8((char)t->form.offset);
    if (t->form.has_min || t->form.offset == SIGNED) return _mm256_setzero_si256();
    __m256i sum = _mm256_maddubs_epi16(every, q[0]);
    if (pair_shape(t) == HALVES) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(every, q[1]));
    sum = _mm256_hadd_epi16(sum, sum);
    return _mm256_hadd_epi16(sum, sum);
}

/* Pair h of the k-step that begins with element i. */
INLINE void column_pair(const QuantLoader *t, const DotColumn *x, int64_t i, int h, ColumnPair *out) {
    const float *scale = x->scale + i / 32, *sum = x->sum + i / RP_SUM_BLOCK;
    const __m128 scales =
        t->form.sub_elems == 32 ? _mm_loadu_ps(scale) : _mm_setr_ps(scale[0], scale[0], scale[1], scale[1]);
    const __m128 sums = !t->form.has_min          ? scales
                        : t->form.sub_elems == 16 ? _mm_loadu_ps(sum)
                                                  : _mm_hadd_ps(_mm_loadu_ps(sum), _mm_loadu_ps(sum + 4));
    column_quants(t, x->q + i + 2 * h * t->form.sub_elems, out->q);
    out->offset = column_offset(t, out->q);
    out->scale  = for_rows(scales, h);
    out->sum    = for_rows(sums, h);
}

/* ---- dot products of a pair, four rows at once, in the order of PairScales ---- */

/* The limits of sums_of_halves and half_sums below; pairs of products of VPMADDUBSW must fit as well. */
#define FARTHEST(top, offset) ((top) - (offset) > (offset) ? (top) - (offset) : (offset))
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top)*127 * 2 <= INT16_MAX, #name ": two products fit in 16 bits");            \
    static_assert((offset) == SIGNED ||                                                                                \
                      (has_min ? (top)*127 * 8 : FARTHEST(top, offset) * 127 * (sub) / 2) <= INT16_MAX,                \
                  #name ": the products of half a sub-block fit in 16 bits");
RP_QUANTS(X)
#undef X
#undef FARTHEST

/* HALVES and SHORT: the halves of v[r] are the two sub-blocks of row r, in 16-bit sums of 4 products (SHORT: 2).
 *
 * With minima the sums are added in 16 bits to 8 products (31 * 127 * 8 = 31496 at most), then in 32. With an
 * offset they are added to two sums a row and sub-block: 16 products, or 8 in Q6_K. Those may wrap around, but
 * after the offset is subtracted modulo 2^16 the true value fits, since |q - offset| is at most 32 in Q6_K and 16
 * in the others: 32 * 127 * 8 = 16 * 127 * 16 = 32512. */
INLINE __m256i sums_of_halves(const QuantLoader *t, const __m256i v[ROWS], __m256i offset) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    if (t->form.has_min) return _mm256_hadd_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    return _mm256_madd_epi16(_mm256_sub_epi16(_mm256_hadd_epi16(a, b), offset), ones);
}

/* a's lower half plus its upper half, in the lower half; b's in the upper. */
INLINE __m256i add_halves(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* WHOLE with minima (Q4_K, Q5_K): v[r] is one sub-block of row r, in 16-bit sums of 2 products, added up to 8; the
 * same limit. Lane r of each half is half of row r's sum, for add_halves. */
INLINE __m256i half_sums(const __m256i v[ROWS]) {
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    return _mm256_madd_epi16(_mm256_hadd_epi16(a, b), _mm256_set1_epi16(1));
}

/* The same for 32-bit sums (Q8_0). */
INLINE __m256i half_sums32(const __m256i v[ROWS]) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

/* w . x for signed w, as |w| . (x with w's sign), in 32-bit sums of 4. 128 * 127 * 2 = 32512 fits in 16 bits. */
INLINE __m256i signed_dot(__m256i w, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

INLINE __m256i pair_sums(const QuantLoader *t, const char *const *p, int j, int h, const ColumnPair *x) {
    __m256i v[ROWS], w[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256i q[2];
        t->load(p[r], j, h, q);
        if (t->form.offset == SIGNED) {
            v[r] = signed_dot(q[0], x->q[0]);
            if (pair_shape(t) == WHOLE) w[r] = signed_dot(q[1], x->q[1]);
            continue;
        }
        v[r] = _mm256_maddubs_epi16(q[0], x->q[0]);
        w[r] = _mm256_maddubs_epi16(q[1], x->q[1]);
        if (pair_shape(t) == HALVES) v[r] = _mm256_add_epi16(v[r], w[r]);
    }
    if (t->form.offset == SIGNED && pair_shape(t) == SHORT) return half_sums32(v);
    if (t->form.offset == SIGNED) return add_halves(half_sums32(v), half_sums32(w));
    if (pair_shape(t) == WHOLE) return add_halves(half_sums(v), half_sums(w));
    return sums_of_halves(t, v, x->offset);
}

/* ---- row groups ---- */

/* One load of four rows, at p. Only `pairs` pairs exist in the last load of a row. */
INLINE void add_load(const QuantLoader *t, const char *const *p, int pairs, const DotColumn *x, __m256 acc[PAIRS]) {
    Header header;
    if (t->header != NULL) t->header(p, &header);
#pragma GCC unroll 8
    for (int k = 0; k < PAIRS * t->n_ksteps; k++) {
        if (k >= pairs) break;
        const int  j = k / PAIRS, h = k % PAIRS;
        ColumnPair column;
        PairScales s;
        column_pair(t, x, j * RP_KSTEP_SUBS * t->form.sub_elems, h, &column);
        t->scales(p, &header, j, h, &s);
        const __m256 dot = _mm256_cvtepi32_ps(pair_sums(t, p, j, h, &column));
        acc[h]           = _mm256_fmadd_ps(_mm256_mul_ps(s.scale, column.scale), dot, acc[h]);
        if (t->form.has_min) acc[h] = _mm256_fmadd_ps(s.min, column.sum, acc[h]);
    }
}

/* Copies of the last blocks of 32 of four rows, a k-step each, with zeros after them (copy_last_blocks). */
typedef struct LastBlocks {
    char blocks[ROWS][MAX_BYTES];
} LastBlocks;

/* y[r] of the four rows at p. `ahead` is the address of the row group to prefetch, contiguous as the rows are. */
INLINE void rows_times_column(const QuantLoader *t, const char **p, int64_t n, const Column *x, const char *ahead,
                              LastBlocks *last, float *y) {
    const int64_t elems      = t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems;
    DotColumn     column     = x->all;
    __m256        acc[PAIRS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t i = 0; i < n; i += elems) {
        rp_prefetch(ahead, ROWS * load_bytes(t));
        ahead += ROWS * load_bytes(t);
        int pairs = PAIRS * t->n_ksteps;
        if (blocks_of_32(t) && n - i < elems) {
            const int n_subs = (int)((n - i) / 32);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                if (n_subs % 2 == 0) break;
                copy_last_blocks(t, p[r], n_subs, last->blocks[r]);
                p[r] = last->blocks[r];
            }
            column = x->last;
            pairs  = (n_subs + 1) / 2;
        }
        add_load(t, p, pairs, &column, acc);
        for (int r = 0; r < ROWS; r++) p[r] += load_bytes(t);
        column.q += elems, column.scale += elems / 32, column.sum += elems / RP_SUM_BLOCK;
    }
    _mm_storeu_ps(y, reduce_to_4(acc[0], acc[1]));
}

INLINE void gemv(const QuantLoader *t, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                 float *y) {
    const int64_t kstep_elems = RP_KSTEP_SUBS * t->form.sub_elems, whole = n / kstep_elems * kstep_elems;
    const size_t  ahead = rp_prefetch_distance(ROWS * stride);
    LastBlocks    last;
    Column        column;
    column.all = *x;
    if (blocks_of_32(t) && whole < n) {
        memset(&last, 0, sizeof last);
        fill_last(x, whole, (int)((n - whole) / 32), &column);
    }
    for (int64_t m = 0; m < n_rows; m += ROWS, rows += ROWS * stride) {
        const int64_t left = n_rows - m;
        const char   *row[ROWS];
        float         all[ROWS];
        rp_row_pointers(rows, stride, left, ROWS, row);
        rows_times_column(t, row, n, &column, rows + ahead, &last, all);
        memcpy(y + m, all, (size_t)(left < ROWS ? left : ROWS) * sizeof *y);
    }
}

typedef void Gemv(const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define GEMV(ID, name, ...)                                                                                            \
    RP_TARGET_AVX2 static void gemv_##name(const char *rows, size_t stride, int64_t n_rows, int64_t n,                 \
                                           const DotColumn *x, float *y) {                                             \
        const QuantLoader t = QUANT_LOADER(ID, name);                                                                  \
        gemv(&t, rows, stride, n_rows, n, x, y);                                                                       \
    }
RP_QUANTS(GEMV)
#undef GEMV

#define ENTRY(ID, name, ...) [RP_##ID] = gemv_##name,
void rp_gemv_avx2(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                  float *y) {
    static Gemv *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
    table[dtype](rows, stride, n_rows, n, x, y);
}
#undef ENTRY
#endif
