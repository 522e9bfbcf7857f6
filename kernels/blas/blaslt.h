/* blaslt.h - the interface of the launchers to cuBLASLt: one GEMM described, prepared at open, and enqueued. */
#ifndef KERNELS_BLAS_BLASLT_H
#define KERNELS_BLAS_BLASLT_H

#include "base/blas.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[m,t] = alpha * sum_k w[k,m] * x[k,t] + beta * y[m,t], m < rows, t < columns, k < inner. w and x have one float
 * type, y is f32. Element (k, m) of w lies at w + m * ld_w + k, or at w + k * ld_w + m if w_across. Element (k, t) of
 * x lies at x + t * ld_x + k, or at x + k * ld_x + t if x_across. align_* are the alignments of the addresses in bytes,
 * at most 256: they are part of the description, since the library chooses its kernel by them. */
typedef struct BlasProduct {
    int64_t  rows, columns, inner, ld_w, ld_x, ld_y;
    RpDtype  type;
    unsigned align_w, align_x, align_y;
    bool     w_across, x_across;
} BlasProduct;

/* A prepared product: descriptors and the algorithm that the library chose. Owned by the RpBlasLt. */
typedef struct BlasPlan BlasPlan;

/* One call of the library: a prepared product and its addresses. */
typedef struct BlasCall {
    BlasPlan   *plan;
    const void *w, *x;
    void       *y;
    float       alpha, beta;
} BlasCall;

/* Largest power of two, up to 256, that divides the address. */
static inline unsigned rp_blas_align(const void *p) {
    const uintptr_t low = (uintptr_t)p & (~(uintptr_t)p + 1);
    return low == 0 || low > 256 ? 256u : (unsigned)low;
}

/* Describes the product to the library and asks for an algorithm, once per product. A refusal is remembered and is
 * not an error; RP_E_NOMEM is. */
RP_NODISCARD RpStatus rp_blaslt_prepare(RpBlasLt *b, const BlasProduct *p);

/* NULL for a product that was not prepared or is refused. */
BlasPlan *rp_blaslt_find(RpBlasLt *b, const BlasProduct *p);

/* Has the signature of RpKernelLaunch.enqueue; `call` is a BlasCall. RP_E_CUDA if the library fails; the product counts
 * as refused from then on. */
RP_NODISCARD RpStatus rp_blaslt_enqueue(void *call, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
