/* y[i0,i1,i2,i3] = sum of dy over the places that an operand of this shape repeats to
 * geometry  a block of 256 threads has 32 elements of y, along a row; warp w of 8 adds the terms w, w + 8, w + 16, ...
 * traffic   dy once, y once
 * numerics  f32; the warps of an element are added in order (I8)
 * A result of one element per row (ne[0] = 1) uses one lane of 32. */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256, WARPS = THREADS / RP_WARP };

__global__ void __launch_bounds__(THREADS) repeat_backward_kernel(RpTensorView dy, RpTensorView y) {
    rp_begin();
    RP_SHARED(float, sums, [WARPS][RP_WARP]);
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int64_t blocks = (y.ne[0] + RP_WARP - 1) / RP_WARP, i0 = blockIdx.x % blocks * RP_WARP + lane,
                  r = blockIdx.x / blocks, i1 = r % y.ne[1], i2 = r / y.ne[1] % y.ne[2], i3 = r / (y.ne[1] * y.ne[2]);
    const int64_t a0 = dy.ne[0] / y.ne[0], a1 = dy.ne[1] / y.ne[1], a2 = dy.ne[2] / y.ne[2], a3 = dy.ne[3] / y.ne[3];
    float         sum = 0.0f;
    for (int64_t a = warp; a < a0 * a1 * a2 * a3 && i0 < y.ne[0]; a += WARPS) {
        const char *row = rp_row_at(dy, i1 + a / a0 % a1 * y.ne[1], i2 + a / (a0 * a1) % a2 * y.ne[2],
                                    i3 + a / (a0 * a1 * a2) * y.ne[3]);
        sum += ((const float *)row)[i0 + a % a0 * y.ne[0]];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || i0 >= y.ne[0]) return;
    for (int k = 1; k < WARPS; k++) sum += sums[k][lane];
    ((float *)rp_row(y, r))[i0] = sum;
}

} // namespace

extern "C" RpStatus rp_cuda_repeat_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(repeat_backward, args));
    const RpTensorView *y     = &args->dst;
    const int64_t       units = (y->ne[0] + RP_WARP - 1) / RP_WARP * rp_view_rows(y);
    const LaunchShape   shape = {dim3((unsigned)units), dim3(THREADS), 0};
    return RP_LAUNCH("repeat_backward", ctx, shape, repeat_backward_kernel, args->repeat_backward.dy, *y);
}
