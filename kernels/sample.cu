/* Samples the next token from its logits: mask, penalties, top-k, top-p, min-p, temperature, random choice; greedy
 * without them. It updates the step state, so the next iteration needs no host (I4).
 *
 * All filters keep a prefix of one order (keys.cuh), and so does the random choice: it takes the last candidate of the
 * shortest prefix whose weight exceeds u times the weight of all. Each is a search for the first candidate at which a
 * sum over the order, of ones or of weights, reaches a target. Weights are integers, in units of 2^-40 of the largest,
 * so sums are exact and do not depend on the order of additions (I8). Two launches:
 *
 *     sample_max_kernel   the best candidate of each slice; the last block knows the best of all; greedy ends here
 *     sample_kernel       sorts each slice; sums of its weights; how much of it lies in which bin
 *                         last block: the searches
 *
 * A bin is a range of logits, the same for all slices: bin = (max - logit) * bins / range. Sums over slices:
 *
 *     ends[slice][bin]   candidates of the slice in bins 0..bin. They are the first ones of the sorted slice
 *     counts[bin], weights[bin]   over all slices
 *
 * A search scans the bins, then compares the candidates of one bin, at most SHORT_LIST. If the bin has more, it first
 * narrows the range of keys: each warp counts what lies above one of 32 keys, by a binary search in every slice. Such a
 * step leaves 1/33 of the range, so 7 steps would do for any logits. Equal logits have equal weights and are in the
 * order of slices, so the sum divided by one weight gives the place of the candidate, without any step.
 * Candidates of weight 0 are in no bin. They cannot be chosen, and top-k keeps all others where it would reach them.
 *
 * Top-p and min-p take the probabilities before the temperature, the choice those after it. If both matter, each slice
 * and bin has sums of both weights, and the last search, for the choice, runs on the second. The bins are the same.
 *
 * geometry  a block of up to 1024 threads for each slice of two logits a thread; grid (slices, rows)
 * traffic   the logits twice, sorted keys and sums once: 24 bytes a logit, 32 with two weights; ends: 2 bytes a logit
 * numerics  base/sampling.h: the token of the CPU */
#include "base/kernels.h"
#include "kernels/device/sample_search.cuh"

