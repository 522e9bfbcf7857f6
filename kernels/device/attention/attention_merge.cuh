/* attention_merge.cuh - merges the splits of a row in ascending order. Splits a and b of maxima m and M:
 *
 *     new = max(m, M),   acc = acc_a * exp(m - new) + acc_b * exp(M - new),   sum by the same formula
 *
 * A sink is a split without values that comes first. Splits without positions are left out.
 *
 * partials[KV head][block of rows][split]:  acc[rows][SIZE], maximum[rows], sum[rows]      rows = GROUPS * 8 */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_MERGE_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_MERGE_CUH

#include "base/tuning.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/attention/attention_tile.cuh"

namespace {

/* Tiles of a block, and the splits that have any of them. Tile i belongs to split i % splits. */
struct Range {
    int first_tile, end_tile;
    int first;  /* split of the first tile */
    int active; /* number of splits with tiles; 0 if all tokens are padding */

    /* Cyclic distance of a split from the first one. A window can begin in any split: with 4 splits and first = 3,
     * splits 3 0 1 2 have ranks 0 1 2 3. Ranks from `active` on have no tiles. */
    __device__ int rank(int split, int splits) const { return split >= first ? split - first : split - first + splits; }

    /* Splits with tiles, in ascending order: the i-th of them, for i < active. Those before `first` come first. */
    __device__ int before(int splits) const { return max(first + active - splits, 0); }
    __device__ int nth(int i, int before) const { return i < before ? i : i - before + first; }
};

__device__ Range range_of(int from, int end, int tile, int splits) {
    if (end <= from) return {};
    Range r;
    r.first_tile = from / tile, r.end_tile = (end + tile - 1) / tile;
    const int n = r.end_tile - r.first_tile;
    r.first     = r.first_tile % splits;
    r.active    = n < splits ? n : splits;
    return r;
}

__device__ float *partials_of(const Attention &a, int split, int rows, int size) {
    const size_t block = (size_t)blockIdx.x * gridDim.z + blockIdx.z;
    return a.partials + (block * a.splits + split) * rows * (size + 2);
}

/* The state before the first split. */
__device__ float first_maximum(const Attention &a, int64_t hk, int row) {
    if (a.sinks.data == nullptr || row >= a.rows) return -INFINITY;
    return ((const float *)a.sinks.data)[hk * a.per_kv + row % a.per_kv];
}
__device__ float first_sum(const Attention &a) { return a.sinks.data == nullptr ? 0.0f : WEIGHT_ONE; }

__device__ float inverse_of(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

/* keep[i][row] = exp(m - new) and take = exp(M - new) for 8 rows, and the sums, of the i-th split that has tiles: 4
 * arrays of splits * 8. Each is computed once and used by all elements of the row. */
struct Scales {
    float     *maxima, *sums, *keep, *take;
    __device__ Scales(float *p, int splits)
        : maxima(p), sums(p + splits * GROUP), keep(p + 2 * splits * GROUP), take(p + 3 * splits * GROUP) {}
};

__device__ void stage_scales(const Attention &a, const Range &range, int64_t hk, int row0, const float *maxima,
                             int rows, int size, const Scales &scales) {
    const int n = range.active * GROUP, low = range.before(a.splits);
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < n; i += ATTN_THREADS) {
        const bool   active = row0 + i % GROUP < a.rows;
        const float *from   = maxima + (size_t)range.nth(i / GROUP, low) * rows * (size + 2) + i % GROUP;
        scales.maxima[i]    = active ? __ldcg(from) : -INFINITY;
        scales.sums[i]      = active ? __ldcg(from + rows) : 0.0f;
    }
    __syncthreads();
    /* A thread has a row of a segment of at most a sixteenth of the splits, rounded up. */
    const int segments = ATTN_THREADS / GROUP, per = (range.active + segments - 1) / segments,
              segment = (int)threadIdx.x / GROUP, r = (int)threadIdx.x % GROUP,
              end = min((segment + 1) * per, range.active);
    float most = -INFINITY, before = first_maximum(a, hk, row0 + r);
#pragma unroll 1
    for (int s = segment * per; s < end; s++) most = fmaxf(most, scales.maxima[s * GROUP + r]);
    if (segment * per < end) scales.keep[threadIdx.x] = most;
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < segment && j * per < range.active; j++) before = fmaxf(before, scales.keep[j * GROUP + r]);
    __syncthreads();
#pragma unroll 1
    for (int s = segment * per; s < end; s++) {
        const int   i     = s * GROUP + r;
        const float after = fmaxf(before, scales.maxima[i]);
        scales.keep[i]    = rescale_factor(before, after);
        scales.take[i]    = rescale_factor(scales.maxima[i], after);
        before            = after;
    }
    __syncthreads();
}

