/* verify.c - `reprise verify`: compares results of the executor on three levels.
 *
 *   every node of a step    GPU against CPU kernels; on the CPU those in use against the plain ones: --tolerance
 *   logits of a step        replay against eager: same bits (GPU only)
 *   tokens of a reply       loop against replay: same tokens (GPU only) */
#include "cli/commands.h"
#include "cli/common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *passes, *kv;
    int32_t     tokens, threads;
    float       tolerance;
    DeviceArgs  device;
    bool        json;
} args = {.tokens = 8, .tolerance = 2e-5f};

enum { MAX_OPS = 64, N_CTX = 256, N_REPLY = 24 };

/* Largest difference of all nodes of one op. */
typedef struct OpResult {
    const char *op;
    long        n_nodes;
    double      worst;  /* relative to the largest value of the node, see rp_verify_difference */
    char        at[96]; /* name of the node */
} OpResult;

typedef struct Verify {
    OpResult ops[MAX_OPS];
    int      n_ops, token;
    bool     wrong;
    char     first[256];                /* describes the first difference above the tolerance */
    long     n_replays, n_reply_tokens; /* compared; 0: on the CPU, or without loop mode */
    bool     replay_differs, reply_differs;
    char     device[320];
} Verify;

static OpResult *result_of(Verify *v, const char *op) {
    for (int i = 0; i < v->n_ops; i++)
        if (strcmp(v->ops[i].op, op) == 0) return &v->ops[i];
    if (v->n_ops == MAX_OPS) return NULL;
    v->ops[v->n_ops] = (OpResult){.op = op};
    return &v->ops[v->n_ops++];
}

static bool on_node(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                    void *user) {
    Verify      *v   = user;
    size_t       at  = 0;
    OpResult    *r   = result_of(v, rp_node_op_name(node));
    const double off = rp_verify_difference(node, view, got, want, &at);
    if (r == NULL) return true;
    r->n_nodes++;
    if (off >= r->worst) {
        r->worst = off;
        snprintf(r->at, sizeof r->at, "%.95s", rp_node_name(node));
    }
    if (off > (double)args.tolerance && !v->wrong) {
        v->wrong = true;
        if (view->dtype == RP_F32)
            snprintf(v->first, sizeof v->first, "%s '%s', token %d, element %zu: %.9g, expected %.9g",
                     rp_node_op_name(node), rp_node_name(node), v->token, at,
                     (double)((const float *)got)[at], (double)((const float *)want)[at]);
        else
            snprintf(v->first, sizeof v->first,
                     "%s '%s', token %d, element %zu of %s: relative difference %.3g", rp_node_op_name(node),
                     rp_node_name(node), v->token, at, rp_dtype_name(view->dtype), off);
    }
    return true;
}

/* ---- every node, and eager against replay ---- */

typedef struct DecodeStep {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *eager, *replay;
} DecodeStep;

static void set_inputs(const DecodeStep *b, RpExecutor *e, int32_t token, int32_t pos) {
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "tokens"))   = token;
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "pos"))      = pos;
    *(int32_t *)rp_executor_data(e, rp_graph_find(b->g, "out_rows")) = 0;
}

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

static RpStatus open_step(const RpModel *m, DecodeStep *b, Verify *v) {
    RpExecutorOptions   o     = {.n_threads     = args.threads,
                                 .device        = args.device.name,
                                 .require_cuda  = args.device.require_cuda,
                                 .require_graph = args.device.require_graph,
                                 .mode          = RP_MODE_EAGER};
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
        return args.device.require_graph
                   ? rp_fail(RP_E_NOT_AVAILABLE, "a graph is required: the CPU has none")
                   : RP_OK;
    return rp_executor_open(
        b->plan, &(RpExecutorOptions){.share = b->eager, .mode = RP_MODE_REPLAY, .require_graph = true},
        &b->replay);
}

