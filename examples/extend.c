/* A custom op and a custom pattern, without touching the library.
 *
 *     relu(x)                     a custom op
 *     mul(relu(x), y)             rewritten by the pattern to relu_mul(x, y), one step instead of two
 *
 * main runs the graph with the pattern switched off and on, and compares: one step less, the same results. */
#include "reprise/extend.h"
#include "reprise/executor.h"

#include <stdio.h>
#include <string.h>

enum { N = 8 };

/* Shape rule: the result has shape and dtype of the first source; a second one must have the same shape. */
static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    const RpTensorView *x = in->binary.a, *by = in->binary.b;
    (void)params;
    if (x->dtype != RP_F32 || (by != NULL && by->dtype != RP_F32)) return *why = "the sources must be f32", RP_E_DTYPE;
    if (!rp_view_is_contiguous(x) || (by != NULL && !rp_view_is_contiguous(by)))
        return *why = "the sources must be contiguous", RP_E_SHAPE;
    if (by != NULL && memcmp(x->ne, by->ne, sizeof x->ne) != 0) return *why = "the sources differ in shape", RP_E_SHAPE;
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

/* y = max(x, 0), or max(x, 0) * by with a second source. Both ops use this kernel. Worker ith of nth computes elements
 * n*ith/nth up to n*(ith+1)/nth; the split depends on the shape only (I5). */
static RpStatus relu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float  *x = args->binary.a.data, *by = args->binary.b.data;
    float        *y = args->dst.data;
    const int64_t n = rp_view_elems(&args->dst), end = n * (ctx->ith + 1) / ctx->nth;
    for (int64_t i = n * ctx->ith / ctx->nth; i < end; i++)
        y[i] = (x[i] > 0.0f ? x[i] : 0.0f) * (by != NULL ? by[i] : 1.0f);
    return RP_OK;
}

static const RpOpDescription relu_op = {
    .name = "relu", .n_required = 1, .n_sources = 1, .shape = like_first, .flags = RP_FLAG_INPLACE, .cpu = relu};
static const RpOpDescription relu_mul_op = {
    .name = "relu_mul", .n_required = 2, .n_sources = 2, .shape = like_first, .flags = RP_FLAG_FUSED, .cpu = relu};
static const RpGraphPattern relu_mul_pattern = {
    .name = "relu_mul", .help = "relu(x) * y in one step", .match = "mul(relu(x), y)", .make = "relu_mul(x, y)"};

typedef struct Result {
    int   n_steps;
    float y[N];
} Result;

/* y = relu(x) * (0.5 x) for x = -4 .. 3. */
static RpStatus run(ComputeGraph *g, TensorOp relu_id, const char *passes, Result *out) {
    TensorNode *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){N, 1, 1, 1});
    TensorNode *y = rp_mul(g, rp_graph_op(g, relu_id, NULL, &x, 1), rp_scale(g, x, 0.5f, 0.0f));
    RP_TRY(rp_graph_finish(g, &y, 1));
    RP_TRY(rp_graph_optimize(g, passes));
    ExecPlan   *plan = NULL;
    RpExecutor *exec = NULL;
    RpStatus    st   = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu"}, &exec);
    if (st == RP_OK) {
        float *in = rp_executor_data(exec, x);
        for (int i = 0; i < N; i++) in[i] = (float)(i - N / 2);
        st = rp_executor_run(exec);
    }
    if (st == RP_OK) {
        out->n_steps = rp_graph_n_steps(g);
        memcpy(out->y, rp_executor_data(exec, y), sizeof out->y);
    }
    rp_executor_free(exec);
    rp_plan_free(plan);
    return st;
}

int main(void) {
    Result   results[2] = {0};
    TensorOp op, fused;
    RpStatus st = rp_op_register(&relu_op, &op);
    if (st == RP_OK) st = rp_op_register(&relu_mul_op, &fused);
    if (st == RP_OK) st = rp_pattern_register(&relu_mul_pattern);
    for (int i = 0; i < 2 && st == RP_OK; i++) {
        ComputeGraph *g      = rp_graph_new();
        const char   *passes = i == 0 ? "-relu_mul" : "";
        st                   = g != NULL ? run(g, op, passes, &results[i]) : rp_fail(RP_E_NOMEM, "out of memory");
        rp_graph_free(g);
        printf("%d steps:", results[i].n_steps);
        for (int k = 0; k < N; k++) printf(" %g", (double)results[i].y[k]);
        printf("\n");
    }
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    const bool fewer = results[1].n_steps == results[0].n_steps - 1;
    return st != RP_OK || !fewer || memcmp(results[0].y, results[1].y, sizeof results[0].y) != 0;
}
