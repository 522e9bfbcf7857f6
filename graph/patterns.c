/* The fusions, one row each: a pattern, the fused op that replaces it, and a function that fills in the parameters. A
 * match is refused if that function returns false, or if the shape rule of the fused op refuses its sources. Most fused
 * ops take one token only, which their shape rules check; so these rows match in decode plans and not in prefills. */
#include "graph/patterns.h"

/* Short names in the texts:  w, wq, wk, wv weights;  x activations;  n norm weight;  b bias;  r residual;
 * pn weight of the post-norm;  p routing weights;  f rope factors, or the factor of linear;  sn weight of the norm of a
 * sum;  sr second residual;  "_" an absent source. */

/* ---- gate and up of a feed-forward ---- */

static bool silu(const RpPatternMatch *m, RpOpParams *out) {
    (void)m;
    out->gate_up.kind = RP_GATE_SILU;
    return true;
}

static bool gelu(const RpPatternMatch *m, RpOpParams *out) {
    const bool by_tanh = params_of(m, "act")->gelu.kind == RP_GELU_TANH;
    out->gate_up.kind  = by_tanh ? RP_GATE_GELU_TANH : RP_GATE_GELU_ERF;
    return true;
}

static bool oai(const RpPatternMatch *m, RpOpParams *out) {
    const RpSwigluOaiParams *p = &params_of(m, "act")->swiglu_oai;
    out->gate_up               = (RpGateUpParams){.kind = RP_GATE_OAI, .alpha = p->alpha, .limit = p->limit};
    return true;
}

/* The gates of delta nets and of attention. */
static bool normed_silu(const RpPatternMatch *m, RpOpParams *out) {
    out->gated = (RpGatedParams){.norm = 1, .silu = 1, .eps = params_of(m, "n")->rms_norm.eps};
    return true;
}

static bool by_sigmoid(const RpPatternMatch *m, RpOpParams *out) {
    (void)m;
    out->gated = (RpGatedParams){0};
    return true;
}

const PatternRow rp_patterns_gate[] = {
    {.pattern = {.match = "mul(silu(mul_mat(g, x)), mul_mat(u, x))", .make = "gate_up(g, u, x)", .params = silu}},
    {.pattern = {.match = "mul(gelu:act(mul_mat(g, x)), mul_mat(u, x))", .make = "gate_up(g, u, x)", .params = gelu}},
    {.pattern = {.match  = "mul(silu(mul_mat_id(g, x, ids)), mul_mat_id(u, x, ids))",
                 .make   = "gate_up(g, u, x, _, ids)",
                 .params = silu}},
    {.pattern = {.match  = "mul(gelu:act(mul_mat_id(g, x, ids)), mul_mat_id(u, x, ids))",
                 .make   = "gate_up(g, u, x, _, ids)",
                 .params = gelu}},
    {.pattern = {.match  = "swiglu_oai:act(add_id?(mul_mat_id(g, x, ids), gb, ids), add_id?(mul_mat_id(u, x, "
                           "ids), ub, ids))",
                 .make   = "gate_up(g, u, x, _, ids, gb, ub)",
                 .params = oai}},
    {.pattern = {.match = "mul(reshape?(silu(z)), rms_norm:n(x, w))", .make = "gated(x, z, w)", .params = normed_silu}},
    {.pattern = {.match = "mul(x, sigmoid(z))", .make = "gated(x, z)", .params = by_sigmoid}},
};

/* ---- routing ---- */

static bool route(const RpPatternMatch *m, RpRouterKind kind, RpOpParams *out) {
    out->router.kind  = kind;
    out->router.top_k = params_of(m, "ids")->top_k;
    out->router.route = params_of(m, "share")->route;
    return true;
}

static bool route_soft_max(const RpPatternMatch *m, RpOpParams *out) {
    const RpSoftMaxParams *p   = &params_of(m, "probs")->soft_max;
    out->router.soft_max_scale = p->scale;
    return p->window == 0 && route(m, RP_ROUTER_SOFT_MAX, out);
}

