/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <=
 * pos[t], with a sink. As q8_act the heads of a token are one row, rounded by whoever writes it.
 *
 * Positions come in tiles, and the tiles are dealt out to splits: the number of a position alone says which split,
 * warp and group of lanes has it. A group streams over its positions with a maximum and a sum of its own (Milakov
 * and Gimelshein 2018, arXiv:1805.02867), for up to four heads that share the keys; groups, warps and splits are
 * added in their order. With a few tokens each split has a block, and the last block to arrive adds the splits;
 * with many, one block takes the splits in turn. Both add alike, so a token gives the same bits alone and within a
 * prefill (I8).
 * geometry  blocks of 4 warps, grid (heads of keys * blocks of heads that share them, splits or 1, tokens)
 * traffic   keys and values of the positions in use once a block of heads; of few tokens the sums of each split
 *           twice */
#include "kernels/arrive.cuh"
#include "kernels/quantize.cuh"
#include "kernels/scratch.h"

enum {
    WARPS        = 4,
    THREADS      = WARPS * RP_WARP,
    STEPS        = 4, /* positions of a group of lanes at a time */
    EIGHT        = 8, /* elements of a lane */
    SPLIT_TOKENS = 8,
    BUSY         = 384, /* blocks that keep a device busy */
    MAX_SPLITS   = 64
};

struct Attention {
    TensorView      q, k, v, pos, sinks, y;
    AttentionParams p;
    int             splits, blocks;         /* blocks: of heads, for one head of keys */
    bool            aligned, apart, rounds; /* apart: a block a split; rounds: y is q8_act */
    unsigned       *counters;
    float          *parts;
};

/* Eight elements of a key or a value. */
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
        for (int j = 0; j < EIGHT; j++)
            if (i + j < dim) w[j / 2] |= (unsigned)x[j] << (16 * (j % 2));
        bits = make_uint4(w[0], w[1], w[2], w[3]);
    }
    __device__ float at(int j) const {
        const unsigned w = j < 2 ? bits.x : j < 4 ? bits.y : j < 6 ? bits.z : bits.w;
        return rp_half_bits((uint16_t)(w >> (16 * (j % 2))));
    }
};

/* Blocks of 34 bytes begin at even addresses. */
template <> struct Kv<RP_Q8_0> {
    unsigned        q[2];
    uint16_t        d;
    __device__ void clear() { q[0] = q[1] = d = 0; }
    __device__ void load(const char *row, int i, int, bool) {
        const uint16_t *block = (const uint16_t *)(row + i / 32 * 34), *x = block + 1 + i % 32 / 2;
        d    = block[0];
        q[0] = (unsigned)x[0] | (unsigned)x[1] << 16;
        q[1] = (unsigned)x[2] | (unsigned)x[3] << 16;
    }
    __device__ float at(int j) const { return rp_half_bits(d) * (float)(int8_t)(q[j / 4] >> (8 * (j % 4))); }
};

__device__ static float larger(float a, float b) { return b > a || b != b ? b : a; }

/* What a sum under the maximum `top` counts under `next`. */
__device__ static float share(float top, float next) { return top == -INFINITY ? 0.0f : expf(top - next); }

/* A stretch of positions: maximum of the scores, sum of exponentials under it, weighted sum of one element.
 */
struct Partial {
    float top, sum, acc;
};

__device__ static void add(Partial *a, const Partial &b) {
    const float next = larger(a->top, b.top), keep = share(a->top, next), other = share(b.top, next);
    a->sum = fmaf(other, b.sum, a->sum * keep);
    a->acc = fmaf(other, b.acc, a->acc * keep);
    a->top = next;
}

