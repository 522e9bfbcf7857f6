/* A build without a BLAS. */
#include "nn/blas/blas.h"

bool rp_nn_blas_gemm(const NnGemm *g) { return (void)g, false; }
