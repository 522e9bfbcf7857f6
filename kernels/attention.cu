/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <=
 * pos[t], with a sink.
 *
 * Each warp of a block streams over every eighth position with a maximum and a sum of its own (Milakov and
 * Gimelshein 2018, arXiv:1805.02867); the warps' results are added in the order of the warps. Which positions
 * a warp takes depends on their numbers only, so a token gives the same bits alone and within a prefill (I8).
 * geometry  one block of 8 warps a head and token, grid (heads, tokens)
 * traffic   keys and values of the positions in use once a head: 4*d bytes a position */
#include "kernels/device.cuh"

enum { WARPS = 8, THREADS = WARPS * RP_WARP, LANE_DIMS = RP_ATTENTION_MAX_DIM / RP_WARP };

struct Attention {
    TensorView      q, k, v, pos, sinks, y;
    AttentionParams p;
};

__global__ void __launch_bounds__(THREADS) attention_kernel(Attention a) {
    RP_SHARED(float, tops, [WARPS]);
    RP_SHARED(float, sums, [WARPS]);
    RP_SHARED_DYNAMIC(float, parts); /* [WARPS][dim] */
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP, dim = (int)a.q.ne[0];
    const int64_t h = blockIdx.x, t = blockIdx.y, hk = h / (a.q.ne[2] / a.k.ne[2]);
    const int64_t last = ((const int32_t *)a.pos.data)[t], end = last + 1 < a.k.ne[1] ? last + 1 : a.k.ne[1];
    const int64_t from = a.p.window > 0 && end > a.p.window ? end - a.p.window : 0;
    const float  *q    = (const float *)rp_row_at(a.q, t, h, 0);
    float         mine[LANE_DIMS], acc[LANE_DIMS], top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < LANE_DIMS; c++) {
        mine[c] = c * RP_WARP + lane < dim ? q[c * RP_WARP + lane] : 0.0f;
        acc[c]  = 0.0f;
    }
    for (int64_t i = from + (warp - from % WARPS + WARPS) % WARPS; i < end; i += WARPS) {
        const uint16_t *key   = (const uint16_t *)rp_row_at(a.k, i, hk, 0);
        const uint16_t *value = (const uint16_t *)rp_row_at(a.v, i, hk, 0);
        float           dot   = 0.0f;
        for (int c = 0; c * RP_WARP < dim; c++)
            if (c * RP_WARP + lane < dim) dot = fmaf(mine[c], rp_half_bits(key[c * RP_WARP + lane]), dot);
        const float score = a.p.scale * rp_warp_sum(dot);
        const float next  = score > top || score != score ? score : top;
        const float keep  = top == -INFINITY ? 0.0f : expf(top - next),
                    e     = next == -INFINITY ? 0.0f : expf(score - next);
        sum               = sum * keep + e;
        top               = next;
        for (int c = 0; c * RP_WARP < dim; c++)
            if (c * RP_WARP + lane < dim)
                acc[c] = fmaf(e, rp_half_bits(value[c * RP_WARP + lane]), acc[c] * keep);
    }
    for (int c = 0; c * RP_WARP < dim; c++)
        if (c * RP_WARP + lane < dim) parts[warp * dim + c * RP_WARP + lane] = acc[c];
    if (lane == 0) {
        tops[warp] = top;
        sums[warp] = sum;
    }
    __syncthreads();
    const float sink  = a.sinks.data != nullptr ? ((const float *)a.sinks.data)[h] : -INFINITY;
    float       whole = sink;
    for (int w = 0; w < WARPS; w++) whole = tops[w] > whole || tops[w] != tops[w] ? tops[w] : whole;
    float shares[WARPS], total = whole == -INFINITY ? 0.0f : expf(sink - whole);
    for (int w = 0; w < WARPS; w++) {
        shares[w] = whole == -INFINITY ? 0.0f : expf(tops[w] - whole);
        total     = fmaf(shares[w], sums[w], total);
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    float      *out     = (float *)rp_row_at(a.y, h, t, 0);
    for (int i = (int)threadIdx.x; i < dim; i += THREADS) {
        float v = 0.0f;
        for (int w = 0; w < WARPS; w++) v = fmaf(shares[w], parts[w * dim + i], v);
        out[i] = v * inverse;
    }
}

extern "C" RpStatus rp_cuda_attention(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_attention(args));
    const Attention   a     = {args->src[0], args->src[1], args->src[2],           args->src[3],
                               args->src[4], args->dst,    args->params->attention};
    const LaunchShape shape = {dim3((unsigned)a.q.ne[2], (unsigned)a.q.ne[1]), dim3(THREADS),
                               (unsigned)(WARPS * a.q.ne[0] * sizeof(float))};
    return RP_LAUNCH("attention", ctx, shape, attention_kernel, a);
}
