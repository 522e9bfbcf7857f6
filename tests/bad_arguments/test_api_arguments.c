/* Every public function with every bad argument: NULL, numbers out of range, no enumerator, NaN, and bad members of
 * options. rows.py (tests/bad_arguments) writes the calls from the public headers, so that none is left out;
 * arguments.py has the values.
 *
 *     returns RpStatus    NULL: RP_E_ARG, and a text that names function and argument; other bad values: any failure
 *     other functions     NULL: nothing, as 0, NULL, "" or -1; other bad values: no undefined behaviour
 *
 * The calls of one function run in a process of their own, so a crash is the failure of that function alone. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/hang.h"

#include "base/external/dlpack.h"

#include <math.h>
#include <sys/wait.h>

#define MODEL   GOLDEN_DIR "tiny/llama-mix.gguf"
#define NOWHERE "/nonexistent/folder/x.gguf"

enum { ROOM = 4096 };

/* Tensors of DLPack. */
typedef struct Exchange {
    struct DLManagedTensor          plain, *new_plain;
    struct DLManagedTensorVersioned versioned, *new_versioned;
} Exchange;

/* Valid arguments. The objects named new_... are results of calls. */
typedef struct Fixture {
    RpModel           *model, *new_model;
    RpSession         *session, *new_session;
    RpEmbedder        *embedder, *new_embedder;
    RpSampler         *sampler, *new_sampler;
    RpTrainer         *trainer, *new_trainer;
    ComputeGraph      *fresh, *graph, *new_graph; /* fresh: not finished, a new one for each call */
    TensorNode        *node, *in, *sum;           /* of the fresh graph; input and output of `graph` */
    ExecPlan          *plan, *new_plan;
    RpExecutor        *exec, *new_exec;
    RpExecutorStates  *states, *new_states;
    const RpGgufFile  *file;
    RpGgufFile        *new_file_of_model;
    const RpGgufValue *value;
    const RpTokenizer *tokenizer;
    RpTokenizer       *new_tokenizer;
    RpChatTemplate    *chat, *new_chat;
    RpChatReply       *chat_reply, *new_chat_reply;
    RpReplyParser     *parser, *new_parser;
    RpEngine          *engine, *new_engine;
    uint64_t           id;
    RpReplyFormat      format;
    RpToolCallLog     *calls, *new_calls;
    RpGrammar         *grammar, *new_grammar;
    RpGrammarVocab    *vocab, *new_vocab;
    RpMatcher         *matcher, *new_matcher;
    RpNewFile         *new_file, *newer_file;
    RpCudaMemory      *new_memory;
    RpExternalTensor  *external, *new_external;
    Exchange           dl;
    RpTrace           *trace, *new_trace;
    FILE              *null;
    RpTokenList        list;
    RpUtf8Stream       utf8;
    RpChatMessage      messages[1];
    RpTensorView       view;
    int64_t            ne[RP_MAX_DIMS];
    float              floats[256];
    double             doubles[16];
    int32_t            ids[64];
    char               buffer[ROOM];
    unsigned char      ones[ROOM];
    const void        *cursor;
    size_t             size;
    int                number;
    bool               yes;
    uint32_t           word;
    RpDtype            dtype;
    RpChatKind         kind;
    RpExecMode         mode;
    TensorOp           op;
    RpGgufString       string;
    RpCpuPrefetch      prefetch;
    char              *text;
    bool              *mask;
} Fixture;

typedef struct Row {
    const char *header, *function;
    void (*calls)(Fixture *x);
} Row;

/* ---- checks, counted in the process of a function ---- */

static int failures;

static void refused(RpStatus st, const char *call, bool as_null, const char *function, const char *argument) {
    char text[128];
    snprintf(text, sizeof text, "%s: %s is NULL", function, argument);
    if (as_null ? st == RP_E_ARG && strcmp(rp_last_error(), text) == 0 : st != RP_OK && rp_last_error()[0] != '\0')
        return;
    fprintf(stderr, "%s%s%s: status %d, \"%s\"\n    %.300s\n", function, argument[0] != '\0' ? ", " : "", argument,
            (int)st, rp_last_error(), call);
    failures++;
}

static void unequal(const char *key, const char *call) {
    fprintf(stderr, "%s: not the documented result for NULL\n    %.300s\n", key, call);
    failures++;
}

