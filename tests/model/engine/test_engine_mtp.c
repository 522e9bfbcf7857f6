/* The layer that predicts further tokens (MTP): its logits are those of NumPy (tools/golden/golden_mtp.py), or with
 * latent attention of llama.cpp (tools/golden/golden_mtp_latent.py). Whatever it guesses, requests get the tokens that
 * they get without it. Its cache has what a run over the whole text gives, also after wrong guesses, interruptions and
 * prefixes that were found. cudasim_engine_mtp is the same on the simulated device, with fewer requests. There plans of
 * other lengths have other bits, and of two tokens that are nearly as probable either may be guessed. */
#include "tests/support/case.h"
#include "tests/support/golden_numbers.h"

#include "model/engine/engine.h"

static const char *const models[] = {"glm4moe-f32", "qwen35-mix", "qwen35moe-mix", "qwen3next-mix", "deepseek2-nextn"};
enum { N_MODELS = sizeof models / sizeof models[0], LATENT = N_MODELS - 1 };

#ifdef RP_TEST_CUDA
static const char device[] = "cuda";
enum { N = 3, MAX_TOKENS = 12, N_TEXT = 32, FIRST_MODEL = 1, END_MODELS = 2, FIRST_SETTING = 1, END_SETTINGS = 2 };
static const float NEAR = 0.2f;
#else
static const char device[] = "cpu";
enum {
    N             = 6,
    MAX_TOKENS    = 24,
    N_TEXT        = 72,
    FIRST_MODEL   = 0,
    END_MODELS    = N_MODELS,
    FIRST_SETTING = 0,
    END_SETTINGS  = 3
};
static const float NEAR = 0.0f;
#endif

enum { N_CTX = 96 };

/* ---- the layer ---- */

static void open_runner(Runner *r, const RpModel *m, RpModelGraphOptions o, const char *passes, RpExecutor *share) {
    *r      = (Runner){0};
    o.n_ctx = N_CTX;
    OK(rp_runner_plan(r, m, &o, passes));
    OK(rp_runner_open(r, m, &(RpExecutorOptions){.n_threads = 1, .device = device, .share = share}));
}

/* Columns 0, 1, ... n - 1; the last has logits. */
static void run_layer(const Runner *r, const int32_t *tokens, const float *hidden, int32_t n, int32_t n_embd,
                      int32_t from) {
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        r->pos[i]    = i < n ? from + i : -1;
    }
    memcpy(r->hidden, hidden, (size_t)n * (size_t)n_embd * sizeof *hidden);
    r->out_rows[0] = n - 1;
    OK(rp_executor_run(r->executor));
}

Test(engine_mtp, logits_and_hidden_states_are_those_of_others) {
    enum { ROOM = 256 };
    FILE *f = golden_open("mtp.txt"), *latent = golden_open("mtp_latent.txt");
    for (int k = 0; k < N_MODELS; k++) {
        double name[1], tokens[ROOM], after[ROOM], logits[ROOM];
        float  hidden[ROOM * 16];
        char   model[64];
        FILE  *of = k == LATENT ? latent : f;
        snprintf(model, sizeof model, "model %s", models[k]);
        golden_numbers(of, model, name, 1);
        const int32_t n       = golden_numbers(of, "tokens", tokens, ROOM),
                      n_embd  = golden_numbers(of, "hidden", after, ROOM);
        const int32_t n_vocab = golden_numbers(of, "logits", logits, ROOM);
        RpModel      *m       = golden_open_tiny(models[k]);
        int32_t       ids[16];
        cr_assert(n <= 16 && n_embd == rp_model_info(m)->n_embd && n_vocab == rp_model_info(m)->n_vocab, CASE(k));
        for (int32_t i = 0; i < n; i++) ids[i] = (int32_t)tokens[i];
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n_embd; j++)
                hidden[i * n_embd + j] = (float)((double)((37 * i + 11 * j) % 101) / 50.0 - 1.0);
        for (int32_t chunk = 1; chunk <= 16; chunk += 15) { /* one by one, and all at once beside padding */
            Runner r;
            open_runner(&r, m, (RpModelGraphOptions){.n_tok = chunk, .mtp = true}, "-quantize", NULL);
            for (int32_t at = 0; at < n; at += chunk)
                run_layer(&r, ids + at, hidden + at * n_embd, chunk < n - at ? chunk : n - at, n_embd, at);
            cr_expect_lt(golden_farthest(after, r.next_hidden, n_embd), 4e-3, "%s: hidden, %g", models[k],
                         golden_farthest(after, r.next_hidden, n_embd));
            cr_expect_lt(golden_farthest(logits, r.logits, n_vocab), 1e-2, "%s: logits, %g", models[k],
                         golden_farthest(logits, r.logits, n_vocab));
            rp_runner_close(&r);
        }
        rp_model_free(m);
    }
    fclose(f), fclose(latent);
}

