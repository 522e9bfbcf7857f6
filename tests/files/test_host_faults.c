/* Memory, files and threads that fail while models are opened, graphs built and replies computed: every call once
 * (host_scenario.h). */
#include "tests/support/host_scenario.h"
#include "tests/support/tiny.h"

#include <pthread.h>

#ifdef RP_TEST_SLOW
enum { EVERY_FAMILY = 5 };
#else
enum { EVERY_FAMILY = 1 };
#endif
enum { N_CTX = 24, N_PROMPT = 9, N_IDS = 5 };

TestSuite(host_faults, .init = make_folder, .fini = remove_folder);

/* ---- models ---- */

/* Some models of interest, and one of each family. */
static const TinyNames *families(void) {
    static const char *const given[] = {"llama-mix-k",   "llama-factors", "qwen2-mix",       "qwen3-mix",
                                        "gemma3-mix",    "mixtral-mix-k", "qwen2moe-mix",    "qwen3moe-mix",
                                        "gpt-oss-mxfp4", "deepseek2-mix", "deepseek2-joined"};
    return tiny_families(given, sizeof given / sizeof given[0]);
}

static const char *tiny(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    return path;
}

static bool go_on(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    return true;
}

static RpStatus open_model(const char *family) {
    RpModel             *m;
    const RpModelOptions o = {.progress = go_on};
    RP_TRY(rp_model_open(tiny(family), &o, &m));
    add_result(&rp_model_info(m)->n_params, sizeof(int64_t));
    rp_model_free(m);
    return RP_OK;
}

Test(host_faults, opening_a_model) {
    for (int i = 0; i < families()->n; i += EVERY_FAMILY) fail_each_call("model", open_model, families()->name[i]);
}

/* Hugging Face directories: shards, experts that are made one tensor, FP8, vectors of config.json, a tokenizer. */
static RpStatus open_directory(const char *name) {
    static const char    text[] = "In 1999 caf\xc3\xa9 e\xcc\x81!?";
    char                 path[1024];
    RpModel             *m;
    RpTokenList          ids = {0};
    RpStatus             st  = RP_OK;
    const RpModelOptions o   = {.progress = go_on};
    snprintf(path, sizeof path, GOLDEN_DIR "%s", name);
    RP_TRY(rp_model_open(path, &o, &m));
    add_result(&rp_model_info(m)->n_params, sizeof(int64_t));
    if (rp_model_tokenizer(m) != NULL) st = rp_tokenize(rp_model_tokenizer(m), text, sizeof text - 1, 0, &ids);
    if (st == RP_OK && ids.n > 0) add_result(ids.ids, ids.n * sizeof *ids.ids);
    rp_token_list_free(&ids);
    rp_model_free(m);
    return st;
}

