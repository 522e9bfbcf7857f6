/* random_graph.h - random valid graphs from a seed: subgraphs of decoders and unusual ones, with second
 * readers, outputs in the middle, and states.
 *
 *     begin        embedding rows or an input                         -> pool
 *     1 to 6 times a random subgraph                                   pool -> pool
 *                  ffn, attention, experts, rows, views, store
 *     end          the last rows, and some others, become outputs
 *
 * The pool holds rows of f32, [n, n_tok], that later subgraphs may read; reading older ones gives nodes a
 * second reader. Subgraphs have the shape that the fusions match, with random deviations, some of which must
 * prevent a match.
 *
 * The same seed gives the same graph, so it can be built once per set of passes. Norms keep values bounded, and
 * no node reads elements that a product with a bound leaves unwritten. */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "tests/support/blocks.h"
#include "tests/support/case.h"

enum {
    RANDOM_CTX    = 32,
    RANDOM_POOL   = 96,
    RANDOM_NAMED  = 64,
    RANDOM_LEAVES = 1024,
    RANDOM_STEPS  = 3,
    RANDOM_PLACES = 1 << 15
};

/* Rows of n f32, one per token. */
typedef struct Rows {
    TensorNode *node;
    int64_t     n;
    bool        contiguous, output; /* output: may become an output of the graph */
} Rows;

typedef struct RandomGraph {
    ComputeGraph *g;
    uint64_t      rng;
    int64_t       n_tok;
    TensorNode   *pos, *before; /* positions, and others that are never larger */
    Rows          pool[RANDOM_POOL];
    int           n_pool, n_leaves;
    const void   *leaves[RANDOM_LEAVES]; /* memory of each weight */
    TensorNode   *outputs[RANDOM_NAMED];
    int           n_outputs;
    char          states[RANDOM_NAMED][32], inputs[RANDOM_NAMED][32];
    int           n_states, n_inputs;
    bool          routes; /* selects experts, which a small difference can change */
    /* Properties that the matrices, rotations and norms of one subgraph mostly share, as in real layers. */
    RpDtype      weights;
    RpRopeParams rope;
    bool         head_norm, whole_norm, bias;
    float        eps;
} RandomGraph;

