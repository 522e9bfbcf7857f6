/* arrive.cuh - arrival counters: the last-arriving block reduces the partial sums of all.
 *
 *     scratch memory:  counter[RP_COUNTERS] u32 (RP_SCRATCH_ZEROS bytes), then floats (rp_scratch_floats)
 *
 * Every counter is 0 between launches. Worked example with 3 blocks and counter c = 0:
 *
 *     block 1: writes partial sum 1, increments c (was 0), c = 1: not the last, ends
 *     block 0: writes partial sum 0, increments c (was 1), c = 2: not the last, ends
 *     block 2: writes partial sum 2, increments c (was 2 = 3 - 1): the last; the counter wraps to 0
 *              reads partial sums 0, 1 and 2 in this order, whatever the order of arrival (I8)
 *
 * The increment releases and acquires (rp_arrive): what a block wrote before its increment is visible to every block
 * that increments later. The last block reads partial sums by __ldcg, from L2. */
#ifndef KERNELS_DEVICE_ARRIVE_CUH
#define KERNELS_DEVICE_ARRIVE_CUH

#include "kernels/device/device.cuh"

enum { RP_COUNTERS = RP_SCRATCH_ZEROS / sizeof(unsigned) };

/* Whether this block is the last of `blocks` to arrive; the counter is 0 again then. Every thread of the block
 * calls it. The first barrier orders the writes of all threads before the increment by thread 0, the second the
 * increment before the reads of all threads. */
__device__ static inline bool rp_arrives_last(unsigned *counter, unsigned blocks) {
    RP_SHARED(int, is_last, [1]);
    __syncthreads();
    if (threadIdx.x == 0) is_last[0] = rp_arrive(counter, blocks - 1) == blocks - 1;
    __syncthreads();
    return is_last[0] != 0;
}

/* The floats behind the counters; NULL without scratch memory (a launcher that is only inspected). */
static inline float *rp_scratch_floats(const RpKernelCtx *ctx) {
    return ctx->scratch != nullptr ? (float *)((char *)ctx->scratch + RP_SCRATCH_ZEROS) : nullptr;
}

/* Bytes of scratch memory for the counters and for `floats` floats. */
static inline size_t rp_scratch_size(int64_t floats) { return RP_SCRATCH_ZEROS + (size_t)floats * sizeof(float); }

static inline RpStatus rp_check_scratch(const char *op, const RpKernelCtx *ctx, size_t wanted) {
    if (wanted <= ctx->scratch_bytes) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %zu bytes of scratch memory, must be %zu", op, ctx->scratch_bytes, wanted);
}

#endif
