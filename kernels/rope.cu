/* Rotary position embedding: (a, b) -> (a cos t - b sin t, a sin t + b cos t), t = theta_i(pos), for pair i of
 * x[:,h,t]. Pairs are (2i, 2i+1) or (i, i + n_dims/2); elements from n_dims on are copied.
 * geometry  one thread per pair or copied element, blocks of 128
 * traffic   x and y once
 * numerics  angles in 64 bits: at position 10^5 the f32 angle has an error of some 0.004 radians */
#include "kernels/device/rope.cuh"

namespace {

enum { THREADS = 128 };

__global__ void __launch_bounds__(THREADS)
    rope_kernel(RpTensorView x, RpTensorView pos, RpTensorView factors, RpTensorView y, RopeShape s) {
    rp_begin();
    const int     pairs = s.p.n_dims / 2;
    const int64_t items = pairs + x.ne[0] - s.p.n_dims, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= items * x.ne[1] * x.ne[2]) return;
    const int64_t row = i / items, item = i % items;
    const float  *in  = (const float *)rp_row(x, row);
    float        *out = (float *)rp_row(y, row);
    if (item >= pairs)
        out[item + pairs] = in[item + pairs];
    else
        rp_rotate_pair(s, ((const int32_t *)pos.data)[row / x.ne[1]], (const float *)factors.data, (int)item,
                       in, out);
}

} // namespace

extern "C" RpStatus rp_cuda_rope(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_rope(args));
    const RpRopeParams *p     = &args->params->rope;
    const RopeShape     s     = rp_rope_shape(*p);
    const RpTensorView *x     = &args->rope.x;
    const int64_t       items = (x->ne[0] - p->n_dims / 2) * rp_view_rows(x);
    const LaunchShape   shape = {dim3(rp_blocks(items, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("rope", ctx, shape, rope_kernel, *x, args->rope.pos, args->rope.factors, args->dst, s);
}
