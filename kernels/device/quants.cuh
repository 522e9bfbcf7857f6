/* quants.cuh - loads and dequantises block-quantised weights on the device.
 *
 * Device planes (rp_cuda_repack): each field of the block becomes an array over all B blocks of the tensor,
 *
 *     q4_0:  qs 16 bytes of block 0, of block 1, ... of block B-1, then d 2 bytes of block 0, ... of block B-1
 *     field of block b:  data + B * (bytes of the fields before) + b * (bytes of the field)
 *
 * so a lane loads 16 aligned bytes of quants, and neighbouring lanes load neighbouring bytes. A block of the
 * file (q4_0: 18 bytes, d first) would be unaligned.
 *
 * A fragment is the 32 elements that one lane loads and multiplies at a time: 16 bytes of quants (q8_0: 32).
 * It consists of two sum blocks, 16 elements with one activation sum each:
 *
 *     element i of sum block k of the fragment  =  scale[k] * q[k][i] + min[k]          k < 2, i < 16
 *     its place in the row                      =  16 * (first_sum_block(f) + k * SUM_STRIDE) + i
 *
 * q4_0, element i in the low nibble of byte i and element i + 16 in the high one: f covers sum blocks 2f, 2f+1.
 * q4_K, where a nibble pair belongs to two sub-blocks: fragment 0 covers sum blocks 0 and 2, fragment 1 1 and 3. */
#ifndef KERNELS_DEVICE_QUANTS_CUH
#define KERNELS_DEVICE_QUANTS_CUH

#include "base/dtypes.h"
#include "kernels/device/device.cuh"

enum { RP_FRAG = 32 };
static_assert((int)RP_FRAG == 2 * (int)RP_SUM_BLOCK, "a fragment is two sum blocks");

/* Dequantised to integers: q holds four int8 per word, for __dp4a. Offsets (8 of q4_0) are part of min. */
struct Fragment {
    int   q[2][4];
    float scale[2], min[2];
};

/* A whole tensor of quantised weights; every plane's address follows from the number of its blocks. */
struct Planes {
    const uint8_t *data;
    int64_t        blocks;
};

/* The plane `field` of a type (base/dtypes.h), for instance RP_PLANE(p, Q5_0, qh). */
#define RP_PLANE(p, ID, field) ((p).data + (int64_t)offsetof(Planes##ID, field) * (p).blocks)

/* Element i of a plane of V, by the read-only path. */
template <class V> __device__ inline V rp_load(const uint8_t *plane, int64_t i) {
    return __ldg((const V *)plane + i);
}

template <> __device__ inline uint4 rp_load<uint4>(const uint8_t *plane, int64_t i) {
    return rp_ldg16(plane + 16 * i);
}

