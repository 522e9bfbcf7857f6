/* The op silu_backward against the formula in double, and against differences of silu in double. */
#include "tests/support/case.h"
#include "tests/support/slope.h"

static double silu(double x) { return x / (1.0 + exp(-x)); }

static double loss(const void *x) { return silu(*(const double *)x); }

static void check(int64_t n, int64_t rows, float scale) {
    const size_t total = (size_t)(n * rows);
    float       *x = random_floats(total, 3), *dy = random_floats(total, 4), *dx = malloc(total * sizeof *dx);
    double      *want = malloc(total * sizeof *want);
    for (size_t i = 0; i < total; i++) {
        x[i] *= scale;
        double       at = (double)x[i];
        const double s  = 1.0 / (1.0 + exp(-at));
        want[i]         = (double)dy[i] * s * (1.0 + at * (1.0 - s));
        cr_assert(fabs(want[i] - (double)dy[i] * slope(loss, &at, &at)) <= 1e-8, CASE(i));
    }
    run_gradient(rp_cpu_silu_backward, &(RpOpParams){0}, dy, x, dx, n, rows);
    expect_near(dx, want, total, 1e-6);
    free(x), free(dy), free(dx), free(want);
}

Test(silu_backward, is_the_slope_of_silu) { check(1, 1, 1.0f), check(33, 3, 5.0f), check(1203, 2, 30.0f); }

Test(silu_backward, extreme_numbers) {
    float dy[4] = {1, 1, 1, 1}, x[4] = {88.0f, -88.0f, 3e38f, -200.0f}, dx[4];
    run_gradient(rp_cpu_silu_backward, &(RpOpParams){0}, dy, x, dx, 4, 1);
    cr_expect(dx[0] == 1.0f && fabsf(dx[1]) < 1e-30f && dx[2] == 1.0f && dx[3] == 0.0f);
}

/* Two NaNs are multiplied, whose order compilers choose: their sign is not compared. */
Test(silu_backward, a_nan_stays_at_its_place) {
    float          dy[3] = {1, 1, 1}, x[3] = {1, NAN, -1}, dx[3];
    const RpOpArgs args = {
        .dst = tensor(RP_F32, dx, 3, 1, 1, 1), .src = {tensor(RP_F32, dy, 3, 1, 1, 1), tensor(RP_F32, x, 3, 1, 1, 1)}
    };
    OK(run_workers(rp_cpu_silu_backward, &args, 1));
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_silu_backward, &args, dx));
#endif
    cr_expect(isfinite(dx[0]) && isnan(dx[1]) && isfinite(dx[2]));
}

Test(silu_backward, refuses_another_shape) {
    float          a[8] = {0}, b[8] = {0};
    const RpOpArgs args = {
        .dst = tensor(RP_F32, a, 4, 2, 1, 1), .src = {tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_F32, b, 4, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_silu_backward, &args, 1), RP_E_SHAPE,
            "silu_backward: x must be f32 [4,2]: dy f32 [4,2], x f32 [4], result f32 [4,2]");
}
