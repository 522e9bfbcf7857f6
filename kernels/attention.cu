/* y[:,h,t] = sum_i p_i * v[:,i,h/g],  p = softmax_i(scale * k[:,i,h/g] . q[:,t,h]),  g query heads per KV head,
 * over max(0, pos[t]-window+1) <= i <= pos[t]; a sink is one more score of the softmax, without a value.
 *
 * Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867), split along the KV cache (split-KV). A subwarp of
 * LANES lanes (8, 16 or 32, by head size) handles one position at a time, for up to four query heads that share the
 * KV head. Per head it keeps a running maximum, a sum of exponentials and the weighted values. The position alone
 * decides which subwarp handles it:
 *
 *     SUBWARPS = 128 / LANES,  TILE = 4 * SUBWARPS positions
 *     position i:  tile i / TILE,  split (i / TILE) % splits,  subwarp i % SUBWARPS
 *     for head size 64 (LANES 8, 16 subwarps, TILE 64) and 3 splits:
 *         positions   0..63   64..127   128..191   192..255   256..319
 *         split         0        1          2          0          1
 *
 * Partial results are merged in this order: subwarps of a warp by a butterfly, warps 0..3, splits 0..splits-1. With
 * few tokens (split_kv) each split is a block, and the last-arriving block merges the splits; with many tokens one
 * block computes the splits one after the other. Both merge in the same order, so a token has the same bits alone
 * and within a prefill (I8).
 * geometry  blocks of 4 warps, grid (KV heads * blocks of query heads that share one, splits or 1, tokens)
 * traffic   the keys and values in use once per block of query heads; with split_kv the partial results of each
 *           split are written and read once, 4*(dim + 2) bytes per head
 * numerics  f32 throughout, expf of the device; as q8_act the heads of a token are one row, quantised at the end */
#include "base/dtypes.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/quantize.cuh"
#include "kernels/scratch.h"

