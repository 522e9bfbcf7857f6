/* The shared library with callers that were compiled against another version of its headers (docs/api.md).
 *
 *     older caller    its structs end early: OLD, with bytes behind that the library must neither read nor write
 *     newer caller    its structs go on: NEW, with a member that the library does not know
 */
#include "old.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <unistd.h>

#define MODEL RP_SOURCE_DIR "/tests/golden/tiny/llama-mix.gguf"

enum { BEHIND = 512, JUNK = 0xa5 };

/* A struct of an older caller with junk behind it, and one of a newer caller. */
#define OLD(T)                                                                                                         \
    struct {                                                                                                           \
        Old##T        now;                                                                                             \
        unsigned char behind[BEHIND];                                                                                  \
    }
#define NEW(T)                                                                                                         \
    struct {                                                                                                           \
        Rp##T   now;                                                                                                   \
        int64_t added;                                                                                                 \
    }
#define FILL_BEHIND(x) memset((x).behind, JUNK, BEHIND)

#define OK(call) cr_assert_eq(call, RP_OK, "%s", rp_last_error())

/* A newer caller that sets a member which the library lacks; the error names the struct. */
#define REFUSED(call, name)                                                                                            \
    do {                                                                                                               \
        size_t theirs, own;                                                                                            \
        cr_assert_eq(call, RP_E_ARG);                                                                                  \
        cr_assert_eq(sscanf(rp_last_error(),                                                                           \
                            name ": the caller was compiled against a newer version of the library, and sets a "       \
                                 "member that this one does not have (%zu bytes, here %zu)",                           \
                            &theirs, &own),                                                                            \
                     2, "%s", rp_last_error());                                                                        \
        cr_assert_lt(own, theirs);                                                                                     \
    } while (0)

/* Nothing was written behind the struct of an older caller. */
#define INTACT(x)                                                                                                      \
    for (int i_ = 0; i_ < BEHIND; i_++) cr_assert_eq((x).behind[i_], JUNK, "byte %d was written", i_)

static RpModel *open_model(void) {
    RpModel *m;
    OK(rp_model_open(MODEL, NULL, &m));
    return m;
}

static RpSession *open_session(const RpModel *m) {
    RpSession             *s;
    const RpSessionOptions options = {.n_ctx = 64, .n_threads = 1, .device = "cpu"};
    OK(rp_session_open(m, &options, &s));
    return s;
}