static bool route_sigmoid(const RpPatternMatch *m, RpOpParams *out) { return route(m, RP_ROUTER_SIGMOID, out); }
static bool route_logits(const RpPatternMatch *m, RpOpParams *out) { return route(m, RP_ROUTER_LOGITS, out); }

/* The router has one result for both roots, i32 [k,2], which views take apart again:
 *
 *     made                      ids[0..k) i32 | weights[0..k) f32, as bits
 *     ids (was top_k)           view of row 0
 *     share (was route)         row 1 as f32: bits(view) */
static RpStatus router(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params, TensorNode *const src[],
                       int n_src) {
    TensorNode      *share = m->roots[0], *ids = m->roots[1];
    const int64_t    k     = ids->view.ne[0];
    const size_t     row   = (size_t)k * sizeof(int32_t);
    const RpOpParams first = {
        .view = {.ne = {k, 1, 1, 1}, .nb = {0, row, row, row}}
    };
    const RpOpParams second = {
        .view = {.ne = {k, 1, 1, 1}, .nb = {0, row, row, row}, .offset = row}
    };
    const RpOpParams floats = {.bits = {.dtype = RP_F32}};
    TensorNode      *made   = rp_graph_make_op(g, RP_OP_ROUTER, params, src, n_src, share->name, share->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    TensorNode *weights = rp_graph_make_op(g, RP_OP_VIEW, &second, &made, 1, share->name, share->layer);
    if (weights == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, weights));
    RP_TRY(rp_graph_mutate(ids, RP_OP_VIEW, &first, &made, 1));
    return rp_graph_mutate(share, RP_OP_BITS, &floats, &weights, 1);
}

#define ROUTER_ROW(probs, made, function)                                                                              \
    {                                                                                                                  \
        .pattern = {.match  = "route:share(" probs ", ids); top_k:ids(" probs ", cb?)",                                \
                    .make   = made,                                                                                    \
                    .params = function},                                                                               \
        .rewrite = router                                                                                              \
    }

const PatternRow rp_patterns_router[] = {
    ROUTER_ROW("soft_max:probs(add?(mul_mat(w, x), b))", "router(w, x, _, b, cb)", route_soft_max),
    ROUTER_ROW("sigmoid(add?(mul_mat(w, x), b))", "router(w, x, _, b, cb)", route_sigmoid),
    ROUTER_ROW("add(mul_mat(w, x), b)", "router(w, x, _, b, cb)", route_logits),
    ROUTER_ROW("mul_mat(w, x)", "router(w, x, _, _, cb)", route_logits),
};

/* ---- epilogues: bias, scale, activation, norms, residuals, factor ---- */

static bool experts(const RpPatternMatch *m, RpOpParams *out) {
    (void)m;
    out->experts_down.scale = 1.0f;
    return true;
}

static bool experts_of_scales(const RpPatternMatch *m, RpOpParams *out) {
    const float scale = params_of(m, "s")->get_rows.scale;
    return experts(m, out) && (scale == 0.0f || scale == 1.0f);
}

static bool normed_experts(const RpPatternMatch *m, RpOpParams *out) {
    out->experts_down           = params_of(m, "e")->experts_down;
    out->experts_down.post_norm = 1;
    out->experts_down.post_eps  = params_of(m, "n")->rms_norm.eps;
    return params_of(m, "e")->experts_down.post_norm == 0;
}

static bool scaled_experts(const RpPatternMatch *m, RpOpParams *out) {
    const RpScaleParams *s  = &params_of(m, "s")->scale;
    out->experts_down.scale = s->scale;
    return s->bias == 0.0f && params_of(m, "e")->experts_down.scale == 1.0f &&
           params_of(m, "e")->experts_down.post_norm == 0;
}

