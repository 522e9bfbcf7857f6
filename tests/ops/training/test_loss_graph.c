/* A training step as a graph: cross entropy, its gradient, clipping and AdamW, which change states in place. Learning
 * rate and step number are inputs (I4), so one plan serves all steps. The reference is the same step in double. Also
 * the refusals of the shape rules of these ops. Device: REPRISE_DEVICE (CPU, simulated device or GPU). */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include <math.h>

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

enum { VOCAB = 7, ROWS = 3, N = VOCAB * ROWS, STEPS = 25 };

static const float   MAX_NORM      = 0.5f;
static const int32_t targets[ROWS] = {2, -1, 6};

typedef struct Net {
    ComputeGraph *g;
    ExecPlan     *plan;
    TensorNode   *logits, *m, *v, *sums, *targets, *dy, *lr, *step, *losses;
} Net;

/* The logits themselves are what is learned. */
static Net new_net(void) {
    Net              n    = {.g = rp_graph_new()};
    const RpOpParams norm = {.grad_norm = {.first = 1}}, clip = {.grad_clip = {.max_norm = MAX_NORM}};
    const RpOpParams adamw = {
        .adamw = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f}
    };
    n.logits              = rp_graph_state(n.g, "logits", RP_F32, NE(VOCAB, ROWS, 1, 1));
    n.m                   = rp_graph_state(n.g, "m", RP_F32, NE(VOCAB, ROWS, 1, 1));
    n.v                   = rp_graph_state(n.g, "v", RP_F32, NE(VOCAB, ROWS, 1, 1));
    n.sums                = rp_graph_state(n.g, "sums", RP_F32, NE(RP_GRAD_NORM_FLOATS, 1, 1, 1));
    TensorNode *log_probs = rp_graph_state(n.g, "log_probs", RP_F32, NE(VOCAB, ROWS, 1, 1));
    n.targets             = rp_graph_input(n.g, "targets", RP_I32, NE(ROWS, 1, 1, 1));
    n.dy                  = rp_graph_input(n.g, "dy", RP_F32, NE(ROWS, 1, 1, 1));
    n.lr                  = rp_graph_input(n.g, "lr", RP_F32, NE(1, 1, 1, 1));
    n.step                = rp_graph_input(n.g, "step", RP_I32, NE(1, 1, 1, 1));
    n.losses = rp_graph_op(n.g, RP_OP_CROSS_ENTROPY, NULL, (TensorNode *[]){n.logits, n.targets, log_probs}, 3);
    TensorNode *d =
        rp_graph_op(n.g, RP_OP_CROSS_ENTROPY_BACKWARD, NULL, (TensorNode *[]){n.logits, n.targets, n.dy}, 3);
    TensorNode *s = rp_graph_op(n.g, RP_OP_GRAD_NORM, &norm, (TensorNode *[]){d, n.sums}, 2);
    TensorNode *c = rp_graph_op(n.g, RP_OP_GRAD_CLIP, &clip, (TensorNode *[]){d, s}, 2);
    (void)rp_graph_op(n.g, RP_OP_ADAMW, &adamw, (TensorNode *[]){c, n.logits, n.m, n.v, n.lr, n.step}, 6);
    OK(rp_graph_finish(n.g, &n.losses, 1));
    OK(rp_plan_new(n.g, &n.plan));
    return n;
}

static float rate_of(int step) { return 0.1f / (float)step; }

/* The losses of one row before the step; the gradient. */
static double row_in_double(const double *x, int target, double dy, double *dx) {
    double sum = 0.0;
    for (int i = 0; i < VOCAB; i++) sum += exp(x[i]);
    for (int i = 0; i < VOCAB; i++) dx[i] = target < 0 ? 0.0 : (exp(x[i]) / sum - (i == target ? 1.0 : 0.0)) * dy;
    return target < 0 ? 0.0 : log(sum) - x[target];
}

