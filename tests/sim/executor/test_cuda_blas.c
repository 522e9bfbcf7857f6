/* Products of long chunks by a stand-in for cuBLASLt (fake_cublaslt.cu) on the simulated device: every weight
 * type and mode, every failure, rebinding, whole models. Reference: the CPU's product, within the rounding to
 * the type that the library multiplies. */
#include "tests/support/blocks.h"

#include "base/tuning.h"
#include "sim/device/sim.h"
#include "tests/sim/executor/fake_cublaslt.h"
#include "tests/support/case.h"

#include <dlfcn.h>
#include <math.h>

#define WHOLE   RP_BUILD_DIR "/tests/libcudasim_blas_whole.so"
#define LACKING RP_BUILD_DIR "/tests/libcudasim_blas_without_matmul.so"

static void use(const char *library, const char *failure) {
    cr_assert_eq(setenv("REPRISE_BLAS", library, 1), 0);
    cr_assert_eq(setenv(FAKE_VARIABLE, failure, 1), 0);
}

static FakeStats fake(void) {
    FakeStatsCall *call    = NULL;
    void          *library = dlopen(WHOLE, RTLD_LAZY | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    void *address = dlsym(library, "fake_stats");
    memcpy(&call, &address, sizeof call);
    return call();
}

/* A graph y = w x with x an input, its weights and columns. quantized: x passes through q8_act. */
typedef struct Net {
    ComputeGraph     *g;
    ExecPlan         *plan;
    const TensorNode *x, *y;
    char             *w;
    float            *columns;
    int64_t           n, rows, tokens;
    RpDtype           type;
} Net;

static Net new_net(RpDtype type, int64_t n, int64_t rows, int64_t tokens, bool quantized) {
    Net net        = {.g = rp_graph_new(), .n = n, .rows = rows, .tokens = tokens, .type = type};
    net.w          = random_weights(type, n, rows, 31);
    net.columns    = random_floats((size_t)(n * tokens), 32);
    RpTensorView v = tensor(type, net.w, n, rows, 1, 1);
    TensorNode  *x = rp_graph_input(net.g, "x", RP_F32, NE(n, tokens, 1, 1));
    TensorNode  *y = rp_mul_mat(net.g, rp_graph_weight(net.g, "w", &v), x);
    rp_node_set_name(y, "y");
    OK(rp_graph_finish(net.g, &y, 1));
    OK(rp_graph_optimize(net.g, quantized ? "" : "-all"));
    OK(rp_plan_new(net.g, &net.plan));
    net.y = rp_graph_find(net.g, "y");
    net.x = rp_graph_find(net.g, "x");
    return net;
}

static void free_net(Net *n) {
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
    free(n->w);
    free(n->columns);
}

static RpExecutor *open_net(const Net *n, RpExecMode mode) {
    RpExecutor *e;
    OK(rp_executor_open(
        n->plan, &(RpExecutorOptions){.device = "cuda", .mode = mode, .require_graph = mode != RP_MODE_EAGER}, &e));
    return e;
}

static const float *run(const Net *n, RpExecutor *e) {
    memcpy(rp_executor_data(e, n->x), n->columns, (size_t)(n->n * n->tokens) * sizeof *n->columns);
    OK(rp_executor_poison(e));
    OK(rp_executor_run(e));
    return rp_executor_data(e, n->y);
}

static float *on_the_cpu(const Net *n) {
    RpExecutor *e;
    OK(rp_executor_open(n->plan, &(RpExecutorOptions){.device = "cpu", .n_threads = 1}, &e));
    memcpy(rp_executor_data(e, n->x), n->columns, (size_t)(n->n * n->tokens) * sizeof *n->columns);
    OK(rp_executor_run(e));
    const size_t bytes = (size_t)(n->rows * n->tokens) * sizeof(float);
    float       *y     = memcpy(malloc(bytes), rp_executor_data(e, n->y), bytes);
    rp_executor_free(e);
    return y;
}

/* Compares with the CPU: differences of at most `relative` times the sum of |w x|. */
static void expect_close(const Net *n, const float *y, double relative) {
    float *want = on_the_cpu(n), *row = malloc((size_t)n->n * sizeof *row);
    for (int64_t m = 0; m < n->rows; m++) {
        rp_dequantize_row(n->type, n->w + (size_t)m * rp_row_bytes(n->type, n->n), n->n, row);
        for (int64_t t = 0; t < n->tokens; t++) {
            double size = 0.0;
            for (int64_t k = 0; k < n->n; k++) size += fabs((double)row[k] * (double)n->columns[t * n->n + k]);
            const double got = (double)y[t * n->rows + m], from = (double)want[t * n->rows + m];
            cr_assert(fabs(got - from) <= relative * size, "%s [%d,%d], %d columns: (%d,%d) is %g, not %g of %g",
                      rp_dtype_name(n->type), (int)n->n, (int)n->rows, (int)n->tokens, (int)m, (int)t, got, from, size);
        }
    }
    free(want);
    free(row);
}

/* Weights and columns are rounded to f16, 11 bits (bf16: 8 bits, columns only); f32 rounds only in sums. */
static double tolerance(RpDtype type) { return type == RP_F32 ? 4e-6 : type == RP_BF16 ? 4e-3 : 1e-3; }

/* Eager and replay, in another thread order too: close to the CPU, and the same bits. */
static void check_modes(RpDtype type, int64_t n, int64_t rows, int64_t tokens, bool quantized) {
    Net             net    = new_net(type, n, rows, tokens, quantized);
    const size_t    bytes  = (size_t)(rows * tokens) * sizeof(float);
    const FakeStats before = fake();
    RpExecutor     *eager = open_net(&net, RP_MODE_EAGER), *replay = open_net(&net, RP_MODE_REPLAY);
    cr_assert_not_null(strstr(rp_executor_info(replay).blas, "cublasLt 13"), "%s", rp_executor_info(replay).blas);
    float *y = memcpy(malloc(bytes), run(&net, eager), bytes);
    cr_assert_gt(fake().products, before.products);
    expect_close(&net, y, tolerance(type));
    sim_sched(2, 5);
    const long products = fake().products;
    for (int i = 0; i < 2; i++)
        cr_assert_arr_eq(run(&net, replay), y, bytes, "%s: a replay gives other bits", rp_dtype_name(type));
    cr_assert_eq(fake().products, products, "a replay calls the library");
    cr_assert_arr_eq(run(&net, eager), y, bytes);
    sim_sched(0, 1);
    rp_executor_free(eager);
    rp_executor_free(replay);
    free(y);
    free_net(&net);
    cr_assert_eq(fake().live, before.live);
}

Test(blas, multiplies_every_weight_type_in_every_mode) {
    static const RpDtype floats[] = {RP_F32, RP_F16, RP_BF16};
    use(WHOLE, "");
    for (int i = 0; i < 3; i++) {
        check_modes(floats[i], 64, 40, 32, false);
        check_modes(floats[i], 77, 9, 70, false); /* rows that are not aligned */
        check_modes(floats[i], 320, 33, 47, false);
    }
    for (int i = 0; i < N_QUANT_TYPES; i += SIM_EACH) {
        check_modes(quant_types[i], 256, 200, 33, false); /* two tiles of rows */
        check_modes(quant_types[i], 512, 130, 70, false); /* three */
        check_modes(quant_types[i], 256, 7, 32, false);
    }
    const char *capability = getenv("SIM_CAPABILITY"); /* with 7.5 tiles multiply quantised columns, however many */
    if (capability == NULL || atoi(capability) >= 80) check_modes(RP_Q4_1, 64, 7, RP_TUNING_BLAS_COLUMNS, true);
    cr_expect_gt(fake().via_workspace, 0L, "some products take two kernels");
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

/* f16 ranges from 6e-8 to 65504. Columns outside are scaled by a power of two. */
Test(blas, scales_columns_outside_the_range_of_f16) {
    use(WHOLE, "");
    const RpDtype types[] = {RP_F16, RP_Q8_0};
    for (int i = 0; i < 2; i++) {
        Net net = new_net(types[i], 128, 70, 40, false);
        for (int64_t k = 0; k < 128; k++) {
            net.columns[k] *= 1e9f;
            net.columns[128 + k] *= 1e-12f;
            net.columns[256 + k] = 0.0f;
            net.columns[384 + k] *= 40000.0f;
        }
        RpExecutor *e = open_net(&net, RP_MODE_REPLAY);
        expect_close(&net, run(&net, e), 1e-3);
        net.columns[640 + 5] = NAN; /* in one column, which alone must become NaN */
        const float *y       = run(&net, e);
        for (int64_t t = 0; t < 40; t++) cr_assert_eq(isnan(y[t * 70]) != 0, t == 5, CASE(i, t));
        rp_executor_free(e);
        free_net(&net);
    }
}

/* Nor do quantised columns up to RpCudaTuning.blas_columns, which are multiplied in tiles. */
Test(blas, short_chunks_and_single_tokens_never_use_it) {
    use(WHOLE, "");
    cr_expect_eq(rp_tuning_of_device(0, 9, 0).blas_columns, RP_TUNING_BLAS_COLUMNS);
    cr_expect_eq(rp_tuning_of_device(0, 8, 9).blas_columns, RP_TUNING_NO_BLAS);
    for (int64_t tokens = 1; tokens <= 61; tokens += 30) {
        Net         net = new_net(RP_Q4_0, 64, 40, tokens, tokens > 31);
        RpExecutor *e   = open_net(&net, RP_MODE_REPLAY);
        cr_expect_str_eq(rp_executor_info(e).blas, "", CASE(tokens));
        run(&net, e);
        rp_executor_free(e);
        free_net(&net);
    }
    cr_expect_eq(fake().choices, 0L);
}

/* With this library and failure: the bits of Reprise's kernels, and the reason in RpExecutorInfo.blas. */
static void expect_fallback(const Net *n, const float *want, const char *library, const char *failure,
                            const char *why) {
    const size_t bytes = (size_t)(n->rows * n->tokens) * sizeof(float);
    use(library, failure);
    RpExecutor *e = open_net(n, RP_MODE_REPLAY);
    cr_expect_not_null(strstr(rp_executor_info(e).blas, why), "%s: \"%s\"", failure, rp_executor_info(e).blas);
    cr_expect_str_eq(rp_executor_info(e).reason, "");
    cr_expect_arr_eq(run(n, e), want, bytes, "%s", failure);
    rp_executor_free(e);
    cr_expect_eq(fake().live, 0L, "%s", failure);
    cr_expect_eq(sim_stats().live_allocs, 0L, "%s", failure);
}

Test(blas, products_that_the_library_refuses_use_the_built_in_kernels) {
    Net          net   = new_net(RP_Q5_K, 256, 200, 40, false);
    const size_t bytes = (size_t)(net.rows * net.tokens) * sizeof(float);
    use("off", "");
    RpExecutor *e        = open_net(&net, RP_MODE_REPLAY);
    float      *built_in = memcpy(malloc(bytes), run(&net, e), bytes);
    rp_executor_free(e);
    expect_fallback(&net, built_in, "off", "", "REPRISE_BLAS=off");
    expect_fallback(&net, built_in, "auto", "", "no library"); /* of the simulated device */
    expect_fallback(&net, built_in, WHOLE, "describe", "description of f16 [256,72] and 40 columns: out of memory (3)");
    expect_fallback(&net, built_in, WHOLE, "choose", "choice of f16 [256,72] and 40 columns: not supported (15)");
    expect_fallback(&net, built_in, WHOLE, "matmul", "product of f16 [256,128] and 40 columns: the launch failed (13)");
    expect_fallback(&net, built_in, WHOLE, "matmul:2",
                    "product of f16 [256,72] and 40 columns: the launch failed (13)");
    free(built_in);
    free_net(&net);
}

Test(blas, a_named_library_must_exist_and_be_complete) {
    Net               net = new_net(RP_F16, 64, 40, 40, false);
    RpExecutor       *e   = NULL;
    RpExecutorOptions o   = {.device = "cuda"};
    use("on", "");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_ARG, "REPRISE_BLAS 'on'");
    use("/nowhere/libcublasLt.so", "");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_NOT_AVAILABLE, "/nowhere/libcublasLt.so");
    use(LACKING, "");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_NOT_AVAILABLE, "the library has no cublasLtMatmul");
    use(WHOLE, "version");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_NOT_AVAILABLE, "built with version");
    use(WHOLE, "create");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_CUDA, "cannot be used: not initialised (1)");
    cr_expect_eq(fake().live, 0L);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    free_net(&net);
}

