/* A kernel that does not end, on a GPU: one that spins until the host sets a flag. The watchdog names its node, the
 * executor can be freed while it spins, and when it has ended the device can be used again. On the simulated device
 * (cudasim_hang) the same kernel hangs by sim_hang. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "reprise/extend.h"
#include "reprise/step.h"
#include "sim/device/sim.h"

#include <time.h>

RpStatus          spin_cuda(const RpOpArgs *args, RpKernelCtx *ctx);
volatile int32_t *spin_flag(void);

enum { N = 100, N_CTX = 16, N_REPLY = 5 };
static const double LIMIT = 0.5;

static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

static RpStatus spin_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    (void)args, (void)ctx;
    return rp_fail(RP_E_UNSUPPORTED, "spin: for a GPU");
}

static const RpOpDescription spin = {
    .name = "spin", .n_required = 1, .n_sources = 1, .shape = like_first, .cpu = spin_cpu, .cuda = spin_cuda};

typedef struct Net {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *e;
    TensorNode   *x, *y, *step;
} Net;

/* before -> spins -> after; in mode loop a token is sampled from the result, the logits. */
static Net new_net(RpExecMode mode) {
    const int64_t   ne[RP_MAX_DIMS] = {N, 1, 1, 1};
    Net             n               = {.g = rp_graph_new()};
    static TensorOp op;
    if (op == 0) OK(rp_op_register(&spin, &op));
    n.x = mode == RP_MODE_LOOP ? rp_graph_state(n.g, "x", RP_F32, ne) : rp_graph_input(n.g, "x", RP_F32, ne);
    TensorNode *before = rp_node_set_name(rp_scale(n.g, n.x, 2.0f, 0.0f), "before");
    TensorNode *spins  = rp_node_set_name(rp_graph_op(n.g, op, NULL, &before, 1), "spins");
    n.y                = rp_node_set_name(rp_scale(n.g, spins, 3.0f, 0.0f), "after");
    if (mode == RP_MODE_LOOP) {
        n.step              = rp_graph_state(n.g, "step", RP_I32, (int64_t[]){RP_STEP_WORDS, 1, 1, 1});
        TensorNode *scratch = rp_graph_state(n.g, "scratch", RP_F32, (int64_t[]){2 * N, 1, 1, 1});
        (void)rp_sample(n.g, n.y, n.step, scratch);
    }
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    return n;
}

static RpStatus open_net(Net *n, RpExecMode mode) {
    return rp_executor_open(n->plan,
                            &(RpExecutorOptions){.device        = "cuda",
                                                 .mode          = mode,
                                                 .require_graph = mode > RP_MODE_EAGER,
                                                 .step          = n->step,
                                                 .watchdog_s    = LIMIT},
                            &n->e);
}

static void close_net(Net *n) {
    rp_executor_free(n->e);
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
}

static RpStatus run(Net *n) {
    float *x = rp_executor_data(n->e, n->x);
    for (int i = 0; i < N; i++) x[i] = (float)(i + 1);
    RP_TRY(rp_executor_run(n->e));
    const float *y = rp_executor_data(n->e, n->y);
    for (int i = 0; i < N; i++) cr_expect_eq(y[i], 6.0f * (float)(i + 1), CASE(i));
    return RP_OK;
}

/* All logits are 0: each token is the first one. */
static RpStatus reply(Net *n) {
    const RpStepState    s = {.top_p = 1.0f, .repeat_penalty = 1.0f};
    const RpReplyOptions o = {
        .state = (const int32_t *)&s, .n_state = RP_STEP_WORDS, .max_tokens = N_REPLY, .n_ctx = N_CTX};
    int32_t token = -1;
    RP_TRY(rp_executor_reply_begin(n->e, &o));
    for (int i = 0; i < N_REPLY; i++) {
        RP_TRY(rp_executor_reply_next(n->e, &token));
        cr_expect_eq(token, 0, CASE(i));
    }
    return rp_executor_reply_end(n->e, NULL);
}

static RpStatus use(Net *n, RpExecMode mode) { return mode == RP_MODE_LOOP ? reply(n) : run(n); }

static void check_mode(RpExecMode mode) {
    const struct timespec nap = {.tv_nsec = 1000000};
    Net                   n   = new_net(mode);
    char                  want[512];
    cr_assert_not_null((void *)(uintptr_t)spin_flag());
    OK(open_net(&n, mode));
    cr_assert_eq(rp_executor_info(n.e).mode, mode);
    OK(use(&n, mode));
    snprintf(
        want, sizeof want,
        "cuda:0: no end after 0.5 s%s: node 'spins' (spin, step 1 of %d) did not finish; the last that did is node "
        "'before' (scale, step 0 of %d)",
        mode == RP_MODE_LOOP ? " in token 1" : "", rp_plan_memory(n.plan).n_steps, rp_plan_memory(n.plan).n_steps);
    *spin_flag() = 0;
    sim_hang("spin_kernel", 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(use(&n, mode), RP_E_CUDA, "%d: %s", i, rp_last_error());
        cr_assert_str_eq(rp_last_error(), want, "%d", i);
        if (mode == RP_MODE_LOOP) cr_expect_eq(rp_executor_reply_end(n.e, NULL), i == 0 ? RP_E_CUDA : RP_OK, CASE(i));
    }
    close_net(&n);
    n = new_net(mode);
    REFUSED(open_net(&n, mode), RP_E_CUDA, "cuda:0 can be opened when an earlier run has ended");
    *spin_flag() = 1;
    sim_release();
    for (int i = 0; i < 10000 && open_net(&n, mode) != RP_OK; i++) (void)nanosleep(&nap, NULL);
    cr_assert_not_null(n.e, "%s", rp_last_error());
    OK(use(&n, mode));
    close_net(&n);
}

Test(hang, an_eager_run_is_given_up) { check_mode(RP_MODE_EAGER); }
Test(hang, a_replay_is_given_up) { check_mode(RP_MODE_REPLAY); }
Test(hang, a_loop_is_given_up) { check_mode(RP_MODE_LOOP); }
