/* The attention kernels for AVX-512 (attention.h). Scores: four positions times up to four heads, one register of
 * 16 lanes each, so 16 accumulators. Values: 64 elements of up to four heads. The next data is prefetched
 * meanwhile: values of this tile while its scores are computed, keys of the next tile while its values are added. */
#include "fallback/attention/attention.h"

#include "fallback/products/blocks_x86.h"
#include "fallback/products/trees_avx512.h"
#include "fallback/simd/float.h"

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

INLINE __m512 load_f32_row(const char *row, int64_t i, int64_t dim) {
    const float *x = (const float *)(const void *)row + i;
    if (i + LANES <= dim) return _mm512_loadu_ps(x);
    return _mm512_maskz_loadu_ps((__mmask16)((1 << (dim - i)) - 1), x);
}

INLINE __m512 load(RpDtype type, const char *row, int64_t i, int64_t dim) {
    if (type == RP_F32) return load_f32_row(row, i, dim);
    return type == RP_Q8_0 ? convert_q8_0(row, i) : convert_f16(row, i, dim);
}

/* p[j..j+3] of all heads. Each key is converted once and multiplied by all queries. Scores after the tile's last
 * position mean nothing; attention.c overwrites them. */
INLINE void four_scores(const AttentionTile *t, RpDtype type, int n_heads, int j) {
    const char *rows[POSITIONS];
    __m512      dot[ATTENTION_HEADS][POSITIONS];
    for (int r = 0; r < POSITIONS; r++) /* missing positions repeat the last one */
        rows[r] = t->k + (size_t)(j + r < t->n ? j + r : t->n - 1) * t->k_row;
    for (int h = 0; h < n_heads; h++)
        for (int r = 0; r < POSITIONS; r++) dot[h][r] = _mm512_setzero_ps();
    for (int64_t i = 0; i < t->dim; i += LANES) {
        __m512 k[POSITIONS];
        for (int r = 0; r < POSITIONS; r++) k[r] = load(type, rows[r], i, t->dim);
        for (int h = 0; h < n_heads; h++) {
            const __m512 q = _mm512_load_ps(t->heads[h].q + i);
            for (int r = 0; r < POSITIONS; r++) dot[h][r] = _mm512_fmadd_ps(q, k[r], dot[h][r]);
        }
    }
    for (int h = 0; h < n_heads; h++)
        _mm_store_ps(t->heads[h].p + j, _mm_mul_ps(_mm_set1_ps(t->scale), quarter_heads(reduce_4x16(dot[h]))));
}

/* Prefetches the values of the four positions, which `values` reads after the softmax update. */
INLINE void scores(const AttentionTile *t, RpDtype type, int n_heads) {
    const size_t bytes = attention_bytes(type, t->dim);
    for (int j = 0; j < t->n; j += POSITIONS) {
        for (int r = 0; r < POSITIONS; r++) prefetch_kv(t, type, t->v + (size_t)(j + r) * t->v_row, bytes);
        four_scores(t, type, n_heads, j);
    }
}

/* Adds elements i to i + 16 n_vecs of all values of the tile. */
INLINE void add_values(const AttentionTile *t, RpDtype type, int n_heads, int64_t i, int n_vecs) {
    __m512 acc[ATTENTION_HEADS][VECS];
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++)
            acc[h][c] =
                _mm512_mul_ps(_mm512_load_ps(t->heads[h].acc + i + c * LANES), _mm512_set1_ps(t->heads[h].rescale));
    for (int j = 0; j < t->n; j++) {
        /* `next`: these elements of key j of the next tile. The passes over i together prefetch the whole key. */
        const char *row  = t->v + (size_t)j * t->v_row;
        const char *next = t->next_k + (size_t)j * t->k_row + attention_bytes(type, i);
        __m512      v[VECS];
        prefetch_kv(t, type, next, attention_bytes(type, (int64_t)n_vecs * LANES));
        for (int c = 0; c < n_vecs; c++) v[c] = load(type, row, i + c * LANES, t->dim);
        for (int h = 0; h < n_heads; h++) {
            const __m512 p = _mm512_set1_ps(t->heads[h].p[j]);
            for (int c = 0; c < n_vecs; c++) acc[h][c] = _mm512_fmadd_ps(v[c], p, acc[h][c]);
        }
    }
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++) _mm512_store_ps(t->heads[h].acc + i + c * LANES, acc[h][c]);
}

