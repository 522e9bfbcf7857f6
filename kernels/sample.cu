/* Samples the next token from its logits: repetition penalty, temperature, top-k, softmax, top-p, min-p, random
 * choice; greedy without them. It updates the step state, so the next iteration needs no host (I4).
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
 * step leaves 1/33 of the range, so 7 steps would do for any logits. Equal logits have equal weights and are in the order
 * of slices, so the sum divided by one weight gives the place of the candidate, without any step.
 * Candidates of weight 0 are in no bin. They cannot be chosen, and top-k keeps all others where it would reach them.
 *
 * geometry  a block of up to 1024 threads for each slice of two logits a thread; grid (slices, rows)
 * traffic   the logits twice, sorted keys and sums once: 24 bytes a logit; ends: 2 bytes a logit
 * numerics  base/sampling.h: the token of the CPU */
#include "kernels/device/arrive.cuh"
#include "kernels/device/keys.cuh"
#include "kernels/scratch.h"

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
    const float *logits;
    RpStepState *step;
    int32_t     *recent;
    unsigned    *counter;
    Extremes    *extremes;         /* [slices + 1], the last for all logits */
    RpKey       *counts, *weights; /* [threads]: of the bins */
    RpKey       *sums;             /* [n]: of the weights of a sorted slice, up to and with this one */
    RpKey       *keys;             /* [n]: sorted slices */
    int32_t     *ends;             /* [slices][threads] */
    int32_t      n, n_slices;
    size_t       logits_row, step_row, keys_row; /* bytes from one row to the next */

    /* The operands of row blockIdx.y. */
    __device__ void select_row() {
        const size_t row = blockIdx.y;
        if (row == 0) return;
        logits = (const float *)((const char *)logits + row * logits_row);
        step   = (RpStepState *)((char *)step + row * step_row);
        recent = (int32_t *)((char *)recent + row * step_row);
        keys   = (RpKey *)((char *)keys + row * keys_row);
        counter += row;
        extremes += row * (size_t)(n_slices + 1);
        counts += row * 2 * blockDim.x, weights += row * 2 * blockDim.x;
        sums += row * (size_t)n;
        ends += row * (size_t)n_slices * blockDim.x;
    }
};

/* NaN counts as -INFINITY; adding 0 turns -0 into 0, so that equal logits have equal keys. */
__device__ float clean(float logit) { return logit != logit ? -INFINITY : logit + 0.0f; }

/* Constants that give the weight and the bin of a logit. */
struct Scale {
    float max_logit, temperature, bins, bins_of_one; /* bins_of_one: for a difference of 1 */
};

__device__ Scale scale_of(const Extremes &all, float temperature) {
    const float top = rp_key_logit(all.best), range = fminf(LEAST_EXPONENT * temperature, top - all.lowest);
    return {top, temperature, (float)blockDim.x, (float)blockDim.x / range};
}

__device__ float probability(const Scale &s, float logit) {
    return rp_sampling_probability(logit, s.max_logit, s.temperature);
}

__device__ RpKey weight_of(const Scale &s, RpKey key) {
    return rp_sampling_weight(probability(s, rp_key_logit(key)));
}

/* Never falls along the order: subtraction and multiplication round monotonically. NaN goes to the last bin. */
__device__ int bin_of(const Scale &s, float logit) {
    if (logit == s.max_logit) return 0;
    const float bin = (s.max_logit - logit) * s.bins_of_one;
    return bin < s.bins - 1.0f ? (int)bin : (int)s.bins - 1;
}

__device__ bool draws(const RpStepState &s, RpKey best) {
    return s.temperature != 0.0f && s.top_k != 1 && rp_key_logit(best) != -INFINITY;
}

__device__ int32_t slice_size() { return 2 * (int32_t)blockDim.x; }

