/* The gate of a mixture of experts as a custom op, with a CUDA kernel that is compiled at run time and a CPU function.
 *
 *     p[e,t]    = softmax over e of scores[e,t]
 *     gate[e,t] = p[e,t] / (sum of p over the k chosen experts)    if e is one of the k largest; ties: the lower index
 *                 0                                                otherwise
 *
 * The sum of the softmax cancels, so exp(score - largest score) takes the place of p. main runs the op on the device
 * that REPRISE_DEVICE selects (default: a GPU if there is one), prints the gates, and compares with the CPU
 * function. */
#include "reprise/reprise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_EXPERTS = 40, N_TOKENS = 3, TOP_K = 4 };

/* One warp a token. `before` is an order of the experts: by score, then by index. Each round finds the first expert
 * behind the one of the round before. */
static const char gate_text[] =
    "struct Pick { float score; int e; };\n"
    "__device__ bool before(Pick a, Pick b) { return a.score > b.score || (a.score == b.score && a.e < b.e); "
    "}\n"
    "\n"
    "__global__ void moe_gate(const __grid_constant__ RpArgs a) {\n"
    "    const float *x = (const float *)rp_row(a.unary.x, blockIdx.x);\n"
    "    float       *y = (float *)rp_row(a.dst, blockIdx.x);\n"
    "    const int    n = (int)a.dst.ne[0], lane = threadIdx.x;\n"
    "    Pick         last = {INFINITY, -1}, first = last;\n"
    "    float        sum = 0.0f;\n"
    "    for (int k = 0; k < a.params.i[0]; k++) {\n"
    "        Pick best = {-INFINITY, n};\n"
    "        for (int e = lane; e < n; e += 32)\n"
    "            if (before(last, {x[e], e}) && before({x[e], e}, best)) best = {x[e], e};\n"
    "        for (int d = 16; d > 0; d /= 2) {\n"
    "            const Pick other = {__shfl_xor_sync(~0u, best.score, d), __shfl_xor_sync(~0u, best.e, d)};\n"
    "            if (before(other, best)) best = other;\n"
    "        }\n"
    "        if (k == 0) first = best;\n"
    "        last = best;\n"
    "        sum += expf(best.score - first.score);\n"
    "    }\n"
    "    for (int e = lane; e < n; e += 32)\n"
    "        y[e] = before(last, {x[e], e}) ? 0.0f : expf(x[e] - first.score) / sum;\n"
    "}\n";

/* Whether expert e comes before expert f. */
static bool before(const float *x, int64_t e, int64_t f) { return x[e] > x[f] || (x[e] == x[f] && e < f); }

/* One token; an expert is chosen if fewer than k come before it. */
static void gate_row(const float *x, int64_t n, int32_t k, float *y) {
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t e = 0; e < n; e++) largest = fmaxf(largest, x[e]);
    for (int64_t e = 0; e < n; e++) {
        int64_t n_before = 0;
        for (int64_t f = 0; f < n; f++) n_before += before(x, f, e);
        y[e] = n_before < k ? expf(x[e] - largest) : 0.0f;
        sum += y[e];
    }
    for (int64_t e = 0; e < n; e++) y[e] /= sum;
}

static RpStatus gate_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    for (int64_t t = ctx->ith; t < rp_view_rows(&args->dst); t += ctx->nth)
        gate_row((const float *)rp_view_row(&args->unary.x, t), args->dst.ne[0], args->params->custom.i[0],
                 (float *)rp_view_row(&args->dst, t));
    return RP_OK;
}

static RpStatus gate_shape(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    const RpTensorView *x = in->unary.x;
    const int32_t       k = params->custom.i[0];
    if (x->dtype != RP_F32) return *why = "the scores must be f32", RP_E_DTYPE;
    if (k < 1 || k > x->ne[0]) return *why = "from 1 expert to all can be chosen", RP_E_SHAPE;
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

/* Block b computes row b: RP_GRID_ROWS. A kernel with another layout has a launch rule instead. */
static const RpCudaSource    gate_source = {.text = gate_text, .kernel = "moe_gate", .grid = RP_GRID_ROWS, .block = 32};
static const char *const     gate_sources[] = {"scores"};
static const RpOpDescription gate_op        = {
           .name = "moe_gate", .n_required = 1, .n_sources = 1, .sources = gate_sources, .shape = gate_shape, .cpu = gate_cpu};

/* *user is the largest difference so far. */
static bool compare(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    double *largest = user;
    *largest        = fmax(*largest, rp_verify_difference(node, view, got, want, NULL));
    return true;
}

static void print_gates(const float *gates) {
    for (int t = 0; t < N_TOKENS; t++) {
        printf("token %d:", t);
        for (int e = 0; e < N_EXPERTS; e++)
            if (gates[t * N_EXPERTS + e] > 0.0f) printf("  expert %d %.4f", e, (double)gates[t * N_EXPERTS + e]);
        printf("\n");
    }
}

static RpStatus run(RpExecutor *exec, const TensorNode *scores, const TensorNode *gates) {
    const RpExecutorInfo info    = rp_executor_info(exec);
    float               *x       = rp_executor_data(exec, scores);
    double               largest = 0.0;
    printf("%s, %s\n", info.device, rp_mode_name(info.mode));
    if (info.kernels[0] != '\0') printf("%s\n", info.kernels);
    for (int i = 0; i < N_EXPERTS * N_TOKENS; i++) x[i] = 2.0f * sinf(1.7f * (float)i);
    RP_TRY(rp_executor_run(exec));
    print_gates(rp_executor_data(exec, gates));
    RP_TRY(rp_executor_verify(exec, compare, &largest));
    printf("largest difference to the CPU function: %.1e\n", largest);
    return largest < 1e-5 ? RP_OK : rp_fail(RP_E_STATE, "the kernel and the CPU function differ");
}

static RpStatus gate(ComputeGraph *g) {
    const RpOpParams params = {.custom = {.i = {TOP_K}}};
    TensorOp         op;
    ExecPlan        *plan = NULL;
    RpExecutor      *exec = NULL;
    RP_TRY(rp_op_register_source(&gate_op, &gate_source, &op));
    TensorNode *scores = rp_graph_input(g, "scores", RP_F32, (int64_t[]){N_EXPERTS, N_TOKENS, 1, 1});
    TensorNode *gates  = rp_graph_op(g, op, &params, &scores, 1);
    RP_TRY(rp_graph_finish(g, &gates, 1));
    RpStatus st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, &(RpExecutorOptions){.n_threads = 1}, &exec);
    if (st == RP_OK) st = run(exec, scores, gates);
    rp_executor_free(exec);
    rp_plan_free(plan);
    return st;
}

int main(void) {
    ComputeGraph  *g  = rp_graph_new();
    const RpStatus st = g != NULL ? gate(g) : RP_E_NOMEM;
    rp_graph_free(g);
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    return st != RP_OK;
}
