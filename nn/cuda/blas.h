/* blas.h - gemm on a CUDA device, by cuBLASLt or by the kernel. */
#ifndef NN_CUDA_BLAS_H
#define NN_CUDA_BLAS_H

#include "base/kernels.h"

/* Runs op gemm. RP_E_NOT_AVAILABLE if REPRISE_BLAS names a library that cannot be opened; errors of the launcher. */
RP_NODISCARD RpStatus rp_nn_run_gemm(int device, const RpOpArgs *args, RpKernelCtx *ctx);

#endif
