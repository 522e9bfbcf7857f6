/* The rows of the pass `attention` (patterns.c): scores, softmax and weighted sum. The pass `qkv`: queries, keys and
 * values of a token. */
#include "graph/pass.h"
#include "graph/patterns.h"

#include <string.h>

/* ---- attention ---- */

static bool swaps_tokens_and_heads(const RpPermuteParams *p) {
    return p->axis[0] == 0 && p->axis[1] == 2 && p->axis[2] == 1 && p->axis[3] == 3;
}

/* out[d,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], copied so that the heads of a
 * token are adjacent. The products must be bounded by the positions, as the fused op is. */
static bool attention(const RpPatternMatch *m, RpOpParams *out) {
    const RpOpParams *scores = params_of(m, "scores"), *sum = params_of(m, "sum"), *p = params_of(m, "probs");
    if (dtype_of(m, "out") != RP_F32 || dtype_of(m, "k") != RP_F16 || dtype_of(m, "v") != RP_F16) return false;
    if (!swaps_tokens_and_heads(&params_of(m, "back")->permute)) return false;
    if (scores->mul_mat.bound != RP_BOUND_ROWS || sum->mul_mat.bound != RP_BOUND_INNER) return false;
    out->attention = (RpAttentionParams){.scale = p->soft_max.scale, .window = p->soft_max.window};
    return true;
}

/* The scale is that of the capped scores. */
static bool capped_attention(const RpPatternMatch *m, RpOpParams *out) {
    if (!attention(m, out) || out->attention.scale != 1.0f) return false;
    out->attention.scale = params_of(m, "capped")->soft_cap.scale;
    return true;
}

/* out[n,t,h] = sum_i softmax_i(scale * (latent[:,i] . q[:,t,h] + key[:,i] . q_rope[:,t,h])) * latent[:,i] */
static bool latent_attention(const RpPatternMatch *m, RpOpParams *out) {
    const RpOpParams *sum = params_of(m, "sum"), *p = params_of(m, "probs");
    if (p->soft_max.window != 0 || sum->mul_mat.bound != RP_BOUND_INNER) return false;
    if (params_of(m, "sl")->mul_mat.bound != RP_BOUND_ROWS || params_of(m, "sr")->mul_mat.bound != RP_BOUND_ROWS)
        return false;
    out->latent_attention = (RpLatentAttentionParams){.scale = p->soft_max.scale};
    return true;
}

const PatternRow rp_patterns_attention[] = {
    {.pattern = {.match =
                     "copy:out(permute:back(mul_mat:sum(transpose~(v), soft_max:probs(mul_mat:scores(k, q, pos), _, "
                     "pos, sinks?), pos)))",
                 .make   = "attention(q, k, v, pos, sinks)",
                 .params = attention}},
    {.pattern = {.match  = "copy:out(permute:back(mul_mat:sum(transpose~(v), soft_max:probs(soft_cap:capped("
                           "mul_mat:scores(k, q, pos), cap), _, pos, sinks?), pos)))",
                 .make   = "attention(q, k, v, pos, sinks, _, cap)",
                 .params = capped_attention}},
    {.pattern = {.match  = "mul_mat:sum(transpose~(c), soft_max:probs(add(mul_mat:sl(c, q, pos), mul_mat:sr(k, qr, "
                           "pos)), _, pos), pos)",
                 .make   = "latent_attention(q, c, k, pos, qr)",
                 .params = latent_attention}},
};

/* ---- queries, keys and values ---- */

/* Sets the norm of heads if queries and keys both have it, with one eps. Two kinds of norm at once do not
 * fit. */
static bool one_norm(const RpPatternMatch *m, const char *of_q, const char *of_k, RpHeadNorm kind, RpQkvParams *out) {
    const RpOpParams *q = params_of(m, of_q), *k = params_of(m, of_k);
    if (q == NULL && k == NULL) return true;
    if (q == NULL || k == NULL || q->rms_norm.eps != k->rms_norm.eps || out->norm != RP_HEAD_NORM_NONE) return false;
    out->norm     = kind;
    out->norm_eps = q->rms_norm.eps;
    return true;
}

