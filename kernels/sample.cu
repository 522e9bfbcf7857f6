/* Samples the next token from its logits: repetition penalty, temperature, top-k, softmax, top-p, min-p, random
 * choice; greedy without them. It updates the step state, so the next iteration needs no host (I4).
 *
 * All filters keep a prefix of one order: higher logit first, lower id among equals. No sort is needed: a candidate
 * has a 64-bit key that falls along this order, and a prefix is "all keys >= least". Radix select finds `least`:
 *
 *     key(logit, id) = sortable bits of the logit << 32 | ~id
 *     pass 1..8: histogram of the next 8 bits over the keys with the prefix found so far; walk the bins from the
 *                top until the sum reaches the target; the bin's number extends the prefix
 *
 * With 1 as the weight of each key the target is k (top-k), with the probability it is p (top-p) or the random
 * number (the choice). Probabilities are integers, in units of 2^-40 of the largest. So sums are exact and do not
 * depend on the order of the atomics (I8).
 * geometry  one block of 512 threads
 * traffic   the logits once for the maximum; when sampling, once more per sum and eight times per radix select;
 *           all but the first sweep hit L2
 * numerics  the CPU adds probabilities as doubles: a random number within 1e-12 of a boundary between two tokens
 *           can choose the other one */
#include "kernels/device/device.cuh"

#include "base/step_state.h"

namespace {

enum { THREADS = 512, BINS = 256 };

typedef unsigned long long Key; /* 64 bits, as atomics want them */

struct SampleArgs {
    const float *logits;
    RpStepState *step;
    int32_t     *recent;
    float       *penalised; /* [n]: the logits with the penalty, where there is one */
    int32_t      n;
};

/* The candidates that no filter has removed: those with key >= least. */
struct Candidates {
    const float *logits;
    int32_t      n;
    Key          least;
    float        max_logit, temperature, min_p;
};

/* NaN counts as -INFINITY; adding 0 turns -0 into 0, so that equal logits have equal keys. */
__device__ float clean(float logit) { return logit != logit ? -INFINITY : logit + 0.0f; }

/* The upper half has the order of the floats: negative ones inverted, others with the sign bit set. */
__device__ Key key_of(float logit, int32_t id) {
    const unsigned bits = __float_as_uint(logit);
    const unsigned high = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (Key)high << 32 | (0xffffffffu - (unsigned)id);
}

__device__ int32_t id_of(Key key) { return (int32_t)(0xffffffffu - (unsigned)key); }

__device__ float logit_of(Key key) {
    const unsigned high = (unsigned)(key >> 32);
    return __uint_as_float(high & 0x80000000u ? high & 0x7fffffffu : ~high);
}

/* exp((logit - max) / temperature) in units of 2^-40, 0 below min_p. At most 2^40 each, so the sum of fewer than 2^24
 * candidates fits into 64 bits. */
__device__ Key weight_of(const Candidates &p, float logit) {
    const double w = logit == p.max_logit ? 1.0 : (double)expf((logit - p.max_logit) / p.temperature);
    return w < (double)p.min_p ? 0 : (Key)(w * 1099511627776.0);
}

/* Over the block, by an atomic in shared memory; the last barrier lets the caller reuse `shared` at once. */
__device__ Key block_max(Key v, Key *shared) {
    if (threadIdx.x == 0) *shared = 0;
    __syncthreads();
    atomicMax(shared, v);
    __syncthreads();
    v = *shared;
    __syncthreads();
    return v;
}

__device__ Key block_total(Key v, Key *shared) {
    if (threadIdx.x == 0) *shared = 0;
    __syncthreads();
    atomicAdd(shared, v);
    __syncthreads();
    v = *shared;
    __syncthreads();
    return v;
}

/* Radix select: the key at which the sum over the order, of weights or of ones, reaches `target` > 0. The bin that
 * reaches the target keeps the remaining target for the next eight bits. */
__device__ __forceinline__ Key radix_select(const Candidates &p, bool weighted, Key target, Key *sums,
                                            Key *shared) {
    Key prefix = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        for (int b = (int)threadIdx.x; b < BINS; b += THREADS) sums[b] = 0;
        __syncthreads();
        for (int32_t i = (int32_t)threadIdx.x; i < p.n; i += THREADS) {
            const float logit = clean(p.logits[i]);
            const Key   key   = key_of(logit, i);
            if (key < p.least || (shift < 56 && key >> (shift + 8) != prefix)) continue;
            const Key w = weighted ? weight_of(p, logit) : 1;
            if (w > 0) atomicAdd(&sums[key >> shift & (BINS - 1)], w);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int b = BINS - 1;
            for (; b > 0 && sums[b] < target; b--) target -= sums[b];
            shared[0] = (Key)b;
            shared[1] = target;
        }
        __syncthreads();
        prefix = prefix << 8 | shared[0];
        target = shared[1];
        __syncthreads();
    }
    return prefix;
}

