/* The op xielu against its formula in double, and what it refuses. */
#include "tests/support/kernel_test.h"

static double xielu(double x, const RpXieluParams *p) {
    const double beta = (double)p->beta * x;
    if (x > 0.0) return (double)p->positive * x * x + beta;
    return (double)p->negative * (expm1(fmin(x, (double)p->eps)) - x) + beta;
}

Test(xielu, is_quadratic_above_zero_and_exponential_below) {
    static const float edges[]  = {0.0f,  -0.0f,    -1e-7f, -1e-6f, -2e-6f, -0.001f, -0.4999f,
                                   -0.5f, -0.5001f, -20.0f, -1e4f,  1e4f,   1e-20f};
    static const float scales[] = {1e-3f, 1.0f, 30.0f}, eps[] = {-1e-6f, -0.75f};
    enum { N = 210, N_EDGES = sizeof edges / sizeof edges[0] };
    for (int s = 0; s < 6; s++) {
        float           *x = random_floats(N, 3), y[N];
        double           want[N];
        const RpOpParams p = {
            .xielu = {.positive = 0.8f, .negative = 1.3f, .beta = 0.5f, .eps = eps[s / 3]}
        };
        for (int i = 0; i < N; i++) x[i] = i < N_EDGES ? edges[i] : scales[s % 3] * x[i];
        for (int i = 0; i < N; i++) want[i] = xielu((double)x[i], &p.xielu);
        const RpOpArgs args = {
            .dst = tensor(RP_F32, y, 35, 6, 1, 1), .src = {tensor(RP_F32, x, 35, 6, 1, 1)}, .params = &p};
        run_variants(rp_cpu_xielu, &args);
        expect_near(y, want, N, 5e-7);
        free(x);
    }
}

Test(xielu, refuses_another_shape_and_an_eps_that_is_not_negative) {
    float            x[8] = {0};
    const RpOpParams p = {.xielu = {.eps = -1e-6f}}, zero = {0};
    const RpOpArgs args = {.dst = tensor(RP_F32, x, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1)}, .params = &p};
    REFUSED(run_workers(rp_cpu_xielu, &args, 1), RP_E_SHAPE,
            "xielu: x and the result must have one shape: x f32 [8], result f32 [4]");
    const RpOpArgs same = {
        .dst = tensor(RP_F32, x, 8, 1, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1)}, .params = &zero};
    REFUSED(run_workers(rp_cpu_xielu, &same, 1), RP_E_ARG, "eps = 0 must be below 0");
}
