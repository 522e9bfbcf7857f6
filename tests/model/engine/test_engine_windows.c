/* Layers with a window have fewer blocks than a text has: replies are those of sessions, whose caches have all
 * positions; prefixes are found at the ends of texts and where texts parted; contexts in files have the window alone.
 * cudasim_engine_windows is the same on the simulated device, where an engine with room for whole texts is the
 * reference. */
#include "tests/support/case.h"
#include "tests/support/golden_numbers.h"
#include "tests/support/hf_folder.h"

#include "model/context/context.h"
#include "model/engine/engine.h"

#ifdef RP_TEST_CUDA
static const char        device[] = "cuda";
static const char *const files[]  = {"gemma3-mix"};
enum { N_REQUESTS = 3, MOST_PROMPT = 140, REPLIES_ARE_KEPT = 0, INTERRUPTS = 0 };
#else
static const char        device[] = "cpu";
static const char *const files[]  = {"gemma3-mix", "gemma4-mix", "gpt-oss-mxfp4", "olmo3-mix", "lfm2-window"};
enum { N_REQUESTS = 24, MOST_PROMPT = 400, REPLIES_ARE_KEPT = 1, INTERRUPTS = 1 };
#endif
enum {
    N_FILES = sizeof files / sizeof files[0],
    N_CTX   = 512,
    BLOCK   = 32,
    STEP    = 32,
    N_REPLY = 20,
    WINDOW  = 8,
    OF_ONE  = 10,
    LOST    = BLOCK
};

static RpEngine *open_engine(const RpModel *m, RpEngineOptions o) {
    RpEngine *e;
    if (o.n_ctx == 0) o.n_ctx = N_CTX;
    if (o.n_seq == 0) o.n_seq = 1;
    if (o.step_tokens == 0) o.step_tokens = STEP;
    o.n_threads = 1;
    o.device    = device;
    OK(rp_engine_open(m, &o, &e));
    return e;
}

static RpSampler *sampler_of(const RpModel *m, int i) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    p.seed        = (uint64_t)i;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

/* All window blocks are free or belong to a published block, and no request reads one. */
static void nothing_is_lost(const RpEngine *e) {
    int32_t n_owned = 0, n_windows = 0;
    for (int32_t i = 0; i < e->windows.n; i++) {
        cr_expect_eq(e->windows.readers[i], 0, "window block %d has %d readers", i, e->windows.readers[i]);
        if (e->windows.owner[i] == BLOCK_NONE) continue;
        n_owned++;
        cr_expect_eq(e->blocks.all[e->windows.owner[i]].window, i, "window block %d is of another block", i);
    }
    for (int32_t i = 0; i < e->blocks.n; i++) n_windows += e->blocks.all[i].window != WINDOW_NONE;
    cr_expect_eq(n_owned, n_windows, "%d of %d", n_owned, n_windows);
    cr_expect_eq(e->windows.n_free + n_owned, e->windows.n, "%d free, %d owned", e->windows.n_free, n_owned);
    const RpEngineStats stats = rp_engine_stats(e);
    cr_expect(stats.n_window_blocks == e->windows.n && stats.window_used == 0 && stats.window_kept == n_owned,
              "%d window blocks, %d used, %d kept, and %d are owned", stats.n_window_blocks, stats.window_used,
              stats.window_kept, n_owned);
}

static void make_tokens(const RpModel *m, int32_t *to, int32_t n, int32_t seed) {
    for (int32_t i = 0; i < n; i++) to[i] = 3 + (i * 7 + i * i + seed * (i + 5)) % (rp_model_info(m)->n_vocab - 3);
}

