/* The op rms_norm_backward against the formulas in double, against differences of rms_norm in double, and against torch
 * (tests/golden/backward.txt). */
#include "tests/support/case.h"
#include "tests/support/slope.h"

/* The gradient of a row of one element is eps / (x^2 + eps) of its terms, so a small eps would leave nothing but their
 * rounding. */
static double eps_of(int64_t n) { return n == 1 ? 0.5 : 1e-5; }

typedef struct Norm {
    int64_t n, rows;
    double *x, *w, *dy; /* w may be NULL */
} Norm;

static double loss(const void *of) {
    const Norm *o   = of;
    double      sum = 0.0;
    for (int64_t r = 0; r < o->rows; r++) {
        double squares = 0.0;
        for (int64_t i = 0; i < o->n; i++) squares += o->x[r * o->n + i] * o->x[r * o->n + i];
        for (int64_t i = 0; i < o->n; i++)
            sum += o->dy[r * o->n + i] * o->x[r * o->n + i] / sqrt(squares / (double)o->n + eps_of(o->n)) *
                   (o->w != NULL ? o->w[i] : 1.0);
    }
    return sum;
}

/* dx and dw by the formulas of ops.h. */
static void gradients(const Norm *o, double *dx, double *dw) {
    for (int64_t i = 0; i < o->n; i++) dw[i] = 0.0;
    for (int64_t r = 0; r < o->rows; r++) {
        const double *x = o->x + r * o->n, *dy = o->dy + r * o->n;
        double        squares = 0.0, sum = 0.0;
        for (int64_t i = 0; i < o->n; i++) {
            squares += x[i] * x[i];
            sum += dy[i] * x[i] * (o->w != NULL ? o->w[i] : 1.0);
        }
        const double root = 1.0 / sqrt(squares / (double)o->n + eps_of(o->n));
        for (int64_t i = 0; i < o->n; i++) {
            dx[r * o->n + i] =
                root * (o->w != NULL ? o->w[i] : 1.0) * dy[i] - x[i] * root * root * root / (double)o->n * sum;
            dw[i] += dy[i] * x[i] * root;
        }
    }
}

static void check(int64_t n, int64_t rows, bool weighted, bool by_differences) {
    const size_t total = (size_t)(n * rows), length = (size_t)n;
    float       *x = random_floats(total, 5), *w = random_floats(length, 6), *dy = random_floats(total, 7);
    float       *dx = malloc(total * sizeof *dx), *dw = malloc(length * sizeof *dw),
          *rstd           = malloc((size_t)rows * sizeof *rstd);
    double          *want = malloc(total * sizeof *want), *want_w = malloc(length * sizeof *want_w);
    Norm             o = {n, rows, in_double(x, total), weighted ? in_double(w, length) : NULL, in_double(dy, total)};
    const RpOpParams p = {.rms_norm_backward = {.eps = (float)eps_of(n)}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, dx, n, rows, 1, 1),
                .src    = {tensor(RP_F32, dy, n, rows, 1, 1), tensor(RP_F32, x, n, rows, 1, 1)},
                .params = &p
    };
    if (weighted) args.rms_norm_backward.w = tensor(RP_F32, w, n, 1, 1, 1);
    args.rms_norm_backward.dw   = tensor(RP_F32, dw, n, 1, 1, 1);
    args.rms_norm_backward.rstd = tensor(RP_F32, rstd, rows, 1, 1, 1);
    gradients(&o, want, want_w);
    if (by_differences) slopes(loss, &o, o.x, total, want);
    if (by_differences && weighted) slopes(loss, &o, o.w, length, want_w);
    run_variants(rp_cpu_rms_norm_backward, &args);
    expect_near(dx, want, total, 1e-6), expect_near(dw, want_w, length, 1e-6);
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_rms_norm_backward, &args, dx));
    expect_near(dx, want, total, 4e-6), expect_near(dw, want_w, length, 4e-6);
#endif
    args.rms_norm_backward.dw = args.rms_norm_backward.rstd = (RpTensorView){0};
    run_variants(rp_cpu_rms_norm_backward, &args);
    expect_near(dx, want, total, 1e-6);
    free(x), free(w), free(dy), free(dx), free(dw), free(rstd), free(want), free(want_w);
    free(o.x), free(o.w), free(o.dy);
}

Test(rms_norm_backward, is_the_slope_of_rms_norm) {
    check(1, 1, true, true), check(7, 3, true, true), check(33, 5, true, true), check(16, 2, false, true);
}