/* Values may be normed like the heads of queries and keys, without weights. */
static bool norm_of_values(const RpPatternMatch *m, RpQkvParams *out) {
    const TensorNode *v = rp_match_node(m, "nv");
    if (v == NULL) return true;
    out->value_norm = 1;
    return out->norm == RP_HEAD_NORM_EACH && v->params.rms_norm.eps == out->norm_eps && rp_node_source(v, 1) == NULL;
}

static bool stores_heads(const RpPatternMatch *m) {
    return swaps_tokens_and_heads(&params_of(m, "pk")->permute) && swaps_tokens_and_heads(&params_of(m, "pv")->permute);
}

/* The row below matches three chains, with optional ops in brackets:
 *
 *     q:  wq x [+ bq] -> [fq: norm of the row] -> heads -> [nq: norm of each head] -> rope
 *     k:  wk x [+ bk] -> [fk: norm of the row] -> heads -> [nk: norm of each head] -> rope -> pk -> store into k
 *     v:  wv x [+ bv] -> heads -> [nv: norm of each head, without weights] -> pv -> store into v
 *
 * pk and pv: the heads [d,h,1] as one row of each head of a cache [d,n_ctx,h]. */
static bool qkv(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *q = rp_match_node(m, "rq"), *k = rp_match_node(m, "rk");
    if (memcmp(&q->params.rope, &k->params.rope, sizeof q->params.rope) != 0 || !stores_heads(m)) return false;
    if (q->view.ne[0] != k->view.ne[0] || q->view.ne[2] != 1) return false;
    out->qkv = (RpQkvParams){.head_dim = (int32_t)q->view.ne[0], .rope = q->params.rope};
    return one_norm(m, "nq", "nk", RP_HEAD_NORM_EACH, &out->qkv) &&
           one_norm(m, "fq", "fk", RP_HEAD_NORM_WHOLE, &out->qkv) && norm_of_values(m, &out->qkv);
}

/* One product with its norm and rotation, such as the queries of a layer that attends to the caches of another one. */
static bool queries(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *q = rp_match_node(m, "rq"), *each = rp_match_node(m, "nq"), *whole = rp_match_node(m, "fq");
    if (q->view.ne[2] != 1 || (each != NULL && whole != NULL)) return false;
    out->qkv = (RpQkvParams){.head_dim = (int32_t)q->view.ne[0], .rope = q->params.rope};
    if (each == NULL && whole == NULL) return true;
    out->qkv.norm     = each != NULL ? RP_HEAD_NORM_EACH : RP_HEAD_NORM_WHOLE;
    out->qkv.norm_eps = (each != NULL ? each : whole)->params.rms_norm.eps;
    return true;
}

/* Queries, keys and values without rotation. */
static bool qkv_in_place(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *q = rp_match_node(m, "rq"), *k = rp_match_node(m, "rk");
    if (q->view.ne[0] != k->view.ne[0] || q->view.ne[2] != 1 || !stores_heads(m)) return false;
    out->qkv = (RpQkvParams){.head_dim = (int32_t)q->view.ne[0]};
    return true;
}

/* Queries with gates: the views of a row of heads query, gate, query, gate, ... */
static bool gated_qkv(const RpPatternMatch *m, RpOpParams *out) {
    if (!qkv(m, out)) return false;
    const RpTensorView *q = &rp_match_node(m, "vq")->view, *gate = &rp_match_node(m, "vg")->view;
    const size_t        head = (size_t)q->ne[0] * sizeof(float), row = 2 * head;
    const RpViewParams *of_q = &params_of(m, "vq")->view, *of_gate = &params_of(m, "vg")->view;
    out->qkv.gates = 1;
    return memcmp(q->ne, gate->ne, sizeof q->ne) == 0 && of_q->offset == 0 && of_gate->offset == head &&
           q->nb[0] == sizeof(float) && gate->nb[0] == sizeof(float) && q->nb[1] == row && gate->nb[1] == row;
}

/* The result has the queries, then the gates:
 *
 *     made                      queries [d,h] | gates [d,h]
 *     rq (was rope)             view of the first h rows
 *     sg (was sigmoid(vg))      sigmoid of a view of the others
 *     ck, cv (were stores)      the caches after made */