/* Runs a request and appends its reply to `tokens`. Returns how much of its prompt was found in the cache. */
static int32_t reply_of(RpEngine *e, int32_t *tokens, int32_t n, int32_t n_reply) {
    RpSampler      *sampler = sampler_of(rp_engine_model(e), 0);
    RpEngineEvent   v       = {0};
    uint64_t        id;
    const RpRequest r = {
        .prompt = tokens, .n_prompt = (size_t)n, .sampler = sampler, .max_tokens = n_reply, .ignore_end = true};
    OK(rp_engine_add(e, &r, &id));
    while (rp_engine_pending(e) > 0) {
        OK(rp_engine_step(e));
        if (rp_engine_pending(e) > 0) cr_expect_gt(rp_engine_stats(e).window_used, 0, "after %d tokens", n);
        while (rp_engine_poll(e, &v)) tokens[n++] = v.token;
    }
    cr_assert_eq(v.status, RP_OK, "%s", v.error);
    nothing_is_lost(e);
    rp_sampler_free(sampler);
    return v.n_cached;
}

static int32_t reply(RpEngine *e, int32_t *tokens, int32_t n) { return reply_of(e, tokens, n, N_REPLY); }

/* ---- memory ---- */

Test(engine_windows, their_bytes_do_not_grow_with_the_text) {
    enum { WITH_WINDOW = 6, WITHOUT = 1, ROW = 2 * 2 * 16 * 2 /* keys and values of 2 heads of 16 in f16 */ };
    RpModel       *m = golden_open_tiny("gemma3-mix"), *no_window = golden_open_tiny("llama-mix");
    RpEngineMemory memory;
    for (int32_t n_ctx = 128; n_ctx <= 512; n_ctx *= 2) {
        const RpEngineOptions o        = {.n_ctx = n_ctx, .n_seq = 1, .step_tokens = STEP, .device = device};
        const int32_t         n_blocks = n_ctx / BLOCK, n_windows = n_blocks < OF_ONE ? n_blocks : OF_ONE;
        OK(rp_engine_memory(m, &o, &memory));
        cr_expect_eq(memory.n_blocks, n_blocks, "%d for %d positions", memory.n_blocks, n_ctx);
        cr_expect_eq(memory.n_window_blocks, n_windows, "%d for %d positions", memory.n_window_blocks, n_ctx);
        cr_expect_eq(memory.kv, (size_t)(WITH_WINDOW * n_windows + WITHOUT * n_blocks) * BLOCK * ROW, "%zu for %d",
                     memory.kv, n_ctx);
    }
    OK(rp_engine_memory(no_window, NULL, &memory));
    cr_expect_eq(memory.n_window_blocks, 0);
    rp_model_free(m), rp_model_free(no_window);
}

/* ---- replies ---- */

typedef struct Case {
    int32_t    tokens[N_CTX + 1], got[N_CTX + 1]; /* prompt and reply */
    int32_t    n_prompt, n, n_got;
    RpSampler *sampler;
    uint64_t   id;
} Case;

/* Texts that begin with a part of a common one, and next turns. */
static void make_case(const RpModel *m, Case *c, int i) {
    c->n_prompt = N_REQUESTS < 5 ? MOST_PROMPT - 40 * (N_REQUESTS - 1 - i) : 1 + i * 97 % MOST_PROMPT;
    make_tokens(m, c->tokens, c->n_prompt, N_REQUESTS < 5 ? 0 : i % 5);
    if (N_REQUESTS >= 5 && i % 3 == 1) { /* goes on with the text before */
        memcpy(c->tokens, c[-1].tokens, (size_t)c[-1].n * sizeof *c->tokens);
        c->n_prompt = c[-1].n + 30 < N_CTX - N_REPLY ? c[-1].n + 30 : c[-1].n_prompt;
        if (c->n_prompt > c[-1].n) make_tokens(m, c->tokens + c[-1].n, 30, i);
    }
}

