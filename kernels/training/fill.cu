/* y = value
 * geometry  one thread for four elements, blocks of 256
 * traffic   y once: 4*elements bytes
 * numerics  exact */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256, EACH = 4 };

__global__ void __launch_bounds__(THREADS) fill_kernel(float *y, int64_t n, float value) {
    rp_begin();
    const int64_t  i    = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * EACH;
    const unsigned bits = __float_as_uint(value);
    if (i + EACH <= n) return rp_put16(y + i, make_uint4(bits, bits, bits, bits));
    for (int64_t e = i; e < n; e++) y[e] = value;
}

} // namespace

extern "C" RpStatus rp_cuda_fill(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(fill, args));
    if ((uintptr_t)args->dst.data % 16 != 0) return rp_fail(RP_E_ARG, "fill: the result is not aligned to 16 bytes");
    const int64_t     n     = rp_view_elems(&args->dst);
    const LaunchShape shape = {dim3(rp_blocks(n, THREADS * EACH)), dim3(THREADS), 0};
    return RP_LAUNCH("fill", ctx, shape, fill_kernel, (float *)args->dst.data, n, args->params->fill.value);
}
