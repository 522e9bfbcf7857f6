/* The op route, which makes the weights of the selected experts from their scores. Expected values are formulas in
 * double, written out per case. */
#include "tests/support/kernel_test.h"

enum { N = 6, K = 3, TOK = 2 };
static float   probs[N * TOK] = {0.1f, 0.4f, 0.2f, 0.05f, 0.05f, 0.2f, -1.0f, 2.0f, 0.5f, 3.0f, 0.0f, 1.0f};
static int32_t ids[K * TOK]   = {1, 2, 5, 3, 1, 1}; /* token 1 has id 1 twice */

static void weigh(RpRouteParams p, float *y) {
    const RpOpParams params = {.route = p};
    const RpOpArgs   args   = {
            .dst    = tensor(RP_F32, y, K, TOK, 1, 1),
            .src    = {tensor(RP_F32, probs, N, TOK, 1, 1), tensor(RP_I32, ids, K, TOK, 1, 1)},
            .params = &params
    };
    run_variants(rp_cpu_route, &args);
}

Test(route, gathers_and_scales) {
    float y[K * TOK];
    weigh((RpRouteParams){.scale = 2.0f}, y);
    expect_near(y, (double[]){0.8, 0.4, 0.4, 6.0, 4.0, 4.0}, K * TOK, 1e-6);
}

Test(route, divides_by_the_sum) {
    float y[K * TOK];
    weigh((RpRouteParams){.normalize = true, .scale = 1.0f}, y);
    expect_near(y, (double[]){0.5, 0.25, 0.25, 3.0 / 7.0, 2.0 / 7.0, 2.0 / 7.0}, K * TOK, 1e-6);
}

Test(route, takes_the_softmax_of_the_selected_logits) {
    float        y[K * TOK];
    const double e = exp(1.0);
    weigh((RpRouteParams){.soft_max = true, .scale = 1.0f}, y);
    const double sum = exp(0.4) + 2.0 * exp(0.2);
    expect_near(y, (double[]){exp(0.4) / sum, exp(0.2) / sum, exp(0.2) / sum, e / (e + 2), 1 / (e + 2), 1 / (e + 2)},
                K * TOK, 1e-6);
}

Test(route, gives_zeros_for_a_zero_sum_and_for_invalid_ids) {
    float            none[N] = {0}, y[K];
    int32_t          off[K]  = {-1, N, 2};
    const RpOpParams params  = {
         .route = {.normalize = true, .scale = 1.0f}
    };
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, K, 1, 1, 1),
        .src    = {tensor(RP_F32, none, N, 1, 1, 1), tensor(RP_I32, off, K, 1, 1, 1)},
        .params = &params
    };
    run_variants(rp_cpu_route, &args);
    expect_near(y, (double[]){0, 0, 0}, K, 0.0);
    args.route.probs = tensor(RP_F32, probs, N, 1, 1, 1);
    run_variants(rp_cpu_route, &args);
    expect_near(y, (double[]){0, 0, 1}, K, 1e-6);
}

Test(route, refuses_ids_of_another_shape) {
    float            y[K * TOK];
    const RpOpParams params = {.route = {.scale = 1.0f}};
    const RpOpArgs   args   = {
            .dst    = tensor(RP_F32, y, K, TOK, 1, 1),
            .src    = {tensor(RP_F32, probs, N, TOK, 1, 1), tensor(RP_I32, ids, K, 1, 1, 1)},
            .params = &params
    };
    REFUSED(run_workers(rp_cpu_route, &args, 1), RP_E_SHAPE,
            "route: ids must be i32 [3,2]: probs f32 [6,2], ids i32 [3], result f32 [3,2]");
}
