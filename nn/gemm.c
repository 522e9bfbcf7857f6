/* gemm and gemm_batched of nn.h: C = alpha A B + beta C by the op gemm, or on the host by sgemm of a BLAS. A
 * transposed matrix is a view:
 *
 *     A [M,K]    element (k, i) at k + i * K        ne {K, M}   nb {4, 4 K}
 *     A [K,M]    element (k, i) at k * M + i        ne {K, M}   nb {4 M, 4}
 *
 * The conventions of BLAS hold: beta 0 does not read C, so NaN in it does no harm, and alpha 0 reads neither A nor
 * B. The op sums k in a fixed order. A BLAS or cuBLASLt chooses its own, so its results differ from those of the op
 * in the last bits. */
#include "nn/blas/blas.h"
#include "nn/call.h"

/* A view of `rows` x `columns` floats for each s < batch. transposed: they lie in memory column by column. stride:
 * floats from one matrix to the next. */
static RpTensorView matrix(const float *data, int64_t columns, int64_t rows, bool transposed, int64_t stride,
                           int64_t batch) {
    RpTensorView v = rp_nn_view(RP_F32, data, columns, rows, batch);
    if (transposed) v.nb[0] = (size_t)rows * sizeof(float), v.nb[1] = sizeof(float);
    v.nb[2] = (size_t)stride * sizeof(float);
    return v;
}

/* Whether `batch` matrices of rows * columns floats, `stride` apart, are memory that can exist. */
static RpStatus extent(const char *function, const char *name, int64_t rows, int64_t columns, int64_t batch,
                       int64_t stride) {
    bool empty;
    RP_TRY(rp_nn_sizes(function, rows, columns, &empty));
    const int64_t most = INT64_MAX / (int64_t)sizeof(float);
    if (stride >= 0 && (batch < 2 || stride <= (most - rows * columns) / (batch - 1))) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: stride %lld of %s, %lld matrices: must be 0 or more, and end within 2^63 bytes",
                   function, (long long)stride, name, (long long)batch);
}

/* Also refuses matrices of C that overlap: several workers or blocks would write them at the same time. A stride of
 * 0 is allowed for A and B, which then serve all matrices. *empty: C has no element. K = 0 is not empty: C becomes
 * beta C. */
static RpStatus check(const char *function, const NnGemm *g, bool *empty) {
    if (g->batch < 0 || g->m < 0 || g->n < 0 || g->k < 0)
        return rp_fail(RP_E_ARG, "%s: %lld matrices, M %d, N %d, K %d: none may be negative", function,
                       (long long)g->batch, g->m, g->n, g->k);
    RP_TRY(extent(function, "A", g->m, g->k, g->batch, g->stride_a));
    RP_TRY(extent(function, "B", g->k, g->n, g->batch, g->stride_b));
    RP_TRY(extent(function, "C", g->m, g->n, g->batch, g->stride_c));
    if (g->batch > 1 && g->stride_c < (int64_t)g->m * g->n)
        return rp_fail(RP_E_ARG, "%s: stride %lld of C: the matrices of %lld floats overlap", function,
                       (long long)g->stride_c, (long long)g->m * g->n);
    *empty = g->batch == 0 || g->m == 0 || g->n == 0;
    if (*empty) return RP_OK;
    const float *const A = g->A, *const B = g->B, *const C = g->C;
    const bool reads = g->k > 0 && g->alpha != 0.0f;
    if (reads) RP_NN_NOT_NULL(function, A);
    if (reads) RP_NN_NOT_NULL(function, B);
    RP_NN_NOT_NULL(function, C);
    return RP_OK;
}

static RpStatus gemm(const NnCall *call, const char *function, const NnGemm *g) {
    bool empty = false;
    RP_TRY(check(function, g, &empty));
    if (empty) return RP_OK;
    const bool adds = g->k > 0 && g->alpha != 0.0f; /* without it some BLAS libraries read A and B for small sizes */
    if (!call->cuda && adds && rp_nn_blas_gemm(g)) return RP_OK;
    const RpOpParams p = {
        .gemm = {.alpha = g->alpha, .beta = g->beta}
    };
    RpOpArgs args = {
        .dst    = matrix(g->C, g->n, g->m, false, g->stride_c, g->batch),
        .gemm   = {.a = matrix(g->A, g->k, g->m, g->transpose_a, g->stride_a, g->batch),
                   .b = matrix(g->B, g->n, g->k, g->transpose_b, g->stride_b, g->batch)},
        .params = &p
    };
    if (g->beta != 0.0f) args.gemm.c = args.dst;
    return rp_nn_run(call, RP_OP_GEMM, &args);
}

RpStatus rp_nn_call_gemm(const NnCall *call, const float *A, const float *B, float *C, int32_t M, int32_t N, int32_t K,
                         float alpha, float beta) {
    return gemm(call, "gemm",
                &(NnGemm){.A = A, .B = B, .C = C, .batch = 1, .m = M, .n = N, .k = K, .alpha = alpha, .beta = beta});
}

RpStatus rp_nn_call_gemm_batched(const NnCall *call, const float *A, const float *B, float *C, int64_t batch, int32_t M,
                                 int32_t N, int32_t K, int64_t stride_a, int64_t stride_b, int64_t stride_c,
                                 int32_t transpose_a, int32_t transpose_b, float alpha, float beta) {
    return gemm(call, "gemm_batched",
                &(NnGemm){A, B, C, batch, M, N, K, stride_a, stride_b, stride_c, transpose_a != 0, transpose_b != 0,
                          alpha, beta});
}
