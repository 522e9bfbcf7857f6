/* Loops on the simulated device, which a polling host sees iteration by iteration, and kernels that hang. */
#include "tests/sim/device/sim_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- a decode loop on the device ---- */

typedef struct Reply {
    Fixture         b;
    int            *stop;
    cudaGraphExec_t x;
} Reply;

/* Graph: WHILE { one number into the ring } -> copy of the position to the last slot of the ring. */
static Reply open_reply(int n) {
    Reply              r = {.b = open_fixture()};
    cudaGraph_t        g, body;
    cudaGraphNode_t    loop, copy;
    SimTestReply       a      = {.ring = r.b.host, .at = r.b.device, .n = n};
    void              *args[] = {&a, NULL};
    cudaLaunchConfig_t c      = {
             .gridDim = {1, 1, 1},
               .blockDim = {1, 1, 1},
               .stream = r.b.s
    };
    struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeConditional};
    RUNS(cudaHostAlloc((void **)&r.stop, sizeof(int), cudaHostAllocMapped));
    *r.stop = 0;
    a.stop  = r.stop;
    RUNS(cudaGraphCreate(&g, 0));
    RUNS(cudaGraphConditionalHandleCreate(&p.conditional.handle, g, 1, cudaGraphCondAssignDefault));
    a.loop             = p.conditional.handle;
    p.conditional.type = cudaGraphCondTypeWhile;
    p.conditional.size = 1;
    RUNS(cudaGraphAddNode(&loop, g, NULL, NULL, 0, &p));
    body = p.conditional.phGraph_out[0];
    RUNS(cudaStreamBeginCaptureToGraph(r.b.s, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
    RUNS(cudaLaunchKernelExC(&c, sim_test_reply(), args));
    RUNS(cudaStreamEndCapture(r.b.s, NULL));
    RUNS(cudaGraphAddMemcpyNode1D(&copy, g, &loop, 1, r.b.host + N - 1, r.b.device, sizeof(int),
                                  cudaMemcpyDeviceToHost));
    RUNS(cudaGraphInstantiate(&r.x, g, 0));
    RUNS(cudaGraphDestroy(g));
    return r;
}

static void start(const Reply *r) {
    memset(r->b.host, 0, N * sizeof(int));
    *r->stop = 0;
    RUNS(cudaMemsetAsync(r->b.device, 0, sizeof(int), r->b.s));
    RUNS(cudaGraphLaunch(r->x, r->b.s));
}

static void close_reply(Reply *r) {
    (void)cudaGraphExecDestroy(r->x);
    (void)cudaFreeHost(r->stop);
    close_fixture(&r->b);
}

/* Numbers that the loop has written so far. */
static int arrived(const Reply *r) {
    int n = 0;
    while (n < N - 1 && r->b.host[n] != 0) n++;
    return n;
}

Test(sim_loops, a_polling_host_sees_one_iteration_at_a_time) {
    Reply r = open_reply(5);
    for (int order = 0; order < 3; order++) {
        sim_sched(order, 3);
        start(&r);
        FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady); /* the memset */
        for (int i = 0; i < 5; i++) {
            cr_expect_eq(arrived(&r), i, CASE(order, i));
            FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady);
        }
        cr_expect_eq(arrived(&r), 5, CASE(order));
        cr_expect_eq(r.b.host[N - 1], 0, CASE(order));
        RUNS(cudaStreamQuery(r.b.s)); /* the copy after the loop */
        cr_expect_eq(r.b.host[N - 1], 5, CASE(order));
    }
    cr_expect_eq(sim_stats().while_iters, 15u);
    (void)cudaGetLastError();
    close_reply(&r);
}

Test(sim_loops, the_host_can_stop_a_loop_between_iterations) {
    Reply r = open_reply(50);
    start(&r);
    while (arrived(&r) < 3) FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady);
    *r.stop = 1;
    RUNS(cudaStreamSynchronize(r.b.s));
    cr_expect_eq(arrived(&r), 4);
    cr_expect_eq(r.b.host[N - 1], 4);
    start(&r);
    FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady);
    FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady);
    RUNS(cudaStreamSynchronize(r.b.s)); /* runs the rest at once */
    cr_expect_eq(arrived(&r), 50);
    close_reply(&r);
}