/* This thread's logits of the block's slice, `RP_WARP` apart (rp_block_sort_keys), with the penalty. Past the end: -inf. */
__device__ void load_logits(const SampleArgs &a, const RpStepState &s, float *slice, float x[2]) {
    const int32_t at    = rp_pair_place();
    const int32_t first = (int32_t)blockIdx.x * slice_size();
    for (int r = 0; r < 2; r++) {
        const int32_t i = first + at + r * RP_WARP;
        x[r]            = i < a.n ? clean(a.logits[i]) : -INFINITY;
    }
    if (s.repeat_penalty == 1.0f || s.n_recent == 0) return;
    /* As llama.cpp has it: positive logits are divided, others multiplied. Each recent token counts once, however often
     * it occurs: every thread writes the same value, computed from the original logit. */
    slice[at] = x[0], slice[at + RP_WARP] = x[1];
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < s.n_recent; i += (int32_t)blockDim.x) {
        const int32_t id = a.recent[i];
        if (id < first || id - first >= slice_size() || id >= a.n) continue;
        const float logit = clean(a.logits[id]);
        const float with  = logit > 0.0f ? logit / s.repeat_penalty : logit * s.repeat_penalty;
        atomicExch((unsigned *)&slice[id - first],
                   __float_as_uint(with)); /* several threads may have this id */
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
    Extremes    e = block_extremes(k0 > k1 ? k0 : k1, fminf(finite_or_largest(x[0]), finite_or_largest(x[1])),
                                keys, floats);
    if (threadIdx.x == 0) put_extremes(&a.extremes[blockIdx.x], e);
    if (blockIdx.x == 0) a.counts[threadIdx.x] = 0, a.weights[threadIdx.x] = 0;
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

/* ---- the searches of the last block ---- */

/* Keys from lo to hi of one bin, n of them. Sums of all candidates before the bin, and of those before the range. */
struct Range {
    RpKey lo, hi, n;
    Sum   bin_start, start;
    int   bin;
};

/* A candidate, and the sums up to and with it. */
struct Cut {
    RpKey key;
    Sum   sum;
};

struct Shared {
    RpKey keys[MAX_SLICE], sums[MAX_SLICE]; /* of the block's own slice; later of gathered candidates */
    RpKey warps[MAX_WARPS];
    int   ends[MAX_THREADS];
    Range range;
    Cut   cut;
    Sum   from[MAX_WARPS];
    int   n_list;
};

struct Search {
    const SampleArgs &a;
    const Scale      &scale;
    Shared           &shared;
    Sum               own, upto; /* of bin threadIdx.x, and of all bins up to it */
};

/* The first position from `from` to `to` of a slice in memory whose key is below `key`. */
__device__ int32_t first_below(const RpKey *keys, int32_t from, int32_t to, RpKey key) {
    return rp_first(from, to, [&](int32_t i) { return __ldcg(&keys[i]) < key; });
}

/* Positions from..to of a sorted slice, which lie in a bin. */
struct Span {
    int32_t from, to;
};

__device__ Span span_of(const SampleArgs &a, int32_t slice, int bin) {
    const int32_t *ends = a.ends + (size_t)slice * blockDim.x;
    return {bin > 0 ? __ldcg(&ends[bin - 1]) : 0, __ldcg(&ends[bin])};
}

enum { AT_ONCE = 2 };

/* For slices first, first + step, ..., AT_ONCE of them: ends[j] is the first position of the span whose key is below `key`.
 * The searches go side by side, since each step is a load that waits for the one before. */
__device__ void search_slices(const SampleArgs &a, int32_t first, int32_t step, RpKey key,
                              const Span (&spans)[AT_ONCE], int32_t (&ends)[AT_ONCE]) {
    int32_t to[AT_ONCE];
    bool    more = true;
    for (int j = 0; j < AT_ONCE; j++) ends[j] = spans[j].from, to[j] = spans[j].to;
    while (more) {
        more = false;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int32_t middle = (ends[j] + to[j]) / 2;
            if (ends[j] >= to[j]) continue;
            if (__ldcg(&a.keys[(size_t)(first + j * step) * slice_size() + middle]) < key)
                to[j] = middle;
            else
                ends[j] = middle + 1;
            more = more || ends[j] < to[j];
        }
    }
}