Test(engine_mtp, hidden_states_are_those_of_which_the_logits_are) {
    RpModel      *m      = golden_open_tiny("glm4moe-f32");
    const int32_t n_embd = rp_model_info(m)->n_embd, n_vocab = rp_model_info(m)->n_vocab;
    const float  *w = m->output->view.data;
    Runner        r;
    open_runner(&r, m, (RpModelGraphOptions){.n_tok = 4, .n_out = 4, .hidden = true}, "", NULL);
    for (int32_t i = 0; i < 4; i++) r.tokens[i] = 5 + i, r.pos[i] = r.out_rows[i] = i;
    OK(rp_executor_run(r.executor));
    for (int32_t i = 0; i < 4; i++)
        for (int32_t v = 0; v < n_vocab; v++) {
            double sum = 0.0;
            for (int32_t j = 0; j < n_embd; j++) sum += (double)w[v * n_embd + j] * (double)r.hidden[i * n_embd + j];
            cr_assert_lt(fabs(sum - (double)r.logits[i * n_vocab + v]), 1e-4, CASE(i, v));
        }
    rp_runner_close(&r);
    rp_model_free(m);
}

Test(engine_mtp, graphs_that_cannot_be_are_refused) {
    RpModel      *m = golden_open_tiny("qwen35-mix"), *without = golden_open_tiny("qwen35-f32");
    ComputeGraph *g;
    REFUSED(rp_model_graph(without, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8, .mtp = true}, &g), RP_E_UNSUPPORTED,
            "qwen35-f32.gguf: the model has no layer that predicts further tokens");
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8, .mtp = true, .draws = true}, &g), RP_E_ARG,
            "a graph with `mtp` or `hidden` has neither the other nor `draws` and `embeddings`");
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1025, .n_ctx = 8, .mtp = true}, &g), RP_E_ARG,
            "a graph of 1025 tokens with `mtp`: must be at most 1024");
    cr_expect(rp_model_info(m)->mtp && !rp_model_info(without)->mtp);
    rp_model_free(m), rp_model_free(without);
}

/* ---- requests ---- */

typedef struct Reply {
    int32_t tokens[MAX_TOKENS], n, drafted, accepted;
} Reply;

/* Runs over the whole text: of the model, and of the layer or the assistant. */
typedef struct Whole {
    const RpModel *m;
    bool           assists;
    Runner         model, layer;
} Whole;

static void open_whole(Whole *w, const RpModel *m, const RpModel *assistant) {
    w->m = m, w->assists = assistant != NULL;
    open_runner(&w->model, m, (RpModelGraphOptions){.n_tok = N_TEXT, .hidden = true}, NULL, NULL);
    if (w->assists)
        open_runner(&w->layer, assistant, (RpModelGraphOptions){.n_tok = 1, .target = m}, NULL, w->model.executor);
    else
        open_runner(&w->layer, m, (RpModelGraphOptions){.n_tok = N_TEXT, .mtp = true}, NULL, NULL);
}

static void close_whole(Whole *w) {
    rp_runner_close(&w->layer);
    rp_runner_close(&w->model);
}

static void run_model(const Whole *w, const int32_t *tokens, int32_t n) {
    const Runner *r = &w->model;
    for (int32_t i = 0; i < N_TEXT; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        r->pos[i]    = i < n ? i : -1;
        if (r->slots != NULL) r->slots[1 + i] = i == n - 1 ? 0 : -1;
    }
    if (r->slots != NULL) r->slots[0] = -1;
    r->out_rows[0] = 0;
    OK(rp_executor_run(r->executor));
}

/* Logits of guess `round` behind n tokens; the guesses before it are known. The layer has columns from `first` on; the
 * model has not run the last token when an assistant guesses. */
