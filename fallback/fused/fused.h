/* fused.h - building blocks of the fused kernels (linear, gate_up, qkv, router, experts_down). They call the kernels of
 * the single ops as one worker, in the worker's local memory. So a fused op has the same bits as its ops run one
 * after the other. Phases, shared and local memory: CpuNeeds in reprise/kernel.h. */
#ifndef FALLBACK_FUSED_FUSED_H
#define FALLBACK_FUSED_FUSED_H

#include "ops/rules.h"

enum { RP_LOCAL_ALIGN = 64 }; /* a cache line, and the widest vector */

static inline size_t rp_align_bytes(size_t bytes) {
    return (bytes + RP_LOCAL_ALIGN - 1) / RP_LOCAL_ALIGN * RP_LOCAL_ALIGN;
}

static inline size_t rp_align_floats(int64_t n) { return rp_align_bytes((size_t)n * sizeof(float)); }

/* Clamps an end of a worker's share of rows to the rows low .. high of one matrix, where the rows of several matrices
 * are numbered one after another. */
static inline int64_t rp_clamped(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Calls the kernel as the only worker: the caller computes all of the result. For kernels of one phase that use neither
 * shared nor local memory. */
static inline RpStatus rp_run_alone(RpOpKernel *kernel, const RpOpArgs *args) {
    return kernel(args, &(RpKernelCtx){.ith = 0, .nth = 1});
}

/* f32 [ne0, ne1], contiguous. */
static inline RpTensorView rp_floats(float *data, int64_t ne0, int64_t ne1) {
    return rp_view_contiguous(RP_F32, (int64_t[RP_MAX_DIMS]){ne0, ne1, 1, 1}, data);
}

/* Bytes of local memory that rp_column needs for a column of n elements: f32 [n], then q8_act [n]. */
static inline size_t rp_column_bytes(int64_t n) {
    return rp_align_floats(n) + rp_align_bytes(rp_row_bytes(RP_Q8_ACT, n));
}

/* The prologue of a fused product (RpColumnParams). *out is x itself, or x normalised and quantised in `local`. An
 * absent `norm` has ne 0. Every worker computes the whole column for itself, so the product needs no barrier before
 * it. */
RpStatus rp_column(const RpTensorView *x, const RpTensorView *norm, const RpColumnParams *c, char *local,
                   RpTensorView *out);

/* y[0..n) = rows [first, first + n) of the matrix w times the column x, as op mul_mat computes them. */
RpStatus rp_mul_mat_rows(const RpTensorView *w, int64_t first, int64_t n, const RpTensorView *x, float *y);

/* y[0..n) = rms_norm of the row x[0..n), times the weight if it is present, as op rms_norm computes it; y may be x. */
RpStatus rp_norm_row(float *x, int64_t n, const RpTensorView *weight, float eps, float *y);

/* Quantises x[0..n) to elements [at, at + n) of a q8_act row of row_n elements; n and at are multiples of 32. */
void rp_quantize_range(const float *x, int64_t n, char *row, int64_t row_n, int64_t at);

/* y[i] += x[first + i]; does nothing if x is absent. */
static inline void rp_add_range(float *y, const RpTensorView *x, int64_t first, int64_t n) {
    const float *from = (const float *)x->data;
    for (int64_t i = 0; i < n && x->ne[0] > 0; i++) y[i] += from[first + i];
}

/* y[i] = scale * y[i] + 0, the bits of op scale with bias 0; does nothing for scale 1. */
static inline void rp_scale_range(float *y, float scale, int64_t n) {
    for (int64_t i = 0; i < n && scale != 1.0f; i++) y[i] = scale * y[i] + 0.0f;
}

#endif
