/* Fuzz target: a damaged LoRA adapter beside a whole model. Bytes of the input as in file_edit.h; the options are
 *     1 the model   2 scale   3 bit 0: twice, bit 1: merged   4 tokens   5 first token
 * An adapter that is refused leaves the model as it was. With one that is taken the model runs, a prefill gives the
 * bits of single steps, and what a merge writes opens as a model. */
#include "tests/fuzz/file_edit.h"

#include "reprise/convert.h"
#include "reprise/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

enum { MAX_TOKENS = 6, N_CTX = 8, MAX_VOCAB = 64 };

static bool same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* The logits after the tokens of options 4 and 5, computed in two ways. */
static void logits_of(const RpModel *m, const uint8_t o[FUZZ_HEAD], float out[MAX_VOCAB]) {
    const RpSessionOptions options = {.n_ctx = N_CTX, .n_threads = 1, .device = "cpu"};
    const int32_t          n = 1 + o[4] % MAX_TOKENS, n_vocab = rp_model_info(m)->n_vocab;
    int32_t                tokens[MAX_TOKENS];
    RpSession             *s;
    fuzz_expect(n_vocab <= MAX_VOCAB && rp_session_open(m, &options, &s) == RP_OK, "no session");
    for (int32_t i = 0; i < n; i++) {
        tokens[i] = (o[5] + i * 7) % n_vocab;
        fuzz_expect(rp_session_step(s, tokens[i]) == RP_OK, "a step failed");
    }
    memcpy(out, rp_session_logits(s), (size_t)n_vocab * sizeof *out);
    fuzz_expect(rp_session_rewind(s, 0) == RP_OK, "no rewind");
    fuzz_expect(rp_session_prefill(s, tokens, (size_t)n, NULL, NULL) == RP_OK, "the prefill failed");
    fuzz_expect(same(out, rp_session_logits(s), (size_t)n_vocab), "a prefill has other logits than steps");
    rp_session_free(s);
}

static void merge(const RpModel *m) {
    char     path[64];
    RpModel *merged;
    fuzz_path(path, "merged.gguf");
    if (rp_merge_adapters(m, path, NULL, NULL, NULL) == RP_OK) {
        fuzz_expect(rp_model_open(path, NULL, &merged) == RP_OK, "a merged model does not open");
        rp_model_free(merged);
        unlink(path);
    }
    fuzz_expect(access(path, F_OK) != 0, "a file is left behind after a failure");
}

static void apply(RpModel *m, const char *path, const uint8_t o[FUZZ_HEAD]) {
    static const float scales[] = {1.0f, 0.5f, -2.0f, 0.0f, 1e30f, 1e-40f};
    const float        scale    = scales[o[2] % 6];
    float              before[MAX_VOCAB], after[MAX_VOCAB];
    const bool         taken = rp_model_add_adapter(m, path, scale) == RP_OK;
    if (taken && (o[3] & 1) != 0) fuzz_expect(rp_model_add_adapter(m, path, scale) == RP_OK, "not a second time");
    logits_of(m, o, after);
    if (taken && (o[3] & 2) != 0) merge(m);
    if (taken) return;
    RpModel *fresh;
    fuzz_expect(rp_model_open(rp_gguf_path(rp_model_file(m)), NULL, &fresh) == RP_OK, "the model");
    logits_of(fresh, o, before);
    fuzz_expect(same(before, after, (size_t)rp_model_info(m)->n_vocab), "a refused adapter changed the model");
    rp_model_free(fresh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const models[]     = {"llama-f32", "llama-q4_0", "llama-mix", "llama-q6_k", "qwen2-mix"};
    static const char *const adapters[]   = {"lora/adapter", NULL};
    uint8_t                  o[FUZZ_HEAD] = {0};
    char                     path[64], model[1024];
    FuzzFile                 f;
    RpModel                 *m;
    memcpy(o, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    fuzz_path(path, "adapter.gguf");
    snprintf(model, sizeof model, RP_SOURCE_DIR "/tests/golden/tiny/%s.gguf", models[o[1] % 5]);
    fuzz_file_make(&f, adapters, data, size);
    if (f.n <= FUZZ_MAX_BYTES) {
        fuzz_save(path, f.bytes, f.n);
        fuzz_expect(rp_model_open(model, NULL, &m) == RP_OK, "the model");
        apply(m, path, o);
        rp_model_free(m);
        unlink(path);
    }
    fuzz_file_free(&f);
    return 0;
}
