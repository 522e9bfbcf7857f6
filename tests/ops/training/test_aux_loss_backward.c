/* The op aux_loss_backward: dprobs[e,t] = experts * load[e] / tokens * dy. */
#include "tests/support/kernel_test.h"

static void check(int experts, int tokens, float dy) {
    const size_t     n    = (size_t)(experts * tokens);
    float           *load = random_floats((size_t)experts, 4), *y = malloc(n * sizeof *y);
    double          *want = malloc(n * sizeof *want);
    const RpOpParams p    = {.aux_loss_backward = {.tokens = tokens}};
    for (int i = 0; i < experts * tokens; i++) want[i] = (double)load[i % experts] * experts / tokens * (double)dy;
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, experts, tokens, 1, 1),
        .src    = {tensor(RP_F32, load, experts, 1, 1, 1), tensor(RP_F32, &dy, 1, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_aux_loss_backward, &args);
    expect_near(y, want, n, 3e-7);
    free(load), free(y), free(want);
}

Test(aux_loss_backward, is_the_load_of_each_expert) {
    check(1, 1, 1.0f), check(8, 31, 0.01f), check(33, 33, -2.5f), check(128, 7, 1e-3f);
}

Test(aux_loss_backward, refuses_other_shapes) {
    float            x[8] = {0}, y[8];
    const RpOpParams p    = {.aux_loss_backward = {.tokens = 3}};
    const RpOpArgs   args = {
          .dst    = tensor(RP_F32, y, 4, 2, 1, 1),
          .src    = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, x, 1, 1, 1, 1)},
          .params = &p
    };
    REFUSED(run_workers(rp_cpu_aux_loss_backward, &args, 1), RP_E_SHAPE,
            "aux_loss_backward: result must be f32 [4,3]: load f32 [4], dy f32 [1], result f32 [4,2]");
}
