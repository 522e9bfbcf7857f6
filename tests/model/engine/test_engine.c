/* Engines on tiny models of every family. The reference is a session that runs each request alone, one token at a time
 * with one thread: the tokens and all logits of a request must be the same bits, whatever runs beside it (I8).
 * cudasim_engine is the same on the simulated device. There the reference is an engine that has the request alone: a
 * session computes prompts in other plans. */
#include "tests/support/golden.h"

#include "model/engine/engine.h"

#include "reprise/cpu.h"

#ifdef RP_TEST_CUDA
#include "sim/device/sim.h"

#ifdef RP_TEST_GPU
enum { COUNTS_LAUNCHES = 0 }; /* only the simulated device does */
#else
enum { COUNTS_LAUNCHES = 1 };
#endif

static const char        device[] = "cuda";
static const char *const files[]  = {"llama-mix-k", "gpt-oss-mxfp4", "deepseek2-mix", "qwen35-mix", "falcon-h1-mix"};
enum {
    EVERY_FILE    = 1,
    FIRST_OPTIONS = 1,
    END_OPTIONS   = 2,
    N_REQUESTS    = 5,
    N_CTX         = 100,
    MORE_CACHE    = 0,
    N_NEIGHBOURS  = 0
};

/* Few and long enough for prefixes of a block, interruptions and dropped blocks. */
static const struct {
    size_t  n_prompt, common;
    int32_t max_tokens;
} sizes[N_REQUESTS] = {
    {45, 40, 22},
    {62, 0,  8 },
    {70, 10, 8 },
    {40, 40, 10},
    {50, 36, 20}
};
#else
static const char        device[] = "cpu";
static const char *const files[] = {"llama-mix",     "llama-mix-k",   "qwen3-mix",      "gemma3-mix",   "mixtral-mix-k",
                                    "gpt-oss-mxfp4", "deepseek2-mix", "qwen35-mix",     "lfm2-mix",     "gemma4-mix",
                                    "falcon-h1-mix", "granite-nope",  "nemotron_h-mix", "qwen3next-mix"};

#ifdef RP_TEST_SLOW
enum { EVERY_FILE = 4, ONLY_BEST_ISA = 1 };
#else
enum { EVERY_FILE = 1, ONLY_BEST_ISA = 0 };
#endif
enum { FIRST_OPTIONS = 0, END_OPTIONS = 3, N_REQUESTS = 8, N_CTX = 200, MORE_CACHE = 64, N_NEIGHBOURS = 2 };
#endif
enum { N_FILES = sizeof files / sizeof files[0] };

typedef struct Case {
    int32_t         prompt[N_CTX], tokens[N_CTX + 1]; /* tokens: prompt and reply, by the session */
    size_t          n_prompt;
    int32_t         n_tokens, max_tokens, n_draft, priority;
    RpSamplerParams params;
    float          *logits;           /* [n_tokens][n_vocab]: after each token but the last of the reply, */
    bool            known[N_CTX + 1]; /* as far as the reference has them */
    int32_t         got[N_CTX + 1], n_got;
    RpSampler      *sampler;
    uint64_t        id;
    const Request  *request;
    bool            ended;
} Case;

static int n_cancelled; /* neighbours, in all runs */

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

/* Prompts of 1 to 100 tokens. Most begin with a part of a common text; some repeat themselves, so that guesses are
 * right. */
static void make_case(Case *c, int i, int32_t n_vocab, uint32_t *random) {
#ifdef RP_TEST_CUDA
    *c                  = (Case){.n_prompt = sizes[i].n_prompt, .max_tokens = sizes[i].max_tokens};
    const size_t common = sizes[i].common;
#else
    *c = (Case){.n_prompt = 1 + next_random(random) % 100, .max_tokens = 1 + (int32_t)(next_random(random) % 40)};
    const size_t common = next_random(random) % 120;
#endif
    for (size_t k = 0; k < c->n_prompt; k++) {
        const uint32_t r = k < common ? (uint32_t)k * 2654435761u >> 8 : next_random(random);
        c->prompt[k]     = (int32_t)(r % (uint32_t)(n_vocab - 3)) + 3;
        if (i % 3 == 2 && k >= 20) c->prompt[k] = c->prompt[k - 10];
    }
    if (i % 4 == 1) { /* the next turn of the request before */
        memcpy(c->prompt, c[-1].prompt, c[-1].n_prompt * sizeof *c->prompt);
        if (c->n_prompt <= c[-1].n_prompt) c->n_prompt = c[-1].n_prompt + 20;
    }
    c->params             = rp_sampler_defaults();
    c->params.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    c->params.seed        = (uint64_t)i;
    c->n_draft            = i % 3 == 1 ? 0 : 1 + i % 5;
    c->priority           = i % 4 == 3;
}

