/* The row of pass `projections`: products of one column that no other pass has fused, such as those of a delta net. */
#include "graph/patterns.h"

/* Columns must be alike, but float weights read it without the quantisation. */
static bool projections(const RpPatternMatch *m, RpOpParams *out) {
    static const char *const products[] = {"a", "b", "c", "d"};
    RpColumnParams          *c          = &out->projections.column;
    for (int i = 0; i < 4; i++) {
        const TensorNode *n = rp_match_node(m, products[i]);
        if (n == NULL) continue;
        const RpLinearParams *p = &n->params.linear;
        if (p->scale != 1.0f || p->act != RP_LINEAR_ACT_NONE || p->post_norm != 0 ||
            n->from.linear.w->kind != NODE_WEIGHT)
            return false;
        if (i > 0 && (p->column.norm != c->norm || p->column.eps != c->eps)) return false;
        const int32_t round = c->round;
        *c                  = p->column;
        if (round != 0) c->round = 1;
    }
    for (int i = 0; i < 4; i++) {
        const TensorNode *n = rp_match_node(m, products[i]);
        if (n == NULL) continue;
        const bool quant = rp_dtype_is_quant(n->from.linear.w->view.dtype);
        if (n->params.linear.column.round != (quant ? c->round : 0)) return false;
    }
    return true;
}

/* The matched products become views of the parts of one result. */
static RpStatus join_products(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                              TensorNode *const src[], int n_src) {
    const TensorNode *first  = m->roots[0];
    size_t            offset = 0;
    TensorNode       *made   = rp_graph_make_op(g, RP_OP_PROJECTIONS, params, src, n_src, first->name, first->layer);
    if (made == NULL) return rp_fail(g->status, "%s", g->error);
    RP_TRY(rp_graph_push(g, made));
    for (int i = 0; i < m->pattern->n_roots; i++) {
        const int64_t    n    = m->roots[i]->view.ne[0];
        const size_t     row  = rp_row_bytes(RP_F32, n);
        const RpOpParams part = {
            .view = {.ne = {n, 1, 1, 1}, .nb = {0, row, row, row}, .offset = offset}
        };
        RP_TRY(rp_graph_mutate(m->roots[i], RP_OP_VIEW, &part, &made, 1));
        offset += row;
    }
    return RP_OK;
}

const PatternRow rp_patterns_projections[] = {
    {.pattern = {.match  = "linear:a(wa, x, n?); linear:b(wb, x, n?); linear:c(wc, x, n?); linear:d(wd, x, n?)",
                 .make   = "projections(wa, wb, x, n, wc, wd)",
                 .params = projections},
     .rewrite = join_products},
    {.pattern = {.match  = "linear:a(wa, x, n?); linear:b(wb, x, n?); linear:c(wc, x, n?)",
                 .make   = "projections(wa, wb, x, n, wc)",
                 .params = projections},
     .rewrite = join_products},
    {.pattern = {.match  = "linear:a(wa, x, n?); linear:b(wb, x, n?)",
                 .make   = "projections(wa, wb, x, n)",
                 .params = projections},
     .rewrite = join_products},
};
