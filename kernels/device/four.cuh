/* four.cuh - four consecutive floats at a time: one access of 16 bytes where address and length allow it. */
#ifndef KERNELS_DEVICE_FOUR_CUH
#define KERNELS_DEVICE_FOUR_CUH

#include "kernels/device/device.cuh"

/* Elements i to i + 3 of x[0..n); those past the end are `past`. i is a multiple of 4. */
__device__ static inline void rp_get_four(const float *x, int64_t i, int64_t n, float past, float v[4]) {
    if ((uintptr_t)x % 16 == 0 && i + 4 <= n) {
        const float4 four = rp_get_float4(x + i);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        return;
    }
    for (int k = 0; k < 4; k++) v[k] = i + k < n ? x[i + k] : past;
}

__device__ static inline void rp_put_four(float *x, int64_t i, int64_t n, const float v[4]) {
    if ((uintptr_t)x % 16 == 0 && i + 4 <= n) {
        rp_put16(x + i, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                                   __float_as_uint(v[3])));
        return;
    }
    for (int k = 0; k < 4; k++)
        if (i + k < n) x[i + k] = v[k];
}

#endif
