/* GEMM for 32 and more f32 columns, or more q8_act columns (RpCudaTuning.blas_columns): y[m,t] = sum_k w[k,m] * x[k,t]
 * by cuBLASLt, in the type of the weights (f32, f16, bf16), quantised weights in f16; sums and result in f32. Steps for
 * quantised weights:
 *
 *     convert     x f32 or q8_act -> x16[t][ld] f16, scaled by 2^-e[t]
 *     per tile of rows:   dequantize w -> w16[rows][k] f16, at most 64 MiB;   y[rows] = w16 * x16 by cuBLASLt
 *     rescale     y[:,t] *= 2^e[t]
 *
 *     scratch memory:  counters (stay zero) | e[columns] i32 | x16 | w16, each a multiple of 256 bytes
 *
 * f16 and bf16 weights skip dequantize, bf16 rescale too; f32 needs the product only.
 * geometry  convert: a block of 256 threads per column. dequantize: a thread per fragment. rescale:
 *           blocks of 256 rows, grid (row blocks, columns)
 * traffic   quantised: the weights once, then written and read as f16; x twice, x16 written once and read per tile;
 *           y once, and once more where a column was scaled
 * numerics  w and x are rounded to f16 or bf16. A column whose largest element is not in [2^-8, 2^15) is scaled by
 *           a power of two, so that f16 neither overflows nor loses its small elements */
#include "base/tuning.h"
#include "kernels/blas/blaslt.h"
#include "kernels/blas/mul_mat_blas.h"
#include "kernels/device/weights.cuh"

#include <cuda_bf16.h>

namespace {

enum { THREADS = 256, ALIGN = 256, TILE_ROWS = 64 };
#ifdef RP_CUDASIM
enum { TILE_BYTES = 64 << 10 }; /* so that small tests have several tiles */
#else
enum { TILE_BYTES = 64 << 20 };
#endif

struct ConvertArgs {
    RpTensorView x;
    void        *out; /* [columns][ld] */
    int         *exponents;
    int64_t      ld;
};

struct DequantizeArgs {
    Planes  planes;
    int64_t first, n_frags, row_frags; /* fragments: before the tile, of the tile, of a row */
    __half *out;
    int64_t inner;
};

struct RescaleArgs {
    RpTensorView y;
    const int   *exponents;
};

/* Element i of a column, f32 or q8_act. */
__device__ float column_at(const RpTensorView &x, const char *column, int64_t i) {
    if (x.dtype == RP_F32) return ((const float *)column)[i];
    return ((const float *)(column + x.ne[0]))[i / 32] * (float)((const int8_t *)column)[i];
}

/* The exponent of the power of two that a column is divided by, from its largest element; 0 for most columns. */
__device__ int exponent_of(float amax) {
    if (!(amax > 0.0f) || amax == INFINITY) return 0;
    const int e = ilogbf(amax);
    return e < -8 || e > 14 ? e : 0;
}

/* One block per column. T is f16 or bf16; only f16 needs the exponent, since bf16 has the range of f32. */
template <RpDtype T> __global__ void __launch_bounds__(THREADS) convert_kernel(ConvertArgs p) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const char *column   = rp_row_at(p.x, blockIdx.x, 0, 0);
    int         exponent = 0;
    if (T == RP_F16) {
        float amax = 0.0f;
        for (int64_t i = threadIdx.x; i < p.x.ne[0]; i += THREADS) {
            const float v = fabsf(column_at(p.x, column, i));
            amax          = v > amax || v != v ? v : amax;
        }
        exponent = exponent_of(rp_block_max(amax, scratch));
        if (threadIdx.x == 0) p.exponents[blockIdx.x] = exponent;
    }
    for (int64_t i = threadIdx.x; i < p.x.ne[0]; i += THREADS) {
        const float v = column_at(p.x, column, i);
        if (T == RP_F16)
            ((__half *)p.out)[blockIdx.x * p.ld + i] = __float2half_rn(ldexpf(v, -exponent));
        else
            ((__nv_bfloat16 *)p.out)[blockIdx.x * p.ld + i] = __float2bfloat16_rn(v);
    }
}

/* One thread per fragment, stored as runs of 16 halfs, 16 bytes at a time. */
template <RpDtype T> __global__ void __launch_bounds__(THREADS) dequantize_kernel(DequantizeArgs p) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.n_frags) return;
    const int64_t                  row = i / p.row_frags, f = i % p.row_frags;
    const typename Blocks<T>::Lane lane((int)f);
    const FragmentOf<T>            v =
        Blocks<T>::dequantize(Blocks<T>::load(Blocks<T>::row(p.planes, p.first + i - f), (unsigned)f), lane);
    for (int k = 0; k < (int)QuantType<T>::FRAG / RP_SUM_BLOCK; k++) {
        __half  *out = p.out + row * p.inner + rp_sum_block<T>(f, k) * RP_SUM_BLOCK;
        unsigned pairs[RP_SUM_BLOCK / 2];
        for (int e = 0; e < RP_SUM_BLOCK / 2; e++) {
            const __half low  = __float2half_rn(rp_element<T>(v, k, 2 * e));
            const __half high = __float2half_rn(rp_element<T>(v, k, 2 * e + 1));
            pairs[e]          = (unsigned)__half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
        }
        rp_put16(out, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
        rp_put16(out + 8, make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]));
    }
}

