/* part.h - the kernels of ops as parts of a fused one: what one worker does alone, in memory of its own. A fused
 * kernel that is made of them gives the bits that the ops give one after the other. */
#ifndef FALLBACK_FUSED_H
#define FALLBACK_FUSED_H

#include "reprise/check.h"

/* rp_cpu_needs of one op. */
typedef CpuNeeds NeedsFunction(const OpArgs *args);
NeedsFunction    rp_needs_linear, rp_needs_gate_up, rp_needs_qkv, rp_needs_router, rp_needs_experts_down,
    rp_needs_mul_mat, rp_needs_mul_mat_id, rp_needs_attention;

enum { RP_LOCAL_ALIGN = 64 };

static inline size_t rp_align_bytes(size_t bytes) {
    return (bytes + RP_LOCAL_ALIGN - 1) / RP_LOCAL_ALIGN * RP_LOCAL_ALIGN;
}

static inline size_t rp_align_floats(int64_t n) { return rp_align_bytes((size_t)n * sizeof(float)); }

static inline RpStatus rp_run_alone(OpKernel *kernel, const OpArgs *args) {
    return kernel(args, &(KernelCtx){.ith = 0, .nth = 1});
}

static inline TensorView rp_floats(float *data, int64_t ne0, int64_t ne1) {
    return rp_view_contiguous(RP_F32, (int64_t[RP_MAX_DIMS]){ne0, ne1, 1, 1}, data);
}

/* What rp_column takes of a worker's own memory. */
static inline size_t rp_column_bytes(int64_t n) {
    return rp_align_floats(n) + rp_align_bytes((size_t)n / 32 * 44);
}

/* The column of a product (ColumnParams): x itself, or made from it in `own`. `norm` has ne 0 where it is absent. */
RpStatus rp_column(const TensorView *x, const TensorView *norm, const ColumnParams *c, char *own,
                   TensorView *out);

/* y[0..n) = rows [first, first + n) of the matrix w times the column. */
RpStatus rp_rows(const TensorView *w, int64_t first, int64_t n, const TensorView *x, float *y);

/* Elements [at, at + n) of a q8_act row of row_n elements; both are multiples of 32. */
void rp_quantize_range(const float *x, int64_t n, char *row, int64_t row_n, int64_t at);

/* y[i] += x[i]; nothing where x is absent. */
static inline void rp_add_range(float *y, const TensorView *x, int64_t first, int64_t n) {
    const float *from = (const float *)x->data;
    for (int64_t i = 0; i < n && x->ne[0] > 0; i++) y[i] += from[first + i];
}

/* As op scale has it; nothing for 1. */
static inline void rp_scale_range(float *y, float scale, int64_t n) {
    for (int64_t i = 0; i < n && scale != 1.0f; i++) y[i] = scale * y[i] + 0.0f;
}

#endif
