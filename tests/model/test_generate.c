/* rp_generate: tokens, text, stop strings, limits and cancelling, against a loop over the session and the
 * sampler; the matcher of stop strings against a search from scratch after every byte. */
#include "reprise/engine.h"
#include "reprise/session.h"

#include "model/text/stop_match.h"
#include "tests/support/case.h"
#include "tests/support/suppressed_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY RP_SOURCE_DIR "/tests/golden/tiny/llama-f32.gguf"

static RpModel   *model;
static RpSession *session;
static RpSampler *sampler;
static int32_t    prompt[20];
static char       text[4096];
static size_t     n_text;
static int        n_calls, stop_at_call;

static void open_model(const char *path, int32_t n_ctx) {
    cr_assert_eq(rp_model_open(path, NULL, &model), RP_OK, "%s", rp_last_error());
    const RpSessionOptions o = {.n_ctx = n_ctx, .n_threads = 1, .prefill_chunk = 4};
    cr_assert_eq(rp_session_open(model, &o, &session), RP_OK, "%s", rp_last_error());
    for (int32_t i = 0; i < 20; i++) prompt[i] = 3 + 7 * i % 60;
}

static void new_sampler(float temperature, uint64_t seed) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = temperature;
    p.seed            = seed;
    rp_sampler_free(sampler);
    cr_assert_eq(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler), RP_OK);
}

static void setup(void) {
    open_model(TINY, 128);
    new_sampler(1.0f, 3);
}

static void teardown(void) {
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(model);
}

TestSuite(generate, .init = setup, .fini = teardown);

static bool on_text(const char *bytes, size_t len, void *user) {
    cr_assert_eq(user, (void *)text);
    cr_assert_lt(n_text + len, sizeof text);
    memcpy(text + n_text, bytes, len);
    n_text += len;
    text[n_text] = '\0';
    return ++n_calls != stop_at_call;
}

/* A reply from an empty context and a reset sampler: the same options give the same reply. */
static RpGenerateResult reply(size_t n_prompt, RpGenerateOptions o, RpTokenList *ids) {
    RpGenerateResult result;
    n_text    = 0;
    n_calls   = 0;
    text[0]   = '\0';
    o.on_text = on_text;
    o.user    = text;
    o.tokens  = ids;
    if (ids != NULL) ids->n = 0;
    rp_sampler_reset(sampler);
    cr_assert_eq(rp_session_rewind(session, 0), RP_OK);
    cr_assert_eq(rp_generate(session, sampler, prompt, n_prompt, &o, &result), RP_OK, "%s", rp_last_error());
    return result;
}

Test(generate, generates_the_tokens_of_a_manual_loop) {
    RpTokenList            ids    = {0};
    const RpGenerateResult result = reply(5, (RpGenerateOptions){.max_tokens = 40, .ignore_end = true}, &ids);
    cr_expect_eq(result.reason, RP_STOP_LIMIT);
    cr_expect_eq(result.n_prompt, 5);
    cr_expect_eq(result.n_generated, 40);
    cr_expect_eq(ids.n, 40);
    cr_expect_eq(rp_session_n_past(session), 5 + 39, "the last token is not in the context");
    cr_expect(result.prefill_s > 0 && result.decode_s > 0 && result.first_token_s >= result.prefill_s);

    rp_sampler_reset(sampler);
    cr_assert_eq(rp_session_rewind(session, 0), RP_OK);
    cr_assert_eq(rp_session_prefill(session, prompt, 5, NULL, NULL), RP_OK);
    char   by_hand[4096];
    size_t n = 0;
    for (size_t i = 0; i < ids.n; i++) {
        int32_t      token;
        RpGgufString bytes;
        cr_assert_eq(rp_sampler_sample(sampler, rp_session_logits(session), &token), RP_OK, CASE(i));
        cr_assert_eq(token, ids.ids[i], "token %zu", i);
        cr_assert_eq(rp_token_bytes(rp_model_tokenizer(model), token, false, &bytes), RP_OK, CASE(i));
        memcpy(by_hand + n, bytes.ptr, bytes.len);
        n += bytes.len;
        cr_assert_eq(rp_session_step(session, token), RP_OK, CASE(i));
    }
    cr_expect_eq(n, n_text);
    cr_expect_arr_eq(by_hand, text, n);
    rp_token_list_free(&ids);
}

