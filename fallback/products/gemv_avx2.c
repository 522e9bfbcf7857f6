/* GEMV for AVX2: y[m] = row m . x, straight from the blocks of the file, bit for bit as dot.h.
 *
 * Four rows at a time, a pair of sub-blocks (gemv_load_avx2.h) at a time. Horizontal additions bring the pair's dot
 * products of four rows into one register, so that conversion and scaling are one instruction for eight sums:
 *
 *     acc[h], lane r = accumulator 2h of row r,  lane 4 + r = accumulator 2h + 1
 *
 * The column is prepared once (ColumnPair) and used for ROW_BLOCK rows.
 *
 * VPMADDUBSW multiplies unsigned q by signed activations and adds pairs of products in saturating 16-bit lanes. Each
 * limit below shows that a sum fits, so the result is exact. Activations are never -128 (quantize.c). */
#include "fallback/products/expand_avx2.h"

#ifdef RP_X86

enum {
    ROW_BLOCK = 256,  /* rows that share a prepared slice of the column: a multiple of ROWS */
    SLICE     = 16384 /* elements of the column prepared at a time: whole k-steps and blocks */
};

#define X(ID, ...) static_assert(SLICE % (RP_LOAD_BLOCKS(ID) * RP_##ID##_ELEMS) == 0, "a slice is whole loads");
RP_QUANTS(X)
#undef X

/* A padded copy of the last k-step of a column. */
typedef struct LastKstep {
    DotColumn column;
    int8_t    q[128];
    float     scale[4], sum[8];
} LastKstep;

/* Pads the last k-step with zero quants, and with scales and sums of -0. The padded weights have scales and minima
 * that are not negative, so each missing term is -0: adding it leaves every accumulator as it is, even one that is
 * -0. */
