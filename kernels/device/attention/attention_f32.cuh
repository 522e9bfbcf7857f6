/* attention_f32.cuh - attention over keys and values of f32, with products by fma. Rows are pairs of a token and a
 * query head, R = token * heads per KV head + head; a block takes ROWS of one KV head, and positions in tiles of TILE,
 * counted from 0, so that a row has the same bits whatever the other rows are (I8).
 *
 *     scores    thread (x, y) of 16 x 8: rows y + 8r, positions x + 16j of the tile      slices of SLICE dimensions
 *     softmax   a row is 16 lanes of one warp: maximum and sum by shuffles, weights to shared memory
 *     values    thread (g, c): rows g * PER_THREAD + r, dimensions 4c .. 4c + 3           slices of PART positions
 *
 * The buffer of a slice of keys, 64 positions x 64 dimensions, has 4 floats of padding in each row: eight lanes that
 * read 16 bytes of neighbouring rows then touch all 32 banks. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_F32_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_F32_CUH

#include "kernels/device/attention/attention_tile.cuh"

namespace {

struct AttentionF32 {
    RpTensorView      q, k, v, pos, sinks, mask, y;
    RpAttentionParams p;
    int               rows, per_kv; /* of a KV head; query heads that share it */
    bool              aligned;      /* every row begins at a multiple of 16 bytes and is whole quads */
};

/* Sizes for heads of at most SIZE elements. */
template <int SIZE> struct F32Sizes {
    enum {
        ROWS       = SIZE <= 128 ? 32 : 4096 / SIZE,
        TILE       = 64,
        SLICE      = 64,
        PART       = 4096 / SIZE,
        QUADS      = SIZE / 4,                      /* of a row of values: 16 to 128 threads */
        PER_THREAD = ROWS / (ATTN_THREADS / QUADS), /* rows, in the product with the values */
        SCORE_ROWS = ROWS / 8,                      /* of a thread; 4 positions each */
        STRIDE     = SLICE + 4,
        BUFFER     = TILE * STRIDE
    };
};

__device__ Seen seen_in_f32(const AttentionF32 &a, int row) {
    const int n_ctx = (int)a.k.ne[1], t = row / a.per_kv;
    int       last = a.p.causal != 0 ? n_ctx - (int)a.q.ne[1] + t : n_ctx - 1;
    if (a.pos.data != nullptr) last = ((const int32_t *)a.pos.data)[t];
    const int end = last < 0 ? 0 : last < n_ctx ? last + 1 : n_ctx;
    return {a.p.window > 0 && end > a.p.window ? end - a.p.window : 0, end};
}

/* Elements d to d + 3 of a row of `dim`, zeros after its end. */
__device__ float4 load_quad(const float *row, int d, int dim, bool aligned) {
    if (aligned && d < dim) return rp_get_float4(row + d);
    return make_float4(d < dim ? row[d] : 0.0f, d + 1 < dim ? row[d + 1] : 0.0f, d + 2 < dim ? row[d + 2] : 0.0f,
                       d + 3 < dim ? row[d + 3] : 0.0f);
}

__device__ void put_quad(float *to, float4 v) {
    rp_put16(to, make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)));
}

/* to[r][0..WIDTH) = dimensions d0 .. d0 + WIDTH - 1 of positions first + r, r < N; zeros from `end` on. */
template <int N, int WIDTH, int STRIDE>
__device__ void stage_positions(const AttentionF32 &a, const RpTensorView &x, int64_t hk, int first, int end, int d0,
                                float *to) {
    const char *base = rp_row_at(x, 0, hk, blockIdx.z);
#pragma unroll
    for (int n = 0; n < N * WIDTH / 4 / ATTN_THREADS; n++) {
        const int at = n * ATTN_THREADS + (int)threadIdx.x, r = at / (WIDTH / 4), d = at % (WIDTH / 4) * 4;
        float4    v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + r < end)
            v = load_quad((const float *)(base + (size_t)(first + r) * x.nb[1]), d0 + d, (int)x.ne[0], a.aligned);
        put_quad(to + r * STRIDE + d, v);
    }
}