Test(host_faults, opening_a_directory) {
    static const char *const names[] = {"hf/llama-f16-shards", "hf/llama-fp8", "hf/llama-llama3",
                                        "hf/mixtral",          "hf/phi3-long", "hf_text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) fail_each_call("directory", open_directory, names[i]);
}

static RpStatus open_preset(const char *name) {
    RpModel *m;
    RP_TRY(rp_model_open_preset(name, "Q8_0", &m));
    add_result(&rp_model_info(m)->n_params, sizeof(int64_t));
    rp_model_free(m);
    return RP_OK;
}

Test(host_faults, opening_a_preset) { fail_each_call("preset", open_preset, "tiny"); }

static RpStatus tokenize(const char *name) {
    static const char text[] = "In 1999 <s>they'd say: \xe4\xb8\xad\xe6\x96\x87 \xff\n  caf\xc3\xa9!?";
    char              path[1024];
    RpGgufFile       *f;
    RpTokenizer      *tk  = NULL;
    RpTokenList       ids = {0};
    snprintf(path, sizeof path, GOLDEN_DIR "%s", name);
    RP_TRY(rp_gguf_open(path, &f));
    RpStatus st = rp_tokenizer_new(f, &tk);
    rp_gguf_close(f);
    if (st == RP_OK) st = rp_tokenize(tk, text, sizeof text - 1, RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, &ids);
    if (st == RP_OK) add_result(ids.ids, ids.n * sizeof *ids.ids);
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    return st;
}

Test(host_faults, tokenising) {
    static const char *const names[] = {
        "tokenizer/default.gguf",      "tokenizer/qwen2.gguf",     "tokenizer/tekken.gguf",
        "tokenizer/deepseek-llm.gguf", "tokenizer/spm.gguf",       "tokenizer/spm-no-prefix.gguf",
        "hf_tokenizers/unigram-bytes", "hf_tokenizers/phi3-strip", "wordpiece/wordpiece.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) fail_each_call("tokenizer", tokenize, names[i]);
}

static RpStatus format_chat(const char *name) {
    static const RpChatMessage messages[] = {
        {"system",    "Be brief."                                     },
        {"user",      "Hello"                                         },
        {"assistant", "Hello to you, and a long text so that it grows"},
        {"user",      "Bye"                                           }
    };
    RpChatKind kind;
    char      *text = NULL;
    RP_TRY(rp_chat_from_name(name, &kind));
    RP_TRY(rp_chat_format(kind, messages, 4, &text));
    add_result(text, strlen(text));
    free(text);
    return RP_OK;
}

/* Jinja of loops, macros, filters and JSON. */
static RpStatus run_template(const char *source) {
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"tools\": [{\"b\": [1, 2], \"a\": {}}]}";
    RpGgufFile     *f    = NULL;
    RpTokenizer    *tk   = NULL;
    RpChatTemplate *t    = NULL;
    char           *text = NULL;
    bool           *control;
    RpStatus        st = rp_gguf_open(GOLDEN_DIR "tokenizer/smollm.gguf", &f);
    if (st == RP_OK) st = rp_tokenizer_new(f, &tk);
    if (st == RP_OK) st = rp_chat_template_new(tk, "t", source, strlen(source), &t);
    if (st == RP_OK) st = rp_chat_template_render(t, json, sizeof json - 1, &text, &control);
    if (st == RP_OK) {
        add_result(text, strlen(text));
        free(text);
        free(control);
        st = rp_chat_template_format(t, &(RpChatMessage){"user", "Hi"}, 1, &text, &control);
    }
    if (st == RP_OK) {
        free(text);
        free(control);
    }
    rp_chat_template_free(t);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    return st;
}

Test(host_faults, running_a_template) {
    fail_each_call(
        "template", run_template,
        "{% macro f(x, y=1) %}{{ x ~ y }}{% endmacro %}{% for m in messages %}{{ f(m.content | upper, y=2) }}"
        "{% set ns = namespace(a=[1]) %}{% set ns.a = ns.a + [2, 3] | sort %}{{ ns.a | join }}{% endfor %}"
        "{{ tools | tojson(sort_keys=true) }}{{ 'abc' * 20000 }}");
}

Test(host_faults, formatting_a_chat) {
    for (int i = RP_CHAT_CHATML; i <= RP_CHAT_LLAMA2; i++)
        fail_each_call("chat", format_chat, rp_chat_name((RpChatKind)i));
}

/* ---- graphs, plans and dumps ---- */

static const RpModel *model;

static RpStatus dump(const ComputeGraph *g, FILE *out) {
    for (int format = RP_DUMP_TEXT; format <= RP_DUMP_JSON; format++) {
        const RpDumpOptions o = {.format = (RpDumpFormat)format, .fold = true, .title = "a title"};
        RP_TRY(rp_graph_dump(g, &o, out));
    }
    return RP_OK;
}

static RpStatus plan_and_dump(const ComputeGraph *g, FILE *out) {
    ExecPlan *plan = NULL;
    RpStatus  st   = dump(g, out);
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_plan_dump(plan, RP_DUMP_TEXT, out);
    if (st == RP_OK) st = rp_plan_dump(plan, RP_DUMP_JSON, out);
    rp_plan_free(plan);
    return st;
}

/* A stream that adds what is written to the result, without memory of its own. */
static FILE *sink;

static ssize_t write_to_result(void *cookie, const char *data, size_t n) {
    (void)cookie;
    add_result(data, n);
    return (ssize_t)n;
}

static void open_sink(void) {
    sink = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_to_result});
    cr_assert_not_null(sink);
    setvbuf(sink, NULL, _IONBF, 0);
}

static RpStatus build(const char *n_tok) {
    ComputeGraph             *g;
    const RpModelGraphOptions o = {.n_tok = atoi(n_tok), .n_ctx = N_CTX};
    RP_TRY(rp_model_graph(model, &o, &g));
    RpStatus st = rp_graph_optimize(g, "");
    if (st == RP_OK) st = plan_and_dump(g, sink);
    rp_graph_free(g);
    return st;
}