/* The product of the warm-up succeeds; the next one, in the capture, fails. */
Test(blas, a_product_that_fails_in_a_capture_makes_the_mode_eager_or_is_refused) {
    Net               net = new_net(RP_F16, 64, 40, 40, false);
    RpExecutor       *e   = NULL;
    RpExecutorOptions o   = {.device = "cuda", .mode = RP_MODE_REPLAY, .require_graph = true};
    cr_assert_eq(setenv("REPRISE_PDL", "off", 1), 0); /* else the capture is tried again without PDL */
    use(WHOLE, "matmul:2");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_CUDA, "product of f16 [64,40] and 40 columns: the launch failed");
    use(WHOLE, "nothing");
    REFUSED(rp_executor_open(net.plan, &o, &e), RP_E_STATE, "cublasLt has added no node");
    o.require_graph = false;
    use(WHOLE, "matmul:02");
    OK(rp_executor_open(net.plan, &o, &e));
    cr_expect_eq(rp_executor_info(e).mode, RP_MODE_EAGER);
    cr_expect_not_null(strstr(rp_executor_info(e).reason, "the launch failed"), "%s", rp_executor_info(e).reason);
    expect_close(&net, run(&net, e), 4e-6); /* by Reprise's kernel */
    rp_executor_free(e);
    cr_expect_eq(fake().live, 0L);
    free_net(&net);
}