static RpTokenLogprob logprobs[64][4]; /* the token and the three most probable ones */
static int            n_logprobs, stop_at_logprobs;

static bool on_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    cr_assert_eq(user, (void *)text);
    cr_assert_eq(n_top, 3);
    cr_assert_eq(n_calls, n_logprobs, "before the text of the token");
    logprobs[n_logprobs][0] = *chosen;
    memcpy(&logprobs[n_logprobs][1], top, 3 * sizeof *top);
    return ++n_logprobs != stop_at_logprobs;
}

/* Against softmax in double of the logits of a loop over the session; the text is the same with and without. */
Test(generate, log_probabilities_are_those_of_the_logits) {
    RpTokenList             ids = {0}, plain = {0};
    const RpGenerateOptions with = {.max_tokens = 30, .ignore_end = true, .on_logprobs = on_logprobs, .n_logprobs = 3};
    const int32_t           n_vocab = rp_model_info(model)->n_vocab;
    reply(5, (RpGenerateOptions){.max_tokens = 30, .ignore_end = true}, &plain);
    const RpGenerateResult result = reply(5, with, &ids);
    cr_assert_eq(n_logprobs, 30);
    cr_assert_eq(ids.n, plain.n);
    cr_assert_arr_eq(ids.ids, plain.ids, ids.n * sizeof *ids.ids);
#ifdef RP_TEST_GPU
    cr_assert_not_null(result.host_sampling, "log probabilities need the logits on the host");
#else
    cr_assert_null(result.host_sampling, "the CPU always samples on the host");
#endif
    cr_assert_eq(rp_session_rewind(session, 0), RP_OK);
    cr_assert_eq(rp_session_prefill(session, prompt, 5, NULL, NULL), RP_OK);
    for (int i = 0; i < 30; i++) {
        const float *logits = rp_session_logits(session);
        double       sum    = 0.0;
        for (int32_t k = 0; k < n_vocab; k++) sum += exp((double)logits[k]);
        cr_assert_eq(logprobs[i][0].token, ids.ids[i], CASE(i));
        for (int k = 0; k < 4; k++)
            cr_assert(fabs((double)logprobs[i][k].logprob - ((double)logits[logprobs[i][k].token] - log(sum))) < 1e-5,
                      CASE(i, k));
        cr_assert(logprobs[i][1].logprob >= logprobs[i][2].logprob && logprobs[i][2].logprob >= logprobs[i][3].logprob,
                  CASE(i));
        cr_assert_eq(rp_session_step(session, ids.ids[i]), RP_OK, CASE(i));
    }
    n_logprobs       = 0;
    stop_at_logprobs = 4;
    cr_assert_eq(reply(5, with, NULL).reason, RP_STOP_CANCELLED);
    cr_assert_eq(n_calls, 3, "no text of the token whose callback stopped the reply");
    rp_token_list_free(&ids);
    rp_token_list_free(&plain);
}

Test(generate, continues_from_the_last_token) {
    RpTokenList             whole = {0}, first = {0};
    const RpGenerateOptions o = {.max_tokens = 30, .ignore_end = true};
    reply(5, o, &whole);
    reply(5, (RpGenerateOptions){.max_tokens = 12, .ignore_end = true}, &first);
    RpGenerateResult result;
    cr_assert_eq(rp_generate(session, sampler, &first.ids[11], 1,
                             &(RpGenerateOptions){.max_tokens = 18, .ignore_end = true, .tokens = &first}, &result),
                 RP_OK);
    cr_assert_eq(first.n, 30);
    cr_expect_arr_eq(first.ids, whole.ids, 30 * sizeof *whole.ids);
    rp_token_list_free(&whole);
    rp_token_list_free(&first);
}

