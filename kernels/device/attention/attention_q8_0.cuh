/* attention_q8_0.cuh - keys and values of a q8_0 cache as fragments of matrix products (attention_kv.cuh).
 *
 *     two blocks of a row:   d0 quants0[32] d1 quants1[32]       68 bytes: d0 at 0, quants0 at 2, d1 at 34, rest at 36
 *
 * Rows begin at an even address. So the quants of one of two neighbouring blocks begin at a multiple of 4, those of the
 * other 2 bytes behind one. Quants are loaded as aligned words. Those of the second kind are rotated by two, and two
 * loads make the last word:
 *
 *     word      0         1               7             8
 *     bytes     d0 q0 q1  q2 q3 q4 q5 ... q26 ... q29   q30 q31 d1     last word: q30 q31 of word 8, q0 q1 of word 0
 *
 * The queries are rotated in the same way (stage_queries), and so are the sums of the values (Values::dim). Tiles at an
 * end of the context and heads of fewer than SIZE elements take other code. If the rows are not whole words, quants are
 * loaded two bytes at a time and not rotated.
 *
 * Products are of the quants. The scales of a tile go through shared memory as f32, scales[block][position of the
 * tile], and multiply the scores and the weights. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_Q8_0_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_Q8_0_CUH

#include "kernels/device/attention/attention_kv.cuh"

namespace {

/* The scales of a tile. A warp loads those of the positions that it scores: TILE / 4 positions, WIDE lanes each. */
template <int SIZE> struct BlockScales {
    typedef AttentionSizes<RP_Q8_0, SIZE> S;
    enum { POSITIONS = S::TILE / ATTN_WARPS, WIDE = RP_WARP / POSITIONS, N = S::CHUNKS / WIDE };
    unsigned d[N];

    __device__ static int position() { return warp_index() * POSITIONS + lane_index() % POSITIONS; }

    template <class Rows> __device__ void load(const Rows &x, int first) {
        const int   c = lane_index() / POSITIONS * N, shift = x.shift(first + warp_index() * POSITIONS);
        const char *row = x.row(x.near(first + position()) + shift) + c * RP_Q8_0_BYTES;
#pragma unroll
        for (int j = 0; j < N; j++) d[j] = (c + j) * 32 < x.dim ? *(const uint16_t *)(row + j * RP_Q8_0_BYTES) : 0;
    }

    __device__ void put(float *scales) const {
        float *to = scales + lane_index() / POSITIONS * N * S::TILE + position();
#pragma unroll
        for (int j = 0; j < N; j++) to[j * S::TILE] = rp_half_bits((uint16_t)d[j]);
    }
};

/* Four quants of a block from number `at` on, by two bytes. */
__device__ unsigned load_quants(const KvRows &x, const char *row, int block, int at) {
    const char *q = row + block * RP_Q8_0_BYTES + 2;
    at += x.rotates(block) ? 2 : 0;
    return permute<0x5410u>(*(const uint16_t *)(q + at), *(const uint16_t *)(q + (at + 2) % 32));
}

/* Selector of the last word of a rotated block from word 0 and from the quants 30 and 31; else of the first
 * argument. */
__device__ unsigned selector_of(bool last_word) { return last_word ? 0x3254u : 0x3210u; }

/* Bytes J and J + 1 of x, which are quants plus 128, as f16: 0x6400 | u is 1024 + u. */
template <int J> __device__ unsigned quants_to_half(unsigned x) {
    const unsigned bits = permute_with < J == 0 ? 0x4140u : 0x4342u, 0x64646464u > (x), bias = 0x64806480u;
    __half2        u, half_bias;
    memcpy((void *)&u, &bits, sizeof u);
    memcpy((void *)&half_bias, &bias, sizeof half_bias);
    return bits_of(__hsub2(u, half_bias));
}

