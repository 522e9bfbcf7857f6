/* LoRA adapters: logits against llama.cpp's (tests/golden/lora), gradients against those of the merged weights,
 * which test_train_gradients.c compares with PyTorch's, merging against the formula, resume, refusals. Device:
 * REPRISE_DEVICE (CPU or simulated device). */
#include "tests/support/case.h"
#include "tests/trainer/training.h"

#include "model/gguf/gguf_write.h"
#include "reprise/convert.h"
#include "reprise/quants.h"
#include "reprise/session.h"

#define ADAPTER GOLDEN_DIR "lora/adapter.gguf"

enum { MAX_IDS = 32, VOCAB = 64 };

static const RpTrainOptions small = {
    .batch = 2, .seq = 8, .lr = 1e-2f, .n_threads = 2, .lora_rank = 3, .lora_alpha = 6.0f, .seed = 4};

static const RpTensorView *view_of(const RpGgufFile *f, const char *name, const char *suffix) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    const RpGgufTensor *t = rp_gguf_find_tensor(f, full);
    cr_assert_not_null(t, "%s", full);
    return &t->view;
}

/* Element (i0, i1) of a matrix of any type. */
static double at(const RpTensorView *v, int64_t i0, int64_t i1) {
    static float row[4096];
    cr_assert_leq(v->ne[0], 4096);
    rp_dequantize_row(v->dtype, rp_view_row(v, i1), v->ne[0], row);
    return (double)row[i0];
}

/* ---- at run time ---- */

/* Logits of the last id of each prefix, as a session steps. */
static void logits_of(const RpModel *m, const int32_t *ids, size_t n, float *out) {
    RpSession *s;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = MAX_IDS, .n_threads = 2}, &s));
    for (size_t i = 0; i < n; i++) {
        OK(rp_session_step(s, ids[i]));
        memcpy(out + i * VOCAB, rp_session_logits(s), VOCAB * sizeof *out);
    }
    rp_session_free(s);
}

static double largest_difference(const float *a, const float *b, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

/* Steps one by one, and a prefill of all but nothing: its last logits. */
static void expect_logits(const RpModel *m, const int32_t *ids, size_t n, const float *want) {
    static float got[MAX_IDS * VOCAB];
    RpSession   *s;
    logits_of(m, ids, n, got);
    cr_expect_lt(largest_difference(got, want, n * VOCAB), 0.01, "%g", largest_difference(got, want, n * VOCAB));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = MAX_IDS, .n_threads = 2}, &s));
    OK(rp_session_prefill(s, ids, n, NULL, NULL));
    cr_expect_lt(largest_difference(rp_session_logits(s), want + (n - 1) * VOCAB, VOCAB), 0.01);
    rp_session_free(s);
}

Test(train_lora, logits_are_those_of_llama_cpp) {
    static float want[MAX_IDS * VOCAB];
    int32_t      ids[MAX_IDS];
    char        *line = NULL;
    size_t       size = 0, scales = 0;
    FILE        *f = golden_open("lora/logits.txt");
    const size_t n = golden_ids(golden_line(f, &line, &size) + strlen("ids "), ids, MAX_IDS);
    cr_assert_eq(n, 12);
    while (golden_line(f, &line, &size) != NULL) {
        float    scale;
        int      skip;
        RpModel *m = golden_open_tiny("llama-f32");
        for (size_t i = 0; i < n; i++) {
            if (i > 0) cr_assert_not_null(golden_line(f, &line, &size), CASE(i));
            cr_assert_eq(sscanf(line, "logits %f%n", &scale, &skip), 1, CASE(i));
            cr_assert_eq(golden_floats(line + skip, want + i * VOCAB, VOCAB), VOCAB, CASE(i));
        }
        OK(rp_model_add_adapter(m, ADAPTER, scale));
        expect_logits(m, ids, n, want);
        rp_model_free(m);
        m = golden_open_tiny("llama-f32"); /* two halves add up */
        OK(rp_model_add_adapter(m, ADAPTER, 0.75f * scale));
        OK(rp_model_add_adapter(m, ADAPTER, 0.25f * scale));
        expect_logits(m, ids, n, want);
        rp_model_free(m);
        scales++;
    }
    cr_expect_eq(scales, 2);
    free(line);
    fclose(f);
}

/* ---- merging ---- */

static void merged_path(char *path, size_t size) { train_path("merged", path, size); }

