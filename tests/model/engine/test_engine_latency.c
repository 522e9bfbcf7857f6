/* `step_ms` of an engine: while replies run, prompts are cut so that a step takes no longer. The clock is that of the
 * test: a run takes one millisecond for each column of its plan, and longer where the test says so. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "model/engine/engine.h"

#include <time.h>

enum {
    N_CTX         = 512,
    N_REPLY       = 8,
    LONGEST       = 256,
    N_PROMPT      = 315,
    STALL_MS      = 1500,
    TRIED_AFTER   = 32,
    RENEWED_AFTER = 200
};

/* The linker leads the calls of the library here (tests/CMakeLists.txt). */
int      __real_clock_gettime(clockid_t clock, struct timespec *t);
int      __wrap_clock_gettime(clockid_t clock, struct timespec *t);
RpStatus __real_rp_executor_run_while(RpExecutor *e, void (*work)(void *), void *user);
RpStatus __wrap_rp_executor_run_while(RpExecutor *e, void (*work)(void *), void *user);

static struct {
    const RpEngine *engine;
    long            now_ms;
    int             runs[ENGINE_RUNNERS]; /* of each plan */
    int             first_ms;             /* the first run of a plan takes this longer */
    int             stalls;               /* the plan whose next run takes STALL_MS longer; -1: none */
} clocked;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    if (clock != CLOCK_MONOTONIC || clocked.engine == NULL) return __real_clock_gettime(clock, t);
    *t = (struct timespec){.tv_sec = clocked.now_ms / 1000, .tv_nsec = clocked.now_ms % 1000 * 1000000};
    return 0;
}

RpStatus __wrap_rp_executor_run_while(RpExecutor *e, void (*work)(void *), void *user) {
    const RpEngine *of = clocked.engine;
    for (int i = 0; of != NULL && i < of->n_runners; i++) {
        if (of->runners[i].executor != e) continue;
        clocked.now_ms += of->runners[i].o.n_tok;
        if (clocked.runs[i]++ == 0) clocked.now_ms += clocked.first_ms;
        if (clocked.stalls == i) clocked.now_ms += STALL_MS, clocked.stalls = -1;
    }
    return __real_rp_executor_run_while(e, work, user);
}

/* An engine with a reply that runs beside all prompts. */
typedef struct Fixture {
    RpModel   *m;
    RpEngine  *e;
    RpSampler *reply, *prompt;
    uint64_t   reply_id;
    uint32_t   random;
    uint64_t   reply_step;           /* in which the reply began */
    int        steps, slow, longest; /* of add_prompt: its steps, those beyond step_ms, tokens of the longest one */
    double     step_ms;
} Fixture;

static void add(Fixture *f, RpSampler *sampler, int n, int max_tokens, int priority, uint64_t *id) {
    int32_t       tokens[N_CTX];
    const int32_t n_vocab = rp_model_info(f->m)->n_vocab;
    for (int i = 0; i < n; i++) {
        f->random = f->random * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((f->random >> 8) % (uint32_t)n_vocab);
    }
    rp_sampler_reset(sampler);
    OK(rp_engine_add(f->e,
                     &(RpRequest){.prompt     = tokens,
                                  .n_prompt   = (size_t)n,
                                  .sampler    = sampler,
                                  .max_tokens = max_tokens,
                                  .ignore_end = true,
                                  .priority   = priority},
                     id));
}

/* One step; true if the request has ended. */
static bool step(Fixture *f, uint64_t id) {
    bool          ended = false;
    RpEngineEvent v;
    OK(rp_engine_step(f->e));
    while (rp_engine_poll(f->e, &v)) {
        cr_assert_eq(v.status, RP_OK, "%s", v.error);
        cr_assert(!v.end || v.id != f->reply_id, "the reply ends beside a prompt");
        ended |= v.end && v.id == id;
    }
    return ended;
}

static void begin_reply(Fixture *f) {
    f->reply_step = rp_engine_stats(f->e).steps;
    add(f, f->reply, N_REPLY, 0, 5, &f->reply_id);
    (void)step(f, 0);
}

/* A new reply, before the context of the old one is full. */
static void renew_reply(Fixture *f) {
    if (f->reply_id == 0 || rp_engine_stats(f->e).steps < f->reply_step + RENEWED_AFTER) return;
    OK(rp_engine_cancel(f->e, f->reply_id));
    f->reply_id = 0;
    (void)step(f, 0);
    begin_reply(f);
}

/* Runs a prompt of n tokens beside the reply. */
static void run_prompt(Fixture *f, int n) {
    uint64_t id;
    renew_reply(f);
    add(f, f->prompt, n, 1, 0, &id);
    f->steps = f->slow = f->longest = 0;
    for (bool ended = false; !ended; f->steps++) {
        ended                     = step(f, id);
        const RpEngineStats stats = rp_engine_stats(f->e);
        if (stats.last_step_tokens > f->longest) f->longest = stats.last_step_tokens;
        f->slow += stats.last_step_s * 1e3 > f->step_ms + 1e-6;
        cr_assert_lt(f->steps, 2 * n, "a prompt of %d tokens does not end", n);
    }
}

/* Steps of the reply alone. */
static void pass(Fixture *f, int n) {
    renew_reply(f);
    for (int i = 0; i < n; i++) (void)step(f, 0);
}