const PatternRow rp_patterns_experts[] = {
    {.pattern = {.match  = "combine(add_id?(mul_mat_id(w, x, ids), b, ids), mul(p, reshape?(get_rows:s(reshape?(es), "
                           "reshape?(ids)))))",
                 .make   = "experts_down(w, x, ids, p, b, _, _, _, es)",
                 .params = experts_of_scales}},
    {.pattern = {.match  = "combine(add_id?(mul_mat_id(w, x, ids), b, ids), p)",
                 .make   = "experts_down(w, x, ids, p, b)",
                 .params = experts}},
    {.pattern = {.match  = "scale:s(experts_down:e(w, x, ids, p, b?, _, _, _, es?))",
                 .make   = "experts_down(w, x, ids, p, b, _, _, _, es)",
                 .params = scaled_experts}},
    {.pattern = {.match  = "rms_norm:n(experts_down:e(w, x, ids, p, b?, _, _, _, es?), pn?)",
                 .make   = "experts_down(w, x, ids, p, b, _, _, _, es, pn)",
                 .params = normed_experts}},
};

/* Parameters of a linear op: those of the matched one ("l"), or the defaults where the product is still a
 * mul_mat. */
static bool linear(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *l = rp_match_node(m, "l");
    if (l != NULL) out->linear = l->params.linear;
    if (l == NULL) out->linear.scale = 1.0f;
    return true;
}

/* A bias is a weight. Any other addend is a residual, which the residual pass fuses. */
static bool biased(const RpPatternMatch *m, RpOpParams *out) {
    return rp_match_node(m, "b")->kind == NODE_WEIGHT && linear(m, out);
}

/* The fused order is post_norm(act(scale * (w x + bias))), so a scale after a scale, an activation or a norm does not
 * fit. */
static bool scaled(const RpPatternMatch *m, RpOpParams *out) {
    const RpScaleParams *s = &params_of(m, "s")->scale;
    if (!linear(m, out) || out->linear.scale != 1.0f || out->linear.act != RP_LINEAR_ACT_NONE ||
        out->linear.post_norm != 0)
        return false;
    out->linear.scale = s->scale;
    return s->bias == 0.0f;
}

static bool activated(const RpPatternMatch *m, RpLinearAct act, RpOpParams *out) {
    if (!linear(m, out) || out->linear.act != RP_LINEAR_ACT_NONE || out->linear.post_norm != 0) return false;
    out->linear.act = act;
    return true;
}

static bool linear_silu(const RpPatternMatch *m, RpOpParams *out) { return activated(m, RP_LINEAR_ACT_SILU, out); }

static bool linear_relu_sqr(const RpPatternMatch *m, RpOpParams *out) {
    return activated(m, RP_LINEAR_ACT_RELU_SQR, out);
}

static bool linear_gelu(const RpPatternMatch *m, RpOpParams *out) {
    const bool by_tanh = params_of(m, "act")->gelu.kind == RP_GELU_TANH;
    return activated(m, by_tanh ? RP_LINEAR_ACT_GELU_TANH : RP_LINEAR_ACT_GELU_ERF, out);
}

static bool sum_normed(const RpPatternMatch *m, RpOpParams *out) {
    if (!linear(m, out) || out->linear.post_norm == 0 || out->linear.sum_norm != 0) return false;
    out->linear.sum_norm = 1;
    out->linear.sum_eps  = params_of(m, "p")->rms_norm.eps;
    return true;
}

static bool post_normed(const RpPatternMatch *m, RpOpParams *out) {
    if (!linear(m, out) || out->linear.post_norm != 0) return false;
    out->linear.post_norm = 1;
    out->linear.post_eps  = params_of(m, "p")->rms_norm.eps;
    return true;
}