#ifdef RP_TEST_CUDA
/* The request alone, in an engine with as many window blocks as blocks. */
static void run_alone(const RpModel *m, Case *c, int i) {
    RpEngine       *e       = open_engine(m, (RpEngineOptions){.step_tokens = N_CTX});
    RpSampler      *sampler = sampler_of(m, i);
    RpEngineEvent   v;
    uint64_t        id;
    const RpRequest r = {.prompt     = c->tokens,
                         .n_prompt   = (size_t)c->n_prompt,
                         .sampler    = sampler,
                         .max_tokens = N_REPLY,
                         .ignore_end = true};
    cr_assert_eq(e->windows.n, e->blocks.n);
    OK(rp_engine_add(e, &r, &id));
    for (c->n = c->n_prompt; rp_engine_pending(e) > 0;) {
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) c->tokens[c->n++] = v.token;
    }
    rp_sampler_free(sampler);
    rp_engine_free(e);
}
#else
/* The request alone, in a session. */
static void run_alone(const RpModel *m, Case *c, int i) {
    RpSession *s;
    RpSampler *sampler = sampler_of(m, i);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &s));
    OK(rp_session_prefill(s, c->tokens, (size_t)c->n_prompt, NULL, NULL));
    for (int32_t k = 0; k < c->n_prompt; k++) rp_sampler_accept(sampler, c->tokens[k]);
    for (c->n = c->n_prompt; c->n < c->n_prompt + N_REPLY;) {
        OK(rp_sampler_sample(sampler, rp_session_logits(s), &c->tokens[c->n]));
        OK(rp_session_step(s, c->tokens[c->n++]));
    }
    rp_sampler_free(sampler);
    rp_session_free(s);
}
#endif

/* Requests come while others run. With little cache they interrupt each other. */
static void run_together(const RpModel *m, Case *cases, RpEngineOptions o, const char *name) {
    RpEngine     *e     = open_engine(m, o);
    int           added = 0;
    RpEngineEvent v;
    cr_assert_lt(e->windows.n, e->blocks.n, "%s: %d window blocks", name, e->windows.n);
    for (int step = 0; added < N_REQUESTS || rp_engine_pending(e) > 0; step++) {
        for (int k = 0; k < 1 + step % 3 && added < N_REQUESTS && step % 4 == 0; k++, added++) {
            Case           *c = &cases[added];
            const RpRequest r = {.prompt   = c->tokens,
                                 .n_prompt = (size_t)c->n_prompt,
                                 .sampler = c->sampler = sampler_of(m, added),
                                 .max_tokens           = N_REPLY,
                                 .ignore_end           = true,
                                 .n_draft              = added % 4,
                                 .priority             = added % 7 == 3};
            c->n_got          = c->n_prompt;
            OK(rp_engine_add(e, &r, &c->id));
        }
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            int i = 0;
            while (cases[i].id != v.id) i++;
            cr_assert_eq(v.status, RP_OK, "%s", v.error);
            cases[i].got[cases[i].n_got++] = v.token;
        }
    }
    nothing_is_lost(e);
    for (int i = 0; i < N_REQUESTS; i++) {
        const size_t n = (size_t)N_REPLY * sizeof(int32_t);
        cr_expect_eq(cases[i].n_got, cases[i].n, "%s: request %d has %d tokens", name, i, cases[i].n_got);
        cr_expect_arr_eq(cases[i].got + cases[i].n_prompt, cases[i].tokens + cases[i].n_prompt, n,
                         "%s: request %d has another reply", name, i);
        rp_sampler_free(cases[i].sampler);
    }
    cr_expect_gt(rp_engine_stats(e).cached, 0, "%s", name);
    if (o.cache_tokens > 0) cr_expect_gt(rp_engine_stats(e).preempted, 0, "%s", name);
    rp_engine_free(e);
}

Test(engine_windows, replies_do_not_depend_on_them) {
    for (size_t k = 0; k < N_FILES; k++) {
        RpModel *m     = golden_open_tiny(files[k]);
        Case    *cases = calloc(N_REQUESTS, sizeof *cases);
        cr_assert_not_null(cases, "%s", files[k]);
        for (int i = 0; i < N_REQUESTS; i++) {
            make_case(m, &cases[i], i);
            run_alone(m, &cases[i], i);
        }
        run_together(m, cases, (RpEngineOptions){.n_seq = 3}, files[k]);
        if (INTERRUPTS) run_together(m, cases, (RpEngineOptions){.n_seq = 3, .cache_tokens = 2 * N_CTX}, files[k]);
        free(cases);
        rp_model_free(m);
    }
}

