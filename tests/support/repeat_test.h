/* repeat_test.h - tests of y = f(a, b) with b repeated to the shape of a, against the formula in double:
 *     y[i,j,k] = f(a[i,j,k], b[i % m0, j % m1, k % m2]) */
#ifndef TESTS_REPEAT_TEST_H
#define TESTS_REPEAT_TEST_H

#include "tests/support/kernel_test.h"

typedef double Elementwise(double a, double b);

enum { N0 = 24, N1 = 6, N2 = 4, N = N0 * N1 * N2 };

/* b has the shape [m0, m1, m2]. If `permuted`, a is a view with dimensions 1 and 2 swapped. Else the op also runs in
 * place. */
static inline void check_repeat(RpOpKernel *kernel, Elementwise *f, int64_t m0, int64_t m1, int64_t m2, bool permuted) {
    float *a = random_floats(N, 4), *b = random_floats((size_t)(m0 * m1 * m2), 5), y[N];
    double want[N];
    for (int64_t i = 0; i < m0 * m1 * m2; i++)
        b[i] /= 3.0f; /* of equal exponents, random floats add without rounding */
    RpTensorView va = tensor(RP_F32, a, N0, N1, N2, 1);
    if (permuted)
        va = (RpTensorView){
            a, RP_F32, {N0, N2,          N1,     1    },
              {4,  4 * N0 * N1, 4 * N0, 4 * N}
        };
    RpOpArgs args = {
        .dst = rp_view_contiguous(RP_F32, va.ne, y), .src = {va, tensor(RP_F32, b, m0, m1, m2, 1)}
    };
    for (int64_t k = 0; k < va.ne[2]; k++)
        for (int64_t j = 0; j < va.ne[1]; j++)
            for (int64_t i = 0; i < N0; i++)
                want[i + N0 * (j + va.ne[1] * k)] =
                    f((double)a[permuted ? i + N0 * (k + N1 * j) : i + N0 * (j + N1 * k)],
                      (double)b[i % m0 + m0 * (j % m1 + m1 * (k % m2))]);
    run_variants(kernel, &args);
    expect_near(y, want, N, 1e-7);
    if (!permuted) {
        args.dst.data = a;
        run_variants(kernel, &args);
        cr_expect_arr_eq(a, y, sizeof y);
    }
    free(a), free(b);
}

#endif
