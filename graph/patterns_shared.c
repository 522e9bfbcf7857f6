/* The rows of pass `shared`: an expert that every token uses, beside those that the router chooses. It becomes one more
 * column of gate_up and one more addend of experts_down, and its gate one more row of the router. */
#include "graph/patterns.h"

static const TensorNode *labelled(const RpPatternMatch *m, const char *label) { return rp_match_node(m, label); }

static bool opened_router(const RpPatternMatch *m, RpOpParams *out) {
    out->router = labelled(m, "r")->params.router;
    return out->router.quantize == 0 && labelled(m, "o")->kind == NODE_WEIGHT;
}

/* A view of elements [from, from + ne0) or rows of `of`; pushed. */
static RpStatus push_view(ComputeGraph *g, TensorNode *of, int64_t ne0, int64_t ne1, size_t offset,
                          const TensorNode *named, TensorNode **out) {
    const size_t     row  = rp_row_bytes(of->view.dtype, ne0);
    const RpOpParams part = {
        .view = {.ne = {ne0, ne1, 1, 1}, .nb = {0, row, row * (size_t)ne1, row * (size_t)ne1}, .offset = offset}
    };
    *out = rp_graph_make_op(g, RP_OP_VIEW, &part, &of, 1, named->name, named->layer);
    return *out != NULL ? rp_graph_push(g, *out) : rp_fail(g->status, "%s", g->error);
}

/* n becomes a view of rows [first, first + count) of `of`, whose rows are as long as those of n. */
static RpStatus become_rows(TensorNode *n, TensorNode *of, int64_t first, int64_t count) {
    const size_t     row  = rp_row_bytes(of->view.dtype, of->view.ne[0]);
    const size_t     all  = row * (size_t)count;
    const RpOpParams part = {
        .view = {.ne = {of->view.ne[0], count, 1, 1}, .nb = {0, row, all, all}, .offset = row * (size_t)first}
    };
    return rp_graph_mutate(n, RP_OP_VIEW, &part, &of, 1);
}

/* The router has two rows more, whose first element is the gate:
 *
 *     made                      ids[0..k) | weights[0..k) | gate, zeros
 *     r (was router)            view of the first two rows
 *     s (was sigmoid)           the first word of row 2 as f32: bits(view) */
static RpStatus router_and_gate(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                                TensorNode *const src[], int n_src) {
    TensorNode      *r = m->roots[0], *s = m->roots[1], *word;
    const RpOpParams floats = {.bits = {.dtype = RP_F32}};
    TensorNode      *made   = rp_graph_make_op(g, RP_OP_ROUTER, params, src, n_src, r->name, r->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    RP_TRY(push_view(g, made, 1, 1, 2 * rp_row_bytes(RP_I32, r->view.ne[0]), s, &word));
    RP_TRY(become_rows(r, made, 0, 2));
    return rp_graph_mutate(s, RP_OP_BITS, &floats, &word, 1);
}

/* Both read one column, as f32 or both quantised, and have one activation. */
static bool gate_ups(const RpPatternMatch *m, RpOpParams *out) {
    const TensorNode *e = labelled(m, "e"), *s = labelled(m, "s");
    out->gate_up = e->params.gate_up;
    return e->from.gate_up.x->view.dtype == s->from.gate_up.x->view.dtype &&
           out->gate_up.kind == s->params.gate_up.kind;
}

/* One gate_up, with the column of the shared expert behind the others; the two results become views of its result. */
static RpStatus joined_gate_up(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                               TensorNode *const src[], int n_src) {
    TensorNode   *e = m->roots[0], *s = m->roots[1], *all[RP_MAX_SRC];
    const int64_t k = e->view.ne[1];
    for (int i = 0; i < n_src; i++) all[i] = src[i];
    all[RP_SOURCE(gate_up, x)] = labelled(m, "e")->from.gate_up.x;
    TensorNode *made           = rp_graph_make_op(g, RP_OP_GATE_UP, params, all, n_src, e->name, e->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    RP_TRY(become_rows(e, made, 0, k));
    return become_rows(s, made, k, 1);
}

/* View a is the first rows of x, and b the only row behind them. */
static bool parts_of(const TensorNode *a, const TensorNode *b, const TensorNode *x) {
    const RpViewParams *of_a = &a->params.view, *of_b = &b->params.view;
    return of_a->offset == 0 && of_b->offset == x->view.nb[1] * (size_t)a->view.ne[1] && b->view.ne[1] == 1 &&
           a->view.ne[0] == x->view.ne[0] && b->view.ne[0] == x->view.ne[0] && a->view.ne[1] + 1 == x->view.ne[1];
}

static bool all_rows(const RpPatternMatch *m, RpOpParams *out) {
    (void)out;
    return parts_of(labelled(m, "a"), labelled(m, "b"), labelled(m, "x"));
}

/* One quantize of all rows; the two results become views of its result. */
static RpStatus joined_quantize(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                                TensorNode *const src[], int n_src) {
    TensorNode   *a = m->roots[0], *b = m->roots[1], *made;
    const int64_t k = a->view.ne[1];
    made            = rp_graph_make_op(g, RP_OP_QUANTIZE, params, src, n_src, a->name, a->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    RP_TRY(become_rows(a, made, 0, k));
    return become_rows(b, made, k, 1);
}

static bool experts_and_shared(const RpPatternMatch *m, RpOpParams *out) {
    out->experts_down = labelled(m, "e")->params.experts_down;
    return parts_of(labelled(m, "a"), labelled(m, "b"), labelled(m, "x"));
}

const PatternRow rp_patterns_shared[] = {
    {.pattern = {.match  = "router:r(w, x, _, b?, cb?); sigmoid(mul_mat(o, x))",
                 .make   = "router(w, x, _, b, cb, o)",
                 .params = opened_router},
     .rewrite = router_and_gate},
    {.pattern = {.match  = "gate_up:e(g, u, quantize?~(reshape?~(x)), _, ids); gate_up:s(sg, su, quantize?~(x))",
                 .make   = "gate_up(g, u, x, _, ids, _, _, sg, su)",
                 .params = gate_ups},
     .rewrite = joined_gate_up },
    {.pattern = {.match = "quantize(view:a(x)); quantize(view:b(x))", .make = "quantize(x)", .params = all_rows},
     .rewrite = joined_quantize},
    {.pattern = {.match  = "add(experts_down:e(w, view:a(x), ids, p), add(mul?(mul_mat(sw, view:b(x)), open), r))",
                 .make   = "experts_down(w, x, ids, p, _, r, sw, open)",
                 .params = experts_and_shared},
     .rewrite = NULL           },
};
