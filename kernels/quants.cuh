/* quants.cuh - quantised weights on the device: in the planes of rp_cuda_repack, by units of 32 elements.
 *
 * A unit is what 16 bytes of quants hold (32 bytes of q8_0): two groups of sixteen, STEP groups apart in the
 * row,
 *
 *     element i of group k of the unit is scale[k] * q[k][i] + min[k]
 *
 * Loading is apart from unpacking, so that several loads are under way at a time. Both take the number of the
 * unit, the one in the tensor, the other in the row. */
#ifndef KERNELS_QUANTS_CUH
#define KERNELS_QUANTS_CUH

#include "kernels/device.cuh"

enum { RP_GROUP = 16, RP_UNIT = 32 };

struct Unit {
    int   q[2][4];
    float scale[2], min[2];
};

/* A whole tensor of quantised weights. */
struct Planes {
    const uint8_t *data;
    int64_t        blocks;
};

template <class V> __device__ inline V rp_load(const uint8_t *plane, int64_t i) {
    return __ldg((const V *)plane + i);
}

template <> __device__ inline uint4 rp_load<uint4>(const uint8_t *plane, int64_t i) {
    return rp_ldg16(plane + 16 * i);
}

__device__ static inline unsigned rp_word(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* The low nibbles of sixteen bytes are group 0, the high ones group 1. */
__device__ static inline void rp_nibbles(const uint4 &q, Unit *r) {
    for (int i = 0; i < 4; i++) {
        r->q[0][i] = (int)(rp_word(q, i) & 0x0f0f0f0fu);
        r->q[1][i] = (int)(rp_word(q, i) >> 4 & 0x0f0f0f0fu);
    }
}

/* Four bits to bit 4 of four bytes: bit i goes to 8i + 4, by a product without carries. */
__device__ static inline unsigned rp_fifth(unsigned bits) { return (bits & 15) * 0x02040810u & 0x10101010u; }

__device__ static inline void rp_fifth_bits(unsigned high, Unit *r) {
    for (int i = 0; i < 4; i++) {
        r->q[0][i] |= (int)rp_fifth(high >> (4 * i));
        r->q[1][i] |= (int)rp_fifth(high >> (16 + 4 * i));
    }
}

__device__ static inline void rp_one_scale(Unit *r, float scale, float min) {
    r->scale[0] = r->scale[1] = scale;
    r->min[0] = r->min[1] = min;
}

__device__ static inline float rp_low_half(unsigned v) { return rp_half_bits((uint16_t)(v & 0xffff)); }
__device__ static inline float rp_high_half(unsigned v) { return rp_half_bits((uint16_t)(v >> 16)); }

/* Of each type: FIRST_PLANE, bytes of a unit in the first plane; Raw, what is loaded of a unit; `first_group` of unit u of a row; AHEAD, the units of a row
 * that a lane loads at a time: those of K types come with the head of their block. */
template <RpDtype T> struct Blocks;

/* Types with one scale for the 32 elements of a block. */
struct SmallBlocks {
    enum { ELEMS = 32, STEP = 1, ONE_SCALE = 1, AHEAD = 2, FIRST_PLANE = 16 };
    template <class I> __device__ static I first_group(I u) { return 2 * u; }
};

template <> struct Blocks<RP_Q4_0> : SmallBlocks {
    struct Raw {
        uint4    q;
        uint16_t d;
    };
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {rp_load<uint4>(p.data, u), rp_load<uint16_t>(p.data + 16 * p.blocks, u)};
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit        r;
        const float d = rp_half_bits(w.d);
        rp_nibbles(w.q, &r);
        rp_one_scale(&r, d, -8.0f * d);
        return r;
    }
};

template <> struct Blocks<RP_Q4_1> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned dm;
    };
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {rp_load<uint4>(p.data, u), rp_load<unsigned>(p.data + 16 * p.blocks, u)};
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit r;
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
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {rp_load<uint4>(p.data, u), rp_load<unsigned>(p.data + 16 * p.blocks, u),
                rp_load<uint16_t>(p.data + 20 * p.blocks, u)};
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit        r;
        const float d = rp_half_bits(w.d);
        rp_nibbles(w.q, &r);
        rp_fifth_bits(w.high, &r);
        rp_one_scale(&r, d, -16.0f * d);
        return r;
    }
};

template <> struct Blocks<RP_Q5_1> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned high, dm;
    };
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {rp_load<uint4>(p.data, u), rp_load<unsigned>(p.data + 16 * p.blocks, u),
                rp_load<unsigned>(p.data + 20 * p.blocks, u)};
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit r;
        rp_nibbles(w.q, &r);
        rp_fifth_bits(w.high, &r);
        rp_one_scale(&r, rp_low_half(w.dm), rp_high_half(w.dm));
        return r;
    }
};

