/* Kernels of source text with a stand-in for NVRTC (fake_nvrtc.c), so that this runs everywhere: launch rules, the
 * cache, every failing call, threads. Their PTX is interpreted. The real compiler: test_cuda_nvrtc.c. */
#include "tests/sim/executor/source_net.h"
#include "tests/support/case.h"

#include <pthread.h>

/* ---- plans ---- */

Test(source, runs_eagerly_and_replayed_in_poisoned_memory) {
    const TensorOp op = start();
    for (RpExecMode mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++)
        for (int order = 0; order < 3; order++) {
            Net n;
            sim_sched(order, 5);
            net_plan(op, &n);
            OK(net_open(&n, "cuda", mode, NULL));
            cr_assert_eq(rp_executor_info(n.e).mode, mode, CASE(order));
            for (int i = 0; i < 3; i++) net_check(&n, i);
            net_close(&n);
        }
    finish();
}

Test(source, shows_its_launch_without_a_device_and_with_one) {
    const TensorOp op = start();
    RpStepLaunch   l;
    Net            n;
    net_plan(op, &n);
    OK(rp_cuda_plan_launch(n.plan, 1, &l));
    cr_expect_str_eq(l.kernel, "times");
    cr_expect_eq(l.grid[0], (NET_N + 63u) / 64u);
    cr_expect_eq(l.block[0], 64u);
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    OK(rp_executor_launch(n.e, 0, &l));
    cr_expect_str_eq(l.kernel, "times");
    double step_ns[2], total;
    OK(rp_executor_profile(n.e, 2, step_ns, &total));
    cr_expect(total > 0.0 && step_ns[0] >= 0.0);
    net_close(&n);
    finish();
}

static bool differs(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    if (rp_verify_difference(node, view, got, want, NULL) > 0.0) ++*(int *)user;
    return true;
}

Test(source, is_verified_against_its_cpu_function) {
    const TensorOp op = start();
    TensorOp       other;
    int            n_different = 0;
    Net            n;
    net_plan(op, &n);
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    OK(rp_executor_verify(n.e, differs, &n_different));
    cr_expect_eq(n_different, 0);
    net_close(&n);
    /* the same with one instruction changed */
    char *text = strdup(times.text);
    memcpy(strstr(text, "mul.f32"), "add.f32", 7);
    const RpCudaSource changed = {.text = text, .kernel = "times", .grid = RP_GRID_ELEMENTS};
    OK(net_register("wrong", &changed, true, &other));
    net_plan(other, &n);
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    OK(rp_executor_verify(n.e, differs, &n_different));
    cr_expect_eq(n_different, 2);
    net_close(&n);
    free(text);
    finish();
}

Test(source, without_a_cpu_function_runs_on_the_device_only) {
    TensorOp op;
    Net      n;
    int      ignored = 0;
    (void)start();
    OK(net_register("device_only", &times, false, &op));
    net_plan(op, &n);
    REFUSED(net_open(&n, "cpu", RP_MODE_EAGER, NULL), RP_E_UNSUPPORTED,
            "device_only '': the op has no kernel for the CPU");
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    net_check(&n, 1);
    REFUSED(rp_executor_verify(n.e, differs, &ignored), RP_E_UNSUPPORTED, "has no kernel for the CPU");
    net_check(&n, 2);
    net_close(&n);
    finish();
}

Test(source, two_graphs_share_a_kernel) {
    const TensorOp op = start();
    Net            a, b;
    net_plan(op, &a);
    net_plan(op, &b);
    OK(net_open(&a, "cuda", RP_MODE_REPLAY, NULL));
    cr_expect_str_eq(rp_executor_info(a.e).kernels, "NVRTC 99.1, sm_90: 1 compiled, 0 from the cache");
    OK(net_open(&b, "cuda", RP_MODE_REPLAY, a.e));
    cr_expect_str_eq(rp_executor_info(b.e).kernels, "");
    cr_expect_eq(sim_stats().live_libraries, 1L);
    net_check(&a, 1);
    net_check(&b, 2);
    net_check(&a, 3);
    net_close(&b);
    cr_expect_eq(sim_stats().live_libraries, 1L);
    net_check(&a, 4);
    net_close(&a);
    finish();
}

/* ---- launches ---- */

static RpSourceLaunch wanted;

static RpStatus rule(const RpOpArgs *args, RpSourceLaunch *out, const char **why) {
    if (rp_view_elems(&args->dst) != NET_N) return *why = "another shape", RP_E_SHAPE;
    if (wanted.shared_bytes == 1) return *why = "this shape is not for me", RP_E_SHAPE;
    *out = wanted;
    return RP_OK;
}

