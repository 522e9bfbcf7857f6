/* rp_graph_backward: the gradient of each op against central differences of its forward graph, whose results are summed
 * in double; and its refusals. The graph runs on REPRISE_DEVICE (CPU, simulated device or GPU), in every mode, with the
 * same bits. */
#include "tests/golden.h"

#include "graph/gradients.h"

#include <math.h>

enum { MAX_PARAMS = 12 };

typedef struct Case {
    ComputeGraph *g;
    TensorNode   *params[MAX_PARAMS], *grads[MAX_PARAMS], *loss, *ids;
    int           n_params;
    uint32_t      seed;
} Case;

static float next_float(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

/* A parameter: an input, so that the test can change it. */
static TensorNode *param(Case *c, int64_t n0, int64_t n1, int64_t n2) {
    char name[8];
    snprintf(name, sizeof name, "p%d", c->n_params);
    return c->params[c->n_params++] = rp_graph_input(c->g, name, RP_F32, (int64_t[]){n0, n1, n2, 1});
}

/* i32 [n0,n1] with the contents 0, 2, 1, 0, 2, 1, ... */
static TensorNode *ids(Case *c, int64_t n0, int64_t n1) {
    return c->ids = rp_graph_input(c->g, "ids", RP_I32, (int64_t[]){n0, n1, 1, 1});
}

static TensorNode *op(Case *c, TensorOp id, RpOpParams p, TensorNode *a, TensorNode *b) {
    return rp_graph_op(c->g, id, &p, (TensorNode *[]){a, b}, b != NULL ? 2 : 1);
}

typedef TensorNode *Build(Case *c);

static TensorNode *mul_mat(Case *c) { return rp_mul_mat(c->g, param(c, 5, 4, 1), param(c, 5, 3, 1)); }
static TensorNode *mul_mat_heads(Case *c) { return rp_mul_mat(c->g, param(c, 5, 4, 2), param(c, 5, 3, 6)); }
static TensorNode *mul_mat_id(Case *c) {
    TensorNode *w = param(c, 5, 4, 3), *x = param(c, 5, 2, 3);
    return rp_mul_mat_id(c->g, w, x, ids(c, 2, 3));
}
static TensorNode *mul_mat_id_one_column(Case *c) {
    TensorNode *w = param(c, 5, 4, 3), *x = param(c, 5, 1, 3);
    return rp_mul_mat_id(c->g, w, x, ids(c, 2, 3));
}
static TensorNode *rms_norm(Case *c) {
    TensorNode *x = param(c, 6, 3, 2);
    return rp_rms_norm(c->g, x, param(c, 6, 1, 1), 1e-2f);
}
static TensorNode *rms_norm_without_weight(Case *c) {
    return rp_rms_norm(c->g, param(c, 6, 3, 2), NULL, 1e-2f);
}
static TensorNode *rope_of(Case *c, RpRopeMode mode) {
    const RpRopeParams p = {
        .mode = mode, .n_dims = 4, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.5f};
    TensorNode *x = param(c, 6, 2, 3);
    return rp_rope(c->g, x, ids(c, 3, 1), NULL, &p);
}
static TensorNode *rope_norm(Case *c) { return rope_of(c, RP_ROPE_NORM); }
static TensorNode *rope_neox(Case *c) { return rope_of(c, RP_ROPE_NEOX); }
static TensorNode *soft_max(Case *c) {
    return rp_soft_max(c->g, param(c, 6, 3, 2), NULL, NULL, &(RpSoftMaxParams){.scale = 0.7f});
}
static TensorNode *attention_of(Case *c, int causal) {
    const RpAttentionParams p = {.scale = 0.5f, .causal = causal};
    TensorNode             *q = param(c, 4, 3, 4), *k = param(c, 4, 5, 2), *v = param(c, 4, 5, 2);
    return rp_attention(c->g, q, k, v, NULL, NULL, &p);
}
static TensorNode *attention(Case *c) { return attention_of(c, 0); }
static TensorNode *attention_causal(Case *c) { return attention_of(c, 1); }
static TensorNode *silu(Case *c) { return rp_silu(c->g, param(c, 6, 3, 1)); }
static TensorNode *sigmoid(Case *c) { return rp_sigmoid(c->g, param(c, 6, 3, 1)); }
static TensorNode *gelu_tanh(Case *c) { return rp_gelu(c->g, param(c, 6, 3, 1), RP_GELU_TANH); }
static TensorNode *gelu_erf(Case *c) { return rp_gelu(c->g, param(c, 6, 3, 1), RP_GELU_ERF); }
static TensorNode *swiglu(Case *c) {
    TensorNode *x = param(c, 6, 3, 1), *gate = rp_mul_mat(c->g, param(c, 6, 4, 1), x);
    return rp_mul(c->g, rp_silu(c->g, gate), rp_mul_mat(c->g, param(c, 6, 4, 1), x));
}
static TensorNode *mul_repeats(Case *c) {
    TensorNode *x = param(c, 6, 3, 2);
    return rp_mul(c->g, x, param(c, 6, 1, 2));
}
static TensorNode *add_repeats(Case *c) {
    TensorNode *x = param(c, 6, 3, 2);
    return rp_add(c->g, x, param(c, 1, 3, 1));
}
static TensorNode *add_to_itself(Case *c) {
    TensorNode *x = param(c, 6, 3, 2);
    return rp_add(c->g, rp_mul(c->g, x, x), x);
}
static TensorNode *scale(Case *c) { return rp_scale(c->g, param(c, 6, 3, 1), -1.5f, 0.25f); }
static TensorNode *copy(Case *c) { return rp_cast(c->g, rp_transpose(c->g, param(c, 6, 3, 1)), RP_F32); }
static TensorNode *get_rows(Case *c) {
    TensorNode *w = param(c, 6, 3, 1);
    return rp_get_rows(c->g, w, ids(c, 7, 1));
}
static TensorNode *add_id(Case *c) {
    TensorNode *x = param(c, 6, 2, 3), *b = param(c, 6, 3, 1);
    return rp_add_id(c->g, x, b, ids(c, 2, 3));
}
static TensorNode *combine(Case *c) {
    TensorNode *x = param(c, 6, 2, 3);
    return rp_combine(c->g, x, param(c, 2, 3, 1));
}
static TensorNode *route(Case *c) {
    TensorNode *x = param(c, 3, 4, 1),
               *p = rp_soft_max(c->g, x, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    return rp_route(c->g, p, ids(c, 2, 4), &(RpRouteParams){.normalize = true, .scale = 2.0f});
}
static TensorNode *cross_entropy(Case *c) {
    TensorNode *x = param(c, 5, 4, 1);
    return op(c, RP_OP_CROSS_ENTROPY, (RpOpParams){0}, x, ids(c, 4, 1));
}
static TensorNode *aux_loss(Case *c) {
    TensorNode *x = param(c, 3, 4, 1),
               *p = rp_soft_max(c->g, x, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    TensorNode *load =
        op(c, RP_OP_EXPERT_LOAD, (RpOpParams){.expert_load = {.experts = 3}}, ids(c, 2, 4), NULL);
    return op(c, RP_OP_AUX_LOSS, (RpOpParams){0}, p, load);
}
static TensorNode *gemm(Case *c) {
    TensorNode *a = param(c, 5, 4, 2), *b = param(c, 3, 5, 2), *d = param(c, 3, 4, 2);
    return rp_graph_op(c->g, RP_OP_GEMM,
                       &(RpOpParams){
                           .gemm = {.alpha = 0.5f, .beta = -2.0f}
    },
                       (TensorNode *[]){a, b, d}, 3);
}
static TensorNode *sum(Case *c) {
    return op(c, RP_OP_REPEAT_BACKWARD, (RpOpParams){.repeat_backward = {.ne = {1, 1, 1, 1}}},
              param(c, 6, 3, 1), NULL);
}
static TensorNode *slice(Case *c) {
    return rp_cast(c->g,
                   rp_view(c->g, param(c, 6, 3, 1),
                           &(RpViewParams){
                               .ne = {2, 2,  1,  1 },
                                 .nb = {4, 24, 72, 72},
                                 .offset = 28
    }),
                   RP_F32);
}
static TensorNode *permuted(Case *c) {
    return rp_cast(c->g, rp_permute(c->g, rp_reshape(c->g, param(c, 6, 4, 1), 3, 2, 4, 1), 0, 2, 1, 3),
                   RP_F32);
}

enum { EMBD = 8, HEADS = 4, KV_HEADS = 2, DIM = 4, TOKENS = 3, FF = 6, EXPERTS = 3, USED = 2 };

/* Heads of x [n*h,t] as [n,t,h], rotated unless pos is NULL. */
static TensorNode *heads(Case *c, TensorNode *x, int64_t h, TensorNode *pos) {
    const RpRopeParams p = {
        .mode = RP_ROPE_NEOX, .n_dims = 4, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.0f};
    x = rp_reshape(c->g, x, DIM, h, TOKENS, 1);
    if (pos != NULL) x = rp_rope(c->g, x, pos, NULL, &p);
    return rp_permute(c->g, x, 0, 2, 1, 3);
}

/* x + attention of norm(x) */
static TensorNode *attention_block(Case *c, TensorNode *x, TensorNode *pos) {
    const RpAttentionParams p = {.scale = 0.5f, .causal = 1};
    TensorNode             *h = rp_rms_norm(c->g, x, param(c, EMBD, 1, 1), 1e-2f);
    TensorNode             *q = heads(c, rp_mul_mat(c->g, param(c, EMBD, DIM * HEADS, 1), h), HEADS, pos);
    TensorNode *k = heads(c, rp_mul_mat(c->g, param(c, EMBD, DIM * KV_HEADS, 1), h), KV_HEADS, pos);
    TensorNode *v = heads(c, rp_mul_mat(c->g, param(c, EMBD, DIM * KV_HEADS, 1), h), KV_HEADS, NULL);
    TensorNode *y = rp_attention(c->g, q, rp_cast(c->g, k, RP_F32), rp_cast(c->g, v, RP_F32), NULL, NULL, &p);
    y             = rp_reshape(c->g, y, DIM * HEADS, TOKENS, 1, 1);
    return rp_add(c->g, x, rp_mul_mat(c->g, param(c, DIM * HEADS, EMBD, 1), y));
}

static TensorNode *feed_forward(Case *c, TensorNode *x, bool gelu) {
    TensorNode *gate = rp_mul_mat(c->g, param(c, EMBD, FF, 1), x),
               *up   = rp_mul_mat(c->g, param(c, EMBD, FF, 1), x);
    gate             = gelu ? rp_gelu(c->g, gate, RP_GELU_TANH) : rp_silu(c->g, gate);
    return rp_mul_mat(c->g, param(c, FF, EMBD, 1), rp_mul(c->g, gate, up));
}

/* Embedding (also of the logits), attention, feed-forward, cross entropy. */
static TensorNode *decoder(Case *c, bool gelu) {
    TensorNode *table = param(c, EMBD, 3, 1), *tokens = ids(c, TOKENS, 1);
    TensorNode *x = attention_block(c, rp_get_rows(c->g, table, tokens), tokens);
    TensorNode *h = rp_rms_norm(c->g, x, param(c, EMBD, 1, 1), 1e-2f);
    x             = rp_add(c->g, x, feed_forward(c, h, gelu));
    return op(c, RP_OP_CROSS_ENTROPY, (RpOpParams){0}, rp_mul_mat(c->g, table, x), tokens);
}
static TensorNode *llama(Case *c) { return decoder(c, false); }
static TensorNode *gemma(Case *c) { return decoder(c, true); }

/* Chosen experts and a shared one. The choice is an input: it must not change within a difference. */
static TensorNode *experts(Case *c) {
    TensorNode *x = param(c, EMBD, TOKENS, 1), *choice = ids(c, USED, TOKENS);
    TensorNode *logits  = rp_mul_mat(c->g, param(c, EMBD, EXPERTS, 1), x);
    TensorNode *probs   = rp_soft_max(c->g, logits, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    TensorNode *weights = rp_route(c->g, probs, choice, &(RpRouteParams){.normalize = true, .scale = 1.0f});
    TensorNode *column  = rp_reshape(c->g, x, EMBD, 1, TOKENS, 1);
    TensorNode *gate    = rp_mul_mat_id(c->g, param(c, EMBD, FF, EXPERTS), column, choice);
    TensorNode *up      = rp_mul_mat_id(c->g, param(c, EMBD, FF, EXPERTS), column, choice);
    TensorNode *down =
        rp_mul_mat_id(c->g, param(c, FF, EMBD, EXPERTS), rp_mul(c->g, rp_silu(c->g, gate), up), choice);
    return rp_add(c->g, rp_combine(c->g, down, weights), feed_forward(c, x, false));
}

/* loss = y * y * weights of its own, so that the gradient of y differs from element to element */
static Case new_case(Build *build, uint32_t seed) {
    Case        c = {.g = rp_graph_new(), .seed = seed};
    TensorNode *y = build(&c);
    c.loss        = rp_mul(c.g, y, rp_scale(c.g, y, 0.5f, 0.75f));
    OK(rp_graph_backward(c.g, c.loss, c.params, c.n_params, c.grads));
    TensorNode *outputs[MAX_PARAMS + 1] = {c.loss};
    for (int i = 0; i < c.n_params; i++) outputs[i + 1] = c.grads[i];
    OK(rp_graph_finish(c.g, outputs, c.n_params + 1));
    OK(rp_graph_optimize(c.g, NULL));
    return c;
}

static int64_t elements(const TensorNode *n) {
    const RpTensorView v = rp_node_view(n);
    return rp_view_elems(&v);
}

static double run(RpExecutor *e, const Case *c) {
    OK(rp_executor_run(e));
    const float *y   = rp_executor_data(e, c->loss);
    double       sum = 0.0;
    for (int64_t i = 0; i < elements(c->loss); i++) sum += (double)y[i];
    return sum;
}

static void fill(RpExecutor *e, Case *c) {
    static const int32_t turn[3] = {0, 2, 1};
    for (int p = 0; p < c->n_params; p++) {
        float *x = rp_executor_data(e, c->params[p]);
        for (int64_t i = 0; i < elements(c->params[p]); i++) x[i] = next_float(&c->seed);
    }
    if (c->ids == NULL) return;
    int32_t *id = rp_executor_data(e, c->ids);
    for (int64_t i = 0; i < elements(c->ids); i++) id[i] = turn[i % 3];
}

/* The gradients of all parameters, one after the other; the caller frees. */
static float *gradients(RpExecutor *e, const Case *c, int64_t *n) {
    *n = 0;
    for (int p = 0; p < c->n_params; p++) *n += elements(c->params[p]);
    float *all = malloc((size_t)*n * sizeof *all), *to = all;
    for (int p = 0; p < c->n_params; p++) {
        memcpy(to, rp_executor_data(e, c->grads[p]), (size_t)elements(c->params[p]) * sizeof *to);
        to += elements(c->params[p]);
    }
    return all;
}

/* The CPU shows that the rules are right, each element: a device is compared at a few. */
static void expect_differences(const char *name, RpExecutor *e, const Case *c, const float *got) {
    const float h = 0.01f;
    for (int p = 0; p < c->n_params; p++) {
        const int64_t n = elements(c->params[p]), every = strcmp(rp_executor_info(e).device, "cpu") == 0 ? 1 : (n + 2) / 3;
        float        *x = rp_executor_data(e, c->params[p]);
        for (int64_t i = 0; i < n; i += every) {
            const float at  = x[i];
            x[i]            = at + h;
            const double up = run(e, c), step = (double)x[i];
            x[i]              = at - h;
            const double down = run(e, c), want = (up - down) / (step - (double)x[i]);
            x[i] = at;
            cr_assert(fabs((double)got[i] - want) <= 2e-3 * fmax(1.0, fabs(want)),
                      "%s: gradient of parameter %d, element %d is %.7g, not %.7g", name, p, (int)i,
                      (double)got[i], want);
        }
        got += n;
    }
}

static void check(const char *name, Build *build) {
    float  *first = NULL;
    int64_t n     = 0;
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Case        c = new_case(build, 7);
        ExecPlan   *plan;
        RpExecutor *e;
        OK(rp_plan_new(c.g, &plan));
        OK(rp_executor_open(
            plan, &(RpExecutorOptions){.n_threads = first == NULL ? 1 : mode + 1, .mode = (RpExecMode)mode},
            &e));
        fill(e, &c);
        run(e, &c);
        float *got = gradients(e, &c, &n);
        if (first == NULL) {
            expect_differences(name, e, &c, got);
            first = got;
        } else {
            cr_expect_eq(memcmp(first, got, (size_t)n * sizeof *got), 0, "%s: other bits in mode %d", name,
                         mode);
            free(got);
        }
        rp_executor_free(e);
        rp_plan_free(plan);
        rp_graph_free(c.g);
    }
    free(first);
}

#define GRADIENT(build)                                                                                      \
    Test(backward, build) { check(#build, build); }
GRADIENT(mul_mat)
GRADIENT(mul_mat_heads)
GRADIENT(mul_mat_id)
GRADIENT(mul_mat_id_one_column)
GRADIENT(rms_norm)
GRADIENT(rms_norm_without_weight)
GRADIENT(rope_norm)
GRADIENT(rope_neox)
GRADIENT(soft_max)
GRADIENT(attention)
GRADIENT(attention_causal)
GRADIENT(silu)
GRADIENT(sigmoid)
GRADIENT(gelu_tanh)
GRADIENT(gelu_erf)
GRADIENT(swiglu)
GRADIENT(mul_repeats)
GRADIENT(add_repeats)
GRADIENT(add_to_itself)
GRADIENT(scale)
GRADIENT(copy)
GRADIENT(get_rows)
GRADIENT(add_id)
GRADIENT(combine)
GRADIENT(route)
GRADIENT(cross_entropy)
GRADIENT(aux_loss)
GRADIENT(gemm)
GRADIENT(sum)
GRADIENT(slice)
GRADIENT(permuted)
GRADIENT(llama)
GRADIENT(gemma)
GRADIENT(experts)

/* ---- refusals ---- */

static TensorNode *swiglu_oai(Case *c) {
    TensorNode *x = param(c, 4, 2, 1);
    return rp_node_set_name(rp_swiglu_oai(c->g, x, param(c, 4, 2, 1), 1.0f, 7.0f), "act");
}

Test(backward, names_an_op_without_a_rule) {
    Case        c    = {.g = rp_graph_new()};
    TensorNode *loss = rp_silu(c.g, swiglu_oai(&c));
    REFUSED(rp_graph_backward(c.g, loss, c.params, 2, c.grads), RP_E_UNSUPPORTED,
            "swiglu_oai 'act' f32 [4,2] (node 2): this op has no gradient rule");
    REFUSED(rp_graph_finish(c.g, &loss, 1), RP_E_UNSUPPORTED, "swiglu_oai 'act'");
    rp_graph_free(c.g);
}

Test(backward, names_a_parameter_that_the_loss_does_not_read) {
    Case        c    = {.g = rp_graph_new()};
    TensorNode *loss = rp_silu(c.g, param(&c, 4, 2, 1));
    param(&c, 3, 1, 1);
    REFUSED(rp_graph_backward(c.g, loss, c.params, 2, c.grads), RP_E_ARG,
            "'p1' f32 [3] (node 2): the loss does not depend on this parameter");
    rp_graph_free(c.g);
}

Test(backward, refuses_bad_arguments) {
    Case        c = {.g = rp_graph_new()};
    TensorNode *x = param(&c, 4, 2, 1), *loss = rp_silu(c.g, x);
    TensorNode *none = NULL, *i = ids(&c, 2, 1);
    REFUSED(rp_graph_backward(c.g, loss, c.params, 0, c.grads), RP_E_ARG, "at least one parameter");
    REFUSED(rp_graph_backward(c.g, x, c.params, 1, c.grads), RP_E_DTYPE,
            "the loss must be a computed node of type f32");
    REFUSED(rp_graph_backward(c.g, loss, &none, 1, c.grads), RP_E_ARG,
            "parameter 0 is not a node of this graph");
    REFUSED(rp_graph_backward(c.g, loss, &i, 1, c.grads), RP_E_DTYPE, "parameter 0, 'ids', is i32");
    OK(rp_graph_finish(c.g, &loss, 1));
    REFUSED(rp_graph_backward(c.g, loss, c.params, 1, c.grads), RP_E_STATE, "the graph is finished");
    rp_graph_free(c.g);
}

/* Only the product that the parameter takes part in gets a gradient. */
Test(backward, adds_no_nodes_for_the_rest) {
    int nodes[2];
    for (int more = 0; more < 2; more++) {
        Case        c = {.g = rp_graph_new()};
        TensorNode *x = rp_graph_input(c.g, "x", RP_F32, (int64_t[]){4, 2, 1, 1}), *w = param(&c, 4, 3, 1);
        if (more == 1) x = rp_silu(c.g, rp_silu(c.g, x));
        TensorNode *outputs[2] = {rp_mul_mat(c.g, w, x)};
        OK(rp_graph_backward(c.g, outputs[0], c.params, 1, &outputs[1]));
        OK(rp_graph_finish(c.g, outputs, 2));
        nodes[more] = rp_graph_n_nodes(c.g);
        rp_graph_free(c.g);
    }
    cr_expect_eq(nodes[1], nodes[0] + 2, "%d nodes, and %d", nodes[0], nodes[1]);
}

/* ---- the table of docs/training.md ---- */

/* The first column of each row of its tables, one after the other. */
static void first_columns(char *text, size_t size) {
    FILE *f = fopen(RP_SOURCE_DIR "/docs/training.md", "r");
    char  line[512];
    cr_assert_not_null(f, "docs/training.md is missing");
    text[0] = '\0';
    while (fgets(line, sizeof line, f) != NULL) {
        char *end = strchr(line + 1, '|');
        if (line[0] != '|' || end == NULL) continue;
        *end = '\0';
        cr_assert_lt(strlen(text) + strlen(line), size);
        strcat(text, line);
    }
    fclose(f);
}

Test(backward, documents_every_rule) {
    char text[2048];
    first_columns(text, sizeof text);
#define LISTED(op) cr_expect_not_null(strstr(text, "`" #op "`"), "docs/training.md does not list " #op);
#define ABSENT(op)                                                                                           \
    cr_expect_null(strstr(text, "`" #op "`"), "docs/training.md lists " #op ", which has no rule");
    RP_GRADIENTS(LISTED, LISTED, ABSENT)
#undef LISTED
#undef ABSENT
}

/* dx = sum over the rows of the dequantised weights, for loss = the sum of their product with x. */
Test(backward, passes_through_quantised_weights) {
    enum { N = 32, M = 3 };
    Case          c = {.g = rp_graph_new(), .seed = 3};
    float         w[N * M], back[N * M];
    unsigned char blocks[34 * M];
    for (int i = 0; i < N * M; i++) w[i] = next_float(&c.seed);
    OK(rp_quantize_row(RP_Q8_0, w, N * M, blocks));
    rp_dequantize_row(RP_Q8_0, blocks, N * M, back);
    const RpTensorView view   = rp_view_contiguous(RP_Q8_0, (int64_t[]){N, M, 1, 1}, blocks);
    TensorNode        *weight = rp_graph_weight(c.g, "w", &view);
    c.loss                    = rp_mul_mat(c.g, weight, param(&c, N, 2, 1));
    OK(rp_graph_backward(c.g, c.loss, c.params, 1, c.grads));
    OK(rp_graph_finish(c.g, (TensorNode *[]){c.loss, c.grads[0]}, 2));
    ExecPlan   *plan;
    RpExecutor *e;
    OK(rp_plan_new(c.g, &plan));
    OK(rp_executor_open(plan, NULL, &e));
    fill(e, &c);
    run(e, &c);
    const float *dx = rp_executor_data(e, c.grads[0]);
    for (int i = 0; i < 2 * N; i++) {
        double want = 0.0;
        for (int m = 0; m < M; m++) want += (double)back[m * N + i % N];
        cr_assert(fabs((double)dx[i] - want) <= 1e-6, "element %d is %.9g, not %.9g", i, (double)dx[i], want);
    }
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(c.g);
}