__device__ __forceinline__ Key sum_of_weights(const Candidates &p, Key *shared) {
    Key sum = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < p.n; i += THREADS) {
        const float logit = clean(p.logits[i]);
        if (key_of(logit, i) >= p.least) sum += weight_of(p, logit);
    }
    return block_total(sum, shared);
}

/* One candidate by the random number u in [0, 1): top-k and top-p raise `least`, min-p zeroes weights, and the
 * candidate whose cumulated weight first exceeds u * (sum of weights) is chosen. */
__device__ __forceinline__ Key sample_token(Candidates p, const RpStepState &s, float u, Key *sums,
                                            Key *shared) {
    if (s.top_k > 0 && s.top_k < p.n) p.least = radix_select(p, false, (Key)s.top_k, sums, shared);
    if (s.top_p < 1.0f) {
        const double wanted = (double)s.top_p * (double)sum_of_weights(p, shared);
        const Key    target = (Key)ceil(wanted);
        p.least             = radix_select(p, true, target > 0 ? target : 1, sums, shared);
    }
    p.min_p           = s.min_p;
    const Key mass    = sum_of_weights(p, shared);
    const Key reached = (Key)((double)u * (double)mass) + 1;
    return radix_select(p, true, reached < mass ? reached : mass, sums, shared);
}

/* Repetition penalty as llama.cpp has it: positive logits are divided, others multiplied. Each recent token counts
 * once, however often it occurs: every thread writes the same value, computed from the original logit. */
__device__ void penalise(const SampleArgs &a, const RpStepState &s) {
    for (int32_t i = (int32_t)threadIdx.x; i < a.n; i += THREADS) a.penalised[i] = clean(a.logits[i]);
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < s.n_recent; i += THREADS) {
        const int32_t id    = a.recent[i];
        const float   logit = clean(a.logits[id]);
        const float   with  = logit > 0.0f ? logit / s.repeat_penalty : logit * s.repeat_penalty;
        atomicExch((unsigned *)&a.penalised[id],
                   __float_as_uint(with)); /* several threads may have this id */
    }
    __syncthreads();
}

__global__ void __launch_bounds__(THREADS, 1) sample_kernel(SampleArgs a) {
    rp_begin();
    RP_SHARED(Key, sums, [BINS]);
    RP_SHARED(Key, shared, [2]);
    const RpStepState s = *a.step;
    Candidates        p = {a.logits, a.n, 0, 0.0f, s.temperature, 0.0f};
    __syncthreads(); /* all threads have read the state before thread 0 writes it */
    if (s.repeat_penalty != 1.0f && s.n_recent > 0) {
        penalise(a, s);
        p.logits = a.penalised;
    }
    Key best = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < a.n; i += THREADS) {
        const Key key = key_of(clean(p.logits[i]), i);
        best          = key > best ? key : best;
    }
    best               = block_max(best, shared);
    p.max_logit        = logit_of(best);
    const bool samples = s.temperature != 0.0f && s.top_k != 1 && p.max_logit != -INFINITY;
    if (samples)
        best = sample_token(p, s, rp_philox_uniform(rp_step_seed(&s), rp_step_drawn(&s)), sums, shared);
    if (threadIdx.x != 0) return;
    const int32_t token = p.max_logit == -INFINITY ? -1 : id_of(best);
    a.step->token       = token;
    if (token < 0) return;
    if (samples) {
        const uint64_t next = rp_step_drawn(&s) + 1;
        a.step->drawn_low   = (uint32_t)next;
        a.step->drawn_high  = (uint32_t)(next >> 32);
    }
    a.step->pos = s.pos + 1;
    rp_step_accept(a.step, a.recent, token);
}

} // namespace

extern "C" RpStatus rp_cuda_sample(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_sample(args));
    const SampleArgs  a     = {(const float *)args->sample.logits.data, (RpStepState *)args->dst.data,
                               (int32_t *)args->dst.data + RP_STEP_WORDS, (float *)args->sample.scratch.data,
                               (int32_t)args->sample.logits.ne[0]};
    const LaunchShape shape = {dim3(1), dim3(THREADS), 0};
    return RP_LAUNCH("sample", ctx, shape, sample_kernel, a);
}