static RpStatus open_with(TensorOp op, RpSourceLaunch l) {
    Net n;
    wanted = l;
    net_plan(op, &n);
    const RpStatus st = net_open(&n, "cuda", RP_MODE_REPLAY, NULL);
    if (st == RP_OK) net_check(&n, 1);
    net_close(&n);
    return st;
}

Test(source, a_launch_that_is_not_possible_is_refused_at_open) {
    static const RpCudaSource by_rule = {.text = TIMES("times"), .kernel = "times", .launch = rule},
                              small   = {.text   = "// PTX:\n" TIMES_PTX("times", ".maxntid 128, 1, 1\n"),
                                         .kernel = "times",
                                         .grid   = RP_GRID_ELEMENTS};
    TensorOp op, limited;
    Net      n;
    (void)start();
    OK(net_register("ruled", &by_rule, true, &op));
    OK(open_with(op, (RpSourceLaunch){
                         {5,  1, 1},
                         {64, 1, 1},
                         0
    }));
    OK(open_with(op, (RpSourceLaunch){
                         {5,  1, 1},
                         {64, 1, 1},
                         100 << 10
    })); /* beyond 48 KiB: by an attribute */
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {0,  1, 1},
                          {64, 1, 1},
                          0
    }),
            RP_E_ARG,
            "ruled: a launch of 0x1x1 blocks of 64x1x1 threads: must be 1 to 2147483647 x 65535 x 65535 blocks of 1 to "
            "1024 threads");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5,    1, 1},
                          {1025, 1, 1},
                          0
    }),
            RP_E_ARG, "blocks of 1025x1x1 threads");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5,  1,  1},
                          {64, 64, 1},
                          0
    }),
            RP_E_ARG, "64x64x1");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5,  70000, 1},
                          {64, 1,     1},
                          0
    }),
            RP_E_ARG, "5x70000x1");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5, 1, 1 },
                          {1, 1, 65},
                          0
    }),
            RP_E_ARG, "1x1x65");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5,  1, 1},
                          {64, 1, 1},
                          300 << 10
    }),
            RP_E_ARG, "times: a launch with 307200 bytes of dynamic shared memory a block, more than the device has");
    REFUSED(open_with(op,
                      (RpSourceLaunch){
                          {5,  1, 1},
                          {64, 1, 1},
                          1
    }),
            RP_E_SHAPE, "ruled: launch rule: this shape is not for me");
    OK(net_register("small", &small, true, &limited));
    net_plan(limited, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), RP_E_ARG,
            "times: a launch with 256 threads a block, its registers allow 128");
    net_close(&n);
    finish();
}

Test(source, starts_early_only_if_it_says_that_it_waits) {
    static const RpCudaSource waiting = {.text   = "// PTX:\n" TIMES_PTX("times", "// waits\n"),
                                         .kernel = "times",
                                         .grid   = RP_GRID_ELEMENTS,
                                         .flags  = RP_SOURCE_WAITS};
    const TensorOp            op      = start();
    TensorOp                  early;
    Net                       n;
    net_plan(op, &n);
    sim_stats_reset();
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    cr_expect_eq(sim_stats().pdl_launches, 0ul);
    net_close(&n);
    OK(net_register("early", &waiting, true, &early));
    net_plan(early, &n);
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    cr_expect_eq(sim_stats().pdl_launches, 2ul);
    net_close(&n);
    finish();
}

/* ---- registration ---- */

Test(source, a_bad_source_is_refused_at_registration) {
    static const char *const options[] = {NULL};
    static const struct {
        RpCudaSource source;
        const char  *text;
    } bad[] = {
        {{.kernel = "k", .grid = RP_GRID_ROWS},                                                 "source of 'bad': must have a text and the name of a kernel"},
        {{.text = "", .grid = RP_GRID_ROWS},                                                    "a text and the name"                                       },
        {{.text = "", .kernel = "k"},                                                           "either a launch rule or a grid"                            },
        {{.text = "", .kernel = "k", .launch = rule, .grid = RP_GRID_ROWS},                     "either a launch rule or a grid"                            },
        {{.text = "", .kernel = "k", .grid = RP_GRID_ROWS, .block = 1025},                      "at most 1024 threads"                                      },
        {{.text = "", .kernel = "k", .grid = RP_GRID_ROWS, .flags = 2},                         "no flags"                                                  },
        {{.text = "", .kernel = "k", .grid = RP_GRID_ROWS, .options = options, .n_options = 1},
         "no option must be NULL"                                                                                                                           },
        {{.text = "", .kernel = "k", .grid = RP_GRID_ROWS, .n_options = 33},                    "at most 32 options"                                        },
        {{.text = "", .kernel = "k", .grid = RP_GRID_ROWS, .file = ""},                         "the file's name must not be empty"                         },
    };
    TensorOp op;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        REFUSED(net_register("bad", &bad[i].source, true, &op), RP_E_ARG, bad[i].text);
}

