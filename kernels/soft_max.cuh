/* soft_max.cuh - a row that is scaled and masked to its softmax. */
#ifndef KERNELS_SOFT_MAX_CUH
#define KERNELS_SOFT_MAX_CUH

#include "kernels/device.cuh"

enum { RP_SOFT_MAX_THREADS = 256 };

/* x[from..end) in place, by a block of RP_SOFT_MAX_THREADS, of which thread t owns from + t, ...; `top` is the largest of
 * its own and the sink, which joins the sum. `scratch` as of rp_block_sum. */
__device__ static inline void rp_soft_max(float *x, int64_t from, int64_t end, float top, float sink,
                                          float *scratch) {
    top       = rp_block_max(top, scratch);
    float sum = threadIdx.x == 0 && top != -INFINITY ? expf(sink - top) : 0.0f;
    for (int64_t i = from + threadIdx.x; i < end; i += RP_SOFT_MAX_THREADS) {
        const float e = top == -INFINITY ? 0.0f : expf(x[i] - top);
        x[i]          = e;
        sum += e;
    }
    sum                 = rp_block_sum(sum, scratch);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t i = from + threadIdx.x; i < end; i += RP_SOFT_MAX_THREADS) x[i] *= inverse;
}

#endif
