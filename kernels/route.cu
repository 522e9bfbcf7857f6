/* Weights of the chosen experts: w[j] = probs[ids[j,t],t], then optionally softmax over j, w / sum(w), times scale.
 * geometry  one warp per token
 * traffic   k ids, probabilities and weights per token: 12*k bytes
 * numerics  sums in f32 in the order of j; the device's expf */
#include "kernels/device/route.cuh"

namespace {

__global__ void __launch_bounds__(RP_WARP)
    route_kernel(RpTensorView probs, RpTensorView ids, RpTensorView y, RpRouteParams p) {
    rp_begin();
    const int64_t t = blockIdx.x, k = y.ne[0];
    rp_route((const float *)rp_row(probs, t), (int)probs.ne[0], (const int32_t *)ids.data + t * k, (int)k, p,
             (float *)rp_row(y, t));
}

} // namespace

extern "C" RpStatus rp_cuda_route(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(route, args));
    const LaunchShape shape = {dim3((unsigned)args->route.probs.ne[1]), dim3(RP_WARP), 0};
    return RP_LAUNCH("route", ctx, shape, route_kernel, args->route.probs, args->route.ids, args->dst,
                     args->params->route);
}
