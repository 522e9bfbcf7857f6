/* The op expert_load: the share of the ids that each expert has. */
#include "tests/support/kernel_test.h"

static void check(int experts, int k, int tokens, int largest) {
    const int        n    = k * tokens;
    int32_t         *ids  = malloc((size_t)n * sizeof *ids);
    float           *y    = malloc((size_t)experts * sizeof *y);
    double          *want = calloc((size_t)experts, sizeof *want);
    const RpOpParams p    = {.expert_load = {.experts = experts}};
    for (int i = 0; i < n; i++) {
        ids[i] = i * 7919 % 104729 % (largest + 2) - 1; /* from -1 to largest */
        if (ids[i] >= 0 && ids[i] < experts) want[ids[i]] += 1.0 / n;
    }
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, experts, 1, 1, 1), .src = {tensor(RP_I32, ids, k, tokens, 1, 1)}, .params = &p};
    run_variants(rp_cpu_expert_load, &args);
    expect_near(y, want, (size_t)experts, 6e-8);
    free(ids), free(y), free(want);
}

Test(expert_load, counts_the_choices_of_each_expert) {
    check(1, 1, 1, 0), check(8, 2, 100, 7), check(60, 4, 33, 59), check(33, 3, 400, 32);
}

Test(expert_load, ids_that_are_no_expert_count_for_none) { check(8, 2, 100, 20); }

/* A weight of 0 leaves a token out; the others count more. */
Test(expert_load, weighs_the_tokens) {
    int32_t          ids[6]     = {0, 2, 2, 1, 0, 2};
    float            weights[3] = {1.5f, 0.0f, 1.5f}, y[3];
    const double     want[3]    = {0.5, 0.0, 0.5}; /* ids 0, 2, 0, 2 of 1.5 / 6 each */
    const RpOpParams p          = {.expert_load = {.experts = 3}};
    const RpOpArgs   args       = {
                .dst    = tensor(RP_F32, y, 3, 1, 1, 1),
                .src    = {tensor(RP_I32, ids, 2, 3, 1, 1), tensor(RP_F32, weights, 3, 1, 1, 1)},
                .params = &p
    };
    run_variants(rp_cpu_expert_load, &args);
    expect_near(y, want, 3, 6e-8);
}

/* More tokens than threads of a block, each with its own weight. */
Test(expert_load, weighs_many_tokens) {
    enum { EXPERTS = 5, K = 3, TOKENS = 700 };
    int32_t          ids[K * TOKENS];
    float            weights[TOKENS], y[EXPERTS];
    double           want[EXPERTS] = {0};
    const RpOpParams p             = {.expert_load = {.experts = EXPERTS}};
    for (int t = 0; t < TOKENS; t++) {
        weights[t] = (float)(t % 11) / 8.0f;
        for (int j = 0; j < K; j++) {
            ids[t * K + j] = (t * 3 + j * 2) % 7 - 1;
            if (ids[t * K + j] >= 0 && ids[t * K + j] < EXPERTS)
                want[ids[t * K + j]] += (double)weights[t] / (K * TOKENS);
        }
    }
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, EXPERTS, 1, 1, 1),
        .src    = {tensor(RP_I32, ids, K, TOKENS, 1, 1), tensor(RP_F32, weights, TOKENS, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_expert_load, &args);
    expect_near(y, want, EXPERTS, 1e-6);
}

Test(expert_load, refuses_other_shapes) {
    int32_t    ids[4] = {0};
    float      y[3];
    RpOpParams p    = {.expert_load = {.experts = 2}};
    RpOpArgs   args = {.dst = tensor(RP_F32, y, 3, 1, 1, 1), .src = {tensor(RP_I32, ids, 2, 2, 1, 1)}, .params = &p};
    REFUSED(run_workers(rp_cpu_expert_load, &args, 1), RP_E_SHAPE,
            "expert_load: result must be f32 [2]: ids i32 [2,2], result f32 [3]");
    args.dst                 = tensor(RP_F32, y, 2, 1, 1, 1);
    args.expert_load.weights = tensor(RP_F32, y, 3, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_expert_load, &args, 1), RP_E_SHAPE,
            "expert_load: weights must be f32 [2]: ids i32 [2,2], weights f32 [3], result f32 [2]");
    args.expert_load.ids = tensor(RP_I32, ids, 1 << 13, 1 << 12, 1, 1);
    REFUSED(run_workers(rp_cpu_expert_load, &args, 1), RP_E_SHAPE,
            "expert_load: there must be at most 16777216 ids, not 33554432: ids i32 [8192,4096], weights f32 "
            "[3], result f32 [2]");
    p.expert_load.experts = 0;
    REFUSED(run_workers(rp_cpu_expert_load, &args, 1), RP_E_ARG,
            "expert_load: experts = 0 must be at least 1: ids i32 [8192,4096], weights f32 [3], result f32 [2]");
}
