/* The op fill, y = value. */
#include "tests/support/kernel_test.h"

static void check(int64_t n0, int64_t n1, int64_t n2, float value) {
    const size_t n    = (size_t)(n0 * n1 * n2 * 2);
    float       *y    = aligned_alloc(16, (n * sizeof *y + 15) / 16 * 16);
    double      *want = malloc(n * sizeof *want);
    RpOpParams   p    = {
             .fill = {.ne = {n0, n1, n2, 2}, .value = value}
    };
    for (size_t i = 0; i < n; i++) want[i] = (double)value;
    const RpOpArgs args = {.dst = tensor(RP_F32, y, n0, n1, n2, 2), .params = &p};
    run_variants(rp_cpu_fill, &args);
    expect_near(y, want, n, 0.0);
    free(y), free(want);
}

Test(fill, writes_the_value) { check(1, 1, 1, 1.0f), check(35, 3, 1, 0.0f), check(64, 8, 3, -2.5f); }

Test(fill, refuses_another_shape) {
    float            y[8];
    const RpOpParams p    = {.fill = {.ne = {4, 3, 1, 1}}};
    const RpOpArgs   args = {.dst = tensor(RP_F32, y, 4, 2, 1, 1), .params = &p};
    REFUSED(run_workers(rp_cpu_fill, &args, 1), RP_E_SHAPE, "fill: result must be f32 [4,3]: result f32 [4,2]");
}
