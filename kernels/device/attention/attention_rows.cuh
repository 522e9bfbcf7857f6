/* attention_rows.cuh - what a block of attention.cu and attention_blocks.cu does: tiles, splits and results of its
 * rows. The two have other keys and values (KvRows, KvBlocks). */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_ROWS_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_ROWS_CUH

#include "kernels/device/arrive.cuh"
#include "kernels/device/attention/attention_block.cuh"
#include "kernels/device/quantize.cuh"

namespace {

/* The tiles of one split. `keys` are loaded one tile ahead where registers allow it. */
template <RpDtype T, int SIZE, int GROUPS, bool PLAIN, class Rows>
__device__ void compute_split(const Attention &a, const Range &range, const BlockRange &seen, bool many_tokens,
                              int split, const Rows &k, const Rows &v, const AttentionShared<GROUPS * GROUP> &shared,
                              RowState<T, SIZE, GROUPS> *state) {
    typedef AttentionSizes<T, SIZE> S;
    enum { AHEAD = GROUPS * SIZE < 256 || (GROUPS == 1 && (SIZE < 512 || T == RP_F16)) };
    Keys<T, SIZE> keys;
    int           tile = range.first_tile + range.rank(split, a.splits);
    if (AHEAD) keys.load(k, tile * S::TILE);
    for (; tile < range.end_tile; tile += a.splits) {
        const int       first    = tile * S::TILE;
        const bool      all_seen = first >= seen.all_from && first + S::TILE <= seen.all_end;
        Values<T, SIZE> values;
        float           s[GROUPS][S::N_TILES][2];
        if (!AHEAD) keys.load(k, first);
        if (AHEAD) values.load(v, first);
        keys.scores(k, shared.q, shared.key_scales, s);
        if (!AHEAD) values.load(v, first);
        if (AHEAD && tile + a.splits < range.end_tile) keys.load(k, first + a.splits * S::TILE);
        state->scale_scores(shared, first, all_seen, PLAIN ? nullptr : a.cap, s);
        __syncthreads(); /* maxima are there; the weights of the tile before have been used */
        state->put_weights(shared, s);
        values.put_scales(shared.value_scales);
        __syncthreads(); /* weights are there, maxima have been used */
        const bool specials = !all_seen && many_tokens && values.take_out_specials();
        values.add(v, first, shared.weights, shared.value_scales, state->acc);
        if (specials) state->add_specials(shared, v, first);
    }
}

/* Stores y of the rows in out[row][SIZE]. */
template <int SIZE>
__device__ void store_rows(const Attention &a, int dim, int64_t hk, int row0, int rows, const float *out) {
    const int n = a.rows - row0 < rows ? a.rows - row0 : rows;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < n * dim; i += ATTN_THREADS) {
        const int     row = row0 + i / dim, d = i % dim;
        const int64_t t = row / a.per_kv, h = hk * a.per_kv + row % a.per_kv;
        const float   v = out[i / dim * SIZE + d];
        if (a.quantizes) /* whole warps: a head consists of whole blocks of 32 */
            rp_quantize_block(v, rp_row_at(a.y, t, 0, 0), a.y.ne[0], (h * dim + d) / RP_ACT_BLOCK);
        else
            ((float *)rp_row_at(a.y, h, t, 0))[d] = v;
    }
}

/* Call it after the loads of the block's keys and values, which would otherwise wait for the prefetched bytes. */
__device__ inline void prefetch_next(const Attention &a) {
    if (a.next.n > 0)
        rp_prefetch_next(a.next, (int)(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)),
                         (int)(gridDim.x * gridDim.y * gridDim.z));
}

/* Computes the rows from row0 on, by the whole block. source(view, KV head, positions) returns the keys or the values.
 * With PLAIN they are aligned, heads have SIZE elements, and there is no cap. Such a kernel has no code for other
 * cases, because code that runs once takes as long as loading it does.
 * Dynamic shared memory, in words: queries (later the results) [ROWS * SIZE]; weights [ROWS * TILE] and sums over
 * splits [ROWS * SIZE], or in place of both the scales of the splits. */
