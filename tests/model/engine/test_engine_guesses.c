/* Replies of the program with guesses: a callback that ends a reply leaves the tokens that rp_generate leaves. */
#include "cli/guesses.h"
#include "tests/support/case.h"
#include "tests/support/golden.h"

#define DEMO RP_SOURCE_DIR "/assets/demo.gguf"

enum { MAX_TOKENS = 40 };

typedef struct Reader {
    char   text[2048];
    size_t n, wanted; /* bytes, after which it ends the reply */
} Reader;

static bool read_until(const char *text, size_t len, void *user) {
    Reader *r = user;
    memcpy(r->text + r->n, text, len);
    r->n += len;
    return r->n < r->wanted;
}

/* The model is its own draft: all guesses are right, so that a step has several tokens. */
Test(engine_guesses, a_reply_that_is_ended_has_the_tokens_of_rp_generate) {
    const GuessArgs  guesses = {.draft = DEMO, .n_draft = 8};
    const DeviceArgs device  = {.name = "cpu"};
    RpEngineOptions  options = {.n_ctx = 128, .n_threads = 1};
    RpSamplerParams  p       = rp_sampler_defaults();
    RpTokenList      ids     = {0};
    RpModel         *m, *draft;
    RpEngine        *e;
    RpSession       *s;
    RpSampler       *sampler;
    OK(rp_model_open(DEMO, NULL, &m));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1, .device = "cpu"}, &s));
    OK(cli_open_guessing(&guesses, m, &device, true, &options, &e, &draft));
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_tokenize(rp_model_tokenizer(m), "In the beginning", 16, RP_TOK_ADD_SPECIAL, &ids));
    for (size_t wanted = 1; wanted < 120; wanted += 7) {
        Reader           of_session = {.wanted = wanted}, of_engine = {.wanted = wanted};
        RpTokenList      want = {0}, got = {0};
        RpGenerateResult plain;
        GuessResult      guessed;
        OK(rp_session_rewind(s, 0));
        OK(rp_generate(
            s, sampler, ids.ids, ids.n,
            &(RpGenerateOptions){.max_tokens = MAX_TOKENS, .on_text = read_until, .tokens = &want, .user = &of_session},
            &plain));
        OK(cli_generate_guessing(
            &guesses, e, sampler, &ids, 0,
            &(RpGenerateOptions){.max_tokens = MAX_TOKENS, .on_text = read_until, .tokens = &got, .user = &of_engine},
            &guessed));
        cr_expect_eq(of_engine.n, of_session.n, CASE(wanted));
        cr_assert_eq(got.n, want.n, CASE(wanted));
        cr_expect_arr_eq(got.ids, want.ids, got.n * sizeof *got.ids, CASE(wanted));
        cr_expect_eq(guessed.reply.n_generated, plain.n_generated, CASE(wanted));
        cr_expect_eq(guessed.reply.reason, plain.reason, CASE(wanted));
        rp_token_list_free(&want), rp_token_list_free(&got);
    }
    rp_token_list_free(&ids), rp_sampler_free(sampler), rp_engine_free(e), rp_session_free(s);
    rp_model_free(draft), rp_model_free(m);
}