static RpStatus qkv_and_gates(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                              TensorNode *const src[], int n_src) {
    static const RpOpParams none = {0};
    TensorNode             *q = m->roots[0], *open = m->roots[1];
    const int64_t           d = q->view.ne[0], h = q->view.ne[1];
    const size_t            row = rp_row_bytes(RP_F32, d), all = row * (size_t)h;
    RpOpParams              part = {
                     .view = {.ne = {d, h, 1, 1}, .nb = {0, row, all, all}}
    };
    TensorNode *made = rp_graph_make_op(g, RP_OP_QKV, params, src, n_src, q->name, q->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    RP_TRY(rp_graph_mutate(q, RP_OP_VIEW, &part, &made, 1));
    part.view.offset = all;
    TensorNode *gate = rp_graph_make_op(g, RP_OP_VIEW, &part, &made, 1, rp_match_node(m, "vg")->name, q->layer);
    if (gate == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, gate));
    RP_TRY(rp_graph_mutate(open, RP_OP_SIGMOID, &none, &gate, 1));
    for (int i = 2; i < m->pattern->n_roots; i++)
        RP_TRY(rp_graph_mutate(m->roots[i], RP_OP_AFTER, &none,
                               (TensorNode *const[]){m->roots[i]->from.store.target, made}, 2));
    return RP_OK;
}

/* Views of the parts of one row of x: `n` elements of each head or of the token, from element `from` on. */
static bool is_part(const RpPatternMatch *m, const char *view, int64_t from, int64_t n, size_t row) {
    const TensorNode *v = rp_match_node(m, view);
    return v->params.view.offset == (size_t)from * sizeof(float) && v->view.ne[0] == n &&
           v->view.nb[0] == sizeof(float) && (v->view.ne[1] == 1 || v->view.nb[1] == row);
}

/* Queries and the stores of latent attention, from its products:
 *
 *     q   [d+r, heads]    vn: first d elements -> [quantize] -> product with k_b    vr: the others -> rope
 *     kv  [n+r]           vc: first n elements -> norm -> store into the latents    vk: the others -> rope -> store */
static bool latent(const RpPatternMatch *m, RpOpParams *out) {
    const RpTensorView *kb = &rp_match_node(m, "kb")->view, *q = &rp_match_node(m, "q")->view;
    const RpOpParams   *rq = params_of(m, "rq"), *rk = params_of(m, "rk");
    const int64_t       d = kb->ne[0], n = kb->ne[1], r = rq->rope.n_dims;
    const size_t        row = (size_t)(d + r) * sizeof(float);
    if (memcmp(&rq->rope, &rk->rope, sizeof rq->rope) != 0 || params_of(m, "ql")->mul_mat.bound != RP_BOUND_NONE)
        return false;
    if (q->ne[2] != 1 || !swaps_tokens_and_heads(&params_of(m, "pq")->permute)) return false;
    if (!is_part(m, "vn", 0, d, row) || !is_part(m, "vr", d, r, row) || !is_part(m, "vc", 0, n, 0) ||
        !is_part(m, "vk", n, r, 0))
        return false;
    out->latent = (RpLatentParams){
        .round = rp_match_node(m, "z") != NULL, .eps = params_of(m, "m")->rms_norm.eps, .rope = rq->rope};
    return true;
}

/* Both kinds of queries become views of one result, and the caches come after it:
 *
 *     made                      k_b q [n,h] | rotated [r,h]
 *     ql (was mul_mat)          view [n,1,h] of the first
 *     rq (was rope)             view [r,h] of the second */
