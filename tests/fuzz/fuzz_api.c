/* Fuzz target: calls of the session and sampler API in any order that is legal, and with arguments that are not. The
 * bytes of the input: 0 the model, then calls of 2 bytes: what, argument. Two sessions of one model are open at most. A
 * model of the state (which tokens are in the context) says what each call must return. At the end the logits must be
 * those of another session (I8). */
#include "tests/fuzz/file_edit.h"

#include "reprise/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_MODELS = 4, N_CTX = 24, MAX_CALLS = 40 };

typedef struct State {
    const RpModel *model;
    RpSession     *s[2];
    RpSampler     *sampler[2];
    int32_t        ids[2][N_CTX]; /* the context */
    int32_t        n[2];
    bool           logits[2]; /* must there be logits? */
    int            now;       /* the session in use */
} State;

static void expect(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s; the last error: %s\n", what, rp_last_error());
    __builtin_trap();
}

static const RpModel *model_at(size_t i) {
    static const char *const names[N_MODELS] = {"llama-mix", "qwen3moe-mix", "gemma3-mix", "deepseek2-lite"};
    static RpModel          *models[N_MODELS];
    char                     path[1024];
    i %= N_MODELS;
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tiny/%s.gguf", names[i]);
    if (models[i] == NULL && rp_model_open(path, NULL, &models[i]) != RP_OK) exit(1);
    return models[i];
}

static void append(State *t, int32_t id) {
    t->ids[t->now][t->n[t->now]++] = id;
    t->logits[t->now]              = true;
}

static void call_open(State *t, uint8_t arg) {
    const int i = arg & 1;
    if (t->s[i] != NULL) {
        rp_session_free(t->s[i]);
        rp_sampler_free(t->sampler[i]);
    }
    t->n[i]                        = 0;
    t->logits[i]                   = false;
    t->now                         = i;
    const RpSessionOptions options = {.n_ctx         = N_CTX,
                                      .n_threads     = 1 + (arg >> 1 & 1),
                                      .prefill_chunk = 1 + (arg >> 2 & 7),
                                      .device        = "cpu",
                                      .count_experts = (arg & 64) != 0};
    RpSamplerParams        p       = rp_sampler_defaults();
    p.temperature                  = (arg & 128) != 0 ? 0.8f : 0.0f;
    p.repeat_penalty               = 1.1f;
    expect(rp_session_open(t->model, &options, &t->s[i]) == RP_OK, "open");
    expect(rp_sampler_new(&p, rp_model_info(t->model)->n_vocab, &t->sampler[i]) == RP_OK, "sampler");
}

/* Options and arguments that may be wrong: an error, or a session that can be freed. */
static void call_odd(State *t, uint8_t arg) {
    static const char *const passes[]  = {"", "-all", "-quantize", "-", "+", ",", "-all,+norm,+norm", "-none of these"};
    static const char *const devices[] = {"cpu", "auto", "cuda", "cuda:-1", "cpu:1", "", "\033"};
    const RpDtype            types[]   = {RP_F32, RP_F16, RP_Q8_0, RP_Q4_K, RP_Q8_ACT, (RpDtype)99, (RpDtype)-1};
    const int32_t            n_ctx[] = {-1, 0, 1, 5, INT32_MAX, INT32_MIN}, one[3] = {1, 2, -1};
    const int32_t            n_vocab = rp_model_info(t->model)->n_vocab;
    RpSession               *s;
    RpSampler               *sampler;
    RpSessionMemory          memory;
    const RpSessionOptions   o = {.n_ctx         = n_ctx[arg % 6],
                                  .n_threads     = arg % 7 - 2,
                                  .prefill_chunk = arg % 5 == 0 ? n_ctx[arg / 5 % 6] : 4,
                                  .passes        = passes[arg / 8 % 8],
                                  .kv_type       = types[arg / 3 % 7],
                                  .device        = devices[arg % 7],
                                  .require_graph = arg % 11 == 0,
                                  .mode          = (RpExecMode)(arg % 9)};
    const RpSamplerParams    p = {.temperature    = arg % 3 == 0 ? NAN : (float)arg - 3.0f,
                                  .top_k          = (int32_t)arg - 5,
                                  .top_p          = (float)arg / 100.0f,
                                  .min_p          = (float)arg / 90.0f,
                                  .repeat_penalty = (float)arg / 50.0f,
                                  .repeat_last_n  = arg % 4 == 0 ? INT32_MAX : (int32_t)arg - 9};
    if (rp_session_memory(t->model, &o, &memory) == RP_OK && memory.kv + memory.arena < 1 << 24 &&
        rp_session_open(t->model, &o, &s) == RP_OK)
        rp_session_free(s);
    if (rp_sampler_new(&p, arg % 2 == 0 ? n_vocab : (int32_t)arg - 4, &sampler) == RP_OK) rp_sampler_free(sampler);
    float *logits = malloc(3 * (size_t)n_vocab * sizeof *logits);
    expect(logits != NULL, "memory");
    const size_t   n  = arg % 4;
    const RpStatus st = rp_model_logits(t->model, one, 1, n, logits);
    expect(st == (n == 3 ? RP_E_ARG : RP_OK), "logits of a batch");
    free(logits);
}

