/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b], g and g' query heads and batches per matrix
 * geometry  five and more q8_act columns: tiles on tensor cores (tile_quant.cuh), grid (column tiles, row tiles), so
 *           that blocks which share weights run at the same time. Other contiguous rows: GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), grid (row tiles, tokens
 *           or fours of tokens, heads). Rows with nb[0] other than one element (a transposed matrix, values of the
 *           KV cache): one thread per element of the result, whose neighbours read neighbouring elements. Many
 *           columns: cuBLASLt, where it is available and faster (mul_mat_blas.cu)
 * traffic   the weights once per four tokens; x once per block, from L2
 * numerics  integer dot products per sum block, or f32 products; f32 sums, order in gemv.cuh */
#include "kernels/blas/mul_mat_blas.h"
#include "kernels/device/gemv_forms.cuh"
#include "kernels/device/tile_quant.cuh"

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
    GemvWork      work     = {p.w.ne[1], p.w.ne[0], columns, p.split};
    work.first_tile        = (int)blockIdx.x;
    work.early             = p.early;
    const GemvColumns<C> x = {rp_row_at(p.x, t, h, b), p.x.nb[1], p.w.ne[0], columns};
    const GemvRows       y = {rp_row_at(p.y, t, h, b), p.y.nb[1], p.w.ne[1], columns};
    return {work, x, y};
}

/* With C columns per block; positions bound products of one column only. */
template <class Form, int C>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(C)) mul_mat_kernel(MulMatArgs p) {
    rp_gemv_open(p.early);
    Product<C> product = product_of<C>(p);
    if (Form::FLOAT) product.work.n = inner_length(p, blockIdx.y * C);
    if (Form::FLOAT && p.bound == RP_BOUND_ROWS) { /* rows past the position are left unwritten */
        const int64_t end = last_position(p, blockIdx.y) + 1;
        if (end < product.work.rows) product.work.rows = product.put.rows = end;
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
    for (int64_t k = 0; k < n; k++)
        sum = fmaf(rp_float_at(p.w.dtype, column + (size_t)k * p.w.nb[0], 0), x[k], sum);
    ((float *)rp_row_at(p.y, t, h, b))[m] = sum;
}

template <class Form, int C> RpStatus multiply(const MulMatArgs &p, RpKernelCtx *ctx) {
    const LaunchShape shape =
        rp_gemv_shape(p.w.ne[1], p.split, (p.x.ne[1] + C - 1) / C, p.x.ne[2] * p.x.ne[3],
                      Form::STAGED ? rp_gemv_shared<C>(p.w.ne[0]) : 0);
    return RP_LAUNCH_FORM("mul_mat", ctx, shape, Form(), (mul_mat_kernel<Form, C>), p);
}

/* ---- tiles ---- */

/* Block (i, r): rows r * S::ROWS on of column tile i. */
template <RpDtype T, class S>
__global__ void __launch_bounds__(S::THREADS, rp_tile_resident<T, S>()) tile_kernel(TileProduct p) {
    rp_begin();
    RP_SHARED(int64_t, x_at, [S::COLUMNS]);
    RP_SHARED(int64_t, y_at, [S::COLUMNS]);
    const int64_t all = p.y.ne[1] * p.y.ne[2], first = (int64_t)blockIdx.x * S::COLUMNS;
    TileEntry tile = {0, (int32_t)first, (int32_t)(all - first < S::COLUMNS ? all - first : S::COLUMNS), 0};
    if (p.tiles != nullptr) {
        if ((int)blockIdx.x >= *p.n_tiles) return; /* the whole block */
        tile = p.tiles[blockIdx.x];
    }
    const int c = (int)threadIdx.x;
    if (c < S::COLUMNS) { /* past the last column: the last one, of which nothing is stored */
        const int     i      = tile.first + (c < tile.columns ? c : tile.columns - 1);
        const int64_t column = p.order != nullptr ? p.order[i] : i, j = column % p.y.ne[1],
                      t = column / p.y.ne[1];
        x_at[c]         = rp_row_at(p.x, p.x.ne[1] > 1 ? j : 0, t, 0) - (char *)p.x.data;
        y_at[c]         = rp_row_at(p.y, j, t, 0) - (char *)p.y.data;
    }
    __syncthreads();
    const TileWork work = {rp_planes<T>(p.w),
                           tile.expert * p.w.ne[1],
                           (int)blockIdx.y * S::ROWS,
                           (int)p.w.ne[1],
                           (int)p.w.ne[0],
                           (const char *)p.x.data,
                           (char *)p.y.data,
                           x_at,
                           y_at,
                           tile.columns};
    if (tile.expert < p.w.ne[2])
        rp_tile_product<T, S>(work);
    else
        rp_tile_zeros<S>(work);
}

template <RpDtype T, class S>
RpStatus launch_tiles(const char *op, const TileProduct &p, int64_t most, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)most, rp_blocks(p.w.ne[1], S::ROWS)), dim3(S::THREADS), 0};
    if (shape.grid.y > 65535 || most > INT32_MAX)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %lld rows, at most %d", op, (long long)p.w.ne[1],
                       65535 * S::ROWS);
    return RP_LAUNCH_AS(op, ctx, shape, "tile_kernel", (tile_kernel<T, S>), p);
}

