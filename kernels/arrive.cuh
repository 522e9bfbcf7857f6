/* arrive.cuh - the last block to arrive ends what several have begun.
 *
 * A counter is one of the words that begin the scratch memory, 0 between launches. What the blocks have written before they
 * arrive is seen by the last, which reads it by __ldcg: its own L1 may hold what was there before. */
#ifndef KERNELS_ARRIVE_CUH
#define KERNELS_ARRIVE_CUH

#include "kernels/device.cuh"

enum { RP_COUNTERS = RP_SCRATCH_ZEROS / sizeof(unsigned) };

/* Whether this block is the last of `blocks`; the counter is 0 then. Every thread of the block calls it. */
__device__ static inline bool rp_arrives_last(unsigned *counter, unsigned blocks) {
    RP_SHARED(int, is_last, [1]);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last[0] = atomicInc(counter, blocks - 1) == blocks - 1; /* back to 0 */
        __threadfence();
    }
    __syncthreads();
    return is_last[0] != 0;
}

/* Behind the counters. */
static inline float *rp_scratch_floats(const KernelCtx *ctx) {
    return ctx->scratch != nullptr ? (float *)((char *)ctx->scratch + RP_SCRATCH_ZEROS) : nullptr;
}

static inline size_t rp_scratch_size(int64_t floats) {
    return RP_SCRATCH_ZEROS + (size_t)floats * sizeof(float);
}

static inline RpStatus rp_check_scratch(const char *op, const KernelCtx *ctx, size_t wanted) {
    if (wanted <= ctx->scratch_bytes) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %zu bytes of scratch memory, %zu are wanted", op, ctx->scratch_bytes,
                   wanted);
}

#endif
