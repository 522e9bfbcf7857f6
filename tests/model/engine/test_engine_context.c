/* Contexts of engines in files: a request that begins with what was restored finds it, and has the bits that it has in
 * an engine that computed everything; sessions and engines read each other's files; what does not fit is refused and
 * changes nothing. cudasim_engine_context is the same on the simulated device, with fewer models. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include "model/engine/engine.h"

enum { N_CTX = 200, BLOCK = 32, N_PROMPT = 70, N_REPLY = 30, N_MORE = 8, N_NEXT = 5, N_TEXT = N_PROMPT + N_REPLY };

#ifdef RP_TEST_CUDA
static const char        device[] = "cuda";
static const char *const files[]  = {"llama-mix-k", "qwen35-mix", "deepseek2-mix"};
enum { REPLIES_ARE_KEPT = 0 };
#else
static const char        device[] = "cpu";
static const char *const files[]  = {"llama-mix",  "gemma3-mix", "gpt-oss-mxfp4", "deepseek2-mix",
                                     "qwen35-mix", "lfm2-mix",   "gemma4-mix",    "falcon-h1-mix"};
enum { REPLIES_ARE_KEPT = 1 };
#endif
enum { N_FILES = sizeof files / sizeof files[0] };

static char path[128];

static RpSampler *greedy(const RpModel *m) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = 0.0f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

static void setup(void) {
    hf_begin();
    snprintf(path, sizeof path, "%s/a.context", folder);
}

TestSuite(engine_context, .init = setup, .fini = hf_end);

static RpEngine *open_engine(const RpModel *m, RpEngineOptions o) {
    RpEngine *e;
    if (o.n_ctx == 0) o.n_ctx = N_CTX;
    if (o.n_seq == 0) o.n_seq = 1;
    o.n_threads = 1;
    o.device    = device;
    OK(rp_engine_open(m, &o, &e));
    return e;
}

static void make_tokens(const RpModel *m, int32_t *to, int32_t n) {
    for (int32_t i = 0; i < n; i++) to[i] = 3 + (i * 7 + i * i) % (rp_model_info(m)->n_vocab - 3);
}

/* Runs a request and appends its reply to `tokens`; `logits`: of its last output, or NULL. Returns n_cached. */
static int32_t reply(RpEngine *e, int32_t *tokens, int32_t n, int32_t n_reply, float *logits) {
    const size_t    n_vocab = (size_t)rp_model_info(rp_engine_model(e))->n_vocab;
    RpSampler      *sampler = greedy(rp_engine_model(e));
    RpEngineEvent   v       = {0};
    uint64_t        id;
    int32_t         last = n + n_reply - 2; /* position of the last column */
    const RpRequest r    = {
           .prompt = tokens, .n_prompt = (size_t)n, .sampler = sampler, .max_tokens = n_reply, .ignore_end = true};
    OK(rp_engine_add(e, &r, &id));
    while (rp_engine_pending(e) > 0) {
        OK(rp_engine_step(e));
        for (int32_t i = 0; i < e->n_columns && logits != NULL; i++)
            if (e->columns[i].output && e->columns[i].pos == last)
                memcpy(logits, e->columns[i].logits, n_vocab * sizeof *logits);
        while (rp_engine_poll(e, &v)) tokens[n++] = v.token;
    }
    cr_assert_eq(v.status, RP_OK, "%s", v.error);
    rp_sampler_free(sampler);
    return v.n_cached;
}

static void save(const RpEngine *e, const int32_t *tokens, int32_t n, const char *note) {
    RpTokenList list = {0};
    for (int32_t i = 0; i < n; i++) OK(rp_token_list_push(&list, tokens[i]));
    OK(rp_engine_save(e, &list, note, path));
    rp_token_list_free(&list);
}

/* A request of N_PROMPT tokens, its reply in `text`, and the file of both. */
static void save_turn(const RpModel *m, RpEngineOptions o, int32_t *text) {
    RpEngine *e = open_engine(m, o);
    make_tokens(m, text, N_PROMPT);
    cr_expect_eq(reply(e, text, N_PROMPT, N_REPLY, NULL), 0);
    save(e, text, N_TEXT, "a note");
    rp_engine_free(e);
}

