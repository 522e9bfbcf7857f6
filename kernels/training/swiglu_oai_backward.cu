/* dgate = dy (u + 1) (s + alpha g s (1 - s)), 0 where gate > limit;  dup = dy g s, 0 where |up| > limit;
 * s = 1 / (1 + exp(-alpha g)), g = min(gate, limit), u = clamp(up, -limit, limit)
 * geometry  one thread per element, blocks of 256
 * traffic   dy, gate, up, dgate and dup once: 20*elements bytes
 * numerics  f32; the device's expf. g s is 0 where exp overflows, so the other factors do not make it a NaN
 * dgate may be the memory of dy (I6): a thread reads its element before it writes it. */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

struct Slopes {
    RpTensorView dy, gate, up, dup, dgate;
    float        alpha, limit;
};

__device__ float *element(const RpTensorView &v, int64_t i) { return (float *)rp_row(v, i / v.ne[0]) + i % v.ne[0]; }

__global__ void __launch_bounds__(THREADS) swiglu_oai_backward_kernel(Slopes p) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.dgate.ne[0] * p.dgate.ne[1] * p.dgate.ne[2] * p.dgate.ne[3]) return;
    const float gate = *element(p.gate, i), up = *element(p.up, i), dy = *element(p.dy, i);
    const float g = gate > p.limit ? p.limit : gate;
    const float u = up > p.limit ? p.limit : (up < -p.limit ? -p.limit : up);
    const float s = 1.0f / (1.0f + expf(-p.alpha * g)), gs = g * s;
    *element(p.dgate, i) = gate > p.limit ? 0.0f : dy * (u + 1.0f) * fmaf(p.alpha * gs, 1.0f - s, s);
    *element(p.dup, i)   = up > p.limit || up < -p.limit ? 0.0f : dy * gs;
}

} // namespace

extern "C" RpStatus rp_cuda_swiglu_oai_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(swiglu_oai_backward, args));
    const RpSwigluOaiParams *p     = &args->params->swiglu_oai_backward;
    const Slopes             s     = {args->swiglu_oai_backward.dy,
                                      args->swiglu_oai_backward.gate,
                                      args->swiglu_oai_backward.up,
                                      args->swiglu_oai_backward.dup,
                                      args->dst,
                                      p->alpha,
                                      p->limit};
    const LaunchShape        shape = {dim3(rp_blocks(rp_view_elems(&args->dst), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("swiglu_oai_backward", ctx, shape, swiglu_oai_backward_kernel, s);
}
