/* Keys of families whose config.json has names and flags of its own (HfFamily.keys). A flag or a number that asks for
 * what the library does not compute is refused by its name. */
#include "model/hf/hf.h"

#include <math.h>
#include <string.h>

RpStatus rp_hf_minimax_m2_keys(HfModel *m) {
    const JsonNode *types = rp_hf_value(m, "attn_type_list");
    RP_TRY(rp_hf_only_text(m, "scoring_func", "sigmoid"));
    RP_TRY(rp_hf_only_text(m, "qk_norm_type", "per_layer"));
    for (const JsonNode *x = rp_json_first(&m->config, types); x != NULL; x = rp_json_next(&m->config, types, x))
        if (rp_json_number(&m->config, x) != 1.0) return rp_hf_refuse(m, "attn_type_list", "attention of another kind");
    RP_TRY(rp_hf_copy_count(m, "num_local_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    RP_TRY(rp_hf_copy_count(m, "intermediate_size", "expert_feed_forward_length"));
    rp_hf_put_u32(m, "expert_gating_func", 2); /* a sigmoid */
    return RP_OK;
}

/* The first moe_layer_start_index layers are dense, all others have experts. */
RpStatus rp_hf_ernie_moe_keys(HfModel *m) {
    uint32_t interval, n_shared, n_ff;
    double   end;
    RP_TRY(rp_hf_count(m, "moe_layer_interval", 1, &interval));
    RP_TRY(rp_hf_number(m, m->text, "moe_layer_end_index", -1.0, &end));
    RP_TRY(rp_hf_never(m, "use_bias", "a bias of projections"));
    if (interval != 1)
        return rp_hf_refuse(m, "moe_layer_interval", "a model with dense layers between those with experts");
    if (end != -1.0 && end < (double)m->n_layer - 1.0)
        return rp_hf_refuse(m, "moe_layer_end_index", "a model with dense layers behind those with experts");
    RP_TRY(rp_hf_count(m, "moe_num_shared_experts", 2, &n_shared));
    RP_TRY(rp_hf_count(m, "moe_intermediate_size", (double)NAN, &n_ff));
    if ((uint64_t)n_shared * n_ff > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: %u shared experts of %u", m->config.path, n_shared, n_ff);
    RP_TRY(rp_hf_copy_count(m, "moe_num_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "moe_k", "expert_used_count"));
    rp_hf_put_u32(m, "expert_feed_forward_length", n_ff);
    rp_hf_put_u32(m, "expert_shared_feed_forward_length", n_shared * n_ff);
    return rp_hf_copy_count(m, "moe_layer_start_index", "leading_dense_block_count");
}

/* The scale of attention grows with the position. The class of transformers has a default for all of rope_parameters,
 * which published files give. */
RpStatus rp_hf_ministral3_keys(HfModel *m) {
    const JsonNode *rope = rp_hf_rope_object(m);
    double          beta;
    if (rope == NULL) return rp_fail(RP_E_FORMAT, "%s: rope_parameters is missing", m->config.path);
    RP_TRY(rp_hf_rope_number(m, "llama_4_scaling_beta", 0.0, &beta));
    if (beta == 0.0) return RP_OK;
    if (!rp_json_is(&m->config, rp_hf_rope_type(m, rope), "yarn"))
        return rp_hf_refuse(m, "llama_4_scaling_beta", "a scale that grows with the position without YaRN");
    rp_hf_put_f32(m, "attention.temperature_scale", beta);
    return RP_OK;
}

RpStatus rp_hf_granite_keys(HfModel *m) {
    RP_TRY(rp_hf_copy_number(m, "embedding_multiplier", 1.0, "embedding_scale"));
    RP_TRY(rp_hf_copy_number(m, "residual_multiplier", 1.0, "residual_scale"));
    RP_TRY(rp_hf_copy_number(m, "attention_multiplier", 1.0, "attention.scale"));
    return rp_hf_copy_number(m, "logits_scaling", 1.0, "logit_scale");
}

RpStatus rp_hf_granite_moe_keys(HfModel *m) {
    uint32_t shared;
    RP_TRY(rp_hf_granite_keys(m));
    RP_TRY(rp_hf_count(m, "shared_intermediate_size", 0, &shared));
    rp_hf_put_u32(m, "expert_shared_feed_forward_length", shared);
    RP_TRY(rp_hf_copy_count(m, "num_local_experts", "expert_count"));
    return rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count");
}

/* Latent attention: the cache has one latent vector and one rotated key, which all heads read. */
static RpStatus latent(HfModel *m) {
    HfSizes *s = &m->sizes;
    int64_t  rank, rope;
    uint32_t q_rank;
    RP_TRY(rp_hf_size(m, "num_attention_heads", &s->n_head));
    RP_TRY(rp_hf_size(m, "qk_nope_head_dim", &s->nope));
    RP_TRY(rp_hf_size(m, "v_head_dim", &s->value));
    RP_TRY(rp_hf_size(m, "kv_lora_rank", &rank));
    RP_TRY(rp_hf_size(m, "qk_rope_head_dim", &rope));
    RP_TRY(rp_hf_count(m, "q_lora_rank", 0, &q_rank));
    rp_hf_put_u32(m, "attention.head_count_kv", 1);
    rp_hf_put_u32(m, "attention.key_length", (uint32_t)(rank + rope));
    rp_hf_put_u32(m, "attention.value_length", (uint32_t)rank);
    rp_hf_put_u32(m, "attention.key_length_mla", (uint32_t)(s->nope + rope));
    rp_hf_put_u32(m, "attention.value_length_mla", (uint32_t)s->value);
    rp_hf_put_u32(m, "attention.kv_lora_rank", (uint32_t)rank);
    if (q_rank > 0) rp_hf_put_u32(m, "attention.q_lora_rank", q_rank);
    rp_hf_put_u32(m, "rope.dimension_count", (uint32_t)rope);
    return RP_OK;
}

/* The first layers are dense: their number, or a list of all layers. */
static RpStatus dense_layers(HfModel *m) {
    const JsonNode *list;
    uint32_t        n = 0, i = 0;
    RP_TRY(rp_hf_layer_texts(m, "mlp_layer_types", &list));
    if (list == NULL) return rp_hf_copy_count(m, "first_k_dense_replace", "leading_dense_block_count");
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x), i++) {
        const bool dense = rp_json_is(&m->config, x, "dense");
        if (!dense && !rp_json_is(&m->config, x, "sparse"))
            return rp_hf_refuse(m, "mlp_layer_types", "a layer that is neither dense nor sparse");
        if (dense && n < i) return rp_hf_refuse(m, "mlp_layer_types", "a dense layer behind one with experts");
        n += dense;
    }
    rp_hf_put_u32(m, "leading_dense_block_count", n);
    return RP_OK;
}

static RpStatus deepseek(HfModel *m) {
    RP_TRY(latent(m));
    RP_TRY(rp_hf_routed_experts(m));
    RP_TRY(dense_layers(m));
    return rp_hf_copy_number(m, "routed_scaling_factor", 1.0, "expert_weights_scale");
}

RpStatus rp_hf_deepseek2_keys(HfModel *m) {
    bool norm;
    RP_TRY(rp_hf_only_text(m, "topk_method", "greedy"));
    RP_TRY(rp_hf_only_text(m, "scoring_func", "softmax"));
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", false, &norm));
    if (norm) return rp_hf_refuse(m, "norm_topk_prob", "weights of experts divided by their sum"); /* nor is it there */
    rp_hf_put_u32(m, "expert_gating_func", 1);                                                     /* softmax */
    rp_hf_put_bool(m, "expert_weights_norm", false);
    return deepseek(m);
}

/* The weights of experts are values of a sigmoid or a softmax; experts may be chosen by groups. */
static RpStatus deepseek_groups(HfModel *m, bool sigmoid) {
    bool norm, pairs;
    RP_TRY(rp_hf_only_text(m, "scoring_func", sigmoid ? "sigmoid" : "softmax"));
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", true, &norm));
    RP_TRY(rp_hf_flag(m, m->text, "rope_interleave", true, &pairs));
    if (!pairs) return rp_hf_refuse(m, "rope_interleave", "RoPE of pairs (i, i+n/2) in latent attention");
    rp_hf_put_u32(m, "expert_gating_func", sigmoid ? 2 : 1);
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    RP_TRY(rp_hf_copy_count(m, "n_group", "expert_group_count"));
    RP_TRY(rp_hf_copy_count(m, "topk_group", "expert_group_used_count"));
    return deepseek(m);
}

RpStatus rp_hf_deepseek3_keys(HfModel *m) {
    RP_TRY(rp_hf_only_text(m, "topk_method", "noaux_tc"));
    return deepseek_groups(m, true);
}

RpStatus rp_hf_mistral4_keys(HfModel *m) {
    RP_TRY(rp_hf_ministral3_keys(m));
    return deepseek_groups(m, false);
}

RpStatus rp_hf_gpt_oss_keys(HfModel *m) {
    RP_TRY(rp_hf_only_number(m, "swiglu_alpha", 1.702));
    RP_TRY(rp_hf_only_number(m, "swiglu_limit", 7.0));
    RP_TRY(rp_hf_copy_count(m, "num_local_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    return rp_hf_copy_count(m, "intermediate_size", "expert_feed_forward_length");
}

/* Which layers are delta nets: "layer_types", else each but the n-th. */
static RpStatus delta_layers(const HfModel *m) {
    const JsonNode *types, *x = NULL;
    uint32_t        n;
    char            key[128];
    RP_TRY(rp_hf_count(m, "full_attention_interval", 4, &n));
    RP_TRY(rp_hf_layer_texts(m, "layer_types", &types));
    if (types != NULL) x = rp_json_first(&m->config, types);
    rp_gguf_put_array(m->out, rp_hf_key(m, "attention.recurrent_layers", key, sizeof key), RP_GGUF_BOOL,
                      (uint64_t)m->n_layer + (uint64_t)m->n_layer_next);
    for (uint32_t i = 0; i < (uint32_t)m->n_layer; i++) {
        bool delta = n > 0 && (i + 1) % n != 0;
        if (x != NULL) {
            delta = rp_json_is(&m->config, x, "linear_attention");
            if (!delta && !rp_json_is(&m->config, x, "full_attention"))
                return rp_hf_refuse(m, "layer_types", "a layer that is neither linear_attention nor full_attention");
            x = rp_json_next(&m->config, types, x);
        }
        rp_gguf_put_element(m->out, &delta, 1);
    }
    for (int32_t i = 0; i < m->n_layer_next; i++) rp_gguf_put_element(m->out, &(bool){false}, 1);
    return RP_OK;
}

/* Pairs of M-RoPE for positions of time, height and width, which are equal for text. */
static RpStatus rope_sections(const HfModel *m, const int32_t usual[4]) {
    const JsonNode *rope = rp_hf_rope_object(m);
    const JsonNode *list = rope != NULL ? rp_json_get(&m->config, rope, "mrope_section") : NULL;
    char            key[128];
    const JsonNode *x = list != NULL ? rp_json_first(&m->config, list) : NULL;
    if (list != NULL && (list->type != JSON_ARRAY || list->n != 3))
        return rp_fail(RP_E_FORMAT, "%s: mrope_section is not a list of 3 numbers", m->config.path);
    rp_gguf_put_array(m->out, rp_hf_key(m, "rope.dimension_sections", key, sizeof key), RP_GGUF_I32, 4);
    for (int i = 0; i < 4; i++) {
        int32_t n = usual[i];
        if (i < 3 && x != NULL) {
            const double value = rp_json_number(&m->config, x);
            if (!(value >= 0.0 && value <= 65536.0))
                return rp_fail(RP_E_FORMAT, "%s: mrope_section has %g", m->config.path, value);
            n = (int32_t)value;
            x = rp_json_next(&m->config, list, x);
        }
        rp_gguf_put_element(m->out, &n, sizeof n);
    }
    return RP_OK;
}

/* Gated delta nets. Their heads of keys and of values have one size. */
RpStatus rp_hf_delta_keys(HfModel *m) {
    HfSizes *s = &m->sizes;
    RP_TRY(rp_hf_size(m, "linear_num_key_heads", &s->n_key));
    RP_TRY(rp_hf_size(m, "linear_num_value_heads", &s->n_value));
    RP_TRY(rp_hf_size(m, "linear_key_head_dim", &s->key_dim));
    RP_TRY(rp_hf_size(m, "linear_value_head_dim", &s->v_dim));
    if (s->key_dim != s->v_dim)
        return rp_hf_refuse(m, "linear_value_head_dim", "another size than linear_key_head_dim");
    if (s->n_value % s->n_key != 0)
        return rp_fail(RP_E_FORMAT, "%s: linear_num_value_heads %lld is no multiple of linear_num_key_heads %lld",
                       m->config.path, (long long)s->n_value, (long long)s->n_key);
    if (s->n_value * s->v_dim > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: %lld heads of %lld", m->config.path, (long long)s->n_value,
                       (long long)s->v_dim);
    RP_TRY(rp_hf_copy_count(m, "linear_conv_kernel_dim", "ssm.conv_kernel"));
    rp_hf_put_u32(m, "ssm.state_size", (uint32_t)s->key_dim);
    rp_hf_put_u32(m, "ssm.group_count", (uint32_t)s->n_key);
    rp_hf_put_u32(m, "ssm.time_step_rank", (uint32_t)s->n_value);
    rp_hf_put_u32(m, "ssm.inner_size", (uint32_t)(s->n_value * s->v_dim));
    RP_TRY(delta_layers(m));
    return strcmp(m->family->arch, "qwen3next") == 0 ? RP_OK : rope_sections(m, (const int32_t[]){11, 11, 10, 0});
}

/* Families with LayerNorm have an epsilon of another name than those with RMSNorm, in config.json and in GGUF. */
RpStatus rp_hf_layer_norm_keys(HfModel *m) {
    return rp_hf_copy_number(m, m->family->eps_key, 1e-5, "attention.layer_norm_epsilon");
}

RpStatus rp_hf_cohere2_keys(HfModel *m) {
    RP_TRY(rp_hf_layer_norm_keys(m));
    return rp_hf_copy_number(m, "logit_scale", 0.0625, "logit_scale");
}

RpStatus rp_hf_cohere_keys(HfModel *m) {
    RP_TRY(rp_hf_never(m, "use_qk_norm", "norms of queries and keys"));
    return rp_hf_cohere2_keys(m);
}

RpStatus rp_hf_stablelm_keys(HfModel *m) {
    RP_TRY(rp_hf_never(m, "qk_layernorm", "norms of queries and keys"));
    RP_TRY(rp_hf_never(m, "use_parallel_residual", "a feed-forward beside attention"));
    return rp_hf_layer_norm_keys(m);
}

RpStatus rp_hf_hunyuan_keys(HfModel *m) { return rp_hf_never(m, "use_cla", "keys and values of another layer"); }

RpStatus rp_hf_qwen2_vl_keys(HfModel *m) { return rope_sections(m, (const int32_t[]){16, 24, 24, 0}); }
RpStatus rp_hf_qwen3_vl_keys(HfModel *m) { return rope_sections(m, (const int32_t[]){24, 20, 20, 0}); }

RpStatus rp_hf_delta_moe_keys(HfModel *m) {
    const JsonNode *dense = rp_hf_value(m, "mlp_only_layers");
    bool            norm;
    RP_TRY(rp_hf_only_number(m, "decoder_sparse_step", 1.0));
    if (dense != NULL && dense->n > 0)
        return rp_hf_refuse(m, "mlp_only_layers", "a model with dense layers between those with experts");
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", true, &norm));
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    RP_TRY(rp_hf_copy_count(m, "num_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(rp_hf_copy_count(m, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"));
    return rp_hf_delta_keys(m);
}