/* HEADS heads over keys of at most LANES * CHUNKS * 8 elements, LANES lanes a position. */
template <RpDtype T, int LANES, int CHUNKS, int HEADS> struct Group {
    enum { GROUPS = WARPS * RP_WARP / LANES, TILE = GROUPS * STEPS, SIZE = LANES * CHUNKS * EIGHT };
    float q[HEADS][CHUNKS * EIGHT], acc[HEADS][CHUNKS * EIGHT], top[HEADS], sum[HEADS];

    __device__ static int element(int c) { return (c * LANES + (int)threadIdx.x % LANES) * EIGHT; }

    __device__ void open(const Attention &a, int64_t t, int64_t h0, int heads) {
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            const float *x = (const float *)rp_row_at(a.q, t, h0 + (g < heads ? g : heads - 1), 0);
#pragma unroll
            for (int j = 0; j < CHUNKS * EIGHT; j++) {
                const int i = element(j / EIGHT) + j % EIGHT;
                q[g][j]     = i < (int)a.q.ne[0] ? x[i] : 0.0f;
            }
        }
    }

    __device__ void clear() {
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            top[g] = -INFINITY;
            sum[g] = 0.0f;
#pragma unroll
            for (int j = 0; j < CHUNKS * EIGHT; j++) acc[g][j] = 0.0f;
        }
    }

    __device__ static void load(const TensorView &x, int64_t i, int64_t hk, bool valid, bool aligned,
                                Kv<T> (&out)[CHUNKS]) {
        const char *row = rp_row_at(x, i, hk, 0);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            out[c].clear();
            if (valid && element(c) < (int)x.ne[0]) out[c].load(row, element(c), (int)x.ne[0], aligned);
        }
    }

    __device__ void tile(const Attention &a, int64_t hk, int64_t first, int64_t from, int64_t end) {
        Kv<T> key[STEPS][CHUNKS], value[STEPS][CHUNKS];
        bool  valid[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int64_t i = first + s * GROUPS + (int)threadIdx.x / LANES;
            valid[s]        = i >= from && i < end;
            load(a.k, i, hk, valid[s], a.aligned, key[s]);
            load(a.v, i, hk, valid[s], a.aligned, value[s]);
        }
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            float score[STEPS], next = top[g];
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                float dot = 0.0f;
#pragma unroll
                for (int j = 0; j < CHUNKS * EIGHT; j++)
                    dot = fmaf(q[g][j], key[s][j / EIGHT].at(j % EIGHT), dot);
#pragma unroll
                for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
                    dot += __shfl_xor_sync(RP_ALL_LANES, dot, lanes);
                score[s] = valid[s] ? a.p.scale * dot : -INFINITY;
                next     = larger(next, score[s]);
            }
            const float keep = share(top[g], next);
            sum[g] *= keep;
#pragma unroll
            for (int j = 0; j < CHUNKS * EIGHT; j++) acc[g][j] *= keep;
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const float e = share(score[s], next);
                sum[g] += e;
#pragma unroll
                for (int j = 0; j < CHUNKS * EIGHT; j++)
                    acc[g][j] = fmaf(e, value[s][j / EIGHT].at(j % EIGHT), acc[g][j]);
            }
            top[g] = next;
        }
    }

    /* Adds the groups of each warp; the first has the result. */
    __device__ void add_groups() {
#pragma unroll
        for (int g = 0; g < HEADS; g++)
#pragma unroll
            for (int lanes = LANES; lanes < RP_WARP; lanes *= 2) {
                const float other_top = __shfl_xor_sync(RP_ALL_LANES, top[g], lanes);
                const float other_sum = __shfl_xor_sync(RP_ALL_LANES, sum[g], lanes);
                const float next = larger(top[g], other_top), keep = share(top[g], next),
                            other = share(other_top, next);
                sum[g]            = fmaf(other, other_sum, sum[g] * keep);
                top[g]            = next;
#pragma unroll
                for (int j = 0; j < CHUNKS * EIGHT; j++)
                    acc[g][j] =
                        fmaf(other, __shfl_xor_sync(RP_ALL_LANES, acc[g][j], lanes), acc[g][j] * keep);
            }
    }

    /* The sums of this warp, for all to add. */
    __device__ void put(int dim, float *parts, float *tops, float *sums) const {
        const int warp = (int)threadIdx.x / RP_WARP, lane = (int)threadIdx.x % RP_WARP;
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
#pragma unroll
            for (int j = 0; j < CHUNKS * EIGHT; j++) {
                const int i = element(j / EIGHT) + j % EIGHT;
                if (lane < LANES && i < dim) parts[(warp * HEADS + g) * dim + i] = acc[g][j];
            }
            if (lane == 0) tops[warp * HEADS + g] = top[g], sums[warp * HEADS + g] = sum[g];
        }
    }
};

