/* Blocks to floats (rp_dequantize_row), in two steps: to the integer form of quants.h, then
 *
 *     y[i] = fma(scale[i/16], q[i] - offset, min[i/16])
 *
 * The functions of the first step also serve the plain product kernels. They are made from the files of the types
 * (expand.h). */
#include "fallback/quants/quants.h"

#include "base/types/custom.h"
#include "fallback/simd/float.h"

/* <name>_block of the types that have expand_<name> instead. */
#define EXPANDED(ID, name, ...)                                                                                        \
    RP_BODY void name##_block(const Block##ID *b, uint8_t *q, float *scale, float *min) {                              \
        float s[RP_##ID##_ELEMS / RP_##ID##_SUB], m[RP_##ID##_ELEMS / RP_##ID##_SUB] = {0};                            \
        for (int i = 0; i < RP_##ID##_ELEMS; i += 32) {                                                                \
            int8_t v[32];                                                                                              \
            expand_##name(b, i / 32, v);                                                                               \
            for (int k = 0; k < 32; k++) q[i + k] = (uint8_t)(v[k] + RP_##ID##_OFFSET);                                \
        }                                                                                                              \
        sub_scales_##name(b, s, m);                                                                                    \
        for (int u = 0; u < RP_##ID##_ELEMS / RP_SUM_BLOCK; u++) {                                                     \
            scale[u] = s[u * RP_SUM_BLOCK / RP_##ID##_SUB];                                                            \
            min[u]   = m[u * RP_SUM_BLOCK / RP_##ID##_SUB];                                                            \
        }                                                                                                              \
    }
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED

/* dequantize_<name>, a DequantizeFunction that dispatches on the instruction set. */
#define DEQUANTIZE(ID, name, ...)                                                                                      \
    RP_BODY void dequantize_##name##_body(const void *blocks, int64_t n, uint8_t *q, float *scale, float *min) {       \
        enum { ELEMS = RP_##ID##_ELEMS };                                                                              \
        const Block##ID *b = blocks;                                                                                   \
        for (int64_t i = 0; i < n / ELEMS; i++)                                                                        \
            name##_block(b + i, q + i * ELEMS, scale + i * ELEMS / RP_SUM_BLOCK, min + i * ELEMS / RP_SUM_BLOCK);      \
    }                                                                                                                  \
    RP_VARIANTS(dequantize_##name, (const void *blocks, int64_t n, uint8_t *q, float *scale, float *min),              \
                (blocks, n, q, scale, min))
RP_QUANTS(DEQUANTIZE)
#undef DEQUANTIZE

const QuantForm *rp_quant_form(RpDtype dtype) {
#define X(ID, ...) [RP_##ID]                     = RP_QUANT_FORM(ID),
    static const QuantForm table[RP_DTYPE_COUNT] = {RP_QUANTS(X)};
#undef X
    return (unsigned)dtype < RP_DTYPE_COUNT && table[dtype].sub_elems > 0 ? &table[dtype] : NULL;
}

DequantizeFunction *rp_dequantize_function(RpDtype dtype) {
#define X(ID, name, ...) [RP_##ID]                         = dequantize_##name,
    static DequantizeFunction *const table[RP_DTYPE_COUNT] = {RP_QUANTS(X)};
#undef X
    return (unsigned)dtype < RP_DTYPE_COUNT ? table[dtype] : NULL;
}

RP_BODY void convert_f16_body(const uint16_t *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_f16_to_f32(x[i]);
}
RP_VARIANTS(convert_f16, (const uint16_t *x, int64_t n, float *y), (x, n, y))

RP_BODY void convert_bf16_body(const uint16_t *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_bf16_to_f32(x[i]);
}
RP_VARIANTS(convert_bf16, (const uint16_t *x, int64_t n, float *y), (x, n, y))

/* The second step. */
RP_BODY void quants_to_f32_body(const uint8_t *q, int offset, const float *scale, const float *min, int64_t n,
                                float *y) {
    for (int64_t g = 0; g < n / RP_SUM_BLOCK; g++)
        for (int i = 0; i < RP_SUM_BLOCK; i++)
            y[g * RP_SUM_BLOCK + i] = fmaf(scale[g], (float)(q[g * RP_SUM_BLOCK + i] - offset), min[g]);
}
RP_VARIANTS(quants_to_f32, (const uint8_t *q, int offset, const float *scale, const float *min, int64_t n, float *y),
            (q, offset, scale, min, n, y))

static void blocks_to_f32(RpDtype dtype, const char *row, int64_t n, float *out) {
    enum { SLICE = 256 }; /* whole blocks of every type: of 32 or 256 elements (base/dtypes.h) */
    uint8_t             q[SLICE];
    float               scale[SLICE / RP_SUM_BLOCK], min[SLICE / RP_SUM_BLOCK];
    DequantizeFunction *dequantize = rp_dequantize_function(dtype);
    for (int64_t i = 0; i < n; i += SLICE) {
        const int64_t m = n - i < SLICE ? n - i : SLICE;
        dequantize(row + rp_row_bytes(dtype, i), m, q, scale, min);
        quants_to_f32(q, rp_quant_form(dtype)->offset, scale, min, m, out + i);
    }
}

/* Rows that are no whole blocks become NaN. */
static void custom_to_f32(const CustomDtype *type, const void *row, int64_t n, float *out) {
    if (n % type->info.block_elems == 0)
        type->description.dequantize(row, n, out, type->description.user);
    else
        for (int64_t i = 0; i < n; i++) out[i] = NAN;
}

void rp_dequantize_row(RpDtype dtype, const void *row, int64_t n, float *out) {
    if (row == NULL || out == NULL || n <= 0) return;
    if (dtype == RP_F32)
        memcpy(out, row, (size_t)n * sizeof *out);
    else if (dtype == RP_F16)
        convert_f16(row, n, out);
    else if (dtype == RP_BF16)
        convert_bf16(row, n, out);
    else if (rp_dequantize_function(dtype) != NULL)
        blocks_to_f32(dtype, row, n, out);
    else if (rp_dtype_is_custom(dtype))
        custom_to_f32(rp_dtype_custom(dtype), row, n, out);
    else
        for (int64_t i = 0; i < n; i++) out[i] = NAN;
}