/* Count and weight of the keys >= key in a bin, over all slices; by a warp, for each of its lanes. */
__device__ Sum sum_from(const SampleArgs &a, int bin, RpKey key) {
    Sum sum = {0, 0};
    for (int32_t i = (int32_t)threadIdx.x % RP_WARP; i < a.n_slices; i += AT_ONCE * RP_WARP) {
        Span    spans[AT_ONCE];
        int32_t ends[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            spans[j] = i + j * RP_WARP < a.n_slices ? span_of(a, i + j * RP_WARP, bin) : Span{0, 0};
        search_slices(a, i, RP_WARP, key, spans, ends);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const RpKey *sums = a.sums + (size_t)(i + j * RP_WARP) * slice_size();
            if (ends[j] == spans[j].from) continue;
            sum.count += ends[j] - spans[j].from;
            sum.weight +=
                __ldcg(&sums[ends[j] - 1]) - (spans[j].from > 0 ? __ldcg(&sums[spans[j].from - 1]) : 0);
        }
    }
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) {
        sum.count += __shfl_xor_sync(RP_ALL_LANES, sum.count, lanes);
        sum.weight += __shfl_xor_sync(RP_ALL_LANES, sum.weight, lanes);
    }
    return sum;
}

/* Makes lo and hi the smallest and the largest key of the bin. */
__device__ void narrow_to_keys(const Search &s) {
    RpKey largest = 0, smallest = ~(RpKey)0;
    for (int32_t i = (int32_t)threadIdx.x; i < s.a.n_slices; i += (int32_t)blockDim.x) {
        const size_t first = (size_t)i * slice_size();
        const Span   span  = span_of(s.a, i, s.shared.range.bin);
        if (span.from >= span.to) continue;
        const RpKey high = __ldcg(&s.a.keys[first + span.from]), low = __ldcg(&s.a.keys[first + span.to - 1]);
        largest  = high > largest ? high : largest;
        smallest = low < smallest ? low : smallest;
    }
    largest  = rp_block_max_key(largest, s.shared.warps);
    smallest = ~rp_block_max_key(~smallest, s.shared.warps);
    if (threadIdx.x == 0) s.shared.range.lo = smallest, s.shared.range.hi = largest;
    __syncthreads();
}

/* Narrows the range to the part between two of the keys lo + step, lo + 2 step, ... that holds the target. Warp w sums
 * the bin from key w on. These sums fall with w: the last that reaches the target is the number of those that do - 1. */
__device__ void narrow(const Search &s, bool weighted, RpKey target) {
    Range    &r    = s.shared.range;
    Sum      *from = s.shared.from;
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP,
              n       = (int)blockDim.x / RP_WARP;
    const RpKey width = r.hi - r.lo, step = width / (RpKey)(n + 1) + 1, ahead = step * (RpKey)(warp + 1);
    const Sum   above = {r.start.count - r.bin_start.count, r.start.weight - r.bin_start.weight}; /* of hi */
    const Sum   sum   = ahead <= width ? sum_from(s.a, r.bin, r.lo + ahead) : above;
    if (lane == 0) from[warp].count = sum.count, from[warp].weight = sum.weight;
    __syncthreads();
    bool reaches = false;
    if (lane < n)
        reaches = target <=
                  (weighted ? r.bin_start.weight + from[lane].weight : r.bin_start.count + from[lane].count);
    const int last = __popc(__ballot_sync(RP_ALL_LANES, reaches)) - 1;
    __syncthreads(); /* all have read the range */
    if (threadIdx.x == 0) {
        const Sum   rest  = last + 1 < n ? from[last + 1] : above;
        const RpKey whole = last >= 0 ? from[last].count : above.count + r.n;
        r.n               = whole - rest.count;
        r.start.count     = r.bin_start.count + rest.count;
        r.start.weight    = r.bin_start.weight + rest.weight;
        r.lo += step * (RpKey)(last + 1);
        if (step * (RpKey)(last + 2) <= width) r.hi = r.lo + step - 1;
    }
    __syncthreads();
}

/* Whether all keys of the range have one logit, for search_equal. */
__device__ bool are_equal(const Search &s) {
    return s.shared.range.lo >> 32 == s.shared.range.hi >> 32 && s.a.n_slices <= (int32_t)blockDim.x;
}

/* The keys of slice i that are in the range. */
__device__ Span span_in_range(const Search &s, int32_t i) {
    const Range &r    = s.shared.range;
    const RpKey *keys = s.a.keys + (size_t)i * slice_size();
    Span         span = span_of(s.a, i, r.bin);
    if (r.lo > 0) span.to = first_below(keys, span.from, span.to, r.lo);
    if (r.hi < ~(RpKey)0) span.from = first_below(keys, span.from, span.to, r.hi + 1);
    return span;
}

