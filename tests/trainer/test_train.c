/* Training of the tiny models: losses against PyTorch (tests/golden/training.txt), bits for any number of
 * threads, sums of micro-batches against one batch, padding, evaluation against the logits of a session, no
 * allocation. Device: REPRISE_DEVICE (CPU or simulated device). */
#include "tests/support/case.h"
#include "tests/trainer/training.h"

#include "reprise/convert.h"

#include <stdatomic.h>

/* ---- I3: counts allocations, by replacing malloc with a counting one that calls glibc's ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS
static atomic_long n_allocations;
void              *__libc_malloc(size_t size);
void              *__libc_calloc(size_t n, size_t size);
void              *__libc_realloc(void *p, size_t size);
void              *malloc(size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_malloc(size); }
void              *calloc(size_t n, size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_realloc(p, size); }
#endif

#ifdef RP_TEST_SLOW
enum { MOST_STEPS = 10 };
#else
enum { MOST_STEPS = 1000 };
#endif

static const RpTrainOptions small = {
    .batch = 2, .seq = 8, .lr = 3e-3f, .warmup = 2, .weight_decay = 0.1f, .aux_loss = 0.02f, .n_threads = 2};

static bool on_cpu(const RpTrainer *t) { return strcmp(rp_trainer_info(t).device, "cpu") == 0; }

/* ---- against PyTorch ---- */

/* "run NAME key value key value ..." */
static RpTrainOptions read_options(char *line, char *name, size_t size) {
    RpTrainOptions o     = {.schedule = RP_TRAIN_COSINE, .n_threads = 2};
    char          *saved = NULL;
    (void)strtok_r(line, " ", &saved);
    snprintf(name, size, "%s", strtok_r(NULL, " ", &saved));
    for (char *key; (key = strtok_r(NULL, " ", &saved)) != NULL;) {
        const float value = strtof(strtok_r(NULL, " ", &saved), NULL);
        const struct {
            const char *key;
            int32_t    *whole;
            float      *number;
        } rows[] = {
            {"n_steps",      &o.n_steps, NULL           },
            {"batch",        &o.batch,   NULL           },
            {"seq",          &o.seq,     NULL           },
            {"warmup",       &o.warmup,  NULL           },
            {"aux_loss",     NULL,       &o.aux_loss    },
            {"beta1",        NULL,       &o.beta1       },
            {"beta2",        NULL,       &o.beta2       },
            {"weight_decay", NULL,       &o.weight_decay},
            {"max_norm",     NULL,       &o.max_norm    },
            {"lr",           NULL,       &o.lr          },
            {"lr_end",       NULL,       &o.lr_end      },
        };
        size_t i = 0;
        while (i < sizeof rows / sizeof *rows && strcmp(rows[i].key, key) != 0) i++;
        cr_assert_lt(i, sizeof rows / sizeof *rows, "%s", key);
        if (rows[i].whole != NULL) *rows[i].whole = (int32_t)value;
        if (rows[i].number != NULL) *rows[i].number = value;
    }
    return o;
}

/* Steps as the lines of the file say, `most` of them. In f32 a router may
 * choose another expert than in f64 where two are nearly equal: the auxiliary loss then jumps, in later steps. */
