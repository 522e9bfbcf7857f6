/* The plain C kernels: the readable reference of dot.h, which every SIMD kernel must match bit for bit. Packed q
 * are the unsigned q of the integer form. Also chooses the kernels of the instruction set in use. */
#include "fallback/products/repack.h"
#include "fallback/simd/simd.h"

#include <math.h>
#include <string.h>

enum { SLICE = 256 }; /* elements dequantised at a time: whole blocks and whole k-steps of every type */
#define X(ID, name, sub, ...)                                                                                          \
    static_assert(SLICE % RP_##ID##_ELEMS == 0 && SLICE % (RP_KSTEP_SUBS * (sub)) == 0, #name ": SLICE");
RP_QUANTS(X)
#undef X

void rp_pack_panel_plain(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                         const PrefetchStream *ahead, char *panel) {
    const QuantForm    *form       = rp_quant_form(dtype);
    DequantizeFunction *dequantize = rp_dequantize_function(dtype);
    /* Scales come one per sum block: a sub-block of 32 has two, which are equal. */
    const int sub_elems = form->sub_elems, per_sub = sub_elems / RP_SUM_BLOCK;
    (void)ahead;
    for (int r = 0; r < RP_PANEL_ROWS; r++) {
        const char *row = rows + (size_t)(r < n_rows ? r : n_rows - 1) * stride;
        char       *to  = panel;
        for (int64_t i = 0; i < n; i += SLICE) {
            const int64_t len = n - i < SLICE ? n - i : SLICE;
            uint8_t       q[SLICE];
            float         scale[SLICE / RP_SUM_BLOCK] = {0}, min[SLICE / RP_SUM_BLOCK] = {0};
            dequantize(row + rp_row_bytes(dtype, i), len, q, scale, min);
            for (int u = 0; u < len / sub_elems; u++, to += rp_panel_sub_bytes(form)) {
                float *scales = (float *)(void *)(to + RP_PANEL_ROWS * sub_elems);
                for (int k = 0; k < sub_elems; k += RP_QUAD)
                    memcpy(to + RP_PANEL_ROWS * k + RP_QUAD * r, q + u * sub_elems + k, RP_QUAD);
                scales[r]                 = scale[u * per_sub];
                scales[RP_PANEL_ROWS + r] = min[u * per_sub];
            }
        }
    }
}

/* Row r of a panel times column c of a group. */
static void add_row_times_column(const QuantForm *form, const char *panel, int r, const char *group, int c, int n_cols,
                                 int64_t n_subs, TileAccs *accs) {
    for (int64_t u = 0; u < n_subs; u++) {
        const char  *w          = panel + (size_t)u * rp_panel_sub_bytes(form);
        const char  *x          = group + (size_t)u * rp_group_sub_bytes(form, n_cols);
        const float *scale      = (const float *)(const void *)(w + RP_PANEL_ROWS * form->sub_elems);
        const float *x_scale    = (const float *)(const void *)(x + n_cols * form->sub_elems);
        float       *p          = &accs->acc[u % RP_KSTEP_SUBS][c][r];
        int32_t      correction = 0, dot = 0;
        if (form->offset > 0) memcpy(&correction, x_scale + n_cols + c, sizeof correction);
        /* element k of row r in a panel: byte 64 * (k / 4) + 4 * r + k % 4 */
        for (int k = 0; k < form->sub_elems; k++)
            dot += (uint8_t)w[RP_PANEL_ROWS * (k - k % RP_QUAD) + RP_QUAD * r + k % RP_QUAD] *
                   (int8_t)x[c * form->sub_elems + k];
        *p = fmaf(scale[r] * x_scale[c], (float)(dot + correction), *p);
        if (form->has_min) *p = fmaf(scale[RP_PANEL_ROWS + r], x_scale[n_cols + c], *p);
    }
}

void rp_tile_plain(const QuantForm *form, const char *panel, const char *group, int n_cols, int64_t n_subs,
                   const PrefetchStream *ahead, TileAccs *accs) {
    (void)ahead;
    rp_begin_accs(accs, n_cols);
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < RP_PANEL_ROWS; r++) add_row_times_column(form, panel, r, group, c, n_cols, n_subs, accs);
}

/* The definition of the sum in dot.h, literally. */
void rp_gemv_plain(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                   float *y) {
    const QuantForm    *form       = rp_quant_form(dtype);
    DequantizeFunction *dequantize = rp_dequantize_function(dtype);
    const int           sub_elems = form->sub_elems, per_sub = sub_elems / RP_SUM_BLOCK;
    for (int64_t m = 0; m < n_rows; m++, rows += stride) {
        float acc[RP_KSTEP_SUBS] = {0};
        for (int64_t i = 0; i < n; i += SLICE) {
            const int64_t len = n - i < SLICE ? n - i : SLICE;
            uint8_t       q[SLICE];
            float         scale[SLICE / RP_SUM_BLOCK] = {0}, min[SLICE / RP_SUM_BLOCK] = {0};
            dequantize(rows + rp_row_bytes(dtype, i), len, q, scale, min);
            for (int u = 0; u < len / sub_elems; u++) {
                const int64_t at  = i + u * sub_elems;
                float        *p   = &acc[u % RP_KSTEP_SUBS];
                int32_t       dot = 0;
                for (int k = 0; k < sub_elems; k++) dot += (q[u * sub_elems + k] - form->offset) * x->q[at + k];
                *p = fmaf(scale[u * per_sub] * x->scale[at / 32], (float)dot, *p);
                if (form->has_min) *p = fmaf(min[u * per_sub], rp_sub_sum(form, x, at), *p);
            }
        }
        y[m] = (acc[0] + acc[2]) + (acc[1] + acc[3]);
    }
}

DotKernels rp_dot_kernels(void) {
#if defined(__x86_64__)
    if (rp_cpu_isa() == RP_ISA_AVX512_VNNI)
        return (DotKernels){rp_pack_panel_avx512, rp_tile_avx512,    rp_gemv_avx512,    rp_unpack_panel_avx512,
                            rp_repacked_avx512,   4 * RP_GROUP_COLS, 4 * RP_GROUP_COLS, NULL};
    if (rp_cpu_isa() == RP_ISA_AVX2)
        return (DotKernels){rp_pack_panel_avx2, rp_tile_avx2,  rp_gemv_avx2, rp_unpack_panel_avx2,
                            rp_repacked_avx2,   RP_GROUP_COLS, RP_FEW_COLS,  rp_rows_avx2};
#endif
#if defined(__aarch64__)
    if (rp_cpu_isa() == RP_ISA_NEON_DOTPROD)
        return (DotKernels){
            rp_pack_panel_neon, rp_tile_neon_dotprod, rp_gemv_neon_dotprod, rp_unpack_panel_neon, NULL, 0, 0, NULL};
    if (rp_cpu_isa() == RP_ISA_NEON)
        return (DotKernels){rp_pack_panel_neon, rp_tile_neon, rp_gemv_neon, rp_unpack_panel_neon, NULL, 0, 0, NULL};
#endif
    return (DotKernels){rp_pack_panel_plain, rp_tile_plain, rp_gemv_plain, rp_unpack_panel_plain, NULL, 0, 0, NULL};
}
