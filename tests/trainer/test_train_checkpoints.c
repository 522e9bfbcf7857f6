/* The contents of a checkpoint, and its model: files of every version, checksums, damaged bits, moments that no
 * training makes, the checkpoint before, the lock. Files: tests/golden/checkpoints
 * (tools/training_files.py). Device: REPRISE_DEVICE (CPU or simulated device). */
#include "tests/support/case.h"
#include "tests/trainer/checkpoint_case.h"

#include "model/gguf/gguf_checksum.h"
#include "reprise/convert.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- versions ---- */

/* Both versions wrote the file after the same three steps. */
Test(train_checkpoints, files_of_every_version_resume_with_the_same_states) {
    static const char *const full[] = {FILES "v0-full.gguf", FILES "v1-full.gguf"}, *const adapters[] = {
                                                                                        FILES "v0-lora.gguf",
                                                                                        FILES "v1-lora.gguf"};
    RpModel   *m[2], *base = open_base();
    RpTrainer *t[2], *a[2];
    for (int i = 0; i < 2; i++) {
        const RpTrainOptions o = lora(adapters[i]);
        OK(rp_model_open(full[i], NULL, &m[i]));
        OK(rp_trainer_open(m[i], &whole, &t[i]));
        OK(rp_trainer_open(base, &o, &a[i]));
        cr_expect(rp_trainer_n_steps(t[i]) == 3 && rp_trainer_n_steps(a[i]) == 3, CASE(i));
    }
    train_expect_equal(t[0], t[1], "checkpoint");
    train_expect_equal(a[0], a[1], "checkpoint of an adapter");
    for (int i = 0; i < 2; i++) close_both(t[i], m[i]), rp_trainer_free(a[i]);
    rp_model_free(base);
}

/* Also on another quantisation of the base. */
Test(train_checkpoints, adapters_of_every_version_are_applied) {
    static const char *const paths[] = {FILES "v0-adapter.gguf", FILES "v1-adapter.gguf", FILES "v0-lora.gguf",
                                        FILES "v1-lora.gguf"};
    char                     path[96];
    int32_t                  tokens[18];
    double                   loss[5];
    RpModel                 *m = open_base();
    train_tokens(1, 0, 2, 8, 32, tokens);
    loss[4] = train_loss_of_logits(m, tokens, 2, 8);
    rp_model_free(m);
    OK(rp_requantize(FILES "base.gguf", train_path("quantised", path, sizeof path), "Q8_0", NULL, NULL));
    for (int i = 0; i < 4; i++) {
        m = open_base();
        OK(rp_model_add_adapter(m, paths[i], 1.0f));
        loss[i] = train_loss_of_logits(m, tokens, 2, 8);
        cr_expect(loss[i] == loss[0] && loss[i] != loss[4], "%s: %.9g, %.9g", paths[i], loss[i], loss[0]);
        rp_model_free(m);
        OK(rp_model_open(path, NULL, &m));
        OK(rp_model_add_adapter(m, paths[i], 1.0f));
        rp_model_free(m);
    }
    remove(path);
}

Test(train_checkpoints, a_later_format_is_refused) {
    size_t      n;
    RpGgufFile *f;
    char       *bytes                   = read_whole(FILES "v1-adapter.gguf", &n);
    *value_in(bytes, n, "train.format") = 2;
    REFUSED(rp_gguf_open_memory(bytes, n, "later", &f), RP_E_UNSUPPORTED,
            "later: train.format is 2: this version reads files up to 1");
    free(bytes);
}

/* ---- checksums ---- */

static void expect_checksums(const char *path) {
    size_t      n;
    RpGgufFile *f;
    uint64_t    sum;
    char       *bytes = read_whole(path, &n);
    OK(rp_gguf_open_memory(bytes, n, path, &f));
    const RpGgufValue *sums = rp_gguf_find(f, "train.checksum.tensors"),
                      *head = rp_gguf_find(f, "train.checksum.metadata");
    cr_assert(sums != NULL && head != NULL, "%s", path);
    cr_expect_eq(sums->n, (uint64_t)rp_gguf_n_tensors(f));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        memcpy(&sum, (const char *)sums->data + 8 * i, 8);
        cr_expect_eq(sum, xx_hash(t->view.data, t->bytes), "%s: tensor %d", path, (int)i);
    }
    const size_t begin = head_of(bytes, n);
    memcpy(&sum, head->data, 8);
    memset(bytes + ((const char *)head->data - bytes), 0, 8);
    cr_expect_eq(sum, xx_hash(bytes, begin), "%s: metadata", path);
    rp_gguf_close(f);
    free(bytes);
}