static void goes_on(const char *name, RpEngineOptions o) {
    RpModel     *m       = golden_open_tiny(name);
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    float       *want = calloc(n_vocab, sizeof *want), *got = calloc(n_vocab, sizeof *got);
    int32_t      text[N_CTX], other[N_CTX];
    RpTokenList  list   = {0};
    int32_t      n_kept = -1;
    char        *note;
    save_turn(m, o, text);
    for (int32_t i = 0; i < N_MORE; i++) text[N_TEXT + i] = 5 + i;
    memcpy(other, text, sizeof text);
    RpEngine *a = open_engine(m, o), *b = open_engine(m, o);
    OK(rp_engine_restore(b, path, &list, &n_kept, &note));
    cr_expect_str_eq(note, "a note", "%s", name);
    cr_expect(list.n >= BLOCK && list.n % BLOCK == 0, "%s: %zu tokens", name, list.n);
    cr_expect_eq((size_t)n_kept, list.n, "%s: %d tokens", name, n_kept);
    if (a->states.n == 0)
        cr_expect_eq(list.n, (size_t)(REPLIES_ARE_KEPT ? N_TEXT - 1 : N_PROMPT) / BLOCK * BLOCK, "%s: %zu tokens", name,
                     list.n);
    cr_expect_arr_eq(list.ids, text, list.n * sizeof *text, "%s", name);
    cr_expect_eq(rp_engine_stats(b).used, 0, "%s", name);
    cr_expect_eq((size_t)rp_engine_stats(b).kept, list.n / BLOCK, "%s", name);
    cr_expect_eq(reply(a, text, N_TEXT + N_MORE, N_NEXT, want), 0, "%s", name);
    cr_expect_eq((size_t)reply(b, other, N_TEXT + N_MORE, N_NEXT, got), list.n, "%s", name);
    cr_expect_arr_eq(other, text, (N_TEXT + N_MORE + N_NEXT) * sizeof *text, "%s: other tokens", name);
    cr_expect_eq(memcmp(got, want, n_vocab * sizeof *got), 0, "%s: other logits", name);
    free(note);
    free(want), free(got);
    rp_token_list_free(&list);
    rp_engine_free(a), rp_engine_free(b);
    rp_model_free(m);
}

Test(engine_context, goes_on_with_the_same_bits) {
    for (size_t i = 0; i < N_FILES; i++) goes_on(files[i], (RpEngineOptions){.n_mtp = -1});
}

Test(engine_context, goes_on_with_the_same_bits_with_a_cache_of_q8_0) {
    goes_on("qwen3-f32", (RpEngineOptions){.kv_type = RP_Q8_0});
}

#ifndef RP_TEST_CUDA
/* The MTP layer has no hidden states of what was restored: its guesses change, and no token. */
Test(engine_context, goes_on_with_the_same_tokens_where_an_mtp_layer_guesses) {
    goes_on("qwen35-mix", (RpEngineOptions){0});
    goes_on("glm4moe-f32", (RpEngineOptions){0});
}

static void make_session_file(const RpModel *m, int32_t *text, int32_t n) {
    RpSession  *s;
    RpTokenList list = {0};
    make_tokens(m, text, N_TEXT);
    for (int32_t i = 0; i < n; i++) OK(rp_token_list_push(&list, text[i]));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &s));
    OK(rp_session_prefill(s, text, (size_t)n, NULL, NULL));
    OK(rp_session_save(s, &list, "of a session", path));
    rp_token_list_free(&list);
    rp_session_free(s);
}

/* The engine puts the first `taken` of the n tokens in a session's file into its cache. */
static void takes_from_session(const char *name, int32_t n, size_t taken) {
    RpModel    *m = golden_open_tiny(name);
    int32_t     text[N_CTX], other[N_CTX];
    RpTokenList list   = {0};
    int32_t     n_kept = -1;
    make_session_file(m, text, n);
    memcpy(other, text, sizeof text);
    RpEngine *a = open_engine(m, (RpEngineOptions){.n_mtp = -1}), *b = open_engine(m, (RpEngineOptions){.n_mtp = -1});
    OK(rp_engine_restore(b, path, &list, &n_kept, NULL));
    cr_expect_eq((size_t)n_kept, taken, "%s: %d tokens of %d", name, n_kept, n);
    cr_expect_eq(list.n, (size_t)n, "%s: %zu tokens", name, list.n);
    cr_expect_eq(reply(a, text, N_TEXT, N_REPLY, NULL), 0, "%s", name);
    cr_expect_eq((size_t)reply(b, other, N_TEXT, N_REPLY, NULL), taken, "%s: %d", name, n);
    cr_expect_arr_eq(other, text, (N_TEXT + N_REPLY) * sizeof *text, "%s: other tokens after %d", name, n);
    rp_token_list_free(&list);
    rp_engine_free(a), rp_engine_free(b);
    rp_model_free(m);
}

