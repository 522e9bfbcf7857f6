/* y[:,h,t] = sum_i p_i * v[:,i,h/g],  p = softmax_i(scale * k[:,i,h/g] . q[:,t,h] + mask[i,t]),  g query heads per KV
 * head, over max(0, pos[t]-window+1) <= i <= pos[t]; a sink is one more score of the softmax, without a value.
 *
 * Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867) with tensor cores, split along the KV cache
 * (split-KV). Rows are pairs of a token and a query head; 8 to 32 rows that share a KV head form a block
 * (attention_tile.cuh). The position alone decides in which tile and split it is:
 *
 *     position i:  tile i / TILE,  split (i / TILE) % splits       TILE = 128, or 64, 32 for heads above 128, 256
 *     for 3 splits:
 *         positions   0..127   128..255   256..383   384..511   512..639
 *         split         0         1          2          0          1
 *
 * With few tokens (split_kv) each split is a block, and the last-arriving block merges the splits in ascending order.
 * With many tokens a block computes the splits one after the other. A row of a matrix product does not depend on the
 * other rows, and a tile of which a row sees nothing leaves its state as it was. So a token has the same bits alone and
 * within a prefill (I8). attention_prefill.cu has most chunks of five and more tokens, in another order;
 * attention_blocks.cu has caches of blocks.
 * With a cap, the score s is cap * tanh(s / cap).
 * geometry  blocks of 4 warps, grid (KV heads, splits or 1, blocks of rows)
 * traffic   the keys and values in use once per block of rows; with split_kv the partial results of each split are
 *           written and read once, 4*(SIZE + 2) bytes per row, SIZE = 64, 128, 256 or 512
 * numerics  factors of f32 accuracy in two f16 parts (bf16 for values in q8_0), sums in f32, exp2f of the device; as
 *           q8_act the heads of a token are one row, quantised at the end
 *
 * Keys and values of f32 have a kernel of their own (attention_f32.cuh):
 * geometry  blocks of 4 warps, grid (KV heads, blocks of 8 to 32 rows, batch)
 * traffic   the keys and values in use once per block of rows
 * numerics  f32 by fma, expf of the device */
#include "base/kernels.h"
#include "base/tuning.h"
#include "kernels/attention/attention_blocks.h"
#include "kernels/attention/attention_prefill.h"
#include "kernels/device/attention/attention_f32.cuh"
#include "kernels/device/attention/attention_rows.cuh"

namespace {

/* The cache as it lies. */
template <int SIZE, bool PLAIN> struct WholeCache {
    bool              aligned;
    __device__ KvRows operator()(const RpTensorView &v, int64_t hk, const BlockRange &seen) const {
        return {(const char *)v.data + hk * v.nb[2], (unsigned)v.nb[1], seen.from, seen.end,
                PLAIN ? SIZE : (int)v.ne[0],         PLAIN || aligned};
    }
};

template <RpDtype T, int SIZE, int GROUPS, bool PLAIN>
__global__ void __launch_bounds__(ATTN_THREADS, GROUPS *SIZE <= 64 ? 3 : 2) attention_kernel(Attention a) {
    rp_begin();
    /* Blocks start in this order: the last rows of a prompt see the most positions. */
    attention_rows<T, SIZE, GROUPS, PLAIN>(a, (int)(gridDim.z - 1 - blockIdx.z) * GROUPS * GROUP,
                                           WholeCache<SIZE, PLAIN>{a.aligned});
}

/* ---- geometry, from shapes and the number of multiprocessors only ---- */

/* Only split_kv and the rows of a block, which do not change the bits, look at the number of tokens. */
AttentionGrid geometry(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k;
    const int64_t       per_kv = q->ne[2] / k->ne[2], rows = per_kv * q->ne[1];
    AttentionGrid       s = {};
    s.size                = size_of_heads(q->ne[0]);
    const int64_t most    = most_groups(k->dtype, (int)s.size);
    const int64_t tile    = s.size <= 128 ? 128 : 16384 / s.size;
    s.groups              = rows <= GROUP || most == 1 ? 1 : rows <= 2 * GROUP || most == 2 ? 2 : most;
    s.row_blocks          = (rows + s.groups * GROUP - 1) / (s.groups * GROUP);
    s.splits = splits_of(rp_tuning_of(ctx).n_sm, k->ne[2], (k->ne[1] + tile - 1) / tile, per_kv * s.size * 4);
    choose_split_kv(&s, args, ctx, s.groups * GROUP, s.size);
    return s;
}

template <RpDtype T, int SIZE, int GROUPS>
RpStatus launch(const Attention &a, const AttentionGrid &s, RpKernelCtx *ctx) {
    const LaunchShape shape = rows_shape<T, SIZE, GROUPS>(a, s);
    if (is_plain(a, SIZE)) return RP_LAUNCH("attention", ctx, shape, (attention_kernel<T, SIZE, GROUPS, true>), a);
    return RP_LAUNCH("attention", ctx, shape, (attention_kernel<T, SIZE, GROUPS, false>), a);
}

template <RpDtype T, int SIZE> RpStatus by_groups(const Attention &a, const AttentionGrid &s, RpKernelCtx *ctx) {
    if (s.groups == 1) return launch<T, SIZE, 1>(a, s, ctx);
    if (s.groups == 2) return launch<T, SIZE, 2>(a, s, ctx);
    return launch<T, SIZE, most_groups(T, SIZE)>(a, s, ctx);
}

template <RpDtype T> RpStatus by_size(const Attention &a, const AttentionGrid &s, RpKernelCtx *ctx) {
    if (s.size == 64) return by_groups<T, 64>(a, s, ctx);
    if (s.size == 128) return by_groups<T, 128>(a, s, ctx);
    if (s.size == 512) return launch<T, 512, 1>(a, s, ctx);
    return s.groups == 1 ? launch<T, 256, 1>(a, s, ctx) : launch<T, 256, 2>(a, s, ctx);
}

} // namespace

extern "C" size_t rp_cuda_attention_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    if (args->attention.k.dtype == RP_F32) return 0;
    if (args->params->attention.block != 0) return rp_cuda_attention_blocks_scratch(args, ctx);
    if (rp_cuda_takes_attention_prefill(args)) return rp_cuda_attention_prefill_scratch(args, ctx);
    return geometry(args, ctx).scratch;
}

extern "C" RpStatus rp_cuda_attention(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(attention, args));
    if (args->params->attention.block != 0) return rp_cuda_attention_blocks(args, ctx);
    if (args->attention.k.dtype == RP_F32) return attention_f32(args, ctx);
    if (rp_cuda_takes_attention_prefill(args)) return rp_cuda_attention_prefill(args, ctx);
    const AttentionGrid s = geometry(args, ctx);
    Attention           a = {};
    RP_TRY(attention_of(args, ctx, s, &a));
    a.aligned = is_aligned(a.k) && is_aligned(a.v);
    return a.k.dtype == RP_F16 ? by_size<RP_F16>(a, s, ctx) : by_size<RP_Q8_0>(a, s, ctx);
}