static void follow(FILE *f, RpTrainer *t, const char *name, const RpTrainOptions *o, int n_vocab, int most) {
    static int32_t tokens[MAX_TRAIN_TOKENS];
    char          *line = NULL;
    size_t         size = 0;
    double         want, early = 0.0, worst = 0.0, worst_norm = 0.0, worst_aux = 0.0, loss;
    for (int step = 1; golden_line(f, &line, &size) != NULL && strncmp(line, "evaluate", 8) != 0; step++) {
        double        aux, norm;
        RpTrainResult r;
        cr_assert_eq(sscanf(line, "%*d %lf %lf %lf", &want, &aux, &norm), 3, CASE(step));
        if (step > most) continue;
        train_tokens(step, 0, o->batch, o->seq, n_vocab, tokens);
        OK(rp_trainer_step(t, tokens, &r));
        cr_assert_eq(r.step, step, CASE(step));
        cr_assert_eq(r.n_targets, o->batch * o->seq, CASE(step));
        worst = fmax(worst, fabs(r.loss - want));
        if (step <= 60) early = fmax(fmax(worst, fabs(r.aux_loss - aux)), early);
        worst_aux  = fmax(worst_aux, fabs(r.aux_loss - aux));
        worst_norm = fmax(worst_norm, fabs(r.grad_norm - norm) / fmax(norm, 0.1));
    }
    cr_log_info("%s: loss off by %.2g (60 steps: %.2g), auxiliary loss by %.2g, norm by %.2g", name, worst, early,
                worst_aux, worst_norm);
    cr_expect_leq(worst, 1e-3, "%s: a loss is off by %g", name, worst);
    cr_expect_leq(early, 5e-5, "%s: a loss of the first 60 steps is off by %g", name, early);
    cr_expect_leq(worst_aux, 1e-2, "%s: an auxiliary loss is off by %g", name, worst_aux);
    cr_expect_leq(worst_norm, 5e-2, "%s: a norm is off by %g", name, worst_norm);
    if (most >= o->n_steps) {
        train_tokens(0, 0, 3, o->seq, n_vocab, tokens);
        OK(rp_trainer_evaluate(t, tokens, 3, &loss));
        cr_assert_eq(sscanf(line, "evaluate %lf", &want), 1);
        cr_expect_leq(fabs(loss - want), 1e-3, "%s: the validation loss is %g, not %g", name, loss, want);
    }
    free(line);
}

Test(train, has_the_losses_of_torch) {
    FILE  *f    = golden_open("training.txt");
    char  *line = NULL, name[64];
    size_t size = 0;
    int    runs = 0;
    for (; golden_line(f, &line, &size) != NULL; runs++) {
        RpModel             *m;
        const RpTrainOptions o = read_options(line, name, sizeof name);
        RpTrainer           *t = train_open(name, &o, &m);
        follow(f, t, name, &o, rp_model_info(m)->n_vocab, on_cpu(t) ? MOST_STEPS : 4);
        train_close(t, m);
    }
    cr_expect_eq(runs, 6);
    free(line);
    fclose(f);
}

Test(train, has_the_rates_of_its_schedule) {
    static const double rates[2][6] = {
        {0.5, 1.0, 1.0,  1.0, 1.0,  1.0},
        {0.5, 1.0, 0.75, 0.5, 0.25, 0.0}  /* half a cosine, below */
    };
    for (int k = 0; k < 2; k++) {
        RpTrainOptions o = small;
        RpModel       *m;
        o.schedule = (RpTrainSchedule)k, o.n_steps = 6, o.lr = 1e-3f, o.lr_end = 1e-4f;
        RpTrainer *t = train_open("llama-f32", &o, &m);
        for (int step = 1; step <= 7; step++) {
            double share = rates[k][step < 6 ? step - 1 : 5];
            if (k == 1 && step >= 2) share = 0.1 + 0.9 * (0.5 - 0.5 * cos(acos(-1.0) * share));
            const double lr = train_steps(t, m, &o, step).lr;
            cr_expect_float_eq(lr, 1e-3 * share, 1e-9, "schedule %d, step %d: %g", k, step, lr);
        }
        train_close(t, m);
    }
}

/* ---- bits ---- */

Test(train, gives_the_same_bits_for_any_number_of_threads) {
    static const char *const names[] = {"llama-f32", "qwen3moe-f32"};
    for (int k = 0; k < 2; k++) {
        RpModel       *m[3];
        RpTrainer     *t[3];
        RpTrainResult  r[3];
        RpTrainOptions o = small;
        for (int i = 0; i < 3; i++) {
            o.n_threads = i + 1;
            t[i]        = train_open(names[k], &o, &m[i]);
            r[i]        = train_steps(t[i], m[i], &o, on_cpu(t[i]) ? 8 : 2);
            if (i > 0) train_expect_equal(t[0], t[i], names[k]);
            cr_expect(r[i].loss == r[0].loss && r[i].grad_norm == r[0].grad_norm && r[i].aux_loss == r[0].aux_loss,
                      CASE(k, i));
        }
        for (int i = 0; i < 3; i++) train_close(t[i], m[i]);
    }
}