/* Columns with exponent 0, that is nearly all, are left alone. */
__global__ void __launch_bounds__(THREADS) rescale_kernel(RescaleArgs p) {
    rp_begin();
    const int     exponent = p.exponents[blockIdx.y];
    const int64_t m        = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (exponent == 0 || m >= p.y.ne[0]) return;
    float *y = (float *)rp_row_at(p.y, blockIdx.y, 0, 0) + m;
    *y       = ldexpf(*y, exponent);
}

/* ---- shapes and scratch memory ---- */

/* The GEMM of one row tile, and the offsets of its buffers in scratch memory. */
struct BlasShape {
    BlasProduct product; /* of a full tile; the last may have fewer rows */
    size_t      exponents, x, w, scratch;
};

size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

BlasShape shape_of(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x, *y = &args->dst;
    BlasShape           s     = {};
    BlasProduct        *p     = &s.product;
    const bool          quant = rp_dtype_is_quant(w->dtype);
    p->rows = w->ne[1], p->columns = x->ne[1], p->inner = w->ne[0];
    p->type    = quant ? RP_F16 : w->dtype;
    p->ld_y    = (int64_t)(y->nb[1] / sizeof(float));
    p->align_y = rp_blas_align(y->data);
    p->align_x = p->align_w = ALIGN;
    if (p->type == RP_F32) {
        p->ld_x = (int64_t)(x->nb[1] / sizeof(float)), p->ld_w = (int64_t)(w->nb[1] / sizeof(float));
        p->align_x = rp_blas_align(x->data), p->align_w = rp_blas_align(w->data);
        return s;
    }
    p->ld_x     = (p->inner + 7) / 8 * 8;
    s.exponents = RP_SCRATCH_ZEROS;
    s.x         = s.exponents + round_up((size_t)p->columns * sizeof(int));
    s.w         = s.x + round_up((size_t)(p->columns * p->ld_x) * sizeof(__half));
    s.scratch   = s.w;
    if (!quant) {
        p->ld_w    = (int64_t)(w->nb[1] / sizeof(__half));
        p->align_w = rp_blas_align(w->data);
        return s;
    }
    int64_t most = TILE_BYTES / (p->inner * (int64_t)sizeof(__half)) / TILE_ROWS * TILE_ROWS;
    if (most < TILE_ROWS) most = TILE_ROWS;
    if (p->rows > most) p->rows = most;
    p->ld_w = p->inner;
    s.scratch += round_up((size_t)(p->rows * p->inner) * sizeof(__half));
    return s;
}

/* The GEMM of the tile that begins with row `first`. */
BlasProduct tile_at(const RpOpArgs *args, const BlasShape &s, int64_t first) {
    BlasProduct p = s.product;
    if (p.rows > args->mul_mat.w.ne[1] - first) p.rows = args->mul_mat.w.ne[1] - first;
    p.align_y = rp_blas_align((const float *)args->dst.data + first);
    return p;
}

/* A matrix whose rows are contiguous, the leading dimension a whole number of elements. */
bool has_rows_of(const RpTensorView &v, size_t size) {
    return v.nb[0] == size && v.nb[1] % size == 0 && v.nb[1] >= size * (size_t)v.ne[0] && v.ne[2] * v.ne[3] == 1;
}

/* Whether the library is prepared for every tile; a product is never computed in part by the library. */
bool has_all(RpBlasLt *b, const RpOpArgs *args, const BlasShape &s) {
    for (int64_t first = 0; first < args->mul_mat.w.ne[1]; first += s.product.rows) {
        const BlasProduct p = tile_at(args, s, first);
        if (rp_blaslt_find(b, &p) == nullptr) return false;
    }
    return true;
}

/* ---- launches ---- */

/* The library's call. With a hook, the hook decides when to make it: it gets a function and the addresses, which stay
 * fixed in captured nodes. */
RpStatus multiply(RpKernelCtx *ctx, const BlasProduct &p, const void *w, const void *x, float *y) {
    BlasCall call = {rp_blaslt_find(ctx->blas, &p), w, x, y, 1.0f, 0.0f};
    if (ctx->launch == nullptr) return rp_blaslt_enqueue(&call, ctx->stream);
    RpKernelLaunch l = {};
    l.name = "cublasLt", l.enqueue = rp_blaslt_enqueue, l.arg = &call;
    l.addresses[0] = w, l.addresses[1] = x, l.addresses[2] = y;
    return ctx->launch(ctx->user, &l);
}

RpStatus convert(const RpOpArgs *args, RpKernelCtx *ctx, const BlasShape &s) {
    char             *at    = (char *)ctx->scratch;
    const ConvertArgs a     = {args->mul_mat.x, at + s.x, (int *)(at + s.exponents), s.product.ld_x};
    const LaunchShape shape = {dim3((unsigned)s.product.columns), dim3(THREADS), 0, true};
    if (s.product.type == RP_BF16) return RP_LAUNCH("mul_mat", ctx, shape, convert_kernel<RP_BF16>, a);
    return RP_LAUNCH("mul_mat", ctx, shape, convert_kernel<RP_F16>, a);
}

