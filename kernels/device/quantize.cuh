/* quantize.cuh - quantises f32 to q8_act, the activations of integer dot products. Blocks of 32 elements:
 *
 *     scale = max|x| / 127,  q = round(x * (127 / max|x|)) to nearest even,  sum = scale * (q_0 + ... + q_15)
 *     row of n elements:  q[n] int8, then scale[n/32] f32, then sum[n/16] f32       (1.375 bytes per element)
 *
 * The sums serve weights with a minimum: sum_i w_i x_i = wscale*scale*dot(q_w, q_x) + min * sum. A block with a
 * NaN or an infinity gets a NaN scale. Quants are 0 if the scale is below RP_SMALLEST_SCALE. */
#ifndef KERNELS_DEVICE_QUANTIZE_CUH
#define KERNELS_DEVICE_QUANTIZE_CUH

#include "kernels/device/device.cuh"

enum { RP_ACT_BLOCK = 32 };

struct ActScale {
    float scale, inverse; /* inverse 0: every quant is 0 */
};

/* From the largest bits of |x|. As integers they have the order of the floats, with infinity and NaN above all
 * finite values; fmaxf would drop a NaN. */
__device__ static inline ActScale rp_act_scale(unsigned amax_bits) {
    const float amax = __uint_as_float(amax_bits), scale = amax / 127.0f;
    if (amax_bits >= 0x7f800000u) return {NAN, 0.0f};
    return {scale, scale >= RP_SMALLEST_SCALE ? 127.0f / amax : 0.0f};
}

__device__ static inline int rp_act_quant(const ActScale &s, float v) {
    return s.inverse == 0.0f ? 0 : __float2int_rn(v * s.inverse);
}

__device__ static inline unsigned rp_abs_bits(float v) { return __float_as_uint(v) & 0x7fffffffu; }

/* The maximum (the sum) over each run of `lanes` neighbouring lanes, a power of two, for every lane of the run. */
__device__ static inline unsigned rp_max_of_lanes(unsigned v, int lanes) {
    for (lanes /= 2; lanes > 0; lanes /= 2) {
        const unsigned other = __shfl_xor_sync(RP_ALL_LANES, v, lanes);
        v                    = other > v ? other : v;
    }
    return v;
}

__device__ static inline int rp_sum_of_lanes(int v, int lanes) {
    for (lanes /= 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(RP_ALL_LANES, v, lanes);
    return v;
}

/* Block b of a row of n elements: one element per lane of a whole warp. Lanes 0 and 16 store the sums of the two
 * sum blocks. */
__device__ static inline void rp_quantize_block(float v, char *row, int64_t n, int64_t b) {
    const int      lane = (int)threadIdx.x % RP_WARP;
    const ActScale s    = rp_act_scale(rp_max_of_lanes(rp_abs_bits(v), RP_WARP));
    const int      q = rp_act_quant(s, v), sum = rp_sum_of_lanes(q, RP_WARP / 2);
    float         *scales                    = (float *)(row + n);
    ((int8_t *)row)[RP_ACT_BLOCK * b + lane] = (int8_t)q;
    if (lane == 0) scales[b] = s.scale;
    if (lane % 16 == 0) scales[n / RP_ACT_BLOCK + 2 * b + lane / 16] = s.scale * (float)sum;
}

/* The quants of four elements, in the order of the elements, rounded to nearest even. Adding 1.5 * 2^23 leaves the
 * rounded integer in the low bits of the sum:  0x4b400000 + q,  of which the low byte is the quant (|q| <= 127). */
__device__ static inline unsigned rp_act_quants4(const ActScale &s, const float *v) {
    unsigned q[4];
    for (int k = 0; k < 4; k++) q[k] = __float_as_uint(__fadd_rn(__fmul_rn(v[k], s.inverse), 0x1.8p23f));
    const unsigned low = __byte_perm(q[0], q[1], 0x0040), high = __byte_perm(q[2], q[3], 0x0040);
    return s.inverse == 0.0f ? 0u : __byte_perm(low, high, 0x5410);
}

/* Elements 8i to 8i + 7 of a row of n. The lanes of a whole warp have consecutive i, so four lanes share a block
 * of 32 and two a sum block. Lanes past the end take part in the shuffles with `keep` false and store nothing:
 * blocks are whole, so they never share one with a lane that stores. WORDS: the row is a multiple of 4 bytes, not of
 * 8. */
template <bool WORDS = false>
__device__ static inline void rp_quantize8(const float (&v)[8], char *row, int n, int i, bool keep) {
    enum { ONES = 0x01010101 };
    unsigned most = rp_abs_bits(v[0]);
#pragma unroll
    for (int k = 1; k < 8; k++) {
        const unsigned bits = rp_abs_bits(v[k]);
        most                = bits > most ? bits : most;
    }
    const ActScale s   = rp_act_scale(rp_max_of_lanes(most, 4));
    const unsigned low = rp_act_quants4(s, v), high = rp_act_quants4(s, v + 4);
    const int      sum    = rp_sum_of_lanes(__dp4a((int)low, ONES, __dp4a((int)high, ONES, 0)), 2);
    float         *scales = (float *)(row + n);
    if (!keep) return;
    if (WORDS)
        ((unsigned *)row)[2 * i] = low, ((unsigned *)row)[2 * i + 1] = high;
    else
        ((uint64_t *)row)[i] = (uint64_t)high << 32 | low;
    if (i % 4 == 0) scales[i / 4] = s.scale;
    if (i % 2 == 0) scales[n / RP_ACT_BLOCK + i / 2] = s.scale * (float)sum;
}

/* Block b of a row of n elements, shared by four neighbouring lanes as in a matrix fragment (mma.cuh): lane t has
 * elements 2t and 2t + 1 of every eight, v[2c] and v[2c + 1] of the c-th. All lanes of the warp call it; those without
 * `keep` store nothing. */
__device__ static inline void rp_quantize_quad(const float (&v)[8], char *row, int n, int b, bool keep) {
    enum { ONES = 0x01010101 };
    const int t    = (int)threadIdx.x % 4;
    unsigned  most = rp_abs_bits(v[0]);
#pragma unroll
    for (int k = 1; k < 8; k++) most = rp_abs_bits(v[k]) > most ? rp_abs_bits(v[k]) : most;
    const ActScale s    = rp_act_scale(rp_max_of_lanes(most, 4));
    const unsigned q[2] = {rp_act_quants4(s, v), rp_act_quants4(s, v + 4)}; /* sum block 0, 1 */
    const int      sum0 = rp_sum_of_lanes(__dp4a((int)q[0], ONES, 0), 4),
              sum1      = rp_sum_of_lanes(__dp4a((int)q[1], ONES, 0), 4);
    if (!keep) return;
    uint16_t *to     = (uint16_t *)(row + RP_ACT_BLOCK * b) + t;
    float    *scales = (float *)(row + n);
#pragma unroll
    for (int c = 0; c < 4; c++) to[4 * c] = (uint16_t)(q[c / 2] >> c % 2 * 16);
    if (t == 0) scales[b] = s.scale;
    if (t < 2) scales[n / RP_ACT_BLOCK + 2 * b + t] = s.scale * (float)(t == 0 ? sum0 : sum1);
}

#endif
