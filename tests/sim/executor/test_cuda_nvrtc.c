/* Kernels of source text, compiled by NVRTC itself. Skipped where there is none. It needs no GPU: the simulated device
 * interprets the PTX. */
#include "tests/sim/executor/source_net.h"

/* Skips the test without NVRTC, and with `runs` in a build that cannot run PTX. */
static void real(bool runs) {
    static const RpCudaSource nothing = {.text = "__global__ void k(RpArgs) {}", .kernel = "k", .grid = RP_GRID_ROWS};
    char                     *log;
    TensorOp                  op;
    Net                       n;
    cr_assert_eq(setenv("REPRISE_NVRTC", "auto", 1), 0);
    const RpStatus st = rp_cuda_source_compile(&nothing, 9, 0, &log);
    if (st == RP_E_NOT_AVAILABLE) cr_skip_test("%s", rp_last_error());
    OK(st);
    free(log);
    net_use_cache();
    if (!runs) return;
    OK(net_register("nothing", &nothing, true, &op));
    net_plan(op, &n);
    const RpStatus opened = net_open(&n, "cuda", RP_MODE_EAGER, NULL);
    net_close(&n);
    if (opened != RP_E_NOT_AVAILABLE) return;
    net_remove_cache();
    cr_skip_test("%s", rp_last_error());
}

static void done(void) {
    net_remove_cache();
    net_expect_nothing_left();
}

static void check_source(const char *name, const RpCudaSource *s) {
    TensorOp op;
    OK(net_register(name, s, true, &op));
    for (RpExecMode mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Net n;
        net_plan(op, &n);
        OK(net_open(&n, "cuda", mode, NULL));
        net_check(&n, 2);
        net_close(&n);
    }
}

Test(nvrtc, compiles_kernels_templates_and_headers_of_the_toolkit) {
    static const char plain[]        = "extern \"C\" __global__ void times(const __grid_constant__ RpArgs a) {\n"
                                       "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                                       "    if (i >= rp_elements(a.dst)) return;\n"
                                       "    ((float *)a.dst.data)[i] = a.params.f[0] * ((const float *)a.unary.x.data)[i];\n"
                                       "}\n",
                      rows[]         = "#include <cuda_fp16.h>\n"
                                       "namespace mine {\n"
                                       "template <int N, class T> __global__ void times(RpArgs a) {\n"
                                       "    rp_wait();\n"
                                       "    const T *x = (const T *)rp_row(a.unary.x, blockIdx.x);\n"
                                       "    T       *y = (T *)rp_row(a.dst, blockIdx.x);\n"
                                       "    for (long long i = threadIdx.x; i < a.dst.ne[0]; i += N)\n"
                                       "        y[i] = __half2float(__float2half(a.params.f[0])) * x[i];\n"
                                       "}\n"
                                       "}\n";
    static const RpCudaSource first  = {.text = plain, .kernel = "times", .grid = RP_GRID_ELEMENTS},
                              second = {.text   = rows,
                                        .kernel = "mine::times<32, float>",
                                        .grid   = RP_GRID_ROWS,
                                        .block  = 32,
                                        .flags  = RP_SOURCE_WAITS};
    real(true);
    check_source("plain", &first);
    check_source("rows", &second);
    done();
}

Test(nvrtc, errors_have_the_line_of_the_source) {
    static const RpCudaSource wrong = {.text = "// 1\n__global__ void k(RpArgs a) {\n    int unused;\n    y = 1;\n}\n",
                                       .kernel = "k",
                                       .grid   = RP_GRID_ROWS,
                                       .file   = "folder/my kernel.cu"},
                              missing = {
                                  .text = "__global__ void k(RpArgs) {}\n", .kernel = "other", .grid = RP_GRID_ROWS};
    TensorOp a, b;
    Net      n;
    char    *log;
    real(false);
    OK(net_register("wrong", &wrong, true, &a));
    OK(net_register("missing", &missing, true, &b));
    net_plan(a, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), RP_E_ARG,
            "wrong: folder/my kernel.cu(4): error: identifier \"y\" is undefined");
    net_close(&n);
    net_plan(b, &n);
    REFUSED(net_open(&n, "cuda", RP_MODE_REPLAY, NULL), RP_E_ARG, "missing: missing.cu has no kernel 'other'");
    net_close(&n);
    REFUSED(rp_cuda_source_compile(&wrong, 9, 0, &log), RP_E_ARG, "(4): error");
    cr_expect_not_null(strstr(log, "(3): warning"), "%s", log); /* the whole log, warnings too */
    free(log);
    done();
}

/* The declarations of the prelude against those of the host. */
Test(nvrtc, the_argument_has_the_layout_of_the_host) {
    static const char text[] =
        "#define AT(m) __INTADDR__(&((RpArgs *)0)->m)\n"
        "static_assert(sizeof(RpView) == SIZE && AT(src) == SIZE, \"views\");\n"
        "static_assert(AT(dst.data) == DATA && AT(dst.dtype) == DTYPE && AT(dst.ne) == NE && AT(dst.nb) == "
        "NB, \"view\");\n"
        "static_assert(AT(params) == 17 * SIZE && AT(params.i) == 17 * SIZE + 32, \"params\");\n"
        "static_assert(RP_F32 == F32 && RP_Q8_ACT == ACT, \"dtypes\");\n"
        "__global__ void k(RpArgs) {}\n";
    static char              options[7][32];
    const char              *given[7];
    const RpCudaSource       s = {.text = text, .kernel = "k", .grid = RP_GRID_ROWS, .options = given, .n_options = 7};
    const size_t             values[7] = {sizeof(RpTensorView),
                                          offsetof(RpTensorView, data),
                                          offsetof(RpTensorView, dtype),
                                          offsetof(RpTensorView, ne),
                                          offsetof(RpTensorView, nb),
                                          RP_F32,
                                          RP_Q8_ACT};
    static const char *const names[7]  = {"SIZE", "DATA", "DTYPE", "NE", "NB", "F32", "ACT"};
    char                    *log;
    for (int i = 0; i < 7; i++) {
        snprintf(options[i], sizeof options[i], "-D%s=%zu", names[i], values[i]);
        given[i] = options[i];
    }
    real(false);
    OK(rp_cuda_source_compile(&s, 9, 0, &log));
    free(log);
    snprintf(options[3], sizeof options[3], "-DNE=24");
    REFUSED(rp_cuda_source_compile(&s, 7, 5, &log), RP_E_ARG, "source.cu(3): error: static assertion failed");
    free(log);
    done();
}

Test(nvrtc, chooses_code_for_devices_older_and_newer) {
    static const RpCudaSource s = {.text = "__global__ void k(RpArgs) {}", .kernel = "k", .grid = RP_GRID_ROWS};
    char                     *log;
    real(false);
    OK(rp_cuda_source_compile(&s, 99, 0, &log)); /* PTX of the newest that it knows */
    free(log);
    REFUSED(rp_cuda_source_compile(&s, 1, 0, &log), RP_E_NOT_AVAILABLE, "has no code for compute capability 1.0");
    cr_expect_null(log);
    REFUSED(rp_cuda_source_compile(&s, 0, 0, &log), RP_E_ARG, "0.0 is no compute capability");
    done();
}
