/* quantize.cuh - q8_act: over 32 elements scale = max|x| / 127, quants = round(x / scale) to nearest even; a block with a
 * NaN or an infinity gets a NaN scale. */
#ifndef KERNELS_QUANTIZE_CUH
#define KERNELS_QUANTIZE_CUH

#include "kernels/device.cuh"

enum { RP_ACT_BLOCK = 32 };

struct ActScale {
    float scale, inverse; /* inverse 0: every quant is 0 */
};

/* From the largest of the bits of |x|, which for a NaN or an infinity are those of an infinity or more. */
__device__ static inline ActScale rp_act_scale(unsigned top_bits) {
    const float top = __uint_as_float(top_bits), scale = top / 127.0f;
    if (top_bits >= 0x7f800000u) return {NAN, 0.0f};
    return {scale, scale > 0.0f ? 127.0f / top : 0.0f};
}

__device__ static inline int rp_act_quant(const ActScale &s, float v) {
    return s.inverse == 0.0f ? 0 : __float2int_rn(v * s.inverse);
}

__device__ static inline unsigned rp_abs_bits(float v) { return __float_as_uint(v) & 0x7fffffffu; }

__device__ static inline unsigned rp_larger_of_lanes(unsigned v, int lanes) {
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

/* Block b of a row of n elements, one a lane of a whole warp. */
__device__ static inline void rp_quantize_block(float v, char *row, int64_t n, int64_t b) {
    const int      lane = (int)threadIdx.x % RP_WARP;
    const ActScale s    = rp_act_scale(rp_larger_of_lanes(rp_abs_bits(v), RP_WARP));
    const int      q = rp_act_quant(s, v), sum = rp_sum_of_lanes(q, RP_WARP / 2);
    float         *scales                    = (float *)(row + n);
    ((int8_t *)row)[RP_ACT_BLOCK * b + lane] = (int8_t)q;
    if (lane == 0) scales[b] = s.scale;
    if (lane % 16 == 0) scales[n / RP_ACT_BLOCK + 2 * b + lane / 16] = s.scale * (float)sum;
}

/* Elements 4i to 4i + 3 of a row of n, lanes of a whole warp having neighbouring i: eight of them a block. Lanes past the end
 * bring zeros and `keep` false. */
__device__ static inline void rp_quantize_four(const float4 &v, char *row, int n, int i, bool keep) {
    const unsigned a = rp_abs_bits(v.x), b = rp_abs_bits(v.y), c = rp_abs_bits(v.z), d = rp_abs_bits(v.w);
    const unsigned ab = a > b ? a : b, cd = c > d ? c : d;
    const ActScale s  = rp_act_scale(rp_larger_of_lanes(ab > cd ? ab : cd, 8));
    const int      q0 = rp_act_quant(s, v.x), q1 = rp_act_quant(s, v.y), q2 = rp_act_quant(s, v.z),
              q3     = rp_act_quant(s, v.w);
    const int sum    = rp_sum_of_lanes(q0 + q1 + q2 + q3, 4);
    float    *scales = (float *)(row + n);
    if (!keep) return;
    ((int *)row)[i] = (q0 & 255) | (q1 & 255) << 8 | (q2 & 255) << 16 | (int)((unsigned)q3 << 24);
    if (i % 8 == 0) scales[i / 8] = s.scale;
    if (i % 4 == 0) scales[n / RP_ACT_BLOCK + i / 4] = s.scale * (float)sum;
}

#endif
