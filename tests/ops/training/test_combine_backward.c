/* The op combine_backward against differences of combine in double. */
#include "tests/support/slope.h"

typedef struct Combine {
    int     n, k, tokens;
    double *x, *w, *dy;
} Combine;

static double loss(const void *of) {
    const Combine *c   = of;
    double         sum = 0.0;
    for (int t = 0; t < c->tokens; t++)
        for (int j = 0; j < c->k; j++)
            for (int i = 0; i < c->n; i++)
                sum += c->dy[t * c->n + i] * c->w[t * c->k + j] * c->x[(t * c->k + j) * c->n + i];
    return sum;
}

static void check(int n, int k, int tokens) {
    const size_t nx = (size_t)(n * k * tokens), nw = (size_t)(k * tokens), ny = (size_t)(n * tokens);
    float *x = random_floats(nx, 1), *w = random_floats(nw, 2), *dy = random_floats(ny, 3), *dx = random_floats(nx, 4),
          *dw           = random_floats(nw, 5);
    Combine        c    = {n, k, tokens, in_double(x, nx), in_double(w, nw), in_double(dy, ny)};
    double        *want = malloc(nx * sizeof *want), *want_w = malloc(nw * sizeof *want_w);
    const RpOpArgs args = {
        .dst = tensor(RP_F32, dx, n, k, tokens, 1),
        .src = {tensor(RP_F32, dy, n, tokens, 1, 1), tensor(RP_F32, x, n, k, tokens, 1),
                tensor(RP_F32, w, k, tokens, 1, 1), tensor(RP_F32, dw, k, tokens, 1, 1)}
    };
    slopes(loss, &c, c.x, nx, want), slopes(loss, &c, c.w, nw, want_w);
    run_variants(rp_cpu_combine_backward, &args);
    expect_near(dx, want, nx, 1e-6), expect_near(dw, want_w, nw, 1e-6);
    free(x), free(w), free(dy), free(dx), free(dw), free(want), free(want_w), free(c.x), free(c.w), free(c.dy);
}

Test(combine_backward, is_the_slope_of_combine) { check(1, 1, 1), check(33, 2, 5), check(17, 4, 3), check(270, 2, 1); }

Test(combine_backward, refuses_other_shapes) {
    float          a[16] = {0}, b[16];
    const RpOpArgs args  = {
         .dst = tensor(RP_F32, b, 4, 2, 2, 1),
         .src = {tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_F32, a, 4, 2, 2, 1), tensor(RP_F32, a, 2, 2, 1, 1),
                 tensor(RP_F32, a, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_combine_backward, &args, 1), RP_E_SHAPE,
            "combine_backward: dweights must be f32 [2,2]: dy f32 [4,2], x f32 [4,2,2], weights f32 [2,2], "
            "dweights f32 [2], result f32 [4,2,2]");
}
