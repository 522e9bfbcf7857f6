/* The op swiglu_oai_backward against the formula in double, against differences of swiglu_oai in double, and against
 * torch.autograd (tests/golden/backward.txt). */
#include "tests/support/case.h"
#include "tests/support/slope.h"

typedef struct Point {
    double gate, up, alpha, limit;
} Point;

static double swiglu(const void *of) {
    const Point *p = of;
    const double g = fmin(p->gate, p->limit), u = fmax(-p->limit, fmin(p->up, p->limit));
    return g / (1.0 + exp(-p->alpha * g)) * (u + 1.0);
}

static void run(const RpOpParams *p, float *const x[5], int64_t n, int64_t rows) {
    RpOpArgs args = {
        .dst    = tensor(RP_F32, x[4], n, rows, 1, 1),
        .src    = {tensor(RP_F32, x[0], n, rows, 1, 1), tensor(RP_F32, x[1], n, rows, 1, 1),
                   tensor(RP_F32, x[2], n, rows, 1, 1), tensor(RP_F32, x[3], n, rows, 1, 1)},
        .params = p
    };
    run_variants(rp_cpu_swiglu_oai_backward, &args);
}

static void free_all(float *const x[5]) {
    for (int k = 0; k < 5; k++) free(x[k]);
}

/* `scale` puts elements beyond the limit, but none within a difference of it. */
static void check(int64_t n, int64_t rows, float scale, float alpha, float limit) {
    const size_t     total = (size_t)(n * rows);
    const RpOpParams p     = {
            .swiglu_oai_backward = {.alpha = alpha, .limit = limit}
    };
    float  *x[5];
    double *dgate = malloc(total * sizeof *dgate), *dup = malloc(total * sizeof *dup);
    for (int k = 0; k < 5; k++) x[k] = random_floats(total, (uint32_t)k + 3);
    for (size_t i = 0; i < total; i++) {
        for (int k = 1; k < 3; k++) {
            x[k][i] *= scale;
            if (fabsf(fabsf(x[k][i]) - limit) < 1e-3f) x[k][i] = 0.5f * limit;
        }
        Point at = {.gate = (double)x[1][i], .up = (double)x[2][i], .alpha = (double)alpha, .limit = (double)limit};
        dgate[i] = (double)x[0][i] * slope(swiglu, &at, &at.gate);
        dup[i]   = (double)x[0][i] * slope(swiglu, &at, &at.up);
    }
    run(&p, x, n, rows);
    expect_near(x[4], dgate, total, 1e-6);
    expect_near(x[3], dup, total, 1e-6);
    free(dgate), free(dup), free_all(x);
}

Test(swiglu_oai_backward, is_the_slope_of_swiglu_oai) {
    check(1, 1, 1.0f, 1.702f, 7.0f), check(33, 3, 3.0f, 1.702f, 7.0f);
    check(403, 2, 2.0f, 1.702f, 1.5f), check(64, 2, 1.0f, 0.5f, 0.25f);
}

/* A gradient of clamp passes at the limit itself. */
Test(swiglu_oai_backward, extreme_numbers) {
    enum { N = 6 };
    float            dy[N] = {1, 1, 1, 1, 1, 1}, gate[N] = {7, 8, -3e38f, 1, 1, 3e38f}, up[N] = {1, 1, 1, 7, -7, 7.5f};
    float            dup[N], dgate[N];
    const RpOpParams p = {
        .swiglu_oai_backward = {.alpha = 1.702f, .limit = 7.0f}
    };
    run(&p, (float *const[]){dy, gate, up, dup, dgate}, N, 1);
    cr_expect(dgate[0] > 1.9f && dgate[1] == 0.0f && dgate[2] == 0.0f && dgate[5] == 0.0f);
    cr_expect(dup[1] > 6.9f && dup[2] == 0.0f && dup[3] > 0.8f && dup[4] > 0.8f && dup[5] == 0.0f);
}

Test(swiglu_oai_backward, is_computed_in_place) {
    enum { N = 70 };
    float           *x[5];
    const RpOpParams p = {
        .swiglu_oai_backward = {.alpha = 1.702f, .limit = 7.0f}
    };
    for (int k = 0; k < 5; k++) x[k] = random_floats(N, (uint32_t)k + 3);
    run(&p, x, 35, 2);
    RpOpArgs args = {
        .dst = tensor(RP_F32, x[0], 35, 2, 1, 1),
        .src = {tensor(RP_F32, x[0], 35, 2, 1, 1), tensor(RP_F32, x[1], 35, 2, 1, 1), tensor(RP_F32, x[2], 35, 2, 1, 1),
                tensor(RP_F32, x[3], 35, 2, 1, 1)},
        .params = &p
    };
    OK(run_workers(rp_cpu_swiglu_oai_backward, &args, 2));
    cr_expect_arr_eq(x[0], x[4], N * sizeof(float));
    free_all(x);
}

static double *numbers(const char *line, int n) {
    double *x  = malloc((size_t)n * sizeof *x);
    char   *at = (char *)(uintptr_t)line;
    for (int i = 0; i < n; i++) x[i] = strtod(at, &at);
    cr_assert_eq(*at, '\0', "more numbers than the shape has");
    return x;
}

Test(swiglu_oai_backward, agrees_with_pytorch) {
    char  *line = NULL;
    size_t size = 0;
    int    n, seen = 0;
    float  alpha, limit;
    FILE  *f = golden_open("backward.txt");
    cr_assert_not_null(f);
    while (golden_line(f, &line, &size) != NULL) {
        if (sscanf(line, "swiglu_oai %d %f %f", &n, &alpha, &limit) != 3) continue;
        const RpOpParams p = {
            .swiglu_oai_backward = {.alpha = alpha, .limit = limit}
        };
        float  *x[5];
        double *want[2];
        for (int k = 0; k < 5; k++) x[k] = random_floats((size_t)n, 1);
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < n; i++)
                x[k][i] = (float)(((int64_t)i * 7919 + (k + 1) * 104729) % 2048 - 1024) / 1024.0f;
        for (int k = 0; k < 2; k++) {
            cr_assert_not_null(golden_line(f, &line, &size), CASE(k));
            want[k] = numbers(line, n);
        }
        run(&p, x, n, 1);
        expect_near(x[4], want[0], (size_t)n, 1e-6);
        expect_near(x[3], want[1], (size_t)n, 1e-6);
        free(want[0]), free(want[1]), free_all(x);
        seen++;
    }
    cr_expect_eq(seen, 2);
    free(line);
    fclose(f);
}

Test(swiglu_oai_backward, refuses_another_shape) {
    float            a[8] = {0}, b[8] = {0}, c[8] = {0};
    const RpOpParams p = {
        .swiglu_oai_backward = {.alpha = 1.0f, .limit = 7.0f}
    };
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, a, 4, 2, 1, 1),
        .src    = {tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_F32, b, 4, 2, 1, 1), tensor(RP_F32, b, 4, 2, 1, 1),
                   tensor(RP_F32, c, 4, 1, 1, 1)},
        .params = &p
    };
    REFUSED(run_workers(rp_cpu_swiglu_oai_backward, &args, 1), RP_E_SHAPE,
            "swiglu_oai_backward: dup must be f32 [4,2]: dy f32 [4,2], gate f32 [4,2], up f32 [4,2], dup f32 "
            "[4], result f32 [4,2]");
}