/* y = x + x, with an executor. */
typedef struct Sum {
    ComputeGraph *g;
    TensorNode   *x, *y;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Sum;

static Sum open_sum(void) {
    Sum                     s               = {.g = rp_graph_new()};
    const int64_t           ne[RP_MAX_DIMS] = {8, 1, 1, 1};
    const RpExecutorOptions options         = {.n_threads = 1, .device = "cpu"};
    s.x                                     = rp_graph_input(s.g, "x", RP_F32, ne);
    s.y                                     = rp_add(s.g, s.x, s.x);
    OK(rp_graph_finish(s.g, &s.y, 1));
    OK(rp_plan_new(s.g, &s.plan));
    OK(rp_executor_open(s.plan, &options, &s.exec));
    return s;
}

static void close_sum(Sum *s) {
    rp_executor_free(s->exec);
    rp_plan_free(s->plan);
    rp_graph_free(s->g);
}

static bool progress_without_user(size_t done, size_t total, void *user) {
    (void)total;
    return done > 0 && user == NULL;
}

Test(abi, the_library_has_the_version_of_its_headers) { cr_assert_str_eq(rp_version(), RP_VERSION); }

Test(abi, models) {
    RpModel *m          = NULL;
    OLD(ModelOptions) o = {.now = {progress_without_user}};
    NEW(ModelOptions) n = {.now = {.progress = progress_without_user}};
    FILL_BEHIND(o);
    OK(rp_model_open_sized(MODEL, (const void *)&o, sizeof o.now, &m));
    rp_model_free(m);
    OK(rp_model_open_sized(MODEL, (const void *)&n, sizeof n, &m));
    rp_model_free(m);
    n.added = 1;
    REFUSED(rp_model_open_sized(MODEL, (const void *)&n, sizeof n, &m), "RpModelOptions");
    cr_assert_null(m);
}

Test(abi, model_info_is_followed_by_zeros) {
    RpModel             *m    = open_model();
    const unsigned char *info = (const void *)rp_model_info(m);
    for (size_t i = sizeof(RpModelInfo); i < 512; i++) cr_assert_eq(info[i], 0, CASE(i));
    rp_model_free(m);
}

Test(abi, model_graphs) {
    RpModel      *m = open_model();
    ComputeGraph *g = NULL;
    OLD(ModelGraphOptions)
    o = {
        .now = {.n_tok = 1, .n_ctx = 16}
    };
    NEW(ModelGraphOptions)
    n = {
        .now = {.n_tok = 1, .n_ctx = 16}
    };
    FILL_BEHIND(o);
    OK(rp_model_graph_sized(m, (const void *)&o, sizeof o.now, &g));
    cr_assert_not_null(rp_graph_find(g, "tokens")); /* without `draws` */
    rp_graph_free(g);
    OK(rp_model_graph_sized(m, (const void *)&n, sizeof n, &g));
    rp_graph_free(g);
    n.added = 1;
    REFUSED(rp_model_graph_sized(m, (const void *)&n, sizeof n, &g), "RpModelGraphOptions");
    cr_assert_null(g);
    rp_model_free(m);
}

Test(abi, sessions) {
    RpModel        *m = open_model();
    RpSession      *s = NULL;
    RpSessionMemory memory;
    OLD(SessionOptions)
    o = {
        .now = {.n_ctx = 64, .n_threads = 1, .device = "cpu"}
    };
    NEW(SessionOptions)
    n = {
        .now = {.n_ctx = 64, .n_threads = 1, .device = "cpu"}
    };
    OLD(SessionMemory) old_memory;
    NEW(SessionMemory) new_memory;
    FILL_BEHIND(o);
    FILL_BEHIND(old_memory);
    memset(&new_memory, JUNK, sizeof new_memory);
    OK(rp_session_memory(m, (const RpSessionOptions *)&n.now, &memory));
    OK(rp_session_memory_sized(m, (const void *)&o, sizeof o.now, (void *)&old_memory, sizeof old_memory.now));
    cr_assert_eq(old_memory.now.kv, memory.kv);
    INTACT(old_memory);
    OK(rp_session_memory_sized(m, (const void *)&n, sizeof n, (void *)&new_memory, sizeof new_memory));
    cr_assert_eq(new_memory.now.n_ctx, 64);
    cr_assert_eq(new_memory.added, 0);
    OK(rp_session_open_sized(m, (const void *)&o, sizeof o.now, &s));
    cr_assert_eq(rp_session_n_ctx(s), 64);
    rp_session_free(s);
    OK(rp_session_open_sized(m, (const void *)&n, sizeof n, &s));
    rp_session_free(s);
    n.added = 1;
    REFUSED(rp_session_open_sized(m, (const void *)&n, sizeof n, &s), "RpSessionOptions");
    REFUSED(rp_session_memory_sized(m, (const void *)&n, sizeof n, &memory, sizeof memory), "RpSessionOptions");
    cr_assert_null(s);
    rp_model_free(m);
}

Test(abi, samplers) {
    RpSampler  *s = NULL;
    RpStepState state;
    size_t      n_words;
    OLD(SamplerParams) o;
    NEW(SamplerParams) n;
    FILL_BEHIND(o);
    memset(&n, JUNK, sizeof n);
    rp_sampler_defaults_sized((void *)&o, sizeof o.now);
    rp_sampler_defaults_sized((void *)&n, sizeof n);
    cr_assert_eq(o.now.repeat_last_n, 64);
    INTACT(o);
    cr_assert_eq(n.added, 0);
    OK(rp_sampler_new_sized((const void *)&o, sizeof o.now, 10, &s));
    memcpy(&state, rp_sampler_state(s, &n_words), sizeof state);
    cr_assert_eq(state.seed_low, 0);
    rp_sampler_free(s);
    OK(rp_sampler_new_sized((const void *)&n, sizeof n, 10, &s));
    rp_sampler_free(s);
    n.added = 1;
    REFUSED(rp_sampler_new_sized((const void *)&n, sizeof n, 10, &s), "RpSamplerParams");
    cr_assert_null(s);
}

Test(abi, replies) {
    RpModel              *m = open_model();
    RpSession            *s = open_session(m);
    RpSampler            *sampler;
    const RpSamplerParams greedy = rp_sampler_defaults();
    const int32_t         prompt = 5;
    OLD(GenerateOptions) o       = {.now = {.max_tokens = 3}};
    NEW(GenerateOptions)
    n = {
        .now = {.max_tokens = 3, .ignore_end = true}
    };
    OLD(GenerateResult) old_result;
    NEW(GenerateResult) new_result;
    FILL_BEHIND(o);
    FILL_BEHIND(old_result);
    memset(&new_result, JUNK, sizeof new_result);
    OK(rp_sampler_new(&greedy, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_generate_sized(s, sampler, &prompt, 1, (const void *)&o, sizeof o.now, (void *)&old_result,
                         sizeof old_result.now));
    cr_assert_eq(old_result.now.n_prompt, 1);
    INTACT(old_result);
    OK(rp_generate_sized(s, sampler, &prompt, 1, (const void *)&n, sizeof n, (void *)&new_result, sizeof new_result));
    cr_assert_eq(new_result.now.n_generated, 3);
    cr_assert_eq(new_result.added, 0);
    n.added = 1;
    REFUSED(
        rp_generate_sized(s, sampler, &prompt, 1, (const void *)&n, sizeof n, (void *)&new_result, sizeof new_result),
        "RpGenerateOptions");
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

Test(abi, executors) {
    Sum         s = open_sum();
    RpExecutor *e = NULL;
    OLD(ExecutorOptions)
    o = {
        .now = {.n_threads = 1, .device = "cpu"}
    };
    NEW(ExecutorOptions)
    n = {
        .now = {.n_threads = 1, .device = "cpu"}
    };
    FILL_BEHIND(o);
    OK(rp_executor_open_sized(s.plan, (const void *)&o, sizeof o.now, &e));
    OK(rp_executor_run(e));
    rp_executor_free(e);
    OK(rp_executor_open_sized(s.plan, (const void *)&n, sizeof n, &e));
    rp_executor_free(e);
    n.added = 1;
    REFUSED(rp_executor_open_sized(s.plan, (const void *)&n, sizeof n, &e), "RpExecutorOptions");
    cr_assert_null(e);
    close_sum(&s);
}

/* Calls a function that fills in a struct, once as an older and once as a newer caller. */
#define RESULT(T, call, member, value)                                                                                 \
    do {                                                                                                               \
        OLD(T) old_;                                                                                                   \
        NEW(T) new_;                                                                                                   \
        void  *out       = &old_;                                                                                      \
        size_t out_bytes = sizeof old_.now;                                                                            \
        FILL_BEHIND(old_);                                                                                             \
        memset(&new_, JUNK, sizeof new_);                                                                              \
        call;                                                                                                          \
        cr_assert_eq(old_.now.member, value);                                                                          \
        INTACT(old_);                                                                                                  \
        out       = &new_;                                                                                             \
        out_bytes = sizeof new_;                                                                                       \
        call;                                                                                                          \
        cr_assert_eq(new_.now.member, value);                                                                          \
        cr_assert_eq(new_.added, 0);                                                                                   \
    } while (0)

Test(abi, results_of_plans_and_executors) {
    RpModel   *m       = open_model();
    RpSession *session = open_session(m);
    Sum        s       = open_sum();
    RESULT(PlanMemory, rp_plan_memory_sized(s.plan, out, out_bytes), arena, rp_plan_memory(s.plan).arena);
    RESULT(ExecutorInfo, rp_executor_info_sized(s.exec, out, out_bytes), device_name,
           rp_executor_info(s.exec).device_name);
    RESULT(ExecutorInfo, rp_session_info_sized(session, out, out_bytes), device_name,
           rp_session_info(session).device_name);
    RESULT(StepLaunch, OK(rp_executor_launch_sized(s.exec, 0, out, out_bytes)), node, (const TensorNode *)s.y);
    RESULT(StepLaunch, (void)!rp_cuda_plan_launch_sized(s.plan, 0, out, out_bytes), node, (const TensorNode *)s.y);
    rp_session_free(session);
    rp_model_free(m);
    close_sum(&s);
}

Test(abi, results_of_devices) {
    RESULT(DeviceMemory, OK(rp_device_memory_sized("cpu", false, out, out_bytes)), id[0], 'c');
    RpCudaDeviceInfo info = {.major = 0}; /* stays 0 without a device */
    (void)!rp_cuda_device_info(0, &info);
    RESULT(CudaDeviceInfo, (void)!rp_cuda_device_info_sized(0, out, out_bytes), major, info.major);
    RpCudaTuningInfo tuning = {.text = ""};
    (void)!rp_cuda_tuning_info(0, &tuning);
    RESULT(CudaTuningInfo, (void)!rp_cuda_tuning_info_sized(0, out, out_bytes), text[0], tuning.text[0]);
}

Test(abi, replies_of_executors) {
    RpModel                  *m = open_model();
    RpSampler                *sampler;
    ComputeGraph             *g;
    ExecPlan                 *plan;
    RpExecutor               *e;
    size_t                    n_words;
    int32_t                   token;
    const RpSamplerParams     greedy = {.top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 8};
    const RpModelGraphOptions graph  = {.n_tok = 1, .n_ctx = 16, .draws = true, .n_recent = 8};
    OK(rp_sampler_new(&greedy, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_model_graph(m, &graph, &g));
    OK(rp_plan_new(g, &plan));
    const RpExecutorOptions options = {.n_threads = 1, .device = "cpu", .step = rp_graph_find(g, "step")};
    OK(rp_executor_open(plan, &options, &e));
    const int32_t *words = rp_sampler_state(sampler, &n_words);
    OLD(ReplyOptions)
    o = {
        .now = {.state = words, .n_state = n_words, .max_tokens = 2, .n_ctx = 16}
    };
    NEW(ReplyOptions)
    n = {
        .now = {.state = words, .n_state = n_words, .max_tokens = 2, .n_ctx = 16}
    };
    FILL_BEHIND(o);
    OK(rp_executor_reply_begin_sized(e, (const void *)&o, sizeof o.now));
    OK(rp_executor_reply_next(e, &token));
    OK(rp_executor_reply_end(e, NULL));
    OK(rp_executor_reply_begin_sized(e, (const void *)&n, sizeof n));
    OK(rp_executor_reply_end(e, NULL));
    n.added = 1;
    REFUSED(rp_executor_reply_begin_sized(e, (const void *)&n, sizeof n), "RpReplyOptions");
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
    rp_sampler_free(sampler);
    rp_model_free(m);
}

static char *dumped(const ComputeGraph *g, const void *options, size_t options_bytes, size_t note_bytes) {
    static char text[8192];
    FILE       *f = fmemopen(text, sizeof text, "w");
    OK(rp_graph_dump_sized(g, options, options_bytes, note_bytes, f));
    fclose(f);
    return text;
}

Test(abi, dumps_and_their_arrays_of_notes) {
    Sum s                  = open_sum();
    NEW(DumpNote) later[2] = {{.now = {.text = "note 0"}}, {.now = {.text = "note 1", .us = 7.5}}};
    OldDumpNote before[2]  = {{.text = "note 0"}, {.text = "note 1"}};
    OLD(DumpOptions) o     = {.now = {.format = RP_DUMP_JSON}};
    NEW(DumpOptions)
    n = {
        .now = {.format = RP_DUMP_JSON, .notes = (const void *)before}
    };
    FILL_BEHIND(o);
    cr_assert_eq(rp_graph_n_nodes(s.g), 2);
    cr_assert_null(strstr(dumped(s.g, &o, sizeof o.now, sizeof(RpDumpNote)), "note"));
    const char *text = dumped(s.g, &n, sizeof n, sizeof before[0]);
    cr_assert(strstr(text, "note 0") != NULL && strstr(text, "note 1") != NULL && strstr(text, "\"us\"") == NULL);
    n.now.notes = (const void *)later;
    cr_assert_not_null(strstr(dumped(s.g, &n, sizeof n, sizeof later[0]), "\"us\":7.500,\"note\":\"note 1\""));
    later[1].added = 1;
    REFUSED(rp_graph_dump_sized(s.g, (const void *)&n, sizeof n, sizeof later[0], stdout), "RpDumpNote");
    n.added = 1;
    REFUSED(rp_graph_dump_sized(s.g, (const void *)&n, sizeof n, sizeof later[0], stdout), "RpDumpOptions");
    close_sum(&s);
}

Test(abi, random_models) {
    char path[64];
    OLD(SynthOptions)
    o = {
        .now = {.type = "Q4_0", .seed = 3}
    };
    NEW(SynthOptions)
    n = {
        .now = {.type = "Q4_0", .hollow = true}
    };
    FILL_BEHIND(o);
    snprintf(path, sizeof path, "/tmp/reprise-abi-%d.gguf", (int)getpid());
    OK(rp_synth_sized("tiny", (const void *)&o, sizeof o.now, path));
    OK(rp_synth_sized("tiny", (const void *)&n, sizeof n, path));
    n.added = 1;
    REFUSED(rp_synth_sized("tiny", (const void *)&n, sizeof n, path), "RpSynthOptions");
    remove(path);
}

/* The default comes first; it is measured with weights of 17 MB. */
Test(abi, arrays_of_trials) {
    const int64_t           ne[RP_MAX_DIMS] = {4096, 4096, 1, 1}, columns[RP_MAX_DIMS] = {4096, 1, 1, 1};
    void                   *memory = calloc(4096, rp_row_bytes(RP_Q8_0, 4096));
    const RpTensorView      view   = rp_view_contiguous(RP_Q8_0, ne, memory);
    ComputeGraph           *g      = rp_graph_new();
    TensorNode             *y = rp_mul_mat(g, rp_graph_weight(g, "w", &view), rp_graph_input(g, "x", RP_F32, columns));
    const RpExecutorOptions options = {.n_threads = 1, .device = "cpu"};
    ExecPlan               *plan;
    RpExecutor             *e;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, ""));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &options, &e));
    NEW(CpuPrefetchTrial) later[2];
    OldCpuPrefetchTrial before[3] = {[2] = {.prefetch = {.distance = 1}}};
    memset(later, JUNK, sizeof later);
    cr_assert_eq(rp_cpu_prefetch_trials_sized((void *)before, sizeof before[0], 2), 2);
    cr_assert_eq(rp_cpu_prefetch_trials_sized((void *)later, sizeof later[0], 2), 2);
    cr_assert_eq(before[0].prefetch.distance, 4096);
    cr_assert_eq(before[1].prefetch.distance, later[1].now.prefetch.distance);
    cr_assert_eq(before[2].prefetch.distance, 1);
    cr_assert_gt(later[1].now.bytes_per_s, 0.0);
    cr_assert_eq(later[0].added, 0);
    cr_assert_eq(later[1].added, 0);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
    free(memory);
}