template <RpDtype T, int SIZE, int GROUPS, bool PLAIN, class Source>
__device__ __forceinline__ void attention_rows(const Attention &a, int row0, const Source &source) {
    typedef AttentionSizes<T, SIZE> S;
    enum { ROWS = GROUPS * GROUP };
    typedef float PerWarp[ROWS];
    RP_SHARED(PerWarp, maxima, [ATTN_WARPS]);
    RP_SHARED(float, factors, [ROWS]);
    RP_SHARED(Seen, visible, [ROWS]);
    RP_SHARED(float2, scales,
              [T == RP_Q8_0 ? S::CHUNKS * S::TILE : 1]); /* of keys, of values: float, 8 bytes aligned */
    RP_SHARED_DYNAMIC(unsigned, memory);
    unsigned *const             weights = memory + ROWS * SIZE;
    const AttentionShared<ROWS> shared  = {
         memory, weights, maxima, factors, visible, (float *)scales, (float *)scales + S::CHUNKS * S::TILE};
    const int64_t             hk   = blockIdx.x;
    const int                 last = row0 + ROWS < a.rows ? row0 + ROWS - 1 : a.rows - 1;
    RowState<T, SIZE, GROUPS> state;
    const BlockRange          seen  = block_range<ROWS>(a, row0, visible);
    const Range               range = range_of(seen.from, seen.end, S::TILE, a.splits);
    /* A single active split needs no merging: its block stores the result directly. */
    const bool split_kv = a.split_kv && range.active > 1;
    const int  first = a.split_kv ? (int)blockIdx.y : 0, end = a.split_kv ? first + 1 : a.splits;
    /* Splits without tiles end here. For tokens without positions one block remains, to write their zeros. */
    if (a.split_kv && range.rank(first, a.splits) >= (range.active > 0 ? range.active : 1)) {
        prefetch_next(a);
        return;
    }
    const auto k = source(a.k, hk, seen), v = source(a.v, hk, seen);
    stage_queries<T, SIZE, ROWS>(a, k, hk, row0, memory, factors);
    float        whole_max[GROUPS], whole_sum[GROUPS], sums[GROUPS] = {};
    float *const whole = (float *)(weights + ROWS * S::TILE) + threadIdx.x; /* [group][column][e][thread] */
    bool         empty = true;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        whole_max[group] = first_maximum(a, hk, row0 + group * GROUP + lane_group());
        whole_sum[group] = first_sum(a);
    }
    __syncthreads();
    for (int split = first; split < end; split++) {
        if (range.rank(split, a.splits) >= range.active) continue;
        state.clear(); /* each split starts afresh, also when one block computes them all */
        compute_split<T, SIZE, GROUPS, PLAIN>(a, range, seen, last / a.per_kv > row0 / a.per_kv, split, k, v, shared,
                                              &state);
        whole_sums(state, shared, sums);
        if (split_kv) break;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const float after = fmaxf(whole_max[group], state.maximum[group]);
            const float keep  = rescale_factor(whole_max[group], after),
                        take  = rescale_factor(state.maximum[group], after);
            whole_max[group]  = after;
            whole_sum[group]  = fmaf(take, sums[group], whole_sum[group] * keep);
#pragma unroll
            for (int i = 0; i < S::COLUMNS * 2; i++) {
                float *const at = whole + (group * S::COLUMNS * 2 + i) * ATTN_THREADS;
                *at             = fmaf(take, state.value(group, i / 2, i % 2), (empty ? 0.0f : *at) * keep);
            }
        }
        empty = false;
    }
    prefetch_next(a);
    float *const out = (float *)memory;
    if (split_kv) {
        float *const to = partials_of(a, first, ROWS, SIZE);
        put_rows<Values<T, SIZE>, SIZE, GROUPS>(v, to,
                                                [&](int group, int c, int e) { return state.value(group, c, e); });
        if (warp_index() == 0 && lane_in_group() == 0)
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                to[ROWS * SIZE + group * GROUP + lane_group()]        = state.maximum[group];
                to[ROWS * SIZE + ROWS + group * GROUP + lane_group()] = sums[group];
            }
        if (!rp_arrives_last(&a.counters[blockIdx.x * gridDim.z + blockIdx.z], (unsigned)range.active)) return;
        merge_splits<SIZE, GROUPS>(a, range, hk, row0, (float *)weights, out);
    } else {
        put_rows<Values<T, SIZE>, SIZE, GROUPS>(v, out, [&](int group, int c, int e) {
            const int i = (group * S::COLUMNS + c) * 2 + e;
            return empty ? 0.0f : whole[i * ATTN_THREADS] * inverse_of(whole_sum[group]);
        });
    }
    __syncthreads();
    store_rows<SIZE>(a, PLAIN ? SIZE : (int)a.q.ne[0], hk, row0, ROWS, out);
}

/* ---- geometry, from shapes and the number of multiprocessors only ---- */

/* The grid of attention.cu and attention_blocks.cu. */
struct AttentionGrid : AttentionSplits {
    int64_t size, groups;
};

/* Groups of 8 rows whose accumulators fit into the registers. */
constexpr int most_groups(RpDtype type, int size) {
    return size == 64 ? 4 : size == 128 ? (type == RP_F16 ? 3 : 2) : 512 / size;
}

int64_t size_of_heads(int64_t dim) { return dim <= 64 ? 64 : dim <= 128 ? 128 : dim <= 256 ? 256 : 512; }

/* f16: whether every 8 elements begin at a multiple of 16 bytes. q8_0: whether rows are whole words. */
bool is_aligned(const RpTensorView &v) {
    if (v.dtype == RP_Q8_0) return v.nb[1] % 4 == 0;
    return ((uintptr_t)v.data | v.nb[1] | v.nb[2]) % 16 == 0 && v.ne[0] % 8 == 0;
}

bool is_plain(const Attention &a, int64_t size) {
    return a.aligned && a.cap == nullptr && a.k.ne[0] == size && a.v.ne[0] == size;
}

/* A launch for blocks of GROUPS * 8 rows. */
template <RpDtype T, int SIZE, int GROUPS> LaunchShape rows_shape(const Attention &a, const AttentionGrid &s) {
    typedef AttentionSizes<T, SIZE> S;
    const int rows = GROUPS * GROUP, words = rows * (S::TILE + SIZE), scales = a.split_kv ? a.splits * GROUP * 4 : 0;
    return {dim3((unsigned)a.k.ne[2], a.split_kv ? (unsigned)a.splits : 1, (unsigned)s.row_blocks), dim3(ATTN_THREADS),
            (unsigned)(rows * SIZE + (words > scales ? words : scales)) * 4};
}

} // namespace
#endif
