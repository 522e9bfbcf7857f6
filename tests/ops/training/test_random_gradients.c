/* rp_graph_backward on random graphs: small DAGs of ops with a rule, in which any node may have several readers. The
 * slope of the loss along a random direction of each parameter, from the gradient, is compared with a difference
 * quotient of fourth order of the forward graph:
 *
 *     slope = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h        f sums the loss in double
 *
 * Every second graph computes its activations again; a layer is two ops.
 *
 * REPRISE_TEST_SEED=N runs one graph and prints it; the graph of a seed that fails is printed too. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include <math.h>
#include <stdlib.h>

enum { N_GRAPHS = 1000, MAX_PARAMS = 40, MAX_POOL = 48, MAX_OPS = 7, TOKENS = 3, EXPERTS = 3 };

typedef struct Rows {
    TensorNode *node; /* [n,TOKENS] */
    bool        read;
} Rows;

typedef struct Case {
    ComputeGraph *g;
    uint64_t      rng, seed;
    TensorNode   *params[MAX_PARAMS], *grads[MAX_PARAMS], *loss, *ids, *choice;
    int           n_params, n_pool;
    Rows          pool[MAX_POOL];
} Case;

/* splitmix64 */
static int64_t below(Case *c, int64_t n) {
    uint64_t z = c->rng += 0x9e3779b97f4a7c15u;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

static TensorNode *param(Case *c, int64_t n0, int64_t n1, int64_t n2) {
    char name[16];
    cr_assert_lt(c->n_params, MAX_PARAMS);
    snprintf(name, sizeof name, "p%d", c->n_params);
    return c->params[c->n_params++] = rp_graph_input(c->g, name, RP_F32, (int64_t[]){n0, n1, n2, 1});
}

static void put(Case *c, TensorNode *x) { c->pool[c->n_pool++] = (Rows){.node = x}; }

/* Any rows of the pool. */
static TensorNode *rows(Case *c) {
    Rows *r = &c->pool[below(c, c->n_pool)];
    r->read = true;
    return r->node;
}

static int64_t length(const TensorNode *x) { return rp_node_view(x).ne[0]; }

/* Rows of n elements; a product changes those of another length. */
static TensorNode *rows_of(Case *c, int64_t n) {
    TensorNode *x = rows(c);
    return length(x) == n ? x : rp_mul_mat(c->g, param(c, length(x), n, 1), x);
}

typedef TensorNode *Build(Case *c);

static TensorNode *activation(Case *c) {
    TensorNode *x = rows(c);
    switch (below(c, 4)) {
    case 0:
        return rp_silu(c->g, x);
    case 1:
        return rp_sigmoid(c->g, x);
    case 2:
        return rp_gelu(c->g, x, RP_GELU_TANH);
    default:
        return rp_gelu(c->g, x, RP_GELU_ERF);
    }
}

/* With another node, or with a parameter that repeats. */
static TensorNode *binary(Case *c) {
    TensorNode   *x = rows(c), *y;
    const int64_t n = length(x), kind = below(c, 3);
    y = kind == 0 ? rows_of(c, n) : kind == 1 ? param(c, n, 1, 1) : param(c, 1, TOKENS, 1);
    return below(c, 2) == 0 ? rp_add(c->g, x, y) : rp_mul(c->g, x, y);
}

static TensorNode *scaled(Case *c) { return rp_scale(c->g, rows(c), -0.75f, 0.25f); }

static TensorNode *norm(Case *c) {
    TensorNode *x = rows(c);
    return rp_rms_norm(c->g, x, below(c, 2) == 0 ? param(c, length(x), 1, 1) : NULL, 0.1f);
}

static TensorNode *product(Case *c) {
    TensorNode *x = rows(c), *w = param(c, length(x), 2 + below(c, 5), 1);
    return rp_scale(c->g, rp_mul_mat(c->g, w, x), 0.5f, 0.0f);
}

static TensorNode *gemm(Case *c) {
    TensorNode      *x = rows(c), *w = param(c, 4, length(x), 1), *d = rows_of(c, 4);
    const RpOpParams p = {
        .gemm = {.alpha = 0.5f, .beta = -0.5f}
    };
    return rp_graph_op(c->g, RP_OP_GEMM, &p, (TensorNode *[]){x, w, d}, 3);
}

static TensorNode *softened(Case *c) {
    return rp_soft_max(c->g, rows(c), NULL, NULL, &(RpSoftMaxParams){.scale = 1.25f});
}

/* The limits are beyond all values: a difference across one has no slope. */
static TensorNode *gated(Case *c) {
    TensorNode *gate = rows(c), *up = rows_of(c, length(gate));
    return rp_swiglu_oai(c->g, gate, up, 1.702f, 1e6f);
}

static TensorNode *gathered(Case *c) { return rp_get_rows(c->g, rows(c), c->ids); }

static TensorNode *turned(Case *c) {
    TensorNode *x = rows_of(c, TOKENS);
    return rp_cast(c->g, rp_transpose(c->g, x), RP_F32);
}

/* The last elements of each row. */
static TensorNode *sliced(Case *c) {
    TensorNode  *x = rows(c);
    const size_t n = (size_t)length(x), row = 4 * n;
    if (n < 3) return rp_scale(c->g, x, 2.0f, 0.0f);
    const RpViewParams p = {
        .ne = {(int64_t)n - 2, TOKENS, 1,            1           },
          .nb = {0,              row,    row * TOKENS, row * TOKENS},
          .offset = 8
    };
    return rp_cast(c->g, rp_view(c->g, rp_cast(c->g, x, RP_F32), &p), RP_F32);
}

static RpRopeParams rotation(Case *c) {
    const bool yarn = below(c, 2) == 0;
    return (RpRopeParams){.mode        = below(c, 2) == 0 ? RP_ROPE_NORM : RP_ROPE_NEOX,
                          .n_dims      = 4,
                          .freq_base   = 100.0f,
                          .freq_scale  = 0.5f,
                          .ext_factor  = yarn ? 1.0f : 0.0f,
                          .attn_factor = 1.0f,
                          .beta_fast   = 4.0f,
                          .beta_slow   = 0.25f,
                          .n_ctx_orig  = 16};
}

/* h heads of 4 elements, rotated: [4,TOKENS,h] */
static TensorNode *heads(Case *c, int64_t h, bool rotated) {
    const RpRopeParams p = rotation(c);
    TensorNode        *x = rp_reshape(c->g, rows_of(c, 4 * h), 4, h, TOKENS, 1);
    if (rotated) x = rp_rope(c->g, x, c->ids, NULL, &p);
    return rp_cast(c->g, rp_permute(c->g, x, 0, 2, 1, 3), RP_F32);
}

static TensorNode *attention(Case *c) {
    const RpAttentionParams p = {.scale = 0.5f, .window = (int32_t)below(c, 3), .causal = (int32_t)below(c, 2)};
    TensorNode             *q = heads(c, 2, true), *k = heads(c, 1, true), *v = heads(c, 1, false);
    TensorNode             *sinks = below(c, 2) == 0 ? param(c, 2, 1, 1) : NULL;
    return rp_reshape(c->g, rp_attention(c->g, q, k, v, NULL, sinks, &p), 8, TOKENS, 1, 1);
}

/* Two of three experts for each token, chosen by an input, with the weights of a router. */
static TensorNode *experts(Case *c) {
    TensorNode   *x = rows(c);
    const int64_t n = length(x);
    TensorNode   *w = param(c, n, 4, EXPERTS), *bias = param(c, 4, EXPERTS, 1);
    TensorNode   *probs = rp_soft_max(c->g, rows_of(c, EXPERTS), NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    TensorNode   *by = rp_route(c->g, probs, c->choice, &(RpRouteParams){.normalize = below(c, 2) == 0, .scale = 1.5f});
    TensorNode   *y  = rp_mul_mat_id(c->g, w, rp_reshape(c->g, rp_cast(c->g, x, RP_F32), n, 1, TOKENS, 1), c->choice);
    return rp_combine(c->g, rp_add_id(c->g, y, bias, c->choice), by);
}

static TensorNode *entropy(Case *c) {
    TensorNode *x = rows_of(c, 4);
    x             = rp_graph_op(c->g, RP_OP_CROSS_ENTROPY, NULL, (TensorNode *[]){x, c->ids}, 2);
    return rp_reshape(c->g, x, 1, TOKENS, 1, 1);
}

/* The same through a vocabulary of 5, two at a time. */
static TensorNode *linear_entropy(Case *c) {
    TensorNode      *x = rp_cast(c->g, rows(c), RP_F32), *w = param(c, length(x), 5, 1);
    const RpOpParams stats = {.fill = {.ne = {RP_LINEAR_STATS, TOKENS, 1, 1}}},
                     chunk = {.fill = {.ne = {2, TOKENS, 1, 1}}};
    const RpOpParams p     = {.linear_cross_entropy = {.scale = 1.5f}};
    TensorNode      *src[] = {x, w, c->ids, rp_graph_op(c->g, RP_OP_FILL, &stats, NULL, 0),
                              rp_graph_op(c->g, RP_OP_FILL, &chunk, NULL, 0)};
    return rp_reshape(c->g, rp_graph_op(c->g, RP_OP_LINEAR_CROSS_ENTROPY, &p, src, 5), 1, TOKENS, 1, 1);
}

static Build *const builds[] = {activation, binary,   binary, scaled, norm,      product, gemm,    softened,
                                gated,      gathered, turned, sliced, attention, experts, entropy, linear_entropy};

/* The sum of every node that nothing reads, so that the loss depends on all parameters. */
static void build(Case *c) {
    const RpOpParams one = {.repeat_backward = {.ne = {1, 1, 1, 1}}};
    c->ids               = rp_graph_input(c->g, "ids", RP_I32, (int64_t[]){TOKENS, 1, 1, 1});
    c->choice            = rp_graph_input(c->g, "choice", RP_I32, (int64_t[]){2, TOKENS, 1, 1});
    for (int i = 0; i < 2; i++) put(c, param(c, 2 + below(c, 5), TOKENS, 1));
    for (int64_t n = 2 + below(c, MAX_OPS - 1); n > 0; n--) {
        rp_graph_set_layer(c->g, (int)n / 2);
        TensorNode *x = builds[below(c, sizeof builds / sizeof *builds)](c);
        cr_assert_not_null(x, "seed %llu: %s", (unsigned long long)c->seed, rp_last_error());
        put(c, x);
    }
    rp_graph_set_layer(c->g, -1);
    for (int i = 0; i < c->n_pool; i++) {
        if (c->pool[i].read) continue;
        TensorNode *x = c->pool[i].node, *square = rp_mul(c->g, x, rp_scale(c->g, x, 0.5f, 0.75f));
        TensorNode *sum = rp_graph_op(c->g, RP_OP_REPEAT_BACKWARD, &one, (TensorNode *[]){square}, 1);
        c->loss         = c->loss == NULL ? sum : rp_add(c->g, c->loss, sum);
    }
}

static int64_t elements(const TensorNode *n) {
    const RpTensorView v = rp_node_view(n);
    return rp_view_elems(&v);
}

static double run(RpExecutor *e, const Case *c) {
    OK(rp_executor_run(e));
    return (double)*(const float *)rp_executor_data(e, c->loss);
}

static void fill(RpExecutor *e, Case *c) {
    static const int32_t turn[TOKENS] = {0, 2, 1};
    int32_t             *ids = rp_executor_data(e, c->ids), *choice = rp_executor_data(e, c->choice);
    for (int i = 0; i < TOKENS && ids != NULL; i++) ids[i] = turn[i]; /* NULL: no node reads it */
    for (int i = 0; i < 2 * TOKENS && choice != NULL; i++) choice[i] = turn[(i / 2 + i % 2) % TOKENS];
    for (int p = 0; p < c->n_params; p++) {
        float *x = rp_executor_data(e, c->params[p]);
        for (int64_t i = 0; i < elements(c->params[p]); i++) x[i] = (float)(below(c, 2001) - 1000) / 1000.0f;
    }
}

/* The loss at x + h * direction; x and direction have n elements, `to` is the parameter. */
static double loss_at(RpExecutor *e, const Case *c, float *to, const float *x, const float *direction, int64_t n,
                      float h) {
    for (int64_t i = 0; i < n; i++) to[i] = x[i] + h * direction[i];
    const double f = run(e, c);
    memcpy(to, x, (size_t)n * sizeof *x);
    return f;
}

/* The largest error of a slope, relative to the tolerance. */
static double worst_error(RpExecutor *e, Case *c) {
    enum { MOST = 128 };
    const float  h     = 1.0f / 64.0f;
    const double loss  = run(e, c);
    double       worst = 0.0;
    float       *got[MAX_PARAMS];
    for (int p = 0; p < c->n_params; p++) {
        const size_t bytes = (size_t)elements(c->params[p]) * sizeof(float);
        got[p]             = memcpy(malloc(bytes), rp_executor_data(e, c->grads[p]), bytes);
    }
    for (int p = 0; p < c->n_params; p++) {
        const int64_t n     = elements(c->params[p]);
        float        *to    = rp_executor_data(e, c->params[p]), x[MOST], direction[MOST];
        double        slope = 0.0, f[4];
        cr_assert_leq(n, MOST, CASE(p));
        for (int64_t i = 0; i < n; i++) {
            x[i] = to[i], direction[i] = below(c, 2) == 0 ? -1.0f : 1.0f;
            slope += (double)got[p][i] * (double)direction[i];
        }
        for (int k = 0; k < 4; k++) f[k] = loss_at(e, c, to, x, direction, n, h * (float[]){1, -1, 2, -2}[k]);
        const double want  = (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * (double)h);
        const double error = fabs(slope - want) / (1e-3 * (1.0 + fabs(want)) + 3e-5 * fabs(loss));
        if (!(error <= worst)) worst = error;
    }
    for (int p = 0; p < c->n_params; p++) free(got[p]);
    return worst;
}

static double check(uint64_t seed, bool show) {
    Case        c = {.g = rp_graph_new(), .rng = seed, .seed = seed};
    TensorNode *outputs[MAX_PARAMS + 1];
    ExecPlan   *plan;
    RpExecutor *e;
    build(&c);
    rp_graph_set_recompute(c.g, seed % 2 == 0);
    OK(rp_graph_backward(c.g, c.loss, c.params, c.n_params, c.grads));
    outputs[0] = c.loss;
    for (int i = 0; i < c.n_params; i++) outputs[i + 1] = c.grads[i];
    OK(rp_graph_finish(c.g, outputs, c.n_params + 1));
    OK(rp_plan_new(c.g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = 1, .mode = RP_MODE_EAGER}, &e));
    fill(e, &c);
    const double worst = worst_error(e, &c);
    if (show) OK(rp_graph_dump(c.g, NULL, stderr));
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(c.g);
    return worst;
}

Test(random_gradients, are_slopes_of_the_loss) {
    const char    *only  = getenv("REPRISE_TEST_SEED");
    const uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1, n = only != NULL ? 1 : N_GRAPHS;
    for (uint64_t seed = first; seed < first + n; seed++) {
        const double worst = check(seed, only != NULL);
        if (worst <= 1.0) continue;
        check(seed, true);
        cr_assert(false, "seed %llu: a slope differs by %.3g times the tolerance", (unsigned long long)seed, worst);
    }
}