static void step_in_double(double *p, double *m, double *v, double *losses, int step) {
    const double b1 = (double)0.9f, b2 = (double)0.99f, lr = (double)rate_of(step);
    double       g[N], squares = 0.0;
    for (int t = 0; t < ROWS; t++) losses[t] = row_in_double(p + VOCAB * t, targets[t], 0.5, g + VOCAB * t);
    for (int i = 0; i < N; i++) squares += g[i] * g[i];
    const double clip = fmin(1.0, (double)MAX_NORM / (sqrt(squares) + 1e-6));
    for (int i = 0; i < N; i++) {
        p[i] *= 1.0 - lr * (double)0.1f;
        m[i] = b1 * m[i] + (1.0 - b1) * g[i] * clip;
        v[i] = b2 * v[i] + (1.0 - b2) * g[i] * clip * g[i] * clip;
        p[i] -= lr / (1.0 - pow(b1, step)) * m[i] / (sqrt(v[i] / (1.0 - pow(b2, step))) + 1e-8);
    }
}

static void set_inputs(RpExecutor *e, const Net *n, int step) {
    const float lr = rate_of(step);
    memcpy(rp_executor_data(e, n->targets), targets, sizeof targets);
    memcpy(rp_executor_data(e, n->dy), (float[ROWS]){0.5f, 0.5f, 0.5f}, ROWS * sizeof(float));
    memcpy(rp_executor_data(e, n->lr), &lr, sizeof lr);
    memcpy(rp_executor_data(e, n->step), &(int32_t){step}, sizeof(int32_t));
}

static void expect_floats_near(const float *got, const double *want, int n, double tolerance) {
    for (int i = 0; i < n; i++)
        cr_assert(fabs((double)got[i] - want[i]) <= tolerance, "element %d is %.9g, not %.9g", i, (double)got[i],
                  want[i]);
}

Test(loss_graph, trains_as_the_reference_in_every_mode) {
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Net         net  = new_net();
        double      p[N] = {0}, m[N] = {0}, v[N] = {0}, losses[ROWS], first = 0.0;
        float       got[N];
        RpExecutor *e;
        OK(rp_executor_open(net.plan, &(RpExecutorOptions){.n_threads = 2, .mode = (RpExecMode)mode}, &e));
        for (int step = 1; step <= STEPS; step++) {
            set_inputs(e, &net, step);
            OK(rp_executor_run(e));
            step_in_double(p, m, v, losses, step);
            expect_floats_near(rp_executor_data(e, net.losses), losses, ROWS, 1e-5);
            if (step == 1) first = losses[0];
        }
        OK(rp_executor_get(e, net.logits, got, sizeof got));
        expect_floats_near(got, p, N, 1e-5);
        cr_expect_lt(losses[0], 0.7 * first, CASE(mode));
        rp_executor_free(e);
        rp_plan_free(net.plan);
        rp_graph_free(net.g);
    }
}

/* ---- refusals ---- */

static TensorNode *in(ComputeGraph *g, RpDtype dtype, int64_t n0, int64_t n1) {
    return rp_graph_input(g, "x", dtype, NE(n0, n1, 1, 1));
}

static TensorNode *state(ComputeGraph *g, int64_t n0, int64_t n1) {
    return rp_graph_state(g, "s", RP_F32, NE(n0, n1, 1, 1));
}

static void refused(TensorOp op, RpOpParams params, TensorNode *(*sources)(ComputeGraph *, int), int n,
                    const char *text) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *src[RP_MAX_SRC], *y;
    for (int i = 0; i < n; i++) src[i] = sources(g, i);
    y = rp_graph_op(g, op, &params, src, n);
    cr_assert_neq(rp_graph_finish(g, &y, 1), RP_OK, "%s", text);
    cr_assert_not_null(strstr(rp_last_error(), text), "\"%s\" does not say \"%s\"", rp_last_error(), text);
    rp_graph_free(g);
}

