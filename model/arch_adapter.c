/* A product with a weight, and the nodes of its adapters (adapter.h):
 *
 *     x -+-> mul_mat w ------------------------------------> add -> y
 *        +-> mul_mat a [rank,t] -> mul_mat b -> scale -------^
 *
 * A pass that fuses products finds another reader or another source here and leaves them as they are. */
#include "model/arch.h"

#include <stdio.h>

static TensorNode *named(Builder *b, TensorNode *n, const char *what, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", what, suffix);
    return rp_arch_name_node(b, n, name);
}

/* Weights of the second and later adapters have the adapter's number in their name. */
static TensorNode *matrix(Builder *b, const AdapterPair *p, const RpGgufTensor *t) {
    if (b->training != NULL) return rp_arch_state(b, t);
    if (p->adapter == 0) return rp_arch_constant(b, t);
    char name[192];
    snprintf(name, sizeof name, "%.*s.%d", (int)(t->name.len < 128 ? t->name.len : 128), t->name.ptr, p->adapter);
    return rp_graph_weight(b->g, name, &t->view);
}

static TensorNode *add_pair(Builder *b, TensorNode *y, TensorNode *x, const AdapterPair *p, const char *what) {
    TensorNode *low  = named(b, rp_mul_mat(b->g, matrix(b, p, p->a), x), what, "_lora_a");
    TensorNode *part = named(b, rp_mul_mat(b->g, matrix(b, p, p->b), low), what, "_lora_b");
    if (p->scale != 1.0f) part = named(b, rp_scale(b->g, part, p->scale, 0.0f), what, "_lora_scaled");
    return named(b, rp_add(b->g, y, part), what, "_adapted");
}

TensorNode *rp_arch_adapted(Builder *b, TensorNode *y, TensorNode *x, const RpGgufTensor *w, const char *what) {
    const bool         trains = b->training != NULL && b->training->pairs != NULL;
    const AdapterPair *pairs  = trains ? b->training->pairs : b->m->pairs;
    const int          n      = trains ? b->training->n_pairs : b->m->n_pairs;
    for (int i = 0; i < n; i++)
        if (pairs[i].weight == w) y = add_pair(b, y, x, &pairs[i], what);
    return y;
}

TensorNode *rp_arch_linear(Builder *b, TensorNode *x, const RpGgufTensor *w, const RpGgufTensor *bias,
                           const char *what) {
    TensorNode *y = rp_arch_name_node(b, rp_mul_mat(b->g, rp_arch_matrix(b, w), x), what);
    y             = rp_arch_adapted(b, y, x, w, what);
    return bias != NULL ? rp_arch_name_node(b, rp_add(b->g, y, rp_arch_weight(b, bias)), what) : y;
}
