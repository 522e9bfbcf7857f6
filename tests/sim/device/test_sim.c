/* The simulated runtime itself: injected failures, sticky faults, memory limits, counters, captures, graphs and host
 * threads. Expected behaviour is that of the CUDA runtime API, as its documentation describes it. */
#include "base/clock.h"
#include "tests/sim/device/sim_fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- injected failures ---- */

Test(sim, fails_the_requested_call) {
    void *p = NULL, *q = NULL;
    sim_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    RUNS(cudaMalloc(&p, 16));
    cr_expect_eq(sim_fails_left(), 1u);
    FAILS(cudaMalloc(&q, 16), cudaErrorMemoryAllocation);
    cr_expect_null(q);
    cr_expect_eq(sim_fails_left(), 0u);
    FAILS(cudaGetLastError(), cudaErrorMemoryAllocation);
    FAILS(cudaGetLastError(), cudaSuccess);
    RUNS(cudaMalloc(&q, 16));
    cr_expect_eq(sim_stats().allocs, 2u);
    RUNS(cudaFree(q));
    sim_fail("cudaFree", 1, cudaErrorUnknown);
    FAILS(cudaFree(p), cudaErrorUnknown); /* frees all the same */
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(sim, fails_calls_of_every_kind) {
    Fixture         b = open_fixture();
    cudaGraphExec_t x = captured(&b);
    cudaStream_t    s;
    int             n = 0;
    sim_fail("cudaStreamCreateWithFlags", 1, cudaErrorMemoryAllocation);
    FAILS(cudaStreamCreateWithFlags(&s, 0), cudaErrorMemoryAllocation);
    sim_fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    FAILS(cudaHostAlloc((void **)&b.host, 4, 0), cudaErrorMemoryAllocation);
    sim_fail("cudaLaunchKernelExC", 1, cudaErrorLaunchOutOfResources);
    FAILS(launch(sim_test_fill(), b.s, b.device, N, 0), cudaErrorLaunchOutOfResources);
    sim_fail("cudaMemcpyAsync", 1, cudaErrorUnknown);
    FAILS(cudaMemcpyAsync(b.device, b.host, 4, cudaMemcpyHostToDevice, b.s), cudaErrorUnknown);
    sim_fail("cudaMemcpy", 1, cudaErrorUnknown);
    FAILS(cudaMemcpy(b.device, b.host, 4, cudaMemcpyHostToDevice), cudaErrorUnknown);
    sim_fail("cudaGraphLaunch", 1, cudaErrorMemoryAllocation);
    FAILS(cudaGraphLaunch(x, b.s), cudaErrorMemoryAllocation);
    sim_fail("cudaGraphUpload", 1, cudaErrorMemoryAllocation);
    FAILS(cudaGraphUpload(x, b.s), cudaErrorMemoryAllocation);
    sim_fail("cudaStreamQuery", 1, cudaErrorUnknown);
    FAILS(cudaStreamQuery(b.s), cudaErrorUnknown);
    sim_fail("cudaStreamSynchronize", 1, cudaErrorUnknown);
    FAILS(cudaStreamSynchronize(b.s), cudaErrorUnknown);
    sim_fail("cudaGetDeviceCount", 1, cudaErrorInitializationError);
    FAILS(cudaGetDeviceCount(&n), cudaErrorInitializationError);
    sim_fail("cudaDriverGetVersion", 1, cudaErrorUnknown);
    FAILS(cudaDriverGetVersion(&n), cudaErrorUnknown);
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect_eq(sim_stats().kernels, 0u);
    RUNS(cudaGraphLaunch(x, b.s)); /* everything still works */
    RUNS(cudaStreamSynchronize(b.s));
    expect_result(&b);
    RUNS(cudaGraphExecDestroy(x));
    close_fixture(&b);
}

Test(sim, a_failed_launch_invalidates_the_capture) {
    Fixture     b = open_fixture();
    cudaGraph_t g;
    RUNS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    sim_fail("cudaLaunchKernelExC", 2, cudaErrorLaunchOutOfResources);
    FAILS(enqueue(&b), cudaErrorLaunchOutOfResources);
    enum cudaStreamCaptureStatus status;
    RUNS(cudaStreamIsCapturing(b.s, &status));
    cr_expect_eq(status, cudaStreamCaptureStatusInvalidated);
    FAILS(cudaStreamEndCapture(b.s, &g), cudaErrorStreamCaptureInvalidated);
    cr_expect_null(g);
    RUNS(enqueue(&b)); /* the stream still works */
    RUNS(cudaStreamSynchronize(b.s));
    expect_result(&b);
    close_fixture(&b);
}

Test(sim, a_failed_end_of_capture_still_ends_it) {
    Fixture         b = open_fixture();
    cudaGraph_t     g;
    cudaGraphExec_t x;
    sim_fail("cudaStreamBeginCapture", 1, cudaErrorUnknown);
    FAILS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal), cudaErrorUnknown);
    RUNS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    RUNS(enqueue(&b));
    sim_fail("cudaStreamEndCapture", 1, cudaErrorMemoryAllocation);
    FAILS(cudaStreamEndCapture(b.s, &g), cudaErrorMemoryAllocation);
    cr_expect_null(g);
    RUNS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    RUNS(cudaStreamEndCapture(b.s, &g));
    sim_fail("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation);
    FAILS(cudaGraphInstantiate(&x, g, 0), cudaErrorMemoryAllocation);
    RUNS(cudaGraphDestroy(g));
    close_fixture(&b);
}