template <RpDtype T>
RpStatus tiles_of_kind(const char *op, const TileProduct &p, TileKind kind, int64_t most, RpKernelCtx *ctx) {
    if (kind == RP_TILE_SMALL) return launch_tiles<T, SmallTile>(op, p, most, ctx);
    if (kind == RP_TILE_MID) return launch_tiles<T, MidTile>(op, p, most, ctx);
    return launch_tiles<T, LargeTile>(op, p, most, ctx);
}

bool takes_tiles(const RpTensorView &w, const RpTensorView &x) {
    return x.dtype == RP_Q8_ACT && x.ne[1] >= RP_TILE_MIN_COLUMNS &&
           w.ne[2] * w.ne[3] * x.ne[2] * x.ne[3] == 1;
}

} // namespace

extern "C" RpStatus rp_cuda_tiles(const char *op, const TileProduct *p, TileKind kind, int64_t most,
                                  RpKernelCtx *ctx) {
    return RP_FOR_QUANT(p->w.dtype, tiles_of_kind, op, *p, kind, most, ctx);
}

extern "C" RpStatus rp_cuda_mul_mat(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat(args));
    const RpMulMatBound bound =
        rp_is_present(&args->mul_mat.pos) ? args->params->mul_mat.bound : RP_BOUND_NONE;
    MulMatArgs    p     = {args->mul_mat.w, args->mul_mat.x, args->dst, args->mul_mat.pos, bound, 1, -1};
    const RpDtype type  = p.w.dtype;
    const bool    quant = rp_dtype_is_quant(type);
    if (p.x.ne[1] > 65535 || p.x.ne[2] * p.x.ne[3] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat: %lld tokens, %lld heads: at most 65535 of each",
                       (long long)p.x.ne[1], (long long)(p.x.ne[2] * p.x.ne[3]));
    if (quant && bound != RP_BOUND_NONE)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat: positions bound products with float matrices only, not %s",
                       rp_dtype_name(type));
    if (p.w.nb[0] != (size_t)rp_dtype_info(type)->block_bytes) {
        const LaunchShape shape = {
            dim3(rp_blocks(p.w.ne[1], THREADS), (unsigned)p.x.ne[1], (unsigned)(p.x.ne[2] * p.x.ne[3])),
            dim3(THREADS), 0};
        return RP_LAUNCH("mul_mat", ctx, shape, transposed_kernel, p);
    }
    /* Many columns: cuBLASLt, unless it is unavailable or has refused. */
    bool taken;
    RP_TRY(rp_cuda_mul_mat_blas(args, ctx, &taken));
    if (taken) return RP_OK;
    if (quant && takes_tiles(p.w, p.x)) {
        const int64_t     n       = p.x.ne[1];
        const TileKind    kind    = rp_tile_kind(p.w.ne[1], n, 1, rp_tuning_of(ctx).n_sm);
        const TileProduct product = {p.w, p.x, p.y, nullptr, nullptr, nullptr};
        return rp_cuda_tiles("mul_mat", &product, kind,
                             (n + rp_tile_columns(kind) - 1) / rp_tile_columns(kind), ctx);
    }
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
