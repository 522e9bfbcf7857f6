/* The last kernel of the loop (kernels/loop.cu), launched with PDL in the body of a WHILE node. The kernel that it
 * follows is the callback of sim_on_wait: it writes the step state at the last possible moment. */
#include "tests/support/golden.h"

#include "base/loop.h"
#include "sim/device/sim.h"

#include <string.h>

#define CUDA(call) cr_assert_eq((call), cudaSuccess, "%s", #call)

enum { N_CTX = 100 };

typedef struct Loop {
    cudaStream_t    stream;
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
    LoopRing       *ring;
    RpStepState    *step;
    LoopControl    *control;
    int32_t         n_waits, stop_at, full_at; /* iterations so far; in which the host stops, the context is full */
} Loop;

static void open_loop(Loop *l) {
    cudaGraphConditionalHandle condition;
    cudaGraphNode_t            node;
    cudaGraph_t                captured;
    struct cudaGraphNodeParams p   = {.type = cudaGraphNodeTypeConditional};
    RpKernelCtx                ctx = {.overlap = true};
    CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
    CUDA(cudaMallocHost((void **)&l->ring, sizeof *l->ring));
    CUDA(cudaMalloc((void **)&l->step, sizeof *l->step));
    CUDA(cudaMalloc((void **)&l->control, sizeof *l->control));
    CUDA(cudaGraphCreate(&l->graph, 0));
    CUDA(cudaGraphConditionalHandleCreate(&condition, l->graph, 1, cudaGraphCondAssignDefault));
    p.conditional.handle = condition;
    p.conditional.type   = cudaGraphCondTypeWhile;
    p.conditional.size   = 1;
#if CUDART_VERSION >= 13000
    CUDA(cudaGraphAddNode(&node, l->graph, NULL, NULL, 0, &p));
#else
    CUDA(cudaGraphAddNode(&node, l->graph, NULL, 0, &p));
#endif
    ctx.stream = l->stream;
    CUDA(cudaStreamBeginCaptureToGraph(l->stream, p.conditional.phGraph_out[0], NULL, NULL, 0,
                                       cudaStreamCaptureModeThreadLocal));
    OK(rp_cuda_loop_end(&(LoopEnd){.step = l->step, .control = l->control, .ring = l->ring, .condition = condition},
                        &ctx));
    CUDA(cudaStreamEndCapture(l->stream, &captured));
    CUDA(cudaGraphInstantiate(&l->exec, l->graph, 0));
}

static void close_loop(Loop *l) {
    CUDA(cudaGraphExecDestroy(l->exec));
    CUDA(cudaGraphDestroy(l->graph));
    CUDA(cudaFree(l->control));
    CUDA(cudaFree(l->step));
    CUDA(cudaFreeHost(l->ring));
    CUDA(cudaStreamDestroy(l->stream));
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

/* The end of the kernel before: token 50, 51, ... */
static void on_wait(const char *kernel, void *user) {
    Loop *l = user;
    cr_assert_not_null(strstr(kernel, "loop_end"), "%s", kernel);
    l->step->token = 50 + l->n_waits;
    l->step->pos   = l->n_waits == l->full_at ? N_CTX : l->n_waits;
    if (l->n_waits == l->stop_at) l->ring->stop = 1;
    l->n_waits++;
}

/* Runs the loop for at most `left` tokens and returns how many it has written. Each must be the one that the kernel
 * before has left. */
static int32_t run(Loop *l, int32_t left, int32_t stop_at, int32_t full_at) {
    const LoopControl start = {.number = 1, .left = left, .n_ctx = N_CTX};
    const RpStepState stale = {.token = 7, .pos = 0};
    l->n_waits = 0, l->stop_at = stop_at, l->full_at = full_at;
    memset(l->ring, 0, sizeof *l->ring);
    CUDA(cudaMemcpy(l->control, &start, sizeof start, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(l->step, &stale, sizeof stale, cudaMemcpyHostToDevice));
    if (stop_at < 0) l->ring->stop = 1;
    sim_stats_reset();
    sim_on_wait(on_wait, l);
    CUDA(cudaGraphLaunch(l->exec, l->stream));
    CUDA(cudaStreamSynchronize(l->stream));
    sim_on_wait(NULL, NULL);
    const int32_t n = (int32_t)sim_stats().while_iters;
    for (int32_t i = 0; i < n; i++)
        cr_expect_eq(l->ring->slots[1 + i], (uint64_t)(1 + i) << 32 | (uint32_t)(50 + i), "token %d", i);
    cr_expect_eq(l->ring->slots[1 + n], 0ul);
    return n;
}

/* The stop flag lies in host memory. Its read is under way while the kernel waits, so a stop that comes later ends the
 * loop one token later. All that earlier kernels write is read after the wait. */
Test(cuda_loop, reads_the_stop_flag_before_it_waits_and_the_token_after) {
    enum { NEVER = 1000 };
    Loop l;
    open_loop(&l);
    cr_expect_eq(run(&l, 5, NEVER, NEVER), 5);
    cr_expect_eq(run(&l, 5, NEVER, 2), 3);
    cr_expect_eq(run(&l, 5, -1, NEVER), 1); /* set before the launch */
    cr_expect_eq(run(&l, 5, 0, NEVER), 2);
    cr_expect_eq(run(&l, 5, 2, NEVER), 4);
    cr_expect_eq(run(&l, 5, 4, NEVER), 5); /* the limit comes first */
    close_loop(&l);
}
