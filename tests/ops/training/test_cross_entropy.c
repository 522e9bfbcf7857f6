/* The op cross_entropy against the formula in double: y[t] = log(sum_i exp(x[i,t])) - x[target,t]. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

static double log_sum(const float *x, int n) {
    double top = -HUGE_VAL, sum = 0.0;
    for (int i = 0; i < n; i++) top = fmax(top, (double)x[i]);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* Logits between -scale and scale, around `offset`. Every third target is -1. */
static void check(int n, int rows, float scale, float offset) {
    float *x = random_floats((size_t)(n * rows), 5), *y = malloc((size_t)rows * sizeof *y),
          *log_probs = malloc((size_t)(n * rows) * sizeof *log_probs);
    int32_t *targets = malloc((size_t)rows * sizeof *targets);
    for (int i = 0; i < n * rows; i++) x[i] = scale * x[i] + offset, log_probs[i] = 0.0f;
    for (int t = 0; t < rows; t++) targets[t] = t % 3 == 1 ? -1 : (t * 7919 + n - 1) % n;
    RpOpArgs args = {
        .dst = tensor(RP_F32, y, rows, 1, 1, 1),
        .src = {tensor(RP_F32, x, n, rows, 1, 1), tensor(RP_I32, targets, rows, 1, 1, 1)}
    };
    for (int with = 0; with < 2; with++) {
        if (with == 1) args.cross_entropy.log_probs = tensor(RP_F32, log_probs, n, rows, 1, 1);
        run_variants(rp_cpu_cross_entropy, &args);
        for (int t = 0; t < rows; t++) {
            const double sum  = log_sum(x + n * t, n);
            const double want = targets[t] < 0 ? 0.0 : sum - (double)x[n * t + targets[t]];
            cr_assert(fabs((double)y[t] - want) <= 1e-6 * fmax(1.0, want), "row %d: %.9g, not %.9g", t, (double)y[t],
                      want);
            for (int i = n * t; i < n * (t + 1) && with == 1; i++)
                cr_assert(fabs((double)log_probs[i] - ((double)x[i] - sum)) <=
                              1e-6 * fmax(1.0, fabs((double)log_probs[i])),
                          CASE(with, t, i));
        }
    }
    free(x), free(y), free(log_probs), free(targets);
}

Test(cross_entropy, is_the_negative_log_probability_of_the_target) {
    check(1, 1, 1.0f, 0.0f), check(2, 5, 1.0f, 0.0f), check(31, 7, 10.0f, 0.0f), check(33, 4, 10.0f, 0.0f);
    check(2500, 2, 20.0f, 0.0f);
}

Test(cross_entropy, large_logits_do_not_overflow) {
    check(100, 3, 1e4f, 0.0f), check(100, 3, 1.0f, 1e6f), check(100, 3, 1e38f, 0.0f);
}

#ifndef RP_TEST_CUDA
Test(cross_entropy, takes_a_large_vocabulary) { check(152064, 2, 15.0f, -40.0f); }
#endif

Test(cross_entropy, rows_with_nan_or_infinity) {
    enum { N = 40, ROWS = 6 };
    float  *x             = random_floats(N * ROWS, 7), y[ROWS];
    int32_t targets[ROWS] = {3, 3, 3, 3, -1, 20};
    x[0 * N + 17] = NAN, x[1 * N + 17] = INFINITY, x[2 * N + 3] = -INFINITY, x[4 * N + 5] = NAN;
    for (int i = 0; i < N; i++) x[3 * N + i] = -INFINITY;
    x[5 * N + 3]        = -INFINITY; /* not the target: it has the probability 0 */
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, ROWS, 1, 1, 1),
        .src = {tensor(RP_F32, x, N, ROWS, 1, 1), tensor(RP_I32, targets, ROWS, 1, 1, 1)}
    };
    run_variants(rp_cpu_cross_entropy, &args);
    cr_expect(isnan(y[0]) && isnan(y[1]) && y[2] == INFINITY && isnan(y[3]) && y[4] == 0.0f);
    cr_expect(fabs((double)y[5] - log_sum(x + 5 * N, N) + (double)x[5 * N + 20]) < 1e-6);
    free(x);
}

/* The CPU reports a target outside of the row; the kernel on a GPU cannot, and its loss is NaN. */
Test(cross_entropy, a_target_outside_of_the_row) {
    float    x[8] = {0}, y[2] = {0};
    int32_t  targets[2] = {1, 4};
    RpOpArgs args       = {
              .dst = tensor(RP_F32, y, 2, 1, 1, 1),
              .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_I32, targets, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_cross_entropy, &args, 2), RP_E_ARG,
            "cross_entropy: target 4 of row 1: must be from 0 to 3, or -1 for none");
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_cross_entropy, &args, y));
    cr_expect(fabs((double)y[0] - log(4.0)) < 1e-6 && isnan(y[1]));
#endif
    targets[1] = -2;
    REFUSED(run_workers(rp_cpu_cross_entropy, &args, 1), RP_E_ARG, "target -2 of row 1");
}

Test(cross_entropy, refuses_other_shapes) {
    float    x[8]       = {0}, y[2];
    int32_t  targets[3] = {0};
    RpOpArgs args       = {
              .dst = tensor(RP_F32, y, 2, 1, 1, 1),
              .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_I32, targets, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_cross_entropy, &args, 1), RP_E_SHAPE,
            "cross_entropy: targets must be i32 [2]: x f32 [4,2], targets i32 [3], result f32 [2]");
    args.cross_entropy.targets   = tensor(RP_I32, targets, 2, 1, 1, 1);
    args.cross_entropy.log_probs = tensor(RP_F32, x, 2, 4, 1, 1);
    REFUSED(run_workers(rp_cpu_cross_entropy, &args, 1), RP_E_SHAPE,
            "cross_entropy: log_probs must be f32 [4,2]: x f32 [4,2], targets i32 [2], log_probs f32 [2,4], "
            "result f32 [2]");
}
