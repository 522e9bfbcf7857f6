/* Files of a trainer: checkpoints resume bit for bit, and are models; exports; damaged checkpoints. Steps that
 * are not finite, after which the weights are as before. Device: REPRISE_DEVICE (CPU or simulated device). */
#include "tests/support/case.h"
#include "tests/trainer/checksums.h"
#include "tests/trainer/training.h"

#include "reprise/convert.h"

static const RpTrainOptions options = {.batch     = 2,
                                       .seq       = 8,
                                       .lr        = 3e-3f,
                                       .eps       = 1e-6f,
                                       .warmup    = 2,
                                       .n_steps   = 9,
                                       .schedule  = RP_TRAIN_COSINE,
                                       .aux_loss  = 0.02f,
                                       .n_threads = 2};

static RpModel *open_saved(RpTrainer *t, const char *name) {
    char     path[96];
    RpModel *m;
    OK(rp_trainer_save(t, train_path(name, path, sizeof path)));
    OK(rp_model_open(path, NULL, &m));
    remove(path); /* it stays mapped */
    return m;
}

Test(train_files, a_checkpoint_resumes_bit_for_bit) {
    static const char *const names[] = {"qwen2-mix", "qwen3moe-f32", "llama-factors"};
    for (int k = 0; k < 3; k++) {
        RpModel   *m, *saved;
        RpTrainer *t = train_open(names[k], &options, &m), *resumed;
        (void)train_steps(t, m, &options, 2);
        saved                    = open_saved(t, "resume");
        const RpTrainResult want = train_steps(t, m, &options, 4);
        OK(rp_trainer_open(saved, &options, &resumed));
        cr_expect_eq(rp_trainer_n_steps(resumed), 2, CASE(k));
        const RpTrainResult got = train_steps(resumed, saved, &options, 4);
        cr_expect(got.loss == want.loss && got.grad_norm == want.grad_norm && got.lr == want.lr, "%s", names[k]);
        train_expect_equal(t, resumed, names[k]);
        train_close(resumed, saved);
        train_close(t, m);
    }
}

/* A trainer that made two steps with `options`, resumed with `o`. */
static void resume(const char *name, const RpTrainOptions *o, const char *refusal) {
    RpModel   *m, *saved;
    RpTrainer *t = train_open(name, &options, &m), *resumed = NULL;
    (void)train_steps(t, m, &options, 2);
    saved = open_saved(t, "other");
    if (refusal != NULL) {
        REFUSED(rp_trainer_open(saved, o, &resumed), RP_E_ARG, refusal);
        cr_expect_null(resumed);
    } else {
        OK(rp_trainer_open(saved, o, &resumed));
        cr_expect_eq(rp_trainer_n_steps(resumed), 2);
    }
    train_close(resumed, saved);
    train_close(t, m);
}

Test(train_files, a_resume_with_other_options_names_the_first_that_differs) {
    static const char *const texts[] = {
        ("other.gguf: batch = 3, but the training before had batch = 2: resume with the same options, or set "
         "change_options"),
        ": seq = 9, but the training before had seq = 8",
        ": accumulate = 2, but the training before had accumulate = 1",
        ": n_steps = 10, but the training before had n_steps = 9",
        ": lr = 0.00400000019, but the training before had lr = 0.00300000003",
        ": lr_end = 0.00100000005, but the training before had lr_end = 0",
        ": schedule = constant, but the training before had schedule = cosine",
        ": warmup = 3, but the training before had warmup = 2",
        ": beta1 = 0.800000012, but the training before had beta1 = 0.899999976",
        ": beta2 = 0.99000001, but the training before had beta2 = 0.999000013",
        ": eps = 9.99999994e-09, but the training before had eps = 9.99999997e-07",
        ": weight_decay = 0.100000001, but the training before had weight_decay = 0",
        ": max_norm = inf, but the training before had max_norm = 1",
        ": aux_loss = 0.0299999993, but the training before had aux_loss = 0.0199999996",
        ": seed = 18446744073709551615, but the training before had seed = 0",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        RpTrainOptions o = options;
        switch (i) {
        case 0:
            o.batch = 3;
            break;
        case 1:
            o.seq = 9;
            break;
        case 2:
            o.accumulate = 2;
            break;
        case 3:
            o.n_steps = 10;
            break;
        case 4:
            o.lr = 4e-3f;
            break;
        case 5:
            o.lr_end = 1e-3f;
            break;
        case 6:
            o.schedule = RP_TRAIN_CONSTANT;
            break;
        case 7:
            o.warmup = 3;
            break;
        case 8:
            o.beta1 = 0.8f;
            break;
        case 9:
            o.beta2 = 0.99f;
            break;
        case 10:
            o.eps = 1e-8f;
            break;
        case 11:
            o.weight_decay = 0.1f;
            break;
        case 12:
            o.max_norm = INFINITY;
            break;
        case 13:
            o.aux_loss = 0.03f;
            break;
        default:
            o.seed = UINT64_MAX;
        }
        resume("mixtral-f32", &o, texts[i]);
        o.change_options = true;
        resume("mixtral-f32", &o, NULL);
    }
}

