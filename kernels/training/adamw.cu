/* A step of AdamW; fallback/training/adamw.c has the formulas and the order of operations, which is the same here.
 * geometry  blocks of 256 threads, 4 for each multiprocessor; a thread has four elements at a time
 * traffic   grad once, param, m and v read and written: 28*n bytes
 * numerics  f32; the powers of beta as two floats, so that 1 - beta^step is rounded once. Intrinsics where the compiler
 *           would contract a product and a sum: the bits are those of the CPU
 * lr and step come from memory if they are sources (I4), else from the parameters. A step below 1 makes param NaN: a
 * kernel cannot return an error. A norm that is NaN or infinite skips the step. */
#include "kernels/device/float_pair.cuh"
#include "kernels/device/four.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256, BLOCKS = 4 };

struct AdamwArrays {
    const float *grad;
    float       *param, *m, *v;
    int64_t      n;
};

/* Numbers of a step that all elements share, as in fallback/training/adamw.c. */
struct Step {
    float decay, blend, beta2, rest2, root, step_size, eps;
    bool  from_grad;
};

/* 1 - beta^step. The power by repeated squaring:  beta^13 = beta^8 * beta^4 * beta^1,  13 = 1101b */
__device__ float without_power(float beta, int step) {
    FloatPair power = {1.0f, 0.0f}, square = {beta, 0.0f};
    if (step < 1) return NAN;
    for (; step > 0; step /= 2) {
        if (step % 2 != 0) power = rp_pair_product(power, square);
        square = rp_pair_product(square, square);
    }
    return rp_pair_add({1.0f, 0.0f}, {-power.high, -power.low}).high;
}

/* without1, without2: 1 - beta1^step and 1 - beta2^step. */
__device__ Step step_of(const RpAdamwParams &p, float lr, float without1, float without2) {
    const float rest1 = 1.0f - p.beta1;
    Step        s;
    s.decay     = fmaf(-lr, p.weight_decay, 1.0f);
    s.from_grad = rest1 >= 0.5f;
    s.blend     = s.from_grad ? rest1 - 1.0f : rest1;
    s.beta2     = p.beta2;
    s.rest2     = 1.0f - p.beta2;
    s.root      = sqrtf(without2);
    s.step_size = lr / without1;
    s.eps       = p.eps;
    return s;
}

__device__ void update(const Step &s, float g, float &p, float &m, float &v) {
    m                 = fmaf(s.blend, g - m, s.from_grad ? g : m);
    v                 = fmaf(__fmul_rn(s.rest2, g), g, __fmul_rn(s.beta2, v));
    const float ratio = __fmul_rn(s.step_size, m) / __fadd_rn(sqrtf(v) / s.root, s.eps);
    p                 = __fsub_rn(__fmul_rn(p, s.decay), ratio);
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
    adamw_kernel(AdamwArrays a, const float *lr, const int32_t *step, const float *norm, RpAdamwParams params) {
    rp_begin();
    if (norm != nullptr && !(fabsf(*norm) <= 3.402823466e+38f)) return; /* all threads alike */
    RP_SHARED(float, without, [2]);
    const int warp = (int)threadIdx.x / RP_WARP; /* each power by a warp, while the others wait */
    if (warp < 2 && threadIdx.x % RP_WARP == 0)
        without[warp] = without_power(warp == 0 ? params.beta1 : params.beta2, step != nullptr ? *step : params.step);
    __syncthreads();
    const Step s = step_of(params, lr != nullptr ? *lr : params.lr, without[0], without[1]);
    for (int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x); i < a.n;
         i += 4 * (int64_t)gridDim.x * THREADS) {
        float g[4], p[4], m[4], v[4];
        rp_get_four(a.grad, i, a.n, 0.0f, g);
        rp_get_four(a.param, i, a.n, 0.0f, p);
        rp_get_four(a.m, i, a.n, 0.0f, m);
        rp_get_four(a.v, i, a.n, 0.0f, v);
        for (int k = 0; k < 4; k++) update(s, g[k], p[k], m[k], v[k]);
        rp_put_four(a.param, i, a.n, p);
        rp_put_four(a.m, i, a.n, m);
        rp_put_four(a.v, i, a.n, v);
    }
}

} // namespace

extern "C" RpStatus rp_cuda_adamw(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(adamw, args));
    const int64_t     n = rp_view_elems(&args->dst), most = (int64_t)rp_tuning_of(ctx).n_sm * BLOCKS;
    const int64_t     blocks = (n + 4 * THREADS - 1) / (4 * THREADS);
    const LaunchShape shape  = {dim3((unsigned)(blocks < most ? blocks : most)), dim3(THREADS), 0};
    const AdamwArrays arrays = {(const float *)args->adamw.grad.data, (float *)args->dst.data,
                                (float *)args->adamw.m.data, (float *)args->adamw.v.data, n};
    return RP_LAUNCH("adamw", ctx, shape, adamw_kernel, arrays, (const float *)args->adamw.lr.data,
                     (const int32_t *)args->adamw.step.data, (const float *)args->adamw.norm.data, args->params->adamw);
}
