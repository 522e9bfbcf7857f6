/* Fuzz target: arrivals of requests at an engine.
 *     byte 0  n_seq, blocks of the cache, length of a step, draft model, assistant, or a layer that predicts further
 *             tokens (MTP)
 *     then    0 to 3: a request, of the next four bytes    4: cancel one of them, by the next byte    else: a step
 * Every request ends once, and has the tokens that rp_generate gives for it alone, as far as it was not cancelled. */
#include "reprise/reprise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_CTX = 96, MOST = 24 };

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, rp_last_error());
    abort();
}

typedef struct Arrival {
    uint64_t   id;
    RpSampler *sampler;
    int32_t    prompt[N_CTX], tokens[N_CTX], n_prompt, n, max_tokens;
    bool       ended, cancelled;
} Arrival;

/* The first two models have a draft model, gemma4 an assistant. The last two have an MTP layer; qwen35 has recurrent
 * layers as well. */
static const char *const files[]  = {"llama-mix", "gemma4-mix", "glm4moe-f32", "qwen35-mix"};
static const char *const drafts[] = {"llama-f32", "../assistant/gemma4-mix"};

static RpModel   *models[4], *draft_models[2], *model;
static RpSession *sessions[4], *session;

static RpModel *open_model(const char *name) {
    char     path[512];
    RpModel *m;
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tiny/%s.gguf", name);
    expect(rp_model_open(path, NULL, &m) == RP_OK, "model");
    return m;
}

/* Each model is opened once. */
static void open_kind(int kind) {
    if (kind < 2 && draft_models[kind] == NULL) draft_models[kind] = open_model(drafts[kind]);
    if (models[kind] == NULL) {
        models[kind] = open_model(files[kind]);
        expect(rp_session_open(models[kind], &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = "cpu"},
                               &sessions[kind]) == RP_OK,
               "session");
    }
    model   = models[kind];
    session = sessions[kind];
}

/* A request that is refused leaves nothing. */
static bool arrive(RpEngine *e, Arrival *a, const uint8_t *b) {
    RpSamplerParams p       = rp_sampler_defaults();
    const int32_t   n_vocab = rp_model_info(model)->n_vocab;
    p.seed                  = b[0];
    p.temperature           = b[0] % 2 == 0 ? 0.0f : 1.0f;
    a->n_prompt             = b[1] % 100;
    a->max_tokens           = b[2] % 40;
    for (int32_t i = 0; i < a->n_prompt && i < N_CTX; i++)
        a->prompt[i] = (i * (1 + b[0] % 4) + (i > 20 ? b[1] : 0)) % n_vocab;
    expect(rp_sampler_new(&p, n_vocab, &a->sampler) == RP_OK, "sampler");
    const RpRequest r = {.prompt     = a->prompt,
                         .n_prompt   = (size_t)a->n_prompt,
                         .sampler    = a->sampler,
                         .max_tokens = a->max_tokens,
                         .ignore_end = b[3] % 2 == 0,
                         .priority   = b[3] / 2 % 4,
                         .n_draft    = b[3] / 8 % 8,
                         .user       = a};
    if (rp_engine_add(e, &r, &a->id) == RP_OK) return true;
    expect(a->n_prompt == 0 || a->n_prompt >= N_CTX, "a request is refused");
    rp_sampler_free(a->sampler);
    a->sampler = NULL;
    return false;
}

static void step(RpEngine *e) {
    RpEngineEvent v;
    expect(rp_engine_step(e) == RP_OK, "a step");
    while (rp_engine_poll(e, &v)) {
        Arrival *a = v.user;
        expect(!a->ended && v.status == RP_OK, "an event");
        if (v.token >= 0) a->tokens[a->n++] = v.token;
        a->ended = v.end;
    }
}

/* The tokens of the request alone. */
static void compare(const Arrival *a, bool ignore_end) {
    RpTokenList      want = {0};
    RpGenerateResult r;
    rp_sampler_reset(a->sampler);
    expect(rp_session_rewind(session, 0) == RP_OK, "a rewind");
    const RpGenerateOptions o = {.max_tokens = a->max_tokens, .ignore_end = ignore_end, .tokens = &want};
    expect(rp_generate(session, a->sampler, a->prompt, (size_t)a->n_prompt, &o, &r) == RP_OK, "a reply alone");
    expect(a->ended, "a request does not end");
    expect(a->cancelled ? a->n <= (int32_t)want.n : a->n == (int32_t)want.n, "another number of tokens");
    expect(memcmp(a->tokens, want.ids, (size_t)a->n * sizeof *a->tokens) == 0, "other tokens");
    rp_token_list_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Arrival arrivals[MOST];
    uint8_t        flags[MOST];
    RpEngine      *e;
    int            n = 0;
    if (size == 0) return 0;
    const int kind = data[0] / 64;
    open_kind(kind);
    memset(arrivals, 0, sizeof arrivals);
    const RpEngineOptions o = {.n_ctx        = N_CTX,
                               .n_seq        = 1 + data[0] % 4,
                               .n_threads    = 1,
                               .cache_tokens = N_CTX + 32 * (data[0] / 4 % 4),
                               .step_tokens  = data[0] / 16 % 2 == 0 ? 16 : 64,
                               .draft        = kind < 2 && data[0] / 32 % 2 == 1 ? draft_models[kind] : NULL};
    expect(rp_engine_open(model, &o, &e) == RP_OK, "an engine");
    for (size_t i = 1; i < size; i++) {
        if (data[i] % 8 < 4 && i + 4 < size && n < MOST) {
            flags[n] = data[i + 4];
            n += arrive(e, &arrivals[n], data + i + 1);
            i += 4;
        } else if (data[i] % 8 == 4 && i + 1 < size && n > 0) {
            Arrival *a = &arrivals[data[++i] % n];
            expect((rp_engine_cancel(e, a->id) == RP_OK) == (!a->ended && !a->cancelled), "a cancel");
            a->cancelled = a->cancelled || !a->ended;
        } else {
            step(e);
        }
    }
    for (int k = 0; rp_engine_pending(e) > 0; k++) {
        expect(k < 100000, "the requests do not end");
        step(e);
    }
    rp_engine_free(e);
    for (int i = 0; i < n; i++) {
        compare(&arrivals[i], flags[i] % 2 == 0);
        rp_sampler_free(arrivals[i].sampler);
    }
    return 0;
}