Test(host_faults, building_planning_and_dumping_a_graph) {
    open_sink();
    for (int i = 0; i < families()->n; i += EVERY_FAMILY) {
        RpModel *m = golden_open_tiny(families()->name[i]);
        model      = m;
        fail_each_call(families()->name[i], build, "1");
        fail_each_call(families()->name[i], build, "16");
        rp_model_free(m);
    }
    fclose(sink);
}

/* ---- executors and sessions ---- */

static bool compare_node(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                         void *user) {
    (void)user;
    const double difference = rp_verify_difference(node, view, got, want, NULL);
    add_result(&difference, sizeof difference);
    return true;
}

static void set_inputs(RpExecutor *e, const ComputeGraph *g) {
    static const char *const names[] = {"tokens", "pos", "out_rows"};
    for (int i = 0; i < 3; i++) {
        const TensorNode *node = rp_graph_find(g, names[i]);
        int32_t          *ids  = rp_executor_data(e, node);
        for (int32_t t = 0; t < rp_node_view(node).ne[0]; t++) ids[t] = t;
    }
}

static RpStatus use_executor(RpExecutor *e, const ComputeGraph *g, int n_steps) {
    double            step_ns[1024], total_ns;
    RpExecutorStates *states = NULL;
    cr_assert_leq(n_steps, 1024);
    set_inputs(e, g);
    RpStatus st = rp_executor_states_new(e, &states);
    if (st == RP_OK) st = rp_executor_states_bind(e, states);
    if (st == RP_OK) st = rp_executor_verify(e, compare_node, NULL);
    if (st == RP_OK) st = rp_executor_profile(e, 2, step_ns, &total_ns);
    RpStatus back = rp_executor_states_bind(e, NULL);
    rp_executor_states_free(states);
    return st != RP_OK ? st : back;
}

static RpStatus execute(const char *threads) {
    ComputeGraph             *g;
    ExecPlan                 *plan = NULL;
    RpExecutor               *e = NULL, *other = NULL;
    const RpModelGraphOptions graph = {.n_tok = 2, .n_ctx = N_CTX};
    const RpExecutorOptions   o     = {.n_threads = atoi(threads)};
    RP_TRY(rp_model_graph(model, &graph, &g));
    RpStatus st = rp_graph_optimize(g, "");
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, &o, &e);
    if (st == RP_OK) st = use_executor(e, g, rp_plan_memory(plan).n_steps);
    if (st == RP_OK) st = rp_executor_open(plan, &(RpExecutorOptions){.share = e}, &other);
    rp_executor_free(other);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
    return st;
}

static void *no_work(void *arg) { return arg; }

/* The first executor of a process measures the prefetch distance; no run goes before, so that this fails too. A thread
 * goes before: with the first one the thread sanitizer starts a thread of its own. */
Test(host_faults, opening_and_using_an_executor) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, no_work, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    model      = m;
    for (int k = 1; survives("first executor", execute, "2", k, 0);) k++;
    fail_each_call("executor", execute, "3");
    rp_model_free(m);
}

static void add_logits(size_t i, const float *logits, void *user) {
    (void)i, (void)user;
    add_result(logits, (size_t)rp_model_info(model)->n_vocab * sizeof *logits);
}

static bool add_text(const char *text, size_t n, void *user) {
    (void)user;
    add_result(text, n);
    return true;
}

static bool add_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    (void)user;
    add_result(chosen, sizeof *chosen);
    add_result(top, n_top * sizeof *top);
    return true;
}

static RpStatus use_session(RpSession *s, RpSampler *sampler) {
    static const char *const stops[] = {"a text that never comes", "another"};
    int32_t                  ids[N_PROMPT];
    RpTokenList              list = {0};
    RpGenerateResult         r;
    const RpGenerateOptions  o = {.max_tokens  = N_IDS,
                                  .stop        = stops,
                                  .n_stop      = 2,
                                  .ignore_end  = true,
                                  .on_text     = add_text,
                                  .tokens      = &list,
                                  .on_logprobs = add_logprobs,
                                  .n_logprobs  = 2};
    for (int i = 0; i < N_PROMPT; i++) ids[i] = 3 + 7 * i % 40;
    RP_TRY(rp_session_score(s, ids, 3, add_logits, NULL));
    RP_TRY(rp_session_step(s, ids[3]));
    RpStatus st = rp_generate(s, sampler, ids, N_PROMPT, &o, &r);
    if (st == RP_OK) add_result(list.ids, list.n * sizeof *list.ids);
    if (st == RP_OK) add_logits(0, rp_session_logits(s), NULL);
    rp_token_list_free(&list);
    return st;
}

