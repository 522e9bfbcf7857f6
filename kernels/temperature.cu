/* y[t] = 1 + scale * ln(1 + floor(pos[t] / length)); 1 for a negative position, that of a padding token.
 * geometry  one thread per token, blocks of 256
 * traffic   8 bytes a token
 * numerics  f32, the device's logf */
#include "kernels/device/device.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    temperature_kernel(const int32_t *pos, float *y, int64_t n, RpTemperatureParams p) {
    rp_begin();
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= n) return;
    y[t] = 1.0f + p.scale * logf(1.0f + (float)(pos[t] > 0 ? pos[t] / p.length : 0));
}

} // namespace

extern "C" RpStatus rp_cuda_temperature(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(temperature, args));
    const int64_t     n     = rp_view_elems(&args->temperature.pos);
    const LaunchShape shape = {dim3(rp_blocks(n, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("temperature", ctx, shape, temperature_kernel, (const int32_t *)args->temperature.pos.data,
                     (float *)args->dst.data, n, args->params->temperature);
}
