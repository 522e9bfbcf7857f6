/* Pairs of x[:,h,t] turned by theta_i(pos[t]), as fallback/rope.c; the rest of a row is copied.
 * geometry  one thread a pair or a copied element, blocks of 128
 * traffic   x and y once
 * numerics  angles in double: at position 10^5 a float has lost five digits of them */
#include "kernels/device.cuh"

#include "reprise/yarn.h"

enum { THREADS = 128 };

struct RopeShape {
    RopeParams p;
    YarnRamp   ramp;
    double     log_base;
};

__global__ void __launch_bounds__(THREADS)
    rope_kernel(TensorView x, TensorView pos, TensorView factors, TensorView y, RopeShape s) {
    const int     pairs = s.p.n_dims / 2;
    const int64_t items = pairs + x.ne[0] - s.p.n_dims, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= items * x.ne[1] * x.ne[2]) return;
    const int64_t row = i / items, item = i % items;
    const float  *in  = (const float *)rp_row(x, row);
    float        *out = (float *)rp_row(y, row);
    if (item >= pairs) {
        out[item + pairs] = in[item + pairs];
        return;
    }
    const int     pair = (int)item;
    const int32_t at   = ((const int32_t *)pos.data)[row / x.ne[1]];
    const float   f    = factors.data != nullptr ? ((const float *)factors.data)[pair] : 1.0f;
    const double  t    = rp_yarn_angle(
            &s.p, &s.ramp, pair, (at < 0 ? 0 : at) * exp(-2.0 * pair / s.p.n_dims * s.log_base) / (double)f);
    const float c = (float)(cos(t) * s.ramp.magnitude), sn = (float)(sin(t) * s.ramp.magnitude);
    const int   first = s.p.mode == RP_ROPE_NORM ? 2 * pair : pair;
    const int   other = s.p.mode == RP_ROPE_NORM ? first + 1 : first + pairs;
    const float a = in[first], b = in[other];
    out[first] = a * c - b * sn;
    out[other] = a * sn + b * c;
}

extern "C" RpStatus rp_cuda_rope(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_rope(args));
    const RopeParams *p     = &args->params->rope;
    const RopeShape   s     = {*p, rp_yarn_ramp(p), log((double)p->freq_base)};
    const TensorView *x     = &args->src[0];
    const int64_t     items = (x->ne[0] - p->n_dims / 2) * rp_view_rows(x);
    const LaunchShape shape = {dim3(rp_blocks(items, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("rope", ctx, shape, rope_kernel, *x, args->src[1], args->src[2], args->dst, s);
}
