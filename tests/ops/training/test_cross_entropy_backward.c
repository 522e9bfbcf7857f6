/* The op cross_entropy_backward against the formula in double, and against differences of cross_entropy. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

static void want_gradient(const float *x, int n, int target, double dy, double *dx) {
    double top = -HUGE_VAL, sum = 0.0;
    for (int i = 0; i < n; i++) top = fmax(top, (double)x[i]);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    for (int i = 0; i < n; i++)
        dx[i] = target < 0 ? 0.0 : (exp((double)x[i] - top) / sum - (i == target ? 1.0 : 0.0)) * dy;
}

static void check(int n, int rows, float scale) {
    float *x = random_floats((size_t)(n * rows), 5), *dy = random_floats((size_t)rows, 6),
          *dx        = malloc((size_t)(n * rows) * sizeof *dx);
    double  *want    = malloc((size_t)(n * rows) * sizeof *want);
    int32_t *targets = malloc((size_t)rows * sizeof *targets);
    for (int i = 0; i < n * rows; i++) x[i] *= scale;
    for (int t = 0; t < rows; t++) {
        targets[t] = t % 3 == 1 ? -1 : (t * 7919 + n - 1) % n;
        want_gradient(x + n * t, n, targets[t], (double)dy[t], want + n * t);
    }
    RpOpArgs args = {
        .dst = tensor(RP_F32, dx, n, rows, 1, 1),
        .src = {tensor(RP_F32, x, n, rows, 1, 1), tensor(RP_I32, targets, rows, 1, 1, 1),
                tensor(RP_F32, dy, rows, 1, 1, 1)}
    };
    run_variants(rp_cpu_cross_entropy_backward, &args);
    expect_near(dx, want, (size_t)(n * rows), 2e-7);
    args.dst = args.cross_entropy_backward.x; /* in place */
    run_variants(rp_cpu_cross_entropy_backward, &args);
    cr_expect_arr_eq(x, dx, (size_t)(n * rows) * sizeof *x);
    free(x), free(dy), free(dx), free(want), free(targets);
}

Test(cross_entropy_backward, is_softmax_minus_the_target) {
    check(1, 1, 1.0f), check(2, 5, 1.0f), check(31, 7, 10.0f), check(33, 4, 10.0f), check(2500, 2, 20.0f);
    check(100, 3, 1e4f);
}

#ifndef RP_TEST_CUDA
Test(cross_entropy_backward, takes_a_large_vocabulary) { check(152064, 2, 15.0f); }

/* dy * (loss(x + h) - loss(x - h)) / 2h, from the forward op. */
Test(cross_entropy_backward, is_the_slope_of_cross_entropy) {
    enum { N = 9 };
    float         *x = random_floats(N, 3), y[2], dx[N], dy = 0.75f;
    int32_t        target = 4;
    const RpOpArgs back   = {
          .dst = tensor(RP_F32, dx, N, 1, 1, 1),
          .src = {tensor(RP_F32, x, N, 1, 1, 1), tensor(RP_I32, &target, 1, 1, 1, 1), tensor(RP_F32, &dy, 1, 1, 1, 1)}
    };
    OK(run_workers(rp_cpu_cross_entropy_backward, &back, 1));
    for (int i = 0; i < N; i++) {
        const float at = x[i], h = 0x1p-7f;
        for (int k = 0; k < 2; k++) {
            x[i]                = k == 0 ? at - h : at + h;
            const RpOpArgs args = {
                .dst = tensor(RP_F32, &y[k], 1, 1, 1, 1),
                .src = {tensor(RP_F32, x, N, 1, 1, 1), tensor(RP_I32, &target, 1, 1, 1, 1)}
            };
            OK(run_workers(rp_cpu_cross_entropy, &args, 1));
        }
        x[i] = at;
        cr_expect(fabsf(dy * (y[1] - y[0]) / (2.0f * h) - dx[i]) < 5e-5f, "element %d", i);
    }
    free(x);
}
#endif

Test(cross_entropy_backward, rows_with_nan_or_infinity) {
    enum { N = 40, ROWS = 4 };
    float  *x = random_floats(N * ROWS, 7), dx[N * ROWS], dy[ROWS] = {1, 1, 1, 1};
    int32_t targets[ROWS] = {3, 3, -1, 3};
    x[0 * N + 17] = NAN, x[1 * N + 17] = INFINITY, x[2 * N + 17] = NAN, x[3 * N + 17] = -INFINITY;
    const RpOpArgs args = {
        .dst = tensor(RP_F32, dx, N, ROWS, 1, 1),
        .src = {tensor(RP_F32, x, N, ROWS, 1, 1), tensor(RP_I32, targets, ROWS, 1, 1, 1),
                tensor(RP_F32, dy, ROWS, 1, 1, 1)}
    };
    run_variants(rp_cpu_cross_entropy_backward, &args);
    for (int i = 0; i < N; i++)
        cr_expect(isnan(dx[i]) && isnan(dx[N + i]) && dx[2 * N + i] == 0.0f && isfinite(dx[3 * N + i]), CASE(i));
    cr_expect(dx[3 * N + 17] == 0.0f);
    free(x);
}

Test(cross_entropy_backward, a_target_outside_of_the_row) {
    float    x[8] = {0}, dx[8], dy[2] = {1, 1};
    int32_t  targets[2] = {1, 4};
    RpOpArgs args       = {
              .dst = tensor(RP_F32, dx, 4, 2, 1, 1),
              .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_I32, targets, 2, 1, 1, 1), tensor(RP_F32, dy, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_cross_entropy_backward, &args, 1), RP_E_ARG,
            "cross_entropy_backward: target 4 of row 1: must be from 0 to 3, or -1 for none");
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_cross_entropy_backward, &args, dx));
    cr_expect(dx[0] == 0.25f && dx[1] == -0.75f && isnan(dx[4]) && isnan(dx[7]));
#endif
    args.cross_entropy_backward.dy = tensor(RP_F32, dy, 1, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_cross_entropy_backward, &args, 1), RP_E_SHAPE,
            "cross_entropy_backward: dy must be f32 [2]: x f32 [4,2], targets i32 [2], dy f32 [1], result "
            "f32 [4,2]");
}
