/* Replies that a grammar holds, on the simulated device: the mask is made while the device computes, the device samples,
 * and only the token comes back. The reference is the same session with an observer of the sampler, for which the host
 * samples from logits that are copied: tokens and logits have to be equal. The CPU, whose logits have other last bits, has to
 * give the same greedy tokens. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "base/held.h"
#include "reprise/engine.h"
#include "reprise/grammar.h"
#include "sim/device/sim.h"

enum { N_CTX = 64, N_REPLY = 16, N_PROMPT = 6, N_VOCAB = 64, N_LETTERS = 46, N_TEXTS = 14 };

static const int32_t prompt[N_PROMPT] = {5, 17, 40, 8, 21, 33};

static RpModel        *model;
static RpGrammarVocab *vocab;

/* Tokens of one character, then some of several. */
static void setup(void) {
    static const char        letters[]      = "abcdefghijklmnopqrstuvwxyz0123456789{}[]:,\". -";
    static const char *const texts[N_TEXTS] = {"true", "false", "null", "ab", "the", "[1", "\",",
                                               "{\"",  "tr",    "12",   "-1", "cat", " a", "],"};
    RpGgufString             tokens[N_VOCAB];
    int32_t                  end[N_VOCAB];
    size_t                   n_end = 0;
    model                          = golden_open_tiny("llama-mix");
    cr_assert_eq(rp_model_info(model)->n_vocab, (int32_t)N_VOCAB);
    for (int32_t i = 0, k = 0; i < N_VOCAB; i++) {
        tokens[i] = (RpGgufString){"", 0};
        if (rp_tokenizer_is_end(rp_model_tokenizer(model), i)) {
            end[n_end++] = i;
        } else if (k < N_LETTERS + N_TEXTS) {
            tokens[i] = k < N_LETTERS ? (RpGgufString){&letters[k], 1}
                                      : (RpGgufString){texts[k - N_LETTERS], strlen(texts[k - N_LETTERS])};
            k++;
        }
    }
    cr_assert_gt(n_end, (size_t)0);
    OK(rp_grammar_vocab_of(tokens, N_VOCAB, end, n_end, &vocab));
}

static void teardown(void) {
    rp_grammar_vocab_free(vocab);
    rp_model_free(model);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

TestSuite(cuda_held, .init = setup, .fini = teardown);

static RpSession *open_session(const RpModel *m, RpExecMode mode) {
    const RpSessionOptions o = {
        .n_ctx = N_CTX, .prefill_chunk = 4, .device = "cuda", .mode = mode, .require_graph = mode != RP_MODE_EAGER};
    RpSession *s;
    OK(rp_session_open(m, &o, &s));
    cr_assert_eq(rp_session_info(s).mode, mode, "%s", rp_session_info(s).reason);
    return s;
}

static RpSession *open_cpu(const RpModel *m) {
    RpSession *s;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .prefill_chunk = 4, .n_threads = 1, .device = "cpu"},
                       &s));
    return s;
}

/* k: 0 greedy, 1 to 3 samplers with more and more steps. */
static RpSampler *new_sampler(const RpModel *m, int k, uint64_t seed) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = k == 0 ? 0.0f : k == 1 ? 0.8f : 2.5f;
    p.seed        = seed;
    if (k >= 2) p.repeat_penalty = 1.3f, p.frequency_penalty = 0.4f, p.presence_penalty = 0.2f;
    if (k == 3) p.top_k = 12, p.top_p = 0.9f, p.min_p = 0.02f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

static RpGrammar *grammar_of(int i) {
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"cat\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, "
        "\"maxItems\": 3}, \"a\": {\"type\": \"integer\"}}, \"required\": [\"cat\", \"a\"], "
        "\"additionalProperties\": false}";
    static const char         gbnf[]    = "root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= [a-f]+ \":\" [0-9.-]+\n";
    static const RpGgufString choices[] = {
        {"the cat",       7 },
        {"the cab 12",    10},
        {"ab[12,3],true", 13},
        {"false",         5 },
        {"nullnull",      8 }
    };
    RpGrammar *g;
    if (i == 0) OK(rp_grammar_json_schema(schema, sizeof schema - 1, RP_GRAMMAR_COMPACT, &g));
    if (i == 1) OK(rp_grammar_gbnf(gbnf, sizeof gbnf - 1, &g));
    if (i == 2) OK(rp_grammar_regex("[a-z ]{8,40}\\.(true|false|12)?", 31, &g));
    if (i == 3) OK(rp_grammar_choices(choices, 5, &g));
    return g;
}

