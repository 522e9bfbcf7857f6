#include "fallback/dot.h"

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>

#define INLINE RP_TARGET_AVX2 static inline __attribute__((always_inline))

/* Integer dot products of four and four elements of 32: the products of unsigned and signed bytes are added
 * in pairs to 16 bits, which saturate past 32767; so the upper bit of the weights is taken apart. */
INLINE __m256i dot4(__m256i w, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8((char)0x80);
    const __m256i low  = _mm256_maddubs_epi16(_mm256_andnot_si256(top, w), x);
    const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(top, w), x);
    return _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));
}

/* 16 elements each of two units. */
INLINE __m256i two_units(const int8_t *a, const int8_t *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)),
                                   _mm_loadu_si128((const void *)b), 1);
}

/* Two units of a span, the first of which starts at q and x. */
INLINE __m256 pair(const QuantForm *form, const uint8_t *q, const int8_t *x) {
    const __m256i offset = _mm256_set1_epi8((char)form->offset);
    __m256i       v      = two_units(x, x + form->unit);
    __m256i       w      = _mm256_load_si256((const void *)q);
    __m256i       dot    = _mm256_sub_epi32(dot4(w, v), dot4(offset, v));
    if (form->unit == 32) {
        v   = two_units(x + RP_GROUP, x + form->unit + RP_GROUP);
        w   = _mm256_load_si256((const void *)(q + 64));
        dot = _mm256_add_epi32(dot, _mm256_sub_epi32(dot4(w, v), dot4(offset, v)));
    }
    return _mm256_cvtepi32_ps(dot);
}

INLINE __m256 both(float a, float b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_set1_ps(a)), _mm_set1_ps(b), 1);
}

/* One row and one column; `units` of the last span that are there come in a padded copy. */
INLINE void add_span(const QuantForm *form, const uint8_t *q, const float *scale, const float *min,
                     const DotColumn *x, __m256 *acc, __m128 *low) {
    for (int h = 0; h < 2; h++) {
        const int    u = 2 * h, step = 32 / form->unit;
        const __m256 d =
            _mm256_mul_ps(both(scale[u], scale[u + 1]), both(x->scale[u / step], x->scale[(u + 1) / step]));
        acc[h] = _mm256_fmadd_ps(d, pair(form, q + 16 * u, x->q + u * form->unit), acc[h]);
    }
    if (!form->has_min) return;
    const __m128 a = _mm_loadu_ps(x->sum), b = _mm_loadu_ps(x->sum + 4);
    *low = _mm_fmadd_ps(_mm_load_ps(min), _mm_add_ps(_mm_shuffle_ps(a, b, 0x88), _mm_shuffle_ps(a, b, 0xdd)),
                        *low);
}

typedef struct PaddedSpan {
    int8_t q[128];
    float  scale[4], sum[8];
} PaddedSpan;

static DotColumn padded(const DotColumn *x, int64_t i, int units, PaddedSpan *p) {
    *p = (PaddedSpan){0};
    for (int k = 0; k < 32 * units; k++) p->q[k] = x->q[i + k];
    for (int u = 0; u < units; u++) p->scale[u] = x->scale[i / 32 + u];
    for (int g = 0; g < 2 * units; g++) p->sum[g] = x->sum[i / RP_GROUP + g];
    return (DotColumn){p->q, p->scale, p->sum};
}

INLINE void row(const QuantForm *form, const DotRows *rows, int r, const DotColumn *x, DotSums *sums) {
    const int64_t size   = RP_SPAN_UNITS * form->unit;
    __m256        acc[2] = {_mm256_loadu_ps(sums->acc[r]), _mm256_loadu_ps(sums->acc[r] + 8)};
    __m128        low    = _mm_loadu_ps(sums->low[r]);
    for (int64_t i = 0; i < rows->n; i += size) {
        const int64_t at = i / size * rows->n_rows + r;
        PaddedSpan    copy;
        DotColumn     of_x = {x->q + i, x->scale + i / 32, x->sum + i / RP_GROUP};
        if (i + size > rows->n) of_x = padded(x, i, (int)((rows->n - i) / 32), &copy);
        add_span(form, rows->q + at * size, rows->scale + at * RP_SPAN_UNITS, rows->min + at * RP_SPAN_UNITS,
                 &of_x, acc, &low);
    }
    _mm256_storeu_ps(sums->acc[r], acc[0]);
    _mm256_storeu_ps(sums->acc[r] + 8, acc[1]);
    _mm_storeu_ps(sums->low[r], low);
}

RP_TARGET_AVX2 void rp_dot_avx2(const DotRows *rows, const DotColumn *cols, int n_cols, bool first,
                                DotSums *sums) {
    const QuantForm *form = rows->form;
    for (int c = 0; c < n_cols; c++) {
        if (first) sums[c] = (DotSums){0};
        for (int r = 0; r < rows->n_rows; r++) {
            if (form->has_min)
                row(&(QuantForm){32, 0, true}, rows, r, &cols[c], &sums[c]);
            else if (form->unit == 32)
                row(&(QuantForm){32, form->offset, false}, rows, r, &cols[c], &sums[c]);
            else
                row(&(QuantForm){16, form->offset, false}, rows, r, &cols[c], &sums[c]);
        }
    }
}

INLINE float tree4(__m128 v) {
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}

RP_TARGET_AVX2 void rp_dot_results_avx2(const DotSums *sums, int n_rows, float *y) {
    for (int r = 0; r < n_rows; r++) {
        const float *acc   = sums->acc[r];
        const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_loadu_ps(acc + 8));
        const __m128 four  = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        y[r]               = tree4(four) + tree4(_mm_loadu_ps(sums->low[r]));
    }
}
#endif
