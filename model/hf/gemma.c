/* Keys of Gemma: the scale of attention, and the caps of scores and logits. */
#include "model/hf/hf.h"

#include <math.h>

static RpStatus causal(const HfModel *m) {
    return rp_hf_never(m, "use_bidirectional_attention", "attention to later tokens");
}

static RpStatus scale(const HfModel *m) {
    double scalar;
    RP_TRY(rp_hf_number(m, m->text, "query_pre_attn_scalar", 256.0, &scalar));
    if (!(scalar > 0.0)) return rp_fail(RP_E_FORMAT, "%s: query_pre_attn_scalar is %g", m->config.path, scalar);
    rp_hf_put_f32(m, "attention.scale", 1.0 / sqrt(scalar));
    return RP_OK;
}

RpStatus rp_hf_gemma_keys(HfModel *m) { return causal(m); }

RpStatus rp_hf_gemma2_keys(HfModel *m) {
    RP_TRY(causal(m));
    RP_TRY(rp_hf_copy_number(m, "attn_logit_softcapping", 0.0, "attn_logit_softcapping"));
    RP_TRY(rp_hf_copy_number(m, "final_logit_softcapping", 0.0, "final_logit_softcapping"));
    return scale(m);
}

RpStatus rp_hf_gemma3_keys(HfModel *m) {
    if (rp_hf_value(m, "attn_logit_softcapping") != NULL)
        return rp_hf_refuse(m, "attn_logit_softcapping", "a soft cap of scores");
    RP_TRY(rp_hf_copy_number(m, "final_logit_softcapping", 0.0, "final_logit_softcapping"));
    RP_TRY(causal(m));
    return scale(m);
}

/* EmbeddingGemma: tokens attend to later ones. */
bool rp_hf_gemma_is_bidirectional(const HfModel *m) {
    const JsonNode *x = rp_hf_value(m, "use_bidirectional_attention");
    return x != NULL && x->type == JSON_TRUE;
}

RpStatus rp_hf_gemma_embedding_keys(HfModel *m) {
    if (rp_hf_value(m, "attn_logit_softcapping") != NULL)
        return rp_hf_refuse(m, "attn_logit_softcapping", "a soft cap of scores");
    rp_hf_put_bool(m, "attention.causal", false);
    return scale(m);
}

/* ---- Gemma 4: layers with a window have other heads than those without ---- */

typedef struct Heads {
    uint32_t dim, n_kv;
} Heads;

static RpStatus count_of(const HfModel *m, const JsonNode *object, const char *name, uint32_t *out) {
    double x;
    RP_TRY(rp_hf_number(m, object, name, *out, &x));
    if (!(x >= 1.0 && x <= 65536.0) || x != floor(x))
        return rp_fail(RP_E_FORMAT, "%s: %s is %g, must be a whole number from 1 to 65536", m->config.path, name, x);
    *out = (uint32_t)x;
    return RP_OK;
}

/* The layer that a key of per_layer_config names, in digits that may begin with zeros; -1: none. */
static int layer_of(const HfModel *m, const JsonNode *member) {
    const RpGgufString key   = rp_json_key(&m->config, member);
    int                layer = key.len > 0 ? 0 : -1;
    for (size_t i = 0; i < key.len && layer >= 0; i++) {
        const bool digit = key.ptr[i] >= '0' && key.ptr[i] <= '9';
        layer            = digit ? 10 * layer + (key.ptr[i] - '0') : -1;
        if (layer >= m->n_layer) layer = -1;
    }
    return layer;
}

/* The entry of each layer in per_layer_config; NULL: it has none. */
static RpStatus layer_entries(const HfModel *m, const JsonNode *out[HF_MAX_LAYERS]) {
    const JsonNode *each = rp_hf_value(m, "per_layer_config");
    for (int i = 0; i < m->n_layer; i++) out[i] = NULL;
    if (each != NULL && each->type != JSON_OBJECT)
        return rp_fail(RP_E_FORMAT, "%s: per_layer_config is no object", m->config.path);
    for (const JsonNode *x = rp_json_first(&m->config, each); x != NULL; x = rp_json_next(&m->config, each, x)) {
        const RpGgufString key   = rp_json_key(&m->config, x);
        const int          layer = layer_of(m, x);
        if (layer < 0)
            return rp_fail(RP_E_FORMAT, "%s: per_layer_config has the key '%.*s', which is no layer below %d",
                           m->config.path, (int)(key.len < 32 ? key.len : 32), key.ptr, m->n_layer);
        if (out[layer] != NULL)
            return rp_fail(RP_E_FORMAT, "%s: per_layer_config has layer %d twice", m->config.path, layer);
        out[layer] = x;
    }
    return RP_OK;
}

/* Those of config.json, and in layers without a window global_head_dim and num_global_key_value_heads, or what the
 * entry of the layer has. */
static RpStatus heads_of(const HfModel *m, const JsonNode *entry, bool window, Heads *out) {
    bool key_is_value;
    out->dim = out->n_kv = 1;
    RP_TRY(count_of(m, m->text, "head_dim", &out->dim));
    RP_TRY(count_of(m, m->text, "num_key_value_heads", &out->n_kv));
    if (entry != NULL) {
        RP_TRY(count_of(m, entry, "head_dim", &out->dim));
        return count_of(m, entry, "num_key_value_heads", &out->n_kv);
    }
    if (window || rp_hf_value(m, "per_layer_config") != NULL) return RP_OK;
    RP_TRY(count_of(m, m->text, "global_head_dim", &out->dim));
    RP_TRY(rp_hf_flag(m, m->text, "attention_k_eq_v", false, &key_is_value));
    if (!key_is_value || rp_hf_value(m, "num_global_key_value_heads") == NULL) return RP_OK;
    return count_of(m, m->text, "num_global_key_value_heads", &out->n_kv);
}

