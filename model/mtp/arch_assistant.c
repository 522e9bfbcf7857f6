/* The assistant of a model (gemma4-assistant): a small model that predicts the token behind the next one from the
 * hidden state of its target and the embedding that the target has of the next token. t is n_tok, n is n_embd of the
 * target.
 *
 *     x       = pre [sqrt(n) * embedding; hidden state]    the embedding first
 *     x       = its layers, which have queries only: keys and values are those of the target's last layer of their kind
 *     y       = norm(x)
 *     logits  = its embedding^T y
 *     hidden' = post y                                     [n, t]
 *
 * All guesses behind a token have its position, and attend to the positions before it, since the target has not run
 * it yet. A layer with a window thus has one position less. */
#include "model/arch.h"

#include <stdio.h>

/* The last layer of the target with that attention; -1: none has it. */
static int layer_of_kind(const ModelConfig *target, AttentionKind attention) {
    int i = target->n_layer - 1;
    while (i >= 0 && rp_config_layer(target, i).attention != attention) i--;
    return i;
}

RpStatus rp_arch_check_assistant(const RpModel *m, const RpModel *target) {
    const ModelConfig *c = &m->config, *t = &target->config;
    const char        *path = rp_gguf_path(m->file), *of = rp_gguf_path(target->file);
    if (c->n_embd_target != t->n_embd)
        return rp_fail(RP_E_ARG, "%s guesses for models with embeddings of %d, %s has %d", path, c->n_embd_target, of,
                       t->n_embd);
    for (int i = 0; i < c->n_layer; i++) {
        const LayerKind k  = rp_config_layer(c, i);
        const int       at = layer_of_kind(t, k.attention);
        if (at < 0)
            return rp_fail(RP_E_ARG, "%s has no layer whose keys layer %d of %s can read: %s", of, i, path,
                           k.window > 0 ? "none has a window" : "none attends to all positions");
        if (k.window > 0 && c->window > t->window) /* the target keeps no more positions */
            return rp_fail(RP_E_ARG, "%s has a window of %d positions, %s of %d: must not be longer", path, c->window,
                           of, t->window);
        const LayerKind theirs = rp_config_layer(t, at);
        if (k.head_dim != theirs.head_dim || c->n_head % theirs.n_head_kv != 0)
            return rp_fail(RP_E_ARG, "%s: layer %d has %d heads of %d, layer %d of %s has %d heads of %d for keys",
                           path, i, c->n_head, k.head_dim, at, of, theirs.n_head_kv, theirs.head_dim);
    }
    return RP_OK;
}

/* A cache of the target. */
static TensorNode *cache_of(Builder *b, const LayerKind *k, const char *which) {
    char name[48];
    snprintf(name, sizeof name, "%s.%d", which, k->kv_layer);
    return rp_graph_state(b->g, name, b->kv_type, (int64_t[]){k->head_dim, rp_arch_cache_rows(b, k), k->n_head_kv, 1});
}

/* Makes the target's caches the sources of all layers that attend in this way. */
static void find_caches(Builder *b, const RpModel *target, AttentionKind attention) {
    const ModelConfig *c = &b->m->config;
    for (int i = 0; i < c->n_layer; i++) {
        const LayerKind mine = rp_config_layer(c, i);
        if (mine.attention != attention) continue;
        const LayerKind theirs           = rp_config_layer(&target->config, layer_of_kind(&target->config, attention));
        b->caches[2 * mine.kv_layer]     = cache_of(b, &theirs, "k");
        b->caches[2 * mine.kv_layer + 1] = cache_of(b, &theirs, "v");
        return;
    }
}

static TensorNode *input(Builder *b, const RpModel *target, TensorNode *tokens) {
    const int64_t n      = target->config.n_embd;
    TensorNode   *hidden = rp_graph_input(b->g, "hidden", RP_F32, (int64_t[]){n, b->n_tok, 1, 1});
    TensorNode   *embd   = rp_graph_weight(b->g, "target_embd", &target->token_embd->view);
    TensorNode   *e      = rp_arch_name_node(b, rp_get_rows(b->g, embd, tokens), "embedding");
    e                    = rp_scale(b->g, e, target->config.embd_scale, 0.0f);
    return rp_arch_linear(b, rp_arch_joined(b, e, hidden), b->m->mtp.pre, NULL, "pre");
}

TensorNode *rp_arch_assistant(Builder *b, const RpModel *target, TensorNode *tokens, TensorNode *rows) {
    const RpModel *m = b->m;
    rp_arch_begin_layers(b);
    TensorNode *x = input(b, target, tokens);
    find_caches(b, target, ATTENTION_WINDOW);
    find_caches(b, target, ATTENTION_FULL);
    x                          = rp_arch_layers(b, x);
    x                          = rp_arch_name_node(b, rp_get_rows(b->g, x, rows), "out_rows_of_last");
    x                          = rp_arch_norm(b, x, m->output_norm, "output_norm");
    b->outputs[b->n_outputs++] = rp_arch_linear(b, x, m->mtp.post, NULL, "next_hidden");
    const ArchOutput logits    = {.w = rp_arch_weight(b, m->output), .x = x, .scale = m->config.logit_scale};
    return rp_arch_logits(b, &logits);
}
