/* Requests of an engine: what is refused, text and stop strings as in rp_generate, cancelling, failures of one request,
 * order, and what does not grow. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

static RpModel   *model;
static RpEngine  *engine;
static RpSampler *samplers[8];
static int32_t    prompt[20];

static void setup(void) {
    model = golden_open_tiny("llama-f32");
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .n_threads = 1}, &engine));
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 1.0f;
    for (int i = 0; i < 8; i++) {
        p.seed = (uint64_t)i;
        OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &samplers[i]));
    }
    for (int32_t i = 0; i < 20; i++) prompt[i] = 3 + 7 * i % 60;
}

static void teardown(void) {
    rp_engine_free(engine);
    for (int i = 0; i < 8; i++) rp_sampler_free(samplers[i]);
    rp_model_free(model);
}

TestSuite(engine_requests, .init = setup, .fini = teardown);

static RpRequest request(int i, int32_t max_tokens) {
    return (RpRequest){
        .prompt = prompt, .n_prompt = 20, .sampler = samplers[i], .max_tokens = max_tokens, .ignore_end = true};
}

static uint64_t add(RpRequest r) {
    uint64_t id;
    OK(rp_engine_add(engine, &r, &id));
    return id;
}

/* Ids in the order in which they end; all text of a request goes to its user, if that is not NULL. */
static int run(uint64_t *ended, RpEngineEvent *last) {
    int           n = 0;
    RpEngineEvent v;
    for (int step = 0; rp_engine_pending(engine) > 0; step++) {
        cr_assert_lt(step, 10000, "%zu requests do not end", rp_engine_pending(engine));
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &v)) {
            if (v.user != NULL) strncat(v.user, v.text, v.n_text);
            if (v.end) ended[n] = v.id, last[n++] = v;
        }
    }
    return n;
}

#define OPEN_REFUSED(status, text, ...)                                                                                \
    REFUSED(rp_engine_open(model, &(RpEngineOptions){__VA_ARGS__}, &none), (status), (text))

Test(engine_requests, bad_options_are_refused_by_name) {
    RpEngine *none;
    double    gb[4] = {0};
    int       n[2]  = {0};
    OPEN_REFUSED(RP_E_ARG, "n_ctx of an engine is 1000: must be from 1 to 512", .n_ctx = 1000);
    OPEN_REFUSED(RP_E_ARG, "n_seq of an engine is 65: must be from 1 to 64", .n_seq = 65);
    OPEN_REFUSED(RP_E_ARG, "step_tokens of an engine is 3: must be from 4 to 4096", .step_tokens = 3);
    OPEN_REFUSED(RP_E_ARG, "cache_tokens of an engine is 64: must be from 128 to 1073741823", .n_ctx = 128,
                 .cache_tokens = 64);
    OPEN_REFUSED(RP_E_ARG, "block of an engine is 40: must be a multiple of 32, up to 4096", .block = 40);
    OPEN_REFUSED(RP_E_ARG, "step_ms of an engine is -1: must not be negative", .step_ms = -1.0);
    OPEN_REFUSED(RP_E_ARG, "device 'gpu': must be auto, cpu, cuda or cuda:N", .device = "gpu");
    OPEN_REFUSED(RP_E_ARG, "device 'cpu', and CUDA is required", .device = "cpu", .require_cuda = true);
    OPEN_REFUSED(RP_E_NOT_AVAILABLE, "a graph is required: the CPU has none", .device = "cpu", .require_graph = true);
    OPEN_REFUSED(RP_E_UNSUPPORTED, "the attention pass is switched off, must be on for a cache of blocks",
                 .passes = "-attention");
    OPEN_REFUSED(RP_E_ARG, "a KV cache of q4_0: must be f16 or q8_0", .kv_type = RP_Q4_0);
    OPEN_REFUSED(RP_E_NOMEM, "an engine takes", .n_ctx = 128, .cache_tokens = 1073741823);
    cr_expect_eq(
        sscanf(rp_last_error(),
               "an engine takes %lf GB for a KV cache of %d blocks of %d positions, %lf GB for recurrent states "
               "and %lf GB for intermediate tensors; %lf GB are free",
               &gb[0], &n[0], &n[1], &gb[1], &gb[2], &gb[3]),
        6, "%s", rp_last_error());
    cr_expect(n[0] == 33554432 && n[1] == 32 && gb[0] > gb[3], "%s", rp_last_error());
    cr_expect_null(none);
}