enum { N_GRAMMARS = 4, N_SAMPLERS = 4 };

typedef struct Run {
    RpTokenList      tokens;
    RpGenerateResult r;
    int32_t          n_past;
    float            logits[N_VOCAB];
    SimStats         stats; /* behind the prompt */
} Run;

static void ignore(const RpSampledToken *t, void *user) { (void)t, (void)user; }

/* On the host: an observer of the sampler asks for it. */
static Run run(RpSession *s, RpSampler *sampler, const RpGrammar *g, bool on_host) {
    Run        x = {0};
    RpMatcher *m = NULL;
    if (g != NULL) OK(rp_matcher_new(g, vocab, &m));
    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    rp_sampler_observe(sampler, on_host ? ignore : NULL, NULL);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    sim_stats_reset();
    OK(rp_generate(
        s, sampler, NULL, 0,
        &(RpGenerateOptions){.max_tokens = N_REPLY, .ignore_end = g == NULL, .tokens = &x.tokens, .matcher = m}, &x.r));
    x.stats = sim_stats();
    cr_expect_eq(x.r.host_sampling != NULL, on_host && strcmp(rp_session_info(s).device, "cpu") != 0);
    x.n_past = rp_session_n_past(s);
    cr_assert_not_null(rp_session_logits(s));
    memcpy(x.logits, rp_session_logits(s), sizeof x.logits);
    rp_matcher_free(m);
    return x;
}

#define EXPECT_SAME(got, want, ...)                                                                                    \
    do {                                                                                                               \
        cr_assert_eq((got).tokens.n, (want).tokens.n, __VA_ARGS__);                                                    \
        cr_expect_arr_eq((got).tokens.ids, (want).tokens.ids, (want).tokens.n * sizeof(int32_t), __VA_ARGS__);         \
        cr_expect_eq((got).r.reason, (want).r.reason, __VA_ARGS__);                                                    \
        cr_expect_eq((got).n_past, (want).n_past, __VA_ARGS__);                                                        \
    } while (0)

Test(cuda_held, replies_have_the_tokens_of_the_host) {
    RpSession *on[RP_MODE_LOOP + 1] = {NULL}, *cpu = open_cpu(model);
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) on[mode] = open_session(model, (RpExecMode)mode);
    for (int i = 0; i < N_GRAMMARS; i += SIM_EACH)
        for (int k = 0; k < N_SAMPLERS; k++)
            for (uint64_t seed = 0; seed < (k == 0 ? 1 : 2); seed++) {
                RpGrammar *g       = grammar_of(i);
                RpSampler *sampler = new_sampler(model, k, seed);
                Run        want = run(on[RP_MODE_REPLAY], sampler, g, true), host = run(cpu, sampler, g, false);
                if (k == 0) EXPECT_SAME(host, want, CASE(i, k, seed));
                for (int mode = seed > 0 || k == 1 ? RP_MODE_LOOP : RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
                    Run got = run(on[mode], sampler, g, false);
                    EXPECT_SAME(got, want, CASE(i, k, mode));
                    cr_expect_arr_eq(got.logits, want.logits, sizeof want.logits, CASE(i, k, mode));
                    rp_token_list_free(&got.tokens);
                }
                rp_token_list_free(&want.tokens), rp_token_list_free(&host.tokens);
                rp_sampler_free(sampler);
                rp_grammar_free(g);
            }
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) rp_session_free(on[mode]);
    rp_session_free(cpu);
}

/* For each token one graph, the two kernels of the sampler, a copy of the mask and four bytes back; the step state once.
 * Nothing is captured or allocated (I3, I9). The host samples the first token, from the logits of the prompt. */
