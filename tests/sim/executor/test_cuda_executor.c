/* Whole tiny models on the simulated device against the CPU: every node from the same sources (verify), and
 * logits after several tokens. Eager runs and replays must have the same bits, in every thread order. */
#include "tests/support/tiny.h"

#include "sim/device/sim.h"

#include <math.h>

enum { N_TOKENS = 6, N_CTX = 32, MAX_VOCAB = 128 };

typedef struct Decoder {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec, *eager; /* share their states */
} Decoder;

static void open_decoder(const RpModel *m, const char *passes, RpDtype kv, Decoder *d) {
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .kv_type = kv}, &d->graph));
    OK(rp_graph_optimize(d->graph, passes));
    OK(rp_plan_new(d->graph, &d->plan));
    OK(rp_executor_open(d->plan, &(RpExecutorOptions){.device = "cuda", .require_graph = true}, &d->exec));
    OK(rp_executor_open(d->plan, &(RpExecutorOptions){.share = d->exec, .mode = RP_MODE_EAGER}, &d->eager));
}

static void close_decoder(Decoder *d) {
    rp_executor_free(d->eager);
    rp_executor_free(d->exec);
    rp_plan_free(d->plan);
    rp_graph_free(d->graph);
}

static void set_inputs(Decoder *d, RpExecutor *e, int32_t token, int32_t pos) {
    *(int32_t *)rp_executor_data(e, rp_graph_find(d->graph, "tokens"))   = token;
    *(int32_t *)rp_executor_data(e, rp_graph_find(d->graph, "pos"))      = pos;
    *(int32_t *)rp_executor_data(e, rp_graph_find(d->graph, "out_rows")) = 0;
}

static const float *step(Decoder *d, int32_t token, int32_t pos, RpExecMode mode) {
    RpExecutor *e = mode == RP_MODE_EAGER ? d->eager : d->exec;
    set_inputs(d, e, token, pos);
    OK(rp_executor_poison(e));
    OK(rp_executor_run(e));
    return rp_executor_data(e, rp_graph_find(d->graph, "logits"));
}

/* Logits differ from the CPU's by at most `tolerance` times their root mean square. Eager and replay alternate,
 * and give the same bits in every thread order. */
static void check_model(const char *name, const char *passes, RpDtype kv, double tolerance) {
    static float first[N_TOKENS][MAX_VOCAB];
    char         path[1024];
    RpModel     *m;
    RpSession   *s;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    cr_assert_leq(n_vocab, (size_t)MAX_VOCAB);
    double worst = 0.0;
    for (int order = 0; order < 3; order++) {
        Decoder d;
        sim_sched(order, 7);
        open_decoder(m, passes, kv, &d);
        OK(rp_session_open(
            m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .passes = passes, .kv_type = kv, .device = "cpu"},
            &s));
        for (int i = 0; i < N_TOKENS; i++) {
            const int32_t token  = 3 + 5 * i;
            const float  *logits = step(&d, token, i, i % 2 == order % 2 ? RP_MODE_EAGER : RP_MODE_REPLAY);
            OK(rp_session_step(s, token));
            double spread = 0.0;
            for (size_t k = 0; k < n_vocab; k++) {
                spread += pow((double)rp_session_logits(s)[k], 2.0) / (double)n_vocab;
                worst = fmax(worst, fabs((double)logits[k] - (double)rp_session_logits(s)[k]) / sqrt(spread));
            }
            if (order == 0) memcpy(first[i], logits, n_vocab * sizeof *logits);
            cr_expect_arr_eq(logits, first[i], n_vocab * sizeof *logits, "%s: token %d in order %d has other bits",
                             name, i, order);
        }
        rp_session_free(s);
        close_decoder(&d);
    }
    cr_log_info("%s %s: CUDA off by %g of the RMS", name, passes, worst);
    cr_expect_leq(worst, tolerance, "%s: off by %g", name, worst);
    rp_model_free(m);
}

