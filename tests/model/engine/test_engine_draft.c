/* Draft models: whatever they guess, requests get the tokens that they get without. The model itself as its draft
 * guesses right where sampling is greedy; the same model with other weights guesses right at times. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

enum { N = 6, MAX_TOKENS = 24, N_CTX = 96 };

typedef struct Reply {
    int32_t tokens[MAX_TOKENS], n, drafted, accepted;
} Reply;

typedef struct Settings {
    const RpModel *draft;
    int32_t        n_draft, cache_tokens, n_seq;
    float          temperature;
} Settings;

/* Requests of 1, 8, 15, ... tokens, one in every second step. */
static void run(const RpModel *m, const Settings *s, Reply *out) {
    RpEngine     *e;
    RpSampler    *samplers[N];
    RpEngineEvent v;
    int32_t       prompt[N_CTX];
    int           added = 0, ended = 0;
    memset(out, 0, N * sizeof *out);
    OK(rp_engine_open(
        m,
        &(RpEngineOptions){
            .n_ctx = N_CTX, .n_seq = s->n_seq, .n_threads = 1, .cache_tokens = s->cache_tokens, .draft = s->draft},
        &e));
    for (int step = 0; ended < N; step++) {
        cr_assert_lt(step, 2000, "the requests do not end");
        if (step % 2 == 0 && added < N) {
            RpSamplerParams p = rp_sampler_defaults();
            uint64_t        id;
            const int32_t   n = 1 + 7 * added;
            p.temperature     = s->temperature;
            p.seed            = (uint64_t)added;
            OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &samplers[added]));
            for (int32_t i = 0; i < n; i++) prompt[i] = 3 + (5 * added + 7 * i) % (rp_model_info(m)->n_vocab - 3);
            OK(rp_engine_add(e,
                             &(RpRequest){.prompt     = prompt,
                                          .n_prompt   = (size_t)n,
                                          .sampler    = samplers[added],
                                          .max_tokens = MAX_TOKENS,
                                          .ignore_end = true,
                                          .n_draft    = s->n_draft,
                                          .user       = &out[added]},
                             &id));
            added++;
        }
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            Reply *r = v.user;
            cr_assert(v.status == RP_OK && r->n < MAX_TOKENS, "%s", v.error);
            r->tokens[r->n++] = v.token;
            r->drafted = v.n_drafted, r->accepted = v.n_accepted;
            ended += v.end;
        }
    }
    rp_engine_free(e);
    for (int i = 0; i < N; i++) rp_sampler_free(samplers[i]);
}

/* *accepted and *drafted: of all requests. */
static void check(const RpModel *m, Settings s, int32_t *accepted, int32_t *drafted) {
    Reply with[N], without[N];
    run(m, &s, with);
    s.draft = NULL, s.n_draft = 0;
    run(m, &s, without);
    *accepted = *drafted = 0;
    for (int i = 0; i < N; i++) {
        cr_expect_eq(with[i].n, MAX_TOKENS, CASE(i));
        cr_expect_eq(memcmp(with[i].tokens, without[i].tokens, sizeof with[i].tokens), 0, "request %d: other tokens",
                     i);
        cr_expect_eq(without[i].drafted, 0, CASE(i));
        *accepted += with[i].accepted, *drafted += with[i].drafted;
    }
}

Test(engine_draft, the_model_itself_guesses_right) {
    static const char *const names[] = {"llama-f32", "gpt-oss-f32", "gemma3-mix"};
    for (int i = 0; i < 3; i++) {
        RpModel *m = golden_open_tiny(names[i]);
        int32_t  accepted, drafted;
        check(m, (Settings){.draft = m, .n_draft = 4, .n_seq = 3}, &accepted, &drafted);
        cr_expect(drafted > MAX_TOKENS && accepted == drafted, "%s: %d of %d", names[i], accepted, drafted);
        rp_model_free(m);
    }
}

Test(engine_draft, wrong_guesses_change_nothing) {
    RpModel *m = golden_open_tiny("llama-f32"), *other = golden_open_tiny("llama-mix");
    int32_t  accepted, drafted, all = 0, right = 0;
    for (int i = 0; i < 8; i++) {
        const float temperature = i % 2 == 0 ? 0.0f : 1.0f;
        check(m,
              (Settings){.draft        = other,
                         .n_draft      = 1 + 2 * i,
                         .n_seq        = 1 + i % 4,
                         .cache_tokens = i < 4 ? 0 : 2 * N_CTX,
                         .temperature  = temperature},
              &accepted, &drafted);
        all += drafted, right += accepted;
    }
    cr_expect(right < all && all > 0, "%d of %d guesses were right", right, all);
    rp_model_free(m), rp_model_free(other);
}

/* A model with recurrent states takes guesses. */
Test(engine_draft, guesses_for_a_recurrent_model) {
    RpModel *m = golden_open_tiny("qwen35-f32"), *draft = golden_open_tiny("qwen3-f32");
    int32_t  accepted, drafted;
    check(m, (Settings){.draft = draft, .n_draft = 3, .n_seq = 2}, &accepted, &drafted);
    cr_expect_gt(drafted, 0);
    rp_model_free(m), rp_model_free(draft);
}

Test(engine_draft, draft_models_that_do_not_fit_are_refused) {
    RpModel       *m = golden_open_tiny("llama-f32"), *recurrent = golden_open_tiny("qwen35-f32"), *other;
    RpEngine      *e;
    RpEngineMemory with, without;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &other));
    REFUSED(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .draft = recurrent}, &e), RP_E_UNSUPPORTED,
            "a draft model with recurrent states (qwen35)");
    REFUSED(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .draft = other}, &e), RP_E_ARG,
            "the draft model has another vocabulary: its token 0 is '<|end|>', not '<unk>'");
    cr_expect_null(e);
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX, .draft = m}, &with));
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX}, &without));
    cr_expect_gt(with.draft, rp_model_info(m)->weight_bytes);
    cr_expect_eq(with.total, without.total + with.draft);
    rp_model_free(m), rp_model_free(recurrent), rp_model_free(other);
}