/* From L2: the L1 may hold what the address contained before. */
__device__ float4 load_partial(const float *p) {
#ifdef RP_CUDASIM
    return make_float4(__ldcg(p), __ldcg(p + 1), __ldcg(p + 2), __ldcg(p + 3));
#else
    return __ldcg((const float4 *)p);
#endif
}

/* The last-arriving block: reads the partial results of all splits and leaves y in out[row][SIZE]. A thread takes four
 * dimensions of a row; BATCH splits are loaded at a time. Nothing else runs meanwhile, and each instruction would
 * run once if loops were unrolled, so they are short. */
template <int SIZE, int GROUPS>
__device__ void merge_splits(const Attention &a, const Range &range, int64_t hk, int row0, float *memory, float *out) {
    enum { ROWS = GROUPS * GROUP, QUADS = SIZE / 4, BATCH = 8 };
    const int    low      = range.before(a.splits);
    const float *partials = partials_of(a, 0, ROWS, SIZE);
    const Scales scales(memory, a.splits);
    const size_t next = (size_t)ROWS * (SIZE + 2);
#pragma unroll 1
    for (int group = 0; group < GROUPS && row0 + group * GROUP < a.rows; group++) {
        const int first = row0 + group * GROUP, left = a.rows - first, n = left < GROUP ? left : GROUP;
        __syncthreads(); /* the scales of the group before have been used */
        stage_scales(a, range, hk, first, partials + ROWS * SIZE + group * GROUP, ROWS, SIZE, scales);
#pragma unroll 1
        for (int u = (int)threadIdx.x; u < n * QUADS; u += ATTN_THREADS) {
            const int    r    = u / QUADS;
            const float *p    = partials + (size_t)(group * GROUP) * SIZE + 4 * u;
            float        v[4] = {}, sum = first_sum(a);
#pragma unroll 1
            for (int s0 = 0; s0 < range.active; s0 += BATCH) {
                float4 x[BATCH];
#pragma unroll
                for (int s = 0; s < BATCH; s++)
                    if (s0 + s < range.active) x[s] = load_partial(p + range.nth(s0 + s, low) * next);
#pragma unroll
                for (int s = 0; s < BATCH; s++) {
                    if (s0 + s >= range.active) break;
                    const int   at   = (s0 + s) * GROUP + r;
                    const float keep = scales.keep[at], take = scales.take[at];
                    v[0] = fmaf(take, x[s].x, v[0] * keep), v[1] = fmaf(take, x[s].y, v[1] * keep);
                    v[2] = fmaf(take, x[s].z, v[2] * keep), v[3] = fmaf(take, x[s].w, v[3] * keep);
                    sum = fmaf(take, scales.sums[at], sum * keep);
                }
            }
            const float inverse = inverse_of(sum);
            for (int j = 0; j < 4; j++) out[group * GROUP * SIZE + 4 * u + j] = v[j] * inverse;
        }
    }
}

/* ---- the host's side ---- */

/* Blocks of rows of a KV head, and the splits of its positions. split_kv: a block for each split, and `scratch` bytes
 * for its partial results; else one block takes all splits. */
struct AttentionSplits {
    int64_t row_blocks, splits;
    bool    split_kv;
    size_t  scratch;
};

/* Sets split_kv and scratch, which do not change the bits, for blocks of `rows` rows and heads of `size` elements. */
void choose_split_kv(AttentionSplits *s, const RpOpArgs *args, const RpKernelCtx *ctx, int64_t rows, int64_t size) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k;
    const int64_t       all = s->row_blocks * k->ne[2];
    s->split_kv             = s->splits > 1 && q->ne[1] <= rp_tuning_of(ctx).split_tokens && all <= RP_COUNTERS;
    s->scratch              = s->split_kv ? rp_scratch_size(all * s->splits * rows * (size + 2)) : 0;
}

/* All of *a but `aligned`. */
RpStatus attention_of(const RpOpArgs *args, const RpKernelCtx *ctx, const AttentionSplits &s, Attention *a) {
    a->q = args->attention.q, a->k = args->attention.k, a->v = args->attention.v, a->pos = args->attention.pos,
    a->sinks = args->attention.sinks, a->cap = (const float *)args->attention.cap.data;
    a->y = args->dst, a->p = args->params->attention;
    if (s.row_blocks > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "attention: %lld tokens: too many for one launch", (long long)a->q.ne[1]);
    RP_TRY(rp_check_scratch("attention", ctx, s.scratch));
    a->per_kv    = (int)(a->q.ne[2] / a->k.ne[2]);
    a->rows      = (int)(a->per_kv * a->q.ne[1]);
    a->n_ctx     = (int)a->k.ne[1];
    a->splits    = (int)s.splits;
    a->split_kv  = s.split_kv;
    a->quantizes = a->y.dtype == RP_Q8_ACT;
    a->next      = rp_next_weights(ctx);
    if (s.split_kv) {
        a->counters = (unsigned *)ctx->scratch;
        a->partials = rp_scratch_floats(ctx);
    }
    return RP_OK;
}

} // namespace
#endif
