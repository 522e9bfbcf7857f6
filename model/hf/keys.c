/* Keys of families whose config.json has names and flags of its own (HfFamily.keys). A flag or a number that asks for
 * what the library does not compute is refused by its name. */
#include "model/hf/hf.h"

#include <math.h>

/* The value of `name` is a text; absent, or `only`. */
static RpStatus only_text(const HfModel *m, const char *name, const char *only) {
    const JsonNode *v = rp_hf_value(m, name);
    if (v == NULL || rp_json_is(&m->config, v, only)) return RP_OK;
    return rp_hf_refuse(m, name, "another value");
}

/* A flag that must be absent or false. */
static RpStatus never(const HfModel *m, const char *name, const char *why) {
    bool set;
    RP_TRY(rp_hf_flag(m, m->text, name, false, &set));
    return set ? rp_hf_refuse(m, name, why) : RP_OK;
}

RpStatus rp_hf_minimax_m2_keys(HfModel *m) {
    const JsonNode *types = rp_hf_value(m, "attn_type_list");
    RP_TRY(only_text(m, "scoring_func", "sigmoid"));
    RP_TRY(only_text(m, "qk_norm_type", "per_layer"));
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
    RP_TRY(never(m, "use_bias", "a bias of projections"));
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
    const JsonNode *rope = rp_hf_value(m, "rope_parameters");
    double          beta;
    if (rope == NULL) rope = rp_hf_value(m, "rope_scaling");
    if (rope == NULL) return rp_fail(RP_E_FORMAT, "%s: rope_parameters is missing", m->config.path);
    RP_TRY(rp_hf_rope_number(m, "llama_4_scaling_beta", 0.0, &beta));
    if (beta == 0.0) return RP_OK;
    const JsonNode *type = rp_json_get(&m->config, rope, "rope_type");
    if (type == NULL) type = rp_json_get(&m->config, rope, "type");
    if (!rp_json_is(&m->config, type, "yarn"))
        return rp_hf_refuse(m, "llama_4_scaling_beta", "a scale that grows with the position without YaRN");
    rp_hf_put_f32(m, "attention.temperature_scale", beta);
    return RP_OK;
}
