/* Specialised kernels (executor/cuda/special.c). With NVRTC, where it is found, their bits are compared with those of
 * the shipped kernels, where both come from PTX (REPRISE_SIM=ptx). With a stand-in for NVRTC, and with
 * failing calls, every plan must decode by the shipped kernels. */
#include "tests/sim/executor/source_net.h"
#include "tests/support/case.h"

#include "reprise/step.h"

enum { N_CTX = 32, N_TOKENS = 2, MAX_VOCAB = 128 };

typedef struct Plan {
    RpModel      *model;
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
    size_t        bytes; /* of the logits */
} Plan;

/* Calls of compile_progress, and the number at which it asks to stop. */
static struct { size_t n, stop_at, done, total; } progress;

static bool on_progress(size_t done, size_t total, void *user) {
    cr_assert_eq(user, &progress);
    cr_assert_geq(done, progress.done);
    cr_assert_leq(done, total);
    progress.n++;
    progress.done  = done;
    progress.total = total;
    return progress.n != progress.stop_at;
}

static RpStatus plan_open(const char *model, RpExecMode mode, const char *specialize, Plan *p) {
    RpExecutorOptions o = {.device           = "cuda",
                           .mode             = mode,
                           .require_graph    = mode > RP_MODE_EAGER,
                           .compile_progress = on_progress,
                           .user             = &progress};
    progress.done       = 0;
    cr_assert_eq(setenv("REPRISE_SPECIALIZE", specialize, 1), 0);
    *p       = (Plan){.model = golden_open_tiny(model)};
    p->bytes = (size_t)rp_model_info(p->model)->n_vocab * sizeof(float);
    cr_assert_leq(p->bytes, MAX_VOCAB * sizeof(float));
    OK(rp_model_graph(p->model, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .draws = true}, &p->graph));
    OK(rp_graph_optimize(p->graph, ""));
    OK(rp_plan_new(p->graph, &p->plan));
    o.step = rp_graph_find(p->graph, "step");
    return rp_executor_open(p->plan, &o, &p->exec);
}

static void plan_close(Plan *p) {
    rp_executor_free(p->exec);
    rp_plan_free(p->plan);
    rp_graph_free(p->graph);
    rp_model_free(p->model);
}

/* The logits of N_TOKENS greedy steps, each from poisoned memory. */
static void decode(const Plan *p, float *logits) {
    for (int32_t i = 0; i < N_TOKENS; i++) {
        const RpStepState    s = {.token = 3 + 5 * i, .pos = i, .top_p = 1.0f, .repeat_penalty = 1.0f};
        const RpReplyOptions o = {
            .state = (const int32_t *)&s, .n_state = RP_STEP_WORDS, .max_tokens = 1, .n_ctx = N_CTX};
        int32_t token;
        OK(rp_executor_poison(p->exec));
        OK(rp_executor_reply_begin(p->exec, &o));
        OK(rp_executor_reply_next(p->exec, &token));
        OK(rp_executor_reply_end(p->exec, NULL));
        OK(rp_executor_get(p->exec, rp_graph_find(p->graph, "logits"), logits + i * MAX_VOCAB, p->bytes));
    }
}

/* Opens and decodes; *text is info.kernels. */
static void run(const char *model, RpExecMode mode, const char *specialize, float *logits, char text[512]) {
    Plan p;
    memset(logits, 0, N_TOKENS * MAX_VOCAB * sizeof *logits);
    OK(plan_open(model, mode, specialize, &p));
    snprintf(text, 512, "%s", rp_executor_info(p.exec).kernels);
    decode(&p, logits);
    plan_close(&p);
    net_expect_nothing_left();
}

static const char cannot_load[] = "no kernel specialised: loading of kernels at run time: operation not supported";