/* Selects instead of an array, so that the words stay in registers. */
__device__ static inline unsigned rp_word(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* The low nibbles of 16 bytes are sum block 0, the high nibbles sum block 1. */
__device__ static inline void rp_nibbles(const uint4 &q, Fragment *r) {
    for (int i = 0; i < 4; i++) {
        r->q[0][i] = (int)(rp_word(q, i) & 0x0f0f0f0fu);
        r->q[1][i] = (int)(rp_word(q, i) >> 4 & 0x0f0f0f0fu);
    }
}

/* Spreads four bits b0..b3 to bit 4 of four bytes. The product adds copies shifted by 4, 11, 18 and 25; bit i of
 * the copy shifted by 7i + 4 lands on bit 8i + 4. No two bits land on the same place, so nothing carries.
 *     1011 (b3 b2 b1 b0) -> 0x10 00 10 10 */
__device__ static inline unsigned rp_fifth(unsigned bits) { return (bits & 15) * 0x02040810u & 0x10101010u; }

/* Fifth bits: bit i of `high` belongs to element i of the block. */
__device__ static inline void rp_fifth_bits(unsigned high, Fragment *r) {
    for (int i = 0; i < 4; i++) {
        r->q[0][i] |= (int)rp_fifth(high >> (4 * i));
        r->q[1][i] |= (int)rp_fifth(high >> (16 + 4 * i));
    }
}

__device__ static inline void rp_one_scale(Fragment *r, float scale, float min) {
    r->scale[0] = r->scale[1] = scale;
    r->min[0] = r->min[1] = min;
}

__device__ static inline float rp_low_half(unsigned v) { return rp_half_bits((uint16_t)(v & 0xffff)); }
__device__ static inline float rp_high_half(unsigned v) { return rp_half_bits((uint16_t)(v >> 16)); }

/* The constants of a type from base/dtypes.h: the elements of a block, and the bytes of the first plane per fragment,
 * for the prefetch. */
template <RpDtype T> struct QuantType;

template <class... Others> constexpr int rp_first(int first, Others...) { return first; }

#define FIELD(field, at, bytes) bytes,
#define X(ID, name, sub, offset, has_min, top, from, end, fields)                                            \
    template <> struct QuantType<RP_##ID> {                                                                  \
        static constexpr RpDtype TYPE = RP_##ID;                                                             \
        enum { ELEMS = RP_##ID##_ELEMS, FIRST_PLANE = rp_first(fields 0) * RP_FRAG / RP_##ID##_ELEMS };      \
        static_assert(ELEMS % RP_FRAG == 0, #name ": a block is whole fragments");                           \
    };
RP_QUANTS(X)
#undef X
#undef FIELD

/* Access to the fragments of a type. Loading (Raw) is separate from dequantising, so that several loads are in
 * flight before the first is used.
 *
 *     SUM_STRIDE       distance in the row of the two sum blocks of a fragment, in sum blocks
 *     HAS_MIN          min may differ from 0: the type has minima or an offset
 *     ONE_SCALE        both have the same scale: their integer dot products are added before the conversion
 *     LOADS            fragments that a lane loads at a time; 1 for K types, whose Raw includes the block's head
 *     first_sum_block  of fragment f of a row
 *     load             fragment f, counted over the whole tensor
 *     dequantize       fragment f, counted over the row */
template <RpDtype T> struct Blocks;

/* Types in blocks of 32 elements with one scale: a fragment is a block. */
struct SmallBlocks {
    enum { SUM_STRIDE = 1, HAS_MIN = 1, ONE_SCALE = 1, LOADS = 2 };
    template <class I> __device__ static I first_sum_block(I f) { return 2 * f; }
};

template <> struct Blocks<RP_Q4_0> : SmallBlocks {
    struct Raw {
        uint4    q;
        uint16_t d;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {rp_load<uint4>(RP_PLANE(p, Q4_0, qs), f), rp_load<uint16_t>(RP_PLANE(p, Q4_0, d), f)};
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment    r;
        const float d = rp_half_bits(w.d);
        rp_nibbles(w.q, &r);
        rp_one_scale(&r, d, -(float)RP_Q4_0_OFFSET * d);
        return r;
    }
};

template <> struct Blocks<RP_Q4_1> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned dm;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {rp_load<uint4>(RP_PLANE(p, Q4_1, qs), f), rp_load<unsigned>(RP_PLANE(p, Q4_1, dm), f)};
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment r;
        rp_nibbles(w.q, &r);
        rp_one_scale(&r, rp_low_half(w.dm), rp_high_half(w.dm));
        return r;
    }
};

template <> struct Blocks<RP_Q5_0> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned high;
        uint16_t d;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {rp_load<uint4>(RP_PLANE(p, Q5_0, qs), f), rp_load<unsigned>(RP_PLANE(p, Q5_0, qh), f),
                rp_load<uint16_t>(RP_PLANE(p, Q5_0, d), f)};
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment    r;
        const float d = rp_half_bits(w.d);
        rp_nibbles(w.q, &r);
        rp_fifth_bits(w.high, &r);
        rp_one_scale(&r, d, -(float)RP_Q5_0_OFFSET * d);
        return r;
    }
};

template <> struct Blocks<RP_Q5_1> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned high, dm;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {rp_load<uint4>(RP_PLANE(p, Q5_1, qs), f), rp_load<unsigned>(RP_PLANE(p, Q5_1, qh), f),
                rp_load<unsigned>(RP_PLANE(p, Q5_1, dm), f)};
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment r;
        rp_nibbles(w.q, &r);
        rp_fifth_bits(w.high, &r);
        rp_one_scale(&r, rp_low_half(w.dm), rp_high_half(w.dm));
        return r;
    }
};

