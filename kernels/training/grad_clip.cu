/* y = min(1, max_norm / (norm + 1e-6)) * x; NaN if the norm is
 * geometry  a thread per four elements, blocks of 256
 * traffic   x and y once: 8*n bytes; in place nothing if the factor is 1
 * numerics  one product in f32, as on the CPU
 * x and y may be the same memory (I6): a thread reads its elements before it writes them. */
#include "kernels/device/four.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    grad_clip_kernel(const float *x, const float *norm, float *y, int64_t n, float max_norm) {
    rp_begin();
    const int64_t i    = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
    const float   clip = max_norm / __fadd_rn(norm[0], 1e-6f);
    float         v[4];
    if (i >= n || (x == y && clip >= 1.0f)) return;
    rp_get_four(x, i, n, 0.0f, v);
    for (int k = 0; k < 4; k++) v[k] *= clip > 1.0f ? 1.0f : clip;
    rp_put_four(y, i, n, v);
}

} // namespace

extern "C" RpStatus rp_cuda_grad_clip(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(grad_clip, args));
    const int64_t     n     = rp_view_elems(&args->dst);
    const LaunchShape shape = {dim3(rp_blocks(n, 4 * THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("grad_clip", ctx, shape, grad_clip_kernel, (const float *)args->grad_clip.x.data,
                     (const float *)args->grad_clip.norm.data, (float *)args->dst.data, n,
                     args->params->grad_clip.max_norm);
}
