/* The base of an adapter: a training goes on, and an adapter is applied, only on the model that the file names by
 * tensors, shapes and checksums. Files: tests/golden/checkpoints. Device: REPRISE_DEVICE (CPU or simulated device). */
#include "tests/trainer/checkpoint_case.h"

#include "reprise/convert.h"

static void expect_other_base(const RpModel *m, const char *adapter, RpStatus status, const char *text) {
    const RpTrainOptions o = lora(adapter);
    RpTrainer           *t = NULL;
    REFUSED(rp_trainer_open(m, &o, &t), status, text);
    cr_expect_null(t);
}

Test(train_base, an_adapter_resumes_on_its_own_base_only) {
    size_t   n;
    RpModel *m;
    char     path[96], text[256], *bytes = read_whole(FILES "base.gguf", &n),
                              *norm = data_in(bytes, n, "output_norm.weight");
    const uint64_t before           = xx_hash(norm, 4 * 32);
    norm[5] ^= 1;
    snprintf(text, sizeof text,
             "v1-lora.gguf was trained on a model whose tensor output_norm.weight has the checksum %016llx, that of "
             "other-base has %016llx: resume with the same model",
             (unsigned long long)before, (unsigned long long)xx_hash(norm, 4 * 32));
    OK(rp_model_open_memory(bytes, n, "other-base", &m));
    expect_other_base(m, FILES "v1-lora.gguf", RP_E_ARG, text);
    const RpTrainOptions begin = lora(FILES "v1-adapter.gguf"), older = lora(FILES "v0-lora.gguf");
    RpTrainer           *t;
    OK(rp_trainer_open(m, &begin, &t)); /* begins a training: as if it was applied */
    rp_trainer_free(t);
    OK(rp_trainer_open(m, &older, &t)); /* does not say its base */
    rp_trainer_free(t);
    rp_model_free(m);
    free(bytes);
    OK(rp_requantize(FILES "base.gguf", train_path("type", path, sizeof path), "Q8_0", NULL, NULL));
    OK(rp_model_open(path, NULL, &m));
    snprintf(
        text, sizeof text,
        "v1-lora.gguf was trained on a model whose tensor token_embd.weight is F32, that of %s is Q8_0: resume with "
        "the same model",
        path);
    expect_other_base(m, FILES "v1-lora.gguf", RP_E_ARG, text);
    rp_model_free(m);
    remove(path);
}

/* The type of a later version has no name here. */
Test(train_base, an_adapter_of_a_base_of_an_unknown_type_is_not_resumed) {
    char         path[96];
    size_t       n;
    uint64_t     sum;
    char        *bytes = read_whole(FILES "v1-lora.gguf", &n), *head = value_in(bytes, n, "train.checksum.metadata");
    char        *types = value_in(bytes, n, "train.base.types");
    RpModel     *m     = open_base();
    const size_t begin = head_of(bytes, n);
    memcpy(types, &(uint32_t){999}, 4);
    memset(head, 0, 8);
    sum = xx_hash(bytes, begin);
    memcpy(head, &sum, 8);
    write_whole(train_path("later", path, sizeof path), bytes, n);
    expect_other_base(m, path, RP_E_ARG,
                      "is of an unknown type, that of " FILES "base.gguf is F32: resume with the same");
    remove(path);
    free(bytes);
    rp_model_free(m);
}

/* The checksum is made again, so that only the key is missing. */
Test(train_base, an_adapter_without_a_key_of_its_base_is_not_applied) {
    char         path[96];
    size_t       n;
    uint64_t     sum;
    RpModel     *m     = open_base();
    char        *bytes = read_whole(FILES "v1-adapter.gguf", &n), *key = memmem(bytes, n, "train.base.shapes", 17);
    char        *head  = value_in(bytes, n, "train.checksum.metadata");
    const size_t begin = head_of(bytes, n);
    cr_assert_not_null(key);
    key[16] = 'S';
    memset(head, 0, 8);
    sum = xx_hash(bytes, begin);
    memcpy(head, &sum, 8);
    write_whole(train_path("keyless", path, sizeof path), bytes, n);
    REFUSED(rp_model_add_adapter(m, path, 1.0f), RP_E_FORMAT,
            "keyless.gguf: train.base.shapes: must be an array of u64 for each tensor of the base");
    remove(path);
    free(bytes);
    rp_model_free(m);
}

/* A name in the table of tensors gets another end. */
static void rename_tensor(char *bytes, size_t n, const char *name, char end) {
    char *at = memmem(bytes, n, name, strlen(name));
    cr_assert_not_null(at);
    at[strlen(name) - 1] = end;
}

/* The checksums make damage of the keys another error, so here they are made again. */
Test(train_base, an_adapter_of_a_model_of_another_shape_is_not_applied) {
    char         path[96];
    size_t       n;
    uint64_t     ne = 33, sum = 0;
    RpModel     *m     = open_base();
    char        *bytes = read_whole(FILES "v1-adapter.gguf", &n);
    char        *shape = value_in(bytes, n, "train.base.shapes"), *head = value_in(bytes, n, "train.checksum.metadata");
    char        *name  = value_in(bytes, n, "train.base.names");
    const size_t begin = head_of(bytes, n);
    train_path("shape", path, sizeof path);
    for (int k = 0; k < 2; k++) {
        memcpy(shape + 8, k == 0 ? &ne : &(uint64_t){32}, 8);
        if (k == 1) rename_tensor(name, n, "token_embd.weight", 'T');
        memset(head, 0, 8);
        sum = xx_hash(bytes, begin);
        memcpy(head, &sum, 8);
        write_whole(path, bytes, n);
        REFUSED(rp_model_add_adapter(m, path, 1.0f), k == 0 ? RP_E_SHAPE : RP_E_FORMAT,
                k == 0 ? "shape.gguf is for another model: its base has tensor token_embd.weight [32,33,1,1], " FILES
                         "base.gguf has [32,32,1,1]"
                       : "shape.gguf is for another model: its base has tensor token_embd.weighT, " FILES
                         "base.gguf has none");
    }
    remove(path);
    free(bytes);
    rp_model_free(m);
}

/* A model with one layer more would take all matrices of the adapter. */
Test(train_base, an_adapter_is_not_applied_to_a_model_with_further_tensors) {
    char                 path[96];
    RpModel             *m = golden_open_tiny("llama-f32"), *tied;
    const RpTrainOptions o = lora(NULL);
    RpTrainer           *t;
    OK(rp_model_open(GOLDEN_DIR "tiny/llama-factors.gguf", NULL, &tied));
    OK(rp_trainer_open(m, &o, &t));
    OK(rp_trainer_export(t, train_path("fewer", path, sizeof path), NULL));
    REFUSED(rp_model_add_adapter(tied, path, 1.0f), RP_E_FORMAT,
            "fewer.gguf is for another model: its base has no tensor rope_freqs.weight, " GOLDEN_DIR
            "tiny/llama-factors.gguf has one");
    remove(path);
    close_both(t, m);
    rp_model_free(tied);
}
