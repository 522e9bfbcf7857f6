/* quants.cuh - what the types of block-quantised weights share on the device. Each family of types has a file in
 * kernels/device/quants, which loads and dequantises them; weights.cuh has them all.
 *
 * Device planes (rp_cuda_repack): each field of the block becomes an array over all B blocks of the tensor.
 * base/dtypes.h lists the fields, planes.c says how the bits of a block are arranged before.
 *
 *     q8_0:  q0 16 bytes of block 0, of block 1, ... of block B-1, then q1 of these, then d 2 bytes of each block
 *     field of block b:  data + B * (bytes of the fields before) + b * (bytes of the field)
 *
 * A fragment is what one lane loads and multiplies at a time: one run of 32 elements with one scale, or two runs (K
 * types). Its quants are 16 bytes of each of the planes q0, q1, ..., so that every load of a lane has 16 aligned bytes
 * and neighbouring lanes load neighbouring bytes.
 *
 *     types in blocks of 32   fragment f is block f
 *     K types                 a block of 256 is fragments 4b to 4b + 3; fragment 4b + j is its runs j and j + 4
 *
 * A run consists of two sum blocks, 16 elements with one activation sum each. Sum block k of the fragment (run k / 2):
 *
 *     element i    =  scale[k/2] * (factor(k) * q[k][i]) + min[k/2]                      i < 16
 *     its place    =  16 * (first_sum_block(f) + k % 2 + k / 2 * 8) + i  in the row
 *
 * factor(k) is 1, or a constant that saves a shift of the quants (FIRST), or a scale of its own (q6_K). */
#ifndef KERNELS_DEVICE_QUANTS_CUH
#define KERNELS_DEVICE_QUANTS_CUH

#include "base/dtypes.h"
#include "kernels/device/device.cuh"

enum { RP_RUN = 32, RP_RUN_STRIDE = 8 /* sum blocks from a run of a fragment to the next */ };
static_assert((int)RP_RUN == 2 * (int)RP_SUM_BLOCK, "a run is two sum blocks");

/* Dequantised to integers: q holds four 8-bit integers per word, for dp4a. Offsets (8 of q4_0) are part of min. */
template <int RUNS> struct Fragment {
    int   q[2 * RUNS][4];
    int   minus[2 * RUNS][4]; /* subtracted from q, with MINUS */
    int   sub[2 * RUNS];      /* scales of the sum blocks, with SUB_SCALES */
    float scale[RUNS], min[RUNS];
    float sub_min[2 * RUNS]; /* minima of the sum blocks, with SUB_MINS */
};

/* A whole tensor of quantised weights; every plane's address follows from the number of its blocks. */
struct Planes {
    const uint8_t *data;
    int64_t        blocks;
};

/* The plane `field` of a type (base/dtypes.h), for instance RP_PLANE(p, Q5_0, qh). */
#define RP_PLANE(p, ID, field) ((p).data + (int64_t)offsetof(Planes##ID, field) * (p).blocks)

/* Element i of a plane of V, by the read-only path. The index has 32 bits: one multiply-add then gives the address. */
template <class V> __device__ inline V rp_load(const uint8_t *plane, unsigned i) { return __ldg((const V *)plane + i); }

template <> __device__ inline uint4 rp_load<uint4>(const uint8_t *plane, unsigned i) {
    return rp_ldg16((const uint4 *)plane + i);
}

/* Selects instead of an array, so that the words stay in registers. */
__device__ static inline unsigned rp_word(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* q = the low nibbles of 16 bytes; the high nibbles; the high nibbles times 16, which saves the shift. */
__device__ static inline void rp_low_nibbles(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) & 0x0f0f0f0fu);
}
__device__ static inline void rp_high_nibbles(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) >> 4 & 0x0f0f0f0fu);
}
__device__ static inline void rp_high_nibbles_16(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) & 0xf0f0f0f0u);
}

/* Adds the fifth bits of the words [4 * half, 4 * half + 4) of a run: bit 8b + w of `high` belongs to byte b of word w,
 * which is element 4w + b of the run. */
__device__ static inline void rp_fifth_bits(unsigned high, int half, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] |= (int)((half == 0 ? high << (4 - i) : high >> i) & 0x10101010u);
}

/* Byte i of the result is byte n & 7 of b:a, with n = selector >> 4i; if n & 8, it is eight times the sign of that
 * byte. (For __byte_perm, bit 3 of n means nothing, and so it masks the selector.) */
__device__ static inline unsigned rp_bytes(unsigned a, unsigned b, unsigned selector) {
#ifdef RP_CUDASIM
    return __byte_perm(a, b, selector);
#else
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
#endif
}

/* v, which then stays in a register: the compiler would compute it anew for each use. Every lane of the warp calls
 * it. */
__device__ static inline unsigned rp_keep(unsigned v) { return __shfl_xor_sync(RP_ALL_LANES, v, 0); }

__device__ static inline float rp_low_half(unsigned v) { return rp_half_bits((uint16_t)(v & 0xffff)); }
__device__ static inline float rp_high_half(unsigned v) { return rp_half_bits((uint16_t)(v >> 16)); }

/* Elements of a fragment: a block of 32 is one, a block of 256 is four. */
constexpr int rp_frag_elems(int block_elems) { return block_elems == RP_RUN ? RP_RUN : 2 * RP_RUN; }