static Fixture begin(double step_ms, int first_ms) {
    Fixture         f = {.m = golden_open_tiny("llama-mix"), .random = 1, .step_ms = step_ms};
    RpSamplerParams p = rp_sampler_defaults();
    OK(rp_sampler_new(&p, rp_model_info(f.m)->n_vocab, &f.reply));
    OK(rp_sampler_new(&p, rp_model_info(f.m)->n_vocab, &f.prompt));
    OK(rp_engine_open(f.m,
                      &(RpEngineOptions){.n_ctx        = N_CTX,
                                         .n_seq        = 2,
                                         .n_threads    = 1,
                                         .step_tokens  = LONGEST,
                                         .step_ms      = step_ms,
                                         .cache_tokens = 2 * N_CTX},
                      &f.e));
    memset(&clocked, 0, sizeof clocked);
    clocked.engine   = f.e;
    clocked.first_ms = first_ms;
    clocked.stalls   = -1;
    begin_reply(&f);
    return f;
}

static void end(Fixture *f) {
    clocked.engine = NULL;
    rp_engine_free(f->e);
    rp_sampler_free(f->reply), rp_sampler_free(f->prompt);
    rp_model_free(f->m);
}

/* Plans of 16, 32, 64, 128 and 256 columns take as many milliseconds: 64 columns fit. A plan that was found too slow is
 * tried again, more and more seldom. */
Test(engine_latency, prompts_are_cut_to_the_time_of_a_step) {
    enum { PROMPTS = 60 };
    Fixture f   = begin(100.0, 0);
    int     sum = 0, slow = 0;
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, LONGEST, "the time of no plan is known: %d tokens", f.longest);
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, 128, "the time of the second longest plan is not known: %d tokens", f.longest);
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, 64, "%d tokens", f.longest);
    cr_expect_eq(f.steps, 5, "63 tokens of the prompt in each step: %d", f.steps);
    cr_expect_eq(f.slow, 0, "%d steps", f.slow);
    for (int i = 0; i < PROMPTS; i++) {
        run_prompt(&f, N_PROMPT);
        sum += f.steps, slow += f.slow;
        cr_expect_leq(f.longest, 128, "prompt %d: %d tokens, and 64 fit", i, f.longest);
        cr_expect_leq(f.slow, 1, "prompt %d: %d steps", i, f.slow);
    }
    cr_expect(slow > 0 && slow <= 4, "%d of %d steps tried a longer plan: after 32, 64, 128 and 256 steps", slow, sum);
    end(&f);
}

Test(engine_latency, prompts_are_not_cut_while_no_reply_runs) {
    Fixture f = begin(100.0, 0);
    run_prompt(&f, N_PROMPT);
    run_prompt(&f, N_PROMPT);
    OK(rp_engine_cancel(f.e, f.reply_id));
    f.reply_id = 0;
    (void)step(&f, 0);
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, LONGEST, "%d tokens", f.longest);
    end(&f);
}

/* Whichever plan it was that stalled, prompts are as fast as before soon. */
Test(engine_latency, prompts_recover_from_a_stalled_step) {
    Fixture f = begin(300.0, 0);
    for (int n = N_PROMPT; n > 0; n = n > 40 ? n / 2 : n - 1) run_prompt(&f, n); /* each plan has run */
    run_prompt(&f, N_PROMPT);
    const int steps = f.steps;
    cr_assert_eq(f.longest, LONGEST, "%d tokens", f.longest);
    for (int i = 0; i < f.e->n_runners; i++) {
        const int columns = f.e->runners[i].o.n_tok;
        clocked.stalls    = i;
        run_prompt(&f, columns > 1 ? columns - 1 : 1);
        if (columns == 1) (void)step(&f, 0);
        cr_assert_eq(clocked.stalls, -1, "the plan of %d columns has not run", columns);
        pass(&f, TRIED_AFTER);
        run_prompt(&f, N_PROMPT);
        run_prompt(&f, N_PROMPT);
        cr_expect_eq(f.steps, steps, "after a stall with %d columns: %d steps, before %d", columns, f.steps, steps);
        cr_expect_eq(f.longest, LONGEST, "after a stall with %d columns: %d tokens", columns, f.longest);
    }
    end(&f);
}

/* A plan of a few columns that stalled does not cap those that are known to be faster. */
Test(engine_latency, a_stall_of_a_short_plan_does_not_shorten_long_steps) {
    Fixture f = begin(300.0, 0);
    for (int n = N_PROMPT; n > 0; n = n > 40 ? n / 2 : n - 1) run_prompt(&f, n);
    clocked.stalls = rp_engine_runner(f.e, 8);
    run_prompt(&f, 7);
    cr_assert_eq(clocked.stalls, -1);
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, LONGEST, "%d tokens", f.longest);
    end(&f);
}

/* The first run of each plan reads its weights from the disk. */
Test(engine_latency, a_cold_first_run_does_not_count_for_ever) {
    Fixture f = begin(300.0, STALL_MS);
    for (int i = 0; i < 10; i++) {
        run_prompt(&f, N_PROMPT);
        pass(&f, TRIED_AFTER);
    }
    run_prompt(&f, N_PROMPT);
    cr_expect_eq(f.longest, LONGEST, "%d tokens", f.longest);
    cr_expect_eq(f.slow, 0, "%d steps", f.slow);
    end(&f);
}