/* ---- compiler ---- */

Test(source, errors_of_the_compiler_name_op_file_and_line) {
    static const RpCudaSource line    = {.text = "// 1\n// 2\n#error no good\n", .kernel = "k", .grid = RP_GRID_ROWS},
                              missing = {
                                  .text = TIMES("times"), .kernel = "twice", .grid = RP_GRID_ROWS, .file = "t.cu"};
    TensorOp a, b;
    Net      n;
    (void)start();
    OK(net_register("third_line", &line, true, &a));
    OK(net_register("no_kernel", &missing, true, &b));
    net_plan(a, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), RP_E_ARG,
            "third_line: third_line.cu(3): error: #error no good");
    net_close(&n);
    net_plan(b, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), RP_E_ARG, "no_kernel: t.cu has no kernel 'twice'");
    net_close(&n);
    char *log;
    REFUSED(rp_cuda_source_compile(&line, 9, 0, &log), RP_E_ARG, "source.cu(3): error");
    cr_expect_str_eq(log, "source.cu(3): error: #error no good\n");
    free(log);
    OK(rp_cuda_source_compile(&times, 9, 0, &log));
    cr_expect_str_eq(log, "");
    free(log);
    finish();
}

Test(source, architectures_are_chosen_by_the_device) {
    const TensorOp op = start();
    int            compiled;
    sim_capability(8, 6);
    cr_expect_not_null(strstr(open_text(op, &compiled), "compute_75"));
    sim_capability(7, 5);
    cr_expect_not_null(strstr(open_text(op, &compiled), "sm_75"));
    sim_capability(12, 1);
    cr_expect_not_null(strstr(open_text(op, &compiled), "compute_90"));
    sim_capability(7, 0);
    Net n;
    net_plan(op, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_EAGER, NULL), RP_E_NOT_AVAILABLE,
            "NVRTC 99.1 has no code for compute capability 7.0");
    net_close(&n);
    sim_capability(9, 0);
    finish();
}

Test(source, a_compiler_that_cannot_be_used_is_named) {
    static const struct {
        const char *value, *text;
        RpStatus    status;
    } bad[] = {
        {"off",                  "REPRISE_NVRTC=off",                                               RP_E_NOT_AVAILABLE},
        {"yes",                  "REPRISE_NVRTC 'yes': must be auto, off or the path of a library", RP_E_ARG          },
        {"/nowhere/libnvrtc.so", "/nowhere/libnvrtc.so: cannot open",                               RP_E_NOT_AVAILABLE},
        {FAKE("without_names"),  "NVRTC: the library has no nvrtcGetLoweredName",                   RP_E_NOT_AVAILABLE},
    };
    const TensorOp op = start();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Net n;
        cr_assert_eq(setenv("REPRISE_NVRTC", bad[i].value, 1), 0, CASE(i));
        net_plan(op, &n);
        REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), bad[i].status, bad[i].text);
        net_close(&n);
    }
    finish();
}

/* ---- calls that fail ---- */

Test(source, every_call_of_the_compiler_may_fail) {
    static const char *const nvrtc[] = {"nvrtcVersion",           "nvrtcGetNumSupportedArchs",
                                        "nvrtcGetSupportedArchs", "nvrtcCreateProgram",
                                        "nvrtcAddNameExpression", "nvrtcCompileProgram",
                                        "nvrtcGetPTXSize",        "nvrtcGetPTX",
                                        "nvrtcGetCUBINSize",      "nvrtcGetCUBIN",
                                        "nvrtcGetLoweredName"};
    const TensorOp           op      = start();
    Net                      n;
    net_plan(op, &n);
    for (size_t i = 0; i < sizeof nvrtc / sizeof nvrtc[0]; i++) {
        cr_assert_eq(setenv(FAKE_NVRTC_VARIABLE, nvrtc[i], 1), 0, CASE(i));
        const RpStatus st = net_open(&n, "cuda", RP_MODE_REPLAY, NULL);
        cr_expect(st == RP_E_NOT_AVAILABLE || st == RP_E_ARG, "%s: %d", nvrtc[i], (int)st);
        cr_expect_not_null(strstr(rp_last_error(), "made to fail"), "%s: %s", nvrtc[i], rp_last_error());
        net_expect_nothing_left();
        cr_expect_eq(stats().live, 0, "%s", nvrtc[i]);
    }
    cr_assert_eq(unsetenv(FAKE_NVRTC_VARIABLE), 0);
    net_close(&n);
    finish();
}