/* ---- recompute ---- */

/* Dense, with experts, and with latent attention; also with micro-batches. */
Test(train, activations_computed_again_change_no_bit) {
    static const char *const names[] = {"llama-f32", "gpt-oss-f32", "qwen3moe-f32", "deepseek2-f32"};
    for (int k = 0; k < 4; k++) {
        RpModel       *m[2];
        RpTrainer     *t[2];
        RpTrainResult  r[2];
        RpTrainOptions o = small;
        o.accumulate     = 1 + k % 2;
        for (int i = 0; i < 2; i++) {
            o.recompute = i == 1;
            t[i]        = train_open(names[k], &o, &m[i]);
            r[i]        = train_steps(t[i], m[i], &o, 3);
        }
        cr_expect_gt(rp_plan_memory(rp_trainer_plan(t[1])).n_steps, rp_plan_memory(rp_trainer_plan(t[0])).n_steps,
                     CASE(k));
        train_expect_equal(t[0], t[1], names[k]);
        cr_expect(r[0].loss == r[1].loss && r[0].grad_norm == r[1].grad_norm && r[0].aux_loss == r[1].aux_loss,
                  CASE(k));
        for (int i = 0; i < 2; i++) train_close(t[i], m[i]);
    }
}

/* The inputs of all layers stay, and the activations of one. */
Test(train, activations_computed_again_take_less_memory) {
    static const struct {
        const char *preset;
        double      most;
    } rows[] = {
        {"smollm2-135m", 0.05},
        {"nn-6.9b",      0.06},
        {"demo",         0.26},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RpModel       *m;
        RpTrainMemory  kept, again;
        RpTrainOptions o = {.batch = 16, .seq = 256};
        OK(rp_model_open_preset(rows[i].preset, "F32", &m));
        OK(rp_trainer_memory(m, &o, &kept));
        o.recompute = true;
        OK(rp_trainer_memory(m, &o, &again));
        const double share = (double)again.activations / (double)kept.activations;
        cr_log_info("%s: activations %.1f MB, computed again %.1f MB", rows[i].preset, (double)kept.activations / 1e6,
                    (double)again.activations / 1e6);
        cr_expect_leq(share, rows[i].most, "%s: %.3f of the memory", rows[i].preset, share);
        cr_expect(again.weights == kept.weights && again.gradients == kept.gradients, CASE(i));
        rp_model_free(m);
    }
}

/* ---- large vocabularies ---- */

#ifndef RP_TEST_SLOW
/* Writes a tiny model with a vocabulary of n_vocab, the tokenizer of which is trained on random letters. */
static void write_model_of_vocabulary(int32_t n_vocab, const char *path) {
    static char letters[100000];
    char        tokenizer[96];
    uint32_t    state = 1;
    for (size_t i = 0; i < sizeof letters; i++) {
        state      = 1664525 * state + 1013904223;
        letters[i] = i % 8 == 0 ? ' ' : (char)('a' + (state >> 24) % 26);
    }
    const RpGgufString text = {letters, sizeof letters};
    OK(rp_train_tokenizer(&text, 1, &(RpTrainTokenizerOptions){.n_vocab = n_vocab},
                          train_path("tokenizer", tokenizer, sizeof tokenizer)));
    OK(rp_train_init("tiny", &(RpTrainInitOptions){.tokenizer = tokenizer, .seed = 3}, path));
    remove(tokenizer);
}

