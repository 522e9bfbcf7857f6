/* The fused op linear: column -> norm -> quantise -> product -> bias -> scale -> post-norm -> residual, each
 * step optional. Bit for bit against the single ops (fused.h), and against the formula in double. */
#include "tests/support/fused.h"

/* Sources: 0 weights, 1 column, 2 norm weight, 3 bias, 4 residual, 5 post-norm weight; 2 to 5 may be absent. */
static void unfused(Runner *run, const RpOpArgs *as) {
    const RpLinearParams *p = &as->params->linear;
    const RpTensorView    y = as->dst, column = unfused_column(run, as->linear.x, as->linear.norm, &p->column);
    run_op(run, rp_cpu_mul_mat, y, (RpOpParams){0}, as->linear.w, column);
    unfused_add(run, y, as->linear.bias);
    unfused_scale(run, y, p->scale);
    if (p->post_norm != 0)
        run_op(run, rp_cpu_rms_norm, y, (RpOpParams){.rms_norm = {.eps = p->post_eps}}, y, as->linear.post_norm);
    unfused_add(run, y, as->linear.residual);
    free(column.data);
}

typedef struct Case {
    RpDtype type;
    int64_t n, rows;
    bool    norm, weight, quantize, quantized; /* quantized: x is q8_act */
    bool    bias, residual, post, post_weight;
    float   scale; /* 0 means 1 */
} Case;

static void check(Case c) {
    char  *w = random_weights(c.type, c.n, c.rows, 40);
    float *x = random_floats((size_t)c.n, 41), *norm = random_floats((size_t)c.n, 42),
          *bias = random_floats((size_t)c.rows, 43), *residual = random_floats((size_t)c.rows, 44),
          *post = random_floats((size_t)c.rows, 45), *y = malloc((size_t)c.rows * 4);
    char            *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL;
    const RpOpParams p      = {
             .linear = {.column    = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize},
                        .scale     = c.scale == 0.0f ? 1.0f : c.scale,
                        .post_norm = c.post,
                        .post_eps  = 1e-6f}
    };
    RpOpArgs args = {
        .dst    = floats(y, c.rows, 1),
        .src    = {VIEW(c.type, w, c.n, c.rows, 1, 1),
                   c.quantized ? VIEW(RP_Q8_ACT, column, c.n, 1, 1, 1) : floats(x, c.n, 1)},
        .params = &p
    };
    if (c.weight) args.linear.norm = floats(norm, c.n, 1);
    if (c.bias) args.linear.bias = floats(bias, c.rows, 1);
    if (c.residual) args.linear.residual = floats(residual, c.rows, 1);
    if (c.post_weight) args.linear.post_norm = floats(post, c.rows, 1);
    check_fused(rp_cpu_linear, &args, unfused);
    free(w), free(x), free(norm), free(bias), free(residual), free(post), free(y), free(column);
}

DEFINE_FOR_ALL_TYPES(3, 77, 320);

Test(linear, multiplies_f32_and_q8_act_columns) {
    for_all_types((Case){.rows = 21});
    for_all_types((Case){.rows = 21, .quantized = true, .residual = true});
}
Test(linear, normalises_and_quantises_its_column) {
    for_all_types((Case){.rows = 21, .norm = true, .weight = true, .quantize = true});
    for_all_types((Case){.rows = 20, .norm = true, .weight = true, .bias = true});
    for_all_types((Case){.rows = 5, .norm = true, .quantize = true, .residual = true});
    for_all_types((Case){.rows = 5, .quantize = true});
}
Test(linear, adds_bias_and_residual_and_scales) {
    for_all_types((Case){.rows = 9, .quantized = true, .bias = true, .scale = 0.3f});
    for_all_types((Case){.rows = 9, .bias = true, .residual = true, .scale = -2.5f});
}
Test(linear, applies_a_post_norm) {
    for_all_types((Case){.rows = 35, .quantized = true, .post = true, .post_weight = true, .residual = true});
    for_all_types((Case){.rows = 40, .norm = true, .weight = true, .post = true});
    for_all_types(
        (Case){.rows = 3, .norm = true, .quantize = true, .bias = true, .scale = 0.5f, .post = true, .residual = true});
}

/* On the device: rows that several warps share, columns staged in slices, blocks that take several row tiles. */
Test(linear, takes_rows_of_any_length) {
    check((Case){.type = RP_Q4_0, .n = 8192, .rows = 7, .norm = true, .weight = true, .quantize = true, .post = true});
    check((Case){.type = RP_Q4_K, .n = 4096, .rows = 6, .norm = true, .quantize = true, .residual = true});
    check((Case){.type = RP_F16, .n = 4100, .rows = 5, .norm = true, .weight = true});
    check((Case){.type = RP_Q8_0, .n = 33024, .rows = 3, .norm = true, .weight = true, .quantize = true});
    check((Case){.type = RP_Q6_K, .n = 33024, .rows = 2, .quantized = true, .bias = true});
}
Test(linear, takes_any_number_of_rows) {
    check((Case){.type = RP_Q4_1, .n = 32, .rows = 33001, .norm = true, .weight = true, .quantize = true});
    check((Case){.type = RP_F32, .n = 9, .rows = 33001, .norm = true, .weight = true, .post = true});
    check((Case){.type = RP_Q8_0, .n = 32, .rows = 1, .norm = true, .quantize = true, .residual = true});
}

