/* test_sim_kernels.h - kernels for the tests of the simulated runtime. Each function registers its kernel and
 * returns the handle to launch. */
#ifndef TESTS_CUDASIM_TEST_SIM_KERNELS_H
#define TESTS_CUDASIM_TEST_SIM_KERNELS_H

#include <cuda_runtime_api.h>

/* A decode loop in miniature: a kernel in a WHILE body writes one number per iteration to host memory, until n
 * are there or the host sets *stop. */
typedef struct SimTestReply {
    int                       *ring, *at;
    const int                 *stop;
    int                        n;
    cudaGraphConditionalHandle loop;
} SimTestReply;

#ifdef __cplusplus
extern "C" {
#endif
const void *sim_test_fill(void);  /* (int *p, int n, int value): p[i] = value + i */
const void *sim_test_add(void);   /* (int *p, int n, int value): p[i] += value */
const void *sim_test_sum(void);   /* (float *p): 32 lanes; p[32 + i], p[64 + i] = the sum by shuffles, fused */
const void *sim_test_reply(void); /* (SimTestReply): ring[at] = 100 + at, at += 1 */
#ifdef __cplusplus
}
#endif

#endif