Test(rms_norm_backward, takes_rows_of_any_length_and_number) {
    check(1000, 3, true, false), check(257, 40, true, false), check(4099, 2, false, false);
}

Test(rms_norm_backward, a_nan_reaches_its_row_and_column) {
    enum { N = 20, ROWS = 3 };
    float           *x = random_floats(N * ROWS, 5), *dy = random_floats(N * ROWS, 7), dx[N * ROWS], dw[N], rstd[ROWS];
    const RpOpParams p    = {.rms_norm_backward = {.eps = 1e-5f}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, dx, N, ROWS, 1, 1),
          .src    = {tensor(RP_F32, dy, N, ROWS, 1, 1),
                     tensor(RP_F32, x, N, ROWS, 1, 1),
                     {0},
                     tensor(RP_F32, dw, N, 1, 1, 1),
                     tensor(RP_F32, rstd, ROWS, 1, 1, 1)},
          .params = &p
    };
    dy[N + 4] = NAN;
    OK(run_workers(rp_cpu_rms_norm_backward, &args, 2));
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_rms_norm_backward, &args, dx));
#endif
    for (int i = 0; i < N; i++) {
        cr_expect(isfinite(dx[i]) && isnan(dx[N + i]) && isfinite(dx[2 * N + i]), CASE(i));
        cr_expect_eq(isnan(dw[i]) != 0, i == 4, CASE(i));
    }
    free(x), free(dy);
}

static void read_line(FILE *f, double *out, size_t n) {
    char  *line = NULL, *at;
    size_t size = 0;
    cr_assert_not_null(golden_line(f, &line, &size));
    at = line;
    for (size_t i = 0; i < n; i++) out[i] = strtod(at, &at);
    cr_assert_eq(*at, '\0', "more numbers than the shape has");
    free(line);
}

static float value(int i, int seed) { return (float)((i * 7919 + seed * 104729) % 2048 - 1024) / 1024.0f; }

Test(rms_norm_backward, has_the_gradients_of_torch) {
    enum { ROWS = 3, N = 7 };
    float      x[ROWS * N], w[N], dy[ROWS * N], dx[ROWS * N], dw[N], rstd[ROWS];
    double     want[ROWS * N], want_w[N];
    RpOpParams p    = {0};
    FILE      *f    = golden_open("backward.txt");
    char      *line = NULL;
    size_t     size = 0;
    int        rows, n;
    do cr_assert_not_null(golden_line(f, &line, &size));
    while (sscanf(line, "rms_norm %d %d %f", &rows, &n, &p.rms_norm_backward.eps) != 3);
    cr_assert(rows == ROWS && n == N);
    for (int i = 0; i < ROWS * N; i++) x[i] = value(i, 1), dy[i] = value(i, 3);
    for (int i = 0; i < N; i++) w[i] = value(i, 2);
    read_line(f, want, ROWS * N), read_line(f, want_w, N);
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, dx, N, ROWS, 1, 1),
        .src    = {tensor(RP_F32, dy, N, ROWS, 1, 1), tensor(RP_F32, x, N, ROWS, 1, 1), tensor(RP_F32, w, N, 1, 1, 1),
                   tensor(RP_F32, dw, N, 1, 1, 1), tensor(RP_F32, rstd, ROWS, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_rms_norm_backward, &args);
    expect_near(dx, want, ROWS * N, 1e-6), expect_near(dw, want_w, N, 1e-6);
    free(line);
    fclose(f);
}

Test(rms_norm_backward, refuses_other_shapes) {
    float            a[8] = {0}, b[8] = {0}, c[8];
    const RpOpParams p    = {.rms_norm_backward = {.eps = 1e-5f}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, c, 4, 2, 1, 1),
                .src    = {tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_F32, b, 4, 1, 1, 1)},
                .params = &p
    };
    REFUSED(run_workers(rp_cpu_rms_norm_backward, &args, 1), RP_E_SHAPE,
            "rms_norm_backward: x must be f32 [4,2]: dy f32 [4,2], x f32 [4], result f32 [4,2]");
    args.rms_norm_backward.x  = tensor(RP_F32, b, 4, 2, 1, 1);
    args.rms_norm_backward.dw = tensor(RP_F32, b, 4, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_rms_norm_backward, &args, 1), RP_E_SHAPE,
            "rms_norm_backward: rstd must be given where dw is: dy f32 [4,2], x f32 [4,2], dw f32 [4], "
            "result f32 [4,2]");
}
