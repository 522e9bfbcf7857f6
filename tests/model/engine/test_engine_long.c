/* Ten thousand requests of all kinds, in slow builds some hundred: an engine holds the same allocations, bytes and
 * files after the first hundred and after all of its kind. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/host_faults.h"

#include <dirent.h>
#include <malloc.h>

#if defined RP_TEST_SLOW
enum { N_REQUESTS = 200 };
#elif defined __SANITIZE_ADDRESS__
enum { N_REQUESTS = 400 };
#else
enum { N_REQUESTS = 1250 };
#endif
enum { FIRST = 100, N_CTX = 96, N_SEQ = 4, N_SAMPLERS = 8, IN_CACHES = 8192 };

typedef struct Held {
    long   allocations;
    size_t bytes; /* 0 where another allocator counts */
    int    files;
} Held;

static Held held(void) {
    Held h     = {.allocations = host_live(), .bytes = mallinfo2().uordblks};
    DIR *files = opendir("/proc/self/fd");
    cr_assert_not_null(files);
    while (readdir(files) != NULL) h.files++;
    closedir(files);
    return h;
}

static uint32_t draw(uint32_t *state, uint32_t n) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* The requests of one engine: each has a sampler, and where they are held to a grammar a matcher. */
typedef struct Requests {
    RpEngine       *e;
    RpSampler      *samplers[N_SAMPLERS];
    RpMatcher      *matchers[N_SAMPLERS]; /* or NULL */
    RpGrammarVocab *vocab;
    RpGrammar      *grammar;
    uint32_t        seed;
} Requests;

static bool ignore(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    (void)chosen, (void)top, (void)n_top, (void)user;
    return true;
}

/* Half of the prompts begin with the same tokens. `most`: the request has all that takes room. */
static void add(Requests *q, int i, bool most, uint64_t *id) {
    const int32_t n_vocab = rp_model_info(rp_engine_model(q->e))->n_vocab;
    uint32_t     *seed    = &q->seed;
    int32_t       prompt[N_CTX];
    const int32_t n = 1 + (int32_t)draw(seed, 70), common = draw(seed, 2) == 0 ? 40 : 0;
    for (int32_t k = 0; k < n; k++) prompt[k] = k < common ? 3 + k % 40 : (int32_t)draw(seed, (uint32_t)n_vocab);
    RpRequest r = {.prompt      = prompt,
                   .n_prompt    = (size_t)n,
                   .sampler     = q->samplers[i],
                   .max_tokens  = 1 + (int32_t)draw(seed, 6),
                   .ignore_end  = draw(seed, 2) == 0,
                   .priority    = (int32_t)draw(seed, 3),
                   .n_draft     = most ? 3 : (int32_t)draw(seed, 4),
                   .stop        = (const char *const[]){"ab"},
                   .n_stop      = most ? 1 : draw(seed, 2),
                   .n_logprobs  = most ? 2 : (int32_t)draw(seed, 3),
                   .on_logprobs = ignore};
    if (q->matchers[i] != NULL && (most || draw(seed, 2) == 0)) {
        rp_matcher_reset(q->matchers[i]);
        r.matcher = q->matchers[i];
    }
    rp_sampler_reset(q->samplers[i]);
    OK(rp_engine_add(q->e, &r, id));
}

/* Runs n requests, up to N_SAMPLERS at a time, some of which are cancelled. */
static void run(Requests *q, int n) {
    uint64_t      ids[N_SAMPLERS] = {0}, steps = 0;
    RpEngineEvent v;
    int           added = 0, ended = 0;
    while (ended < n) {
        cr_assert_lt(steps++, 50u * N_REQUESTS, "%d of %d requests end", ended, n);
        for (int i = 0; i < N_SAMPLERS && added < n; i++)
            if (ids[i] == 0 && (n == FIRST || draw(&q->seed, 2) == 0)) add(q, i, n == FIRST, &ids[i]), added++;
        if (draw(&q->seed, 8) == 0 && ids[0] != 0) OK(rp_engine_cancel(q->e, ids[0])); /* ends in this step */
        OK(rp_engine_step(q->e));
        while (rp_engine_poll(q->e, &v)) {
            cr_assert_eq(v.status, RP_OK, "%s", v.error);
            for (int i = 0; i < N_SAMPLERS && v.end; i++)
                if (ids[i] == v.id) ids[i] = 0, ended++;
        }
    }
    cr_assert_eq(rp_engine_pending(q->e), 0);
}

