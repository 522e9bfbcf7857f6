/* The op scale, y = scale * x + bias, against the formula in double. */
#include "tests/support/kernel_test.h"

Test(scale, multiplies_and_adds) {
    enum { N = 70 };
    float           *x = random_floats(N, 3), y[N];
    double           want[N];
    const RpOpParams p = {
        .scale = {.scale = -1.5f, .bias = 0.25f}
    };
    for (int i = 0; i < N; i++) want[i] = -1.5 * (double)x[i] + 0.25;
    RpOpArgs args = {.dst = tensor(RP_F32, y, 35, 2, 1, 1), .src = {tensor(RP_F32, x, 35, 2, 1, 1)}, .params = &p};
    run_variants(rp_cpu_scale, &args);
    expect_near(y, want, N, 1e-7);
    args.dst.data = x;
    run_variants(rp_cpu_scale, &args);
    cr_expect_arr_eq(x, y, sizeof y);
    free(x);
}

Test(scale, refuses_another_shape) {
    float          x[8];
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_scale, &args, 1), RP_E_SHAPE,
            "scale: x and the result must have one shape: x f32 [8], result f32 [4]");
}
