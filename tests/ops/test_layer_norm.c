/* The op layer_norm, y[r,i] = (x[r,i] - mean) / sqrt(variance + eps) * w[i] + b[i], mean and variance of row r, against
 * the formula in double and against numbers computed by hand. */
#include "tests/support/kernel_test.h"

static void check(int64_t n, int64_t rows, bool weighted, bool biased) {
    const size_t total = (size_t)(n * rows);
    float       *x = random_floats(total, 6), *w = random_floats((size_t)n, 7), *b = random_floats((size_t)n, 8),
          *y              = malloc(total * sizeof *y);
    double          *want = malloc(total * sizeof *want);
    const RpOpParams p    = {.layer_norm = {.eps = 1e-5f}};
    for (size_t i = 0; i < total; i++) x[i] += 3.0f; /* a mean that is not small */
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0.0, square = 0.0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++) square += ((double)x[r * n + i] - mean) * ((double)x[r * n + i] - mean);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = ((double)x[r * n + i] - mean) / sqrt(square / (double)n + (double)1e-5f) *
                                  (weighted ? (double)w[i] : 1.0) +
                              (biased ? (double)b[i] : 0.0);
    }
    RpOpArgs args = {.dst = tensor(RP_F32, y, n, rows, 1, 1), .src = {tensor(RP_F32, x, n, rows, 1, 1)}, .params = &p};
    if (weighted) args.layer_norm.w = tensor(RP_F32, w, n, 1, 1, 1);
    if (biased) args.layer_norm.b = tensor(RP_F32, b, n, 1, 1, 1);
    run_variants(rp_cpu_layer_norm, &args);
    expect_near(y, want, total, 1e-5);
    args.dst.data = x;
    run_variants(rp_cpu_layer_norm, &args);
    cr_expect_arr_eq(x, y, total * sizeof *y);
    free(x), free(w), free(b), free(y), free(want);
}

Test(layer_norm, gives_each_row_mean_0_and_variance_1) {
    check(384, 5, true, true), check(7, 3, true, true), check(1, 1, true, true);
}
Test(layer_norm, takes_rows_of_any_length) {
    check(4096, 1, true, true), check(5123, 2, true, true), check(1026, 2, true, true);
}
Test(layer_norm, works_without_weight_and_bias) {
    check(100, 4, false, false), check(100, 4, true, false), check(100, 4, false, true);
}

Test(layer_norm, gives_known_results) {
    float            x[] = {1, 3, 6, 10}, w[] = {1, 2}, b[] = {0.5f, -1}, y[4];
    const RpOpParams p    = {.layer_norm = {.eps = 0.0f}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, y, 2, 2, 1, 1),
          .src    = {tensor(RP_F32, x, 2, 2, 1, 1), tensor(RP_F32, w, 2, 1, 1, 1), tensor(RP_F32, b, 2, 1, 1, 1)},
          .params = &p
    };
    OK(run_workers(rp_cpu_layer_norm, &args, 1));
    const double want[] = {-0.5, 1.0, -0.5, 1.0}; /* mean 2, deviation 1; mean 8, deviation 2 */
    expect_near(y, want, 4, 1e-7);
}

Test(layer_norm, refuses_vectors_of_another_length_or_type) {
    float          x[4] = {0}, w[4] = {0}, y[4];
    const RpOpArgs length = {
        .dst = tensor(RP_F32, y, 4, 1, 1, 1),
        .src = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, w, 4, 1, 1, 1), tensor(RP_F32, w, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_layer_norm, &length, 1), RP_E_SHAPE,
            "layer_norm: w and b must be as long as the rows of x: x f32 [4], w f32 [4], b f32 [3], result f32 [4]");
    const RpOpArgs type = {
        .dst = tensor(RP_F32, y, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_I32, w, 4, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_layer_norm, &type, 1), RP_E_DTYPE,
            "layer_norm: w and b must be f32: x f32 [4], w i32 [4], result f32 [4]");
}

Test(layer_norm, a_graph_refuses_bad_parameters) {
    const RpOpParams eps = {.layer_norm = {.eps = -1.0f}}, fine = {.layer_norm = {.eps = 1.0f}};
    for (int i = 0; i < 2; i++) {
        ComputeGraph *g = rp_graph_new();
        TensorNode   *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){4, 2, 1, 1});
        TensorNode   *w = rp_graph_input(g, "w", RP_F32, (int64_t[]){i == 0 ? 4 : 3, 1, 1, 1});
        cr_assert_null(rp_graph_op(g, RP_OP_LAYER_NORM, i == 0 ? &eps : &fine, (TensorNode *const[]){x, w}, 2), "%d",
                       i);
        REFUSED(rp_graph_finish(g, (TensorNode *const[]){x}, 1), i == 0 ? RP_E_ARG : RP_E_SHAPE,
                i == 0 ? "eps must not be negative" : "weight and bias must be f32 vectors of the row's length");
        rp_graph_free(g);
    }
}
