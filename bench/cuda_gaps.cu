/* Costs of the boundaries between kernels on a GPU, as JSON in microseconds:
 *
 *   node_us, node_pdl_us            a node of a graph that is a chain of empty kernels of one block, without and with
 *                                   programmatic dependent launch (PDL); *_all_sms_*: one block per multiprocessor
 *   graph_launch_us                 the host call that launches this graph
 *   while_iteration_of_9_us, *_pdl  an iteration of a WHILE node whose body is captured as that of a reply: eight empty
 *                                   kernels and kernels/loop.cu, all with the attribute or none; -1 if it is refused
 *   grid_barrier_us                 a barrier of all blocks within one kernel
 *
 *   cuda_gaps [DEVICE [RUNS [BLOCKS]]]      exit status 77 without a GPU; BLOCKS instead of one per multiprocessor */
#include "base/loop.h"
#include "bench/cuda_check.h"
#include "kernels/device/launch.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NODES = 200, RUNS = 50, ITERATIONS = 400, BARRIERS = 200, THREADS = 128 };

static int runs = RUNS;

namespace {

__global__ void plain_kernel(int *x) {
    if (threadIdx.x == 0 && blockIdx.x == 0) x[0]++;
}

/* The same with the two instructions of PDL: let the next kernel start, wait for the one before. */
__global__ void dependent_kernel(int *x) {
    rp_begin();
    if (threadIdx.x == 0 && blockIdx.x == 0) x[0]++;
}

/* n barriers over the grid. Each block adds 1 to *arrived; barrier i ends when the sum is (i + 1) * gridDim.x. */
__global__ void barrier_kernel(unsigned *arrived, int n) {
    for (int i = 0; i < n; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (*(volatile unsigned *)arrived < (unsigned)(i + 1) * gridDim.x) {
#ifdef RP_CUDASIM
                __nanosleep(0); /* where the simulation runs the other threads */
#endif
            }
            __threadfence();
        }
        __syncthreads();
    }
}

} // namespace

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void launch(cudaStream_t s, const void *kernel, int *x, unsigned blocks, bool dependent) {
    cudaLaunchAttribute a                        = {};
    a.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c                         = {};
    c.gridDim                                    = dim3(blocks);
    c.blockDim                                   = dim3(THREADS);
    c.stream                                     = s;
    c.attrs                                      = &a;
    c.numAttrs                                   = dependent ? 1 : 0;
    void *args[]                                 = {&x};
    CHECK(cudaLaunchKernelExC(&c, kernel, args));
}

/* Microseconds per node of a chain of NODES nodes, and of the call that launches the graph; the best of `runs`. */
static void chain(cudaStream_t s, int *x, unsigned blocks, bool dependent, double *node_us, double *launch_us) {
    cudaGraph_t     g;
    cudaGraphExec_t exec;
    cudaEvent_t     a, b;
    float           ms, best = 1e30f;
    *launch_us = 1e30;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        launch(s, dependent ? RP_KERNEL(dependent_kernel) : RP_KERNEL(plain_kernel), x, blocks, dependent);
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < runs; i++) {
        CHECK(cudaEventRecord(a, s));
        const double before = now_us();
        CHECK(cudaGraphLaunch(exec, s));
        const double took = now_us() - before;
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best       = ms < best ? ms : best;
        *launch_us = took < *launch_us ? took : *launch_us;
    }
    *node_us = 1e3 * best / NODES;
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(g));
}

/* The memory of a loop, as in executor/cuda/loop.c. */
typedef struct LoopMemory {
    RpStepState *step;
    LoopControl *control;
    LoopRing    *ring, *mapped;
} LoopMemory;

static LoopMemory loop_memory(void) {
    LoopMemory        m;
    const RpStepState step = {};
    CHECK(cudaMalloc((void **)&m.step, sizeof *m.step));
    CHECK(cudaMalloc((void **)&m.control, sizeof *m.control));
    CHECK(cudaHostAlloc((void **)&m.ring, sizeof *m.ring, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&m.mapped, m.ring, 0));
    CHECK(cudaMemcpy(m.step, &step, sizeof step, cudaMemcpyHostToDevice));
    m.ring->stop = 0;
    return m;
}