static RpStatus latent_parts(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                             TensorNode *const src[], int n_src) {
    static const RpOpParams none = {0};
    TensorNode             *ql = m->roots[0], *rq = m->roots[1];
    const int64_t           n = ql->view.ne[0], h = ql->view.ne[2], r = rq->view.ne[0];
    const size_t            row = rp_row_bytes(RP_F32, n), rotated = rp_row_bytes(RP_F32, r);
    const RpOpParams        first = {
               .view = {.ne = {n, 1, h, 1}, .nb = {0, row, row, row * (size_t)h}}
    };
    const RpOpParams second = {
        .view = {.ne     = {r, h, 1, 1},
                 .nb     = {0, rotated, rotated * (size_t)h, rotated * (size_t)h},
                 .offset = row * (size_t)h}
    };
    TensorNode *made = rp_graph_make_op(g, RP_OP_LATENT, params, src, n_src, ql->name, ql->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    RP_TRY(rp_graph_mutate(ql, RP_OP_VIEW, &first, &made, 1));
    RP_TRY(rp_graph_mutate(rq, RP_OP_VIEW, &second, &made, 1));
    for (int i = 2; i < m->pattern->n_roots; i++)
        RP_TRY(rp_graph_mutate(m->roots[i], RP_OP_AFTER, &none,
                               (TensorNode *const[]){m->roots[i]->from.store.target, made}, 2));
    return RP_OK;
}

/* The token is stored in row `at` of the caches: its position "pos", or in a cache of blocks a row of its own. */
#define QUERIES "rope:rq(rms_norm?:nq(reshape(rms_norm?:fq(add?(mul_mat(wq, x), bq), qn?)), qn?), pos, f?)"
#define QKV(at)                                                                                                        \
    QUERIES                                                                                                            \
    ";"                                                                                                                \
    "copy(permute:pk(rope:rk(rms_norm?:nk(reshape(rms_norm?:fk(add?(mul_mat(wk, x), bk), kn?)), kn?), pos, f?)), "     \
    "k, " at "); copy(permute:pv(rms_norm?:nv(reshape(add?(mul_mat(wv, x), bv)))), v, " at ")"
#define UNROTATED_QKV                                                                                                  \
    "reshape:rq(add?(mul_mat(wq, x), bq)); copy(permute:pk(reshape:rk(add?(mul_mat(wk, x), bk))), k, pos);"            \
    "copy(permute:pv(reshape(add?(mul_mat(wv, x), bv))), v, pos)"
#define GATED_QKV(at)                                                                                                  \
    "rope:rq(rms_norm?:nq(view:vq(add?(mul_mat(wq, x), bq)), qn?), pos, f?);"                                          \
    "sigmoid(view:vg(add?(mul_mat(wq, x), bq)));"                                                                      \
    "copy(permute:pk(rope:rk(rms_norm?:nk(reshape(add?(mul_mat(wk, x), bk)), kn?), pos, f?)), k, " at ");"             \
    "copy(permute:pv(reshape(add?(mul_mat(wv, x), bv))), v, " at ")"
#define LATENT(at)                                                                                                     \
    "mul_mat:ql(kb, quantize?:z(permute:pq(view:vn(q)))); rope:rq(view:vr(q), pos, f?);"                               \
    "copy(rms_norm:m(view:vc(kv), n?), c, " at "); copy(reshape(rope:rk(view:vk(kv), pos, f?)), k, " at ")"

#define MADE_QKV    "qkv(wq, x, pos, wk, wv, k, v, _, bq, bk, bv, qn, kn, f"
#define MADE_LATENT "latent(kb, q, kv, pos, c, k, n, f"

#define ROW(of, made, parameters, rewritten)                                                                           \
    { .pattern = {.match = of, .make = made, .params = parameters}, .rewrite = rewritten }

static const PatternRow whole[] = {
    ROW(QKV("pos"), MADE_QKV ")", qkv, NULL),
    ROW(QKV("at"), MADE_QKV ", at)", qkv, NULL),
    ROW(UNROTATED_QKV, "qkv(wq, x, pos, wk, wv, k, v, _, bq, bk, bv)", qkv_in_place, NULL),
    ROW(GATED_QKV("pos"), MADE_QKV ")", gated_qkv, qkv_and_gates),
    ROW(GATED_QKV("at"), MADE_QKV ", at)", gated_qkv, qkv_and_gates),
    ROW(LATENT("pos"), MADE_LATENT ")", latent, latent_parts),
    ROW(LATENT("at"), MADE_LATENT ", at)", latent, latent_parts),
};

/* Keys that come before the queries look like queries alone. So these are matched after all that stand beside keys. */
static const PatternRow alone[] = {
    ROW(QUERIES, "qkv(wq, x, pos, _, _, _, _, _, bq, _, _, qn, _, f)", queries, NULL),
};

RpStatus rp_pass_qkv(ComputeGraph *g) {
    RP_TRY(rp_pattern_apply(g, whole, sizeof whole / sizeof whole[0]));
    return rp_pattern_apply(g, alone, sizeof alone / sizeof alone[0]);
}