/* Other threads, and an auxiliary loss where there are no experts. */
Test(train_files, a_resume_takes_options_that_change_no_bit) {
    RpTrainOptions o = options;
    o.n_threads = 1, o.accumulate = 1, o.beta1 = 0.9f, o.max_norm = 1.0f, o.aux_loss = 0.5f;
    resume("llama-f32", &o, NULL);
}

/* With a constant rate the number of steps means nothing, nor does a warm-up that is over. */
Test(train_files, a_resume_of_a_constant_rate_may_have_more_steps) {
    RpTrainOptions o = options;
    RpModel       *m, *saved;
    RpTrainer     *resumed;
    o.schedule   = RP_TRAIN_CONSTANT;
    RpTrainer *t = train_open("llama-f32", &o, &m);
    (void)train_steps(t, m, &o, 3);
    saved     = open_saved(t, "constant");
    o.n_steps = 1000, o.lr_end = 0.5f, o.warmup = 4;
    OK(rp_trainer_open(saved, &o, &resumed));
    rp_trainer_free(resumed);
    o.warmup = 5;
    REFUSED(
        rp_trainer_open(saved, &o, &resumed), RP_E_ARG,
        ": warmup = 5, but the training before had warmup = 2: resume with the same options, or set change_options to "
        "go on with others");
    train_close(NULL, saved);
    train_close(t, m);
}

/* After a change the new options are those of the next checkpoint. */
Test(train_files, a_changed_option_is_that_of_the_next_checkpoint) {
    RpTrainOptions o = options;
    RpModel       *m, *saved, *again;
    RpTrainer     *t = train_open("llama-f32", &options, &m), *resumed, *third;
    (void)train_steps(t, m, &options, 1);
    saved = open_saved(t, "before");
    o.lr = 1e-4f, o.change_options = true;
    OK(rp_trainer_open(saved, &o, &resumed));
    again            = open_saved(resumed, "changed");
    o.change_options = false;
    OK(rp_trainer_open(again, &o, &third));
    rp_trainer_free(third);
    REFUSED(rp_trainer_open(again, &options, &third), RP_E_ARG, "but the training before had lr = 9.99999975e-05");
    train_close(NULL, again);
    train_close(resumed, saved);
    train_close(t, m);
}

/* Metadata, weights and the summary are those of a model; nothing of the optimiser shows. */
Test(train_files, a_checkpoint_is_a_model) {
    char       path[96], copy[96];
    RpModel   *m, *saved, *plain;
    RpTrainer *t = train_open("qwen3moe-f32", &options, &m);
    (void)train_steps(t, m, &options, 1);
    OK(rp_trainer_save(t, train_path("model", path, sizeof path)));
    OK(rp_model_open(path, NULL, &saved));
    const RpModelInfo *a = rp_model_info(m), *b = rp_model_info(saved);
    cr_expect(a->n_params == b->n_params && a->weight_bytes == b->weight_bytes && a->n_vocab == b->n_vocab);
    cr_expect_eq(a->n_params_active, b->n_params_active);
    cr_expect_eq(rp_gguf_n_tensors(rp_model_file(saved)), 3 * rp_gguf_n_tensors(rp_model_file(m)));
    cr_expect_not_null(rp_model_tokenizer(saved));
    cr_expect_not_null(rp_gguf_find_tensor(rp_model_file(saved), "train.m.token_embd.weight"));

    /* conversion leaves the optimiser out */
    OK(rp_requantize(path, train_path("converted", copy, sizeof copy), "F16", NULL, NULL));
    OK(rp_model_open(copy, NULL, &plain));
    cr_expect_eq(rp_gguf_n_tensors(rp_model_file(plain)), rp_gguf_n_tensors(rp_model_file(m)));
    cr_expect_null(rp_gguf_find(rp_model_file(plain), "train.step"));
    rp_model_free(plain);
    remove(path), remove(copy);
    train_close(NULL, saved);
    train_close(t, m);
}