Test(generate, the_repeat_penalty_covers_the_prompt) {
    RpSamplerParams p   = rp_sampler_defaults();
    RpTokenList     ids = {0};
    rp_sampler_free(sampler);
    sampler = NULL;
    new_sampler(0.0f, 0);
    reply(5, (RpGenerateOptions){.max_tokens = 1}, &ids);
    const int32_t greedy = ids.ids[0];
    p.repeat_penalty     = 1e6f;
    rp_sampler_free(sampler);
    cr_assert_eq(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler), RP_OK);
    prompt[0] = greedy; /* may change the logits, but no token of the prompt may be sampled */
    reply(5, (RpGenerateOptions){.max_tokens = 20, .ignore_end = true}, &ids);
    for (size_t i = 0; i < ids.n; i++)
        for (int j = 0; j < 5; j++) cr_expect_neq(ids.ids[i], prompt[j], "token %zu", i);
    rp_token_list_free(&ids);
}

Test(generate, an_end_token_ends_the_reply_and_is_not_printed) {
    RpTokenList      ids = {0}, on = {0};
    RpGenerateResult result;
    uint64_t         seed = 0;
    do { /* a flat distribution over 64 tokens: some seeds soon sample the end token */
        new_sampler(3.0f, ++seed);
        result = reply(5, (RpGenerateOptions){.max_tokens = 100}, &ids);
    } while (result.reason != RP_STOP_END_TOKEN && seed < 20);
    cr_assert_eq(result.reason, RP_STOP_END_TOKEN);
    cr_assert_eq(ids.ids[ids.n - 1], 2);
    cr_expect_eq(result.n_generated, (int32_t)ids.n);
    cr_expect_eq(rp_session_n_past(session), 5 + (int32_t)ids.n - 1);
    cr_expect_eq(n_calls, (int)ids.n - 1, "one call per token, none for the end token");
    cr_expect_null(strstr(text, "</s>"));

    const RpGenerateOptions past = {.max_tokens = (int32_t)ids.n + 3, .ignore_end = true, .print_special = true};
    cr_expect_eq(reply(5, past, &on).reason, RP_STOP_LIMIT);
    cr_expect_arr_eq(on.ids, ids.ids, ids.n * sizeof *ids.ids);
    cr_expect_not_null(strstr(text, "</s>"), "%s", text);
    rp_token_list_free(&ids);
    rp_token_list_free(&on);
}

Test(generate, stop_strings_end_the_text_at_any_position) {
    const RpGenerateOptions free_run = {.max_tokens = 50, .ignore_end = true};
    reply(5, free_run, NULL);
    char         all[4096];
    const size_t n = n_text;
    memcpy(all, text, n + 1);
    cr_assert_gt(n, 30);
    for (size_t at = 0; at + 5 < n; at += 2) {
        for (size_t len = 1; len <= 5; len += 2) {
            char        stop[8] = {0}, never[8] = {0};
            const char *stops[] = {never, stop};
            memcpy(stop, all + at, len);
            memcpy(never, all + at, len); /* starts like `stop` but never matches */
            never[len]        = '\x01';
            const char  *hit  = strstr(all, stop);
            const size_t want = (size_t)(hit - all);

            RpGenerateOptions o = free_run;
            o.stop              = stops;
            o.n_stop            = 2;
            cr_expect_eq(reply(5, o, NULL).reason, RP_STOP_STRING, "%s", stop);
            cr_expect_eq(n_text, want, "stop `%s`: `%s` of `%s`", stop, text, all);
            cr_expect_arr_eq(text, all, n_text, CASE(at, len));
            o.n_stop = 1;
            cr_expect_eq(reply(5, o, NULL).reason, RP_STOP_LIMIT, CASE(at, len));
            cr_expect_str_eq(text, all, "text held back is printed at the end");
        }
    }
}