__device__ char *row_of(const AttentionF32 &a, const RpTensorView &x, int64_t hk, int row, bool heads_first) {
    const int64_t t = row / a.per_kv, h = hk * a.per_kv + row % a.per_kv;
    return heads_first ? rp_row_at(x, h, t, blockIdx.z) : rp_row_at(x, t, h, blockIdx.z);
}

/* q[row][SIZE], and what each row sees. Missing rows have zero queries and see nothing. Returns the positions that any
 * row sees, the same in all threads. */
template <int SIZE> __device__ Seen stage_rows(const AttentionF32 &a, int64_t hk, int row0, float *q, Seen *seen) {
    typedef F32Sizes<SIZE> S;
    Seen                   any = {INT_MAX, 0};
    for (int at = (int)threadIdx.x; at < S::ROWS * S::QUADS; at += ATTN_THREADS) {
        const int row = row0 + at / S::QUADS, d = at % S::QUADS * 4;
        float4    v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < a.rows) v = load_quad((const float *)row_of(a, a.q, hk, row, false), d, (int)a.q.ne[0], a.aligned);
        put_quad(q + at / S::QUADS * SIZE + d, v);
    }
    for (int r = 0; r < S::ROWS; r++) {
        const Seen s = row0 + r < a.rows ? seen_in_f32(a, row0 + r) : Seen{0, 0};
        if (s.end > s.from) any.from = min(any.from, s.from), any.end = max(any.end, s.end);
        if ((int)threadIdx.x == r) seen[r].from = s.from, seen[r].end = s.end;
    }
    return any;
}