/* Among candidates of one logit, which lie in the order of slices: number `wanted` of them reaches the target. At most one
 * slice a thread. */
__device__ void search_equal(const Search &s, bool weighted, RpKey target) {
    const Range  &r      = s.shared.range;
    const int32_t i      = (int32_t)threadIdx.x;
    const RpKey   weight = weight_of(s.scale, r.lo),
                wanted = weighted ? (target - r.start.weight + weight - 1) / weight : target - r.start.count;
    Span span          = {0, 0};
    if (i < s.a.n_slices) span = span_in_range(s, i);
    const RpKey n = (RpKey)(span.to - span.from), upto = rp_block_scan_key(n, s.shared.warps);
    if (upto >= wanted && upto - n < wanted) {
        Cut &cut = s.shared.cut;
        cut.key  = __ldcg(
             &s.a.keys[(size_t)i * slice_size() + (size_t)(span.from + (int32_t)(wanted - (upto - n)) - 1)]);
        cut.sum.count = r.start.count + wanted, cut.sum.weight = r.start.weight + wanted * weight;
    }
    __syncthreads();
}

/* Copies the keys of the range and their weights to the start of keys and sums, in any order. Each slice is read by as
 * many threads as there are for it. */
__device__ void gather(const Search &s) {
    int group = (int)blockDim.x;
    while (group > 1 && (int64_t)group * s.a.n_slices > (int64_t)blockDim.x) group /= 2;
    for (int32_t i = (int32_t)threadIdx.x / group; i < s.a.n_slices; i += (int32_t)blockDim.x / group) {
        const RpKey *keys = s.a.keys + (size_t)i * slice_size();
        const Span   span = span_in_range(s, i);
        for (int32_t k = span.from + (int32_t)threadIdx.x % group; k < span.to; k += group) {
            const RpKey key = __ldcg(&keys[k]);
            const int   to  = atomicAdd(&s.shared.n_list, 1);
            if (to >= SHORT_LIST) break;
            s.shared.keys[to] = key, s.shared.sums[to] = weight_of(s.scale, key);
        }
    }
    __syncthreads();
}

/* Among the gathered candidates: the first at which the sum reaches the target. Each thread compares one with all. */
__device__ void search_list(const Search &s, bool weighted, RpKey target) {
    const int n = s.shared.n_list < SHORT_LIST ? s.shared.n_list : SHORT_LIST;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const RpKey key = s.shared.keys[i], own = weighted ? s.shared.sums[i] : 1;
        RpKey       weight = s.shared.range.start.weight, count = s.shared.range.start.count;
        for (int k = 0; k < n; k++)
            if (s.shared.keys[k] >= key) count++, weight += s.shared.sums[k];
        const RpKey reached = weighted ? weight : count;
        if (reached < target || reached - own >= target) continue;
        Cut &cut = s.shared.cut;
        cut.key = key, cut.sum.count = count, cut.sum.weight = weight;
    }
    __syncthreads();
}

/* The bin in which the sum reaches the target becomes the range; by the thread of that bin. */
__device__ void choose_bin(const Search &s) {
    Range    &r   = s.shared.range;
    const Sum sum = {s.upto.count - s.own.count, s.upto.weight - s.own.weight};
    r.lo = 0, r.hi = ~(RpKey)0, r.n = s.own.count, r.bin = (int)threadIdx.x;
    r.bin_start.count = r.start.count = sum.count;
    r.bin_start.weight = r.start.weight = sum.weight;
}

/* The first candidate at which the sum over the order, of weights or of ones, reaches `target`: at least 1 and at most
 * the sum of all. Every thread calls it and gets the result. The last barrier of search_list lets the next search begin. */