template <int SIZE> struct Keys<RP_Q8_0, SIZE> {
    typedef AttentionSizes<RP_Q8_0, SIZE> S;
    unsigned          w[S::N_TILES][S::CHUNKS][2], ends[S::N_TILES][S::CHUNKS / 2]; /* ends: quants 30 and 31 */
    BlockScales<SIZE> scales;
    bool              whole; /* the tile is loaded by words */

    template <class Rows> __device__ void load(const Rows &x, int first) {
        whole = x.aligned && x.dim == SIZE && x.has_all(first, S::TILE);
        scales.load(x, first);
        first += warp_index() * (S::N_TILES * 8);
        const int shift = x.shift(first);
        first += lane_group();
        if (whole)
            load_whole(x, first + shift);
        else
            load_part(x, first, shift);
    }

    /* Words 0 and 1 of this lane in blocks 0, 2, ... (even) and 1, 3, ... (odd), one of which are rotated. */
    __device__ void load_whole(const KvRows &x, int first) {
        const bool  rotates = x.rotates(0), last = lane_in_group() == 3;
        const int   at = lane_in_group() * 8;
        const char *even[2], *odd[2], *end = x.base + (rotates ? 32 : 34 + 32);
        even[0] = x.base + at + (rotates ? 4 : 2), even[1] = rotates && last ? x.base : even[0] + 4;
        odd[0] = x.base + at + 34 + (rotates ? 2 : 4), odd[1] = !rotates && last ? x.base + 34 : odd[0] + 4;
#pragma unroll
        for (int j = 0; j < 2; j++) even[j] = nth(even[j], first, x.stride), odd[j] = nth(odd[j], first, x.stride);
        end = nth(end, first, x.stride);
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
#pragma unroll
            for (int c = 0; c < S::CHUNKS; c += 2) {
                ends[n][c / 2] = *(const uint16_t *)(end + c * RP_Q8_0_BYTES);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    w[n][c][j]     = *(const unsigned *)(even[j] + c * RP_Q8_0_BYTES);
                    w[n][c + 1][j] = *(const unsigned *)(odd[j] + c * RP_Q8_0_BYTES);
                }
            }
            end = nth(end, 8, x.stride);
#pragma unroll
            for (int j = 0; j < 2; j++) even[j] = nth(even[j], 8, x.stride), odd[j] = nth(odd[j], 8, x.stride);
        }
    }

    __device__ void load_part(const KvRows &x, int first, int shift) {
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
            const char *row = x.row(x.near(first + n * 8) + shift);
#pragma unroll
            for (int c = 0; c < S::CHUNKS; c++) {
                ends[n][c / 2] = 0;
#pragma unroll
                for (int j = 0; j < 2; j++)
                    w[n][c][j] = c * 32 < x.dim ? load_quants(x, row, c, lane_in_group() * 8 + 4 * j) : 0;
            }
        }
    }

    template <int GROUPS>
    __device__ void scores(const KvRows &x, const unsigned *q, float *shared_scales,
                           float (&s)[GROUPS][S::N_TILES][2]) const {
        const unsigned selector[2] = {selector_of(whole && x.rotates(0) && lane_in_group() == 3),
                                      selector_of(whole && x.rotates(1) && lane_in_group() == 3)};
        scales.put(shared_scales);
        __syncwarp(); /* a warp reads what it wrote itself */
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++) s[group][n][0] = s[group][n][1] = 0.0f;
#pragma unroll
        for (int c = 0; c < S::CHUNKS; c++) {
            if (c * 32 >= x.dim) break;
            unsigned b[S::N_TILES][2][2];
            float    scale[S::N_TILES][2];
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++) {
                const unsigned u0 = w[n][c][0] ^ 0x80808080u,
                               u1 = permute_by(w[n][c][1], ends[n][c / 2], selector[c % 2]) ^ 0x80808080u;
                b[n][0][0] = quants_to_half<0>(u0), b[n][0][1] = quants_to_half<2>(u0);
                b[n][1][0] = quants_to_half<0>(u1), b[n][1][1] = quants_to_half<2>(u1);
                load_floats(shared_scales + c * S::TILE + (warp_index() * S::N_TILES + n) * 8 + lane_in_group() * 2,
                            scale[n]);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                float d[S::N_TILES][4] = {};
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    unsigned a[4];
                    load_fragment(q, group * (SIZE / 16) + c * 2 + k, a);
#pragma unroll
                    for (int n = 0; n < S::N_TILES; n++) rp_mma_f16(d[n], a, b[n][k]);
                }
