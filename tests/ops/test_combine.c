/* The op combine, y[:,t] = sum over j of w[j,t] x[:,j,t]: against the sum in double, and bit for bit against fused
 * multiply-adds in the order of the ids (I8). */
#include "tests/support/kernel_test.h"

Test(combine, sums_in_the_order_of_the_ids) {
    enum { N = 75, K = 5, TOK = 3 };
    float *x = random_floats(N * K * TOK, 1), *w = random_floats(K * TOK, 2), y[N * TOK];
    double want[N * TOK];
    float  in_order[N * TOK];
    for (int t = 0; t < TOK; t++)
        for (int i = 0; i < N; i++) {
            float sum       = 0.0f;
            want[i + N * t] = 0.0;
            for (int j = 0; j < K; j++) {
                want[i + N * t] += (double)w[j + K * t] * (double)x[i + N * (j + K * t)];
                sum = fmaf(w[j + K * t], x[i + N * (j + K * t)], sum);
            }
            in_order[i + N * t] = sum;
        }
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, N, TOK, 1, 1),
        .src = {tensor(RP_F32, x, N, K, TOK, 1), tensor(RP_F32, w, K, TOK, 1, 1)}
    };
    run_variants(rp_cpu_combine, &args);
    expect_near(y, want, N * TOK, 1e-6);
    cr_expect_arr_eq(y, in_order, sizeof y);
    free(x), free(w);
}

Test(combine, refuses_weights_of_another_shape) {
    float          x[8], y[4];
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, x, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_combine, &args, 1), RP_E_SHAPE,
            "combine: weights must have one for each row of x: x f32 [4,2], weights f32 [3], result f32 [4]");
}