static void begin_reference(Case *c, int32_t n_vocab) {
    c->logits = malloc((size_t)(N_CTX + 1) * (size_t)n_vocab * sizeof(float));
    cr_assert_not_null(c->logits);
    memcpy(c->tokens, c->prompt, c->n_prompt * sizeof *c->tokens);
    c->n_tokens = (int32_t)c->n_prompt;
}

#ifdef RP_TEST_CUDA
/* The request alone in an engine, without guesses. */
static void run_alone(Case *c, const RpModel *m, RpDtype kv_type) {
    const int32_t         n_vocab = rp_model_info(m)->n_vocab;
    const RpEngineOptions o       = {
              .n_ctx = N_CTX, .n_seq = 1, .step_tokens = 64, .kv_type = kv_type, .n_mtp = -1, .device = device};
    RpRequest     r = {.prompt = c->prompt, .n_prompt = c->n_prompt, .max_tokens = c->max_tokens, .ignore_end = true};
    RpEngine     *e;
    RpEngineEvent v;
    uint64_t      id;
    OK(rp_engine_open(m, &o, &e));
    OK(rp_sampler_new(&c->params, n_vocab, &c->sampler));
    r.sampler = c->sampler;
    begin_reference(c, n_vocab);
    OK(rp_engine_add(e, &r, &id));
    for (bool end = false; !end;) {
        OK(rp_engine_step(e));
        const Column *last = &e->columns[e->n_columns - 1];
        if (last->output) {
            memcpy(c->logits + (size_t)last->pos * (size_t)n_vocab, last->logits, (size_t)n_vocab * sizeof(float));
            c->known[last->pos] = true;
        }
        while (rp_engine_poll(e, &v)) {
            cr_assert_eq(v.status, RP_OK, "%s", v.error);
            c->tokens[c->n_tokens++] = v.token;
            end                      = v.end;
        }
    }
    rp_engine_free(e);
}
#else
/* The request alone. */
static void run_alone(Case *c, const RpModel *m, RpDtype kv_type) {
    const int32_t          n_vocab = rp_model_info(m)->n_vocab;
    const RpSessionOptions o       = {.n_ctx = N_CTX, .n_threads = 1, .prefill_chunk = 1, .kv_type = kv_type};
    RpSession             *s;
    OK(rp_session_open(m, &o, &s));
    OK(rp_sampler_new(&c->params, n_vocab, &c->sampler));
    begin_reference(c, n_vocab);
    for (size_t i = 0; i < c->n_prompt; i++) rp_sampler_accept(c->sampler, c->prompt[i]);
    for (int32_t i = 0; i < c->n_tokens; i++) {
        OK(rp_session_step(s, c->tokens[i]));
        memcpy(c->logits + (size_t)i * (size_t)n_vocab, rp_session_logits(s), (size_t)n_vocab * sizeof(float));
        c->known[i] = true;
        if (i + 1 < c->n_tokens || c->n_tokens == (int32_t)c->n_prompt + c->max_tokens) continue;
        if (rp_session_n_past(s) > N_CTX - 1) break;
        OK(rp_sampler_sample(c->sampler, rp_session_logits(s), &c->tokens[c->n_tokens++]));
    }
    rp_sampler_free(c->sampler);
    rp_session_free(s);
    OK(rp_sampler_new(&c->params, n_vocab, &c->sampler));
}
#endif

static void free_cases(Case *c, int n) {
    for (int i = 0; i < n; i++) free(c[i].logits), rp_sampler_free(c[i].sampler);
}

static void add(RpEngine *e, Case *c) {
    const RpRequest r = {.prompt     = c->prompt,
                         .n_prompt   = c->n_prompt,
                         .sampler    = c->sampler,
                         .max_tokens = c->max_tokens,
                         .ignore_end = true,
                         .priority   = c->priority,
                         .n_draft    = c->n_draft,
                         .user       = c};
    OK(rp_engine_add(e, &r, &c->id));
    c->request = e->waiting;
    while (c->request->id != c->id) c->request = c->request->next;
}

