/* The attention kernels for AVX-512 (attention.h). Scores: four positions times up to four heads, one register of
 * 16 lanes each, so 16 accumulators. Values: 64 elements of up to four heads. The next data is prefetched
 * meanwhile: values of this tile while its scores are computed, keys of the next tile while its values are added. */
#include "fallback/attention.h"

#include "fallback/blocks_x86.h"
#include "fallback/trees_avx512.h"

#ifdef RP_X86

enum { LANES = ATTENTION_LANES, POSITIONS = 4, VECS = 4 };

/* 16 elements of a row from element i on, as f32; zeros after dim. */
INLINE __m512 convert_f16(const char *row, int64_t i, int64_t dim) {
    const uint16_t *x = (const uint16_t *)(const void *)row + i;
    if (i + LANES <= dim) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1 << (dim - i)) - 1), x));
}

INLINE __m512 convert_q8_0(const char *row, int64_t i) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    const __m512     d = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(b->d)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(b->qs + i % 32))), d);
}

INLINE __m512 load(bool q8_0, const char *row, int64_t i, int64_t dim) {
    return q8_0 ? convert_q8_0(row, i) : convert_f16(row, i, dim);
}

/* p[j..j+3] of all heads. Each key is converted once and multiplied by all queries. Scores after the tile's last
 * position mean nothing; attention.c overwrites them. */
INLINE void four_scores(const AttentionTile *t, bool q8_0, int n_heads, int j) {
    const char *rows[POSITIONS];
    __m512      dot[ATTENTION_HEADS][POSITIONS];
    for (int r = 0; r < POSITIONS; r++) /* missing positions repeat the last one */
        rows[r] = t->k + (size_t)(j + r < t->n ? j + r : t->n - 1) * t->k_row;
    for (int h = 0; h < n_heads; h++)
        for (int r = 0; r < POSITIONS; r++) dot[h][r] = _mm512_setzero_ps();
    for (int64_t i = 0; i < t->dim; i += LANES) {
        __m512 k[POSITIONS];
        for (int r = 0; r < POSITIONS; r++) k[r] = load(q8_0, rows[r], i, t->dim);
        for (int h = 0; h < n_heads; h++) {
            const __m512 q = _mm512_load_ps(t->heads[h].q + i);
            for (int r = 0; r < POSITIONS; r++) dot[h][r] = _mm512_fmadd_ps(q, k[r], dot[h][r]);
        }
    }
    for (int h = 0; h < n_heads; h++)
        _mm_store_ps(t->heads[h].p + j,
                     _mm_mul_ps(_mm_set1_ps(t->scale), quarter_heads(reduce_4x16(dot[h]))));
}

/* Prefetches the values of the four positions, which `values` reads after the softmax update. */
INLINE void scores(const AttentionTile *t, bool q8_0, int n_heads) {
    const size_t bytes = attention_bytes(q8_0, t->dim);
    for (int j = 0; j < t->n; j += POSITIONS) {
        for (int r = 0; r < POSITIONS; r++) rp_prefetch_next(t->v + (size_t)(j + r) * t->v_row, bytes);
        four_scores(t, q8_0, n_heads, j);
    }
}

/* Adds elements i to i + 16 n_vecs of all values of the tile. */
INLINE void add_values(const AttentionTile *t, bool q8_0, int n_heads, int64_t i, int n_vecs) {
    __m512 acc[ATTENTION_HEADS][VECS];
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++)
            acc[h][c] = _mm512_mul_ps(_mm512_load_ps(t->heads[h].acc + i + c * LANES),
                                      _mm512_set1_ps(t->heads[h].rescale));
    for (int j = 0; j < t->n; j++) {
        /* `next`: these elements of key j of the next tile. The passes over i together prefetch the whole key. */
        const char *row  = t->v + (size_t)j * t->v_row;
        const char *next = t->k + (size_t)(ATTENTION_TILE + j) * t->k_row + attention_bytes(q8_0, i);
        __m512      v[VECS];
        rp_prefetch_next(next, attention_bytes(q8_0, (int64_t)n_vecs * LANES));
        for (int c = 0; c < n_vecs; c++) v[c] = load(q8_0, row, i + c * LANES, t->dim);
        for (int h = 0; h < n_heads; h++) {
            const __m512 p = _mm512_set1_ps(t->heads[h].p[j]);
            for (int c = 0; c < n_vecs; c++) acc[h][c] = _mm512_fmadd_ps(v[c], p, acc[h][c]);
        }
    }
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++) _mm512_store_ps(t->heads[h].acc + i + c * LANES, acc[h][c]);
}

/* Each pass takes as many elements as fit in registers for all heads: 4 heads x 4 registers. */
INLINE void values(const AttentionTile *t, bool q8_0, int n_heads) {
    int64_t i = 0;
    for (; i + VECS * LANES <= t->dim; i += VECS * LANES) add_values(t, q8_0, n_heads, i, VECS);
    for (; i < t->dim; i += LANES) add_values(t, q8_0, n_heads, i, 1);
}

ATTENTION_KERNELS(rp_attention_avx512, RP_TARGET_AVX512)
#endif