Test(sim_loops, a_fault_ends_a_loop) {
    Reply r = open_reply(50);
    start(&r);
    sim_fault(4, cudaErrorLaunchTimeout);
    cudaError_t e = cudaErrorNotReady;
    while (e == cudaErrorNotReady) e = cudaStreamQuery(r.b.s);
    cr_expect_eq(e, cudaErrorLaunchTimeout);
    cr_expect_eq(arrived(&r), 3);
    sim_reset_faults();
    start(&r);
    RUNS(cudaStreamSynchronize(r.b.s));
    cr_expect_eq(arrived(&r), 50);
    close_reply(&r);
}

/* ---- kernels that hang ---- */

/* The exit status of a child that makes the call while a kernel hangs. */
#define ENDS_THE_PROCESS(call)                                                                                         \
    do {                                                                                                               \
        int         status_;                                                                                           \
        const pid_t child_ = fork();                                                                                   \
        if (child_ == 0) {                                                                                             \
            (void)(call);                                                                                              \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        cr_assert_eq(waitpid(child_, &status_, 0), child_, "%s", #call);                                               \
        cr_expect(WIFEXITED(status_) && WEXITSTATUS(status_) == 99, "%s returns", #call);                              \
    } while (0)

Test(sim_loops, a_kernel_hangs_until_it_is_released) {
    for (int lazy = 0; lazy < 2; lazy++) {
        Fixture      b = open_fixture(), other = open_fixture();
        cudaEvent_t  e;
        cudaStream_t later;
        RUNS(cudaEventCreate(&e));
        RUNS(cudaStreamCreateWithFlags(&later, cudaStreamNonBlocking));
        sim_async(lazy);
        memset(b.host, 0, N * sizeof(int));
        sim_hang("add", 1);
        RUNS(enqueue(&b));
        RUNS(cudaEventRecord(e, b.s));
        RUNS(cudaStreamWaitEvent(later, e, 0));
        for (int i = 0; i < 5; i++) {
            FAILS(cudaStreamQuery(b.s), cudaErrorNotReady);
            FAILS(cudaEventQuery(e), cudaErrorNotReady);
            FAILS(cudaStreamQuery(later), cudaErrorNotReady);
        }
        cr_expect_eq(sim_hanging(), 1u, CASE(lazy));
        cr_expect_eq(b.device[0], 7, CASE(lazy)); /* the kernel before has ended */
        cr_expect_eq(b.host[0], 0, CASE(lazy));   /* the copy behind it has not begun */
        ENDS_THE_PROCESS(cudaStreamSynchronize(b.s));
        ENDS_THE_PROCESS(cudaStreamSynchronize(later));
        ENDS_THE_PROCESS(cudaEventSynchronize(e));
        ENDS_THE_PROCESS(cudaDeviceSynchronize());
        ENDS_THE_PROCESS(cudaFree(other.device));
        ENDS_THE_PROCESS(cudaFreeHost(other.host));
        RUNS(enqueue(&other)); /* another stream goes on */
        RUNS(cudaStreamSynchronize(other.s));
        expect_result(&other);
        sim_release();
        cr_expect_eq(sim_hanging(), 0u, CASE(lazy));
        RUNS(cudaStreamSynchronize(later));
        expect_result(&b);
        RUNS(cudaEventDestroy(e));
        RUNS(cudaStreamDestroy(later));
        RUNS(cudaFree(other.device));
        RUNS(cudaFreeHost(other.host));
        RUNS(cudaStreamDestroy(other.s));
        close_fixture(&b);
    }
    (void)cudaGetLastError();
}

/* The third iteration hangs: the tokens before are there, and the loop goes on from there. */
Test(sim_loops, a_loop_hangs_until_it_is_released) {
    Reply r = open_reply(5);
    start(&r);
    sim_hang(NULL, 3);
    for (int i = 0; i < 20; i++) FAILS(cudaStreamQuery(r.b.s), cudaErrorNotReady);
    cr_expect_eq(arrived(&r), 2);
    ENDS_THE_PROCESS(cudaStreamSynchronize(r.b.s));
    sim_release();
    RUNS(cudaStreamSynchronize(r.b.s));
    cr_expect_eq(arrived(&r), 5);
    cr_expect_eq(sim_stats().while_iters, 5u);
    (void)cudaGetLastError();
    close_reply(&r);
}
