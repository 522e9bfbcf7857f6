/* A product with a weight, its scale, and the nodes of its adapters (adapter.h):
 *
 *     x -+-> mul_mat w [-> scale of w] --------------------> add -> y
 *        +-> mul_mat a [rank,t] -> mul_mat b -> scale -------^
 *
 * A pass that fuses products finds another reader or another source here and leaves them as they are. */
#include "model/arch.h"
#include "model/gguf/gguf_file.h"

#include <stdio.h>
#include <string.h>

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

/* ---- scales of whole weights ----
 *
 * A file may have beside "blk.0.attn_q.weight" a number "blk.0.attn_q.scale", f32 [1]: then the product with the weight
 * is multiplied by it. Files of NVFP4 have such scales, because the scale of a sub-block is at most 448.
 * "blk.0.attn_q.input_scale" scales activations of 4-bit floats. It is not used: there are no such activations here. */

/* The tensor whose name has `with` in place of what follows the first n bytes of `name`. */
static const RpGgufTensor *sibling(const RpModel *m, RpGgufString name, size_t n, const char *with) {
    char text[160];
    if (n > 128) return NULL;
    snprintf(text, sizeof text, "%.*s%s", (int)n, name.ptr, with);
    return rp_gguf_find_tensor(m->file, text);
}

static bool is_number(const RpGgufTensor *t) {
    return t->known && t->view.dtype == RP_F32 && rp_view_elems(&t->view) == 1;
}

float rp_model_scale_of(const RpModel *m, const RpGgufTensor *w) {
    static const char end[] = ".weight"; /* of a part of a tensor: ".weight:q" */
    const char       *at    = memmem(w->name.ptr, w->name.len, end, sizeof end - 1);
    float             scale = 1.0f;
    if (at == NULL) return scale;
    const RpGgufTensor *t = sibling(m, w->name, (size_t)(at - w->name.ptr), ".scale");
    if (t != NULL && is_number(t)) memcpy(&scale, t->view.data, sizeof scale);
    return scale;
}

const RpGgufTensor *rp_model_scaled(const RpModel *m) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(m->file); i++)
        if (rp_model_scale_of(m, rp_gguf_tensor(m->file, i)) != 1.0f) return rp_gguf_tensor(m->file, i);
    return NULL;
}

/* False for weights whose scale is not applied: matrices of experts or of heads, embedding tables, convolutions and
 * norms of several groups. */
static bool is_multiplied(const RpModel *m, const RpGgufTensor *w) {
    static const char *const others[] = {".ssm_conv1d.weight", ".conv.weight", ".ssm_norm.weight", ".attn_kv_b.weight"};
    if (w == m->output) return m->output != m->token_embd;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (rp_gguf_ends_with(w->name, others[i])) return false;
    return memcmp(w->name.ptr, "blk.", 4) == 0 && w->view.ne[1] > 1 && w->view.ne[2] == 1;
}

bool rp_model_is_scale(const RpModel *m, const RpGgufTensor *t) {
    static const char input[] = ".input_scale", scale[] = ".scale";
    const bool        of_input = rp_gguf_ends_with(t->name, input);
    if (!of_input && !rp_gguf_ends_with(t->name, scale)) return false;
    const RpGgufTensor *w = sibling(m, t->name, t->name.len - (of_input ? sizeof input : sizeof scale) + 1, ".weight");
    if (w == NULL || w->name.len < 4) return false;
    return of_input || (is_number(t) && is_multiplied(m, w));
}

TensorNode *rp_arch_linear(Builder *b, TensorNode *x, const RpGgufTensor *w, const RpGgufTensor *bias,
                           const char *what) {
    TensorNode *y     = rp_arch_name_node(b, rp_mul_mat(b->g, rp_arch_matrix(b, w), x), what);
    const float scale = rp_model_scale_of(b->m, w);
    rp_arch_note_product(b, w, x, NULL);
    if (scale != 1.0f) y = named(b, rp_scale(b->g, y, scale, 0.0f), what, "_scaled");
    y = rp_arch_adapted(b, y, x, w, what);
    return bias != NULL ? rp_arch_name_node(b, rp_add(b->g, y, rp_arch_weight(b, bias)), what) : y;
}