#define ADD_REFUSED(status, text, ...)                                                                                 \
    do {                                                                                                               \
        RpRequest r = request(0, 4);                                                                                   \
        __VA_ARGS__;                                                                                                   \
        REFUSED(rp_engine_add(engine, &r, &id), (status), (text));                                                     \
    } while (0)

Test(engine_requests, bad_requests_are_refused) {
    uint64_t    id;
    int32_t     outside[] = {5, 100000}, longest[129] = {0};
    const char *stop[] = {"a", NULL}, *empty[] = {""};
    RpSampler  *other;
    OK(rp_sampler_new(&(RpSamplerParams){.top_p = 1.0f, .repeat_penalty = 1.0f}, 7, &other));
    ADD_REFUSED(RP_E_ARG, "a request without a prompt", r.n_prompt = 0);
    ADD_REFUSED(RP_E_ARG, "a prompt of 20 tokens, of which the sampler has seen 21: must be at most as many",
                r.n_seen = 21);
    ADD_REFUSED(RP_E_ARG, "token 100000 at 1 is outside of the vocabulary of", r.prompt = outside, r.n_prompt = 2);
    ADD_REFUSED(RP_E_CONTEXT_FULL, "a prompt of 129 tokens does not fit: a sequence holds 128", r.prompt = longest,
                r.n_prompt = 129);
    ADD_REFUSED(RP_E_ARG, "the sampler is for a vocabulary of 7 tokens, the model has", r.sampler = other);
    ADD_REFUSED(RP_E_ARG, "a reply of -1 tokens: must be at least 0", r.max_tokens = -1);
    ADD_REFUSED(RP_E_ARG, "a priority of 1001: must be from -1000 to 1000", r.priority = 1001);
    ADD_REFUSED(RP_E_ARG, "guesses of 16 tokens: must be from 0 to 15", r.n_draft = 16);
    ADD_REFUSED(RP_E_ARG, "n_logprobs -1: must be from 0 to", r.n_logprobs = -1);
    ADD_REFUSED(RP_E_ARG, "stop string 1 of 2 is NULL", r.stop = stop, r.n_stop = 2);
    ADD_REFUSED(RP_E_ARG, "stop string 0 is empty", r.stop = empty, r.n_stop = 1);
    cr_expect_eq(rp_engine_pending(engine), 0);
    REFUSED(rp_engine_cancel(engine, 1), RP_E_ARG, "request 1 is not pending");
    rp_sampler_free(other);
}

typedef struct Text {
    char   bytes[4096];
    size_t n;
} Text;

static bool append(const char *text, size_t len, void *user) {
    Text *t = user;
    memcpy(t->bytes + t->n, text, len);
    t->n += len;
    return true;
}

/* The reply of rp_generate to the same request. */
static RpGenerateResult generate(const RpRequest *r, Text *text) {
    RpSession              *s;
    RpGenerateResult        result;
    const RpGenerateOptions o = {.max_tokens = r->max_tokens,
                                 .stop       = r->stop,
                                 .n_stop     = r->n_stop,
                                 .ignore_end = r->ignore_end,
                                 .on_text    = append,
                                 .user       = text};
    *text                     = (Text){.n = 0};
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1}, &s));
    rp_sampler_reset(r->sampler);
    OK(rp_generate(s, r->sampler, r->prompt, r->n_prompt, &o, &result));
    rp_sampler_reset(r->sampler);
    rp_session_free(s);
    return result;
}