Test(train_checkpoints, have_the_checksums_that_the_documentation_says) {
    cr_assert_eq(xx_hash("", 0), 0xef46db3751d8e999u); /* of the specification */
    cr_assert_eq(xx_hash("abc", 3), 0x44bc2cf5ad770999u);
    expect_checksums(FILES "v1-full.gguf");
    expect_checksums(FILES "v1-lora.gguf");
    expect_checksums(FILES "v1-adapter.gguf");
    char       path[96];
    RpModel   *m;
    RpTrainer *t = train_open("qwen3moe-mix", &whole, &m); /* rows of other types, more tensors */
    OK(rp_trainer_save(t, train_path("sums", path, sizeof path)));
    expect_checksums(path);
    remove(path);
    close_both(t, m);
}

/* One bit of each byte. Nothing of the file is outside of the checksums. */
Test(train_checkpoints, a_damaged_bit_anywhere_in_an_adapter_is_refused) {
    char     path[96];
    size_t   n;
    RpModel *m     = open_base();
    char    *bytes = read_whole(FILES "v1-adapter.gguf", &n);
    train_path("flipped", path, sizeof path);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)(bytes[i] ^ 1 << (i * 5 + i / 8) % 8);
        write_whole(path, bytes, n);
        cr_expect_neq(rp_model_add_adapter(m, path, 1.0f), RP_OK, "byte %zu", i);
        bytes[i] = (char)(bytes[i] ^ 1 << (i * 5 + i / 8) % 8);
    }
    write_whole(path, bytes, n);
    OK(rp_model_add_adapter(m, path, 1.0f));
    remove(path);
    free(bytes);
    rp_model_free(m);
}

/* Opens the model and the trainer; RP_OK if both open. */
static RpStatus try_resume(const char *bytes, size_t n) {
    RpModel   *m;
    RpTrainer *t;
    RP_TRY(rp_model_open_memory(bytes, n, "flipped", &m));
    const RpStatus st = rp_trainer_open(m, &whole, &t);
    if (st == RP_OK) rp_trainer_free(t);
    rp_model_free(m);
    return st;
}

Test(train_checkpoints, a_damaged_bit_of_a_checkpoint_is_refused_by_the_name_of_its_tensor) {
    size_t      n;
    RpGgufFile *f;
    uint64_t    sum;
    char       *bytes = read_whole(FILES "v1-full.gguf", &n), text[192];
    OK(try_resume(bytes, n));
    OK(rp_gguf_open_memory(bytes, n, "whole", &f));
    const size_t head = head_of(bytes, n);
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t  = rp_gguf_tensor(f, i);
        const size_t        at = (size_t)((const char *)t->view.data - bytes);
        for (int k = 0; k < 3; k++) {
            const size_t byte = at + (k == 0 ? 0 : k == 1 ? t->bytes / 2 + 1 : t->bytes - 1);
            bytes[byte]       = (char)(bytes[byte] ^ 1 << (i + k) % 8);
            memcpy(&sum, (const char *)rp_gguf_find(f, "train.checksum.tensors")->data + 8 * i, 8);
            snprintf(text, sizeof text, "flipped: tensor %.*s is damaged: its checksum is %016llx, not %016llx",
                     (int)t->name.len, t->name.ptr, (unsigned long long)xx_hash(t->view.data, t->bytes),
                     (unsigned long long)sum);
            REFUSED(try_resume(bytes, n), RP_E_FORMAT, text);
            bytes[byte] = (char)(bytes[byte] ^ 1 << (i + k) % 8);
        }
    }
    rp_gguf_close(f);
    for (size_t i = 0; i < head; i++) {
        bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
        cr_expect_neq(try_resume(bytes, n), RP_OK, "byte %zu", i);
        bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
    }
    OK(try_resume(bytes, n));
    free(bytes);
}

/* A checkpoint is checked also if only its weights are used. */
Test(train_checkpoints, a_damaged_weight_is_neither_run_nor_converted) {
    char     path[96], out[96];
    size_t   n;
    RpModel *m;
    char    *bytes = read_whole(FILES "v1-full.gguf", &n);
    data_in(bytes, n, "blk.0.ffn_up.weight")[77] ^= 4;
    write_whole(train_path("damaged", path, sizeof path), bytes, n);
    REFUSED(rp_model_open(path, NULL, &m), RP_E_FORMAT, "tensor blk.0.ffn_up.weight is damaged");
    REFUSED(rp_model_open(path, &(RpModelOptions){.copy = true}, &m), RP_E_FORMAT, "blk.0.ffn_up.weight is damaged");
    REFUSED(rp_requantize(path, train_path("none", out, sizeof out), "F16", NULL, NULL), RP_E_FORMAT,
            "blk.0.ffn_up.weight is damaged");
    cr_expect_neq(access(out, F_OK), 0);
    remove(path);
    free(bytes);
}

