/* rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps)
 * dx[r,:] = rstd w dy[r,:] - x[r,:] rstd^3 / n sum_i dy[r,i] w[i] x[r,i];  dw[i] = sum_r dy[r,i] x[r,i] rstd[r]
 * geometry  dx: one block of 256 threads per row. dw: a block has 32 columns; warp w of 8 adds the rows w, w + 8, ...
 * traffic   dx: dy and x two or three times (from L2 if they are still there), dx once. dw: dy and x once
 * numerics  the sum of squares as two floats (rms_norm.cuh); other sums in f32. The warps of a column are added in
 *           order (I8)
 * Two launches: dw needs the rstd of all rows. */
#include "kernels/device/rms_norm.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = RP_NORM_THREADS, WARPS = THREADS / RP_WARP };

__global__ void __launch_bounds__(THREADS) rms_norm_backward_kernel(const float *dy, const float *x, const float *w,
                                                                    float *rstd, float *dx, int64_t n, float eps) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const size_t at = (size_t)blockIdx.x * (size_t)n;
    dy += at, x += at, dx += at;
    const float root = rp_rms_scale<false>(x, n, eps, scratch);
    float       sum  = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum = fmaf(dy[i] * (w != nullptr ? w[i] : 1.0f), x[i], sum);
    const float of_x = root * root * root / (float)n * rp_block_sum(sum, scratch);
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        dx[i] = fmaf(-of_x, x[i], root * (w != nullptr ? w[i] : 1.0f) * dy[i]);
    if (threadIdx.x == 0 && rstd != nullptr) rstd[blockIdx.x] = root;
}

__global__ void __launch_bounds__(THREADS)
    weights_kernel(const float *dy, const float *x, const float *rstd, float *dw, int64_t n, int64_t rows) {
    rp_begin();
    RP_SHARED(float, sums, [WARPS][RP_WARP]);
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int64_t i   = (int64_t)blockIdx.x * RP_WARP + lane;
    float         sum = 0.0f;
    for (int64_t r = warp; r < rows && i < n; r += WARPS)
        sum = fmaf(dy[(size_t)r * (size_t)n + i], x[(size_t)r * (size_t)n + i] * rstd[r], sum);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || i >= n) return;
    for (int k = 1; k < WARPS; k++) sum += sums[k][lane];
    dw[i] = sum;
}

} // namespace

extern "C" RpStatus rp_cuda_rms_norm_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(rms_norm_backward, args));
    const int64_t n = args->dst.ne[0], rows = rp_view_rows(&args->dst);
    const float  *dy          = (const float *)args->rms_norm_backward.dy.data,
                *x            = (const float *)args->rms_norm_backward.x.data;
    float            *rstd    = (float *)args->rms_norm_backward.rstd.data;
    const LaunchShape shape   = {dim3((unsigned)rows), dim3(THREADS), 0},
                      columns = {dim3(rp_blocks(n, RP_WARP)), dim3(THREADS), 0};
    RP_TRY(RP_LAUNCH("rms_norm_backward", ctx, shape, rms_norm_backward_kernel, dy, x,
                     (const float *)args->rms_norm_backward.w.data, rstd, (float *)args->dst.data, n,
                     args->params->rms_norm_backward.eps));
    if (!rp_is_present(&args->rms_norm_backward.dw)) return RP_OK;
    return RP_LAUNCH("rms_norm_backward", ctx, columns, weights_kernel, dy, x, (const float *)rstd,
                     (float *)args->rms_norm_backward.dw.data, n, rows);
}