/* Each pass takes as many elements as fit in registers for all heads: 4 heads x 4 registers. */
INLINE void values(const AttentionTile *t, RpDtype type, int n_heads) {
    int64_t i = 0;
    for (; i + VECS * LANES <= t->dim; i += VECS * LANES) add_values(t, type, n_heads, i, VECS);
    for (; i < t->dim; i += LANES) add_values(t, type, n_heads, i, 1);
}

/* ---- the online softmax ---- */

/* rp_expf of 16 numbers, bit for bit. scalef multiplies by 2^n with one rounding, as the two factors of rp_expf do. */
INLINE __m512 exp_lanes(__m512 x) {
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    const __m512 c     = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-104.0f)), _mm512_set1_ps(89.0f));
    const __m512 n     = _mm512_sub_ps(_mm512_fmadd_ps(c, _mm512_set1_ps(0x1.715476p0f), magic), magic);
    const __m512 r =
        _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), c));
    __m512 p = _mm512_set1_ps(0x1.a01a02p-13f);
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.6c16c2p-10f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.111112p-7f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555556p-5f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555556p-3f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p        = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_mask_mov_ps(_mm512_scalef_ps(p, n), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

/* `weights` of attention_plain.c for up to four heads, each in a lane of max, sum and rescale. */
INLINE void weights_of(const AttentionTile *t, RpDtype type, int n_heads) {
    const __m512       lowest = _mm512_set1_ps(-INFINITY);
    __m512             p[ATTENTION_HEADS][2], most[ATTENTION_HEADS], s[ATTENTION_HEADS];
    __mmask8           nan                   = 0;
    _Alignas(16) float maxs[ATTENTION_HEADS] = {0}, sums[ATTENTION_HEADS] = {0}, rescales[ATTENTION_HEADS];
    (void)type;
    for (int h = 0; h < ATTENTION_HEADS; h++) most[h] = s[h] = _mm512_setzero_ps();
    for (int h = 0; h < n_heads; h++) {
        const AttentionHead *head = &t->heads[h];
        const uint32_t       some = (uint32_t)(((uint64_t)1 << head->n) - 1);
        p[h][0]                   = _mm512_mask_loadu_ps(lowest, (__mmask16)some, head->p);
        p[h][1]                   = _mm512_mask_loadu_ps(lowest, (__mmask16)(some >> LANES), head->p + LANES);
        most[h]                   = _mm512_max_ps(p[h][0], p[h][1]);
        maxs[h]                   = head->max;
        sums[h]                   = head->sum;
        nan |= (__mmask8)((_mm512_cmp_ps_mask(p[h][0], p[h][1], _CMP_UNORD_Q) != 0) << h);
    }
    const __m128 before = _mm_load_ps(maxs);
    nan |= _mm_cmp_ps_mask(before, before, _CMP_UNORD_Q);
    __m128 max = _mm_max_ps(before, quarter_heads(max_4x16(most)));
    max        = _mm_mask_mov_ps(max, nan, _mm_set1_ps(NAN));
    const __m128 base =
        _mm_mask_mov_ps(max, _mm_cmp_ps_mask(max, _mm_set1_ps(-INFINITY), _CMP_EQ_OQ), _mm_setzero_ps());
    const __m128 rescale = _mm512_castps512_ps128(exp_lanes(_mm512_castps128_ps512(_mm_sub_ps(before, base))));
    for (int h = 0; h < n_heads; h++) {
        const __m512 from = _mm512_broadcastss_ps(_mm_permutevar_ps(base, _mm_set1_epi32(h)));
        p[h][0]           = exp_lanes(_mm512_sub_ps(p[h][0], from));
        p[h][1]           = exp_lanes(_mm512_sub_ps(p[h][1], from));
        s[h]              = _mm512_add_ps(p[h][0], p[h][1]);
        _mm512_store_ps(t->heads[h].p, p[h][0]);
        _mm512_store_ps(t->heads[h].p + LANES, p[h][1]);
    }
    _mm_store_ps(sums, _mm_fmadd_ps(_mm_load_ps(sums), rescale, quarter_heads(reduce_4x16(s))));
    _mm_store_ps(maxs, max);
    _mm_store_ps(rescales, rescale);
    for (int h = 0; h < n_heads; h++) {
        t->heads[h].max     = maxs[h];
        t->heads[h].sum     = sums[h];
        t->heads[h].rescale = rescales[h];
    }
}

/* ---- a whole tile and many queries ---- */

/* out[c][r] = in[r][c] of 16 x 16 floats. */
INLINE void transpose(const __m512 *in, __m512 *out) {
    __m512 a[LANES], b[LANES];
#pragma GCC unroll 8
    for (int r = 0; r < LANES; r += 2) {
        a[r]     = _mm512_unpacklo_ps(in[r], in[r + 1]);
        a[r + 1] = _mm512_unpackhi_ps(in[r], in[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < LANES; r += 4)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            const __m512d x = _mm512_castps_pd(a[r + h]), y = _mm512_castps_pd(a[r + 2 + h]);
            b[r + 2 * h]     = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            b[r + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
        /* b[4g + c] has columns c, c + 4, c + 8, c + 12 of rows 4g to 4g + 3, one a quarter */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const __m512 low01  = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
        const __m512 high01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
        const __m512 low23  = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
        const __m512 high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
        out[c]              = _mm512_shuffle_f32x4(low01, low23, 0x88);
        out[c + 4]          = _mm512_shuffle_f32x4(high01, high23, 0x88);
        out[c + 8]          = _mm512_shuffle_f32x4(low01, low23, 0xdd);
        out[c + 12]         = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
}

/* Elements i to i + 15 of position j; zeros after the last position. */
INLINE __m512 load_at(const AttentionTile *t, RpDtype type, const char *rows, size_t row, int j, int64_t i) {
    return j < t->n ? load(type, rows + (size_t)j * row, i, t->dim) : _mm512_setzero_ps();
}

INLINE void load_tile(const AttentionTile *t, RpDtype type) {
    const int64_t padded = attention_dim(t->dim);
    for (int64_t i = 0; i < padded; i += LANES)
        for (int j = 0; j < ATTENTION_TILE; j += LANES) {
            __m512 k[LANES], kt[LANES];
#pragma GCC unroll 16
            for (int r = 0; r < LANES; r++) k[r] = load_at(t, type, t->k, t->k_row, j + r, i);
            transpose(k, kt);
#pragma GCC unroll 16
            for (int c = 0; c < LANES; c++) _mm512_store_ps(t->kt_f32 + (i + c) * ATTENTION_TILE + j, kt[c]);
        }
    for (int j = 0; j < ATTENTION_TILE; j++)
        for (int64_t i = 0; i < padded; i += LANES)
            _mm512_store_ps(t->v_f32 + j * padded + i, load_at(t, type, t->v, t->v_row, j, i));
}

RP_TARGET_AVX512 static void load_f16(const AttentionTile *t) { load_tile(t, RP_F16); }
RP_TARGET_AVX512 static void load_q8_0(const AttentionTile *t) { load_tile(t, RP_Q8_0); }
RP_TARGET_AVX512 static void load_f32(const AttentionTile *t) { load_tile(t, RP_F32); }

typedef __m512 Vec;

enum { FLOATS = LANES, SCORE_HEADS = ATTENTION_HEADS, VALUE_VECS = VECS };

INLINE Vec  vec_zero(void) { return _mm512_setzero_ps(); }
INLINE Vec  vec_all(float x) { return _mm512_set1_ps(x); }
INLINE Vec  vec_load(const float *x) { return _mm512_load_ps(x); }
INLINE Vec  vec_load_once(const float *x) { return vec_load(x); }
INLINE void vec_store(float *x, Vec v) { _mm512_store_ps(x, v); }
INLINE Vec  vec_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
INLINE Vec  vec_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
INLINE Vec  vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

#include "fallback/attention/whole_tile.h"

ATTENTION_BY_HEADS(RP_TARGET_AVX512, weights_of, f32, RP_F32)
RP_TARGET_AVX512 static void whole_scores(const AttentionTile *t) { whole_scores_of(t); }
ATTENTION_BY_HEADS(RP_TARGET_AVX512, whole_values_of, f32, RP_F32)

ATTENTION_KERNELS(rp_attention_avx512, RP_TARGET_AVX512, .weights = weights_of_f32,
                  .load         = type == RP_F32    ? load_f32
                                  : type == RP_Q8_0 ? load_q8_0
                                                    : load_f16,
                  .whole_scores = whole_scores, .whole_values = whole_values_of_f32)
#endif
