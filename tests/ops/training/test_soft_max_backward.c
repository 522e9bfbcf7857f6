/* The op soft_max_backward against the formula in double, and against differences of softmax in double. */
#include "tests/support/case.h"
#include "tests/support/slope.h"

static void soft_max(const double *x, int n, double scale, double *y) {
    double top = -(double)INFINITY, sum = 0.0;
    for (int i = 0; i < n; i++) top = fmax(top, scale * x[i]);
    for (int i = 0; i < n; i++) sum += y[i] = exp(scale * x[i] - top);
    for (int i = 0; i < n; i++) y[i] /= sum;
}

typedef struct Row {
    double       x[40], scale;
    const float *dy;
    int          n;
} Row;

static double loss(const void *of) {
    const Row *r = of;
    double     y[40], sum = 0.0;
    soft_max(r->x, r->n, r->scale, y);
    for (int i = 0; i < r->n; i++) sum += (double)r->dy[i] * y[i];
    return sum;
}

Test(soft_max_backward, is_the_slope_of_soft_max) {
    static const int sizes[] = {1, 2, 31, 40};
    for (int k = 0; k < 4; k++) {
        Row              r = {.n = sizes[k], .scale = 1.5};
        float           *x = random_floats(40, 5), *dy = random_floats(40, 6), y[40], dx[40];
        double           p64[40], want[40];
        const RpOpParams p = {.soft_max_backward = {.scale = 1.5f}};
        r.dy               = dy;
        for (int i = 0; i < r.n; i++) r.x[i] = 3.0 * (double)x[i];
        soft_max(r.x, r.n, r.scale, p64);
        for (int i = 0; i < r.n; i++) y[i] = (float)p64[i];
        slopes(loss, &r, r.x, (size_t)r.n, want);
        run_gradient(rp_cpu_soft_max_backward, &p, dy, y, dx, r.n, 1);
        expect_near(dx, want, (size_t)r.n, 2e-7);
        free(x), free(dy);
    }
}

static void check(int64_t n, int64_t rows) {
    const size_t     total = (size_t)(n * rows);
    float           *y = random_floats(total, 7), *dy = random_floats(total, 8), *dx = malloc(total * sizeof *dx);
    double          *want = malloc(total * sizeof *want);
    const RpOpParams p    = {.soft_max_backward = {.scale = 0.5f}};
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int64_t i = r * n; i < (r + 1) * n; i++) {
            y[i] = fabsf(y[i]) / (float)n;
            sum += (double)y[i] * (double)dy[i];
        }
        for (int64_t i = r * n; i < (r + 1) * n; i++) want[i] = 0.5 * (double)y[i] * ((double)dy[i] - sum);
    }
    run_gradient(rp_cpu_soft_max_backward, &p, dy, y, dx, n, rows);
    expect_near(dx, want, total, 2e-7);
    free(y), free(dy), free(dx), free(want);
}

Test(soft_max_backward, rows_of_any_length) { check(1, 1), check(257, 3), check(1003, 2), check(16, 31); }

Test(soft_max_backward, a_nan_stays_in_its_row) {
    float            y[8] = {0.5f, 0.5f, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f}, dy[8] = {1, NAN, 1, 1, 1, 2, 3, 4}, dx[8];
    const RpOpParams p = {.soft_max_backward = {.scale = 1.0f}};
    run_gradient(rp_cpu_soft_max_backward, &p, dy, y, dx, 4, 2);
    for (int i = 0; i < 4; i++) cr_expect(isnan(dx[i]) && isfinite(dx[4 + i]), CASE(i));
}