Test(engine_context, an_engine_reads_files_of_sessions) {
    takes_from_session("gemma3-mix", 3 * BLOCK, (size_t)3 * BLOCK);
    takes_from_session("deepseek2-mix", N_PROMPT, (size_t)2 * BLOCK);
    takes_from_session("llama-mix", BLOCK - 1, 0);
    takes_from_session("qwen35-mix", 2 * BLOCK, (size_t)2 * BLOCK);
    takes_from_session("qwen35-mix", N_PROMPT, 0); /* its state is inside of a block */
}

static void session_goes_on(const char *name) {
    RpModel     *m       = golden_open_tiny(name);
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    int32_t      text[N_CTX];
    RpTokenList  list = {0};
    RpSession   *a, *b;
    save_turn(m, (RpEngineOptions){.n_mtp = -1}, text);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &a));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &b));
    OK(rp_session_restore(b, path, &list, NULL));
    cr_expect_eq((size_t)rp_session_n_past(b), list.n, "%s", name);
    cr_assert(list.n >= BLOCK, "%s: %zu tokens", name, list.n);
    OK(rp_session_prefill(a, text, N_TEXT, NULL, NULL));
    OK(rp_session_prefill(b, text + list.n, N_TEXT - list.n, NULL, NULL));
    cr_expect_arr_eq(rp_session_logits(b), rp_session_logits(a), n_vocab * sizeof(float), "%s: other logits", name);
    rp_token_list_free(&list);
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

Test(engine_context, a_session_reads_files_of_engines) {
    session_goes_on("gemma3-mix");
    session_goes_on("deepseek2-mix");
    session_goes_on("qwen35-mix");
}

/* The cache may have a part of the path already, also in blocks that a request reads, and drops other prefixes. */
Test(engine_context, blocks_of_the_cache_are_shared_and_dropped) {
    RpModel    *m = golden_open_tiny("llama-mix");
    int32_t     text[N_CTX], part[N_CTX], other[N_CTX];
    RpTokenList list   = {0};
    int32_t     n_kept = -1;
    save_turn(m, (RpEngineOptions){0}, text);
    RpEngine *e = open_engine(m, (RpEngineOptions){.cache_tokens = N_CTX}); /* 7 blocks */
    memcpy(part, text, sizeof text);
    (void)reply(e, part, BLOCK + 10, 1, NULL);
    cr_expect_eq(rp_engine_stats(e).kept, 1);
    for (int i = 0; i < 2; i++) {
        OK(rp_engine_restore(e, path, &list, &n_kept, NULL));
        cr_expect_eq(list.n, (size_t)3 * BLOCK, "time %d", i);
        cr_expect_eq(rp_engine_stats(e).kept, 3, "time %d", i);
    }
    for (int32_t i = 0; i < N_CTX; i++) other[i] = 30 + i % 9;
    (void)reply(e, other, 5 * BLOCK, 2, NULL); /* needs 6 of the blocks */
    cr_expect_eq(rp_engine_stats(e).evicted, 2, "%lu", (unsigned long)rp_engine_stats(e).evicted);
    OK(rp_engine_restore(e, path, &list, &n_kept, NULL));
    cr_expect_eq(rp_engine_stats(e).kept, 7, "%d", rp_engine_stats(e).kept);
    cr_expect_eq(reply(e, text, N_TEXT, 2, NULL), 3 * BLOCK);
    rp_token_list_free(&list);
    rp_engine_free(e);
    rp_model_free(m);
}

/* While a request runs: it has its tokens, and neither its blocks nor its state are taken. */
static void is_refused_beside_a_request(RpEngineOptions o, const char *refusal) {
    RpModel      *m = golden_open_tiny("qwen35-mix");
    int32_t       text[N_CTX], alone[N_CTX], got[N_CTX];
    int32_t       n       = 3 * BLOCK;
    RpTokenList   list    = {0};
    int32_t       n_kept  = -1;
    RpSampler    *sampler = greedy(m);
    RpEngineEvent v;
    uint64_t      id;
    char         *note = path;
    o.n_mtp            = -1;
    save_turn(m, (RpEngineOptions){.n_mtp = -1}, text);
    for (int32_t i = 0; i < n; i++) alone[i] = got[i] = 30 + i % 9;
    RpEngine *e = open_engine(m, o);
    (void)reply(e, alone, n, 20, NULL);
    rp_engine_free(e);
    e                 = open_engine(m, o);
    const RpRequest r = {
        .prompt = got, .n_prompt = (size_t)n, .sampler = sampler, .max_tokens = 20, .ignore_end = true};
    OK(rp_engine_add(e, &r, &id));
    for (int step = 0; rp_engine_pending(e) > 0; step++) {
        OK(rp_engine_step(e));
        if (step == 3) {
            REFUSED(rp_engine_restore(e, path, &list, &n_kept, &note), RP_E_CONTEXT_FULL, refusal);
            cr_expect(note == NULL && list.n == 0, "%s", refusal);
        }
        while (rp_engine_poll(e, &v)) got[n++] = v.token;
    }
    cr_expect_eq(n, 3 * BLOCK + 20, "%s: %d tokens", refusal, n);
    cr_expect_arr_eq(got, alone, (size_t)n * sizeof *got, "%s: other tokens", refusal);
    OK(rp_engine_restore(e, path, &list, &n_kept, NULL));
    cr_expect_gt(n_kept, 0, "%s", refusal);
    rp_token_list_free(&list);
    rp_sampler_free(sampler);
    rp_engine_free(e);
    rp_model_free(m);
}