/* The positions of a token, and which splits have any of them. */
struct Range {
    int64_t from, end, first_tile, end_tile;
    int     first, active; /* the split of the first tile; splits with positions */
};

template <int TILE> __device__ static Range range_of(const Attention &a, int64_t t) {
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

/* How many splits after the first in use; at or past `active` for a split without positions. */
__device__ static int turn_of(const Attention &a, const Range &r, int split) {
    return split >= r.first ? split - r.first : split - r.first + a.splits;
}

/* Where the sums of a split lie in the scratch memory: [heads * dim], then the maxima and the sums of the
 * heads. */
__device__ static float *place_of(const Attention &a, int split, int size) {
    return a.parts + ((size_t)(blockIdx.z * gridDim.x + blockIdx.x) * a.splits + split) * size;
}

/* Adds the splits in their order, with the loads of several under way at a time. */
template <int HEADS, int ELEMENTS>
__device__ static void add_splits(const Attention &a, const Range &r, int dim, Partial (&whole)[ELEMENTS]) {
    enum { BATCH = ELEMENTS <= 2 ? 16 : 8 };
    RP_SHARED(float, scales, [MAX_SPLITS * 2 * HEADS]);
    const int n = HEADS * dim, size = n + 2 * HEADS, tid = (int)threadIdx.x;
    for (int i = tid; i < a.splits * 2 * HEADS; i += THREADS)
        if (turn_of(a, r, i / (2 * HEADS)) < r.active)
            scales[i] = __ldcg(place_of(a, i / (2 * HEADS), size) + n + i % (2 * HEADS));
    __syncthreads();
    for (int s0 = 0; s0 < a.splits; s0 += BATCH) {
        float acc[BATCH][ELEMENTS];
#pragma unroll
        for (int s = 0; s < BATCH; s++)
#pragma unroll
            for (int k = 0; k < ELEMENTS; k++) {
                const int  e    = k * THREADS + tid;
                const bool real = s0 + s < a.splits && turn_of(a, r, s0 + s) < r.active && e < n;
                acc[s][k]       = real ? __ldcg(place_of(a, s0 + s, size) + e) : 0.0f;
            }
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            if (s0 + s >= a.splits || turn_of(a, r, s0 + s) >= r.active) continue;
            const float *scale = scales + (s0 + s) * 2 * HEADS;
#pragma unroll
            for (int k = 0; k < ELEMENTS; k++) {
                const int g = (k * THREADS + tid) / dim;
                if (g < HEADS) add(&whole[k], {scale[g], scale[HEADS + g], acc[s][k]});
            }
        }
    }
}

/* Blocks on a multiprocessor that leave each thread registers enough. */
constexpr int rp_attention_blocks(int heads, int chunks, int lanes) {
    return heads == 4 || chunks == 2 ? 2 : heads == 2 ? 3 : lanes == 32 ? 4 : 5;
}