template <> struct Blocks<RP_Q8_0> : SmallBlocks {
    enum { FIRST_PLANE = 32 };
    struct Raw {
        uint4    q[2];
        uint16_t d;
    };
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {
            {rp_load<uint4>(p.data, 2 * u), rp_load<uint4>(p.data, 2 * u + 1)},
            rp_load<uint16_t>(p.data + 32 * p.blocks, u)
        };
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit r;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)rp_word(w.q[k], i);
        rp_one_scale(&r, rp_half_bits(w.d), 0.0f);
        return r;
    }
};

/* Values are doubled, for which the scale is halved. */
template <> struct Blocks<RP_MXFP4> : SmallBlocks {
    struct Raw {
        uint4   q;
        uint8_t e;
    };
    __device__ static Raw load(const Planes &p, int64_t u) {
        return {rp_load<uint4>(p.data, u), rp_load<uint8_t>(p.data + 16 * p.blocks, u)};
    }
    /* Four nibbles to four bytes: 0 1 2 3 4 6 8 12, and with bit 3 their negatives. */
    __device__ static unsigned values(unsigned nibbles) {
        const unsigned at  = nibbles & 0x7777u;
        const unsigned pos = __byte_perm(0x03020100u, 0x0c080604u, at);
        const unsigned neg = __byte_perm(0xfdfeff00u, 0xf4f8fafcu, at);
        return __byte_perm(pos, neg, 0x3210u | (nibbles & 0x8888u) >> 1);
    }
    __device__ static Unit unpack(const Raw &w, int) {
        Unit           r;
        const unsigned e = w.e;
        for (int i = 0; i < 4; i++) {
            const unsigned a = values(rp_word(w.q, i) & 0xffffu), b = values(rp_word(w.q, i) >> 16);
            r.q[0][i] = (int)__byte_perm(a, b, 0x6420u);
            r.q[1][i] = (int)__byte_perm(a, b, 0x7531u);
        }
        rp_one_scale(&r, __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23), 0.0f);
        return r;
    }
};

/* Sub-blocks 2j and 2j+1 of eight: scales and minima of six bits, from the sixteen bytes that begin a block.
 */
