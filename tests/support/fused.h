/* fused.h - tests fused ops against the single ops that they replace: both must give the same bits (I8).
 *
 *     check_fused(kernel, args, unfused)
 *       run_variants(kernel)                                   the fused CPU kernel, in every variant
 *       unfused(on_cpu)        rms_norm, quantize, mul_mat...  the same computation op by op: equal bits
 *       unfused(on_device)     with RP_TEST_CUDA               the fused CUDA kernel against single CUDA kernels
 *
 * The suites of fused ops also compare with a formula in double (computes_the_documented_formula). */
#ifndef TESTS_FUSED_H
#define TESTS_FUSED_H

#include "tests/support/blocks.h"

/* Runs one op. */
typedef void Runner(RpOpKernel *kernel, const RpOpArgs *args);

/* Computes the fused op by single ops: reads the sources, writes the result and the sources that the op writes to. */
typedef void Unfused(Runner *run, const RpOpArgs *as);

static inline void on_cpu(RpOpKernel *kernel, const RpOpArgs *args) { OK(run_workers(kernel, args, 1)); }

#ifdef RP_TEST_CUDA
static inline void on_device(RpOpKernel *kernel, const RpOpArgs *args) {
    const size_t bytes  = rp_view_extent_bytes(&args->dst);
    void        *before = memcpy(malloc(bytes), args->dst.data, bytes);
    OK(cuda_run(kernel, args, before));
    free(before);
}
#endif

#define VIEW(dtype, data, ...) rp_view_contiguous(dtype, NE(__VA_ARGS__), data)

static inline RpTensorView floats(float *data, int64_t n0, int64_t n1) { return tensor(RP_F32, data, n0, n1, 1, 1); }

/* Zeros; the caller frees its data. */
static inline RpTensorView new_floats(int64_t n0, int64_t n1) {
    return floats(calloc((size_t)(n0 * n1) + 16, sizeof(float)), n0, n1);
}

static inline void run_op(Runner *run, RpOpKernel *kernel, RpTensorView dst, RpOpParams p, RpTensorView a,
                          RpTensorView b) {
    const RpOpArgs args = {
        .dst    = dst,
        .src    = {a, b},
        .params = &p,
    };
    run(kernel, &args);
}

/* y += x, if x is present. */
static inline void unfused_add(Runner *run, RpTensorView y, RpTensorView x) {
    if (x.ne[0] > 0) run_op(run, rp_cpu_add, y, (RpOpParams){0}, y, x);
}

static inline void unfused_scale(Runner *run, RpTensorView y, float scale) {
    if (scale != 1.0f) run_op(run, rp_cpu_scale, y, (RpOpParams){.scale = {.scale = scale}}, y, (RpTensorView){0});
}

static inline RpTensorView unfused_quantize(Runner *run, RpTensorView x) {
    RpTensorView y = tensor(RP_Q8_ACT, NULL, x.ne[0], x.ne[1], 1, 1);
    y.data         = malloc(rp_view_extent_bytes(&y) + 64);
    run_op(run, rp_cpu_quantize, y, (RpOpParams){0}, x, (RpTensorView){0});
    return y;
}

/* The column that a product reads: normalised and quantised as the parameters say. The caller frees its data. */
static inline RpTensorView unfused_column(Runner *run, RpTensorView x, RpTensorView norm, const RpColumnParams *c) {
    const size_t bytes = rp_view_extent_bytes(&x);
    RpTensorView y     = x;
    y.data             = memcpy(malloc(bytes + 64), x.data, bytes);
    if (c->norm != 0) run_op(run, rp_cpu_rms_norm, y, (RpOpParams){.rms_norm = {.eps = c->eps}}, x, norm);
    if (c->round == 0) return y;
    const RpTensorView quantized = unfused_quantize(run, y);
    free(y.data);
    return quantized;
}