Test(engine_requests, text_and_endings_are_those_of_rp_generate) {
    char          stops[2][8] = {"", ""};
    Text          want;
    uint64_t      ended[1];
    RpEngineEvent last[1];
    RpRequest     r = request(3, 60);
    (void)generate(&r, &want);
    memcpy(stops[0], want.bytes + want.n / 2, 3); /* a stop string that comes */
    strcpy(stops[1], "never");
    const struct {
        int32_t max_tokens;
        size_t  n_stop;
        bool    ignore_end;
    } cases[] = {
        {60, 0, true },
        {60, 2, true },
        {0,  0, true },
        {0,  0, false},
        {1,  0, true }
    };
    for (int i = 0; i < 5; i++) {
        char got[4096]                  = "";
        r                               = request(3, cases[i].max_tokens);
        r.ignore_end                    = cases[i].ignore_end;
        r.stop                          = (const char *const[]){stops[0], stops[1]};
        r.n_stop                        = cases[i].n_stop;
        r.user                          = got;
        const RpGenerateResult expected = generate(&r, &want);
        (void)add(r);
        cr_assert_eq(run(ended, last), 1, CASE(i));
        cr_expect_eq(last[0].reason, expected.reason, CASE(i));
        cr_expect_eq(last[0].n_generated, expected.n_generated, CASE(i));
        cr_expect_eq(strlen(got), want.n, CASE(i));
        cr_expect_arr_eq(got, want.bytes, want.n, CASE(i));
    }
}

static RpTokenLogprob noted[2][200][3]; /* by rp_generate, by the engine: of the token, and of the two most probable */
static int            n_noted[2];

static bool note(int which, const RpTokenLogprob *chosen, const RpTokenLogprob *top) {
    RpTokenLogprob *to = noted[which][n_noted[which]++];
    to[0] = *chosen, to[1] = top[0], to[2] = top[1];
    return true;
}

static bool note_of_generate(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n, void *user) {
    (void)n, (void)user;
    return note(0, chosen, top);
}

static bool note_of_engine(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n, void *user) {
    (void)n, (void)user;
    return note(1, chosen, top);
}

static bool stop_at_three(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n, void *user) {
    (void)n, (void)user;
    return note(1, chosen, top) && n_noted[1] < 3;
}

