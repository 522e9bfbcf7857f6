/* Weights of the chosen experts: probs[ids[:,t],t], by choice through a softmax among themselves, divided by their
 * sum, and scaled. A token chooses few experts: one thread adds them up in their order.
 * geometry  one thread a token */
#include "kernels/device.cuh"

enum { THREADS = 32 };

__global__ void __launch_bounds__(THREADS)
    route_kernel(TensorView probs, TensorView ids, TensorView y, RouteParams p) {
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, k = y.ne[0];
    if (t >= probs.ne[1]) return;
    const float   *x   = (const float *)rp_row(probs, t);
    const int32_t *id  = (const int32_t *)ids.data + t * k;
    float         *out = (float *)rp_row(y, t), top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < k; j++) {
        out[j] = id[j] >= 0 && id[j] < probs.ne[0] ? x[id[j]] : 0.0f;
        top    = out[j] > top || out[j] != out[j] ? out[j] : top;
    }
    if (p.soft_max) {
        for (int64_t j = 0; j < k; j++) sum += out[j] = expf(out[j] - top);
        for (int64_t j = 0; j < k; j++) out[j] /= sum;
    }
    sum = 0.0f;
    for (int64_t j = 0; j < k; j++) sum += out[j];
    const float divisor = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (int64_t j = 0; j < k; j++) out[j] = (p.normalize ? out[j] / divisor : out[j]) * p.scale;
}

extern "C" RpStatus rp_cuda_route(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_route(args));
    const LaunchShape shape = {dim3(rp_blocks(args->src[0].ne[1], THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("route", ctx, shape, route_kernel, args->src[0], args->src[1], args->dst,
                     args->params->route);
}