/* Earlier versions wrote to "<path>.f32-<process>" first: a file of that name made the export fail. */
Test(train_files, an_export_needs_no_name_of_its_own) {
    char       path[96], f32[128];
    RpModel   *m, *exported;
    RpTrainer *t = train_open("llama-f32", &options, &m);
    train_path("named", path, sizeof path);
    snprintf(f32, sizeof f32, "%s.f32-%ld", path, (long)getpid());
    FILE *f = fopen(f32, "w");
    cr_assert_not_null(f);
    fclose(f);
    OK(rp_trainer_export(t, path, "Q8_0"));
    OK(rp_model_open(path, NULL, &exported));
    cr_expect_eq(access(f32, F_OK), 0, "the file of another program is there");
    rp_model_free(exported);
    remove(path), remove(f32);
    train_close(t, m);
}

Test(train_files, exports_in_every_type) {
    static const char *const types[] = {NULL, "F32", "f16", "BF16", "Q8_0", "Q4_0"};
    RpModel                 *m;
    RpTrainer               *t = train_open("llama-f32", &options, &m);
    for (int i = 0; i < 6; i++) {
        char     path[96];
        RpModel *exported;
        OK(rp_trainer_export(t, train_path("type", path, sizeof path), types[i]));
        OK(rp_model_open(path, NULL, &exported));
        const RpGgufTensor *q = rp_gguf_find_tensor(rp_model_file(exported), "blk.0.attn_q.weight");
        cr_expect_str_eq(rp_dtype_name(q->view.dtype),
                         ((const char *[]){"f32", "f32", "f16", "bf16", "q8_0", "q4_0"})[i], CASE(i));
        rp_model_free(exported);
        remove(path);
    }
    REFUSED(rp_trainer_export(t, "/tmp/rp-train-none.gguf", "Q9"), RP_E_ARG,
            "'Q9' is not a weight type (there are F32, F16, BF16, ");
    cr_expect_neq(access("/tmp/rp-train-none.gguf", F_OK), 0);
    REFUSED(rp_trainer_save(t, "/nowhere/at/all.gguf"), RP_E_IO, "/nowhere/at/all.gguf");
    REFUSED(rp_trainer_save(t, "/dev/null"), RP_E_ARG, "/dev/null");
    train_close(t, m);
}

/* Nor may the file be the one before a checkpoint, which is replaced too. */
static void expect_not_kept_over(RpTrainer *t, const char *path) {
    char checkpoint[128], kept[132];
    snprintf(checkpoint, sizeof checkpoint, "%s.link", path);
    snprintf(kept, sizeof kept, "%s.1", checkpoint);
    cr_assert_eq(link(path, kept), 0);
    REFUSED(rp_trainer_save(t, checkpoint), RP_E_ARG, kept);
    cr_expect_neq(access(checkpoint, F_OK), 0);
    remove(kept);
}

/* The file may be replaced by a checkpoint if it is one, never by a model. */
static void expect_kept(const char *path, bool is_checkpoint) {
    size_t     n, n_after;
    RpModel   *m;
    RpTrainer *t;
    char      *before = train_read_file(path, &n), *after, text[320];
    OK(rp_model_open(path, NULL, &m));
    OK(rp_trainer_open(m, &options, &t));
    snprintf(text, sizeof text, "%s and %s are the same file: an output must not be an input", path, path);
    REFUSED(rp_trainer_export(t, path, NULL), RP_E_ARG, text);
    REFUSED(rp_trainer_export(t, path, "F16"), RP_E_ARG, path);
    if (!is_checkpoint) REFUSED(rp_trainer_save(t, path), RP_E_ARG, text);
    if (!is_checkpoint) expect_not_kept_over(t, path);
    after = train_read_file(path, &n_after);
    cr_expect(n == n_after && memcmp(before, after, n) == 0, "%s has changed", path);
    for (int i = 0; i < 2 && is_checkpoint; i++) OK(rp_trainer_save(t, path));
    free(before), free(after);
    train_close(t, m);
}

