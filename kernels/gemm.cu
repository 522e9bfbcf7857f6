/* y[j,i,s] = alpha * sum_k a[k,i,s] * b[j,k,s] + beta * c[j,i,s], all f32
 * geometry  a block of 256 threads has a tile of 16 T x 16 T results, a thread T x T of them; T is 8, or 4 where tiles of
 *           128 would be fewer than two for each multiprocessor. Slices of SLICE terms are staged in shared memory, the
 *           next one while the current one is multiplied: a[k][row], b[k][column]
 * traffic   a once for each column of tiles, b once for each row of tiles; c and y once
 * numerics  each result is one chain of fma in the order of k; the order does not depend on T (I8) */
#include "base/tuning.h"
#include "kernels/device/device.cuh"

namespace {

enum { SIDE = 16, THREADS = SIDE * SIDE, SLICE = 16, PAD = 4 /* keeps rows aligned to 16 bytes */ };

struct GemmArgs {
    RpTensorView a, b, c, y;
    float        alpha, beta;
    int          n;            /* terms */
    int          across, down; /* tiles */
};

/* A staged slice of a or b: [k][i], i the row of a or the column of b. A thread copies T elements, along the dimension that
 * is contiguous in memory, so that neighbours read neighbouring addresses. */
template <int T> struct Operand {
    const char *data;
    size_t      along_k, along_i; /* bytes */
    int64_t     left;             /* rows or columns from the first of the tile on */
    int         n;

    __device__ void place(int e, int &k, int &i) const {
        const int at = (int)threadIdx.x + e * THREADS;
        k            = along_k == sizeof(float) ? at % SLICE : at / (SIDE * T);
        i            = along_k == sizeof(float) ? at / SLICE : at % (SIDE * T);
    }
    __device__ void load(int k0, float (&v)[T]) const {
#pragma unroll
        for (int e = 0; e < T; e++) {
            int k, i;
            place(e, k, i);
            const bool inside = k0 + k < n && i < left;
            v[e] = inside ? *(const float *)(data + (size_t)(k0 + k) * along_k + (size_t)i * along_i) : 0.0f;
        }
    }
    __device__ void store(const float (&v)[T], float *to) const {
#pragma unroll
        for (int e = 0; e < T; e++) {
            int k, i;
            place(e, k, i);
            to[k * (SIDE * T + PAD) + i] = v[e];
        }
    }
};

/* T elements of row k of a staged slice: four at first + 4 x, for T = 8 four more, half a tile further on. */
template <int T> __device__ void fragment(const float *slice, int k, int x, float (&v)[T]) {
#pragma unroll
    for (int h = 0; h < T / 4; h++) {
        const float4 four = rp_get_float4(slice + k * (SIDE * T + PAD) + h * SIDE * 4 + 4 * x);
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

template <int T> __global__ void __launch_bounds__(THREADS, T == 8 ? 2 : 4) gemm_kernel(GemmArgs p) {
    rp_begin();
    enum { ROW = SIDE * T + PAD };
    RP_SHARED(float4, memory, [2 * 2 * SLICE * ROW / 4]); /* two slices of a and of b */
    const int across = (int)(blockIdx.x % (unsigned)p.across),
              down   = (int)(blockIdx.x / (unsigned)p.across) % p.down;
    const int64_t s = blockIdx.x / ((unsigned)p.across * (unsigned)p.down), i0 = (int64_t)down * SIDE * T,
                  j0   = (int64_t)across * SIDE * T;
    const Operand<T> a = {rp_row_at(p.a, i0, s, 0), p.a.nb[0], p.a.nb[1], p.y.ne[1] - i0, p.n};
    const Operand<T> b = {(const char *)p.b.data + (size_t)j0 * p.b.nb[0] + (size_t)s * p.b.nb[2], p.b.nb[1],
                          p.b.nb[0], p.y.ne[0] - j0, p.n};
    float           *slices = (float *)memory, sum[T][T] = {}, of_a[T], of_b[T];
    a.load(0, of_a), b.load(0, of_b);
    for (int k0 = 0, half = 0; k0 < p.n; k0 += SLICE, half = 1 - half) {
        float *slice = slices + half * 2 * SLICE * ROW;
        a.store(of_a, slice), b.store(of_b, slice + SLICE * ROW);
        __syncthreads(); /* a warp stores the slice after next only when all have read this half */
        a.load(k0 + SLICE, of_a), b.load(k0 + SLICE, of_b);
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

} // namespace

extern "C" RpStatus rp_cuda_gemm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_gemm(args));
    const RpGemmParams *p = &args->params->gemm;
    GemmArgs            g = {args->gemm.a, args->gemm.b, args->gemm.c, args->dst, p->alpha, p->beta, 0, 0, 0};
    if (tiles(g.y, SIDE * 4) > INT32_MAX || g.a.ne[0] > INT32_MAX - SLICE)
        return rp_fail(RP_E_UNSUPPORTED, "gemm: a result [%lld,%lld,%lld] of %lld terms",
                       (long long)g.y.ne[0], (long long)g.y.ne[1], (long long)g.y.ne[2],
                       (long long)g.a.ne[0]);
    if (p->alpha != 0.0f) g.n = (int)g.a.ne[0];
    if (!rp_is_present(&args->gemm.c)) g.beta = 0.0f;
    return tiles(g.y, SIDE * 8) >= 2 * rp_tuning_of(ctx).n_sm ? launch<8>(g, ctx) : launch<4>(g, ctx);
}