static const float *logits_of(const Whole *w, const Request *q, int32_t n, int32_t first, int32_t round) {
    const Runner *r      = &w->layer;
    const int32_t n_embd = rp_model_info(w->m)->n_embd;
    if (!w->assists) {
        run_model(w, q->tokens, n);
        run_layer(r, q->tokens + first, w->model.hidden + (first - 1) * n_embd, n - first, n_embd, 0);
        return r->logits;
    }
    if (round == 0) run_model(w, q->tokens, n - 1);
    const float *hidden = round == 0 ? w->model.hidden + (size_t)(n - 2) * (size_t)n_embd : r->next_hidden;
    memmove(r->hidden, hidden, (size_t)n_embd * sizeof *hidden);
    r->tokens[0] = round == 0 ? q->tokens[n - 1] : q->guess[round - 1];
    r->pos[0] = n - 1, r->reach[0] = n - 2, r->out_rows[0] = 0;
    OK(rp_executor_run(r->executor));
    return r->logits;
}

/* Guesses of the latest step: of a layer the first, of an assistant all. *n counts them. */
static void check_guesses(const RpEngine *e, const Whole *w, int *n) {
    const int32_t n_vocab = rp_model_info(e->model)->n_vocab;
    for (int i = 0; i < e->n_running; i++) {
        const Request *r = e->running[i];
        if (r->last_draft + 1 != e->stats.steps || r->n_guess == 0) continue;
        const int32_t n_tokens = e->columns[r->column].pos + 1, first = e->drafter.rows[r->row].first;
        for (int32_t round = 0; round < (w->assists ? r->n_guess : 1); round++) {
            const float *logits = logits_of(w, r, n_tokens, first, round);
            for (int32_t k = 0; k < n_vocab; k++)
                cr_assert_geq(logits[r->guess[round]] + NEAR, logits[k],
                              "request %d, %d tokens, from %d, guess %d: %d, not %d", (int)r->id, n_tokens, first,
                              round, r->guess[round], k);
            (*n)++;
        }
    }
}

typedef struct Settings {
    int32_t        n_mtp, n_seq, cache_tokens, step_tokens;
    float          temperature;
    bool           checks;    /* guesses are compared */
    const RpModel *assistant; /* or NULL: the layer guesses, with n_mtp not -1 */
} Settings;

/* Requests of 1, 10, 19, ... tokens, one in every second step; every second one has the text of the one before, and
 * goes on. The fifth one interrupts others. */
static int run(const RpModel *m, const Settings *s, Reply *out, RpEngineStats *stats) {
    const RpEngineOptions o = {.n_ctx        = N_CTX,
                               .n_seq        = s->n_seq,
                               .n_threads    = 1,
                               .device       = device,
                               .cache_tokens = s->cache_tokens,
                               .step_tokens  = s->step_tokens,
                               .n_mtp        = s->n_mtp,
                               .draft        = s->assistant};
    RpEngine             *e;
    RpSampler            *samplers[N];
    RpEngineEvent         v;
    Whole                 whole;
    int32_t               prompt[N_CTX];
    int                   added = 0, ended = 0, checked = 0;
    memset(out, 0, N * sizeof *out);
    OK(rp_engine_open(m, &o, &e));
    if (s->checks) open_whole(&whole, m, s->assistant);
    for (int step = 0; ended < N; step++) {
        cr_assert_lt(step, 2000, "the requests do not end");
        if (step % 2 == 0 && added < N) {
            RpSamplerParams p = rp_sampler_defaults();
            uint64_t        id;
            const int32_t   n = 1 + 9 * added;
            p.temperature     = s->temperature;
            p.seed            = (uint64_t)added;
            OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &samplers[added]));
            for (int32_t i = 0; i < n; i++) prompt[i] = 3 + (5 * (added / 2) + 7 * i) % (rp_model_info(m)->n_vocab - 3);
            OK(rp_engine_add(e,
                             &(RpRequest){.prompt     = prompt,
                                          .n_prompt   = (size_t)n,
                                          .sampler    = samplers[added],
                                          .max_tokens = MAX_TOKENS,
                                          .ignore_end = true,
                                          .n_draft    = s->assistant != NULL ? 1 + added : 0,
                                          .priority   = added == 4 ? 5 : 0,
                                          .user       = &out[added]},
                             &id));
            added++;
        }
        OK(rp_engine_step(e));
        if (s->checks) check_guesses(e, &whole, &checked);
        while (rp_engine_poll(e, &v)) {
            Reply *r = v.user;
            cr_assert(v.status == RP_OK && r->n < MAX_TOKENS, "%s", v.error);
            r->tokens[r->n++] = v.token;
            r->drafted = v.n_drafted, r->accepted = v.n_accepted;
            ended += v.end;
        }
    }
    *stats = rp_engine_stats(e);
    if (s->checks) close_whole(&whole);
    rp_engine_free(e);
    for (int i = 0; i < N; i++) rp_sampler_free(samplers[i]);
    return checked;
}

