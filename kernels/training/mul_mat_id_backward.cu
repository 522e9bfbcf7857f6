/* dw[:,:,e] = sum of x[:,c] dy[:,c]^T over the columns c = j + k*t with ids[c] = e
 * geometry  one block of 256 threads for 64 x 64 results of an expert, 4 x 4 of them for each thread. It finds the
 *           columns of its expert (expert_columns.cuh) and stages 16 of them at a time, x[column][j] and dy[column][i]
 * traffic   dw once; x once for each 64 rows, dy once for each 64 columns of dw; each block reads all ids, from L2:
 *           4*k*t bytes
 * numerics  each result is one chain of fma in the order of the columns: no atomics, so the order is fixed (I8) */
#include "kernels/device/expert_columns.cuh"
#include "kernels/device/outer_tile.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = RP_COLUMNS_THREADS, SIDE = RP_OUTER_SIDE, TERMS = RP_OUTER_TERMS, ROW = RP_OUTER_ROW };

struct BackwardArgs {
    RpTensorView x, dy, dw;
    ExpertIds    ids;
    int          across; /* tiles */
};

/* Element `first` and the next ones of `n` columns, of `left` elements that exist: to[column][SIDE]. */
__device__ void stage(const RpTensorView &v, int64_t k, const int *list, int n, int64_t first, float *to) {
    const int64_t left = v.ne[0] - first;
    for (int i = (int)threadIdx.x; i < TERMS * SIDE; i += THREADS) {
        const int c = i / SIDE, e = i % SIDE;
        float     value = 0.0f;
        if (c < n && e < left)
            value = ((const float *)rp_row_at(v, v.ne[1] > 1 ? list[c] % k : 0, list[c] / k, 0))[first + e];
        to[c * ROW + e] = value;
    }
}

__global__ void __launch_bounds__(THREADS) mul_mat_id_backward_kernel(BackwardArgs p) {
    rp_begin();
    RP_SHARED(FoundColumns, found, [1]);
    RP_SHARED(float4, memory, [2 * TERMS * ROW / 4]);
    float        *dy = (float *)memory, *x = dy + TERMS * ROW, sum[4][4] = {};
    const int     e  = (int)blockIdx.y;
    const int64_t i0 = (int64_t)(blockIdx.x / (unsigned)p.across) * SIDE,
                  j0 = (int64_t)(blockIdx.x % (unsigned)p.across) * SIDE, k = p.dy.ne[1];
    for (int at = 0, n; (n = rp_next_columns(p.ids, e, &at, found[0])) > 0;)
        for (int first = 0; first < n; first += TERMS) {
            stage(p.dy, k, found[0].list + first, n - first, i0, dy);
            stage(p.x, k, found[0].list + first, n - first, j0, x);
            __syncthreads();
            rp_outer_products(dy, x, sum);
            __syncthreads();
        }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            const int64_t i = i0 + (int)threadIdx.x / 16 * 4 + r, j = j0 + (int)threadIdx.x % 16 * 4 + c;
            if (i < p.dw.ne[1] && j < p.dw.ne[0]) ((float *)rp_row_at(p.dw, i, e, 0))[j] = sum[r][c];
        }
}

} // namespace

extern "C" RpStatus rp_cuda_mul_mat_id_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id_backward, args));
    const RpTensorView &x = args->mul_mat_id_backward.x, &dy = args->mul_mat_id_backward.dy,
                       &ids = args->mul_mat_id_backward.ids;
    const int64_t columns = rp_view_elems(&ids), n_expert = args->dst.ne[2];
    if (columns > INT32_MAX / 2 || n_expert > 65535)
        return rp_fail(RP_E_UNSUPPORTED,
                       "mul_mat_id_backward: %lld columns of %lld experts: must be at most %d of 65535",
                       (long long)columns, (long long)n_expert, INT32_MAX / 2);
    const unsigned     across = rp_blocks(x.ne[0], SIDE);
    const LaunchShape  shape  = {dim3(across * rp_blocks(dy.ne[0], SIDE), (unsigned)n_expert), dim3(THREADS), 0};
    const BackwardArgs p      = {
             x, dy, args->dst, {(const int32_t *)ids.data, (int)columns, (int)n_expert},
                (int)across
    };
    return RP_LAUNCH("mul_mat_id_backward", ctx, shape, mul_mat_id_backward_kernel, p);
}