Test(generate, a_full_context_ends_the_reply) {
    const RpGenerateResult result = reply(20, (RpGenerateOptions){.ignore_end = true}, NULL);
    cr_expect_eq(result.reason, RP_STOP_CONTEXT);
    cr_expect_eq(rp_session_n_past(session), 128);
    cr_expect_eq(result.n_generated, 128 - 20 + 1, "the last token needs no position");
}

Test(generate, on_text_can_cancel) {
    stop_at_call                  = 4;
    const RpGenerateResult result = reply(5, (RpGenerateOptions){.ignore_end = true}, NULL);
    cr_expect_eq(result.reason, RP_STOP_CANCELLED);
    cr_expect_eq(n_calls, 4);
    cr_expect_eq(result.n_generated, 4);
    cr_expect_eq(rp_session_n_past(session), 5 + 3);
}

static bool stop_prefill(int64_t done, int64_t total, void *user) {
    (void)user;
    cr_expect_eq(total, 20);
    return done < 8;
}

Test(generate, the_prefill_can_be_cancelled) {
    const RpGenerateResult result = reply(20, (RpGenerateOptions){.prefill_progress = stop_prefill}, NULL);
    cr_expect_eq(result.reason, RP_STOP_CANCELLED);
    cr_expect_eq(result.n_generated, 0);
    cr_expect_eq(result.n_prompt, 8);
    cr_expect_eq(n_calls, 0);
    cr_expect_eq(rp_session_n_past(session), 8);
}

static void refused(size_t n_prompt, const RpGenerateOptions *o, RpStatus status, const char *why) {
    RpGenerateResult result = {.n_generated = 77};
    const int32_t    n_past = rp_session_n_past(session);
    cr_expect_eq(rp_generate(session, sampler, prompt, n_prompt, o, &result), status);
    cr_expect_str_eq(rp_last_error(), why);
    cr_expect_eq(result.n_generated, 0, "the result is filled");
    cr_expect_eq(rp_session_n_past(session), n_past);
}

Test(generate, refusals_name_their_reason) {
    const char *const empty[] = {"x", ""};
    refused(0, NULL, RP_E_ARG, "the prompt is empty and there is nothing before it to go on from");
    refused(3, &(RpGenerateOptions){.max_tokens = -1}, RP_E_ARG, "a reply of -1 tokens: must be at least 0");
    refused(3, &(RpGenerateOptions){.n_logprobs = 65}, RP_E_ARG, "n_logprobs 65: must be from 0 to 64");
    refused(3, &(RpGenerateOptions){.stop = empty, .n_stop = 2}, RP_E_ARG, "stop string 1 is empty");
    refused(3,
            &(RpGenerateOptions){
                .stop = (const char *const[]){"a", NULL},
                    .n_stop = 2
    },
            RP_E_ARG, "stop string 1 is NULL");
    refused(3, &(RpGenerateOptions){.n_stop = 2}, RP_E_ARG, "2 stop strings at NULL");
    prompt[2] = 64;
    RpGenerateResult result;
    cr_expect_eq(rp_generate(session, sampler, prompt, 3, NULL, &result), RP_E_ARG);
    cr_expect_not_null(strstr(rp_last_error(), "64"), "%s", rp_last_error());
    prompt[2]                   = 3;
    const RpSamplerParams p     = rp_sampler_defaults();
    RpSampler            *saved = sampler;
    cr_assert_eq(rp_sampler_new(&p, 65, &sampler), RP_OK);
    refused(3, NULL, RP_E_ARG, "the sampler is for a vocabulary of 65 tokens, the model has 64");
    rp_sampler_free(sampler);
    sampler = saved;
}

/* A sampler with a negative bias for each suppressed token, for the model that suppresses none. */
static RpSampler *biased(RpSamplerParams p, const int32_t *ids, size_t n) {
    RpLogitBias bias[8];
    RpSampler  *s;
    for (size_t i = 0; i < n; i++) bias[i] = (RpLogitBias){ids[i], -INFINITY};
    p.logit_bias   = bias;
    p.n_logit_bias = n;
    cr_assert_eq(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &s), RP_OK, "%s", rp_last_error());
    return s;
}

