/* copy.cuh - stores f32 values as f32, f16, bf16 or q8_0. */
#ifndef KERNELS_DEVICE_COPY_CUH
#define KERNELS_DEVICE_COPY_CUH

#include "base/dtypes.h"
#include "kernels/device/device.cuh"

/* Element i of a row of f32, f16 or bf16. bf16 is the upper half of an f32, rounded to nearest even by adding
 * 0x7fff plus the last kept bit; a NaN stays one by its quiet bit. */
__device__ static inline void rp_put_float(RpDtype type, char *row, int64_t i, float v) {
    if (type == RP_F32)
        ((float *)row)[i] = v;
    else if (type == RP_F16)
        ((uint16_t *)row)[i] = __half_as_ushort(__float2half_rn(v));
    else {
        const unsigned bits = __float_as_uint(v);
        ((uint16_t *)row)[i] =
            (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40
                                                          : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

/* One q8_0 block from one element per lane of a whole warp: d = max|x| / 127, q = round(x / d), halves away from
 * zero. A block with a NaN or an infinity gets a NaN scale and quants of 0.
 *     block: d f16, then q[32] int8 (34 bytes) */
__device__ static inline void rp_put_q8_0(float v, uint8_t *block) {
    const int   lane    = (int)threadIdx.x % RP_WARP;
    const bool  bad     = __any_sync(RP_ALL_LANES, !(fabsf(v) < INFINITY)) != 0;
    const float d       = rp_warp_max(bad ? 0.0f : fabsf(v)) / 127.0f;
    const float inverse = d >= RP_SMALLEST_SCALE ? 1.0f / d : 0.0f;
    block[2 + lane]     = (uint8_t)(int8_t)(bad ? 0.0f : roundf(v * inverse));
    if (lane == 0) *(uint16_t *)block = bad ? 0x7e00 : __half_as_ushort(__float2half_rn(d));
}

#endif
