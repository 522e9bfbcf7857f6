/* blaslt.h - what the launchers ask of cuBLASLt. */
#ifndef KERNELS_BLASLT_H
#define KERNELS_BLASLT_H

#include "reprise/blas.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[m,t] = sum_k w[k,m] * x[k,t], m of `rows`, t of `columns`: w and x of one float type with rows of `ld`
 * elements, y f32.
 * The alignments are those of the addresses, at most 256. */
typedef struct BlasProduct {
    int64_t  rows, columns, inner, ld_w, ld_x, ld_y;
    RpDtype  type;
    unsigned align_w, align_x, align_y;
} BlasProduct;

/* How the library computes a product. */
typedef struct BlasPlan BlasPlan;

/* One call of the library. */
typedef struct BlasJob {
    BlasPlan   *plan;
    const void *w, *x;
    void       *y;
} BlasJob;

/* Largest power of two, up to 256, that divides the address. */
static inline unsigned rp_blas_align(const void *p) {
    const uintptr_t low = (uintptr_t)p & (~(uintptr_t)p + 1);
    return low == 0 || low > 256 ? 256u : (unsigned)low;
}

/* Once for each product; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_blaslt_prepare(BlasLt *b, const BlasProduct *p);

/* NULL where it was not prepared or is refused. */
BlasPlan *rp_blaslt_find(BlasLt *b, const BlasProduct *p);

/* The form of KernelLaunch.enqueue, for a BlasJob: RP_E_CUDA where the library fails, which from then on counts as a
 * refusal. */
RP_NODISCARD RpStatus rp_blaslt_enqueue(void *job, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
