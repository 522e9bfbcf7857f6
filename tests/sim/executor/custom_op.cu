/* The CUDA kernel of the custom ops of test_cuda_extend.c: y[i] = x[i] + by, one thread an element. */
#include "kernels/device/launch.cuh"

__global__ void custom_shift_kernel(float *y, const float *x, float by, int64_t n) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + by;
}

extern "C" RpStatus custom_shift_cuda(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t     n     = rp_view_elems(&args->dst);
    const LaunchShape shape = {dim3(rp_blocks(n, 64)), dim3(64), (unsigned)args->params->custom.i[0]};
    return RP_LAUNCH("shift", ctx, shape, custom_shift_kernel, (float *)args->dst.data,
                     (const float *)args->src[0].data, args->params->custom.f[0], n);
}