static bool stop_prefill(int64_t done, int64_t total, void *user) {
    (void)done, (void)total, (void)user;
    return false;
}

/* Bit 7: the callback stops after the first chunk. */
static void call_prefill(State *t, uint8_t arg) {
    const int     k = t->now;
    const int32_t n = arg & 31, n_vocab = rp_model_info(t->model)->n_vocab, before = t->n[k];
    int32_t       ids[32];
    for (int i = 0; i < n; i++) ids[i] = (arg * 5 + i * 3) % n_vocab;
    if ((arg & 96) == 96 && n > 0) ids[n - 1] = (arg & 1) != 0 ? n_vocab : -1;
    const RpStatus st = rp_session_prefill(t->s[k], ids, (size_t)n, (arg & 128) != 0 ? stop_prefill : NULL, NULL);
    if (n == 0 || (arg & 96) == 96) {
        expect(st == RP_E_ARG, "prefill of a bad list");
    } else if (n > N_CTX - before) {
        expect(st == RP_E_CONTEXT_FULL, "prefill of too many tokens");
    } else {
        expect(st == RP_OK || (st == RP_E_CANCELLED && (arg & 128) != 0), "prefill");
        for (int i = 0; i < rp_session_n_past(t->s[k]) - before; i++) append(t, ids[i]);
    }
}

static void call_step(State *t, uint8_t arg) {
    const int32_t  id = arg % (rp_model_info(t->model)->n_vocab + 1), n = t->n[t->now];
    const RpStatus st = rp_session_step(t->s[t->now], id);
    if (id == rp_model_info(t->model)->n_vocab)
        expect(st == RP_E_ARG, "step with a bad token");
    else if (n == N_CTX)
        expect(st == RP_E_CONTEXT_FULL, "step in a full context");
    else
        expect(st == RP_OK, "step"), append(t, id);
}

static void call_rewind(State *t, uint8_t arg) {
    const int      k  = t->now;
    const int32_t  to = (int32_t)(arg % (N_CTX + 4)) - 2;
    const RpStatus st = rp_session_rewind(t->s[k], to);
    expect(st == (to >= 0 && to <= t->n[k] ? RP_OK : RP_E_ARG), "rewind");
    if (st != RP_OK || to == t->n[k]) return;
    t->n[k]      = to;
    t->logits[k] = false;
}

static void call_sample(State *t, uint8_t arg) {
    int32_t      id;
    const float *logits = rp_session_logits(t->s[t->now]);
    expect((logits != NULL) == t->logits[t->now], "logits");
    if (logits == NULL) return;
    expect(rp_sampler_sample(t->sampler[t->now], logits, &id) == RP_OK, "sample");
    expect(id >= 0 && id < rp_model_info(t->model)->n_vocab, "the token sampled");
    if ((arg & 1) != 0) rp_sampler_reset(t->sampler[t->now]);
    if ((arg & 2) != 0) rp_sampler_accept(t->sampler[t->now], (int32_t)arg - 8);
}

static void count(size_t i, const float *logits, void *user) {
    int *n = user;
    expect(logits != NULL && i == (size_t)*n, "the order of scores");
    ++*n;
}

static void call_score(State *t, uint8_t arg) {
    const int32_t n = 1 + (arg & 15), n_vocab = rp_model_info(t->model)->n_vocab, before = t->n[t->now];
    int32_t       ids[16];
    int           n_scores = 0;
    for (int i = 0; i < n; i++) ids[i] = (arg + i) % n_vocab;
    const RpStatus st = rp_session_score(t->s[t->now], ids, (size_t)n, count, &n_scores);
    expect(st == (n > N_CTX - before ? RP_E_CONTEXT_FULL : RP_OK), "score");
    expect(n_scores == (st == RP_OK ? n : 0), "the number of scores");
    for (int i = 0; i < n_scores; i++) append(t, ids[i]);
}