/* ---- sticky faults ---- */

Test(sim, a_fault_is_sticky_until_faults_are_reset) {
    Fixture b = open_fixture();
    void   *p;
    sim_fault(2, cudaErrorIllegalAddress);
    RUNS(enqueue(&b)); /* not executed yet */
    FAILS(cudaStreamSynchronize(b.s), cudaErrorIllegalAddress);
    cr_expect_eq(sim_stats().kernels, 1u);
    cr_expect_eq(sim_stats().memcpys, 0u);
    FAILS(cudaMalloc(&p, 4), cudaErrorIllegalAddress);
    FAILS(launch(sim_test_fill(), b.s, b.device, N, 0), cudaErrorIllegalAddress);
    FAILS(cudaStreamQuery(b.s), cudaErrorIllegalAddress);
    FAILS(cudaMemcpy(b.host, b.device, 4, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
    FAILS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeGlobal), cudaErrorIllegalAddress);
    FAILS(cudaGetLastError(), cudaErrorIllegalAddress);
    FAILS(cudaGetLastError(), cudaErrorIllegalAddress);
    sim_reset_faults();
    RUNS(cudaGetLastError());
    RUNS(enqueue(&b));
    RUNS(cudaStreamSynchronize(b.s));
    expect_result(&b);
    close_fixture(&b);
}