/* The demo model has a tokenizer of words: its grammars force tokens. */
Test(engine_requests, a_grammar_and_log_probabilities_are_those_of_rp_generate) {
    static const char *const patterns[] = {
        "(In the beginning God created the heaven|And the earth was without form)[a-z ]{0,20}\\.",
        "[A-Z][a-z]+ and [A-Z][a-z]+", "abcabcabcabcabcabcabcabcabc[0-9]+x"};
    RpModel        *demo;
    RpGrammarVocab *vocab;
    RpSampler      *sampler;
    RpEngine       *e;
    RpSamplerParams params = rp_sampler_defaults();
    RpTokenList     ids    = {0};
    params.temperature     = 1.0f;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &demo));
    OK(rp_grammar_vocab_new(rp_model_tokenizer(demo), &vocab));
    OK(rp_sampler_new(&params, rp_model_info(demo)->n_vocab, &sampler));
    OK(rp_engine_open(demo, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .n_threads = 1}, &e));
    OK(rp_tokenize(rp_model_tokenizer(demo), "And God said", 12, 0, &ids));
    for (int i = 0; i < 3; i++)
        for (int draft = 0; draft <= 4; draft += 4) {
            RpGrammar       *grammar;
            RpMatcher       *matcher;
            RpSession       *s;
            RpGenerateResult want;
            RpTokenList      tokens = {0}, got = {0};
            RpEngineEvent    v = {.end = false};
            uint64_t         id;
            OK(rp_grammar_regex(patterns[i], strlen(patterns[i]), &grammar));
            OK(rp_matcher_new(grammar, vocab, &matcher));
            OK(rp_session_open(demo, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1}, &s));
            n_noted[0] = n_noted[1] = 0;
            rp_sampler_reset(sampler);
            OK(rp_generate(s, sampler, ids.ids, ids.n,
                           &(RpGenerateOptions){.max_tokens  = 60,
                                                .tokens      = &tokens,
                                                .matcher     = matcher,
                                                .n_logprobs  = 2,
                                                .on_logprobs = note_of_generate},
                           &want));
            rp_sampler_reset(sampler);
            rp_matcher_reset(matcher);
            OK(rp_engine_add(e,
                             &(RpRequest){.prompt      = ids.ids,
                                          .n_prompt    = ids.n,
                                          .sampler     = sampler,
                                          .max_tokens  = 60,
                                          .matcher     = matcher,
                                          .n_draft     = draft,
                                          .n_logprobs  = 2,
                                          .on_logprobs = note_of_engine},
                             &id));
            while (rp_engine_pending(e) > 0) {
                OK(rp_engine_step(e));
                while (rp_engine_poll(e, &v))
                    if (v.token >= 0) OK(rp_token_list_push(&got, v.token));
            }
            cr_expect(v.end && v.status == RP_OK && v.reason == want.reason, "pattern %d: %s", i, v.error);
            cr_assert_eq(got.n, tokens.n, CASE(i, draft));
            cr_expect_arr_eq(got.ids, tokens.ids, got.n * sizeof *got.ids, CASE(i, draft));
            cr_expect(i == 1 || n_noted[0] < (int)tokens.n, "pattern %d forces no token", i);
            cr_assert_eq(n_noted[1], n_noted[0], CASE(i, draft));
            cr_expect_arr_eq(noted[1], noted[0], sizeof noted[0][0] * (size_t)n_noted[0], CASE(i, draft));
            rp_token_list_free(&tokens), rp_token_list_free(&got);
            rp_session_free(s), rp_matcher_free(matcher), rp_grammar_free(grammar);
        }
    n_noted[1] = 0;
    uint64_t      id;
    RpEngineEvent v = {.end = false};
    OK(rp_engine_add(e,
                     &(RpRequest){.prompt      = ids.ids,
                                  .n_prompt    = ids.n,
                                  .sampler     = sampler,
                                  .max_tokens  = 60,
                                  .n_logprobs  = 2,
                                  .on_logprobs = stop_at_three},
                     &id));
    for (int step = 0; step < 4 && !v.end; step++) {
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) continue;
    }
    cr_expect(v.end && v.status == RP_OK && v.reason == RP_STOP_CANCELLED, "%s", rp_last_error());
    rp_token_list_free(&ids), rp_engine_free(e), rp_sampler_free(sampler), rp_grammar_vocab_free(vocab),
        rp_model_free(demo);
}

Test(engine_requests, a_cancelled_request_ends_before_the_next_step) {
    const uint64_t first = add(request(0, 50)), second = add(request(1, 50)), third = add(request(2, 3));
    RpEngineEvent  v, last[3];
    uint64_t       ended[3];
    OK(rp_engine_step(engine));
    OK(rp_engine_cancel(engine, first));
    REFUSED(rp_engine_cancel(engine, first), RP_E_ARG, "is not pending");
    OK(rp_engine_step(engine));
    cr_assert(rp_engine_poll(engine, &v));
    cr_expect(v.end && v.id == first && v.reason == RP_STOP_CANCELLED && v.token == -1 && v.status == RP_OK);
    OK(rp_engine_cancel(engine, second));
    cr_assert_eq(run(ended, last), 2);
    cr_expect_eq(ended[0], second);
    cr_expect_eq(ended[1], third);
    cr_expect_eq(last[1].n_generated, 3);
    cr_expect_eq(rp_engine_stats(engine).used, 0);
    const uint64_t both[] = {add(request(3, 50)), add(request(4, 50))};
    OK(rp_engine_cancel(engine, both[0]));
    OK(rp_engine_cancel(engine, both[1]));
    OK(rp_engine_step(engine));
    for (int i = 0; i < 2; i++) {
        cr_assert(rp_engine_poll(engine, &v), CASE(i));
        cr_expect(v.end && v.id == both[i] && v.n_text == 0 && v.text[0] == '\0', CASE(i));
    }
}

typedef struct Cancelling {
    uint64_t id, other;
    int      left; /* tokens until then */
    RpStatus status, of_other;
} Cancelling;

static bool cancel_at(int32_t token, void *user) {
    Cancelling *c = user;
    (void)token;
    if (--c->left > 0) return true;
    c->status   = rp_engine_cancel(engine, c->id);
    c->of_other = rp_engine_cancel(engine, c->other);
    return true;
}

