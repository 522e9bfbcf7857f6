/* mul_mat_blas.h - products with many columns, by the library of blas.h. */
#ifndef KERNELS_MUL_MAT_BLAS_H
#define KERNELS_MUL_MAT_BLAS_H

#include "kernels/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *taken is false, and nothing launched, where the library does not have the product. */
RP_NODISCARD RpStatus rp_cuda_mul_mat_blas(const OpArgs *args, KernelCtx *ctx, bool *taken);

#ifdef __cplusplus
}
#endif
#endif
