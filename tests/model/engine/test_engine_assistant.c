/* Assistants, which guess the tokens of a model from its hidden states and caches: their logits are those of llama.cpp
 * (tools/golden/golden_assistant.py), of directories those of transformers (tools/golden/hf/golden_hf_assistant.py).
 * test_engine_mtp.c lets them guess for requests. cudasim_engine_assistant is the same on the simulated device. */
#include "tests/support/case.h"
#include "tests/support/golden_numbers.h"

#include "model/engine/engine.h"

#ifdef RP_TEST_CUDA
static const char device[] = "cuda";
#else
static const char device[] = "cpu";
#endif

enum { N_CTX = 96, GOLDEN_CTX = 48, N_PROMPTS = 3, N_GUESSES = 3, MAX_PROMPT = 20, N_EMBD = 64, ROOM = 256 };

static const char *const models[] = {"gemma4-f32", "gemma4-mix"};

static const char *const assistants[] = {"../assistant/gemma4-f32", "../assistant/gemma4-mix"};

/* ---- the graph ---- */

static void open_runner(Runner *r, const RpModel *m, RpModelGraphOptions o, RpExecutor *share) {
    *r      = (Runner){0};
    o.n_ctx = GOLDEN_CTX;
    OK(rp_runner_plan(r, m, &o, "-quantize"));
    OK(rp_runner_open(r, m, &(RpExecutorOptions){.n_threads = 1, .device = device, .share = share}));
}

/* The prompt fills the caches of the target. Padding beside the column changes nothing. */
static void run_target(const Runner *r, const double *tokens, int32_t n) {
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        r->tokens[i] = i < n ? (int32_t)tokens[i] : 0;
        r->pos[i]    = i < n ? i : -1;
    }
    r->out_rows[0] = n - 1;
    OK(rp_executor_run(r->executor));
}

static void run_assistant(const Runner *r, int32_t token, const float *hidden, int32_t n_embd, int32_t pos) {
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        r->tokens[i] = i == 0 ? token : 0;
        r->pos[i]    = i == 0 ? pos : -1;
        r->reach[i]  = i == 0 ? pos - 1 : -1;
    }
    memcpy(r->hidden, hidden, (size_t)n_embd * sizeof *hidden);
    r->out_rows[0] = 0;
    OK(rp_executor_run(r->executor));
}

static void check_guesses(FILE *f, const char *name, const RpModel *m, const Runner *target, const Runner *assistant) {
    double        tokens[ROOM], next[ROOM], want[ROOM];
    float         hidden[N_EMBD];
    const int32_t n_vocab = rp_model_info(m)->n_vocab, n_embd = rp_model_info(m)->n_embd;
    const int32_t n = golden_numbers(f, "tokens", tokens, ROOM);
    cr_assert(n_embd <= N_EMBD && n <= MAX_PROMPT && golden_numbers(f, "next", next, ROOM) == 1, "%s", name);
    int32_t token = (int32_t)next[0];
    run_target(target, tokens, n);
    memcpy(hidden, target->hidden + (size_t)(n - 1) * (size_t)n_embd, (size_t)n_embd * sizeof *hidden);
    cr_assert_eq(golden_numbers(f, "hidden", want, ROOM), n_embd, "%s", name);
    cr_expect_lt(golden_farthest(want, hidden, n_embd), 1e-2, "%s, %d tokens: the target's hidden state, %g", name, n,
                 golden_farthest(want, hidden, n_embd));
    for (int i = 0; i < N_GUESSES; i++) {
        run_assistant(assistant, token, hidden, n_embd, n);
        cr_assert_eq(golden_numbers(f, "logits", want, ROOM), n_vocab, "%s", name);
        cr_expect_lt(golden_farthest(want, assistant->logits, n_vocab), 2e-2, "%s, %d tokens, guess %d: logits, %g",
                     name, n, i, golden_farthest(want, assistant->logits, n_vocab));
        token = 0;
        for (int32_t v = 1; v < n_vocab; v++)
            if (want[v] > want[token]) token = v;
        cr_assert_eq(golden_numbers(f, "hidden", want, ROOM), n_embd, "%s", name);
        memcpy(hidden, assistant->next_hidden, (size_t)n_embd * sizeof *hidden);
        cr_expect_lt(golden_farthest(want, hidden, n_embd), 2e-2, "%s, %d tokens, guess %d: hidden state, %g", name, n,
                     i, golden_farthest(want, hidden, n_embd));
    }
}

/* Graphs of one and of four tokens, which share what they can. */
static void check_golden(const char *name, const RpModel *m, const RpModel *a, const char *path) {
    Runner target, assistant[2];
    open_runner(&target, m, (RpModelGraphOptions){.n_tok = MAX_PROMPT, .hidden = true}, NULL);
    for (int r = 0; r < 2; r++)
        open_runner(&assistant[r], a, (RpModelGraphOptions){.n_tok = 1 + 3 * r, .target = m}, target.executor);
    for (int r = 0; r < 2; r++) {
        FILE *f = golden_open(path);
        for (int i = 0; i < N_PROMPTS; i++) check_guesses(f, name, m, &target, &assistant[r]);
        rp_runner_close(&assistant[r]);
        fclose(f);
    }
    rp_runner_close(&target);
}

