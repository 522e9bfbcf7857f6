/* mul_mat_blas.h - products with many columns by cuBLASLt (base/blas.h). */
#ifndef KERNELS_BLAS_MUL_MAT_BLAS_H
#define KERNELS_BLAS_MUL_MAT_BLAS_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches the product if the library was prepared for it. Otherwise *taken is false and nothing is launched. */
RP_NODISCARD RpStatus rp_cuda_mul_mat_blas(const RpOpArgs *args, RpKernelCtx *ctx, bool *taken);

/* The scratch memory that it needs, 0 where the library is not used. */
ScratchBytes rp_cuda_mul_mat_blas_scratch;

#ifdef __cplusplus
}
#endif
#endif
