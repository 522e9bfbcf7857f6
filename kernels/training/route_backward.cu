/* dprobs[ids[j,t],t] = gradient of route with respect to the probability of choice j
 *           (fallback/training/route_backward.c)
 * geometry  one warp per token: all lanes clear its row, then lane 0 computes the k gradients
 * traffic   dprobs once; k ids, probabilities and gradients: 4*n + 12*k bytes per token
 * numerics  f32, sums in the order of j; the device's expf */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

/* u[j] = probs[ids[j]], or its softmax. */
__device__ void values_of(const float *probs, int n, const int32_t *ids, int k, bool soft_max, float *u) {
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < k; j++) {
        u[j] = ids[j] >= 0 && ids[j] < n ? probs[ids[j]] : 0.0f;
        top  = u[j] > top || u[j] != u[j] ? u[j] : top;
    }
    for (int j = 0; j < k && soft_max; j++) sum += u[j] = expf(u[j] - top);
    for (int j = 0; j < k && soft_max; j++) u[j] /= sum;
}

__global__ void __launch_bounds__(RP_WARP)
    route_backward_kernel(const float *dy, const float *probs, const int32_t *ids, float *dx, int n, int k,
                          RpRouteParams p) {
    rp_begin();
    RP_SHARED(float, u, [RP_ROUTE_BACKWARD_MAX]);
    const size_t t = blockIdx.x;
    dy += t * k, ids += t * k, probs += t * n, dx += t * n;
    for (int i = (int)threadIdx.x; i < n; i += RP_WARP) dx[i] = 0.0f;
    __syncwarp();
    if (threadIdx.x != 0) return;
    values_of(probs, n, ids, k, p.soft_max, u);
    float sum = 0.0f, of_g = 0.0f; /* sum u, sum g u */
    for (int j = 0; j < k; j++) sum += u[j], of_g = fmaf(p.scale * dy[j], u[j], of_g);
    const bool  small   = sum < 0x1p-14f;
    const float divisor = !p.normalize ? 1.0f
                          : small      ? 0x1p-14f
                                       : sum,
                mean    = p.normalize && !small ? of_g / sum : 0.0f;
    float again         = 0.0f; /* sum g u after the division */
    for (int j = 0; j < k; j++) again = fmaf((p.scale * dy[j] - mean) / divisor, u[j], again);
    for (int j = 0; j < k; j++) {
        const float g = (p.scale * dy[j] - mean) / divisor;
        if (ids[j] >= 0 && ids[j] < n) dx[ids[j]] += p.soft_max ? u[j] * (g - again) : g;
    }
}

} // namespace

extern "C" RpStatus rp_cuda_route_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(route_backward, args));
    const RpTensorView *probs = &args->route_backward.probs;
    const LaunchShape   shape = {dim3((unsigned)probs->ne[1]), dim3(RP_WARP), 0};
    return RP_LAUNCH("route_backward", ctx, shape, route_backward_kernel, (const float *)args->route_backward.dy.data,
                     (const float *)probs->data, (const int32_t *)args->route_backward.ids.data,
                     (float *)args->dst.data, (int)probs->ne[0], (int)args->route_backward.ids.ne[0],
                     args->params->route_backward);
}