/* llama-f32 with the adapter at `scale`, merged in f32. */
static RpModel *merged(float scale) {
    char     path[96];
    RpModel *m = golden_open_tiny("llama-f32"), *out;
    merged_path(path, sizeof path);
    OK(rp_model_add_adapter(m, ADAPTER, scale));
    OK(rp_merge_adapters(m, path, NULL, NULL, NULL));
    rp_model_free(m);
    OK(rp_model_open(path, NULL, &out));
    remove(path); /* it stays mapped */
    return out;
}

Test(train_lora, merged_weights_follow_the_formula) {
    RpModel    *base = golden_open_tiny("llama-f32"), *m = merged(0.5f);
    RpGgufFile *f;
    int         adapted = 0;
    OK(rp_gguf_open(ADAPTER, &f));
    for (int64_t i = 0; i < rp_gguf_n_tensors(rp_model_file(base)); i++) {
        const RpGgufTensor *w = rp_gguf_tensor(rp_model_file(base), i);
        char                name[128], full[160];
        snprintf(name, sizeof name, "%.*s", (int)w->name.len, w->name.ptr);
        snprintf(full, sizeof full, "%s.lora_a", name);
        const RpTensorView *y = view_of(rp_model_file(m), name, "");
        if (rp_gguf_find_tensor(f, full) == NULL) {
            cr_expect(memcmp(y->data, w->view.data, w->bytes) == 0, "%s", name);
            continue;
        }
        const RpTensorView *a = view_of(f, name, ".lora_a"), *b = view_of(f, name, ".lora_b");
        for (int64_t r = 0; r < w->view.ne[1]; r++)
            for (int64_t k = 0; k < w->view.ne[0]; k++) {
                double want = at(&w->view, k, r);
                for (int64_t j = 0; j < 3; j++) want += 0.5 * 6.0 / 3.0 * at(b, j, r) * at(a, k, j);
                cr_expect_float_eq(at(y, k, r), want, 1e-6, "%s [%d,%d]", name, (int)k, (int)r);
            }
        adapted++;
    }
    cr_expect_eq(adapted, 7);
    rp_gguf_close(f);
    rp_model_free(base);
    rp_model_free(m);
}

/* A copy of the base with the number by which products with blk.0.attn_q.weight are multiplied. */
static void write_scaled(const RpGgufFile *f, const char *path) {
    static const char name[] = "blk.0.attn_q.scale";
    const float       scale  = 2.0f;
    GgufWriter       *w;
    OK(rp_gguf_writer_open(path, &w));
    rp_gguf_put_values(w, f, true);
    rp_gguf_put_tensor(w, name, sizeof name - 1, RP_F32, (int64_t[RP_MAX_DIMS]){1, 1, 1, 1});
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        rp_gguf_put_tensor(w, t->name.ptr, t->name.len, t->view.dtype, t->view.ne);
    }
    OK(rp_gguf_writer_begin(w));
    OK(rp_gguf_writer_data(w, &scale, sizeof scale));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++)
        OK(rp_gguf_writer_data(w, rp_gguf_tensor(f, i)->view.data, rp_gguf_tensor(f, i)->bytes));
    OK(rp_gguf_writer_close(w, RP_OK));
}

Test(train_lora, a_merge_into_a_scaled_weight_is_refused) {
    char     path[96], merged[104];
    RpModel *base = golden_open_tiny("llama-f32"), *m;
    merged_path(path, sizeof path);
    snprintf(merged, sizeof merged, "%s.out", path);
    write_scaled(rp_model_file(base), path);
    OK(rp_model_open(path, NULL, &m));
    OK(rp_model_add_adapter(m, ADAPTER, 1.0f));
    REFUSED(rp_merge_adapters(m, merged, NULL, NULL, NULL), RP_E_UNSUPPORTED,
            "tensor blk.0.attn_q.weight has a scale: adapters cannot be merged into it");
    rp_model_free(m), rp_model_free(base);
    remove(path);
}

