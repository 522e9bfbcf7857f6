/* quants.cuh - blocks of model files on the device. Sixteen elements at a time unpack to four words of signed
 * bytes:
 *
 *     element i of the group is scale * q[i] + min
 *
 * Blocks begin at even addresses only, so they are read in halves of words. */
#ifndef KERNELS_QUANTS_CUH
#define KERNELS_QUANTS_CUH

#include "kernels/device.cuh"

enum { RP_GROUP = 16 };

struct Group {
    int   q[4];
    float scale, min;
};

__device__ static inline uint16_t rp_u16(const uint8_t *p) { return *(const uint16_t *)p; }
__device__ static inline unsigned rp_u32(const uint8_t *p) {
    return (unsigned)rp_u16(p) | (unsigned)rp_u16(p + 2) << 16;
}
__device__ static inline float rp_half_at(const uint8_t *p) { return rp_half_bits(rp_u16(p)); }

/* Four bytes minus a constant: no byte borrows, as every q is below 128 and every constant at most 32. */
__device__ static inline int rp_less(unsigned q, int by) { return __vsubss4((int)q, by * 0x01010101); }

/* Bits 4j to 4j+3 of a word of fifth bits, to bit 4 of four bytes. */
__device__ static inline unsigned rp_fifth(unsigned bits) {
    return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
}

template <RpDtype T> struct Blocks;

/* d at 0, nibbles behind: the low ones are the first sixteen elements. */
template <> struct Blocks<RP_Q4_0> {
    enum { ELEMS = 32, BYTES = 18 };
    __device__ static Group group(const uint8_t *b, int g) {
        Group r = {{0}, rp_half_at(b), 0.0f};
        for (int i = 0; i < 4; i++) r.q[i] = rp_less(rp_u32(b + 2 + 4 * i) >> (4 * g) & 0x0f0f0f0fu, 8);
        return r;
    }
};

template <> struct Blocks<RP_Q4_1> {
    enum { ELEMS = 32, BYTES = 20 };
    __device__ static Group group(const uint8_t *b, int g) {
        Group r = {{0}, rp_half_at(b), rp_half_at(b + 2)};
        for (int i = 0; i < 4; i++) r.q[i] = (int)(rp_u32(b + 4 + 4 * i) >> (4 * g) & 0x0f0f0f0fu);
        return r;
    }
};

template <> struct Blocks<RP_Q5_0> {
    enum { ELEMS = 32, BYTES = 22 };
    __device__ static Group group(const uint8_t *b, int g) {
        Group          r    = {{0}, rp_half_at(b), 0.0f};
        const unsigned high = rp_u32(b + 2) >> (16 * g);
        for (int i = 0; i < 4; i++)
            r.q[i] =
                rp_less((rp_u32(b + 6 + 4 * i) >> (4 * g) & 0x0f0f0f0fu) | rp_fifth(high >> (4 * i)), 16);
        return r;
    }
};

template <> struct Blocks<RP_Q5_1> {
    enum { ELEMS = 32, BYTES = 24 };
    __device__ static Group group(const uint8_t *b, int g) {
        Group          r    = {{0}, rp_half_at(b), rp_half_at(b + 2)};
        const unsigned high = rp_u32(b + 4) >> (16 * g);
        for (int i = 0; i < 4; i++)
            r.q[i] = (int)((rp_u32(b + 8 + 4 * i) >> (4 * g) & 0x0f0f0f0fu) | rp_fifth(high >> (4 * i)));
        return r;
    }
};

template <> struct Blocks<RP_Q8_0> {
    enum { ELEMS = 32, BYTES = 34 };
    __device__ static Group group(const uint8_t *b, int g) {
        Group r = {{0}, rp_half_at(b), 0.0f};
        for (int i = 0; i < 4; i++) r.q[i] = (int)rp_u32(b + 2 + 16 * g + 4 * i);
        return r;
    }
};

/* 17 bytes: every other block is at an odd address. Values are doubled, for which the scale is halved. */
template <> struct Blocks<RP_MXFP4> {
    enum { ELEMS = 32, BYTES = 17 };
    __device__ static int value(unsigned nibble) {
        const int v = (int)(0xc8643210u >> (4 * (nibble & 7)) & 15);
        return nibble & 8 ? -v : v;
    }
    __device__ static Group group(const uint8_t *b, int g) {
        const unsigned e = b[0];
        Group          r = {{0}, __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23), 0.0f};
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++)
                r.q[i] |= (value(b[1 + 4 * i + k] >> (4 * g) & 15u) & 0xff) << (8 * k);
        return r;
    }
};

/* Sub-block j of eight, two groups each: scale and minimum in six bits. */
__device__ static inline void rp_scales_k(const uint8_t *s, int j, float d, float dmin, Group *r) {
    const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int m  = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    r->scale     = d * (float)sc;
    r->min       = -dmin * (float)m;
}

template <> struct Blocks<RP_Q4_K> {
    enum { ELEMS = 256, BYTES = 144 };
    __device__ static Group group(const uint8_t *b, int g) {
        const int      j = g / 2;
        const uint8_t *q = b + 16 + 32 * (j / 2) + 16 * (g % 2);
        Group          r = {};
        rp_scales_k(b + 4, j, rp_half_at(b), rp_half_at(b + 2), &r);
        for (int i = 0; i < 4; i++) r.q[i] = (int)(rp_u32(q + 4 * i) >> (4 * (j % 2)) & 0x0f0f0f0fu);
        return r;
    }
};

template <> struct Blocks<RP_Q5_K> {
    enum { ELEMS = 256, BYTES = 176 };
    __device__ static Group group(const uint8_t *b, int g) {
        const int      j = g / 2;
        const uint8_t *q = b + 48 + 32 * (j / 2) + 16 * (g % 2), *high = b + 16 + 16 * (g % 2);
        Group          r = {};
        rp_scales_k(b + 4, j, rp_half_at(b), rp_half_at(b + 2), &r);
        for (int i = 0; i < 4; i++)
            r.q[i] = (int)((rp_u32(q + 4 * i) >> (4 * (j % 2)) & 0x0f0f0f0fu) |
                           (rp_u32(high + 4 * i) >> j & 0x01010101u) << 4);
        return r;
    }
};

template <> struct Blocks<RP_Q6_K> {
    enum { ELEMS = 256, BYTES = 210 };
    __device__ static Group group(const uint8_t *b, int g) {
        const int      half = g / 8, quarter = g % 8 / 2, at = 16 * (g % 2);
        const uint8_t *low = b + 64 * half + 32 * (quarter % 2) + at, *high = b + 128 + 32 * half + at;
        Group          r = {{0}, rp_half_at(b + 208) * (float)(int8_t)b[192 + g], 0.0f};
        for (int i = 0; i < 4; i++)
            r.q[i] = rp_less((rp_u32(low + 4 * i) >> (4 * (quarter / 2)) & 0x0f0f0f0fu) |
                                 (rp_u32(high + 4 * i) >> (2 * quarter) & 0x03030303u) << 4,
                             32);
        return r;
    }
};

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

#endif