static TensorNode *two_targets(ComputeGraph *g, int i) {
    return i == 1 ? in(g, RP_I32, 2, 1) : in(g, RP_F32, i == 0 ? 5 : 3, i == 0 ? 3 : 1);
}
static TensorNode *short_dy(ComputeGraph *g, int i) {
    return i == 0 ? in(g, RP_F32, 5, 3) : in(g, i == 1 ? RP_I32 : RP_F32, i == 1 ? 3 : 2, 1);
}
static TensorNode *short_log_probs(ComputeGraph *g, int i) {
    return i == 0 ? in(g, RP_F32, 5, 3) : i == 1 ? in(g, RP_I32, 3, 1) : state(g, 5, 2);
}
static TensorNode *floats(ComputeGraph *g, int i) { return in(g, RP_F32, 5 - i, 3); }
static TensorNode *vectors(ComputeGraph *g, int i) { return in(g, RP_F32, 5 - i, 1); }
static TensorNode *ids(ComputeGraph *g, int i) { return (void)i, in(g, RP_I32, 2, 3); }
static TensorNode *short_sums(ComputeGraph *g, int i) { return i == 0 ? in(g, RP_F32, 5, 3) : state(g, 5, 1); }
static TensorNode *three_weights(ComputeGraph *g, int i) {
    return in(g, i == 0 ? RP_I32 : RP_F32, i == 0 ? 2 : 3, 2 - i);
}
static TensorNode *adamw_with_short_v(ComputeGraph *g, int i) {
    return i > 3 ? in(g, i == 4 ? RP_F32 : RP_I32, 1, 1) : state(g, 5, i == 3 ? 2 : 3);
}

Test(loss_graph, refuses_other_shapes) {
    const RpOpParams none = {0}, tokens = {.aux_loss_backward = {.tokens = 3}},
                     negative = {.grad_clip = {.max_norm = -1.0f}};
    const RpOpParams beta = {.adamw = {.beta1 = 1.0f}}, eps = {.adamw = {.eps = -1.0f}};
    refused(RP_OP_CROSS_ENTROPY, none, two_targets, 2, "targets must be i32, one per row of logits");
    refused(RP_OP_CROSS_ENTROPY, none, ids, 2, "the logits must be an f32 matrix of contiguous rows");
    refused(RP_OP_CROSS_ENTROPY, none, short_log_probs, 3,
            "log_probs must be contiguous f32 of the shape of the logits");
    refused(RP_OP_CROSS_ENTROPY_BACKWARD, none, short_dy, 3, "dy must be f32, one per row of logits");
    refused(RP_OP_EXPERT_LOAD, none, ids, 1, "there must be at least one expert");
    refused(RP_OP_EXPERT_LOAD, (RpOpParams){.expert_load = {.experts = 2}}, floats, 1,
            "the ids must be contiguous i32 [k, tokens]");
    refused(RP_OP_EXPERT_LOAD, (RpOpParams){.expert_load = {.experts = 2}}, three_weights, 2,
            "the weights must be f32, one per token");
    refused(RP_OP_AUX_LOSS, none, floats, 2, "the load must be f32, one per expert");
    refused(RP_OP_AUX_LOSS, none, ids, 2, "the probabilities must be a contiguous f32 matrix");
    refused(RP_OP_AUX_LOSS_BACKWARD, none, vectors, 2, "there must be at least one token");
    refused(RP_OP_AUX_LOSS_BACKWARD, tokens, floats, 2, "the load must be an f32 vector");
    refused(RP_OP_AUX_LOSS_BACKWARD, tokens, vectors, 2, "dy must be one f32");
    refused(RP_OP_GRAD_NORM, none, short_sums, 2, "the state must be f32 [RP_GRAD_NORM_FLOATS]");
    refused(RP_OP_GRAD_NORM, none, ids, 2, "the gradient must be contiguous f32");
    refused(RP_OP_GRAD_CLIP, none, floats, 2, "the norm must be the first of an f32 vector");
    refused(RP_OP_GRAD_CLIP, none, ids, 2, "the gradient must be contiguous f32");
    refused(RP_OP_GRAD_CLIP, negative, vectors, 2, "max_norm must not be negative");
    refused(RP_OP_ADAMW, none, adamw_with_short_v, 4, "lr must be a source, one f32");
    refused(RP_OP_ADAMW, none, adamw_with_short_v, 5, "step must be a source, one i32");
    refused(RP_OP_ADAMW, none, adamw_with_short_v, 6, "grad, param, m and v must be contiguous f32 of one shape");
    refused(RP_OP_ADAMW, beta, adamw_with_short_v, 6, "beta1 and beta2 must be from 0 to below 1");
    refused(RP_OP_ADAMW, eps, adamw_with_short_v, 6, "eps and weight_decay must not be negative");
}