__device__ __forceinline__ Cut search(const Search &s, bool weighted, RpKey target) {
    const RpKey upto = weighted ? s.upto.weight : s.upto.count, own = weighted ? s.own.weight : s.own.count;
    if (threadIdx.x == 0) s.shared.n_list = 0;
    if (upto >= target && upto - own < target) choose_bin(s);
    __syncthreads();
    if (s.shared.range.n > SHORT_LIST) narrow_to_keys(s);
    while (s.shared.range.n > SHORT_LIST && s.shared.range.lo < s.shared.range.hi && !are_equal(s))
        narrow(s, weighted, target);
    if (s.shared.range.n > SHORT_LIST) {
        search_equal(s, weighted, target);
    } else {
        gather(s);
        search_list(s, weighted, target);
    }
    const Cut &cut = s.shared.cut;
    return {
        cut.key, {cut.sum.count, cut.sum.weight}
    };
}

/* The least key that min-p keeps. 32 logits between two bounds are tried at a time, as sortable bits: the probability
 * rises along them. Seven steps cover all floats; each warp takes them. */
__device__ RpKey least_key_of(const Scale &s, float min_p) {
    unsigned lo = (unsigned)(rp_key_of(-INFINITY, 0) >> 32), hi = (unsigned)(rp_key_of(s.max_logit, 0) >> 32);
    while (lo < hi) {
        const unsigned step = (hi - lo) / RP_WARP + 1, ahead = step * (threadIdx.x % RP_WARP);
        const bool     kept =
            ahead >= hi - lo || probability(s, rp_key_logit((RpKey)(lo + ahead) << 32)) >= min_p;
        const unsigned first =
            RP_WARP - (unsigned)__popc(__ballot_sync(RP_ALL_LANES, kept)); /* the first that keeps */
        hi = step * first < hi - lo ? lo + step * first : hi;
        lo = first > 0 ? lo + step * (first - 1) + 1 : hi;
    }
    return (RpKey)lo << 32;
}

/* The weight of all keys >= key. */
__device__ RpKey weight_from(const Search &s, RpKey key) {
    const int bin = bin_of(s.scale, rp_key_logit(key));
    if ((int)threadIdx.x == bin) choose_bin(s);
    __syncthreads();
    if (threadIdx.x < RP_WARP) {
        const Sum sum = sum_from(s.a, bin, key);
        if (threadIdx.x == 0) s.shared.cut.sum.weight = s.shared.range.start.weight + sum.weight;
    }
    __syncthreads();
    return s.shared.cut.sum.weight;
}

enum { TOP_K, TOP_P, CHOICE, N_SEARCHES };

/* The target of a search: for top-k, for top-p, or for the random number u in [0, 1), which chooses the candidate at
 * which the sum of weights first exceeds u * (weight of all that are kept). 0: nothing is searched. */
__device__ RpKey target_of(int search, const Search &s, const RpStepState &state, const Cut &kept, float u) {
    if (search == TOP_K)
        return state.top_k > 0 && (RpKey)state.top_k < kept.sum.count ? (RpKey)state.top_k : 0;
    if (search == TOP_P) return state.top_p < 1.0f ? rp_sampling_nucleus(state.top_p, kept.sum.weight) : 0;
    RpKey weight = kept.sum.weight;
    if (state.min_p > 0.0f) {
        const RpKey least = least_key_of(s.scale, state.min_p);
        if (least > kept.key) weight = weight_from(s, least);
    }
    return rp_sampling_choice(u, weight);
}

__device__ int32_t sample_token(const Search &s, const RpStepState &state, Sum all, float u) {
    Cut kept = {0, all};
    for (int i = 0; i < N_SEARCHES; i++) {
        const RpKey target = target_of(i, s, state, kept, u);
        if (target > 0) kept = search(s, i != TOP_K, target);
    }
    return rp_key_id(kept.key);
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
    for (int i = t; i < n; i += (int)blockDim.x)
        a.keys[first + i] = shared.keys[i], a.sums[first + i] = shared.sums[i];
    const RpKey all = shared.sums[size - 1];
    return all > 0 ? rp_first(0, size, [&](int32_t i) { return shared.sums[i] == all; }) + 1 : 0;
}