Test(train_files, no_output_replaces_the_file_with_which_it_began) {
    char       model[96], checkpoint[96];
    RpModel   *m;
    RpTrainer *t = train_open("llama-f32", &options, &m);
    OK(rp_trainer_export(t, train_path("began", model, sizeof model), NULL));
    OK(rp_trainer_save(t, train_path("saved", checkpoint, sizeof checkpoint)));
    train_close(t, m);
    expect_kept(model, false);
    expect_kept(checkpoint, true);
    remove(model), remove(checkpoint);
}

/* A name of the optimiser's tensors is changed in the file. */
Test(train_files, refuses_a_damaged_checkpoint) {
    static const char *const name = "train.v.output_norm.weight";
    RpModel                 *m, *damaged;
    RpTrainer               *t = train_open("llama-f32", &options, &m), *none;
    size_t                   n;
    (void)train_steps(t, m, &options, 1);
    char        *bytes = train_checkpoint(t, &n), *at = memmem(bytes, n, name, strlen(name));
    const size_t head = head_of(bytes, n);
    char        *sum  = value_in(bytes, n, "train.checksum.metadata");
    cr_assert_not_null(at);
    at[6] = 'w';
    memset(sum, 0, sizeof(uint64_t)); /* the checksum is right again */
    memcpy(sum, &(uint64_t){xx_hash(bytes, head)}, sizeof(uint64_t));
    OK(rp_model_open_memory(bytes, n, "damaged", &damaged));
    REFUSED(rp_trainer_open(damaged, &options, &none), RP_E_FORMAT,
            "damaged: tensor train.v.output_norm.weight is missing");
    rp_model_free(damaged);
    free(bytes);
    train_close(t, m);
}

/* ---- NaN and infinity ---- */

Test(train_files, refuses_weights_that_are_not_finite) {
    size_t     n;
    RpModel   *m;
    RpTrainer *t;
    char      *bytes = golden_read_tiny("llama-f32", &n);
    OK(rp_model_open_memory(bytes, n, "infinite", &m));
    const RpGgufTensor *w = rp_gguf_find_tensor(rp_model_file(m), "blk.1.ffn_norm.weight");
    memcpy(bytes + ((const char *)w->view.data - bytes) + 4 * 5, &(float){INFINITY}, sizeof(float));
    REFUSED(rp_trainer_open(m, &options, &t), RP_E_ARG, "infinite: tensor blk.1.ffn_norm.weight has inf at element 5");
    rp_model_free(m);
    free(bytes);
}

Test(train_files, refuses_to_write_a_tensor_of_an_unknown_type) {
    char          path[96];
    RpModel      *m;
    RpTrainer    *t    = train_open("llama-f32", &options, &m);
    RpGgufTensor *norm = (RpGgufTensor *)(uintptr_t)rp_gguf_find_tensor(rp_model_file(m), "output_norm.weight");
    train_path("unknown", path, sizeof path);
    norm->known = false;
    REFUSED(rp_trainer_save(t, path), RP_E_UNSUPPORTED, "tensor output_norm.weight is of a type that cannot be copied");
    REFUSED(rp_trainer_export(t, path, NULL), RP_E_UNSUPPORTED, "tensor output_norm.weight is of a type that");
    cr_expect_neq(access(path, F_OK), 0);
    train_close(t, m);
}

/* Logits w * (g * x) stay as they are when w is multiplied by a factor, so that its largest element is `largest`, and
 * g is divided by it. The gradient of g then grows with w: its square, or the gradient itself, is infinite beside a
 * finite loss. */
