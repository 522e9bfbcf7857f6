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
        for (int r = 0; r < POSITIONS; r++) prefetch_kv(t, type, t->v + (size_t)(j + r) * t->v_row, bytes);
        if (n_heads == 4) { /* four heads would need 16 accumulators: no register left */
            four_scores(t, type, t->heads, 2, j);
            four_scores(t, type, t->heads + 2, 2, j);
        } else {
            four_scores(t, type, t->heads, n_heads, j);
        }
    }
}

/* Adds elements i to i + 16 n_vecs of all values of the tile. n is 16, or the number of elements left in a row. */
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
        prefetch_kv(t, type, next, attention_bytes(type, (int64_t)n_vecs * LANES));
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

/* ---- the online softmax ---- */

enum { VECS = ATTENTION_TILE / 8 };

/* rp_expf of 8 numbers that are at most 0, bit for bit: 2^n may be cut into any two factors. */
INLINE __m256 exp_lanes(__m256 x) {
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    const __m256 c     = _mm256_max_ps(x, _mm256_set1_ps(-104.0f));
    const __m256 n     = _mm256_sub_ps(_mm256_fmadd_ps(c, _mm256_set1_ps(0x1.715476p0f), magic), magic);
    const __m256 r =
        _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e4p-1f), c));
    __m256 p           = _mm256_set1_ps(0x1.a01a02p-13f);
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.6c16c2p-10f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.111112p-7f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555556p-5f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555556p-3f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p                  = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i bias = _mm256_set1_epi32(127), whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
    return _mm256_blendv_ps(p, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

INLINE __m128 max_4x4(const __m128 *v) {
    const __m128 t01 = _mm_max_ps(_mm_movelh_ps(v[0], v[1]), _mm_movehl_ps(v[1], v[0]));
    const __m128 t23 = _mm_max_ps(_mm_movelh_ps(v[2], v[3]), _mm_movehl_ps(v[3], v[2]));
    return _mm_max_ps(_mm_shuffle_ps(t01, t23, 0x88), _mm_shuffle_ps(t01, t23, 0xdd));
}

/* The largest score of a head in four lanes; sets bit h of *nan if one of them is NaN. Scores from position n on become
 * -infinity. */
INLINE __m128 largest_of(AttentionHead *head, int h, int *nan) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256        p[VECS];
    for (int v = 0; v < VECS; v++) p[v] = _mm256_load_ps(head->p + 8 * v);
    for (int v = 0; v < VECS && head->n < ATTENTION_TILE; v++) {
        const __m256i seen = _mm256_cmpgt_epi32(_mm256_set1_epi32(head->n - 8 * v), lanes);
        p[v]               = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), p[v], _mm256_castsi256_ps(seen));
        _mm256_store_ps(head->p + 8 * v, p[v]);
    }
    const __m256 bad = _mm256_or_ps(_mm256_cmp_ps(p[0], p[1], _CMP_UNORD_Q), _mm256_cmp_ps(p[2], p[3], _CMP_UNORD_Q));
    const __m256 top = _mm256_max_ps(_mm256_max_ps(p[0], p[1]), _mm256_max_ps(p[2], p[3]));
    *nan |= (_mm256_movemask_ps(bad) != 0) << h;
    return _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
}

/* `weights` of attention_plain.c for up to four heads, each in a lane of max, sum and rescale. */
RP_TARGET_AVX2 static void weights_of(const AttentionTile *t) {
    __m128             most[ATTENTION_HEADS], four[ATTENTION_HEADS];
    _Alignas(16) float maxs[ATTENTION_HEADS] = {0}, sums[ATTENTION_HEADS] = {0}, bases[ATTENTION_HEADS],
                       rescales[ATTENTION_HEADS];
    int nan = 0;
    for (int h = 0; h < ATTENTION_HEADS; h++) most[h] = four[h] = _mm_setzero_ps();
    for (int h = 0; h < t->n_heads; h++) {
        most[h] = largest_of(&t->heads[h], h, &nan);
        maxs[h] = t->heads[h].max;
        sums[h] = t->heads[h].sum;
    }
    const __m128  before  = _mm_load_ps(maxs);
    const __m128i bits    = _mm_and_si128(_mm_set1_epi32(nan), _mm_setr_epi32(1, 2, 4, 8));
    const __m128  bad     = _mm_or_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(bits, _mm_setzero_si128())),
                                      _mm_cmp_ps(before, before, _CMP_UNORD_Q));
    const __m128  max     = _mm_blendv_ps(_mm_max_ps(before, max_4x4(most)), _mm_set1_ps(NAN), bad);
    const __m128  base    = _mm_andnot_ps(_mm_cmp_ps(max, _mm_set1_ps(-INFINITY), _CMP_EQ_OQ), max);
    const __m128  rescale = _mm256_castps256_ps128(exp_lanes(_mm256_castps128_ps256(_mm_sub_ps(before, base))));
    _mm_store_ps(bases, base);
    for (int h = 0; h < t->n_heads; h++) {
        const __m256 from = _mm256_set1_ps(bases[h]);
        __m256       p[VECS];
        for (int v = 0; v < VECS; v++) p[v] = exp_lanes(_mm256_sub_ps(_mm256_load_ps(t->heads[h].p + 8 * v), from));
        for (int v = 0; v < VECS; v++) _mm256_store_ps(t->heads[h].p + 8 * v, p[v]);
        four[h] = reduce_to_4(_mm256_add_ps(p[0], p[2]), _mm256_add_ps(p[1], p[3]));
    }
    _mm_store_ps(sums, _mm_fmadd_ps(_mm_load_ps(sums), rescale, reduce_4x4(four)));
    _mm_store_ps(maxs, max);
    _mm_store_ps(rescales, rescale);
    for (int h = 0; h < t->n_heads; h++) {
        t->heads[h].max     = maxs[h];
        t->heads[h].sum     = sums[h];
        t->heads[h].rescale = rescales[h];
    }
}

