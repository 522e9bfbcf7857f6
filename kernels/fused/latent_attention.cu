/* y[:,t,h] = sum_i p_i * latent[:,i],  p = softmax_i(scale * (latent[:,i] . q[:,t,h] + key[:,i] . q_rope[:,t,h])) over
 * 0 <= i <= pos[t]
 *
 * As attention.cu with one KV head: all query heads of a token are rows that share its tiles of 32 positions, and the
 * latent vectors are keys and values. The scores of the rotated part have factors of their own, since both parts of a
 * query are scaled by powers of two. Vectors have at most SIZE = 512 and ROPE = 64 elements; missing ones are zeros.
 * geometry  blocks of 4 warps and 8 rows, grid (1, splits or 1, blocks of rows)
 * traffic   latents once as keys and once as values, keys once, per block of rows: from DRAM once, else from L2; with
 *           split_kv the partial results of each split are written and read once, 4*(SIZE + 2) bytes per row
 * numerics  as attention.cu; as q8_act each head of a token is a row of its own */
#include "base/kernels.h"
#include "base/limits.h"
#include "base/tuning.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/attention/attention_table.cuh"
#include "kernels/device/quantize.cuh"

namespace {

enum { SIZE = RP_ATTENTION_MAX_DIM, ROPE = RP_LATENT_MAX_ROPE, ROWS = GROUP };

typedef AttentionSizes<RP_F16, SIZE> S;
typedef RowState<RP_F16, SIZE, 1>    State;
typedef Values<RP_F16, SIZE>         LatentValues;

struct LatentAttention {
    Attention    a; /* keys and values are the latents */
    RpTensorView q_rope, key;
    bool         key_aligned; /* KvRows */
};

/* The rotated keys of a tile as fragments, in the order of Keys<RP_F16, SIZE>. */
struct RotatedKeys {
    unsigned w[S::N_TILES][ROPE / 32][4];

    template <class Rows> __device__ void load(const Rows &x, int first) {
        const int shift = x.shift(first + warp_index() * S::N_TILES * 8);
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
            const char *row = x.row(x.near(first + (warp_index() * S::N_TILES + n) * 8 + lane_group()) + shift);
#pragma unroll
            for (int c = 0; c < ROPE / 32; c++) {
                w[n][c][0] = w[n][c][1] = w[n][c][2] = w[n][c][3] = 0;
                load_halves(x, row, c * 32 + lane_in_group() * 8, w[n][c]);
            }
        }
    }

    /* s = latent_factor * s + factor * (q_rope . key) of the row of this lane. */
    __device__ void add_scores(const unsigned *q, float latent_factor, float factor,
                               float (&s)[1][S::N_TILES][2]) const {
        float d[S::N_TILES][4] = {};
#pragma unroll
        for (int k = 0; k < ROPE / 16; k++) {
            unsigned a[4];
            load_fragment(q, k, a);
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++) {
                const unsigned b[2] = {w[n][k / 2][k % 2 * 2], w[n][k / 2][k % 2 * 2 + 1]};
                rp_mma_f16(d[n], a, b);
            }
        }
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                s[0][n][e] = fmaf(latent_factor, s[0][n][e], factor * high_and_low(d[n][e], d[n][2 + e]));
    }
};

/* Shared memory of a block beside that of attention.cu, whose factors are 1. */
struct LatentShared {
    AttentionShared<ROWS> base;
    const unsigned       *q_rope;                    /* fragments */
    const float          *factors, *rotated_factors; /* [row] */
};

/* The tiles of one split. */
template <class Rows>
__device__ void compute_split(const LatentAttention &p, const Range &range, const BlockRange &seen, bool many_tokens,
                              int split, const Rows &latent, const Rows &key, const LatentShared &shared,
                              State *state) {
    for (int tile = range.first_tile + range.rank(split, p.a.splits); tile < range.end_tile; tile += p.a.splits) {
        const int          first    = tile * S::TILE;
        const bool         all_seen = first >= seen.all_from && first + S::TILE <= seen.all_end;
        Keys<RP_F16, SIZE> keys;
        RotatedKeys        rotated;
        LatentValues       values;
        float              s[1][S::N_TILES][2];
        keys.load(latent, first);
        rotated.load(key, first);
        keys.scores(latent, shared.base.q, nullptr, s);
        rotated.add_scores(shared.q_rope, shared.factors[lane_group()], shared.rotated_factors[lane_group()], s);
        values.load(latent, first);
        state->scale_scores(shared.base, first, all_seen, nullptr, s);
        __syncthreads(); /* maxima are there; the weights of the tile before have been used */
        state->put_weights(shared.base, s);
        __syncthreads(); /* weights are there, maxima have been used */
        const bool specials = !all_seen && many_tokens && values.take_out_specials();
        values.add(latent, first, shared.base.weights, nullptr, state->acc);
        if (specials) state->add_specials(shared.base, latent, first);
    }
}

