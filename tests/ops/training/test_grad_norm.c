/* The op grad_norm against sums in double. `sums` begins with the norm, then the sum of squares as two floats. */
#include "tests/support/kernel_test.h"

static float sums[RP_GRAD_NORM_FLOATS];

static float norm_of(float *x, int64_t n, bool first) {
    const RpOpParams   p    = {.grad_norm = {.first = first}};
    const RpTensorView y    = tensor(RP_F32, sums, RP_GRAD_NORM_FLOATS, 1, 1, 1);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {tensor(RP_F32, x, n, 1, 1, 1), y},
            .params = &p,
    };
    run_variants(rp_cpu_grad_norm, &args);
    return sums[0];
}

static double squares(const float *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

Test(grad_norm, is_the_root_of_the_sum_of_squares) {
    static const int64_t sizes[] = {1, 31, 33, 4096, 4097, 9001, 30000};
    float               *x       = random_floats(30000, 3);
    for (int i = 0; i < 7; i++) {
        const double want = sqrt(squares(x, sizes[i]));
        const float  got  = norm_of(x, sizes[i], true);
        cr_expect(fabs((double)got - want) <= 0.51 * want * 0x1p-23, "%d elements: %.9g, not %.9g", (int)sizes[i],
                  (double)got, want);
    }
    free(x);
}

#ifndef RP_TEST_CUDA
Test(grad_norm, of_more_elements_than_parts) {
    enum { N = 1 << 22 };
    float       *x    = random_floats(N + 3, 3);
    const double want = sqrt(squares(x, N + 3));
    cr_expect(fabs((double)norm_of(x, N + 3, true) - want) <= 0.51 * want * 0x1p-23);
    free(x);
}
#endif

/* Three tensors together have the norm of one that holds them all, however different their sizes are. */
Test(grad_norm, goes_on_with_the_sum) {
    float *x = random_floats(9000, 5);
    for (int i = 0; i < 5000; i++) x[i] *= 1e-3f;
    norm_of(x, 5000, true);
    norm_of(x + 5000, 1, false);
    const float  got  = norm_of(x + 5001, 3999, false);
    const double want = sqrt(squares(x, 9000));
    cr_expect(fabs((double)got - want) <= 0.51 * want * 0x1p-23, "%.9g, not %.9g", (double)got, want);
    cr_expect(fabs((double)sums[1] + (double)sums[2] - want * want) <= 1e-12 * want * want);
    free(x);
}

Test(grad_norm, of_nan_infinity_and_numbers_whose_squares_overflow) {
    float x[5] = {1.0f, 3e38f, 0.0f, 2.0f, 3.0f}, ones[2] = {1.0f, 1.0f};
    cr_expect_eq(norm_of(x, 5, true), INFINITY);
    cr_expect_eq(norm_of(ones, 2, false), INFINITY); /* it stays */
    x[1] = -INFINITY;
    cr_expect_eq(norm_of(x, 5, true), INFINITY);
    x[2] = NAN;
    cr_expect(isnan(norm_of(x, 5, true)));
    cr_expect(isnan(norm_of(ones, 2, false)));
    cr_expect_eq(norm_of(ones + 1, 1, true), 1.0f); /* `first` forgets it */
    x[0] = 1e-30f;
    cr_expect_eq(norm_of(x, 1, true), 0.0f); /* squares below the range of f32 */
}

Test(grad_norm, refuses_another_state) {
    float            x[4] = {0};
    const RpOpParams p    = {0};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, sums, RP_GRAD_NORM_FLOATS, 1, 1, 1),
                .src    = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, sums, 2, 1, 1, 1)},
                .params = &p
    };
    REFUSED(run_workers(rp_cpu_grad_norm, &args, 1), RP_E_SHAPE,
            "grad_norm: sums must be f32 [1028]: x f32 [4], sums f32 [2], result f32 [1028]");
    float other[RP_GRAD_NORM_FLOATS];
    args.grad_norm.sums = tensor(RP_F32, other, RP_GRAD_NORM_FLOATS, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_grad_norm, &args, 1), RP_E_ARG,
            "grad_norm: the result must be the memory of sums: x f32 [4], sums f32 [1028], result f32 [1028]");
}
