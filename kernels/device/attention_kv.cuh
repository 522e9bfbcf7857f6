/* attention_kv.cuh - keys and values of the KV cache as fragments of matrix products (mma.cuh). Lane l of a warp has
 * g = l / 4 and t = l % 4. Loads go from global memory straight to the registers of a fragment, since the order of the
 * columns and of the terms of a product is free as long as both factors agree on it:
 *
 *     keys     lane loads position g, dimensions 32c + 8t .. + 7   (c = 0, 1, ...)
 *              product 2c takes the first four of the eight dimensions of each lane, product 2c + 1 the others
 *     values   lane loads positions 2t, 2t + 1, 2t + 8, 2t + 9 of 16, VW dimensions from g * VW on
 *              product j takes dimension j of each lane: its column g is dimension g * VW + j
 *
 * A q8_0 block is 34 bytes long, so its quants begin at any even address. They are loaded as aligned words, and shifted
 * if the address is no multiple of 4. Products are of the quants; the scales multiply the scores and the weights. */
#ifndef KERNELS_DEVICE_ATTENTION_KV_CUH
#define KERNELS_DEVICE_ATTENTION_KV_CUH

#include "base/dtypes.h"
#include "kernels/device/device.cuh"
#include "kernels/device/mma.cuh"

#include <cuda_bf16.h>

namespace {

enum {
    ATTN_WARPS   = 4,
    ATTN_THREADS = ATTN_WARPS * RP_WARP,
    GROUP        = 8 /* rows of a product of high and low parts */
};

/* Sizes for heads of at most SIZE elements. A block takes TILE positions at a time. Each warp scores a quarter of the
 * positions and adds a quarter of the dimensions of the values. */
template <RpDtype T, int SIZE> struct AttentionSizes {
    enum {
        TILE    = SIZE <= 128 ? 128 : 16384 / SIZE, /* positions */
        N_TILES = TILE / 32,                        /* of 8 positions, that a warp scores */
        STEPS   = TILE / 16,                        /* products along the positions */
        CHUNKS  = SIZE / 32,
        DIMS    = SIZE / ATTN_WARPS, /* of the values, for each warp */
        MOST    = T == RP_F16 ? 8 : 4,
        VW      = DIMS / 8 < MOST ? DIMS / 8 : MOST, /* neighbouring dimensions of a lane */
        COLUMNS = DIMS / 8                           /* products across the dimensions of a warp */
    };
};

__device__ int warp_index() { return (int)threadIdx.x / RP_WARP; }
__device__ int lane_index() { return (int)threadIdx.x % RP_WARP; }
__device__ int lane_group() { return lane_index() / 4; }    /* g */
__device__ int lane_in_group() { return lane_index() % 4; } /* t */

/* The rows of one KV head. The block sees positions [from, end), at least one. */
struct KvRows {
    const char            *base;
    size_t                 stride;
    int                    from, end, dim;
    bool                   aligned; /* f16: 16-byte loads */
    __device__ bool        has(int i) const { return i >= from && i < end; }
    __device__ const char *row(int i) const { return base + (size_t)(unsigned)i * stride; }
    /* Row i, or a neighbour of it that may be read. No row of the block sees positions outside: their scores are replaced,
     * and their weights are 0. */
    __device__ const char *near(int i) const { return row(min(max(i, from), end - 1)); }
};

template <int N> __device__ void load_words(const void *p, unsigned (&w)[N]) {
    static_assert(N == 1 || N == 2 || N == 4, "4, 8 or 16 bytes");
    if constexpr (N == 4) {
        const uint4 v = rp_get16(p);
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if constexpr (N == 2) {
#ifdef RP_CUDASIM /* the access checker does not see the copy of a structure */
        w[0] = ((const unsigned *)p)[0], w[1] = ((const unsigned *)p)[1];
#else
        const uint2 v = *(const uint2 *)p;
        w[0] = v.x, w[1] = v.y;
#endif
    } else {
        w[0] = *(const unsigned *)p;
    }
}

template <int N> __device__ void store_words(void *p, const unsigned (&w)[N]) {
    static_assert(N == 2 || N == 4, "8 or 16 bytes");
    if constexpr (N == 4) {
        rp_put16(p, make_uint4(w[0], w[1], w[2], w[3]));
    } else {
#ifdef RP_CUDASIM
        ((unsigned *)p)[0] = w[0], ((unsigned *)p)[1] = w[1];
#else
        *(uint2 *)p = make_uint2(w[0], w[1]);
#endif
    }
}

/* Elements d to d + 2N - 1 of a row of f16, with zeros after the end of the row. */
template <int N> __device__ void load_halves(const KvRows &x, const char *row, int d, unsigned (&w)[N]) {
    if (x.aligned) {
        if (d < x.dim) load_words(row + 2 * d, w); /* heads of whole multiples of 8 */
        return;
    }
#pragma unroll
    for (int j = 0; j < 2 * N; j++)
        if (d + j < x.dim) w[j / 2] |= (unsigned)((const uint16_t *)row)[d + j] << (16 * (j % 2));
}

/* The bits of two f16 or two bf16. */
template <class Pair> __device__ unsigned bits_of(const Pair &pair) {
    unsigned w;
    memcpy(&w, &pair, sizeof w);
    return w;
}

__device__ unsigned pack_half(float low, float high) { return bits_of(__floats2half2_rn(low, high)); }
__device__ float    low_half(unsigned w) { return rp_half_bits((uint16_t)w); }
__device__ float    high_half(unsigned w) { return rp_half_bits((uint16_t)(w >> 16)); }

__device__ unsigned pack_bf16(float low, float high) { return bits_of(__floats2bfloat162_rn(low, high)); }

/* Rows 0 to 7 of a fragment have the high parts, rows 8 to 15 the low parts of the same eight rows: with
 * x = high + low to f32 accuracy, one product gives both sums. An infinity in the other factor makes the low sum NaN;
 * the high sum then has the sign. */
__device__ float high_and_low(float high, float low) {
    const float v = high + low;
    return v == v ? v : high;
}

/* One fragment of 16 bytes a lane. */
__device__ void load_fragment(const unsigned *fragments, int index, unsigned (&a)[4]) {
    load_words(fragments + ((size_t)index * RP_WARP + lane_index()) * 4, a);
}

template <RpDtype T, int SIZE> struct Keys;
template <RpDtype T, int SIZE> struct Values;

template <int SIZE> struct Keys<RP_F16, SIZE> {
    typedef AttentionSizes<RP_F16, SIZE> S;
    unsigned                             w[S::N_TILES][S::CHUNKS][4];

    __device__ void load(const KvRows &x, int first) {
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
            const int   i   = first + (warp_index() * S::N_TILES + n) * 8 + lane_group();
            const char *row = x.near(i);
#pragma unroll
            for (int c = 0; c < S::CHUNKS; c++) {
                w[n][c][0] = w[n][c][1] = w[n][c][2] = w[n][c][3] = 0;
                load_halves(x, row, c * 32 + lane_in_group() * 8, w[n][c]);
            }
        }
    }

    /* s[group][n][e] = q . k for row 8 * group + g and position 8n + 2t + e of this warp. */
    template <int GROUPS>
    __device__ void scores(const KvRows &, int, const unsigned *q, float (&s)[GROUPS][S::N_TILES][2]) const {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float d[S::N_TILES][4] = {};
#pragma unroll
            for (int k = 0; k < SIZE / 16; k++) {
                unsigned a[4];
                load_fragment(q, group * (SIZE / 16) + k, a);
#pragma unroll
                for (int n = 0; n < S::N_TILES; n++) {
                    const unsigned b[2] = {w[n][k / 2][k % 2 * 2], w[n][k / 2][k % 2 * 2 + 1]};
                    rp_mma_f16(d[n], a, b);
                }
            }
#pragma unroll
            for (int n = 0; n < S::N_TILES; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) s[group][n][e] = high_and_low(d[n][e], d[n][2 + e]);
        }
    }
};