__device__ static inline void rp_scales_k(const uint4 &head, int j, Unit *r) {
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

/* Eight units a block: sixteen elements each of sub-blocks 2j (low nibbles) and 2j+1 (high), j = u / 2. */
template <> struct Blocks<RP_Q4_K> {
    enum { ELEMS = 256, STEP = 2, ONE_SCALE = 0, AHEAD = 1, FIRST_PLANE = 18 };
    struct Raw {
        uint4 q, head;
    };
    template <class I> __device__ static I first_group(I u) { return u / 8 * 16 + u % 8 / 2 * 4 + u % 2; }
    __device__ static Raw                  load(const Planes &p, int64_t u) {
                         const int64_t block = u / 8 * 9;
                         return {rp_load<uint4>(p.data, block + 1 + u % 8), rp_load<uint4>(p.data, block)};
    }
    __device__ static Unit unpack(const Raw &w, int u) {
        Unit r;
        rp_nibbles(w.q, &r);
        rp_scales_k(w.head, u % 8 / 2, &r);
        return r;
    }
};

template <> struct Blocks<RP_Q5_K> {
    enum { ELEMS = 256, STEP = 2, ONE_SCALE = 0, AHEAD = 1, FIRST_PLANE = 22 };
    struct Raw {
        uint4 q, high, head;
    };
    template <class I> __device__ static I first_group(I u) { return u / 8 * 16 + u % 8 / 2 * 4 + u % 2; }
    __device__ static Raw                  load(const Planes &p, int64_t u) {
                         const int64_t block = u / 8 * 11;
                         return {rp_load<uint4>(p.data, block + 3 + u % 8), rp_load<uint4>(p.data, block + 1 + u % 2),
                                 rp_load<uint4>(p.data, block)};
    }
    __device__ static Unit unpack(const Raw &w, int u) {
        Unit      r;
        const int bit = u % 8 / 2 * 2;
        rp_nibbles(w.q, &r);
        for (int i = 0; i < 4; i++) {
            r.q[0][i] |= (int)((rp_word(w.high, i) >> bit & 0x01010101u) << 4);
            r.q[1][i] |= (int)((rp_word(w.high, i) >> (bit + 1) & 0x01010101u) << 4);
        }
        rp_scales_k(w.head, u % 8 / 2, &r);
        return r;
    }
};

/* Two halves of 128 elements, each four quarters: the low nibbles of 16 bytes belong to quarter 0 or 1, the
 * high ones to quarter 2 or 3. */
template <> struct Blocks<RP_Q6_K> {
    enum { ELEMS = 256, STEP = 4, ONE_SCALE = 0, AHEAD = 1, FIRST_PLANE = 16 };
    struct Raw {
        uint4    low, high;
        int8_t   scale[2];
        uint16_t d;
    };
    template <class I> __device__ static I first_group(I u) { return u / 4 * 8 + u % 4; }
    __device__ static Raw                  load(const Planes &p, int64_t u) {
                         const int64_t  block = u / 8, half = u / 4;
                         const uint8_t *scales = p.data + 192 * p.blocks + first_group(u);
                         return {
                             rp_load<uint4>(p.data, u),
                             rp_load<uint4>(p.data + 128 * p.blocks, 2 * half + u % 2),
                             {(int8_t)rp_load<uint8_t>(scales, 0), (int8_t)rp_load<uint8_t>(scales, STEP)},
                             rp_load<uint16_t>(p.data + 208 * p.blocks, block)
                         };
    }
    __device__ static Unit unpack(const Raw &w, int u) {
        Unit        r;
        const float d     = rp_half_bits(w.d);
        const int   shift = u % 4 / 2 * 2;
        rp_nibbles(w.low, &r);
        for (int i = 0; i < 4; i++) {
            r.q[0][i] |= (int)((rp_word(w.high, i) >> shift & 0x03030303u) << 4);
            r.q[1][i] |= (int)((rp_word(w.high, i) >> (shift + 4) & 0x03030303u) << 4);
        }
        for (int k = 0; k < 2; k++) {
            r.scale[k] = d * (float)w.scale[k];
            r.min[k]   = -32.0f * r.scale[k];
        }
        return r;
    }
};

template <RpDtype T> __device__ static inline Planes rp_planes(const TensorView &w) {
    return {(const uint8_t *)w.data, w.ne[0] * w.ne[1] * w.ne[2] * w.ne[3] / Blocks<T>::ELEMS};
}

/* Element i of group k. */
__device__ static inline float rp_element(const Unit &w, int k, int i) {
    return fmaf(w.scale[k], (float)(int8_t)(w.q[k][i / 4] >> (8 * (i % 4))), w.min[k]);
}

/* Calls f<T>() for a quantised type: the one place that turns the number of a type into a template. */
#define RP_FOR_QUANT(type, f, ...)                                                                           \
    ((type) == RP_Q4_0    ? f<RP_Q4_0>(__VA_ARGS__)                                                          \
     : (type) == RP_Q4_1  ? f<RP_Q4_1>(__VA_ARGS__)                                                          \
     : (type) == RP_Q5_0  ? f<RP_Q5_0>(__VA_ARGS__)                                                          \
     : (type) == RP_Q5_1  ? f<RP_Q5_1>(__VA_ARGS__)                                                          \
     : (type) == RP_Q8_0  ? f<RP_Q8_0>(__VA_ARGS__)                                                          \
     : (type) == RP_Q4_K  ? f<RP_Q4_K>(__VA_ARGS__)                                                          \
     : (type) == RP_Q5_K  ? f<RP_Q5_K>(__VA_ARGS__)                                                          \
     : (type) == RP_Q6_K  ? f<RP_Q6_K>(__VA_ARGS__)                                                          \
     : (type) == RP_MXFP4 ? f<RP_MXFP4>(__VA_ARGS__)                                                         \
                          : rp_fail(RP_E_DTYPE, "no kernel for %s", rp_dtype_name(type)))

/* The same on the device, for a block that finds out for itself; nothing for other types. */
#define RP_DEVICE_FOR_QUANT(type, f, ...)                                                                    \
    switch (type) {                                                                                          \
    case RP_Q4_0:                                                                                            \
        f<RP_Q4_0>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q4_1:                                                                                            \
        f<RP_Q4_1>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q5_0:                                                                                            \
        f<RP_Q5_0>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q5_1:                                                                                            \
        f<RP_Q5_1>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q8_0:                                                                                            \
        f<RP_Q8_0>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q4_K:                                                                                            \
        f<RP_Q4_K>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q5_K:                                                                                            \
        f<RP_Q5_K>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_Q6_K:                                                                                            \
        f<RP_Q6_K>(__VA_ARGS__);                                                                             \
        break;                                                                                               \
    case RP_MXFP4:                                                                                           \
        f<RP_MXFP4>(__VA_ARGS__);                                                                            \
        break;                                                                                               \
    default:                                                                                                 \
        break;                                                                                               \
    }

#endif
