/* FP8 to bf16 (fp8.h). */
#include "model/hf/fp8.h"

#include "reprise/quants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float rp_fp8_value(unsigned char bits) {
    const int   exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (exponent == 15 && mantissa == 7) return NAN;
    if (exponent == 0) return sign * ldexpf((float)mantissa, -9);
    return sign * ldexpf((float)(8 + mantissa), exponent - 10);
}

static int64_t blocks_of(int64_t n, uint32_t size) { return size == 0 ? 1 : (n + size - 1) / size; }

/* Rows and columns of a block, from weight_block_size, or from the shape of the scales. */
static RpStatus block_size(const char *path, const SafeTensor *w, const SafeTensor *s, Fp8Blocks *b) {
    const int64_t rows = w->ne[1], columns = w->ne[0], n = s->ne[0] * s->ne[1] * s->ne[2] * s->ne[3];
    if (rows > UINT32_MAX || columns > UINT32_MAX) return rp_fail(RP_E_SHAPE, "%s: a matrix in FP8 is too large", path);
    if (b->rows == 0) {
        const bool each_row = n == rows && (s->n_dims == 1 || s->ne[1] == n); /* [rows], [rows, 1] */
        b->rows             = each_row ? 1 : (uint32_t)rows;
        b->columns          = (uint32_t)columns;
        if (each_row || n == 1) return RP_OK;
    } else if (s->ne[1] == blocks_of(rows, b->rows) && s->ne[0] == blocks_of(columns, b->columns) && s->ne[2] == 1 &&
               s->ne[3] == 1) {
        return RP_OK;
    }
    return rp_fail(RP_E_SHAPE, "%s: scales %.*s are [%lld,%lld] for a weight of [%lld,%lld]", path,
                   (int)(s->name.len < 96 ? s->name.len : 96), s->name.ptr, (long long)s->ne[0], (long long)s->ne[1],
                   (long long)columns, (long long)rows);
}

static float *scales_of(const SafeTensor *s) {
    const int64_t n   = s->ne[0] * s->ne[1] * s->ne[2] * s->ne[3];
    float        *out = malloc((size_t)n * sizeof *out);
    if (out != NULL) rp_safe_to_f32(s, out);
    return out;
}

RpStatus rp_fp8_to_bf16(const char *path, const SafeTensor *w, const SafeTensor *scale, Fp8Blocks b, void *out) {
    static const float one = 1.0f;
    float              table[256];
    char              *to = out;
    if (scale != NULL && rp_safe_type_dtype(scale->type) < 0)
        return rp_fail(RP_E_UNSUPPORTED, "%s: scales %.*s are %s", path,
                       (int)(scale->name.len < 96 ? scale->name.len : 96), scale->name.ptr,
                       rp_safe_type_name(scale->type));
    if (scale != NULL) RP_TRY(block_size(path, w, scale, &b));
    if (scale == NULL) b = (Fp8Blocks){(uint32_t)w->ne[1], (uint32_t)w->ne[0]};
    for (int i = 0; i < 256; i++) table[i] = rp_fp8_value((unsigned char)i);
    float   *scales = scale != NULL ? scales_of(scale) : NULL, *row = malloc((size_t)w->ne[0] * sizeof *row);
    RpStatus st =
        row != NULL && (scale == NULL || scales != NULL) ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    const int64_t each = blocks_of(w->ne[0], b.columns);
    for (int64_t r = 0; r < w->ne[1] && st == RP_OK; r++) {
        const unsigned char *q = w->data + r * w->ne[0];
        const float         *s = scales != NULL ? scales + r / b.rows * each : &one;
        for (int64_t c = 0; c < w->ne[0]; c++) row[c] = table[q[c]] * s[c / b.columns];
        st = rp_quantize_row(RP_BF16, row, w->ne[0], to);
        to += rp_row_bytes(RP_BF16, w->ne[0]);
    }
    free(scales);
    free(row);
    return st;
}