/* The first guesses of an assistant, which reads the caches of the model, behind a text. */
static int32_t first_guesses(RpEngine *e, int32_t *text, int32_t n, int32_t *guesses) {
    RpSampler      *sampler = sampler_of(rp_engine_model(e), 0);
    int32_t         found   = 0;
    uint64_t        id;
    const RpRequest r = {
        .prompt = text, .n_prompt = (size_t)n, .sampler = sampler, .max_tokens = 8, .ignore_end = true, .n_draft = 5};
    OK(rp_engine_add(e, &r, &id));
    while (rp_engine_pending(e) > 0 && found == 0) {
        OK(rp_engine_step(e));
        if (e->n_running > 0) found = e->running[0]->n_guess;
        if (found > 0) memcpy(guesses, e->running[0]->guess, (size_t)found * sizeof *guesses);
    }
    rp_engine_free(e);
    rp_sampler_free(sampler);
    return found;
}

Test(engine_windows, an_assistant_guesses_the_same) {
    RpModel *m = golden_open_tiny("gemma4-mix"), *a = golden_open_tiny("../assistant/gemma4-mix");
    int32_t  text[N_CTX], few[MAX_DRAFT], all[MAX_DRAFT];
    for (int32_t n = 60; n <= MOST_PROMPT; n += 50) {
        make_tokens(m, text, n, n);
        const int32_t n_all =
            first_guesses(open_engine(m, (RpEngineOptions){.draft = a, .step_tokens = N_CTX}), text, n, all);
        RpEngine *e = open_engine(m, (RpEngineOptions){.draft = a});
        cr_assert_lt(e->windows.n, e->blocks.n, CASE(n));
        cr_expect_eq(first_guesses(e, text, n, few), n_all, CASE(n));
        cr_assert_gt(n_all, 0, "after %d tokens", n);
        cr_expect_arr_eq(few, all, (size_t)n_all * sizeof *all, "after %d tokens", n);
    }
    rp_model_free(a), rp_model_free(m);
}

/* ---- prefixes ---- */

#ifndef RP_TEST_CUDA
/* Room for the blocks of all texts, and window blocks for a few. */
static RpEngine *open_roomy(const RpModel *m) {
    RpEngine *e = open_engine(m, (RpEngineOptions){.cache_tokens = 4096});
    cr_assert_eq(e->windows.n, OF_ONE);
    return e;
}

/* A text that needs all window blocks. */
static void fill(RpEngine *e, int32_t seed) {
    int32_t text[N_CTX];
    make_tokens(rp_engine_model(e), text, 450, seed);
    cr_expect_eq(reply(e, text, 450), 0);
}

Test(engine_windows, the_next_turn_is_found_after_other_texts) {
    RpModel  *m = golden_open_tiny("gemma3-mix");
    RpEngine *e = open_roomy(m);
    int32_t   text[N_CTX];
    make_tokens(m, text, 200, 0);
    cr_expect_eq(reply(e, text, 200), 0);
    fill(e, 1);
    make_tokens(m, text + 220, 30, 9);
    cr_expect_eq(reply(e, text, 250), 219 / BLOCK * BLOCK, "the end of the first turn");
    fill(e, 2);
    make_tokens(m, text + 250, 30, 11);
    cr_expect_eq(reply(e, text, 280), 250 / BLOCK * BLOCK, "the end of the second prompt: its reply was replaced");
    rp_engine_free(e);
    rp_model_free(m);
}

Test(engine_windows, the_third_text_that_parts_at_a_place_is_found_there) {
    enum { COMMON = 260 };
    RpModel  *m = golden_open_tiny("gemma3-mix");
    RpEngine *e = open_roomy(m);
    int32_t   text[N_CTX];
    for (int32_t turn = 0; turn < 3; turn++) {
        make_tokens(m, text, COMMON, 0);
        make_tokens(m, text + COMMON, 100, 20 + turn);
        cr_expect_eq(reply(e, text, COMMON + 100), turn < 2 ? 0 : COMMON / BLOCK * BLOCK, "turn %d", turn);
        fill(e, 30 + turn);
    }
    rp_engine_free(e);
    rp_model_free(m);
}
#endif

/* ---- other windows ---- */

