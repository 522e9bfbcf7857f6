/* Rotary position embedding: (a, b) -> (a cos t - b sin t, a sin t + b cos t), t = theta_i(pos), for pair i of
 * x[:,h,t]. Pairs are (2i, 2i+1) or (i, i + n_dims/2); elements from n_dims on are copied.
 * geometry  one thread per pair or copied element of up to 8 heads of a token, whose angle is the same; blocks of 128
 * traffic   x and y once
 * numerics  angles in 64 bits: at position 10^5 the f32 angle has an error of some 0.004 radians */
#include "kernels/device/rope.cuh"

namespace {

enum { THREADS = 128, HEADS = 8 };

__global__ void __launch_bounds__(THREADS)
    rope_kernel(RpTensorView x, RpTensorView pos, RpTensorView factors, RpTensorView y, RopeShape s) {
    rp_begin();
    const int     pairs = s.p.n_dims / 2;
    const int     items = (int)x.ne[0] - pairs, heads = (int)x.ne[1], groups = (heads + HEADS - 1) / HEADS;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, group = i / items;
    const int     item = (int)(i % items), first = (int)(group % groups) * HEADS;
    const int64_t t = group / groups;
    if (t >= x.ne[2]) return;
    const Rotation r =
        item < pairs ? rp_rotation(s, ((const int32_t *)pos.data)[t], (const float *)factors.data, item) : Rotation{};
    for (int h = first; h < min(first + HEADS, heads); h++) {
        const float *in  = (const float *)rp_row_at(x, h, t, 0);
        float       *out = (float *)rp_row_at(y, h, t, 0);
        if (item < pairs)
            rp_rotate_row(s, r, item, in, out);
        else
            out[item + pairs] = in[item + pairs];
    }
}

} // namespace

extern "C" RpStatus rp_cuda_rope(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(rope, args));
    const RpRopeParams *p     = &args->params->rope;
    const RopeShape     s     = rp_rope_shape(*p);
    const RpTensorView *x     = &args->rope.x;
    const int64_t       items = (x->ne[0] - p->n_dims / 2) * rp_blocks(x->ne[1], HEADS) * x->ne[2];
    const LaunchShape   shape = {dim3(rp_blocks(items, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("rope", ctx, shape, rope_kernel, *x, args->rope.pos, args->rope.factors, args->dst, s);
}
