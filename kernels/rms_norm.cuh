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

/* rsqrt(mean(x^2) + eps), by a block of RP_NORM_THREADS, all of which get it: thread t adds elements 4t to 4t + 3,
 * then those 1024 further, ... `scratch` as of rp_block_sum. */
template <bool COHERENT>
__device__ static inline float rp_rms_scale(const float *x, int64_t n, float eps, float *scratch) {
    float squares = 0.0f;
#pragma unroll 4
    for (int64_t i = 4 * (int64_t)threadIdx.x; i < n; i += 4 * RP_NORM_THREADS) {
        const float4 v = rp_four<COHERENT>(x, i, n);
        squares        = fmaf(v.x, v.x, squares);
        squares        = fmaf(v.y, v.y, squares);
        squares        = fmaf(v.z, v.z, squares);
        squares        = fmaf(v.w, v.w, squares);
    }
    return rsqrtf(rp_block_sum(squares, scratch) / (float)n + eps);
}

#endif
