/* y = x converted and packed; or, with a destination, d[:,pos[t]] = x[:,t], rows with pos outside of d left
 * out. geometry  one thread an element, blocks of 256 traffic   x and y once */
#include "kernels/device.cuh"

enum { THREADS = 256 };

__device__ static void put(RpDtype type, char *row, int64_t i, float v) {
    if (type == RP_F32)
        ((float *)row)[i] = v;
    else if (type == RP_F16)
        ((uint16_t *)row)[i] = __half_as_ushort(__float2half_rn(v));
    else {
        const unsigned bits = __float_as_uint(v);
        ((uint16_t *)row)[i] =
            (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40
                                                          : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

__global__ void __launch_bounds__(THREADS)
    copy_kernel(TensorView x, TensorView pos, TensorView y, bool stores) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = x.ne[0];
    if (i >= n * x.ne[1] * x.ne[2] * x.ne[3]) return;
    const int64_t r  = i / n;
    int64_t       to = r;
    if (stores) {
        int64_t row = r % x.ne[1];
        if (pos.data != nullptr) row = ((const int32_t *)pos.data)[row];
        if (row < 0 || row >= y.ne[1]) return;
        to = r / x.ne[1] * y.ne[1] + row;
    }
    const char *element = rp_row(x, r) + (size_t)(i % n) * x.nb[0];
    put(y.dtype, rp_row(y, to), i % n, rp_float_at(x.dtype, element, 0));
}

extern "C" RpStatus rp_cuda_copy(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_copy(args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->src[0]), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("copy", ctx, shape, copy_kernel, args->src[0], args->src[2], args->dst,
                     rp_has_src(args, 1));
}
