/* The attention kernels for AVX2 (attention.h). 16 lanes are two registers (Vec16), and there are 16 registers:
 * scores take two positions and up to three heads at a time, 12 accumulators; values take 16 to 64 elements, fewer
 * with more heads. Prefetches are those of attention_avx512.c. */
#include "fallback/attention/attention.h"

#include "fallback/products/gemv_load_avx2.h"

#ifdef RP_X86

enum { LANES = ATTENTION_LANES, POSITIONS = 4, PAIR = 2 };

/* 16 lanes. */
typedef struct Vec16 {
    __m256 low, high;
} Vec16;

INLINE Vec16 convert_f16(const uint16_t *x) {
    return (Vec16){_mm256_cvtph_ps(load16(x)), _mm256_cvtph_ps(load16(x + LANES / 2))};
}

INLINE Vec16 convert_q8_0(const char *row, int64_t i) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    const __m256     d = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(b->d)));
    const __m128i    q = load16(b->qs + i % 32);
    return (Vec16){_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), d),
                   _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(q, q))), d)};
}

INLINE Vec16 load_f32(const float *x) { return (Vec16){_mm256_loadu_ps(x), _mm256_loadu_ps(x + LANES / 2)}; }

/* 16 elements of a row from element i on, as f32. Only n exist, fewer than 16 at the end of a row of f32 or f16; zeros
 * after. */
INLINE Vec16 load(RpDtype type, const char *row, int64_t i, int64_t n) {
    if (type == RP_Q8_0) return convert_q8_0(row, i);
    if (type == RP_F32) {
        const float *x = (const float *)(const void *)row + i;
        if (n == LANES) return load_f32(x);
        float rest[LANES] = {0};
        for (int64_t l = 0; l < n; l++) rest[l] = x[l];
        return load_f32(rest);
    }
    const uint16_t *x = (const uint16_t *)(const void *)row + i;
    if (n == LANES) return convert_f16(x);
    uint16_t rest[LANES] = {0};
    for (int64_t l = 0; l < n; l++) rest[l] = x[l];
    return convert_f16(rest);
}

/* Adds the products of elements i to i + 16 of a pair of keys and all queries. */
INLINE void add_products(RpDtype type, const char *const *rows, const AttentionHead *heads, int n_heads, int64_t i,
                         int64_t n, Vec16 (*dot)[PAIR]) {
    for (int r = 0; r < PAIR; r++) {
        const Vec16 k = load(type, rows[r], i, n);
        for (int h = 0; h < n_heads; h++) {
            const float *q = heads[h].q + i;
            dot[h][r].low  = _mm256_fmadd_ps(_mm256_load_ps(q), k.low, dot[h][r].low);
            dot[h][r].high = _mm256_fmadd_ps(_mm256_load_ps(q + LANES / 2), k.high, dot[h][r].high);
        }
    }
}

/* The dot products of positions j + from and j + from + 1 and all heads, reduced to four lanes. Missing positions
 * repeat the last one. */
