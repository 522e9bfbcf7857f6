/* Pairs of x[:,h,t] turned by theta_i(pos[t]), as fallback/rope.c; the rest of a row is copied.
 * geometry  one thread a pair or a copied element, blocks of 128
 * traffic   x and y once
 * numerics  angles in double: at position 10^5 a float has lost five digits of them */
#include "kernels/device.cuh"

enum { THREADS = 128 };

struct RopeShape {
    RopeParams p;
    double     low, high, magnitude, log_base; /* of YaRN's ramp */
};

__device__ static double angle(const RopeShape &s, int pair, int32_t pos, float factor) {
    const double extrapolated = pos * exp(-2.0 * pair / s.p.n_dims * s.log_base) / (double)factor;
    const double theta        = extrapolated * (double)s.p.freq_scale;
    if (s.p.ext_factor == 0.0f) return theta;
    const double ramp = 1.0 - fmin(1.0, fmax(0.0, (pair - s.low) / fmax(0.001, s.high - s.low)));
    const double mix  = ramp * (double)s.p.ext_factor;
    return theta * (1.0 - mix) + extrapolated * mix;
}

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
    const double  t    = angle(s, pair, at < 0 ? 0 : at, f);
    const float   c = (float)(cos(t) * s.magnitude), sn = (float)(sin(t) * s.magnitude);
    const int     first = s.p.mode == RP_ROPE_NORM ? 2 * pair : pair;
    const int     other = s.p.mode == RP_ROPE_NORM ? first + 1 : first + pairs;
    const float   a = in[first], b = in[other];
    out[first] = a * c - b * sn;
    out[other] = a * sn + b * c;
}

static double yarn_dim(const RopeParams *p, double turns) {
    return p->n_dims * log(p->n_ctx_orig / (turns * 2.0 * 3.14159265358979323846)) /
           (2.0 * log((double)p->freq_base));
}

extern "C" RpStatus rp_cuda_rope(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_rope(args));
    const RopeParams *p = &args->params->rope;
    RopeShape         s = {*p, 0.0, 0.0, (double)p->attn_factor, log((double)p->freq_base)};
    if (p->ext_factor != 0.0f) {
        s.low  = fmax(0.0, floor(yarn_dim(p, (double)p->beta_fast)));
        s.high = fmin(p->n_dims - 1.0, ceil(yarn_dim(p, (double)p->beta_slow)));
        s.magnitude *= 1.0 + 0.1 * log(1.0 / (double)p->freq_scale);
    }
    const TensorView *x     = &args->src[0];
    const int64_t     items = (x->ne[0] - p->n_dims / 2) * rp_view_rows(x);
    const LaunchShape shape = {dim3(rp_blocks(items, THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("rope", ctx, shape, rope_kernel, *x, args->src[1], args->src[2], args->dst, s);
}