/* The state of a thread: maximum and sum of its SCORE_ROWS rows, accumulators of its PER_THREAD rows. */
template <int SIZE> struct F32State {
    typedef F32Sizes<SIZE> S;
    float                  maximum[S::SCORE_ROWS], sum[S::SCORE_ROWS], acc[S::PER_THREAD][4];

    __device__ static int x() { return (int)threadIdx.x % 16; }
    __device__ static int score_row(int r) { return (int)threadIdx.x / 16 + 8 * r; }
    __device__ static int value_row(int r) { return (int)threadIdx.x / S::QUADS * S::PER_THREAD + r; }
    __device__ static int value_dim() { return (int)threadIdx.x % S::QUADS * 4; }

    __device__ void clear(const AttentionF32 &a, int64_t hk, int row0) {
#pragma unroll
        for (int r = 0; r < S::SCORE_ROWS; r++) {
            const bool sink = a.sinks.data != nullptr && row0 + score_row(r) < a.rows;
            maximum[r] =
                sink ? ((const float *)a.sinks.data)[hk * a.per_kv + (row0 + score_row(r)) % a.per_kv] : -INFINITY;
            sum[r] = sink ? 1.0f : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < S::PER_THREAD; r++) acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = 0.0f;
    }

    /* Adds the products of `n` dimensions, of queries from dimension d0 on and of keys in `keys`. */
    __device__ static void add_scores(const float *q, const float *keys, int d0, int n, float (&s)[S::SCORE_ROWS][4]) {
        for (int d = 0; d < n; d += 4) {
            float4 k[4], v[S::SCORE_ROWS];
#pragma unroll
            for (int j = 0; j < 4; j++) k[j] = rp_get_float4(keys + (x() + 16 * j) * S::STRIDE + d);
#pragma unroll
            for (int r = 0; r < S::SCORE_ROWS; r++) v[r] = rp_get_float4(q + score_row(r) * SIZE + d0 + d);
#pragma unroll
            for (int r = 0; r < S::SCORE_ROWS; r++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s[r][j] = fmaf(v[r].x, k[j].x, s[r][j]), s[r][j] = fmaf(v[r].y, k[j].y, s[r][j]);
                    s[r][j] = fmaf(v[r].z, k[j].z, s[r][j]), s[r][j] = fmaf(v[r].w, k[j].w, s[r][j]);
                }
        }
    }

    /* Scores to weights in shared memory, and factors[row] of the accumulators. A NaN among the scores is not in the
     * maximum; it makes its own weight NaN, and by that the sum. */
    __device__ void put_weights(const AttentionF32 &a, const Seen *seen, int row0, int first,
                                float (&s)[S::SCORE_ROWS][4], float *weights, float *factors) {
#pragma unroll
        for (int r = 0; r < S::SCORE_ROWS; r++) {
            const int    row = score_row(r), t = (row0 + row) / a.per_kv;
            const Seen   see  = {seen[row].from, seen[row].end};
            const float *mask = a.mask.data != nullptr ? (const float *)rp_row_at(a.mask, t, 0, 0) : nullptr;
            float        most = -INFINITY, added = 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int  i    = first + x() + 16 * j;
                const bool sees = i >= see.from && i < see.end;
                s[r][j]         = sees ? s[r][j] * a.p.scale : -INFINITY;
                if (sees && mask != nullptr) s[r][j] += mask[i];
                most = fmaxf(most, s[r][j]);
            }
            for (int lanes = 1; lanes < 16; lanes *= 2) most = fmaxf(most, __shfl_xor_sync(RP_ALL_LANES, most, lanes));
            const float after = fmaxf(maximum[r], most), base = after == -INFINITY ? 0.0f : after;
            const float factor = maximum[r] == -INFINITY ? 0.0f : expf(maximum[r] - base);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float p                         = expf(s[r][j] - base);
                weights[row * S::TILE + x() + 16 * j] = p;
                added += p;
            }
            for (int lanes = 1; lanes < 16; lanes *= 2) added += __shfl_xor_sync(RP_ALL_LANES, added, lanes);
            if (x() == 0) factors[row] = factor;
            maximum[r] = after;
            sum[r]     = fmaf(sum[r], factor, added);
        }
    }

    __device__ void rescale(const float *factors) {
#pragma unroll
        for (int r = 0; r < S::PER_THREAD; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) acc[r][c] *= factors[value_row(r)];
    }

    /* Adds PART positions of the values, from place `from` of the tile on. Positions that a row does not see are left
     * out: 0 times an infinity or a NaN is not 0. ALL: every row sees all of them. */
    template <bool ALL>
    __device__ void add_values(const Seen *seen, const float *weights, const float *values, int first, int from) {
#pragma unroll 2
        for (int j = 0; j < S::PART; j += 4) {
            float4 v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] = rp_get_float4(values + (j + i) * SIZE + value_dim());
#pragma unroll
            for (int r = 0; r < S::PER_THREAD; r++) {
                const float4 p    = rp_get_float4(weights + value_row(r) * S::TILE + from + j);
                const float  w[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int at = first + from + j + i;
                    if (!ALL && (at < seen[value_row(r)].from || at >= seen[value_row(r)].end)) continue;
                    acc[r][0] = fmaf(w[i], v[i].x, acc[r][0]), acc[r][1] = fmaf(w[i], v[i].y, acc[r][1]);
                    acc[r][2] = fmaf(w[i], v[i].z, acc[r][2]), acc[r][3] = fmaf(w[i], v[i].w, acc[r][3]);
                }
            }
        }
    }

    /* y = acc / sum. `sums` is shared memory for ROWS floats. */
    __device__ void store(const AttentionF32 &a, int64_t hk, int row0, float *sums) {
        const int dim = (int)a.q.ne[0], d = value_dim();
#pragma unroll
        for (int r = 0; r < S::SCORE_ROWS; r++)
            if (x() == 0) sums[score_row(r)] = sum[r];
        __syncthreads();
#pragma unroll
        for (int r = 0; r < S::PER_THREAD; r++) {
            if (row0 + value_row(r) >= a.rows) continue;
            const float total = sums[value_row(r)], inverse = total == 0.0f ? 0.0f : 1.0f / total;
            float      *y = (float *)row_of(a, a.y, hk, row0 + value_row(r), true);
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (d + c < dim) y[d + c] = acc[r][c] * inverse;
        }
    }
};

