/* y[j,i,s] = alpha * sum_k a[k,i,s] * b[j,k,s] + beta * c[j,i,s], all f32
 *           by cuBLASLt, where the caller has prepared it (base/blas.h), else:
 * geometry  a block of 256 threads has a tile of 16 T x 16 T results, a thread T x T of them; T is 8, or 4 where
 *           there would be fewer than two tiles of 128 for each multiprocessor. Slices of 64 / T terms are staged in
 *           shared memory, the next one while the current one is multiplied: a[k][row], b[k][column]
 * traffic   a once for each column of tiles, b once for each row of tiles; c and y once
 * numerics  each result is one chain of fma in the order of k; the order does not depend on T (I8) */
#include "base/tuning.h"
#include "kernels/blas/blaslt.h"
#include "kernels/device/device.cuh"

namespace {

enum { SIDE = 16, THREADS = SIDE * SIDE, LOADS = 4, PAD = 4 /* keeps rows aligned to 16 bytes */ };

/* SLICE terms are staged at a time, of which a thread loads LOADS elements of each operand. ROW: floats of a staged
 * row. */
template <int T> struct Tile {
    enum { SIDES = SIDE * T, ROW = SIDES + PAD, SLICE = LOADS * THREADS / SIDES };
};

struct GemmArgs {
    RpTensorView a, b, c, y;
    float        alpha, beta;
    int          n;            /* terms */
    int          across, down; /* tiles */
};

/* A thread's part of the slices of a or b, staged as [k][i], i the row of a or the column of b: element e < LOADS has
 * k + e * k_step and i + e * i_step. The first threads follow the dimension that is contiguous in memory, so that
 * neighbours read neighbouring addresses:
 *
 *     along k    thread t, element e:  k = t % SLICE            i = t / SLICE + e * THREADS / SLICE
 *     along i                          k = t / side + e * THREADS / side    i = t % side        side = 16 T */
template <int T> struct Operand {
    enum { SIDES = Tile<T>::SIDES, ROW = Tile<T>::ROW, SLICE = Tile<T>::SLICE };
    const char *at;          /* element 0 of the current slice */
    size_t      step, slice; /* bytes between elements, between slices */
    int         k, k_step, i, i_step;
    int         rows; /* of i that exist */

    __device__ Operand(const char *data, size_t along_k, size_t along_i, int64_t left) {
        const int  t     = (int)threadIdx.x;
        const bool first = along_k == sizeof(float);
        k = first ? t % SLICE : t / SIDES, k_step = first ? 0 : THREADS / SIDES;
        i = first ? t / SLICE : t % SIDES, i_step = first ? THREADS / SLICE : 0;
        rows  = left < SIDES ? (int)left : (int)SIDES;
        at    = data + (size_t)k * along_k + (size_t)i * along_i;
        step  = (size_t)k_step * along_k + (size_t)i_step * along_i;
        slice = SLICE * along_k;
    }
    /* The next slice, of which n terms exist. */
    __device__ void load(int n, float (&v)[LOADS]) {
#pragma unroll
        for (int e = 0; e < LOADS; e++)
            v[e] = k + e * k_step < n && i + e * i_step < rows ? *(const float *)(at + e * step) : 0.0f;
        at += slice;
    }
    __device__ void store(const float (&v)[LOADS], float *to) const {
#pragma unroll
        for (int e = 0; e < LOADS; e++) to[(k + e * k_step) * ROW + i + e * i_step] = v[e];
    }
};

/* T elements of row k of a staged slice: four at first + 4 x, for T = 8 four more, half a tile further on. */
template <int T> __device__ void fragment(const float *slice, int k, int x, float (&v)[T]) {
#pragma unroll
    for (int h = 0; h < T / 4; h++) {
        const float4 four = rp_get_float4(slice + k * Tile<T>::ROW + h * SIDE * 4 + 4 * x);
        v[4 * h] = four.x, v[4 * h + 1] = four.y, v[4 * h + 2] = four.z, v[4 * h + 3] = four.w;
    }
}

/* The row (column) of a tile that element e of the thread's fragment is. */
__device__ int place_of(int e, int x) { return e / 4 * SIDE * 4 + 4 * x + e % 4; }

template <int T>
__device__ void store_tile(const GemmArgs &p, int64_t i0, int64_t j0, int64_t s, const float (&sum)[T][T]) {
    const int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
#pragma unroll
    for (int r = 0; r < T; r++) {
        const int64_t i = i0 + place_of(r, ty);
        if (i >= p.y.ne[1]) continue;
        float       *y = (float *)rp_row_at(p.y, i, s, 0);
        const float *c = (const float *)rp_row_at(p.c, i, s, 0);
#pragma unroll
        for (int e = 0; e < T; e++) {
            const int64_t j = j0 + place_of(e, tx);
            if (j < p.y.ne[0]) y[j] = fmaf(p.alpha, sum[r][e], p.beta != 0.0f ? p.beta * c[j] : 0.0f);
        }
    }
}

template <int T> __global__ void __launch_bounds__(THREADS, T == 8 ? 2 : 3) gemm_kernel(GemmArgs p) {
    rp_begin();
    enum { ROW = Tile<T>::ROW, SLICE = Tile<T>::SLICE };
    RP_SHARED(float4, memory, [2 * 2 * SLICE * ROW / 4]); /* two slices of a and of b */
    const int across = (int)(blockIdx.x % (unsigned)p.across), down = (int)(blockIdx.x / (unsigned)p.across) % p.down;
    const int64_t s = blockIdx.x / ((unsigned)p.across * (unsigned)p.down), i0 = (int64_t)down * SIDE * T,
                  j0 = (int64_t)across * SIDE * T;
    Operand<T> a(rp_row_at(p.a, i0, s, 0), p.a.nb[0], p.a.nb[1], p.y.ne[1] - i0),
        b((const char *)p.b.data + (size_t)j0 * p.b.nb[0] + (size_t)s * p.b.nb[2], p.b.nb[1], p.b.nb[0],
          p.y.ne[0] - j0);
    float *slices = (float *)memory, sum[T][T] = {}, of_a[LOADS], of_b[LOADS];
    a.load(p.n, of_a), b.load(p.n, of_b);
    for (int k0 = 0, half = 0; k0 < p.n; k0 += SLICE, half = 1 - half) {
        float *slice = slices + half * 2 * SLICE * ROW;
        a.store(of_a, slice), b.store(of_b, slice + SLICE * ROW);
        __syncthreads(); /* a warp stores the slice after next only when all have read this half */
        a.load(p.n - k0 - SLICE, of_a), b.load(p.n - k0 - SLICE, of_b);
#pragma unroll
        for (int k = 0; k < SLICE; k++) {
            float x[T], w[T];
            fragment<T>(slice, k, (int)threadIdx.x / SIDE, x);
            fragment<T>(slice + SLICE * ROW, k, (int)threadIdx.x % SIDE, w);
#pragma unroll
            for (int r = 0; r < T; r++)
#pragma unroll
                for (int e = 0; e < T; e++) sum[r][e] = fmaf(x[r], w[e], sum[r][e]);
        }
    }
    store_tile<T>(p, i0, j0, s, sum);
}

int64_t tiles(const RpTensorView &y, int side) {
    return (int64_t)rp_blocks(y.ne[0], side) * rp_blocks(y.ne[1], side) * y.ne[2];
}

template <int T> RpStatus launch(GemmArgs p, RpKernelCtx *ctx) {
    p.across = (int)rp_blocks(p.y.ne[0], SIDE * T), p.down = (int)rp_blocks(p.y.ne[1], SIDE * T);
    const LaunchShape shape = {dim3((unsigned)tiles(p.y, SIDE * T)), dim3(THREADS), 0};
    return RP_LAUNCH("gemm", ctx, shape, gemm_kernel<T>, p);
}

/* ---- cuBLASLt ---- */

/* Its y = w x is our result: w has the columns of b, x the rows of a. */
BlasProduct product_of(const RpOpArgs *args) {
    const RpTensorView &a = args->gemm.a, &b = args->gemm.b, &y = args->dst;
    BlasProduct         p = {};
    p.rows = y.ne[0], p.columns = y.ne[1], p.inner = a.ne[0];
    p.type     = RP_F32;
    p.w_across = b.nb[0] == sizeof(float), p.x_across = a.nb[0] != sizeof(float);
    p.ld_w    = (int64_t)(b.nb[p.w_across ? 1 : 0] / sizeof(float));
    p.ld_x    = (int64_t)(a.nb[p.x_across ? 0 : 1] / sizeof(float));
    p.ld_y    = (int64_t)(y.nb[1] / sizeof(float));
    p.align_w = rp_blas_align(b.data), p.align_x = rp_blas_align(a.data), p.align_y = rp_blas_align(y.data);
    return p;
}

RpStatus multiply(const RpOpArgs *args, RpKernelCtx *ctx, BlasPlan *plan) {
    const RpGemmParams *p    = &args->params->gemm;
    BlasCall            call = {plan, args->gemm.b.data, args->gemm.a.data, args->dst.data, p->alpha, p->beta};
    if (ctx->launch == nullptr) return rp_blaslt_enqueue(&call, ctx->stream);
    RpKernelLaunch l = {};
    l.name = "cublasLt", l.enqueue = rp_blaslt_enqueue, l.arg = &call;
    l.addresses[0] = call.w, l.addresses[1] = call.x, l.addresses[2] = call.y;
    return ctx->launch(ctx->user, &l);
}

} // namespace