static void engine_reply(const RpModel *m, RpSampler *s, RpTokenList *ids) {
    RpEngine       *e;
    RpEngineEvent   v;
    uint64_t        id;
    const RpRequest r = {.prompt = prompt, .n_prompt = 5, .sampler = s, .max_tokens = 40, .ignore_end = true};
    cr_assert_eq(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1, .n_threads = 1}, &e), RP_OK);
    cr_assert_eq(rp_engine_add(e, &r, &id), RP_OK, "%s", rp_last_error());
    while (rp_engine_pending(e) > 0) {
        cr_assert_eq(rp_engine_step(e), RP_OK, "%s", rp_last_error());
        while (rp_engine_poll(e, &v)) cr_assert_eq(rp_token_list_push(ids, v.token), RP_OK, "%s", rp_last_error());
    }
    rp_engine_free(e);
}

/* As if each had a logit of -infinity: the tokens are those of logit biases, in sessions and engines. */
Test(generate, suppressed_tokens_of_the_file_are_never_sampled) {
    const RpGenerateOptions o     = {.max_tokens = 40, .ignore_end = true};
    RpTokenList             usual = {0}, want = {0}, got = {0}, served = {0};
    RpSampler              *plain  = sampler;
    int32_t                 ids[5] = {1 << 20, -1};
    size_t                  n      = 2;
    (void)reply(5, o, &usual);
    for (size_t i = 0; n < 5; i++)
        if (i == 0 || usual.ids[i] != ids[n - 1]) ids[n++] = usual.ids[i];
    RpModel   *m = open_suppressed(TINY, ids, 5), *of_plain = model;
    RpSession *s, *of_session                               = session;
    cr_assert_eq(rp_session_open(m, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1, .prefill_chunk = 4}, &s), RP_OK);
    for (int k = 0; k < 4; k++) {
        RpSamplerParams p = rp_sampler_defaults();
        p.temperature     = k == 0 ? 0.0f : 1.0f;
        p.seed            = (uint64_t)k;
        p.top_n_sigma     = k == 3 ? 2.0f : 0.0f; /* a step of the chain */
        sampler           = biased(p, ids + 2, 3);
        (void)reply(5, o, &want);
        rp_sampler_free(sampler);
        cr_assert_eq(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler), RP_OK, CASE(k));
        model = m, session = s;
        (void)reply(5, o, &got);
        rp_sampler_reset(sampler);
        served.n = 0;
        engine_reply(m, sampler, &served);
        model = of_plain, session = of_session;
        rp_sampler_free(sampler);
        cr_assert(got.n == 40 && want.n == 40 && served.n == 40, "%zu, %zu, %zu", got.n, want.n, served.n);
        cr_expect_arr_eq(got.ids, want.ids, 40 * sizeof *got.ids, CASE(k));
        cr_expect_arr_eq(served.ids, want.ids, 40 * sizeof *got.ids, CASE(k));
        for (size_t i = 0; i < got.n; i++)
            for (size_t j = 2; j < 5; j++) cr_expect_neq(got.ids[i], ids[j], CASE(k, i));
    }
    sampler = plain;
    rp_session_free(s);
    rp_model_free(m);
    rp_token_list_free(&usual), rp_token_list_free(&want), rp_token_list_free(&got), rp_token_list_free(&served);
}

Test(generate, a_prompt_longer_than_the_context_changes_nothing) {
    int32_t          many[129] = {0};
    RpGenerateResult result;
    for (int i = 0; i < 129; i++) many[i] = 5;
    cr_expect_eq(rp_generate(session, sampler, many, 129, NULL, &result), RP_E_CONTEXT_FULL);
    cr_expect_eq(rp_session_n_past(session), 0);
    cr_expect_eq(result.n_prompt, 0);
}