namespace {

/* For every thread. -inf takes no part in the lowest logit. */
__device__ Extremes block_extremes(RpKey best, float lowest, RpKey *keys, float *floats) {
    return {rp_block_max_key(best, keys), -rp_block_max(-lowest, floats)};
}

/* Member by member: the simulated device does not see the copy of a structure. */
__device__ void put_extremes(Extremes *to, const Extremes &e) {
    to->best   = e.best;
    to->lowest = e.lowest;
}

__device__ float finite_or_largest(float logit) { return logit == -INFINITY ? INFINITY : logit; }

__global__ void __launch_bounds__(MAX_THREADS, 1) sample_max_kernel(SampleArgs a) {
    rp_begin();
    a.select_row();
    RP_SHARED(float, slice, [MAX_SLICE]);
    RP_SHARED(RpKey, keys, [MAX_WARPS]);
    RP_SHARED(float, floats, [MAX_WARPS]);
    const RpStepState s = *a.step;
    float             x[2];
    load_logits(a, s, slice, x);
    const RpKey k0 = key_at(a, x, 0), k1 = key_at(a, x, 1);
    Extremes    e =
        block_extremes(k0 > k1 ? k0 : k1, fminf(finite_or_largest(x[0]), finite_or_largest(x[1])), keys, floats);
    if (threadIdx.x == 0) put_extremes(&a.extremes[blockIdx.x], e);
    if (blockIdx.x == 0) a.counts[threadIdx.x] = 0, a.weights[threadIdx.x] = 0, a.tempered_weights[threadIdx.x] = 0;
    if (!rp_arrives_last(a.counter, gridDim.x)) return;
    RpKey best   = 0;
    float lowest = INFINITY;
    for (int32_t i = (int32_t)threadIdx.x; i < a.n_slices; i += (int32_t)blockDim.x) {
        const RpKey key = __ldcg(&a.extremes[i].best);
        best            = key > best ? key : best;
        lowest          = fminf(lowest, __ldcg(&a.extremes[i].lowest));
    }
    e = block_extremes(best, lowest, keys, floats);
    if (threadIdx.x != 0) return;
    put_extremes(&a.extremes[a.n_slices], e);
    if (!draws(s, e.best)) finish(a, s, rp_key_logit(e.best) == -INFINITY ? -1 : rp_key_id(e.best), false);
}

/* ---- one slice ---- */

/* Sorts the slice and sums its weights, in shared and in global memory. Returns how many candidates have a weight. */
__device__ int sort_slice(const SampleArgs &a, const Scale &scale, const float x[2], Shared &shared) {
    const int     t = (int)threadIdx.x, size = slice_size();
    const int32_t first = (int32_t)blockIdx.x * size;
    const int     n     = a.n - first < size ? a.n - first : size;
    rp_block_sort_keys(key_at(a, x, 0), key_at(a, x, 1), shared.keys);
    const RpKey w0     = 2 * t < n ? weight_of(scale, shared.keys[2 * t]) : 0,
                w1     = 2 * t + 1 < n ? weight_of(scale, shared.keys[2 * t + 1]) : 0;
    const RpKey sum    = rp_block_scan_key(w0 + w1, shared.warps);
    shared.sums[2 * t] = sum - w1, shared.sums[2 * t + 1] = sum;
    __syncthreads();
    for (int i = t; i < n; i += (int)blockDim.x) a.keys[first + i] = shared.keys[i], a.sums[first + i] = shared.sums[i];
    const RpKey all = shared.sums[size - 1];
    return all > 0 ? rp_first(0, size, [&](int32_t i) { return shared.sums[i] == all; }) + 1 : 0;
}

/* Thread t: the end of bin t among the first n keys of the slice, and what the bin holds. */
__device__ void fill_bins(const SampleArgs &a, const Scale &scale, int n, Shared &shared) {
    const int t    = (int)threadIdx.x;
    const int end  = rp_first(0, n, [&](int32_t i) { return bin_of(scale, rp_key_logit(shared.keys[i])) > t; });
    shared.ends[t] = end;
    a.ends[(size_t)blockIdx.x * blockDim.x + (size_t)t] = end;
    __syncthreads();
    const int start = t > 0 ? shared.ends[t - 1] : 0;
    if (end == start) return;
    atomicAdd(&a.counts[t], (RpKey)(end - start));
    atomicAdd(&a.weights[t], shared.sums[end - 1] - (start > 0 ? shared.sums[start - 1] : 0));
}

/* The sums of the weights for the choice, of the first n keys of the slice, and what each bin holds of them. */
__device__ void temper(const SampleArgs &a, const Scale &scale, int n, Shared &shared) {
    const int     t     = (int)threadIdx.x;
    const int32_t first = (int32_t)blockIdx.x * slice_size();
    const RpKey   w0    = 2 * t < n ? weight_of(scale, shared.keys[2 * t]) : 0,
                w1      = 2 * t + 1 < n ? weight_of(scale, shared.keys[2 * t + 1]) : 0;
    const RpKey sum     = rp_block_scan_key(w0 + w1, shared.warps); /* its barriers: all have read the other sums */
    shared.sums[2 * t] = sum - w1, shared.sums[2 * t + 1] = sum;
    __syncthreads();
    for (int i = t; i < n; i += (int)blockDim.x) a.tempered_sums[first + i] = shared.sums[i];
    const int start = t > 0 ? shared.ends[t - 1] : 0, end = shared.ends[t];
    if (end > start) atomicAdd(&a.tempered_weights[t], shared.sums[end - 1] - (start > 0 ? shared.sums[start - 1] : 0));
}

/* Applies min-p to what is kept, then the temperature. u in [0, 1) chooses the candidate at which the sum of weights
 * first exceeds u * (weight of all that are left). `a` and `scale` are those of the search. */
__device__ __forceinline__ int32_t choose(const Search &s, SampleArgs &a, Scale &scale, const Cut &kept, float u) {
    RpKey least = kept.key, weight = kept.sum.weight;
    if (a.step->min_p > 0.0f) {
        const RpKey key = least_key_of(scale, a.step->min_p);
        least           = key > least ? key : least;
    }
    if (tempers(*a.step)) {
        a.sums = a.tempered_sums, a.weights = a.tempered_weights, scale.temperature = a.step->temperature;
        (void)s.sum_bins();
    } else if (least == kept.key) {
        return rp_key_id(search(s, true, rp_sampling_choice(u, weight)).key);
    }
    weight = weight_from(s, least);
    return rp_key_id(search(s, true, rp_sampling_choice(u, weight)).key);
}

/* The largest key and the lowest logit of the row. */
__device__ __forceinline__ Extremes extremes_of_row(const SampleArgs &given) {
    SampleArgs a = given;
    a.select_row();
    return {__ldcg(&a.extremes[a.n_slices].best), __ldcg(&a.extremes[a.n_slices].lowest)};
}

__device__ __forceinline__ bool row_draws(const SampleArgs &given, const Extremes &all) {
    SampleArgs a = given;
    a.select_row();
    return draws(*a.step, all.best);
}

/* `a` is in local memory, because functions that are not inlined refer to it: it is filled only where a row draws. */
__global__ void __launch_bounds__(MAX_THREADS, 1) sample_kernel(SampleArgs given) {
    rp_begin();
    RP_SHARED(Shared, memory, [1]);
    const Extremes all = extremes_of_row(given);
    if (!row_draws(given, all)) return;
    SampleArgs a = given;
    a.select_row();
    Shared           &shared = memory[0];
    const RpStepState s      = *a.step;
    Scale             scale  = scale_of(all, tempers(s) ? 1.0f : s.temperature);
    float             x[2];
    load_logits(a, s, (float *)shared.sums, x);
    const int n = sort_slice(a, scale, x, shared);
    fill_bins(a, scale, n, shared);
    if (tempers(s)) temper(a, scale.at(s.temperature), n, shared);
    if (!rp_arrives_last(a.counter, gridDim.x)) return;
    const Search search = {a, scale, shared};
    const Sum    upto   = search.sum_bins();
    if (threadIdx.x == 0)
        shared.range.n = 0, shared.cut.key = all.best, shared.cut.sum.count = shared.cut.sum.weight = 0;
    if (threadIdx.x == blockDim.x - 1) shared.from[0].count = upto.count, shared.from[0].weight = upto.weight;
    __syncthreads();
    const Sum     total = {shared.from[0].count, shared.from[0].weight};
    const float   u     = rp_philox_uniform(rp_step_seed(a.step), rp_step_drawn(a.step));
    const int32_t token = choose(search, a, scale, filter(search, *a.step, total), u);
    if (threadIdx.x == 0) finish(a, *a.step, token, true);
}

/* Scratch memory behind the counters, each for all rows:
 *     sums[n], tempered_sums[n], {counts[threads], weights[threads], tempered_weights[threads]},
 *     extremes[slices + 1], ends[slices][threads]
 * The sorted keys lie in the scratch memory of the op, 2 n floats. */
struct Geometry {
    unsigned threads, slices;
    size_t   bins, extremes, ends, bytes;
};

Geometry geometry_of(int64_t n, int64_t rows) {
    Geometry g;
    g.threads = RP_WARP;
    while (g.threads < MAX_THREADS && 2 * (int64_t)g.threads < n) g.threads *= 2;
    g.slices   = rp_blocks(n, 2 * (int64_t)g.threads);
    g.bins     = (size_t)(rows * n) * 2 * sizeof(RpKey);
    g.extremes = g.bins + (size_t)rows * 3 * g.threads * sizeof(RpKey);
    g.ends     = g.extremes + (size_t)rows * ((size_t)g.slices + 1) * sizeof(Extremes);
    g.bytes    = g.ends + (size_t)rows * g.slices * g.threads * sizeof(int32_t);
    return g;
}

} // namespace

