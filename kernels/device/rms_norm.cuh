/* rms_norm.cuh - the factor 1 / sqrt(mean(x^2) + eps) of a row, with one summation order for rms_norm.cu and all
 * fused kernels. The sum must be as good as the CPU's, which is in double: the result may be quantised next, where
 * one differing last bit can move a quant by one. Doubles are slow on most devices, so sum, mean and root are computed
 * with pairs of floats. */
#ifndef KERNELS_DEVICE_RMS_NORM_CUH
#define KERNELS_DEVICE_RMS_NORM_CUH

#include "kernels/device/device.cuh"

enum { RP_NORM_THREADS = 256 };

/* x[i] to x[i+3], zeros past n. COHERENT: memory that other blocks of this kernel have written, read from L2. */
template <bool COHERENT> __device__ static inline float4 rp_load4(const float *x, int64_t i, int64_t n) {
    if (!COHERENT && (uintptr_t)x % 16 == 0 && i + 4 <= n) return rp_get_float4(x + i);
    float v[4];
    for (int k = 0; k < 4; k++) v[k] = i + k >= n ? 0.0f : COHERENT ? __ldcg(x + i + k) : x[i + k];
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* A sum as the unevaluated sum of two floats, high + low, with a relative error of about 2^-46 (Dekker 1971; Ogita,
 * Rump and Oishi 2005). add() is the two-sum: s = fl(a + b), and the rounding error (a + b) - s, which five further
 * operations compute exactly, goes to low. The intrinsics keep the compiler from contracting or reassociating
 * them. The error of a square is exact too: fma(v, v, -fl(v*v)). */
struct TwoSum {
    float high, low;

    __device__ void add(float v, float rest) {
        const float sum = __fadd_rn(high, v), other = __fsub_rn(sum, high);
        low += __fadd_rn(__fsub_rn(high, __fsub_rn(sum, other)), __fsub_rn(v, other)) + rest;
        high = sum;
    }

    __device__ void add_square(float v) {
        const float square = __fmul_rn(v, v);
        add(square, fmaf(v, v, -square));
    }

    __device__ static TwoSum fold(TwoSum a, TwoSum b) {
        a.add(b.high, b.low);
        return a;
    }
};

/* 1 / sqrt(sum / n + eps), rounded once: all steps before have relative errors of about 2^-45.
 *
 *     m = sum / n + eps                  quotient q and what remains of the sum, (sum - q n) / n
 *     y = 1 / sqrt(m), two units in the last place off or less
 *     y + y/2 (1 - m y^2)                one step of Newton's method; fma gives the rounding errors of y^2 and m y^2 */
__device__ static inline float rp_rms_root(const TwoSum &sum, int64_t n, float eps) {
    const float count = (float)n, count_rest = (float)(n - (int64_t)count), q = __fdividef(sum.high, count);
    TwoSum      m = {q, 0.0f};
    m.add(eps, __fdividef(fmaf(-q, count_rest, fmaf(-q, count, sum.high)) + sum.low, count));
    if (m.high == 0.0f || !(m.high < INFINITY)) return rsqrtf(m.high);
    const float up = m.high < 1e-30f ? 0x1p40f : m.high > 1e30f ? 0x1p-40f : 1.0f; /* keeps the squares in range */
    m.high *= up * up, m.low *= up * up;
    const float y = rsqrtf(m.high), square = __fmul_rn(y, y), product = __fmul_rn(m.high, square);
    const float square_rest = fmaf(y, y, -square), product_rest = fmaf(m.high, square, -product);
    const float rest = __fsub_rn(1.0f, product) - product_rest - fmaf(m.high, square_rest, m.low * square);
    return fmaf(0.5f * y, rest, y) * up;
}

/* 1 / sqrt(mean(x^2) + eps) for every thread of a block of THREADS, of which RP_NORM_THREADS add. Reduction order:
 * thread t adds elements 4t..4t+3, then those 1024 further on; lanes by a butterfly; warps 0 to 7 by thread 0. The
 * rounded result has the bits of the CPU's in all but one of millions of cases. `scratch` as in rp_block_sum. */
template <bool COHERENT, int THREADS = RP_NORM_THREADS>
__device__ static inline float rp_rms_scale(const float *x, int64_t n, float eps, float *scratch) {
    const int  lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP, warps = RP_NORM_THREADS / RP_WARP;
    const bool adds = THREADS == (int)RP_NORM_THREADS || warp < warps;
    TwoSum     sum  = {0.0f, 0.0f};
    if (adds) {
#pragma unroll 4
        for (int i = 4 * (int)threadIdx.x; i < (int)n; i += 4 * RP_NORM_THREADS) {
            const float4 v = rp_load4<COHERENT>(x, i, n);
            sum.add_square(v.x), sum.add_square(v.y), sum.add_square(v.z), sum.add_square(v.w);
        }
        if (!RP_FUSED(TwoSum, sum))
            for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2)
                sum.add(__shfl_xor_sync(RP_ALL_LANES, sum.high, lanes), __shfl_xor_sync(RP_ALL_LANES, sum.low, lanes));
    }
    __syncthreads();
    if (lane == 0 && adds) scratch[2 * warp] = sum.high, scratch[2 * warp + 1] = sum.low;
    __syncthreads();
    if (threadIdx.x == 0) { /* one thread computes the root for all */
        for (int w = 1; w < warps; w++) sum.add(scratch[2 * w], scratch[2 * w + 1]);
        scratch[0] = rp_rms_root(sum, n, eps);
    }
    __syncthreads();
    return scratch[0];
}

/* Element i of a normed row that other blocks have written, whose scale is rp_rms_scale<true>. */
__device__ static inline float rp_normed(const float *x, const float *weight, float scale, int64_t i) {
    return __fmul_rn(__ldcg(x + i) * scale, weight != nullptr ? weight[i] : 1.0f);
}

#endif
