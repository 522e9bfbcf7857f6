/* Draft models: whatever they guess, requests get the tokens that they get without. The model itself as its draft
 * guesses right where sampling is greedy; the same model with other weights guesses right at times. */
#include "model/engine/drafter.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
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

/* All requests wait while a draft model reads prompts, so it reads 256 tokens a step, of all of them. A request
 * is guessed for when its text has been read. */
Test(engine_draft, long_prompts_are_read_in_pieces) {
    enum { LONG = 300, SHORT = 100, MOST = 4 };
    RpModel              *m       = golden_open_tiny("llama-f32");
    const RpEngineOptions o       = {.n_ctx = LONG + MOST, .n_seq = 2, .block = 32, .step_tokens = 64, .draft = m};
    const int32_t         n_vocab = rp_model_info(m)->n_vocab;
    Drafter               d;
    int32_t               text[LONG], guess[2][MAX_DRAFT];
    for (int i = 0; i < LONG; i++) text[i] = 3 + 7 * i % (n_vocab - 3);
    OK(rp_drafter_plan(&d, &(DraftedEngine){.model = m, .o = &o}, NULL));
    OK(rp_drafter_open(&d, &(RpExecutorOptions){.n_threads = 1}, NULL));
    for (int step = 0; step < 2; step++) {
        DraftJob jobs[2] = {
            {.id = 1, .row = 0, .tokens = text, .n_tokens = LONG,  .guess = guess[0], .n = MOST},
            {.id = 2, .row = 1, .tokens = text, .n_tokens = SHORT, .guess = guess[1], .n = MOST}
        };
        OK(rp_drafter_guess(&d, jobs, 2));
        for (int k = 0; k < 2; k++) {
            const int32_t read = step > 0 ? jobs[k].n_tokens + MOST - 1 : k == 0 ? 256 : 0;
            cr_expect_eq(jobs[k].n, step > 0 ? MOST : 0, "step %d, request %d: %d guesses", step, k, jobs[k].n);
            cr_expect_eq(d.n_past[k], read, "step %d, request %d: %d tokens read", step, k, d.n_past[k]);
        }
    }
    rp_drafter_free(&d);
    rp_model_free(m);
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

/* A reply that a grammar holds. */
typedef struct Held {
    RpTokenList    tokens;
    RpTokenLogprob logprobs[128];
    int            n_logprobs, n_events;
    RpEngineEvent  last;
} Held;

static bool note(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n, void *user) {
    Held *h = user;
    (void)top, (void)n;
    cr_assert_lt(h->n_logprobs, 128);
    h->logprobs[h->n_logprobs++] = *chosen;
    return true;
}

/* The prompt repeats the texts of the grammar, so that guesses are right at times. */
static void run_held(RpEngine *e, const RpModel *m, RpMatcher *matcher, uint64_t seed, int32_t n_draft, Held *h) {
    static const char text[] = "ACEFGHBDEFGHADEFGHBCEFGHACEFGHACEFGHBDEFGHBCEFGH";
    RpSamplerParams   p      = rp_sampler_defaults();
    RpTokenList       ids    = {0};
    RpSampler        *sampler;
    uint64_t          id;
    *h            = (Held){.n_logprobs = 0};
    p.temperature = 0.6f, p.seed = seed;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_tokenize(rp_model_tokenizer(m), text, sizeof text - 1, 0, &ids));
    rp_matcher_reset(matcher);
    OK(rp_engine_add(e,
                     &(RpRequest){.prompt      = ids.ids,
                                  .n_prompt    = ids.n,
                                  .sampler     = sampler,
                                  .max_tokens  = 100,
                                  .matcher     = matcher,
                                  .n_draft     = n_draft,
                                  .on_logprobs = note,
                                  .user        = h},
                     &id));
    while (rp_engine_pending(e) > 0) {
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &h->last)) {
            if (h->last.token >= 0) OK(rp_token_list_push(&h->tokens, h->last.token));
            h->n_events++;
        }
    }
    rp_token_list_free(&ids), rp_sampler_free(sampler);
}