template <> struct Blocks<RP_Q8_0> : SmallBlocks {
    enum { HAS_MIN = 0 };
    struct Raw {
        uint4    q[2];
        uint16_t d;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {
            {rp_load<uint4>(RP_PLANE(p, Q8_0, qs), 2 * f), rp_load<uint4>(RP_PLANE(p, Q8_0, qs), 2 * f + 1)},
            rp_load<uint16_t>(RP_PLANE(p, Q8_0, d), f)
        };
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment r;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)rp_word(w.q[k], i);
        rp_one_scale(&r, rp_half_bits(w.d), 0.0f);
        return r;
    }
};

/* 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives. Doubled they are integers, so the scale is halved: 2^(e-128).
 * For e < 2 that is a subnormal float, made by a shift; otherwise e - 1 is its exponent field. */
template <> struct Blocks<RP_MXFP4> : SmallBlocks {
    enum { HAS_MIN = 0 };
    struct Raw {
        uint4   q;
        uint8_t e;
    };
    __device__ static Raw load(const Planes &p, int64_t f) {
        return {rp_load<uint4>(RP_PLANE(p, MXFP4, qs), f), rp_load<uint8_t>(RP_PLANE(p, MXFP4, e), f)};
    }
    /* Four nibbles to four int8. __byte_perm picks bytes of a table of eight by the low three bits of each
     * nibble: once from 0 1 2 3 4 6 8 12, once from the negatives. Bit 3, moved to bit 2 of a third selector,
     * chooses between the two results. */
    __device__ static unsigned values(unsigned nibbles) {
        const unsigned at  = nibbles & 0x7777u;
        const unsigned pos = __byte_perm(0x03020100u, 0x0c080604u, at);
        const unsigned neg = __byte_perm(0xfdfeff00u, 0xf4f8fafcu, at);
        return __byte_perm(pos, neg, 0x3210u | (nibbles & 0x8888u) >> 1);
    }
    __device__ static Fragment dequantize(const Raw &w, int) {
        Fragment       r;
        const unsigned e = w.e;
        /* Nibbles of a word alternate between element i and i + 16: even bytes are sum block 0, odd ones 1. */
        for (int i = 0; i < 4; i++) {
            const unsigned a = values(rp_word(w.q, i) & 0xffffu), b = values(rp_word(w.q, i) >> 16);
            r.q[0][i] = (int)__byte_perm(a, b, 0x6420u);
            r.q[1][i] = (int)__byte_perm(a, b, 0x7531u);
        }
        rp_one_scale(&r, __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23), 0.0f);
        return r;
    }
};

/* Scales and minima of sub-blocks 2j and 2j+1, six bits each, from the 16 bytes that begin a block of q4_K or
 * q5_K: d f16, dmin f16, then 12 bytes s[]. For sub-block i:
 *
 *     i < 4    scale = s[i] & 63                                min = s[i+4] & 63
 *     i >= 4   scale = (s[i+4] & 15) | (s[i-4] >> 6) << 4       min = (s[i+4] >> 4) | (s[i] >> 6) << 4
 *
 * a, b and c are bytes 0-3, 4-7 and 8-11 of s, shifted so that the two lower bytes belong to this j; each
 * expression handles both sub-blocks, one per byte. */
__device__ static inline void rp_scales_k(const uint4 &head, int j, Fragment *r) {
    const int      shift = 16 * (j & 1);
    const unsigned a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
    const unsigned sc = j < 2 ? a & 0x3f3fu : (c & 0x0f0fu) | (a >> 2 & 0x3030u);
    const unsigned m  = j < 2 ? b & 0x3f3fu : (c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u);
    const float    d = rp_low_half(head.x), dmin = rp_high_half(head.x);
    r->scale[0] = d * (float)(sc & 0xff);
    r->scale[1] = d * (float)(sc >> 8 & 0xff);
    r->min[0]   = -dmin * (float)(m & 0xff);
    r->min[1]   = -dmin * (float)(m >> 8 & 0xff);
}

