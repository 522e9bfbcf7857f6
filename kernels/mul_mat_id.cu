/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; an id outside of w gives 0. x[:,0,t] serves all j where ne[1] is 1. The
 * ids are read on the device: no launch depends on them (I4).
 * geometry  five (RpCudaTuning.tile_columns) and more tokens with q8_act columns: the columns of each expert are
 *           listed, then multiplied in tiles (tile.cuh). Else GEMV, blocks of 8 warps with 8/split row pairs
 *           (gemv.cuh), grid (row tiles, ids per token, tokens)
 * traffic   tiles: the chosen experts' weights once for each 64 columns; GEMV: once for each token. x once per block
 * numerics  as mul_mat.cu; `split` differs, since a token's experts fill the device together */
#include "base/kernels.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/gemv_forms.cuh"
#include "kernels/device/tile.cuh"

namespace {

/* ---- the columns of each expert ---- */

/* A column is a pair of id and token, number j + k*t. Lists in scratch memory, behind the arrival counters:
 *
 *     n_tiles[4]   the first one: tiles in use
 *     tiles[most]  each at most `width` columns of one expert, experts ascending; ids that name none come last
 *     order[k*t]   the columns by expert, ascending within each; then the columns as f16 (rp_tile_floats)
 *
 *     ids 2 0 2 7 0 2, 3 experts, width 2:   order 1 4 0 2 5 3   tiles {0,0,2} {2,2,2} {2,4,1} {3,5,1}   n_tiles 4 */
struct GroupArgs {
    RpTensorView ids;
    int          n_expert, width;
    int32_t     *n_tiles, *order;
    TileEntry   *tiles;
};

enum { GROUP_THREADS = 256, GROUP_WARPS = GROUP_THREADS / RP_WARP };

__device__ int group_of(const GroupArgs &p, int column) {
    const int32_t id = ((const int32_t *)p.ids.data)[column];
    return id >= 0 && id < p.n_expert ? id : p.n_expert;
}

/* The lanes of the warp whose column, first + lane, belongs to expert e. */
__device__ unsigned lanes_of(const GroupArgs &p, int first, int end, int e) {
    const int column = first + (int)threadIdx.x % RP_WARP;
    return __ballot_sync(RP_ALL_LANES, column < end && group_of(p, column) == e);
}

/* Block e lists the columns of expert e. It counts those of every expert: sums of integers, in any order. Then each
 * warp lists its own run of columns behind those of the warps before it. */
__global__ void __launch_bounds__(GROUP_THREADS) group_kernel(GroupArgs p) {
    rp_begin();
    RP_SHARED_DYNAMIC(int, count); /* [n_expert + 1] */
    RP_SHARED(int, before, [2]);   /* columns, tiles of the experts before e */
    RP_SHARED(int, of_warp, [GROUP_WARPS]);
    const int tid = (int)threadIdx.x, warp = tid / RP_WARP, e = (int)blockIdx.x;
    const int n = (int)(p.ids.ne[0] * p.ids.ne[1]), run = (n + GROUP_THREADS - 1) / GROUP_THREADS * RP_WARP;
    for (int i = tid; i <= p.n_expert; i += GROUP_THREADS) count[i] = 0;
    if (tid < 2) before[tid] = 0;
    __syncthreads();
    for (int i = tid; i < n; i += GROUP_THREADS) atomicAdd(&count[group_of(p, i)], 1);
    const int end  = (warp + 1) * run < n ? (warp + 1) * run : n;
    int       mine = 0;
    for (int i = warp * run; i < end; i += RP_WARP) mine += __popc(lanes_of(p, i, end, e));
    if (tid % RP_WARP == 0) of_warp[warp] = mine;
    __syncthreads();
    for (int i = tid; i < e; i += GROUP_THREADS) {
        atomicAdd(&before[0], count[i]);
        atomicAdd(&before[1], (count[i] + p.width - 1) / p.width);
    }
    __syncthreads();
    const int tiles = (count[e] + p.width - 1) / p.width;
    for (int i = tid; i < tiles; i += GROUP_THREADS) {
        const int left         = count[e] - i * p.width;
        p.tiles[before[1] + i] = {e, before[0] + i * p.width, left < p.width ? left : p.width, 0};
    }
    if (tid == 0 && e == p.n_expert) *p.n_tiles = before[1] + tiles;
    int at = before[0];
    for (int i = 0; i < warp; i++) at += of_warp[i];
    for (int i = warp * run; i < end; i += RP_WARP) {
        const unsigned lanes = lanes_of(p, i, end, e), lane = (unsigned)tid % RP_WARP;
        if (lanes >> lane & 1) p.order[at + __popc(lanes & ((1u << lane) - 1))] = i + (int)lane;
        at += __popc(lanes);
    }
}

/* Tiles that any ids can fill: each expert's last tile may be partly full. */
int64_t most_tiles(const RpTensorView &w, const RpTensorView &ids, int width) {
    const int64_t columns = ids.ne[0] * ids.ne[1], experts = w.ne[2] + 1;
    return (experts < columns ? experts : columns) + columns / width;
}

bool takes_tiles(const RpOpArgs *args, const RpKernelCtx *ctx) {
    return args->mul_mat_id.x.dtype == RP_Q8_ACT && args->mul_mat_id.ids.ne[1] >= rp_tuning_of(ctx).tile_columns;
}

RpStatus grouped(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView &w = args->mul_mat_id.w, &ids = args->mul_mat_id.ids;
    const RpCudaTuning  tuning  = rp_tuning_of(ctx);
    const int64_t       columns = ids.ne[0] * ids.ne[1];
    const TileSize      size    = rp_tile_size(tuning.prefill_tile, w.ne[1], columns, w.ne[2], tuning.n_sm);
    const int           width   = rp_tile_columns(tuning.prefill_tile, size);
    const int64_t       most    = most_tiles(w, ids, width);
    if (columns > INT32_MAX / 2 || w.ne[2] > 8192)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat_id: %lld columns of %lld experts: must be at most %d of 8192",
                       (long long)columns, (long long)w.ne[2], INT32_MAX / 2);
    RP_TRY(rp_check_scratch("mul_mat_id", ctx, rp_cuda_mul_mat_id_scratch(args, ctx)));
    int32_t          *n_tiles = (int32_t *)rp_scratch_floats(ctx);
    TileEntry        *tiles   = n_tiles != nullptr ? (TileEntry *)(n_tiles + 4) : nullptr;
    int32_t          *order   = n_tiles != nullptr ? (int32_t *)(tiles + most) : nullptr;
    float            *x       = n_tiles != nullptr ? (float *)order + (columns + 3) / 4 * 4 : nullptr;
    const GroupArgs   group   = {ids, (int)w.ne[2], width, n_tiles, order, tiles};
    const LaunchShape shape   = {dim3((unsigned)w.ne[2] + 1), dim3(GROUP_THREADS),
                                 (unsigned)(((size_t)w.ne[2] + 1) * sizeof(int)), true};
    RP_TRY(RP_LAUNCH("mul_mat_id", ctx, shape, group_kernel, group));
    const TileProduct p = {w, args->mul_mat_id.x, args->dst, n_tiles, tiles, order, {}};
    return rp_cuda_tiles("mul_mat_id", &p, size, most, x, ctx);
}