/* The logits of one batch are 75 MB, so the loss takes them in chunks; those of half a batch are held at once. */
Test(train, losses_of_a_large_vocabulary_are_those_of_a_small_one) {
    enum { SEQ = 128, BATCH = 18, VOCAB = 8192 };
    static int32_t tokens[BATCH * (SEQ + 1)];
    char           path[96];
    RpModel       *m;
    RpTrainer     *t[2];
    RpTrainResult  r[2];
    double         loss[2];
    write_model_of_vocabulary(VOCAB, train_path("vocabulary", path, sizeof path));
    OK(rp_model_open(path, NULL, &m));
    remove(path);
    cr_assert_eq(rp_model_info(m)->n_vocab, VOCAB);
    for (int i = 0; i < BATCH * (SEQ + 1); i++) tokens[i] = (i * 7919 + i / 13) % rp_model_info(m)->n_vocab;
    for (int i = 0; i < 2; i++) {
        const RpTrainOptions o = {
            .batch = BATCH / (i + 1), .seq = SEQ, .accumulate = i + 1, .n_threads = 2, .device = "cpu"};
        OK(rp_trainer_open(m, &o, &t[i]));
        OK(rp_trainer_step(t[i], tokens, &r[i]));
        OK(rp_trainer_evaluate(t[i], tokens, 1, &loss[i]));
    }
    cr_expect_float_eq(r[1].loss, r[0].loss, 1e-6, "%.9g, not %.9g", r[1].loss, r[0].loss);
    cr_expect_float_eq(r[1].grad_norm, r[0].grad_norm, 1e-5 * r[0].grad_norm, "%.9g, not %.9g", r[1].grad_norm,
                       r[0].grad_norm);
    cr_expect_float_eq(loss[1], loss[0], 1e-4, "%.9g, not %.9g", loss[1], loss[0]);
    for (int i = 0; i < 2; i++) rp_trainer_free(t[i]);
    rp_model_free(m);
}
#endif

/* ---- micro-batches ---- */

/* One batch of 6, and 2 and 3 micro-batches of as many sequences. */
Test(train, sums_of_micro_batches_are_those_of_one_batch) {
    static const char *const names[] = {"qwen2-f32", "qwen3moe-f32"};
    static const int         of[3]   = {1, 2, 3};
    const double             most[]  = {2e-6, 2e-5};
    for (int k = 0; k < 2; k++) {
        RpModel      *m[3];
        RpTrainer    *t[3];
        RpTrainResult r[3];
        for (int i = 0; i < 3; i++) {
            RpTrainOptions o = small;
            o.aux_loss       = 0.0f; /* it is not linear in the tokens */
            o.batch = 6 / of[i], o.accumulate = of[i];
            t[i] = train_open(names[k], &o, &m[i]);
            r[i] = train_steps(t[i], m[i], &o, on_cpu(t[i]) ? 5 : 1);
            cr_expect_float_eq(r[i].loss, r[0].loss, most[k], "%g, not %g", r[i].loss, r[0].loss);
            cr_expect_float_eq(r[i].grad_norm, r[0].grad_norm, 10.0 * most[k], CASE(k, i));
            cr_expect_eq(r[i].n_targets, 6 * 8, CASE(k, i));
            if (i == 0) continue;
            const double off = train_difference(t[0], t[i]);
            cr_expect_leq(off, 50.0 * most[k], "%s: weights are off by %g", names[k], off);
        }
        for (int i = 0; i < 3; i++) train_close(t[i], m[i]);
    }
}

Test(train, padding_is_not_learned) {
    int32_t        tokens[2 * 9];
    RpTrainOptions o = small, one = small;
    RpModel       *m[2];
    one.batch          = 1;
    RpTrainer    *t[2] = {train_open("llama-f32", &o, &m[0]), train_open("llama-f32", &one, &m[1])};
    RpTrainResult r[2];
    train_tokens(1, 0, 1, 8, rp_model_info(m[0])->n_vocab, tokens);
    for (int i = 9; i < 18; i++) tokens[i] = -1;
    for (int i = 0; i < 2; i++) OK(rp_trainer_step(t[i], tokens, &r[i]));
    cr_expect_eq(r[0].n_targets, 8);
    cr_expect_eq(r[0].loss, r[1].loss);
    cr_expect_float_eq(r[0].grad_norm, r[1].grad_norm, 1e-6);
    cr_expect_leq(train_difference(t[0], t[1]), 1e-6);
    REFUSED(rp_trainer_step(t[0],
                            (int32_t[18]){[1]  = -1,
                                          [2]  = -1,
                                          [3]  = -1,
                                          [4]  = -1,
                                          [5]  = -1,
                                          [6]  = -1,
                                          [7]  = -1,
                                          [8]  = -1,
                                          [10] = -1,
                                          [11] = -1,
                                          [12] = -1,
                                          [13] = -1,
                                          [14] = -1,
                                          [15] = -1,
                                          [16] = -1,
                                          [17] = -1},
                            &r[0]),
            RP_E_ARG, "training: no token to learn: 2 sequences of padding");
    for (int i = 0; i < 2; i++) train_close(t[i], m[i]);
}