/* The constants of a type: the elements and bytes of a block, the elements of a fragment. */
template <RpDtype T> struct QuantType;

#define X(ID, ...)                                                                                                     \
    template <> struct QuantType<RP_##ID> {                                                                            \
        static constexpr RpDtype TYPE = RP_##ID;                                                                       \
        enum { ELEMS = RP_##ID##_ELEMS, BYTES = RP_##ID##_BYTES, FRAG = rp_frag_elems(RP_##ID##_ELEMS) };              \
    };
RP_QUANTS(X)
#undef X

/* Access to the fragments of a type. Loading (Raw) is separate from dequantising, so that several loads are in
 * flight before the first is used.
 *
 *     RUNS             of a fragment, 1 or 2
 *     QUANT_PLANES     planes with 16 bytes of quants of each fragment, the first planes of the tensor
 *     SIGNED           the bytes of q are signed
 *     FIRST            factor(k) for even k; that for odd k is 1
 *     SECOND           the quants of the second run are multiplied by it, its scale is divided
 *     SUB_SCALES       factor(k) is sub[k] instead
 *     WIDE_SCALES      the product of sub[k] and an integer dot product does not fit in 32 bits
 *     SUB_MINS         each sum block has a minimum, sub_min[k] instead of min
 *     MINUS            minus is subtracted from q
 *     HAS_MIN          min may differ from 0: the type has minima or an offset
 *     LOADS            fragments that a lane loads at a time
 *     Lane             what all fragments of a lane share; they are f, f + 4n, ...; keep() it in registers over a loop
 *     first_sum_block  of fragment f of a row
 *     Row              pointers to the planes at the first fragment of a row, made by row(planes, first fragment)
 *     load             fragment f of a row */
template <RpDtype T> struct Blocks;

template <RpDtype T> using FragmentOf = Fragment<Blocks<T>::RUNS>;

/* The Lane of a type whose fragments share nothing. */
struct NoLane {
    __device__ explicit NoLane(int) {}
    __device__ void keep() {}
};

/* Types in blocks of 32 elements with one scale: a fragment is a block. */
struct SmallBlocks {
    enum {
        RUNS         = 1,
        QUANT_PLANES = 1,
        SIGNED       = 0,
        FIRST        = 1,
        SECOND       = 1,
        SUB_SCALES   = 0,
        WIDE_SCALES  = 0,
        SUB_MINS     = 0,
        MINUS        = 0,
        HAS_MIN      = 1,
        LOADS        = 2
    };
    typedef NoLane                         Lane;
    template <class I> __device__ static I first_sum_block(I f) { return 2 * f; }
    __device__ static Fragment<1>          scaled(float scale, float min) {
                 Fragment<1> r;
                 r.scale[0] = scale, r.min[0] = min;
                 return r;
    }
};

/* Blocks of 256 elements: four fragments, each of two runs. */
struct SuperBlocks {
    enum {
        RUNS         = 2,
        QUANT_PLANES = 2,
        SIGNED       = 0,
        FIRST        = 1,
        SECOND       = 1,
        SUB_SCALES   = 0,
        WIDE_SCALES  = 0,
        SUB_MINS     = 0,
        MINUS        = 0,
        HAS_MIN      = 1,
        LOADS        = 1
    };
    template <class I> __device__ static I first_sum_block(I f) { return f / 4 * 16 + f % 4 * 2; }
};

/* The loads of a type with two planes: 16 bytes of quants of each fragment, and a D for each block. */
template <RpDtype T, class D> struct QuantsAndScale {
    enum { OF_BLOCK = QuantType<T>::ELEMS / QuantType<T>::FRAG }; /* fragments */
    static_assert((int)QuantType<T>::BYTES == 16 * OF_BLOCK + (int)sizeof(D), "the two planes are the whole block");
    struct Raw {
        uint4 q;
        D     d;
    };
    struct Row {
        const uint8_t *qs, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {p.data + 16 * first, p.data + 16 * OF_BLOCK * p.blocks + (int)sizeof(D) * (first / OF_BLOCK)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<D>(row.d, f / OF_BLOCK)};
    }
};

template <RpDtype T> __device__ static inline Planes rp_planes(const RpTensorView &w) {
    return {(const uint8_t *)w.data, w.ne[0] * w.ne[1] * w.ne[2] * w.ne[3] / QuantType<T>::ELEMS};
}

/* Element i of sum block k as f32: scale * q + min, rounded once. */
template <RpDtype T> __device__ static inline float rp_element(const FragmentOf<T> &w, int k, int i) {
    typedef Blocks<T> B;
    const int         shift = 8 * (i % 4), byte = w.q[k][i / 4] >> shift;
    const int         q = (B::SIGNED ? (int8_t)byte : byte & 255) - (B::MINUS ? w.minus[k][i / 4] >> shift & 255 : 0);
    const int         factor = B::SUB_SCALES ? w.sub[k] : k % 2 == 0 ? (int)B::FIRST : 1;
    return fmaf(w.scale[k / 2], (float)(factor * q), B::SUB_MINS ? w.sub_min[k] : w.min[k / 2]);
}

/* The place of sum block k of fragment f in the row, in sum blocks. */
template <RpDtype T> __device__ static inline int64_t rp_sum_block(int64_t f, int k) {
    return Blocks<T>::first_sum_block(f) + k % 2 + k / 2 * RP_RUN_STRIDE;
}

#endif