/* ---- a whole tile and many queries ---- */

/* out[c][r] = in[r][c] of 8 x 8 floats. */
INLINE void transpose(const __m256 *in, __m256 *out) {
    __m256 a[8], b[8];
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
        a[r]     = _mm256_unpacklo_ps(in[r], in[r + 1]);
        a[r + 1] = _mm256_unpackhi_ps(in[r], in[r + 1]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 8; r += 4)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            b[r + 2 * h]     = _mm256_shuffle_ps(a[r + h], a[r + 2 + h], 0x44);
            b[r + 2 * h + 1] = _mm256_shuffle_ps(a[r + h], a[r + 2 + h], 0xee);
        }
        /* b[4g + c] has columns c and c + 4 of rows 4g to 4g + 3, one a half */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        out[c]     = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
        out[c + 4] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
    }
}

/* Elements i to i + 15 of position j; zeros after the last position and after the row. */
INLINE Vec16 load_at(const AttentionTile *t, RpDtype type, const char *rows, size_t row, int j, int64_t i) {
    if (j >= t->n) return (Vec16){_mm256_setzero_ps(), _mm256_setzero_ps()};
    return load(type, rows + (size_t)j * row, i, t->dim - i < LANES ? t->dim - i : LANES);
}

INLINE void load_tile(const AttentionTile *t, RpDtype type) {
    const int64_t padded = attention_dim(t->dim);
    for (int64_t i = 0; i < padded; i += LANES)
        for (int j = 0; j < ATTENTION_TILE; j += 8) {
            __m256 low[8], high[8], kt[LANES];
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) {
                const Vec16 k = load_at(t, type, t->k, t->k_row, j + r, i);
                low[r] = k.low, high[r] = k.high;
            }
            transpose(low, kt);
            transpose(high, kt + 8);
#pragma GCC unroll 16
            for (int c = 0; c < LANES; c++) _mm256_store_ps(t->kt_f32 + (i + c) * ATTENTION_TILE + j, kt[c]);
        }
    for (int j = 0; j < ATTENTION_TILE; j++)
        for (int64_t i = 0; i < padded; i += LANES) {
            const Vec16 v = load_at(t, type, t->v, t->v_row, j, i);
            _mm256_store_ps(t->v_f32 + j * padded + i, v.low);
            _mm256_store_ps(t->v_f32 + j * padded + i + LANES / 2, v.high);
        }
}

RP_TARGET_AVX2 static void load_f16_tile(const AttentionTile *t) { load_tile(t, RP_F16); }
RP_TARGET_AVX2 static void load_q8_0_tile(const AttentionTile *t) { load_tile(t, RP_Q8_0); }
RP_TARGET_AVX2 static void load_f32_tile(const AttentionTile *t) { load_tile(t, RP_F32); }

typedef __m256 Vec;

enum { FLOATS = 8, SCORE_HEADS = 2, VALUE_VECS = 2 };

INLINE Vec  vec_zero(void) { return _mm256_setzero_ps(); }
INLINE Vec  vec_all(float x) { return _mm256_set1_ps(x); }
INLINE Vec  vec_load(const float *x) { return _mm256_load_ps(x); }
INLINE void vec_store(float *x, Vec v) { _mm256_store_ps(x, v); }
INLINE Vec  vec_add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
INLINE Vec  vec_mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
INLINE Vec  vec_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

/* gcc would make it a memory operand of the FMA of each head: more loads than a core makes. */
INLINE Vec vec_load_once(const float *x) {
    Vec v = vec_load(x);
    __asm__("" : "+x"(v));
    return v;
}

#include "fallback/attention/whole_tile.h"

RP_TARGET_AVX2 static void whole_scores(const AttentionTile *t) { whole_scores_of(t); }
ATTENTION_BY_HEADS(RP_TARGET_AVX2, whole_values_of, f32, RP_F32)

ATTENTION_KERNELS(rp_attention_avx2, RP_TARGET_AVX2, .weights = weights_of,
                  .load         = type == RP_F32    ? load_f32_tile
                                  : type == RP_Q8_0 ? load_q8_0_tile
                                                    : load_f16_tile,
                  .whole_scores = whole_scores, .whole_values = whole_values_of_f32)
#endif
