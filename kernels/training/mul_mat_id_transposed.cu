/* y[:,c] = w[:,:,ids[c]]^T x[:,c] for the columns c = j + k*t
 * geometry  one block of 256 threads for 64 elements of the columns of an expert; the last row of blocks has the
 *           columns without an expert. A block finds 64 columns at a time (expert_columns.cuh), and multiplies
 *           64 x 64 results, 4 x 4 for each thread, 16 terms at a time, from shared memory
 * traffic   weights of chosen experts once for each 64 columns, x once for each 64 elements of y, y once; each
 *           block reads all ids, from L2: 4*k*t bytes
 * numerics  each result is one chain of fma in the order of the terms (I8) */
#include "kernels/device/expert_columns.cuh"
#include "kernels/device/outer_tile.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = RP_COLUMNS_THREADS, SIDE = RP_OUTER_SIDE, TERMS = RP_OUTER_TERMS, ROW = RP_OUTER_ROW };

struct TransposedArgs {
    RpTensorView w, x, y;
    ExpertIds    ids;
};

/* Terms m0 to m0 + TERMS of n columns: to[term][column]. Neighbouring threads read neighbouring terms. */
__device__ void stage_x(const RpTensorView &x, const int *list, int n, int64_t m0, float *to) {
    const int64_t k = x.ne[1];
    for (int i = (int)threadIdx.x; i < TERMS * SIDE; i += THREADS) {
        const int     c     = i / TERMS;
        const int64_t m     = m0 + i % TERMS;
        float         value = 0.0f;
        if (c < n && m < x.ne[0]) value = ((const float *)rp_row_at(x, list[c] % k, list[c] / k, 0))[m];
        to[i % TERMS * ROW + c] = value;
    }
}

/* Rows m0 to m0 + TERMS of the matrix of expert e: to[term][element]. */
__device__ void stage_w(const RpTensorView &w, int e, int64_t m0, int64_t j0, float *to) {
    for (int i = (int)threadIdx.x; i < TERMS * SIDE; i += THREADS) {
        const int64_t m = m0 + i / SIDE, j = j0 + i % SIDE;
        to[i / SIDE * ROW + i % SIDE] = m < w.ne[1] && j < w.ne[0] ? ((const float *)rp_row_at(w, m, e, 0))[j] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS) mul_mat_id_transposed_kernel(TransposedArgs p) {
    rp_begin();
    RP_SHARED(FoundColumns, found, [1]);
    RP_SHARED(float4, memory, [2 * TERMS * ROW / 4]);
    float        *x = (float *)memory, *w = x + TERMS * ROW;
    const int     e  = (int)blockIdx.y;
    const int64_t j0 = (int64_t)blockIdx.x * SIDE, k = p.x.ne[1], terms = e < p.ids.n_expert ? p.x.ne[0] : 0;
    for (int at = 0, n; (n = rp_next_columns(p.ids, e, &at, found[0])) > 0;) {
        float sum[4][4] = {};
        for (int64_t m0 = 0; m0 < terms; m0 += TERMS) {
            stage_x(p.x, found[0].list, n, m0, x);
            stage_w(p.w, e, m0, j0, w);
            __syncthreads();
            rp_outer_products(x, w, sum);
            __syncthreads();
        }
        for (int r = 0; r < 4; r++) {
            const int c = (int)threadIdx.x / 16 * 4 + r;
            if (c >= n) continue;
            float *y = (float *)rp_row_at(p.y, found[0].list[c] % k, found[0].list[c] / k, 0);
            for (int f = 0; f < 4; f++) {
                const int64_t j = j0 + (int)threadIdx.x % 16 * 4 + f;
                if (j < p.y.ne[0]) y[j] = sum[r][f];
            }
        }
    }
}

} // namespace

extern "C" RpStatus rp_cuda_mul_mat_id_transposed(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id_transposed, args));
    const RpTensorView &w = args->mul_mat_id_transposed.w, &x = args->mul_mat_id_transposed.x,
                       &ids = args->mul_mat_id_transposed.ids;
    const int64_t columns = rp_view_elems(&ids), n_expert = w.ne[2];
    if (columns > INT32_MAX / 2 || n_expert > 65534)
        return rp_fail(RP_E_UNSUPPORTED,
                       "mul_mat_id_transposed: %lld columns of %lld experts: must be at most %d of 65534",
                       (long long)columns, (long long)n_expert, INT32_MAX / 2);
    const LaunchShape    shape = {dim3(rp_blocks(w.ne[0], SIDE), (unsigned)n_expert + 1), dim3(THREADS), 0};
    const TransposedArgs p     = {
            w, x, args->dst, {(const int32_t *)ids.data, (int)columns, (int)n_expert}
    };
    return RP_LAUNCH("mul_mat_id_transposed", ctx, shape, mul_mat_id_transposed_kernel, p);
}
