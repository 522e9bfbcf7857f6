/* outer_tile.cuh - a tile of 64 x 64 sums of products for a block of 256 threads, 4 x 4 of them for each thread:
 *
 *     sum[r][j] += a[k][4 * (thread / 16) + r] * b[k][4 * (thread % 16) + j], in the order of k
 *
 * RP_OUTER_TERMS rows k of a and b are staged in shared memory, with zeros in the place of those that do not exist. */
#ifndef KERNELS_DEVICE_OUTER_TILE_CUH
#define KERNELS_DEVICE_OUTER_TILE_CUH

#include "kernels/device/device.cuh"

enum {
    RP_OUTER_SIDE  = 64,
    RP_OUTER_TERMS = 16,
    RP_OUTER_ROW   = RP_OUTER_SIDE + 4 /* rows are aligned to 16 bytes */
};

__device__ static inline void rp_outer_products(const float *a, const float *b, float (&sum)[4][4]) {
    const int i = (int)threadIdx.x / 16 * 4, j = (int)threadIdx.x % 16 * 4;
    for (int k = 0; k < RP_OUTER_TERMS; k++) {
        const float4 of_a = rp_get_float4(a + k * RP_OUTER_ROW + i), of_b = rp_get_float4(b + k * RP_OUTER_ROW + j);
        const float  r[4] = {of_a.x, of_a.y, of_a.z, of_a.w}, c[4] = {of_b.x, of_b.y, of_b.z, of_b.w};
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int f = 0; f < 4; f++) sum[e][f] = fmaf(r[e], c[f], sum[e][f]);
    }
}

#endif