Test(cuda_held, only_tokens_come_back) {
    RpGrammar *g       = grammar_of(2);
    RpSampler *sampler = new_sampler(model, 1, 3);
    for (int mode = RP_MODE_REPLAY; mode <= RP_MODE_LOOP; mode++) {
        RpSession          *s     = open_session(model, (RpExecMode)mode);
        Run                 x     = run(s, sampler, g, false);
        const unsigned long steps = x.tokens.n - 1, mask = RP_SAMPLE_EXTRA_WORDS + N_VOCAB / 32;
        cr_assert_gt(steps, 7ul, CASE(mode));
        cr_expect_eq(x.stats.d2h_bytes, 4 * steps, CASE(mode));
        cr_expect_eq(x.stats.d2h_copies, steps, CASE(mode));
        cr_expect_eq(x.stats.graph_launches, steps, CASE(mode));
        cr_expect_eq(x.stats.launch_calls, 2 * steps, CASE(mode));
        cr_expect_eq(x.stats.h2d_copies, steps + 1, CASE(mode));
        cr_expect_leq(x.stats.h2d_bytes, 4 * (steps * mask + RP_STEP_WORDS + 64), CASE(mode));
        cr_expect_eq(x.stats.captures + x.stats.instantiates + x.stats.allocs, 0ul, CASE(mode));
        rp_token_list_free(&x.tokens);
        rp_session_free(s);
    }
    rp_sampler_free(sampler);
    rp_grammar_free(g);
}

/* A reply that the device samples by itself, before and after one with masks: it gets no mask that was left. */
Test(cuda_held, the_next_reply_is_free) {
    RpGrammar *g       = grammar_of(1);
    RpSampler *sampler = new_sampler(model, 1, 3);
    for (int mode = RP_MODE_REPLAY; mode <= RP_MODE_LOOP; mode++) {
        RpSession *s = open_session(model, (RpExecMode)mode);
        Run free = run(s, sampler, NULL, false), held = run(s, sampler, g, false), again = run(s, sampler, NULL, false),
            held_again = run(s, sampler, g, false);
        EXPECT_SAME(again, free, CASE(mode));
        EXPECT_SAME(held_again, held, CASE(mode));
        cr_expect_eq(free.stats.graph_launches, mode == RP_MODE_LOOP ? 1ul : N_REPLY - 1, CASE(mode));
        rp_token_list_free(&free.tokens), rp_token_list_free(&held.tokens);
        rp_token_list_free(&again.tokens), rp_token_list_free(&held_again.tokens);
        rp_session_free(s);
    }
    rp_sampler_free(sampler);
    rp_grammar_free(g);
}

/* ---- tokens of the caller ---- */

typedef struct Forcer {
    int  n, every, wrong; /* every n-th token is forced; call `wrong` gives one out of range */
    bool checks;
} Forcer;

static bool forget(int32_t token, void *user) {
    (void)token, (void)user;
    sim_stats_reset();
    return true;
}

static int32_t force(void *user) {
    Forcer        *f   = user;
    const SimStats now = sim_stats();
    if (f->checks && f->n > 0) { /* the first token is sampled from the logits of the prompt */
        cr_expect_eq(now.graph_launches, 1ul, "call %d: the step is launched", f->n);
        cr_expect_eq(now.kernels, 0ul, "call %d: and the host does not wait for it", f->n);
    }
    if (++f->n == f->wrong) return 1 << 20;
    return f->every > 0 && f->n % f->every == 0 ? 7 + f->n : -1;
}

static RpStatus forced_reply(RpSession *s, RpSampler *sampler, const RpGrammar *g, Forcer f, bool on_host, Run *x) {
    RpMatcher *m = NULL;
    *x           = (Run){.r = {0}};
    if (g != NULL) OK(rp_matcher_new(g, vocab, &m));
    const RpGenerateOptions o = {.max_tokens  = N_REPLY,
                                 .ignore_end  = true,
                                 .tokens      = &x->tokens,
                                 .matcher     = m,
                                 .force_token = force,
                                 .on_token    = f.checks ? forget : NULL,
                                 .user        = &f};
    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    rp_sampler_observe(sampler, on_host ? ignore : NULL, NULL);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    const RpStatus st = rp_generate(s, sampler, NULL, 0, &o, &x->r);
    x->n_past         = rp_session_n_past(s);
    rp_matcher_free(m);
    return st;
}

