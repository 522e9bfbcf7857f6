/* rp_generate with a matcher, on the demo model: every reply is a text of the grammar, the context holds its tokens,
 * and the tokens are those of a loop that masks, samples and accepts. */
#include "tests/support/case.h"
#include "tests/support/grammar_test.h"

#include "reprise/session.h"

#include <math.h>
#include <stdlib.h>

#define DEMO RP_SOURCE_DIR "/assets/demo.gguf"

static RpModel        *model;
static RpSession      *session;
static RpSampler      *sampler;
static RpGrammarVocab *vocab;
static char            text[8192];
static size_t          n_text;

static void new_sampler(uint64_t seed) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 0.9f;
    p.seed            = seed;
    rp_sampler_free(sampler);
    OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler));
}

static void setup(void) {
    const RpSessionOptions o = {.n_ctx = 128, .n_threads = 1, .prefill_chunk = 4};
    OK(rp_model_open(DEMO, NULL, &model));
    OK(rp_session_open(model, &o, &session));
    OK(rp_grammar_vocab_new(rp_model_tokenizer(model), &vocab));
    new_sampler(1);
}

static void teardown(void) {
    rp_sampler_free(sampler);
    rp_grammar_vocab_free(vocab);
    rp_session_free(session);
    rp_model_free(model);
}

TestSuite(structured, .init = setup, .fini = teardown);

static bool on_text(const char *bytes, size_t len, void *user) {
    (void)user;
    cr_assert_lt(n_text + len, sizeof text);
    memcpy(text + n_text, bytes, len);
    n_text += len;
    return true;
}

static const int32_t prompt[] = {5, 9, 17, 33};

static RpGenerateResult generate(const RpGrammar *g, int32_t max_tokens, RpTokenList *tokens) {
    RpMatcher       *m;
    RpGenerateResult r;
    OK(rp_matcher_new(g, vocab, &m));
    const RpGenerateOptions o = {.max_tokens = max_tokens, .on_text = on_text, .tokens = tokens, .matcher = m};
    n_text                    = 0;
    OK(rp_session_rewind(session, 0));
    OK(rp_generate(session, sampler, prompt, 4, &o, &r));
    if (r.reason == RP_STOP_GRAMMAR) cr_expect(rp_matcher_finished(m));
    rp_matcher_free(m);
    return r;
}

/* The logits behind the context are those of a session that was given prompt and reply at once. */
static void check_context(const RpTokenList *tokens) {
    const int32_t          n_vocab = rp_model_info(model)->n_vocab;
    float                 *logits  = malloc((size_t)n_vocab * sizeof *logits);
    RpSession             *other;
    const RpSessionOptions o = {.n_ctx = 128, .n_threads = 1};
    cr_assert(logits != NULL);
    cr_expect_eq(rp_session_n_past(session), (int32_t)(4 + tokens->n - 1));
    OK(rp_session_step(session, tokens->ids[tokens->n - 1]));
    OK(rp_session_open(model, &o, &other));
    OK(rp_session_prefill(other, prompt, 4, NULL, NULL));
    OK(rp_session_prefill(other, tokens->ids, tokens->n, NULL, NULL));
    cr_expect_eq(memcmp(rp_session_logits(other), rp_session_logits(session), (size_t)n_vocab * sizeof *logits), 0);
    rp_session_free(other);
    free(logits);
}

Test(structured, replies_are_texts_of_the_grammar) {
    static const char *const schemas[] = {
        "{\"type\": \"object\", \"properties\": {\"name\": {\"enum\": [\"Ada\", \"Grace\"]}, \"n\": {\"type\": "
        "\"integer\", \"maximum\": 99, \"minimum\": 0}}, \"required\": [\"name\", \"n\"], \"additionalProperties\": "
        "false}",
        "{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"minItems\": 2, \"maxItems\": 5}",
        "{\"type\": \"string\", \"pattern\": \"^[a-c]{2,4}$\"}"};
    int forced = 0;
    for (int i = 0; i < 3; i++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            RpGrammar  *g;
            RpTokenList tokens = {0};
            OK(rp_grammar_json_schema(schemas[i], strlen(schemas[i]), RP_GRAMMAR_COMPACT, &g));
            new_sampler(seed);
            const RpGenerateResult r = generate(g, 0, &tokens);
            cr_expect(r.reason == RP_STOP_GRAMMAR || r.reason == RP_STOP_END_TOKEN, "%d: %s", i,
                      rp_stop_reason_name(r.reason));
            cr_expect(matches_n(g, text, n_text), "schema %d, seed %d: %.*s", i, (int)seed, (int)n_text, text);
            cr_expect_eq((size_t)r.n_generated, tokens.n, CASE(i));
            check_context(&tokens);
            forced += strncmp(text, "{\"name\":", 8) == 0;
            rp_token_list_free(&tokens);
            rp_grammar_free(g);
        }
    cr_expect_eq(forced, 10);
}