/* Thread t: the end of bin t among the first n keys of the slice, and what the bin holds. */
__device__ void fill_bins(const SampleArgs &a, const Scale &scale, int n, Shared &shared) {
    const int t = (int)threadIdx.x;
    const int end =
        rp_first(0, n, [&](int32_t i) { return bin_of(scale, rp_key_logit(shared.keys[i])) > t; });
    shared.ends[t]                                      = end;
    a.ends[(size_t)blockIdx.x * blockDim.x + (size_t)t] = end;
    __syncthreads();
    const int start = t > 0 ? shared.ends[t - 1] : 0;
    if (end == start) return;
    atomicAdd(&a.counts[t], (RpKey)(end - start));
    atomicAdd(&a.weights[t], shared.sums[end - 1] - (start > 0 ? shared.sums[start - 1] : 0));
}

__global__ void __launch_bounds__(MAX_THREADS, 1) sample_kernel(SampleArgs a) {
    rp_begin();
    a.select_row();
    RP_SHARED(Shared, memory, [1]);
    Shared           &shared = memory[0];
    const RpStepState s      = *a.step;
    const Extremes    all    = {__ldcg(&a.extremes[a.n_slices].best), __ldcg(&a.extremes[a.n_slices].lowest)};
    if (!draws(s, all.best)) return;
    const Scale scale = scale_of(all, s.temperature);
    float       x[2];
    load_logits(a, s, (float *)shared.sums, x);
    fill_bins(a, scale, sort_slice(a, scale, x, shared), shared);
    if (!rp_arrives_last(a.counter, gridDim.x)) return;
    const Sum own  = {__ldcg(&a.counts[threadIdx.x]), __ldcg(&a.weights[threadIdx.x])};
    const Sum upto = {rp_block_scan_key(own.count, shared.warps),
                      rp_block_scan_key(own.weight, shared.warps)};
    if (threadIdx.x == 0)
        shared.range.n = 0, shared.cut.key = all.best, shared.cut.sum.count = shared.cut.sum.weight = 0;
    if (threadIdx.x == blockDim.x - 1) shared.from[0].count = upto.count, shared.from[0].weight = upto.weight;
    __syncthreads();
    const Sum     total = {shared.from[0].count, shared.from[0].weight};
    const float   u     = rp_philox_uniform(rp_step_seed(&s), rp_step_drawn(&s));
    const int32_t token = sample_token({a, scale, shared, own, upto}, s, total, u);
    if (threadIdx.x == 0) finish(a, s, token, true);
}

/* Scratch memory behind the counters, each for all rows:
 *     sums[n], {counts[threads], weights[threads]}, extremes[slices + 1], ends[slices][threads]
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
    g.bins     = (size_t)(rows * n) * sizeof(RpKey);
    g.extremes = g.bins + (size_t)rows * 2 * g.threads * sizeof(RpKey);
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
    RP_TRY(rp_check_sample(args));
    RP_TRY(rp_check_scratch("sample", ctx, rp_cuda_sample_scratch(args, ctx)));
    const RpTensorView &x = args->sample.logits;
    const int64_t       n = x.ne[0], rows = x.ne[1];
    if (rows > RP_COUNTERS)
        return rp_fail(RP_E_UNSUPPORTED, "sample: %lld rows: at most %d", (long long)rows, (int)RP_COUNTERS);
    const Geometry g      = geometry_of(n, rows);
    char          *memory = (char *)rp_scratch_floats(ctx);
    SampleArgs     a      = {};
    a.logits              = (const float *)x.data;
    a.step                = (RpStepState *)args->dst.data;
    a.recent              = (int32_t *)args->dst.data + RP_STEP_WORDS;
    a.keys                = (RpKey *)args->sample.scratch.data;
    a.n = (int32_t)n, a.n_slices = (int32_t)g.slices;
    a.logits_row = x.nb[1], a.step_row = args->dst.nb[1], a.keys_row = args->sample.scratch.nb[1];
    if (memory != nullptr) {
        a.counter  = (unsigned *)ctx->scratch;
        a.sums     = (RpKey *)memory;
        a.counts   = (RpKey *)(memory + g.bins);
        a.weights  = a.counts + g.threads;
        a.extremes = (Extremes *)(memory + g.extremes);
        a.ends     = (int32_t *)(memory + g.ends);
    }
    const LaunchShape shape = {dim3(g.slices, (unsigned)rows), dim3(g.threads), 0};
    RP_TRY(RP_LAUNCH("sample", ctx, shape, sample_max_kernel, a));
    return RP_LAUNCH("sample", ctx, shape, sample_kernel, a);
}