/* A block of 256 elements is eight fragments and stays whole on the device, since all its parts are aligned:
 *
 *     144 bytes:  head 16, then the quants of fragments 0..7, 16 bytes each
 *
 * With j = f / 2 and h = f % 2, the low nibbles of fragment f are elements 16h..16h+15 of sub-block 2j, the high
 * nibbles the same elements of sub-block 2j+1. These are sum blocks 4j + h and 4j + h + 2 of the block. */
template <> struct Blocks<RP_Q4_K> {
    enum { SUM_STRIDE = 2, HAS_MIN = 1, ONE_SCALE = 0, LOADS = 1 };
    struct Raw {
        uint4 q, head;
    };
    template <class I> __device__ static I first_sum_block(I f) { return f / 8 * 16 + f % 8 / 2 * 4 + f % 2; }
    __device__ static Raw                  load(const Planes &p, int64_t f) {
                         const int64_t block = f / 8 * 9;
                         return {rp_load<uint4>(RP_PLANE(p, Q4_K, block), block + 1 + f % 8),
                                 rp_load<uint4>(RP_PLANE(p, Q4_K, block), block)};
    }
    __device__ static Fragment dequantize(const Raw &w, int f) {
        Fragment r;
        rp_nibbles(w.q, &r);
        rp_scales_k(w.head, f % 8 / 2, &r);
        return r;
    }
};

/* As q4_K with a fifth bit: 176 bytes, head 16, qh 32, quants 8 * 16. Bit j of byte i of qh belongs to element i of
 * sub-block j. Fragments 0, 2, 4 and 6 share the first 16 bytes of qh, the others share the second. */
template <> struct Blocks<RP_Q5_K> {
    enum { SUM_STRIDE = 2, HAS_MIN = 1, ONE_SCALE = 0, LOADS = 1 };
    struct Raw {
        uint4 q, high, head;
    };
    template <class I> __device__ static I first_sum_block(I f) { return f / 8 * 16 + f % 8 / 2 * 4 + f % 2; }
    __device__ static Raw                  load(const Planes &p, int64_t f) {
                         const int64_t block = f / 8 * 11;
                         return {rp_load<uint4>(RP_PLANE(p, Q5_K, block), block + 3 + f % 8),
                                 rp_load<uint4>(RP_PLANE(p, Q5_K, block), block + 1 + f % 2),
                                 rp_load<uint4>(RP_PLANE(p, Q5_K, block), block)};
    }
    __device__ static Fragment dequantize(const Raw &w, int f) {
        Fragment  r;
        const int bit = f % 8 / 2 * 2;
        rp_nibbles(w.q, &r);
        for (int i = 0; i < 4; i++) {
            r.q[0][i] |= (int)((rp_word(w.high, i) >> bit & 0x01010101u) << 4);
            r.q[1][i] |= (int)((rp_word(w.high, i) >> (bit + 1) & 0x01010101u) << 4);
        }
        rp_scales_k(w.head, f % 8 / 2, &r);
        return r;
    }
};

/* Planes: low bits 128 bytes per block, high bits 64, scales 16, d 2. A block is two halves of 128 elements, each
 * four quarters of 32. Fragments f % 4 = 0..3 of a half:
 *
 *     f % 4    low nibbles               high nibbles              bits of qh: low, high
 *       0      quarter 0, elements 0-15  quarter 2, elements 0-15       0-1, 4-5
 *       1      quarter 0, elements 16-31 quarter 2, elements 16-31      0-1, 4-5
 *       2      quarter 1, elements 0-15  quarter 3, elements 0-15       2-3, 6-7
 *       3      quarter 1, elements 16-31 quarter 3, elements 16-31      2-3, 6-7
 *
 * Every sum block has its own scale (sub-blocks of 16 elements); the offset of 32 becomes a minimum. */
