/* A build without a BLAS (RP_BLAS=off, or none was found): gemm.c then runs the op gemm. */
#include "nn/blas/blas.h"

bool rp_nn_blas_gemm(const NnGemm *g) { return (void)g, false; }
