/* attention_prefill.cuh - online softmax of many rows, with scores and weights in the registers of matrix fragments
 * (FlashAttention-2, arXiv:2307.08691). A row is a query head of a token:
 *
 *     row R = token * heads per KV head + head        a block takes 64 consecutive rows, warp w rows 16w to 16w + 15
 *
 *     registers  high parts of the queries of the warp's rows, their sums acc[16][SIZE] and scores s[16][TILE]
 *     shared     k[TILE][SIZE], v[TILE][SIZE] f16: values are copied while scores are computed, the next keys while
 *                values are added. Low parts of the queries, as fragments [warp][k-step][lane][4]
 *
 * With g = lane / 4 and t = lane % 4, a lane has rows g and g + 8 of the warp, and columns 2t and 2t + 1 of every 8.
 * This is the layout of d, and that of a (mma.cuh): scores become weights and these a factor of the next product,
 * without a copy.
 *
 * f32 accuracy with f16 factors: queries and weights are cut into a high and a low part, x = high + low, with a product
 * each. Queries are scaled by a power of two that brings the largest of a row to 2^14 .. 2^15.
 *
 * Weights are 2^(14 + log2(e) score - reference). A reference is the largest log2(e) score so far, rounded up, plus 8.
 * It changes only if a score exceeds it: sums are then multiplied by a power of two. So weights are at most 2^14, and
 * one that is 2^-19 of the largest is still a normal f16.
 *
 *     largest log2(e) score of a tile    3.2   7.9   10   12.5      reference   12   12   12   21
 *     sums before the tile               0     as they are              times 2^-9
 *
 * banks  Chunk c of 16 bytes of position r is stored as chunk c ^ (r & 7), so that ldmatrix reads eight rows from
 *        different banks. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_PREFILL_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_PREFILL_CUH

#include "kernels/device/attention/attention_merge.cuh"

namespace {

enum {
    PREFILL_TILE = 64,
    PREFILL_ROWS = 16 * ATTN_WARPS,
    HEADROOM     = 8 /* powers of two by which weights may grow before sums are rescaled */
};