const PatternRow rp_patterns_linear[] = {
    {.pattern = {.match = "add(mul_mat(w, x), b)", .make = "linear(w, x, _, b)", .params = biased}},
    {.pattern = {.match = "scale:s(mul_mat(w, x))", .make = "linear(w, x)", .params = scaled}},
    {.pattern = {.match = "scale:s(linear:l(w, x, n?, b?))", .make = "linear(w, x, n, b)", .params = scaled}},
    {.pattern = {.match = "silu(mul_mat(w, x))", .make = "linear(w, x)", .params = linear_silu}},
    {.pattern = {.match = "silu(linear:l(w, x, n?, b?))", .make = "linear(w, x, n, b)", .params = linear_silu}},
    {.pattern = {.match = "gelu:act(mul_mat(w, x))", .make = "linear(w, x)", .params = linear_gelu}},
    {.pattern = {.match = "gelu:act(linear:l(w, x, n?, b?))", .make = "linear(w, x, n, b)", .params = linear_gelu}},
    {.pattern = {.match = "relu_sqr(mul_mat(w, x))", .make = "linear(w, x)", .params = linear_relu_sqr}},
    {.pattern = {.match = "relu_sqr(linear:l(w, x, n?, b?))", .make = "linear(w, x, n, b)", .params = linear_relu_sqr}},
};

static bool same_experts(const RpPatternMatch *m, RpOpParams *out) {
    out->experts_down = params_of(m, "e")->experts_down;
    return true;
}

/* A norm behind `linear` that no residual follows belongs to the products that read it: latent attention has such
 * norms. Behind experts_down a norm is always one of its result. */
const PatternRow rp_patterns_residual[] = {
    {.pattern = {.match  = "add(rms_norm:p(mul_mat(w, x), pn?), r)",
                 .make   = "linear(w, x, _, _, r, pn)",
                 .params = post_normed}},
    {.pattern = {.match  = "add(rms_norm:p(linear:l(w, x, n?, b?), pn?), r)",
                 .make   = "linear(w, x, n, b, r, pn)",
                 .params = post_normed}},
    {.pattern = {.match = "add(mul_mat(w, x), r)", .make = "linear(w, x, _, _, r)", .params = linear}},
    {.pattern = {.match  = "add(linear:l(w, x, n?, b?, _, pn?), r)",
                 .make   = "linear(w, x, n, b, r, pn)",
                 .params = linear}},
    {.pattern = {.match  = "add(linear:l(w, x, n?, b?, r, pn?), sr)",
                 .make   = "linear(w, x, n, b, r, pn, _, _, sr)",
                 .params = linear}},
    {.pattern = {.match  = "add(rms_norm:p(linear:l(w, x, n?, b?, r, pn?), sn?), sr)",
                 .make   = "linear(w, x, n, b, r, pn, _, sn, sr)",
                 .params = sum_normed}},
    {.pattern = {.match = "mul(mul_mat(w, x), f)", .make = "linear(w, x, _, _, _, _, f)", .params = linear}},
    {.pattern = {.match  = "mul(linear:l(w, x, n?, b?, r?, pn?, _, sn?, sr?), f)",
                 .make   = "linear(w, x, n, b, r, pn, f, sn, sr)",
                 .params = linear}},
    {.pattern = {.match  = "add(experts_down:e(w, x, ids, p, b?, _, _, _, es?, pn?), r)",
                 .make   = "experts_down(w, x, ids, p, b, r, _, _, es, pn)",
                 .params = same_experts}},
};

/* ---- prologues: norm and quantisation of the column ----
 *
 * The matched norm and quantize are marked "~": they stay for readers that keep them, and die if all
 * readers are fused. Each fused product computes them again, which is cheaper than a separate kernel and
 * its launch or barrier. */

static bool column(const RpPatternMatch *m, RpColumnParams *out) {
    if (out->norm != 0 || out->round != 0) return false;
    *out = (RpColumnParams){.norm = 1, .eps = params_of(m, "m")->rms_norm.eps, .round = rp_match_node(m, "z") != NULL};
    return true;
}

static bool norm_linear(const RpPatternMatch *m, RpOpParams *out) {
    return linear(m, out) && column(m, &out->linear.column);
}

static bool norm_gate(const RpPatternMatch *m, RpOpParams *out) {
    out->gate_up = params_of(m, "g")->gate_up;
    return column(m, &out->gate_up.column);
}

static bool norm_qkv(const RpPatternMatch *m, RpOpParams *out) {
    out->qkv = params_of(m, "qkv")->qkv;
    return column(m, &out->qkv.column);
}

