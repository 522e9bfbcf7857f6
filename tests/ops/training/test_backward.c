/* rp_graph_backward: the gradient of each op against central differences of its forward graph, whose results are summed
 * in double. The graph runs on REPRISE_DEVICE (CPU, simulated device or GPU), in every mode, with the
 * same bits. */
#include "tests/ops/training/gradient_case.h"

#include <math.h>

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
static TensorNode *rms_norm_without_weight(Case *c) { return rp_rms_norm(c->g, param(c, 6, 3, 2), NULL, 1e-2f); }
static TensorNode *rope_of(Case *c, RpRopeMode mode) {
    const RpRopeParams p = {.mode = mode, .n_dims = 4, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.5f};
    TensorNode        *x = param(c, 6, 2, 3);
    return rp_rope(c->g, x, ids(c, 3, 1), NULL, &p);
}
static TensorNode *rope_norm(Case *c) { return rope_of(c, RP_ROPE_NORM); }
static TensorNode *rope_neox(Case *c) { return rope_of(c, RP_ROPE_NEOX); }
static TensorNode *yarn_of(Case *c, RpRopeMode mode, bool with_factors) {
    const RpRopeParams p       = {.mode        = mode,
                                  .n_dims      = 8,
                                  .freq_base   = 100.0f,
                                  .freq_scale  = 0.25f,
                                  .ext_factor  = 0.75f,
                                  .attn_factor = 1.5f,
                                  .beta_fast   = 4.0f,
                                  .beta_slow   = 0.5f,
                                  .n_ctx_orig  = 32};
    static float       of[4]   = {1.0f, 0.5f, 2.0f, 1.25f};
    const RpTensorView view    = rp_view_contiguous(RP_F32, (int64_t[]){4, 1, 1, 1}, of);
    TensorNode        *x       = param(c, 10, 2, 3);
    TensorNode        *factors = with_factors ? rp_graph_weight(c->g, "factors", &view) : NULL;
    return rp_rope(c->g, x, ids(c, 3, 1), factors, &p);
}
static TensorNode *rope_yarn(Case *c) { return yarn_of(c, RP_ROPE_NEOX, false); }
static TensorNode *rope_yarn_factors(Case *c) { return yarn_of(c, RP_ROPE_NORM, true); }
static TensorNode *soft_max(Case *c) {
    return rp_soft_max(c->g, param(c, 6, 3, 2), NULL, NULL, &(RpSoftMaxParams){.scale = 0.7f});
}
static TensorNode *soft_max_sinks(Case *c) {
    TensorNode      *x = param(c, 6, 3, 2);
    const RpOpParams p = {.soft_max = {.scale = 0.7f}};
    return rp_graph_op(c->g, RP_OP_SOFT_MAX, &p, (TensorNode *[]){x, NULL, NULL, param(c, 2, 1, 1)}, 4);
}
static TensorNode *attention_of(Case *c, int causal, int32_t window, bool with_sinks) {
    const RpAttentionParams p = {.scale = 0.5f, .window = window, .causal = causal};
    TensorNode             *q = param(c, 4, 3, 4), *k = param(c, 4, 5, 2), *v = param(c, 4, 5, 2);
    TensorNode             *sinks = with_sinks ? param(c, 4, 1, 1) : NULL;
    return rp_attention(c->g, q, k, v, NULL, sinks, &p);
}
static TensorNode *attention(Case *c) { return attention_of(c, 0, 0, false); }
static TensorNode *attention_causal(Case *c) { return attention_of(c, 1, 0, false); }
static TensorNode *attention_window(Case *c) { return attention_of(c, 1, 2, false); }
static TensorNode *attention_sinks(Case *c) { return attention_of(c, 1, 0, true); }
static TensorNode *attention_window_sinks(Case *c) { return attention_of(c, 1, 2, true); }
static TensorNode *attention_last_keys(Case *c) { return attention_of(c, 0, 3, true); }
static TensorNode *attention_narrow(Case *c) { /* heads of one element */
    TensorNode *q = param(c, 1, 3, 2), *k = param(c, 1, 4, 2), *v = param(c, 1, 4, 2);
    return rp_attention(c->g, q, k, v, NULL, NULL, &(RpAttentionParams){.scale = 0.5f});
}
static TensorNode *silu(Case *c) { return rp_silu(c->g, param(c, 6, 3, 1)); }
static TensorNode *sigmoid(Case *c) { return rp_sigmoid(c->g, param(c, 6, 3, 1)); }
static TensorNode *gelu_tanh(Case *c) { return rp_gelu(c->g, param(c, 6, 3, 1), RP_GELU_TANH); }
static TensorNode *gelu_erf(Case *c) { return rp_gelu(c->g, param(c, 6, 3, 1), RP_GELU_ERF); }
static TensorNode *swiglu(Case *c) {
    TensorNode *x = param(c, 6, 3, 1), *gate = rp_mul_mat(c->g, param(c, 6, 4, 1), x);
    return rp_mul(c->g, rp_silu(c->g, gate), rp_mul_mat(c->g, param(c, 6, 4, 1), x));
}
static TensorNode *swiglu_oai(Case *c) {
    TensorNode *gate = rp_scale(c->g, param(c, 6, 3, 1), 4.0f, 0.0f), *up = param(c, 6, 3, 1);
    return rp_node_set_name(rp_swiglu_oai(c->g, gate, up, 1.702f, 0.6f), "act");
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
    TensorNode *x = param(c, 3, 4, 1), *p = rp_soft_max(c->g, x, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    return rp_route(c->g, p, ids(c, 2, 4), &(RpRouteParams){.normalize = true, .scale = 2.0f});
}
static TensorNode *cross_entropy(Case *c) {
    TensorNode *x = param(c, 5, 4, 1);
    return op(c, RP_OP_CROSS_ENTROPY, (RpOpParams){0}, x, ids(c, 4, 1));
}
/* A vocabulary of 7, three at a time. */
static TensorNode *linear_cross_entropy(Case *c) {
    const RpOpParams p = {.linear_cross_entropy = {.scale = 0.75f}};
    const RpOpParams s = {.fill = {.ne = {RP_LINEAR_STATS, 4, 1, 1}}}, n = {.fill = {.ne = {3, 4, 1, 1}}};
    TensorNode      *x = param(c, 5, 4, 1), *w = param(c, 5, 7, 1), *stats = rp_graph_op(c->g, RP_OP_FILL, &s, NULL, 0),
               *chunk = rp_graph_op(c->g, RP_OP_FILL, &n, NULL, 0);
    return rp_graph_op(c->g, RP_OP_LINEAR_CROSS_ENTROPY, &p, (TensorNode *[]){x, w, ids(c, 4, 1), stats, chunk}, 5);
}
static TensorNode *aux_loss(Case *c) {
    TensorNode *x = param(c, 3, 4, 1), *p = rp_soft_max(c->g, x, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    TensorNode *load = op(c, RP_OP_EXPERT_LOAD, (RpOpParams){.expert_load = {.experts = 3}}, ids(c, 2, 4), NULL);
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
    return op(c, RP_OP_REPEAT_BACKWARD, (RpOpParams){.repeat_backward = {.ne = {1, 1, 1, 1}}}, param(c, 6, 3, 1), NULL);
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
    return rp_cast(c->g, rp_permute(c->g, rp_reshape(c->g, param(c, 6, 4, 1), 3, 2, 4, 1), 0, 2, 1, 3), RP_F32);
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
    TensorNode             *k = heads(c, rp_mul_mat(c->g, param(c, EMBD, DIM * KV_HEADS, 1), h), KV_HEADS, pos);
    TensorNode             *v = heads(c, rp_mul_mat(c->g, param(c, EMBD, DIM * KV_HEADS, 1), h), KV_HEADS, NULL);
    TensorNode *y = rp_attention(c->g, q, rp_cast(c->g, k, RP_F32), rp_cast(c->g, v, RP_F32), NULL, NULL, &p);
    y             = rp_reshape(c->g, y, DIM * HEADS, TOKENS, 1, 1);
    return rp_add(c->g, x, rp_mul_mat(c->g, param(c, DIM * HEADS, EMBD, 1), y));
}

static TensorNode *feed_forward(Case *c, TensorNode *x, bool gelu) {
    TensorNode *gate = rp_mul_mat(c->g, param(c, EMBD, FF, 1), x), *up = rp_mul_mat(c->g, param(c, EMBD, FF, 1), x);
    gate = gelu ? rp_gelu(c->g, gate, RP_GELU_TANH) : rp_silu(c->g, gate);
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
    TensorNode *down = rp_mul_mat_id(c->g, param(c, FF, EMBD, EXPERTS), rp_mul(c->g, rp_silu(c->g, gate), up), choice);
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
        const int64_t n     = elements(c->params[p]),
                      every = strcmp(rp_executor_info(e).device, "cpu") == 0 ? 1 : (n + 2) / 3;
        float *x            = rp_executor_data(e, c->params[p]);
        for (int64_t i = 0; i < n; i += every) {
            const float at  = x[i];
            x[i]            = at + h;
            const double up = run(e, c), step = (double)x[i];
            x[i]              = at - h;
            const double down = run(e, c), want = (up - down) / (step - (double)x[i]);
            x[i] = at;
            cr_assert(fabs((double)got[i] - want) <= 2e-3 * fmax(1.0, fabs(want)),
                      "%s: gradient of parameter %d, element %d is %.7g, not %.7g", name, p, (int)i, (double)got[i],
                      want);
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
            plan, &(RpExecutorOptions){.n_threads = first == NULL ? 1 : mode + 1, .mode = (RpExecMode)mode}, &e));
        fill(e, &c);
        run(e, &c);
        float *got = gradients(e, &c, &n);
        if (first == NULL) {
            expect_differences(name, e, &c, got);
            first = got;
        } else {
            cr_expect_eq(memcmp(first, got, (size_t)n * sizeof *got), 0, "%s: other bits in mode %d", name, mode);
            free(got);
        }
        rp_executor_free(e);
        rp_plan_free(plan);
        rp_graph_free(c.g);
    }
    free(first);
}