Test(train, reports_the_load_of_the_experts) {
    RpTrainOptions o = small;
    RpModel       *m;
    o.accumulate = 2;
    RpTrainer *t = train_open("qwen3moe-f32", &o, &m);
    for (int l = 0; l < 2; l++) cr_expect_eq(rp_trainer_expert_load(t, l)[0], 0.0f, CASE(l));
    for (int step = 1; step <= 2; step++) {
        const RpTrainResult r = train_steps(t, m, &o, step);
        cr_expect(r.aux_loss > 0.9 && r.aux_loss < 4.0, "%g", r.aux_loss);
        for (int l = 0; l < 2; l++) {
            double       sum  = 0.0;
            const float *load = rp_trainer_expert_load(t, l);
            for (int e = 0; e < rp_model_info(m)->n_expert; e++) sum += (double)load[e];
            cr_expect_float_eq(sum, 1.0, 1e-6, CASE(step, l));
        }
    }
    cr_expect_null(rp_trainer_expert_load(t, 2));
    cr_expect_null(rp_trainer_expert_load(t, -1));
    train_close(t, m);
}

/* A larger factor balances: the auxiliary loss falls. */
Test(train, the_auxiliary_loss_balances) {
    double aux[2];
    for (int k = 0; k < 2; k++) {
        RpTrainOptions o = small;
        RpModel       *m;
        o.aux_loss   = k == 0 ? 0.0f : 1.0f;
        RpTrainer *t = train_open("qwen3moe-f32", &o, &m);
        if (!on_cpu(t)) cr_skip_test("takes long on a simulated device");
        aux[k] = train_steps(t, m, &o, 60).aux_loss;
        train_close(t, m);
    }
    cr_expect_lt(aux[1], aux[0] - 0.01, "%g, without %g", aux[1], aux[0]);
}

/* ---- evaluation ---- */

Test(train, evaluates_as_the_session_of_the_exported_model) {
    static const char *const names[] = {
        "llama-f32",   "qwen3moe-f32",   "qwen2moe-f32",   "qwen2-mix",    "llama-factors",         "mixtral-f32",
        "olmoe-f32",   "granitemoe-f32", "granite-nope",   "smollm3-f32",  "llama-bias-mha-linear", "gemma3-f32",
        "gpt-oss-f32", "llama-yarn",     "deepseek2-lite", "deepseek2-mix"};
    int32_t tokens[5 * 9];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char       path[96];
        double     before, loss;
        RpModel   *m, *exported;
        RpTrainer *t = train_open(names[k], &small, &m);
        if (k % 3 > 0 && !on_cpu(t)) { /* the simulated device takes its time; train_gradients has all families */
            train_close(t, m);
            continue;
        }
        train_tokens(0, 0, 5, 8, rp_model_info(m)->n_vocab, tokens);
        OK(rp_trainer_evaluate(t, tokens, 5, &before));
        (void)train_steps(t, m, &small, 2);
        OK(rp_trainer_evaluate(t, tokens, 5, &loss));
        OK(rp_trainer_export(t, train_path("export", path, sizeof path), "F32"));
        OK(rp_model_open(path, NULL, &exported));
        remove(path);
        const double want = train_loss_of_logits(exported, tokens, 5, 8);
        cr_expect_float_eq(loss, want, 2e-3 * want, "%s: %g, the session has %g", names[k], loss, want);
        cr_expect_gt(fabs(loss - before), 10.0 * fabs(loss - want), "%s: %g, before %g", names[k], loss, before);
        rp_model_free(exported);
        train_close(t, m);
    }
}

