/* The gradient of attention (ops.h) without a matrix of all scores: probabilities are computed again from statistics of
 * each row (Dao 2023, arXiv:2307.08691). Two launches, so that each result belongs to one block:
 *
 *     queries   one block of 128 threads per row (t, head, batch). 128 keys at a time, a thread per key: score s.
 *               First sweep: top and sum of exponentials; delta = dy . y. Second sweep: ds = scale p (dy . v - delta)
 *               to shared memory, then a thread per element of dq: dq += ds[i] k[i], in the order of i
 *     keys      one block per row (i, key head, batch). For each head of the group 128 queries at a time, a thread per
 *               query: p and ds to shared memory, then a thread per element: dv += p[t] dy[t], dk += ds[t] q[t], in
 *               the order of heads and t
 *
 * traffic   queries: k three times and v once for each row; keys: q and dy twice for each row. Only the first read of
 *           each comes from memory, the others come from L2
 * numerics  f32; one chain of fma for each element, no atomics, so the order is fixed (I8); the device's expf
 * Simple rather than fast: no tensor cores, and a thread reads a row of its own. A window cuts off keys and queries
 * that do not meet; a sink is one more score of the first sweep. */
#include "kernels/device/device.cuh"

#include "ops/rules.h"
#include "ops/training/attention_backward.h"

namespace {

enum { THREADS = 128, PARTS = RP_ATTENTION_MAX_DIM / THREADS };

struct Gradients {
    RpTensorView dy, q, k, v, y, dq, dk, dv;
    float       *top, *inverse, *delta; /* [heads * n_q * batch] */
    float       *of_sink;               /* the same, or NULL */
    const float *sinks;                 /* [heads], or NULL */
    int          group, ahead, window;
    bool         causal;
    float        scale;
};

__device__ const float *at(const RpTensorView &v, int64_t i1, int64_t i2, int64_t i3) {
    return (const float *)rp_row_at(v, i1, i2, i3);
}

__device__ float dot(const float *a, const float *b, int d) {
    float sum = 0.0f;
    for (int c = 0; c < d; c++) sum = fmaf(a[c], b[c], sum);
    return sum;
}

/* The largest score of the row so far and the sum of exponentials relative to it, of one thread's keys. A NaN makes the
 * sum NaN: fmaxf passes over it. */
struct Sum {
    float top, sum;

    __device__ void add(float s) {
        const float to = fmaxf(top, s);
        if (to != -INFINITY) sum = sum * expf(top - to) + expf(s - to);
        if (to == -INFINITY && !(s == -INFINITY)) sum = NAN;
        top = to;
    }
};

/* The keys [from, end) that query t sees. */
struct Range {
    int64_t from, end;
};

__device__ Range keys_of(const Gradients &g, int64_t t) {
    const int64_t last = g.causal ? t + g.ahead + 1 : g.k.ne[1];
    const int64_t end  = last < 0 ? 0 : last < g.k.ne[1] ? last : g.k.ne[1];
    return {g.window > 0 && last > g.window ? last - g.window : 0, end};
}

/* The queries [from, end) that see key i. */
__device__ Range queries_of(const Gradients &g, int64_t i) {
    const int64_t n_q = g.q.ne[1];
    if (!g.causal) return {0, g.window > 0 && i < g.k.ne[1] - g.window ? 0 : n_q};
    const int64_t past = g.window > 0 ? i - g.ahead + g.window : n_q;
    return {i > g.ahead ? i - g.ahead : 0, past < n_q ? past : n_q};
}

/* The statistics of a row, for every thread: top and 1 / sum. */
__device__ Sum statistics(const Gradients &g, const float *q, Range keys, int64_t h, int64_t b, float *scratch) {
    const int     d        = (int)g.q.ne[0];
    const int64_t key_head = h / g.group;
    Sum           s        = {-INFINITY, 0.0f};
    if (g.sinks != nullptr && threadIdx.x == 0) s.add(g.sinks[h]);
    for (int64_t i = keys.from + threadIdx.x; i < keys.end; i += THREADS)
        s.add(g.scale * dot(q, at(g.k, i, key_head, b), d));
    const float top = rp_block_max(s.top, scratch);
    const float sum = rp_block_sum(s.sum == 0.0f ? 0.0f : s.sum * expf(s.top - top), scratch);
    return {top, sum != 0.0f ? 1.0f / sum : 0.0f};
}

__global__ void __launch_bounds__(THREADS) queries_kernel(Gradients g) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    RP_SHARED(float, ds, [THREADS]);
    const int64_t r = blockIdx.x, t = r % g.q.ne[1], h = r / g.q.ne[1] % g.q.ne[2], b = r / (g.q.ne[1] * g.q.ne[2]);
    const Range   keys = keys_of(g, t);
    const int     d    = (int)g.q.ne[0];
    const float  *q = at(g.q, t, h, b), *dy = at(g.dy, h, t, b), *y = at(g.y, h, t, b);
    const Sum     s   = statistics(g, q, keys, h, b, scratch);
    float         sum = 0.0f, dq[PARTS] = {};
    for (int c = (int)threadIdx.x; c < d; c += THREADS) sum = fmaf(dy[c], y[c], sum);
    const float delta = rp_block_sum(sum, scratch);
    for (int64_t i0 = keys.from; i0 < keys.end; i0 += THREADS) {
        const int64_t i = i0 + threadIdx.x;
        __syncthreads(); /* all have read the keys before */
        if (i < keys.end) {
            const float p   = expf(g.scale * dot(q, at(g.k, i, h / g.group, b), d) - s.top) * s.sum;
            ds[threadIdx.x] = g.scale * p * (dot(dy, at(g.v, i, h / g.group, b), d) - delta);
        }
        __syncthreads();
        for (int j = 0; j < THREADS && i0 + j < keys.end; j++) {
            const float *k = at(g.k, i0 + j, h / g.group, b);
#pragma unroll
            for (int e = 0; e < PARTS; e++) {
                const int c = (int)threadIdx.x + e * THREADS;
                if (c < d) dq[e] = fmaf(ds[j], k[c], dq[e]);
            }
        }
    }
    float *out = (float *)rp_row_at(g.dq, t, h, b);
#pragma unroll
    for (int e = 0; e < PARTS; e++)
        if ((int)threadIdx.x + e * THREADS < d) out[threadIdx.x + e * THREADS] = dq[e];
    if (threadIdx.x != 0) return;
    const int64_t row = t + g.q.ne[1] * (h + g.q.ne[2] * b);
    g.top[row] = s.top, g.inverse[row] = s.sum, g.delta[row] = delta;
    if (g.sinks == nullptr) return;
    const float p  = g.sinks[h] == -INFINITY ? 0.0f : expf(g.sinks[h] - s.top) * s.sum;
    g.of_sink[row] = -p * delta;
}

