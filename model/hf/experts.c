/* Keys of families with experts whose config.json has few names of its own. keys.c has the keys of other families. */
#include "model/hf/hf.h"

#include <math.h>

/* A layer without experts among others, or an expert layer only every n-th time. */
static RpStatus all_layers_have_experts(const HfModel *m) {
    const JsonNode *dense = rp_hf_value(m, "mlp_only_layers");
    uint32_t        step;
    RP_TRY(rp_hf_count(m, "decoder_sparse_step", 1, &step));
    if (step != 1)
        return rp_hf_refuse(m, "decoder_sparse_step", "a model with dense layers between those with experts");
    if (dense != NULL && dense->n > 0)
        return rp_hf_refuse(m, "mlp_only_layers", "a model with dense layers between those with experts");
    return RP_OK;
}

RpStatus rp_hf_mixtral_keys(HfModel *m) {
    RP_TRY(rp_hf_copy_count(m, "num_local_experts", "expert_count"));
    return rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count");
}

static RpStatus expert_counts(HfModel *m) {
    RP_TRY(all_layers_have_experts(m));
    const bool newer = rp_hf_value(m, "num_local_experts") != NULL;
    RP_TRY(rp_hf_copy_count(m, newer ? "num_local_experts" : "num_experts", "expert_count"));
    return rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count");
}

/* Whether the weights of the chosen experts are divided by their sum. */
static RpStatus norm_of_weights(HfModel *m, bool usual) {
    bool norm;
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", usual, &norm));
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    return RP_OK;
}

static RpStatus experts(HfModel *m) {
    RP_TRY(expert_counts(m));
    return norm_of_weights(m, false);
}

RpStatus rp_hf_qwen3_moe_keys(HfModel *m) {
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    return experts(m);
}

/* The class divides the weights of experts by their sum, whatever config.json says. */
RpStatus rp_hf_qwen3_vl_moe_keys(HfModel *m) {
    RP_TRY(rp_hf_size(m, "hidden_size", &m->sizes.n_embd));
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(expert_counts(m));
    rp_hf_put_bool(m, "expert_weights_norm", true);
    return rp_hf_qwen3_vl_keys(m);
}