/* Whether the quants of a block of a row, 34 * block + 2 bytes from its start, begin in the middle of an aligned word. */
__device__ bool misaligned(const char *row, int block) {
    return (((uintptr_t)row & 2) != 0) == (block % 2 != 0);
}

/* Bytes j and j + 1 of x, which are quants plus 128, as f16: 0x6400 | u is 1024 + u. */
__device__ unsigned quants_to_half(unsigned x, int j) {
    const unsigned bits = __byte_perm(x, 0x64646464u, j == 0 ? 0x4140u : 0x4342u), bias = 0x64806480u;
    __half2        u, half_bias;
    memcpy((void *)&u, &bits, sizeof u);
    memcpy((void *)&half_bias, &bias, sizeof half_bias);
    return bits_of(__hsub2(u, half_bias));
}

template <int SIZE> struct Keys<RP_Q8_0, SIZE> {
    typedef AttentionSizes<RP_Q8_0, SIZE> S;
    unsigned                              w[S::N_TILES][S::CHUNKS][2]; /* from the aligned address on */

    __device__ static int position(int first, int n) { return first + (warp_index() * S::N_TILES + n) * 8; }

    __device__ void load(const KvRows &x, int first) {
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
            const int   i   = position(first, n) + lane_group();
            const char *row = x.near(i), *p = row + lane_in_group() * 8;
#pragma unroll
            for (int c = 0; c < S::CHUNKS; c++) {
                w[n][c][0] = w[n][c][1] = 0;
                if (c * 32 >= x.dim) continue;
                const unsigned *word =
                    (const unsigned *)(p + c * RP_Q8_0_BYTES + (misaligned(row, c) ? 0 : 2));
                w[n][c][0] = word[0], w[n][c][1] = word[1];
            }
        }
    }

    /* The eight quants of a lane in block c, plus 128. The last two are not in the words if these begin earlier. */
    __device__ void quants(const KvRows &x, int first, int n, int c, unsigned (&out)[2]) const {
        const int   i    = position(first, n) + lane_group();
        const char *row  = x.near(i);
        unsigned    tail = 0, bits = 0;
        if (misaligned(row, c)) {
            bits = 16;
            tail = *(const uint16_t *)(row + c * RP_Q8_0_BYTES + 8 + lane_in_group() * 8);
        }
        out[0] = __funnelshift_r(w[n][c][0], w[n][c][1], bits) ^ 0x80808080u;
        out[1] = __funnelshift_r(w[n][c][1], tail, bits) ^ 0x80808080u;
    }

    template <int GROUPS>
    __device__ void scores(const KvRows &x, int first, const unsigned *q,
                           float (&s)[GROUPS][S::N_TILES][2]) const {
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
                unsigned u[2];
                quants(x, first, n, c, u);
#pragma unroll
                for (int k = 0; k < 2; k++)
                    b[n][k][0] = quants_to_half(u[k], 0), b[n][k][1] = quants_to_half(u[k], 2);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int i = position(first, n) + lane_in_group() * 2 + e;
                    scale[n][e] = rp_half_bits(*(const uint16_t *)(x.near(i) + c * RP_Q8_0_BYTES));
                }
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

