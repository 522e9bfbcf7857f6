/* The op sigmoid, y = 1 / (1 + exp(-x)), against the formula in double, up to overflow of exp. */
#include "tests/support/kernel_test.h"

Test(sigmoid, is_one_over_one_plus_exp_minus_x) {
    enum { N = 333, ROWS = 3 };
    float *x = random_floats(N * ROWS, 1), y[N * ROWS];
    for (int i = 0; i < N * ROWS; i++) x[i] *= 30.0f;
    x[0] = 0.0f, x[1] = -100.0f, x[2] = 100.0f, x[3] = INFINITY, x[4] = -INFINITY;
    const RpOpArgs args = {.dst = tensor(RP_F32, y, N, ROWS, 1, 1), .src = {tensor(RP_F32, x, N, ROWS, 1, 1)}};
    run_variants(rp_cpu_sigmoid, &args);
    for (int i = 0; i < N * ROWS; i++) {
        const double want = 1.0 / (1.0 + exp(-(double)x[i]));
        cr_assert(fabs((double)y[i] - want) <= 4e-7 * want + 1e-30, "sigmoid(%g) = %.9g, not %.9g", (double)x[i],
                  (double)y[i], want);
    }
    free(x);
}

Test(sigmoid, refuses_another_type) {
    float          x[4];
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 1, 1, 1), .src = {tensor(RP_I32, x, 4, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_sigmoid, &args, 1), RP_E_DTYPE,
            "sigmoid: x and the result must be f32: x i32 [4], result f32 [4]");
}