Test(abi, arrays_of_messages) {
    char *text            = NULL;
    NEW(ChatMessage) n[2] = {{.now = {"system", "Be brief."}}, {.now = {"user", "Hello"}}};
    OK(rp_chat_format_sized(RP_CHAT_CHATML, (const void *)n, sizeof n[0], 2, &text));
    cr_assert_not_null(strstr(text, "user\nHello"));
    free(text);
    bool *control = NULL;
    OK(rp_chat_format_masked_sized(RP_CHAT_CHATML, (const void *)n, sizeof n[0], 2, &text, &control));
    cr_assert(control[0] && !control[strstr(text, "Hello") - text]);
    free(text), free(control);
    n[1].added = 1;
    REFUSED(rp_chat_format_sized(RP_CHAT_CHATML, (const void *)n, sizeof n[0], 2, &text), "RpChatMessage");
    cr_assert_null(text);
    REFUSED(rp_chat_format_masked_sized(RP_CHAT_CHATML, (const void *)n, sizeof n[0], 2, &text, &control),
            "RpChatMessage");
    cr_assert(text == NULL && control == NULL);
    RpGgufFile  *file;
    RpTokenizer *tk;
    RpTokenList  list = {0};
    OK(rp_gguf_open(RP_SOURCE_DIR "/tests/golden/tiny/llama-mix.gguf", &file));
    OK(rp_tokenizer_new(file, &tk));
    REFUSED(rp_chat_tokenize_sized(tk, RP_CHAT_CHATML, (const void *)n, sizeof n[0], 2, 0, &list), "RpChatMessage");
    rp_tokenizer_free(tk);
    rp_gguf_close(file);
}