extern "C" size_t rp_cuda_sample_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    (void)ctx;
    return RP_SCRATCH_ZEROS + geometry_of(args->sample.logits.ne[0], args->sample.logits.ne[1]).bytes;
}

extern "C" RpStatus rp_cuda_sample(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(sample, args));
    RP_TRY(rp_check_scratch("sample", ctx, rp_cuda_sample_scratch(args, ctx)));
    const RpTensorView &x = args->sample.logits;
    const int64_t       n = x.ne[0], rows = x.ne[1];
    if (rows > RP_COUNTERS)
        return rp_fail(RP_E_UNSUPPORTED, "sample: %lld rows: must be at most %d", (long long)rows, (int)RP_COUNTERS);
    const Geometry g      = geometry_of(n, rows);
    char          *memory = (char *)rp_scratch_floats(ctx);
    SampleArgs     a      = {};
    a.logits              = (const float *)x.data;
    a.step                = (RpStepState *)args->dst.data;
    a.recent              = (int32_t *)args->dst.data + RP_STEP_WORDS;
    a.keys                = (RpKey *)args->sample.scratch.data;
    a.n = (int32_t)n, a.n_slices = (int32_t)g.slices;
    a.logits_row = x.nb[1], a.step_row = args->dst.nb[1], a.keys_row = args->sample.scratch.nb[1];
    if (rp_is_present(&args->sample.extra))
        a.extra = (const int32_t *)args->sample.extra.data, a.extra_row = args->sample.extra.nb[1];
    if (memory != nullptr) {
        a.counter          = (unsigned *)ctx->scratch;
        a.sums             = (RpKey *)memory;
        a.counts           = (RpKey *)(memory + g.bins);
        a.weights          = a.counts + g.threads;
        a.tempered_weights = a.weights + g.threads;
        a.tempered_sums    = a.sums + rows * n;
        a.extremes         = (Extremes *)(memory + g.extremes);
        a.ends             = (int32_t *)(memory + g.ends);
    }
    const LaunchShape shape = {dim3(g.slices, (unsigned)rows), dim3(g.threads), 0};
    RP_TRY(RP_LAUNCH("sample", ctx, shape, sample_max_kernel, a));
    return RP_LAUNCH("sample", ctx, shape, sample_kernel, a);
}
