/* route.cuh - weights of a token's chosen experts, computed by one thread; for route.cu and router.cu. */
#ifndef KERNELS_DEVICE_ROUTE_CUH
#define KERNELS_DEVICE_ROUTE_CUH

#include "kernels/device/device.cuh"

/* probs [n], ids [k] -> out [k]. An id outside of probs has probability 0. The divisor is at least 2^-14, as on the
 * CPU: a sum of 0 must not give NaN. */
__device__ static inline void rp_route(const float *probs, int n, const int32_t *ids, int k,
                                       const RpRouteParams &p, float *out) {
    float maximum = -INFINITY, sum = 0.0f;
    for (int j = 0; j < k; j++) {
        out[j]  = ids[j] >= 0 && ids[j] < n ? probs[ids[j]] : 0.0f;
        maximum = out[j] > maximum || out[j] != out[j] ? out[j] : maximum;
    }
    if (p.soft_max) {
        for (int j = 0; j < k; j++) sum += out[j] = expf(out[j] - maximum);
        for (int j = 0; j < k; j++) out[j] /= sum;
    }
    sum = 0.0f;
    for (int j = 0; j < k; j++) sum += out[j];
    const float divisor = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (int j = 0; j < k; j++) out[j] = (p.normalize ? out[j] / divisor : out[j]) * p.scale;
}

#endif