/* Position of value e = 0 to 3 of this lane among the 16 of a product. */
__device__ int value_position(int e) { return lane_in_group() * 2 + e % 2 + e / 2 * 8; }

/* First dimension, among those of the warp, of lane column g and product `column`; + column % VW is the dimension. */
template <class S> __device__ int value_dim(int g, int column) {
    return warp_index() * S::DIMS + column / S::VW * (8 * S::VW) + g * S::VW;
}

template <int SIZE> struct Values<RP_F16, SIZE> {
    typedef AttentionSizes<RP_F16, SIZE> S;
    enum { PARTS = S::COLUMNS / S::VW };
    unsigned w[S::STEPS][PARTS][4][S::VW / 2];

    __device__ void load(const KvRows &x, int first) {
        if (x.aligned && x.dim == SIZE && first >= x.from && first + S::TILE <= x.end)
            load_whole(x, first);
        else
            load_part(x, first);
    }

    /* A tile that is inside of [from, end), of heads of SIZE elements. */
    __device__ void load_whole(const KvRows &x, int first) {
        const char *row = x.row(first + value_position(0)) + 2 * value_dim<S>(lane_group(), 0);
#pragma unroll
        for (int k = 0; k < S::STEPS; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int p = 0; p < PARTS; p++) load_words(row + p * (16 * S::VW), w[k][p][e]);
                row += (e % 2 == 0 ? 1 : 7) * x.stride; /* positions 0, 1, 8, 9, 16, ... */
            }
    }

    /* The others read as zeros: 0 times an infinity or a NaN would not be 0. */
    __device__ void load_part(const KvRows &x, int first) {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int   i   = first + k * 16 + value_position(e);
                const char *row = x.row(i);
#pragma unroll
                for (int p = 0; p < PARTS; p++) {
#pragma unroll
                    for (int j = 0; j < S::VW / 2; j++) w[k][p][e][j] = 0;
                    if (x.has(i)) load_halves(x, row, value_dim<S>(lane_group(), p * S::VW), w[k][p][e]);
                }
            }
    }

    /* Replaces infinities and NaNs by zeros. Returns whether the warp has any. */
    __device__ bool take_out_specials() {
        unsigned any = 0;
#pragma unroll
        for (int k = 0; k < S::STEPS; k++)
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int e = 0; e < 4; e++)
#pragma unroll
                    for (int j = 0; j < S::VW / 2; j++) {
                        unsigned      &v       = w[k][p][e][j];
                        const unsigned special = ((v & 0x7c007c00u) + 0x04000400u) & 0x80008000u;
                        v &= ~((special >> 15) * 0xffffu);
                        any |= special;
                    }
        return __any_sync(RP_ALL_LANES, any != 0) != 0;
    }

    template <int GROUPS>
    __device__ void add(const KvRows &x, int first, const unsigned *weights,
                        float (&acc)[GROUPS][S::COLUMNS][4]) const {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) {
            if (first + k * 16 >= x.end || first + k * 16 + 16 <= x.from) continue; /* all weights are 0 */
            unsigned b[S::COLUMNS][2];
#pragma unroll
            for (int c = 0; c < S::COLUMNS; c++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int p = c / S::VW, j = c % S::VW;
                    b[c][h] = __byte_perm(w[k][p][2 * h][j / 2], w[k][p][2 * h + 1][j / 2],
                                          j % 2 == 0 ? 0x5410u : 0x7632u);
                }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                unsigned a[4];
                load_fragment(weights, group * S::STEPS + k, a);
#pragma unroll
                for (int c = 0; c < S::COLUMNS; c++) rp_mma_f16(acc[group][c], a, b[c]);
            }
        }
    }
};