Test(train_lora, a_merge_into_quantised_weights_is_refused_or_rounded) {
    char     path[96];
    RpModel *m = golden_open_tiny("llama-f32"), *q;
    merged_path(path, sizeof path);
    REFUSED(rp_merge_adapters(m, path, NULL, NULL, NULL), RP_E_ARG, "has no adapter");
    OK(rp_model_add_adapter(m, ADAPTER, 1.0f));
    REFUSED(rp_merge_adapters(m, path, "Q9_Z", NULL, NULL), RP_E_ARG, "there is no type of weights 'Q9_Z'");
    REFUSED(rp_merge_adapters(m, path, "Q4_K", NULL, NULL), RP_E_ARG, "blk.0.attn_q.weight: rows of 64");
    RpGgufTensor *norm = (RpGgufTensor *)(uintptr_t)rp_gguf_find_tensor(rp_model_file(m), "output_norm.weight");
    norm->known        = false;
    REFUSED(rp_merge_adapters(m, path, NULL, NULL, NULL), RP_E_UNSUPPORTED,
            "tensor output_norm.weight is of a type that cannot be copied");
    norm->known = true;
    OK(rp_merge_adapters(m, path, "q8_0", NULL, NULL));
    OK(rp_model_open(path, NULL, &q));
    remove(path);
    cr_expect_eq(view_of(rp_model_file(q), "blk.1.ffn_down.weight", "")->dtype, RP_Q8_0);
    cr_expect_eq(view_of(rp_model_file(q), "blk.1.ffn_up.weight", "")->dtype, RP_F32);
    rp_model_free(q);
    rp_model_free(m);
}

/* ---- training ---- */

/* Without clipping and with beta1 = 1/2 it has m = gradient / 2. */
static RpGgufFile *first_step(const RpModel *m, RpTrainOptions o) {
    int32_t tokens[MAX_TRAIN_TOKENS];
    o.beta1    = 0.5f;
    o.max_norm = INFINITY;
    train_tokens(1, 0, o.batch, o.seq, rp_model_info(m)->n_vocab, tokens);
    return train_first_step(m, &o, tokens, NULL);
}

/* An adapter of all matrices with a and b other than zero: after five steps. */
static void write_trained(const RpModel *m, char *path, size_t size) {
    RpTrainer *t;
    OK(rp_trainer_open(m, &small, &t));
    train_steps(t, m, &small, 5);
    OK(rp_trainer_export(t, train_path("adapter", path, size), NULL));
    rp_trainer_free(t);
}

/* With w' = w + s b a: da = s b^T dw', db = s dw' a^T. */
static void compare_gradients(const RpGgufFile *whole, const RpGgufFile *lora, const char *name) {
    const double s = (double)small.lora_alpha / small.lora_rank;
    char         moment[160];
    snprintf(moment, sizeof moment, "train.m.%s", name);
    const RpTensorView *dw = view_of(whole, moment, ""), *da = view_of(lora, moment, ".lora_a"),
                       *db = view_of(lora, moment, ".lora_b");
    char        path[96];
    RpGgufFile *f;
    OK(rp_gguf_open(train_path("adapter", path, sizeof path), &f));
    const RpTensorView *a = view_of(f, name, ".lora_a"), *b = view_of(f, name, ".lora_b");
    double              worst = 0.0, largest = 0.0;
    for (int64_t j = 0; j < small.lora_rank; j++) {
        for (int64_t k = 0; k < dw->ne[0]; k++) {
            double want = 0.0;
            for (int64_t i = 0; i < dw->ne[1]; i++) want += s * at(b, j, i) * at(dw, k, i);
            worst   = fmax(worst, fabs(at(da, k, j) - want));
            largest = fmax(largest, fabs(want));
        }
        for (int64_t i = 0; i < dw->ne[1]; i++) {
            double want = 0.0;
            for (int64_t k = 0; k < dw->ne[0]; k++) want += s * at(dw, k, i) * at(a, k, j);
            worst   = fmax(worst, fabs(at(db, j, i) - want));
            largest = fmax(largest, fabs(want));
        }
    }
    cr_expect_gt(largest, 0.0, "%s", name);
    cr_expect_lt(worst, 1e-5 * largest, "%s: off by %g of the largest", name, worst / largest);
    rp_gguf_close(f);
}