#ifdef COUNTS_ALLOCATIONS
Test(train, allocates_nothing_after_open) {
    static int32_t tokens[MAX_TRAIN_TOKENS];
    RpTrainOptions o = small;
    RpModel       *m;
    double         loss;
    o.accumulate = 3;
    RpTrainer *t = train_open("qwen3moe-f32", &o, &m);
    if (!on_cpu(t)) cr_skip_test("the simulated device allocates");
    train_tokens(1, 0, 6, 8, rp_model_info(m)->n_vocab, tokens);
    OK(rp_trainer_step(t, tokens, NULL));
    const long before = atomic_load(&n_allocations);
    OK(rp_trainer_step(t, tokens, NULL));
    OK(rp_trainer_evaluate(t, tokens, 5, &loss));
    cr_expect_eq(atomic_load(&n_allocations), before);
    train_close(t, m);
}
#endif

/* ---- bf16 ---- */

/* A model of bf16 weights: rounding changes nothing then, so both kinds of products have the same results. */
static RpModel *open_rounded(const char *name) {
    char     from[1024], path[96];
    RpModel *m;
    snprintf(from, sizeof from, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_requantize(from, train_path("rounded", path, sizeof path), "BF16", NULL, NULL));
    OK(rp_model_open(path, NULL, &m));
    remove(path); /* it stays mapped */
    return m;
}

Test(train, bf16_products_read_rounded_weights) {
    static const char *const names[] = {"llama-f32", "qwen3moe-f32", "deepseek2-f32"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        RpTrainOptions o[3] = {small, small, small};
        RpTrainResult  r[3];
        RpTrainer     *t[3];
        RpModel       *rounded = open_rounded(names[k]), *whole = golden_open_tiny(names[k]);
        o[1].compute = o[2].compute = RP_BF16;
        for (int i = 0; i < 3; i++) {
            OK(rp_trainer_open(i < 2 ? rounded : whole, &o[i], &t[i]));
            r[i] = train_steps(t[i], rounded, &o[i], 1);
        }
        cr_expect_float_eq(r[0].loss, r[1].loss, 1e-6 * r[0].loss, "%s: %.9g %.9g", names[k], r[0].loss, r[1].loss);
        cr_expect_float_eq(r[0].grad_norm, r[1].grad_norm, 2e-6 * r[0].grad_norm, "%s: %.9g %.9g", names[k],
                           r[0].grad_norm, r[1].grad_norm);
        cr_expect(r[2].loss != r[1].loss, "%s: nothing is rounded", names[k]);
        /* the weights themselves are f32: 20 small steps lower the loss as those of f32 products do */
        for (int i = 0; i < 2; i++) r[i] = train_steps(t[i], rounded, &o[i], on_cpu(t[i]) ? 20 : 3);
        cr_expect_float_eq(r[0].loss, r[1].loss, 0.01 * r[0].loss, "%s: %g %g", names[k], r[0].loss, r[1].loss);
        for (int i = 0; i < 3; i++) rp_trainer_free(t[i]);
        rp_model_free(rounded), rp_model_free(whole);
    }
}

/* The memory is that of the plan: weights, twice as much for the optimiser, as much for gradients. */
Test(train, knows_its_memory) {
    RpModel       *m = golden_open_tiny("qwen3moe-f32");
    RpTrainMemory  one, sums, longer;
    RpTrainOptions o     = small;
    const size_t   bytes = rp_model_info(m)->weight_bytes;
    OK(rp_trainer_memory(m, &o, &one));
    o.accumulate = 2;
    OK(rp_trainer_memory(m, &o, &sums));
    o.seq = 16;
    OK(rp_trainer_memory(m, &o, &longer));
    cr_expect_eq(one.weights, bytes);
    cr_expect_eq(one.optimizer, 2 * bytes);
    cr_expect_eq(one.gradients, bytes);
    cr_expect_eq(sums.gradients, 2 * bytes);
    cr_expect_eq(one.total, one.weights + one.optimizer + one.gradients + one.activations);
    cr_expect_gt(longer.activations, sums.activations);
    rp_model_free(m);
}