INLINE void fill_last(const DotColumn *x, int64_t i, int n_subs, LastKstep *out) {
    for (int u = 0; u < RP_KSTEP_SUBS; u++) {
        const bool    there = u < n_subs;
        const __m256i q     = there ? load32(x->q + i + 32 * u) : _mm256_setzero_si256();
        _mm256_storeu_si256((void *)(out->q + 32 * u), q);
        out->scale[u] = there ? x->scale[i / 32 + u] : -0.0f;
        for (int k = 2 * u; k < 2 * u + 2; k++) out->sum[k] = there ? x->sum[i / RP_SUM_BLOCK + k] : -0.0f;
    }
    out->column = (DotColumn){out->q, out->scale, out->sum};
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

INLINE __m256i column_offset(const QuantLoader *t, const __m256i q[2]) {
    const __m256i every = _mm256_set1_epi8((char)t->form.offset);
    __m256i       sum   = _mm256_maddubs_epi16(every, q[0]);
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
    out->scale = for_rows(scales, h);
    if (t->form.has_min)
        out->sum = for_rows(sums, h);
    else if (t->form.offset != 0 && t->form.offset != SIGNED)
        out->offset = column_offset(t, out->q);
    else
        for (int k = 0; k < 2; k++) out->magnitude[k] = _mm256_abs_epi8(out->q[k]);
}

/* Prepares the column's elements [from, end). */
INLINE void column_slice(const QuantLoader *t, const DotColumn *x, int64_t from, int64_t end, ColumnPair *out) {
    const int64_t kstep_elems = RP_KSTEP_SUBS * t->form.sub_elems;
    LastKstep     last;
    for (int64_t i = from; i < end; i += kstep_elems, out += PAIRS) {
        const bool whole = end - i >= kstep_elems;
        if (!whole) fill_last(x, i, (int)((end - i) / 32), &last);
        for (int h = 0; h < PAIRS; h++) column_pair(t, whole ? x : &last.column, whole ? i : 0, h, &out[h]);
    }
}

/* ---- dot products of a pair, four rows at once, in the order of PairScales ---- */

/* The limits of pair_sums and half_sums below; pairs of products of VPMADDUBSW must fit as well.
 *
 * HALVES and SHORT have 16-bit sums of 4 products (SHORT: 2). With minima the sums are added in 16 bits to 8 products
 * (31 * 127 * 8 = 31496 at most), then in 32. With an offset they are added to two sums a row and sub-block: 16
 * products, or 8 in Q6_K. Those may wrap around, but after the offset is subtracted modulo 2^16 the true value fits,
 * since |q - offset| is at most 32 in Q6_K and 16 in the others: 32 * 127 * 8 = 16 * 127 * 16 = 32512. */
#define FARTHEST(top, offset) ((top) - (offset) > (offset) ? (top) - (offset) : (offset))
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top)*127 * 2 <= INT16_MAX, #name ": two products fit in 16 bits");            \
    static_assert((offset) == SIGNED ||                                                                                \
                      (has_min ? (top)*127 * 8 : FARTHEST(top, offset) * 127 * (sub) / 2) <= INT16_MAX,                \
                  #name ": the products of half a sub-block fit in 16 bits");
RP_QUANTS(X)
#undef X
#undef FARTHEST

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

/* w . x for signed w, as |w| . (x with w's sign), in 32-bit sums of 4. 128 * 127 * 2 = 32512 fits in 16 bits. */
INLINE __m256i signed_dot(__m256i w, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return sums_of_pairs(pairs);
}

INLINE __m256i pair_sums(const QuantLoader *t, const char *const *p, const Header *header, int j, int h,
                         const ColumnPair *x) {
    __m256i v[ROWS], w[ROWS];
    if (t->sums != NULL) return t->sums(p, header, j, h, x);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256i q[2];
        t->load(p[r], j, h, q);
        if (t->form.offset == SIGNED) {
            v[r] = signed_dot(q[0], x->q[0]);
            w[r] = signed_dot(q[1], x->q[1]);
            continue;
        }
        v[r] = _mm256_maddubs_epi16(q[0], x->q[0]);
        w[r] = pair_shape(t) == SHORT ? v[r] : _mm256_maddubs_epi16(q[1], x->q[1]);
        if (pair_shape(t) == HALVES) v[r] = _mm256_add_epi16(v[r], w[r]);
    }
    if (t->form.offset == SIGNED) return add_halves(sums_of_32(v), sums_of_32(w));
    if (pair_shape(t) == WHOLE) return add_halves(half_sums(v), half_sums(w));
    return t->form.has_min ? sums_of_16(v) : sums_less_offset(v, x->offset);
}

/* ---- row groups ---- */

/* One load of four rows, at p. Only `pairs` pairs exist in the last load of a row. */
INLINE void add_load(const QuantLoader *t, const char *const *p, int pairs, const ColumnPair *x, __m256 acc[PAIRS]) {
    Header header;
    if (t->header != NULL) t->header(p, &header);
#pragma GCC unroll 8
    for (int k = 0; k < PAIRS * t->n_ksteps; k++) {
        if (k >= pairs) break;
        const int  j = k / PAIRS, h = k % PAIRS;
        PairScales s;
        t->scales(p, &header, j, h, &s);
        const __m256 dot = _mm256_cvtepi32_ps(pair_sums(t, p, &header, j, h, &x[k]));
        acc[h]           = _mm256_fmadd_ps(_mm256_mul_ps(s.scale, x[k].scale), dot, acc[h]);
        if (t->form.has_min) acc[h] = _mm256_fmadd_ps(s.min, x[k].sum, acc[h]);
    }
}

/* Copies of the last blocks of 32 of four rows, a k-step each, with zeros after them (copy_last_blocks). */
typedef struct LastBlocks {
    char blocks[ROWS][MAX_BYTES];
} LastBlocks;

/* A slice of n elements of four rows, whose bytes are at p. `ahead` is the address of the bytes to prefetch: ROWS times
 * those of the slice where `step` is ROWS (row groups are contiguous), or, of rows longer than a slice, the first row's
 * only (step = 1). */