static const char *const some[] = {"llama-f32",      "llama-mix",    "llama-mix-k",   "llama-yarn",
                                   "qwen2-mix",      "qwen3-mix-k",  "gemma3-f32",    "gemma3-mix",
                                   "mixtral-mix",    "qwen2moe-f32", "qwen3moe-f32",  "olmoe-f32",
                                   "granitemoe-f32", "gpt-oss-f32",  "gpt-oss-mxfp4", "deepseek2-f32"};
static const TinyNames  *models(void) { return tiny_families(some, sizeof some / sizeof some[0]); }

/* Differences are relative to the node's largest result. */
static bool compare_step(const TensorNode *node, const RpTensorView *view, const void *cuda, const void *cpu,
                         void *user) {
    double      *worst = user;
    size_t       at    = 0;
    const double off   = rp_verify_difference(node, view, cuda, cpu, &at);
    cr_expect(off <= 1e-5, "%s '%s': element %zu of %s is off by %g of the largest", rp_node_op_name(node),
              rp_node_name(node), at, rp_dtype_name(view->dtype), off);
    *worst = fmax(*worst, off);
    return true;
}

static void verify_model(const char *name, const char *passes, RpDtype kv) {
    char     path[1024];
    RpModel *m;
    Decoder  d;
    double   worst = 0.0;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    sim_sched(2, 3);
    open_decoder(m, passes, kv, &d);
    for (int i = 0; i < N_TOKENS; i++) {
        set_inputs(&d, d.exec, 3 + 5 * i, i);
        OK(rp_executor_verify(d.exec, compare_step, &worst));
    }
    cr_log_info("%-16s %s: nodes off by at most %g", name, passes, worst);
    close_decoder(&d);
    rp_model_free(m);
}

Test(cuda_executor, computes_every_node_as_the_cpu_does) {
    for (int i = 0; i < models()->n; i += SIM_EACH) verify_model(models()->name[i], "", RP_F16);
    verify_model("llama-mix", "-all", RP_F16);
    verify_model("qwen3-f32", "", RP_Q8_0);
    verify_model("gpt-oss-mxfp4", "", RP_Q8_0);
    verify_model("gpt-oss-f32", "-all", RP_F16);
}

/* A run of single steps has the bits of a replay, and each result can be read when it has been computed. */
Test(cuda_executor, runs_in_parts) {
    char     path[1024];
    RpModel *m;
    Decoder  d;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/llama-mix.gguf");
    OK(rp_model_open(path, NULL, &m));
    open_decoder(m, "", RP_F16, &d);
    const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
    for (int i = 0; i < 2; i++) {
        float whole[MAX_VOCAB], last[MAX_VOCAB];
        memcpy(whole, step(&d, 3 + i, i, RP_MODE_REPLAY), bytes);
        set_inputs(&d, d.eager, 3 + i, i);
        OK(rp_executor_poison(d.eager));
        for (int k = 0; k < rp_plan_memory(d.plan).n_steps; k++) {
            const TensorNode  *node = rp_plan_step_node(d.plan, k);
            const RpTensorView view = rp_node_view(node);
            unsigned char     *got  = malloc(rp_view_extent_bytes(&view));
            OK(rp_executor_run_steps(d.eager, k, k + 1));
            OK(rp_executor_read(d.eager, node, got, rp_view_extent_bytes(&view)));
            for (size_t e = 0; view.dtype == RP_F32 && e < (size_t)rp_view_elems(&view); e++)
                cr_assert(isfinite(((const float *)(const void *)got)[e]), "'%s': element %zu", rp_node_name(node), e);
            free(got);
        }
        OK(rp_executor_read(d.eager, rp_graph_find(d.graph, "logits"), last, bytes));
        cr_assert_arr_eq(last, whole, bytes, "token %d: the last step", i);
        cr_assert_arr_eq(rp_executor_data(d.eager, rp_graph_find(d.graph, "logits")), whole, bytes, "token %d: output",
                         i);
    }
    close_decoder(&d);
    rp_model_free(m);
}

/* Differences of 1e-7 per node grow, and a key or an activation near a tie may round the other way. That
 * changes logits by a few hundredths of their RMS, about as much as 8-bit activations do at all. */