Test(sim, memory_of_a_lost_device_can_be_released) {
    Fixture         b = open_fixture();
    cudaGraphExec_t x = captured(&b);
    sim_fault(1, cudaErrorDevicesUnavailable);
    RUNS(cudaGraphLaunch(x, b.s));
    FAILS(cudaStreamQuery(b.s), cudaErrorDevicesUnavailable);
    FAILS(cudaGraphLaunch(x, b.s), cudaErrorDevicesUnavailable);
    FAILS(cudaGraphExecDestroy(x), cudaErrorDevicesUnavailable);
    FAILS(cudaFree(b.device), cudaErrorDevicesUnavailable);
    FAILS(cudaFreeHost(b.host), cudaErrorDevicesUnavailable);
    FAILS(cudaStreamDestroy(b.s), cudaErrorDevicesUnavailable);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(sim, reports_a_missing_driver_or_device) {
    int   n = -1, version = -1;
    void *p;
    RUNS(cudaGetDeviceCount(&n));
    cr_expect_eq(n, 1);
    sim_driver(0, 0);
    RUNS(cudaDriverGetVersion(&version));
    cr_expect_eq(version, 0);
    FAILS(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    cr_expect_eq(n, 0);
    sim_driver(11040, 1);
    FAILS(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    sim_driver(CUDART_VERSION, 0);
    FAILS(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    FAILS(cudaMalloc(&p, 4), cudaErrorNoDevice);
    cr_expect_str_eq(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice");
    cr_expect_str_eq(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected");
}

/* ---- memory ---- */

Test(sim, device_memory_is_limited) {
    size_t free_bytes = 0, total = 0;
    void  *p = NULL, *q = NULL;
    RUNS(cudaMemGetInfo(&free_bytes, &total));
    cr_expect_eq(total, (size_t)16 << 30);
    sim_device_memory(1 << 20);
    RUNS(cudaMalloc(&p, 768 << 10));
    RUNS(cudaMemGetInfo(&free_bytes, &total));
    cr_expect_eq(free_bytes, (size_t)256 << 10);
    cr_expect_eq(total, (size_t)1 << 20);
    FAILS(cudaMalloc(&q, 512 << 10), cudaErrorMemoryAllocation);
    FAILS(cudaGetLastError(), cudaErrorMemoryAllocation);
    RUNS(cudaGetLastError()); /* not sticky */
    RUNS(cudaMalloc(&q, 256 << 10));
    RUNS(cudaFree(q));
    sim_device_memory(0);
    RUNS(cudaMalloc(&q, 2 << 20));
    RUNS(cudaFree(q));
    RUNS(cudaFree(p));
}

Test(sim, kernels_write_to_mapped_host_memory) {
    Fixture b = open_fixture();
    int    *mapped, *none;
    RUNS(cudaHostGetDevicePointer((void **)&mapped, b.host, 0));
    FAILS(cudaHostGetDevicePointer((void **)&none, b.device, 0), cudaErrorInvalidValue);
    RUNS(launch(sim_test_fill(), b.s, mapped, N, 8));
    b.host[0] = 1; /* nothing has run yet */
    RUNS(cudaStreamSynchronize(b.s));
    expect_result(&b);
    cr_expect_eq(sim_stats().memcpys, 0u);
    close_fixture(&b);
}

/* SIM_FUSED must not change a bit. */
Test(sim, a_fused_butterfly_has_the_bits_of_the_shuffles) {
    Fixture b = open_fixture();
    float  *p;
    setenv("SIM_FUSED", "1", 1);
    RUNS(cudaMallocHost((void **)&p, 96 * sizeof *p));
    for (int i = 0; i < 32; i++) p[i] = (i % 3 == 0 ? -1.0f : 1.0f) * (float)pow(1.7, i % 11) / 3.0f;
    void              *args[] = {&p, NULL};
    cudaLaunchConfig_t c      = {
             .gridDim = {1,  1, 1},
               .blockDim = {32, 1, 1},
               .stream = b.s
    };
    RUNS(cudaLaunchKernelExC(&c, sim_test_sum(), args));
    RUNS(cudaStreamSynchronize(b.s));
    for (int i = 0; i < 32; i++)
        cr_expect(memcmp(p + 32 + i, p + 64 + i, sizeof *p) == 0, "lane %d: %a by shuffles, %a fused", i,
                  (double)p[32 + i], (double)p[64 + i]);
    cr_expect_neq(p[32], 0.0f);
    RUNS(cudaFreeHost(p));
    close_fixture(&b);
}

/* ---- counters ---- */

Test(sim, counts_copies_and_calls) {
    Fixture         b = open_fixture();
    cudaGraphExec_t x = captured(&b);
    sim_stats_reset();
    for (int i = 0; i < 3; i++) RUNS(cudaGraphLaunch(x, b.s));
    cr_expect_eq(sim_stats().d2h_copies, 0u); /* not yet executed */
    RUNS(cudaStreamSynchronize(b.s));
    RUNS(cudaMemcpyAsync(b.device, b.host, 8, cudaMemcpyDefault, b.s));
    RUNS(cudaMemcpyAsync(b.device, b.device + 4, 12, cudaMemcpyDeviceToDevice, b.s));
    RUNS(cudaStreamSynchronize(b.s));
    const SimStats n = sim_stats();
    cr_expect_eq(n.d2h_copies, 3u);
    cr_expect_eq(n.d2h_bytes, 3u * N * sizeof(int));
    cr_expect_eq(n.h2d_copies, 1u);
    cr_expect_eq(n.h2d_bytes, 8u);
    cr_expect_eq(n.d2d_copies, 1u);
    cr_expect_eq(n.d2d_bytes, 12u);
    cr_expect_eq(n.memcpys, 5u);
    cr_expect_eq(n.api_calls, 7u);
    cr_expect_eq(n.graph_launches, 3u);
    cr_expect_eq(n.kernels, 6u);
    cr_expect_eq(n.allocs + n.captures + n.instantiates, 0u);
    RUNS(cudaGraphExecDestroy(x));
    close_fixture(&b);
}

/* ---- capture ---- */

/* The capture is invalid and ends with an error; begins the next. */
static void expect_invalidated(const Fixture *b) {
    cudaGraph_t g;
    FAILS(cudaStreamEndCapture(b->s, &g), cudaErrorStreamCaptureInvalidated);
    RUNS(cudaStreamBeginCapture(b->s, cudaStreamCaptureModeGlobal));
}

Test(sim, a_capture_refuses_what_it_cannot_record) {
    Fixture     b = open_fixture();
    void       *p;
    cudaGraph_t g;
    RUNS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeGlobal));
    FAILS(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(&b);
    FAILS(cudaMallocHost(&p, 4), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(&b);
    FAILS(launch(sim_test_fill(), NULL, b.device, N, 0), cudaErrorStreamCaptureImplicit);
    expect_invalidated(&b);
    FAILS(cudaMemcpyAsync(b.device, b.host, 4, cudaMemcpyHostToDevice, NULL), cudaErrorStreamCaptureImplicit);
    expect_invalidated(&b);
    FAILS(cudaMemcpy(b.device, b.host, 4, cudaMemcpyHostToDevice), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(&b);
    FAILS(cudaStreamSynchronize(b.s), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(&b);
    FAILS(cudaStreamQuery(b.s), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(&b);
    FAILS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    RUNS(cudaStreamEndCapture(b.s, &g));
    RUNS(cudaGraphDestroy(g));
    FAILS(cudaStreamEndCapture(b.s, &g), cudaErrorIllegalState);
    close_fixture(&b);
}

Test(sim, a_graph_reports_its_nodes_and_edges) {
    Fixture                     b = open_fixture();
    cudaGraph_t                 g;
    cudaGraphNode_t             nodes[4], before[4], from[4], to[4];
    size_t                      n = 4;
    struct cudaMemcpy3DParms    copy;
    struct cudaKernelNodeParams kernel;
    RUNS(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    RUNS(enqueue(&b));
    RUNS(cudaStreamEndCapture(b.s, &g));
    RUNS(cudaGraphGetNodes(g, nodes, &n));
    cr_assert_eq(n, (size_t)3);
    RUNS(cudaGraphNodeGetDependencies(nodes[0], NULL, NULL, &n));
    cr_expect_eq(n, (size_t)0);
    n = 4;
    RUNS(cudaGraphNodeGetDependencies(nodes[2], before, NULL, &n));
    cr_expect_eq(n, (size_t)1);
    cr_expect_eq(before[0], nodes[1]);
    n = 4;
    RUNS(cudaGraphGetEdges(g, from, to, NULL, &n));
    cr_expect_eq(n, (size_t)2);
    cr_expect(from[1] == nodes[1] && to[1] == nodes[2]);
    RUNS(cudaGraphKernelNodeGetParams(nodes[0], &kernel));
    cr_expect_eq(kernel.func, sim_test_fill());
    RUNS(cudaGraphMemcpyNodeGetParams(nodes[2], &copy));
    cr_expect(copy.srcPtr.ptr == b.device && copy.dstPtr.ptr == b.host);
    cr_expect_eq(copy.extent.width, N * sizeof(int));
    cr_expect_eq(copy.kind, cudaMemcpyDeviceToHost);
    FAILS(cudaGraphDebugDotPrint(g, "/dev/null", 0), cudaErrorNotSupported);
    RUNS(cudaGraphDestroy(g));
    close_fixture(&b);
}

/* ---- host threads ---- */

static void *work(void *failed) {
    Fixture b = open_fixture();
    for (int i = 0; i < 50; i++) {
        cudaError_t e = enqueue(&b);
        if (e == cudaSuccess) e = cudaStreamSynchronize(b.s);
        *(bool *)failed |= e != cudaSuccess || b.host[i] != 8 + i;
    }
    (void)cudaFree(b.device);
    (void)cudaFreeHost(b.host);
    (void)cudaStreamDestroy(b.s);
    return NULL;
}

Test(sim, host_threads_take_turns) {
    pthread_t thread[3];
    bool      failed[3] = {false, false, false};
    (void)work(&failed[0]);
    for (int i = 0; i < 3; i++) cr_assert_eq(pthread_create(&thread[i], NULL, work, &failed[i]), 0, CASE(i));
    for (int i = 0; i < 3; i++) (void)pthread_join(thread[i], NULL);
    cr_expect(!failed[0] && !failed[1] && !failed[2]);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    cr_expect_eq(sim_stats().kernels, 4u * 50u * 2u);
}

/* ---- events and properties ---- */

Test(sim, events_measure_time) {
    Fixture     b = open_fixture();
    cudaEvent_t from, to;
    float       ms = -1.0f;
    RUNS(cudaEventCreate(&from));
    const double begin = rp_seconds();
    RUNS(cudaEventCreate(&to));
    FAILS(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
    RUNS(cudaEventRecord(from, b.s));
    RUNS(enqueue(&b));
    RUNS(cudaEventRecord(to, b.s));
    FAILS(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
    RUNS(cudaEventSynchronize(to));
    RUNS(cudaEventElapsedTime(&ms, from, to));
    const double at_most = 1e3 * (rp_seconds() - begin);
    cr_expect(ms > 0.0f && (double)ms <= at_most + 0.001, "%g of %g ms", (double)ms, at_most);
    RUNS(cudaEventDestroy(from));
    RUNS(cudaEventDestroy(to));
    close_fixture(&b);
}

Test(sim, the_device_has_properties) {
    static struct cudaDeviceProp p;
    struct cudaFuncAttributes    a;
    int                          v = 0;
    RUNS(cudaGetDeviceProperties(&p, 0));
    cr_expect_str_eq(p.name, "simulated device");
    cr_expect(p.major == 9 && p.minor == 0 && p.multiProcessorCount == 132 && p.warpSize == 32);
    cr_expect_eq(p.totalGlobalMem, (size_t)16 << 30);
    RUNS(cudaDeviceGetAttribute(&v, cudaDevAttrL2CacheSize, 0));
    cr_expect_eq(v, p.l2CacheSize);
    FAILS(cudaDeviceGetAttribute(&v, cudaDevAttrMaxTexture1DWidth, 0), cudaErrorInvalidValue);
    FAILS(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
    RUNS(cudaFuncGetAttributes(&a, sim_test_fill()));
    cr_expect(a.maxThreadsPerBlock == 1024 && a.numRegs == 32 && a.localSizeBytes == 0);
}

Test(sim, a_device_reset_frees_all_memory) {
    (void)open_fixture();
    cr_expect_eq(sim_stats().live_allocs, 2L);
    RUNS(cudaDeviceReset());
    cr_expect_eq(sim_stats().live_allocs, 0L);
    Fixture b = open_fixture();
    close_fixture(&b);
}