/* Opens and closes while the nth call of that name fails; false if there is no such call. A capture that fails is tried
 * once more, so some failures are none of the executor. */
static bool open_failing(Net *n, const char *call, unsigned nth) {
    sim_fail(call, nth, cudaErrorMemoryAllocation);
    const RpStatus st = net_open(n, "cuda", RP_MODE_REPLAY, NULL);
    if (st == RP_OK && sim_fails_left() == 0) net_check(n, 5);
    if (st != RP_OK) cr_expect_not_null(strstr(rp_last_error(), "cuda:0: "), "%s %u: %s", call, nth, rp_last_error());
    rp_executor_free(n->e);
    n->e               = NULL;
    const bool is_call = sim_fails_left() == 0;
    sim_reset_faults();
    net_expect_nothing_left();
    return is_call;
}

Test(source, every_call_of_cuda_may_fail) {
    static const char *const calls[] = {
        "cudaLibraryLoadData", "cudaLibraryGetKernel", "cudaLibraryUnload",   "cudaFuncGetAttributes",
        "cudaSetDevice",       "cudaMalloc",           "cudaMallocHost",      "cudaStreamCreateWithFlags",
        "cudaMemGetInfo",      "cudaMemcpyAsync",      "cudaLaunchKernelExC", "cudaGraphInstantiate"};
    const TensorOp op = start();
    Net            n;
    net_plan(op, &n);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        unsigned nth = 1;
        while (open_failing(&n, calls[i], nth)) nth++;
        cr_expect_gt(nth, 1u, "%s is not called", calls[i]);
    }
    net_close(&n);
    finish();
}

/* ---- threads ---- */

static TensorOp shared_op;

static void *open_run_close(void *failed) {
    Net n;
    net_plan(shared_op, &n);
    if (net_open(&n, "cuda", RP_MODE_EAGER, NULL) != RP_OK || rp_executor_run(n.e) != RP_OK) *(bool *)failed = true;
    net_close(&n);
    return NULL;
}

Test(source, threads_compile_load_and_unload_at_once) {
    pthread_t threads[4];
    bool      failed[4] = {false};
    int       compiled;
    shared_op = start();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, open_run_close, &failed[i]), 0, CASE(round, i));
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(pthread_join(threads[i], NULL), 0, CASE(round, i));
            cr_expect(!failed[i], CASE(round, i));
        }
    }
    cr_expect_str_eq(open_text(shared_op, &compiled), "NVRTC 99.1, sm_90: 0 compiled, 1 from the cache");
    finish();
}

Test(source, the_kernels_of_a_plan_are_compiled_together) {
    TensorOp ops[6];
    Net      n = {.g = rp_graph_new()};
    (void)start();
    const int before = stats().compiled;
    n.x              = rp_graph_input(n.g, "x", RP_F32, (int64_t[]){NET_N, 1, 1, 1});
    n.y              = n.x;
    for (int i = 0; i < 6; i++) {
        static char names[6][16], texts[6][4096];
        snprintf(names[i], sizeof names[i], "times_%d", i);
        snprintf(texts[i], sizeof texts[i], "// %d\n%s", i, times.text);
        const RpCudaSource s  = {.text = texts[i], .kernel = "times", .grid = RP_GRID_ELEMENTS};
        const RpOpParams   by = {.custom = {.f = {i < 2 ? 1.5f : 1.0f}}};
        OK(net_register(names[i], &s, true, &ops[i]));
        n.y = rp_graph_op(n.g, ops[i], &by, &n.y, 1);
    }
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    OK(net_open(&n, "cuda", RP_MODE_REPLAY, NULL));
    cr_expect_str_eq(rp_executor_info(n.e).kernels, "NVRTC 99.1, sm_90: 6 compiled, 0 from the cache");
    cr_expect_eq(stats().compiled - before, 6);
    net_check(&n, 2);
    net_close(&n);
    finish();
}