template <RpDtype T, int LANES, int CHUNKS, int HEADS>
__global__ void __launch_bounds__(THREADS, rp_attention_blocks(HEADS, CHUNKS, LANES))
    attention_kernel(Attention a) {
    rp_begin();
    typedef Group<T, LANES, CHUNKS, HEADS> G;
    enum { ELEMENTS = (HEADS * G::SIZE + THREADS - 1) / THREADS };
    RP_SHARED(float, tops, [WARPS * HEADS]);
    RP_SHARED(float, sums, [WARPS * HEADS]);
    RP_SHARED_DYNAMIC(float, parts); /* [WARPS][HEADS][dim] */
    const int     dim = (int)a.q.ne[0], per_key = (int)(a.q.ne[2] / a.k.ne[2]), n = HEADS * dim;
    const int     block = (int)blockIdx.x % a.blocks, tid = (int)threadIdx.x;
    const int64_t t = blockIdx.z, hk = blockIdx.x / a.blocks, h0 = hk * per_key + block * HEADS;
    const int     heads = per_key - block * HEADS < HEADS ? per_key - block * HEADS : HEADS;
    const Range   r     = range_of<G::TILE>(a, t);
    const bool    apart = a.apart && r.active > 1;
    const int     first = a.apart ? (int)blockIdx.y : 0, end = a.apart ? first + 1 : a.splits;
    /* Who is not needed leaves: splits without positions; of a token without any all but the first. */
    if (a.apart && turn_of(a, r, first) >= (r.active > 0 ? r.active : 1)) return;
    Partial whole[ELEMENTS];
#pragma unroll
    for (int k = 0; k < ELEMENTS; k++) {
        const int g = (k * THREADS + tid) / dim;
        whole[k]    = {-INFINITY, 0.0f, 0.0f};
        if (a.sinks.data != nullptr && g < heads) /* one more score, with no value */
            whole[k] = {((const float *)a.sinks.data)[h0 + g], 1.0f, 0.0f};
    }
    G state;
    state.open(a, t, h0, heads);
    for (int s = first; s < end; s++) {
        const int turn = turn_of(a, r, s);
        if (turn >= r.active) continue;
        state.clear();
        for (int64_t tile = r.first_tile + turn; tile < r.end_tile; tile += a.splits)
            state.tile(a, hk, tile * G::TILE, r.from, r.end);
        state.add_groups();
        __syncthreads(); /* the split before has been read by all */
        state.put(dim, parts, tops, sums);
        __syncthreads();
        float *to = apart ? place_of(a, s, n + 2 * HEADS) : nullptr;
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) {
            const int e = k * THREADS + tid, g = e / dim;
            if (e >= n) continue;
            Partial p = {tops[g], sums[g], parts[e]};
            for (int w = 1; w < WARPS; w++)
                add(&p, {tops[w * HEADS + g], sums[w * HEADS + g], parts[w * n + e]});
            if (!apart) {
                add(&whole[k], p);
                continue;
            }
            to[e] = p.acc;
            if (e % dim == 0) to[n + g] = p.top, to[n + HEADS + g] = p.sum;
        }
    }
    if (apart) {
        if (!rp_arrives_last(&a.counters[blockIdx.z * gridDim.x + blockIdx.x], (unsigned)r.active)) return;
        add_splits<HEADS, ELEMENTS>(a, r, dim, whole);
    }
#pragma unroll
    for (int k = 0; k < ELEMENTS; k++) {
        const int e = k * THREADS + tid, g = e / dim;
        if (e >= n || g >= heads) continue;
        const float v = whole[k].acc * (whole[k].sum == 0.0f ? 0.0f : 1.0f / whole[k].sum);
        if (a.rounds) /* whole warps: heads are whole blocks */
            rp_quantize_block(v, rp_row(a.y, t), a.y.ne[0], ((h0 + g) * dim + e % dim) / RP_ACT_BLOCK);
        else
            ((float *)rp_row_at(a.y, h0 + g, t, 0))[e % dim] = v;
    }
}

/* ---- geometry, from shapes only ---- */

struct AttentionShape {
    int64_t heads, blocks, splits; /* heads: of a block; blocks: for one head of keys */
    bool    apart;
    size_t  scratch;
};