Test(engine_context, blocks_and_states_of_requests_are_not_taken) {
    is_refused_beside_a_request((RpEngineOptions){.cache_tokens = 4 * BLOCK, .n_ctx = 4 * BLOCK},
                                "the context needs 3 blocks of the cache, 0 are free of requests");
    is_refused_beside_a_request((RpEngineOptions){.cache_tokens = 20 * BLOCK, .state_bytes = 1},
                                "the recurrent states of the engine are all of requests that run");
}

/* Guesses take slots of recurrent states, and leave some to prefixes: the next turn finds one. */
Test(engine_context, guesses_leave_states_of_prefixes) {
    RpModel      *m = golden_open_tiny("qwen35-mix");
    int32_t       text[N_CTX], n = N_PROMPT, n_cached = -1;
    RpSampler    *sampler = greedy(m);
    RpEngineEvent v       = {0};
    uint64_t      id;
    RpEngine *e = open_engine(m, (RpEngineOptions){.n_mtp = 3, .state_bytes = 3 * rp_config_state_bytes(&m->config)});
    for (int32_t i = 0; i < N_CTX; i++) text[i] = 30 + i % 7;
    cr_assert_eq(e->states.n, 4);
    for (int turn = 0; turn < 3; turn++, n += 10) {
        const RpRequest r = {.prompt     = text,
                             .n_prompt   = (size_t)n,
                             .sampler    = sampler,
                             .max_tokens = 24,
                             .ignore_end = true,
                             .n_draft    = 3};
        OK(rp_engine_add(e, &r, &id));
        while (rp_engine_pending(e) > 0) {
            for (int i = 0; i < e->n_runners; i++) e->times[i].seconds = 1.0; /* so that guesses pay */
            e->drafter.seconds = 1e-9;
            OK(rp_engine_step(e));
            while (rp_engine_poll(e, &v)) text[n] = v.token, n++;
            int32_t n_states = 0;
            for (int32_t i = 0; i < e->blocks.n; i++) n_states += e->blocks.all[i].state != STATE_NONE;
            cr_expect_gt(n_states, 0, "turn %d, %d tokens", turn, n);
        }
        n_cached = v.n_cached;
        cr_expect(turn == 0 ? n_cached == 0 : n_cached > 0, "turn %d: %d tokens of %d", turn, n_cached, v.n_prompt);
    }
    cr_expect_gt(rp_engine_stats(e).drafted, 10, "%d guesses", (int)rp_engine_stats(e).drafted);
    rp_sampler_free(sampler);
    rp_engine_free(e);
    rp_model_free(m);
}

/* A text of less than a block: the note is kept, and there is nothing to restore. */
Test(engine_context, a_short_text_has_a_note_only) {
    RpModel    *m = golden_open_tiny("qwen35-mix");
    int32_t     text[N_CTX];
    RpTokenList list   = {0};
    int32_t     n_kept = -1;
    RpSession  *s;
    char       *note;
    RpEngine   *e = open_engine(m, (RpEngineOptions){0});
    make_tokens(m, text, 20);
    (void)reply(e, text, 20, 4, NULL);
    save(e, text, 24, "short");
    OK(rp_token_list_push(&list, 7)); /* is replaced */
    OK(rp_engine_restore(e, path, &list, &n_kept, &note));
    cr_expect_eq(list.n, 0);
    cr_expect_str_eq(note, "short");
    free(note);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &s));
    OK(rp_session_prefill(s, text, 20, NULL, NULL));
    OK(rp_session_restore(s, path, &list, &note));
    cr_expect_eq(rp_session_n_past(s), 0);
    OK(rp_session_prefill(s, text, 20, NULL, NULL));
    free(note);
    rp_session_free(s);
    rp_engine_free(e);
    rp_model_free(m);
}