Test(train_lora, gradients_are_those_of_the_merged_weights) {
    char           path[96], merged_file[96];
    RpModel       *m = golden_open_tiny("llama-f32"), *other = golden_open_tiny("llama-f32"), *whole;
    RpTrainOptions o = small;
    write_trained(m, path, sizeof path);
    OK(rp_model_add_adapter(other, path, 1.0f));
    merged_path(merged_file, sizeof merged_file);
    OK(rp_merge_adapters(other, merged_file, NULL, NULL, NULL));
    OK(rp_model_open(merged_file, NULL, &whole));
    remove(merged_file);
    o.adapter         = path;
    RpGgufFile *lora  = first_step(m, o);
    o.adapter         = NULL;
    o.lora_rank       = 0;
    RpGgufFile *plain = first_step(whole, o);
    compare_gradients(plain, lora, "blk.0.attn_q.weight");
    compare_gradients(plain, lora, "blk.0.attn_v.weight");
    compare_gradients(plain, lora, "blk.1.attn_output.weight");
    compare_gradients(plain, lora, "blk.1.ffn_gate.weight");
    compare_gradients(plain, lora, "blk.1.ffn_down.weight");
    remove(path);
    rp_gguf_close(lora), rp_gguf_close(plain);
    rp_model_free(m), rp_model_free(other), rp_model_free(whole);
}

/* Quantised weights stay as they are, and the loss falls. The first step begins with the model itself. */
Test(train_lora, quantised_models_learn) {
    static const char *const names[] = {"llama-q4_0", "llama-mix-k", "qwen3moe-mix"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        int32_t       tokens[MAX_TRAIN_TOKENS];
        RpModel      *m;
        double        before, after;
        RpTrainMemory memory;
        RpTrainer    *t = train_open(names[k], &small, &m);
        OK(rp_trainer_memory(m, &small, &memory));
        cr_expect_lt(memory.weights, 4 * (size_t)rp_model_info(m)->n_params, CASE(k));
        train_tokens(1, 0, small.batch, small.seq, rp_model_info(m)->n_vocab, tokens);
        OK(rp_trainer_evaluate(t, tokens, (size_t)small.batch, &before));
        const bool on_cpu = strcmp(rp_trainer_info(t).device, "cpu") == 0;
        train_steps(t, m, &small, on_cpu ? 30 : 8);
        OK(rp_trainer_evaluate(t, tokens, (size_t)small.batch, &after));
        cr_expect_lt(after, before - (on_cpu ? 0.3 : 0.1), "%s: %g, then %g", names[k], before, after);
        train_close(t, m);
    }
}

Test(train_lora, a_resume_has_the_same_bits) {
    char           path[96];
    RpModel       *m = golden_open_tiny("llama-q4_0"), *fresh = golden_open_tiny("llama-q4_0");
    RpTrainer     *t, *again;
    RpTrainOptions o = small;
    double         loss, at_run_time;
    int32_t        tokens[MAX_TRAIN_TOKENS];
    OK(rp_trainer_open(m, &small, &t));
    train_steps(t, m, &small, 3);
    OK(rp_trainer_save(t, train_path("resume", path, sizeof path)));
    o.adapter = path;
    OK(rp_trainer_open(m, &o, &again));
    cr_expect_eq(rp_trainer_n_steps(again), 3);
    train_steps(t, m, &small, 6);
    train_steps(again, m, &small, 6);
    train_expect_equal(t, again, "resumed");
    rp_trainer_free(again);
    o.lora_alpha = 3.0f;
    REFUSED(rp_trainer_open(m, &o, &again), RP_E_ARG, "lora_alpha = 3");
    o.lora_alpha = 6.0f, o.lora_rank = 2;
    o.change_options = true;
    REFUSED(rp_trainer_open(m, &o, &again), RP_E_FORMAT,
            "tensor blk.0.attn_q.weight.lora_a is F32 [64,3,1]: must be numbers [64,2,1]");
    REFUSED(rp_trainer_export(t, path, "F16"), RP_E_ARG, "resume.gguf: type F16: adapters are written in F32");
    /* a checkpoint is an adapter too: what it adds is what the trainer evaluates */
    OK(rp_trainer_save(t, path));
    OK(rp_model_add_adapter(fresh, path, 1.0f));
    train_tokens(1, 0, small.batch, small.seq, rp_model_info(m)->n_vocab, tokens);
    OK(rp_trainer_evaluate(t, tokens, (size_t)small.batch, &loss));
    at_run_time = train_loss_of_logits(fresh, tokens, small.batch, small.seq);
    cr_expect_float_eq(loss, at_run_time, 0.02 * loss, "%g, at run time %g", loss, at_run_time);
    remove(path);
    rp_trainer_free(t);
    rp_model_free(m), rp_model_free(fresh);
}

