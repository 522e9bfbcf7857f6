/* The op grad_clip: y = min(1, max_norm / (norm + 1e-6)) * x. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

enum { N = 1203 };

static void clip(float *x, float *y, float norm, float max_norm) {
    const RpOpParams p    = {.grad_clip = {.max_norm = max_norm}};
    float            n[3] = {norm, 7.0f, 8.0f}; /* the norm is the first */
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, y, N, 1, 1, 1),
          .src    = {tensor(RP_F32, x, N, 1, 1, 1), tensor(RP_F32, n, 3, 1, 1, 1)},
          .params = &p
    };
    run_variants(rp_cpu_grad_clip, &args);
}

Test(grad_clip, scales_to_the_largest_norm) {
    float *x = random_floats(N, 3), y[N];
    double want[N];
    for (int i = 0; i < N; i++) want[i] = (double)x[i] * (0.5 / (20.0 + 1e-6));
    clip(x, y, 20.0f, 0.5f);
    expect_near(y, want, N, 1e-8);
    clip(x, x, 20.0f, 0.5f); /* in place */
    cr_expect_arr_eq(x, y, sizeof y);
    free(x);
}

Test(grad_clip, leaves_smaller_norms) {
    float *x = random_floats(N, 3), y[N], z[N];
    clip(x, y, 0.25f, 0.5f);
    cr_expect_arr_eq(x, y, sizeof y);
    memcpy(z, x, sizeof z);
    clip(z, z, 0.25f, 0.5f);
    cr_expect_arr_eq(x, z, sizeof z);
    free(x);
}

/* As torch.clamp, which passes NaN on. */
Test(grad_clip, with_a_norm_that_is_nan_or_infinite) {
    float *x = random_floats(N, 3), y[N];
    x[5]     = INFINITY;
    clip(x, y, NAN, 0.5f);
    for (int i = 0; i < N; i++) cr_expect(isnan(y[i]), CASE(i));
    clip(x, y, INFINITY, 0.5f);
    for (int i = 0; i < N; i++) cr_expect(i == 5 ? isnan(y[i]) : y[i] == 0.0f, CASE(i));
    free(x);
}

Test(grad_clip, refuses_a_negative_norm) {
    float            x[4] = {0};
    const RpOpParams p    = {.grad_clip = {.max_norm = -1.0f}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, x, 4, 1, 1, 1),
                .src    = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, x, 1, 1, 1, 1)},
                .params = &p
    };
    REFUSED(run_workers(rp_cpu_grad_clip, &args, 1), RP_E_ARG,
            "grad_clip: max_norm = -1 must be 0 or more: x f32 [4], norm f32 [1], result f32 [4]");
    args.grad_clip.norm = (RpTensorView){0};
    REFUSED(run_workers(rp_cpu_grad_clip, &args, 1), RP_E_SHAPE,
            "grad_clip: norm must have an element: x f32 [4], norm f32 [0,0,0,0], result f32 [4]");
}