static void open_grammar(Requests *q, const RpModel *m) {
    OK(rp_grammar_vocab_new(rp_model_tokenizer(m), &q->vocab));
    OK(rp_grammar_regex("<=[0-9A-M]{1,20}", 16, &q->grammar));
    for (int i = 0; i < N_SAMPLERS; i++) OK(rp_matcher_new(q->grammar, q->vocab, &q->matchers[i]));
}

static Requests open_requests(const RpModel *m, const RpModel *draft, bool grammar) {
    Requests        q = {.seed = 1};
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 0.9f;
    for (int i = 0; i < N_SAMPLERS; i++) {
        p.seed = (uint64_t)i;
        OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &q.samplers[i]));
    }
    if (grammar) open_grammar(&q, m);
    OK(rp_engine_open(m,
                      &(RpEngineOptions){.n_ctx        = N_CTX,
                                         .n_seq        = N_SEQ,
                                         .cache_tokens = 3 * N_CTX,
                                         .n_threads    = 1,
                                         .step_tokens  = 64,
                                         .draft        = draft},
                      &q.e));
    return q;
}

static void close_requests(Requests *q) {
    rp_engine_free(q->e);
    for (int i = 0; i < N_SAMPLERS; i++) rp_sampler_free(q->samplers[i]), rp_matcher_free(q->matchers[i]);
    rp_grammar_free(q->grammar), rp_grammar_vocab_free(q->vocab);
}

static void stays_the_same(const char *name, const char *draft, bool grammar) {
    RpModel     *m = golden_open_tiny(name), *guesses = draft != NULL ? golden_open_tiny(draft) : NULL;
    Requests     q         = open_requests(m, guesses, grammar);
    const bool   drafts    = guesses != NULL || rp_model_info(m)->mtp;
    const size_t in_caches = getenv("GLIBC_TUNABLES") != NULL ? 0 : IN_CACHES; /* tests/CMakeLists.txt */
    run(&q, FIRST);
    const Held          first  = held();
    const RpEngineStats before = rp_engine_stats(q.e);
    run(&q, N_REQUESTS - FIRST);
    const Held          last  = held();
    const RpEngineStats after = rp_engine_stats(q.e);
    cr_expect_eq(last.allocations, first.allocations, "%s: %ld allocations, after the first %d requests %ld", name,
                 last.allocations, FIRST, first.allocations);
    cr_expect_leq(last.bytes, first.bytes + in_caches, "%s: %zu bytes, after the first %d requests %zu", name,
                  last.bytes, FIRST, first.bytes);
    cr_expect_eq(last.files, first.files, "%s: %d files, before %d", name, last.files, first.files);
    cr_expect_eq(after.n_blocks, before.n_blocks, "%s", name);
    cr_expect(after.used == 0 && after.running == 0 && after.waiting == 0, "%s: something runs", name);
    cr_expect(after.evicted > 0 && after.preempted > 0 && after.cached > 0 && (!drafts || after.drafted > 0),
              "%s: %llu evicted, %llu preempted, %llu cached, %llu drafted", name, (unsigned long long)after.evicted,
              (unsigned long long)after.preempted, (unsigned long long)after.cached, (unsigned long long)after.drafted);
    close_requests(&q);
    rp_model_free(m), rp_model_free(guesses);
}

Test(engine_long, dense) { stays_the_same("llama-mix", NULL, false); }
Test(engine_long, dense_with_a_grammar) { stays_the_same("llama-mix", NULL, true); }
Test(engine_long, with_a_draft_model) { stays_the_same("llama-f32", "llama-mix", false); }
Test(engine_long, with_an_assistant) { stays_the_same("gemma4-mix", "../assistant/gemma4-mix", false); }
Test(engine_long, experts_with_windows) { stays_the_same("gpt-oss-mxfp4", NULL, false); }
Test(engine_long, recurrent) { stays_the_same("qwen35-f32", NULL, false); }
Test(engine_long, with_an_mtp_layer) { stays_the_same("glm4moe-f32", NULL, false); }
Test(engine_long, recurrent_with_an_mtp_layer_and_a_grammar) { stays_the_same("qwen35-mix", NULL, true); }
