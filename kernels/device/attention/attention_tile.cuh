/* attention_tile.cuh - online softmax over tiles of positions, for rows of one KV head. A row is a query head of a
 * token:
 *
 *     row R = token * heads per KV head + head        a block takes GROUPS * 8 consecutive rows
 *
 * The four warps of a block share each tile. Warp w scores positions w * TILE/4 .. of it, for all rows. The maximum of
 * a row over the tile goes through shared memory, and so do the weights exp(score - maximum). Warp w then adds the
 * values of all positions in dimensions w * SIZE/4 .., so its accumulators need no merge with those of another warp.
 *
 * With g = lane / 4 and t = lane % 4, a lane has rows 8 * group + g. Of a row it has the scores of positions 2t and 2t
 * + 1 of every 8, and accumulators of columns 2t and 2t + 1. A sum of weights is per lane; lanes and warps are added at
 * the end.
 *
 * f32 accuracy with f16 factors: queries and weights are cut into a high and a low part, x = high + low. Queries are
 * first scaled by a power of two that brings the largest of a row to 2^14 .. 2^15, and weights are 2^14 exp(score -
 * maximum), so that the low parts are not subnormal. Each row of a product depends on its own row of the factors
 * only. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_TILE_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_TILE_CUH

#include "kernels/device/attention/attention_next.cuh"
#include "kernels/device/attention/attention_q8_0.cuh"

namespace {

static const int   WEIGHT_BITS = 14;
static const float WEIGHT_ONE  = 16384.0f; /* the weight of a score that equals the maximum */
static const float LOG2_E      = 1.44269504088896341f;

struct Attention {
    RpTensorView      q, k, v, pos, sinks, y;
    RpAttentionParams p;
    int               rows, per_kv;  /* of a KV head; query heads that share it */
    int               n_ctx, splits; /* n_ctx: positions that a sequence can have */
    bool              aligned;       /* of keys and values: KvRows */
    bool              split_kv;      /* one block per split */
    bool              quantizes;     /* y is q8_act */
    const float      *cap;
    unsigned         *counters;
    float            *partials;
    RpNextWeights     next; /* attention_prefill.cu does not prefetch them */
};

/* The positions [from, end) that a token attends to. */
struct Seen {
    int from, end;
};

__device__ Seen seen_by(const Attention &a, int row) {
    const int64_t last = ((const int32_t *)a.pos.data)[row / a.per_kv];
    const int     end  = (int)(last < 0 ? 0 : last + 1 < a.n_ctx ? last + 1 : a.n_ctx);
    return {a.p.window > 0 && end > a.p.window ? end - a.p.window : 0, end};
}

/* exp(old maximum - new maximum): what a sum relative to `maximum` is multiplied by to be relative to `new_max`. 0 for
 * a maximum of -INFINITY, that is for no positions, where the difference could be NaN. */
__device__ float rescale_factor(float maximum, float new_max) {
    return maximum == -INFINITY ? 0.0f : exp2f((maximum - new_max) * LOG2_E);
}

/* 2^14 exp(x). The difference to the maximum is taken first: it is small where the weight matters, so it has few
 * errors. */
__device__ float weight_of(float x) { return exp2f(fmaf(x, LOG2_E, (float)WEIGHT_BITS)); }

/* A row of stage_queries, of which the lane has the dimensions 32 i + lane in v[i]. */
template <RpDtype T, int SIZE>
__device__ void stage_query(const Attention &a, const KvRows &k, int r, const float (&v)[SIZE / RP_WARP], unsigned *q,
                            float *factors) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < SIZE / RP_WARP; i++) largest = fmaxf(largest, fabsf(v[i]));
    largest        = rp_warp_max(largest);
    const int bits = (int)(__float_as_uint(largest) >> 23); /* exponent + 127; 255 for infinity and NaN */
    int       up   = bits == 255 ? 0 : WEIGHT_BITS + 127 - bits;
    up             = up > 100 ? 100 : up;
    const float by = __uint_as_float((unsigned)(127 + up) << 23), back = __uint_as_float((unsigned)(127 - up) << 23);
    if (lane_index() == 0) factors[r] = a.p.scale * back;