Test(linear, reads_repacked_weights) { /* run_variants compares them with those of the file */
    const int before = repacked_sources;
    check((Case){.type = RP_Q4_K, .n = 512, .rows = 80, .norm = true, .quantize = true, .post = true});
    check((Case){.type = RP_Q6_K, .n = 512, .rows = 32, .quantized = true, .bias = true, .residual = true});
    cr_assert_eq(repacked_sources, before + 2);
    check((Case){.type = RP_Q6_K, .n = 512, .rows = 32, .norm = true}); /* a column of floats */
    cr_assert_eq(repacked_sources, before + 2);
}

Test(linear, computes_the_documented_formula) {
    enum { N = 64, M = 10 };
    float *x = random_floats(N, 50), *norm = random_floats(N, 51), *bias = random_floats(M, 52),
          *residual = random_floats(M, 53), *post = random_floats(M, 54), y[M];
    char            *blocks = random_weights(RP_Q8_0, N, M, 55);
    const RpOpParams p      = {
             .linear = {.column = {.norm = 1, .eps = 1e-5f}, .scale = 0.7f, .post_norm = 1, .post_eps = 1e-6f}
    };
    const RpOpArgs args = {
        .dst    = floats(y, M, 1),
        .src    = {VIEW(RP_Q8_0, blocks, N, M, 1, 1), floats(x, N, 1), floats(norm, N, 1), floats(bias, M, 1),
                   floats(residual, M, 1), floats(post, M, 1)},
        .params = &p
    };
    float *w = dequantized(&args.linear.w);
    run_variants(rp_cpu_linear, &args);
    double squares = 0.0, sums[M], all = 0.0, want[M];
    for (int k = 0; k < N; k++) squares += (double)x[k] * (double)x[k];
    for (int m = 0; m < M; m++) {
        double dot = 0.0;
        for (int k = 0; k < N; k++)
            dot += (double)w[N * m + k] * (double)x[k] * (double)norm[k] / sqrt(squares / N + 1e-5);
        sums[m] = (double)0.7f * (dot + (double)bias[m]);
        all += sums[m] * sums[m];
    }
    for (int m = 0; m < M; m++) want[m] = sums[m] / sqrt(all / M + 1e-6) * (double)post[m] + (double)residual[m];
    expect_near(y, want, M, 1e-5);
    free(x), free(norm), free(bias), free(residual), free(post), free(blocks), free(w);
}

Test(linear, refuses_shapes_and_types_that_do_not_fit) {
    static float     w[256], x[64], y[64];
    const RpOpParams p    = {.linear = {.scale = 1.0f}};
    RpOpArgs         args = {
                .dst    = floats(y, 4, 1),
                .src    = {floats(w, 8, 4), floats(x, 6, 1)},
                .params = &p,
    };
    REFUSED(run_workers(rp_cpu_linear, &args, 1), RP_E_SHAPE,
            "linear: rows of the weights and the column x must have one length: w f32 [8,4], x f32 [6], "
            "result f32 [4]");
    args.linear.x = floats(x, 8, 1), args.linear.bias = floats(x, 5, 1);
    REFUSED(run_workers(rp_cpu_linear, &args, 1), RP_E_SHAPE,
            "linear: bias must be f32 of 4 elements: w f32 [8,4], x f32 [8], bias f32 [5], result f32 [4]");
    args.linear.bias = (RpTensorView){0}, args.linear.norm = floats(x, 7, 1);
    REFUSED(run_workers(rp_cpu_linear, &args, 1), RP_E_SHAPE,
            "linear: norm must be f32 as long as the column x: w f32 [8,4], x f32 [8], norm f32 [7], result "
            "f32 [4]");
    args.linear.norm = (RpTensorView){0}, args.dst = floats(y, 5, 1);
    REFUSED(run_workers(rp_cpu_linear, &args, 1), RP_E_SHAPE,
            "linear: the result must be f32 [4]: w f32 [8,4], x f32 [8], result f32 [5]");
    args.linear.x = VIEW(RP_Q8_ACT, x, 32, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_linear, &args, 1), RP_E_DTYPE,
            "linear: the weights must be quantised where the column x is: w f32 [8,4], x q8_act [32], result "
            "f32 [5]");
}