/* The other request ends first, in the same step. */
Test(engine_requests, a_request_may_be_cancelled_in_the_step_in_which_it_ends) {
    for (int at = 3; at <= 4; at++) {
        Cancelling    c = {.left = at};
        RpRequest     r = request(1, 4);
        uint64_t      ended[3];
        RpEngineEvent last[3];
        r.on_token = cancel_at, r.token_user = &c;
        c.other                = add(request(0, at));
        c.id                   = add(r);
        const uint64_t waiting = add(request(2, 2));
        cr_assert_eq(run(ended, last), 3, CASE(at));
        cr_expect_eq(c.status, RP_OK, CASE(at));
        cr_expect_eq(c.of_other, RP_E_ARG, CASE(at));
        cr_expect(ended[0] == c.other && ended[1] == c.id && ended[2] == waiting, CASE(at));
        cr_expect_eq(last[0].reason, RP_STOP_LIMIT, CASE(at));
        cr_expect_eq(last[1].reason, at == 4 ? RP_STOP_LIMIT : RP_STOP_CANCELLED, CASE(at));
        cr_expect_eq(last[2].reason, RP_STOP_LIMIT, CASE(at));
        OK(rp_engine_step(engine));
    }
}

/* No token is allowed: the sampler refuses. */
Test(engine_requests, a_request_that_fails_leaves_the_others_as_they_are) {
    static const uint32_t nothing[4096];
    char                  alone[2048] = "", beside[2048] = "";
    uint64_t              ended[2];
    RpEngineEvent         last[2];
    RpRequest             r = request(0, 30);
    r.user                  = alone;
    (void)add(r);
    cr_assert_eq(run(ended, last), 1);
    rp_sampler_reset(samplers[0]);
    r.user            = beside;
    const uint64_t id = add(r), bad = add(request(1, 30));
    rp_sampler_set_mask(samplers[1], nothing);
    cr_assert_eq(run(ended, last), 2);
    cr_expect_eq(ended[0], bad);
    cr_expect_eq(last[0].status, RP_E_ARG);
    cr_expect_eq(last[0].token, -1);
    cr_expect_eq(ended[1], id);
    cr_expect_eq(last[1].status, RP_OK);
    cr_expect_str_eq(beside, alone);
}

Test(engine_requests, a_higher_priority_goes_first_and_nobody_waits_without_a_bound) {
    uint64_t      ended[8];
    RpEngineEvent last[8];
    rp_engine_free(engine);
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1, .n_threads = 1}, &engine));
    const uint64_t first = add(request(0, 40));
    OK(rp_engine_step(engine));
    RpRequest r         = request(1, 5);
    r.priority          = 1;
    const uint64_t high = add(r), low = add(request(2, 5));
    cr_assert_eq(run(ended, last), 3);
    cr_expect_eq(ended[0], high, "it takes the place of the one that runs");
    cr_expect_eq(ended[1], first, "which came before");
    cr_expect_eq(ended[2], low);
    cr_expect_eq(rp_engine_stats(engine).preempted, 1);
    /* Requests of priority 1 keep coming. */
    rp_sampler_reset(samplers[3]);
    const uint64_t patient = add(request(3, 5));
    int            steps   = 0;
    for (bool done = false; !done; steps++) {
        RpEngineEvent v;
        cr_assert_lt(steps, 5000, "it waits for ever");
        if (rp_engine_pending(engine) < 3)
            rp_sampler_reset(samplers[4]), (void)add((RpRequest){.prompt     = prompt,
                                                                 .n_prompt   = 1,
                                                                 .sampler    = samplers[4],
                                                                 .max_tokens = 100,
                                                                 .ignore_end = true,
                                                                 .priority   = 1});
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &v)) done |= v.end && v.id == patient;
    }
    cr_expect_gt(steps, 256);
}

