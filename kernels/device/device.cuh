/* device.cuh - device functions that all kernels share: addresses in views, reductions over a warp or a block in
 * a fixed order (I8), half floats.
 *     element (i0,i1,i2,i3) of a view lies at data + i0*nb[0] + i1*nb[1] + i2*nb[2] + i3*nb[3] bytes */
#ifndef KERNELS_DEVICE_DEVICE_CUH
#define KERNELS_DEVICE_DEVICE_CUH

#include "kernels/device/launch.cuh"

enum { RP_WARP = 32 };
static const unsigned RP_ALL_LANES = 0xffffffffu;

/* A row is dimension 0 at fixed i1, i2, i3. Offsets are size_t: a tensor may exceed 2^31 bytes. */
__device__ static inline char *rp_row_at(const RpTensorView &v, int64_t i1, int64_t i2, int64_t i3) {
    return (char *)v.data + (size_t)i1 * v.nb[1] + (size_t)i2 * v.nb[2] + (size_t)i3 * v.nb[3];
}

/* Row r = i1 + ne[1] * (i2 + ne[2] * i3). */
__device__ static inline char *rp_row(const RpTensorView &v, int64_t r) {
    return rp_row_at(v, r % v.ne[1], r / v.ne[1] % v.ne[2], r / (v.ne[1] * v.ne[2]));
}

/* The row of b that is broadcast to row r of a: each index modulo the dimension of b. */
__device__ static inline const float *rp_repeated_row(const RpTensorView &a, const RpTensorView &b, int64_t r) {
    const int64_t i1 = r % a.ne[1], i2 = r / a.ne[1] % a.ne[2], i3 = r / (a.ne[1] * a.ne[2]);
    return (const float *)rp_row_at(b, i1 % b.ne[1], i2 % b.ne[2], i3 % b.ne[3]);
}

/* x[0] to x[3], aligned to 16 bytes. */
__device__ static inline float4 rp_get_float4(const float *x) {
    const uint4 v = rp_get16(x);
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

struct Sum {
    __device__ static float fold(float a, float b) { return a + b; }
};
struct Maximum {
    __device__ static float fold(float a, float b) { return b > a || b != b ? b : a; }
};

/* The sum (the maximum) over the warp, for every lane. A butterfly: lanes 16 apart are added, then 8, 4, 2, 1
 * apart, so the order is fixed. The maximum is a NaN if any value is. */
__device__ static inline float rp_warp_sum(float v) {
    if (RP_FUSED(Sum, v)) return v;
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) v = Sum::fold(v, __shfl_xor_sync(RP_ALL_LANES, v, lanes));
    return v;
}

__device__ static inline float rp_warp_max(float v) {
    if (RP_FUSED(Maximum, v)) return v;
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) v = Maximum::fold(v, __shfl_xor_sync(RP_ALL_LANES, v, lanes));
    return v;
}

/* The sum (the maximum) over a block of whole warps, at most 1024 threads, for every thread. `scratch` is 32
 * shared floats. The first barrier lets a caller pass the same scratch twice in a row: all threads have read the
 * earlier result before the next values are written. */
__device__ static inline float rp_block_sum(float v, float *scratch) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    v = rp_warp_sum(v);
    __syncthreads();
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = lane < (int)blockDim.x / RP_WARP ? scratch[lane] : 0.0f;
    return rp_warp_sum(v);
}

__device__ static inline float rp_block_max(float v, float *scratch) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    v = rp_warp_max(v);
    __syncthreads();
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = lane < (int)blockDim.x / RP_WARP ? scratch[lane] : -INFINITY;
    return rp_warp_max(v);
}

__device__ static inline float rp_half_bits(uint16_t h) { return __half2float(__ushort_as_half(h)); }

__device__ static inline float rp_bf16_bits(uint16_t h) { return __uint_as_float((unsigned)h << 16); }

/* Element i of a row of f32, f16 or bf16. */
__device__ static inline float rp_float_at(RpDtype type, const char *row, int64_t i) {
    if (type == RP_F32) return ((const float *)row)[i];
    const uint16_t bits = ((const uint16_t *)row)[i];
    return type == RP_F16 ? rp_half_bits(bits) : rp_bf16_bits(bits);
}

#endif
