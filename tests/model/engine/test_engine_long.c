/* Ten thousand requests of all kinds, in slow builds some hundred: an engine holds the same allocations and files after
 * the first hundred and after all of them. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/host_faults.h"

#include <dirent.h>
#include <malloc.h>

#if defined RP_TEST_SLOW
enum { N_REQUESTS = 300 };
#elif defined __SANITIZE_ADDRESS__
enum { N_REQUESTS = 1000 };
#else
enum { N_REQUESTS = 10000 };
#endif
enum { FIRST = 100, N_CTX = 96, N_SEQ = 4, N_SAMPLERS = 8, KEPT = 8192 };

typedef struct Held {
    long   allocations;
    size_t bytes; /* with what malloc keeps of freed ones; 0 where another allocator counts */
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

/* Half of the prompts begin with the same tokens. `most`: the request has all that takes room. */
static void add(RpEngine *e, RpSampler *sampler, uint32_t *seed, bool most, uint64_t *id) {
    const int32_t n_vocab = rp_model_info(rp_engine_model(e))->n_vocab;
    int32_t       prompt[N_CTX];
    const int32_t n = 1 + (int32_t)draw(seed, 70), common = draw(seed, 2) == 0 ? 40 : 0;
    for (int32_t i = 0; i < n; i++) prompt[i] = i < common ? 3 + i % 40 : (int32_t)draw(seed, (uint32_t)n_vocab);
    const RpRequest r = {.prompt     = prompt,
                         .n_prompt   = (size_t)n,
                         .sampler    = sampler,
                         .max_tokens = 1 + (int32_t)draw(seed, 6),
                         .ignore_end = draw(seed, 2) == 0,
                         .priority   = (int32_t)draw(seed, 3),
                         .n_draft    = most ? 3 : (int32_t)draw(seed, 4),
                         .stop       = (const char *const[]){"ab"},
                         .n_stop     = most ? 1 : draw(seed, 2)};
    rp_sampler_reset(sampler);
    OK(rp_engine_add(e, &r, id));
}

/* Runs n requests, up to N_SAMPLERS at a time, some of which are cancelled. */
static void run(RpEngine *e, RpSampler **samplers, int n, uint32_t *seed) {
    uint64_t      ids[N_SAMPLERS] = {0}, steps = 0;
    RpEngineEvent v;
    int           added = 0, ended = 0;
    while (ended < n) {
        cr_assert_lt(steps++, 50u * N_REQUESTS, "%d of %d requests end", ended, n);
        for (int i = 0; i < N_SAMPLERS && added < n; i++)
            if (ids[i] == 0 && (n == FIRST || draw(seed, 2) == 0))
                add(e, samplers[i], seed, n == FIRST, &ids[i]), added++;
        if (draw(seed, 8) == 0 && ids[0] != 0) OK(rp_engine_cancel(e, ids[0])); /* ends in this step */
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            cr_assert_eq(v.status, RP_OK, "%s", v.error);
            for (int i = 0; i < N_SAMPLERS && v.end; i++)
                if (ids[i] == v.id) ids[i] = 0, ended++;
        }
    }
    cr_assert_eq(rp_engine_pending(e), 0);
}

static void stays_the_same(const char *name, const char *draft) {
    RpModel        *m = golden_open_tiny(name), *guesses = draft != NULL ? golden_open_tiny(draft) : NULL;
    RpEngine       *e;
    RpSampler      *samplers[N_SAMPLERS];
    RpSamplerParams p    = rp_sampler_defaults();
    uint32_t        seed = 1;
    p.temperature        = 0.9f;
    for (int i = 0; i < N_SAMPLERS; i++) {
        p.seed = (uint64_t)i;
        OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &samplers[i]));
    }
    OK(rp_engine_open(m,
                      &(RpEngineOptions){.n_ctx        = N_CTX,
                                         .n_seq        = N_SEQ,
                                         .cache_tokens = 3 * N_CTX,
                                         .n_threads    = 1,
                                         .step_tokens  = 64,
                                         .draft        = guesses},
                      &e));
    run(e, samplers, FIRST, &seed);
    const Held          first  = held();
    const RpEngineStats before = rp_engine_stats(e);
    run(e, samplers, N_REQUESTS - FIRST, &seed);
    const Held          last  = held();
    const RpEngineStats after = rp_engine_stats(e);
    cr_expect_eq(last.allocations, first.allocations, "%s: %ld allocations, after the first %d requests %ld", name,
                 last.allocations, FIRST, first.allocations);
    cr_expect_lt(last.bytes, first.bytes + KEPT, "%s: %zu bytes, after the first %d requests %zu", name, last.bytes,
                 FIRST, first.bytes);
    cr_expect_eq(last.files, first.files, "%s: %d files, before %d", name, last.files, first.files);
    cr_expect_eq(after.n_blocks, before.n_blocks, "%s", name);
    cr_expect(after.used == 0 && after.running == 0 && after.waiting == 0, "%s: something runs", name);
    cr_expect(after.evicted > 0 && after.preempted > 0 && after.cached > 0 && (draft == NULL || after.drafted > 0),
              "%s: %llu evicted, %llu preempted, %llu cached, %llu drafted", name, (unsigned long long)after.evicted,
              (unsigned long long)after.preempted, (unsigned long long)after.cached, (unsigned long long)after.drafted);
    rp_engine_free(e);
    for (int i = 0; i < N_SAMPLERS; i++) rp_sampler_free(samplers[i]);
    rp_model_free(m), rp_model_free(guesses);
}

Test(engine_long, dense) { stays_the_same("llama-mix", NULL); }
Test(engine_long, with_a_draft_model) { stays_the_same("llama-f32", "llama-mix"); }
Test(engine_long, recurrent) { stays_the_same("qwen35-f32", NULL); }