#pragma unroll
    for (int i = 0; i < SIZE / RP_WARP; i++) {
        /* dimension 32i + 8t + j: k-step 2i + j/4, word j%4/2 * 2 (high), half j%2 */
        const int rotation = T == RP_Q8_0 && k.rotates(i) ? 2 : 0; /* of the quants of this block */
        const int t = (lane_index() + RP_WARP - rotation) % RP_WARP / 8, j = (lane_index() + RP_WARP - rotation) % 8;
        const int at =
            (((r / GROUP * (SIZE / 16) + 2 * i + j / 4) * RP_WARP + r % GROUP * 4 + t) * 4 + j % 4 / 2 * 2) * 2 + j % 2;
        const __half high       = __float2half_rn(v[i] * by);
        ((uint16_t *)q)[at]     = __half_as_ushort(high);
        ((uint16_t *)q)[at + 2] = __half_as_ushort(__float2half_rn(v[i] * by - __half2float(high)));
    }
}

/* Queries as fragments q[group][k-step][lane][4] (high, low, high, low), and factors[row], which dot products are
 * multiplied by: scale / 2^shift. A warp takes every fourth row; of 8 rows it loads both of its rows at the same time.
 * Missing rows and dimensions are zeros. */
template <RpDtype T, int SIZE, int ROWS>
__device__ void stage_queries(const Attention &a, const KvRows &k, int64_t hk, int row0, unsigned *q, float *factors) {
    enum { SIDE = ROWS == GROUP ? 2 : 1 };
    static_assert(ROWS % (SIDE * ATTN_WARPS) == 0, "whole sets of rows");
    const int dim = k.dim;
#pragma unroll 1
    for (int first = warp_index(); first < ROWS; first += SIDE * ATTN_WARPS) {
        float v[SIDE][SIZE / RP_WARP];
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const int    row = row0 + first + j * ATTN_WARPS;
            const float *x   = row < a.rows
                                   ? (const float *)rp_row_at(a.q, row / a.per_kv, hk * a.per_kv + row % a.per_kv, 0)
                                   : nullptr;
#pragma unroll
            for (int i = 0; i < SIZE / RP_WARP; i++) {
                const int d = i * RP_WARP + lane_index();
                v[j][i]     = x != nullptr && d < dim ? x[d] : 0.0f;
            }
        }
#pragma unroll
        for (int j = 0; j < SIDE; j++) stage_query<T, SIZE>(a, k, first + j * ATTN_WARPS, v[j], q, factors);
    }
}

/* Shared memory of a block. */
template <int ROWS> struct AttentionShared {
    unsigned *q, *weights;            /* fragments */
    float (*maxima)[ROWS];            /* [warp][row] */
    float *factors;                   /* [row] */
    Seen  *seen;                      /* [row] */
    float *key_scales, *value_scales; /* q8_0 */
};

/* cap * tanh(s / cap), off by at most 2^-21 cap. tanhf needs more registers than there are. */
__device__ inline float soft_cap(float s, float cap) {
    return cap - __fdividef(2.0f * cap, expf(__fdividef(2.0f * s, cap)) + 1.0f);
}

