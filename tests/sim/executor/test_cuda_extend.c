/* Custom ops on a device: they are captured and replayed like any other op, or refused if they have no CUDA
 * kernel. The reference is the formula silu(x + 2.5) in double. */
#include "tests/support/golden.h"

#include "reprise/extend.h"

#include <math.h>

RpStatus custom_shift_cuda(const RpOpArgs *args, RpKernelCtx *ctx);

enum { N = 200 };

static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

static RpStatus custom_shift_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *x = args->src[0].data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = x[i] + args->params->custom.f[0];
    return RP_OK;
}

static const RpOpDescription shift = {.name       = "shift",
                                      .n_required = 1,
                                      .n_sources  = 1,
                                      .shape      = like_first,
                                      .flags      = RP_FLAG_INPLACE,
                                      .cpu        = custom_shift_cpu,
                                      .cuda       = custom_shift_cuda};
static const RpOpDescription lame  = {
     .name = "lame", .n_required = 1, .n_sources = 1, .shape = like_first, .cpu = custom_shift_cpu};

typedef struct Run {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *e;
    TensorNode   *x, *y;
} Run;

static RpStatus open_run(const RpOpDescription *d, RpExecMode mode, Run *r) {
    const RpOpParams by = {.custom = {.f = {2.5f}}};
    TensorOp         op;
    *r = (Run){.g = rp_graph_new()};
    OK(rp_op_register(d, &op));
    r->x = rp_graph_input(r->g, "x", RP_F32, (int64_t[]){N, 1, 1, 1});
    r->y = rp_silu(r->g, rp_graph_op(r->g, op, &by, &r->x, 1));
    OK(rp_graph_finish(r->g, &r->y, 1));
    OK(rp_graph_optimize(r->g, ""));
    OK(rp_plan_new(r->g, &r->plan));
    return rp_executor_open(
        r->plan, &(RpExecutorOptions){.device = "cuda", .mode = mode, .require_graph = mode > RP_MODE_EAGER}, &r->e);
}

static void close_run(Run *r) {
    rp_executor_free(r->e);
    rp_plan_free(r->plan);
    rp_graph_free(r->g);
}

static void check_mode(RpExecMode mode) {
    Run r;
    OK(open_run(&shift, mode, &r));
    for (int step = 0; step < 3; step++) {
        float *x = rp_executor_data(r.e, r.x);
        for (int i = 0; i < N; i++) x[i] = (float)(i - 50 * step) * 0.1f;
        OK(rp_executor_run(r.e));
        const float *y = rp_executor_data(r.e, r.y);
        for (int i = 0; i < N; i++) {
            const double v = (double)((float)(i - 50 * step) * 0.1f) + 2.5, want = v / (1.0 + exp(-v));
            cr_assert(fabs((double)y[i] - want) < 1e-5 * (1.0 + fabs(want)), "element %d of step %d", i, step);
        }
    }
    RpStepLaunch l;
    OK(rp_executor_launch(r.e, 0, &l));
    cr_expect_str_eq(l.kernel, "custom_shift_kernel");
    cr_expect_eq(l.grid[0], (N + 63u) / 64u);
    close_run(&r);
}

Test(extend, a_custom_op_runs_eagerly) { check_mode(RP_MODE_EAGER); }
Test(extend, a_custom_op_is_captured_and_replayed) { check_mode(RP_MODE_REPLAY); }

Test(extend, a_custom_op_without_a_cuda_kernel_is_refused) {
    Run          r;
    RpStepLaunch l;
    REFUSED(open_run(&lame, RP_MODE_REPLAY, &r), RP_E_UNSUPPORTED, "lame '': the op has no kernel for CUDA");
    REFUSED(rp_cuda_plan_launch(r.plan, 0, &l), RP_E_UNSUPPORTED, "has no kernel for CUDA");
    close_run(&r);
}

/* ---- registered types ---- */