INLINE void products(const AttentionTile *t, RpDtype type, const AttentionHead *heads, int n_heads, int j, int from,
                     __m128 (*four)[POSITIONS]) {
    const char *rows[PAIR];
    Vec16       dot[ATTENTION_HEADS][PAIR];
    int64_t     i = 0;
    for (int r = 0; r < PAIR; r++) {
        const int at = j + from + r;
        rows[r]      = t->k + (size_t)(at < t->n ? at : t->n - 1) * t->k_row;
    }
    for (int h = 0; h < n_heads; h++)
        for (int r = 0; r < PAIR; r++) dot[h][r] = (Vec16){_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (; i + LANES <= t->dim; i += LANES) add_products(type, rows, heads, n_heads, i, LANES, dot);
    if (type != RP_Q8_0 && i < t->dim) add_products(type, rows, heads, n_heads, i, t->dim - i, dot);
    for (int h = 0; h < n_heads; h++)
        for (int r = 0; r < PAIR; r++) four[h][from + r] = reduce_to_4(dot[h][r].low, dot[h][r].high);
}

/* p[j..j+3] of n_heads heads, two positions at a time; one reduction for all four. */
INLINE void four_scores(const AttentionTile *t, RpDtype type, AttentionHead *heads, int n_heads, int j) {
    __m128 four[ATTENTION_HEADS][POSITIONS];
    for (int r = 0; r < POSITIONS; r += PAIR) products(t, type, heads, n_heads, j, r, four);
    for (int h = 0; h < n_heads; h++)
        _mm_store_ps(heads[h].p + j, _mm_mul_ps(_mm_set1_ps(t->scale), reduce_4x4(four[h])));
}

INLINE void scores(const AttentionTile *t, RpDtype type, int n_heads) {
    const size_t bytes = attention_bytes(type, t->dim);
    for (int j = 0; j < t->n; j += POSITIONS) {
        for (int r = 0; r < POSITIONS; r++) rp_prefetch_next(t->v + (size_t)(j + r) * t->v_row, bytes);
        if (n_heads == 4) { /* four heads would need 16 accumulators: no register left */
            four_scores(t, type, t->heads, 2, j);
            four_scores(t, type, t->heads + 2, 2, j);
        } else {
            four_scores(t, type, t->heads, n_heads, j);
        }
    }
}

/* Adds elements i to i + 16 n_vecs of all values of the tile. n is 16, or what is left of a row. */
INLINE void add_values(const AttentionTile *t, RpDtype type, int n_heads, int64_t i, int n_vecs, int64_t n) {
    Vec16 acc[ATTENTION_HEADS][4];
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++) {
            const __m256 rescale = _mm256_set1_ps(t->heads[h].rescale);
            const float *from    = t->heads[h].acc + i + c * LANES;
            acc[h][c].low        = _mm256_mul_ps(_mm256_load_ps(from), rescale);
            acc[h][c].high       = _mm256_mul_ps(_mm256_load_ps(from + LANES / 2), rescale);
        }
    for (int j = 0; j < t->n; j++) {
        /* `next`: these elements of key j of the next tile. The passes over i together prefetch the whole key. */
        const char *row  = t->v + (size_t)j * t->v_row;
        const char *next = t->next_k + (size_t)j * t->k_row + attention_bytes(type, i);
        __m256      p[ATTENTION_HEADS];
        rp_prefetch_next(next, attention_bytes(type, (int64_t)n_vecs * LANES));
        for (int h = 0; h < n_heads; h++) p[h] = _mm256_set1_ps(t->heads[h].p[j]);
        for (int c = 0; c < n_vecs; c++) {
            const Vec16 v = load(type, row, i + c * LANES, n);
            for (int h = 0; h < n_heads; h++) {
                acc[h][c].low  = _mm256_fmadd_ps(v.low, p[h], acc[h][c].low);
                acc[h][c].high = _mm256_fmadd_ps(v.high, p[h], acc[h][c].high);
            }
        }
    }
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++) {
            float *to = t->heads[h].acc + i + c * LANES;
            _mm256_store_ps(to, acc[h][c].low);
            _mm256_store_ps(to + LANES / 2, acc[h][c].high);
        }
}

/* Accumulators and weights of all heads must fit in 16 registers: 1 head x 4 vectors, 2 or 3 x 2, 4 x 1. */
INLINE void values(const AttentionTile *t, RpDtype type, int n_heads) {
    const int n_vecs = n_heads == 1 ? 4 : (n_heads == 4 ? 1 : 2);
    int64_t   i      = 0;
    for (; i + n_vecs * LANES <= t->dim; i += n_vecs * LANES) add_values(t, type, n_heads, i, n_vecs, LANES);
    for (; i + LANES <= t->dim; i += LANES) add_values(t, type, n_heads, i, 1, LANES);
    if (type != RP_Q8_0 && i < t->dim) add_values(t, type, n_heads, i, 1, t->dim - i);
}

ATTENTION_KERNELS(rp_attention_avx2, RP_TARGET_AVX2, .load = NULL)
#endif
