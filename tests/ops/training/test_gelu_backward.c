/* The op gelu_backward against differences of gelu in double, and against the derivative in double. */
#include "tests/support/case.h"
#include "tests/support/slope.h"

static double by_erf(const void *of) {
    const double x = *(const double *)of;
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double by_tanh(const void *of) {
    const double x = *(const double *)of;
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static void check(RpGeluKind kind, int64_t n, float scale) {
    float  *x = random_floats((size_t)n, 3), *dy = random_floats((size_t)n, 4), *dx = malloc((size_t)n * sizeof *dx);
    double *want       = malloc((size_t)n * sizeof *want);
    const RpOpParams p = {.gelu_backward = {.kind = kind}};
    for (int64_t i = 0; i < n; i++) {
        x[i] *= scale;
        double at = (double)x[i];
        want[i]   = (double)dy[i] * slope(kind == RP_GELU_ERF ? by_erf : by_tanh, &at, &at);
    }
    run_gradient(rp_cpu_gelu_backward, &p, dy, x, dx, n, 1);
    expect_near(dx, want, (size_t)n, 3e-6);
    free(x), free(dy), free(dx), free(want);
}

Test(gelu_backward, is_the_slope_of_gelu) {
    for (int kind = RP_GELU_TANH; kind <= RP_GELU_ERF; kind++)
        check((RpGeluKind)kind, 1, 1.0f), check((RpGeluKind)kind, 33, 3.0f), check((RpGeluKind)kind, 1203, 12.0f);
}

Test(gelu_backward, extreme_numbers) {
    for (int kind = RP_GELU_TANH; kind <= RP_GELU_ERF; kind++) {
        float            dy[5] = {2, 2, 2, 2, 2}, x[5] = {INFINITY, -INFINITY, 3e38f, -3e38f, NAN}, dx[5];
        const RpOpParams p = {.gelu_backward = {.kind = (RpGeluKind)kind}};
        run_gradient(rp_cpu_gelu_backward, &p, dy, x, dx, 5, 1);
        cr_expect(dx[0] == 2.0f && fabsf(dx[1]) < 1e-20f && dx[2] == 2.0f && fabsf(dx[3]) < 1e-20f && isnan(dx[4]),
                  CASE(kind));
    }
}

Test(gelu_backward, refuses_an_unknown_kind) {
    float            a[4] = {0}, b[4] = {0};
    const RpOpParams p    = {.gelu_backward = {.kind = (RpGeluKind)7}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, a, 4, 1, 1, 1),
          .src    = {tensor(RP_F32, a, 4, 1, 1, 1), tensor(RP_F32, b, 4, 1, 1, 1)},
          .params = &p
    };
    REFUSED(run_workers(rp_cpu_gelu_backward, &args, 1), RP_E_ARG,
            "gelu_backward: kind = 7 must be one of RpGeluKind: dy f32 [4], x f32 [4], result f32 [4]");
}