static void bytes_to_f32(const void *row, int64_t n, float *out, void *user) {
    (void)user;
    for (int64_t i = 0; i < n; i++) out[i] = (float)((const int8_t *)row)[i];
}

static RpStatus byte_shape(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, (int64_t[]){in->unary.x->ne[0] / 4, 1, 1, 1}, NULL);
    return RP_OK;
}

static RpStatus cpu_bytes(const RpOpArgs *args, RpKernelCtx *ctx) {
    if (ctx->ith == 0) memcpy(args->dst.data, args->unary.x.data, (size_t)args->dst.ne[0] * sizeof(float));
    return RP_OK;
}

/* The bytes of the blocks as f32, plus 2.5: the kernel of `shift` on the memory of x. */
static RpStatus cuda_bytes(const RpOpArgs *args, RpKernelCtx *ctx) {
    RpOpArgs as_floats     = *args;
    as_floats.unary.x      = args->dst;
    as_floats.unary.x.data = args->unary.x.data;
    const RpOpParams by    = {.custom = {.f = {2.5f}}};
    as_floats.params       = &by;
    return custom_shift_cuda(&as_floats, ctx);
}

static RpStatus open_with(Run *r, TensorNode *y, RpExecMode mode) {
    r->y = y;
    OK(rp_graph_finish(r->g, &r->y, 1));
    OK(rp_graph_optimize(r->g, ""));
    OK(rp_plan_new(r->g, &r->plan));
    return rp_executor_open(r->plan, &(RpExecutorOptions){.device = "cuda", .mode = mode}, &r->e);
}

/* Ops of the library have no kernel for it, neither plain nor fused; nothing runs on the CPU instead (I10). */
Test(extend, a_registered_type_is_refused) {
    const RpDtypeDescription d = {.name = "bytes", .block_elems = 4, .block_bytes = 4, .dequantize = bytes_to_f32};
    static int8_t            blocks[2 * N];
    static float             norm[N];
    RpDtype                  type;
    OK(rp_dtype_register(&d, &type));
    const RpTensorView w = rp_view_contiguous(type, (int64_t[]){N, 2, 1, 1}, blocks),
                       n = rp_view_contiguous(RP_F32, (int64_t[]){N, 1, 1, 1}, norm);
    for (int k = 0; k < 3; k++) {
        Run          r = {.g = rp_graph_new()};
        RpStepLaunch l;
        TensorNode  *x    = rp_graph_input(r.g, "x", RP_F32, (int64_t[]){N, k == 1 ? 3 : 1, 1, 1});
        TensorNode  *from = k == 2 ? rp_rms_norm(r.g, x, rp_graph_weight(r.g, "n", &n), 1e-5f) : x;
        TensorNode  *y    = rp_node_set_name(rp_mul_mat(r.g, rp_graph_weight(r.g, "w", &w), from), "product");
        REFUSED(open_with(&r, y, RP_MODE_EAGER), RP_E_UNSUPPORTED,
                k == 2 ? "linear 'product': the registered type bytes has no CUDA kernel"
                       : "mul_mat 'product': the registered type bytes has no CUDA kernel");
        REFUSED(rp_cuda_plan_launch(r.plan, 0, &l), RP_E_UNSUPPORTED, "the registered type bytes has no CUDA kernel");
        close_run(&r);
    }
}