/* A damaged bit of one of the keys of checksums: the others tell. */
Test(train_checkpoints, names_the_key_of_checksums_that_is_damaged) {
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"train.format",            "flipped: train.format is missing or of another type: the file is damaged" },
        {"train.checksum.metadata",
         "flipped: train.checksum.metadata is missing or of another type: the file is damaged"                 },
        {"train.checksum.tensors",  "flipped: the metadata are damaged: their checksum is %016llx, not %016llx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t   n;
        uint64_t want, none        = 0, got;
        char     text[160], *bytes = read_whole(FILES "v1-full.gguf", &n),
                        *sum = value_in(bytes, n, "train.checksum.metadata");
        char        *key     = memmem(bytes, n, rows[i].key, strlen(rows[i].key));
        const size_t head    = head_of(bytes, n);
        memcpy(&want, sum, 8);
        key[strlen(rows[i].key) - 1] ^= 1;
        memcpy(sum, &none, 8);
        got = xx_hash(bytes, head);
        memcpy(sum, &want, 8);
        snprintf(text, sizeof text, rows[i].text, (unsigned long long)got, (unsigned long long)want);
        REFUSED(try_resume(bytes, n), RP_E_FORMAT, text);
        free(bytes);
    }
}

Test(train_checkpoints, a_tensor_of_an_unknown_type_cannot_be_checked) {
    RpGgufFile *f;
    OK(rp_gguf_open(FILES "v1-full.gguf", &f));
    ((RpGgufTensor *)(uintptr_t)rp_gguf_tensor(f, 0))->known = false;
    REFUSED(rp_gguf_check_tensor(f, 0), RP_E_UNSUPPORTED,
            "tensor token_embd.weight is of a type that cannot be checked");
    rp_gguf_close(f);
}

/* ---- moments ---- */