RpStatus rescale(const RpOpArgs *args, RpKernelCtx *ctx, const BlasShape &s) {
    const RescaleArgs a = {args->dst, (const int *)((char *)ctx->scratch + s.exponents)};
    const dim3        grid(rp_blocks(args->dst.ne[0], THREADS), (unsigned)s.product.columns);
    const LaunchShape shape = {grid, dim3(THREADS), 0, true};
    return RP_LAUNCH("mul_mat", ctx, shape, rescale_kernel, a);
}

/* Tiles share one buffer of dequantised rows: the stream runs each product before the next dequantisation. */
template <RpDtype T> RpStatus tiles(const RpOpArgs *args, RpKernelCtx *ctx, const BlasShape &s) {
    char         *at        = (char *)ctx->scratch;
    const int64_t row_frags = args->mul_mat.w.ne[0] / QuantType<T>::FRAG;
    for (int64_t first = 0; first < args->mul_mat.w.ne[1]; first += s.product.rows) {
        const BlasProduct    p     = tile_at(args, s, first);
        const DequantizeArgs a     = {rp_planes<T>(args->mul_mat.w),
                                      first * row_frags,
                                      p.rows * row_frags,
                                      row_frags,
                                      (__half *)(at + s.w),
                                      p.inner};
        const LaunchShape    shape = {dim3(rp_blocks(a.n_frags, THREADS)), dim3(THREADS), 0};
        RP_TRY(RP_LAUNCH("mul_mat", ctx, shape, dequantize_kernel<T>, a));
        RP_TRY(multiply(ctx, p, at + s.w, at + s.x, (float *)args->dst.data + first));
    }
    return RP_OK;
}

} // namespace

/* Two-dimensional products without positions, f32 or q8_act columns. 65535 is the limit of grid.y. */
extern "C" bool rp_cuda_blas_wants(TensorOp op, const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView &w = args->mul_mat.w, &x = args->mul_mat.x, &y = args->dst;
    if (op != RP_OP_MUL_MAT || rp_is_present(&args->mul_mat.pos) || x.ne[1] < RP_BLAS_MIN_COLUMNS || x.ne[1] > 65535)
        return false;
    if (!has_rows_of(y, sizeof(float)) || y.dtype != RP_F32 || w.ne[2] * w.ne[3] != 1) return false;
    const bool quant = rp_dtype_is_quant(w.dtype) && w.dtype != RP_Q8_ACT;
    if (x.dtype == RP_Q8_ACT) return quant && x.ne[2] * x.ne[3] == 1 && x.ne[1] >= rp_tuning_of(ctx).blas_columns;
    if (x.dtype != RP_F32 || !has_rows_of(x, sizeof(float))) return false;
    if (quant) return true;
    return rp_dtype_is_float(w.dtype) && has_rows_of(w, w.dtype == RP_F32 ? sizeof(float) : sizeof(__half));
}

extern "C" size_t rp_cuda_mul_mat_blas_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    return ctx->blas != nullptr && rp_cuda_blas_wants(RP_OP_MUL_MAT, args, ctx) ? shape_of(args).scratch : 0;
}

extern "C" RpStatus rp_cuda_blas_prepare(RpBlasLt *b, const RpOpArgs *args, bool *taken) {
    const BlasShape s = shape_of(args);
    *taken            = false;
    for (int64_t first = 0; first < args->mul_mat.w.ne[1]; first += s.product.rows) {
        const BlasProduct p = tile_at(args, s, first);
        RP_TRY(rp_blaslt_prepare(b, &p));
    }
    *taken = has_all(b, args, s);
    return RP_OK;
}

extern "C" RpStatus rp_cuda_mul_mat_blas(const RpOpArgs *args, RpKernelCtx *ctx, bool *taken) {
    const RpTensorView *w = &args->mul_mat.w;
    *taken                = false;
    if (ctx->blas == nullptr || !rp_cuda_blas_wants(RP_OP_MUL_MAT, args, ctx)) return RP_OK;
    const BlasShape s = shape_of(args);
    if (!has_all(ctx->blas, args, s)) return RP_OK;
    *taken = true;
    if (s.scratch > ctx->scratch_bytes)
        return rp_fail(RP_E_ARG, "mul_mat: %zu bytes of scratch memory, must be %zu", ctx->scratch_bytes, s.scratch);
    if (s.product.type == RP_F32)
        return multiply(ctx, s.product, w->data, args->mul_mat.x.data, (float *)args->dst.data);
    RP_TRY(convert(args, ctx, s));
    if (rp_dtype_is_quant(w->dtype))
        RP_TRY(RP_FOR_QUANT(w->dtype, tiles, args, ctx, s));
    else
        RP_TRY(multiply(ctx, s.product, w->data, (char *)ctx->scratch + s.x, (float *)args->dst.data));
    return s.product.type == RP_F16 ? rescale(args, ctx, s) : RP_OK;
}
