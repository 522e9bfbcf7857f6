/* soft_max.cuh - the softmax of a row of scores that are scaled and masked already; for soft_max.cu and router.cu. */
#ifndef KERNELS_DEVICE_SOFT_MAX_CUH
#define KERNELS_DEVICE_SOFT_MAX_CUH

#include "kernels/device/device.cuh"

enum { RP_SOFT_MAX_THREADS = 256 };

/* x[from..end) in place, by a block of RP_SOFT_MAX_THREADS. Thread t has elements from + t, from + t + 256, ...;
 * `maximum` is the largest of its elements and the sink. The sink adds exp(sink - maximum) to the sum and has no
 * result; -INFINITY for none. A row whose maximum is -INFINITY becomes zeros. `scratch` as in rp_block_sum. */
__device__ static inline void rp_soft_max(float *x, int64_t from, int64_t end, float maximum, float sink,
                                          float *scratch) {
    maximum   = rp_block_max(maximum, scratch);
    float sum = threadIdx.x == 0 && maximum != -INFINITY ? expf(sink - maximum) : 0.0f;
    for (int64_t i = from + threadIdx.x; i < end; i += RP_SOFT_MAX_THREADS) {
        const float e = maximum == -INFINITY ? 0.0f : expf(x[i] - maximum);
        x[i]          = e;
        sum += e;
    }
    sum                 = rp_block_sum(sum, scratch);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t i = from + threadIdx.x; i < end; i += RP_SOFT_MAX_THREADS) x[i] *= inverse;
}

#endif
