/* The op sample, which samples the next token into the step state. Expected tokens are written by hand, shares
 * of tokens are compared with their probabilities; run_variants compares every backend. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

#include "base/philox.h"
#include "base/step_state.h"
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
                tensor(RP_I32, step, RP_STEP_WORDS + RECENT, 1, 1, 1), tensor(RP_F32, scratch, 2 * n, 1, 1, 1)}
    };
}

static Step step_of(float temperature) {
    return (Step){
        .s = {.temperature = temperature, .top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = RECENT, .pos = 5}
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
        cr_expect(fabs(counts[i] - p) < 4.0 * sqrt(p * (1.0 - p) / SAMPLES), "token %d: %g, not %g", i, counts[i], p);
    }
}

/* Random parameters: run_variants checks that every backend samples the same tokens. */
Test(sample, respects_top_k_top_p_and_min_p_on_every_backend) {
    for (uint64_t round = 0; round < 48; round++) {
        const int n      = 3 + (int)(400.0f * rp_philox_uniform(round, 0));
        float    *logits = malloc((size_t)n * sizeof *logits);
        Step      step   = step_of(0.2f + 2.0f * rp_philox_uniform(round, 1));
        for (int i = 0; i < n; i++) logits[i] = roundf(80.0f * rp_philox_uniform(round, 100 + (uint64_t)i)) / 8.0f;
        step.s.top_k          = round % 3 == 0 ? 0 : 2 + (int32_t)(40.0f * rp_philox_uniform(round, 2));
        step.s.top_p          = round % 4 == 0 ? 1.0f : 0.3f + 0.69f * rp_philox_uniform(round, 3);
        step.s.min_p          = round % 5 == 0 ? 0.0f : 0.3f * rp_philox_uniform(round, 4);
        step.s.repeat_penalty = round % 2 == 0 ? 1.0f : 1.3f;
        step.s.seed_low       = (uint32_t)round;
        float top             = -INFINITY;
        for (int i = 0; i < n; i++) top = fmaxf(top, logits[i]);
        for (int i = 0; i < 3; i++) step = sample(logits, n, step);
        cr_expect_eq(step.s.drawn_low, 3u, CASE(round));
        if (step.s.repeat_penalty == 1.0f && step.s.min_p > 0.0f)
            cr_expect(exp((double)(logits[step.s.token] - top) / (double)step.s.temperature) >=
                          (double)step.s.min_p * 0.999,
                      "a token below min_p was sampled");
        free(logits);
    }
}

/* Logits of several slices of the CUDA kernel. Equal ones and ones that fall into one bin take its longest path. */
static float shaped(const char *shape, int i, int n) {
    const float u = rp_philox_uniform(77, (uint64_t)i);
    if (strcmp(shape, "equal") == 0) return 1.5f;
    if (strcmp(shape, "two values") == 0) return i % 3 == 0 ? 1.0f : 0.5f;
    if (strcmp(shape, "falling") == 0) return -0.001f * (float)i;
    if (strcmp(shape, "rising") == 0) return 0.001f * (float)i;
    if (strcmp(shape, "one far above") == 0) return i == n / 2 ? 1e30f : u;
    if (strcmp(shape, "masked") == 0) return i % 5 == 0 ? NAN : i % 7 == 0 ? -INFINITY : i % 11 == 0 ? -1e30f : u;
    if (strcmp(shape, "infinite") == 0) return i % 2 == 0 ? INFINITY : u;
    if (strcmp(shape, "denormal") == 0) return (float)(int)(1000.0f * u) * 0x1p-149f;
    if (strcmp(shape, "cluster") == 0) /* see takes_at_most_seven_steps_a_search */
        return i < 3 ? (i == 0 ? 1.0f : i == 1 ? -0x1.fp-10f : 0x1p-26f) : i == n - 1 ? -1.0f : 0.0f;
    if (strcmp(shape, "text") == 0) return -4.0f * logf(u + 1e-7f) + 8.0f * u; /* few high ones */
    return i % 2 == 0 ? (i % 4 == 0 ? 0.0f : -0.0f) : 4.0f * u - 2.0f;         /* "zeros": and others around them */
}