namespace {

enum {
    WARPS        = 4,
    THREADS      = WARPS * RP_WARP,
    POSITIONS    = 4,   /* positions that a subwarp loads at a time */
    VEC          = 8,   /* consecutive elements of a head per lane */
    SPLIT_TOKENS = 8,   /* at most so many tokens use split_kv */
    BUSY         = 384, /* blocks that occupy a device: the number of splits aims at them */
    MAX_SPLITS   = 64
};

struct Attention {
    RpTensorView      q, k, v, pos, sinks, y;
    RpAttentionParams p;
    int               splits, head_blocks; /* blocks of query heads per KV head */
    bool              aligned;             /* 16-byte loads of keys and values */
    bool              split_kv;            /* one block per split */
    bool              quantizes;           /* y is q8_act */
    unsigned         *counters;
    float            *partials;
};

/* Eight elements of a key or a value as raw bits, so that loads of several positions are in flight together. */
template <RpDtype T> struct Kv;

template <> struct Kv<RP_F16> {
    uint4           bits;
    __device__ void clear() { bits = make_uint4(0, 0, 0, 0); }
    __device__ void load(const char *row, int i, int dim, bool aligned) {
        const uint16_t *x = (const uint16_t *)row + i;
        if (aligned) {
            bits = rp_get16(x);
            return;
        }
        unsigned w[4] = {};
        for (int j = 0; j < VEC; j++)
            if (i + j < dim) w[j / 2] |= (unsigned)x[j] << (16 * (j % 2));
        bits = make_uint4(w[0], w[1], w[2], w[3]);
    }
    __device__ float at(int j) const {
        const unsigned w = j < 2 ? bits.x : j < 4 ? bits.y : j < 6 ? bits.z : bits.w;
        return rp_half_bits((uint16_t)(w >> (16 * (j % 2))));
    }
};

/* Blocks of 34 bytes are aligned to 2 bytes only: five loads of 16 bits. */
template <> struct Kv<RP_Q8_0> {
    unsigned        q[2];
    uint16_t        d;
    __device__ void clear() { q[0] = q[1] = d = 0; }
    __device__ void load(const char *row, int i, int, bool) {
        const uint16_t *block = (const uint16_t *)(row + i / RP_Q8_0_ELEMS * RP_Q8_0_BYTES),
                       *x     = block + 1 + i % RP_Q8_0_ELEMS / 2;
        d                     = block[0];
        q[0]                  = (unsigned)x[0] | (unsigned)x[1] << 16;
        q[1]                  = (unsigned)x[2] | (unsigned)x[3] << 16;
    }
    __device__ float at(int j) const { return rp_half_bits(d) * (float)(int8_t)(q[j / 4] >> (8 * (j % 4))); }
};

__device__ float max_or_nan(float a, float b) { return b > a || b != b ? b : a; }

/* exp(maximum - new_max): what a sum relative to `maximum` is multiplied by to be relative to `new_max`. 0 for a
 * maximum of -INFINITY, that is for no positions, where the difference could be NaN. */
__device__ float rescale_factor(float maximum, float new_max) {
    return maximum == -INFINITY ? 0.0f : expf(maximum - new_max);
}

/* Partial result over some positions, for one head and one element of it:
 *     maximum = max s_i,  sum = sum_i exp(s_i - maximum),  acc = sum_i exp(s_i - maximum) * v_i */
struct Partial {
    float maximum, sum, acc;
};

/* a = a and b together, both rescaled to the larger maximum. */
__device__ void merge(Partial *a, const Partial &b) {
    const float new_max = max_or_nan(a->maximum, b.maximum), rescale = rescale_factor(a->maximum, new_max),
                rescale_other = rescale_factor(b.maximum, new_max);
    a->sum                    = fmaf(rescale_other, b.sum, a->sum * rescale);
    a->acc                    = fmaf(rescale_other, b.acc, a->acc * rescale);
    a->maximum                = new_max;
}

/* The state of one subwarp: HEADS query heads over keys of at most SIZE = LANES * VECS * 8 elements. Lane l has
 * elements (c * LANES + l) * 8 .. + 7 of each head for c < VECS, so neighbouring lanes load neighbouring bytes. */
template <RpDtype T, int LANES, int VECS, int HEADS> struct Subwarp {
    enum { SUBWARPS = WARPS * RP_WARP / LANES, TILE = SUBWARPS * POSITIONS, SIZE = LANES * VECS * VEC };
    /* All in registers: indices into these arrays are constants after unrolling. */
    float q[HEADS][VECS * VEC], acc[HEADS][VECS * VEC], maximum[HEADS], sum[HEADS];

    /* First element of vector c of this lane. */
    __device__ static int element(int c) { return (c * LANES + (int)threadIdx.x % LANES) * VEC; }

    /* Loads the queries; missing heads repeat the last one, whose result is not stored. */
    __device__ void open(const Attention &a, int64_t t, int64_t h0, int heads) {
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            const float *x = (const float *)rp_row_at(a.q, t, h0 + (g < heads ? g : heads - 1), 0);
#pragma unroll
            for (int j = 0; j < VECS * VEC; j++) {
                const int i = element(j / VEC) + j % VEC;
                q[g][j]     = i < (int)a.q.ne[0] ? x[i] : 0.0f;
            }
        }
    }