Test(cuda_executor, decodes_every_family_as_the_cpu_does) {
    for (int i = 0; i < models()->n; i += SIM_EACH) check_model(models()->name[i], "-quantize", RP_F16, 0.05);
    check_model("llama-mix", "-all", RP_F16, 0.05);
    check_model("qwen3-f32", "-quantize", RP_Q8_0, 0.05);
    check_model("llama-q8_0", "", RP_F16, 0.2);
    check_model("llama-mix-k", "", RP_F16, 0.4); /* one activation that rounds the other way, and its consequences */
}

/* Replays five steps, then runs one kernel by kernel. *n_nodes: steps of the plan. Returns the kernels of a step. */
static unsigned long kernels_of_a_step(const char *path, unsigned long *n_nodes) {
    RpModel *m;
    Decoder  d;
    OK(rp_model_open(path, NULL, &m));
    open_decoder(m, "", RP_F16, &d);
    *n_nodes = (unsigned long)rp_plan_memory(d.plan).n_steps;
    sim_stats_reset();
    for (int i = 0; i < 5; i++) {
        set_inputs(&d, d.exec, 4, i);
        OK(rp_executor_run(d.exec));
    }
    const SimStats replay = sim_stats();
    sim_stats_reset();
    set_inputs(&d, d.eager, 4, 5);
    OK(rp_executor_run(d.eager));
    const unsigned long kernels = sim_stats().launch_calls;
    cr_expect_eq(replay.graph_launches, 5u);
    cr_expect_eq(replay.launch_calls, 0u);
    cr_expect_eq(replay.kernels, 5u * kernels);
    cr_expect_eq(replay.captures + replay.instantiates, 0u);
    close_decoder(&d);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    rp_model_free(m);
    return kernels;
}

Test(cuda_executor, replays_with_one_launch_and_captures_nothing_after_open) {
    unsigned long nodes, kernels = kernels_of_a_step(GOLDEN_DIR "tiny/mixtral-f32.gguf", &nodes);
    cr_expect_eq(kernels, nodes, "one kernel for each node");
    kernels = kernels_of_a_step(GOLDEN_DIR "tiny/mixtral-mix.gguf", &nodes);
    cr_expect_gt(kernels, nodes, "a kernel for each type in qkv, two for a quantised router");
}

/* A plane holds one field of all blocks of a tensor, so a slice of rows is not a tensor on the device. */
Test(cuda_executor, refuses_a_slice_of_a_quantised_weight) {
    static char        blocks[8 * 34];
    const RpTensorView w    = rp_view_contiguous(RP_Q8_0, (int64_t[]){32, 8, 1, 1}, blocks);
    ComputeGraph      *g    = rp_graph_new();
    TensorNode        *x    = rp_graph_input(g, "x", RP_F32, (int64_t[]){32, 1, 1, 1});
    TensorNode        *half = rp_view(g, rp_graph_weight(g, "w", &w),
                                      &(RpViewParams){
                                          .ne = {32, 4,  1,      1     },
                                            .nb = {0,  34, 4 * 34, 4 * 34},
                                            .offset = 4 * 34
    });
    TensorNode        *y    = rp_mul_mat(g, half, x);
    ExecPlan          *plan;
    RpExecutor        *e;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    REFUSED(rp_executor_open(plan, &(RpExecutorOptions){.device = "cuda"}, &e), RP_E_UNSUPPORTED,
            "[32,4,1,1] is a part of a q8_0 weight: on the device these can be used whole only");
    rp_plan_free(plan);
    rp_graph_free(g);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(cuda_executor, refuses_a_graph_in_mode_eager) {
    const RpExecutorOptions o = {.device = "cuda", .mode = RP_MODE_EAGER, .require_graph = true};
    RpModel                *m;
    RpExecutor             *e;
    Decoder                 d;
    OK(rp_model_open(GOLDEN_DIR "tiny/llama-f32.gguf", NULL, &m));
    open_decoder(m, "", RP_F16, &d);
    REFUSED(rp_executor_open(d.plan, &o, &e), RP_E_ARG, "mode eager, and a graph is required");
    close_decoder(&d);
    rp_model_free(m);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}
