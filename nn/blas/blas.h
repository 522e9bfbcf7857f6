/* blas.h - sgemm on the host by the BLAS that the build found (RP_BLAS of cmake/nn.cmake). */
#ifndef NN_BLAS_BLAS_H
#define NN_BLAS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* The arguments of gemm_batched (nn.h). */
typedef struct NnGemm {
    const float *A, *B;
    float       *C;
    int64_t      batch;
    int32_t      m, n, k;
    int64_t      stride_a, stride_b, stride_c;
    bool         transpose_a, transpose_b;
    float        alpha, beta;
} NnGemm;

/* Computes it; no size is 0. False, and nothing done, in a build without a BLAS. */
bool rp_nn_blas_gemm(const NnGemm *g);

#endif
