/* The op aux_loss against the formula in double: y = experts * sum_e load[e] * mean_t probs[e,t]. */
#include "tests/support/kernel_test.h"

static float loss_of(float *probs, float *load, int experts, int tokens) {
    float          y;
    const RpOpArgs args = {
        .dst = tensor(RP_F32, &y, 1, 1, 1, 1),
        .src = {tensor(RP_F32, probs, experts, tokens, 1, 1), tensor(RP_F32, load, experts, 1, 1, 1)}
    };
    run_variants(rp_cpu_aux_loss, &args);
    return y;
}

static void check(int experts, int tokens) {
    float *probs = random_floats((size_t)(experts * tokens), 3), *load = random_floats((size_t)experts, 4);
    double want = 0.0;
    for (int e = 0; e < experts; e++) {
        double mean = 0.0;
        load[e]     = fabsf(load[e]);
        for (int t = 0; t < tokens; t++) {
            probs[e + experts * t] = fabsf(probs[e + experts * t]);
            mean += (double)probs[e + experts * t] / tokens;
        }
        want += (double)load[e] * mean * experts;
    }
    const float y = loss_of(probs, load, experts, tokens);
    expect_near(&y, &want, 1, 1e-6);
    free(probs), free(load);
}

Test(aux_loss, multiplies_load_and_mean_probability) {
    check(1, 1), check(8, 31), check(33, 33), check(128, 70), check(100, 1);
}

Test(aux_loss, is_1_if_balanced_and_larger_if_not) {
    float probs[8], load[4] = {0.25f, 0.25f, 0.25f, 0.25f}, uneven[4] = {1.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 8; i++) probs[i] = 0.25f;
    cr_expect_eq(loss_of(probs, load, 4, 2), 1.0f);
    for (int i = 0; i < 8; i++) probs[i] = i % 4 == 0 ? 1.0f : 0.0f;
    cr_expect_eq(loss_of(probs, load, 4, 2), 1.0f);
    cr_expect_eq(loss_of(probs, uneven, 4, 2), 4.0f);
    probs[5] = NAN;
    cr_expect(isnan(loss_of(probs, load, 4, 2)));
}

Test(aux_loss, refuses_other_shapes) {
    float          x[8] = {0}, y;
    const RpOpArgs args = {
        .dst = tensor(RP_F32, &y, 1, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, x, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_aux_loss, &args, 1), RP_E_SHAPE,
            "aux_loss: load must be f32 [4]: probs f32 [4,2], load f32 [2], result f32 [1]");
}
