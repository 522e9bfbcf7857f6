/* The op rms_norm, y[r,i] = x[r,i] / sqrt(mean over i of x[r,i]^2 + eps) * w[i], against the formula in double
 * and against numbers computed by hand. */
#include "tests/support/kernel_test.h"

static void check(int64_t n, int64_t rows, bool weighted) {
    const size_t     total = (size_t)(n * rows);
    float           *x = random_floats(total, 6), *w = random_floats((size_t)n, 7), *y = malloc(total * sizeof *y);
    double          *want = malloc(total * sizeof *want);
    const RpOpParams p    = {.rms_norm = {.eps = 1e-5f}};
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += (double)x[r * n + i] * (double)x[r * n + i];
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = (double)x[r * n + i] / sqrt(sum / (double)n + 1e-5) * (weighted ? (double)w[i] : 1.0);
    }
    RpOpArgs args = {.dst = tensor(RP_F32, y, n, rows, 1, 1), .src = {tensor(RP_F32, x, n, rows, 1, 1)}, .params = &p};
    if (weighted) args.rms_norm.w = tensor(RP_F32, w, n, 1, 1, 1);
    run_variants(rp_cpu_rms_norm, &args);
    expect_near(y, want, total, 2e-7);
    args.dst.data = x;
    run_variants(rp_cpu_rms_norm, &args);
    cr_expect_arr_eq(x, y, total * sizeof *y);
    free(x), free(w), free(y), free(want);
}

Test(rms_norm, divides_each_row_by_its_rms) { check(576, 5, true), check(7, 3, true), check(1, 1, true); }
/* Rows of several passes of a block over 1024 elements, unrolled fourfold, with a rest of each length; the second row
 * of an odd length is not aligned. */
Test(rms_norm, takes_rows_of_any_length) {
    check(4096, 1, true), check(5123, 2, true), check(1024, 2, true), check(1026, 2, true), check(3073, 2, true);
}
Test(rms_norm, works_without_a_weight) { check(100, 4, false); }

Test(rms_norm, gives_known_results) {
    float            x[] = {3, 4, 6, 8}, w[] = {1, 2}, y[4];
    const RpOpParams p    = {.rms_norm = {.eps = 0.0f}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, y, 2, 2, 1, 1),
          .src    = {tensor(RP_F32, x, 2, 2, 1, 1), tensor(RP_F32, w, 2, 1, 1, 1)},
          .params = &p
    };
    OK(run_workers(rp_cpu_rms_norm, &args, 1));
    const double want[] = {0.8485281374, 2.2627416998, 0.8485281374, 2.2627416998}; /* rms(3,4) = sqrt(12.5) */
    expect_near(y, want, 4, 1e-7);
}

Test(rms_norm, refuses_a_weight_of_another_length) {
    float          x[4] = {0}, w[3] = {0}, y[4];
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, w, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_rms_norm, &args, 1), RP_E_SHAPE,
            "rms_norm: w must be as long as the rows of x: x f32 [4], w f32 [3], result f32 [4]");
}
