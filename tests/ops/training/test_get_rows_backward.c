/* The op get_rows_backward, dw[:,r] = scale * sum of dy[:,t] with ids[t] = r, against the formula in double. */
#include "tests/support/kernel_test.h"

static void check(int64_t n, int tokens, int rows, float scale) {
    float           *dy = random_floats((size_t)(n * tokens), 3), *dw = malloc((size_t)(n * rows) * sizeof *dw);
    double          *want = calloc((size_t)(n * rows), sizeof *want);
    int32_t         *ids  = malloc((size_t)tokens * sizeof *ids);
    const RpOpParams p    = {
           .get_rows_backward = {.rows = rows, .scale = scale}
    };
    for (int t = 0; t < tokens; t++) {
        ids[t] = t * t % (rows + 2) - 1; /* -1 and `rows` are no rows */
        for (int64_t i = 0; i < n && ids[t] >= 0 && ids[t] < rows; i++)
            want[n * ids[t] + i] += (double)(scale != 0.0f ? scale : 1.0f) * (double)dy[n * t + i];
    }
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, dw, n, rows, 1, 1),
        .src    = {tensor(RP_F32, dy, n, tokens, 1, 1), tensor(RP_I32, ids, tokens, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_get_rows_backward, &args);
    expect_near(dw, want, (size_t)(n * rows), 2e-6);
    free(dy), free(dw), free(want), free(ids);
}

Test(get_rows_backward, adds_the_rows_of_each_id) {
    check(1, 1, 1, 0.0f), check(33, 40, 7, 0.0f), check(100, 70, 5, 2.5f), check(576, 3, 30, 1.0f);
}

Test(get_rows_backward, refuses_other_shapes) {
    float            a[8]   = {0}, b[12];
    int32_t          ids[3] = {0};
    const RpOpParams p      = {.get_rows_backward = {.rows = 3}};
    const RpOpArgs   args   = {
            .dst    = tensor(RP_F32, b, 4, 3, 1, 1),
            .src    = {tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_I32, ids, 3, 1, 1, 1)},
            .params = &p
    };
    REFUSED(run_workers(rp_cpu_get_rows_backward, &args, 1), RP_E_SHAPE,
            "get_rows_backward: ids must be i32 [2]: dy f32 [4,2], ids i32 [3], result f32 [4,3]");
}