static int check(const RpModel *m, Settings s, RpEngineStats *stats) {
    Reply         with[N], without[N];
    RpEngineStats of_other;
    const int     checked = run(m, &s, with, stats);
    s.n_mtp = -1, s.checks = false, s.assistant = NULL;
    run(m, &s, without, &of_other);
    cr_expect(of_other.drafted == 0 && stats->drafted > 0);
    for (int i = 0; i < N; i++) {
        cr_expect_eq(with[i].n, MAX_TOKENS, CASE(i));
        cr_expect_eq(memcmp(with[i].tokens, without[i].tokens, sizeof with[i].tokens), 0, "request %d: other tokens",
                     i);
    }
    return checked;
}

Test(engine_mtp, guesses_change_no_token_and_are_those_of_the_whole_text) {
    for (int k = FIRST_MODEL; k < END_MODELS; k++) {
        RpModel      *m = golden_open_tiny(models[k]);
        RpEngineStats stats;
        int           checked   = 0;
        uint64_t      preempted = 0, cached = 0;
        for (int i = FIRST_SETTING; i < END_SETTINGS; i++) {
            checked += check(m,
                             (Settings){.n_mtp        = i == 2 ? 5 : 0,
                                        .n_seq        = 1 + 2 * i,
                                        .cache_tokens = i == 2 ? N_CTX + 64 : 0,
                                        .step_tokens  = i == 1 ? 8 : 0,
                                        .temperature  = i == 1 ? 1.0f : 0.0f,
                                        .checks       = i > 0},
                             &stats);
            preempted += stats.preempted, cached += stats.cached;
        }
        cr_expect_gt(checked, 10, "%s: %d guesses", models[k], checked);
        cr_expect((preempted > 0 && cached > 0) || END_SETTINGS < 3, "%s: %d, %d", models[k], (int)preempted,
                  (int)cached);
        rp_model_free(m);
    }
}

Test(engine_mtp, assistants_change_no_token_and_guess_by_the_caches_of_the_model) {
    static const char *const targets[] = {"gemma4-mix", "gemma4-f32"}, *const assistants[] = {
                                                                           "../assistant/gemma4-mix",
                                                                           "../assistant/gemma4-f32"};
    for (int k = 0; k < END_MODELS / 2; k++) {
        RpModel      *m = golden_open_tiny(targets[k]), *a = golden_open_tiny(assistants[k]);
        RpEngineStats stats;
        int           checked   = 0;
        uint64_t      preempted = 0, cached = 0;
        for (int i = FIRST_SETTING; i < END_SETTINGS; i++) {
            checked += check(m,
                             (Settings){.n_mtp        = -1,
                                        .n_seq        = 1 + 2 * i,
                                        .cache_tokens = i == 2 ? N_CTX + 64 : 0,
                                        .step_tokens  = i == 1 ? 8 : 0,
                                        .temperature  = i == 1 ? 1.0f : 0.0f,
                                        .checks       = true,
                                        .assistant    = a},
                             &stats);
            preempted += stats.preempted, cached += stats.cached;
        }
        cr_expect_gt(checked, 10, "%s: %d guesses", targets[k], checked);
        cr_expect((preempted > 0 && cached > 0) || END_SETTINGS < 3, "%s: %d, %d", targets[k], (int)preempted,
                  (int)cached);
        rp_model_free(a), rp_model_free(m);
    }
}

/* ---- layers that are always right, or never ---- */

