/* The gated feed-forward, dense and with experts.
 *
 *     dense    y = down(act(gate x) * (up x))
 *     both     y = norm(dense(norm x)) + norm(experts(norm x))    in families with `dense_beside`
 *     experts  ids[:, t]     = top_k(probs of the router [+ choice bias])            i32 [n_used, t]
 *              weights[:, t] = probs at ids, normalised and scaled as the file says  f32 [n_used, t]
 *              y = sum_j weights[j] * down_id(act(gate_id x) * (up_id x)), id = ids[j]   [+ shared experts]
 *
 * The ids are data (I4): no address and no shape depends on them. */
#include "model/arch.h"

#include <math.h>
#include <stdio.h>

/* gpt-oss: its clamped SwiGLU, see SWIGLU_OAI in ops.h. */
static const float oai_alpha = 1.702f, oai_limit = 7.0f;

/* act(gate) * up, or without a gate act(up); the nodes are named <prefix>_act and <prefix>_gated. */
static TensorNode *activated(Builder *b, TensorNode *gate, TensorNode *up, const char *prefix) {
    const Activation kind = b->m->config.activation;
    char             act_name[32], gated_name[32];
    snprintf(act_name, sizeof act_name, "%s_act", prefix);
    snprintf(gated_name, sizeof gated_name, "%s_gated", prefix);
    if (kind == ACTIVATION_GELU_ALONE) return rp_arch_name_node(b, rp_gelu(b->g, up, RP_GELU_TANH), gated_name);
    if (kind == ACTIVATION_RELU_SQR)
        return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_RELU_SQR, NULL, &up, 1), gated_name);
    if (kind == ACTIVATION_XIELU) {
        const RpOpParams p = {.xielu = rp_config_xielu(&b->m->config, b->layer)};
        return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_XIELU, &p, &up, 1), gated_name);
    }
    if (kind == ACTIVATION_SWIGLU_OAI)
        return rp_arch_name_node(b, rp_swiglu_oai(b->g, gate, up, oai_alpha, oai_limit), gated_name);
    TensorNode *act = kind == ACTIVATION_GELU_TANH ? rp_gelu(b->g, gate, RP_GELU_TANH) : rp_silu(b->g, gate);
    rp_arch_name_node(b, act, act_name);
    return rp_arch_name_node(b, rp_mul(b->g, act, up), gated_name);
}

/* Each with a weight, which is NULL for a feed-forward without gate, and a bias or NULL. */
typedef struct GatedWeights {
    const RpGgufTensor *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
} GatedWeights;

static TensorNode *gated(Builder *b, TensorNode *x, const GatedWeights *w, const char *prefix) {
    static const char *const suffixes[3] = {"gate", "up", "down"};
    char                     names[3][32];
    for (int i = 0; i < 3; i++) snprintf(names[i], sizeof names[i], "%s_%s", prefix, suffixes[i]);
    TensorNode *gate = w->gate != NULL ? rp_arch_linear(b, x, w->gate, w->gate_bias, names[0]) : NULL;
    TensorNode *up   = rp_arch_linear(b, x, w->up, w->up_bias, names[1]);
    return rp_arch_linear(b, activated(b, gate, up, prefix), w->down, w->down_bias, names[2]);
}

TensorNode *rp_arch_gated(Builder *b, TensorNode *x, const RpGgufTensor *gate_w, const RpGgufTensor *up_w,
                          const RpGgufTensor *down_w, const char *prefix) {
    return gated(b, x, &(GatedWeights){.gate = gate_w, .up = up_w, .down = down_w}, prefix);
}

TensorNode *rp_arch_feed_forward(Builder *b, TensorNode *x, const LayerWeights *l) {
    return gated(b, x, &(GatedWeights){l->gate, l->up, l->down, l->gate_bias, l->up_bias, l->down_bias}, "ffn");
}

typedef struct Choice {
    TensorNode *ids, *weights;
} Choice;

/* scales[ids[j, t]] as [1, n_used * t] */
static TensorNode *scales_of(Builder *b, TensorNode *ids, const RpGgufTensor *scales, const char *what) {
    TensorNode *table = rp_reshape(b->g, rp_arch_constant(b, scales), 1, b->m->config.experts.n, 1, 1);
    ids               = rp_reshape(b->g, ids, b->m->config.experts.n_used * b->n_tok, 1, 1, 1);
    return rp_arch_name_node(b, rp_get_rows(b->g, table, ids), what);
}

/* weights[j, t] * scales[ids[j, t]] */
static TensorNode *scaled_weights(Builder *b, Choice chosen, const RpGgufTensor *scales) {
    if (scales == NULL) return chosen.weights;
    TensorNode *s = scales_of(b, chosen.ids, scales, "expert_scales");
    s             = rp_reshape(b->g, s, b->m->config.experts.n_used, b->n_tok, 1, 1);
    return rp_arch_name_node(b, rp_mul(b->g, chosen.weights, s), "expert_weights_scaled");
}