/* Files without checksums, as a stranger may write them. */
Test(train_checkpoints, moments_that_no_training_makes_are_refused) {
    static const struct {
        const char *tensor;
        float       value;
        const char *text;
    } rows[] = {
        {"train.v.blk.0.attn_q.weight", -0.5f,
         "tensor train.v.blk.0.attn_q.weight has -0.5 at element 7: a mean of squares is"                          },
        {"train.v.output_norm.weight",  -1e-30f,   "tensor train.v.output_norm.weight has -1e-30 at element 7"     },
        {"train.v.token_embd.weight",   NAN,       "tensor train.v.token_embd.weight has nan at element 7"         },
        {"train.v.token_embd.weight",   INFINITY,  "tensor train.v.token_embd.weight has inf at element 7"         },
        {"train.m.blk.0.ffn_up.weight", NAN,       "tensor train.m.blk.0.ffn_up.weight has nan at element 7"       },
        {"train.m.blk.0.ffn_up.weight", -INFINITY, "tensor train.m.blk.0.ffn_up.weight has -inf at element 7"      },
        {"train.m.blk.0.ffn_up.weight", 3e38f,     "at element 7 tensor train.m.blk.0.ffn_up.weight has 3e+38, but"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n;
        char  *bytes = read_whole(FILES "v0-full.gguf", &n), text[160];
        memcpy(data_in(bytes, n, rows[i].tensor) + 4 * 7, &rows[i].value, 4);
        snprintf(text, sizeof text, "flipped: %s", rows[i].text);
        REFUSED(try_resume(bytes, n), RP_E_FORMAT, text);
        free(bytes);
    }
}

/* The largest mean that passes beside no mean of squares: the update is huge, and finite. */
Test(train_checkpoints, the_largest_moments_that_pass_give_finite_weights) {
    size_t      n;
    RpModel    *m;
    RpTrainer  *t;
    char       *bytes = read_whole(FILES "v0-full.gguf", &n), path[96];
    const float mean = 9e23f, none = 0.0f; /* rate / (1 - beta1) * 9e23 / eps = 9e29 > 1e29 is refused */
    memcpy(data_in(bytes, n, "train.m.token_embd.weight"), &mean, 4);
    memcpy(data_in(bytes, n, "train.v.token_embd.weight"), &none, 4);
    REFUSED(try_resume(bytes, n), RP_E_FORMAT,
            "flipped: at element 0 tensor train.m.token_embd.weight has 9e+23, but train.v.token_embd.weight has 0: an "
            "update by them could be infinite");
    memcpy(data_in(bytes, n, "train.m.token_embd.weight"), &(float){9e22f}, 4);
    OK(rp_model_open_memory(bytes, n, "largest", &m));
    OK(rp_trainer_open(m, &whole, &t));
    (void)train_steps(t, m, &whole, 4);
    OK(rp_trainer_save(t, train_path("largest", path, sizeof path)));
    remove(path);
    close_both(t, m);
    free(bytes);
}

Test(train_checkpoints, more_steps_than_can_be_counted_are_refused) {
    size_t n;
    char  *bytes = read_whole(FILES "v0-full.gguf", &n);
    memcpy(value_in(bytes, n, "train.step"), &(uint32_t){0x80000000u}, 4);
    REFUSED(try_resume(bytes, n), RP_E_FORMAT, "train.step is 2147483648: a training has at most 2147483647 steps");
    memcpy(value_in(bytes, n, "train.step"), &(uint32_t){0x7fffffffu}, 4);
    RpModel   *m;
    RpTrainer *t;
    int32_t    tokens[18] = {0};
    OK(rp_model_open_memory(bytes, n, "last", &m));
    OK(rp_trainer_open(m, &whole, &t));
    REFUSED(rp_trainer_step(t, tokens, NULL), RP_E_ARG, "training: 2147483647 steps are made");
    close_both(t, m);
    free(bytes);
}

Test(train_checkpoints, moments_of_another_type_are_refused) {
    static const char name[] = "train.m.output_norm.weight";
    size_t            n;
    char             *bytes = read_whole(FILES "v0-full.gguf", &n), *at = memmem(bytes, n, name, sizeof name - 1);
    cr_assert_not_null(at);
    at[sizeof name - 1 + 4 + 8] = 1; /* behind one dimension: F16 */
    REFUSED(try_resume(bytes, n), RP_E_FORMAT, "flipped: tensor train.m.output_norm.weight is not f32");
    free(bytes);
}

/* ---- the checkpoint before ---- */

/* A trainer whose update makes weights infinite. */
Test(train_checkpoints, weights_that_could_not_be_read_are_not_written) {
    RpTrainOptions o = {.batch = 2, .seq = 8, .lr = 3e38f, .n_threads = 2};
    int32_t        tokens[18];
    char           path[96], kept[100];
    size_t         n, n_after;
    RpModel       *m = open_base();
    RpTrainer     *t;
    train_tokens(1, 0, 2, 8, 32, tokens);
    OK(rp_trainer_open(m, &o, &t));
    OK(rp_trainer_save(t, train_path("kept", path, sizeof path)));
    char *before = read_whole(path, &n);
    REFUSED(
        rp_trainer_step(t, tokens, NULL), RP_E_ARG,
        "training: step 1: the update with the rate 3e+38 makes the weight 'token_embd.weight' not finite; the weights "
        "are lost: resume from a checkpoint");
    REFUSED(rp_trainer_step(t, tokens, NULL), RP_E_ARG,
            "training: step 1: the loss is NaN: the weight 'token_embd.weight' is not finite since an earlier step: "
            "resume from a checkpoint");
    REFUSED(rp_trainer_save(t, path), RP_E_STATE, "kept.gguf: the file is not written: tensor token_embd.weight has ");
    REFUSED(rp_trainer_export(t, path, NULL), RP_E_STATE, "kept.gguf: the file is not written: tensor ");
    REFUSED(rp_trainer_export(t, path, "F16"), RP_E_STATE, "kept.gguf: the file is not written: tensor ");
    char *after = read_whole(path, &n_after);
    cr_expect(n == n_after && memcmp(before, after, n) == 0, "the old file is another one");
    snprintf(kept, sizeof kept, "%s.1", path);
    cr_expect_neq(access(kept, F_OK), 0);
    remove(path);
    free(before), free(after);
    close_both(t, m);
}

static void expect_file(const char *path, const char *bytes, size_t n, const char *what) {
    size_t got;
    char  *x = read_whole(path, &got);
    cr_expect(got == n && memcmp(x, bytes, n) == 0, "%s: %s", path, what);
    free(x);
}

Test(train_checkpoints, the_checkpoint_before_stays_and_a_damaged_one_does_not_replace_it) {
    char       path[96], kept[100];
    size_t     n;
    RpModel   *m;
    RpTrainer *t = train_open("llama-f32", &whole, &m);
    snprintf(kept, sizeof kept, "%s.1", train_path("before", path, sizeof path));
    OK(rp_trainer_save(t, path));
    cr_expect_neq(access(kept, F_OK), 0);
    char *first = read_whole(path, &n);
    (void)train_steps(t, m, &whole, 1);
    OK(rp_trainer_save(t, path));
    expect_file(kept, first, n, "the first checkpoint is kept");
    free(first);
    char *second = read_whole(path, &n), saved = second[n - 100];
    second[n - 100] ^= 1;
    write_whole(path, second, n);
    OK(rp_trainer_save(t, path)); /* of the same step */
    second[n - 100] = saved;
    expect_file(path, second, n, "it is whole again");
    cr_expect_eq(rp_trainer_n_steps(t), 1);
    RpGgufFile *f;
    uint32_t    step = 9;
    OK(rp_gguf_open(kept, &f));
    OK(rp_gguf_get_u32(f, "train.step", &step));
    cr_expect_eq(step, 0);
    rp_gguf_close(f);
    write_whole(path, "a text", 6); /* no checkpoint: it is replaced as any file is */
    OK(rp_trainer_save(t, path));
    expect_file(path, second, n, "whole");
    remove(path), remove(kept);
    free(second);
    close_both(t, m);
}

/* ---- the lock ---- */

Test(train_checkpoints, a_path_has_one_trainer) {
    char           path[96], other[96], link_path[96];
    RpTrainOptions o = whole;
    RpModel       *m = open_base();
    RpTrainer     *t, *second;
    o.checkpoint = train_path("locked", path, sizeof path);
    OK(rp_trainer_open(m, &o, &t));
    cr_expect_neq(access(path, F_OK), 0, "the lock is no file");
    REFUSED(rp_trainer_open(m, &o, &second), RP_E_STATE,
            "locked.gguf: another trainer of this process writes this checkpoint");
    OK(rp_trainer_save(t, path));
    OK(rp_trainer_save(t, path)); /* the lock is on the name: it survives the new file */
    REFUSED(rp_trainer_open(m, &o, &second), RP_E_STATE, "another trainer of this process");
    cr_assert_eq(symlink(path, train_path("link", link_path, sizeof link_path)), 0);
    OK(rp_trainer_open(m, &whole, &second));
    REFUSED(rp_trainer_save(second, path), RP_E_STATE, "another trainer of this process");
    REFUSED(rp_trainer_save(second, link_path), RP_E_STATE, "another trainer of this process");
    OK(rp_trainer_save(second, train_path("unlocked", other, sizeof other)));
    OK(rp_trainer_save(t, other)); /* rp_trainer_save holds its lock no longer than it writes */
    rp_trainer_free(t);
    OK(rp_trainer_save(second, path));
    rp_trainer_free(second);
    OK(rp_trainer_open(m, &o, &t));
    close_both(t, m);
    char kept[100];
    remove(path), remove(other), remove(link_path);
    snprintf(kept, sizeof kept, "%s.1", path), remove(kept);
    snprintf(kept, sizeof kept, "%s.1", other), remove(kept);
}

/* A child holds the lock until it is killed. */
Test(train_checkpoints, a_process_that_dies_leaves_no_lock) {
    char           path[96], text[256], command[256] = "";
    int            ready[2], end = 0;
    RpTrainOptions o = whole;
    RpModel       *m = open_base();
    RpTrainer     *t;
    o.checkpoint = train_path("child", path, sizeof path);
    o.n_threads  = 1;
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const char ok = rp_trainer_open(m, &o, &t) == RP_OK ? 'y' : 'n';
        if (write(ready[1], &ok, 1) == 1) pause();
        _exit(1);
    }
    char ok = 0;
    cr_assert(read(ready[0], &ok, 1) == 1 && ok == 'y');
    snprintf(text, sizeof text, "/proc/%ld/cmdline", (long)child);
    FILE *f = fopen(text, "rb");
    cr_assert(f != NULL && fread(command, 1, sizeof command - 1, f) > 0); /* up to the end of the first argument */
    fclose(f);
    cr_assert_neq(command[0], '\0');
    snprintf(text, sizeof text, "child.gguf: process %ld (%.200s", (long)child, command);
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_STATE, text);
    cr_expect_eq(sscanf(rp_last_error(),
                        "%*[^:]: process %*d (%*[^)]) writes this checkpoint: wait until it ends, or "
                        "give another path%n",
                        &end),
                 0);
    cr_expect_eq((size_t)end, strlen(rp_last_error()), "%s", rp_last_error());
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    OK(rp_trainer_open(m, &o, &t));
    close_both(t, m);
    close(ready[0]), close(ready[1]);
}