RpStatus rp_hf_gemma4_heads(HfModel *m, uint32_t *rope_dim) {
    bool            window[HF_MAX_LAYERS];
    const JsonNode *entries[HF_MAX_LAYERS];
    uint32_t        dims[2] = {0, 0}, n_kv[HF_MAX_LAYERS]; /* dims: of layers without and with a window */
    double          part;
    char            key[128];
    RP_TRY(rp_hf_windows(m, window));
    RP_TRY(layer_entries(m, entries));
    for (int i = 0; i < m->n_layer; i++) {
        Heads h;
        RP_TRY(heads_of(m, entries[i], window[i], &h));
        if (dims[window[i]] != 0 && dims[window[i]] != h.dim)
            return rp_hf_refuse(m, "per_layer_config", "layers of one kind with heads of several sizes");
        dims[window[i]] = h.dim;
        n_kv[i]         = h.n_kv;
    }
    for (int i = 0; i < 2; i++)
        if (dims[i] == 0) dims[i] = dims[1 - i]; /* no layer has them */
    RP_TRY(rp_hf_copy_count(m, "hidden_size", "embedding_length"));
    RP_TRY(rp_hf_copy_count(m, "num_attention_heads", "attention.head_count"));
    rp_gguf_put_array(m->out, rp_hf_key(m, "attention.head_count_kv", key, sizeof key), RP_GGUF_U32,
                      (uint64_t)m->n_layer);
    for (int i = 0; i < m->n_layer; i++) rp_gguf_put_element(m->out, &n_kv[i], sizeof n_kv[i]);
    rp_hf_put_u32(m, "attention.key_length", dims[0]);
    rp_hf_put_u32(m, "attention.value_length", dims[0]);
    rp_hf_put_u32(m, "attention.key_length_swa", dims[1]);
    rp_hf_put_u32(m, "attention.value_length_swa", dims[1]);
    RP_TRY(rp_hf_number(m, rp_json_get(&m->config, rp_hf_rope_object(m), "sliding_attention"), "partial_rotary_factor",
                        1.0, &part));
    if (part != 1.0)
        return rp_hf_refuse(m, "partial_rotary_factor", "RoPE of a part of a head in layers with a window");
    rp_hf_put_u32(m, "rope.dimension_count", dims[0]);
    rp_hf_put_u32(m, "rope.dimension_count_swa", dims[1]);
    *rope_dim = dims[0];
    return RP_OK;
}

/* The length of each layer: twice in those that share a cache, if config.json says so. */
static RpStatus lengths(const HfModel *m, uint32_t shared) {
    uint32_t n;
    bool     wide;
    char     key[128];
    RP_TRY(rp_hf_count(m, "intermediate_size", (double)NAN, &n));
    RP_TRY(rp_hf_flag(m, m->text, "use_double_wide_mlp", false, &wide));
    rp_gguf_put_array(m->out, rp_hf_key(m, "feed_forward_length", key, sizeof key), RP_GGUF_U32, (uint64_t)m->n_layer);
    for (int i = 0; i < m->n_layer; i++) {
        const uint32_t of_layer = wide && (uint32_t)(m->n_layer - i) <= shared ? 2 * n : n;
        rp_gguf_put_element(m->out, &of_layer, sizeof of_layer);
    }
    return RP_OK;
}

/* Layers of assistants have queries only, and are dense. Their logits have no cap. */
RpStatus rp_hf_gemma4_assistant_keys(HfModel *m) {
    const char *const none[] = {"hidden_size_per_layer_input", "enable_moe_block", "use_double_wide_mlp"};
    double            width;
    RP_TRY(rp_hf_only_number(m, none[0], 0.0));
    for (int i = 1; i < 3; i++) RP_TRY(rp_hf_never(m, none[i], "an assistant with it"));
    RP_TRY(rp_hf_number(m, m->config.nodes, "backbone_hidden_size", (double)NAN, &width));
    if (!(width >= 1.0 && width <= 65536.0) || width != floor(width))
        return rp_fail(RP_E_FORMAT, "%s: backbone_hidden_size is %g, must be a whole number from 1 to 65536",
                       m->config.path, width);
    rp_hf_put_u32(m, "embedding_length_out", (uint32_t)width);
    rp_hf_put_u32(m, "embedding_length_per_layer_input", 0);
    rp_hf_put_u32(m, "attention.shared_kv_layers", (uint32_t)m->n_layer);
    rp_hf_put_u32(m, "nextn_predict_layers", (uint32_t)m->n_layer);
    return lengths(m, (uint32_t)m->n_layer);
}

RpStatus rp_hf_gemma4_keys(HfModel *m) {
    uint32_t shared, embd;
    bool     experts;
    RP_TRY(rp_hf_only_text(m, "use_bidirectional_attention", "vision")); /* among the tokens of an image */
    RP_TRY(rp_hf_count(m, "num_kv_shared_layers", 0, &shared));
    RP_TRY(rp_hf_count(m, "hidden_size_per_layer_input", 0, &embd));
    rp_hf_put_u32(m, "attention.shared_kv_layers", shared);
    rp_hf_put_u32(m, "embedding_length_per_layer_input", embd);
    RP_TRY(rp_hf_copy_number(m, "final_logit_softcapping", 0.0, "final_logit_softcapping"));
    RP_TRY(lengths(m, shared));
    RP_TRY(rp_hf_flag(m, m->text, "enable_moe_block", false, &experts));
    if (!experts) return RP_OK;
    RP_TRY(rp_hf_copy_count(m, "num_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "top_k_experts", "expert_used_count"));
    return rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length");
}
