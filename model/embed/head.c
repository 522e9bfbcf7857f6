/* The graph behind pooling: dense layers, the classification head, and the norm of the result. */
#include "model/arch.h"
#include "model/embed/embedder.h"

#include <math.h>

static const float one = 1.0f;

/* norm(act(cls x + bias)), act = tanh or gelu */
static TensorNode *class_hidden(Builder *b, TensorNode *x) {
    const EmbedWeights *w = &b->m->embed;
    TensorNode         *y = rp_arch_linear(b, x, w->cls, w->cls_bias, "cls");
    if (b->m->config.arch->head_gelu)
        y = rp_arch_name_node(b, rp_gelu(b->g, y, RP_GELU_TANH), "cls_act");
    else
        y = rp_arch_soft_cap(b, y, 1.0f, rp_arch_cap(b, &one, "cls_one"), "cls_act"); /* 1 * tanh(y / 1) */
    return w->cls_norm != NULL ? rp_arch_norm(b, y, w->cls_norm, "cls_norm") : y;
}

static TensorNode *head(Builder *b, TensorNode *x, RpPooling pooling) {
    const EmbedWeights *w = &b->m->embed;
    if (pooling == RP_POOLING_RANK) {
        if (w->cls != NULL) x = class_hidden(b, x);
        if (w->cls_out != NULL) x = rp_arch_linear(b, x, w->cls_out, w->cls_out_bias, "cls_out");
        if (b->m->config.arch->head_soft_max) x = rp_soft_max(b->g, x, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
        return rp_arch_name_node(b, x, "embedding");
    }
    if (w->dense_2 != NULL) x = rp_arch_linear(b, x, w->dense_2, w->dense_2_bias, "dense_2");
    if (w->dense_3 != NULL) x = rp_arch_linear(b, x, w->dense_3, NULL, "dense_3");
    return rp_arch_name_node(b, x, "embedding");
}

RpStatus rp_embed_head_graph(const RpModel *m, RpPooling pooling, ComputeGraph **out) {
    const EmbedWeights *w = &m->embed;
    *out                  = NULL;
    if (pooling != RP_POOLING_RANK && w->dense_2 == NULL && w->dense_3 == NULL) return RP_OK;
    ComputeGraph *g = rp_graph_new();
    if (g == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    Builder        b  = {.m = m, .g = g, .n_tok = 1, .layer = -1};
    TensorNode    *x  = rp_graph_input(g, "pooled", RP_F32, (int64_t[]){m->config.n_embd, 1, 1, 1});
    TensorNode    *y  = head(&b, x, pooling);
    const RpStatus st = rp_graph_finish(g, &y, 1);
    if (st != RP_OK) {
        rp_graph_free(g);
        return st;
    }
    *out = g;
    return RP_OK;
}

void rp_embed_normalize(const float *x, int32_t n, int32_t normalize, float *out) {
    double norm = 0.0;
    for (int32_t i = 0; i < n; i++) {
        const double a = fabs((double)x[i]);
        if (normalize == RP_NORMALIZE_MAX)
            norm = a > norm ? a : norm;
        else if (normalize > 0)
            norm += normalize == 1 ? a : normalize == 2 ? a * a : pow(a, normalize);
    }
    if (normalize == RP_NORMALIZE_MAX) norm /= 32760.0;
    if (normalize == 2) norm = sqrt(norm);
    if (normalize > 2) norm = pow(norm, 1.0 / normalize);
    const double by = normalize == RP_NORMALIZE_NONE ? 1.0 : norm > 0.0 ? 1.0 / norm : 0.0;
    for (int32_t i = 0; i < n; i++) out[i] = (float)((double)x[i] * by);
}