/* They draw no random number, and are among the recent tokens of the penalties. */
Test(cuda_held, forced_tokens_are_those_of_the_host) {
    for (int k = 1; k < N_SAMPLERS; k += 2) {
        RpSampler *sampler = new_sampler(model, k, 5);
        for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode += 2) {
            RpSession *s = open_session(model, (RpExecMode)mode);
            for (int every = 1; every < 6; every += 2) {
                Run want, got;
                OK(forced_reply(s, sampler, NULL, (Forcer){.every = every}, true, &want));
                float before[N_VOCAB];
                memcpy(before, rp_session_logits(s), sizeof before);
                OK(forced_reply(s, sampler, NULL, (Forcer){.every = every}, false, &got));
                cr_expect_null(got.r.host_sampling, CASE(k, mode, every));
                EXPECT_SAME(got, want, CASE(k, mode, every));
                cr_expect_arr_eq(rp_session_logits(s), before, sizeof before, CASE(k, mode, every));
                rp_token_list_free(&got.tokens), rp_token_list_free(&want.tokens);
            }
            rp_session_free(s);
        }
        rp_sampler_free(sampler);
    }
}

Test(cuda_held, the_host_prepares_a_token_while_the_device_computes) {
    RpSampler *sampler = new_sampler(model, 1, 5);
    RpSession *s       = open_session(model, RP_MODE_LOOP);
    RpGrammar *g       = grammar_of(2);
    Run        x;
    OK(forced_reply(s, sampler, g, (Forcer){.checks = true}, false, &x));
    cr_expect_gt(x.tokens.n, (size_t)8);
    rp_token_list_free(&x.tokens);
    rp_grammar_free(g);
    rp_session_free(s);
    rp_sampler_free(sampler);
}

/* The token before was run, as it is on the host, and the session goes on. */
Test(cuda_held, a_token_that_cannot_be_prepared_ends_the_reply) {
    RpSampler *sampler = new_sampler(model, 1, 5);
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        RpSession *s = open_session(model, (RpExecMode)mode);
        Run        want, got, again;
        OK(forced_reply(s, sampler, NULL, (Forcer){.every = 3}, false, &want));
        REFUSED(forced_reply(s, sampler, NULL, (Forcer){.every = 3, .wrong = 6}, false, &got), RP_E_ARG,
                "force_token gave token 1048576, the vocabulary has 64");
        cr_expect_eq(got.n_past, N_PROMPT + 5, CASE(mode));
        cr_assert_eq(got.tokens.n, (size_t)5, CASE(mode));
        cr_expect_arr_eq(got.tokens.ids, want.tokens.ids, 5 * sizeof(int32_t), CASE(mode));
        OK(forced_reply(s, sampler, NULL, (Forcer){.every = 3}, false, &again));
        EXPECT_SAME(again, want, CASE(mode));
        rp_token_list_free(&want.tokens), rp_token_list_free(&got.tokens), rp_token_list_free(&again.tokens);
        rp_session_free(s);
    }
    rp_sampler_free(sampler);
}

/* ---- engines ---- */

enum { N_SEQ = 3 };

typedef struct Held {
    RpMatcher  *matcher;
    RpSampler  *sampler;
    RpTokenList tokens;
    uint32_t    bits[N_VOCAB / 32];
    int         n_asked;
    bool        checks;
} Held;

/* The reference makes each mask when the token before is known. */
static bool mask_next(int32_t token, void *user) {
    Held *h = user;
    OK(rp_matcher_accept(h->matcher, token));
    OK(rp_matcher_mask(h->matcher, h->bits));
    return !rp_matcher_finished(h->matcher);
}

static int32_t ask(void *user) {
    Held *h = user;
    h->n_asked++;
    if (h->checks) cr_expect_eq(sim_stats().kernels, 0ul, "call %d: the step is under way", h->n_asked);
    return -1;
}

