/* The fused op linear: column -> norm -> quantise -> product -> bias -> scale -> activation -> post-norm -> residual ->
 * norm of the sum -> second residual -> factor, each step optional. Bit for bit against the single ops (fused.h), and
 * against the formula in double. */
#include "tests/support/fused.h"

static void unfused_act(Runner *run, RpLinearAct act, RpTensorView y) {
    const RpTensorView none = {.data = NULL};
    const RpOpParams   gelu = {.gelu = {.kind = act == RP_LINEAR_ACT_GELU_TANH ? RP_GELU_TANH : RP_GELU_ERF}};
    if (act == RP_LINEAR_ACT_SILU) run_op(run, rp_cpu_silu, y, (RpOpParams){0}, y, none);
    if (act == RP_LINEAR_ACT_GELU_TANH || act == RP_LINEAR_ACT_GELU_ERF) run_op(run, rp_cpu_gelu, y, gelu, y, none);
    if (act == RP_LINEAR_ACT_RELU_SQR) run_op(run, rp_cpu_relu_sqr, y, (RpOpParams){0}, y, none);
}

/* Sources: 0 weights, 1 column, 2 norm weight, 3 bias, 4 residual, 5 post-norm weight, 6 factor, 7 weight of the norm
 * of the sum, 8 second residual; 2 to 8 may be absent. */
static void unfused(Runner *run, const RpOpArgs *as) {
    const RpLinearParams *p = &as->params->linear;
    const RpTensorView    y = as->dst, column = unfused_column(run, as->linear.x, as->linear.norm, &p->column);
    run_op(run, rp_cpu_mul_mat, y, (RpOpParams){0}, as->linear.w, column);
    unfused_add(run, y, as->linear.bias);
    unfused_scale(run, y, p->scale);
    unfused_act(run, p->act, y);
    if (p->post_norm != 0)
        run_op(run, rp_cpu_rms_norm, y, (RpOpParams){.rms_norm = {.eps = p->post_eps}}, y, as->linear.post_norm);
    unfused_add(run, y, as->linear.residual);
    if (p->sum_norm != 0)
        run_op(run, rp_cpu_rms_norm, y, (RpOpParams){.rms_norm = {.eps = p->sum_eps}}, y, as->linear.sum_norm);
    unfused_add(run, y, as->linear.sum_residual);
    if (rp_is_present(&as->linear.factor)) run_op(run, rp_cpu_mul, y, (RpOpParams){0}, y, as->linear.factor);
    free(column.data);
}

typedef struct Case {
    RpDtype     type;
    int64_t     n, rows;
    bool        norm, weight, quantize, quantized; /* quantized: x is q8_act */
    bool        bias, residual, post, post_weight;
    float       scale; /* 0 means 1 */
    RpLinearAct act;
    bool        sum_norm, sum_weight, sum_residual;
    int64_t     factors; /* 0, 1, or `rows` */
} Case;

static void check(Case c) {
    char  *w = random_weights(c.type, c.n, c.rows, 40);
    float *x = random_floats((size_t)c.n, 41), *norm = random_floats((size_t)c.n, 42),
          *bias = random_floats((size_t)c.rows, 43), *residual = random_floats((size_t)c.rows, 44),
          *post = random_floats((size_t)c.rows, 45), *sum = random_floats((size_t)c.rows, 46),
          *sum_residual = random_floats((size_t)c.rows, 47), *factor = random_floats((size_t)c.rows, 48),
          *y                = malloc((size_t)c.rows * 4);
    char            *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL;
    const RpOpParams p      = {
             .linear = {.column    = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize},
                        .scale     = c.scale == 0.0f ? 1.0f : c.scale,
                        .act       = c.act,
                        .post_norm = c.post,
                        .post_eps  = 1e-6f,
                        .sum_norm  = c.sum_norm,
                        .sum_eps   = 1e-5f}
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
    if (c.sum_weight) args.linear.sum_norm = floats(sum, c.rows, 1);
    if (c.sum_residual) args.linear.sum_residual = floats(sum_residual, c.rows, 1);
    if (c.factors != 0) args.linear.factor = floats(factor, c.factors, 1);
    check_fused(rp_cpu_linear, &args, unfused);
    free(w), free(x), free(norm), free(bias), free(residual), free(post), free(sum), free(sum_residual), free(factor),
        free(y), free(column);
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

Test(linear, activates_and_multiplies) {
    for (int act = RP_LINEAR_ACT_NONE; act <= RP_LINEAR_ACT_RELU_SQR; act++) {
        for_all_types((Case){.rows = 21, .quantized = true, .act = (RpLinearAct)act, .factors = 21});
        for_all_types((Case){.rows     = 9,
                             .norm     = true,
                             .bias     = true,
                             .scale    = 0.3f,
                             .act      = (RpLinearAct)act,
                             .residual = true,
                             .factors  = 1});
    }
    for_all_types((Case){.rows = 33, .quantize = true, .act = RP_LINEAR_ACT_SILU, .post = true, .factors = 33});
}
Test(linear, adds_two_residuals) {
    for_all_types((Case){.rows = 21, .quantized = true, .residual = true, .sum_residual = true});
    for_all_types((Case){.rows = 35, .norm = true, .post = true, .residual = true, .sum_residual = true, .factors = 1});
}
Test(linear, norms_the_sum_with_its_residual) {
    Case c = {
        .rows = 35, .norm = true, .quantize = true, .post = true, .residual = true, .sum_norm = true, .factors = 1};
    for_all_types(c);
    c.post_weight = c.sum_weight = c.sum_residual = true;
    for_all_types(c);
    for_all_types((Case){.rows = 600, .quantized = true, .post = true, .sum_norm = true, .sum_residual = true});
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
          *residual = random_floats(M, 53), *post = random_floats(M, 54), *sum = random_floats(M, 56),
          *sum_residual = random_floats(M, 57), *factor = random_floats(M, 58), y[M];
    char            *blocks = random_weights(RP_Q8_0, N, M, 55);
    const RpOpParams p      = {
             .linear = {.column    = {.norm = 1, .eps = 1e-5f},
                        .scale     = 0.7f,
                        .act       = RP_LINEAR_ACT_SILU,
                        .post_norm = 1,
                        .post_eps  = 1e-6f,
                        .sum_norm  = 1,
                        .sum_eps   = 1e-5f}
    };
    const RpOpArgs args = {
        .dst    = floats(y, M, 1),
        .src    = {VIEW(RP_Q8_0, blocks, N, M, 1, 1), floats(x, N, 1), floats(norm, N, 1), floats(bias, M, 1),
                   floats(residual, M, 1), floats(post, M, 1), floats(factor, M, 1), floats(sum, M, 1),
                   floats(sum_residual, M, 1)},
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
        const double v = (double)0.7f * (dot + (double)bias[m]);
        sums[m]        = v / (1.0 + exp(-v));
        all += sums[m] * sums[m];
    }
    double second = 0.0;
    for (int m = 0; m < M; m++) {
        want[m] = sums[m] / sqrt(all / M + 1e-6) * (double)post[m] + (double)residual[m];
        second += want[m] * want[m];
    }
    for (int m = 0; m < M; m++)
        want[m] = (double)factor[m] * (want[m] / sqrt(second / M + 1e-5) * (double)sum[m] + (double)sum_residual[m]);
    expect_near(y, want, M, 1e-5);
    free(x), free(norm), free(bias), free(residual), free(post), free(sum), free(sum_residual), free(factor),
        free(blocks), free(w);
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