#define RESTORE_REFUSED(engine, status, text)                                                                          \
    do {                                                                                                               \
        char *note = path;                                                                                             \
        REFUSED(rp_engine_restore((engine), path, &list, NULL, &note), (status), (text));                              \
        cr_expect_null(note);                                                                                          \
        cr_expect_eq(list.n, 0);                                                                                       \
        cr_expect_eq(rp_engine_stats(engine).kept, 0);                                                                 \
    } while (0)

Test(engine_context, what_does_not_fit_is_refused) {
    RpModel    *m = golden_open_tiny("qwen3-f32"), *foreign = golden_open_tiny("llama-mix");
    int32_t     text[N_CTX];
    RpTokenList list   = {0};
    int32_t     n_kept = -1;
    RpEngine   *e[4];
    save_turn(m, (RpEngineOptions){0}, text);
    e[0] = open_engine(m, (RpEngineOptions){.n_ctx = 3 * BLOCK - 1});
    e[1] = open_engine(m, (RpEngineOptions){.kv_type = RP_Q8_0});
    e[2] = open_engine(m, (RpEngineOptions){.passes = "-norm"});
    e[3] = open_engine(foreign, (RpEngineOptions){0});
    RESTORE_REFUSED(e[0], RP_E_CONTEXT_FULL, "96 tokens do not fit: the context holds 95");
    RESTORE_REFUSED(e[1], RP_E_SHAPE, "tensor k.0 is f16 [32,96,1], the engine has q8_0 [32,96,1]");
    RESTORE_REFUSED(e[2], RP_E_ARG, "the context was saved with the passes '', the engine has '-norm'");
    RESTORE_REFUSED(e[3], RP_E_ARG, "the context was saved with a model with the fingerprint '");
    for (int i = 0; i < 4; i++) rp_engine_free(e[i]);
    RpEngine *own = open_engine(m, (RpEngineOptions){.block = 64});
    OK(rp_engine_restore(own, path, &list, &n_kept, NULL)); /* the file has no blocks */
    cr_expect(n_kept == 64 && list.n == 96, "%d of %zu", n_kept, list.n);
    save(own, text, N_TEXT, NULL);
    strcpy(path, GOLDEN_DIR "tiny/llama-f32.gguf");
    REFUSED(rp_engine_save(own, &list, NULL, path), RP_E_ARG, "the file is no context: it was not replaced");
    REFUSED(rp_engine_restore(own, path, &list, &n_kept, NULL), RP_E_FORMAT, "the file is no context");
    cr_expect_eq(list.n, 96);
    rp_token_list_free(&list);
    rp_engine_free(own);
    rp_model_free(m), rp_model_free(foreign);
}

/* Every 31st byte with a bit turned. */
Test(engine_context, a_damaged_file_is_refused) {
    enum { ROOM = 1 << 20 };
    RpModel    *m = golden_open_tiny("qwen35-mix");
    int32_t     text[N_CTX];
    RpTokenList list     = {0};
    int32_t     n_kept   = -1;
    char       *p        = malloc(ROOM);
    int         n_missed = 0;
    save_turn(m, (RpEngineOptions){.n_mtp = -1}, text);
    RpEngine    *e = open_engine(m, (RpEngineOptions){.n_mtp = -1});
    FILE        *f = fopen(path, "rb");
    const size_t n = fread(p, 1, ROOM, f);
    fclose(f);
    cr_assert_lt(n, (size_t)ROOM);
    for (size_t i = 0; i < n; i += i < 4000 ? 31 : 997) {
        p[i] = (char)(p[i] ^ (1 << i % 8));
        hf_write("a.context", p, n);
        const RpStatus st = rp_engine_restore(e, path, &list, &n_kept, NULL);
        p[i]              = (char)(p[i] ^ (1 << i % 8));
        if (st != RP_OK) {
            cr_expect(list.n == 0 && rp_engine_stats(e).kept == 0, "byte %zu", i);
            continue;
        }
        cr_expect_eq(p[i], 0, "byte %zu of %zu was not found", i, n); /* padding behind a tensor has no checksum */
        n_missed++;
        rp_token_list_free(&list);
        rp_engine_free(e);
        e = open_engine(m, (RpEngineOptions){.n_mtp = -1});
    }
    cr_expect_lt(n_missed, 16, "%d damages were not found", n_missed);
    hf_write("a.context", p, n);
    OK(rp_engine_restore(e, path, &list, &n_kept, NULL));
    rp_token_list_free(&list);
    free(p);
    rp_engine_free(e);
    rp_model_free(m);
}
#endif
