/* Inputs and outputs in device memory of others: bound without a capture, one update of a node each. The reference is
 * the same executor with its own memory. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "reprise/device.h"
#include "reprise/external.h"
#include "sim/device/sim.h"

enum { N = 32, M = 16, T = 2 };

typedef struct Net {
    ComputeGraph *g;
    TensorNode   *x, *y;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Net;

static float w[N * M];

static Net open_net(RpExecMode mode) {
    Net n = {.g = rp_graph_new()};
    for (int i = 0; i < N * M; i++) w[i] = 0.01f * (float)(i % 37) - 0.1f;
    const RpTensorView view = rp_view_contiguous(RP_F32, (const int64_t[]){N, M, 1, 1}, w);
    n.x                     = rp_graph_input(n.g, "x", RP_F32, (const int64_t[]){N, T, 1, 1});
    n.y = rp_node_set_name(rp_silu(n.g, rp_mul_mat(n.g, rp_graph_weight(n.g, "w", &view), rp_silu(n.g, n.x))), "y");
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.device = "cuda", .mode = mode}, &n.exec));
    return n;
}

static void close_net(Net *n) {
    rp_executor_free(n->exec);
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
}

static void let_go(void *user) { rp_cuda_memory_free(user); }

/* A tensor in device memory, which it frees. */
static RpExternalTensor *on_device(const char *name, int64_t ne0, RpCudaMemory **memory, size_t offset) {
    RpExternalTensor *t;
    OK(rp_cuda_memory_new(0, (size_t)ne0 * T * sizeof(float) + offset, memory));
    char *data = rp_cuda_memory_data(*memory);
    OK(rp_external_new(
        &(RpExternalMemory){.name    = name,
                            .view    = rp_view_contiguous(RP_F32, (const int64_t[]){ne0, T, 1, 1}, data + offset),
                            .device  = "cuda:0",
                            .release = let_go,
                            .user    = *memory},
        &t));
    return t;
}

Test(cuda_external, device_memory_is_used_without_a_capture) {
    float x[N * T], want[M * T], y[M * T];
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Net           n = open_net((RpExecMode)mode);
        RpCudaMemory *mx, *my;
        for (int i = 0; i < N * T; i++) x[i] = 0.125f * (float)(i % 11) - 0.5f;
        memcpy(rp_executor_data(n.exec, n.x), x, sizeof x);
        OK(rp_executor_run(n.exec));
        memcpy(want, rp_executor_data(n.exec, n.y), sizeof want);
        RpExternalTensor *tx = on_device("x", N, &mx, 0), *ty = on_device("y", M, &my, 0);
        sim_stats_reset();
        OK(rp_executor_tensor_bind(n.exec, n.x, tx));
        OK(rp_executor_tensor_bind(n.exec, n.y, ty));
        const SimStats s = sim_stats();
        cr_expect_eq(s.captures + s.instantiates + s.allocs, 0ul, CASE(mode));
        cr_expect_eq(s.updates, mode == RP_MODE_REPLAY ? 2ul * (unsigned long)rp_plan_memory(n.plan).n_steps : 0ul,
                     CASE(mode));
        cr_expect_null(rp_executor_data(n.exec, n.x), CASE(mode));
        cr_expect_null(rp_executor_data(n.exec, n.y), CASE(mode));
        for (int round = 0; round < 2; round++) { /* the second input is changed on the device */
            if (round == 1) x[3] = 2.0f;
            OK(rp_cuda_memory_write(mx, 0, x, sizeof x));
            OK(rp_executor_run(n.exec));
            OK(rp_cuda_memory_read(my, 0, y, sizeof y));
            cr_expect_eq(memcmp(y, want, sizeof y) == 0, round == 0, CASE(mode, round));
        }
        OK(rp_executor_get(n.exec, n.y, want, sizeof want));
        cr_expect_arr_eq(want, y, sizeof y, CASE(mode));
        OK(rp_executor_tensor_bind(n.exec, n.x, NULL));
        OK(rp_executor_tensor_bind(n.exec, n.y, NULL));
        memcpy(rp_executor_data(n.exec, n.x), x, sizeof x);
        OK(rp_executor_run(n.exec));
        cr_expect_arr_eq(rp_executor_data(n.exec, n.y), y, sizeof y, CASE(mode));
        OK(rp_executor_tensor_bind(n.exec, n.y, ty));
        OK(rp_executor_poison(n.exec));
        OK(rp_cuda_memory_read(my, 0, y, sizeof y));
        cr_expect_neq(y[0], y[0], CASE(mode));
        rp_external_free(tx), rp_external_free(ty);
        close_net(&n);
        cr_expect_eq(sim_stats().live_allocs, 0L, CASE(mode));
    }
}

Test(cuda_external, an_update_that_fails_leaves_what_was_bound) {
    Net           n = open_net(RP_MODE_REPLAY);
    float         want[M * T];
    RpCudaMemory *mx;
    for (int i = 0; i < N * T; i++) ((float *)rp_executor_data(n.exec, n.x))[i] = 0.25f;
    OK(rp_executor_run(n.exec));
    memcpy(want, rp_executor_data(n.exec, n.y), sizeof want);
    RpExternalTensor *tx = on_device("x", N, &mx, 0);
    sim_fail("cudaGraphExecKernelNodeSetParams", 1, cudaErrorInvalidValue);
    cr_expect_eq(rp_executor_tensor_bind(n.exec, n.x, tx), RP_E_CUDA);
    cr_expect_eq(sim_fails_left(), 0u);
    OK(rp_executor_run(n.exec));
    cr_expect_arr_eq(rp_executor_data(n.exec, n.y), want, sizeof want);
    rp_external_free(tx);
    close_net(&n);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(cuda_external, memory_of_the_host_and_odd_addresses_are_refused) {
    static float      host[N * T];
    Net               n = open_net(RP_MODE_AUTO);
    RpCudaMemory     *mx;
    RpExternalTensor *t;
    OK(rp_external_new(
        &(RpExternalMemory){.name = "h", .view = rp_view_contiguous(RP_F32, (const int64_t[]){N, T, 1, 1}, host)}, &t));
    REFUSED(rp_executor_tensor_bind(n.exec, n.x, t), RP_E_ARG,
            "input 'x' f32 [32,2] of an executor on cuda:0: external tensor 'h' f32 [32,2] is memory of cpu");
    rp_external_free(t);
    t = on_device("d", N, &mx, 4);
    REFUSED(rp_executor_tensor_bind(n.exec, n.x, t), RP_E_ARG,
            "input 'x' f32 [32,2]: the address of external tensor 'd' f32 [32,2] is not a multiple of 64");
    rp_external_free(t);
    REFUSED(rp_executor_tensor(n.exec, n.y, &t), RP_E_UNSUPPORTED,
            "output 'y' of silu: its memory on cuda:0 belongs to the executor: bind a tensor to it");
    close_net(&n);
}