/* Compares the logits that a step asked for, but for those behind a wrong guess. */
static void compare_logits(const RpEngine *e, const Case *cases, int n, const char *name) {
    const size_t n_vocab = (size_t)rp_model_info(e->model)->n_vocab;
    for (int32_t i = 0; i < e->n_columns; i++) {
        const Column *at = &e->columns[i];
        if (!at->output) continue;
        for (int k = 0; k < n; k++) {
            const Case *c = &cases[k];
            if (c->request != at->request || at->pos >= c->n_tokens || c->tokens[at->pos] != at->token) continue;
            if (i > 0 && at[-1].request == at->request && c->tokens[at->pos - 1] != at[-1].token) continue;
            if (!c->known[at->pos]) continue;
            cr_expect_arr_eq(at->logits, c->logits + (size_t)at->pos * n_vocab, n_vocab * sizeof(float),
                             "%s: request %d, position %d, %d columns", name, k, at->pos, e->n_columns);
        }
    }
}

/* A request that was cancelled has the first tokens of what it has alone. */
static void take_events(RpEngine *e, const char *name) {
    RpEngineEvent v;
    while (rp_engine_poll(e, &v)) {
        Case *c = v.user;
        cr_expect_eq(v.status, RP_OK, "%s: %s", name, v.error);
        if (v.token >= 0) {
            cr_expect_eq(v.token, c->tokens[c->n_prompt + (size_t)c->n_got], "%s: token %d", name, c->n_got);
            c->got[c->n_got++] = v.token;
        }
        cr_expect_eq(v.n_generated, c->n_got, "%s: %d tokens, %d events", name, v.n_generated, c->n_got);
        if (v.end) c->ended = true, c->request = NULL;
    }
}

#ifdef RP_TEST_CUDA
/* Since sim_stats_reset: nothing is captured or allocated (I3, I9), and a step has at most two launches, beside those
 * of a drafter. */
static void check_launches(uint64_t steps, bool drafts, const char *name) {
    const SimStats s = sim_stats();
    cr_expect_eq(s.captures + s.instantiates + s.launch_calls, 0, "%s: captures, or launches of kernels", name);
    cr_expect_eq(s.allocs, 0, "%s: %lu allocations", name, s.allocs);
    cr_expect(s.graph_launches >= steps && (drafts || s.graph_launches <= 2 * steps), "%s: %lu launches in %lu steps",
              name, s.graph_launches, (unsigned long)steps);
}
#endif

/* Adds a neighbour that is not there, or cancels it, or neither. */
static void disturb(RpEngine *e, Case *c, uint32_t *random) {
    const bool there = c->request != NULL;
    if (next_random(random) % (there ? 8 : 16) != 0) return;
    if (there) {
        OK(rp_engine_cancel(e, c->id));
        n_cancelled++;
        return;
    }
    c->n_got = 0;
    rp_sampler_reset(c->sampler);
    add(e, c);
}

static bool all_ended(const Case *cases, int n) {
    int ended = 0;
    for (int i = 0; i < n; i++) ended += cases[i].ended;
    return ended == n;
}

/* Copies of some cases, with samplers of their own. */
static void make_neighbours(const RpModel *m, const Case *cases, int n, Case *neighbours) {
    for (int i = 0; i < N_NEIGHBOURS; i++) {
        neighbours[i] = cases[i * (n - 1)];
        OK(rp_sampler_new(&neighbours[i].params, rp_model_info(m)->n_vocab, &neighbours[i].sampler));
    }
}

/* Requests come at random times; beside them others come and are cancelled. */
static RpEngineStats run_all(const RpModel *m, RpEngineOptions o, Case *cases, int n, uint32_t random,
                             const char *name) {
    RpEngine *e;
    Case     *neighbours = calloc(N_NEIGHBOURS + 1, sizeof *neighbours);
    int       added      = 0;
    cr_assert_not_null(neighbours);
    make_neighbours(m, cases, n, neighbours);
    o.n_ctx  = N_CTX;
    o.device = device;
    OK(rp_engine_open(m, &o, &e));
    for (int i = 0; i < n; i++) {
        cases[i].n_got = 0, cases[i].ended = false;
        rp_sampler_reset(cases[i].sampler);
    }
#ifdef RP_TEST_CUDA
    cr_assert_eq(rp_engine_info(e).mode, RP_MODE_REPLAY, "%s", rp_engine_info(e).reason);
    sim_stats_reset();
#endif
    for (int step = 0; added < n || rp_engine_pending(e) > 0; step++) {
        cr_assert_lt(step, 20000, "%s: %zu requests do not end", name, rp_engine_pending(e));
        while (added < n && next_random(&random) % 4 == 0) add(e, &cases[added++]);
        for (int i = 0; i < N_NEIGHBOURS && !all_ended(cases, n); i++) disturb(e, &neighbours[i], &random);
        OK(rp_engine_step(e));
        compare_logits(e, cases, added, name);
        compare_logits(e, neighbours, N_NEIGHBOURS, name);
        take_events(e, name);
    }
    for (int i = 0; i < N_NEIGHBOURS; i++) rp_sampler_free(neighbours[i].sampler);
    free(neighbours);
    for (int i = 0; i < n; i++) {
        const Case *c = &cases[i];
        cr_expect(c->ended, "%s: request %d has no end", name, i);
        cr_assert_eq(c->n_got, c->n_tokens - (int32_t)c->n_prompt, "%s: request %d has %d tokens, alone %d", name, i,
                     c->n_got, c->n_tokens - (int32_t)c->n_prompt);
        cr_expect_arr_eq(c->got, c->tokens + c->n_prompt, (size_t)c->n_got * sizeof *c->got, "%s: request %d", name, i);
    }
    const RpEngineStats stats = rp_engine_stats(e);
#ifdef RP_TEST_CUDA
    if (COUNTS_LAUNCHES) check_launches(stats.steps, e->drafter.model != NULL, name);
#endif
    cr_expect_eq(stats.used, 0, "%s: %d blocks are still used", name, stats.used);
    rp_engine_free(e);
    return stats;
}