/* 2^x, relative error 2^-22; 0 where the result would be subnormal. */
__device__ float power_of_two(float x) {
#ifdef RP_CUDASIM
    return exp2f(x);
#else
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* Copies of keys or values to shared memory. A thread copies the same chunk of every STEP-th position. */
template <int SIZE> struct PrefillCopy {
    enum { CHUNKS = SIZE / 8, STEP = ATTN_THREADS / CHUNKS, ROW_BYTES = 2 * SIZE };
    char  *to;
    KvRows from;

    __device__ PrefillCopy(char *tile, const KvRows &rows) : from(rows) {
        const int chunk = (int)threadIdx.x % CHUNKS, row = (int)threadIdx.x / CHUNKS;
        to = tile + row * ROW_BYTES + (chunk ^ (row & 7)) * 16;
        from.base += chunk * 16;
    }
    /* Positions from `first` on. Past the ends of the context a neighbour is copied: no row of the block sees it. */
    __device__ void start(int first) const {
        const int row = first + (int)threadIdx.x / CHUNKS;
        if (from.has_all(first, PREFILL_TILE)) {
            const char *at = from.row(row);
#pragma unroll
            for (int i = 0; i < PREFILL_TILE; i += STEP, at += (size_t)STEP * from.stride)
                rp_cp_async16(to + i * ROW_BYTES, at);
        } else {
            const int   least = from.from - row, most = from.end - 1 - row;
            const char *at = from.base + (int64_t)row * from.stride;
#pragma unroll
            for (int i = 0; i < PREFILL_TILE; i += STEP)
                rp_cp_async16(to + i * ROW_BYTES, at + (int64_t)min(max(i, least), most) * (int)from.stride);
        }
        rp_cp_async_commit();
    }
};

/* The two rows of a lane. */
template <int SIZE> struct PrefillRows {
    enum { STEPS = SIZE / 16, COLUMNS = SIZE / 8, N_TILES = PREFILL_TILE / 8, ROW_BYTES = 2 * SIZE };
    unsigned  high[STEPS][4]; /* queries */
    unsigned *low;            /* of this lane, a fragment every RP_WARP * 4 words */
    float     factor[2];      /* log2(e) * score = dot product * factor */
    Seen      seen[2];
    float     acc[COLUMNS][4], reference[2], sum[2]; /* sum: of this lane until the end of a split */

    __device__ static int row_of(int h) { return warp_index() * 16 + lane_group() + 8 * h; }

    __device__ PrefillRows(const Attention &a, int64_t hk, int row0, unsigned *memory)
        : low(memory + (warp_index() * STEPS * RP_WARP + lane_index()) * 4) {
        unsigned part[STEPS][4];
        float    v[2][COLUMNS][2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int    row = min(row0 + row_of(h), a.rows - 1); /* stands for those past it */
            const float *x =
                (const float *)rp_row_at(a.q, row / a.per_kv, hk * a.per_kv + row % a.per_kv, 0) + 2 * lane_in_group();
            float largest = 0.0f;
            seen[h]       = seen_by(a, row);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                load_floats(x + 8 * c, v[h][c]);
                largest = fmaxf(largest, fmaxf(fabsf(v[h][c][0]), fabsf(v[h][c][1])));
            }
            largest        = fmaxf(largest, __shfl_xor_sync(RP_ALL_LANES, largest, 1));
            largest        = fmaxf(largest, __shfl_xor_sync(RP_ALL_LANES, largest, 2));
            const int bits = (int)(__float_as_uint(largest) >> 23); /* exponent + 127; 255 for infinity and NaN */
            int       up   = bits == 255 ? 0 : WEIGHT_BITS + 127 - bits;
            up             = up > 100 ? 100 : up;
            const float by = __uint_as_float((unsigned)(127 + up) << 23);
            factor[h]      = a.p.scale * __uint_as_float((unsigned)(127 - up) << 23) * LOG2_E;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                cut(v[h][c][0] * by, v[h][c][1] * by, high[c / 2][c % 2 * 2 + h], part[c / 2][c % 2 * 2 + h]);
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++) store_words(low + i * RP_WARP * 4, part[i]);
    }

    /* x and y as two f16 each. */
    __device__ static void cut(float x, float y, unsigned &to_high, unsigned &to_low) {
        float high_x, high_y;
        to_high = pack_half(x, y);
        unpack_half(to_high, high_x, high_y);
        to_low = pack_half(x - high_x, y - high_y);
    }

    __device__ void clear() {
#pragma unroll
        for (int h = 0; h < 2; h++) reference[h] = -INFINITY, sum[h] = 0.0f;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) acc[c][0] = acc[c][1] = acc[c][2] = acc[c][3] = 0.0f;
    }

    /* s = dot products with the keys of a tile. */
    __device__ void scores(const char *k, float (&s)[N_TILES][4]) const {
        const int   row = lane_index() % 8 + lane_index() / 16 * 8;
        const char *at  = k + row * ROW_BYTES;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const char *chunk = at + ((2 * i + lane_index() / 8 % 2) ^ (row & 7)) * 16;
            unsigned    part[4];
            load_words(low + i * RP_WARP * 4, part);
#pragma unroll
            for (int n = 0; n < N_TILES; n += 2) {
                unsigned x[4];
                rp_ldmatrix_x4(x, chunk + n * 8 * ROW_BYTES);
                const unsigned left[2] = {x[0], x[1]}, right[2] = {x[2], x[3]};
                if (i == 0) {
                    rp_mma_f16_first(s[n], high[i], left);
                    rp_mma_f16_first(s[n + 1], high[i], right);
                } else {
                    rp_mma_f16(s[n], high[i], left);
                    rp_mma_f16(s[n + 1], high[i], right);
                }
                rp_mma_f16(s[n], part, left);
                rp_mma_f16(s[n + 1], part, right);
            }
        }
    }

    /* Replaces scores that are NaN by the sum over the infinities and NaNs among keys and queries. The product of an
     * infinity and a low part may have the other sign, or be NaN. */
    __device__ void mend(const KvRows &k, int first, float (&s)[N_TILES][4]) const {
        for (int i = 0; i < PREFILL_TILE; i++) {
            const uint16_t *x      = (const uint16_t *)k.row(k.near(first + i)) + 2 * lane_in_group();
            float           sum[2] = {0.0f, 0.0f};
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const unsigned w     = high[c / 2][c % 2 * 2 + h];
                        const float    value = rp_half_bits(x[8 * c + e]), query = e == 0 ? low_half(w) : high_half(w);
                        if (!(fabsf(value) < INFINITY && fabsf(query) < INFINITY)) sum[h] = fmaf(query, value, sum[h]);
                    }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                sum[h] += __shfl_xor_sync(RP_ALL_LANES, sum[h], 1);
                sum[h] += __shfl_xor_sync(RP_ALL_LANES, sum[h], 2);
#pragma unroll
                for (int j = 0; j < 2 * N_TILES; j++) {
                    float &score = s[j / 2][2 * h + j % 2];
                    if (i == j / 2 * 8 + 2 * lane_in_group() + j % 2 && score != score) score = sum[h];
                }
            }
        }
    }

    /* -INFINITY for the positions that a row does not see. */
    __device__ void hide(int first, float (&s)[N_TILES][4]) const {
        const int i = first + 2 * lane_in_group();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int      from   = i - seen[h].from;
            const unsigned n_seen = (unsigned)max(seen[h].end - seen[h].from, 0);
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if ((unsigned)(8 * n + e + from) >= n_seen) s[n][2 * h + e] = -INFINITY;
        }
    }

    /* Scores become weights; sums and accumulators become relative to the new reference. A NaN among the scores is not
     * in the maximum; it makes its own weight NaN, and by that the sum and the accumulators of its row. */
    __device__ void weigh(float (&s)[N_TILES][4]) {
        float rescale[2];
        bool  any = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float most = -INFINITY;
#pragma unroll
            for (int n = 0; n < N_TILES; n++) most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
            most               = fmaxf(most, __shfl_xor_sync(RP_ALL_LANES, most, 1));
            most               = fmaxf(most, __shfl_xor_sync(RP_ALL_LANES, most, 2)) * factor[h];
            const float before = reference[h];
            if (most > before) reference[h] = ceilf(most) + (float)HEADROOM;
            rescale[h]         = most > before && before > -INFINITY ? power_of_two(before - reference[h]) : 1.0f;
            any                = any || rescale[h] != 1.0f;
            const float offset = reference[h] == -INFINITY ? 0.0f : (float)WEIGHT_BITS - reference[h];
#pragma unroll
            for (int i = 0; i < 2 * N_TILES; i++) {
                float &x = s[i / 2][2 * h + i % 2];
                x        = power_of_two(fmaf(x, factor[h], offset));
            }
        }
        if (__any_sync(RP_ALL_LANES, any)) {
#pragma unroll
            for (int i = 0; i < COLUMNS * 4; i++) acc[i / 4][i % 4] *= rescale[i % 4 / 2];
            sum[0] *= rescale[0], sum[1] *= rescale[1];
        }