#pragma unroll
                for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        s[group][n][e] = fmaf(scale[n][e], d[n][e] + d[n][2 + e], s[group][n][e]);
            }
        }
    }
};

template <int SIZE> struct Values<RP_Q8_0, SIZE> {
    typedef AttentionSizes<RP_Q8_0, SIZE> S;
    enum { PARTS = S::COLUMNS / S::VW, RUN = 2 };
    unsigned          w[S::STEPS][PARTS][4];
    unsigned          ends[(PARTS + 1) / 2][4]; /* quants 30 and 31 of rotated blocks, of the positions of step g */
    BlockScales<SIZE> scales;

    /* The block of a part. The parts of a warp have half a block, one, two or four blocks. */
    __device__ static int block(int part) { return value_dim<S>(0, part * S::VW) / 32; }
    /* The same, or block 0 where the head has no such block. It is loaded and not used. */
    __device__ static int  loaded(const KvRows &x, int part) { return block(part) * 32 < x.dim ? block(part) : 0; }
    __device__ static bool rotates(const KvRows &x, int part) { return S::VW == 4 && x.rotates(loaded(x, part)); }

    /* The dimension of column `column` of lane column g. */
    __device__ static int dim(const KvRows &x, int g, int column) {
        const int d = value_dim<S>(g, column) + column % S::VW;
        return d / 32 * 32 + (d + (rotates(x, column / S::VW) ? 2 : 0)) % 32;
    }

    template <class Rows> __device__ void load(const Rows &x, int first) {
        scales.load(x, first);
        if (x.aligned && x.dim == SIZE && x.has_all(first, S::TILE))
            load_whole(x, first);
        else if (x.aligned || S::VW == 2)
            load_part(x, first);
        else
            clear();
    }

    /* The first word of this lane and the quants 30 and 31 in the row at x.base. */
    __device__ static const char *block_at(const KvRows &x, int part) {
        return x.base + loaded(x, part) * RP_Q8_0_BYTES;
    }
    __device__ static const char *word_at(const KvRows &x, int part) {
        const char *at = block_at(x, part) + 2 + value_dim<S>(lane_group(), 0) % 32;
        return !rotates(x, part) ? at : lane_group() == 7 ? block_at(x, part) : at + 2;
    }
    __device__ static unsigned load_word(const char *at) {
        return S::VW == 4 ? *(const unsigned *)at : *(const uint16_t *)at;
    }

    __device__ void clear() {
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                ends[p / 2][e] = 0;
#pragma unroll
                for (int k = 0; k < S::STEPS; k++) w[k][p][e] = 0;
            }
    }

    /* A tile inside of the context: the addresses of all positions follow from that of the first. */
    template <class Rows> __device__ void load_whole(const Rows &x, int first) {
        int shift[S::STEPS];
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) shift[k] = x.shift(first + k * 16);
        const int end_step = first + lane_group() % S::STEPS * 16, end_shift = x.shift(end_step);
        first += lane_in_group() * 2;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const char *word = nth(word_at(x, p), first, x.stride);