static void engine_replies(const RpGrammar *g, int32_t n_draft, bool by_hand, Held h[N_SEQ]) {
    RpEngine     *e;
    RpEngineEvent v;
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = N_SEQ, .device = "cuda"}, &e));
    for (int i = 0; i < N_SEQ; i++) {
        h[i] = (Held){.sampler = new_sampler(model, 1, (uint64_t)i), .checks = !by_hand && n_draft == 0};
        OK(rp_matcher_new(g, vocab, &h[i].matcher));
        OK(rp_matcher_mask(h[i].matcher, h[i].bits));
        RpRequest r = {.prompt = prompt, .n_prompt = N_PROMPT - (size_t)i, .max_tokens = N_REPLY, .n_draft = n_draft};
        r.user = r.token_user = &h[i], r.sampler = h[i].sampler;
        if (by_hand) r.on_token = mask_next, rp_sampler_set_mask(h[i].sampler, h[i].bits);
        if (!by_hand) r.matcher = h[i].matcher, r.force_token = ask;
        uint64_t id;
        OK(rp_engine_add(e, &r, &id));
    }
    while (rp_engine_pending(e) > 0) {
        sim_stats_reset();
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            Held *of = v.user;
            cr_expect_eq(v.status, RP_OK, "%s", v.error != NULL ? v.error : "");
            if (v.token >= 0) OK(rp_token_list_push(&of->tokens, v.token));
        }
    }
    for (int i = 0; i < N_SEQ; i++) rp_matcher_free(h[i].matcher), rp_sampler_free(h[i].sampler);
    rp_engine_free(e);
}

/* The host makes the masks of all requests while the device computes the step, and samples when it has the logits. */
Test(cuda_held, an_engine_makes_masks_while_the_device_computes) {
    for (int i = 1; i < 3; i++)
        for (int32_t n_draft = 0; n_draft <= 3; n_draft += 3) {
            RpGrammar *g = grammar_of(i);
            Held       want[N_SEQ], got[N_SEQ];
            engine_replies(g, n_draft, true, want);
            engine_replies(g, n_draft, false, got);
            for (int k = 0; k < N_SEQ; k++) {
                cr_assert_eq(got[k].tokens.n, want[k].tokens.n, CASE(i, n_draft, k));
                cr_expect_arr_eq(got[k].tokens.ids, want[k].tokens.ids, want[k].tokens.n * sizeof(int32_t),
                                 CASE(i, n_draft, k));
                cr_expect_eq(got[k].n_asked, (int)got[k].tokens.n, "asked once for each token");
                rp_token_list_free(&want[k].tokens), rp_token_list_free(&got[k].tokens);
            }
            rp_grammar_free(g);
        }
}

/* ---- failures ---- */

/* The nth `call` behind the prompt fails. */
static void check_failure(RpExecMode mode, const char *call, unsigned nth) {
    RpSession *s       = open_session(model, mode);
    RpSampler *sampler = new_sampler(model, 2, 1);
    RpGrammar *g       = grammar_of(2);
    Run        want    = run(s, sampler, g, false);
    RpMatcher *m;
    OK(rp_matcher_new(g, vocab, &m));
    RpTokenList             list = {0};
    RpGenerateResult        r;
    const RpGenerateOptions o = {.max_tokens = N_REPLY, .tokens = &list, .matcher = m};
    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    sim_fail(call, nth, cudaErrorInvalidValue);
    REFUSED(rp_generate(s, sampler, NULL, 0, &o, &r), RP_E_CUDA, cudaGetErrorString(cudaErrorInvalidValue));
    cr_expect_eq(sim_fails_left(), 0u, "%s %u", call, nth);
    cr_expect_eq(rp_session_n_past(s), N_PROMPT + (int32_t)list.n - 1, "%s %u", call, nth);
    cr_expect_arr_eq(list.ids, want.tokens.ids, list.n * sizeof(int32_t), "%s %u", call, nth);
    if (list.n > 1) cr_expect_null(rp_session_logits(s), "%s %u: logits of a run that failed", call, nth);
    Run again = run(s, sampler, g, false);
    EXPECT_SAME(again, want, "%s %u", call, nth);
    rp_token_list_free(&list), rp_token_list_free(&want.tokens), rp_token_list_free(&again.tokens);
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_sampler_free(sampler);
    rp_session_free(s);
}