    __device__ void clear() {
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            maximum[g] = -INFINITY;
            sum[g]     = 0.0f;
#pragma unroll
            for (int j = 0; j < VECS * VEC; j++) acc[g][j] = 0.0f;
        }
    }

    __device__ static void load(const RpTensorView &x, int64_t i, int64_t hk, bool valid, bool aligned,
                                Kv<T> (&out)[VECS]) {
        const char *row = rp_row_at(x, i, hk, 0);
#pragma unroll
        for (int c = 0; c < VECS; c++) {
            out[c].clear();
            if (valid && element(c) < (int)x.ne[0]) out[c].load(row, element(c), (int)x.ne[0], aligned);
        }
    }

    /* Adds one tile: loads keys and values of POSITIONS positions per subwarp, then per head the scores and one
     * rescaling for all of them. Positions outside of [from, end) have score -INFINITY, so weight 0. */
    __device__ void tile(const Attention &a, int64_t hk, int64_t first, int64_t from, int64_t end) {
        Kv<T> key[POSITIONS][VECS], value[POSITIONS][VECS];
        bool  valid[POSITIONS];
#pragma unroll
        for (int s = 0; s < POSITIONS; s++) {
            const int64_t i = first + s * SUBWARPS + (int)threadIdx.x / LANES;
            valid[s]        = i >= from && i < end;
            load(a.k, i, hk, valid[s], a.aligned, key[s]);
            load(a.v, i, hk, valid[s], a.aligned, value[s]);
        }
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            float score[POSITIONS], new_max = maximum[g];
#pragma unroll
            for (int s = 0; s < POSITIONS; s++) {
                float dot = 0.0f;
#pragma unroll
                for (int j = 0; j < VECS * VEC; j++) dot = fmaf(q[g][j], key[s][j / VEC].at(j % VEC), dot);
#pragma unroll
                for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
                    dot += __shfl_xor_sync(RP_ALL_LANES, dot, lanes);
                score[s] = valid[s] ? a.p.scale * dot : -INFINITY;
                new_max  = max_or_nan(new_max, score[s]);
            }
            /* Sums so far are relative to the old maximum: rescale them once per tile, not per position. */
            const float rescale = rescale_factor(maximum[g], new_max);
            sum[g] *= rescale;
#pragma unroll
            for (int j = 0; j < VECS * VEC; j++) acc[g][j] *= rescale;
#pragma unroll
            for (int s = 0; s < POSITIONS; s++) {
                const float e = rescale_factor(score[s], new_max);
                sum[g] += e;
#pragma unroll
                for (int j = 0; j < VECS * VEC; j++)
                    acc[g][j] = fmaf(e, value[s][j / VEC].at(j % VEC), acc[g][j]);
            }
            maximum[g] = new_max;
        }
    }

    /* Merges the subwarps of each warp by a butterfly; every subwarp has the result. */
    __device__ void merge_subwarps() {
#pragma unroll
        for (int g = 0; g < HEADS; g++)
#pragma unroll
            for (int lanes = LANES; lanes < RP_WARP; lanes *= 2) {
                const float other_max     = __shfl_xor_sync(RP_ALL_LANES, maximum[g], lanes);
                const float other_sum     = __shfl_xor_sync(RP_ALL_LANES, sum[g], lanes);
                const float new_max       = max_or_nan(maximum[g], other_max),
                            rescale       = rescale_factor(maximum[g], new_max),
                            rescale_other = rescale_factor(other_max, new_max);
                sum[g]                    = fmaf(rescale_other, other_sum, sum[g] * rescale);
                maximum[g]                = new_max;
#pragma unroll
                for (int j = 0; j < VECS * VEC; j++)
                    acc[g][j] = fmaf(rescale_other, __shfl_xor_sync(RP_ALL_LANES, acc[g][j], lanes),
                                     acc[g][j] * rescale);
            }
    }

    /* Stores the result of this warp to shared memory: partials[warp][head][dim], maxima and sums[warp][head]. */
    __device__ void put(int dim, float *partials, float *maxima, float *sums) const {
        const int warp = (int)threadIdx.x / RP_WARP, lane = (int)threadIdx.x % RP_WARP;
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
#pragma unroll
            for (int j = 0; j < VECS * VEC; j++) {
                const int i = element(j / VEC) + j % VEC;
                if (lane < LANES && i < dim) partials[(warp * HEADS + g) * dim + i] = acc[g][j];
            }
            if (lane == 0) maxima[warp * HEADS + g] = maximum[g], sums[warp * HEADS + g] = sum[g];
        }
    }
};

/* The positions [from, end) of a token, their tiles, and the splits that have any of them. */
struct Range {
    int64_t from, end, first_tile, end_tile;
    int     first;  /* split of the first tile */
    int     active; /* number of splits with positions; 0 for a padding token (pos -1) */
};

template <int TILE> __device__ Range range_of(const Attention &a, int64_t t) {
    const int64_t last = ((const int32_t *)a.pos.data)[t];
    Range         r    = {};
    r.end              = last + 1 < a.k.ne[1] ? last + 1 : a.k.ne[1];
    if (r.end <= 0) return {};
    r.from          = a.p.window > 0 && r.end > a.p.window ? r.end - a.p.window : 0;
    r.first_tile    = r.from / TILE;
    r.end_tile      = (r.end + TILE - 1) / TILE;
    const int64_t n = r.end_tile - r.first_tile;
    r.first         = (int)(r.first_tile % a.splits);
    r.active        = (int)(n < a.splits ? n : a.splits);
    return r;
}

