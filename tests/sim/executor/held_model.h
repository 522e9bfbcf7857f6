/* held_model.h - a tiny model, a vocabulary of short texts for it, grammars and samplers: for replies that a grammar
 * holds on the simulated device. */
#ifndef TESTS_HELD_MODEL_H
#define TESTS_HELD_MODEL_H

#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "reprise/grammar.h"
#include "sim/device/sim.h"

enum { N_CTX = 96, N_REPLY = 16, N_PROMPT = 6, N_VOCAB = 64, N_LETTERS = 46, N_TEXTS = 14 };

static const int32_t prompt[N_PROMPT] = {5, 17, 40, 8, 21, 33};

static RpModel        *model;
static RpGrammarVocab *vocab;

/* Tokens of one character, then some of several. */
static inline void setup(void) {
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

static inline void teardown(void) {
    rp_grammar_vocab_free(vocab);
    rp_model_free(model);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

static inline RpSession *open_session(const RpModel *m, RpExecMode mode) {
    const RpSessionOptions o = {
        .n_ctx = N_CTX, .prefill_chunk = 4, .device = "cuda", .mode = mode, .require_graph = mode != RP_MODE_EAGER};
    RpSession *s;
    OK(rp_session_open(m, &o, &s));
    cr_assert_eq(rp_session_info(s).mode, mode, "%s", rp_session_info(s).reason);
    return s;
}

/* k: 0 greedy, 1 to 3 samplers with more and more steps. */
static inline RpSampler *new_sampler(const RpModel *m, int k, uint64_t seed) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = k == 0 ? 0.0f : k == 1 ? 0.8f : 2.5f;
    p.seed        = seed;
    if (k >= 2) p.repeat_penalty = 1.3f, p.frequency_penalty = 0.4f, p.presence_penalty = 0.2f;
    if (k == 3) p.top_k = 12, p.top_p = 0.9f, p.min_p = 0.02f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

static inline RpGrammar *grammar_of(int i) {
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

static inline void ignore(const RpSampledToken *t, void *user) { (void)t, (void)user; }

/* On the host: an observer of the sampler asks for it. */
static inline Run run(RpSession *s, RpSampler *sampler, const RpGrammar *g, bool on_host) {
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

#endif