Test(engine_requests, the_memory_is_known_before_and_the_second_prompt_is_found) {
    RpEngineMemory memory;
    uint64_t       ended[1];
    RpEngineEvent  last[1];
    OK(rp_engine_memory(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .cache_tokens = 200}, &memory));
    cr_expect_eq(memory.n_blocks, 7, "200 positions are 7 blocks of 32");
    cr_expect_eq(memory.kv, (size_t)rp_model_info(model)->n_layer * 7 * 32 * 2 * 2 *
                                (size_t)rp_model_info(model)->n_head_kv * (size_t)rp_model_info(model)->head_dim);
    cr_expect_eq(memory.total, memory.weights + memory.kv + memory.arena);
    int32_t longer[100];
    for (int i = 0; i < 100; i++) longer[i] = 3 + i * i % 60;
    RpRequest r = request(0, 2);
    r.prompt = longer, r.n_prompt = 100;
    (void)add(r);
    (void)run(ended, last);
    cr_expect_eq(last[0].n_cached, 0);
    (void)add(r);
    (void)run(ended, last);
    cr_expect_eq(last[0].n_cached, 96, "three blocks, and the rest is computed");
    cr_expect_eq(rp_engine_stats(engine).kept, 3);
}

/* Tokens of n replies in a step, and the columns of the shortest plan that holds them. */
Test(engine_requests, a_step_runs_the_shortest_plan_that_holds_it) {
    enum { MOST = 20 };
    static const int plans[] = {1, 2, 3, 4, 6, 8, 12, 16, 32};
    RpSamplerParams  p       = rp_sampler_defaults();
    RpSampler       *own[MOST];
    rp_engine_free(engine);
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 32, .n_seq = MOST, .n_threads = 1, .step_tokens = 64},
                      &engine));
    for (int i = 0; i < MOST; i++) OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &own[i]));
    for (int n = 1; n <= MOST; n++) {
        uint64_t            ended[MOST];
        RpEngineEvent       last[MOST];
        const RpEngineStats before = rp_engine_stats(engine);
        int                 plan   = 0;
        while (plans[plan] < n) plan++;
        for (int i = 0; i < n; i++)
            (void)add(
                (RpRequest){.prompt = prompt, .n_prompt = 1, .sampler = own[i], .max_tokens = 3, .ignore_end = true});
        cr_assert_eq(run(ended, last), n, CASE(n));
        const RpEngineStats after = rp_engine_stats(engine);
        cr_expect_eq(after.steps - before.steps, 3, CASE(n));
        cr_expect_eq(after.tokens - before.tokens, 3 * (uint64_t)n, CASE(n));
        cr_expect_eq(after.padding - before.padding, 3 * (uint64_t)(plans[plan] - n), CASE(n));
    }
    for (int i = 0; i < MOST; i++) rp_sampler_free(own[i]);
}

/* Guesses are columns of the step, of which there are no more than step_tokens. */
Test(engine_requests, guesses_fit_into_the_longest_step) {
    enum { REPLY = 40, STEP = 4 };
    int32_t  tokens[2][REPLY], again[20];
    uint64_t drafted = 0;
    for (int32_t i = 0; i < 20; i++) again[i] = 3 + i % 5;
    for (int with = 0; with < 2; with++) {
        RpRequest       r = request(with, REPLY);
        RpEngine       *small;
        RpEngineEvent   v;
        uint64_t        id;
        int             n = 0;
        RpSampler      *greedy;
        RpSamplerParams p = rp_sampler_defaults();
        p.temperature     = 0.0f;
        OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &greedy));
        OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1, .step_tokens = STEP, .n_threads = 1},
                          &small));
        r.prompt = again, r.n_draft = with * 15, r.sampler = greedy;
        OK(rp_engine_add(small, &r, &id));
        while (rp_engine_pending(small) > 0) {
            OK(rp_engine_step(small));
            cr_assert_leq(rp_engine_stats(small).last_step_tokens, STEP, CASE(with, n));
            while (rp_engine_poll(small, &v)) tokens[with][n++] = v.token, drafted = (uint64_t)v.n_drafted;
        }
        cr_expect_eq(n, REPLY, CASE(with));
        rp_engine_free(small);
        rp_sampler_free(greedy);
    }
    cr_expect_gt(drafted, 0, "nothing was guessed");
    cr_expect_arr_eq(tokens[0], tokens[1], sizeof tokens[0]);
}
