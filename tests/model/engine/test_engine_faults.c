/* Memory runs out at each allocation of rp_engine_add while other requests run: the request is refused and leaves
 * nothing, and the others get the same tokens. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/host_faults.h"

enum { N_CTX = 96, N_RUNNING = 3, N_TOKENS = 40, N_PROMPT = 45 };

typedef struct Replies {
    int32_t tokens[N_RUNNING][N_TOKENS], n[N_RUNNING];
} Replies;

/* The request that is refused: it has all that is allocated for one. */
typedef struct Extra {
    RpSampler      *sampler;
    RpGrammarVocab *vocab;
    RpGrammar      *grammar;
    RpMatcher      *matcher;
    int             k;       /* its next allocation that fails */
    int             refused; /* of how many allocations */
    int             added;
} Extra;

static bool ignore(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    (void)chosen, (void)top, (void)n_top, (void)user;
    return true;
}

static void fill_prompt(const RpModel *m, int which, int32_t *prompt) {
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = (3 + 7 * i + (i > 20 ? 5 * which : 0)) % rp_model_info(m)->n_vocab;
}

static void add_running(RpEngine *e, int which, RpSampler *sampler) {
    int32_t  prompt[N_PROMPT];
    uint64_t id;
    fill_prompt(rp_engine_model(e), which, prompt);
    OK(rp_engine_add(e,
                     &(RpRequest){.prompt     = prompt,
                                  .n_prompt   = (size_t)(20 + 10 * which),
                                  .sampler    = sampler,
                                  .max_tokens = N_TOKENS,
                                  .ignore_end = true,
                                  .n_draft    = which},
                     &id));
    cr_assert_eq(id, (uint64_t)which + 1);
}

/* Tries to add a request; if nothing has failed any more, it is cancelled and the next try begins with k = 1 again. */
static void try_to_add(RpEngine *e, Extra *x, const char *name) {
    int32_t       prompt[N_PROMPT];
    uint64_t      id;
    HostFaultKind kind;
    fill_prompt(rp_engine_model(e), N_RUNNING, prompt);
    const RpRequest r = {
        .prompt      = prompt,
        .n_prompt    = N_PROMPT,
        .sampler     = x->sampler,
        .max_tokens  = 5,
        .stop        = (const char *const[]){"never", "again"},
        .n_stop      = 2,
        .matcher     = x->matcher,
        .n_logprobs  = 3,
        .on_logprobs = ignore
    };
    const long   live    = host_live();
    const size_t pending = rp_engine_pending(e);
    host_fault_arm(x->k);
    const RpStatus st   = rp_engine_add(e, &r, &id);
    const char    *call = host_fault_disarm(&kind);
    if (call == NULL) {
        OK(st);
        OK(rp_engine_cancel(e, id));
        x->k = 1;
        x->added++;
        return;
    }
    cr_expect_eq(st, RP_E_NOMEM, "%s: allocation %d, %s: \"%s\"", name, x->k, call, rp_last_error());
    cr_expect_eq(host_live(), live, "%s: allocation %d, %s: %ld allocations, before %ld", name, x->k, call, host_live(),
                 live);
    cr_expect_eq(rp_engine_pending(e), pending, "%s: allocation %d, %s", name, x->k, call);
    x->k++;
    x->refused++;
}

/* `x`: NULL, or before each step a request is refused. */
static void run(const RpModel *m, Extra *x, Replies *out, const char *name) {
    RpEngine       *e;
    RpEngineEvent   v;
    RpSampler      *samplers[N_RUNNING];
    RpSamplerParams p = rp_sampler_defaults();
    memset(out, 0, sizeof *out);
    OK(rp_engine_open(
        m, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = 4, .n_threads = 1, .cache_tokens = 160, .step_tokens = 16}, &e));
    for (int i = 0; i < N_RUNNING; i++) {
        p.seed        = (uint64_t)i;
        p.temperature = i % 2 == 0 ? 1.0f : 0.0f;
        OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &samplers[i]));
        add_running(e, i, samplers[i]);
    }
    for (int step = 0; rp_engine_pending(e) > 0; step++) {
        cr_assert_lt(step, 5000, "%s: the requests do not end", name);
        if (x != NULL) try_to_add(e, x, name);
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            cr_assert_eq(v.status, RP_OK, "%s: %s", name, v.error);
            if (v.token >= 0 && v.id <= N_RUNNING) out->tokens[v.id - 1][out->n[v.id - 1]++] = v.token;
        }
    }
    for (int i = 0; i < N_RUNNING; i++) rp_sampler_free(samplers[i]);
    rp_engine_free(e);
}

/* A model with windows, and one with recurrent layers and one that guesses. */
Test(engine_faults, others_go_on_where_a_request_finds_no_memory) {
    static const char *const names[] = {"llama-mix-k", "gemma3-mix", "qwen35-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        RpModel        *m = golden_open_tiny(names[i]);
        RpSamplerParams p = rp_sampler_defaults();
        Extra           x = {.k = 1};
        Replies         want, got;
        OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &x.sampler));
        OK(rp_grammar_vocab_new(rp_model_tokenizer(m), &x.vocab));
        OK(rp_grammar_regex("[0-9A-M]{1,20}", 14, &x.grammar));
        OK(rp_matcher_new(x.grammar, x.vocab, &x.matcher));
        run(m, NULL, &want, names[i]);
        run(m, &x, &got, names[i]);
        cr_expect_eq(memcmp(&want, &got, sizeof want), 0, "%s: other tokens", names[i]);
        for (int k = 0; k < N_RUNNING; k++) cr_expect_eq(got.n[k], N_TOKENS, "%s: reply %d", names[i], k);
        cr_expect(x.refused >= 5 && x.added > 0, "%s: %d requests were refused, %d added", names[i], x.refused,
                  x.added);
        rp_matcher_free(x.matcher), rp_grammar_free(x.grammar), rp_grammar_vocab_free(x.vocab);
        rp_sampler_free(x.sampler);
        rp_model_free(m);
    }
}
