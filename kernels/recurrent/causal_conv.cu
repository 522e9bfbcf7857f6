/* y[c,t] = open[c,t] * f(bias[c] + sum_j w[j,c] * in[c,t-n+1+j]), in = gate * x, f = silu or none
 * geometry  one thread per channel, which takes the tokens of a sequence one after the other; blocks of 128; grid =
 *           (channels / 128, 1, 1), or (channels / 128, 1, tokens) with starts
 * traffic   x, gates, y and w once, the window of n-1 columns read once, and written for each token with a slot
 * numerics  the taps in the order of j, by fma; the device's expf; gates as in mul.cu
 * A channel of a sequence belongs to one thread, so the slot before its first token may also be that of a later one. */
#include "kernels/device/act.cuh"
#include "kernels/device/slots.cuh"

#include "base/limits.h"

namespace {

enum { THREADS = 128 };

/* x times the gate of token t and channel c, if there is one. */
__device__ float gated(float x, const RpTensorView &gate, int t, int64_t c) {
    return gate.data != nullptr ? __fmul_rn(x, ((const float *)rp_row(gate, t))[c]) : x;
}

__global__ void __launch_bounds__(THREADS)
    causal_conv_kernel(RpTensorView x, RpTensorView w, RpTensorView window, RpTensorView slots, RpTensorView bias,
                       RpTensorView starts, RpTensorView gate, RpTensorView open, RpTensorView y, int silu) {
    rp_begin();
    const int64_t  c = (int64_t)blockIdx.x * THREADS + threadIdx.x, channels = x.ne[0];
    const int32_t *slot = (const int32_t *)slots.data;
    const int      taps = (int)w.ne[0], tokens = (int)x.ne[1], last = rp_last_slot(slot, tokens);
    const SlotRun  run = rp_slot_run(slot, (const int32_t *)starts.data, tokens, (int)blockIdx.z);
    float          of[RP_CONV_MAX_TAPS], in[RP_CONV_MAX_TAPS];
    if (c >= channels || run.first == run.end) return;
    const float *before = rp_slot_row(window, run.from);
    const float  first  = bias.data != nullptr ? ((const float *)bias.data)[c] : 0.0f;
#pragma unroll
    for (int j = 0; j < RP_CONV_MAX_TAPS; j++) {
        of[j] = j < taps ? ((const float *)rp_row(w, c))[j] : 0.0f;
        in[j] = j > 0 && j < taps && before != nullptr ? before[(j - 1) * channels + c] : 0.0f;
    }
    for (int t = run.first; t < run.end; t++) {
        float sum = first;
#pragma unroll
        for (int j = 0; j < RP_CONV_MAX_TAPS; j++)
            if (j < taps) {
                in[j] =
                    j + 1 < taps ? in[(j + 1) % RP_CONV_MAX_TAPS] : gated(((const float *)rp_row(x, t))[c], gate, t, c);
                sum = fmaf(of[j], in[j], sum);
            }
        if (silu != 0) sum = Silu()(sum);
        ((float *)rp_row(y, t))[c] = t >= last ? 0.0f : gated(sum, open, t, c);
        float *to                  = rp_slot_row(window, slot[1 + t]);
        if (to == nullptr) continue;
#pragma unroll
        for (int j = 1; j < RP_CONV_MAX_TAPS; j++)
            if (j < taps) to[(j - 1) * channels + c] = in[j];
    }
}

} // namespace

extern "C" RpStatus rp_cuda_causal_conv(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(causal_conv, args));
    const LaunchShape shape = {dim3(rp_blocks(args->dst.ne[0], THREADS), 1, rp_slot_blocks(args->causal_conv.starts)),
                               dim3(THREADS), 0};
    return RP_LAUNCH("causal_conv", ctx, shape, causal_conv_kernel, args->causal_conv.x, args->causal_conv.w,
                     args->causal_conv.window, args->causal_conv.slots, args->causal_conv.bias,
                     args->causal_conv.starts, args->causal_conv.gate, args->causal_conv.open, args->dst,
                     (int)args->params->causal_conv.silu);
}
