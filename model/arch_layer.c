/* Layers and logits: what decoders, MTP layers and assistants have in common (arch.c has the diagram of a layer). */
#include "model/arch.h"

TensorNode *rp_arch_scaled(Builder *b, TensorNode *x, float by, const char *what) {
    return by == 1.0f ? x : rp_arch_name_node(b, rp_scale(b->g, x, by, 0.0f), what);
}

/* x + [residual_scale *] norm(y) */
static TensorNode *add_residual(Builder *b, TensorNode *x, TensorNode *y, const RpGgufTensor *post_norm,
                                const char *const names[3]) {
    const float eps = b->m->config.arch->post_norm_eps;
    if (post_norm != NULL) y = rp_arch_normed(b, y, (ArchNorm){.w = post_norm, .eps = eps}, names[0]);
    y = rp_arch_scaled(b, y, b->m->config.residual_scale, names[1]);
    return rp_arch_name_node(b, rp_add(b->g, y, x), names[2]);
}

static TensorNode *attention(Builder *b, TensorNode *x, const LayerWeights *l) {
    if (b->kind.attention == ATTENTION_LATENT) return rp_arch_attention_mla(b, x, l);
    if (b->kind.attention == ATTENTION_CONV) return rp_arch_short_conv(b, x, l);
    if (b->kind.attention == ATTENTION_SSM) return rp_arch_ssm(b, x, l);
    if (b->kind.attention == ATTENTION_DELTA) return rp_arch_delta(b, x, l);
    if (!b->m->config.arch->parallel_ssm) return rp_arch_attention(b, x, l);
    TensorNode *y = rp_arch_ssm(b, x, l);
    return rp_arch_name_node(b, rp_add(b->g, rp_arch_attention(b, x, l), y), "attn_and_ssm");
}

static TensorNode *first_norm(Builder *b, TensorNode *x, const LayerWeights *l) {
    return rp_arch_normed(b, x, (ArchNorm){.w = l->attn_norm, .bias = l->attn_norm_bias}, "attn_norm");
}

/* x [n_embd, t] -> [n_embd, t], as in the diagram. */
TensorNode *rp_arch_layer(Builder *b, TensorNode *x) {
    static const char *const attn_names[] = {"post_attn_norm", "attn_scaled", "attn_residual"};
    static const char *const ffn_names[]  = {"post_ffn_norm", "ffn_scaled", "residual"};
    const LayerWeights      *l            = &b->m->layers[b->layer];
    TensorNode              *y;
    if (b->m->config.arch->norm_of_sum) {
        x = rp_arch_norm_of_sum(b, x, attention(b, x, l), l->attn_sum_norm, l->attn_sum_bias, "attn_norm");
        return rp_arch_norm_of_sum(b, x, rp_arch_feed_forward(b, x, l), l->sum_norm, l->sum_bias, "norm");
    }
    if (b->m->config.arch->parallel_ff || (b->m->config.arch->parallel_if_bare && l->ffn_norm == NULL)) {
        y = first_norm(b, x, l);
        x = add_residual(b, x, attention(b, y, l), NULL, attn_names);
        return add_residual(b, x, rp_arch_feed_forward(b, y, l), NULL, ffn_names);
    }
    if (b->kind.attention != ATTENTION_NONE) {
        const bool bare = b->m->config.arch->no_pre_norm || (b->layer == 0 && b->m->config.arch->first_bare);
        y               = bare ? x : first_norm(b, x, l);
        y               = attention(b, y, l);
        x               = add_residual(b, x, y, l->post_attn_norm, attn_names);
    }
    if (b->kind.feed_forward == FEED_FORWARD_NONE) return x;
    if (b->kind.feed_forward == FEED_FORWARD_EXPERTS && b->m->config.arch->dense_beside)
        return add_residual(b, x, rp_arch_dense_and_experts(b, x, l), l->post_ffn_norm, ffn_names);
    y = b->m->config.arch->no_pre_norm
            ? x
            : rp_arch_normed(b, x, (ArchNorm){.w = l->ffn_norm, .bias = l->ffn_norm_bias}, "ffn_norm");
    if (b->kind.feed_forward != FEED_FORWARD_EXPERTS)
        return add_residual(b, x, rp_arch_feed_forward(b, y, l), l->post_ffn_norm, ffn_names);
    TensorNode *shared = rp_arch_shared_experts(b, y, l);
    y                  = rp_arch_experts(b, y, y, l);
    if (shared != NULL && (l->post_ffn_norm != NULL || b->m->config.residual_scale != 1.0f))
        y = rp_arch_name_node(b, rp_add(b->g, y, shared), "ffn_out");
    else if (shared != NULL) /* each of the two sums is the epilogue of a product */
        x = rp_arch_name_node(b, rp_add(b->g, shared, x), "shared_residual");
    return add_residual(b, x, y, l->post_ffn_norm, ffn_names);
}

/* Contexts longer than the original one have factors of their own. All graphs of a session have its context. */
static const RpGgufTensor *rope_factors_of(const Builder *b) {
    const RpModel *m       = b->m;
    const int32_t  longest = b->training != NULL ? b->n_tok / b->training->n_seq : b->n_ctx;
    if (m->rope_factors != NULL || m->rope_long == NULL) return m->rope_factors;
    return longest > m->config.rope.n_ctx_orig ? m->rope_long : m->rope_short;
}

static TensorNode *temperature_of(Builder *b) {
    const ModelConfig *c = &b->m->config;
    const RpOpParams   p = {
          .temperature = {.scale = c->temperature, .length = c->temperature_length}
    };
    if (c->temperature == 0.0f) return NULL;
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_TEMPERATURE, &p, (TensorNode *const[]){b->pos}, 1),
                             "temperature");
}

void rp_arch_begin_layers(Builder *b) {
    b->rope_factors = rp_arch_constant(b, rope_factors_of(b));
    b->temperature  = temperature_of(b);
    if (b->m->config.attn_cap != 0.0f) b->attn_cap = rp_arch_cap(b, &b->m->config.attn_cap, "attn_cap");
}

TensorNode *rp_arch_layers(Builder *b, TensorNode *x) {
    const RpModel *m = b->m;
    for (b->layer = 0; b->layer < m->config.n_layer; b->layer++) {
        rp_graph_set_layer(b->g, b->layer);
        b->kind = rp_config_layer(&m->config, b->layer);
        x       = rp_arch_add_embd(b, rp_arch_layer(b, x), &m->layers[b->layer]);
    }
    b->layer = -1;
    rp_graph_set_layer(b->g, -1);
    return x;
}

TensorNode *rp_arch_logits(Builder *b, const ArchOutput *of) {
    if (b->m->output != b->m->token_embd) rp_arch_note_product(b, b->m->output, of->x, NULL);
    TensorNode *y     = rp_mul_mat(b->g, rp_arch_for_product(b, of->w), of->x);
    const float scale = b->m->output != b->m->token_embd ? rp_model_scale_of(b->m, b->m->output) : 1.0f;
    if (scale != 1.0f) y = rp_scale(b->g, y, scale, 0.0f);
    y                = rp_arch_adapted(b, y, of->x, b->m->output, "output");
    const float *cap = &b->m->config.logit_cap;
    if (*cap != 0.0f) return rp_arch_soft_cap(b, y, of->scale, rp_arch_cap(b, cap, "logit_cap"), "logits");
    if (of->scale != 1.0f) y = rp_scale(b->g, y, of->scale, 0.0f);
    return rp_arch_name_node(b, y, "logits");
}
