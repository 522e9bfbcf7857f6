/* fused.h - fused ops against the ops that they stand for: the same bits, on the CPU and on the device. */
#ifndef TESTS_FUSED_H
#define TESTS_FUSED_H

#include "tests/blocks.h"

/* Runs one op. */
typedef void Runner(OpKernel *kernel, const OpArgs *args);

/* What the fused op does, op by op: reads the sources, writes the result and what is written beside it. */
typedef void Parts(Runner *run, const OpArgs *as);

static inline void on_cpu(OpKernel *kernel, const OpArgs *args) { OK(run_workers(kernel, args, 1)); }

#ifdef RP_TEST_CUDA
static inline void on_device(OpKernel *kernel, const OpArgs *args) {
    const size_t bytes  = rp_view_extent_bytes(&args->dst);
    void        *before = memcpy(malloc(bytes), args->dst.data, bytes);
    OK(cuda_run(kernel, args, before));
    free(before);
}
#endif

#define VIEW(dtype, data, ...) rp_view_contiguous(dtype, NE(__VA_ARGS__), data)

static inline TensorView floats(float *data, int64_t n0, int64_t n1) {
    return packed(RP_F32, data, n0, n1, 1, 1);
}

static inline TensorView f32_copy(int64_t n0, int64_t n1) {
    return floats(calloc((size_t)(n0 * n1) + 16, sizeof(float)), n0, n1);
}

static inline void run2(Runner *run, OpKernel *kernel, TensorView dst, OpParams p, TensorView a,
                        TensorView b) {
    const OpArgs args = {
        .dst = dst, .src = {a, b},
             .params = &p
    };
    run(kernel, &args);
}

/* y += x where there is an x. */
static inline void part_add(Runner *run, TensorView y, TensorView x) {
    if (x.ne[0] > 0) run2(run, rp_cpu_add, y, (OpParams){0}, y, x);
}

static inline void part_scale(Runner *run, TensorView y, float scale) {
    if (scale != 1.0f) run2(run, rp_cpu_scale, y, (OpParams){.scale = {.scale = scale}}, y, (TensorView){0});
}

static inline TensorView part_rounded(Runner *run, TensorView x) {
    TensorView y = packed(RP_Q8_ACT, NULL, x.ne[0], x.ne[1], 1, 1);
    y.data       = malloc(rp_view_extent_bytes(&y) + 64);
    run2(run, rp_cpu_quantize, y, (OpParams){0}, x, (TensorView){0});
    return y;
}

/* The column of a product; the caller frees its data. */
static inline TensorView part_column(Runner *run, TensorView x, TensorView norm, const ColumnParams *c) {
    const size_t bytes = rp_view_extent_bytes(&x);
    TensorView   y     = x;
    y.data             = memcpy(malloc(bytes + 64), x.data, bytes);
    if (c->norm != 0) run2(run, rp_cpu_rms_norm, y, (OpParams){.rms_norm = {.eps = c->eps}}, x, norm);
    if (c->round == 0) return y;
    const TensorView rounded = part_rounded(run, y);
    free(y.data);
    return rounded;
}

static inline OpArgs with_own_results(OpKernel *kernel, const OpArgs *args, const SideMemory *beside) {
    OpArgs       own   = *args;
    const size_t bytes = rp_view_extent_bytes(&args->dst);
    own.dst.data       = memset(malloc(bytes), 0x33, bytes);
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, args, i)) {
            const size_t n  = rp_view_extent_bytes(&args->src[i]);
            own.src[i].data = memcpy(malloc(n), beside->bytes[i], n);
        }
    return own;
}

static inline void free_results(OpKernel *kernel, const OpArgs *own) {
    free(own->dst.data);
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, own, i)) free(own->src[i].data);
}

static inline void expect_same(OpKernel *kernel, const OpArgs *a, const OpArgs *b, const char *where) {
    cr_assert_arr_eq(a->dst.data, b->dst.data, rp_view_extent_bytes(&a->dst),
                     "%s: other bits than its parts, %s", where, rp_dtype_name(a->src[0].dtype));
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, a, i))
            cr_assert_arr_eq(a->src[i].data, b->src[i].data, rp_view_extent_bytes(&a->src[i]),
                             "%s: other bits than its parts in source %d, %s", where, i,
                             rp_dtype_name(a->src[0].dtype));
}

/* The result stays in dst. */
static inline void check_fused(OpKernel *kernel, const OpArgs *args, Parts *parts) {
    SideMemory beside = side_take(kernel, args);
    run_everywhere(kernel, args);
    OpArgs by_parts = with_own_results(kernel, args, &beside);
    parts(on_cpu, &by_parts);
    expect_same(kernel, args, &by_parts, "CPU");
    free_results(kernel, &by_parts);
#ifdef RP_TEST_CUDA
    OpArgs whole = with_own_results(kernel, args, &beside);
    by_parts     = with_own_results(kernel, args, &beside);
    sim_sched(2, 3);
    on_device(kernel, &whole);
    parts(on_device, &by_parts);
    expect_same(kernel, &whole, &by_parts, "device");
    free_results(kernel, &whole), free_results(kernel, &by_parts);
#endif
    side_free(&beside);
}

/* Weights as floats, for formulas. */
static inline float *widened(const TensorView *w) {
    float *out = malloc((size_t)rp_view_elems(w) * sizeof *out);
    for (int64_t r = 0; r < rp_view_rows(w); r++)
        rp_dequantize_row(w->dtype, rp_view_row(w, r), w->ne[0], out + r * w->ne[0]);
    return out;
}

#endif