/* ---- refusals ---- */

/* Neither a merge nor a training writes over the model or the adapter; a checkpoint may replace the one that is
 * resumed. */
Test(train_lora, no_output_is_an_input) {
    static const char *const words = "an output must not be an input";
    char                     base[96], adapter[96], saved[96];
    RpModel                 *m = golden_open_tiny("llama-f32"), *with;
    RpTrainer               *t, *again;
    RpTrainOptions           o = small;
    train_path("base", base, sizeof base), train_path("saved", saved, sizeof saved);
    OK(rp_trainer_open(m, &small, &t));
    OK(rp_trainer_export(t, train_path("adapter", adapter, sizeof adapter), NULL));
    OK(rp_trainer_save(t, saved));
    rp_trainer_free(t);
    OK(rp_model_add_adapter(m, ADAPTER, 1.0f));
    OK(rp_merge_adapters(m, base, NULL, NULL, NULL));
    rp_model_free(m);

    OK(rp_model_open(base, NULL, &with));
    o.adapter = adapter;
    OK(rp_trainer_open(with, &o, &again));
    REFUSED(rp_trainer_save(again, adapter), RP_E_ARG, adapter);
    REFUSED(rp_trainer_export(again, adapter, NULL), RP_E_ARG, words);
    REFUSED(rp_trainer_save(again, base), RP_E_ARG, base);
    REFUSED(rp_trainer_export(again, base, NULL), RP_E_ARG, words);
    rp_trainer_free(again);
    o.adapter = saved;
    OK(rp_trainer_open(with, &o, &again));
    REFUSED(rp_trainer_export(again, saved, NULL), RP_E_ARG, words);
    OK(rp_trainer_save(again, saved));
    OK(rp_trainer_save(again, saved));
    rp_trainer_free(again);

    OK(rp_model_add_adapter(with, adapter, 1.0f));
    REFUSED(rp_merge_adapters(with, base, NULL, NULL, NULL), RP_E_ARG, base);
    REFUSED(rp_merge_adapters(with, adapter, NULL, NULL, NULL), RP_E_ARG, adapter);
    rp_model_free(with);
    remove(base), remove(adapter), remove(saved);
}

Test(train_lora, other_files_are_refused_and_change_nothing) {
    RpModel     *m     = golden_open_tiny("llama-f32");
    RpModel     *moe   = golden_open_tiny("qwen3moe-f32");
    RpModel     *dense = golden_open_tiny("llama-f32");
    const size_t bytes = rp_model_info(m)->weight_bytes;
    RpTrainer   *t;
    REFUSED(rp_model_add_adapter(m, GOLDEN_DIR "tiny/llama-f32.gguf", 1.0f), RP_E_FORMAT, "general.type is ''");
    REFUSED(rp_model_add_adapter(moe, ADAPTER, 1.0f), RP_E_FORMAT, "'llama': must be 'qwen3moe'");
    REFUSED(rp_model_add_adapter(m, ADAPTER, NAN), RP_E_ARG, "a scale of nan");
    REFUSED(rp_model_add_adapter(m, GOLDEN_DIR "lora/missing.gguf", 1.0f), RP_E_IO, "missing.gguf");
    cr_expect_eq(rp_model_info(m)->weight_bytes, bytes);
    OK(rp_model_add_adapter(m, ADAPTER, 1.0f));
    cr_expect_gt(rp_model_info(m)->weight_bytes, bytes);
    REFUSED(rp_trainer_open(m, &small, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR "tiny/llama-f32.gguf has an adapter: merge it before (rp_merge_adapters)");
    RpTrainOptions o = small;
    o.lora_rank      = -1;
    REFUSED(rp_trainer_open(moe, &o, &t), RP_E_ARG, "lora_rank = -1");
    o.lora_rank = 0, o.adapter = ADAPTER;
    REFUSED(rp_trainer_open(moe, &o, &t), RP_E_ARG, "training: adapter = " ADAPTER ", but lora_rank = 0");
    o.lora_rank = 3;
    REFUSED(rp_trainer_open(moe, &o, &t), RP_E_FORMAT, "must be 'qwen3moe'");
    REFUSED(rp_trainer_open(dense, &o, &t), RP_E_FORMAT, "tensor blk.0.attn_k.weight.lora_a is missing");
    rp_model_free(m), rp_model_free(moe), rp_model_free(dense);
}