#ifndef RP_TEST_CUDA
/* A tiny model with another value of `key`, which lies `behind` bytes behind the name. The caller frees *data after the
 * model. */
static RpModel *open_with(const char *name, const char *key, size_t behind, const void *value, size_t bytes,
                          char **data) {
    size_t   n;
    RpModel *m;
    *data    = golden_read_tiny(name, &n);
    char *at = memmem(*data, n, key, strlen(key));
    cr_assert_not_null(at, "%s", key);
    memcpy(at + strlen(key) + behind, value, bytes);
    OK(rp_model_open_memory(*data, n, "m.gguf", &m));
    return m;
}

static RpModel *open_with_window(uint32_t window, char **data) {
    return open_with("gemma3-mix", "gemma3.attention.sliding_window", 4, &window, sizeof window, data);
}

Test(engine_windows, replies_do_not_depend_on_their_length) {
    static const uint32_t windows[] = {1, 2, 33, 64, 65};
    for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
        char    *data, name[32];
        RpModel *m     = open_with_window(windows[k], &data);
        Case    *cases = calloc(N_REQUESTS, sizeof *cases);
        cr_assert_not_null(cases, CASE(k));
        snprintf(name, sizeof name, "window %u", windows[k]);
        for (int i = 0; i < N_REQUESTS; i++) {
            make_case(m, &cases[i], i);
            run_alone(m, &cases[i], i);
        }
        run_together(m, cases, (RpEngineOptions){.n_seq = 3}, name);
        free(cases);
        rp_model_free(m);
        free(data);
    }
}

Test(engine_windows, a_model_may_have_no_other_layers) {
    static const uint8_t all[5] = {1, 1, 1, 1, 1};
    char                *data;
    RpModel   *m = open_with("gemma3-pattern", "gemma3.attention.sliding_window_pattern", 4 + 4 + 8, all, 5, &data);
    RpEngine  *e = open_engine(m, (RpEngineOptions){0});
    RpSession *s;
    int32_t    text[N_CTX], other[N_CTX];
    for (int i = 0; i < rp_model_info(m)->n_layer; i++)
        cr_assert_gt(rp_config_layer(&m->config, i).window, 0, "layer %d has no window", i);
    make_tokens(m, text, 300, 0);
    (void)reply(e, text, 300);
    rp_engine_free(e);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device, .window_tokens = 1},
                       &s));
    memcpy(other, text, sizeof text);
    OK(rp_session_prefill(s, other, 300, NULL, NULL));
    RpSampler *sampler = sampler_of(m, 0);
    for (int32_t i = 300; i < 300 + N_REPLY; i++) {
        OK(rp_sampler_sample(sampler, rp_session_logits(s), &other[i]));
        cr_expect_eq(other[i], text[i], CASE(i));
        OK(rp_session_step(s, other[i]));
    }
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
    free(data);
}

Test(engine_windows, a_window_may_be_longer_than_all_texts) {
    char          *data;
    RpModel       *m = open_with_window(INT32_MAX, &data);
    RpEngineMemory memory;
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = 64, .step_tokens = 64, .device = device},
                        &memory));
    cr_expect_eq(memory.n_window_blocks, memory.n_blocks, "%d for %d", memory.n_window_blocks, memory.n_blocks);
    rp_model_free(m);
    free(data);
}
#endif

/* ---- files ---- */

static char path[128];

static void setup(void) {
    hf_begin();
    snprintf(path, sizeof path, "%s/a.context", folder);
}

TestSuite(engine_windows, .init = setup, .fini = hf_end);

static void save(const RpEngine *e, const int32_t *tokens, int32_t n) {
    RpTokenList list = {0};
    for (int32_t i = 0; i < n; i++) OK(rp_token_list_push(&list, tokens[i]));
    OK(rp_engine_save(e, &list, NULL, path));
    rp_token_list_free(&list);
}

