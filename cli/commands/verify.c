/* verify.c - `reprise verify`: compares results of the executor on three levels.
 *
 *   every node of a step    GPU against CPU kernels, or on the CPU the kernels in use against the plain ones:
 *                           differences up to --tolerance
 *   logits of a step        replay against eager: same bits (GPU only)
 *   tokens of a reply       loop against replay: same tokens (GPU only) */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *passes, *kv;
    int32_t     tokens, threads;
    float       tolerance;
    DeviceArgs  device;
    bool        json, quiet;
} args = {.tokens = 8, .tolerance = 2e-5f};

enum { MAX_OPS = 64, N_CTX = 256, N_REPLY = 24 };

/* Largest difference of all nodes of one op. */
typedef struct OpResult {
    const char *op;
    long        n_nodes;
    double      worst;   /* relative to the largest value of the node, see rp_verify_difference; 0: equal */
    char        at[96];  /* name of the node */
    size_t      element; /* its number, or that of a byte */
    bool        is_byte;
    char        got[32], want[32]; /* values of the element, "" if it has none of its own */
} OpResult;

typedef struct Verify {
    OpResult ops[MAX_OPS];
    int      n_ops, token;
    bool     wrong;
    char     first[384];                /* describes the first difference above the tolerance */
    long     n_replays, n_reply_tokens; /* compared; 0: on the CPU, or without loop mode */
    bool     replay_differs, reply_differs;
    char     device[320];
    Progress progress;
    long     n_done, n_total; /* nodes, of all tokens */
} Verify;

/* The entry of an op, which is made at its first node. If there are more ops than entries, the last has the rest. */
static OpResult *result_of(Verify *v, const char *op) {
    for (int i = 0; i < v->n_ops; i++)
        if (strcmp(v->ops[i].op, op) == 0) return &v->ops[i];
    if (v->n_ops == MAX_OPS) return &v->ops[MAX_OPS - 1];
    v->ops[v->n_ops] = (OpResult){.op = v->n_ops < MAX_OPS - 1 ? op : "further ops"};
    return &v->ops[v->n_ops++];
}

/* rp_verify_difference gives the position of a difference as the index of an element or of a byte. */
typedef enum Unit { UNIT_ELEMENT, UNIT_BYTE } Unit;

/* Writes element `at` of a result that is compared by value, "" for one that is compared by bytes. */
static Unit value_text(const char *op, const RpTensorView *v, const void *data, size_t at, char *buf, size_t size) {
    const size_t row = at / (size_t)v->ne[0], column = at % (size_t)v->ne[0];
    const bool   stored = v->dtype == RP_F16 || v->dtype == RP_BF16 || v->dtype == RP_Q8_0;
    buf[0]              = '\0';
    if (v->dtype == RP_F32) {
        snprintf(buf, size, "%.9g", (double)((const float *)data)[at]);
        return UNIT_ELEMENT;
    }
    if (v->dtype == RP_Q8_ACT && strcmp(op, "quantize") != 0) { /* a row: int8 quant[n], f32 scale[n/32], ... */
        const int8_t *quants = (const int8_t *)data + row * rp_row_bytes(v->dtype, v->ne[0]);
        float         scale;
        memcpy(&scale, quants + v->ne[0] + column / 32 * sizeof scale, sizeof scale);
        snprintf(buf, size, "%.9g", (double)(scale * (float)quants[column]));
        return UNIT_ELEMENT;
    }
    if (!stored || strcmp(op, "copy") == 0) return UNIT_BYTE;
    float *values = malloc((size_t)v->ne[0] * sizeof *values);
    if (values == NULL) return UNIT_ELEMENT;
    const size_t bytes = (size_t)((const char *)rp_view_row(v, (int64_t)row) - (const char *)v->data);
    rp_dequantize_row(v->dtype, (const char *)data + bytes, v->ne[0], values);
    snprintf(buf, size, "%.9g", (double)values[column]);
    free(values);
    return UNIT_ELEMENT;
}

/* Element `at` of the weights of a router: i32 [k,2] or more rows, the ids and then the weights as the bits of f32. */
static void weight_text(const RpTensorView *v, const void *data, size_t at, char *buf, size_t size) {
    const char *weights = (const char *)data + v->nb[1];
    snprintf(buf, size, "%.9g", (double)((const float *)(const void *)weights)[at]);
}

/* "element 7: 0.25, expected 0.125", or without values "byte 7". */
static void place_text(const OpResult *r, char *buf, size_t size) {
    const int n = snprintf(buf, size, r->is_byte ? "byte %zu" : "element %zu", r->element);
    if (r->got[0] != '\0') snprintf(buf + n, size - (size_t)n, ": %s, expected %s", r->got, r->want);
}

