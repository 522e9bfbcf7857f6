/* y = x converted and packed; or, with a destination, d[:,pos[t]] = x[:,t], rows with pos < 0 left out. */
#include "fallback/float.h"
#include "fallback/quants.h"
#include "fallback/rows.h"

enum { PIECE = 256 };

RP_BODY void narrow_f16_body(const float *x, int64_t n, uint16_t *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_f32_to_f16(x[i]);
}
RP_VARIANTS(narrow_f16, (const float *x, int64_t n, uint16_t *y), (x, n, y))

/* As kernels/copy.cu has it. */
RP_BODY void pack_q8_0_body(const float *x, int64_t n, BlockQ8_0 *y) {
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
RP_VARIANTS(pack_q8_0, (const float *x, int64_t n, BlockQ8_0 *y), (x, n, y))

static float element(const TensorView *x, const char *row, int64_t i) {
    const char *p = row + (size_t)i * x->nb[0];
    float       f;
    rp_dequantize_row(x->dtype, p, 1, &f);
    return f;
}

static void copy_row(const TensorView *x, const char *row, const TensorView *y, char *out) {
    const int64_t n      = x->ne[0];
    const bool    packed = x->nb[0] == (size_t)rp_dtype_info(x->dtype)->block_bytes;
    if (packed && x->dtype == y->dtype) {
        memcpy(out, row, rp_row_bytes(x->dtype, n));
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t m = n - i < PIECE ? n - i : PIECE;
        float         wide[PIECE];
        if (packed)
            rp_dequantize_row(x->dtype, row + (size_t)i * x->nb[0], m, wide);
        else
            for (int64_t k = 0; k < m; k++) wide[k] = element(x, row, i + k);
        if (y->dtype == RP_F32)
            memcpy((float *)(void *)out + i, wide, (size_t)m * sizeof(float));
        else if (y->dtype == RP_F16)
            narrow_f16(wide, m, (uint16_t *)(void *)out + i);
        else if (y->dtype == RP_Q8_0)
            pack_q8_0(wide, m, (BlockQ8_0 *)(void *)out + i / 32);
        else
            for (int64_t k = 0; k < m; k++) ((uint16_t *)(void *)out)[i + k] = rp_f32_to_bf16(wide[k]);
    }
}

RpStatus rp_cpu_copy(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *x = &args->src[0], *y = &args->dst;
    const int32_t    *pos = rp_has_src(args, 2) ? args->src[2].data : NULL;
    RP_TRY(rp_check_copy(args));
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