/* Captures the body. Returns false if a launch or the capture is refused. */
static bool capture_body(cudaStream_t s, cudaGraph_t body, int *x, const LoopMemory &m,
                         cudaGraphConditionalHandle condition, bool dependent) {
    cudaGraph_t   captured;
    RpKernelCtx   ctx = {};
    const LoopEnd end = {m.step, m.control, m.mapped, condition};
    ctx.stream        = s;
    ctx.overlap       = dependent;
    CHECK(cudaStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 8; i++)
        launch(s, dependent ? RP_KERNEL(dependent_kernel) : RP_KERNEL(plain_kernel), x, 1, dependent);
    const bool launched = rp_cuda_loop_end(&end, &ctx) == RP_OK;
    return cudaStreamEndCapture(s, &captured) == cudaSuccess && launched;
}

/* Microseconds per iteration; the best of five launches. */
static double time_loop(cudaStream_t s, cudaGraphExec_t exec, const LoopMemory &m) {
    cudaEvent_t a, b;
    float       ms, best = 1e30f;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int i = 0; i < 5; i++) {
        LoopControl control = {};
        control.number = 1, control.left = ITERATIONS, control.n_ctx = 1;
        CHECK(cudaMemcpy(m.control, &control, sizeof control, cudaMemcpyHostToDevice));
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    return 1e3 * best / ITERATIONS;
}

static double loop(cudaStream_t s, int *x, const LoopMemory &m, bool dependent) {
    cudaGraph_t                g;
    cudaGraphExec_t            exec;
    cudaGraphConditionalHandle condition;
    cudaGraphNode_t            node;
    cudaGraphNodeParams        p  = {};
    double                     us = -1.0;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphConditionalHandleCreate(&condition, g, 1, cudaGraphCondAssignDefault));
    p.type               = cudaGraphNodeTypeConditional;
    p.conditional.handle = condition;
    p.conditional.type   = cudaGraphCondTypeWhile;
    p.conditional.size   = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
#else
    CHECK(cudaGraphAddNode(&node, g, nullptr, 0, &p));
#endif
    if (capture_body(s, p.conditional.phGraph_out[0], x, m, condition, dependent) &&
        cudaGraphInstantiate(&exec, g, 0) == cudaSuccess) {
        us = time_loop(s, exec, m);
        CHECK(cudaGraphExecDestroy(exec));
    }
    (void)cudaGetLastError();
    CHECK(cudaGraphDestroy(g));
    return us;
}

/* Microseconds per barrier. A cooperative launch guarantees that all blocks are resident, so that none waits
 * forever. */
static double barrier(cudaStream_t s, unsigned *arrived, unsigned blocks) {
    cudaEvent_t a, b;
    float       ms, best = 1e30f;
    int         n      = BARRIERS;
    void       *args[] = {&arrived, &n};
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int i = 0; i < 10; i++) {
        CHECK(cudaMemsetAsync(arrived, 0, sizeof *arrived, s));
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaLaunchCooperativeKernel(RP_KERNEL(barrier_kernel), dim3(blocks), dim3(THREADS), args, 0, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    return 1e3 * best / BARRIERS;
}

int main(int argc, char *argv[]) {
    int            n = 0;
    cudaStream_t   s;
    cudaDeviceProp prop;
    int           *x;
    double         plain, dependent, plain_wide, dependent_wide, launch_us, unused;
    const int      device = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2) runs = atoi(argv[2]);
    if (cudaGetDeviceCount(&n) != cudaSuccess || device >= n) {
        fprintf(stderr, "cuda_gaps: NOT RUN: no GPU\n");
        return 77;
    }
    CHECK(cudaSetDevice(device));
    CHECK(cudaGetDeviceProperties(&prop, device));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&x, 4 * sizeof *x));
    CHECK(cudaMemset(x, 0, 4 * sizeof *x));
    const unsigned   sms    = argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)prop.multiProcessorCount;
    const LoopMemory memory = loop_memory();
    chain(s, x, 1, false, &plain, &launch_us);
    chain(s, x, 1, true, &dependent, &unused);
    chain(s, x, sms, false, &plain_wide, &unused);
    chain(s, x, sms, true, &dependent_wide, &unused);
    printf("{\"device\":\"%s\",\"nodes\":%d,\"graph_launch_us\":%.3f,\"node_us\":%.3f,\"node_pdl_us\":%.3f,"
           "\"node_all_sms_us\":%.3f,\"node_all_sms_pdl_us\":%.3f,",
           prop.name, NODES, launch_us, plain, dependent, plain_wide, dependent_wide);
    /* An iteration has nine nodes: its time above 9 * node_us is the overhead of the loop and of loop.cu. */
    printf("\"while_iteration_of_9_us\":%.3f,\"while_iteration_of_9_pdl_us\":%.3f,\"grid_barrier_us\":%.3f}\n",
           loop(s, x, memory, false), loop(s, x, memory, true), barrier(s, (unsigned *)(x + 2), sms));
    return 0;
}
