/* The op relu_sqr, y = max(x, 0)^2, against the formula in double. */
#include "tests/support/kernel_test.h"

Test(relu_sqr, squares_positive_elements_and_clears_the_others) {
    enum { N = 70 };
    float *x = random_floats(N, 3), y[N];
    double want[N];
    for (int i = 0; i < N; i++) want[i] = (double)x[i] < 0.0 ? 0.0 : (double)x[i] * (double)x[i];
    const RpOpArgs args = {.dst = tensor(RP_F32, y, 35, 2, 1, 1), .src = {tensor(RP_F32, x, 35, 2, 1, 1)}};
    run_variants(rp_cpu_relu_sqr, &args);
    expect_near(y, want, N, 1e-7);
    free(x);
}

Test(relu_sqr, refuses_another_shape) {
    float          x[8];
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_relu_sqr, &args, 1), RP_E_SHAPE,
            "relu_sqr: x and the result must have one shape: x f32 [8], result f32 [4]");
}
