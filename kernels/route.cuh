/* route.cuh - weights of the chosen experts of a token, by one thread. */
#ifndef KERNELS_ROUTE_CUH
#define KERNELS_ROUTE_CUH

#include "kernels/device.cuh"

__device__ static inline void rp_route(const float *probs, int n, const int32_t *ids, int k,
                                       const RouteParams &p, float *out) {
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < k; j++) {
        out[j] = ids[j] >= 0 && ids[j] < n ? probs[ids[j]] : 0.0f;
        top    = out[j] > top || out[j] != out[j] ? out[j] : top;
    }
    if (p.soft_max) {
        for (int j = 0; j < k; j++) sum += out[j] = expf(out[j] - top);
        for (int j = 0; j < k; j++) out[j] /= sum;
    }
    sum = 0.0f;
    for (int j = 0; j < k; j++) sum += out[j];
    const float divisor = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (int j = 0; j < k; j++) out[j] = (p.normalize ? out[j] / divisor : out[j]) * p.scale;
}

#endif