/* Adds the share of one head's queries to the gradients of a key. p and ds: shared, THREADS each. */
__device__ void add_head(const Gradients &g, int64_t i, int64_t h, int64_t b, float *p, float *ds, float (&dk)[PARTS],
                         float (&dv)[PARTS]) {
    const int     d   = (int)g.q.ne[0];
    const int64_t n_q = g.q.ne[1];
    const Range   see = queries_of(g, i);
    const float  *k = at(g.k, i, h / g.group, b), *v = at(g.v, i, h / g.group, b);
    for (int64_t t0 = see.from; t0 < see.end; t0 += THREADS) {
        const int64_t t = t0 + threadIdx.x, row = t + n_q * (h + g.q.ne[2] * b);
        __syncthreads(); /* all have read the queries before */
        if (t < see.end) {
            const float of_p = expf(g.scale * dot(at(g.q, t, h, b), k, d) - g.top[row]) * g.inverse[row];
            p[threadIdx.x]   = of_p;
            ds[threadIdx.x]  = g.scale * of_p * (dot(at(g.dy, h, t, b), v, d) - g.delta[row]);
        }
        __syncthreads();
        for (int j = 0; j < THREADS && t0 + j < see.end; j++) {
            const float *q = at(g.q, t0 + j, h, b), *dy = at(g.dy, h, t0 + j, b);
#pragma unroll
            for (int e = 0; e < PARTS; e++) {
                const int c = (int)threadIdx.x + e * THREADS;
                if (c >= d) continue;
                dv[e] = fmaf(p[j], dy[c], dv[e]);
                dk[e] = fmaf(ds[j], q[c], dk[e]);
            }
        }
    }
}

__global__ void __launch_bounds__(THREADS) keys_kernel(Gradients g) {
    rp_begin();
    RP_SHARED(float, p, [THREADS]);
    RP_SHARED(float, ds, [THREADS]);
    const int64_t r = blockIdx.x, i = r % g.k.ne[1], kh = r / g.k.ne[1] % g.k.ne[2], b = r / (g.k.ne[1] * g.k.ne[2]);
    float         dk[PARTS] = {}, dv[PARTS] = {};
    for (int64_t h = kh * g.group; h < (kh + 1) * g.group; h++) add_head(g, i, h, b, p, ds, dk, dv);
    float *of_k = (float *)rp_row_at(g.dk, i, kh, b), *of_v = (float *)rp_row_at(g.dv, i, kh, b);
#pragma unroll
    for (int e = 0; e < PARTS; e++) {
        const int c = (int)threadIdx.x + e * THREADS;
        if (c < g.q.ne[0]) of_k[c] = dk[e], of_v[c] = dv[e];
    }
}

} // namespace

extern "C" RpStatus rp_cuda_attention_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(attention_backward, args));
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k;
    Gradients           g;
    g.dy = args->attention_backward.dy, g.y = args->attention_backward.y;
    g.q = *q, g.k = *k, g.v = args->attention_backward.v;
    g.dq = args->dst, g.dk = args->attention_backward.dk, g.dv = args->attention_backward.dv;
    g.top     = (float *)args->attention_backward.stats.data;
    g.inverse = g.top + rp_view_rows(q), g.delta = g.inverse + rp_view_rows(q);
    g.of_sink              = g.delta + rp_view_rows(q);
    g.sinks                = (const float *)args->attention_backward.sinks.data;
    g.window               = args->params->attention_backward.window;
    g.group                = (int)(q->ne[2] / k->ne[2]);
    g.ahead                = (int)rp_attention_ahead(args);
    g.causal               = args->params->attention_backward.causal != 0;
    g.scale                = args->params->attention_backward.scale;
    const LaunchShape rows = {dim3((unsigned)rp_view_rows(q)), dim3(THREADS), 0},
                      keys = {dim3((unsigned)rp_view_rows(k)), dim3(THREADS), 0};
    RP_TRY(RP_LAUNCH("attention_backward", ctx, rows, queries_kernel, g));
    return RP_LAUNCH("attention_backward", ctx, keys, keys_kernel, g);
}