/* An eager run fails with an error; the next run does not use the library. */
Test(blas, a_product_that_fails_in_a_run_is_an_error_once) {
    Net net = new_net(RP_Q4_K, 256, 40, 40, false);
    use(WHOLE, "matmul:2");
    RpExecutor *e = open_net(&net, RP_MODE_EAGER);
    memcpy(rp_executor_data(e, net.x), net.columns, (size_t)(net.n * net.tokens) * sizeof *net.columns);
    REFUSED(rp_executor_run(e), RP_E_CUDA, "the launch failed");
    expect_close(&net, run(&net, e), 1e-5);
    rp_executor_free(e);
    free_net(&net);
}

Test(blas, reports_the_kernels_of_a_step) {
    Net          net = new_net(RP_Q8_0, 512, 130, 40, false);
    RpStepLaunch l;
    use(WHOLE, "");
    RpExecutor *e = open_net(&net, RP_MODE_REPLAY);
    OK(rp_executor_launch(e, 0, &l));
    /* columns to f16; for each of three tiles of rows dequantise and multiply; scale back */
    cr_expect_eq(l.n_kernels, 8, "%d", l.n_kernels);
    rp_executor_free(e);
    free_net(&net);
    net = new_net(RP_F32, 64, 40, 40, false);
    e   = open_net(&net, RP_MODE_REPLAY);
    OK(rp_executor_launch(e, 0, &l));
    cr_expect_eq(l.n_kernels, 1);
    cr_expect_str_eq(l.kernel, "cublasLt");
    double step, total;
    OK(rp_executor_profile(e, 1, &step, &total));
    rp_executor_free(e);
    free_net(&net);
}

