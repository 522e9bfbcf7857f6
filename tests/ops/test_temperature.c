/* The op temperature, y = 1 + scale * ln(1 + floor(pos / length)), against the formula in double. */
#include "tests/support/kernel_test.h"

Test(temperature, grows_each_length_positions) {
    enum { N = 9 };
    int32_t          pos[N] = {0, 1, 7, 8, 15, 16, 100, 1 << 30, -1};
    float            y[N];
    double           want[N];
    const RpOpParams p = {
        .temperature = {.scale = 0.25f, .length = 8}
    };
    for (int t = 0; t < N; t++) want[t] = 1.0 + 0.25 * log(1.0 + floor(fmax(pos[t], 0.0) / 8.0));
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, 1, 1, N, 1), .src = {tensor(RP_I32, pos, N, 1, 1, 1)}, .params = &p};
    run_variants(rp_cpu_temperature, &args);
    expect_near(y, want, N, 1e-6);
    cr_expect_eq(y[0], 1.0f);
    cr_expect_eq(y[8], 1.0f, "a padding token");
}

Test(temperature, refuses_a_length_of_0) {
    int32_t          pos[1] = {0};
    float            y[1];
    const RpOpParams p    = {.temperature = {.scale = 1.0f}};
    const RpOpArgs   args = {
          .dst = tensor(RP_F32, y, 1, 1, 1, 1), .src = {tensor(RP_I32, pos, 1, 1, 1, 1)}, .params = &p};
    REFUSED(run_workers(rp_cpu_temperature, &args, 1), RP_E_ARG,
            "temperature: length = 0 must be at least 1: pos i32 [1], result f32 [1]");
}