/* Positions that a cache has in the file. */
static int64_t rows_in_file(const char *name) {
    RpGgufFile *f;
    OK(rp_gguf_open(path, &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    cr_assert_not_null(t, "%s", name);
    const int64_t n = t->view.ne[1];
    rp_gguf_close(f);
    return n;
}

/* A file of a text, of which the engine has the first `n` tokens in whole blocks. Its reply ends in block OF_ONE, so
 * that layers with a window have lost the first one. */
static int32_t save_text(const RpModel *m, int32_t *text, int32_t n_prompt) {
    const int32_t n = (REPLIES_ARE_KEPT ? n_prompt + N_REPLY - 1 : n_prompt) / BLOCK * BLOCK;
    RpEngine     *e = open_engine(m, (RpEngineOptions){0});
    make_tokens(m, text, n_prompt, 3);
    (void)reply(e, text, n_prompt);
    save(e, text, n_prompt + N_REPLY);
    rp_engine_free(e);
    cr_expect_eq(rows_in_file("k.5"), n, "the layer without a window");
    cr_expect_eq(rows_in_file("k.0"), n - LOST, "the blocks that the engine still has");
    return n;
}

Test(engine_windows, a_file_has_what_the_cache_still_has) {
    enum { N_PROMPT = OF_ONE * BLOCK + 10, N_PARTS = 200 };
    RpModel      *m = golden_open_tiny("gemma3-mix");
    int32_t       text[N_CTX], other[N_CTX], n_kept = -1;
    RpTokenList   list = {0};
    const int32_t n    = save_text(m, text, N_PROMPT);
    RpEngine     *a = open_engine(m, (RpEngineOptions){0}), *b = open_engine(m, (RpEngineOptions){0});
    memcpy(other, text, sizeof text);
    for (int i = 0; i < 2; i++) { /* also where the cache has it already */
        OK(rp_engine_restore(b, path, &list, &n_kept, NULL));
        cr_expect_eq(n_kept, n, "%d tokens", n_kept);
        nothing_is_lost(b);
    }
    cr_expect_eq(reply(a, text, N_PROMPT + N_REPLY), 0);
    cr_expect_eq(reply(b, other, N_PROMPT + N_REPLY), n);
    cr_expect_arr_eq(other, text, (N_PROMPT + 2 * N_REPLY) * sizeof *text);
    rp_engine_free(b);
    b = open_engine(m, (RpEngineOptions){0});
    OK(rp_engine_restore(b, path, &list, &n_kept, NULL));
    cr_expect_eq(reply(b, other, N_PARTS), N_PARTS / BLOCK * BLOCK, "a text that parts before the end");
    rp_engine_free(b);
    b = open_engine(m, (RpEngineOptions){.block = 2 * BLOCK});
    OK(rp_engine_restore(b, path, &list, &n_kept, NULL));
    cr_expect_eq(n_kept, n / (2 * BLOCK) * 2 * BLOCK, "%d tokens in larger blocks", n_kept);
    rp_token_list_free(&list);
    rp_engine_free(a), rp_engine_free(b);
    rp_model_free(m);
}

#ifndef RP_TEST_CUDA
Test(engine_windows, a_session_does_not_rewind_to_where_a_file_has_no_window) {
    enum { N_PROMPT = OF_ONE * BLOCK + 10, FIRST = LOST };
    RpModel               *m = golden_open_tiny("gemma3-mix");
    int32_t                text[N_CTX];
    RpTokenList            list = {0};
    RpSession             *a, *b;
    const int32_t          n = save_text(m, text, N_PROMPT), n_vocab = rp_model_info(m)->n_vocab;
    const RpSessionOptions o = {.n_ctx = N_CTX, .n_threads = 1, .device = device};
    OK(rp_session_open(m, &o, &a));
    OK(rp_session_open(m, &o, &b));
    OK(rp_session_prefill(a, text, (size_t)n, NULL, NULL));
    for (int i = 0; i < 2; i++) { /* the second time from a file of the session */
        OK(rp_session_restore(b, path, &list, NULL));
        cr_assert_eq(rp_session_n_past(b), n, CASE(i));
        cr_expect_eq(rp_session_rewind_point(b, n), n, CASE(i));
        cr_expect_eq(rp_session_rewind_point(b, FIRST + WINDOW - 1), FIRST + WINDOW - 1, CASE(i));
        cr_expect_eq(rp_session_rewind_point(b, FIRST + WINDOW - 2), 0, CASE(i));
        REFUSED(rp_session_rewind(b, FIRST + WINDOW - 2), RP_E_NOT_AVAILABLE,
                "rewind to 38: layers with a window have the positions from 32 on, the nearest before it is 0");
        OK(rp_session_save(b, &list, NULL, path));
        cr_expect_eq(rows_in_file("k.0"), n - FIRST, CASE(i));
    }
    for (int32_t to = FIRST + WINDOW - 1; to < n; to += 5) {
        OK(rp_session_rewind(a, to));
        OK(rp_session_rewind(b, to));
        OK(rp_session_prefill(a, text + to, (size_t)(n - to), NULL, NULL));
        OK(rp_session_prefill(b, text + to, (size_t)(n - to), NULL, NULL));
        cr_expect_arr_eq(rp_session_logits(b), rp_session_logits(a), (size_t)n_vocab * sizeof(float), "from %d", to);
    }
    OK(rp_session_rewind(b, 0));
    OK(rp_session_prefill(b, text, 50, NULL, NULL));
    cr_expect_eq(rp_session_rewind_point(b, 20), 20, "a text of its own has all positions");
    rp_token_list_free(&list);
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

/* The cache may have a part of the window that a context needs. */
Test(engine_windows, a_context_is_found_whatever_the_cache_had_of_it) {
    enum { N_PROMPT = 200, FOUND = N_PROMPT / BLOCK * BLOCK };
    char       *data;
    RpModel    *m = open_with_window(64, &data);
    int32_t     text[N_CTX], other[N_CTX], n_kept;
    RpTokenList list = {0};
    RpEngine   *e    = open_engine(m, (RpEngineOptions){.cache_tokens = 8192});
    make_tokens(m, text, N_PROMPT, 3);
    (void)reply(e, text, N_PROMPT);
    save(e, text, N_PROMPT);
    for (int32_t k = 0; k < 24; k++) {
        memcpy(other, text, sizeof text); /* a longer text, of which the context is the inside */
        make_tokens(m, other + N_PROMPT, 100, k);
        (void)reply(e, other, N_PROMPT + 100);
        for (int32_t i = 0; i < k; i++) { /* each takes one window block of it, the oldest */
            make_tokens(m, other, BLOCK, 40 + 24 * k + i);
            (void)reply_of(e, other, BLOCK, 1);
        }
        OK(rp_engine_restore(e, path, &list, &n_kept, NULL));
        cr_expect_eq(n_kept, FOUND, CASE(k, n_kept));
        nothing_is_lost(e);
        memcpy(other, text, sizeof text);
        cr_expect_eq(reply(e, other, N_PROMPT), FOUND, CASE(k));
    }
    rp_token_list_free(&list);
    rp_engine_free(e);
    rp_model_free(m);
    free(data);
}

/* A file of one that begins behind the window is not written by the library. */
Test(engine_windows, a_file_without_the_whole_window_is_refused) {
    enum { N = 40 };
    RpModel    *m = golden_open_tiny("gemma3-mix");
    int32_t     text[N];
    RpTokenList list = {0};
    RpSession  *s;
    make_tokens(m, text, N, 0);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .n_threads = 1, .device = device}, &s));
    OK(rp_session_prefill(s, text, N, NULL, NULL));
    const Runner *r = &s->runners[s->n_runners - 1];
    ContextPlace  p = {.owner    = "session",
                       .model    = m,
                       .passes   = s->passes,
                       .graph    = r->graph,
                       .executor = r->executor,
                       .n_ctx    = N_CTX};
    p.window_from   = N - WINDOW + 2;
    OK(rp_context_write(&p, text, N, NULL, path));
    REFUSED(rp_session_restore(s, path, &list, NULL), RP_E_FORMAT,
            "context.window_from is 34 of 40 tokens: the window of the model is 8");
    p.window_from--;
    OK(rp_context_write(&p, text, N, NULL, path));
    OK(rp_session_restore(s, path, &list, NULL));
    rp_token_list_free(&list);
    rp_session_free(s);
    rp_model_free(m);
}
#endif