Test(cuda_held, a_reply_that_fails_once_can_be_repeated) {
    check_failure(RP_MODE_REPLAY, "cudaGraphLaunch", 3);
    check_failure(RP_MODE_REPLAY, "cudaMemcpyAsync", 2);
    check_failure(RP_MODE_LOOP, "cudaLaunchKernelExC", 3);
    check_failure(RP_MODE_LOOP, "cudaLaunchKernelExC", 4);
    for (unsigned nth = 1; nth < 6; nth++) check_failure(RP_MODE_LOOP, "cudaMemcpyAsync", nth);
    for (unsigned nth = 1; nth < 4; nth++) check_failure(RP_MODE_LOOP, "cudaStreamSynchronize", nth);
    check_failure(RP_MODE_LOOP, "cudaSetDevice", 4);
    check_failure(RP_MODE_EAGER, "cudaLaunchKernelExC", 40);
    check_failure(RP_MODE_EAGER, "cudaMemcpyAsync", 4);
}

/* ---- other memory ---- */

typedef struct Plan {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Plan;

static RpStatus even_tokens(void *user, int32_t *extra, size_t *n_words) {
    const RpSampleExtra e = {.masked = 1};
    ++*(int *)user;
    memcpy(extra, &e, sizeof e);
    extra[RP_SAMPLE_EXTRA_WORDS] = extra[RP_SAMPLE_EXTRA_WORDS + 1] = 0x55555555;
    *n_words                                                        = RP_SAMPLE_EXTRA_WORDS + 2;
    return RP_OK;
}

static void held_tokens(Plan *p, int32_t out[N_REPLY]) {
    int                  calls = 0;
    const RpStepState    step  = {.token = 9, .top_p = 1.0f, .repeat_penalty = 1.0f, .temperature = 1.5f};
    const RpReplyOptions o     = {
            .state = (const int32_t *)&step, .n_state = RP_STEP_WORDS, .max_tokens = N_REPLY, .n_ctx = N_CTX};
    OK(rp_executor_held_begin(p->exec, &o));
    for (int i = 0; i < N_REPLY; i++) {
        OK(rp_executor_held_next(p->exec, even_tokens, &calls, &out[i]));
        cr_expect_eq(out[i] % 2, 0, CASE(i));
    }
    REFUSED(rp_executor_held_next(p->exec, even_tokens, &calls, &out[0]), RP_E_STATE, "no reply is under way");
    cr_expect_eq(calls, N_REPLY);
    OK(rp_executor_reply_end(p->exec, NULL));
}

/* Other KV caches: the nodes of the graph before the sampler get the new addresses too. */
Test(cuda_held, tokens_are_held_with_other_states) {
    Plan              p = {0};
    RpExecutorStates *states;
    int32_t           want[N_REPLY], got[N_REPLY];
    OK(rp_model_graph(model, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .draws = true}, &p.graph));
    OK(rp_graph_optimize(p.graph, ""));
    OK(rp_plan_new(p.graph, &p.plan));
    const RpExecutorOptions o = {
        .device = "cuda", .require_graph = true, .step = rp_graph_find(p.graph, "step"), .mode = RP_MODE_LOOP};
    OK(rp_executor_open(p.plan, &o, &p.exec));
    held_tokens(&p, want);
    OK(rp_executor_states_new(p.exec, &states));
    OK(rp_executor_states_bind(p.exec, states));
    held_tokens(&p, got);
    cr_expect_arr_eq(got, want, sizeof want);
    /* The first states were not written to. */
    const TensorNode  *k = rp_graph_find(p.graph, "k.0");
    static uint8_t     before[1 << 16], after[1 << 16], bound[1 << 16];
    const RpTensorView v     = rp_node_view(k);
    const size_t       bytes = rp_view_extent_bytes(&v);
    cr_assert_leq(bytes, sizeof before);
    OK(rp_executor_states_bind(p.exec, NULL));
    OK(rp_executor_poison(p.exec));
    OK(rp_executor_get(p.exec, k, before, bytes));
    memset(after, 0, bytes);
    OK(rp_executor_set(p.exec, k, after, bytes));
    OK(rp_executor_states_bind(p.exec, states));
    held_tokens(&p, got);
    OK(rp_executor_get(p.exec, k, bound, bytes));
    OK(rp_executor_states_bind(p.exec, NULL));
    OK(rp_executor_get(p.exec, k, after, bytes));
    cr_expect_arr_eq(bound, before, bytes);
    for (size_t i = 0; i < bytes; i++) cr_assert_eq(after[i], 0, CASE(i));
    rp_executor_states_free(states);
    rp_executor_free(p.exec);
    rp_plan_free(p.plan);
    rp_graph_free(p.graph);
}