static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params, (void)why;
    *out = rp_view_contiguous(RP_F32, in->src[0]->ne, NULL);
    return RP_OK;
}

static RpStatus negate(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *x = args->src[0].data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = -x[i];
    return RP_OK;
}

/* The descriptions are gone when the op and the pattern are used. */
Test(abi, custom_ops_and_patterns_are_copied) {
    OLD(OpDescription)
    o = {
        .now = {.name = "old_op", .n_required = 1, .n_sources = 1, .shape = like_first, .cpu = negate}
    };
    NEW(OpDescription)
    n = {
        .now = {.name       = "new_op",
                .n_required = 1,
                .n_sources  = 1,
                .shape      = like_first,
                .flags      = RP_FLAG_FUSED,
                .cpu        = negate}
    };
    OLD(GraphPattern)
    p = {
        .now = {.name = "old_to_new", .match = "old_op(x)", .make = "new_op(x)"}
    };
    NEW(GraphPattern)
    q = {
        .now = {.name = "never", .match = "old_op(old_op(x))", .make = "new_op(x)"}
    };
    TensorOp op, fused;
    FILL_BEHIND(o);
    FILL_BEHIND(p);
    n.added = q.added = 1;
    REFUSED(rp_op_register_sized((const void *)&n, sizeof n, &fused), "RpOpDescription");
    n.added = 0;
    OK(rp_op_register_sized((const void *)&o, sizeof o.now, &op));
    OK(rp_op_register_sized((const void *)&n, sizeof n, &fused));
    REFUSED(rp_pattern_register_sized((const void *)&q, sizeof q), "RpGraphPattern");
    q.added = 0;
    OK(rp_pattern_register_sized((const void *)&p, sizeof p.now));
    OK(rp_pattern_register_sized((const void *)&q, sizeof q));
    memset(&o, JUNK, sizeof o), memset(&n, JUNK, sizeof n), memset(&p, JUNK, sizeof p), memset(&q, JUNK, sizeof q);

    const int64_t           ne[RP_MAX_DIMS] = {8, 1, 1, 1};
    const RpExecutorOptions options         = {.n_threads = 1, .device = "cpu"};
    ComputeGraph           *g               = rp_graph_new();
    TensorNode             *x = rp_graph_input(g, "x", RP_F32, ne), *y = rp_graph_op(g, op, NULL, &x, 1);
    ExecPlan               *plan;
    RpExecutor             *e;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, ""));
    OK(rp_plan_new(g, &plan));
    const TensorNode *made = rp_plan_step_node(plan, 0);
    cr_assert_str_eq(rp_node_op_name(made), "new_op");
    OK(rp_executor_open(plan, &options, &e));
    ((float *)rp_executor_data(e, x))[3] = 2.5f;
    OK(rp_executor_run(e));
    cr_assert_eq(((const float *)rp_executor_data(e, made))[3], -2.5f);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}
