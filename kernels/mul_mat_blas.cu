/* y[m,t] = sum_k w[k,m] * x[k,t] by cuBLASLt, for 32 columns and more: in the weights' type (f32, f16, bf16), of
 * quantised weights in f16; sums and result in f32.
 * geometry  columns narrowed: a block of 256 threads a column. Weights widened: a thread a unit of 32 elements, by
 *           tiles of rows that fit into 64 MiB, each followed by its product. Columns restored: 256 rows to a
 *           block, grid (rows, columns)
 * traffic   quantised: the weights once, and twice as f16; x twice and, narrowed, once for each tile; y once
 * numerics  w and x are rounded to f16 or bf16 each. A column that f16 has no room for, above or below, is scaled
 *           by a power of two, and its results are scaled back; others are left alone. */
#include "kernels/blaslt.h"
#include "kernels/mul_mat_blas.h"
#include "kernels/quants.cuh"

#include <cuda_bf16.h>

enum { THREADS = 256, ALIGN = 256, TILE_ROWS = 64 };
#ifdef RP_CUDASIM
enum { TILE_BYTES = 64 << 10 }; /* so that small tests have several */
#else
enum { TILE_BYTES = 64 << 20 };
#endif

struct NarrowArgs {
    TensorView x;
    void      *out; /* [columns][ld] */
    int       *exponents;
    int64_t    ld;
};

struct WidenArgs {
    Planes   planes;
    int64_t  first, units, row_units; /* units of the tile, the first of it and the row's */
    __half  *out;
    int64_t  inner;
};

struct RestoreArgs {
    TensorView y;
    const int *exponents;
};

__device__ static float column_at(const TensorView &x, const char *column, int64_t i) {
    if (x.dtype == RP_F32) return ((const float *)column)[i];
    return ((const float *)(column + x.ne[0]))[i / 32] * (float)((const int8_t *)column)[i];
}

/* The power of two that a column is divided by: 0 while f16 holds its largest element with room for the others. */
__device__ static int exponent_of(float top) {
    if (!(top > 0.0f) || top == INFINITY) return 0;
    const int e = ilogbf(top);
    return e < -8 || e > 14 ? e : 0;
}

template <RpDtype T> __global__ void __launch_bounds__(THREADS) narrow_kernel(NarrowArgs p) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const char *column   = rp_row_at(p.x, blockIdx.x, 0, 0);
    int         exponent = 0;
    if (T == RP_F16) {
        float top = 0.0f;
        for (int64_t i = threadIdx.x; i < p.x.ne[0]; i += THREADS) {
            const float v = fabsf(column_at(p.x, column, i));
            top           = v > top || v != v ? v : top;
        }
        exponent = exponent_of(rp_block_max(top, scratch));
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

template <RpDtype T> __global__ void __launch_bounds__(THREADS) widen_kernel(WidenArgs p) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.units) return;
    const int64_t row = i / p.row_units, u = i % p.row_units, group = Blocks<T>::first_group(u);
    const Unit    v   = Blocks<T>::unpack(Blocks<T>::load(p.planes, p.first + i), (int)u);
    for (int k = 0; k < 2; k++) {
        __half  *out = p.out + row * p.inner + (group + k * Blocks<T>::STEP) * RP_GROUP;
        unsigned pairs[RP_GROUP / 2];
        for (int e = 0; e < RP_GROUP / 2; e++) {
            const __half low  = __float2half_rn(rp_element(v, k, 2 * e));
            const __half high = __float2half_rn(rp_element(v, k, 2 * e + 1));
            pairs[e] = (unsigned)__half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
        }
        rp_put16(out, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
        rp_put16(out + 8, make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]));
    }
}

__global__ void __launch_bounds__(THREADS) restore_kernel(RestoreArgs p) {
    rp_begin();
    const int     exponent = p.exponents[blockIdx.y];
    const int64_t m        = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (exponent == 0 || m >= p.y.ne[0]) return;
    float *y = (float *)rp_row_at(p.y, blockIdx.y, 0, 0) + m;
    *y       = ldexpf(*y, exponent);
}

/* ---- what is computed where ---- */

