/* The op mul_mat_id_transposed, products with transposed expert weights, against sums in double. */
#include "tests/support/kernel_test.h"

typedef struct Shape {
    int64_t n, m, k, t, experts;
} Shape;

/* Rows of w and x are `gap` floats apart from each other. */
static void check(Shape s, int64_t gap) {
    const int64_t columns = s.k * s.t;
    float        *w       = random_floats((size_t)((s.n + gap) * s.m * s.experts), 3),
          *x = random_floats((size_t)((s.m + gap) * columns), 5), *y = malloc((size_t)(s.n * columns) * sizeof *y);
    double  *want = calloc((size_t)(s.n * columns), sizeof *want);
    int32_t *ids  = malloc((size_t)columns * sizeof *ids);
    for (int64_t c = 0; c < columns; c++) {
        ids[c] = (int32_t)(c * c * 7 % (s.experts + 2)) - 1; /* -1 and `experts` are no experts */
        for (int64_t i = 0; i < s.m && ids[c] >= 0 && ids[c] < s.experts; i++)
            for (int64_t j = 0; j < s.n; j++)
                want[c * s.n + j] += (double)w[(ids[c] * s.m + i) * (s.n + gap) + j] * (double)x[c * (s.m + gap) + i];
    }
    RpOpArgs args = {
        .dst = tensor(RP_F32, y, s.n, s.k, s.t, 1),
        .src = {tensor(RP_F32, w, s.n + gap, s.m, s.experts, 1), tensor(RP_F32, x, s.m + gap, s.k, s.t, 1),
                tensor(RP_I32, ids, s.k, s.t, 1, 1)}
    };
    args.mul_mat_id_transposed.w.ne[0] = s.n, args.mul_mat_id_transposed.x.ne[0] = s.m;
    run_variants(rp_cpu_mul_mat_id_transposed, &args);
    expect_near(y, want, (size_t)(s.n * columns), 2e-5);
    free(w), free(x), free(y), free(want), free(ids);
}

Test(mul_mat_id_transposed, multiplies_by_the_expert_of_each_column) {
    check((Shape){1, 1, 1, 1, 1}, 0), check((Shape){5, 4, 2, 3, 3}, 0);
    check((Shape){70, 33, 3, 20, 4}, 7), check((Shape){30, 65, 2, 7, 40}, 0);
}

/* More terms than a slice, and more than 64 columns of an expert. */
Test(mul_mat_id_transposed, multiplies_many_columns) { check((Shape){20, 150, 4, 50, 1}, 0); }
#ifndef RP_TEST_CUDA
Test(mul_mat_id_transposed, divides_wide_matrices) { check((Shape){300, 70, 2, 300, 2}, 4); }
#endif

/* Columns of other experts, and of none, do not see a NaN. */
Test(mul_mat_id_transposed, keeps_experts_apart) {
    float          w[4] = {NAN, 1, 2, 3}, x[3] = {5, 6, 7}, y[6];
    int32_t        ids[3] = {0, 1, 2};
    const RpOpArgs args   = {
          .dst = tensor(RP_F32, y, 2, 3, 1, 1),
          .src = {tensor(RP_F32, w, 2, 1, 2, 1), tensor(RP_F32, x, 1, 3, 1, 1), tensor(RP_I32, ids, 3, 1, 1, 1)}
    };
    const float want[6] = {NAN, 5, 12, 18, 0, 0};
    run_variants(rp_cpu_mul_mat_id_transposed, &args);
    for (int i = 0; i < 6; i++) cr_expect(i == 0 ? isnan(y[i]) : y[i] == want[i], "element %d is %g", i, (double)y[i]);
}

Test(mul_mat_id_transposed, refuses_other_shapes) {
    float          w[24] = {0}, x[12] = {0}, y[16];
    int32_t        ids[4] = {0};
    const RpOpArgs args   = {
          .dst = tensor(RP_F32, y, 4, 2, 2, 1),
          .src = {tensor(RP_F32, w, 4, 3, 2, 1), tensor(RP_F32, x, 2, 2, 2, 1), tensor(RP_I32, ids, 2, 2, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul_mat_id_transposed, &args, 1), RP_E_SHAPE,
            "mul_mat_id_transposed: x must be f32 [3,2,2]: w f32 [4,3,2], x f32 [2,2,2], ids i32 [2,2], "
            "result f32 [4,2,2]");
}
