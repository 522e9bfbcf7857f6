/* y = x converted, contiguous; or a store: d[:,pos[t]] = x[:,t], rows with pos < 0 skipped.
 *
 * The store writes keys and values into the KV cache, to f16 or q8_0. A row is converted in slices of SLICE elements by
 * way of f32, so that it needs no memory of its length (I5). x may have any strides; rows of d are contiguous. */
#include "fallback/quants/quants.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

enum { SLICE = 256 }; /* a multiple of 32: slices are whole q8_0 blocks */

RP_BODY void convert_f16_body(const float *x, int64_t n, uint16_t *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_f32_to_f16(x[i]);
}
RP_VARIANTS(convert_f16, (const float *x, int64_t n, uint16_t *y), (x, n, y))

/* d = max|x| / 127, qs = round(x / d), halves away from zero; the same as rp_put_q8_0 in kernels/device/copy.cuh.
 *
 * A block with an infinity or a NaN (exponent bits all 1) gets a NaN scale (0x7e00 in f16), so that it shows in every
 * result. Quants are 0 if d is below RP_SMALLEST_SCALE, as 1/d could overflow. */
RP_BODY void row_to_q8_0_body(const float *x, int64_t n, BlockQ8_0 *y) {
    for (int64_t b = 0; b < n / 32; b++, x += 32) {
        float    top = 0.0f;
        uint32_t bad = 0;
        for (int i = 0; i < 32; i++) {
            bad |= (uint32_t)((rp_f32_to_bits(x[i]) & 0x7f800000u) == 0x7f800000u);
            top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        }
        const float d = top / 127.0f, inverse = bad == 0 && d >= RP_SMALLEST_SCALE ? 1.0f / d : 0.0f;
        y[b].d = bad ? 0x7e00 : rp_f32_to_f16(d);
        for (int i = 0; i < 32; i++) y[b].qs[i] = (int8_t)(bad ? 0.0f : roundf(x[i] * inverse));
    }
}
RP_VARIANTS(row_to_q8_0, (const float *x, int64_t n, BlockQ8_0 *y), (x, n, y))

/* Element i of a row that is not contiguous. */
static float element(const RpTensorView *x, const char *row, int64_t i) {
    const char *p = row + (size_t)i * x->nb[0];
    float       f;
    rp_dequantize_row(x->dtype, p, 1, &f);
    return f;
}

static void copy_row(const RpTensorView *x, const char *row, const RpTensorView *y, char *out) {
    const int64_t n          = x->ne[0];
    const bool    contiguous = x->nb[0] == (size_t)rp_dtype_info(x->dtype)->block_bytes;
    if (contiguous && x->dtype == y->dtype) {
        memcpy(out, row, rp_row_bytes(x->dtype, n));
        return;
    }
    for (int64_t i = 0; i < n; i += SLICE) {
        const int64_t m = n - i < SLICE ? n - i : SLICE;
        float         values[SLICE];
        if (contiguous)
            rp_dequantize_row(x->dtype, row + (size_t)i * x->nb[0], m, values);
        else
            for (int64_t k = 0; k < m; k++) values[k] = element(x, row, i + k);
        if (y->dtype == RP_F32)
            memcpy((float *)(void *)out + i, values, (size_t)m * sizeof(float));
        else if (y->dtype == RP_F16)
            convert_f16(values, m, (uint16_t *)(void *)out + i);
        else if (y->dtype == RP_Q8_0)
            row_to_q8_0(values, m, (BlockQ8_0 *)(void *)out + i / 32);
        else
            for (int64_t k = 0; k < m; k++) ((uint16_t *)(void *)out)[i + k] = rp_f32_to_bf16(values[k]);
    }
}

RpStatus rp_cpu_copy(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->copy.x, *y = &args->dst;
    const int32_t      *pos = rp_is_present(&args->copy.pos) ? args->copy.pos.data : NULL;
    RP_TRY(RP_CHECK(copy, args));
    for (int64_t r = rp_first_row(x, ctx); r < rp_end_row(x, ctx); r++) {
        const int64_t i1 = r % x->ne[1], outer = r / x->ne[1];
        int64_t       to = i1;
        if (pos != NULL) {
            to = pos[i1];
            if (to < 0) continue;
            if (to >= y->ne[1])
                return rp_fail(RP_E_ARG, "copy: position %lld, the destination has %lld rows", (long long)to,
                               (long long)y->ne[1]);
        }
        copy_row(x, rp_view_row(x, r), y, rp_view_row(y, outer * y->ne[1] + to));
    }
    return RP_OK;
}