/* Stores y of the rows in out[row][SIZE]. */
__device__ void store_rows(const Attention &a, int row0, const float *out) {
    const int dim = (int)a.q.ne[0], n = a.rows - row0 < ROWS ? a.rows - row0 : ROWS;
    for (int i = (int)threadIdx.x; i < n * dim; i += ATTN_THREADS) {
        const int   row = row0 + i / dim, d = i % dim;
        char *const to = rp_row_at(a.y, row / a.per_kv, row % a.per_kv, 0);
        const float v  = out[i / dim * SIZE + d];
        if (a.quantizes) /* whole warps: a row consists of whole blocks of 32 */
            rp_quantize_block(v, to, dim, d / RP_ACT_BLOCK);
        else
            ((float *)to)[d] = v;
    }
}

__device__ KvRows rows_of(const RpTensorView &v, const BlockRange &seen, bool aligned) {
    return {(const char *)v.data, (unsigned)v.nb[1], seen.from, seen.end, (int)v.ne[0], aligned};
}

/* Computes the rows from row0 on, by the whole block. source(view, positions, whether it is aligned) returns latents or
 * keys.
 * Dynamic shared memory, in words: queries (later the results) [ROWS * SIZE], rotated queries [ROWS * ROPE]; weights
 * [ROWS * TILE] and sums over splits [ROWS * SIZE], or in place of both the scales of the splits. */
template <class Source>
__device__ __forceinline__ void latent_rows(const LatentAttention &p, int row0, const Source &source) {
    typedef float PerWarp[ROWS];
    RP_SHARED(PerWarp, maxima, [ATTN_WARPS]);
    RP_SHARED(float, factors, [3 * ROWS]); /* of latents, of rotated keys, ones */
    RP_SHARED(Seen, visible, [ROWS]);
    RP_SHARED_DYNAMIC(unsigned, memory);
    const Attention &a     = p.a;
    unsigned *const q_rope = memory + ROWS * SIZE, *const weights = q_rope + ROWS * ROPE;
    const LatentShared shared = {
        {memory, weights, maxima, factors + 2 * ROWS, visible, nullptr, nullptr},
        q_rope, factors, factors + ROWS
    };
    const int        last     = row0 + ROWS < a.rows ? row0 + ROWS - 1 : a.rows - 1;
    const BlockRange seen     = block_range<ROWS>(a, row0, visible);
    const Range      range    = range_of(seen.from, seen.end, S::TILE, a.splits);
    const bool       split_kv = a.split_kv && range.active > 1;
    const int        first = a.split_kv ? (int)blockIdx.y : 0, end = a.split_kv ? first + 1 : a.splits;
    /* Splits without tiles end here. For tokens without positions one block remains, to write their zeros. */
    if (a.split_kv && range.rank(first, a.splits) >= (range.active > 0 ? range.active : 1)) return;
    const auto latent = source(a.k, seen, a.aligned), key = source(p.key, seen, p.key_aligned);
    Attention  rotated = a;
    rotated.q          = p.q_rope;
    stage_queries<RP_F16, SIZE, ROWS>(a, latent, 0, row0, memory, factors);
    stage_queries<RP_F16, ROPE, ROWS>(rotated, key, 0, row0, q_rope, factors + ROWS);
    if (threadIdx.x < ROWS) factors[2 * ROWS + threadIdx.x] = 1.0f;
    State        state;
    float        whole_max = -INFINITY, whole_sum = 0.0f, sums[1] = {};
    float *const whole = (float *)(weights + ROWS * S::TILE) + threadIdx.x; /* [column][e][thread] */
    bool         empty = true;
    __syncthreads();
    for (int split = first; split < end; split++) {
        if (range.rank(split, a.splits) >= range.active) continue;
        state.clear(); /* each split starts afresh, also when one block computes them all */
        compute_split(p, range, seen, last / a.per_kv > row0 / a.per_kv, split, latent, key, shared, &state);
        whole_sums(state, shared.base, sums);
        if (split_kv) break;
        const float after = fmaxf(whole_max, state.maximum[0]);
        const float keep = rescale_factor(whole_max, after), take = rescale_factor(state.maximum[0], after);
        whole_max = after;
        whole_sum = fmaf(take, sums[0], whole_sum * keep);
#pragma unroll
        for (int i = 0; i < S::COLUMNS * 2; i++) {
            float *const at = whole + i * ATTN_THREADS;
            *at             = fmaf(take, state.value(0, i / 2, i % 2), (empty ? 0.0f : *at) * keep);
        }
        empty = false;
    }
    float *const out = (float *)memory;
    if (split_kv) {
        float *const to = partials_of(a, first, ROWS, SIZE);
        put_rows<LatentValues, SIZE, 1>(latent, to, [&](int, int c, int e) { return state.value(0, c, e); });
        if (warp_index() == 0 && lane_in_group() == 0) {
            to[ROWS * SIZE + lane_group()]        = state.maximum[0];
            to[ROWS * SIZE + ROWS + lane_group()] = sums[0];
        }
        if (!rp_arrives_last(&a.counters[blockIdx.z], (unsigned)range.active)) return;
        merge_splits<SIZE, 1>(a, range, 0, row0, (float *)weights, out);
    } else {
        put_rows<LatentValues, SIZE, 1>(latent, out, [&](int, int c, int e) {
            return empty ? 0.0f : whole[(c * 2 + e) * ATTN_THREADS] * inverse_of(whole_sum);
        });
    }
    __syncthreads();
    store_rows(a, row0, out);
}

