/* A step in the loop on the device gives the bits of a replayed step, for every family. Replays are compared
 * with the golden files (test_golden.c), so this extends those tests to loops. */
#include "tests/support/tiny.h"

#include "reprise/step.h"

enum { N_CTX = 32, N_TOKENS = 5 };

static const char *const some[] = {"llama-f32",   "llama-mix",      "llama-mix-k",   "llama-yarn",   "qwen2-mix",
                                   "qwen3-mix-k", "gemma3-mix",     "mixtral-mix",   "qwen2moe-f32", "qwen3moe-f32",
                                   "olmoe-f32",   "granitemoe-f32", "gpt-oss-mxfp4", "deepseek2-f32"};
static const TinyNames  *models(void) { return tiny_families(some, sizeof some / sizeof some[0]); }

typedef struct Plan {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Plan;

static Plan open_plan(const RpModel *m, bool samples, RpExecutor *share) {
    Plan              p = {0};
    RpExecutorOptions o = {.device = "cuda", .share = share, .require_graph = true};
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .draws = samples}, &p.graph));
    OK(rp_graph_optimize(p.graph, ""));
    OK(rp_plan_new(p.graph, &p.plan));
    o.step = samples ? rp_graph_find(p.graph, "step") : NULL;
    OK(rp_executor_open(p.plan, &o, &p.exec));
    cr_assert_eq(rp_executor_info(p.exec).mode, samples ? RP_MODE_LOOP : RP_MODE_REPLAY);
    return p;
}

static void close_plan(Plan *p) {
    rp_executor_free(p->exec);
    rp_plan_free(p->plan);
    rp_graph_free(p->graph);
}

static const float *replayed(Plan *p, int32_t token, int32_t pos) {
    *(int32_t *)rp_executor_data(p->exec, rp_graph_find(p->graph, "tokens"))   = token;
    *(int32_t *)rp_executor_data(p->exec, rp_graph_find(p->graph, "pos"))      = pos;
    *(int32_t *)rp_executor_data(p->exec, rp_graph_find(p->graph, "out_rows")) = 0;
    OK(rp_executor_run(p->exec));
    return rp_executor_data(p->exec, rp_graph_find(p->graph, "logits"));
}

/* One step of a greedy reply in the loop, and its logits. */
static void in_a_loop(Plan *p, int32_t token, int32_t pos, float *logits, size_t bytes) {
    RpStepState          s = {.token = token, .pos = pos, .top_p = 1.0f, .repeat_penalty = 1.0f};
    const RpReplyOptions o = {.state = (const int32_t *)&s, .n_state = RP_STEP_WORDS, .max_tokens = 1, .n_ctx = N_CTX};
    int32_t              token_out, best = 0;
    OK(rp_executor_poison(p->exec));
    OK(rp_executor_reply_begin(p->exec, &o));
    OK(rp_executor_reply_next(p->exec, &token_out));
    OK(rp_executor_reply_end(p->exec, NULL));
    OK(rp_executor_get(p->exec, rp_graph_find(p->graph, "logits"), logits, bytes));
    for (size_t i = 0; i < bytes / sizeof *logits; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    cr_expect_eq(token_out, best);
}

static void check_model(const char *name) {
    char     path[1024];
    float    logits[512];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
    cr_assert_leq(bytes, sizeof logits);
    /* A recurrent state moves on with each run, so each plan has its own. */
    const bool alone  = rp_model_info(m)->n_layer_recurrent > 0;
    Plan       replay = open_plan(m, false, NULL), reply = open_plan(m, true, alone ? NULL : replay.exec);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        in_a_loop(&reply, 3 + 5 * i, i, logits, bytes);
        cr_expect_arr_eq(replayed(&replay, 3 + 5 * i, i), logits, bytes, "%s: token %d", name, i);
    }
    close_plan(&reply);
    close_plan(&replay);
    rp_model_free(m);
}

Test(cuda_reply, a_step_in_the_loop_gives_the_bits_of_a_replay) {
    for (int i = 0; i < models()->n; i++) check_model(models()->name[i]);
}