Test(engine_assistant, logits_and_hidden_states_are_those_of_llama_cpp) {
    for (int k = 0; k < 2; k++) {
        char     path[64];
        RpModel *m = golden_open_tiny(models[k]), *a = golden_open_tiny(assistants[k]);
        snprintf(path, sizeof path, "assistant/%s.txt", models[k]);
        check_golden(models[k], m, a, path);
        rp_model_free(a), rp_model_free(m);
    }
}

Test(engine_assistant, logits_and_hidden_states_of_a_directory_are_those_of_transformers) {
    RpModel *m, *a;
    OK(rp_model_open(GOLDEN_DIR "hf/gemma4", NULL, &m));
    OK(rp_model_open(GOLDEN_DIR "hf/gemma4-assistant", NULL, &a));
    cr_assert(rp_model_info(a)->assistant);
    check_golden("hf/gemma4", m, a, "hf/gemma4-assistant/guesses.txt");
    rp_model_free(a), rp_model_free(m);
}

/* ---- refusals ---- */

static RpModelGraphOptions of(const RpModel *target) {
    return (RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .target = target};
}

Test(engine_assistant, targets_that_do_not_fit_are_refused) {
    RpModel            *m = golden_open_tiny("gemma4-f32"), *a = golden_open_tiny(assistants[0]);
    RpModel            *plain = golden_open_tiny("gemma4-plain"), *other = golden_open_tiny("qwen3-f32");
    RpModelGraphOptions o = of(NULL);
    ComputeGraph       *g;
    RpSession          *s;
    RpEngine           *e;
    cr_assert(rp_model_info(a)->assistant && !rp_model_info(m)->assistant);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_UNSUPPORTED,
            "gemma4-assistant guesses tokens of another model: give it as the draft model of that one");
    REFUSED(rp_session_open(a, NULL, &s), RP_E_UNSUPPORTED, "gemma4-assistant guesses tokens of another model");
    REFUSED(rp_engine_open(a, NULL, &e), RP_E_UNSUPPORTED, "gemma4-assistant guesses tokens of another model");
    o = of(a);
    REFUSED(rp_model_graph(m, &o, &g), RP_E_ARG, "gemma4 is no assistant: its graph has no target");
    o       = of(m);
    o.draws = true;
    const char *text =
        "the graph of an assistant has up to 1024 tokens, and no `mtp`, `hidden`, `draws` and `embeddings`";
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG, text);
    o       = of(m);
    o.n_tok = 1025;
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG, text);
    o = of(plain);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG,
            "gemma4-f32.gguf guesses for models with embeddings of 64, " GOLDEN_DIR "tiny/gemma4-plain.gguf has 32");
    o = of(other);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG,
            "tiny/qwen3-f32.gguf has no layer whose keys layer 0 of " GOLDEN_DIR
            "tiny/../assistant/gemma4-f32.gguf can read: none has a window");
    const int32_t first     = m->config.layers.attention.n;
    m->config.window_layers = NULL, m->config.layers.attention.n = 100;
    o = of(m);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG, "can read: none attends to all positions");
    m->config.layers.attention.n = first;
    REFUSED(rp_engine_open(plain, &(RpEngineOptions){.n_ctx = N_CTX, .draft = a}, &e), RP_E_ARG,
            "guesses for models with embeddings of 64");
    a->config.window++;
    o = of(m);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG,
            "gemma4-f32.gguf has a window of 9 positions, " GOLDEN_DIR "tiny/gemma4-f32.gguf of 8: must not be longer");
    a->config.window--;
    a->config.head_dim = 16;
    o                  = of(m);
    REFUSED(rp_model_graph(a, &o, &g), RP_E_ARG,
            "gemma4-f32.gguf: layer 3 has 4 heads of 16, layer 5 of " GOLDEN_DIR
            "tiny/gemma4-f32.gguf has 1 heads of 32 for keys");
    rp_model_free(other), rp_model_free(plain), rp_model_free(a), rp_model_free(m);
}

Test(engine_assistant, files_that_cannot_be_are_refused) {
    static const struct {
        const char *key, *text;
    } cases[] = {
        {"gemma4-assistant.attention.sliding_window",
         "m.gguf: gemma4-assistant.attention.sliding_window is 1, must be at least 2"    },
        {"gemma4-assistant.embedding_length_out",
         "m.gguf: tensor nextn.pre_projection.weight is f32 [128,32,1,1], must be [2,32]"},
    };
    for (int i = 0; i < 2; i++) {
        size_t   n;
        char    *data = golden_read_tiny(assistants[0], &n), *at = memmem(data, n, cases[i].key, strlen(cases[i].key));
        RpModel *m;
        cr_assert_not_null(at, CASE(i));
        memcpy(at + strlen(cases[i].key) + 4, &(uint32_t){1}, 4); /* behind the type */
        REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), i == 0 ? RP_E_FORMAT : RP_E_SHAPE, cases[i].text);
        free(data);
    }
}

Test(engine_assistant, its_bytes_are_those_of_hidden_states) {
    RpModel       *m = golden_open_tiny("gemma4-f32"), *a = golden_open_tiny(assistants[0]);
    RpEngineMemory memory;
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = 3, .step_tokens = 32, .draft = a}, &memory));
    cr_expect_eq(memory.draft, rp_model_info(a)->weight_bytes + (3 + 32) * N_EMBD * sizeof(float), "%zu", memory.draft);
    rp_model_free(a), rp_model_free(m);
}
