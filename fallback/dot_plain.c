#include "fallback/dot.h"

#include "fallback/simd.h"

#include <math.h>
#include <string.h>

/* One span as DotRows has it, from elements in their order. */
static void arrange(const uint8_t *q, int unit, int units, uint8_t *out) {
    memset(out, 0, (size_t)(RP_SPAN_UNITS * unit));
    for (int i = 0; i < units * unit; i += RP_GROUP) {
        const int u = i / unit, half = i % unit / RP_GROUP;
        memcpy(out + (half * RP_SPAN_UNITS + u) * RP_GROUP, q + i, RP_GROUP);
    }
}

void rp_unpack_row_plain(RpDtype dtype, const char *blocks, int r, DotRows *out) {
    enum { PART = 256 }; /* whole blocks and whole spans */
    const QuantForm *form   = out->form;
    UnpackFunction  *unpack = rp_unpack_function(dtype);
    const int        unit = form->unit, span = RP_SPAN_UNITS * unit, step = unit / RP_GROUP;
    for (int64_t i = 0; i < out->n; i += PART) {
        const int64_t len = out->n - i < PART ? out->n - i : PART;
        uint8_t       q[PART];
        float         scale[PART / RP_GROUP] = {0}, min[PART / RP_GROUP] = {0};
        unpack(blocks + rp_row_bytes(dtype, i), len, q, scale, min);
        for (int64_t k = 0; k < len; k += span) {
            const int     units = (int)((len - k < span ? len - k : span) / unit);
            const int64_t at    = (i + k) / span * out->n_rows + r;
            arrange(q + k, unit, units, out->q + at * span);
            for (int u = 0; u < RP_SPAN_UNITS; u++) {
                const int64_t g                    = k / RP_GROUP + u * step;
                out->scale[at * RP_SPAN_UNITS + u] = u < units ? scale[g] : 0.0f;
                if (form->has_min) out->min[at * RP_SPAN_UNITS + u] = u < units ? min[g] : 0.0f;
            }
        }
    }
}

static int32_t lane_dot(const QuantForm *form, const uint8_t *q, const int8_t *x, int lane) {
    const int u     = lane / 4;
    int32_t   total = 0;
    for (int half = 0; half < form->unit / RP_GROUP; half++)
        for (int k = 0; k < 4; k++)
            total += (q[half * 64 + 4 * lane + k] - form->offset) *
                     x[u * form->unit + half * RP_GROUP + lane % 4 * 4 + k];
    return total;
}

static void plain_span(const DotRows *rows, int64_t at, const DotColumn *x, int64_t i, float *acc,
                       float *low) {
    const QuantForm *form  = rows->form;
    const uint8_t   *q     = rows->q + at * RP_SPAN_UNITS * form->unit;
    const float     *scale = rows->scale + at * RP_SPAN_UNITS, *min = rows->min + at * RP_SPAN_UNITS;
    const int64_t    left  = (rows->n - i) / form->unit;
    const int        units = left < RP_SPAN_UNITS ? (int)left : RP_SPAN_UNITS;
    for (int l = 0; l < 4 * units; l++) {
        const int64_t block = (i + l / 4 * form->unit) / 32;
        acc[l] = fmaf(scale[l / 4] * x->scale[block], (float)lane_dot(form, q, x->q + i, l), acc[l]);
    }
    for (int u = 0; u < units && form->has_min; u++)
        low[u] = fmaf(min[u], x->sum[i / RP_GROUP + 2 * u] + x->sum[i / RP_GROUP + 2 * u + 1], low[u]);
}

void rp_dot_plain(const DotRows *rows, const DotColumn *cols, int n_cols, bool first, DotSums *sums) {
    const int span = RP_SPAN_UNITS * rows->form->unit;
    for (int c = 0; c < n_cols; c++) {
        if (first) sums[c] = (DotSums){0};
        for (int64_t i = 0; i < rows->n; i += span)
            for (int r = 0; r < rows->n_rows; r++)
                plain_span(rows, i / span * rows->n_rows + r, &cols[c], i, sums[c].acc[r], sums[c].low[r]);
    }
}

static float tree(const float *x, int n) {
    float v[RP_LANES];
    memcpy(v, x, (size_t)n * sizeof *v);
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) v[i] += v[i + n / 2];
    return v[0];
}

void rp_dot_results_plain(const DotSums *sums, int n_rows, float *y) {
    for (int r = 0; r < n_rows; r++) y[r] = tree(sums->acc[r], RP_LANES) + tree(sums->low[r], RP_SPAN_UNITS);
}

DotKernels rp_dot_kernels(void) {
#if defined(__x86_64__)
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI)
        return (DotKernels){
            .unpack = rp_unpack_row_avx512, .arrange = rp_arrange_column_avx512, .tile = rp_tile_avx512};
    if (isa == RP_ISA_AVX2)
        return (DotKernels){.unpack = rp_unpack_row_avx2, .dot = rp_dot_avx2, .results = rp_dot_results_avx2};
#endif
#if defined(__aarch64__)
    const CpuIsa isa = rp_cpu_isa();
    if (isa != RP_ISA_PLAIN)
        return (DotKernels){.unpack  = rp_unpack_row_neon,
                            .dot     = isa == RP_ISA_NEON ? rp_dot_neon : rp_dot_neon_dotprod,
                            .results = rp_dot_results_neon};
#endif
    return (DotKernels){.unpack = rp_unpack_row_plain, .dot = rp_dot_plain, .results = rp_dot_results_plain};
}

GemvFunction *rp_gemv_function(RpDtype dtype) {
    (void)dtype;
#if defined(__x86_64__)
    if (rp_cpu_isa() == RP_ISA_AVX512_VNNI) return rp_gemv_avx512(dtype);
    if (rp_cpu_isa() == RP_ISA_AVX2) return rp_gemv_avx2(dtype);
#endif
#if defined(__aarch64__)
    if (rp_cpu_isa() == RP_ISA_NEON_DOTPROD) return rp_gemv_neon_dotprod(dtype);
    if (rp_cpu_isa() == RP_ISA_NEON) return rp_gemv_neon(dtype);
#endif
    return NULL;
}