/* A custom op with a CUDA kernel reads the blocks itself. */
Test(extend, a_custom_op_reads_a_registered_type) {
    static const RpOpDescription op_row = {.name       = "read_bytes",
                                           .n_required = 1,
                                           .n_sources  = 1,
                                           .shape      = byte_shape,
                                           .cpu        = cpu_bytes,
                                           .cuda       = cuda_bytes};
    const RpDtypeDescription     d = {.name = "bytes", .block_elems = 4, .block_bytes = 4, .dequantize = bytes_to_f32};
    static float                 blocks[N];
    RpDtype                      type;
    TensorOp                     op;
    Run                          r = {.g = rp_graph_new()};
    for (int i = 0; i < N; i++) blocks[i] = (float)i;
    OK(rp_dtype_register(&d, &type));
    OK(rp_op_register(&op_row, &op));
    const RpTensorView w = rp_view_contiguous(type, (int64_t[]){4 * N, 1, 1, 1}, blocks);
    TensorNode        *s = rp_graph_weight(r.g, "w", &w);
    OK(open_with(&r, rp_graph_op(r.g, op, NULL, &s, 1), RP_MODE_REPLAY));
    OK(rp_executor_run(r.e));
    const float *y = rp_executor_data(r.e, r.y);
    for (int i = 0; i < N; i++) cr_assert_eq(y[i], (float)i + 2.5f, "element %d is %g", i, (double)y[i]);
    close_run(&r);
}

/* A launcher that makes another number of launches when its step is repointed than when it was captured. */
static int n_launches;

static RpStatus repeated_cuda(const RpOpArgs *args, RpKernelCtx *ctx) {
    for (int i = 0; i < n_launches; i++) RP_TRY(custom_shift_cuda(args, ctx));
    return RP_OK;
}

static void check_repoint(int n_captured, int n_repointed, const char *text) {
    static const RpOpDescription repeated = {.name       = "repeated",
                                             .n_required = 1,
                                             .n_sources  = 1,
                                             .shape      = like_first,
                                             .cpu        = custom_shift_cpu,
                                             .cuda       = repeated_cuda};
    const RpExecutorOptions      options  = {.device = "cuda", .mode = RP_MODE_REPLAY, .require_graph = true};
    TensorOp                     op;
    ExecPlan                    *plan;
    RpExecutor                  *e;
    RpExecutorStates            *states;
    ComputeGraph                *g = rp_graph_new();
    OK(rp_op_register(&repeated, &op));
    TensorNode *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){N, 1, 1, 1}), *y = rp_graph_op(g, op, NULL, &x, 1);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    n_launches = n_captured;
    OK(rp_executor_open(plan, &options, &e));
    OK(rp_executor_states_new(e, &states));
    OK(rp_executor_states_bind(e, states));
    OK(rp_executor_states_bind(e, NULL));
    n_launches = n_repointed;
    REFUSED(rp_executor_states_bind(e, states), RP_E_STATE, text);
    n_launches = n_captured;
    OK(rp_executor_run(e));
    rp_executor_states_free(states);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(extend, more_launches_than_were_captured_are_refused) {
    check_repoint(1, 2, "this memory needs more kernels than were captured");
}
Test(extend, fewer_launches_than_were_captured_are_refused) {
    check_repoint(2, 1, "this memory needs fewer kernels than were captured");
}

/* Both steps have one kernel, and the permission for shared memory is of the kernel: the second step, which needs less,
 * must not take from the first what its node needs when it gets new addresses. */
Test(extend, a_kernel_keeps_the_shared_memory_of_its_largest_launch) {
    const RpOpParams large =
                         {
                             .custom = {.i = {100 << 10}, .f = {2.5f}}
    },
                     small = {.custom = {.i = {40 << 10}}};
    RpOpDescription d      = shift;
    TensorOp        op;
    d.name = "shift_shared";
    OK(rp_op_register(&d, &op));
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Run               r = {.g = rp_graph_new()};
        RpExecutorStates *states;
        r.x               = rp_graph_input(r.g, "x", RP_F32, (int64_t[]){N, 1, 1, 1});
        TensorNode *first = rp_graph_op(r.g, op, &large, &r.x, 1);
        OK(open_with(&r, rp_graph_op(r.g, op, &small, &first, 1), (RpExecMode)mode));
        cr_expect_eq(rp_executor_info(r.e).mode, (RpExecMode)mode, "%s", rp_executor_info(r.e).reason);
        OK(rp_executor_states_new(r.e, &states));
        OK(rp_executor_states_bind(r.e, states));
        OK(rp_executor_run(r.e));
        rp_executor_states_free(states);
        close_run(&r);
    }
}