/* The same sources, but new memory for the result and the written sources. */
static inline RpOpArgs with_new_results(RpOpKernel *kernel, const RpOpArgs *args, const SideMemory *beside) {
    RpOpArgs     copy  = *args;
    const size_t bytes = rp_view_extent_bytes(&args->dst);
    copy.dst.data      = memset(malloc(bytes), 0x33, bytes);
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, args, i)) {
            const size_t n   = rp_view_extent_bytes(&args->src[i]);
            copy.src[i].data = memcpy(malloc(n), beside->bytes[i], n);
        }
    return copy;
}

static inline void free_results(RpOpKernel *kernel, const RpOpArgs *args) {
    free(args->dst.data);
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, args, i)) free(args->src[i].data);
}

static inline void expect_same(RpOpKernel *kernel, const RpOpArgs *a, const RpOpArgs *b, const char *where) {
    cr_assert_arr_eq(a->dst.data, b->dst.data, rp_view_extent_bytes(&a->dst), "%s: other bits than the single ops, %s",
                     where, rp_dtype_name(a->src[0].dtype));
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (writes_source(kernel, a, i))
            cr_assert_arr_eq(a->src[i].data, b->src[i].data, rp_view_extent_bytes(&a->src[i]),
                             "%s: other bits than the single ops in source %d, %s", where, i,
                             rp_dtype_name(a->src[0].dtype));
}

/* Leaves the result of the fused op in dst. */
static inline void check_fused(RpOpKernel *kernel, const RpOpArgs *args, Unfused *unfused) {
    SideMemory beside = side_save(kernel, args);
    run_variants(kernel, args);
    RpOpArgs single = with_new_results(kernel, args, &beside);
    unfused(on_cpu, &single);
    expect_same(kernel, args, &single, "CPU");
    free_results(kernel, &single);
#ifdef RP_TEST_CUDA
    RpOpArgs whole = with_new_results(kernel, args, &beside);
    single         = with_new_results(kernel, args, &beside);
    sim_sched(2, 3);
    on_device(kernel, &whole);
    unfused(on_device, &single);
    expect_same(kernel, &whole, &single, "device");
    free_results(kernel, &whole), free_results(kernel, &single);
#endif
    side_free(&beside);
}

/* Weights as floats, for formulas. */
static inline float *dequantized(const RpTensorView *w) {
    float *out = malloc((size_t)rp_view_elems(w) * sizeof *out);
    for (int64_t r = 0; r < rp_view_rows(w); r++)
        rp_dequantize_row(w->dtype, rp_view_row(w, r), w->ne[0], out + r * w->ne[0]);
    return out;
}

/* Defines for_all_types(c), which calls check(c) for every quantised type (see TYPES_EACH), with rows of `blocks`
 * blocks, and for the float types, with rows of each length that follows; not for these if the column must be q8_act.
 * `Case` is that of the suite. */
#define DEFINE_FOR_ALL_TYPES(blocks, ...)                                                                              \
    static void for_types(Case c, int line) {                                                                          \
        static const RpDtype types[]   = {RP_F32, RP_F16, RP_BF16};                                                    \
        static const int     lengths[] = {__VA_ARGS__};                                                                \
        for (int i = line % TYPES_EACH; i < N_QUANT_TYPES; i += TYPES_EACH) {                                          \
            c.type = quant_types[i];                                                                                   \
            c.n    = (blocks)*rp_dtype_info(c.type)->block_elems;                                                      \
            check(c);                                                                                                  \
        }                                                                                                              \
        if (c.quantize || c.quantized) return;                                                                         \
        for (int i = 0; i < 3; i++)                                                                                    \
            for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {                                          \
                c.type = types[i];                                                                                     \
                c.n    = lengths[k];                                                                                   \
                check(c);                                                                                              \
            }                                                                                                          \
    }                                                                                                                  \
    static void for_types(Case c, int line)
#define for_all_types(...) for_types(__VA_ARGS__, __LINE__)

#endif