template <int SIZE> __global__ void __launch_bounds__(ATTN_THREADS, 3) attention_f32_kernel(AttentionF32 a) {
    rp_begin();
    typedef F32Sizes<SIZE> S;
    RP_SHARED(float4, q4, [S::ROWS * SIZE / 4]);
    RP_SHARED(float4, weights4, [S::ROWS * S::TILE / 4]);
    RP_SHARED(float4, buffer4, [S::BUFFER / 4]);
    RP_SHARED(float, factors, [S::ROWS]);
    RP_SHARED(Seen, seen, [S::ROWS]);
    float *const   q = (float *)q4, *weights = (float *)weights4, *buffer = (float *)buffer4;
    const int64_t  hk   = blockIdx.x;
    const int      row0 = (int)(gridDim.y - 1 - blockIdx.y) * S::ROWS; /* the last rows see the most positions */
    const Seen     any  = stage_rows<SIZE>(a, hk, row0, q, seen);
    F32State<SIZE> state;
    state.clear(a, hk, row0);
    for (int first = any.from / S::TILE * S::TILE; first < any.end; first += S::TILE) {
        float s[S::SCORE_ROWS][4] = {};
        for (int d0 = 0; d0 < (int)a.q.ne[0]; d0 += S::SLICE) {
            __syncthreads(); /* queries are there; the buffer has been used */
            stage_positions<S::TILE, S::SLICE, S::STRIDE>(a, a.k, hk, first, any.end, d0, buffer);
            __syncthreads();
            state.add_scores(q, buffer, d0, min((int)S::SLICE, (int)a.q.ne[0] - d0), s);
        }
        state.put_weights(a, seen, row0, first, s, weights, factors);
        bool all = true;
        for (int r = 0; r < S::ROWS; r++) all = all && first >= seen[r].from && first + S::TILE <= seen[r].end;
        for (int from = 0; from < S::TILE && first + from < any.end; from += S::PART) {
            __syncthreads(); /* weights are there; the buffer has been used */
            if (from == 0) state.rescale(factors);
            stage_positions<S::PART, SIZE, SIZE>(a, a.v, hk, first + from, any.end, 0, buffer);
            __syncthreads();
            if (all)
                state.template add_values<true>(seen, weights, buffer, first, from);
            else
                state.template add_values<false>(seen, weights, buffer, first, from);
        }
        __syncthreads(); /* weights and factors have been used */
    }
    __syncthreads();
    state.store(a, hk, row0, factors);
}

template <int SIZE> RpStatus launch_f32(const AttentionF32 &a, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)a.k.ne[2], rp_blocks(a.rows, F32Sizes<SIZE>::ROWS), (unsigned)a.q.ne[3]),
                               dim3(ATTN_THREADS), 0};
    if (shape.grid.y > 65535 || a.q.ne[3] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "attention: %lld tokens, batch %lld: too many for one launch",
                       (long long)a.q.ne[1], (long long)a.q.ne[3]);
    return RP_LAUNCH("attention", ctx, shape, attention_f32_kernel<SIZE>, a);
}

bool has_whole_quads(const RpTensorView &v) {
    return ((uintptr_t)v.data | v.nb[1] | v.nb[2] | v.nb[3]) % 16 == 0 && v.ne[0] % 4 == 0;
}

RpStatus attention_f32(const RpOpArgs *args, RpKernelCtx *ctx) {
    AttentionF32 a = {};
    a.q = args->attention.q, a.k = args->attention.k, a.v = args->attention.v, a.pos = args->attention.pos;
    a.sinks = args->attention.sinks, a.mask = args->attention.mask, a.y = args->dst;
    a.p       = args->params->attention;
    a.per_kv  = (int)(a.q.ne[2] / a.k.ne[2]);
    a.aligned = has_whole_quads(a.q) && has_whole_quads(a.k) && has_whole_quads(a.v);
    if (a.per_kv * a.q.ne[1] > INT_MAX || a.k.ne[1] > INT_MAX - F32Sizes<64>::TILE)
        return rp_fail(RP_E_UNSUPPORTED, "attention: %lld tokens and %lld positions: too many for one launch",
                       (long long)a.q.ne[1], (long long)a.k.ne[1]);
    a.rows = (int)(a.per_kv * a.q.ne[1]);
    if (a.q.ne[0] <= 64) return launch_f32<64>(a, ctx);
    if (a.q.ne[0] <= 128) return launch_f32<128>(a, ctx);
    return a.q.ne[0] <= 256 ? launch_f32<256>(a, ctx) : launch_f32<512>(a, ctx);
}

} // namespace
#endif
