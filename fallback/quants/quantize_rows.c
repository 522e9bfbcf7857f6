/* Floats to blocks (rp_quantize_row): the inverse of dequantize.c.
 *
 *     one scale              q = round(x / d), d from the largest magnitude
 *     scale and minimum      q = round((x - m) / d), m the smallest value, d from the range
 *     the same, weighted     d and m by search, if elements differ in importance
 *     K types                each sub-block by search: candidate roundings, least squares for each, the best one stays;
 *                            then the scales themselves are rounded to 6 bits (Q6_K: 8)
 *     IQ1 to IQ3             entries of a codebook by an exact search (codebook_fit.c)
 *
 * Each type has its function in fallback/quants/types. Not a fast path: it runs when models are requantised or
 * synthesised, and in tests. */
#include "reprise/quants.h"

#include "base/argument.h"
#include "base/quantize.h"
#include "base/types/custom.h"
#include "fallback/quants/fit.h"
#include "fallback/quants/quants.h"
#include "fallback/simd/float.h"

typedef void QuantizeFunction(const float *x, const float *w, void *block);

#define X(ID, name, ...) [RP_##ID] = quantize_##name,
static QuantizeFunction *const table[RP_DTYPE_COUNT] = {RP_QUANTS(X)};
#undef X

/* A type of RP_CODEBOOK_QUANTS. */
static bool has_codebook(RpDtype dtype) {
#define X(ID, ...) || dtype == RP_##ID
    return false RP_CODEBOOK_QUANTS(X);
#undef X
}

/* Refuses values that need a scale or minimum above the largest f16, 65504, as ggml's check of quantised data does: the
 * block then holds infinities, NaN, or zeros where a search by squared error overflowed. An error of half of the
 * largest magnitude tells them from rounding, which is a quarter at most. Up to 32768 nothing overflows, in NVFP4 up to
 * 2688. Q1_0 has one magnitude only, and a search for codebooks scales values to 1: there only an infinite d shows the
 * overflow. `at`: the number of element x[0] in its row. */
static RpStatus check_range(RpDtype dtype, const float *x, const void *block, int64_t at) {
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    float              y[256];
    const float        top = rp_largest(x, info->block_elems);
    if (fabsf(top) <= (dtype == RP_NVFP4 ? 2688.0f : 32768.0f)) return RP_OK;
    rp_dequantize_row(dtype, block, info->block_elems, y);
    for (int i = 0; i < info->block_elems; i++) {
        if (dtype == RP_Q1_0 || has_codebook(dtype) ? isfinite(y[i]) : fabsf(y[i] / top - x[i] / top) <= 0.5f) continue;
        while (*x != top) x++, at++;
        return rp_fail(RP_E_ARG, "element %lld of a row, %g, is too large for the scales of %s", (long long)at,
                       (double)top, info->name);
    }
    return RP_OK;
}

/* Quantisers that round as ggml's reference does, if all elements have the same importance. */
static bool rounds(RpDtype dtype) {
    return dtype == RP_Q4_0 || dtype == RP_Q4_1 || dtype == RP_Q5_0 || dtype == RP_Q5_1;
}

/* Importance of the elements of a block. Only the ratios count: the mean becomes 1, so that no sum overflows. Without
 * importance, or if all of it is 0, each element has 1. */
static const float *importance_of(const float *w, int n, float *scaled) {
    float sum = 0.0f;
    for (int i = 0; i < n && w != NULL; i++) sum += w[i] / (float)n;
    for (int i = 0; i < n; i++) scaled[i] = sum > 0.0f ? w[i] / sum : 1.0f;
    return scaled;
}

RpStatus rp_quantize_row(RpDtype dtype, const float *x, int64_t n, void *out) {
    RP_NOT_NULL(x, "x");
    RP_NOT_NULL(out, "out");
    return rp_quantize_row_weighted(dtype, x, NULL, n, out);
}

RpStatus rp_quantize_row_weighted(RpDtype dtype, const float *x, const float *w, int64_t n, void *out) {
    RP_NOT_NULL(x, "x");
    RP_NOT_NULL(out, "out");
    if (n < 0) return rp_fail(RP_E_ARG, "rp_quantize_row: %lld elements: must be at least 0", (long long)n);
    if (dtype == RP_F32) {
        memcpy(out, x, (size_t)n * sizeof *x);
        return RP_OK;
    }
    if (dtype == RP_F16 || dtype == RP_BF16) {
        uint16_t *y = out;
        for (int64_t i = 0; i < n; i++) y[i] = dtype == RP_F16 ? rp_f32_to_f16(x[i]) : rp_f32_to_bf16(x[i]);
        return RP_OK;
    }
    if (rp_dtype_is_custom(dtype)) return rp_custom_quantize(rp_dtype_custom(dtype), x, w, n, out);
    QuantizeFunction *quantize = (unsigned)dtype < RP_DTYPE_COUNT ? table[dtype] : NULL;
    if (quantize == NULL) return rp_fail(RP_E_DTYPE, "rows of %s cannot be quantised", rp_dtype_name(dtype));
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (n % info->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements: must be a whole number of %s blocks of %d", (long long)n,
                       info->name, info->block_elems);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return rp_fail(RP_E_ARG, "element %lld of a row is not finite: %s cannot hold it", (long long)i,
                           info->name);
    float scaled[256];
    for (int64_t i = 0; i < n; i += info->block_elems) {
        void      *block = (char *)out + i / info->block_elems * info->block_bytes;
        const bool plain = w == NULL && rounds(dtype);
        quantize(x + i, plain ? NULL : importance_of(w != NULL ? w + i : NULL, info->block_elems, scaled), block);
        RP_TRY(check_range(dtype, x + i, block, i));
    }
    return RP_OK;
}
