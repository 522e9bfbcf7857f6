/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b], g and g' query heads and batches per matrix
 * geometry  five (RpCudaTuning.tile_columns) and more q8_act columns: tiles on tensor cores (tile.cuh). Other
 *           contiguous rows: GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), grid (row tiles, tokens
 *           or fours of tokens, heads). Rows with nb[0] other than one element (a transposed matrix, values of the
 *           KV cache): one thread per element of the result, whose neighbours read neighbouring elements. Many
 *           columns: cuBLASLt, where it is available and faster (mul_mat_blas.cu)
 * traffic   the weights once per four tokens; x once per block, from L2
 * numerics  tiles: tile_int8.cuh, tile_f16.cuh. GEMV: integer dot products per sum block, or f32 products; f32 sums,
 *           order in gemv.cuh */
#include "base/kernels.h"
#include "kernels/blas/mul_mat_blas.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/gemv_forms.cuh"
#include "kernels/device/tile.cuh"

namespace {

struct MulMatArgs {
    RpTensorView  w, x, y, pos;
    RpMulMatBound bound;
    int           split;
    int           early; /* of GemvWork */
};

__device__ int64_t last_position(const MulMatArgs &p, int64_t t) { return ((const int32_t *)p.pos.data)[t]; }

/* Terms of the sum for token t: with RP_BOUND_INNER those up to its position. */
__device__ int64_t inner_length(const MulMatArgs &p, int64_t t) {
    if (p.bound != RP_BOUND_INNER) return p.w.ne[0];
    const int64_t end = last_position(p, t) + 1;
    return end < 0 ? 0 : (end < p.w.ne[0] ? end : p.w.ne[0]);
}

/* The matrix that a block's head multiplies: heads share a matrix in runs of g, batches of g'. */
struct HeadMatrix {
    int64_t i2, i3;
};

__device__ HeadMatrix matrix_of_head(const MulMatArgs &p) {
    const int64_t h = blockIdx.z % p.x.ne[2], b = blockIdx.z / p.x.ne[2];
    return {h / (p.x.ne[2] / p.w.ne[2]), b / (p.x.ne[3] / p.w.ne[3])};
}

/* The block's product: columns t = C * blockIdx.y to t + C - 1, fewer at the end. */
template <int C> struct Product {
    GemvWork       work;
    GemvColumns<C> columns;
    GemvRows       put;
};

template <int C> __device__ Product<C> product_of(const MulMatArgs &p) {
    const int64_t t = (int64_t)blockIdx.y * C, h = blockIdx.z % p.x.ne[2], b = blockIdx.z / p.x.ne[2];
    const int     columns  = (int)(p.x.ne[1] - t < C ? p.x.ne[1] - t : C);
    GemvWork      work     = {(int)p.w.ne[1], (int)p.w.ne[0], columns, p.split};
    work.first_tile        = (int)blockIdx.x;
    work.early             = p.early;
    const GemvColumns<C> x = {rp_row_at(p.x, t, h, b), p.x.nb[1], p.w.ne[0], columns};
    const GemvRows       y = {rp_row_at(p.y, t, h, b), p.y.nb[1], (int)p.w.ne[1], columns};
    return {work, x, y};
}

/* With C columns per block; positions bound products of one column only. */
template <class Form, int C>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(C)) mul_mat_kernel(MulMatArgs p) {
    rp_gemv_open(p.early);
    Product<C> product = product_of<C>(p);
    if (Form::FLOAT) product.work.n = (int)inner_length(p, blockIdx.y * C);
    if (Form::FLOAT && p.bound == RP_BOUND_ROWS) { /* rows past the position are left unwritten */
        const int64_t end = last_position(p, blockIdx.y) + 1;
        if (end < product.work.rows) product.work.rows = product.put.rows = (int)end;
        if (rp_gemv_block_row(product.work, 0) >= product.work.rows) return; /* the whole block */
    }
    const HeadMatrix m = matrix_of_head(p);
    Form::product(product.work, Form::matrix(p.w, product.work, m.i2, m.i3), product.columns, product.put);
}

enum { THREADS = 256 };

/* Element (k, m) lies at k * nb[0] + m * nb[1]. One thread adds up one result in the order of k; with nb[1] of one
 * element the 32 lanes of a warp read neighbouring addresses. */
__global__ void __launch_bounds__(THREADS) transposed_kernel(MulMatArgs p) {
    rp_begin();
    const int64_t m = (int64_t)blockIdx.x * THREADS + threadIdx.x, t = blockIdx.y;
    const int64_t h = blockIdx.z % p.x.ne[2], b = blockIdx.z / p.x.ne[2];
    if (m >= p.w.ne[1]) return;
    if (p.bound == RP_BOUND_ROWS && m > last_position(p, t)) return;
    const HeadMatrix w      = matrix_of_head(p);
    const char      *column = rp_row_at(p.w, m, w.i2, w.i3);
    const float     *x      = (const float *)rp_row_at(p.x, t, h, b);
    const int64_t    n      = inner_length(p, t);
    float            sum    = 0.0f;
    for (int64_t k = 0; k < n; k++) sum = fmaf(rp_float_at(p.w.dtype, column + (size_t)k * p.w.nb[0], 0), x[k], sum);
    ((float *)rp_row_at(p.y, t, h, b))[m] = sum;
}