/* Decodes as the shipped kernels do, and info.kernels says `why`, or that this build interprets no PTX. */
static void expect_shipped(const char *why) {
    float want[N_TOKENS * MAX_VOCAB], got[N_TOKENS * MAX_VOCAB];
    char  text[512];
    run("llama-q4_0", RP_MODE_LOOP, "off", want, text);
    cr_expect_str_eq(text, "");
    run("llama-q4_0", RP_MODE_LOOP, "force", got, text);
    cr_expect(strstr(text, why) != NULL || strcmp(text, cannot_load) == 0, "\"%s\" does not say \"%s\"", text, why);
    cr_expect_arr_eq(got, want, sizeof want);
}

Test(special, without_a_compiler_the_shipped_kernels_run) {
    cr_assert_eq(setenv("REPRISE_NVRTC", "off", 1), 0);
    expect_shipped("no kernel specialised: NVRTC: REPRISE_NVRTC=off");
    cr_assert_eq(setenv("REPRISE_NVRTC", "/missing/libnvrtc.so", 1), 0);
    expect_shipped("no kernel specialised: NVRTC: /missing/libnvrtc.so");
}

Test(special, an_unknown_value_is_refused) {
    Plan p;
    REFUSED(plan_open("llama-q4_0", RP_MODE_LOOP, "yes", &p), RP_E_ARG,
            "REPRISE_SPECIALIZE 'yes': must be auto, off or force");
    plan_close(&p);
    net_expect_nothing_left();
}

/* The stand-in finds no entry in the programs: that is what a kernel that does not compile looks like. */
Test(special, kernels_that_do_not_compile_run_as_shipped) {
    static const char *const calls[] = {"nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram",
                                        "nvrtcGetProgramLogSize", "nvrtcAddNameExpression"};
    use_fake();
    expect_shipped("0 kernels specialised, 0 compiled");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        cr_assert_eq(setenv(FAKE_NVRTC_VARIABLE, calls[i], 1), 0, CASE(i));
        expect_shipped("specialised");
    }
    cr_assert_eq(unsetenv(FAKE_NVRTC_VARIABLE), 0);
    finish();
}

Test(special, nothing_is_compiled_that_cannot_be_loaded) {
    float logits[N_TOKENS * MAX_VOCAB];
    char  text[512];
    use_fake();
    sim_fail("cudaLibraryLoadData", 1, cudaErrorNotSupported);
    run("llama-q4_0", RP_MODE_EAGER, "force", logits, text);
    cr_expect_str_eq(text, cannot_load);
    cr_expect_eq(stats().compiled, 0);
    finish();
}

Test(special, a_simulated_device_runs_the_shipped_kernels_unless_forced) {
    float logits[N_TOKENS * MAX_VOCAB];
    char  text[512];
    use_fake();
    run("llama-q4_0", RP_MODE_EAGER, "auto", logits, text);
    cr_expect_not_null(strstr(text, "reports no memory bus, so it is simulated"), "%s", text);
    cr_expect_eq(stats().compiled, 0);
    finish();
}

Test(special, opening_can_be_cancelled_while_kernels_are_compiled) {
    Plan p;
    use_fake();
    expect_shipped("specialised"); /* skips a build that cannot load kernels */
    if (progress.n == 0) {
        finish();
        cr_skip_test("no kernel is compiled in this build");
    }
    cr_expect_gt(progress.total, (size_t)2);
    cr_expect_eq(progress.done, progress.total);
    for (size_t at = 1; at <= 2; at++) {
        progress.n = 0, progress.stop_at = at;
        REFUSED(plan_open("llama-q4_0", RP_MODE_LOOP, "force", &p), RP_E_CANCELLED,
                "cancelled while kernels were compiled");
        cr_expect_eq(progress.n, at, CASE(at));
        plan_close(&p);
    }
    finish();
}

/* ---- with NVRTC ---- */

/* Skips the test without NVRTC, or in a build that cannot run PTX. The cache is that of the build, since a kernel takes
 * a second to compile. */
static void use_nvrtc(void) {
    static const char *const missing[] = {"no libnvrtc", "not supported", "does not know its kernel"};
    float                    logits[N_TOKENS * MAX_VOCAB];
    char                     text[512];
    cr_assert_eq(setenv("REPRISE_NVRTC", "auto", 1), 0);
    cr_assert_eq(setenv("XDG_CACHE_HOME", RP_BUILD_DIR "/cache", 1), 0);
    run("llama-q4_0", RP_MODE_EAGER, "force", logits, text);
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (strstr(text, missing[i]) != NULL) cr_skip_test("%s", text);
}

