/* The op mul_mat_id_backward, the gradient of expert weights, against the sum of outer products in double. */
#include "tests/support/kernel_test.h"

typedef struct Shape {
    int64_t n, m, k, t, experts;
    bool    one_column; /* of x for each token */
} Shape;

static int32_t choice(const Shape *s, int64_t c) {
    return (int32_t)(c * c * 7 % (s->experts + 2)) - 1; /* -1 and `experts` are no experts */
}

/* Rows of x and dy are `gap` floats apart from each other. */
static void check(Shape s, int64_t gap) {
    const int64_t each = s.one_column ? 1 : s.k, columns = s.k * s.t, all = s.n * s.m * s.experts;
    float        *x = random_floats((size_t)((s.n + gap) * each * s.t), 3),
          *dy = random_floats((size_t)((s.m + gap) * columns), 5), *dw = malloc((size_t)all * sizeof *dw);
    double  *want = calloc((size_t)all, sizeof *want);
    int32_t *ids  = malloc((size_t)columns * sizeof *ids);
    for (int64_t c = 0; c < columns; c++) {
        const float *of_x = x + (s.n + gap) * (s.one_column ? c / s.k : c), *of_dy = dy + (s.m + gap) * c;
        ids[c] = choice(&s, c);
        for (int64_t i = 0; i < s.m && ids[c] >= 0 && ids[c] < s.experts; i++)
            for (int64_t j = 0; j < s.n; j++) want[(ids[c] * s.m + i) * s.n + j] += (double)of_x[j] * (double)of_dy[i];
    }
    const RpOpParams p    = {.mul_mat_id_backward = {.experts = (int32_t)s.experts}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, dw, s.n, s.m, s.experts, 1),
                .src    = {tensor(RP_F32, x, s.n + gap, each, s.t, 1), tensor(RP_F32, dy, s.m + gap, s.k, s.t, 1),
                           tensor(RP_I32, ids, s.k, s.t, 1, 1)},
                .params = &p
    };
    args.mul_mat_id_backward.x.ne[0] = s.n, args.mul_mat_id_backward.dy.ne[0] = s.m;
    run_variants(rp_cpu_mul_mat_id_backward, &args);
    expect_near(dw, want, (size_t)all, 2e-5);
    free(x), free(dy), free(dw), free(want), free(ids);
}

Test(mul_mat_id_backward, adds_outer_products_by_expert) {
    check((Shape){1, 1, 1, 1, 1, false}, 0);
    check((Shape){5, 4, 2, 3, 3, false}, 0), check((Shape){5, 4, 2, 3, 3, true}, 0);
    check((Shape){33, 70, 3, 20, 4, false}, 7), check((Shape){65, 30, 2, 7, 40, true}, 0);
}

/* More columns than a slice, more than 64 of an expert, and blocks in both directions. */
Test(mul_mat_id_backward, adds_many_columns) { check((Shape){68, 20, 4, 150, 1, false}, 0); }
#ifndef RP_TEST_CUDA
Test(mul_mat_id_backward, divides_wide_matrices) { check((Shape){300, 270, 2, 40, 2, true}, 4); }
#endif

/* A NaN of one expert does not reach the others. */
Test(mul_mat_id_backward, keeps_experts_apart) {
    float            x[8] = {1, 1, 1, 1, NAN, 1, 1, 1}, dy[4] = {1, 2, 3, 4}, dw[8];
    int32_t          ids[2] = {0, 1};
    const RpOpParams p      = {.mul_mat_id_backward = {.experts = 2}};
    const RpOpArgs   args   = {
            .dst    = tensor(RP_F32, dw, 4, 1, 2, 1),
            .src    = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, dy, 1, 2, 1, 1), tensor(RP_I32, ids, 2, 1, 1, 1)},
            .params = &p
    };
    run_variants(rp_cpu_mul_mat_id_backward, &args);
    for (int i = 0; i < 8; i++)
        cr_expect(i == 4 ? isnan(dw[i]) : dw[i] == (i < 4 ? 1.0f : 2.0f), "element %d is %g", i, (double)dw[i]);
}

Test(mul_mat_id_backward, refuses_other_shapes) {
    float            x[24] = {0}, dy[24] = {0}, dw[24];
    int32_t          ids[6] = {0};
    const RpOpParams p      = {.mul_mat_id_backward = {.experts = 2}};
    RpOpArgs         args   = {
                  .dst = tensor(RP_F32, dw, 4, 3, 2, 1),
                  .src = {tensor(RP_F32, x, 4, 3, 2, 1), tensor(RP_F32, dy, 3, 2, 2, 1), tensor(RP_I32, ids, 2, 2, 1, 1)},
                  .params = &p
    };
    REFUSED(run_workers(rp_cpu_mul_mat_id_backward, &args, 1), RP_E_SHAPE,
            "mul_mat_id_backward: x must be f32 [4,2,2]: x f32 [4,3,2], dy f32 [3,2,2], ids i32 [2,2], "
            "result f32 [4,3,2]");
    args.mul_mat_id_backward.x.ne[1] = 1;
    args.dst.ne[2]                   = 1;
    REFUSED(run_workers(rp_cpu_mul_mat_id_backward, &args, 1), RP_E_SHAPE,
            "mul_mat_id_backward: result must be f32 [4,3,2]: x f32 [4,1,2], dy f32 [3,2,2], ids i32 [2,2], "
            "result f32 [4,3]");
}