static bool norm_router(const RpPatternMatch *m, RpOpParams *out) {
    out->router = params_of(m, "r")->router;
    return column(m, &out->router.column);
}

static bool quantized_router(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *z = rp_match_node(m, "z");
    if ((z->tag == 0 && !z->is_output) || !norm_router(m, out)) return false; /* tag: its readers */
    out->router.column.round = 0;
    out->router.quantize     = 1;
    return true;
}

/* A router with float weights also stores the column that the products of the experts read as q8_act. Both become views
 * of its result:
 *
 *     made                      ids[0..k) | weights[0..k) [| gate of a shared expert] | q8_act column
 *     r (was router)            view of the rows before the column
 *     z (was quantize)          the words behind them as q8_act: bits(view) */
static RpStatus router_and_column(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                                  TensorNode *const src[], int n_src) {
    TensorNode   *r = m->roots[0], *z = m->roots[1];
    const int64_t k = r->view.ne[0], words = (int64_t)rp_row_bytes(RP_Q8_ACT, z->view.ne[0]) / 4;
    const size_t  row = (size_t)k * sizeof(int32_t), all = (size_t)words * sizeof(int32_t),
                 before     = row * (size_t)r->view.ne[1];
    const RpOpParams choice = {
        .view = {.ne = {k, r->view.ne[1], 1, 1}, .nb = {0, row, before, before}}
    };
    const RpOpParams behind = {
        .view = {.ne = {words, 1, 1, 1}, .nb = {0, all, all, all}, .offset = before}
    };
    const RpOpParams q8   = {.bits = {.dtype = RP_Q8_ACT}};
    TensorNode      *made = rp_graph_make_op(g, RP_OP_ROUTER, params, src, n_src, r->name, r->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    TensorNode *column = rp_graph_make_op(g, RP_OP_VIEW, &behind, &made, 1, z->name, z->layer);
    if (column == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, column));
    RP_TRY(rp_graph_mutate(r, RP_OP_VIEW, &choice, &made, 1));
    return rp_graph_mutate(z, RP_OP_BITS, &q8, &column, 1);
}

#define COLUMN "quantize?~:z(reshape?~(rms_norm~:m(x, n?)))"

const PatternRow rp_patterns_norm[] = {
    {.pattern = {.match = "mul_mat(w, " COLUMN ")", .make = "linear(w, x, n)", .params = norm_linear}},
    {.pattern = {.match  = "linear:l(w, " COLUMN ", _, b?, r?, pn?, f?, sn?, sr?)",
                 .make   = "linear(w, x, n, b, r, pn, f, sn, sr)",
                 .params = norm_linear}                                                         },
    {.pattern = {.match  = "gate_up:g(a, u, " COLUMN ", _, ids?, ab?, ub?, sa?, su?)",
                 .make   = "gate_up(a, u, x, n, ids, ab, ub, sa, su)",
                 .params = norm_gate}                                                           },
    {.pattern = {.match  = "qkv:qkv(wq, " COLUMN ", pos, wk?, wv?, k?, v?, _, bq?, bk?, bv?, qn?, kn?, f?, at?)",
                 .make   = "qkv(wq, x, pos, wk, wv, k, v, n, bq, bk, bv, qn, kn, f, at)",
                 .params = norm_qkv}                                                            },
    {.pattern = {.match  = "router:r(w, rms_norm~:m(x, n?), _, b?, cb?, o?); quantize:z(reshape?~(rms_norm~:m(x, n?)))",
                 .make   = "router(w, x, n, b, cb, o)",
                 .params = quantized_router},
     .rewrite = router_and_column},
    {.pattern = {.match  = "router:r(w, " COLUMN ", _, b?, cb?, o?)",
                 .make   = "router(w, x, n, b, cb, o)",
                 .params = norm_router}                                                                                               },
};

static bool quantized_attention(const RpPatternMatch *m, RpOpParams *out) {
    if (dtype_of(m, "k") == RP_F32) return false; /* its result is f32 */
    out->attention       = params_of(m, "a")->attention;
    out->attention.dtype = RP_Q8_ACT;
    return true;
}

