/* slope.h - gradients by central differences of a function in double, to test gradients against. */
#ifndef TESTS_SLOPE_H
#define TESTS_SLOPE_H

#include "tests/support/kernel_test.h"

/* A loss; `of` has what else it depends on. */
typedef double LossFunction(const void *of);

/* (f(x + h) - f(x - h)) / 2h; its error is about 1e-9 for losses near 1. *x is an operand of f. */
static inline double slope(LossFunction *f, const void *of, double *x) {
    const double at = *x, h = 1e-5;
    *x                = at + h;
    const double more = f(of);
    *x                = at - h;
    const double less = f(of);
    *x                = at;
    return (more - less) / (2.0 * h);
}

static inline void slopes(LossFunction *f, const void *of, double *x, size_t n, double *out) {
    for (size_t i = 0; i < n; i++) out[i] = slope(f, of, &x[i]);
}

static inline double *in_double(const float *x, size_t n) {
    double *y = malloc((n + 1) * sizeof *y);
    for (size_t i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

/* Runs an op of dy and one more source on n x rows; dx [n,rows] is the result, in place too if `inplace`. */
static inline void run_gradient(RpOpKernel *kernel, const RpOpParams *p, float *dy, float *x, float *dx, int64_t n,
                                int64_t rows) {
    const size_t bytes = (size_t)(n * rows) * sizeof *dx;
    RpOpArgs     args  = {
             .dst    = tensor(RP_F32, dx, n, rows, 1, 1),
             .src    = {tensor(RP_F32, dy, n, rows, 1, 1), tensor(RP_F32, x, n, rows, 1, 1)},
             .params = p
    };
    run_variants(kernel, &args);
    float *kept   = memcpy(malloc(bytes), dy, bytes);
    args.dst.data = dy;
    run_variants(kernel, &args);
    cr_expect_arr_eq(dy, dx, bytes, "in place");
    memcpy(dy, kept, bytes);
    free(kept);
}

#endif
