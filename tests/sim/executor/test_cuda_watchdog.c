/* Runs that do not end (RpExecutorOptions.watchdog_s): a kernel of the simulated device hangs (sim_hang). The failure
 * names the nodes that the plan has there, later calls fail at once, and everything can be freed. The simulator ends
 * the process where a call would wait for ever. A limit that is not reached changes no bit. */
#include "tests/support/case.h"
#include "tests/support/decoder.h"

#include "reprise/device.h"
#include "reprise/external.h"
#include "sim/device/sim.h"

#include <math.h>

enum { N_CTX = 24, N_LOGITS = 512, N_REPLY = 4 };
static const double LIMIT = 0.02, LONG = 1000.0;

typedef struct Plan {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
    int32_t       n_tok;
    int           n_steps;
} Plan;

static Plan plan_of(const RpModel *m, int32_t n_tok, bool draws) {
    Plan p = {.n_tok = n_tok};
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = n_tok, .n_ctx = N_CTX, .draws = draws, .n_recent = 8},
                      &p.graph));
    OK(rp_graph_optimize(p.graph, ""));
    OK(rp_plan_new(p.graph, &p.plan));
    p.n_steps = rp_plan_memory(p.plan).n_steps;
    return p;
}

static RpStatus open_exec(Plan *p, RpExecMode mode, double limit, RpExecutor *share) {
    return rp_executor_open(p->plan,
                            &(RpExecutorOptions){.device        = "cuda",
                                                 .mode          = mode,
                                                 .require_graph = mode > RP_MODE_EAGER,
                                                 .share         = share,
                                                 .step          = rp_graph_find(p->graph, "step"),
                                                 .watchdog_s    = limit},
                            &p->exec);
}

static Plan open_plan(const RpModel *m, int32_t n_tok, RpExecMode mode, double limit) {
    Plan p = plan_of(m, n_tok, mode == RP_MODE_LOOP);
    OK(open_exec(&p, mode, limit, NULL));
    cr_assert_eq(rp_executor_info(p.exec).mode, mode);
    return p;
}

static void close_plan(Plan *p) {
    rp_executor_free(p->exec);
    rp_plan_free(p->plan);
    rp_graph_free(p->graph);
}

static RpStatus run(Plan *p) {
    int32_t *tokens = rp_executor_data(p->exec, rp_graph_find(p->graph, "tokens"));
    int32_t *pos    = rp_executor_data(p->exec, rp_graph_find(p->graph, "pos"));
    for (int32_t i = 0; i < p->n_tok; i++) tokens[i] = 3 + 5 * i, pos[i] = i;
    *(int32_t *)rp_executor_data(p->exec, rp_graph_find(p->graph, "out_rows")) = p->n_tok - 1;
    return rp_executor_run(p->exec);
}

static RpStatus reply(Plan *p, int32_t *out) {
    Decoder d = {.exec = p->exec};
    return decoder_reply(&d, 3, N_REPLY, out);
}

/* Kernels that run before step i, marks included. */
static unsigned kernels_before(const Plan *p, int i) {
    unsigned n = 1; /* the mark behind the inputs */
    for (int k = 0; k < i; k++) {
        RpStepLaunch l;
        OK(rp_executor_launch(p->exec, k, &l));
        n += (unsigned)l.n_kernels + 1;
    }
    return n;
}

static const char *node_text(const Plan *p, int i) {
    static char       text[2][256];
    static int        which;
    const TensorNode *node = rp_plan_step_node(p->plan, i);
    char             *out  = text[which ^= 1];
    snprintf(out, sizeof text[0], "node '%s' (%s, step %d of %d)", rp_node_name(node), rp_node_op_name(node), i,
             p->n_steps);
    return out;
}

/* The failure of step i; in: "" or " in token N". */
static const char *failure(const Plan *p, int i, const char *in) {
    static char text[1024];
    if (i == 0)
        snprintf(text, sizeof text, "cuda:0: no end after %g s%s: %s did not finish; no node did", LIMIT, in,
                 node_text(p, 0));
    else
        snprintf(text, sizeof text, "cuda:0: no end after %g s%s: %s did not finish; the last that did is %s", LIMIT,
                 in, node_text(p, i), node_text(p, i - 1));
    return text;
}