/* Cyclic distance of a split from the first active one. A window can begin in any split: with 4 splits and
 * first = 3, splits 3 0 1 2 have ranks 0 1 2 3. Ranks from `active` on have no positions. */
__device__ int rank_of(const Attention &a, const Range &r, int split) {
    return split >= r.first ? split - r.first : split - r.first + a.splits;
}

/* Partial results of a split in scratch memory, size = HEADS * dim + 2 * HEADS floats:
 *     partials[token][grid.x][split]:  acc[HEADS][dim], maximum[HEADS], sum[HEADS] */
__device__ float *partials_of(const Attention &a, int split, int size) {
    return a.partials + ((size_t)(blockIdx.z * gridDim.x + blockIdx.x) * a.splits + split) * size;
}

/* Merges the splits in ascending order into `whole`. Loads of BATCH splits are in flight at a time; the maxima and
 * sums of all splits go through shared memory first, since every element of a head needs them. */
template <int HEADS, int ELEMENTS>
__device__ void merge_splits(const Attention &a, const Range &r, int dim, Partial (&whole)[ELEMENTS]) {
    enum { BATCH = ELEMENTS <= 2 ? 16 : 8 };
    RP_SHARED(float, scales, [MAX_SPLITS * 2 * HEADS]);
    const int n = HEADS * dim, size = n + 2 * HEADS, tid = (int)threadIdx.x;
    for (int i = tid; i < a.splits * 2 * HEADS; i += THREADS)
        if (rank_of(a, r, i / (2 * HEADS)) < r.active)
            scales[i] = __ldcg(partials_of(a, i / (2 * HEADS), size) + n + i % (2 * HEADS));
    __syncthreads();
    for (int s0 = 0; s0 < a.splits; s0 += BATCH) {
        float acc[BATCH][ELEMENTS];
#pragma unroll
        for (int s = 0; s < BATCH; s++)
#pragma unroll
            for (int k = 0; k < ELEMENTS; k++) {
                const int  e     = k * THREADS + tid;
                const bool valid = s0 + s < a.splits && rank_of(a, r, s0 + s) < r.active && e < n;
                acc[s][k]        = valid ? __ldcg(partials_of(a, s0 + s, size) + e) : 0.0f;
            }
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            if (s0 + s >= a.splits || rank_of(a, r, s0 + s) >= r.active) continue;
            const float *scale = scales + (s0 + s) * 2 * HEADS;
#pragma unroll
            for (int k = 0; k < ELEMENTS; k++) {
                const int g = (k * THREADS + tid) / dim;
                if (g < HEADS) merge(&whole[k], {scale[g], scale[HEADS + g], acc[s][k]});
            }
        }
    }
}

/* Resident blocks per multiprocessor for __launch_bounds__: as many as leave each thread enough registers. */
constexpr int rp_attention_blocks(int heads, int vecs, int lanes) {
    return heads == 4 || vecs == 2 ? 2 : heads == 2 ? 3 : lanes == 32 ? 4 : 5;
}

/* One token, one KV head and up to HEADS query heads, for one split (split_kv) or all of them. After the subwarps of
 * a warp are merged, roles change. Thread tid holds elements e = k * THREADS + tid of the block's n = HEADS * dim
 * results, merges them over warps and splits in `whole`, and stores them. Element e is element e % dim of head
 * e / dim. */