#define REFUSED_NULL(call, function, argument) refused(call, #call, true, function, argument)
#define EQUAL(call, want, key)                 ((call) == (want) ? (void)0 : unequal(key, #call))
#define ACCEPTED(call)                                                                                                 \
    do {                                                                                                               \
        __typeof__(call) result_ = call;                                                                               \
        (void)result_;                                                                                                 \
    } while (0)

/* ---- valid callbacks and objects ---- */

static bool verify(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    (void)node, (void)view, (void)got, (void)want, (void)user;
    return true;
}

static bool prefill(int64_t done, int64_t total, void *user) { return user == NULL && done <= total; }

static void score(size_t i, const float *logits, void *user) { (void)i, (void)logits, (void)user; }

static RpStatus shape(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)in, (void)params, (void)out, (void)why;
    return RP_OK;
}

static void dequantize(const void *row, int64_t n, float *out, void *user) {
    (void)row, (void)user;
    for (int64_t i = 0; i < n; i++) out[i] = 0.0f;
}

static RpStatus kernel(const RpOpArgs *args, RpKernelCtx *ctx) {
    (void)args, (void)ctx;
    return RP_OK;
}

static void fresh(Fixture *x) {
    rp_graph_free(x->fresh);
    x->fresh = rp_graph_new();
    x->node  = rp_graph_input(x->fresh, "x", RP_F32, x->ne);
}

static bool matched;

/* rp_match_node, which needs a match, in the callback of a pattern. */
static bool in_match(const RpPatternMatch *m, RpOpParams *out) {
    (void)out;
    EQUAL(rp_match_node(m, NULL) == NULL && rp_match_node(m, "none") == NULL && rp_match_node(m, "x") != NULL, true,
          "rp_match_node.name");
    matched = true;
    return false;
}

static void match(Fixture *x) {
    const RpGraphPattern p = {.name = "api_match", .match = "silu(x)", .make = "sigmoid(x)", .params = in_match};
    TensorNode          *y = rp_silu(x->fresh, x->node);
    OK(rp_pattern_register(&p));
    OK(rp_graph_finish(x->fresh, &y, 1));
    OK(rp_graph_optimize(x->fresh, "-all,+api_match"));
    EQUAL(matched, true, "rp_match_node: the callback was not called");
}

#undef REFUSED /* golden.h has another one */
#define REFUSED(call, key) refused(call, #call, false, key, "")
#include "api_rows.h"

static void open_graph(Fixture *x) {
    const RpExecutorOptions options = {.n_threads = 1, .device = "cpu"};
    x->graph                        = rp_graph_new();
    x->in                           = rp_graph_input(x->graph, "x", RP_F32, x->ne);
    x->sum                          = rp_add(x->graph, x->in, x->in);
    OK(rp_graph_finish(x->graph, &x->sum, 1));
    OK(rp_plan_new(x->graph, &x->plan));
    OK(rp_executor_open(x->plan, &options, &x->exec));
    OK(rp_executor_states_new(x->exec, &x->states));
}

