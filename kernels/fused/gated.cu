/* y = norm(x) * silu(z), or x * sigmoid(z)
 * geometry  one block of 256 threads per row
 * traffic   x twice (the second time from L2), z, w and y once: 4*(3*rows*n + n) bytes of DRAM
 * numerics  the norm as rms_norm; the device's expf
 * x and y may be the same memory (I6): a thread reads its elements again before it writes them. */
#include "kernels/device/act.cuh"
#include "kernels/device/rms_norm.cuh"

namespace {

enum { THREADS = RP_NORM_THREADS };

__global__ void __launch_bounds__(THREADS, 4)
    gated_kernel(RpTensorView x, RpTensorView z, RpTensorView w, RpTensorView y, RpGatedParams p, bool same) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t n  = x.ne[0];
    const float  *in = (const float *)rp_row(x, blockIdx.x), *weight = (const float *)w.data;
    const float  *gate  = same ? (const float *)rp_row(z, blockIdx.x) : (const float *)z.data + blockIdx.x * n;
    float        *out   = (float *)rp_row(y, blockIdx.x);
    const float   scale = p.norm != 0 ? rp_rms_scale<false>(in, n, p.eps, scratch) : 1.0f;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float normed = in[i] * scale * (weight != nullptr ? weight[i] : 1.0f);
        out[i]             = (p.silu != 0 ? Silu()(gate[i]) : Sigmoid()(gate[i])) * normed;
    }
}

} // namespace

extern "C" RpStatus rp_cuda_gated(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gated, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    const bool        same  = memcmp(args->gated.x.ne, args->gated.z.ne, sizeof args->gated.x.ne) == 0;
    return RP_LAUNCH("gated", ctx, shape, gated_kernel, args->gated.x, args->gated.z, args->gated.w, args->dst,
                     args->params->gated, same);
}