Test(generate_ids, a_model_without_a_tokenizer_gives_no_text) {
    FILE *f = fopen(TINY, "rb");
    cr_assert_not_null(f);
    static _Alignas(64) char file[1 << 19];
    const size_t             bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    cr_assert_lt(bytes, sizeof file);
    char *key = memmem(file, bytes, "tokenizer.ggml.model", 20);
    cr_assert_not_null(key);
    key[19] = 'X';
    cr_assert_eq(rp_model_open_memory(file, bytes, "edited", &model), RP_OK, "%s", rp_last_error());
    cr_assert_null(rp_model_tokenizer(model));
    cr_assert_eq(rp_session_open(model, &(RpSessionOptions){.n_ctx = 32, .n_threads = 1}, &session), RP_OK);
    new_sampler(1.0f, 1);
    prompt[0]                = 7;
    const char *const stop[] = {"a"};
    RpGenerateResult  result = reply(1, (RpGenerateOptions){.stop = stop, .n_stop = 1}, NULL);
    cr_expect_eq(result.reason, RP_STOP_CONTEXT);
    cr_expect_eq(n_text, 0);
    cr_expect_eq(n_calls, 32, "called after every token, even without text");
    stop_at_call = 3;
    result       = reply(1, (RpGenerateOptions){0}, NULL);
    cr_expect_eq(result.reason, RP_STOP_CANCELLED);
    cr_expect_eq(result.n_generated, 3);
    teardown();
}

Test(generate_ids, stop_reasons_have_names) {
    cr_expect_str_eq(rp_stop_reason_name(RP_STOP_END_TOKEN), "end token");
    cr_expect_str_eq(rp_stop_reason_name(RP_STOP_CANCELLED), "cancelled");
    cr_expect_str_eq(rp_stop_reason_name((RpStopReason)99), "unknown");
}

/* The longest end of s that is a proper prefix of one of the strings. */
static size_t beginning_of_one(const char *s, size_t n, const char *const strings[], size_t n_strings) {
    size_t longest = 0;
    for (size_t i = 0; i < n_strings; i++)
        for (size_t len = 1; len < strlen(strings[i]) && len <= n; len++)
            if (len > longest && memcmp(s + n - len, strings[i], len) == 0) longest = len;
    return longest;
}

/* The longest of the strings that s ends with; 0 if none. */
static size_t ends_with_one(const char *s, size_t n, const char *const strings[], size_t n_strings) {
    size_t longest = 0;
    for (size_t i = 0; i < n_strings; i++) {
        const size_t len = strlen(strings[i]);
        if (len > longest && len <= n && memcmp(s + n - len, strings[i], len) == 0) longest = len;
    }
    return longest;
}

Test(stop_match, agrees_with_a_search_at_every_byte) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        char        strings[3][8];
        const char *all[3];
        uint64_t    number = 0;
        const int   n      = 1 + (int)(seed % 3);
        for (int i = 0; i < n; i++) { /* of two letters, so that they overlap often */
            const int len = 1 + (int)(6.0f * rp_random_uniform(seed, number++));
            for (int j = 0; j < len; j++) strings[i][j] = rp_random_uniform(seed, number++) < 0.6f ? 'a' : 'b';
            strings[i][len] = '\0';
            all[i]          = strings[i];
        }
        StopMatch m;
        cr_assert_eq(rp_stop_match_init(&m, all, (size_t)n), RP_OK, CASE(seed));
        char   in[64], out[128];
        size_t n_in = 0, n_out = 0, match = 0;
        while (n_in < sizeof in && match == 0) {
            in[n_in++]         = rp_random_uniform(seed, number++) < 0.6f ? 'a' : 'b';
            const bool matched = rp_stop_match_feed(&m, in[n_in - 1], out, &n_out);
            match              = ends_with_one(in, n_in, all, (size_t)n);
            cr_assert_eq(matched, match > 0, "%.*s", (int)n_in, in);
            const size_t held = match > 0 ? match : beginning_of_one(in, n_in, all, (size_t)n);
            cr_assert_eq(n_out, n_in - held, "%.*s", (int)n_in, in);
            cr_assert_arr_eq(out, in, n_out, CASE(seed));
        }
        rp_stop_match_free(&m);
    }
}
