/* log_sum.cuh - sum_i exp(x[i] - top) of a row by a block, in one sweep: each thread keeps the largest of its elements
 * so far and the sum relative to it, and rescales the sum when a larger element comes (Milakov and Gimelshein 2018,
 * arXiv:1805.02867). A row with a NaN or +inf has the sum NaN; one of nothing but -inf has top -inf and sum 0. */
#ifndef KERNELS_DEVICE_LOG_SUM_CUH
#define KERNELS_DEVICE_LOG_SUM_CUH

#include "kernels/device/four.cuh"

enum { RP_LOG_SUM_THREADS = 512 };

/* exp(v - top) for v <= top: 0 for -inf, also if top is -inf. */
__device__ static inline float rp_exp_below(float v, float top) { return v == -INFINITY ? 0.0f : expf(v - top); }

struct LogSum {
    float top, sum;

    __device__ void rescale(float to) {
        sum *= top == to ? 1.0f : expf(top - to);
        top = to;
    }

    /* fmaxf passes over NaN, which then makes the sum NaN. */
    __device__ void add(float a, float b, float c, float d) {
        rescale(fmaxf(top, fmaxf(fmaxf(a, b), fmaxf(c, d))));
        sum += (rp_exp_below(a, top) + rp_exp_below(b, top)) + (rp_exp_below(c, top) + rp_exp_below(d, top));
    }
};

/* For every thread of a block of RP_LOG_SUM_THREADS. Thread t has elements 4t..4t+3, then those 4 * RP_LOG_SUM_THREADS
 * further on; -inf past the end. `scratch` as in rp_block_sum. */
__device__ static inline LogSum rp_log_sum(const float *x, int64_t n, float *scratch) {
    LogSum s = {-INFINITY, 0.0f};
#pragma unroll 2
    for (int64_t i = 4 * (int)threadIdx.x; i < n; i += 4 * RP_LOG_SUM_THREADS) {
        float v[4];
        rp_get_four(x, i, n, -INFINITY, v);
        s.add(v[0], v[1], v[2], v[3]);
    }
    s.rescale(rp_block_max(s.top, scratch));
    s.sum = rp_block_sum(s.sum, scratch);
    return s;
}

#endif
