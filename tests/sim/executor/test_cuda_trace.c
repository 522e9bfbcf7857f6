/* Traces of a GPU in each launch mode, and the NVTX ranges beside them: both have the same runs, steps and nodes. */
#include "tests/support/golden.h"

#include "tests/sim/executor/nvtx_tool.h"

#include <dlfcn.h>

enum { N_TOKENS = 6, MOST = 4096 };

typedef struct Seen {
    int          n[3], n_launches[MOST], n_steps; /* by kind; of each step */
    size_t       bytes;                           /* of the latest step */
    char         device[16];
    RpExecMode   mode;
    RpTraceEvent node; /* the latest */
} Seen;

static void on_end(const RpTraceEvent *e, void *user) {
    Seen *s = user;
    s->n[e->kind]++;
    if (e->kind == RP_TRACE_NODE) s->node = *e;
    if (e->kind != RP_TRACE_STEP) return;
    cr_assert_lt(s->n_steps, (int)MOST);
    s->n_launches[s->n_steps++] = e->n_launches;
    s->bytes                    = e->bytes_read + e->bytes_written;
    s->mode                     = e->mode;
    snprintf(s->device, sizeof s->device, "%s", e->device);
}

/* The tool is there before the first executor of a GPU is opened. */
static NvtxSeen *tool(void) {
    void *lib = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
    cr_assert_not_null(lib, "%s", dlerror());
    NvtxSeen *seen = dlsym(lib, "nvtx_seen");
    cr_assert_not_null(seen);
    return seen;
}

/* A reply of n tokens in one mode, traced. */
static Seen traced_reply(RpExecMode mode, int32_t *out, int32_t n, int *n_nodes, size_t *bytes) {
    static Seen      seen;
    RpModel         *m = golden_open_tiny("llama-mix");
    RpSession       *s;
    RpSampler       *sampler;
    RpTrace         *t;
    RpTokenList      tokens = {0};
    RpGenerateResult r;
    const int32_t    id     = 5;
    RpSamplerParams  params = rp_sampler_defaults();
    seen                    = (Seen){0};
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = n + 2, .device = "cuda", .mode = mode, .prefill_chunk = 1}, &s));
    OK(rp_sampler_new(&params, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_trace_open(&(RpTraceOptions){.end = on_end, .user = &seen}, &t));
    const RpGenerateOptions o = {.max_tokens = n, .ignore_end = true, .tokens = &tokens};
    OK(rp_generate(s, sampler, &id, 1, &o, &r));
    OK(rp_trace_close(t));
    cr_assert_eq(tokens.n, (size_t)n);
    memcpy(out, tokens.ids, sizeof(int32_t) * (size_t)n);
    *n_nodes = rp_plan_memory(rp_session_decode_plan(s)).n_steps;
    *bytes   = rp_plan_traffic_bytes(rp_session_decode_plan(s));
    rp_token_list_free(&tokens);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
    return seen;
}

Test(trace, of_a_gpu_has_launches_in_each_mode) {
    NvtxSeen *nvtx = tool();
    int32_t   want[N_TOKENS], got[N_TOKENS];
    int       n_nodes, sum = 0, in_graphs = 0;
    size_t    bytes;

    /* Each node is launched by the host. The first step is the prefill; the later ones sample too. */
    const Seen eager = traced_reply(RP_MODE_EAGER, want, N_TOKENS, &n_nodes, &bytes);
    cr_expect_str_eq(eager.device, "cuda:0");
    cr_expect_eq(eager.mode, RP_MODE_EAGER);
    cr_expect_eq(eager.n[RP_TRACE_RUN], 2); /* generate, and the prefill within it */
    cr_expect_eq(eager.n[RP_TRACE_STEP], N_TOKENS);
    cr_expect_geq(eager.n[RP_TRACE_NODE], N_TOKENS * n_nodes);
    cr_expect_geq(eager.n_launches[0], n_nodes);
    cr_expect_geq(eager.n_launches[1], eager.n_launches[0]);
    cr_expect_geq(eager.node.n_launches, 1);
    cr_expect(nvtx->n_domains == 1 && nvtx->n_categories == 3);
    for (int kind = 0; kind < 3; kind++) cr_expect_eq(nvtx->n[kind + 1], eager.n[kind], "kind %d", kind);

    const Seen replay = traced_reply(RP_MODE_REPLAY, got, N_TOKENS, &n_nodes, &bytes);
    cr_expect_arr_eq(got, want, sizeof want);
    cr_expect_eq(replay.mode, RP_MODE_REPLAY);
    cr_expect_eq(replay.n[RP_TRACE_STEP], N_TOKENS);
    cr_expect_eq(replay.n[RP_TRACE_NODE], 0);
    cr_expect_geq(replay.bytes, bytes); /* the step that samples moves the decode step's bytes and more */
    for (int i = 0; i < N_TOKENS; i++) cr_expect_eq(replay.n_launches[i], 1, "step %d", i);

    /* One launch for the prefill, and one for the reply. */
    const Seen loop = traced_reply(RP_MODE_LOOP, got, N_TOKENS, &n_nodes, &bytes);
    cr_expect_arr_eq(got, want, sizeof want);
    cr_expect_eq(loop.mode, RP_MODE_LOOP);
    for (int i = 0; i < loop.n_steps; i++) in_graphs += loop.n_launches[i];
    cr_expect(loop.n[RP_TRACE_STEP] == N_TOKENS && loop.n[RP_TRACE_NODE] == 0);
    cr_expect_eq(in_graphs, 2);
    for (int kind = 0; kind < 3; kind++) sum += eager.n[kind] + replay.n[kind] + loop.n[kind];
    cr_expect_eq(nvtx->n[1] + nvtx->n[2] + nvtx->n[3], sum);
    cr_expect(nvtx->wrong == 0 && nvtx->depth == 0, "%d wrong, depth %d", nvtx->wrong, nvtx->depth);
}

