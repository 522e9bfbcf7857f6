/* Replies that a grammar holds, on the simulated device: the mask is made while the device computes, the device
 * samples, and only the token comes back. The reference is the same session with an observer of the sampler, for which
 * the host samples from logits that are copied: tokens and logits have to be equal. The CPU, whose logits have other
 * last bits, has to give the same greedy tokens. */
#include "tests/sim/executor/held_model.h"
#include "tests/support/suppressed_model.h"

TestSuite(cuda_held, .init = setup, .fini = teardown);

static RpSession *open_cpu(const RpModel *m) {
    RpSession *s;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = N_CTX, .prefill_chunk = 4, .n_threads = 1, .device = "cpu"},
                       &s));
    return s;
}

/* A second seed for every second pair of a grammar and a sampler; REPRISE_TEST_EVERY_MODEL: for all. */
static uint64_t n_seeds(int grammar, int k) {
    if (k == 0) return 1;
    return (grammar + k) % 2 == 0 || getenv("REPRISE_TEST_EVERY_MODEL") != NULL ? 2 : 1;
}

Test(cuda_held, replies_have_the_tokens_of_the_host) {
    RpSession *on[RP_MODE_LOOP + 1] = {NULL}, *cpu = open_cpu(model);
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) on[mode] = open_session(model, (RpExecMode)mode);
    for (int i = 0; i < N_GRAMMARS; i += SIM_EACH)
        for (int k = 0; k < N_SAMPLERS; k++)
            for (uint64_t seed = 0; seed < n_seeds(i, k); seed++) {
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

/* For each token one graph, the two kernels of the sampler, a copy of the mask and four bytes back; the step state
 * once. Nothing is captured or allocated (I3, I9). The host samples the first token, from the logits of the prompt. */
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

/* Tokens that the file suppresses are a mask that stays, alone and with that of a grammar. The device samples. */
Test(cuda_held, suppressed_tokens_are_masked_on_the_device) {
    RpSampler    *sampler = new_sampler(model, 0, 0);
    RpSession    *usual   = open_session(model, RP_MODE_REPLAY);
    RpGrammar    *g       = grammar_of(2);
    Run           before = run(usual, sampler, NULL, false), held_before = run(usual, sampler, g, false);
    const int32_t ids[] = {before.tokens.ids[1], held_before.tokens.ids[1]};
    RpModel      *m     = open_suppressed(GOLDEN_DIR "tiny/llama-mix.gguf", ids, 2);
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        RpSession *s = open_session(m, (RpExecMode)mode);
        for (int grammar = 0; grammar < 2; grammar++) {
            Run want = run(s, sampler, grammar ? g : NULL, true), got = run(s, sampler, grammar ? g : NULL, false);
            EXPECT_SAME(got, want, CASE(mode, grammar));
            cr_expect_eq(got.stats.d2h_bytes, 4 * (got.tokens.n - 1), CASE(mode, grammar));
            for (size_t i = 0; i < got.tokens.n; i++)
                cr_expect(got.tokens.ids[i] != ids[0] && got.tokens.ids[i] != ids[1], CASE(mode, grammar, i));
            rp_token_list_free(&want.tokens), rp_token_list_free(&got.tokens);
        }
        rp_session_free(s);
    }
    rp_token_list_free(&before.tokens), rp_token_list_free(&held_before.tokens);
    rp_session_free(usual);
    rp_sampler_free(sampler);
    rp_grammar_free(g);
    rp_model_free(m);
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