/* A quantised weight is read by Reprise's kernel, which is repointed. A float weight is read by the library,
 * whose nodes keep their addresses. */
Test(blas, weights_are_rebound_only_where_a_built_in_kernel_reads_them) {
    use(WHOLE, "");
    for (int i = 0; i < 2; i++) {
        Net    a = new_net(i == 0 ? RP_Q4_1 : RP_F16, 64, 40, 40, false), b = new_net(a.type, 64, 40, 40, false);
        float *first;
        memset(b.w, 0, 40 * rp_row_bytes(a.type, 64));
        RpExecutor  *e     = open_net(&a, RP_MODE_REPLAY);
        const size_t bytes = 40 * 40 * sizeof(float);
        first              = memcpy(malloc(bytes), run(&a, e), bytes);
        if (i == 0) {
            OK(rp_executor_weights_bind(e, b.plan));
            const float *y = run(&a, e);
            for (int k = 0; k < 1600; k++) cr_assert_eq(y[k], 0.0f, CASE(i, k));
            OK(rp_executor_weights_bind(e, NULL));
        } else {
            REFUSED(
                rp_executor_weights_bind(e, b.plan), RP_E_UNSUPPORTED,
                "y was captured by cublasLt, whose nodes keep their addresses: other memory needs REPRISE_BLAS=off");
        }
        cr_expect_arr_eq(run(&a, e), first, bytes, CASE(i));
        rp_executor_free(e);
        free(first);
        free_net(&a), free_net(&b);
    }
}

