/* source_net.h - a graph with one op of source text, y = f[0] * x, for the suites source and nvrtc. */
#ifndef SOURCE_NET_H
#define SOURCE_NET_H

#include "tests/support/golden.h"

#include "sim/device/sim.h"
#include "tests/sim/executor/fake_nvrtc.h"

#include <dlfcn.h>

enum { NET_N = 300 };

static inline RpStatus net_shape(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out,
                                 const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

static inline RpStatus net_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *x = args->unary.x.data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = args->params->custom.f[0] * x[i];
    return RP_OK;
}

/* y = op(op(x)), each with factor 1.5. */
typedef struct Net {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *e;
    TensorNode   *x, *y;
} Net;

static inline RpStatus net_register(const char *name, const RpCudaSource *s, bool with_cpu, TensorOp *op) {
    const RpOpDescription d = {
        .name = name, .n_required = 1, .n_sources = 1, .shape = net_shape, .cpu = with_cpu ? net_cpu : NULL};
    return rp_op_register_source(&d, s, op);
}

static inline void net_plan(TensorOp op, Net *n) {
    const RpOpParams by = {.custom = {.f = {1.5f}}};
    *n                  = (Net){.g = rp_graph_new()};
    n->x                = rp_graph_input(n->g, "x", RP_F32, (int64_t[]){NET_N, 1, 1, 1});
    TensorNode *middle  = rp_graph_op(n->g, op, &by, &n->x, 1);
    n->y                = rp_graph_op(n->g, op, &by, &middle, 1);
    OK(rp_graph_finish(n->g, &n->y, 1));
    OK(rp_plan_new(n->g, &n->plan));
}

static inline RpStatus net_open(Net *n, const char *device, RpExecMode mode, RpExecutor *share) {
    const RpExecutorOptions o = {
        .device = device, .mode = mode, .n_threads = 1, .share = share, .require_graph = mode > RP_MODE_EAGER};
    return rp_executor_open(n->plan, &o, &n->e);
}

static inline void net_close(Net *n) {
    rp_executor_free(n->e);
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
    *n = (Net){0};
}

/* Runs with memory poisoned before, and compares with the formula, which is exact. */
static inline void net_check(const Net *n, int seed) {
    OK(rp_executor_poison(n->e));
    float *x = rp_executor_data(n->e, n->x);
    for (int i = 0; i < NET_N; i++) x[i] = (float)(i * 7 % 64 - seed);
    OK(rp_executor_run(n->e));
    const float *y = rp_executor_data(n->e, n->y);
    for (int i = 0; i < NET_N; i++)
        cr_assert_eq(y[i], 2.25f * (float)(i * 7 % 64 - seed), "element %d: %g", i, (double)y[i]);
}

/* A cache of this test's own. */
static char net_cache[64];

static inline void net_use_cache(void) {
    snprintf(net_cache, sizeof net_cache, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(net_cache));
    cr_assert_eq(setenv("XDG_CACHE_HOME", net_cache, 1), 0);
}

static inline void net_remove_cache(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", net_cache);
    cr_assert_eq(system(command), 0);
}

static inline void net_expect_nothing_left(void) {
    cr_expect_eq(sim_stats().live_allocs, 0L);
    cr_expect_eq(sim_stats().live_libraries, 0L);
}

/* ---- the stand-in for NVRTC ---- */

#define FAKE(name) RP_BUILD_DIR "/tests/libfake_nvrtc_" name ".so"

/* y[i] = f[0] * x[i]: what NVRTC 13.0 makes of it for sm_75. The argument is an RpArgs: dst.data at byte 0, ne at 16,
 * src[0].data at 80, params at 1360. */
#define TIMES_PTX(name, directive)                                                                                     \
    ".version 7.0\n.target sm_75\n.address_size 64\n"                                                                  \
    ".visible .entry " name "(.param .align 8 .b8 p[1424])\n" directive "{\n"                                          \
    ".reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<12>;\n"                                         \
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mul.wide.u32 %rd1, %r1, %r2;\n"                                      \
    "mov.u32 %r3, %tid.x; cvt.u64.u32 %rd2, %r3; add.s64 %rd3, %rd1, %rd2;\n"                                          \
    "ld.param.u64 %rd4, [p+16]; setp.ge.s64 %p1, %rd3, %rd4; @%p1 bra $L__end;\n"                                      \
    "ld.param.u64 %rd5, [p+80]; cvta.to.global.u64 %rd6, %rd5; shl.b64 %rd7, %rd3, 2; add.s64 %rd8, %rd6, "            \
    "%rd7;\n"                                                                                                          \
    "ld.global.f32 %f1, [%rd8]; ld.param.f32 %f2, [p+1360]; mul.f32 %f3, %f2, %f1;\n"                                  \
    "ld.param.u64 %rd9, [p]; cvta.to.global.u64 %rd10, %rd9; add.s64 %rd11, %rd10, %rd7;\n"                            \
    "st.global.f32 [%rd11], %f3;\n$L__end: ret;\n}\n"
#define TIMES(name) "// PTX:\n" TIMES_PTX(name, "")

static const RpCudaSource times = {.text = TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS, .block = 64};

static FakeNvrtcStats (*stats)(void);

/* The stand-in for the compiler, and an empty cache. */
static inline void use_fake(void) {
    void *fake = dlopen(FAKE("whole"), RTLD_NOW);
    cr_assert_not_null(fake, "%s", dlerror());
    void *address = dlsym(fake, "fake_nvrtc_stats");
    memcpy(&stats, &address, sizeof address);
    cr_assert_eq(setenv("REPRISE_NVRTC", FAKE("whole"), 1), 0);
    net_use_cache();
}

/* The same, and the op. Skips the test in a build that cannot run PTX. */
static inline TensorOp start(void) {
    TensorOp op, probe;
    Net      n;
    use_fake();
    OK(net_register("probe", &times, true, &probe));
    net_plan(probe, &n);
    const RpStatus st = net_open(&n, "cuda", RP_MODE_EAGER, NULL);
    net_close(&n);
    net_remove_cache();
    if (st == RP_E_NOT_AVAILABLE) cr_skip_test("%s", rp_last_error());
    OK(st);
    net_use_cache();
    OK(net_register("times", &times, true, &op));
    return op;
}

static inline void finish(void) {
    net_remove_cache();
    net_expect_nothing_left();
    cr_expect_eq(stats().live, 0);
}

/* info.kernels of a new executor, and how many programs were compiled for it. */
static inline const char *open_text(TensorOp op, int *compiled) {
    static char text[512];
    Net         n;
    const int   before = stats().compiled;
    net_plan(op, &n);
    OK(net_open(&n, "cuda", RP_MODE_EAGER, NULL));
    net_check(&n, 3);
    snprintf(text, sizeof text, "%s", rp_executor_info(n.e).kernels);
    net_close(&n);
    *compiled = stats().compiled - before;
    return text;
}

#endif
