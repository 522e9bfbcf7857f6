/* The op sample_rows: a row has the token that the op sample chooses for its seed, alone and among others; rows without
 * a choice are -1. test_sample.c and tests/nn compare the choice itself with references. */
#include "tests/support/kernel_test.h"

#include "reprise/step.h"

enum { ROWS = 5, N = 2500 };

static RpOpArgs args_of(const float *logits, int n, int rows, int32_t *seeds, float *scratch, int32_t *ids,
                        const RpOpParams *p) {
    return (RpOpArgs){
        .dst    = tensor(RP_I32, ids, rows, 1, 1, 1),
        .src    = {tensor(RP_F32, (void *)(uintptr_t)logits, n, rows, 1, 1), tensor(RP_I32, seeds, 2, rows, 1, 1),
                   tensor(RP_F32, scratch, 2 * n + 16, rows, 1, 1)},
        .params = p
    };
}

/* The token of the op sample for one row. */
static int32_t sampled(const float *logits, int n, const int32_t *seed, const RpSampleRowsParams *p) {
    RpStepState    s       = {.temperature    = p->temperature,
                              .top_k          = p->top_k,
                              .top_p          = p->top_p,
                              .min_p          = p->min_p,
                              .repeat_penalty = 1.0f,
                              .seed_low       = (uint32_t)seed[0],
                              .seed_high      = (uint32_t)seed[1]};
    float         *scratch = malloc(2 * (size_t)n * sizeof *scratch);
    const RpOpArgs args    = {
           .dst = tensor(RP_I32, &s, RP_STEP_WORDS, 1, 1, 1),
           .src = {tensor(RP_F32, (void *)(uintptr_t)logits, n, 1, 1, 1), tensor(RP_I32, &s, RP_STEP_WORDS, 1, 1, 1),
                   tensor(RP_F32, scratch, 2 * n, 1, 1, 1)}
    };
    OK(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}));
    free(scratch);
    return s.token;
}

Test(sample_rows, chooses_for_each_row_as_sample_does) {
    static const RpSampleRowsParams params[] = {
        {1.0f, 0,   1.0f, 0.0f },
        {0.8f, 40,  0.9f, 0.05f},
        {0.0f, 0,   1.0f, 0.0f },
        {2.0f, 900, 1.0f, 0.0f },
        {0.5f, 0,   0.7f, 0.0f }
    };
    float  *logits = random_floats(ROWS * N, 7), *scratch = malloc(ROWS * (2 * N + 16) * sizeof *scratch);
    int32_t seeds[2 * ROWS], ids[ROWS];
    for (int i = 0; i < ROWS * N; i++) logits[i] *= 6.0f;
    for (int i = 0; i < 2 * ROWS; i++) seeds[i] = 77 * i - 300;
    for (size_t c = 0; c < sizeof params / sizeof *params; c++) {
        const RpOpParams p    = {.sample_rows = params[c]};
        const RpOpArgs   args = args_of(logits, N, ROWS, seeds, scratch, ids, &p);
        run_variants(rp_cpu_sample_rows, &args);
        for (int r = 0; r < ROWS; r++)
            cr_expect_eq(ids[r], sampled(logits + r * N, N, seeds + 2 * r, &params[c]), "case %d, row %d", (int)c, r);
    }
    free(logits), free(scratch);
}

Test(sample_rows, gives_minus_one_where_nothing_can_be_chosen) {
    static const float logits[9] = {NAN, -INFINITY, NAN, 0.0f, 2.0f, NAN, -INFINITY, -INFINITY, -INFINITY};
    int32_t            seeds[6]  = {1, 2, 3, 4, 5, 6}, ids[3];
    float              scratch[3 * (2 * 3 + 16)];
    const RpOpParams   p = {
          .sample_rows = {.temperature = 0.1f, .top_p = 1.0f}
    };
    const RpOpArgs args = args_of(logits, 3, 3, seeds, scratch, ids, &p);
    run_variants(rp_cpu_sample_rows, &args);
    cr_expect_eq(ids[0], -1);
    cr_expect_eq(ids[1], 1);
    cr_expect_eq(ids[2], -1);
}

Test(sample_rows, refuses_bad_shapes_and_parameters) {
    static const float logits[3] = {0.0f, 1.0f, 2.0f};
    int32_t            seeds[2]  = {1, 2}, ids[1];
    float              scratch[2 * 3 + 16];
    RpOpParams         p = {
                .sample_rows = {.temperature = 1.0f, .top_p = 1.5f}
    };
    RpOpArgs args = args_of(logits, 3, 1, seeds, scratch, ids, &p);
    REFUSED(run_workers(rp_cpu_sample_rows, &args, 1), RP_E_ARG, "top_p 1.5: must be above 0 and at most 1");
    args.sample_rows.seeds.ne[0] = 1;
    REFUSED(run_workers(rp_cpu_sample_rows, &args, 1), RP_E_SHAPE,
            "sample_rows: seeds must have two words for each row of logits: logits f32 [3], seeds i32 [1], "
            "scratch f32 [22], result i32 [1]");
    args.sample_rows.seeds.dtype = RP_F32;
    REFUSED(run_workers(rp_cpu_sample_rows, &args, 1), RP_E_DTYPE,
            "sample_rows: seeds and the result must be i32: logits f32 [3], seeds f32 [1], scratch f32 [22], "
            "result i32 [1]");
}
