/* sgemm by CBLAS, one call for each matrix of the batch. A product with one row or one column is sgemv, which reads the
 * matrix once:
 *
 *     m = 1    C = alpha B^T a + beta C        n = 1    C = alpha A b + beta C */
#include "nn/blas/blas.h"

#include <cblas.h>

/* y = alpha op(matrix) x + beta y, where op(matrix) is [rows,columns] and is stored so, or [columns,rows] if
 * transposed. */
static void gemv(const float *matrix, bool transposed, int rows, int columns, const float *x, float *y,
                 const NnGemm *g) {
    cblas_sgemv(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, transposed ? columns : rows,
                transposed ? rows : columns, g->alpha, matrix, transposed ? rows : columns, x, 1, g->beta, y, 1);
}

/* Row-major: the leading dimension of a matrix is the length of its rows as they lie in memory. */
static void gemm(const float *A, const float *B, float *C, const NnGemm *g) {
    const CBLAS_TRANSPOSE a = g->transpose_a ? CblasTrans : CblasNoTrans,
                          b = g->transpose_b ? CblasTrans : CblasNoTrans;
    if (g->m == 1)
        gemv(B, !g->transpose_b, g->n, g->k, A, C, g);
    else if (g->n == 1)
        gemv(A, g->transpose_a, g->m, g->k, B, C, g);
    else
        cblas_sgemm(CblasRowMajor, a, b, g->m, g->n, g->k, g->alpha, A, g->transpose_a ? g->m : g->k, B,
                    g->transpose_b ? g->k : g->n, g->beta, C, g->n);
}

bool rp_nn_blas_gemm(const NnGemm *g) {
    for (int64_t s = 0; s < g->batch; s++)
        gemm(g->A + s * g->stride_a, g->B + s * g->stride_b, g->C + s * g->stride_c, g);
    return true;
}
