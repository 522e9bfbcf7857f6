/* Memory, files and threads that fail while a trainer is opened, makes a step, and writes its files: every call
 * once (tests/support/host_scenario.h). A checkpoint whose writing failed is not there, and the trainer goes on. */
#include "tests/support/host_scenario.h"

#include "reprise/convert.h"

TestSuite(train_faults, .init = make_folder, .fini = remove_folder);

#ifdef RP_TEST_SLOW
enum { MICRO_BATCHES = 1 };
#else
enum { MICRO_BATCHES = 3 };
#endif
static const RpTrainOptions options = {
    .batch = 1, .seq = 4, .accumulate = MICRO_BATCHES, .aux_loss = 0.01f, .recompute = true, .n_threads = 2};

/* A second checkpoint keeps the first one. */
static RpStatus save_twice(RpTrainer *t, const char *path) {
    char kept[100];
    snprintf(kept, sizeof kept, "%s.1", path);
    RpStatus st = rp_trainer_save(t, path);
    if (st == RP_OK) st = rp_trainer_save(t, path);
    if (st == RP_OK && access(kept, F_OK) != 0) st = rp_fail(RP_E_STATE, "%s is not there", kept);
    remove(path), remove(kept);
    return st;
}

static RpStatus train(RpTrainer *t, const char *type) {
    static const int32_t tokens[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    char                 path[96];
    double               loss;
    RpTrainResult        r;
    RP_TRY(rp_trainer_step(t, tokens, &r));
    add_result(&r.loss, sizeof r.loss);
    RP_TRY(rp_trainer_evaluate(t, tokens, 3, &loss));
    add_result(&loss, sizeof loss);
    snprintf(path, sizeof path, "%s/checkpoint.gguf", folder);
    RP_TRY(save_twice(t, path));
    RpStatus st = rp_trainer_export(t, path, type);
    if (st == RP_OK) remove(path);
    return st;
}

static RpStatus open_and_train(const char *type) {
    RpModel   *m;
    RpTrainer *t;
    RP_TRY(rp_model_open(GOLDEN_DIR "tiny/qwen3moe-f32.gguf", NULL, &m));
    char           checkpoint[96];
    RpTrainOptions o = options;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.gguf", folder);
    o.checkpoint = checkpoint; /* locked */
    RpStatus st  = rp_trainer_open(m, &o, &t);
    if (st == RP_OK) {
        st = train(t, type);
        rp_trainer_free(t);
    }
    rp_model_free(m);
    return st;
}

Test(train_faults, a_trainer_and_its_files) { fail_each_call("train", open_and_train, "Q8_0"); }

/* An adapter is added and merged, and another one trained. */
static RpStatus merge(const char *path) {
    RpModel *m;
    RP_TRY(rp_model_open(GOLDEN_DIR "tiny/llama-f32.gguf", NULL, &m));
    RpStatus st = rp_model_add_adapter(m, GOLDEN_DIR "lora/adapter.gguf", 0.5f);
    if (st == RP_OK) st = rp_model_add_adapter(m, GOLDEN_DIR "lora/adapter.gguf", 0.25f);
    if (st == RP_OK) st = rp_merge_adapters(m, path, "Q8_0", NULL, NULL);
    if (st == RP_OK) remove(path);
    rp_model_free(m);
    return st;
}

static RpStatus use_adapters(const char *unused) {
    char           path[96];
    RpTrainOptions o = {.batch = 1, .seq = 4, .lora_rank = 2, .n_threads = 1};
    RpModel       *m;
    RpTrainer     *t;
    (void)unused;
    snprintf(path, sizeof path, "%s/adapter.gguf", folder);
    RP_TRY(merge(path));
    RP_TRY(rp_model_open(GOLDEN_DIR "tiny/llama-q4_0.gguf", NULL, &m));
    RpStatus st = rp_trainer_open(m, &o, &t);
    if (st == RP_OK) {
        st = rp_trainer_save(t, path);
        rp_trainer_free(t);
    }
    if (st == RP_OK) {
        o.adapter = path;
        st        = rp_trainer_open(m, &o, &t);
        remove(path);
        if (st == RP_OK) rp_trainer_free(t);
    }
    rp_model_free(m);
    return st;
}

Test(train_faults, adapters) { fail_each_call("adapters", use_adapters, ""); }

#ifndef __SANITIZE_THREAD__ /* one thread */
/* A step that is not finite opens a further graph to find the tensor: without memory the error lacks its name. */
static RpStatus blow_up(const char *unused) {
    static const int32_t tokens[5] = {1, 2, 3, 4, 5};
    const RpTrainOptions o         = {.batch = 1, .seq = 4, .lr = 1e30f, .n_threads = 1};
    RpModel             *m;
    RpTrainer           *t;
    (void)unused;
    RP_TRY(rp_model_open(GOLDEN_DIR "tiny/llama-f32.gguf", NULL, &m));
    RpStatus st = rp_trainer_open(m, &o, &t);
    if (st == RP_OK) {
        st = rp_trainer_step(t, tokens, NULL);
        for (int i = 0; i < 2 && st == RP_OK; i++)
            if (rp_trainer_step(t, tokens, NULL) != RP_E_ARG) st = RP_E_STATE;
        if (st == RP_OK && strstr(rp_last_error(), "training: step 2: the loss is NaN") == NULL) st = RP_E_STATE;
        if (st == RP_OK && rp_trainer_n_steps(t) != 1) st = RP_E_STATE;
        rp_trainer_free(t);
    }
    rp_model_free(m);
    return st;
}

/* The error of the step stands for the memory that was missing to explain it, so only other failures are
 * errors. */
Test(train_faults, a_step_that_is_not_finite) {
    cr_assert_eq(run_scenario(blow_up, ""), RP_OK, "%s", rp_last_error());
    const char   *call;
    HostFaultKind kind;
    int           k = 0;
    do {
        const long live = host_live();
        host_fault_arm(++k);
        const RpStatus st = run_scenario(blow_up, "");
        call              = host_fault_disarm(&kind);
        cr_expect_eq(host_live(), live, "call %d: %ld allocations are left", k, host_live() - live);
        cr_expect(st == RP_OK || (call != NULL && names_the_cause(st, kind)), "call %d: %s: \"%s\"", k,
                  call != NULL ? call : "none", rp_last_error());
    } while (call != NULL);
    cr_expect_gt(k, 100);
}
#endif