/* Notes node, place and values of the largest difference of an op so far. */
static void note_worst(OpResult *r, const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                       size_t at) {
    rp_visible_text(rp_node_name(node), strlen(rp_node_name(node)), r->at, sizeof r->at);
    r->element = at;
    if (strcmp(r->op, "router") == 0 && isfinite(r->worst)) { /* ids are never this close */
        r->is_byte = false;
        r->got[0] = r->want[0] = '\0';
        if (at >= (size_t)view->ne[0]) return; /* of its gate or column */
        weight_text(view, got, at, r->got, sizeof r->got);
        weight_text(view, want, at, r->want, sizeof r->want);
    } else {
        r->is_byte = value_text(r->op, view, got, at, r->got, sizeof r->got) == UNIT_BYTE;
        (void)value_text(r->op, view, want, at, r->want, sizeof r->want);
    }
}

/* Called for each result of the step with both versions of it. False after Ctrl-C. */
static bool on_node(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    Verify      *v     = user;
    size_t       at    = 0;
    const char  *op    = rp_node_op_name(node);
    OpResult    *r     = result_of(v, op);
    const double off   = rp_verify_difference(node, view, got, want, &at);
    const bool   go_on = cli_progress(&v->progress, (double)++v->n_done, (double)v->n_total);
    r->n_nodes++;
    if (off > r->worst) {
        r->worst = off;
        note_worst(r, node, view, got, want, at);
    }
    if (off > (double)args.tolerance && !v->wrong) {
        char place[128];
        v->wrong = true;
        place_text(r, place, sizeof place);
        snprintf(v->first, sizeof v->first, "%s '%.95s', token %d, %s: relative difference %.3g", op, r->at, v->token,
                 place, off);
    }
    return go_on;
}

/* ---- every node, and eager against replay ---- */

typedef struct DecodeStep {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *eager, *replay;
} DecodeStep;

/* out_rows 0 asks for the logits of the only token. */
static void set_inputs(const DecodeStep *b, RpExecutor *e, int32_t token, int32_t pos) {
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "tokens"))   = token;
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "pos"))      = pos;
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "out_rows")) = 0;
}

/* Verifies the decode step of one token, then replays it and compares the logits bit by bit. Poisoning the arena
 * shows a replay that reads results of the eager run instead of its own. */
static RpStatus verify_token(DecodeStep *b, Verify *v, int32_t token, int32_t pos) {
    const TensorNode  *logits = rp_graph_find(b->g, "logits");
    const RpTensorView view   = rp_node_view(logits);
    const size_t       bytes  = rp_view_extent_bytes(&view);
    v->token                  = pos;
    set_inputs(b, b->eager, token, pos);
    RP_TRY(rp_executor_verify(b->eager, on_node, v));
    if (b->replay == NULL) return RP_OK;
    set_inputs(b, b->replay, token, pos);
    RP_TRY(rp_executor_poison(b->replay));
    /* Both executors share the arena that is poisoned. The eager logits are a copy in host memory and stay. */
    RP_TRY(rp_executor_run(b->replay));
    if (memcmp(rp_executor_data(b->eager, logits), rp_executor_data(b->replay, logits), bytes) != 0)
        v->replay_differs = true;
    v->n_replays++;
    return RP_OK;
}

/* Opens the eager executor and on a GPU a second one with a captured graph, which shares the buffers of the first. */
static RpStatus open_step(const RpModel *m, DecodeStep *b, Verify *v) {
    RpExecutorOptions   o     = {.n_threads     = args.threads,
                                 .device        = args.device.name,
                                 .require_cuda  = args.device.require_cuda,
                                 .require_graph = args.device.require_graph,
                                 .mode          = RP_MODE_EAGER,
                                 .watchdog_s    = (double)args.device.watchdog_s};
    RpModelGraphOptions graph = {.n_tok = 1, .n_ctx = N_CTX};
    RP_TRY(cli_kv_type(args.kv, &graph.kv_type));
    if (graph.n_ctx > rp_model_info(m)->n_ctx_train) graph.n_ctx = rp_model_info(m)->n_ctx_train;
    RP_TRY(rp_model_graph(m, &graph, &b->g));
    RP_TRY(rp_graph_optimize(b->g, args.passes));
    RP_TRY(rp_plan_new(b->g, &b->plan));
    o.require_graph = false;
    RP_TRY(rp_executor_open(b->plan, &o, &b->eager));
    const RpExecutorInfo info = rp_executor_info(b->eager);
    cli_report_fallback(&info, RP_MODE_EAGER);
    snprintf(v->device, sizeof v->device, "%s, %s", info.device, info.device_name);
    if (info.n_threads > 0) /* the CPU has eager mode only */
        return args.device.require_graph ? rp_fail(RP_E_NOT_AVAILABLE, "a graph is required: the CPU has none") : RP_OK;
    return rp_executor_open(
        b->plan, &(RpExecutorOptions){.share = b->eager, .mode = RP_MODE_REPLAY, .require_graph = true}, &b->replay);
}