static void blow_up_gradients(float largest, const char *text) {
    static const char *const names[] = {"output.weight", "output_norm.weight"};
    int32_t                  tokens[9];
    const RpTrainOptions     o = {.batch = 1, .seq = 8, .n_threads = 1};
    RpModel                 *m;
    RpTrainer               *t;
    RpTrainResult            r;
    size_t                   n;
    float                    before = 0.0f;
    char                    *bytes  = golden_read_tiny("llama-f32", &n);
    OK(rp_model_open_memory(bytes, n, "steep", &m));
    for (int k = 0; k < 2; k++) {
        const RpTensorView *v = &rp_gguf_find_tensor(rp_model_file(m), names[k])->view;
        float              *w = v->data;
        for (int64_t i = 0; k == 0 && i < rp_view_elems(v); i++) before = fmaxf(before, fabsf(w[i]));
        for (int64_t i = 0; i < rp_view_elems(v); i++)
            w[i] = k == 0 ? w[i] / before * largest : w[i] * before / largest;
    }
    OK(rp_trainer_open(m, &o, &t));
    train_tokens(1, 0, 1, 8, rp_model_info(m)->n_vocab, tokens);
    for (int i = 2; i < 9; i++) tokens[i] = -1; /* one target, so that the gradient is no mean */
    REFUSED(rp_trainer_step(t, tokens, &r), RP_E_ARG, text);
    cr_expect_eq(rp_trainer_n_steps(t), 0);
    rp_trainer_free(t);
    rp_model_free(m);
    free(bytes);
}

Test(train_files, says_when_only_the_norm_of_the_gradients_is_not_finite) {
    blow_up_gradients(0x1p100f,
                      "training: step 1: the norm of the gradients is infinite; the weights are those before the step");
    blow_up_gradients(3.4e38f, "training: step 1: the norm of the gradients is infinite: the gradient of "
                               "'output_norm.weight' is not finite; the weights are those before the step");
}

/* A learning rate that blows the weights up. The step that is not finite changes nothing, however often it is
 * tried. */
static void blow_up(int accumulate) {
    static int32_t tokens[MAX_TRAIN_TOKENS];
    RpTrainOptions o = {.batch = 2, .seq = 8, .lr = 1e30f, .accumulate = accumulate, .n_threads = 2};
    RpModel       *m;
    RpTrainer     *t = train_open("llama-f32", &o, &m);
    RpTrainResult  r;
    size_t         n, n_after;
    train_tokens(1, 0, 2 * accumulate, 8, rp_model_info(m)->n_vocab, tokens);
    OK(rp_trainer_step(t, tokens, &r));
    char *before = train_checkpoint(t, &n);
    for (int i = 0; i < 2; i++) {
        const RpStatus st =
            rp_trainer_step(t, tokens, &r); /* the loss or, on another device, the norm of the gradients */
        cr_expect_eq(st, RP_E_ARG, CASE(i));
        cr_expect_eq(strncmp(rp_last_error(), "training: step 2: the ", 22), 0, "%s", rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), " is NaN: the gradient of 'token_embd.weight' is not finite; "
                                                   "the weights are those before the step"),
                           "%s", rp_last_error());
        char *after = train_checkpoint(t, &n_after);
        cr_expect(n == n_after && memcmp(before, after, n) == 0, "the weights have changed");
        free(after);
    }
    cr_expect_eq(rp_trainer_n_steps(t), 1);
    cr_expect_eq(r.step, 0);
    free(before);
    train_close(t, m);
}

Test(train_files, a_step_that_is_not_finite_changes_nothing) { blow_up(1); }
Test(train_files, nor_does_one_of_several_micro_batches) { blow_up(3); }

/* The step whose update makes a weight infinite reports it. */
Test(train_files, names_a_weight_that_its_step_makes_infinite) {
    static const RpTrainOptions bad[] = {
        {.batch = 2, .seq = 8,    .lr = 3e38f,           .n_threads = 2},
        { .batch = 2,  .seq = 8, .lr = 1e19f, .weight_decay = 1e20f, .n_threads = 2},
    };
    for (int i = 0; i < 2; i++) {
        static int32_t tokens[MAX_TRAIN_TOKENS];
        RpModel       *m;
        RpTrainer     *t = train_open("llama-f32", &bad[i], &m);
        RpTrainResult  r;
        train_tokens(1, 0, 2, 8, rp_model_info(m)->n_vocab, tokens);
        REFUSED(rp_trainer_step(t, tokens, &r), RP_E_ARG, "training: step 1: the update with the rate ");
        cr_expect_not_null(strstr(rp_last_error(), "makes the weight 'token_embd.weight' not finite"), "%s",
                           rp_last_error());
        cr_expect_eq(r.step, 0, CASE(i));
        cr_expect_eq(rp_trainer_n_steps(t), 0, CASE(i));
        REFUSED(rp_trainer_step(t, tokens, NULL), RP_E_ARG,
                "the weight 'token_embd.weight' is not finite since an earlier step");
        train_close(t, m);
    }
}