#define GRADIENT(build)                                                                                                \
    Test(backward, build) { check(#build, build); }
GRADIENT(mul_mat)
GRADIENT(mul_mat_heads)
GRADIENT(mul_mat_id)
GRADIENT(mul_mat_id_one_column)
GRADIENT(rms_norm)
GRADIENT(rms_norm_without_weight)
GRADIENT(rope_norm)
GRADIENT(rope_neox)
GRADIENT(rope_yarn)
GRADIENT(rope_yarn_factors)
GRADIENT(soft_max)
GRADIENT(soft_max_sinks)
GRADIENT(attention)
GRADIENT(attention_causal)
GRADIENT(attention_window)
GRADIENT(attention_sinks)
GRADIENT(attention_window_sinks)
GRADIENT(attention_last_keys)
GRADIENT(attention_narrow)
GRADIENT(silu)
GRADIENT(sigmoid)
GRADIENT(gelu_tanh)
GRADIENT(gelu_erf)
GRADIENT(swiglu)
GRADIENT(swiglu_oai)
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
GRADIENT(linear_cross_entropy)
GRADIENT(aux_loss)
GRADIENT(gemm)
GRADIENT(sum)
GRADIENT(slice)
GRADIENT(permuted)
GRADIENT(llama)
GRADIENT(gemma)
GRADIENT(experts)

/* ---- values that do not enter a gradient ---- */

/* The gradient of the one parameter of `loss`, whose contents are x; the caller frees. */
static float *gradient_at(Case *c, TensorNode *loss, const float *x) {
    c->loss = loss;
    OK(rp_graph_backward(c->g, loss, c->params, 1, c->grads));
    OK(rp_graph_finish(c->g, (TensorNode *[]){loss, c->grads[0]}, 2));
    ExecPlan   *plan;
    RpExecutor *e;
    int64_t     n;
    OK(rp_plan_new(c->g, &plan));
    OK(rp_executor_open(plan, NULL, &e));
    memcpy(rp_executor_data(e, c->params[0]), x, (size_t)elements(c->params[0]) * sizeof *x);
    OK(rp_executor_run(e));
    float *all = gradients(e, c, &n);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(c->g);
    return all;
}

/* The gradient outside of a view is 0, also where the source is not a number. */
Test(backward, passes_no_nan_through_a_view) {
    Case        c    = {.g = rp_graph_new()};
    const float x[4] = {NAN, 2.0f, INFINITY, -3.0f}, want[4] = {0.0f, 2.0f, 0.0f, 2.0f};
    TensorNode *all = param(&c, 4, 1, 1);
    TensorNode *odd = rp_view(c.g, rp_reshape(c.g, all, 2, 2, 1, 1),
                              &(RpViewParams){
                                  .ne = {1, 2, 1,  1 },
                                    .nb = {4, 8, 16, 16},
                                    .offset = 4
    });
    float      *got = gradient_at(&c, rp_scale(c.g, rp_cast(c.g, odd, RP_F32), 2.0f, 0.0f), x);
    for (int i = 0; i < 4; i++) cr_expect_eq(got[i], want[i], "element %d is %g", i, (double)got[i]);
    free(got);
}

/* d(2x)/dx is 2, also where the loss is infinite or not a number. */
Test(backward, begins_with_ones_whatever_the_loss_is) {
    Case        c    = {.g = rp_graph_new()};
    const float x[3] = {NAN, INFINITY, 1.0f};
    float      *got  = gradient_at(&c, rp_scale(c.g, param(&c, 3, 1, 1), 2.0f, 0.0f), x);
    for (int i = 0; i < 3; i++) cr_expect_eq(got[i], 2.0f, "element %d is %g", i, (double)got[i]);
    free(got);
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
