/* As attention.cu, over a cache of blocks that sequences share: position i of token t is row
 * table[i/block,seq[t]]*block + i%block of k and v.
 *
 * Tiles and splits follow from the positions, so a token has the bits that attention.cu computes in a cache of as many
 * positions (I8). Up to 16 tokens have thread blocks of their own, and each split too where few blocks would run. More
 * tokens share thread blocks: those of one sequence in a run read keys and values once (attention_table.cuh).
 * geometry  blocks of 4 warps, grid (KV heads, splits or 1, tokens, times the parts of one)
 * traffic   as attention.cu; the table once per thread block and tile, from L1
 * numerics  as attention.cu */
#include "base/tuning.h"
#include "kernels/attention/attention_blocks.h"
#include "kernels/device/attention/attention_rows.cuh"
#include "kernels/device/attention/attention_table.cuh"

namespace {

struct BlockAttention {
    Attention  a;
    BlockTable t;
};

template <RpDtype T, int SIZE, int GROUPS, bool PLAIN>
__global__ void __launch_bounds__(ATTN_THREADS, GROUPS *SIZE <= 64 ? 3 : 2)
    attention_blocks_kernel(const __grid_constant__ BlockAttention p) {
    rp_begin();
    with_run(p.t, p.a.per_kv, GROUPS * GROUP, [&](int first, int n, int row0, const int32_t *blocks) {
        Attention a = p.a;
        a.rows      = (first + n) * a.per_kv; /* the run is all that there is */
        attention_rows<T, SIZE, GROUPS, PLAIN>(a, first * a.per_kv + row0,
                                               BlockCache<SIZE, PLAIN>{p.t, blocks, a.aligned});
    });
}

/* ---- geometry ---- */

/* With more groups of heads of 64 in q8_0 registers would be spilled. */
constexpr int most_groups_here(RpDtype type, int size) {
    return type == RP_Q8_0 && size == 64 ? 2 : most_groups(type, size);
}

struct BlocksGrid : AttentionGrid {
    int64_t together;
};

BlocksGrid geometry(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k;
    const int64_t       n_ctx  = args->attention.table.ne[0] * args->params->attention.block;
    const int64_t       per_kv = q->ne[2] / k->ne[2], few = q->ne[1] <= MOST_SEQUENCES;
    BlocksGrid          s = {};
    s.size                = size_of_heads(q->ne[0]);
    const int64_t tile    = s.size <= 128 ? 128 : 16384 / s.size;
    s.groups              = few && per_kv <= GROUP ? 1 : most_groups_here(k->dtype, (int)s.size);
    s.together            = few || s.groups * GROUP < 2 * per_kv ? 1 : s.groups * GROUP / per_kv;
    s.row_blocks =
        s.together > 1 ? rp_blocks(q->ne[1], s.together) * s.together : q->ne[1] * rp_blocks(per_kv, s.groups * GROUP);
    s.splits = splits_of(rp_tuning_of(ctx).n_sm, k->ne[2], (n_ctx + tile - 1) / tile, per_kv * s.size * 4);
    if (s.together == 1) choose_split_kv(&s, args, ctx, s.groups * GROUP, s.size);
    return s;
}

template <RpDtype T, int SIZE, int GROUPS>
RpStatus launch(const BlockAttention &p, const BlocksGrid &s, RpKernelCtx *ctx) {
    const LaunchShape shape = rows_shape<T, SIZE, GROUPS>(p.a, s);
    if constexpr (T == RP_F16) /* in q8_0 registers would be spilled */
        if (is_plain(p.a, SIZE))
            return RP_LAUNCH("attention", ctx, shape, (attention_blocks_kernel<T, SIZE, GROUPS, true>), p);
    return RP_LAUNCH("attention", ctx, shape, (attention_blocks_kernel<T, SIZE, GROUPS, false>), p);
}

template <RpDtype T, int SIZE> RpStatus by_groups(const BlockAttention &p, const BlocksGrid &s, RpKernelCtx *ctx) {
    return s.groups == 1 ? launch<T, SIZE, 1>(p, s, ctx) : launch<T, SIZE, most_groups_here(T, SIZE)>(p, s, ctx);
}

template <RpDtype T> RpStatus by_size(const BlockAttention &p, const BlocksGrid &s, RpKernelCtx *ctx) {
    if (s.size == 64) return by_groups<T, 64>(p, s, ctx);
    if (s.size == 128) return by_groups<T, 128>(p, s, ctx);
    return s.size == 256 ? by_groups<T, 256>(p, s, ctx) : launch<T, 512, 1>(p, s, ctx);
}

} // namespace

extern "C" size_t rp_cuda_attention_blocks_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    return geometry(args, ctx).scratch;
}

extern "C" RpStatus rp_cuda_attention_blocks(const RpOpArgs *args, RpKernelCtx *ctx) {
    const BlocksGrid s = geometry(args, ctx);
    BlockAttention   p = {};
    RP_TRY(attention_of(args, ctx, s, &p.a));
    p.a.n_ctx    = (int)(args->attention.table.ne[0] * args->params->attention.block);
    p.a.aligned  = is_aligned(p.a.k) && is_aligned(p.a.v);
    p.t          = table_of(args->attention.table, args->attention.seq, args->params->attention.block, p.a.k.ne[1]);
    p.t.together = (int)s.together;
    return p.a.k.dtype == RP_F16 ? by_size<RP_F16>(p, s, ctx) : by_size<RP_Q8_0>(p, s, ctx);
}