template <RpDtype T, int LANES, int VECS, int HEADS>
__global__ void __launch_bounds__(THREADS, rp_attention_blocks(HEADS, VECS, LANES))
    attention_kernel(Attention a) {
    rp_begin();
    typedef Subwarp<T, LANES, VECS, HEADS> G;
    enum { ELEMENTS = (HEADS * G::SIZE + THREADS - 1) / THREADS };
    RP_SHARED(float, maxima, [WARPS * HEADS]);
    RP_SHARED(float, sums, [WARPS * HEADS]);
    RP_SHARED_DYNAMIC(float, partials); /* [WARPS][HEADS][dim] */
    const int     dim = (int)a.q.ne[0], per_kv = (int)(a.q.ne[2] / a.k.ne[2]), n = HEADS * dim;
    const int     block = (int)blockIdx.x % a.head_blocks, tid = (int)threadIdx.x;
    const int64_t t = blockIdx.z, hk = blockIdx.x / a.head_blocks, h0 = hk * per_kv + block * HEADS;
    const int     heads = per_kv - block * HEADS < HEADS ? per_kv - block * HEADS : HEADS;
    const Range   r     = range_of<G::TILE>(a, t);
    /* A single active split needs no merging: its block stores the result directly. */
    const bool split_kv = a.split_kv && r.active > 1;
    const int  first = a.split_kv ? (int)blockIdx.y : 0, end = a.split_kv ? first + 1 : a.splits;
    /* Splits without positions end here. For a token without positions one block remains, to write its zeros. */
    if (a.split_kv && rank_of(a, r, first) >= (r.active > 0 ? r.active : 1)) return;
    Partial whole[ELEMENTS];
#pragma unroll
    for (int k = 0; k < ELEMENTS; k++) {
        const int g = (k * THREADS + tid) / dim;
        whole[k]    = {-INFINITY, 0.0f, 0.0f};
        if (a.sinks.data != nullptr && g < heads) /* the sink: a score of weight exp(0), its value is 0 */
            whole[k] = {((const float *)a.sinks.data)[h0 + g], 1.0f, 0.0f};
    }
    G state;
    state.open(a, t, h0, heads);
    for (int s = first; s < end; s++) {
        const int rank = rank_of(a, r, s);
        if (rank >= r.active) continue;
        state.clear(); /* each split starts afresh, also when one block computes them all */
        for (int64_t tile = r.first_tile + rank; tile < r.end_tile; tile += a.splits)
            state.tile(a, hk, tile * G::TILE, r.from, r.end);
        state.merge_subwarps();
        __syncthreads(); /* all threads have read the split before */
        state.put(dim, partials, maxima, sums);
        __syncthreads();
        float *to = split_kv ? partials_of(a, s, n + 2 * HEADS) : nullptr;
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) {
            const int e = k * THREADS + tid, g = e / dim;
            if (e >= n) continue;
            Partial p = {maxima[g], sums[g], partials[e]};
            for (int w = 1; w < WARPS; w++)
                merge(&p, {maxima[w * HEADS + g], sums[w * HEADS + g], partials[w * n + e]});
            if (!split_kv) {
                merge(&whole[k], p);
                continue;
            }
            to[e] = p.acc;
            if (e % dim == 0) to[n + g] = p.maximum, to[n + HEADS + g] = p.sum;
        }
    }
    if (split_kv) {
        if (!rp_arrives_last(&a.counters[blockIdx.z * gridDim.x + blockIdx.x], (unsigned)r.active)) return;
        merge_splits<HEADS, ELEMENTS>(a, r, dim, whole);
    }
#pragma unroll
    for (int k = 0; k < ELEMENTS; k++) {
        const int e = k * THREADS + tid, g = e / dim;
        if (e >= n || g >= heads) continue;
        const float v = whole[k].acc * (whole[k].sum == 0.0f ? 0.0f : 1.0f / whole[k].sum);
        if (a.quantizes) /* whole warps: a head consists of whole blocks of 32 */
            rp_quantize_block(v, rp_row(a.y, t), a.y.ne[0], ((h0 + g) * dim + e % dim) / RP_ACT_BLOCK);
        else
            ((float *)rp_row_at(a.y, h0 + g, t, 0))[e % dim] = v;
    }
}

/* ---- geometry, from shapes only ---- */

struct AttentionShape {
    int64_t heads;       /* query heads per block: 1, 2 or 4 */
    int64_t head_blocks; /* blocks per KV head */
    int64_t splits;
    bool    split_kv;
    size_t  scratch;
};

/* The number of splits must not depend on the number of tokens (I8): it follows from the heads and the length of
 * the cache, so that one token fills the device. Only split_kv, which does not change the bits, looks at tokens. */