/* Text comes in whole characters; argument 255 stops at once. */
static bool take_text(const char *text, size_t len, void *user) {
    const uint8_t *arg = user;
    char           out[256];
    RpUtf8Stream   u = {0};
    if (len < 32) expect(rp_utf8_feed(&u, text, len, out) == len && memcmp(out, text, len) == 0, "characters");
    return *arg % 16 != 15;
}

static void call_generate(State *t, uint8_t arg) {
    static const char *const stops[] = {"a", "xyz", "\xe2\x96\x81", ""};
    const int                k       = t->now;
    RpGenerateResult         r;
    RpTokenList              sampled   = {0};
    const int32_t            prompt[3] = {1, 5, 9};
    const int32_t            n_prompt = arg >> 6, before = t->n[k];
    const bool               had     = t->logits[k];
    const RpGenerateOptions  options = {.max_tokens = 1 + (arg & 7),
                                        .stop       = stops,
                                        .n_stop     = (arg >> 3) % 4u + ((arg & 56) == 56),
                                        .ignore_end = (arg & 1) != 0,
                                        .on_text    = take_text,
                                        .user       = &arg,
                                        .tokens     = &sampled};
    const RpStatus           st      = rp_generate(t->s[k], t->sampler[k], prompt, (size_t)n_prompt, &options, &r);
    const int32_t            n       = rp_session_n_past(t->s[k]);
    if (options.n_stop == 4 || (n_prompt == 0 && !had))
        expect(st == RP_E_ARG, "a bad reply");
    else if (n_prompt > N_CTX - before)
        expect(st == RP_E_CONTEXT_FULL, "a prompt that does not fit");
    else
        expect(st == RP_OK, "a reply");
    expect(n >= before && n <= N_CTX, "the context after a reply");
    for (int32_t i = 0; i < n - before; i++) {
        const bool in_prompt = i < n_prompt;
        expect(in_prompt || (size_t)(i - n_prompt) < sampled.n, "tokens of the reply");
        append(t, in_prompt ? prompt[i] : sampled.ids[i - n_prompt]);
    }
    rp_token_list_free(&sampled);
}

/* The logits of the context are those of another session that gets it at once. */
static void check(State *t) {
    static const RpModel *model;
    static RpSession     *other;
    const int             k      = t->now;
    const float          *logits = rp_session_logits(t->s[k]);
    expect(rp_session_n_past(t->s[k]) == t->n[k], "the number of tokens");
    expect((logits != NULL) == t->logits[k], "logits at the end");
    if (logits == NULL) return;
    if (model != t->model) {
        const RpSessionOptions options = {.n_ctx = N_CTX, .n_threads = 1, .device = "cpu"};
        rp_session_free(other);
        expect(rp_session_open(t->model, &options, &other) == RP_OK, "the other session");
        model = t->model;
    }
    expect(rp_session_rewind(other, 0) == RP_OK, "rewind of the other session");
    expect(rp_session_prefill(other, t->ids[k], (size_t)t->n[k], NULL, NULL) == RP_OK, "the other prefill");
    expect(memcmp(logits, rp_session_logits(other), (size_t)rp_model_info(t->model)->n_vocab * sizeof *logits) == 0,
           "another session has other logits");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const calls[])(State *, uint8_t) = {call_prefill, call_step,  call_step,     call_rewind,
                                                      call_sample,  call_score, call_generate, call_open};
    if (size == 0) return 0;
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    State t     = {.model = model_at(data[0])};
    int   n_odd = 0;
    call_open(&t, (uint8_t)(data[0] >> 2));
    for (size_t i = 1; i + 1 < size && i < 2 * MAX_CALLS; i += 2) {
        const int which = data[i] % 16;
        if (which >= 8) { /* an easy call, on the other session if that is open */
            if (which == 9 && n_odd++ < 2) call_odd(&t, data[i + 1]);
            if (t.s[1 - t.now] != NULL && which == 8) t.now = 1 - t.now;
            call_step(&t, data[i + 1]);
        } else {
            calls[which](&t, data[i + 1]);
        }
    }
    check(&t);
    for (int i = 0; i < 2; i++) rp_session_free(t.s[i]), rp_sampler_free(t.sampler[i]);
    return 0;
}
