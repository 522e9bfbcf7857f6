/* Fuzz target: contexts in files (rp_session_save, rp_engine_save). An input is the file that a session wrote, with
 * edits (file_edit.h), for one of five models and sessions:
 *     0 the model, and whether an engine reads the file too      1 tokens that the reader has     7 checksums
 * A context may be refused: then the reader goes on as if nothing had happened. One that is taken says how many tokens
 * there are, and more follow. */
#include "tests/fuzz/file_edit.h"

#include "reprise/reprise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

enum { N_CTX = 224, MOST_HELD = 20 };

/* A window, recurrent states of two kinds, a latent; a window whose first positions the session has lost. */
static const struct {
    const char *name;
    int32_t     saved, window_tokens;
} sources[] = {
    {"gemma3-mix",        40,  0},
    {"qwen35-mix",        40,  0},
    {"granitehybrid-mix", 40,  0},
    {"deepseek2-mix",     40,  0},
    {"gemma3-mix",        200, 1}
};

enum { N_KINDS = sizeof sources / sizeof sources[0] };

typedef struct Kind {
    RpModel    *model;
    RpSession  *session, *other; /* `other` never reads a file */
    RpGgufFile *context;
} Kind;

static Kind kinds[N_KINDS];

static RpSession *new_session(const RpModel *m, int32_t window_tokens) {
    RpSession             *s;
    const RpSessionOptions o = {
        .n_ctx = N_CTX, .n_threads = 1, .prefill_chunk = 32, .device = "cpu", .window_tokens = window_tokens};
    fuzz_expect(rp_session_open(m, &o, &s) == RP_OK, "a session");
    return s;
}

static const int32_t *tokens(const Kind *k, int32_t first, int32_t n) {
    static int32_t ids[N_CTX];
    for (int32_t i = 0; i < n; i++) ids[i] = (first + i * 7) % rp_model_info(k->model)->n_vocab;
    return ids;
}

static void begin(Kind *k, int i) {
    char        path[1024];
    RpTokenList list = {0};
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tiny/%s.gguf", sources[i].name);
    fuzz_expect(rp_model_open(path, NULL, &k->model) == RP_OK, "the model");
    k->session = new_session(k->model, sources[i].window_tokens);
    k->other   = new_session(k->model, sources[i].window_tokens);
    for (int32_t at = 0; at < sources[i].saved; at++)
        fuzz_expect(rp_token_list_push(&list, tokens(k, 3, sources[i].saved)[at]) == RP_OK, "a token");
    fuzz_expect(rp_session_prefill(k->session, list.ids, list.n, NULL, NULL) == RP_OK, "the context");
    fuzz_path(path, "begin.gguf");
    fuzz_expect(rp_session_save(k->session, &list, "note", path) == RP_OK, "the file");
    fuzz_expect(rp_gguf_open(path, &k->context) == RP_OK, "it does not open");
    unlink(path); /* it stays mapped */
    rp_token_list_free(&list);
}

/* Both sessions have the same context; a file that is refused changes nothing. */
static void restore(Kind *k, const char *path, int32_t held) {
    RpTokenList list = {0};
    char       *note = NULL;
    fuzz_expect(rp_session_rewind(k->session, 0) == RP_OK && rp_session_rewind(k->other, 0) == RP_OK, "a rewind");
    if (held > 0)
        fuzz_expect(rp_session_prefill(k->session, tokens(k, 1, held), (size_t)held, NULL, NULL) == RP_OK &&
                        rp_session_prefill(k->other, tokens(k, 1, held), (size_t)held, NULL, NULL) == RP_OK,
                    "tokens");
    const RpStatus st = rp_session_restore(k->session, path, &list, &note);
    const int32_t  n = rp_session_n_past(k->session), *next = tokens(k, 5, 2);
    fuzz_expect(n == (st == RP_OK ? (int32_t)list.n : held), "another number of tokens");
    fuzz_expect((note != NULL) == (st == RP_OK), "the note");
    if (n < N_CTX) {
        fuzz_expect(rp_session_prefill(k->session, next, 1, NULL, NULL) == RP_OK, "the next token");
        if (st != RP_OK) {
            fuzz_expect(rp_session_prefill(k->other, next, 1, NULL, NULL) == RP_OK, "the next token of the other");
            fuzz_expect(memcmp(rp_session_logits(k->session), rp_session_logits(k->other),
                               (size_t)rp_model_info(k->model)->n_vocab * sizeof(float)) == 0,
                        "a file that is refused changes what follows");
        }
    }
    free(note);
    rp_token_list_free(&list);
}

/* An engine takes whole blocks of it; a request that begins with its tokens ends. */
static void restore_engine(Kind *k, const char *path) {
    const RpEngineOptions o = {.n_ctx = N_CTX, .n_seq = 2, .n_threads = 1, .cache_tokens = 2 * N_CTX, .device = "cpu"};
    RpTokenList           list = {0};
    int32_t               kept = 0;
    RpEngine             *e;
    RpSampler            *sampler;
    const RpSamplerParams p = rp_sampler_defaults();
    fuzz_expect(rp_engine_open(k->model, &o, &e) == RP_OK, "an engine");
    fuzz_expect(rp_sampler_new(&p, rp_model_info(k->model)->n_vocab, &sampler) == RP_OK, "a sampler");
    const RpStatus st = rp_engine_restore(e, path, &list, &kept, NULL);
    fuzz_expect(kept >= 0 && kept <= (int32_t)list.n && (st == RP_OK || kept == 0), "what the cache has");
    uint64_t        id;
    const bool      fits = st == RP_OK && list.n > 0 && list.n + 4 < N_CTX;
    const RpRequest r    = {.prompt     = fits ? list.ids : tokens(k, 1, 9),
                            .n_prompt   = fits ? (size_t)list.n : 9,
                            .sampler    = sampler,
                            .max_tokens = 2};
    fuzz_expect(rp_engine_add(e, &r, &id) == RP_OK, "a request");
    for (int i = 0; rp_engine_pending(e) > 0; i++) fuzz_expect(i < 1000 && rp_engine_step(e) == RP_OK, "a step");
    rp_engine_free(e);
    rp_sampler_free(sampler);
    rp_token_list_free(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t  head[FUZZ_HEAD] = {0};
    char     path[64];
    FuzzFile f;
    memcpy(head, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    Kind *k = &kinds[head[0] % N_KINDS];
    if (k->model == NULL) begin(k, head[0] % N_KINDS);
    fuzz_path(path, "context.gguf");
    fuzz_file_make_from(&f, k->context, data, size);
    if (f.n <= FUZZ_MAX_BYTES) {
        fuzz_save(path, f.bytes, f.n);
        restore(k, path, head[1] % MOST_HELD);
        if (head[0] / N_KINDS % 4 == 0) restore_engine(k, path);
        unlink(path);
    }
    fuzz_file_free(&f);
    return 0;
}
