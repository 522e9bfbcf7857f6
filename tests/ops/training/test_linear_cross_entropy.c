/* The op linear_cross_entropy against PyTorch in float64 and against the formula in double, with chunks of any size. */
#include "tests/ops/training/vocabulary_case.h"
#include "tests/support/case.h"

Test(linear_cross_entropy, has_the_losses_of_torch) {
    static const int sizes[] = {1, 4, 11, 64};
    for (int i = 0; i < 4; i++) {
        FILE *f     = golden_open("backward.txt");
        int   cases = 0;
        for (Vocabulary *v; (v = vocabulary_golden(f, sizes[i])) != NULL; cases++) {
            run_variants(rp_cpu_linear_cross_entropy, &v->forward);
            expect_near(v->y, v->want_y, (size_t)v->rows, 1e-6);
            vocabulary_free(v);
        }
        cr_expect_eq(cases, 2, CASE(i));
        fclose(f);
    }
}

static void check(int64_t k, int64_t vocab, int64_t rows, int64_t n, float scale) {
    Vocabulary *v = vocabulary_new(k, vocab, rows, n, scale);
    vocabulary_in_double(v);
    run_variants(rp_cpu_linear_cross_entropy, &v->forward);
    expect_near(v->y, v->want_y, (size_t)rows, 2e-6);
    vocabulary_free(v);
}

Test(linear_cross_entropy, takes_any_shape) {
    check(1, 1, 1, 1, 0.0f), check(5, 100, 3, 33, 1.0f), check(33, 300, 20, 256, 0.5f), check(130, 65, 41, 64, 0.0f);
    check(8, 40, 6, 7, 60.0f); /* the largest logits are far apart */
}

Test(linear_cross_entropy, a_nan_reaches_its_column_alone) {
    Vocabulary *v = vocabulary_new(6, 20, 4, 8, 1.0f);
    v->x[6 * 2]   = NAN;
    run_variants(rp_cpu_linear_cross_entropy, &v->forward);
    cr_expect(isfinite(v->y[0]) && v->y[1] == 0.0f && isnan(v->y[2]) && isfinite(v->y[3]));
    vocabulary_free(v);
}

Test(linear_cross_entropy, refuses_other_shapes_and_targets) {
    Vocabulary *v = vocabulary_new(6, 20, 4, 8, 1.0f);
    v->targets[2] = 20;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy, &v->forward, 1), RP_E_ARG,
            "linear_cross_entropy: target 20 of row 2: must be from 0 to 19, or -1 for none");
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_linear_cross_entropy, &v->forward, v->y));
    cr_expect(isfinite(v->y[0]) && isnan(v->y[2]));
#endif
    v->forward.linear_cross_entropy.chunk.ne[1] = 3;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy, &v->forward, 1), RP_E_SHAPE,
            "linear_cross_entropy: chunk must be f32 [8,4]: x f32 [6,4], w f32 [6,20], targets i32 [4], "
            "stats f32 [3,4], chunk f32 [8,3], result f32 [4]");
    v->forward.linear_cross_entropy.stats.ne[0] = 2;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy, &v->forward, 1), RP_E_SHAPE,
            "linear_cross_entropy: stats must be f32 [3,4]: x f32 [6,4], w f32 [6,20], targets i32 [4], "
            "stats f32 [2,4], chunk f32 [8,3], result f32 [4]");
    vocabulary_free(v);
}
