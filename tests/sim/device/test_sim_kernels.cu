/* Kernels for the tests of the simulated runtime: see test_sim_kernels.h. */
#include "tests/sim/device/test_sim_kernels.h"

#include "kernels/device/portable.cuh"

__global__ static void sim_test_fill_kernel(int *p, int n, int value) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) p[i] = value + i;
}

__global__ static void sim_test_add_kernel(int *p, int n, int value) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) p[i] += value;
}

/* Its result depends on the order of the operands. */
struct Halves {
    static float fold(float a, float b) { return 0.75f * a + 0.5f * b; }
};

/* A butterfly over a warp, by shuffles and in one step. */
__global__ static void sim_test_sum_kernel(float *p) {
    const unsigned lane = threadIdx.x;
    float          sum = p[lane], fused = p[lane];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum = Halves::fold(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
    p[32 + lane] = sum;
    p[64 + lane] = sim_fused<Halves>(fused) ? fused : -1.0f;
}

/* One iteration of the loop: writes the next number, then decides whether the loop goes on. */
__global__ static void sim_test_reply_kernel(SimTestReply r) {
    const int at = *r.at;
    r.ring[at]   = 100 + at;
    *r.at        = at + 1;
    cudaGraphSetConditional(r.loop, at + 1 < r.n && *(volatile const int *)r.stop == 0);
}

extern "C" const void *sim_test_fill(void) { return RP_KERNEL(sim_test_fill_kernel); }
extern "C" const void *sim_test_add(void) { return RP_KERNEL(sim_test_add_kernel); }
extern "C" const void *sim_test_sum(void) { return RP_KERNEL(sim_test_sum_kernel); }
extern "C" const void *sim_test_reply(void) { return RP_KERNEL(sim_test_reply_kernel); }
