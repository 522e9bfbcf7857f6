/* Kernels for the tests of the simulated runtime. */
#include "tests/cudasim/test_sim_kernels.h"

#include "kernels/portable.cuh"

__global__ static void sim_test_fill_kernel(int *p, int n, int value) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) p[i] = value + i;
}

__global__ static void sim_test_add_kernel(int *p, int n, int value) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) p[i] += value;
}

/* One step of a reply: the next number goes to the host's memory, and the loop runs on until all are there or
 * the host says stop. */
__global__ static void sim_test_reply_kernel(SimTestReply r) {
    const int at = *r.at;
    r.ring[at]   = 100 + at;
    *r.at        = at + 1;
    cudaGraphSetConditional(r.loop, at + 1 < r.n && *(volatile const int *)r.stop == 0);
}

extern "C" const void *sim_test_fill(void) { return RP_KERNEL(sim_test_fill_kernel); }
extern "C" const void *sim_test_add(void) { return RP_KERNEL(sim_test_add_kernel); }
extern "C" const void *sim_test_reply(void) { return RP_KERNEL(sim_test_reply_kernel); }
