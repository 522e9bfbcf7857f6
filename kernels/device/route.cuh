/* route.cuh - weights of a token's chosen experts, computed by one warp; for route.cu and router.cu. */
#ifndef KERNELS_DEVICE_ROUTE_CUH
#define KERNELS_DEVICE_ROUTE_CUH

#include "kernels/device/device.cuh"

/* out[0] + out[1] + ... in this order, for every lane; the barriers order it after and before the warp's stores. */
__device__ static inline float rp_route_sum(const float *out, int k) {
    float sum = 0.0f;
    __syncwarp();
    for (int j = 0; j < k; j++) sum += out[j];
    __syncwarp();
    return sum;
}

/* probs [n], ids [k] -> out [k]. An id outside of probs has probability 0. The divisor is at least 2^-14, as on the
 * CPU: a sum of 0 must not give NaN. */
__device__ static inline void rp_route(const float *probs, int n, const int32_t *ids, int k, const RpRouteParams &p,
                                       float *out) {
    const int lane    = (int)threadIdx.x % RP_WARP;
    float     maximum = -INFINITY;
    for (int j = lane; j < k; j += RP_WARP) {
        const float v = ids[j] >= 0 && ids[j] < n ? probs[ids[j]] : 0.0f;
        maximum       = v > maximum || v != v ? v : maximum;
        out[j]        = v;
    }
    if (p.soft_max) {
        maximum = rp_warp_max(maximum);
        for (int j = lane; j < k; j += RP_WARP) out[j] = expf(out[j] - maximum);
        const float sum = rp_route_sum(out, k);
        for (int j = lane; j < k; j += RP_WARP) out[j] /= sum;
    }
    const float sum = rp_route_sum(out, k), divisor = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (int j = lane; j < k; j += RP_WARP) out[j] = (p.normalize ? out[j] / divisor : out[j]) * p.scale;
}

#endif