/* Verifies args.tokens decode steps, one after the other, with pseudo-random tokens. */
static RpStatus verify_nodes(const RpModel *m, Verify *v) {
    DecodeStep b  = {0};
    RpStatus   st = open_step(m, &b, v);
    if (st == RP_OK) v->n_total = (long)rp_plan_memory(b.plan).n_steps * args.tokens;
    for (int32_t i = 0; i < args.tokens && st == RP_OK; i++) {
        st = verify_token(&b, v, (int32_t)(rp_random_uniform(1, (uint64_t)i) * (float)rp_model_info(m)->n_vocab), i);
        if (i == 0) v->n_total = v->n_done * args.tokens; /* some nodes have several results */
    }
    rp_executor_free(b.replay);
    rp_executor_free(b.eager);
    rp_plan_free(b.plan);
    rp_graph_free(b.g);
    return st;
}

/* ---- replies in loop mode against replies in replay mode ---- */

/* Samples a reply of N_REPLY tokens with a fixed seed in the given mode. *got: the mode that the session chose. */
static RpStatus reply(const RpModel *m, RpExecMode mode, RpTokenList *out, RpExecMode *got) {
    RpSession       *s       = NULL;
    RpSampler       *sampler = NULL;
    RpSamplerParams  p       = rp_sampler_defaults();
    RpGenerateResult r;
    int32_t          prompt = 1 % rp_model_info(m)->n_vocab;
    RpSessionOptions o      = {.n_ctx = 64, .prefill_chunk = 1, .passes = args.passes};
    p.temperature           = 0.8f;
    p.top_k                 = 40;
    RP_TRY(cli_device_options(&args.device, &o));
    RP_TRY(cli_kv_type(args.kv, &o.kv_type));
    o.mode = mode;
    if (o.n_ctx > rp_model_info(m)->n_ctx_train) o.n_ctx = rp_model_info(m)->n_ctx_train;
    RpStatus st = rp_session_open(m, &o, &s);
    if (st == RP_OK) *got = rp_session_info(s).mode;
    if (st == RP_OK) st = rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler);
    if (st == RP_OK)
        st = rp_generate(s, sampler, &prompt, 1,
                         &(RpGenerateOptions){.max_tokens = N_REPLY, .ignore_end = true, .tokens = out}, &r);
    rp_sampler_free(sampler);
    rp_session_free(s);
    return st;
}

/* Nothing is compared where a session has no loop mode. */
static RpStatus verify_replies(const RpModel *m, Verify *v) {
    RpTokenList a = {0}, b = {0};
    RpExecMode  got;
    RpStatus    st = reply(m, RP_MODE_LOOP, &a, &got);
    if (st == RP_OK && got == RP_MODE_LOOP) {
        st                = reply(m, RP_MODE_REPLAY, &b, &got);
        v->reply_differs  = st == RP_OK && (a.n != b.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0);
        v->n_reply_tokens = (long)a.n;
    }
    rp_token_list_free(&a);
    rp_token_list_free(&b);
    return st;
}

/* ---- output ---- */

static RpStatus print_ops(const Verify *v) {
    Table *t = cli_table_new("op|>nodes|>relative difference|node|>element|>value|>expected");
    for (int i = 0; i < v->n_ops; i++) {
        const OpResult *r = &v->ops[i];
        cli_table_add(t, "%s", r->op);
        cli_table_add(t, "%ld", r->n_nodes);
        if (r->worst > 0.0)
            cli_table_add(t, "%.3g", r->worst);
        else
            cli_table_add(t, "equal");
        if (r->worst > (double)args.tolerance) cli_table_style(t, STYLE_ERROR);
        cli_table_add(t, "%s", r->worst > 0.0 ? r->at : "");
        if (r->worst > 0.0)
            cli_table_add(t, r->is_byte ? "byte %zu" : "%zu", r->element);
        else
            cli_table_add(t, "%s", "");
        cli_table_add(t, "%s", r->got);
        cli_table_add(t, "%s", r->want);
    }
    return cli_table_print(t, stdout, 0);
}

/* The largest difference of all ops. */
static void print_worst(const Verify *v) {
    const OpResult *worst = NULL;
    char            place[128];
    for (int i = 0; i < v->n_ops; i++)
        if (v->ops[i].worst > (worst != NULL ? worst->worst : 0.0)) worst = &v->ops[i];
    if (worst == NULL) {
        printf("all results are equal\n");
        return;
    }
    place_text(worst, place, sizeof place);
    printf("largest difference: %s '%s', %s, relative %.3g\n", worst->op, worst->at, place, worst->worst);
}