typedef struct ShapedCase {
    const char *shape;
    float       temperature;
    int32_t     top_k;
    float       top_p, min_p, repeat_penalty;
    int         n;
} ShapedCase;

static float *shaped_logits(const ShapedCase *c) {
    float *logits = malloc((size_t)c->n * sizeof *logits);
    for (int i = 0; i < c->n; i++) logits[i] = shaped(c->shape, i, c->n);
    return logits;
}

static Step shaped_step(const ShapedCase *c, uint32_t seed) {
    Step step             = step_of(c->temperature);
    step.s.top_k          = c->top_k;
    step.s.top_p          = c->top_p;
    step.s.min_p          = c->min_p;
    step.s.repeat_penalty = c->repeat_penalty;
    step.s.seed_low       = seed;
    step.s.n_recent       = 3; /* of the first slice, twice, and of the last */
    step.s.next_recent    = 3;
    step.recent[0] = step.recent[1] = 7;
    step.recent[2]                  = c->n - 1;
    return step;
}

/* On the CPU, then as a CUDA kernel in one order of blocks and threads. */
static Step sample_shaped(const ShapedCase *c, uint32_t seed) {
    const Step     before = shaped_step(c, seed);
    Step           step   = before;
    float         *logits = shaped_logits(c), *scratch = malloc(2 * (size_t)c->n * sizeof *scratch);
    const RpOpArgs args = args_of(logits, c->n, &step, scratch);
    OK(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}));
#ifdef RP_TEST_CUDA
    const Step cpu = step;
    step           = before;
    sim_sched((int)(seed % 3), 1);
    OK(cuda_run(rp_cpu_sample, &args, &before));
    cr_expect_arr_eq(&step, &cpu, sizeof step, "%s: the CUDA kernel leaves another state", c->shape);
#endif
    free(logits);
    free(scratch);
    return step;
}