/* Without forced tokens a reply is what the parts give. */
Test(structured, tokens_are_those_of_a_loop_of_its_own) {
    RpTokenList tokens = {0};
    RpGrammar  *g;
    RpMatcher  *m;
    OK(rp_grammar_regex("[a-z ]{40,80}", 13, &g));
    const RpGenerateResult r = generate(g, 12, &tokens);
    cr_expect_eq(r.reason, RP_STOP_LIMIT);
    uint32_t *bits = calloc((size_t)rp_grammar_vocab_size(vocab) / 32 + 1, sizeof *bits);
    cr_assert(bits != NULL);
    new_sampler(1);
    OK(rp_matcher_new(g, vocab, &m));
    OK(rp_session_rewind(session, 0));
    OK(rp_session_prefill(session, prompt, 4, NULL, NULL));
    for (int i = 0; i < 4; i++) rp_sampler_accept(sampler, prompt[i]);
    for (size_t i = 0; i < tokens.n; i++) {
        int32_t token;
        OK(rp_matcher_mask(m, bits));
        rp_sampler_set_mask(sampler, bits);
        OK(rp_sampler_sample(sampler, rp_session_logits(session), &token));
        cr_assert_eq(token, tokens.ids[i], CASE(i));
        OK(rp_matcher_accept(m, token));
        OK(rp_session_step(session, token));
    }
    rp_matcher_free(m);
    rp_token_list_free(&tokens);
    rp_grammar_free(g);
    free(bits);
}

/* The tokens of a forced text are those of the tokenizer, as far as no other token could begin in it. */
Test(structured, forced_tokens_are_the_tokenizers) {
    const RpTokenizer *tk     = rp_model_tokenizer(model);
    RpTokenList        forced = {0}, whole = {0};
    RpGrammar         *g;
    RpMatcher         *m;
    OK(rp_grammar_regex("the cat sat on the mat (and|or) ran", 35, &g));
    OK(rp_matcher_new(g, vocab, &m));
    OK(rp_matcher_forced(m, &forced));
    OK(rp_tokenize(tk, "the cat sat on the mat and ran", 30, 0, &whole));
    size_t bytes = 0;
    for (size_t i = 0; i < forced.n; i++) {
        RpGgufString s;
        cr_assert_eq(forced.ids[i], whole.ids[i], CASE(i));
        OK(rp_token_bytes(tk, forced.ids[i], false, &s));
        OK(rp_matcher_accept(m, forced.ids[i]));
        bytes += s.len;
    }
    cr_expect_leq(bytes, (size_t)23);
    cr_expect_gt(bytes, (size_t)10);
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_token_list_free(&forced);
    rp_token_list_free(&whole);
}

Test(structured, a_matcher_of_another_vocabulary_is_refused) {
    RpGrammarVocab  *bytes = byte_vocab();
    RpGenerateResult r;
    RpGrammar       *g;
    RpMatcher       *m;
    OK(rp_grammar_regex("a", 1, &g));
    OK(rp_matcher_new(g, bytes, &m));
    const RpGenerateOptions o = {.matcher = m};
    cr_expect_eq(rp_generate(session, sampler, prompt, 4, &o, &r), RP_E_ARG);
    char want[128];
    snprintf(want, sizeof want, "the matcher is for a vocabulary of 257 tokens, the model has %d",
             rp_model_info(model)->n_vocab);
    cr_expect_str_eq(rp_last_error(), want);
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_grammar_vocab_free(bytes);
}