static Case *make_cases(const RpModel *m, RpDtype kv_type) {
    uint32_t random = 1234567u;
    Case    *cases  = calloc(N_REQUESTS, sizeof *cases);
    cr_assert_not_null(cases);
    for (int i = 0; i < N_REQUESTS; i++) {
        make_case(&cases[i], i, rp_model_info(m)->n_vocab, &random);
        run_alone(&cases[i], m, kv_type);
    }
    return cases;
}

/* Adds up the guesses and those that were right. */
static void check_file(const char *file, RpDtype kv_type, uint64_t guesses[2]) {
    RpModel        *m          = golden_open_tiny(file);
    Case           *cases      = make_cases(m, kv_type);
    RpEngineOptions options[3] = {
        {.n_threads = 1, .n_seq = 1, .step_tokens = 16}
    };
    options[1] = (RpEngineOptions){.n_threads = 3, .n_seq = 8, .step_tokens = 20, .cache_tokens = N_CTX + MORE_CACHE};
    options[2] =
        (RpEngineOptions){.n_threads = 2, .n_seq = 6, .cache_tokens = 2 * N_CTX, .block = 64, .state_bytes = 1};
    RpEngineStats sum = {0};
    for (size_t i = FIRST_OPTIONS; i < END_OPTIONS; i++) {
        char            name[96];
        RpEngineOptions o = options[i];
        o.kv_type         = kv_type;
        snprintf(name, sizeof name, "%s, options %zu", file, i);
        const RpEngineStats s = run_all(m, o, cases, N_REQUESTS, 99u + (uint32_t)i, name);
        sum.cached += s.cached, sum.preempted += s.preempted, sum.evicted += s.evicted;
        guesses[0] += s.drafted, guesses[1] += s.accepted;
    }
    cr_expect_gt(sum.cached, 0, "%s: no prefix was found", file);
    cr_expect_gt(sum.preempted, 0, "%s: no request gave its blocks up", file);
    cr_expect_gt(sum.evicted, 0, "%s: no block was dropped", file);
    free_cases(cases, N_REQUESTS);
    free(cases);
    rp_model_free(m);
}

Test(engine, requests_have_the_bits_that_they_have_alone) {
    uint64_t guesses[2] = {0, 0};
    for (int f = 0; f < N_FILES; f += EVERY_FILE) check_file(files[f], RP_F16, guesses);
    cr_expect_gt(guesses[1], 0, "no guess was right");
    cr_expect_gt(guesses[0], guesses[1], "every guess was right");
    cr_expect(N_NEIGHBOURS == 0 || n_cancelled > 20, "%d requests were cancelled", n_cancelled);
}

Test(engine, requests_have_the_bits_that_they_have_alone_with_a_q8_0_cache) {
    uint64_t guesses[2] = {0, 0};
    check_file("qwen3-f32", RP_Q8_0, guesses);
#ifndef RP_TEST_CUDA
    check_file("gpt-oss-mxfp4", RP_Q8_0, guesses);
#endif
}