RpStatus rp_hf_qwen2_moe_keys(HfModel *m) {
    RP_TRY(rp_hf_copy_count(m, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"));
    return rp_hf_qwen3_moe_keys(m);
}

RpStatus rp_hf_olmoe_keys(HfModel *m) {
    if (rp_hf_value(m, "clip_qkv") != NULL) return rp_hf_refuse(m, "clip_qkv", "clamping of q, k and v");
    return experts(m);
}

/* Experts behind a few dense layers, chosen by a sigmoid with a bias, and shared ones. */
RpStatus rp_hf_glm4_moe_keys(HfModel *m) {
    uint32_t n_group;
    bool     qk_norm;
    RP_TRY(rp_hf_count(m, "n_group", 1, &n_group));
    if (n_group > 1) return rp_hf_refuse(m, "n_group", "a choice by groups of experts");
    RP_TRY(rp_hf_routed_experts(m));
    RP_TRY(rp_hf_copy_count(m, "first_k_dense_replace", "leading_dense_block_count"));
    RP_TRY(rp_hf_copy_number(m, "routed_scaling_factor", 1.0, "expert_weights_scale"));
    rp_hf_put_u32(m, "expert_gating_func", 2); /* a sigmoid */
    RP_TRY(norm_of_weights(m, true));
    RP_TRY(rp_hf_flag(m, m->text, "use_qk_norm", false, &qk_norm));
    m->no_qk_norm = !qk_norm;
    m->qk_norm    = qk_norm;
    return RP_OK;
}

RpStatus rp_hf_dots1_keys(HfModel *m) {
    RP_TRY(rp_hf_routed_experts(m));
    RP_TRY(rp_hf_copy_count(m, "first_k_dense_replace", "leading_dense_block_count"));
    RP_TRY(rp_hf_grouped_choice(m));
    return norm_of_weights(m, false);
}

/* Published files have a list of numbers, one for each layer; *out is the one that all have. */
static RpStatus count_of_layers(const HfModel *m, const char *name, double fallback, uint32_t *out) {
    const JsonNode *list = rp_hf_value(m, name);
    if (list == NULL || list->type != JSON_ARRAY) return rp_hf_count(m, name, fallback, out);
    const JsonNode *x     = rp_json_first(&m->config, list);
    const double    first = x != NULL ? rp_json_number(&m->config, x) : (double)NAN;
    if (list->n != (uint32_t)m->n_layer || !(first >= 0.0 && first <= 65536.0) || first != floor(first))
        return rp_fail(RP_E_FORMAT, "%s: %s is not a list of %d counts", m->config.path, name, m->n_layer);
    for (; x != NULL; x = rp_json_next(&m->config, list, x))
        if (rp_json_number(&m->config, x) != first) return rp_hf_refuse(m, name, "another count in some layers");
    *out = (uint32_t)first;
    return RP_OK;
}

/* As in transformers, experts and shared experts have the length intermediate_size. */
RpStatus rp_hf_hunyuan_moe_keys(HfModel *m) {
    uint32_t n, n_used, n_ff, skipped;
    RP_TRY(rp_hf_never(m, "use_mla", "latent attention"));
    RP_TRY(rp_hf_count(m, "moe_layer_num_skipped", 0, &skipped));
    if (skipped > 0) return rp_hf_refuse(m, "moe_layer_num_skipped", "a model with dense layers");
    RP_TRY(count_of_layers(m, "num_experts", 1, &n));
    RP_TRY(rp_hf_count(m, "num_experts_per_tok", 1, &n_used));
    RP_TRY(count_of_layers(m, "moe_topk", n_used, &n_used));
    RP_TRY(rp_hf_count(m, "intermediate_size", (double)NAN, &n_ff));
    rp_hf_put_u32(m, "expert_count", n);
    rp_hf_put_u32(m, "expert_used_count", n_used);
    rp_hf_put_u32(m, "feed_forward_length", n_ff);
    rp_hf_put_u32(m, "expert_feed_forward_length", n_ff);
    rp_hf_put_u32(m, "expert_shared_feed_forward_length", n_ff);
    rp_hf_put_bool(m, "expert_weights_norm", true);
    return rp_hf_hunyuan_keys(m);
}

/* The code of the makers divides the weights of several experts by their sum, whatever config.json says. */
RpStatus rp_hf_ling_keys(HfModel *m) {
    uint32_t n_used, n_shared;
    bool     qk_norm;
    RP_TRY(rp_hf_flag(m, m->text, "use_qk_norm", true, &qk_norm));
    if (!qk_norm) return rp_hf_refuse(m, "use_qk_norm", "a model without norms of q and k");
    RP_TRY(rp_hf_only_text(m, "score_function", "sigmoid"));
    RP_TRY(rp_hf_count(m, "num_experts_per_tok", (double)NAN, &n_used));
    RP_TRY(rp_hf_count(m, "num_shared_experts", 0, &n_shared));
    RP_TRY(rp_hf_copy_count(m, "num_experts", "expert_count"));
    rp_hf_put_u32(m, "expert_used_count", n_used);
    rp_hf_put_u32(m, "expert_shared_count", n_shared);
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(rp_hf_copy_count(m, "first_k_dense_replace", "leading_dense_block_count"));
    rp_hf_put_bool(m, "expert_weights_norm", n_used > 1);
    return rp_hf_grouped_choice(m);
}

/* Trinity. Layers without a window have no RoPE. */
RpStatus rp_hf_afmoe_keys(HfModel *m) {
    bool scaled, norm;
    RP_TRY(expert_counts(m));
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(rp_hf_copy_count(m, "num_shared_experts", "expert_shared_count"));
    RP_TRY(rp_hf_copy_count(m, "num_dense_layers", "leading_dense_block_count"));
    RP_TRY(rp_hf_copy_number(m, "route_scale", 1.0, "expert_weights_scale"));
    RP_TRY(rp_hf_only_text(m, "score_func", "sigmoid"));
    RP_TRY(rp_hf_only_number(m, "n_group", 1.0));
    if (rp_hf_value(m, "layer_types") == NULL) RP_TRY(rp_hf_only_number(m, "global_attn_every_n_layers", 4.0));
    RP_TRY(rp_hf_flag(m, m->text, "mup_enabled", false, &scaled));
    if (!scaled) return rp_hf_refuse(m, "mup_enabled", "embeddings that are not scaled");
    RP_TRY(rp_hf_flag(m, m->text, "route_norm", true, &norm));
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    return RP_OK;
}

/* All layers have experts. */
RpStatus rp_hf_mellum_keys(HfModel *m) {
    const JsonNode *kinds;
    RP_TRY(rp_hf_layer_texts(m, "mlp_layer_types", &kinds));
    for (const JsonNode *x = rp_json_first(&m->config, kinds); x != NULL; x = rp_json_next(&m->config, kinds, x))
        if (!rp_json_is(&m->config, x, "sparse"))
            return rp_hf_refuse(m, "mlp_layer_types", "a model with dense layers between those with experts");
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(expert_counts(m));
    return norm_of_weights(m, true);
}
