/* rms_norm.cuh - the factor that a row is multiplied by: the same sum, in the same order, wherever it is taken. */
#ifndef KERNELS_RMS_NORM_CUH
#define KERNELS_RMS_NORM_CUH

#include "kernels/device.cuh"

enum { RP_NORM_THREADS = 256 };

/* Four floats from i on, zeros past the n-th. COHERENT: what other blocks have written meanwhile. */
template <bool COHERENT> __device__ static inline float4 rp_four(const float *x, int64_t i, int64_t n) {
    if (!COHERENT && (uintptr_t)x % 16 == 0 && i + 4 <= n) {
        const uint4 v = rp_get16(x + i);
        return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                           __uint_as_float(v.w));
    }
    float v[4];
    for (int k = 0; k < 4; k++) v[k] = i + k >= n ? 0.0f : COHERENT ? __ldcg(x + i + k) : x[i + k];
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* A sum of floats as two of them, so that it is good to about 2^-46 of itself (Dekker 1971; Ogita, Rump and Oishi 2005). */
struct TwoSum {
    float high, low;

    __device__ void add(float v, float rest) {
        const float sum = __fadd_rn(high, v), other = __fadd_rn(sum, -high);
        low += __fadd_rn(__fadd_rn(high, -__fadd_rn(sum, -other)), __fadd_rn(v, -other)) + rest;
        high = sum;
    }

    __device__ void add_square(float v) {
        const float square = __fmul_rn(v, v);
        add(square, fmaf(v, v, -square));
    }
};

/* 1 / sqrt(mean(x^2) + eps), by a block of RP_NORM_THREADS, all of which get it: thread t adds elements 4t to 4t + 3, then
 * those 1024 further, ... The sum is as good as the CPU's in double, so the rounded result has the same bits but for one in
 * millions, and what is rounded to q8_act after it is the same. `scratch` as of rp_block_sum. */
template <bool COHERENT>
__device__ static inline float rp_rms_scale(const float *x, int64_t n, float eps, float *scratch) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP,
              warps = RP_NORM_THREADS / RP_WARP;
    TwoSum sum      = {0.0f, 0.0f};
#pragma unroll 4
    for (int64_t i = 4 * (int64_t)threadIdx.x; i < n; i += 4 * RP_NORM_THREADS) {
        const float4 v = rp_four<COHERENT>(x, i, n);
        sum.add_square(v.x), sum.add_square(v.y), sum.add_square(v.z), sum.add_square(v.w);
    }
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2)
        sum.add(__shfl_xor_sync(RP_ALL_LANES, sum.high, lanes),
                __shfl_xor_sync(RP_ALL_LANES, sum.low, lanes));
    __syncthreads();
    if (lane == 0) scratch[2 * warp] = sum.high, scratch[2 * warp + 1] = sum.low;
    __syncthreads();
    if (threadIdx.x == 0) { /* one thread: double is slow where it is not what a device is for */
        for (int w = 1; w < warps; w++) sum.add(scratch[2 * w], scratch[2 * w + 1]);
        const double low = sum.high < INFINITY ? (double)sum.low : 0.0;
        scratch[0]       = (float)(1.0 / sqrt(((double)sum.high + low) / (double)n + (double)eps));
    }
    __syncthreads();
    return scratch[0];
}

#endif