/* Texts of an encoder, each of which opens a runner of its own; scores; every state of a decoder, in chunks. */
static RpStatus use_embedder(const RpModel *m, const char *pooling) {
    static const int32_t ids[N_PROMPT] = {3, 17, 5, 40, 8, 21, 9, 11, 30};
    float                out[N_PROMPT * 64];
    RpEmbedder          *e;
    RpEmbedderOptions    o = {.n_ctx = N_CTX, .n_threads = 1};
    RP_TRY(rp_pooling_from_name(pooling, &o.pooling));
    RP_TRY(rp_embedder_open(m, &o, &e));
    RpStatus st = rp_embed(e, ids, N_PROMPT, out);
    if (st == RP_OK) add_result(out, (size_t)rp_embedder_info(e).n_out * sizeof *out);
    if (st == RP_OK && o.pooling != RP_POOLING_NONE) st = rp_embed_text(e, "abc", 3, out);
    if (st == RP_OK && o.pooling == RP_POOLING_RANK) st = rp_rerank(e, "a", 1, "b c", 3, out);
    if (st == RP_OK) add_result(out, sizeof *out);
    rp_embedder_free(e);
    return st;
}

static RpStatus embed(const char *name_and_pooling) {
    char     path[1024];
    RpModel *m;
    int      name = 0;
    cr_assert_eq(sscanf(name_and_pooling, "%*s%n", &name), 0);
    snprintf(path, sizeof path, GOLDEN_DIR "embed/%.*s.gguf", name, name_and_pooling);
    RP_TRY(rp_model_open(path, NULL, &m));
    const RpStatus st = use_embedder(m, name_and_pooling + name + 1);
    rp_model_free(m);
    return st;
}

Test(host_faults, embedding_texts) {
    static const char *const cases[] = {"bert-mix cls", "bert-rank-mix rank", "gemma-embedding-f32 none",
                                        "qwen3-embed-mix last"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) fail_each_call("embedder", embed, cases[i]);
}

static RpSampler *new_sampler(void) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *sampler;
    p.temperature    = 0.8f;
    p.top_p          = 0.9f;
    p.repeat_penalty = 1.1f;
    return rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler) == RP_OK ? sampler : NULL;
}

static RpStatus reply(const char *kv) {
    const RpModelInfo     *info    = rp_model_info(model);
    RpSession             *s       = NULL;
    RpSampler             *sampler = NULL;
    const RpSessionOptions o       = {.n_ctx         = N_CTX,
                                      .n_threads     = 2,
                                      .prefill_chunk = 4,
                                      .kv_type       = strcmp(kv, "q8_0") == 0 ? RP_Q8_0 : RP_F16,
                                      .count_experts = info->n_expert > 0};
    RpStatus               st      = rp_session_open(model, &o, &s);
    if (st == RP_OK && (sampler = new_sampler()) == NULL) st = RP_E_NOMEM;
    if (st == RP_OK) st = use_session(s, sampler);
    rp_sampler_free(sampler);
    rp_session_free(s);
    return st;
}

/* A sampler with all that is allocated for its steps. */
static RpStatus open_sampler(const char *breaker) {
    float           logits[64] = {0.0f, 1.0f};
    int32_t         token;
    RpSampler      *s;
    RpSamplerParams p   = rp_sampler_defaults();
    p.temperature       = 1.0f;
    p.dry_multiplier    = 1.0f;
    p.tokenizer         = rp_model_tokenizer(model);
    p.dry_breakers      = &breaker;
    p.n_dry_breakers    = 1;
    p.logit_bias        = &(RpLogitBias){3, 1.0f};
    p.n_logit_bias      = 1;
    p.frequency_penalty = 0.5f;
    RP_TRY(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &s));
    const RpStatus st = rp_sampler_sample(s, logits, &token);
    if (st == RP_OK) add_result(&token, sizeof token);
    rp_sampler_free(s);
    return st;
}