template <> struct Blocks<RP_Q6_K> {
    enum { SUM_STRIDE = 4, HAS_MIN = 1, ONE_SCALE = 0, LOADS = 1 };
    struct Raw {
        uint4    low, high;
        int8_t   scale[2];
        uint16_t d;
    };
    template <class I> __device__ static I first_sum_block(I f) { return f / 4 * 8 + f % 4; }
    __device__ static Raw                  load(const Planes &p, int64_t f) {
                         const int64_t  block = f / 8, half = f / 4;
                         const uint8_t *scales = RP_PLANE(p, Q6_K, scales) + first_sum_block(f);
                         return {
                             rp_load<uint4>(RP_PLANE(p, Q6_K, ql), f),
                             rp_load<uint4>(RP_PLANE(p, Q6_K, qh), 2 * half + f % 2),
                             {(int8_t)rp_load<uint8_t>(scales, 0), (int8_t)rp_load<uint8_t>(scales, SUM_STRIDE)},
                             rp_load<uint16_t>(RP_PLANE(p, Q6_K, d), block)
                         };
    }
    __device__ static Fragment dequantize(const Raw &w, int f) {
        Fragment    r;
        const float d     = rp_half_bits(w.d);
        const int   shift = f % 4 / 2 * 2;
        rp_nibbles(w.low, &r);
        for (int i = 0; i < 4; i++) {
            r.q[0][i] |= (int)((rp_word(w.high, i) >> shift & 0x03030303u) << 4);
            r.q[1][i] |= (int)((rp_word(w.high, i) >> (shift + 4) & 0x03030303u) << 4);
        }
        for (int k = 0; k < 2; k++) {
            r.scale[k] = d * (float)w.scale[k];
            r.min[k]   = -(float)RP_Q6_K_OFFSET * r.scale[k];
        }
        return r;
    }
};

template <RpDtype T> __device__ static inline Planes rp_planes(const RpTensorView &w) {
    return {(const uint8_t *)w.data, w.ne[0] * w.ne[1] * w.ne[2] * w.ne[3] / QuantType<T>::ELEMS};
}

/* Element i of sum block k as f32: scale * q + min, rounded once. */
__device__ static inline float rp_element(const Fragment &w, int k, int i) {
    return fmaf(w.scale[k], (float)(int8_t)(w.q[k][i / 4] >> (8 * (i % 4))), w.min[k]);
}

/* Each type in turn: that it has a Blocks, and what the GEMV assumes of it. */
#define X(ID, name, sub, offset, has_min, ...)                                                               \
    static_assert(!Blocks<RP_##ID>::ONE_SCALE || ((sub) == 32 && Blocks<RP_##ID>::SUM_STRIDE == 1),          \
                  #name ": a sub-block with one scale is a whole fragment");                                 \
    static_assert(Blocks<RP_##ID>::HAS_MIN || !(has_min), #name ": the GEMV must add its minima");
RP_QUANTS(X)
#undef X

/* Calls f<T>(...) for a quantised type given at run time; RP_E_DTYPE for others (I12). */
#define RP_FOR_QUANT(type, f, ...)                                                                           \
    rp_for_quant(type, [&](auto quant) { return f<decltype(quant)::TYPE>(__VA_ARGS__); })

template <class F> static inline RpStatus rp_for_quant(RpDtype type, const F &f) {
    switch (type) {
#define X(ID, ...)                                                                                           \
    case RP_##ID:                                                                                            \
        return f(QuantType<RP_##ID>());
        RP_QUANTS(X)
#undef X
    default:
        return rp_fail(RP_E_DTYPE, "no kernel for %s", rp_dtype_name(type));
    }
}

/* The same within a kernel, whose blocks may serve matrices of different types; does nothing for other types. */
#define RP_DEVICE_FOR_QUANT(type, f, ...)                                                                    \
    rp_device_for_quant(type, [&](auto quant) { f<decltype(quant)::TYPE>(__VA_ARGS__); })

template <class F> __device__ static inline void rp_device_for_quant(RpDtype type, const F &f) {
    switch (type) {
#define X(ID, ...)                                                                                           \
    case RP_##ID:                                                                                            \
        f(QuantType<RP_##ID>());                                                                             \
        break;
        RP_QUANTS(X)
#undef X
    default:
        break;
    }
}

#endif