#pragma unroll
            for (int k = 0; k < S::STEPS; k++) {
                if (Rows::BLOCKS) word = nth(word_at(x, p), first + k * 16 + shift[k], x.stride);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    w[k][p][e] = load_word(e > 0 ? nth(word, e % 2 + e / 2 * 8, x.stride) : word);
                word = nth(word, 16, x.stride);
            }
            if (S::VW == 4 && (p % 2 == 0 || rotates(x, p))) {
                const char *end = nth(block_at(x, p) + 32, first + lane_group() % S::STEPS * 16 + end_shift, x.stride);
#pragma unroll
                for (int e = 0; e < 4; e++) ends[p / 2][e] = *(const uint16_t *)nth(end, e % 2 + e / 2 * 8, x.stride);
            }
        }
    }

    template <class Rows> __device__ void load_part(const Rows &x, int first) {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
#pragma unroll
            for (int k = 0; k < S::STEPS; k++) {
                const int shift = x.shift(first + k * 16);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    w[k][p][e] =
                        load_word(nth(word_at(x, p), x.near(first + k * 16 + value_position(e)) + shift, x.stride));
            }
            if (S::VW == 4 && (p % 2 == 0 || (rotates(x, p) && block(p) * 32 < x.dim))) {
                const int step = first + lane_group() % S::STEPS * 16, shift = x.shift(step);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    ends[p / 2][e] =
                        *(const uint16_t *)nth(block_at(x, p) + 32, x.near(step + value_position(e)) + shift, x.stride);
            }
        }
    }

    /* The quants of this lane for step k, plus 128. Where rows are no whole words they are loaded only here. */
    template <class Rows>
    __device__ void quants(const Rows &x, int first, int k, int p, unsigned selector, unsigned (&u)[4]) const {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            u[e] = w[k][p][e];
            if (S::VW == 4)
                u[e] = permute_by(u[e], __shfl_sync(RP_ALL_LANES, ends[p / 2][e], k * 4 + lane_in_group()), selector);
        }
        if (S::VW == 4 && !x.aligned) {
            const int shift = x.shift(first + k * 16);
#pragma unroll
            for (int e = 0; e < 4; e++)
                u[e] = load_quants(x, x.row(x.near(first + k * 16 + value_position(e)) + shift), block(p),
                                   value_dim<S>(lane_group(), 0) % 32);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) u[e] ^= 0x80808080u;
    }

    __device__ void put_scales(float *shared_scales) const { scales.put(shared_scales); }

    __device__ bool take_out_specials() { return false; } /* quants are finite; a scale concerns rows that see it */

    /* Byte J of x, a quant plus 128, as f32: 0x4b000000 | u is 2^23 + u. The upper 16 bits are the same in bf16. */
    template <int J> __device__ static float to_float(unsigned x) {
        return permute_to_float<0x7540u | J, 0x4b000000u>(x) - 8388736.0f;
    }

    /* Column J = 0 to VW - 1 of a fragment: byte J of the values of four positions. */
    template <int J> __device__ static void column(const unsigned (&u)[4], unsigned (&b)[2]) {
#pragma unroll
        for (int h = 0; h < 2; h++) b[h] = permute_floats<0x7632u>(to_float<J>(u[2 * h]), to_float<J>(u[2 * h + 1]));
    }

    template <int GROUPS, class Rows>
    __device__ void add(const Rows &x, int first, const unsigned *weights, const float *shared_scales,
                        float (&acc)[GROUPS][S::COLUMNS][4]) const {
        unsigned selector[PARTS];
#pragma unroll
        for (int p = 0; p < PARTS; p++) selector[p] = selector_of(rotates(x, p) && lane_group() == 7);
#pragma unroll
        for (int k = 0; k < S::STEPS; k++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                if (block(p) * 32 >= x.dim) break;
                unsigned u[4], b[S::VW][2];
                float    scale[2][2];
                quants(x, first, k, p, selector[p], u);
#pragma unroll
                for (int h = 0; h < 2; h++)
                    load_floats(shared_scales + block(p) * S::TILE + k * 16 + value_position(2 * h), scale[h]);
                column<0>(u, b[0]), column<1>(u, b[1]);
                if constexpr (S::VW == 4) column<2>(u, b[2]), column<3>(u, b[3]);
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    unsigned a[4];
                    load_fragment(weights, group * S::STEPS + k, a); /* f32 */
                    scaled(scale, a);
#pragma unroll
                    for (int j = 0; j < S::VW; j++) rp_mma_bf16(acc[group][p * S::VW + j], a, b[j]);
                }
            }
    }

    /* Weights times scales, in bf16 for its range, as high and low parts. A weight of 0 may stand for a position that
     * the row does not see: an infinite scale there must not make it NaN. */
    __device__ static void scaled(const float (&scale)[2][2], unsigned (&a)[4]) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float p[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float weight = __uint_as_float(a[2 * h + e]);
                p[e]               = weight == 0.0f ? 0.0f : weight * scale[h][e];
            }
            const unsigned high = pack_bf16(p[0], p[1]);
            a[2 * h]            = high;
            a[2 * h + 1] =
                pack_bf16(p[0] - permute_to_float<0x1044u, 0u>(high), p[1] - permute_to_float<0x3244u, 0u>(high));
        }
    }
};

} // namespace
#endif
