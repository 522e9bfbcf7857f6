/* The op soft_cap, y = cap * tanh(scale * x / cap), against the formula in double. */
#include "tests/support/kernel_test.h"

Test(soft_cap, is_a_scaled_tanh) {
    enum { N = 333, ROWS = 3 };
    float           *x = random_floats(N * ROWS, 1), y[N * ROWS], cap = 30.0f;
    double           want[N * ROWS];
    const RpOpParams p = {.soft_cap = {.scale = 0.5f}};
    for (int i = 0; i < N * ROWS; i++) x[i] *= i % 2 == 0 ? 1.0f : 200.0f;
    x[0] = 0.0f, x[1] = -1e30f, x[2] = INFINITY, x[3] = -INFINITY;
    for (int i = 0; i < N * ROWS; i++) want[i] = 30.0 * tanh(0.5 * (double)x[i] / 30.0);
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, N, ROWS, 1, 1),
        .src    = {tensor(RP_F32, x, N, ROWS, 1, 1), tensor(RP_F32, &cap, 1, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_soft_cap, &args);
    expect_near(y, want, N * ROWS, 1e-5);
    free(x);
}

Test(soft_cap, refuses_two_caps) {
    float            x[4], caps[2] = {1.0f, 2.0f};
    const RpOpParams p    = {.soft_cap = {.scale = 1.0f}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, x, 4, 1, 1, 1),
          .src    = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, caps, 2, 1, 1, 1)},
          .params = &p
    };
    REFUSED(run_workers(rp_cpu_soft_cap, &args, 1), RP_E_SHAPE,
            "soft_cap: cap must be f32 [1]: x f32 [4], cap f32 [2], result f32 [4]");
}