template <class Form, int C> RpStatus multiply(const MulMatArgs &p, RpKernelCtx *ctx) {
    const LaunchShape shape = rp_gemv_shape(p.w.ne[1], p.split, (p.x.ne[1] + C - 1) / C, p.x.ne[2] * p.x.ne[3],
                                            Form::STAGED ? rp_gemv_shared<C>(p.w.ne[0]) : 0);
    return RP_LAUNCH_FORM("mul_mat", ctx, shape, Form(), (mul_mat_kernel<Form, C>), p);
}

bool takes_tiles(const RpTensorView &w, const RpTensorView &x, const RpKernelCtx *ctx) {
    return rp_dtype_is_quant(w.dtype) && x.dtype == RP_Q8_ACT && x.ne[1] >= rp_tuning_of(ctx).tile_columns &&
           w.ne[2] * w.ne[3] * x.ne[2] * x.ne[3] == 1;
}

RpStatus multiply_tiles(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView &w = args->mul_mat.w, &x = args->mul_mat.x;
    const RpCudaTuning  tuning  = rp_tuning_of(ctx);
    const TileProduct   product = {w, x, args->dst, nullptr, nullptr, nullptr, {}};
    const TileSize      size    = rp_tile_size(tuning.prefill_tile, w.ne[1], x.ne[1], 1, tuning.n_sm);
    const int64_t       floats  = rp_tile_floats(tuning.prefill_tile, &x);
    if (floats > 0) RP_TRY(rp_check_scratch("mul_mat", ctx, rp_scratch_size(floats)));
    return rp_cuda_tiles("mul_mat", &product, size, rp_blocks(x.ne[1], rp_tile_columns(tuning.prefill_tile, size)),
                         rp_scratch_floats(ctx), ctx);
}

} // namespace

extern "C" size_t rp_cuda_mul_mat_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const size_t  blas = rp_cuda_mul_mat_blas_scratch(args, ctx);
    const int64_t tile = rp_tile_floats(rp_tuning_of(ctx).prefill_tile, &args->mul_mat.x);
    if (tile == 0 || !takes_tiles(args->mul_mat.w, args->mul_mat.x, ctx)) return blas;
    const size_t tiles = rp_scratch_size(tile);
    return blas > tiles ? blas : tiles;
}

extern "C" RpStatus rp_cuda_mul_mat(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat, args));
    const RpMulMatBound bound = rp_is_present(&args->mul_mat.pos) ? args->params->mul_mat.bound : RP_BOUND_NONE;
    MulMatArgs          p     = {args->mul_mat.w, args->mul_mat.x, args->dst, args->mul_mat.pos, bound, 1, -1};
    const RpDtype       type  = p.w.dtype;
    const bool          quant = rp_dtype_is_quant(type);
    if (p.x.ne[1] > 65535 || p.x.ne[2] * p.x.ne[3] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat: %lld tokens, %lld heads: must be at most 65535 of each",
                       (long long)p.x.ne[1], (long long)(p.x.ne[2] * p.x.ne[3]));
    if (quant && bound != RP_BOUND_NONE)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat: positions bound products with float matrices only, not %s",
                       rp_dtype_name(type));
    if (p.w.nb[0] != (size_t)rp_dtype_info(type)->block_bytes) {
        const LaunchShape shape = {
            dim3(rp_blocks(p.w.ne[1], THREADS), (unsigned)p.x.ne[1], (unsigned)(p.x.ne[2] * p.x.ne[3])), dim3(THREADS),
            0};
        return RP_LAUNCH("mul_mat", ctx, shape, transposed_kernel, p);
    }
    /* Many columns: cuBLASLt, unless it is unavailable or has refused. */
    bool taken;
    RP_TRY(rp_cuda_mul_mat_blas(args, ctx, &taken));
    if (taken) return RP_OK;
    if (takes_tiles(p.w, p.x, ctx)) return multiply_tiles(args, ctx);
    p.split = rp_gemv_split(p.w.ne[1], p.w.ne[0] / rp_gemv_frag_elems(type));
    p.early = rp_gemv_early(bound == RP_BOUND_NONE && (ctx->constant & 1) != 0,
                            rp_blocks(p.w.ne[1], RP_GEMV_ROWS * RP_GEMV_WARPS / p.split), p.split, ctx);
    /* Positions bound each token's product differently, so these take one column at a time. */
    const bool single = p.x.ne[1] == 1 || bound != RP_BOUND_NONE;
    return rp_for_form(type, p.x.dtype == RP_Q8_ACT, [&](auto form) {
        using Form = decltype(form);
        return single ? multiply<Form, 1>(p, ctx) : multiply<Form, Form::MAX_COLUMNS>(p, ctx);
    });
}
