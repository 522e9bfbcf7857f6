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

/* Elements 4i to 4i + 3 of a row of n. The lanes of a whole warp have consecutive i, so eight lanes share a block
 * of 32 and four a sum block. Lanes past the end take part in the shuffles with `keep` false and store nothing:
 * blocks are whole, so they never share one with a lane that stores. */
__device__ static inline void rp_quantize4(const float4 &v, char *row, int n, int i, bool keep) {
    const unsigned a = rp_abs_bits(v.x), b = rp_abs_bits(v.y), c = rp_abs_bits(v.z), d = rp_abs_bits(v.w);
    const unsigned ab = a > b ? a : b, cd = c > d ? c : d;
    const ActScale s  = rp_act_scale(rp_max_of_lanes(ab > cd ? ab : cd, 8));
    const int      q0 = rp_act_quant(s, v.x), q1 = rp_act_quant(s, v.y), q2 = rp_act_quant(s, v.z),
              q3     = rp_act_quant(s, v.w);
    const int sum    = rp_sum_of_lanes(q0 + q1 + q2 + q3, 4);
    float    *scales = (float *)(row + n);
    if (!keep) return;
    const unsigned low   = __byte_perm((unsigned)q0, (unsigned)q1, 0x0040),
                   high  = __byte_perm((unsigned)q2, (unsigned)q3, 0x0040);
    ((unsigned *)row)[i] = __byte_perm(low, high, 0x5410); /* the low bytes of q0, q1, q2 and q3 */
    if (i % 8 == 0) scales[i / 8] = s.scale;
    if (i % 4 == 0) scales[n / RP_ACT_BLOCK + i / 4] = s.scale * (float)sum;
}

#endif