static bool quantized_latent(const RpPatternMatch *m, RpOpParams *out) {
    out->latent_attention       = params_of(m, "a")->latent_attention;
    out->latent_attention.dtype = RP_Q8_ACT;
    return true;
}

static bool quantized_gate(const RpPatternMatch *m, RpOpParams *out) {
    out->gate_up       = params_of(m, "g")->gate_up;
    out->gate_up.dtype = RP_Q8_ACT;
    return true;
}

static bool quantized_column_of_qkv(const RpPatternMatch *m, RpOpParams *out) {
    out->qkv = params_of(m, "qkv")->qkv;
    if (out->qkv.column.norm != 0 || out->qkv.column.round != 0) return false;
    out->qkv.column.round = 1;
    return true;
}

static bool quantized_column_of_gate(const RpPatternMatch *m, RpOpParams *out) {
    out->gate_up = params_of(m, "g")->gate_up;
    if (out->gate_up.column.norm != 0 || out->gate_up.column.round != 0) return false;
    out->gate_up.column.round = 1;
    return true;
}

/* If the producer of a column cannot quantise its result, the product that reads it quantises the column. */
static bool quantized_column(const RpPatternMatch *m, RpOpParams *out) {
    if (!linear(m, out) || out->linear.column.norm != 0 || out->linear.column.round != 0) return false;
    out->linear.column.round = 1;
    return true;
}

/* In the order of preference: the producer quantises its result, else its only reader quantises its
 * column. */
const PatternRow rp_patterns_round[] = {
    {.pattern = {.match  = "quantize(reshape?(attention:a(q, k, v, pos, sinks?, _, cap?, table?, seq?)))",
                 .make   = "attention(q, k, v, pos, sinks, _, cap, table, seq)",
                 .params = quantized_attention}},
    {.pattern = {.match  = "quantize(latent_attention:a(q, c, k, pos, qr, table?, seq?))",
                 .make   = "latent_attention(q, c, k, pos, qr, table, seq)",
                 .params = quantized_latent}},
    {.pattern = {.match  = "quantize(gate_up:g(a, u, x, n?, ids?, ab?, ub?, sa?, su?))",
                 .make   = "gate_up(a, u, x, n, ids, ab, ub, sa, su)",
                 .params = quantized_gate}},
    {.pattern = {.match  = "qkv:qkv(wq, quantize(x), pos, wk?, wv?, k?, v?, _, bq?, bk?, bv?, qn?, kn?, f?, at?)",
                 .make   = "qkv(wq, x, pos, wk, wv, k, v, _, bq, bk, bv, qn, kn, f, at)",
                 .params = quantized_column_of_qkv}},
    {.pattern = {.match  = "gate_up:g(a, u, quantize(x), _, ids?, ab?, ub?, sa?, su?)",
                 .make   = "gate_up(a, u, x, _, ids, ab, ub, sa, su)",
                 .params = quantized_column_of_gate}},
    {.pattern = {.match  = "linear:l(w, quantize(x), _, b?, r?, pn?, f?, sn?, sr?)",
                 .make   = "linear(w, x, _, b, r, pn, f, sn, sr)",
                 .params = quantized_column}},
    {.pattern = {.match = "mul_mat(w, quantize(x))", .make = "linear(w, x)", .params = quantized_column}},
};

/* ---- the embedding ---- */

/* RpGetRowsParams.scale == 0 means "no scale", so a scale of 0 is not fused. */
static bool scaled_rows(const RpPatternMatch *m, RpOpParams *out) {
    const RpScaleParams *s = &params_of(m, "s")->scale;
    out->get_rows.scale    = s->scale;
    return s->bias == 0.0f && s->scale != 0.0f && params_of(m, "g")->get_rows.scale == 0.0f;
}

const PatternRow rp_patterns_embed[] = {
    {.pattern = {.match = "scale:s(get_rows:g(w, ids))", .make = "get_rows(w, ids)", .params = scaled_rows}},
};
