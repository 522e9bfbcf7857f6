/* The op sample, which samples the next token into the step state. Expected tokens are written by hand, shares
 * of tokens are compared with their probabilities; run_variants compares every backend. */
#include "tests/kernel_test.h"

#include "base/philox.h"
#include "reprise/step.h"

enum { RECENT = 16 };

/* The step state as the op sees it: the words of RpStepState, then a ring of recent tokens. */
typedef struct Step {
    RpStepState s;
    int32_t     recent[RECENT];
} Step;

static RpOpArgs args_of(const float *logits, int n, Step *step, float *scratch) {
    return (RpOpArgs){
        .dst = tensor(RP_I32, step, RP_STEP_WORDS + RECENT, 1, 1, 1),
        .src = {tensor(RP_F32, (void *)(uintptr_t)logits, n, 1, 1, 1),
                tensor(RP_I32, step, RP_STEP_WORDS + RECENT, 1, 1, 1),
                tensor(RP_F32, scratch, 2 * n, 1, 1, 1)}
    };
}

static Step step_of(float temperature) {
    return (Step){
        .s = {.temperature    = temperature,
              .top_p          = 1.0f,
              .repeat_penalty = 1.0f,
              .repeat_last_n  = RECENT,
              .pos            = 5}
    };
}

static Step sample(const float *logits, int n, Step step) {
    float         *scratch = malloc(2 * (size_t)n * sizeof *scratch);
    const RpOpArgs args    = args_of(logits, n, &step, scratch);
    run_variants(rp_cpu_sample, &args);
    free(scratch);
    return step;
}

Test(sample, greedy_takes_the_highest_logit_and_the_lower_id_on_ties) {
    const float logits[6] = {-1.0f, 2.0f, NAN, 2.0f, -INFINITY, 0.0f};
    const Step  after     = sample(logits, 6, step_of(0.0f));
    cr_expect_eq(after.s.token, 1);
    cr_expect_eq(after.s.pos, 6);
    cr_expect_eq(after.s.drawn_low, 0u, "greedy uses no random number");
    cr_expect_eq(after.s.n_recent, 1);
    cr_expect_eq(after.recent[0], 1);
    const float zeros[3] = {-0.0f, 0.0f, -1.0f};
    cr_expect_eq(sample(zeros, 3, step_of(0.0f)).s.token, 0);
}

Test(sample, penalises_recent_tokens) {
    const float logits[4] = {3.0f, 2.9f, -1.0f, 2.0f};
    Step        step      = step_of(0.0f);
    step.s.repeat_penalty = 2.0f;
    step                  = sample(logits, 4, step);
    cr_expect_eq(step.s.token, 0);
    step = sample(logits, 4, step);
    cr_expect_eq(step.s.token, 1);
    step = sample(logits, 4, step);
    cr_expect_eq(step.s.token, 3);
    cr_expect_eq(sample(logits, 4, step).s.token, 0, "every positive logit has been penalised once");
}

/* The share of each token over many samples, within four standard deviations of its probability. */
Test(sample, samples_by_probability) {
    enum { N = 5, SAMPLES = 1500 };
    const float logits[N] = {1.0f, 0.0f, 2.0f, -1.0f, 1.5f};
    double      sum = 0.0, counts[N] = {0};
    Step        step     = step_of(0.7f);
    step.s.repeat_last_n = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float          scratch[2 * N];
        const RpOpArgs args = args_of(logits, N, &step, scratch);
        OK(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}));
        counts[step.s.token] += 1.0 / SAMPLES;
    }
    cr_expect_eq(step.s.drawn_low, (uint32_t)SAMPLES);
    for (int i = 0; i < N; i++) sum += exp((double)logits[i] / 0.7);
    for (int i = 0; i < N; i++) {
        const double p = exp((double)logits[i] / 0.7) / sum;
        cr_expect(fabs(counts[i] - p) < 4.0 * sqrt(p * (1.0 - p) / SAMPLES), "token %d: %g, not %g", i,
                  counts[i], p);
    }
}

/* Random parameters: run_variants checks that every backend samples the same tokens. */
Test(sample, respects_top_k_top_p_and_min_p_on_every_backend) {
    for (uint64_t round = 0; round < 48; round++) {
        const int n      = 3 + (int)(400.0f * rp_philox_uniform(round, 0));
        float    *logits = malloc((size_t)n * sizeof *logits);
        Step      step   = step_of(0.2f + 2.0f * rp_philox_uniform(round, 1));
        for (int i = 0; i < n; i++)
            logits[i] = roundf(80.0f * rp_philox_uniform(round, 100 + (uint64_t)i)) / 8.0f;
        step.s.top_k          = round % 3 == 0 ? 0 : 2 + (int32_t)(40.0f * rp_philox_uniform(round, 2));
        step.s.top_p          = round % 4 == 0 ? 1.0f : 0.3f + 0.69f * rp_philox_uniform(round, 3);
        step.s.min_p          = round % 5 == 0 ? 0.0f : 0.3f * rp_philox_uniform(round, 4);
        step.s.repeat_penalty = round % 2 == 0 ? 1.0f : 1.3f;
        step.s.seed_low       = (uint32_t)round;
        float top             = -INFINITY;
        for (int i = 0; i < n; i++) top = fmaxf(top, logits[i]);
        for (int i = 0; i < 3; i++) step = sample(logits, n, step);
        cr_expect_eq(step.s.drawn_low, 3u);
        if (step.s.repeat_penalty == 1.0f && step.s.min_p > 0.0f)
            cr_expect(exp((double)(logits[step.s.token] - top) / (double)step.s.temperature) >=
                          (double)step.s.min_p * 0.999,
                      "a token below min_p was sampled");
        free(logits);
    }
}

Test(sample, refuses_bad_logits_and_states) {
    const float none[3] = {NAN, -INFINITY, NAN};
    float       scratch[6];
    Step        step = step_of(1.0f);
    RpOpArgs    args = args_of(none, 3, &step, scratch);
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_ARG,
            "nothing to sample: each of the 3 logits is NaN or -inf");
    cr_expect_eq(step.s.token, -1);
    step.s.repeat_last_n = RECENT + 1;
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_ARG,
            "17 recent tokens, the state has room for 16");
    args.sample.scratch.ne[0] = 5;
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_SHAPE, "sample: logits [3,1], state");
}