template <int SIZE> struct Values<RP_Q8_0, SIZE> {
    typedef AttentionSizes<RP_Q8_0, SIZE> S;
    enum { PARTS = S::COLUMNS / S::VW };
    unsigned w[S::STEPS][PARTS][4];

    /* The block of a part, the address of the quants of this lane in a row, and whether it is no multiple of 4. */
    __device__ static int         block(int part) { return value_dim<S>(0, part * S::VW) / 32; }
    __device__ static const char *quants(const char *row, int part) {
        return row + block(part) * RP_Q8_0_BYTES + 2 + value_dim<S>(lane_group(), part * S::VW) % 32;
    }
    __device__ static bool shifted(const char *row, int part) {
        return S::VW == 4 && misaligned(row, block(part));
    }

    __device__ void load(const KvRows &x, int first) {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = first + k * 16 + value_position(e);
#pragma unroll
                for (int p = 0; p < PARTS; p++) {
                    w[k][p][e] = 0;
                    if (block(p) * 32 >= x.dim) continue;
                    const char *row = x.near(i), *at = quants(row, p);
                    if (S::VW == 2)
                        w[k][p][e] = *(const uint16_t *)at;
                    else
                        w[k][p][e] = *(const unsigned *)(at - (shifted(row, p) ? 2 : 0));
                }
            }
    }

    __device__ bool take_out_specials() {
        return false;
    } /* quants are finite; a scale concerns rows that see it */

    /* Quants of value e, plus 128, and the scale of their block. */
    __device__ unsigned value(const KvRows &x, int i, int k, int part, int e, float *scale) const {
        const char *row  = x.near(i);
        unsigned    tail = 0;
        *scale           = rp_half_bits(*(const uint16_t *)(row + block(part) * RP_Q8_0_BYTES));
        if (shifted(row, part)) tail = ((const uint16_t *)quants(row, part))[1];
        return __funnelshift_r(w[k][part][e], tail, shifted(row, part) ? 16 : 0) ^ 0x80808080u;
    }

    /* Byte j of x, a quant plus 128, as f32: 0x4b000000 | u is 2^23 + u. The upper 16 bits are the same in bf16. */
    __device__ static unsigned to_float(unsigned x, int j) {
        return __float_as_uint(__uint_as_float(__byte_perm(x, 0x4b000000u, 0x7540u | (unsigned)j)) -
                               8388736.0f);
    }

    template <int GROUPS>
    __device__ void add(const KvRows &x, int first, const unsigned *weights,
                        float (&acc)[GROUPS][S::COLUMNS][4]) const {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) {
            if (first + k * 16 >= x.end || first + k * 16 + 16 <= x.from) continue;
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                if (block(part) * 32 >= x.dim) break;
                unsigned u[4], b[S::VW][2];
                float    scale[4];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    u[e] = value(x, first + k * 16 + value_position(e), k, part, e, &scale[e]);
#pragma unroll
                for (int j = 0; j < S::VW; j++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        b[j][h] = __byte_perm(to_float(u[2 * h], j), to_float(u[2 * h + 1], j), 0x7632u);
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    unsigned a[4];
                    load_fragment(weights, group * S::STEPS + k, a); /* f32 */
                    scaled(scale, a);
#pragma unroll
                    for (int j = 0; j < S::VW; j++) rp_mma_bf16(acc[group][part * S::VW + j], a, b[j]);
                }
            }
        }
    }

    /* Weights times scales, in bf16 for its range, as high and low parts. A weight of 0 may stand for a position that the
     * row does not see: an infinite scale there must not make it NaN. */
    __device__ static void scaled(const float (&scale)[4], unsigned (&a)[4]) {
        float p[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float weight = __uint_as_float(a[e]);
            p[e]               = weight == 0.0f ? 0.0f : weight * scale[e];
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const unsigned high = pack_bf16(p[2 * h], p[2 * h + 1]);
            a[2 * h]            = high;
            a[2 * h + 1]        = pack_bf16(p[2 * h] - rp_bf16_bits((uint16_t)high),
                                            p[2 * h + 1] - rp_bf16_bits((uint16_t)(high >> 16)));
        }
    }
};

} // namespace
#endif