/* ---- one expert at a time ---- */

struct MulMatIdArgs {
    RpTensorView w, x, ids, y;
    int          split;
};

/* The block's expert, or -1. */
__device__ int32_t expert_of(const MulMatIdArgs &p) {
    const int32_t id = ((const int32_t *)p.ids.data)[blockIdx.z * p.ids.ne[0] + blockIdx.y];
    return id >= 0 && id < p.w.ne[2] ? id : -1;
}

struct IdProduct {
    GemvWork       work;
    GemvColumns<1> columns;
    GemvRows       put;
};

__device__ IdProduct product_of(const MulMatIdArgs &p) {
    const int64_t j = blockIdx.y, t = blockIdx.z;
    GemvWork      work     = {(int)p.w.ne[1], (int)p.w.ne[0], 1, p.split};
    work.first_tile        = (int)blockIdx.x;
    const GemvColumns<1> x = {rp_row_at(p.x, p.x.ne[1] > 1 ? j : 0, t, 0), 0, p.w.ne[0], 1};
    const GemvRows       y = {rp_row_at(p.y, j, t, 0), 0, (int)p.w.ne[1], 1};
    return {work, x, y};
}

/* Zeros for the rows of this block. */
__device__ void no_expert(const MulMatIdArgs &p) {
    const int     rows = RP_GEMV_ROWS * RP_GEMV_WARPS / p.split;
    const int64_t m    = (int64_t)blockIdx.x * rows + threadIdx.x;
    if ((int)threadIdx.x < rows && m < p.w.ne[1]) ((float *)rp_row_at(p.y, blockIdx.y, blockIdx.z, 0))[m] = 0.0f;
}

template <class Form> __global__ void __launch_bounds__(RP_GEMV_THREADS, 2) mul_mat_id_kernel(MulMatIdArgs p) {
    rp_begin();
    const int32_t expert = expert_of(p);
    if (expert < 0) return no_expert(p); /* the whole block */
    const IdProduct product = product_of(p);
    Form::product(product.work, Form::matrix(p.w, product.work, expert), product.columns, product.put);
}

LaunchShape shape_of(const MulMatIdArgs &p, bool staged) {
    return rp_gemv_shape(p.w.ne[1], p.split, p.ids.ne[0], p.ids.ne[1], staged ? rp_gemv_shared<1>(p.w.ne[0]) : 0);
}

} // namespace

/* With the narrowest tiles, of which there are most. */
extern "C" size_t rp_cuda_mul_mat_id_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView &w = args->mul_mat_id.w, &ids = args->mul_mat_id.ids;
    const RpPrefillTile kind = rp_tuning_of(ctx).prefill_tile;
    if (!takes_tiles(args, ctx)) return 0;
    return rp_scratch_size(4 + 4 * most_tiles(w, ids, rp_tile_columns(kind, RP_TILE_SMALL)) +
                           (ids.ne[0] * ids.ne[1] + 3) / 4 * 4 + rp_tile_floats(kind, &args->mul_mat_id.x));
}

extern "C" RpStatus rp_cuda_mul_mat_id(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id, args));
    MulMatIdArgs  p     = {args->mul_mat_id.w, args->mul_mat_id.x, args->mul_mat_id.ids, args->dst, 1};
    const RpDtype type  = p.w.dtype;
    const int64_t alive = p.w.ne[1] * p.ids.ne[0]; /* rows of a token's experts */
    if (p.ids.ne[0] > 65535 || p.ids.ne[1] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat_id: %lld ids of %lld tokens: must be at most 65535 of each",
                       (long long)p.ids.ne[0], (long long)p.ids.ne[1]);
    if (takes_tiles(args, ctx)) return grouped(args, ctx);
    p.split = rp_gemv_split(alive, p.w.ne[0] / rp_gemv_frag_elems(type));
    return rp_for_form(type, p.x.dtype == RP_Q8_ACT, [&](auto form) {
        using Form = decltype(form);
        return RP_LAUNCH_FORM("mul_mat_id", ctx, shape_of(p, Form::STAGED), form, mul_mat_id_kernel<Form>, p);
    });
}
