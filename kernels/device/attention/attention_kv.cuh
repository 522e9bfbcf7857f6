/* attention_kv.cuh - keys and values of the KV cache as fragments of matrix products (mma.cuh). Lane l of a warp has
 * g = l / 4 and t = l % 4. Loads go from global memory straight to the registers of a fragment, since the order of the
 * columns and of the terms of a product is free as long as both factors agree on it:
 *
 *     keys     lane loads position g, dimensions 32c + 8t .. + 7   (c = 0, 1, ...)
 *              product 2c takes the first four of the eight dimensions of each lane, product 2c + 1 the others
 *     values   lane loads positions 2t, 2t + 1, 2t + 8, 2t + 9 of 16, VW dimensions from g * VW on
 *              product j takes dimension j of each lane: its column g is dimension g * VW + j
 *
 * attention_q8_0.cuh has the q8_0 cache. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_KV_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_KV_CUH

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

/* p + i * stride, in one instruction. */
__device__ const char *nth(const char *p, int i, unsigned stride) {
#ifdef RP_CUDASIM
    return p + (size_t)(unsigned)i * stride;
#else
    const char *r;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(i), "r"(stride), "l"(p));
    __builtin_assume(__isGlobal(r)); /* the compiler does not look into asm */
    return r;
#endif
}

/* The rows of one KV head. The block sees positions [from, end), at least one. */
struct KvRows {
    static constexpr bool  BLOCKS = false;
    const char            *base;
    unsigned               stride;
    int                    from, end, dim;
    bool                   aligned; /* f16: 16-byte loads; q8_0: rows are whole words */
    __device__ bool        has(int i) const { return i >= from && i < end; }
    __device__ const char *row(int i) const { return nth(base, i, stride); }
    /* i, or a neighbour of it that may be read. No row of the block sees positions outside: their scores are replaced,
     * and their weights are 0. */
    __device__ int  near(int i) const { return min(max(i, from), end - 1); }
    __device__ bool has_all(int first, int n) const { return first >= from && first + n <= end; }
    /* Offset from the positions of the run of 32 with position `first` to rows of the cache (KvBlocks). */
    __device__ static constexpr int shift(int) { return 0; }
    /* q8_0: whether the quants of a block are rotated (attention_q8_0.cuh). */
    __device__ bool rotates(int block) const { return aligned && ((uintptr_t)base & 2) == (block % 2 == 0 ? 0 : 2); }
};

/* The same in a cache of blocks: position i is row blocks[i / block] * block + i % block. Blocks are multiples of 32
 * positions, so that the positions of a run of 32 lie together. */
struct KvBlocks : KvRows {
    static constexpr bool BLOCKS = true;
    const int32_t        *blocks; /* of the sequence */
    int                   last;   /* block of the cache: a number of a block that is none must not become an address */
    unsigned              runs;   /* of 32 positions in a block */
    unsigned              magic;  /* ceil(2^32 / runs); 0 for one run */

    /* A run without readable positions gets the offset of a neighbour. Exact for positions below 2^30. */
    __device__ int shift(int first) const {
        const unsigned run = (unsigned)near(first) / 32, i = magic != 0 ? __umulhi(run, magic) : run;
        const int      block = min(max(blocks[i], 0), last);
        return (block - (int)i) * (int)(runs * 32);
    }
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

/* Both of them. */
__device__ void unpack_half(unsigned w, float &low, float &high) {
#ifdef RP_CUDASIM
    low = low_half(w), high = high_half(w);
#else
    asm("{.reg .f16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(w));
#endif
}

__device__ unsigned pack_bf16(float low, float high) { return bits_of(__floats2bfloat162_rn(low, high)); }

/* Rows 0 to 7 of a fragment have the high parts, rows 8 to 15 the low parts of the same eight rows: with
 * x = high + low to f32 accuracy, one product gives both sums. An infinity in the other factor makes the low sum NaN;
 * the high sum then has the sign. */
__device__ float high_and_low(float high, float low) {
    const float v = high + low;
    return v == v ? v : high;
}

/* prmt with any selector, with a constant one, and with a constant as the second word. _floats, _to_float: of or to the
 * bits of floats. */
#ifdef RP_CUDASIM
__device__ unsigned permute_by(unsigned a, unsigned b, unsigned selector) { return __byte_perm(a, b, selector); }
template <unsigned SELECTOR> __device__ unsigned permute(unsigned a, unsigned b) { return __byte_perm(a, b, SELECTOR); }
template <unsigned SELECTOR> __device__ unsigned permute_floats(float a, float b) {
    return __byte_perm(__float_as_uint(a), __float_as_uint(b), SELECTOR);
}
template <unsigned SELECTOR, unsigned B> __device__ unsigned permute_with(unsigned a) {
    return __byte_perm(a, B, SELECTOR);
}
template <unsigned SELECTOR, unsigned B> __device__ float permute_to_float(unsigned a) {
    return __uint_as_float(__byte_perm(a, B, SELECTOR));
}
#else
__device__ unsigned permute_by(unsigned a, unsigned b, unsigned selector) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
}
template <unsigned SELECTOR> __device__ unsigned permute(unsigned a, unsigned b) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "n"(SELECTOR));
    return r;
}
template <unsigned SELECTOR> __device__ unsigned permute_floats(float a, float b) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "f"(a), "f"(b), "n"(SELECTOR));
    return r;
}
template <unsigned SELECTOR, unsigned B> __device__ unsigned permute_with(unsigned a) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "n"(B), "n"(SELECTOR));
    return r;
}
template <unsigned SELECTOR, unsigned B> __device__ float permute_to_float(unsigned a) {
    float r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=f"(r) : "r"(a), "n"(B), "n"(SELECTOR));
    return r;
}
#endif