#pragma unroll
        for (int i = 0; i < N_TILES * 4; i++) sum[i % 4 / 2] += s[i / 4][i % 4];
    }

    /* Adds the weighted values of a tile. */
    __device__ void add(const char *v, const float (&s)[N_TILES][4]) {
        const int   row = lane_index() % 16;
        const char *at  = v + row * ROW_BYTES;
#pragma unroll
        for (int i = 0; i < N_TILES / 2; i++) {
            unsigned p_high[4], p_low[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                cut(s[2 * i + j / 2][j % 2 * 2], s[2 * i + j / 2][j % 2 * 2 + 1], p_high[j], p_low[j]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 2) {
                unsigned x[4];
                rp_ldmatrix_x4_trans(x, at + ((c + lane_index() / 16) ^ (row & 7)) * 16 + i * 16 * ROW_BYTES);
                const unsigned left[2] = {x[0], x[1]}, right[2] = {x[2], x[3]};
                rp_mma_f16(acc[c], p_high, left);
                rp_mma_f16(acc[c + 1], p_high, right);
                rp_mma_f16(acc[c], p_low, left);
                rp_mma_f16(acc[c + 1], p_low, right);
            }
        }
    }

    /* Whether all accumulators are finite. */
    __device__ bool is_finite() const {
        float zero = 0.0f;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) zero = fmaf(acc[c][e], 0.0f, zero);
        return zero == 0.0f;
    }

    /* Adds infinities and NaNs among the values of a tile to the rows that see their positions. In the product they are
     * zeros (take_out_specials): a row that does not see one has the weight 0, and 0 * infinity is NaN; a low part of 0
     * or below would make NaN of an infinity as well. */
    __device__ void add_specials(const KvRows &v, int first, const float (&s)[N_TILES][4]) {
        for (int i = 0; i < PREFILL_TILE; i++) {
            float mine[2] = {0.0f, 0.0f}; /* the weight of position i, if this lane has it */
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (i / 8 == n) mine[h] = i % 2 == 0 ? s[n][2 * h] : s[n][2 * h + 1];
            float weight[2];
            bool  sees[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                weight[h] = __shfl_sync(RP_ALL_LANES, mine[h], lane_group() * 4 + i % 8 / 2);
                sees[h]   = first + i >= seen[h].from && first + i < seen[h].end;
            }
            if (!v.has(first + i)) continue;
            const uint16_t *x = (const uint16_t *)v.row(first + i) + 2 * lane_in_group();
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float value = rp_half_bits(x[8 * c + e]);
                    if (fabsf(value) < INFINITY) continue;
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        if (sees[h]) acc[c][2 * h + e] = fmaf(weight[h], value, acc[c][2 * h + e]);
                }
        }
    }

    /* The sums of weights over the four lanes of a row. */
    __device__ void join_sums() {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(RP_ALL_LANES, sum[h], 1);
            sum[h] += __shfl_xor_sync(RP_ALL_LANES, sum[h], 2);
        }
    }

    /* The score that the sums of row h are relative to. */
    __device__ float score(int h) const { return reference[h] * (1.0f / LOG2_E); }
};

/* Replaces infinities and NaNs in a tile of values by zeros. All threads of the block call it; a barrier follows. */
template <int SIZE> __device__ void take_out_specials(char *v) {
    unsigned *words = (unsigned *)v;
    for (int i = (int)threadIdx.x; i < PREFILL_TILE * SIZE / 2; i += ATTN_THREADS) {
        const unsigned w = words[i], special = ((w & 0x7c007c00u) + 0x04000400u) & 0x80008000u;
        words[i] = w & ~((special >> 15) * 0xffffu);
    }
}

} // namespace
#endif