#define FAILS(expr, want)                                                                                              \
    do {                                                                                                               \
        cr_assert_eq((expr), RP_E_CUDA, "%s: \"%s\"", #expr, rp_last_error());                                         \
        cr_assert_str_eq(rp_last_error(), (want), "%s", #expr);                                                        \
    } while (0)

/* Every call answers with the failure, without waiting again. */
static void expect_broken(Plan *p, const char *want) {
    const unsigned long calls = sim_stats().api_calls;
    int32_t             token = 0;
    RpExecutorStates   *states;
    double              total, *step_ns = calloc((size_t)p->n_steps, sizeof *step_ns);
    if (p->n_tok > 0 && rp_graph_find(p->graph, "step") == NULL) FAILS(run(p), want);
    if (rp_graph_find(p->graph, "step") != NULL) FAILS(reply(p, &token), want);
    FAILS(rp_executor_run_steps(p->exec, 0, 1), want);
    FAILS(rp_executor_poison(p->exec), want);
    FAILS(rp_executor_states_new(p->exec, &states), want);
    if (rp_graph_find(p->graph, "step") == NULL) FAILS(rp_executor_profile(p->exec, 1, step_ns, &total), want);
    cr_expect_eq(sim_stats().api_calls, calls, "%lu calls of the device", sim_stats().api_calls - calls);
    free(step_ns);
}

/* The kernels go on, into memory that is still there; the device can be used again. */
static void release_and_reopen(const RpModel *m) {
    Plan p = plan_of(m, 1, false);
    REFUSED(open_exec(&p, RP_MODE_REPLAY, 0.0, NULL), RP_E_CUDA,
            "cuda:0 can be opened when an earlier run has ended, or in a new process (cuda:0: no end after ");
    sim_release();
    for (int i = 0; i < 10000 && open_exec(&p, RP_MODE_REPLAY, 0.0, NULL) != RP_OK; i++) {
    }
    cr_assert_not_null(p.exec, "%s", rp_last_error());
    OK(run(&p));
    close_plan(&p);
}

/* ---- every mode, hanging at the first, a middle and the last node ---- */

static void check_run(const RpModel *m, int32_t n_tok, RpExecMode mode) {
    Plan      p    = plan_of(m, n_tok, false);
    const int at[] = {0, p.n_steps / 2, p.n_steps - 1};
    char      want[1024];
    close_plan(&p);
    for (int k = 0; k < 3; k++) {
        p = open_plan(m, n_tok, mode, LIMIT);
        OK(run(&p));
        sim_hang(NULL, kernels_before(&p, at[k]) + 1);
        snprintf(want, sizeof want, "%s", failure(&p, at[k], ""));
        FAILS(run(&p), want);
        cr_expect_eq(sim_hanging(), 1u, CASE(mode, n_tok, k));
        expect_broken(&p, want);
        close_plan(&p);
        release_and_reopen(m);
    }
}

Test(cuda_watchdog, names_the_node_of_a_replay) {
    RpModel *m = golden_open_tiny("llama-mix");
    check_run(m, 1, RP_MODE_REPLAY);
    rp_model_free(m);
}

Test(cuda_watchdog, names_the_node_of_an_eager_run) {
    RpModel *m = golden_open_tiny("llama-mix");
    check_run(m, 1, RP_MODE_EAGER);
    rp_model_free(m);
}

Test(cuda_watchdog, names_the_node_of_a_prefill) {
    RpModel *m = golden_open_tiny("llama-mix");
    check_run(m, 8, RP_MODE_REPLAY);
    check_run(m, 8, RP_MODE_EAGER);
    rp_model_free(m);
}

/* Step n_steps is the kernel that ends the token. */
static void check_loop(const RpModel *m, int token, int step) {
    Plan           p            = open_plan(m, 1, RP_MODE_LOOP, LIMIT);
    const unsigned each         = kernels_before(&p, p.n_steps) + 1;
    int32_t        got[N_REPLY] = {-7, -7, -7, -7}, healthy[N_REPLY];
    char           in[32], want[1024];
    OK(reply(&p, healthy));
    sim_hang(NULL, (unsigned)token * each + kernels_before(&p, step) + 1);
    snprintf(in, sizeof in, " in token %d", token + 1);
    if (step < p.n_steps)
        snprintf(want, sizeof want, "%s", failure(&p, step, in));
    else
        snprintf(want, sizeof want,
                 "cuda:0: no end after %g s%s: the end of the token did not finish; the last that did is %s", LIMIT, in,
                 node_text(&p, step - 1));
    FAILS(reply(&p, got), want);
    for (int i = 0; i < N_REPLY; i++) cr_expect_eq(got[i], i < token ? healthy[i] : -7, CASE(token, step, i));
    FAILS(rp_executor_reply_end(p.exec, NULL), want);
    expect_broken(&p, want);
    close_plan(&p);
    release_and_reopen(m);
}

Test(cuda_watchdog, names_token_and_node_of_a_loop) {
    RpModel  *m = golden_open_tiny("llama-mix");
    Plan      p = plan_of(m, 1, true);
    const int n = p.n_steps;
    close_plan(&p);
    check_loop(m, 0, 0);
    check_loop(m, 0, n / 2);
    check_loop(m, 2, 0); /* the token before is there: the hang is not at its end */
    check_loop(m, 2, n - 1);
    check_loop(m, 3, n);
    rp_model_free(m);
}

/* The host ends the reply while the device has tokens that nobody has read. */
Test(cuda_watchdog, names_the_token_at_an_early_end) {
    RpModel *m = golden_open_tiny("llama-mix");
    Plan     p = open_plan(m, 1, RP_MODE_LOOP, LIMIT);
    int32_t  words[DECODER_WORDS], token;
    sim_async(0); /* the device is ahead of the host: tokens 1 to 3 are there, one is read */
    sim_hang(NULL, 3 * (kernels_before(&p, p.n_steps) + 1) + kernels_before(&p, 1) + 1);
    decoder_step(words, 3, 0);
    OK(rp_executor_reply_begin(
        p.exec, &(RpReplyOptions){.state = words, .n_state = DECODER_WORDS, .max_tokens = 9, .n_ctx = N_CTX}));
    OK(rp_executor_reply_next(p.exec, &token));
    FAILS(rp_executor_reply_end(p.exec, NULL), failure(&p, 1, " in token 4"));
    FAILS(rp_executor_run(p.exec), failure(&p, 1, " in token 4"));
    close_plan(&p);
    sim_release();
    rp_model_free(m);
}

static bool go_on(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    (void)node, (void)view, (void)got, (void)want, (void)user;
    return true;
}

/* verify launches the kernels of one step at a time, without marks. */
Test(cuda_watchdog, names_the_node_of_verify_profile_and_parts) {
    RpModel *m = golden_open_tiny("llama-mix");
    for (int what = 0; what < 3; what++) {
        Plan         p  = open_plan(m, 1, RP_MODE_REPLAY, LIMIT);
        const int    at = p.n_steps / 2;
        RpStepLaunch l;
        unsigned     before = 0;
        double       total, *step_ns = calloc((size_t)p.n_steps, sizeof *step_ns);
        OK(run(&p));
        for (int i = 0; i < at; i++) {
            OK(rp_executor_launch(p.exec, i, &l));
            before += (unsigned)l.n_kernels;
        }
        if (what == 0) sim_hang(NULL, before + 1);
        if (what == 1) sim_hang(NULL, kernels_before(&p, at) + 1);
        if (what == 2) {
            OK(rp_executor_run_steps(p.exec, 0, at - 1));
            OK(rp_executor_launch(p.exec, at - 1, &l));
            sim_hang(NULL, 1 + (unsigned)l.n_kernels + 2); /* mark, step, mark, step */
        }
        const RpStatus st = what == 0   ? rp_executor_verify(p.exec, go_on, NULL)
                            : what == 1 ? rp_executor_profile(p.exec, 1, step_ns, &total)
                                        : rp_executor_run_steps(p.exec, at - 1, p.n_steps);
        cr_expect_eq(st, RP_E_CUDA, CASE(what));
        cr_expect_str_eq(rp_last_error(), failure(&p, at, ""), "%d", what);
        free(step_ns);
        close_plan(&p);
        release_and_reopen(m);
    }
    rp_model_free(m);
}

/* ---- what is allowed afterwards ---- */

Test(cuda_watchdog, a_kernel_that_ends_late_frees_all_memory) {
    RpModel   *m      = golden_open_tiny("llama-mix");
    const long before = sim_stats().live_allocs;
    Plan       p      = open_plan(m, 1, RP_MODE_REPLAY, LIMIT);
    char       want[1024];
    sim_hang(NULL, kernels_before(&p, 3) + 1);
    snprintf(want, sizeof want, "%s", failure(&p, 3, ""));
    FAILS(run(&p), want);
    sim_release();
    FAILS(run(&p), want); /* it stays broken */
    close_plan(&p);
    cr_expect_eq(sim_stats().live_allocs, before);
    p = open_plan(m, 1, RP_MODE_REPLAY, LIMIT);
    OK(run(&p));
    close_plan(&p);
    cr_expect_eq(sim_stats().live_allocs, before);
    rp_model_free(m);
}

/* Executors that share, others on the same GPU, states, bound tensors and memory of the program: freeing any of them
 * would wait. */
Test(cuda_watchdog, nothing_on_the_gpu_waits_when_it_is_freed) {
    RpModel          *m     = golden_open_tiny("llama-mix");
    Plan              owner = open_plan(m, 4, RP_MODE_REPLAY, LIMIT), shares = plan_of(m, 1, false);
    Plan              other = open_plan(m, 1, RP_MODE_LOOP, 0.0);
    RpExecutorStates *states;
    RpCudaMemory     *memory;
    RpExternalTensor *t;
    OK(open_exec(&shares, RP_MODE_REPLAY, 0.0, owner.exec));
    OK(rp_executor_states_new(owner.exec, &states));
    OK(rp_executor_states_bind(shares.exec, states));
    const TensorNode *logits = rp_graph_find(shares.graph, "logits");
    OK(rp_cuda_memory_new(0, N_LOGITS * sizeof(float), &memory));
    OK(rp_external_new(
        &(RpExternalMemory){.name   = "logits",
                            .view   = rp_view_contiguous(RP_F32, rp_node_view(logits).ne, rp_cuda_memory_data(memory)),
                            .device = "cuda:0"},
        &t));
    OK(rp_executor_tensor_bind(shares.exec, logits, t));
    sim_hang("attention", 1);
    REFUSED(run(&shares), RP_E_CUDA, "node 'blk.0.attn' (attention, step 2 of ");
    REFUSED(run(&owner), RP_E_CUDA, "node 'blk.0.attn' (attention, step 2 of ");
    rp_external_free(t);
    rp_executor_states_free(states);
    rp_cuda_memory_free(memory);
    close_plan(&shares);
    close_plan(&owner);
    int32_t tokens[N_REPLY];
    OK(reply(&other, tokens)); /* its stream is another one */
    close_plan(&other);
    cr_expect_eq(sim_hanging(), 1u);
    release_and_reopen(m);
    rp_model_free(m);
}

/* ---- a limit that is not reached ---- */

typedef struct Healthy {
    float         logits[2][N_LOGITS];
    int32_t       tokens[N_REPLY];
    unsigned long kernels, kernels_of_one, nodes, loop_kernels, launches, pdl, copies;
} Healthy;

static Healthy healthy(const RpModel *m, RpExecMode mode, double limit) {
    Healthy h = {0};
    sim_stats_reset();
    for (int k = 0; k < 2; k++) {
        Plan         p     = open_plan(m, k == 0 ? 1 : 8, mode, limit);
        const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
        h.pdl += sim_stats().pdl_launches;
        sim_stats_reset();
        OK(run(&p));
        h.kernels += sim_stats().kernels;
        if (k == 0) h.kernels_of_one = h.kernels;
        h.nodes += sim_stats().nodes;
        h.launches += sim_stats().launch_calls + sim_stats().graph_launches;
        h.copies += sim_stats().memcpys;
        memcpy(h.logits[k], rp_executor_data(p.exec, rp_graph_find(p.graph, "logits")), bytes);
        close_plan(&p);
    }
    Plan loop = open_plan(m, 1, RP_MODE_LOOP, limit);
    sim_stats_reset();
    OK(reply(&loop, h.tokens));
    h.loop_kernels = sim_stats().kernels;
    close_plan(&loop);
    return h;
}

Test(cuda_watchdog, a_limit_that_is_not_reached_changes_no_bit) {
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Plan                one = plan_of(m, 1, false), eight = plan_of(m, 8, false), draws = plan_of(m, 1, true);
        const unsigned long marks   = (unsigned long)(one.n_steps + eight.n_steps) + 2;
        const unsigned long in_loop = N_REPLY * ((unsigned long)draws.n_steps + 1);
        close_plan(&one), close_plan(&eight), close_plan(&draws);
        const Healthy without = healthy(m, (RpExecMode)mode, 0.0), with = healthy(m, (RpExecMode)mode, LONG);
        cr_expect_arr_eq(with.logits, without.logits, sizeof with.logits, "%d", mode);
        cr_expect_arr_eq(with.tokens, without.tokens, sizeof with.tokens, "%d", mode);
        cr_expect_eq(with.kernels, without.kernels + marks, CASE(mode, with.kernels, without.kernels));
        cr_expect_eq(with.loop_kernels, without.loop_kernels + in_loop, CASE(mode, with.loop_kernels));
        cr_expect_eq(with.copies, without.copies, CASE(mode));
        if (mode == RP_MODE_REPLAY) {
            cr_expect_eq(with.nodes, without.nodes + marks, CASE(with.nodes, without.nodes));
            /* PDL goes on across marks; kernels for compute capability 7.5 and 8.0 have none */
            cr_expect_eq(with.pdl, without.pdl == 0 ? 0ul : without.pdl + marks, CASE(with.pdl, without.pdl));
            cr_expect_eq(with.launches, 2ul, CASE(mode));
        } else {
            cr_expect_eq(with.launches, without.launches + marks, CASE(with.launches, without.launches));
        }
        cr_assert_eq(setenv("REPRISE_WATCHDOG", "0", 1), 0, CASE(mode));
        Plan off = open_plan(m, 1, (RpExecMode)mode, 0.0); /* without a limit there is not one more launch */
        sim_stats_reset();
        OK(run(&off));
        cr_expect_eq(sim_stats().kernels, without.kernels_of_one, "%d", mode);
        close_plan(&off);
    }
    rp_model_free(m);
}

/* The limit is for a node, not for a run: the kernels together take longer. */
Test(cuda_watchdog, the_time_of_a_whole_run_has_no_limit) {
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    Plan     p = open_plan(m, 16, RP_MODE_EAGER, 1e-4);
    OK(run(&p));
    close_plan(&p);
    rp_model_free(m);
}

/* ---- options ---- */

Test(cuda_watchdog, the_environment_has_a_limit_too) {
    RpModel *m = golden_open_tiny("llama-mix");
    cr_assert_eq(setenv("REPRISE_WATCHDOG", "0.02", 1), 0);
    Plan p = open_plan(m, 1, RP_MODE_REPLAY, 0.0);
    sim_hang("attention", 1);
    FAILS(run(&p), failure(&p, 2, ""));
    close_plan(&p);
    sim_release();
    for (const char *const *value = (const char *const[]){"soon", "-1", "nan", "1e7", "1s", NULL}; *value; value++) {
        cr_assert_eq(setenv("REPRISE_WATCHDOG", *value, 1), 0, "%s", *value);
        p = plan_of(m, 1, false);
        cr_expect_eq(open_exec(&p, RP_MODE_REPLAY, 0.0, NULL), RP_E_ARG, "%s: %s", *value, rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), "REPRISE_WATCHDOG='"), "%s", rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), "must be a number from 0 to 1e+06"), "%s", rp_last_error());
        close_plan(&p);
    }
    rp_model_free(m);
}

