/* Ops of source text (reprise/source.h) on the CPU, and on the GPU of this machine, compiled by its NVRTC. Failures and
 * the cache are tested on the simulated device (tests/sim/executor/test_cuda_source.c, test_cuda_nvrtc.c). */
#include "tests/support/golden.h"

#include "reprise/device.h"
#include "reprise/source.h"

enum { N = 1000, ROWS = 3 };

static const char text[] = "#include <cuda_fp16.h>\n"
                           "template <int STRIDE> __global__ void scaled_sum(const __grid_constant__ RpArgs args) {\n"
                           "    rp_wait();\n"
                           "    const float *a = (const float *)rp_row(args.binary.a, blockIdx.x);\n"
                           "    const float *b = (const float *)rp_row(args.binary.b, blockIdx.x);\n"
                           "    float       *y = (float *)rp_row(args.dst, blockIdx.x);\n"
                           "    for (long long i = threadIdx.x; i < args.dst.ne[0]; i += STRIDE)\n"
                           "        y[i] = a[i] + args.params.f[0] * b[i];\n"
                           "}\n";

static RpStatus shape(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, in->binary.a->ne, NULL);
    return RP_OK;
}

static RpStatus cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *a = args->binary.a.data, *b = args->binary.b.data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth)
        y[i] = a[i] + args->params->custom.f[0] * b[i];
    return RP_OK;
}

static const RpCudaSource source = {
    .text = text, .kernel = "scaled_sum<64>", .grid = RP_GRID_ROWS, .block = 64, .flags = RP_SOURCE_WAITS};
static const RpOpDescription op_row = {
    .name = "scaled_sum", .n_required = 2, .n_sources = 2, .shape = shape, .cpu = cpu};

static bool exact(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    *(bool *)user &= rp_verify_difference(node, view, got, want, NULL) == 0.0;
    return true;
}

/* y = (a + 2 b) + 2 b, exact in f32. */
static void check(const char *device, RpExecMode mode) {
    const RpOpParams        two = {.custom = {.f = {2.0f}}};
    const RpExecutorOptions o   = {.device = device, .mode = mode, .require_graph = mode == RP_MODE_REPLAY};
    ComputeGraph           *g   = rp_graph_new();
    ExecPlan               *plan;
    RpExecutor             *e;
    TensorOp                op;
    bool                    same = true;
    OK(rp_op_register_source(&op_row, &source, &op));
    TensorNode *a      = rp_graph_input(g, "a", RP_F32, (int64_t[]){N, ROWS, 1, 1}),
               *b      = rp_graph_input(g, "b", RP_F32, (int64_t[]){N, ROWS, 1, 1});
    TensorNode *middle = rp_graph_op(g, op, &two, (TensorNode *const[]){a, b}, 2),
               *y      = rp_graph_op(g, op, &two, (TensorNode *const[]){middle, b}, 2);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    const RpStatus st = rp_executor_open(plan, &o, &e);
    if (st == RP_E_NOT_AVAILABLE) cr_skip_test("%s", rp_last_error());
    OK(st);
    for (int run = 0; run < 3; run++) {
        OK(rp_executor_poison(e));
        float *x = rp_executor_data(e, a), *z = rp_executor_data(e, b);
        for (int i = 0; i < N * ROWS; i++) x[i] = (float)(i + run), z[i] = (float)(i % 17);
        OK(rp_executor_run(e));
        const float *got = rp_executor_data(e, y);
        for (int i = 0; i < N * ROWS; i++) cr_assert_eq(got[i], (float)(i + run + 4 * (i % 17)), "element %d", i);
    }
    OK(rp_executor_verify(e, exact, &same));
    cr_expect(same);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(source_ops, refuse_what_no_source_is) {
    const struct {
        RpCudaSource s;
        const char  *text;
    } cases[] = {
        {{.kernel = "k", .grid = RP_GRID_ROWS},                                                                       "source of 'scaled_sum': must have a text and the name of a kernel"},
        {{.text = text, .kernel = "", .grid = RP_GRID_ROWS},
         "source of 'scaled_sum': must have a text and the name of a kernel"                                                                                                             },
        {{.text = text, .kernel = "k", .file = "", .grid = RP_GRID_ROWS},
         "source of 'scaled_sum': the file's name must not be empty"                                                                                                                     },
        {{.text = text, .kernel = "k", .grid = RP_GRID_ROWS, .n_options = 33},
         "source of 'scaled_sum': must have at most 32 options"                                                                                                                          },
        {{.text = text, .kernel = "k", .grid = RP_GRID_ROWS, .n_options = 1, .options = (const char *const[]){NULL}},
         "source of 'scaled_sum': no option must be NULL"                                                                                                                                },
        {{.text = text, .kernel = "k"},                                                                               "source of 'scaled_sum': must have either a launch rule or a grid" },
        {{.text = text, .kernel = "k", .grid = RP_GRID_ROWS, .block = 1025},
         "source of 'scaled_sum': must have at most 1024 threads a block"                                                                                                                },
        {{.text = text, .kernel = "k", .grid = RP_GRID_ROWS, .flags = 1u << 31},
         "source of 'scaled_sum': must have no flags but RP_SOURCE_WAITS"                                                                                                                },
    };
    TensorOp op;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        REFUSED(rp_op_register_source(&op_row, &cases[i].s, &op), RP_E_ARG, cases[i].text);
    RpOpDescription both = op_row;
    both.cuda            = cpu;
    REFUSED(rp_op_register_source(&both, &source, &op), RP_E_ARG,
            "op 'scaled_sum': a CUDA kernel and the source of one are given");
}

Test(source_ops, run_by_their_cpu_function) { check("cpu", RP_MODE_AUTO); }

Test(source_ops, run_on_the_gpu) {
    int n_devices;
    if (rp_cuda_probe(&n_devices) != RP_OK) cr_skip_test("%s", rp_last_error());
    check("cuda", RP_MODE_EAGER);
}

Test(source_ops, are_replayed_on_the_gpu) {
    int n_devices;
    if (rp_cuda_probe(&n_devices) != RP_OK) cr_skip_test("%s", rp_last_error());
    check("cuda", RP_MODE_REPLAY);
}

Test(source_ops, memory_of_the_gpu) {
    int           n_devices;
    float         x[256], y[256];
    RpCudaMemory *m, *copy;
    if (rp_cuda_probe(&n_devices) != RP_OK) cr_skip_test("%s", rp_last_error());
    for (int i = 0; i < 256; i++) x[i] = (float)i;
    OK(rp_cuda_memory_new(0, sizeof x, &m));
    OK(rp_cuda_memory_new(0, sizeof x, &copy));
    OK(rp_cuda_memory_write(m, 0, x, sizeof x));
    OK(rp_cuda_memory_copy(copy, 0, m, 0, sizeof x));
    OK(rp_cuda_memory_read(copy, 0, y, sizeof y));
    cr_expect_arr_eq(x, y, sizeof x);
    rp_cuda_memory_free(m);
    rp_cuda_memory_free(copy);
}
