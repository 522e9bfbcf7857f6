/* sim_fixture.h - for tests of the simulated runtime: a stream with some memory, and three calls that fill it. */
#ifndef TESTS_SIM_FIXTURE_H
#define TESTS_SIM_FIXTURE_H

#include "sim/device/sim.h"
#include "tests/sim/device/test_sim_kernels.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 64 };

#define RUNS(call)         cr_assert_eq(call, cudaSuccess, "%s", #call)
#define FAILS(call, error) cr_expect_eq(call, error, "%s", #call)

static inline cudaError_t launch(const void *kernel, cudaStream_t s, int *p, int n, int value) {
    void              *args[] = {&p, &n, &value, NULL};
    cudaLaunchConfig_t c      = {
             .gridDim = {2,  1, 1},
               .blockDim = {32, 1, 1},
               .stream = s
    };
    return cudaLaunchKernelExC(&c, kernel, args);
}

/* A stream, and N integers on the device and in pinned host memory. */
typedef struct Fixture {
    cudaStream_t s;
    int         *device, *host;
} Fixture;

static inline Fixture open_fixture(void) {
    Fixture b;
    RUNS(cudaStreamCreateWithFlags(&b.s, cudaStreamNonBlocking));
    RUNS(cudaMalloc((void **)&b.device, N * sizeof(int)));
    RUNS(cudaHostAlloc((void **)&b.host, N * sizeof(int), cudaHostAllocMapped));
    return b;
}

static inline void close_fixture(Fixture *b) {
    (void)cudaFree(b->device);
    (void)cudaFreeHost(b->host);
    (void)cudaStreamDestroy(b->s);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

/* fill, add, copy to the host: element i becomes 8 + i */
static inline cudaError_t enqueue(const Fixture *b) {
    cudaError_t e = launch(sim_test_fill(), b->s, b->device, N, 7);
    if (e == cudaSuccess) e = launch(sim_test_add(), b->s, b->device, N, 1);
    if (e == cudaSuccess) e = cudaMemcpyAsync(b->host, b->device, N * sizeof(int), cudaMemcpyDeviceToHost, b->s);
    return e;
}

static inline void expect_result(const Fixture *b) {
    for (int i = 0; i < N; i++) cr_expect_eq(b->host[i], 8 + i, "element %d is %d", i, b->host[i]);
}

static inline cudaGraphExec_t captured(const Fixture *b) {
    cudaGraph_t     g;
    cudaGraphExec_t x;
    RUNS(cudaStreamBeginCapture(b->s, cudaStreamCaptureModeThreadLocal));
    RUNS(enqueue(b));
    RUNS(cudaStreamEndCapture(b->s, &g));
    RUNS(cudaGraphInstantiate(&x, g, 0));
    RUNS(cudaGraphDestroy(g));
    return x;
}

#endif