/* Guesses in front of forced text change neither tokens nor log probabilities. */
static void check_held(const RpModel *m) {
    static const char pattern[] = "((A|B)(C|D)EFGH){12}";
    RpEngine         *e[2];
    RpGrammarVocab   *vocab;
    RpGrammar        *grammar;
    RpMatcher        *matcher;
    int32_t           accepted = 0;
    for (int k = 0; k < 2; k++)
        OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 256, .n_seq = 1, .n_threads = 1, .n_mtp = -1}, &e[k]));
    OK(rp_grammar_vocab_new(rp_model_tokenizer(m), &vocab));
    OK(rp_grammar_regex(pattern, sizeof pattern - 1, &grammar));
    OK(rp_matcher_new(grammar, vocab, &matcher));
    for (uint64_t seed = 0; seed < 8; seed++) {
        Held without, with;
        run_held(e[0], m, matcher, seed, 0, &without);
        run_held(e[1], m, matcher, seed, 12, &with);
        accepted += with.last.n_accepted;
        cr_expect(without.n_logprobs > 1 && without.n_logprobs < (int)without.tokens.n, CASE(seed));
        cr_assert_eq(with.tokens.n, without.tokens.n, CASE(seed));
        cr_expect_arr_eq(with.tokens.ids, without.tokens.ids, with.tokens.n * sizeof *with.tokens.ids, CASE(seed));
        cr_assert_eq(with.n_logprobs, without.n_logprobs, CASE(seed));
        cr_expect_arr_eq(with.logprobs, without.logprobs, (size_t)with.n_logprobs * sizeof *with.logprobs, CASE(seed));
        cr_expect_eq(with.n_events, without.n_events, CASE(seed));
        cr_expect_eq(with.last.n_generated, without.last.n_generated, CASE(seed));
        cr_expect_eq(with.last.reason, without.last.reason, CASE(seed));
        rp_token_list_free(&with.tokens), rp_token_list_free(&without.tokens);
    }
    cr_expect_gt(accepted, 0, "no guess was right");
    rp_matcher_free(matcher), rp_grammar_free(grammar), rp_grammar_vocab_free(vocab);
    rp_engine_free(e[0]), rp_engine_free(e[1]);
}

Test(engine_draft, guesses_in_front_of_forced_text_change_nothing) {
    RpModel *m;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &m));
    check_held(m);
    rp_model_free(m);
}

/* A recurrent model whose tokenizer puts no space in front of a text: then its grammars force tokens. */
static RpModel *open_recurrent(void) {
    RpGgufFile *f;
    GgufWriter *w;
    RpModel    *m;
    char        copy[64];
    snprintf(copy, sizeof copy, "/tmp/rp-draft-%d.gguf", (int)getpid());
    OK(rp_gguf_open(GOLDEN_DIR "tiny/qwen35-mix.gguf", &f));
    OK(rp_gguf_writer_open(copy, &w));
    rp_gguf_put_values(w, f, true);
    rp_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    for (int64_t i = 0; i < f->n_tensors; i++) {
        const RpGgufTensor *t = &f->tensors[i];
        rp_gguf_put_tensor(w, t->name.ptr, t->name.len, t->view.dtype, t->view.ne);
    }
    RpStatus st = rp_gguf_writer_begin(w);
    for (int64_t i = 0; i < f->n_tensors && st == RP_OK; i++)
        st = rp_gguf_writer_data(w, f->tensors[i].view.data, f->tensors[i].bytes);
    OK(rp_gguf_writer_close(w, st));
    rp_gguf_close(f);
    OK(rp_model_open(copy, NULL, &m));
    cr_assert_eq(unlink(copy), 0);
    return m;
}

Test(engine_draft, guesses_in_front_of_forced_text_keep_the_recurrent_state) {
    RpModel *m = open_recurrent();
    check_held(m);
    rp_model_free(m);
}
