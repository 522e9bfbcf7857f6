/* y[t] = a token sampled from logits[:,t], by random number 0 of the seed seeds[:,t]; -1 if there is nothing to sample
 *
 *     states_kernel    a step state for each row, from the parameters and its seed
 *     op sample        all rows at once
 *     ids_kernel       the tokens of the states
 *
 * geometry  one thread a row; sample.cu
 * traffic   that of sample.cu; 88 bytes a row for the states
 * numerics  base/sampling.h: the tokens of the CPU */
#include "base/kernels.h"
#include "kernels/device/device.cuh"

#include "base/step_state.h"

namespace {

enum { THREADS = 128 };

/* Rows of states. */
struct States {
    char                   *data;
    size_t                  row; /* bytes from one to the next */
    int                     n;
    __device__ RpStepState *at(int t) const { return (RpStepState *)(data + (size_t)t * row); }
};

__device__ int row_of_thread() { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void __launch_bounds__(THREADS) states_kernel(const uint32_t *seeds, States states, RpSampleRowsParams p) {
    rp_begin();
    const int t = row_of_thread();
    if (t >= states.n) return;
    RpStepState *s = states.at(t);
    s->token = -1, s->pos = 0;
    s->temperature = p.temperature, s->top_k = p.top_k, s->top_p = p.top_p, s->min_p = p.min_p;
    s->repeat_penalty = 1.0f, s->repeat_last_n = 0;
    s->seed_low = seeds[2 * t], s->seed_high = seeds[2 * t + 1];
    s->drawn_low = s->drawn_high = 0;
    s->n_recent = s->next_recent = 0;
}

__global__ void __launch_bounds__(THREADS) ids_kernel(States states, int32_t *ids) {
    rp_begin();
    const int t = row_of_thread();
    if (t < states.n) ids[t] = states.at(t)->token;
}

/* The states lie behind the candidates of their row in the scratch memory of the op. */
RpOpArgs args_of_sample(const RpOpArgs *args) {
    const RpTensorView &x = args->sample_rows.logits, &scratch = args->sample_rows.scratch;
    RpOpArgs            on = {};
    on.sample.logits       = x;
    on.sample.scratch      = scratch;
    on.sample.state        = scratch;
    on.sample.state.dtype  = RP_I32;
    on.sample.state.ne[0]  = RP_SAMPLE_ROWS_STATE;
    if (scratch.data != nullptr) on.sample.state.data = (float *)scratch.data + 2 * x.ne[0];
    on.dst    = on.sample.state;
    on.params = args->params;
    return on;
}

} // namespace

extern "C" size_t rp_cuda_sample_rows_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpOpArgs on = args_of_sample(args);
    return rp_cuda_sample_scratch(&on, ctx);
}

extern "C" RpStatus rp_cuda_sample_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(sample_rows, args));
    const RpOpArgs    on     = args_of_sample(args);
    const States      states = {(char *)on.dst.data, on.dst.nb[1], (int)on.sample.logits.ne[1]};
    const LaunchShape shape  = {dim3(rp_blocks(states.n, THREADS)), dim3(THREADS), 0};
    RP_TRY(RP_LAUNCH("sample_rows", ctx, shape, states_kernel, (const uint32_t *)args->sample_rows.seeds.data, states,
                     args->params->sample_rows));
    RP_TRY(rp_cuda_sample(&on, ctx));
    return RP_LAUNCH("sample_rows", ctx, shape, ids_kernel, states, (int32_t *)args->dst.data);
}