/* Skips the test if the shipped kernels are host code, which may round otherwise than PTX. */
static void need_shipped_ptx(void) {
    const char *sim = getenv("REPRISE_SIM");
    if (sim == NULL || strcmp(sim, "ptx") != 0) cr_skip_test("the shipped kernels do not run from PTX here");
}

static void check_model(const char *model) {
    float want[N_TOKENS * MAX_VOCAB], got[N_TOKENS * MAX_VOCAB];
    char  text[512];
    run(model, RP_MODE_REPLAY, "off", want, text);
    for (RpExecMode mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        run(model, mode, "force", got, text);
        cr_expect_arr_eq(got, want, sizeof want, "%s, mode %s: %s", model, rp_mode_name(mode), text);
        int n = 0;
        cr_expect_not_null(strstr(text, " kernels specialised, "), "%s", text);
        cr_expect_eq(sscanf(strstr(text, ": "), ": %d kernels", &n), 1, "%s", text);
        cr_expect_gt(n, 2, "%s", text);
        cr_expect_null(strstr(text, "shipped"), "%s", text);
    }
}

Test(special, has_the_bits_of_the_shipped_kernels_in_every_mode) {
    static const char *const models[] = {"llama-q4_0", "qwen3moe-f32", "qwen2moe-mix"};
    need_shipped_ptx();
    use_nvrtc();
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) check_model(models[i]);
}

Test(special, the_second_open_compiles_nothing) {
    float logits[N_TOKENS * MAX_VOCAB];
    char  text[512];
    use_nvrtc();
    run("llama-q4_0", RP_MODE_LOOP, "force", logits, text);
    cr_expect_not_null(strstr(text, " 0 compiled in 0.0 s, "), "%s", text);
}

/* Other states: the kernels stay, their addresses change. */
Test(special, binds_other_states) {
    float             want[N_TOKENS * MAX_VOCAB] = {0}, got[N_TOKENS * MAX_VOCAB] = {0};
    RpExecutorStates *states;
    Plan              p;
    use_nvrtc();
    OK(plan_open("llama-q4_0", RP_MODE_REPLAY, "force", &p));
    decode(&p, want);
    OK(rp_executor_states_new(p.exec, &states));
    OK(rp_executor_states_bind(p.exec, states));
    decode(&p, got);
    cr_expect_arr_eq(got, want, sizeof want);
    OK(rp_executor_states_bind(p.exec, NULL));
    decode(&p, got);
    cr_expect_arr_eq(got, want, sizeof want);
    rp_executor_states_free(states);
    plan_close(&p);
    net_expect_nothing_left();
}

/* One failing call of each kind: that kernel runs as shipped. */
Test(special, a_failing_call_leaves_the_shipped_kernel) {
    static const struct {
        const char *name;
        unsigned    nth; /* the first load is a question whether the runtime loads anything */
    } calls[] = {
        {"cudaLibraryLoadData",                           2},
        {"cudaLibraryGetKernel",                          1},
        {"cudaOccupancyMaxActiveBlocksPerMultiprocessor", 1}
    };
    float want[N_TOKENS * MAX_VOCAB], got[N_TOKENS * MAX_VOCAB];
    char  text[512];
    need_shipped_ptx();
    use_nvrtc();
    run("llama-q4_0", RP_MODE_LOOP, "off", want, text);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim_fail(calls[i].name, calls[i].nth, cudaErrorUnknown);
        run("llama-q4_0", RP_MODE_LOOP, "force", got, text);
        cr_expect_eq(sim_fails_left(), 0u, "%s", calls[i].name);
        cr_expect_arr_eq(got, want, sizeof want, CASE(i));
        if (i < 2) cr_expect_not_null(strstr(text, "as shipped: cuda:0: loading"), "%s", text);
    }
}
