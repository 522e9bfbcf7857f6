/* sample.cuh - the arguments of the kernels that sample a token (kernels/sample.cu), how a logit becomes a weight and a
 * bin, and how a token ends a step. */
#ifndef KERNELS_DEVICE_SAMPLE_CUH
#define KERNELS_DEVICE_SAMPLE_CUH

#include "kernels/device/arrive.cuh"
#include "kernels/device/keys.cuh"

#include "base/sampling.h"
#include "base/step_state.h"

namespace {

enum { MAX_THREADS = 1024, MAX_SLICE = 2 * MAX_THREADS, MAX_WARPS = MAX_THREADS / RP_WARP, SHORT_LIST = 192 };

/* exp(-28) is the largest power that rounds down to 0 units of 2^-40, with a margin. */
const float LEAST_EXPONENT = 28.0f;

struct Sum {
    RpKey count, weight;
};

/* The best candidate and the lowest finite logit of a slice, or of all. */
struct Extremes {
    RpKey best;
    float lowest;
};

struct SampleArgs {
    const float   *logits;
    RpStepState   *step;
    int32_t       *recent;
    const int32_t *extra; /* an RpSampleExtra and its bits, or NULL */
    unsigned      *counter;
    Extremes      *extremes;         /* [slices + 1], the last for all logits */
    RpKey         *counts, *weights; /* [threads]: of the bins */
    RpKey         *sums;             /* [n]: of the weights of a sorted slice, up to and with this one */
    RpKey         *tempered_weights, *tempered_sums; /* the same of the weights for the choice, where they differ */
    RpKey         *keys;                             /* [n]: sorted slices */
    int32_t       *ends;                             /* [slices][threads] */
    int32_t        n, n_slices;
    size_t         logits_row, step_row, keys_row, extra_row; /* bytes from one row to the next */

    /* The operands of row blockIdx.y. */
    __device__ void select_row() {
        const size_t row = blockIdx.y;
        if (row == 0) return;
        logits = (const float *)((const char *)logits + row * logits_row);
        step   = (RpStepState *)((char *)step + row * step_row);
        recent = (int32_t *)((char *)recent + row * step_row);
        keys   = (RpKey *)((char *)keys + row * keys_row);
        if (extra != nullptr) extra = (const int32_t *)((const char *)extra + row * extra_row);
        counter += row;
        extremes += row * (size_t)(n_slices + 1);
        counts += row * 3 * blockDim.x, weights += row * 3 * blockDim.x, tempered_weights += row * 3 * blockDim.x;
        sums += row * (size_t)n, tempered_sums += row * (size_t)n;
        ends += row * (size_t)n_slices * blockDim.x;
    }
};

/* NaN counts as -INFINITY; adding 0 turns -0 into 0, so that equal logits have equal keys. */
__device__ float clean(float logit) { return logit != logit ? -INFINITY : logit + 0.0f; }

/* Constants that give the weight and the bin of a logit. */
struct Scale {
    float max_logit, temperature, bins, bins_of_one; /* bins_of_one: for a difference of 1 */