/* The state of a lane. */
template <RpDtype T, int SIZE, int GROUPS> struct RowState {
    typedef AttentionSizes<T, SIZE> S;
    enum { ROWS = GROUPS * GROUP };
    float acc[GROUPS][S::COLUMNS][4], maximum[GROUPS], sum[GROUPS];

    __device__ void clear() {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            maximum[group] = -INFINITY;
            sum[group]     = 0.0f;
#pragma unroll
            for (int c = 0; c < S::COLUMNS; c++)
                acc[group][c][0] = acc[group][c][1] = acc[group][c][2] = acc[group][c][3] = 0.0f;
        }
    }

    /* Column 2t + e of accumulators c. */
    __device__ float value(int group, int c, int e) const {
        return high_and_low(acc[group][c][e], acc[group][c][2 + e]);
    }

    /* -INFINITY for the positions that a row does not see. */
    __device__ static void hide(const Seen &seen, int first, float (&s)[S::N_TILES][2]) {
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int i = first + (warp_index() * S::N_TILES + n) * 8 + lane_in_group() * 2 + e;
                if (i < seen.from || i >= seen.end) s[n][e] = -INFINITY;
            }
    }

    __device__ static void cap_scores(float cap, float (&s)[S::N_TILES][2]) {
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) s[n][e] = soft_cap(s[n][e], cap);
    }

    /* Dot products to scores; with a cap: cap * tanh(score / cap); -INFINITY where a row does not see the position.
     * Maxima over this warp to shared memory. */
    __device__ void scale_scores(const AttentionShared<ROWS> &shared, int first, bool all_seen, const float *cap,
                                 float (&s)[GROUPS][S::N_TILES][2]) const {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const int   row    = group * GROUP + lane_group();
            const float factor = shared.factors[row];
            float       most   = -INFINITY;
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) s[group][n][e] *= factor;
            if (cap != nullptr) cap_scores(*cap, s[group]);
            if (!all_seen) hide(shared.seen[row], first, s[group]);
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) most = fmaxf(most, s[group][n][e]);
            most = fmaxf(most, __shfl_xor_sync(RP_ALL_LANES, most, 1));
            most = fmaxf(most, __shfl_xor_sync(RP_ALL_LANES, most, 2));
            if (lane_in_group() == 0) shared.maxima[warp_index()][row] = most;
        }
    }

    /* The new maximum and the weights, which replace the scores in shared memory. A NaN among the scores is not in the
     * maximum; it makes its own weight NaN, and by that the sum and the accumulators of its row. */
    __device__ void put_weights(const AttentionShared<ROWS> &shared, const float (&s)[GROUPS][S::N_TILES][2]) {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float new_max = maximum[group];
#pragma unroll
            for (int w = 0; w < ATTN_WARPS; w++)
                new_max = fmaxf(new_max, shared.maxima[w][group * GROUP + lane_group()]);
            const float rescale = rescale_factor(maximum[group], new_max);
            const float base    = new_max == -INFINITY ? 0.0f : new_max;
            maximum[group]      = new_max;
            sum[group] *= rescale;
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++) {
                const float p[2] = {weight_of(s[group][n][0] - base), weight_of(s[group][n][1] - base)};
                const int   at   = warp_index() * S::N_TILES + n; /* 8 positions; two of them are a product */
                unsigned    w[2];
                sum[group] += p[0];
                sum[group] += p[1];
                if (T == RP_F16) {
                    w[0] = pack_half(p[0], p[1]);
                    w[1] = pack_half(p[0] - low_half(w[0]), p[1] - high_half(w[0]));
                } else {
                    w[0] = __float_as_uint(p[0]), w[1] = __float_as_uint(p[1]);
                }
                store_words(shared.weights + ((group * S::STEPS + at / 2) * RP_WARP + lane_index()) * 4 + at % 2 * 2,
                            w);
            }
#pragma unroll
            for (int c = 0; c < S::COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) acc[group][c][e] *= rescale;
        }
    }

    /* Adds infinities and NaNs among the values of a tile to the rows that see their positions. In the product they are
     * zeros: 0 * infinity is NaN, also for rows of a token that does not see the position. Rare, so slow. */
    template <class Rows> __device__ void add_specials(const AttentionShared<ROWS> &shared, const Rows &v, int first) {
        for (int i = first > v.from ? first : v.from; i < first + S::TILE && i < v.end; i++)
#pragma unroll
            for (int c = 0; c < S::COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int d = value_dim<S>(lane_in_group() * 2 + e, c) + c % S::VW;
                    if (d >= v.dim) continue;
                    const float x = rp_half_bits(((const uint16_t *)v.row(i + v.shift(i)))[d]);
                    if (fabsf(x) < INFINITY) continue;
#pragma unroll
                    for (int group = 0; group < GROUPS; group++) {
                        const Seen seen = shared.seen[group * GROUP + lane_group()];
                        if (i < seen.from || i >= seen.end) continue;
                        const int      at = i - first, lane = lane_group() * 4 + at % 8 / 2;
                        const unsigned w =
                            shared.weights[((group * S::STEPS + at / 16) * RP_WARP + lane) * 4 + at / 8 % 2 * 2];
                        acc[group][c][e] += (at % 2 == 0 ? low_half(w) : high_half(w)) * x;
                    }
                }
    }
};

} // namespace
#endif
