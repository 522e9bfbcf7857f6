/* sample_search.cuh - the searches of the last block of sample_kernel (kernels/sample.cu): the first candidate, in the
 * order of all slices, at which a sum of ones or of weights reaches a target. Bin, then range of keys, then
 * candidate. */
#ifndef KERNELS_DEVICE_SAMPLE_SEARCH_CUH
#define KERNELS_DEVICE_SAMPLE_SEARCH_CUH

#include "kernels/device/sample.cuh"

namespace {

const RpKey ALL_IDS = 0xffffffffu; /* the bits of a key behind its logit */

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
    /* First they hold the keys and sums of the block's slice. Later they hold the keys and sums of gathered candidates,
     * and from MAX_THREADS on those of bins. */
    RpKey keys[MAX_SLICE], sums[MAX_SLICE];
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

    /* Counts and weights of bin threadIdx.x, and of all bins up to it, written by this thread: registers would
     * spill. */
    __device__ Sum own() const { return {__ldcg(&a.counts[threadIdx.x]), __ldcg(&a.weights[threadIdx.x])}; }
    __device__ Sum upto() const {
        return {shared.keys[MAX_THREADS + threadIdx.x], shared.sums[MAX_THREADS + threadIdx.x]};
    }
    __device__ void put_upto(const Sum &sum) const {
        shared.keys[MAX_THREADS + threadIdx.x] = sum.count, shared.sums[MAX_THREADS + threadIdx.x] = sum.weight;
    }

    /* Sums the bins; for every thread. */
    __device__ Sum sum_bins() const {
        const Sum mine = own(),
                  sum  = {rp_block_scan_key(mine.count, shared.warps), rp_block_scan_key(mine.weight, shared.warps)};
        put_upto(sum);
        return sum;
    }
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

/* For slices first, first + step, ..., AT_ONCE of them: ends[j] is the first position of the span whose key is below
 * `key`. The searches go side by side, since each step is a load that waits for the one before. */
__device__ void search_slices(const SampleArgs &a, int32_t first, int32_t step, RpKey key, const Span (&spans)[AT_ONCE],
                              int32_t (&ends)[AT_ONCE]) {
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
            sum.weight += __ldcg(&sums[ends[j] - 1]) - (spans[j].from > 0 ? __ldcg(&sums[spans[j].from - 1]) : 0);
        }
    }
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) {
        sum.count += __shfl_xor_sync(RP_ALL_LANES, sum.count, lanes);
        sum.weight += __shfl_xor_sync(RP_ALL_LANES, sum.weight, lanes);
    }
    return sum;
}

/* Makes lo and hi the first and the last key that the smallest and the largest logit of the bin can have. */
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
    if (threadIdx.x == 0) s.shared.range.lo = smallest & ~ALL_IDS, s.shared.range.hi = largest | ALL_IDS;
    __syncthreads();
}

/* Narrows the range to the part between two of the keys lo + step, lo + 2 step, ... that holds the target. Parts are of
 * whole logits until one is left: equal logits stay together, and 7 steps lead from all floats to one. Warp w sums the
 * bin from key w on. These sums fall with w: the last that reaches the target is the number of those that do - 1. */
__device__ void narrow(const Search &s, bool weighted, RpKey target) {
    Range      &r    = s.shared.range;
    Sum        *from = s.shared.from;
    const int   lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP, n = (int)blockDim.x / RP_WARP;
    const RpKey width = r.hi - r.lo, unit = width > ALL_IDS ? ALL_IDS + 1 : 1,
                step = (width / unit / (RpKey)(n + 1) + 1) * unit, ahead = step * (RpKey)(warp + 1);
    const Sum above = {r.start.count - r.bin_start.count, r.start.weight - r.bin_start.weight}; /* of hi */
    const Sum sum   = ahead <= width ? sum_from(s.a, r.bin, r.lo + ahead) : above;
    if (lane == 0) from[warp].count = sum.count, from[warp].weight = sum.weight;
    __syncthreads();
    bool reaches = false;
    if (lane < n)
        reaches = target <= (weighted ? r.bin_start.weight + from[lane].weight : r.bin_start.count + from[lane].count);
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

/* Among candidates of one logit, which lie in the order of slices: number `wanted` of them reaches the target. At most
 * one slice a thread. */
__device__ void search_equal(const Search &s, bool weighted, RpKey target) {
    const Range  &r      = s.shared.range;
    const int32_t i      = (int32_t)threadIdx.x;
    const RpKey   weight = weight_of(s.scale, r.lo),
                wanted   = weighted ? (target - r.start.weight + weight - 1) / weight : target - r.start.count;
    Span span            = {0, 0};
    if (i < s.a.n_slices) span = span_in_range(s, i);
    const RpKey n = (RpKey)(span.to - span.from), upto = rp_block_scan_key(n, s.shared.warps);
    if (upto >= wanted && upto - n < wanted) {
        Cut &cut = s.shared.cut;
        cut.key =
            __ldcg(&s.a.keys[(size_t)i * slice_size() + (size_t)(span.from + (int32_t)(wanted - (upto - n)) - 1)]);
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
    Range    &r    = s.shared.range;
    const Sum upto = s.upto(), own = s.own(), sum = {upto.count - own.count, upto.weight - own.weight};
    r.lo = 0, r.hi = ~(RpKey)0, r.n = own.count, r.bin = (int)threadIdx.x;
    r.bin_start.count = r.start.count = sum.count;
    r.bin_start.weight = r.start.weight = sum.weight;
}

/* The first candidate at which the sum over the order, of weights or of ones, reaches `target`: at least 1 and at most
 * the sum of all. Every thread calls it and gets the result. The last barrier of search_list lets the next search
 * begin. */
__device__ __forceinline__ Cut search(const Search &s, bool weighted, RpKey target) {
    const RpKey upto = weighted ? s.upto().weight : s.upto().count, own = weighted ? s.own().weight : s.own().count;
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
        const bool     kept  = ahead >= hi - lo || probability(s, rp_key_logit((RpKey)(lo + ahead) << 32)) >= min_p;
        const unsigned first = RP_WARP - (unsigned)__popc(__ballot_sync(RP_ALL_LANES, kept)); /* the first that keeps */
        hi                   = step * first < hi - lo ? lo + step * first : hi;
        lo                   = first > 0 ? lo + step * (first - 1) + 1 : hi;
    }
    return (RpKey)lo << 32;
}

/* The weight of all keys >= key. Inlined, it makes sample_kernel spill registers. */
__device__ RP_NOINLINE RpKey weight_from(const Search &s, RpKey key) {
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

/* The candidates that top-k and top-p keep, in that order: up to and with the cut, of `all`. */
__device__ Cut filter(const Search &s, const RpStepState &state, Sum all) {
    Cut kept = {0, all};
    for (int top_p = 0; top_p < 2; top_p++) {
        RpKey target = 0; /* 0: nothing is searched */
        if (!top_p && state.top_k > 0 && (RpKey)state.top_k < kept.sum.count) target = (RpKey)state.top_k;
        if (top_p && state.top_p < 1.0f) target = rp_sampling_nucleus(state.top_p, kept.sum.weight);
        if (target > 0) kept = search(s, top_p, target);
    }
    return kept;
}

} // namespace
#endif
