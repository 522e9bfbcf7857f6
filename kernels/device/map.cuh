/* map.cuh - element-wise kernels: y = f(x), and y = f(a, b) with b broadcast. All f32.
 *     thread i of the grid: element i % ne[0] of row i / ne[0]
 * geometry  one thread per element, blocks of 256
 * traffic   each source and the result once: 4*(sources + 1)*elements bytes
 * x and y may be the same memory (I6): a thread reads its element before it writes it. */
#ifndef KERNELS_DEVICE_MAP_CUH
#define KERNELS_DEVICE_MAP_CUH

#include "kernels/device/device.cuh"

enum { RP_MAP_THREADS = 256 };

template <class F>
__global__ void __launch_bounds__(RP_MAP_THREADS) rp_map_kernel(RpTensorView x, RpTensorView y, F f) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * RP_MAP_THREADS + threadIdx.x, n = y.ne[0];
    if (i >= n * y.ne[1] * y.ne[2] * y.ne[3]) return;
    ((float *)rp_row(y, i / n))[i % n] = f(((const float *)rp_row(x, i / n))[i % n]);
}

template <class F>
__global__ void __launch_bounds__(RP_MAP_THREADS)
    rp_map2_kernel(RpTensorView a, RpTensorView b, RpTensorView y, F f) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * RP_MAP_THREADS + threadIdx.x, n = y.ne[0];
    if (i >= n * y.ne[1] * y.ne[2] * y.ne[3]) return;
    const float other                  = rp_repeated_row(a, b, i / n)[i % n % b.ne[0]];
    ((float *)rp_row(y, i / n))[i % n] = f(((const float *)rp_row(a, i / n))[i % n], other);
}

template <class F> static RpStatus rp_map(const char *op, const RpOpArgs *args, RpKernelCtx *ctx, F f) {
    RP_TRY(rp_check_unary(op, args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->dst), RP_MAP_THREADS)),
                               dim3(RP_MAP_THREADS), 0};
    return RP_LAUNCH(op, ctx, shape, rp_map_kernel<F>, args->unary.x, args->dst, f);
}

template <class F> static RpStatus rp_map2(const char *op, const RpOpArgs *args, RpKernelCtx *ctx, F f) {
    RP_TRY(rp_check_repeat(op, args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->dst), RP_MAP_THREADS)),
                               dim3(RP_MAP_THREADS), 0};
    return RP_LAUNCH(op, ctx, shape, rp_map2_kernel<F>, args->binary.a, args->binary.b, args->dst, f);
}

#endif