static AttentionShape geometry(const OpArgs *args) {
    const TensorView *q = &args->src[0], *k = &args->src[1];
    const int64_t     dim = q->ne[0], lanes = dim <= 64 ? 8 : dim <= 128 ? 16 : 32;
    const int64_t     tile = WARPS * RP_WARP / lanes * STEPS, tiles = (k->ne[1] + tile - 1) / tile;
    const int64_t     per_key = q->ne[2] / k->ne[2], most = dim <= 256 ? 4 : 2;
    AttentionShape    s = {};
    s.heads             = per_key < 3 ? per_key : most;
    s.blocks            = (per_key + s.heads - 1) / s.heads;
    const int64_t all   = s.blocks * k->ne[2];
    s.splits            = BUSY / all;
    if (s.splits > MAX_SPLITS) s.splits = MAX_SPLITS;
    if (s.splits > tiles) s.splits = tiles;
    if (s.splits < 1) s.splits = 1;
    s.apart = s.splits > 1 && q->ne[1] <= SPLIT_TOKENS && q->ne[1] * all <= RP_COUNTERS;
    if (s.apart) s.scratch = rp_scratch_size(q->ne[1] * all * s.splits * s.heads * (dim + 2));
    return s;
}

extern "C" size_t rp_cuda_attention_scratch(const OpArgs *args, const BlasLt *) {
    return geometry(args).scratch;
}

static bool aligned16(const TensorView &v) {
    return ((uintptr_t)v.data | v.nb[1] | v.nb[2]) % 16 == 0 && v.ne[0] % EIGHT == 0;
}

template <RpDtype T, int LANES, int CHUNKS, int HEADS>
static RpStatus launch(const Attention &a, KernelCtx *ctx) {
    const LaunchShape shape = {
        dim3((unsigned)(a.blocks * a.k.ne[2]), a.apart ? (unsigned)a.splits : 1, (unsigned)a.q.ne[1]),
        dim3(THREADS), (unsigned)(WARPS * HEADS * a.q.ne[0] * sizeof(float))};
    return RP_LAUNCH("attention", ctx, shape, (attention_kernel<T, LANES, CHUNKS, HEADS>), a);
}

template <RpDtype T, int HEADS> static RpStatus by_size(const Attention &a, KernelCtx *ctx) {
    const int64_t dim = a.q.ne[0];
    if (dim <= 64) return launch<T, 8, 1, HEADS>(a, ctx);
    if (dim <= 128) return launch<T, 16, 1, HEADS>(a, ctx);
    if (dim <= 256) return launch<T, 32, 1, HEADS>(a, ctx);
    return launch < T, 32, 2, HEADS < 2 ? HEADS : 2 > (a, ctx);
}

template <RpDtype T> static RpStatus by_heads(const Attention &a, int64_t heads, KernelCtx *ctx) {
    if (heads == 1) return by_size<T, 1>(a, ctx);
    if (heads == 2) return by_size<T, 2>(a, ctx);
    return by_size<T, 4>(a, ctx);
}

extern "C" RpStatus rp_cuda_attention(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_attention(args));
    const AttentionShape s = geometry(args);
    Attention            a = {};
    a.q = args->src[0], a.k = args->src[1], a.v = args->src[2], a.pos = args->src[3], a.sinks = args->src[4];
    a.y = args->dst, a.p = args->params->attention;
    if (a.q.ne[1] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "attention: %lld tokens: at most 65535", (long long)a.q.ne[1]);
    if (s.scratch > ctx->scratch_bytes)
        return rp_fail(RP_E_ARG, "attention: %zu bytes of scratch memory, %zu are wanted", ctx->scratch_bytes,
                       s.scratch);
    a.splits  = (int)s.splits;
    a.blocks  = (int)s.blocks;
    a.apart   = s.apart;
    a.rounds  = a.y.dtype == RP_Q8_ACT;
    a.aligned = aligned16(a.k) && aligned16(a.v);
    if (s.apart) {
        a.counters = (unsigned *)ctx->scratch;
        a.parts    = rp_scratch_floats(ctx);
    }
    return a.k.dtype == RP_F16 ? by_heads<RP_F16>(a, s.heads, ctx) : by_heads<RP_Q8_0>(a, s.heads, ctx);
}