/* x [n_embd, t] -> the experts of each token and their weights, both [n_used, t]. */
static Choice route(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ExpertConfig *e      = &b->m->config.experts;
    ComputeGraph       *g      = b->g;
    TensorNode         *logits = rp_arch_linear(b, x, l->router, l->router_bias, "router");
    TensorNode         *probs  = logits;
    if (e->gating == GATING_SIGMOID) probs = rp_sigmoid(g, logits);
    const RpSoftMaxParams all = {.scale = l->router_norm != NULL ? 1.0f / sqrtf((float)b->m->config.n_embd) : 1.0f};
    if (e->gating == GATING_SOFTMAX) probs = rp_soft_max(g, logits, NULL, NULL, &all);
    if (probs != logits) rp_arch_name_node(b, probs, "router_probs");
    const RpTopKParams  top = {.k = e->n_used, .n_group = e->n_group, .n_group_used = e->n_group_used};
    const RpRouteParams how = {
        .soft_max = e->gating == GATING_SOFTMAX_OF_CHOSEN, .normalize = e->normalize, .scale = e->scale};
    TensorNode *ids     = rp_top_k(g, probs, rp_arch_constant(b, l->choice_bias), &top);
    TensorNode *weights = rp_route(g, probs, ids, &how);
    if (b->training != NULL) {
        if (e->gating != GATING_SOFTMAX) probs = rp_soft_max(g, logits, NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
        b->training->routers[b->layer] = (ArchRouter){probs, ids};
    }
    if (b->expert_ids) b->outputs[b->n_outputs++] = ids; /* as an output it can be read after the run */
    return (Choice){rp_arch_name_node(b, ids, "experts"), rp_arch_name_node(b, weights, "expert_weights")};
}

/* A matrix of each expert, with scales and a bias of each, or NULL. */
typedef struct ExpertWeights {
    const RpGgufTensor *w, *scales, *bias;
} ExpertWeights;

/* y[:, j, t] = scales[e] * w[:, :, e] x[:, j, t] + bias[:, e], e = ids[j, t]: one matrix of each chosen expert. */
static TensorNode *linear_id(Builder *b, TensorNode *x, ExpertWeights e, TensorNode *ids, const char *what) {
    const RpGgufTensor *w = e.w, *bias = e.bias;
    TensorNode         *y = rp_arch_name_node(b, rp_mul_mat_id(b->g, rp_arch_matrix(b, w), x, ids), what);
    rp_arch_note_product(b, w, x, ids);
    if (e.scales != NULL) {
        char name[48];
        snprintf(name, sizeof name, "%s_scales", what);
        TensorNode *s = scales_of(b, ids, e.scales, name);
        snprintf(name, sizeof name, "%s_scaled", what);
        s = rp_reshape(b->g, s, 1, b->m->config.experts.n_used, b->n_tok, 1);
        y = rp_arch_name_node(b, rp_mul(b->g, y, s), name);
    }
    return bias != NULL ? rp_arch_name_node(b, rp_add_id(b->g, y, rp_arch_weight(b, bias), ids), what) : y;
}

TensorNode *rp_arch_shared_experts(Builder *b, TensorNode *x, const LayerWeights *l) {
    if (l->up_shared == NULL) return NULL;
    TensorNode *y = rp_arch_gated(b, x, l->gate_shared, l->up_shared, l->down_shared, "shared");
    if (l->shared_gate == NULL) return y;
    TensorNode *open = rp_arch_linear(b, x, l->shared_gate, NULL, "shared_router");
    open             = rp_arch_name_node(b, rp_sigmoid(b->g, open), "shared_weight");
    return rp_arch_name_node(b, rp_mul(b->g, y, open), "shared_weighted");
}

TensorNode *rp_arch_experts(Builder *b, TensorNode *x, TensorNode *routed, const LayerWeights *l) {
    const Choice chosen = route(b, routed, l);
    /* A bias is added behind the scale of a product; without one the scale is a factor of the weight. */
    const bool  biased  = l->down_exps_bias != NULL;
    TensorNode *weights = scaled_weights(b, chosen, biased ? NULL : l->expert_scales);
    if (l->latent_down != NULL) x = rp_arch_linear(b, x, l->latent_down, NULL, "experts_latent");
    /* [n_embd, 1, t]: the same column for each of the n_used experts */
    TensorNode         *rows    = rp_reshape(b->g, x, l->up_exps->view.ne[0], 1, b->n_tok, 1);
    TensorNode         *gate    = NULL;
    const ExpertWeights of_gate = {l->gate_exps, l->gate_scales, l->gate_exps_bias},
                        of_up   = {l->up_exps, l->up_scales, l->up_exps_bias},
                        of_down = {l->down_exps, biased ? l->expert_scales : NULL, l->down_exps_bias};
    if (l->gate_exps != NULL) gate = linear_id(b, rows, of_gate, chosen.ids, "experts_gate");
    TensorNode *up = linear_id(b, rows, of_up, chosen.ids, "experts_up");
    TensorNode *y  = activated(b, gate, up, "experts");
    y              = linear_id(b, y, of_down, chosen.ids, "experts_down");
    y              = rp_arch_name_node(b, rp_combine(b->g, y, weights), "experts_sum");
    return l->latent_up != NULL ? rp_arch_linear(b, y, l->latent_up, NULL, "experts_out") : y;
}

/* The dense part comes last, so that its last product adds the sum of the experts. */
TensorNode *rp_arch_dense_and_experts(Builder *b, TensorNode *x, const LayerWeights *l) {
    TensorNode *routed = rp_arch_norm(b, x, l->router_norm, "router_norm");
    TensorNode *y      = rp_arch_experts(b, rp_arch_norm(b, x, l->experts_norm, "experts_norm"), routed, l);
    y                  = rp_arch_norm(b, y, l->post_experts, "post_experts_norm");
    TensorNode *dense  = rp_arch_feed_forward(b, rp_arch_norm(b, x, l->ffn_norm, "ffn_norm"), l);
    dense              = rp_arch_norm(b, dense, l->post_dense, "post_dense_norm");
    return rp_arch_name_node(b, rp_add(b->g, dense, y), "ffn_out");
}
