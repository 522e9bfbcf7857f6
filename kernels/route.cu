/* Weights of the chosen experts: w[j] = probs[ids[j,t],t], then optionally softmax over j, w / sum(w), times scale.
 * geometry  one thread per token, blocks of 32: a token chooses few experts
 * traffic   k ids, probabilities and weights per token: 12*k bytes
 * numerics  sums in f32 in the order of j; the device's expf */
#include "kernels/device/route.cuh"

namespace {

enum { THREADS = 32 };

__global__ void __launch_bounds__(THREADS)
    route_kernel(RpTensorView probs, RpTensorView ids, RpTensorView y, RpRouteParams p) {
    rp_begin();
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, k = y.ne[0];
    if (t >= probs.ne[1]) return;
    rp_route((const float *)rp_row(probs, t), (int)probs.ne[0], (const int32_t *)ids.data + t * k, (int)k, p,
             (float *)rp_row(y, t));
}

} // namespace

extern "C" RpStatus rp_cuda_route(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_route(args));
    const LaunchShape shape = {dim3(rp_blocks(args->route.probs.ne[1], THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("route", ctx, shape, route_kernel, args->route.probs, args->route.ids, args->dst,
                     args->params->route);
}
