/* sums[0] = sqrt(sum of x^2) of all tensors since the one with `first`; the state `sums` is described in ops.h
 * geometry  up to 512 blocks of 256 threads, one for each part of x; then one block adds the parts
 * traffic   x once: 4*n bytes
 * numerics  sums as two floats, about 46 bits (TwoSum); beyond the range of f32 they are infinite, and the norm is too
 * Two launches, so that no block waits for others. The parts, and the order of each sum, depend on n only (I8). */
#include "kernels/device/rms_norm.cuh"

#include "ops/rules.h"
#include "ops/training/grad_norm.h"

namespace {

enum { THREADS = 256, WARPS = THREADS / RP_WARP, NORM = 0, HIGH, LOW, UNUSED, PARTS };

/* The sum over the block, for thread 0. Lanes by a butterfly, then warps 0 to 7 in order. `scratch`: 2 * WARPS
 * floats. */
__device__ TwoSum block_sum(TwoSum sum, float *scratch) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2)
        sum.add(__shfl_xor_sync(RP_ALL_LANES, sum.high, lanes), __shfl_xor_sync(RP_ALL_LANES, sum.low, lanes));
    if (lane == 0) scratch[2 * warp] = sum.high, scratch[2 * warp + 1] = sum.low;
    __syncthreads();
    for (int w = 1; w < WARPS && threadIdx.x == 0; w++) sum.add(scratch[2 * w], scratch[2 * w + 1]);
    return sum;
}

/* The low part is 0 unless the sum is finite, as on the CPU. */
__device__ void put_sum(float *to, const TwoSum &sum) {
    const float high   = __fadd_rn(sum.high, sum.low);
    const bool  finite = fabsf(high) < INFINITY;
    to[0]              = finite ? high : sum.high;
    to[1]              = finite ? __fadd_rn(__fsub_rn(sum.high, high), sum.low) : 0.0f;
}

/* sqrt(high + low), rounded once: a step of Newton's method with the exact rest of the first root. */
__device__ float root_of(float high, float low) {
    const float root = sqrtf(high);
    if (!(root > 0.0f && root < INFINITY)) return root;
    return fmaf(__fadd_rn(fmaf(-root, root, high), low), 0.5f / root, root);
}

/* Block b adds part b of `parts` (rp_grad_norm_parts). */
__global__ void __launch_bounds__(THREADS) grad_norm_parts_kernel(const float *x, int64_t n, float *sums) {
    rp_begin();
    RP_SHARED(float, scratch, [2 * WARPS]);
    const int64_t groups = (n + 3) / 4, b = blockIdx.x, parts = gridDim.x;
    const int64_t from = groups * b / parts * 4, to = groups * (b + 1) / parts * 4, end = to < n ? to : n;
    TwoSum        sum = {0.0f, 0.0f};
#pragma unroll 4
    for (int64_t i = from + 4 * (int)threadIdx.x; i < end; i += 4 * THREADS) {
        const float4 v = rp_load4<false>(x, i, end);
        sum.add_square(v.x), sum.add_square(v.y), sum.add_square(v.z), sum.add_square(v.w);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) put_sum(sums + PARTS + 2 * b, sum);
}

__global__ void __launch_bounds__(THREADS) grad_norm_kernel(float *sums, int parts, bool first) {
    rp_begin();
    RP_SHARED(float, scratch, [2 * WARPS]);
    TwoSum sum = {0.0f, 0.0f};
    for (int p = (int)threadIdx.x; p < parts; p += THREADS) sum.add(sums[PARTS + 2 * p], sums[PARTS + 2 * p + 1]);
    sum = block_sum(sum, scratch);
    if (threadIdx.x != 0) return;
    if (!first) sum.add(sums[HIGH], sums[LOW]);
    put_sum(sums + HIGH, sum);
    sums[NORM]   = root_of(sums[HIGH], sums[LOW]);
    sums[UNUSED] = 0.0f;
}

} // namespace

extern "C" RpStatus rp_cuda_grad_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(grad_norm, args));
    const int64_t     n = rp_view_elems(&args->grad_norm.x), parts = rp_grad_norm_parts(n);
    float            *sums  = (float *)args->dst.data;
    const LaunchShape shape = {dim3((unsigned)parts), dim3(THREADS), 0}, one = {dim3(1), dim3(THREADS), 0};
    if (parts > 0)
        RP_TRY(
            RP_LAUNCH("grad_norm", ctx, shape, grad_norm_parts_kernel, (const float *)args->grad_norm.x.data, n, sums));
    return RP_LAUNCH("grad_norm", ctx, one, grad_norm_kernel, sums, (int)parts, args->params->grad_norm.first != 0);
}
