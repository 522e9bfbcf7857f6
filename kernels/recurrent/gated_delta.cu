/* The gated delta rule (ops/private.h), token after token:
 *     u[j] = b * (v[j] - g * sum_i k[i] S[i,j]);  S[i,j] = g * S[i,j] + k[i] * u[j];  y[j] = sum_i q[i] S[i,j]
 * geometry  one block of 4 warps for 32 columns j of a head: lane l has column l, warp w the rows w*ROWS to w*ROWS +
 *           ROWS - 1 of S, in registers; grid = (columns / 32, heads, 1), or (columns / 32, heads, tokens) with starts
 * traffic   S read once, and written for each token with a slot: 4*d*d*h bytes each; q, k, v and y once for each block
 * numerics  f32; sums over the rows of a warp in order, then over the warps in order; one order for any number of
 *           tokens
 * A column of a sequence belongs to one block, so the slot before its first token may also be that of a later one. */
#include "kernels/device/act.cuh"
#include "kernels/device/slots.cuh"

#include "base/limits.h"

namespace {

enum { WARPS = 4, THREADS = WARPS * RP_WARP };

struct Delta {
    RpTensorView q, k, v, alpha, beta, a, dt, state, slots, starts, y;
    float        eps;
    int          grouped;
};

static inline void rp_clear_padding(Delta &p) {
    for (RpTensorView *v : {&p.q, &p.k, &p.v, &p.alpha, &p.beta, &p.a, &p.dt, &p.state, &p.slots, &p.starts, &p.y})
        rp_clear_padding(*v);
}

struct DeltaShared {
    float q[RP_DELTA_MAX_DIM], k[RP_DELTA_MAX_DIM];
    float g, b;
    float sum[2][WARPS][RP_WARP]; /* over the rows of each warp: of k S, and of q S */
};

__device__ float gate_of(const RpTensorView &x, int64_t head, int64_t t) {
    return ((const float *)rp_row_at(x, head / x.ne[0], t, 0))[head % x.ne[0]];
}

/* x / sqrt((sum x^2 + eps) * by), by one warp. */
__device__ void normalize(const float *x, int d, float eps, float by, float *to) {
    float sum = 0.0f;
    for (int i = (int)threadIdx.x % RP_WARP; i < d; i += RP_WARP) sum = fmaf(x[i], x[i], sum);
    const float scale = 1.0f / sqrtf((rp_warp_sum(sum) + eps) * by);
    for (int i = (int)threadIdx.x % RP_WARP; i < d; i += RP_WARP) to[i] = x[i] * scale;
}

/* Reads the input of token t to the head: one warp reads k, one q, one the gates. */
__device__ void prepare(const Delta &p, int64_t head, int64_t t, DeltaShared &s) {
    const int     warp = (int)threadIdx.x / RP_WARP, d = (int)p.v.ne[0];
    const int64_t keys = p.k.ne[1], key = p.grouped != 0 ? head * keys / p.v.ne[1] : head % keys;
    if (warp == 0) normalize((const float *)rp_row_at(p.k, key, t, 0), d, p.eps, 1.0f, s.k);
    if (warp == 1) normalize((const float *)rp_row_at(p.q, key, t, 0), d, p.eps, (float)d, s.q);
    if (threadIdx.x == 2 * RP_WARP) {
        const float x = gate_of(p.alpha, head, t) + ((const float *)p.dt.data)[head];
        s.g           = expf(((const float *)p.a.data)[head] * Softplus()(x));
        s.b           = Sigmoid()(gate_of(p.beta, head, t));
    }
    __syncthreads();
}

/* The sum over the warps, for every thread of the column. */
__device__ float across(DeltaShared &s, int which, float v) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    s.sum[which][warp][lane] = v;
    __syncthreads();
    float sum = s.sum[which][0][lane];
    for (int w = 1; w < WARPS; w++) sum += s.sum[which][w][lane];
    return sum;
}

/* Thread blocks of a multiprocessor: left to itself, ptxas spills a register for 16 rows. */
constexpr int resident(int rows) { return rows == 8 ? 6 : rows == 16 ? 3 : 2; }

template <int ROWS> __global__ void __launch_bounds__(THREADS, resident(ROWS)) gated_delta_kernel(Delta p) {
    rp_begin();
    RP_SHARED(DeltaShared, shared, [1]);
    DeltaShared   &s    = shared[0];
    const int      lane = (int)threadIdx.x % RP_WARP, first = (int)threadIdx.x / RP_WARP * ROWS, d = (int)p.v.ne[0];
    const int      j = (int)blockIdx.x * RP_WARP + lane, tokens = (int)p.v.ne[2];
    const int64_t  head = blockIdx.y, at = head * d * d + j;
    const int32_t *slot = (const int32_t *)p.slots.data;
    const SlotRun  run  = rp_slot_run(slot, (const int32_t *)p.starts.data, tokens, (int)blockIdx.z);
    const int      last = min(rp_last_slot(slot, tokens), run.end);
    const float   *from = rp_slot_row(p.state, run.from);
    float          S[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        S[i] = from != nullptr && first + i < d && j < d ? from[at + (int64_t)(first + i) * d] : 0.0f;
    for (int t = run.first; t < last; t++) {
        prepare(p, head, t, s);
        const float g = s.g, b = s.b, v = j < d ? ((const float *)rp_row_at(p.v, head, t, 0))[j] : 0.0f;
        float       sum = 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < d) sum = fmaf(s.k[first + i], S[i], sum);
        const float u = b * fmaf(-g, across(s, 0, sum), v);
        sum           = 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < d) {
                S[i] = fmaf(s.k[first + i], u, g * S[i]);
                sum  = fmaf(s.q[first + i], S[i], sum);
            }
        sum = across(s, 1, sum); /* its barrier: all have read q, k and the gates */
        if (first == 0 && j < d) ((float *)rp_row_at(p.y, head, t, 0))[j] = sum;
        float *to = rp_slot_row(p.state, slot[1 + t]);
        if (to == nullptr || j >= d) continue;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < d) to[at + (int64_t)(first + i) * d] = S[i];
    }
    for (int t = max(last, run.first); t < run.end; t++)
        if (first == 0 && j < d) ((float *)rp_row_at(p.y, head, t, 0))[j] = 0.0f;
}

} // namespace

extern "C" RpStatus rp_cuda_gated_delta(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gated_delta, args));
    const int64_t     d     = args->dst.ne[0];
    const LaunchShape shape = {
        dim3(rp_blocks(d, RP_WARP), (unsigned)args->dst.ne[1], rp_slot_blocks(args->gated_delta.starts)), dim3(THREADS),
        0};
    const Delta p = {args->gated_delta.q,
                     args->gated_delta.k,
                     args->gated_delta.v,
                     args->gated_delta.alpha,
                     args->gated_delta.beta,
                     args->gated_delta.a,
                     args->gated_delta.dt,
                     args->gated_delta.state,
                     args->gated_delta.slots,
                     args->gated_delta.starts,
                     args->dst,
                     args->params->gated_delta.eps,
                     (int)args->params->gated_delta.grouped};
    if (d <= 32) return RP_LAUNCH("gated_delta", ctx, shape, gated_delta_kernel<8>, p);
    if (d <= 64) return RP_LAUNCH("gated_delta", ctx, shape, gated_delta_kernel<16>, p);
    if (d <= 128) return RP_LAUNCH("gated_delta", ctx, shape, gated_delta_kernel<32>, p);
    return RP_LAUNCH("gated_delta", ctx, shape, gated_delta_kernel<64>, p);
}