/* The product by tiles of rows, and where its parts begin in the scratch memory: what has to stay zero is in front. */
struct BlasShape {
    BlasProduct product; /* of a whole tile */
    size_t      exponents, x, w, scratch;
};

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static BlasShape shape_of(const OpArgs *args) {
    const TensorView *w = &args->src[0], *x = &args->src[1], *y = &args->dst;
    BlasShape         s     = {};
    BlasProduct      *p     = &s.product;
    const bool        quant = rp_dtype_is_quant(w->dtype);
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

/* That of the rows from `first` on. */
static BlasProduct tile_at(const OpArgs *args, const BlasShape &s, int64_t first) {
    BlasProduct p = s.product;
    if (p.rows > args->src[0].ne[1] - first) p.rows = args->src[0].ne[1] - first;
    p.align_y = rp_blas_align((const float *)args->dst.data + first);
    return p;
}

static bool has_rows_of(const TensorView &v, size_t size) {
    return v.nb[0] == size && v.nb[1] % size == 0 && v.nb[1] >= size * (size_t)v.ne[0] && v.ne[2] * v.ne[3] == 1;
}

extern "C" bool rp_cuda_blas_wants(TensorOp op, const OpArgs *args) {
    const TensorView &w = args->src[0], &x = args->src[1], &y = args->dst;
    if (op != RP_OP_MUL_MAT || rp_has_src(args, 2) || x.ne[1] < RP_BLAS_MIN_COLUMNS || x.ne[1] > 65535) return false;
    if (!has_rows_of(y, sizeof(float)) || y.dtype != RP_F32 || w.ne[2] * w.ne[3] != 1) return false;
    const bool quant = rp_dtype_is_quant(w.dtype) && w.dtype != RP_Q8_ACT;
    if (x.dtype == RP_Q8_ACT) return quant && x.ne[2] * x.ne[3] == 1;
    if (x.dtype != RP_F32 || !has_rows_of(x, sizeof(float))) return false;
    if (quant) return true;
    return rp_dtype_is_float(w.dtype) && has_rows_of(w, w.dtype == RP_F32 ? sizeof(float) : sizeof(__half));
}

extern "C" size_t rp_cuda_mul_mat_scratch(const OpArgs *args, const BlasLt *blas) {
    return blas != nullptr && rp_cuda_blas_wants(RP_OP_MUL_MAT, args) ? shape_of(args).scratch : 0;
}

/* The library has all tiles or none. */
static bool has_all(BlasLt *b, const OpArgs *args, const BlasShape &s) {
    for (int64_t first = 0; first < args->src[0].ne[1]; first += s.product.rows) {
        const BlasProduct p = tile_at(args, s, first);
        if (rp_blaslt_find(b, &p) == nullptr) return false;
    }
    return true;
}

extern "C" RpStatus rp_cuda_blas_prepare(BlasLt *b, const OpArgs *args, bool *taken) {
    const BlasShape s = shape_of(args);
    *taken            = false;
    for (int64_t first = 0; first < args->src[0].ne[1]; first += s.product.rows) {
        const BlasProduct p = tile_at(args, s, first);
        RP_TRY(rp_blaslt_prepare(b, &p));
    }
    *taken = has_all(b, args, s);
    return RP_OK;
}

/* ---- launches ---- */

static RpStatus multiply(KernelCtx *ctx, const BlasProduct &p, const void *w, const void *x, float *y) {
    BlasJob job = {rp_blaslt_find(ctx->blas, &p), w, x, y};
    if (ctx->launch == nullptr) return rp_blaslt_enqueue(&job, ctx->stream);
    KernelLaunch l = {};
    l.name = "cublasLt", l.enqueue = rp_blaslt_enqueue, l.arg = &job;
    l.addresses[0] = w, l.addresses[1] = x, l.addresses[2] = y;
    return ctx->launch(ctx->user, &l);
}

static RpStatus narrow(const OpArgs *args, KernelCtx *ctx, const BlasShape &s) {
    char            *at    = (char *)ctx->scratch;
    const NarrowArgs a     = {args->src[1], at + s.x, (int *)(at + s.exponents), s.product.ld_x};
    const LaunchShape shape = {dim3((unsigned)s.product.columns), dim3(THREADS), 0, true};
    if (s.product.type == RP_BF16) return RP_LAUNCH("mul_mat", ctx, shape, narrow_kernel<RP_BF16>, a);
    return RP_LAUNCH("mul_mat", ctx, shape, narrow_kernel<RP_F16>, a);
}

static RpStatus restore(const OpArgs *args, KernelCtx *ctx, const BlasShape &s) {
    const RestoreArgs a     = {args->dst, (const int *)((char *)ctx->scratch + s.exponents)};
    const dim3        grid(rp_blocks(args->dst.ne[0], THREADS), (unsigned)s.product.columns);
    const LaunchShape shape = {grid, dim3(THREADS), 0, true};
    return RP_LAUNCH("mul_mat", ctx, shape, restore_kernel, a);
}

template <RpDtype T> static RpStatus tiles(const OpArgs *args, KernelCtx *ctx, const BlasShape &s) {
    char         *at   = (char *)ctx->scratch;
    const int64_t unit = args->src[0].ne[0] / RP_UNIT;
    for (int64_t first = 0; first < args->src[0].ne[1]; first += s.product.rows) {
        const BlasProduct p     = tile_at(args, s, first);
        const WidenArgs   a     = {rp_planes<T>(args->src[0]), first * unit, p.rows * unit, unit,
                                   (__half *)(at + s.w),       p.inner};
        const LaunchShape shape = {dim3(rp_blocks(a.units, THREADS)), dim3(THREADS), 0};
        RP_TRY(RP_LAUNCH("mul_mat", ctx, shape, widen_kernel<T>, a));
        RP_TRY(multiply(ctx, p, at + s.w, at + s.x, (float *)args->dst.data + first));
    }
    return RP_OK;
}

extern "C" RpStatus rp_cuda_mul_mat_blas(const OpArgs *args, KernelCtx *ctx, bool *taken) {
    const TensorView *w = &args->src[0];
    *taken              = false;
    if (ctx->blas == nullptr || !rp_cuda_blas_wants(RP_OP_MUL_MAT, args)) return RP_OK;
    const BlasShape s = shape_of(args);
    if (!has_all(ctx->blas, args, s)) return RP_OK;
    *taken = true;
    if (s.scratch > ctx->scratch_bytes)
        return rp_fail(RP_E_ARG, "mul_mat: %zu bytes of scratch memory, %zu are wanted", ctx->scratch_bytes, s.scratch);
    if (s.product.type == RP_F32)
        return multiply(ctx, s.product, w->data, args->src[1].data, (float *)args->dst.data);
    RP_TRY(narrow(args, ctx, s));
    if (rp_dtype_is_quant(w->dtype))
        RP_TRY(RP_FOR_QUANT(w->dtype, tiles, args, ctx, s));
    else
        RP_TRY(multiply(ctx, s.product, w->data, (char *)ctx->scratch + s.x, (float *)args->dst.data));
    return s.product.type == RP_F16 ? restore(args, ctx, s) : RP_OK;
}
