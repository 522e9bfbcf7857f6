/* The op gelu in both forms, against their formulas in double. */
#include "tests/support/kernel_test.h"

static void check(RpGeluKind kind, double (*f)(double)) {
    enum { N = 500 };
    float           *x = random_floats(N, 2), y[N];
    double           want[N];
    const RpOpParams p = {.gelu = {.kind = kind}};
    for (int i = 0; i < N; i++) x[i] *= 12.0f, want[i] = f((double)x[i]);
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, 100, 5, 1, 1), .src = {tensor(RP_F32, x, 100, 5, 1, 1)}, .params = &p};
    run_variants(rp_cpu_gelu, &args);
    expect_near(y, want, N, 1e-6);
    free(x);
}

static double by_tanh(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double by_erf(double x) { return 0.5 * x * (1.0 + erf(x / sqrt(2.0))); }

Test(gelu, follows_the_tanh_formula) { check(RP_GELU_TANH, by_tanh); }
Test(gelu, follows_the_erf_formula) { check(RP_GELU_ERF, by_erf); }

Test(gelu, refuses_an_unknown_kind) {
    float            x[4] = {0};
    const RpOpParams p    = {.gelu = {.kind = (RpGeluKind)7}};
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 1, 1, 1)}, .params = &p};
    REFUSED(run_workers(rp_cpu_gelu, &args, 1), RP_E_ARG,
            "gelu: kind = 7 must be one of RpGeluKind: x f32 [4], result f32 [4]");
}