/* Two floats at a multiple of 8 bytes. */
__device__ void load_floats(const float *p, float (&x)[2]) {
    unsigned w[2];
    load_words(p, w);
    x[0] = __uint_as_float(w[0]), x[1] = __uint_as_float(w[1]);
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

    template <class Rows> __device__ void load(const Rows &x, int first) {
        const int shift = x.shift(first + warp_index() * S::N_TILES * 8);
#pragma unroll
        for (int n = 0; n < S::N_TILES; n++) {
            const int   i   = first + (warp_index() * S::N_TILES + n) * 8 + lane_group();
            const char *row = x.row(x.near(i) + shift);
#pragma unroll
            for (int c = 0; c < S::CHUNKS; c++) {
                w[n][c][0] = w[n][c][1] = w[n][c][2] = w[n][c][3] = 0;
                load_halves(x, row, c * 32 + lane_in_group() * 8, w[n][c]);
            }
        }
    }

    /* s[group][n][e] = q . k for row 8 * group + g and position 8n + 2t + e of this warp. */
    template <int GROUPS>
    __device__ void scores(const KvRows &, const unsigned *q, float *, float (&s)[GROUPS][S::N_TILES][2]) const {
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

/* Position of value e = 0 to 3 of this lane among the 16 of a product. */
__device__ int value_position(int e) { return lane_in_group() * 2 + e % 2 + e / 2 * 8; }

/* The first of the VW neighbouring dimensions of lane column g, of which product `column` takes one. */
template <class S> __device__ int value_dim(int g, int column) {
    return warp_index() * S::DIMS + column / S::VW * (8 * S::VW) + g * S::VW;
}

template <int SIZE> struct Values<RP_F16, SIZE> {
    typedef AttentionSizes<RP_F16, SIZE> S;
    enum { PARTS = S::COLUMNS / S::VW, RUN = S::VW < 4 ? S::VW : 4 };
    unsigned w[S::STEPS][PARTS][4][S::VW / 2];

    /* The dimension of column `column` of lane column g. */
    __device__ static int dim(const KvRows &, int g, int column) { return value_dim<S>(g, column) + column % S::VW; }

    template <class Rows> __device__ void load(const Rows &x, int first) {
        if (x.aligned && x.dim == SIZE && x.has_all(first, S::TILE))
            load_whole(x, first);
        else
            load_part(x, first);
    }

    /* A tile that is inside of [from, end), of heads of SIZE elements. */
    template <class Rows> __device__ void load_whole(const Rows &x, int first) {
        const char *row = x.row(first + value_position(0)) + 2 * value_dim<S>(lane_group(), 0);
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) {
            if constexpr (Rows::BLOCKS) {
                const int i = first + k * 16;
                row         = x.row(i + x.shift(i) + value_position(0)) + 2 * value_dim<S>(lane_group(), 0);
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int p = 0; p < PARTS; p++) load_words(row + p * (16 * S::VW), w[k][p][e]);
                row += (e % 2 == 0 ? 1 : 7) * x.stride; /* positions 0, 1, 8, 9, 16, ... */
            }
        }
    }

    /* The others read as zeros: 0 times an infinity or a NaN would not be 0. */
    template <class Rows> __device__ void load_part(const Rows &x, int first) {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) {
            const int shift = x.shift(first + k * 16);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int   i   = first + k * 16 + value_position(e);
                const char *row = x.row(i + shift);
#pragma unroll
                for (int p = 0; p < PARTS; p++) {
#pragma unroll
                    for (int j = 0; j < S::VW / 2; j++) w[k][p][e][j] = 0;
                    if (x.has(i)) load_halves(x, row, value_dim<S>(lane_group(), p * S::VW), w[k][p][e]);
                }
            }
        }
    }

    __device__ void put_scales(float *) const {}

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
    __device__ void add(const KvRows &x, int first, const unsigned *weights, const float *,
                        float (&acc)[GROUPS][S::COLUMNS][4]) const {
#pragma unroll
        for (int k = 0; k < S::STEPS; k++) {
            if (first + k * 16 >= x.end || first + k * 16 + 16 <= x.from) continue; /* all weights are 0 */
            unsigned b[S::COLUMNS][2];
#pragma unroll
            for (int c = 0; c < S::COLUMNS; c++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int      p = c / S::VW, j = c % S::VW;
                    const unsigned x0 = w[k][p][2 * h][j / 2], x1 = w[k][p][2 * h + 1][j / 2];
                    b[c][h] = j % 2 == 0 ? permute<0x5410u>(x0, x1) : permute<0x7632u>(x0, x1);
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

} // namespace
#endif