__global__ void __launch_bounds__(ATTN_THREADS, 2) latent_attention_kernel(LatentAttention p) {
    rp_begin();
    /* Blocks start in this order: the last rows of a prompt see the most positions. */
    latent_rows(p, (int)(gridDim.z - 1 - blockIdx.z) * ROWS,
                [](const RpTensorView &v, const BlockRange &seen, bool aligned) { return rows_of(v, seen, aligned); });
}

/* Over a cache of blocks. The blocks of rows are those of one token: there are many heads. */
__global__ void __launch_bounds__(ATTN_THREADS, 2)
    latent_blocks_kernel(const __grid_constant__ LatentAttention in, const __grid_constant__ BlockTable t) {
    rp_begin();
    with_run(t, in.a.per_kv, ROWS, [&](int first, int, int row0, const int32_t *blocks) {
        LatentAttention p = in;
        p.a.q.data        = (char *)p.a.q.data + (size_t)first * p.a.q.nb[1];
        p.q_rope.data     = (char *)p.q_rope.data + (size_t)first * p.q_rope.nb[1];
        p.a.pos.data      = (int32_t *)p.a.pos.data + first;
        p.a.y.data        = (char *)p.a.y.data + (size_t)first * p.a.y.nb[1];
        p.a.rows          = p.a.per_kv;
        latent_rows(p, row0, [&](const RpTensorView &v, const BlockRange &seen, bool aligned) {
            return BlockCache<>{t, blocks, aligned}(v, 0, seen);
        });
    });
}

/* ---- geometry, from shapes and the number of multiprocessors only ---- */

/* As op attention, with latents for keys and values. */
RpOpArgs as_attention(const RpOpArgs *args, RpOpParams *params) {
    RpOpArgs as    = {};
    *params        = {};
    as.dst         = args->dst;
    as.attention.q = args->latent_attention.q;
    as.attention.k = as.attention.v = args->latent_attention.latent;
    as.attention.pos                = args->latent_attention.pos;
    params->attention.scale         = args->params->latent_attention.scale;
    as.params                       = params;
    return as;
}

/* Only split_kv, which does not change the bits, looks at the number of tokens. */
AttentionSplits geometry(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView &q     = args->latent_attention.q;
    const int32_t       block = args->params->latent_attention.block;
    const int64_t n_ctx = block != 0 ? args->latent_attention.table.ne[0] * block : args->latent_attention.latent.ne[1];
    RpOpParams    params;
    const RpOpArgs  as = as_attention(args, &params);
    AttentionSplits s  = {};
    s.row_blocks       = block != 0 ? q.ne[1] * rp_blocks(q.ne[2], ROWS) : rp_blocks(q.ne[1] * q.ne[2], ROWS);
    s.splits = splits_of(rp_tuning_of(ctx).n_sm, rp_blocks(q.ne[2], ROWS), rp_blocks(n_ctx, S::TILE), ROWS * SIZE * 4);
    choose_split_kv(&s, &as, ctx, ROWS, SIZE);
    return s;
}

/* Whether every 8 elements begin at a multiple of 16 bytes. */
bool is_aligned(const RpTensorView &v) { return ((uintptr_t)v.data | v.nb[1]) % 16 == 0 && v.ne[0] % 8 == 0; }

} // namespace

extern "C" size_t rp_cuda_latent_attention_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    return geometry(args, ctx).scratch;
}

extern "C" RpStatus rp_cuda_latent_attention(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(latent_attention, args));
    const AttentionSplits s = geometry(args, ctx);
    RpOpParams            params;
    const RpOpArgs        as = as_attention(args, &params);
    LatentAttention       p  = {};
    RP_TRY(attention_of(&as, ctx, s, &p.a));
    p.a.aligned   = is_aligned(p.a.k);
    p.q_rope      = args->latent_attention.q_rope;
    p.key         = args->latent_attention.key;
    p.key_aligned = is_aligned(p.key);
    enum { QUERIES = ROWS * (SIZE + ROPE), SUMS = ROWS * (S::TILE + SIZE) };
    const int         scales = s.split_kv ? (int)s.splits * GROUP * 4 : 0;
    const LaunchShape shape = {dim3(1, s.split_kv ? (unsigned)s.splits : 1, (unsigned)s.row_blocks), dim3(ATTN_THREADS),
                               (unsigned)(QUERIES + (SUMS > scales ? SUMS : scales)) * 4};
    const int32_t     block = args->params->latent_attention.block;
    if (block == 0) return RP_LAUNCH("latent_attention", ctx, shape, latent_attention_kernel, p);
    const RpTensorView &table = args->latent_attention.table;
    p.a.n_ctx                 = (int)(table.ne[0] * block);
    return RP_LAUNCH("latent_attention", ctx, shape, latent_blocks_kernel, p,
                     table_of(table, args->latent_attention.seq, block, p.a.k.ne[1]));
}