static RpStatus print_text(const Verify *v) {
    const bool failed = v->wrong || v->replay_differs || v->reply_differs;
    printf("%s against %s, %d tokens\n\n", v->device, v->n_replays > 0 ? "the CPU kernels" : "the plain CPU kernels",
           args.tokens);
    RP_TRY(print_ops(v));
    putchar('\n');
    print_worst(v);
    if (v->wrong) printf("first difference above %g: %s\n", (double)args.tolerance, v->first);
    if (v->n_replays > 0)
        printf("replay against eager: %s for %ld tokens, memory poisoned before each replay\n",
               v->replay_differs ? "DIFFERENT BITS" : "same bits", v->n_replays);
    if (v->n_reply_tokens > 0)
        printf("loop against replay: %s, a reply of %ld tokens\n",
               v->reply_differs ? "DIFFERENT TOKENS" : "same tokens", v->n_reply_tokens);
    printf("%s%s%s\n", cli_style(stdout, failed ? STYLE_ERROR : STYLE_GOOD), failed ? "FAILED" : "verified",
           cli_style(stdout, STYLE_PLAIN));
    return RP_OK;
}

static void print_json(const Verify *v) {
    printf("{\"device\":");
    rp_put_json_string(v->device, strlen(v->device), stdout);
    printf(",\"tokens\":%d,\"tolerance\":%g,\"ops\":[", args.tokens, (double)args.tolerance);
    for (int i = 0; i < v->n_ops; i++) {
        printf("%s{\"op\":\"%s\",\"nodes\":%ld,\"worst\":", i > 0 ? "," : "", v->ops[i].op, v->ops[i].n_nodes);
        printf(isfinite(v->ops[i].worst) ? "%.4g" : "null", v->ops[i].worst);
        printf(",\"at\":");
        if (v->ops[i].worst > 0.0) {
            rp_put_json_string(v->ops[i].at, strlen(v->ops[i].at), stdout);
            printf(",\"element\":%zu", v->ops[i].element);
        } else {
            printf("null");
        }
        if (v->ops[i].got[0] != '\0') printf(",\"value\":\"%s\",\"expected\":\"%s\"", v->ops[i].got, v->ops[i].want);
        putchar('}');
    }
    printf("],\"first_difference\":");
    if (v->wrong)
        rp_put_json_string(v->first, strlen(v->first), stdout);
    else
        printf("null");
    printf(",\"replays\":%ld,\"replay_equal\":%s,\"reply_tokens\":%ld,\"reply_equal\":%s,\"verified\":%s}\n",
           v->n_replays, v->replay_differs ? "false" : "true", v->n_reply_tokens, v->reply_differs ? "false" : "true",
           v->wrong || v->replay_differs || v->reply_differs ? "false" : "true");
}

static int run(void) {
    static Verify v;
    RpModel      *m  = NULL;
    RpStatus      st = cli_open_model(args.model, &args.device, args.quiet, &m);
    v.progress       = (Progress){.label = "verifying", .off = args.quiet};
    if (st == RP_OK && args.tokens > rp_model_info(m)->n_ctx_train) args.tokens = rp_model_info(m)->n_ctx_train;
    if (st == RP_OK) st = verify_nodes(m, &v);
    if (st == RP_OK && v.n_replays > 0) (void)cli_progress_step(&v.progress, "replies");
    if (st == RP_OK && v.n_replays > 0) st = verify_replies(m, &v);
    cli_progress_end(&v.progress);
    if (st == RP_OK && args.json) print_json(&v);
    if (st == RP_OK && !args.json) st = print_text(&v);
    rp_model_free(m);
    return st == RP_OK && (v.wrong || v.replay_differs || v.reply_differs) ? EXIT_ERROR : cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_INT("tokens", 'n', args.tokens, "N", "tokens to verify, default 8", 1, N_CTX),
    CLI_NUMBER("tolerance", 0, args.tolerance, "X",
               "largest difference allowed, relative to a node's largest value, default 2e-5", 0, 0),
    OPTION_THREADS(args.threads),
    OPTIONS_SESSION(args),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_verify = {
    .name      = "verify",
    .help      = "compare every node of a decode step with the reference kernels",
    .usage     = "[MODEL] [options]",
    .notes     = "On a GPU each node is computed twice from the same sources, there and by the CPU "
                 "kernel. Then replays are compared with eager runs, and a reply in loop mode with one "
                 "in replay mode. On the CPU the kernels in use are compared with the plain ones. "
                 "Results in f16, bf16 or 8 bits may differ by one step, which counts as equal. Exit status 1 if "
                 "a difference is above the tolerance.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
