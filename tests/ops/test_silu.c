/* The op silu, y = x / (1 + exp(-x)), against the formula in double, up to overflow of exp. */
#include "tests/support/kernel_test.h"

Test(silu, is_x_over_one_plus_exp_minus_x) {
    enum { N = 333, ROWS = 3 };
    float *x = random_floats(N * ROWS, 1), y[N * ROWS];
    double want[N * ROWS];
    for (int i = 0; i < N * ROWS; i++) x[i] *= 30.0f;
    x[0] = 0.0f, x[1] = -100.0f, x[2] = 88.0f, x[3] = -200.0f, x[4] = 1e-20f, x[5] = 3e38f, x[6] = -3e38f;
    for (int i = 0; i < N * ROWS; i++) want[i] = (double)x[i] / (1.0 + exp(-(double)x[i]));
    const RpOpArgs args = {.dst = tensor(RP_F32, y, N, ROWS, 1, 1), .src = {tensor(RP_F32, x, N, ROWS, 1, 1)}};
    run_variants(rp_cpu_silu, &args);
    for (int i = 0; i < N * ROWS; i++)
        cr_assert(fabs((double)y[i] - want[i]) <= 4e-7 * fabs(want[i]) + 1e-30, "silu(%g) = %.9g, not %.9g",
                  (double)x[i], (double)y[i], want[i]);
    free(x);
}

Test(silu, works_in_place_and_propagates_nan) {
    float          x[5] = {1.0f, NAN, -INFINITY, INFINITY, -1.0f};
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 5, 1, 1, 1), .src = {tensor(RP_F32, x, 5, 1, 1, 1)}};
    OK(run_workers(rp_cpu_silu, &args, 1));
    cr_expect_float_eq(x[0], 0.7310586f, 1e-6f);
    cr_expect(isnan(x[1]) && isinf(x[3]));
    cr_expect_float_eq(x[4], -0.2689414f, 1e-6f);
}

Test(silu, refuses_another_shape_or_type) {
    float    x[8];
    RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 2, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_silu, &args, 1), RP_E_SHAPE,
            "silu: x and the result must have one shape: x f32 [8], result f32 [4,2]");
    args.silu.x = tensor(RP_F16, x, 4, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_silu, &args, 1), RP_E_DTYPE,
            "silu: x and the result must be f32: x f16 [4,2], result f32 [4,2]");
}
