/* Parts that the builders of layers use: weights as nodes, names, norms and caches. */
#include "model/arch.h"

#include <stdio.h>

typedef struct WeightName {
    char text[128];
} WeightName;

static WeightName name_of(const RpGgufTensor *t) {
    WeightName name;
    snprintf(name.text, sizeof name.text, "%.*s",
             (int)(t->name.len < sizeof name.text ? t->name.len : sizeof name.text - 1), t->name.ptr);
    return name;
}

TensorNode *rp_arch_constant(Builder *b, const RpGgufTensor *t) {
    return t != NULL ? rp_graph_weight(b->g, name_of(t).text, &t->view) : NULL;
}

/* Made when it is first used. */
TensorNode *rp_arch_state(Builder *b, const RpGgufTensor *t) {
    ArchTraining *train = b->training;
    for (int i = 0; i < train->n_params; i++)
        if (train->params[i].tensor == t) return train->params[i].state;
    TensorNode *state                = rp_graph_state(b->g, name_of(t).text, RP_F32, t->view.ne);
    train->params[train->n_params++] = (ArchParam){t, state};
    return state;
}

/* The view points into the mapped file: the graph borrows the weight. */
TensorNode *rp_arch_weight(Builder *b, const RpGgufTensor *t) {
    return b->training != NULL && b->training->pairs == NULL ? rp_arch_state(b, t) : rp_arch_constant(b, t);
}

TensorNode *rp_arch_for_product(Builder *b, TensorNode *w) {
    const bool rounds = b->training != NULL && b->training->compute == RP_BF16 && b->training->pairs == NULL;
    return rounds ? rp_cast(b->g, w, RP_BF16) : w;
}

/* Routers stay f32: a choice of experts is easily changed by rounding. */
TensorNode *rp_arch_matrix(Builder *b, const RpGgufTensor *t) {
    const LayerWeights *l      = b->layer >= 0 ? &b->m->layers[b->layer] : NULL;
    const bool          routes = l != NULL && (t == l->router || t == l->shared_gate);
    return routes ? rp_arch_weight(b, t) : rp_arch_for_product(b, rp_arch_weight(b, t));
}

void rp_arch_note_product(Builder *b, const RpGgufTensor *w, TensorNode *x, TensorNode *ids) {
    ArchProducts *p = b->products;
    if (p != NULL && p->n < p->room) p->list[p->n++] = (ArchProduct){w, x, ids};
}

TensorNode *rp_arch_optional(Builder *b, const RpGgufTensor *t) { return t != NULL ? rp_arch_weight(b, t) : NULL; }

TensorNode *rp_arch_name_node(Builder *b, TensorNode *n, const char *what) {
    char name[64];
    if (b->layer < 0) return rp_node_set_name(n, what);
    snprintf(name, sizeof name, "blk.%d.%s", b->layer, what);
    return rp_node_set_name(n, name);
}

TensorNode *rp_arch_normed(Builder *b, TensorNode *x, ArchNorm norm, const char *what) {
    const float      eps = norm.eps > 0.0f ? norm.eps : b->m->config.norm_eps;
    TensorNode      *w   = rp_arch_optional(b, norm.w);
    const RpOpParams p   = {.layer_norm = {.eps = eps}};
    if (!b->m->config.arch->layer_norm) return rp_arch_name_node(b, rp_rms_norm(b->g, x, w, eps), what);
    TensorNode *const sources[] = {x, w, rp_arch_optional(b, norm.bias)};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_LAYER_NORM, &p, sources, 3), what);
}

TensorNode *rp_arch_norm(Builder *b, TensorNode *x, const RpGgufTensor *w, const char *what) {
    return rp_arch_normed(b, x, (ArchNorm){.w = w}, what);
}

TensorNode *rp_arch_part(Builder *b, TensorNode *x, ColumnPart p) {
    const size_t nb1 = rp_row_bytes(RP_F32, p.step), nb2 = rp_row_bytes(RP_F32, p.row);
    return rp_view(b->g, x,
                   &(RpViewParams){
                       .ne     = {p.n0, p.n1, b->n_tok, 1                     },
                       .nb     = {0,    nb1,  nb2,      nb2 * (size_t)b->n_tok},
                       .offset = rp_row_bytes(RP_F32, p.from)
    });
}

TensorNode *rp_arch_recurrent(Builder *b, const char *which, int64_t n) {
    char name[48];
    snprintf(name, sizeof name, "%s.%d", which, b->layer);
    return rp_graph_state(b->g, name, RP_F32, (int64_t[]){n, b->n_states, 1, 1});
}

TensorNode *rp_arch_cap(Builder *b, const float *cap, const char *name) {
    const RpTensorView v = rp_view_contiguous(RP_F32, (int64_t[]){1, 1, 1, 1}, (void *)(uintptr_t)cap);
    return rp_graph_weight(b->g, name, &v);
}

TensorNode *rp_arch_soft_cap(Builder *b, TensorNode *x, float scale, TensorNode *cap, const char *what) {
    const RpOpParams p = {.soft_cap = {.scale = scale}};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_SOFT_CAP, &p, (TensorNode *const[]){x, cap}, 2), what);
}

TensorNode *rp_arch_cached(Builder *b, TensorNode *x, int64_t d, int64_t heads, const char *which) {
    char name[48];
    snprintf(name, sizeof name, "%s.%d", which, b->layer);
    TensorNode *state =
        rp_graph_state(b->g, name, b->kv_type, (int64_t[]){d, rp_arch_cache_rows(b, &b->kind), heads, 1});
    TensorNode *rows = rp_arch_has_window_rows(b, &b->kind) ? b->window_rows : b->kv_rows;
    snprintf(name, sizeof name, "%s_store", which);
    return rp_arch_name_node(b, rp_store(b->g, x, state, rows), name);
}
