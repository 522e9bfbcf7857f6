/* The selective scan of Mamba-2 (ops/private.h), token after token, with u[j] = e * x[j]:
 *     S[i,j] = g * S[i,j] + b[i] * u[j];  y[j] = (sum_i c[i] S[i,j] + d * x[j]) * z[j] / (1 + exp(-z[j]))
 * geometry  one block of 4, 8 or 16 warps for 32 channels j of a head: lane l has channel l, warp w the rows
 *           w*ROWS to w*ROWS + ROWS - 1 of S, in registers; grid = (channels / 32, heads, 1), with
 *           starts (channels / 32, heads, tokens)
 * traffic   S read once, and written for each token with a slot: 4*n*p*h bytes each; x, z, b, c and y once for each
 *           block
 * numerics  f32; sums over the rows of a warp in order, then over the warps in order; one order for any number of
 *           tokens
 * A channel of a sequence belongs to one block, so the slot before its first token may also be that of a later one. */
#include "kernels/device/act.cuh"
#include "kernels/device/slots.cuh"

#include "base/limits.h"

namespace {

enum { MAX_WARPS = 16 };

/* So that a thread has at most 16 elements of S in its registers. */
__host__ __device__ constexpr int warps_of(int n) { return n <= 64 ? 4 : n <= 128 ? 8 : MAX_WARPS; }

struct Scan {
    RpTensorView x, z, dt, b, c, a, d, bias, state, slots, starts, y;
};

static inline void rp_clear_padding(Scan &p) {
    for (RpTensorView *v : {&p.x, &p.z, &p.dt, &p.b, &p.c, &p.a, &p.d, &p.bias, &p.state, &p.slots, &p.starts, &p.y})
        rp_clear_padding(*v);
}

struct ScanShared {
    float b[RP_SSM_MAX_STATE], c[RP_SSM_MAX_STATE];
    float e, g;
    float sum[MAX_WARPS][RP_WARP]; /* of c S, over the rows of each warp */
};

/* Reads the input of token t to the head: all threads read b and c, one the gates. */
__device__ void prepare(const Scan &p, int64_t head, int64_t t, ScanShared &s) {
    const int64_t group = head * p.b.ne[1] / p.x.ne[1];
    const float  *b = (const float *)rp_row_at(p.b, group, t, 0), *c = (const float *)rp_row_at(p.c, group, t, 0);
    for (int i = (int)threadIdx.x; i < (int)p.b.ne[0]; i += (int)blockDim.x) s.b[i] = b[i], s.c[i] = c[i];
    if (threadIdx.x == 0) {
        const float x = ((const float *)rp_row(p.dt, t))[head] + ((const float *)p.bias.data)[head];
        s.e           = Softplus()(x);
        s.g           = expf(((const float *)p.a.data)[head] * s.e);
    }
    __syncthreads();
}

/* The sum over the warps, with what the first of them adds: only its threads use the result. */
template <int WARPS> __device__ float finished(const Scan &p, int64_t head, int64_t t, int j, const ScanShared &s) {
    const int   lane = (int)threadIdx.x % RP_WARP;
    const float x    = ((const float *)rp_row_at(p.x, head, t, 0))[j];
    float       sum  = s.sum[0][lane];
    for (int w = 1; w < WARPS; w++) sum += s.sum[w][lane];
    return fmaf(((const float *)p.d.data)[head], x, sum) * Silu()(((const float *)rp_row_at(p.z, head, t, 0))[j]);
}

/* States of up to N elements. */
template <int N> __global__ void __launch_bounds__(warps_of(N) * RP_WARP) ssm_scan_kernel(Scan p) {
    rp_begin();
    constexpr int WARPS = warps_of(N), ROWS = N / WARPS;
    RP_SHARED(ScanShared, shared, [1]);
    ScanShared &s    = shared[0];
    const int   lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP, first = warp * ROWS;
    const int   j = (int)blockIdx.x * RP_WARP + lane, tokens = (int)p.x.ne[2], n = (int)p.b.ne[0],
              channels  = (int)p.x.ne[0];
    const int64_t  head = blockIdx.y, at = head * n * channels + j;
    const int32_t *slot = (const int32_t *)p.slots.data;
    const SlotRun  run  = rp_slot_run(slot, (const int32_t *)p.starts.data, tokens, (int)blockIdx.z);
    const int      last = min(rp_last_slot(slot, tokens), run.end);
    const float   *from = rp_slot_row(p.state, run.from);
    float          S[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        S[i] = from != nullptr && first + i < n && j < channels ? from[at + (int64_t)(first + i) * channels] : 0.0f;
    for (int t = run.first; t < last; t++) {
        prepare(p, head, t, s);
        const float u   = j < channels ? s.e * ((const float *)rp_row_at(p.x, head, t, 0))[j] : 0.0f;
        float       sum = 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < n) {
                S[i] = fmaf(s.b[first + i], u, s.g * S[i]);
                sum  = fmaf(s.c[first + i], S[i], sum);
            }
        s.sum[warp][lane] = sum;
        __syncthreads(); /* all have read b, c and the gates */
        if (warp == 0 && j < channels) ((float *)rp_row_at(p.y, head, t, 0))[j] = finished<WARPS>(p, head, t, j, s);
        float *to = rp_slot_row(p.state, slot[1 + t]);
        if (to == nullptr || j >= channels) continue;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < n) to[at + (int64_t)(first + i) * channels] = S[i];
    }
    for (int t = max(last, run.first); t < run.end; t++)
        if (warp == 0 && j < channels) ((float *)rp_row_at(p.y, head, t, 0))[j] = 0.0f;
}

} // namespace

extern "C" RpStatus rp_cuda_ssm_scan(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(ssm_scan, args));
    const int64_t     n     = args->ssm_scan.b.ne[0];
    const LaunchShape shape = {
        dim3(rp_blocks(args->dst.ne[0], RP_WARP), (unsigned)args->dst.ne[1], rp_slot_blocks(args->ssm_scan.starts)),
        dim3((unsigned)warps_of((int)n) * RP_WARP), 0};
    const Scan p = {args->ssm_scan.x,     args->ssm_scan.z,     args->ssm_scan.dt,     args->ssm_scan.b,
                    args->ssm_scan.c,     args->ssm_scan.a,     args->ssm_scan.d,      args->ssm_scan.bias,
                    args->ssm_scan.state, args->ssm_scan.slots, args->ssm_scan.starts, args->dst};
    if (n <= 32) return RP_LAUNCH("ssm_scan", ctx, shape, ssm_scan_kernel<32>, p);
    if (n <= 64) return RP_LAUNCH("ssm_scan", ctx, shape, ssm_scan_kernel<64>, p);
    if (n <= 128) return RP_LAUNCH("ssm_scan", ctx, shape, ssm_scan_kernel<128>, p);
    return RP_LAUNCH("ssm_scan", ctx, shape, ssm_scan_kernel<256>, p);
}