    /* The same bins, and the weights of another temperature. */
    __device__ Scale at(float other) const { return {max_logit, other, bins, bins_of_one}; }
};

__device__ Scale scale_of(const Extremes &all, float temperature) {
    const float top = rp_key_logit(all.best), range = fminf(LEAST_EXPONENT * temperature, top - all.lowest);
    return {top, temperature, (float)blockDim.x, (float)blockDim.x / range};
}

__device__ float probability(const Scale &s, float logit) {
    return rp_sampling_probability(logit, s.max_logit, s.temperature);
}

__device__ RpKey weight_of(const Scale &s, RpKey key) { return rp_sampling_weight(probability(s, rp_key_logit(key))); }

/* Never falls along the order: subtraction and multiplication round monotonically. NaN goes to the last bin. */
__device__ int bin_of(const Scale &s, float logit) {
    if (logit == s.max_logit) return 0;
    const float bin = (s.max_logit - logit) * s.bins_of_one;
    return bin < s.bins - 1.0f ? (int)bin : (int)s.bins - 1;
}

__device__ bool draws(const RpStepState &s, RpKey best) {
    return s.temperature != 0.0f && s.top_k != 1 && rp_key_logit(best) != -INFINITY;
}

/* Whether the choice has weights of its own: top-p and min-p take the probabilities before the temperature. */
__device__ bool tempers(const RpStepState &s) { return s.temperature != 1.0f && (s.top_p < 1.0f || s.min_p > 0.0f); }

__device__ int32_t slice_size() { return 2 * (int32_t)blockDim.x; }

/* Logit i with the mask. */
__device__ float masked_logit(const SampleArgs &a, int32_t i) {
    if (a.extra != nullptr && a.extra[0] != 0 &&
        ((unsigned)a.extra[RP_SAMPLE_EXTRA_WORDS + i / 32] >> (i % 32) & 1) == 0)
        return -INFINITY;
    return clean(a.logits[i]);
}

/* How often token `id` is among the recent ones. */
__device__ int32_t count_of(const SampleArgs &a, const RpStepState &s, int32_t id) {
    int32_t count = 0;
    for (int32_t i = 0; i < s.n_recent; i++) count += a.recent[i] == id;
    return count;
}

/* This thread's logits of the block's slice, `RP_WARP` apart (rp_block_sort_keys), with mask and penalties. Past the
 * end: -inf. */
__device__ void load_logits(const SampleArgs &a, const RpStepState &s, float *slice, float x[2]) {
    const int32_t at    = rp_pair_place();
    const int32_t first = (int32_t)blockIdx.x * slice_size();
    for (int r = 0; r < 2; r++) {
        const int32_t i = first + at + r * RP_WARP;
        x[r]            = i < a.n ? masked_logit(a, i) : -INFINITY;
    }
    const float frequency = a.extra != nullptr ? __int_as_float(a.extra[1]) : 0.0f,
                presence  = a.extra != nullptr ? __int_as_float(a.extra[2]) : 0.0f;
    const bool counts     = frequency != 0.0f || presence != 0.0f;
    if ((s.repeat_penalty == 1.0f && !counts) || s.n_recent == 0) return;
    /* Each recent token is penalised once, however often it occurs: every thread writes the same value, computed from
     * the original logit. */
    slice[at] = x[0], slice[at + RP_WARP] = x[1];
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < s.n_recent; i += (int32_t)blockDim.x) {
        const int32_t id = a.recent[i];
        if (id < first || id - first >= slice_size() || id >= a.n) continue;
        const float with = rp_step_penalise(masked_logit(a, id), s.repeat_penalty, frequency, presence,
                                            counts ? count_of(a, s, id) : 0);
        atomicExch((unsigned *)&slice[id - first], __float_as_uint(with)); /* several threads may have this id */
    }
    __syncthreads();
    x[0] = slice[at], x[1] = slice[at + RP_WARP];
    __syncthreads();
}

/* The key of this thread's logit r; 0, behind all others, past the end. */
__device__ RpKey key_at(const SampleArgs &a, const float x[2], int r) {
    const int32_t i = (int32_t)blockIdx.x * slice_size() + rp_pair_place() + r * RP_WARP;
    return i < a.n ? rp_key_of(x[r], i) : 0;
}

__device__ void finish(const SampleArgs &a, const RpStepState &s, int32_t token, bool drew) {
    a.step->token = token;
    if (token < 0) return;
    if (drew) {
        const uint64_t next = rp_step_drawn(&s) + 1;
        a.step->drawn_low   = (uint32_t)next;
        a.step->drawn_high  = (uint32_t)(next >> 32);
    }
    a.step->pos = s.pos + 1;
    rp_step_accept(a.step, a.recent, token);
}

} // namespace
#endif