#ifndef RP_TEST_CUDA
/* With weights as they are in the file, and repacked. The reference ran in the best variant. */
Test(engine, requests_have_these_bits_in_every_variant_of_the_cpu) {
    static const char *const of_variants[] = {"llama-mix-k", "qwen35-mix"}, *const repack[] = {"off", "on"};
    const RpCpuIsa best = rp_cpu_isa();
    for (size_t f = 0; f < sizeof of_variants / sizeof *of_variants; f++) {
        RpModel *m     = golden_open_tiny(of_variants[f]);
        Case    *cases = make_cases(m, RP_F16);
        for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
            if ((ONLY_BEST_ISA && (RpCpuIsa)isa != best) || rp_cpu_isa_set((RpCpuIsa)isa) != RP_OK) continue;
            for (int k = 0; k < 2; k++) {
                char                  name[96];
                const RpEngineOptions o = {.n_threads = 2, .n_seq = 4, .step_tokens = 20, .repack = repack[k]};
                snprintf(name, sizeof name, "%s, %s, repack %s", of_variants[f], rp_cpu_isa_name((RpCpuIsa)isa),
                         repack[k]);
                (void)run_all(m, o, cases, N_REQUESTS, 7u, name);
            }
        }
        OK(rp_cpu_isa_set(best));
        free_cases(cases, N_REQUESTS);
        free(cases);
        rp_model_free(m);
    }
}
#endif

#ifdef RP_TEST_CUDA
/* The model itself, whose guesses are right where sampling is greedy. */
Test(engine, a_draft_model_guesses_on_the_device) {
    enum { N = 2 };
    RpModel *m      = golden_open_tiny("llama-f32");
    uint32_t random = 7u;
    Case     cases[N];
    for (int i = 0; i < N; i++) {
        make_case(&cases[i], i, rp_model_info(m)->n_vocab, &random);
        cases[i].n_prompt = 20, cases[i].max_tokens = 12, cases[i].n_draft = 3;
        cases[i].params.temperature = (float)i;
        run_alone(&cases[i], m, RP_F16);
    }
    const RpEngineStats s =
        run_all(m, (RpEngineOptions){.n_seq = N, .step_tokens = 16, .draft = m}, cases, N, 5u, "draft");
    cr_expect_gt(s.accepted, 0, "%lu guesses", (unsigned long)s.drafted);
    free_cases(cases, N);
    rp_model_free(m);
}

static size_t uploaded(const RpModel *m, int32_t n_mtp, size_t *of_layer) {
    RpEngine *e;
    sim_stats_reset();
    OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = 1, .n_mtp = n_mtp, .device = device}, &e));
    const size_t bytes = sim_stats().h2d_bytes;
    if (n_mtp >= 0) *of_layer = rp_plan_memory(e->drafter.runners[0].plan).weights;
    rp_engine_free(e);
    return bytes;
}

/* The layer brings its own weights, and not the matrices that it shares with the model. */
static void uploads_each_weight_once(const RpModel *m) {
    size_t       of_layer = 0;
    const size_t more     = uploaded(m, 1, &of_layer) - uploaded(m, -1, NULL);
    const size_t shared   = m->token_embd->bytes + m->output->bytes;
    cr_assert_gt(of_layer, shared);
    cr_expect_lt(more, of_layer - shared + 4096, "%zu bytes more, of %zu", more, of_layer);
}

/* Guesses run in the same plans as replies, beside prompts of others. */
Test(engine, an_mtp_layer_guesses_on_the_device) {
    enum { N = 3 };
    RpModel       *m      = golden_open_tiny("glm4moe-f32");
    uint32_t       random = 7u;
    Case           cases[N];
    RpEngineMemory memory;
    for (int i = 0; i < N; i++) {
        make_case(&cases[i], i, rp_model_info(m)->n_vocab, &random);
        cases[i].max_tokens = 16, cases[i].n_draft = i == 2 ? 2 : 0;
        run_alone(&cases[i], m, RP_F16);
    }
    RpEngineOptions     o = {.n_seq = N, .step_tokens = 16, .device = device};
    const RpEngineStats s = run_all(m, o, cases, N, 5u, "MTP");
    cr_expect_gt(s.drafted, 0);
    o.n_ctx = N_CTX, o.step_tokens = 0; /* the default, whose arena is large enough for the layer */
    OK(rp_engine_memory(m, &o, &memory));
    const size_t on_device = memory.draft;
    o.device               = "cpu";
    OK(rp_engine_memory(m, &o, &memory));
    cr_expect_leq(on_device, memory.draft, "%zu and %zu bytes: no weight has a copy of its own", on_device,
                  memory.draft);
    if (COUNTS_LAUNCHES) uploads_each_weight_once(m);
    free_cases(cases, N);
    rp_model_free(m);
}
#endif
