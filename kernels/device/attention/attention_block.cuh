/* attention_block.cuh - the work of a block of attention over an f16 or q8_0 cache around its tiles: the positions that
 * its rows see, sums over its warps, results to memory, and the number of splits. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_BLOCK_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_BLOCK_CUH

#include "kernels/device/attention/attention_merge.cuh"

namespace {

enum {
    BLOCKS_PER_SM   = 2, /* that the number of splits aims at */
    MAX_SPLITS      = 128,
    MAX_MERGE_BYTES = 256 * 1024 /* of the partial results that one block merges */
};

/* The positions that the rows of a block see. */
struct BlockRange {
    int from, end;         /* that any row sees */
    int all_from, all_end; /* that all rows see, if not empty */
};

/* Lane 0 always has a row. */
__device__ BlockRange of_first_lane(const BlockRange &r) {
    return {__shfl_sync(RP_ALL_LANES, r.from, 0), __shfl_sync(RP_ALL_LANES, r.end, 0),
            __shfl_sync(RP_ALL_LANES, r.all_from, 0), __shfl_sync(RP_ALL_LANES, r.all_end, 0)};
}

/* Every warp computes it; the first one stores what each row sees. At most 32 rows: one a lane. */
template <int ROWS> __device__ BlockRange block_range(const Attention &a, int row0, Seen *seen) {
    BlockRange r   = {INT_MAX, 0, 0, INT_MAX};
    const int  row = row0 + lane_index();
    Seen       s   = {0, INT_MAX}; /* missing rows have zero queries and limit nothing */
    if (lane_index() < ROWS && row < a.rows) {
        s = seen_by(a, row);
        if (s.end > 0) r.from = s.from, r.end = s.end;
        r.all_from = s.from, r.all_end = s.end;
    }
    if (warp_index() == 0 && lane_index() < ROWS) seen[lane_index()] = s;
    if (ROWS == GROUP && row0 / a.per_kv == (min(row0 + ROWS, a.rows) - 1) / a.per_kv)
        return of_first_lane(r); /* one token */
#pragma unroll 1
    for (int lanes = 1; lanes < RP_WARP; lanes *= 2) {
        r.from     = min(r.from, __shfl_xor_sync(RP_ALL_LANES, r.from, lanes));
        r.end      = max(r.end, __shfl_xor_sync(RP_ALL_LANES, r.end, lanes));
        r.all_from = max(r.all_from, __shfl_xor_sync(RP_ALL_LANES, r.all_from, lanes));
        r.all_end  = min(r.all_end, __shfl_xor_sync(RP_ALL_LANES, r.all_end, lanes));
    }
    return r;
}

/* Sums of the rows over lanes and warps, the same in all warps. Begins and ends a phase of the shared maxima. */
template <class State, int ROWS, int GROUPS>
__device__ void whole_sums(const State &state, const AttentionShared<ROWS> &shared, float (&sums)[GROUPS]) {
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        float sum = state.sum[group];
        sum += __shfl_xor_sync(RP_ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(RP_ALL_LANES, sum, 2);
        if (lane_in_group() == 0) shared.maxima[warp_index()][group * GROUP + lane_group()] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        sums[group] = shared.maxima[0][group * GROUP + lane_group()];
#pragma unroll
        for (int w = 1; w < ATTN_WARPS; w++) sums[group] += shared.maxima[w][group * GROUP + lane_group()];
    }
    __syncthreads();
}

/* x[row][SIZE] = value(group, column, e) for the elements of this lane. V::RUN columns are neighbouring dimensions. */
template <class V, int SIZE, int GROUPS, class Value> __device__ void put_rows(const KvRows &v, float *x, Value value) {
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int c = 0; c < V::S::COLUMNS; c += V::RUN) {
                unsigned w[V::RUN];
#pragma unroll
                for (int j = 0; j < V::RUN; j++) w[j] = __float_as_uint(value(group, c + j, e));
                store_words(x + (group * GROUP + lane_group()) * SIZE + V::dim(v, lane_in_group() * 2 + e, c), w);
            }
}

/* ---- geometry, from shapes and the number of multiprocessors only ---- */

/* Splits so that one token occupies the device, in whole waves if that is possible with fewer splits. Their number must
 * not depend on the number of tokens (I8). */
int64_t splits_of(int64_t n_sm, int64_t kv_heads, int64_t tiles, int64_t row_bytes) {
    int64_t most = MAX_MERGE_BYTES / row_bytes;
    if (most > MAX_SPLITS) most = MAX_SPLITS;
    int64_t splits = most;
    for (int64_t waves = BLOCKS_PER_SM; waves > 0; waves--)
        if (n_sm * waves / kv_heads <= most) {
            splits = n_sm * waves / kv_heads;
            break;
        }
    if (splits > tiles) splits = tiles;
    return splits < 1 ? 1 : splits;
}

} // namespace
#endif