extern "C" bool rp_cuda_gemm_wants(const RpOpArgs *args) {
    const RpTensorView &y = args->dst, &c = args->gemm.c;
    const RpGemmParams *p        = &args->params->gemm;
    const bool          in_place = p->beta == 0.0f || (c.data == y.data && c.nb[1] == y.nb[1]);
    return in_place && p->alpha != 0.0f && y.ne[2] == 1 && y.ne[0] >= RP_BLAS_MIN_COLUMNS &&
           y.ne[1] >= RP_BLAS_MIN_COLUMNS && args->gemm.a.ne[0] >= RP_BLAS_MIN_COLUMNS;
}

extern "C" RpStatus rp_cuda_gemm_prepare(RpBlasLt *b, const RpOpArgs *args) {
    RP_TRY(RP_CHECK(gemm, args));
    const BlasProduct p = product_of(args);
    return rp_blaslt_prepare(b, &p);
}

extern "C" RpStatus rp_cuda_gemm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gemm, args));
    const RpGemmParams *p = &args->params->gemm;
    GemmArgs            g = {args->gemm.a, args->gemm.b, args->gemm.c, args->dst, p->alpha, p->beta, 0, 0, 0};
    if (ctx->blas != nullptr && rp_cuda_gemm_wants(args)) {
        const BlasProduct product = product_of(args);
        BlasPlan         *plan    = rp_blaslt_find(ctx->blas, &product);
        if (plan != nullptr) return multiply(args, ctx, plan);
    }
    if (tiles(g.y, SIDE * 4) > INT32_MAX || g.a.ne[0] > INT32_MAX - 64)
        return rp_fail(
            RP_E_UNSUPPORTED,
            "gemm: a result [%lld,%lld,%lld] of %lld terms: must be at most %d tiles of %d x %d, of %d terms",
            (long long)g.y.ne[0], (long long)g.y.ne[1], (long long)g.y.ne[2], (long long)g.a.ne[0], INT32_MAX, SIDE * 4,
            SIDE * 4, INT32_MAX - 64);
    if (p->alpha != 0.0f) g.n = (int)g.a.ne[0];
    if (!rp_is_present(&args->gemm.c)) g.beta = 0.0f;
    return tiles(g.y, SIDE * 8) >= 2 * rp_tuning_of(ctx).n_sm ? launch<8>(g, ctx) : launch<4>(g, ctx);
}
