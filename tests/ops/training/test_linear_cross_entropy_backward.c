/* The op linear_cross_entropy_backward, after linear_cross_entropy, against PyTorch in float64 and the formulas in
 * double. */
#include "tests/ops/training/vocabulary_case.h"
#include "tests/support/case.h"

/* The statistics that the backward op reads are those of the forward op. */
static void run(Vocabulary *v, double tolerance) {
    const size_t of_w = (size_t)(v->k * v->vocab), of_x = (size_t)(v->k * v->rows);
    OK(run_workers(rp_cpu_linear_cross_entropy, &v->forward, 2));
    run_variants(rp_cpu_linear_cross_entropy_backward, &v->backward);
    expect_near(v->dx, v->want_dx, of_x, tolerance), expect_near(v->dw, v->want_dw, of_w, tolerance);
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_linear_cross_entropy, &v->forward, v->y));
    OK(cuda_run(rp_cpu_linear_cross_entropy_backward, &v->backward, v->dx));
    expect_near(v->dx, v->want_dx, of_x, 4.0 * tolerance), expect_near(v->dw, v->want_dw, of_w, 4.0 * tolerance);
#endif
    v->backward.linear_cross_entropy_backward.dw = (RpTensorView){0};
    run_variants(rp_cpu_linear_cross_entropy_backward, &v->backward);
    expect_near(v->dx, v->want_dx, of_x, tolerance);
    vocabulary_free(v);
}

Test(linear_cross_entropy_backward, has_the_gradients_of_torch) {
    static const int sizes[] = {1, 4, 11, 64};
    for (int i = 0; i < 4; i++) {
        FILE *f     = golden_open("backward.txt");
        int   cases = 0;
        for (Vocabulary *v; (v = vocabulary_golden(f, sizes[i])) != NULL; cases++) run(v, 1e-6);
        cr_expect_eq(cases, 2, CASE(i));
        fclose(f);
    }
}

static void check(int64_t k, int64_t vocab, int64_t rows, int64_t n, float scale) {
    Vocabulary *v = vocabulary_new(k, vocab, rows, n, scale);
    vocabulary_in_double(v);
    run(v, 5e-6);
}

Test(linear_cross_entropy_backward, takes_any_shape) {
    check(1, 1, 1, 1, 0.0f), check(5, 100, 3, 33, 1.0f), check(33, 300, 20, 256, 0.5f), check(130, 65, 41, 64, 0.0f);
}

Test(linear_cross_entropy_backward, a_nan_does_not_reach_dx_of_other_columns) {
    Vocabulary *v = vocabulary_new(6, 20, 4, 8, 1.0f);
    v->x[6 * 2]   = NAN;
    OK(run_workers(rp_cpu_linear_cross_entropy, &v->forward, 1));
    run_variants(rp_cpu_linear_cross_entropy_backward, &v->backward);
    for (int i = 0; i < 6; i++)
        cr_expect(isfinite(v->dx[i]) && v->dx[6 + i] == 0.0f && isnan(v->dx[12 + i]) && isfinite(v->dx[18 + i]),
                  CASE(i));
    vocabulary_free(v);
}

Test(linear_cross_entropy_backward, refuses_other_shapes_and_targets) {
    Vocabulary *v = vocabulary_new(6, 20, 4, 8, 1.0f);
    v->targets[2] = 20;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy_backward, &v->backward, 1), RP_E_ARG,
            "linear_cross_entropy_backward: target 20 of row 2");
    v->backward.linear_cross_entropy_backward.dw.ne[1] = 19;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy_backward, &v->backward, 1), RP_E_SHAPE,
            "linear_cross_entropy_backward: dw must be f32 [6,20]: dy f32 [4], x f32 [6,4], w f32 [6,20], "
            "targets i32 [4], stats f32 [3,4], chunk f32 [8,4], dw f32 [6,19], result f32 [6,4]");
    v->backward.linear_cross_entropy_backward.dy.ne[0] = 3;
    REFUSED(run_workers(rp_cpu_linear_cross_entropy_backward, &v->backward, 1), RP_E_SHAPE,
            "linear_cross_entropy_backward: dy must be f32 [4]: dy f32 [3], x f32 [6,4], w f32 [6,20], "
            "targets i32 [4], stats f32 [3,4], chunk f32 [8,4], dw f32 [6,19], result f32 [6,4]");
    vocabulary_free(v);
}