Test(sample, agrees_with_the_cpu_on_logits_of_any_shape) {
    static const ShapedCase cases[] = {
        {"equal",         1.0f,  0,    1.0f,  0.0f,  1.0f, 2200},
        {"equal",         1e30f, 2199, 0.5f,  0.0f,  1.1f, 2200},
        {"two values",    0.5f,  2900, 0.9f,  0.0f,  1.0f, 4500},
        {"two values",    1e6f,  0,    0.8f,  0.2f,  1.0f, 2200},
        {"falling",       0.7f,  0,    1.0f,  0.0f,  1.0f, 2200},
        {"rising",        2.0f,  1600, 0.7f,  0.3f,  1.3f, 2200},
        {"one far above", 1e30f, 0,    0.95f, 0.0f,  1.0f, 2200},
        {"one far above", 1.0f,  40,   0.95f, 0.05f, 1.0f, 2200},
        {"masked",        1e5f,  4000, 0.99f, 0.5f,  1.0f, 4500},
        {"masked",        0.2f,  0,    0.99f, 0.0f,  0.7f, 2200},
        {"infinite",      1.0f,  1000, 0.75f, 0.1f,  1.0f, 2200},
        {"infinite",      1.0f,  0,    1.0f,  1.0f,  1.0f, 2200},
        {"text",          0.8f,  40,   0.95f, 0.05f, 1.1f, 2200},
        {"text",          1.5f,  0,    1.0f,  0.01f, 1.0f, 2200},
        {"zeros",         1.0f,  0,    0.9f,  0.0f,  1.0f, 4097},
        {"zeros",         3.0f,  2049, 1.0f,  0.9f,  1.0f, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(sample_shaped(&cases[i], (uint32_t)i).s.drawn_low, 1u, "%s", cases[i].shape);
}

/* With n equal logits top-k keeps those with the lowest ids, so the random number chooses id u * k. */
Test(sample, chooses_among_equal_logits_by_id) {
    const ShapedCase all  = {"equal", 0.3f, 0, 1.0f, 0.5f, 1.0f, 2500},
                     some = {"equal", 3.0f, 2100, 1.0f, 0.0f, 1.0f, 2500};
    for (uint32_t seed = 0; seed < 2; seed++) {
        const double u = (double)rp_philox_uniform(seed, 0);
        cr_expect_eq(sample_shaped(&all, seed).s.token, (int32_t)(u * 2500.0), CASE(seed));
        cr_expect_eq(sample_shaped(&some, seed).s.token, (int32_t)(u * 2100.0), CASE(seed));
    }
}

Test(sample, gives_the_same_bits_in_any_order_of_blocks) {
    const ShapedCase c      = {"text", 0.9f, 300, 0.95f, 0.01f, 1.1f, 4200};
    float           *logits = shaped_logits(&c);
    cr_expect_eq(sample(logits, c.n, shaped_step(&c, 1)).s.drawn_low, 1u);
    free(logits);
}

#ifdef SIM_RACE
enum { MANY = 68000 }; /* more slices than a warp has lanes */
#else
enum { MANY = 151936 };
#endif

Test(sample, samples_from_a_vocabulary_of_152k) {
    const ShapedCase c    = {"text", 0.8f, 40, 0.95f, 0.05f, 1.1f, MANY};
    const Step       step = sample_shaped(&c, 5);
    cr_expect_eq(step.s.drawn_low, 1u);
    cr_expect_eq(step.recent[3], step.s.token);
}

Test(sample, agrees_with_the_cpu_on_152k_logits_of_any_shape) {
    static const ShapedCase cases[] = {
        {"masked",   1.0f, 60000, 0.9f, 0.1f, 1.1f, MANY},
        {"denormal", 1.0f, 60000, 0.9f, 0.1f, 1.0f, MANY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(sample_shaped(&cases[i], (uint32_t)i).s.drawn_low, 1u, "%s", cases[i].shape);
}

/* Barriers of blocks that one run of the CUDA kernel executes; 0 without it, and from PTX. */
static long barriers_of(const ShapedCase *c) {
#ifdef RP_TEST_CUDA
    const unsigned long before = sim_stats().barriers;
#endif
    cr_expect_eq(sample_shaped(c, 3).s.drawn_low, 1u, "%s", c->shape);
#ifdef RP_TEST_CUDA
    return (long)(sim_stats().barriers - before) / 2; /* cuda_run launches twice */
#else
    return 0;
#endif
}

/* The steps in which searches narrow the range of keys in a bin, three barriers each. "cluster" is made for most steps:
 * its bin holds the logits from -2^-9 to 2^-25, 1.85e9 floats, of which almost all candidates have one. A step leaves
 * 1/33 of the range. All three searches end there. In "equal" no step is needed. */
Test(sample, takes_at_most_seven_steps_a_search) {
    enum { SEARCHES = 3, BARRIERS = 3 };
    const ShapedCase equal   = {"equal", 1.0f, MANY / 2, 0.5f, 0.0f, 1.0f, MANY},
                     cluster = {"cluster", 1.0f, MANY / 2, 0.5f, 0.0f, 1.0f, MANY};
    const long none = barriers_of(&equal), steps = (barriers_of(&cluster) - none) / BARRIERS;
    cr_expect_leq(steps, SEARCHES * 7L, "%ld steps", steps);
    if (none > 0) cr_expect_geq(steps, SEARCHES * 6L, "%ld steps: the logits are not the worst", steps);
}

/* The source `extra`: for each row of the op's only case the reference applies mask and penalties to the logits. */
typedef struct Extra {
    RpSampleExtra e;
    uint32_t      bits[(2500 + 31) / 32];
} Extra;

static float penalised(const Step *step, const Extra *x, const float *logits, int32_t id) {
    int32_t count = 0;
    float   logit = logits[id];
    if (x->e.masked != 0 && (x->bits[id / 32] >> (id % 32) & 1) == 0) return -INFINITY;
    for (int i = 0; i < step->s.n_recent; i++) count += step->recent[i] == id;
    if (count == 0) return logit;
    logit = logit > 0.0f ? logit / step->s.repeat_penalty : logit * step->s.repeat_penalty;
    return logit - ((float)count * x->e.frequency_penalty + x->e.presence_penalty);
}

/* Greedily: the best of the logits that the reference changes. Drawn: the same token on every backend, never a masked
 * one. All numbers are multiples of 1/8, so that the reference is exact. */
Test(sample, takes_a_mask_and_penalties_from_extra) {
    enum { MOST = 2500 };
    static float logits[MOST], scratch[2 * MOST];
    static Extra x;
    for (uint32_t round = 0; round < 12; round++) {
        const int n           = round % 3 == 0 ? 40 : round % 3 == 1 ? 33 : MOST;
        Step      step        = step_of(round % 2 == 0 ? 0.0f : 0.8f);
        step.s.seed_low       = round;
        step.s.top_p          = 0.9f;
        step.s.n_recent       = 9;
        step.s.next_recent    = 9;
        step.s.repeat_penalty = round % 4 < 2 ? 1.0f : 2.0f;
        x.e                   = (RpSampleExtra){.masked = round % 5 != 0};
        x.e.frequency_penalty = round % 6 == 0 ? 0.0f : 0.25f;
        x.e.presence_penalty  = round % 7 == 0 ? 0.0f : -0.5f;
        for (int i = 0; i < n; i++) logits[i] = floorf(64.0f * rp_philox_uniform(round, (uint64_t)i)) / 8.0f - 2.0f;
        for (int i = 0; i < 9; i++)
            step.recent[i] = (int32_t)((float)n * rp_philox_uniform(round, 5000 + (uint64_t)(i / 2)));
        for (int i = 0; i < (MOST + 31) / 32; i++)
            x.bits[i] = (uint32_t)(4294967040.0f * rp_philox_uniform(round, 9000 + (uint64_t)i)) | 2u;
        int32_t best = -1;
        for (int32_t i = 0; i < n; i++)
            if (best < 0 || penalised(&step, &x, logits, i) > penalised(&step, &x, logits, best)) best = i;
        const Step before = step;
        RpOpArgs   args   = args_of(logits, n, &step, scratch);
        args.sample.extra = tensor(RP_I32, &x, RP_SAMPLE_EXTRA_WORDS + (n + 31) / 32, 1, 1, 1);
        run_variants(rp_cpu_sample, &args);
        if (step.s.temperature == 0.0f) cr_assert_eq(step.s.token, best, CASE(round));
        cr_assert(isfinite(penalised(&before, &x, logits, step.s.token)), CASE(round));
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
    const RpStepState other = {.temperature    = 1.0f,
                               .top_p          = 1.0f,
                               .repeat_penalty = 1.0f,
                               .repeat_last_n  = 4,
                               .n_recent       = 1,
                               .next_recent    = 1};
    REFUSED(rp_step_check(&other, (int32_t[]){3}, 4, 3), RP_E_ARG, "step state: recent token 3, the vocabulary has 3");
    step.s.repeat_last_n = RECENT + 1;
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_ARG,
            "sample: 17 recent tokens, the state has room for 16");
    args.sample.extra = tensor(RP_I32, scratch, RP_SAMPLE_EXTRA_WORDS, 1, 1, 1);
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_SHAPE,
            "sample: extra must be i32 of at least 5 words for each row of logits: logits f32 [3], state i32 [30], "
            "scratch f32 [6], extra i32 [4], result i32 [30]");
    args.sample.extra         = (RpTensorView){0};
    args.sample.scratch.ne[0] = 5;
    REFUSED(rp_cpu_sample(&args, &(RpKernelCtx){.nth = 1}), RP_E_SHAPE,
            "sample: rows of scratch must be twice as long as those of logits: logits f32 [3], state i32 "
            "[30], scratch f32 [5], result i32 [30]");
}
