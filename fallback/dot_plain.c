#include "fallback/dot.h"
#include "fallback/simd.h"

#include <math.h>
#include <string.h>

enum { PART = 256 }; /* elements that are unpacked at a time: whole blocks and whole spans */

void rp_pack_panel_plain(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                         const Ahead *ahead, char *panel) {
    const QuantForm *form   = rp_quant_form(dtype);
    UnpackFunction  *unpack = rp_unpack_function(dtype);
    const int        unit = form->unit, step = unit / RP_GROUP;
    (void)ahead;
    for (int r = 0; r < RP_PANEL_ROWS; r++) {
        const char *row = rows + (size_t)(r < n_rows ? r : n_rows - 1) * stride;
        char       *to  = panel;
        for (int64_t i = 0; i < n; i += PART) {
            const int64_t len = n - i < PART ? n - i : PART;
            uint8_t       q[PART];
            float         scale[PART / RP_GROUP] = {0}, min[PART / RP_GROUP] = {0};
            unpack(row + rp_row_bytes(dtype, i), len, q, scale, min);
            for (int u = 0; u < len / unit; u++, to += rp_panel_unit_bytes(form)) {
                float *scales = (float *)(void *)(to + RP_PANEL_ROWS * unit);
                for (int k = 0; k < unit; k += RP_QUAD)
                    memcpy(to + RP_PANEL_ROWS * k + RP_QUAD * r, q + u * unit + k, RP_QUAD);
                scales[r]                 = scale[u * step];
                scales[RP_PANEL_ROWS + r] = min[u * step];
            }
        }
    }
}

static void add_row_times_column(const QuantForm *form, const char *panel, int r, const char *group, int c,
                                 int n_cols, int64_t n_units, TileSums *sums) {
    for (int64_t u = 0; u < n_units; u++) {
        const char  *w      = panel + (size_t)u * rp_panel_unit_bytes(form);
        const char  *x      = group + (size_t)u * rp_group_unit_bytes(form, n_cols);
        const float *scale  = (const float *)(const void *)(w + RP_PANEL_ROWS * form->unit);
        const float *of_x   = (const float *)(const void *)(x + n_cols * form->unit);
        float       *p      = &sums->part[u % RP_SPAN_UNITS][c][r];
        int32_t      offset = 0, dot = 0;
        if (form->offset > 0) memcpy(&offset, of_x + n_cols + c, sizeof offset);
        for (int k = 0; k < form->unit; k++)
            dot += (uint8_t)w[RP_PANEL_ROWS * (k - k % RP_QUAD) + RP_QUAD * r + k % RP_QUAD] *
                   (int8_t)x[c * form->unit + k];
        *p = fmaf(scale[r] * of_x[c], (float)(dot + offset), *p);
        if (form->has_min) *p = fmaf(scale[RP_PANEL_ROWS + r], of_x[n_cols + c], *p);
    }
}

void rp_tile_plain(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_units,
                   const Ahead *ahead, TileSums *sums) {
    (void)ahead;
    rp_begin_sums(sums, n_cols);
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < RP_PANEL_ROWS; r++)
            add_row_times_column(form, panel, r, group, c, n_cols, n_units, sums);
}

void rp_gemv_plain(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                   const DotColumn *x, float *y) {
    const QuantForm *form   = rp_quant_form(dtype);
    UnpackFunction  *unpack = rp_unpack_function(dtype);
    const int        unit = form->unit, step = unit / RP_GROUP;
    for (int64_t m = 0; m < n_rows; m++, rows += stride) {
        float part[RP_SPAN_UNITS] = {0};
        for (int64_t i = 0; i < n; i += PART) {
            const int64_t len = n - i < PART ? n - i : PART;
            uint8_t       q[PART];
            float         scale[PART / RP_GROUP] = {0}, min[PART / RP_GROUP] = {0};
            unpack(rows + rp_row_bytes(dtype, i), len, q, scale, min);
            for (int u = 0; u < len / unit; u++) {
                const int64_t at  = i + u * unit;
                float        *p   = &part[u % RP_SPAN_UNITS];
                int32_t       dot = 0;
                for (int k = 0; k < unit; k++) dot += (q[u * unit + k] - form->offset) * x->q[at + k];
                *p = fmaf(scale[u * step] * x->scale[at / 32], (float)dot, *p);
                if (form->has_min)
                    *p = fmaf(min[u * step], x->sum[at / RP_GROUP] + x->sum[at / RP_GROUP + 1], *p);
            }
        }
        y[m] = (part[0] + part[2]) + (part[1] + part[3]);
    }
}

DotKernels rp_dot_kernels(void) {
#if defined(__x86_64__)
    if (rp_cpu_isa() == RP_ISA_AVX512_VNNI)
        return (DotKernels){rp_pack_panel_avx512, rp_tile_avx512, rp_gemv_avx512};
    if (rp_cpu_isa() == RP_ISA_AVX2) return (DotKernels){rp_pack_panel_avx2, rp_tile_avx2, rp_gemv_avx2};
#endif
#if defined(__aarch64__)
    if (rp_cpu_isa() == RP_ISA_NEON_DOTPROD)
        return (DotKernels){rp_pack_panel_neon, rp_tile_neon_dotprod, rp_gemv_neon_dotprod};
    if (rp_cpu_isa() == RP_ISA_NEON) return (DotKernels){rp_pack_panel_neon, rp_tile_neon, rp_gemv_neon};
#endif
    return (DotKernels){rp_pack_panel_plain, rp_tile_plain, rp_gemv_plain};
}