Test(cuda_watchdog, a_bad_limit_is_refused) {
    RpModel *m = golden_open_tiny("llama-mix");
    Plan     p = plan_of(m, 1, false);
    REFUSED(open_exec(&p, RP_MODE_REPLAY, -1.0, NULL), RP_E_ARG, "a watchdog of -1 seconds: must be from 0 to 1e+06");
    REFUSED(open_exec(&p, RP_MODE_REPLAY, 2e6, NULL), RP_E_ARG, "a watchdog of 2e+06 seconds: must be from 0 to 1e+06");
    REFUSED(open_exec(&p, RP_MODE_REPLAY, (double)NAN, NULL), RP_E_ARG, "seconds: must be from 0 to 1e+06");
    close_plan(&p);
    rp_model_free(m);
}

/* ---- sessions and engines ---- */

static void check_session(RpModel *m, RpExecMode mode, bool while_it_replies, const char *text) {
    static const int32_t prompt[] = {5, 17, 40, 8, 21, 33};
    RpSession           *s;
    RpTokenList          list = {0};
    RpGenerateResult     r;
    RpSampler           *sampler;
    RpSamplerParams      params = rp_sampler_defaults();
    RpGenerateOptions    o      = {.max_tokens = 6, .ignore_end = true, .tokens = &list};
    OK(rp_sampler_new(&params, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_session_open(
        m, &(RpSessionOptions){.n_ctx = N_CTX, .prefill_chunk = 2, .device = "cuda", .mode = mode, .watchdog_s = LIMIT},
        &s));
    if (while_it_replies) OK(rp_session_prefill(s, prompt, 6, NULL, NULL));
    sim_hang("attention", while_it_replies ? 8 : 2);
    if (while_it_replies) {
        REFUSED(rp_generate(s, sampler, prompt, 1, &o, &r), RP_E_CUDA, text);
        REFUSED(rp_session_step(s, 3), RP_E_CUDA, text);
    } else {
        REFUSED(rp_session_prefill(s, prompt, 6, NULL, NULL), RP_E_CUDA, text);
        REFUSED(rp_generate(s, sampler, prompt, 6, &o, &r), RP_E_CUDA, text);
    }
    rp_session_free(s);
    rp_sampler_free(sampler);
    rp_token_list_free(&list);
    sim_release();
    for (int i = 0; i < 10000; i++)
        if (rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .prefill_chunk = 2, .device = "cuda"}, &s) == RP_OK)
            break;
    OK(rp_session_prefill(s, prompt, 6, NULL, NULL));
    rp_session_free(s);
}