INLINE void add_slice(const QuantLoader *t, const char **p, int64_t n, const ColumnPair *x, const char *ahead,
                      size_t step, LastBlocks *last, __m256 acc[PAIRS]) {
    const int64_t elems = t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems;
    for (; n > 0; n -= elems, x += PAIRS * t->n_ksteps, ahead += step * load_bytes(t)) {
        int pairs = PAIRS * t->n_ksteps;
        rp_prefetch(ahead, ROWS * load_bytes(t));
        if (blocks_of_32(t) && n < elems) {
            const int n_subs = (int)(n / 32);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                if (n_subs % 2 == 0) break;
                copy_last_blocks(t, p[r], n_subs, last->blocks[r]);
                p[r] = last->blocks[r];
            }
            pairs = (n_subs + 1) / 2;
        }
        add_load(t, p, pairs, x, acc);
        for (int r = 0; r < ROWS; r++) p[r] += load_bytes(t);
    }
}

/* At most ROW_BLOCK rows. Their accumulators wait in `accs` between slices. */
INLINE void row_block(const QuantLoader *t, const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                      float *y) {
    const int64_t elems = t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems;
    const size_t  ahead = rp_prefetch_distance(ROWS * stride), step = n <= SLICE ? ROWS : 1;
    LastBlocks    last;
    ColumnPair    column[PAIRS * SLICE / RP_KSTEP_SUBS / 16];
    __m256        accs[ROW_BLOCK / ROWS][PAIRS];
    if (blocks_of_32(t) && n % elems != 0) memset(&last, 0, sizeof last);
    for (int64_t from = 0; from < n; from += SLICE) {
        const int64_t end = n - from < SLICE ? n : from + SLICE;
        const size_t  at  = (size_t)(from / elems) * load_bytes(t);
        column_slice(t, x, from, end, column);
        for (int64_t m = 0; m < n_rows; m += ROWS) {
            const char *first = w + (size_t)m * stride + at, *row[ROWS];
            __m256     *acc   = accs[m / ROWS];
            if (from == 0) acc[0] = acc[1] = _mm256_setzero_ps();
            rp_row_pointers(first, stride, n_rows - m, ROWS, row);
            __m256 sums[PAIRS] = {acc[0], acc[1]};
            add_slice(t, row, end - from, column, first + ahead + (step - 1) * at, step, &last, sums);
            acc[0] = sums[0], acc[1] = sums[1];
        }
    }
    for (int64_t m = 0; m < n_rows; m += ROWS) {
        const int64_t left = n_rows - m;
        float         all[ROWS];
        _mm_storeu_ps(all, reduce_to_4(accs[m / ROWS][0], accs[m / ROWS][1]));
        memcpy(y + m, all, (size_t)(left < ROWS ? left : ROWS) * sizeof *y);
    }
}

INLINE void gemv(const QuantLoader *t, const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                 float *y) {
    for (int64_t m = 0; m < n_rows; m += ROW_BLOCK)
        row_block(t, w + (size_t)m * stride, stride, n_rows - m < ROW_BLOCK ? n_rows - m : ROW_BLOCK, n, x, y + m);
}

typedef void Gemv(const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);

/* One function a weight type, so that the loader's fields are compile-time constants. */
#define GEMV(LOADER, ID, name)                                                                                         \
    RP_TARGET_AVX2 static void gemv_##name(const char *rows, size_t stride, int64_t n_rows, int64_t n,                 \
                                           const DotColumn *x, float *y) {                                             \
        const QuantLoader t = LOADER(ID, name);                                                                        \
        gemv(&t, rows, stride, n_rows, n, x, y);                                                                       \
    }
#define DIRECT(ID, name, ...)   GEMV(DIRECT_LOADER, ID, name)
#define EXPANDED(ID, name, ...) GEMV(SUMS_LOADER, ID, name)
RP_DIRECT_QUANTS(DIRECT)
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED
#undef DIRECT
#undef GEMV

#define ENTRY(ID, name, ...) [RP_##ID] = gemv_##name,
void rp_gemv_avx2(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                  float *y) {
    static Gemv *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ENTRY)};
    table[dtype](rows, stride, n_rows, n, x, y);
}
#undef ENTRY
#endif
