/* Costs of the boundaries between kernels on a GPU, as JSON in microseconds:
 *
 *   node_us, node_pdl_us            a node of a graph that is a chain of empty kernels of one block, without and with
 *                                   programmatic dependent launch (PDL); *_all_sms_*: one block per multiprocessor
 *   graph_launch_us                 the host call that launches this graph
 *   while_iteration_of_9_us         an iteration of a WHILE node: eight empty kernels and the condition
 *   grid_barrier_us                 a barrier of all blocks within one kernel
 *
 *   cuda_gaps [DEVICE]      exit status 77 without a GPU */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NODES = 200, RUNS = 50, ITERATIONS = 400, BARRIERS = 200, THREADS = 128 };

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        const cudaError_t e_ = (call);                                                                       \
        if (e_ != cudaSuccess) {                                                                             \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));                                      \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

__global__ void plain_kernel(int *x) {
    if (threadIdx.x == 0 && blockIdx.x == 0) x[0]++;
}

/* The same with the two instructions of PDL: let the next kernel start, wait for the one before. */
__global__ void dependent_kernel(int *x) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (threadIdx.x == 0 && blockIdx.x == 0) x[0]++;
}

/* Condition of the WHILE node: runs it left[0] times. */
__global__ void loop_kernel(int *left, cudaGraphConditionalHandle h) {
    cudaGraphSetConditional(h, --left[0] > 0 ? 1 : 0);
}

/* n barriers over the grid. Each block adds 1 to *arrived; barrier i ends when the sum is (i + 1) * gridDim.x. */
__global__ void barrier_kernel(unsigned *arrived, int n) {
    for (int i = 0; i < n; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (*(volatile unsigned *)arrived < (unsigned)(i + 1) * gridDim.x) {
            }
            __threadfence();
        }
        __syncthreads();
    }
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void launch(cudaStream_t s, void (*kernel)(int *), int *x, unsigned blocks, bool dependent) {
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
    CHECK(cudaLaunchKernelExC(&c, (const void *)kernel, args));
}

/* Microseconds per node of a chain of NODES nodes, and of the call that launches the graph; the best of RUNS. */
static void chain(cudaStream_t s, int *x, unsigned blocks, bool dependent, double *node_us,
                  double *launch_us) {
    cudaGraph_t     g;
    cudaGraphExec_t exec;
    cudaEvent_t     a, b;
    float           ms, best = 1e30f;
    *launch_us = 1e30;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        launch(s, dependent ? dependent_kernel : plain_kernel, x, blocks, dependent);
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < RUNS; i++) {
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

/* Microseconds per iteration of a WHILE node; -1 if the driver cannot instantiate it. */
static double loop(cudaStream_t s, int *x, int *left, bool dependent) {
    cudaGraph_t                g, captured;
    cudaGraphExec_t            exec;
    cudaGraphConditionalHandle h;
    cudaGraphNode_t            node;
    cudaGraphNodeParams        p = {};
    cudaEvent_t                a, b;
    float                      ms, best = 1e30f;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphConditionalHandleCreate(&h, g, 1, cudaGraphCondAssignDefault));
    p.type               = cudaGraphNodeTypeConditional;
    p.conditional.handle = h;
    p.conditional.type   = cudaGraphCondTypeWhile;
    p.conditional.size   = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
#else
    CHECK(cudaGraphAddNode(&node, g, nullptr, 0, &p));
#endif
    CHECK(cudaStreamBeginCaptureToGraph(s, p.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 8; i++)
        launch(s, dependent ? dependent_kernel : plain_kernel, x, 1, dependent && i > 0);
    loop_kernel<<<1, 1, 0, s>>>(left, h);
    CHECK(cudaStreamEndCapture(s, &captured));
    if (cudaGraphInstantiate(&exec, g, 0) != cudaSuccess) {
        (void)cudaGetLastError();
        CHECK(cudaGraphDestroy(g));
        return -1.0;
    }
    for (int i = 0; i < 5; i++) {
        const int n = ITERATIONS;
        CHECK(cudaMemcpy(left, &n, sizeof n, cudaMemcpyHostToDevice));
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(g));
    return 1e3 * best / ITERATIONS;
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
        CHECK(cudaLaunchCooperativeKernel((const void *)barrier_kernel, dim3(blocks), dim3(THREADS), args, 0,
                                          s));
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
    if (cudaGetDeviceCount(&n) != cudaSuccess || device >= n) {
        fprintf(stderr, "cuda_gaps: NOT RUN: no GPU\n");
        return 77;
    }
    CHECK(cudaSetDevice(device));
    CHECK(cudaGetDeviceProperties(&prop, device));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&x, 4 * sizeof *x));
    CHECK(cudaMemset(x, 0, 4 * sizeof *x));
    const unsigned sms = (unsigned)prop.multiProcessorCount;
    chain(s, x, 1, false, &plain, &launch_us);
    chain(s, x, 1, true, &dependent, &unused);
    chain(s, x, sms, false, &plain_wide, &unused);
    chain(s, x, sms, true, &dependent_wide, &unused);
    printf("{\"device\":\"%s\",\"nodes\":%d,\"graph_launch_us\":%.3f,\"node_us\":%.3f,\"node_pdl_us\":%.3f,"
           "\"node_all_sms_us\":%.3f,\"node_all_sms_pdl_us\":%.3f,",
           prop.name, NODES, launch_us, plain, dependent, plain_wide, dependent_wide);
    /* An iteration has nine nodes: its time above 9 * node_us is the overhead of the loop. */
    printf(
        "\"while_iteration_of_9_us\":%.3f,\"while_iteration_of_9_pdl_us\":%.3f,\"grid_barrier_us\":%.3f}\n",
        loop(s, x, x + 1, false), loop(s, x, x + 1, true), barrier(s, (unsigned *)(x + 2), sms));
    return 0;
}