/* Other threads that free memory of the GPU wait for a launch, so a long reply takes several. */
Test(trace, a_launch_of_a_loop_is_bounded) {
    enum { LONG = 140, OF_A_LAUNCH = 128 };
    static int32_t want[LONG], got[LONG];
    int            n_nodes, in_graphs = 0;
    size_t         bytes;
    (void)tool();
    (void)traced_reply(RP_MODE_REPLAY, want, LONG, &n_nodes, &bytes);
    const Seen loop = traced_reply(RP_MODE_LOOP, got, LONG, &n_nodes, &bytes);
    cr_expect_arr_eq(got, want, sizeof want);
    for (int i = 0; i < loop.n_steps; i++) in_graphs += loop.n_launches[i];
    cr_expect_eq(in_graphs, 1 + (LONG + OF_A_LAUNCH - 1) / OF_A_LAUNCH, "%d launches", in_graphs);
}

static bool no_difference(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                          void *user) {
    (void)user;
    cr_expect_lt(rp_verify_difference(node, view, got, want, NULL), 1e-4);
    return true;
}

/* In mode replay a trace of a whole run has no nodes; traces of parts and of a verification have all of them. */
Test(trace, of_a_gpu_has_the_nodes_of_parts_and_of_a_verification) {
    static float       weights[64 * 64];
    static Seen        whole, parts, verified;
    ComputeGraph      *g = rp_graph_new();
    const RpTensorView v = rp_view_contiguous(RP_F32, (int64_t[RP_MAX_DIMS]){64, 64, 1, 1}, weights);
    TensorNode        *w = rp_graph_weight(g, "w", &v), *x = rp_graph_input(g, "x", RP_F32, v.ne);
    TensorNode        *y = rp_silu(g, rp_mul_mat(g, w, rp_silu(g, x)));
    ExecPlan          *plan;
    RpExecutor        *e;
    RpTrace           *t;
    for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i * 13 % 29) * 0.01f;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cuda", .mode = RP_MODE_REPLAY}, &e));
    memcpy(rp_executor_data(e, x), weights, sizeof weights);
    const int n     = rp_plan_memory(plan).n_steps;
    Seen     *all[] = {&whole, &parts, &verified};
    for (int i = 0; i < 3; i++) {
        OK(rp_trace_open(&(RpTraceOptions){.end = on_end, .user = all[i]}, &t));
        if (i == 0) OK(rp_executor_run(e));
        if (i == 1) OK(rp_executor_run_steps(e, 0, 1));
        if (i == 1) OK(rp_executor_run_steps(e, 1, n));
        if (i == 2) OK(rp_executor_verify(e, no_difference, NULL));
        OK(rp_trace_close(t));
        cr_expect_eq(all[i]->n[RP_TRACE_STEP], i == 1 ? 2 : 1, "%d", i);
        cr_expect_eq(all[i]->n[RP_TRACE_NODE], i == 0 ? 0 : n, "%d", i);
        cr_expect_eq(all[i]->mode, i == 0 ? RP_MODE_REPLAY : RP_MODE_EAGER, "%d", i);
    }
    cr_expect_eq(whole.n_launches[0], 1);
    cr_expect_eq(parts.n_launches[0], 1);
    cr_expect_geq(parts.n_launches[1], n - 1);
    cr_expect_eq(verified.n_launches[0], parts.n_launches[0] + parts.n_launches[1]);
    cr_expect_eq(verified.bytes, whole.bytes);
    cr_expect_lt(parts.bytes, whole.bytes); /* of the second */
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}