/* splitmix64 */
static inline uint64_t next_random(RandomGraph *r) {
    uint64_t z = r->rng += 0x9e3779b97f4a7c15u;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int64_t below(RandomGraph *r, int64_t n) { return (int64_t)(next_random(r) % (uint64_t)n); }
static inline bool    chance(RandomGraph *r, int percent) { return below(r, 100) < percent; }
static inline int64_t one_of(RandomGraph *r, const int64_t *list, size_t n) { return list[below(r, (int64_t)n)]; }
#define ONE_OF(r, ...)                                                                                                 \
    one_of(r, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- leaves ---- */

/* One random row of 2^18 elements per type; each weight is a slice of it. */
static inline char *weight_memory(RpDtype type) {
    static char *memory[RP_DTYPE_COUNT];
    if (memory[type] != NULL) return memory[type];
    memory[type] = random_weights(type, 1 << 18, 1, 100 + (uint64_t)type);
    if (rp_dtype_is_quant(type)) return memory[type];
    float *small = random_floats(1 << 18, 100 + (uint64_t)type); /* about as small as the dequantised ones */
    for (int i = 0; i < 1 << 18; i++) small[i] *= 0.2f;
    const RpOpArgs to = {.dst = tensor(type, memory[type], 1 << 18, 1, 1, 1),
                         .src = {tensor(RP_F32, small, 1 << 18, 1, 1, 1)}};
    OK(run_workers(rp_cpu_copy, &to, 1));
    free(small);
    return memory[type];
}

static inline bool is_leaf(const RandomGraph *r, const void *at) {
    for (int i = 0; i < r->n_leaves; i++)
        if (r->leaves[i] == at) return true;
    return false;
}

static inline TensorNode *weight_3d(RandomGraph *r, RpDtype type, int64_t n0, int64_t n1, int64_t n2) {
    char         name[32];
    const size_t step = (size_t)rp_dtype_info(type)->block_bytes * 16, all = rp_row_bytes(type, 1 << 18),
                 size = rp_row_bytes(type, n0) * (size_t)(n1 * n2);
    cr_assert_lt(size, all);
    void *at;
    do at = weight_memory(type) + step * (size_t)below(r, (int64_t)((all - size) / step) + 1);
    while (is_leaf(r, at)); /* two weights at one address would be one tensor on the device */
    cr_assert_lt(r->n_leaves, (int)RANDOM_LEAVES);
    r->leaves[r->n_leaves] = at;
    const RpTensorView v   = rp_view_contiguous(type, NE(n0, n1, n2, 1), at);
    snprintf(name, sizeof name, "w%d", r->n_leaves++);
    return rp_graph_weight(r->g, name, &v);
}

/* A type whose blocks divide rows of n elements. */
static inline RpDtype any_type(RandomGraph *r, int64_t n) {
#define X(ID, ...) RP_##ID,
    static const RpDtype types[] = {RP_F32, RP_F16, RP_BF16, RP_QUANTS(X)};
#undef X
    for (;;) {
        const RpDtype t = types[below(r, sizeof types / sizeof types[0])];
        if (n % rp_dtype_info(t)->block_elems == 0) return t;
    }
}

/* Mostly the type of this subgraph. */
static inline RpDtype weight_type(RandomGraph *r, int64_t n) {
    return n % rp_dtype_info(r->weights)->block_elems == 0 && chance(r, 80) ? r->weights : any_type(r, n);
}

static inline TensorNode *vector(RandomGraph *r, int64_t n) { return weight_3d(r, RP_F32, n, 1, 1); }

static inline TensorNode *input_of(RandomGraph *r, const char *what, RpDtype type, int64_t n0, int64_t n1) {
    char *name = r->inputs[r->n_inputs++];
    cr_assert_leq(r->n_inputs, (int)RANDOM_NAMED);
    snprintf(name, sizeof r->inputs[0], "%s.%d", what, r->n_inputs);
    return rp_graph_input(r->g, name, type, NE(n0, n1, 1, 1));
}

static inline TensorNode *state_of(RandomGraph *r, RpDtype type, int64_t n, int64_t heads) {
    char *name = r->states[r->n_states++];
    cr_assert_leq(r->n_states, (int)RANDOM_NAMED);
    snprintf(name, sizeof r->states[0], "state.%d", r->n_states);
    return rp_graph_state(r->g, name, type, NE(n, RANDOM_CTX, heads, 1));
}

/* ---- the pool ---- */

static inline void put(RandomGraph *r, TensorNode *node, int64_t n, bool contiguous, bool output) {
    if (r->n_pool < RANDOM_POOL && n <= 256) r->pool[r->n_pool++] = (Rows){node, n, contiguous, output};
}

static inline TensorNode *named(RandomGraph *r, TensorNode *node) {
    char name[24];
    snprintf(name, sizeof name, "n%d", (int)below(r, 1000));
    return chance(r, 60) ? rp_node_set_name(node, name) : node;
}

/* The latest rows, or any older ones, which get another reader. */
static inline Rows take(RandomGraph *r) { return r->pool[chance(r, 70) ? r->n_pool - 1 : (int)below(r, r->n_pool)]; }

static inline Rows take_contiguous(RandomGraph *r) {
    Rows x = take(r);
    while (!x.contiguous) x = r->pool[below(r, r->n_pool)];
    return x;
}

/* Rows of the same length, possibly x itself. */
static inline TensorNode *like(RandomGraph *r, Rows x) {
    for (int tries = 0; tries < 12; tries++) {
        const Rows y = r->pool[below(r, r->n_pool)];
        if (y.n == x.n) return y.node;
    }
    return x.node;
}

/* Sometimes makes an inner node available to later subgraphs, or as an output. */
static inline TensorNode *seen(RandomGraph *r, TensorNode *x, int64_t n) {
    if (chance(r, 12)) put(r, x, n, true, true);
    return named(r, x);
}

/* ---- subgraphs ---- */

static inline TensorNode *linear(RandomGraph *r, TensorNode *x, int64_t n, int64_t m) {
    TensorNode *y = seen(r, rp_mul_mat(r->g, weight_3d(r, weight_type(r, n), n, m, 1), x), m);
    if (chance(r, 90) ? r->bias : !r->bias) y = seen(r, rp_add(r->g, y, vector(r, m)), m);
    return chance(r, 5) ? rp_scale(r->g, y, 0.5f, chance(r, 20) ? 0.25f : 0.0f) : y;
}

static inline TensorNode *norm(RandomGraph *r, TensorNode *x, int64_t n) {
    return seen(r, rp_rms_norm(r->g, x, chance(r, 85) ? vector(r, n) : NULL, chance(r, 50) ? 1e-5f : 1e-6f), n);
}

static inline TensorNode *gate(RandomGraph *r, TensorNode *x) {
    return chance(r, 60) ? rp_silu(r->g, x) : rp_gelu(r->g, x, chance(r, 50) ? RP_GELU_TANH : RP_GELU_ERF);
}

static inline TensorNode *gated(RandomGraph *r, TensorNode *a, TensorNode *b) {
    if (chance(r, 25)) return rp_swiglu_oai(r->g, a, b, 1.702f, 7.0f);
    a = named(r, gate(r, a));
    return chance(r, 85) ? rp_mul(r->g, a, b) : rp_mul(r->g, b, a);
}

static inline TensorNode *residual(RandomGraph *r, TensorNode *y, TensorNode *x) {
    return named(r, chance(r, 50) ? rp_add(r->g, y, x) : rp_add(r->g, x, y));
}

/* Multiplied by a number, or by one for each element, as layers with a scale of their own do. */
static inline TensorNode *scaled(RandomGraph *r, TensorNode *y, int64_t n) {
    return rp_mul(r->g, named(r, y), vector(r, chance(r, 50) ? 1 : n));
}

static inline void subgraph_ffn(RandomGraph *r) {
    const Rows    x = take(r);
    const int64_t m = ONE_OF(r, 32, 64, 96, 256);
    TensorNode   *n = chance(r, 80) ? norm(r, x.node, x.n) : x.node, *a = linear(r, n, x.n, m);
    TensorNode   *b = chance(r, 90) ? linear(r, n, x.n, m) : a, *y = seen(r, gated(r, a, b), m);
    y = linear(r, y, m, x.n);
    if (chance(r, 30)) y = norm(r, y, x.n);
    if (chance(r, 80)) y = residual(r, y, x.node);
    if (chance(r, 15)) y = residual(r, norm(r, y, x.n), x.node);
    put(r, chance(r, 15) ? scaled(r, y, x.n) : y, x.n, true, true);
}

static inline RpRopeParams rotation(RandomGraph *r) {
    RpRopeParams p = {.mode        = chance(r, 50) ? RP_ROPE_NORM : RP_ROPE_NEOX,
                      .freq_base   = chance(r, 50) ? 1e4f : 1e3f,
                      .freq_scale  = chance(r, 80) ? 1.0f : 0.5f,
                      .attn_factor = 1.0f};
    if (chance(r, 20)) p.ext_factor = 1.0f, p.beta_fast = 32.0f, p.beta_slow = 1.0f, p.n_ctx_orig = 16;
    return p;
}

static inline TensorNode *rotate(RandomGraph *r, TensorNode *x, int64_t d) {
    const bool   factors = chance(r, 10);
    RpRopeParams p       = chance(r, 90) ? r->rope : rotation(r);
    p.n_dims             = (int32_t)(chance(r, 90) ? d : d / 2);
    return named(r, rp_rope(r->g, x, chance(r, 90) ? r->pos : r->before,
                            factors ? input_of(r, "factors", RP_F32, p.n_dims / 2, 1) : NULL, &p));
}

static inline TensorNode *heads(RandomGraph *r, TensorNode *x, int64_t n, int64_t d, int64_t h, bool rotated) {
    const float eps = chance(r, 90) ? r->eps : 0.5f;
    TensorNode *y   = linear(r, x, n, d * h);
    if (rotated && (chance(r, 92) ? r->whole_norm : !r->whole_norm))
        y = rp_rms_norm(r->g, y, chance(r, 80) ? vector(r, d * h) : NULL, eps);
    y = rp_reshape(r->g, y, d, h, r->n_tok, 1);
    if (rotated && (chance(r, 92) ? r->head_norm : !r->head_norm))
        y = rp_rms_norm(r->g, y, chance(r, 80) ? vector(r, d) : NULL, eps);
    if (rotated && chance(r, 6)) /* rotated a second time, by the same or other positions */
        put(r, rp_reshape(r->g, rotate(r, y, d), d * h, r->n_tok, 1, 1), d * h, true, false);
    return rotated && chance(r, 94) ? rotate(r, y, d) : y;
}

/* Stores x [d,h,t] in a new KV cache [d,ctx,h]; sometimes in one whose rows have all heads, which the pass qkv does
 * not fuse. */
static inline TensorNode *cached(RandomGraph *r, TensorNode *x, RpDtype type, int64_t d, int64_t h) {
    const size_t row = rp_row_bytes(type, d * h);
    if (chance(r, 92))
        return named(r, rp_store(r->g, rp_permute(r->g, x, 0, 2, 1, 3), state_of(r, type, d, h), r->pos));
    TensorNode *all = rp_store(r->g, rp_reshape(r->g, x, d * h, r->n_tok, 1, 1), state_of(r, type, d * h, 1), r->pos);
    return rp_view(r->g, named(r, all),
                   &(RpViewParams){
                       .ne = {d,    RANDOM_CTX,        h,  1               },
                       .nb = { 0, row, rp_row_bytes(type, d), row * RANDOM_CTX},
    });
}

typedef struct Attention {
    TensorNode     *q, *k, *v, *sinks;
    int64_t         d, h;
    RpSoftMaxParams p;
} Attention;

/* Unfused attention, as models build it; sometimes with a mask, other positions or second readers of inner nodes. */
static inline TensorNode *attend(RandomGraph *r, const Attention *a) {
    ComputeGraph *g      = r->g;
    TensorNode   *until  = chance(r, 88) ? r->pos : r->before;
    TensorNode   *last   = chance(r, 94) ? until : r->before; /* never later than the positions of probs */
    TensorNode   *mask   = chance(r, 8) ? input_of(r, "mask", RP_F32, RANDOM_CTX, r->n_tok) : NULL;
    TensorNode   *scores = named(r, rp_mul_mat_bound(g, a->k, a->q, r->pos, RP_BOUND_ROWS));
    TensorNode   *probs  = named(r, rp_soft_max_sinks(g, scores, mask, until, a->sinks, &a->p));
    TensorNode   *vt     = rp_transpose(g, a->v);
    TensorNode   *sum    = named(r, rp_mul_mat_bound(g, vt, probs, last, RP_BOUND_INNER));
    TensorNode   *back   = rp_permute(g, sum, 0, 2, 1, 3);
    TensorNode   *more   = NULL;
    if (chance(r, 6)) /* scores */
        more = rp_mul_mat_bound(g, vt, rp_soft_max(g, scores, NULL, r->pos, &a->p), r->pos, RP_BOUND_INNER);
    if (chance(r, 6)) more = rp_mul_mat_bound(g, vt, probs, until, RP_BOUND_INNER);
    if (chance(r, 6)) more = sum;
    if (more != NULL)
        put(r,
            rp_reshape(g, rp_cast(g, rp_permute(g, rp_scale(g, more, 0.5f, 0.0f), 0, 2, 1, 3), RP_F32), a->d * a->h,
                       r->n_tok, 1, 1),
            a->d * a->h, true, false);
    if (chance(r, 6))
        put(r, rp_reshape(g, rp_cast(g, back, RP_F32), a->d * a->h, r->n_tok, 1, 1), a->d * a->h, true, false);
    return rp_cast(g, back, RP_F32);
}

static inline void subgraph_attention(RandomGraph *r) {
    const Rows    x = take(r);
    const int64_t d = ONE_OF(r, 16, 32, 64), hkv = 1 + below(r, 2), h = hkv * ONE_OF(r, 1, 2, 4);
    const RpDtype type = chance(r, 85) ? RP_F16 : RP_F32;
    TensorNode   *n    = chance(r, 85) ? norm(r, x.node, x.n) : x.node;
    Attention     a    = {
               .d = d, .h = h, .p = {.scale = 0.2f, .window = chance(r, 25) ? 5 : 0}
    };
    a.q           = rp_permute(r->g, heads(r, n, x.n, d, h, true), 0, 2, 1, 3);
    a.k           = cached(r, heads(r, n, x.n, d, hkv, true), type, d, hkv);
    a.v           = chance(r, 92) ? cached(r, heads(r, n, x.n, d, hkv, false), type, d, hkv) : a.k;
    a.sinks       = chance(r, 20) ? vector(r, h) : NULL;
    TensorNode *y = type == RP_F16 && chance(r, 10)
                        ? rp_attention(r->g, a.q, a.k, a.v, r->pos, a.sinks,
                                       &(RpAttentionParams){.scale = a.p.scale, .window = a.p.window})
                        : attend(r, &a);
    y             = linear(r, rp_reshape(r->g, named(r, y), d * h, r->n_tok, 1, 1), d * h, x.n);
    if (chance(r, 80)) y = residual(r, y, x.node);
    put(r, y, x.n, true, true);
}

static inline TensorNode *linear_id(RandomGraph *r, TensorNode *x, int64_t n, int64_t m, int64_t experts,
                                    TensorNode *ids) {
    TensorNode *y = rp_mul_mat_id(r->g, weight_3d(r, weight_type(r, n), n, m, experts), x, ids);
    return chance(r, 30) ? rp_add_id(r->g, named(r, y), weight_3d(r, RP_F32, m, experts, 1), ids) : named(r, y);
}

/* The weights of a layer whose shared expert is like the others: the types of its products. */
typedef struct ExpertTypes {
    RpDtype up, down;
} ExpertTypes;

/* An expert that every token uses, with or without a gate, and the residual x; mostly of the types and size of the
 * others. */
static inline TensorNode *shared_expert(RandomGraph *r, TensorNode *n, Rows x, int64_t m, ExpertTypes t) {
    ComputeGraph *g = r->g;
    m               = chance(r, 90) ? m : 2 * m;
    t.up            = chance(r, 90) ? t.up : any_type(r, x.n);
    TensorNode *a   = rp_mul_mat(g, weight_3d(r, t.up, x.n, m, 1), n),
               *b   = rp_mul_mat(g, weight_3d(r, t.up, x.n, m, 1), n);
    TensorNode *y   = rp_mul_mat(g, weight_3d(r, t.down, m, x.n, 1), named(r, rp_mul(g, rp_silu(g, a), b)));
    if (chance(r, 60)) {
        TensorNode *w = weight_3d(r, chance(r, 85) ? RP_F32 : RP_F16, x.n, 1, 1);
        y             = named(r, rp_mul(g, y, seen(r, rp_sigmoid(g, named(r, rp_mul_mat(g, w, n))), 1)));
    }
    return residual(r, chance(r, 90) ? y : seen(r, y, x.n), x.node);
}

/* The products of the other experts in such a layer, down to those of each. */
static inline TensorNode *alike_experts(RandomGraph *r, TensorNode *rows, int64_t n, int64_t m, int64_t n_experts,
                                        TensorNode *ids, ExpertTypes t) {
    ComputeGraph *g = r->g;
    TensorNode   *a = rp_mul_mat_id(g, weight_3d(r, t.up, n, m, n_experts), rows, ids);
    TensorNode   *b = rp_mul_mat_id(g, weight_3d(r, t.up, n, m, n_experts), rows, ids);
    return rp_mul_mat_id(g, weight_3d(r, t.down, m, n, n_experts), named(r, rp_mul(g, rp_silu(g, a), b)), ids);
}

/* weights[j,t] * scales[ids[j,t]] */
static inline TensorNode *scales_of_experts(RandomGraph *r, TensorNode *weights, TensorNode *ids, int64_t n_experts,
                                            int64_t k) {
    TensorNode *all = rp_reshape(r->g, vector(r, n_experts), 1, n_experts, 1, 1);
    TensorNode *s   = rp_get_rows(r->g, all, rp_reshape(r->g, ids, k * r->n_tok, 1, 1, 1));
    return rp_mul(r->g, named(r, weights), rp_reshape(r->g, s, k, r->n_tok, 1, 1));
}

static inline void subgraph_experts(RandomGraph *r) {
    const Rows        x         = take_contiguous(r);
    const bool        shares    = chance(r, 50);
    const int64_t     n_experts = ONE_OF(r, 4, 8), k = 1 + below(r, 3), m = ONE_OF(r, 32, 64);
    const ExpertTypes t      = {weight_type(r, x.n), weight_type(r, m)};
    TensorNode       *n      = norm(r, x.node, x.n);
    TensorNode       *logits = shares && chance(r, 70) ? rp_mul_mat(r->g, weight_3d(r, RP_F32, x.n, n_experts, 1), n)
                                                       : linear(r, n, x.n, n_experts);
    TensorNode       *probs  = logits;
    const int64_t     gating = below(r, 3);
    if (gating == 0) probs = rp_sigmoid(r->g, logits);
    if (gating == 1) probs = rp_soft_max(r->g, logits, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
    const RpTopKParams top = chance(r, 20) && k < 3 ? (RpTopKParams){.k = (int32_t)k, .n_group = 2, .n_group_used = 1}
                                                    : (RpTopKParams){.k = (int32_t)k};
    TensorNode        *ids = rp_top_k(r->g, named(r, probs), chance(r, 20) ? vector(r, n_experts) : NULL, &top);
    TensorNode        *expert_weights = rp_route(
               r->g, probs, ids,
               &(RpRouteParams){.soft_max = gating == 2, .normalize = chance(r, 50), .scale = chance(r, 80) ? 1.0f : 2.5f});
    TensorNode *rows = rp_reshape(r->g, n, x.n, 1, r->n_tok, 1);
    TensorNode *y;
    if (shares) {
        y = alike_experts(r, rows, x.n, m, n_experts, ids, t);
    } else {
        TensorNode *a = linear_id(r, rows, x.n, m, n_experts, ids), *b = linear_id(r, rows, x.n, m, n_experts, ids);
        y = linear_id(r, named(r, gated(r, a, b)), m, x.n, n_experts, ids);
    }
    if (chance(r, 25)) expert_weights = scales_of_experts(r, expert_weights, ids, n_experts, k);
    y = rp_combine(r->g, y, named(r, expert_weights));
    if (!shares && chance(r, 30)) y = norm(r, named(r, y), x.n);
    if (!shares && chance(r, 15)) y = rp_scale(r->g, y, 0.5f, 0.0f);
    if (chance(r, 20)) r->outputs[r->n_outputs++] = ids;
    if (shares)
        y = residual(r, named(r, y), shared_expert(r, n, x, m, t));
    else if (chance(r, 80))
        y = residual(r, y, x.node);
    r->routes = true;
    put(r, named(r, y), x.n, true, true);
}

/* Element-wise ops and norms on whole rows. */
static inline void subgraph_rows(RandomGraph *r) {
    const Rows    x = take(r);
    ComputeGraph *g = r->g;
    TensorNode   *y = NULL;
    switch (below(r, 9)) {
    case 0:
        y = norm(r, x.node, x.n);
        break;
    case 1:
        y = norm(r, rp_add(g, x.node, like(r, x)), x.n);
        break;
    case 2:
        y = rp_scale(g, x.node, 0.5f, chance(r, 30) ? 0.25f : 0.0f);
        break;
    case 3:
        y = rp_mul(g, norm(r, x.node, x.n), vector(r, x.n));
        break;
    case 4:
        y = rp_mul(g, norm(r, x.node, x.n), rp_sigmoid(g, x.node));
        break;
    case 5:
        y = rp_add(g, x.node, x.node);
        break;
    case 6:
        y = norm(r, rp_mul(g, rp_sigmoid(g, x.node), rp_sigmoid(g, like(r, x))), x.n);
        break;
    case 7:
        y = rp_mul(g, x.node, named(r, rp_sigmoid(g, linear(r, x.node, x.n, 1))));
        break;
    default:
        y = gate(r, rp_add(g, norm(r, x.node, x.n), vector(r, x.n)));
        break;
    }
    put(r, named(r, y), x.n, true, true);
}

/* Half of each row, heads swapped with tokens and back, or a conversion and back. */
static inline void subgraph_views(RandomGraph *r) {
    const Rows    x   = take_contiguous(r);
    ComputeGraph *g   = r->g;
    const size_t  row = (size_t)x.n * 4;
    switch (x.n % 8 == 0 ? below(r, 3) : 2) {
    case 0:
        put(r,
            rp_view(g, x.node,
                    &(RpViewParams){
                        .ne     = {x.n / 2, r->n_tok, 1,                      1                     },
                        .nb     = {0,       row,      row * (size_t)r->n_tok, row * (size_t)r->n_tok},
                        .offset = chance(r, 50) ? row / 2 : 0
        }),
            x.n / 2, r->n_tok == 1, false);
        break;
    case 1: {
        TensorNode *t = rp_permute(g, rp_reshape(g, x.node, x.n / 4, 4, r->n_tok, 1), 0, 2, 1, 3);
        t             = rp_cast(g, rp_permute(g, rp_scale(g, t, 0.75f, 0.0f), 0, 2, 1, 3), RP_F32);
        put(r, rp_reshape(g, t, x.n, r->n_tok, 1, 1), x.n, true, false);
        break;
    }
    default:
        put(r, rp_cast(g, named(r, rp_cast(g, x.node, chance(r, 50) ? RP_F16 : RP_BF16)), RP_F32), x.n, true, true);
        break;
    }
}

/* Rows stored in a state at their positions, and the first rows of the state; or rows stored over other rows. */
static inline void subgraph_store(RandomGraph *r) {
    const Rows    x    = take_contiguous(r);
    ComputeGraph *g    = r->g;
    const RpDtype type = (RpDtype)ONE_OF(r, RP_F16, RP_F32, RP_BF16);
    if (chance(r, 30)) {
        TensorNode *over = rp_scale(g, like(r, x), 0.5f, 0.0f);
        put(r, rp_scale(g, rp_store(g, x.node, over, NULL), 0.5f, 0.0f), x.n, true, true);
        return;
    }
    const size_t row = rp_row_bytes(type, x.n);
    TensorNode  *all = rp_store(g, x.node, state_of(r, type, x.n, 1), chance(r, 80) ? r->pos : NULL);
    TensorNode  *old = rp_view(g, all,
                               &(RpViewParams){
                                   .ne = {x.n, r->n_tok, 1,                1               },
                                   .nb = {0,   row,      row * RANDOM_CTX, row * RANDOM_CTX},
    });
    put(r, rp_cast(g, old, RP_F32), x.n, true, true);
}

/* ---- a whole graph ---- */

static inline void begin(RandomGraph *r) {
    const int64_t n = ONE_OF(r, 32, 64, 64, 96, 256);
    r->pos          = input_of(r, "pos", RP_I32, r->n_tok, 1);
    r->before       = input_of(r, "before", RP_I32, r->n_tok, 1);
    TensorNode *x;
    if (chance(r, 50))
        x = rp_get_rows(r->g, weight_3d(r, weight_type(r, n), n, 64, 1), input_of(r, "ids", RP_I32, r->n_tok, 1));
    else
        x = rp_scale(r->g, input_of(r, "x", RP_F32, n, r->n_tok), 1.0f, 0.0f);
    put(r, named(r, x), n, true, true);
}

static inline void end(RandomGraph *r) {
    Rows *last = &r->pool[r->n_pool - 1];
    if (!last->output) put(r, rp_scale(r->g, last->node, 2.0f, 0.0f), last->n, true, true);
    for (int i = 0; i < r->n_pool && r->n_outputs < RANDOM_NAMED; i++)
        if (r->pool[i].output && (i == r->n_pool - 1 || chance(r, 10))) r->outputs[r->n_outputs++] = r->pool[i].node;
    for (int i = 0; i < r->n_outputs; i++) { /* a node may be an output twice: it keeps the last name */
        char name[32];
        snprintf(name, sizeof name, "out.%d", i);
        rp_node_set_name(r->outputs[i], name);
    }
}

/* The graph is finished; the caller frees r->g. */
static inline void random_graph(uint64_t seed, RandomGraph *r) {
    static void (*const subgraphs[])(RandomGraph *) = {
        subgraph_ffn,  subgraph_ffn,     subgraph_attention, subgraph_attention, subgraph_rows,
        subgraph_rows, subgraph_experts, subgraph_views,     subgraph_store,     subgraph_rows};
    *r       = (RandomGraph){.g = rp_graph_new(), .rng = seed};
    r->n_tok = chance(r, 70) ? 1 : 2 + below(r, 8);
    begin(r);
    const int n = 1 + (int)below(r, 6);
    for (int i = 0; i < n; i++) {
        rp_graph_set_layer(r->g, i);
        r->weights    = any_type(r, 256);
        r->rope       = rotation(r);
        r->bias       = chance(r, 35);
        r->head_norm  = chance(r, 35);
        r->whole_norm = !r->head_norm && chance(r, 35);
        r->eps        = chance(r, 50) ? 1e-5f : 1e-2f;
        subgraphs[below(r, sizeof subgraphs / sizeof subgraphs[0])](r);
    }
    rp_graph_set_layer(r->g, -1);
    end(r);
    OK(rp_graph_finish(r->g, r->outputs, r->n_outputs));
    for (int i = 0; i < r->n_states; i++) cr_assert_not_null(rp_graph_find(r->g, r->states[i]), CASE(i));
}

#endif