static RpStatus verify_nodes(const RpModel *m, Verify *v) {
    DecodeStep b  = {0};
    RpStatus   st = open_step(m, &b, v);
    for (int32_t i = 0; i < args.tokens && st == RP_OK; i++)
        st = verify_token(&b, v,
                          (int32_t)(rp_random_uniform(1, (uint64_t)i) * (float)rp_model_info(m)->n_vocab), i);
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

static void print_text(const Verify *v) {
    printf("%s against %s, %d tokens\n\n", v->device,
           v->n_replays > 0 ? "the CPU kernels" : "the plain CPU kernels", args.tokens);
    printf("%-12s %7s  %-12s %s\n", "op", "nodes", "max rel diff", "at node");
    for (int i = 0; i < v->n_ops; i++)
        printf("%-12s %7ld  %-12.3g %s\n", v->ops[i].op, v->ops[i].n_nodes, v->ops[i].worst, v->ops[i].at);
    putchar('\n');
    if (v->wrong) printf("first difference above %g: %s\n", (double)args.tolerance, v->first);
    if (v->n_replays > 0)
        printf("replay against eager: %s for %ld tokens, memory poisoned before each replay\n",
               v->replay_differs ? "DIFFERENT BITS" : "same bits", v->n_replays);
    if (v->n_reply_tokens > 0)
        printf("loop against replay: %s, a reply of %ld tokens\n",
               v->reply_differs ? "DIFFERENT TOKENS" : "same tokens", v->n_reply_tokens);
    printf("%s\n", v->wrong || v->replay_differs || v->reply_differs ? "FAILED" : "verified");
}

static void print_json(const Verify *v) {
    printf("{\"device\":");
    cli_json_string(stdout, v->device, strlen(v->device));
    printf(",\"tokens\":%d,\"tolerance\":%g,\"ops\":[", args.tokens, (double)args.tolerance);
    for (int i = 0; i < v->n_ops; i++) {
        printf("%s{\"op\":\"%s\",\"nodes\":%ld,\"worst\":", i > 0 ? "," : "", v->ops[i].op,
               v->ops[i].n_nodes);
        printf(isfinite(v->ops[i].worst) ? "%.4g" : "null", v->ops[i].worst);
        printf(",\"at\":\"%s\"}", v->ops[i].at);
    }
    printf("],\"first_difference\":");
    if (v->wrong)
        cli_json_string(stdout, v->first, strlen(v->first));
    else
        printf("null");
    printf(",\"replays\":%ld,\"replay_equal\":%s,\"reply_tokens\":%ld,\"reply_equal\":%s,\"verified\":%s}\n",
           v->n_replays, v->replay_differs ? "false" : "true", v->n_reply_tokens,
           v->reply_differs ? "false" : "true",
           v->wrong || v->replay_differs || v->reply_differs ? "false" : "true");
}

static int run(void) {
    static Verify v;
    RpModel      *m  = NULL;
    RpStatus      st = cli_open_model(args.model, args.json, &m);
    if (st == RP_OK && args.tokens > rp_model_info(m)->n_ctx_train)
        args.tokens = rp_model_info(m)->n_ctx_train;
    if (st == RP_OK) st = verify_nodes(m, &v);
    if (st == RP_OK && v.n_replays > 0) st = verify_replies(m, &v);
    if (st == RP_OK) (args.json ? print_json : print_text)(&v);
    rp_model_free(m);
    return st == RP_OK && (v.wrong || v.replay_differs || v.reply_differs) ? EXIT_ERROR : cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_INT("tokens", 'n', args.tokens, "N", "tokens to verify, default 8", 1, N_CTX),
    CLI_NUMBER("tolerance", 0, args.tolerance, "X",
               "largest difference allowed, relative to a node's largest value, default 2e-5", 0, 0),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
};

const Command cli_command_verify = {
    .name      = "verify",
    .help      = "compare every node of a decode step with the reference kernels",
    .usage     = "[-m FILE] [options]",
    .notes     = "On a GPU each node is computed twice from the same sources, there and by the CPU\n"
                 "kernel. Then replays are compared with eager runs, and a reply in loop mode with one\n"
                 "in replay mode. On the CPU the kernels in use are compared with the plain ones.\n"
                 "Exit status 1 if anything differs.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