Test(cuda_watchdog, a_session_fails_and_is_freed) {
    RpModel *m = golden_open_tiny("llama-mix");
    check_session(m, RP_MODE_EAGER, false, "no end after 0.02 s: node 'blk.1.attn' (attention, step ");
    check_session(m, RP_MODE_REPLAY, true, "no end after 0.02 s: node 'blk.1.attn' (attention, step ");
    check_session(m, RP_MODE_LOOP, true, "no end after 0.02 s in token 3: node 'blk.1.attn' (attention, step ");
    rp_model_free(m);
}

Test(cuda_watchdog, an_engine_fails_and_is_freed) {
    static const int32_t prompt[] = {5, 17, 40, 8, 21, 33};
    RpModel             *m        = golden_open_tiny("llama-mix");
    RpEngine            *e;
    RpSampler           *sampler;
    RpSamplerParams      params = rp_sampler_defaults();
    uint64_t             id;
    OK(rp_sampler_new(&params, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .device = "cuda", .watchdog_s = LIMIT}, &e));
    OK(rp_engine_add(e, &(RpRequest){.prompt = prompt, .n_prompt = 6, .sampler = sampler, .max_tokens = 4}, &id));
    sim_hang("attention", 2);
    REFUSED(rp_engine_step(e), RP_E_CUDA, "no end after 0.02 s: node 'blk.1.attn' (attention, step ");
    REFUSED(rp_engine_step(e), RP_E_CUDA, "no end after 0.02 s: node 'blk.1.attn' (attention, step ");
    rp_engine_free(e);
    REFUSED(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .device = "cuda"}, &e), RP_E_CUDA,
            "cuda:0 can be opened when an earlier run has ended");
    sim_release();
    rp_sampler_free(sampler);
    rp_model_free(m);
}
