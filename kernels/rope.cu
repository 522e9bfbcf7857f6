/* Pairs of x[:,h,t] turned by theta_i(pos[t]), as fallback/rope.c; the rest of a row is copied.
 * geometry  one thread a pair or a copied element, blocks of 128
 * traffic   x and y once
 * numerics  angles in double: at position 10^5 a float has lost five digits of them */
#include "kernels/rope.cuh"

enum { THREADS = 128 };

__global__ void __launch_bounds__(THREADS)
    rope_kernel(TensorView x, TensorView pos, TensorView factors, TensorView y, RopeShape s) {
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
        rp_turn_pair(s, ((const int32_t *)pos.data)[row / x.ne[1]], (const float *)factors.data, (int)item,
                     in, out);
}

extern "C" RpStatus rp_cuda_rope(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_rope(args));
    const RopeParams *p     = &args->params->rope;
    const RopeShape   s     = rp_rope_shape(*p);
    const TensorView *x     = &args->src[0];
    const int64_t     items = (x->ne[0] - p->n_dims / 2) * rp_view_rows(x);
    const LaunchShape shape = {dim3(rp_blocks(items, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("rope", ctx, shape, rope_kernel, *x, args->src[1], args->src[2], args->dst, s);
}