Test(host_faults, a_sampler_with_every_step) {
    RpModel *m = golden_open_tiny("llama-f32");
    model      = m;
    fail_each_call("sampler", open_sampler, "A:");
    rp_model_free(m);
}

Test(host_faults, a_reply_of_a_session) {
    static const char *const names[] = {"llama-mix-k", "gemma3-mix", "qwen3moe-mix", "deepseek2-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i += EVERY_FAMILY) {
        RpModel *m = golden_open_tiny(names[i]);
        model      = m;
        fail_each_call(names[i], reply, "f16");
        rp_model_free(m);
    }
    RpModel *m = golden_open_tiny("qwen3-f32");
    model      = m;
    fail_each_call("qwen3-f32", reply, "q8_0");
    rp_model_free(m);
}

static const RpModel *assistant; /* or NULL */

/* Two requests beside each other. */
static RpStatus requests(const char *draft) {
    RpEngine             *e            = NULL;
    int32_t               tokens[2][8] = {{0}};
    RpSampler            *samplers[2]  = {new_sampler(), new_sampler()};
    RpStatus              st           = samplers[0] != NULL && samplers[1] != NULL ? RP_OK : RP_E_NOMEM;
    const RpEngineOptions o = {.n_ctx = N_CTX, .n_seq = 2, .n_threads = 2, .step_tokens = 4, .draft = assistant};
    if (st == RP_OK) st = rp_engine_open(model, &o, &e);
    for (int i = 0; i < 2 && st == RP_OK; i++) {
        const int32_t   ids[] = {5, 9, 7, 5, 9, 7, 5 + i};
        const RpRequest r     = {
                .prompt     = ids,
                .n_prompt   = 7,
                .sampler    = samplers[i],
                .max_tokens = 8,
                .stop       = (const char *const[]){"never", "again"},
                .n_stop     = 2,
                .ignore_end = true,
                .n_draft    = atoi(draft)
        };
        uint64_t id;
        st = rp_engine_add(e, &r, &id);
    }
    while (st == RP_OK && rp_engine_pending(e) > 0) {
        RpEngineEvent v;
        st = rp_engine_step(e);
        while (st == RP_OK && rp_engine_poll(e, &v)) {
            if (v.token >= 0) tokens[v.id - 1][v.n_generated - 1] = v.token;
            if (v.end) st = v.status;
        }
    }
    add_result(tokens, sizeof tokens); /* which request comes first in a step depends on the guesses */
    rp_engine_free(e);
    for (int i = 0; i < 2; i++) rp_sampler_free(samplers[i]);
    return st;
}

Test(host_faults, requests_of_an_engine) {
    static const char *const names[] = {"llama-mix-k", "qwen35-mix", "gemma4-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        RpModel *m = golden_open_tiny(names[i]), *a = i == 2 ? golden_open_tiny("../assistant/gemma4-mix") : NULL;
        model = m, assistant = a;
        fail_each_call(names[i], requests, i == 0 ? "0" : "2");
        rp_model_free(a), rp_model_free(m);
    }
}

/* A session outlives a call that fails: the same calls from the beginning then give the same results. */
Test(host_faults, a_session_is_as_before_after_a_failure) {
    RpModel *m         = golden_open_tiny("qwen3moe-mix");
    model              = m;
    HostFaultKind kind = HOST_MEMORY;
    uint64_t      want = 0;
    for (int k = 0;; k++) { /* k = 0: nothing fails */
        const RpSessionOptions o = {.n_ctx = N_CTX, .n_threads = 2, .prefill_chunk = 4};
        RpSession             *s;
        RpSampler             *sampler = new_sampler();
        OK(rp_session_open(m, &o, &s));
        host_fault_arm(k);
        const RpStatus st   = use_session(s, sampler);
        const char    *call = host_fault_disarm(&kind);
        cr_expect_eq(st == RP_OK, call == NULL, "call %d, %s: %s", k, call != NULL ? call : "", rp_last_error());
        OK(rp_session_rewind(s, 0));
        rp_sampler_reset(sampler);
        result = 0;
        OK(use_session(s, sampler));
        if (k == 0) want = result;
        cr_expect_eq(result, want, "after call %d failed", k);
        rp_sampler_free(sampler);
        rp_session_free(s);
        if (k > 0 && call == NULL) break;
    }
    rp_model_free(m);
}