static void open_fixture(Fixture *x) {
    const RpSessionOptions options = {.n_ctx = 16, .n_threads = 1, .device = "cpu", .prefill_chunk = 1};
    const RpSamplerParams  greedy  = rp_sampler_defaults();
    *x                             = (Fixture){
                                    .ne = {8,  1, 1, 1},
                                      .messages = {{"user", "hello"}},
                                      .null = fopen("/dev/null", "w")
    };
    x->model = golden_open_tiny("llama-mix");
    x->file = rp_model_file(x->model), x->tokenizer = rp_model_tokenizer(x->model);
    OK(rp_chat_template_new(x->tokenizer, "t", "x", 1, &x->chat));
    OK(rp_reply_parser_new(&(RpReplyParserOptions){.tokenizer = x->tokenizer}, &x->parser));
    OK(rp_tool_call_log_new(0, &x->calls));
    OK(rp_grammar_regex("x*", 2, &x->grammar));
    OK(rp_grammar_vocab_of(&(RpGgufString){"x", 1}, 1, NULL, 0, &x->vocab));
    OK(rp_matcher_new(x->grammar, x->vocab, &x->matcher));
    OK(rp_engine_open(x->model, &(RpEngineOptions){.n_ctx = 64, .n_seq = 1, .n_threads = 1}, &x->engine));
    x->value = rp_gguf_find(x->file, "tokenizer.ggml.tokens");
    OK(rp_session_open(x->model, &options, &x->session));
    OK(rp_embedder_open(x->model,
                        &(RpEmbedderOptions){.n_ctx = 8, .n_threads = 1, .device = "cpu", .pooling = RP_POOLING_MEAN},
                        &x->embedder));
    OK(rp_trainer_open(x->model, &(RpTrainOptions){.batch = 1, .seq = 4, .n_threads = 1, .device = "cpu"},
                       &x->trainer));
    OK(rp_sampler_new(&greedy, rp_model_info(x->model)->n_vocab, &x->sampler));
    OK(rp_chat_reply_new(x->model, x->sampler,
                         &(RpChatOptions){.json = "{\"messages\": []}", .json_bytes = 16, .chat_template = x->chat},
                         &x->chat_reply));
    OK(rp_trace_open(&(RpTraceOptions){.stream = x->null}, &x->trace));
    x->view   = rp_view_contiguous(RP_F32, x->ne, x->floats);
    x->cursor = x->value->data;
    OK(rp_external_new(&(RpExternalMemory){.name = "x", .view = x->view}, &x->external));
    x->dl.plain.tensor = (DlTensor){
        .data = x->floats, .device = {.type = DL_CPU},
             .ndim = 1, .dtype = { DL_FLOAT, 32, 1},
             .shape = x->ne
    };
    x->dl.versioned = (struct DLManagedTensorVersioned){.major = 1, .tensor = x->dl.plain.tensor};
    memset(x->ones, 0xff, sizeof x->ones);
    open_graph(x);
}

static void close_fixture(Fixture *x) {
    OK(rp_trace_close(x->trace));
    rp_executor_states_free(x->states);
    rp_executor_free(x->exec);
    rp_plan_free(x->plan);
    rp_graph_free(x->graph);
    rp_external_free(x->external);
    rp_chat_reply_free(x->chat_reply);
    rp_sampler_free(x->sampler);
    rp_session_free(x->session);
    rp_embedder_free(x->embedder);
    rp_trainer_free(x->trainer);
    rp_chat_template_free(x->chat);
    rp_reply_parser_free(x->parser);
    rp_tool_call_log_free(x->calls);
    rp_matcher_free(x->matcher);
    rp_grammar_vocab_free(x->vocab);
    rp_grammar_free(x->grammar);
    rp_engine_free(x->engine);
    rp_model_free(x->model);
    fclose(x->null);
}

/* The calls of a header, each function in a process of its own. */
static void run(const char *header) {
    Fixture x;
    int     n = 0;
    open_fixture(&x);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].header, header) != 0) continue;
        int status = 0;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            end_if_it_hangs();
            rows[i].calls(&x);
            _exit(failures != 0);
        }
        n++;
        cr_assert(child > 0 && waitpid(child, &status, 0) == child, CASE(i));
        cr_expect(WIFEXITED(status), "%s: signal %d", rows[i].function, WTERMSIG(status));
        cr_expect(!WIFEXITED(status) || WEXITSTATUS(status) == 0, "%s: exit %d", rows[i].function, WEXITSTATUS(status));
    }
    cr_expect_gt(n, 0);
    close_fixture(&x);
}

/* clang-format off */
#define HEADERS(X) \
    X(chat) X(convert) X(cpu) X(device) X(embed) X(engine) X(executor) X(extend) X(external) X(file) X(gguf) X(grammar) X(graph) \
    X(kernel) X(model) \
    X(options) X(plugin) X(quants) X(sampler) X(session) X(source) X(status) X(tensor) X(text) X(tokenizer) X(trace) X(train) \
    X(version)
/* clang-format on */

#define X(header)                                                                                                      \
    Test(api_arguments, header) { run(#header); }
HEADERS(X)
#undef X

Test(api_arguments, every_header_has_a_test) {
    static const char *const headers[] = {
#define X(header) #header,
        HEADERS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool found = false;
        for (size_t h = 0; h < sizeof headers / sizeof headers[0]; h++)
            found |= strcmp(rows[i].header, headers[h]) == 0;
        cr_expect(found, "%s of %s.h", rows[i].function, rows[i].header);
    }
}
