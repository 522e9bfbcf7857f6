/* y[:,j,t] = x[:,j,t] + b[:,ids[j,t]]: the bias of the chosen expert. An id outside of b adds 0.
 * geometry  one thread per element, blocks of 256
 * traffic   x and y once, one row of b per id: 12*n bytes for each of the k*tokens rows
 * numerics  one f32 addition
 * The ids are read on the device (I4). x and y may be the same memory (I6). */
#include "kernels/device/device.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    add_id_kernel(RpTensorView x, RpTensorView b, RpTensorView ids, RpTensorView y) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = x.ne[0];
    if (i >= n * x.ne[1] * x.ne[2]) return;
    const int32_t id                   = ((const int32_t *)ids.data)[i / n];
    const float   v                    = ((const float *)rp_row(x, i / n))[i % n];
    const float   add                  = id >= 0 && id < b.ne[1] ? ((const float *)rp_row(b, id))[i % n] : 0.0f;
    ((float *)rp_row(y, i / n))[i % n] = v + add;
}

} // namespace

extern "C" RpStatus rp_cuda_add_id(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(add_id, args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->dst), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("add_id", ctx, shape, add_id_kernel, args->add_id.x, args->add_id.b, args->add_id.ids, args->dst);
}