AttentionShape geometry(const RpOpArgs *args) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k;
    const int64_t       dim = q->ne[0], lanes = dim <= 64 ? 8 : dim <= 128 ? 16 : 32;
    const int64_t       tile = WARPS * RP_WARP / lanes * POSITIONS, tiles = (k->ne[1] + tile - 1) / tile;
    const int64_t       per_kv = q->ne[2] / k->ne[2], most = dim <= 256 ? 4 : 2;
    AttentionShape      s = {};
    /* lanes and tile are those of by_size and Subwarp. With 3 query heads per KV head a block of 4 leaves one unused,
     * so that keys and values are read once. */
    s.heads           = per_kv < 3 ? per_kv : most;
    s.head_blocks     = (per_kv + s.heads - 1) / s.heads;
    const int64_t all = s.head_blocks * k->ne[2];
    s.splits          = BUSY / all;
    if (s.splits > MAX_SPLITS) s.splits = MAX_SPLITS;
    if (s.splits > tiles) s.splits = tiles;
    if (s.splits < 1) s.splits = 1;
    s.split_kv = s.splits > 1 && q->ne[1] <= SPLIT_TOKENS && q->ne[1] * all <= RP_COUNTERS;
    if (s.split_kv) s.scratch = rp_scratch_size(q->ne[1] * all * s.splits * s.heads * (dim + 2));
    return s;
}

/* Whether every 8 elements of f16 begin at a multiple of 16 bytes. */
bool aligned16(const RpTensorView &v) {
    return ((uintptr_t)v.data | v.nb[1] | v.nb[2]) % 16 == 0 && v.ne[0] % VEC == 0;
}

template <RpDtype T, int LANES, int VECS, int HEADS> RpStatus launch(const Attention &a, RpKernelCtx *ctx) {
    const LaunchShape shape = {
        dim3((unsigned)(a.head_blocks * a.k.ne[2]), a.split_kv ? (unsigned)a.splits : 1, (unsigned)a.q.ne[1]),
        dim3(THREADS), (unsigned)(WARPS * HEADS * a.q.ne[0] * sizeof(float))};
    return RP_LAUNCH("attention", ctx, shape, (attention_kernel<T, LANES, VECS, HEADS>), a);
}

/* Heads of more than 256 elements need two vectors per lane, whose registers leave room for two query heads. */
template <RpDtype T, int HEADS> RpStatus by_size(const Attention &a, RpKernelCtx *ctx) {
    const int64_t dim = a.q.ne[0];
    if (dim <= 64) return launch<T, 8, 1, HEADS>(a, ctx);
    if (dim <= 128) return launch<T, 16, 1, HEADS>(a, ctx);
    if (dim <= 256) return launch<T, 32, 1, HEADS>(a, ctx);
    return launch < T, 32, 2, HEADS < 2 ? HEADS : 2 > (a, ctx);
}

template <RpDtype T> RpStatus by_heads(const Attention &a, int64_t heads, RpKernelCtx *ctx) {
    if (heads == 1) return by_size<T, 1>(a, ctx);
    if (heads == 2) return by_size<T, 2>(a, ctx);
    return by_size<T, 4>(a, ctx);
}

} // namespace

extern "C" size_t rp_cuda_attention_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return geometry(args).scratch;
}

extern "C" RpStatus rp_cuda_attention(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_attention(args));
    const AttentionShape s = geometry(args);
    Attention            a = {};
    a.q = args->attention.q, a.k = args->attention.k, a.v = args->attention.v, a.pos = args->attention.pos,
    a.sinks = args->attention.sinks;
    a.y = args->dst, a.p = args->params->attention;
    if (a.q.ne[1] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "attention: %lld tokens: at most 65535", (long long)a.q.ne[1]);
    if (s.scratch > ctx->scratch_bytes)
        return rp_fail(RP_E_ARG, "attention: %zu bytes of scratch memory, %zu are wanted", ctx->scratch_bytes,
                       s.scratch);
    a.splits      = (int)s.splits;
    a.head_blocks = (int)s.head_blocks;
    a.split_kv    = s.split_kv;
    a.quantizes   = a.y.dtype == RP_Q8_ACT;
    a.aligned     = aligned16(a.k) && aligned16(a.v);
    if (s.split_kv) {
        a.counters = (unsigned *)ctx->scratch;
        a.partials = rp_scratch_floats(ctx);
    }
    return a.k.dtype == RP_F16 ? by_heads<RP_F16>(a, s.heads, ctx) : by_heads<RP_Q8_0>(a, s.heads, ctx);
}
