/* sgemm by CBLAS, one call for each matrix of the batch. */
#include "nn/blas/blas.h"

#include <cblas.h>

/* A leading dimension is at least 1, also of a matrix without elements. */
static int leading(int32_t n) { return n > 0 ? n : 1; }

bool rp_nn_blas_gemm(const NnGemm *g) {
    for (int64_t s = 0; s < g->batch; s++)
        cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                    g->transpose_b ? CblasTrans : CblasNoTrans, g->m, g->n, g->k, g->alpha,
                    g->A + s * g->stride_a, leading(g->transpose_a ? g->m : g->k), g->B + s * g->stride_b,
                    leading(g->transpose_b ? g->k : g->n), g->beta, g->C + s * g->stride_c, g->n);
    return true;
}