static void fill(const RpModel *m, const char *name, float diagonal) {
    RpGgufTensor *t = (RpGgufTensor *)(uintptr_t)rp_gguf_find_tensor(m->file, name);
    cr_assert_not_null(t, "%s", name);
    const int64_t n    = t->view.ne[0];
    float        *row  = calloc((size_t)n, sizeof *row);
    char         *data = t->view.data;
    for (int64_t i = 0; i < t->view.ne[1] * t->view.ne[2]; i++) {
        if (i < n) row[i] = diagonal;
        OK(rp_quantize_row(t->view.dtype, row, n, data + (size_t)i * rp_row_bytes(t->view.dtype, n)));
        if (i < n) row[i] = 0.0f;
    }
    free(row);
}

/* Layers of the model add nothing, so that the next token depends on the last one alone. The MTP layer sees the
 * embedding of that token, times `sign`. */
static RpModel *constructed(char *data, size_t n, float sign) {
    static const char *const zero[] = {"blk.%d.attn_output.weight", "blk.%d.ssm_out.weight", "blk.%d.ffn_down.weight"};
    RpModel                 *m;
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    for (int layer = 0; layer <= rp_model_info(m)->n_layer; layer++)
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, zero[i], layer);
            if (rp_gguf_find_tensor(m->file, name) != NULL) fill(m, name, 0.0f);
        }
    fill(m, "blk.4.nextn.eh_proj.weight", sign);
    for (int i = 0; i < 3; i++) {
        static const char *const norms[] = {"output_norm.weight", "blk.4.nextn.enorm.weight",
                                            "blk.4.nextn.shared_head_norm.weight"};
        const RpGgufTensor      *t       = rp_gguf_find_tensor(m->file, norms[i]);
        for (int64_t j = 0; j < t->view.ne[0]; j++) ((float *)t->view.data)[j] = 1.0f;
    }
    return m;
}

Test(engine_mtp, a_layer_that_is_always_right_and_one_that_never_is) {
    size_t n;
    char  *data = golden_read_tiny("qwen35-mix", &n);
    for (int i = 0; i < 2; i++) {
        RpModel      *m = constructed(data, n, i == 0 ? 1.0f : -1.0f);
        RpEngineStats stats;
        check(m, (Settings){.n_mtp = 4, .n_seq = 2}, &stats);
        cr_expect_eq(stats.accepted, i == 0 ? stats.drafted : 0, "%d of %d", (int)stats.accepted, (int)stats.drafted);
        cr_expect_eq(stats.generated, N * MAX_TOKENS, CASE(i));
        if (i == 0) cr_expect_lt(stats.steps, N * MAX_TOKENS - stats.accepted / 2, CASE(i));
        rp_model_free(m);
    }
    free(data);
}

/* ---- options, memory, files ---- */

Test(engine_mtp, presets_are_written_with_such_a_layer) {
    char     path[64];
    RpModel *m;
    snprintf(path, sizeof path, "/tmp/rp-mtp-%d.gguf", (int)getpid());
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "Q4_0", .seed = 1, .mtp = true}, path));
    OK(rp_model_open(path, NULL, &m));
    cr_expect(rp_model_info(m)->mtp && rp_model_info(m)->n_layer == 2 && rp_model_info(m)->n_layer_nextn == 1);
    RpEngineStats stats;
    check(m, (Settings){.n_seq = 2}, &stats);
    rp_model_free(m);
    remove(path);
    REFUSED(rp_synth("nemotron-h-1b", &(RpSynthOptions){.mtp = true}, path), RP_E_ARG,
            "preset nemotron-h-1b: layers of nemotron_h do not predict further tokens");
}

Test(engine_mtp, the_bytes_of_the_layer_are_counted) {
    RpModel       *m = golden_open_tiny("qwen35-mix");
    RpEngine      *e;
    RpEngineMemory with, without;
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX}, &with));
    OK(rp_engine_memory(m, &(RpEngineOptions){.n_ctx = N_CTX, .n_mtp = -1}, &without));
    cr_expect_eq(without.draft, 0);
    const size_t kv = (size_t)rp_model_info(m)->n_head_kv * (size_t)rp_model_info(m)->head_dim * 2 * sizeof(uint16_t);
    cr_expect_gt(with.draft, 4 * N_CTX * kv, "the cache of four requests");
    REFUSED(rp_engine_open(m, &(RpEngineOptions){.n_ctx = N_CTX, .n_mtp = 16}, &e), RP_E_ARG,
            "n_mtp of an engine is 16: must be from -1 to 15");
    rp_model_free(m);
}