Test(blas, is_not_used_without_room_for_its_workspace) {
    Net net = new_net(RP_Q4_0, 64, 40, 40, false);
    use("auto", "");
    RpExecutor *e = open_net(&net, RP_MODE_REPLAY);
    rp_executor_free(e);
    use(WHOLE, "");
    sim_device_memory((size_t)65 << 20); /* too little for the workspace besides the driver's reserve */
    e = open_net(&net, RP_MODE_REPLAY);
    cr_expect_not_null(strstr(rp_executor_info(e).blas, "no room"), "%s", rp_executor_info(e).blas);
    expect_close(&net, run(&net, e), 1e-5);
    rp_executor_free(e);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    free_net(&net);
}

/* ---- models ---- */

enum { CHUNK = 64, N_CTX = 72, SHORT = 4 };

static RpSession *open_session(const RpModel *m, RpExecMode mode, int32_t chunk) {
    RpSession             *s;
    const RpSessionOptions o = {
        .n_ctx = N_CTX, .prefill_chunk = chunk, .device = "cuda", .mode = mode, .require_graph = mode != RP_MODE_EAGER};
    OK(rp_session_open(m, &o, &s));
    return s;
}

/* `library`: some products are those of the library. Logits after a chunk of 64 tokens differ from those after single
 * steps by at most `relative` times their root mean square. */
static void check_model(const char *name, bool library, double relative) {
    char     path[1024];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    int32_t      ids[CHUNK];
    for (int i = 0; i < CHUNK; i++) ids[i] = 3 + 7 * i % 40;
    use(WHOLE, "");
    const long products = fake().products;
    RpSession *chunks = open_session(m, RP_MODE_REPLAY, CHUNK), *steps = open_session(m, RP_MODE_REPLAY, SHORT),
              *eager = open_session(m, RP_MODE_EAGER, CHUNK);
    cr_assert_eq(fake().products > products, library);
    sim_stats_reset();
    OK(rp_session_prefill(chunks, ids, CHUNK, NULL, NULL));
    cr_expect(!library || strstr(rp_session_info(chunks).blas, "cublasLt 13") != NULL, "%s",
              rp_session_info(chunks).blas);
    cr_expect_eq(sim_stats().allocs + sim_stats().captures, 0ul);
    cr_expect_eq(sim_stats().graph_launches, 1ul);
    OK(rp_session_prefill(eager, ids, CHUNK, NULL, NULL));
    /* Chunks of up to four tokens have the bits of single steps (I8), at a fraction of their time. */
    OK(rp_session_prefill(steps, ids, CHUNK - SHORT, NULL, NULL));
    for (int i = CHUNK - SHORT; i < CHUNK; i++) OK(rp_session_step(steps, ids[i]));
    const float *a = rp_session_logits(chunks), *b = rp_session_logits(steps);
    cr_expect_arr_eq(a, rp_session_logits(eager), n_vocab * sizeof *a, "%s: eager gives other bits", name);
    double worst = 0.0, spread = 0.0;
    for (size_t i = 0; i < n_vocab; i++) {
        spread += (double)b[i] * (double)b[i] / (double)n_vocab;
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    cr_log_info("%s: off by %g of the RMS", name, worst / sqrt(spread));
    cr_expect_leq(worst, relative * sqrt(spread), "%s: off by %g of the RMS", name, worst / sqrt(spread));
    rp_session_free(chunks);
    rp_session_free(steps);
    rp_session_free(eager);
    rp_model_free(m);
    cr_expect_eq(fake().live, 0L);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(blas, a_prefill_in_chunks_is_close_to_single_steps) {
    check_model("llama-f32", true, 1e-4);
    check_model("llama-f16", true, 0.02);
    check_model("llama-bf16", true, 0.06);
    check_model("llama-mix-k", false, 0.06); /* in tiles */
    check_model("qwen3moe-mix", true, 0.06); /* its routers are f32 */
}
