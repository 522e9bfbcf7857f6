/* config.json as keys "<arch>.*". The numbers are those that llama.cpp's convert_hf_to_gguf.py writes; what the
 * library does not compute is refused by its name in config.json (I12). */
#include "model/hf/hf.h"

#include "model/gguf/gguf_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The context of families without windows in arch_table.c ends at the length of the window: up to there, attention with
 * and without a window agree. */
static RpStatus context(HfModel *m, uint32_t *n_trained, uint32_t *n_ctx) {
    uint32_t window = 0, pad = 0;
    bool     used;
    RP_TRY(rp_hf_count(m, "max_position_embeddings", (double)NAN, n_trained));
    if (m->family->padded) RP_TRY(rp_hf_count(m, "pad_token_id", 1.0, &pad));
    if (m->family->padded) m->sizes.n_padding = (int64_t)pad + 1;
    if (m->sizes.n_padding >= (int64_t)*n_trained)
        return rp_fail(RP_E_FORMAT, "%s: pad_token_id is %u, max_position_embeddings is %u: there is no position",
                       m->config.path, pad, *n_trained);
    *n_trained -= (uint32_t)m->sizes.n_padding;
    *n_ctx = *n_trained;
    if (m->family->windows) return RP_OK;
    RP_TRY(rp_hf_count(m, "sliding_window", 0.0, &window));
    RP_TRY(rp_hf_flag(m, m->text, "use_sliding_window", false, &used));
    used = used || m->family->window_unless_null;
    if (used && window > 0 && window < *n_ctx) *n_ctx = window;
    return RP_OK;
}

static RpStatus windows(const HfModel *m) {
    bool       window[HF_MAX_LAYERS];
    char       key[128];
    const bool modern_bert = m->family->keys == rp_hf_modern_bert_keys;
    uint32_t   length;
    RP_TRY(rp_hf_count(m, modern_bert ? "local_attention" : "sliding_window",
                       m->family->window_unless_null ? 0.0 : (double)NAN, &length));
    if (length == 0 && m->family->window_unless_null) return RP_OK;
    rp_hf_put_u32(m, "attention.sliding_window", length);
    RP_TRY(rp_hf_windows(m, window));
    rp_gguf_put_array(m->out, rp_hf_key(m, "attention.sliding_window_pattern", key, sizeof key), RP_GGUF_BOOL,
                      (uint64_t)m->n_layer);
    for (int i = 0; i < m->n_layer; i++) rp_gguf_put_element(m->out, &window[i], 1);
    return RP_OK;
}

/* Tokens of a decoder attend to later ones if config.json says so. gemma.c checks the second key of its families. */
static RpStatus attention(const HfModel *m) {
    bool causal;
    if (m->family->encoder || strcmp(m->family->arch, "gemma-embedding") == 0) return RP_OK;
    RP_TRY(rp_hf_flag(m, m->text, "is_causal", true, &causal));
    if (!causal) rp_hf_put_bool(m, "attention.causal", false);
    if (strncmp(m->family->arch, "gemma", 5) == 0) return RP_OK;
    return rp_hf_never(m, "use_bidirectional_attention", "attention to later tokens");
}

static RpStatus check_activation(const HfModel *m) {
    const char     *key = m->family->activation_key != NULL ? m->family->activation_key : "hidden_act";
    const JsonNode *act = rp_hf_value(m, key);
    if (m->family->activation == NULL || act == NULL || rp_json_is(&m->config, act, m->family->activation))
        return RP_OK;
    /* older files of Gemma say gelu and mean its approximation */
    if (strcmp(m->family->arch, "gemma") == 0 && rp_json_is(&m->config, act, "gelu")) return RP_OK;
    const RpGgufString text = rp_json_string(&m->config, act);
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s '%.*s' is not supported (%s computes %s)", m->config.path, key,
                   (int)(text.len < 32 ? text.len : 32), text.ptr, m->family->arch, m->family->activation);
}

/* Directories of MLX have an object "quantization", older ones of ModelOpt a file of their own. Older ones of
 * bitsandbytes do not name it. */
static RpStatus check_quantization(const HfModel *m) {
    static const char hint[] = "take a GGUF file of the model, or its weights before this quantisation";
    const Json       *j      = &m->config;
    const JsonNode   *q      = rp_json_get(j, j->nodes, "quantization_config");
    const JsonNode   *mlx    = rp_json_get(j, j->nodes, "quantization");
    if (rp_json_get(j, mlx, "group_size") != NULL && rp_json_get(j, mlx, "bits") != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: quantization: the quantisation of MLX is not supported: %s", j->path,
                       hint);
    if (q == NULL || q->type == JSON_NULL) {
        bool there;
        RP_TRY(rp_hf_has(&m->dir, "hf_quant_config.json", &there));
        if (!there) return RP_OK;
        return rp_fail(RP_E_UNSUPPORTED, "%s/hf_quant_config.json: the quantisation of ModelOpt is not supported: %s",
                       m->dir.path, hint);
    }
    const JsonNode *method = rp_json_get(j, q, "quant_method");
    if (rp_json_is(j, method, "fp8") || rp_json_is(j, method, "mxfp4")) return RP_OK;
    const bool   bits = rp_json_get(j, q, "load_in_4bit") != NULL || rp_json_get(j, q, "load_in_8bit") != NULL;
    RpGgufString text = rp_json_string(j, method);
    if (method == NULL && bits) text = (RpGgufString){"bitsandbytes", 12};
    return rp_fail(RP_E_UNSUPPORTED, "%s: quant_method '%.*s' is not supported (fp8 and mxfp4 are): %s", j->path,
                   (int)(text.len < 32 ? text.len : 32), text.ptr, hint);
}

static RpStatus heads(const HfModel *m, uint32_t *rope_dim) {
    uint32_t n_embd, n_head, n_head_kv, head_dim, rotary_dim = 0;
    double   rotated;
    RP_TRY(rp_hf_count(m, "hidden_size", (double)NAN, &n_embd));
    RP_TRY(rp_hf_count(m, "num_attention_heads", (double)NAN, &n_head));
    RP_TRY(rp_hf_count(m, "num_key_value_heads", n_head, &n_head_kv));
    if (n_head == 0) return rp_fail(RP_E_FORMAT, "%s: num_attention_heads is 0", m->config.path);
    RP_TRY(rp_hf_count(m, "head_dim", n_embd / n_head, &head_dim));
    if (head_dim == 0) return rp_fail(RP_E_FORMAT, "%s: head_dim is 0", m->config.path);
    if (m->family->rotary_dim) RP_TRY(rp_hf_count(m, "rotary_dim", head_dim, &rotary_dim));
    rotated = rotary_dim > 0 ? (double)rotary_dim / head_dim : 1.0;
    RP_TRY(rp_hf_rope_number(m, "partial_rotary_factor", rotated, &rotated));
    if (rotated != 1.0 && m->family->norm_rope)
        return rp_hf_refuse(m, "partial_rotary_factor", "RoPE of a part of a head");
    if (!(rotated > 0.0 && rotated <= 1.0))
        return rp_fail(RP_E_FORMAT, "%s: partial_rotary_factor is %g", m->config.path, rotated);
    *rope_dim = (uint32_t)(head_dim * rotated);
    rp_hf_put_u32(m, "embedding_length", n_embd);
    rp_hf_put_u32(m, "attention.head_count", n_head);
    if (m->family->latent) return rp_hf_count(m, "qk_rope_head_dim", (double)NAN, rope_dim);
    if (!m->family->hybrid) rp_hf_put_u32(m, "attention.head_count_kv", n_head_kv);
    rp_hf_put_u32(m, "attention.key_length", head_dim);
    rp_hf_put_u32(m, "attention.value_length", head_dim);
    rp_hf_put_u32(m, "rope.dimension_count", *rope_dim);
    return RP_OK;
}

/* Some files have a list of layers, and not their number. */
static RpStatus layers(HfModel *m) {
    const JsonNode *list = rp_hf_value(m, "layers_block_type");
    uint32_t        n;
    RP_TRY(rp_hf_count(m, "num_hidden_layers", list != NULL && list->type == JSON_ARRAY ? list->n : (double)NAN, &n));
    if (n > HF_MAX_LAYERS) return rp_fail(RP_E_FORMAT, "%s: num_hidden_layers is %u", m->config.path, n);
    m->n_layer = (int32_t)n;
    RP_TRY(rp_hf_next_layers(m));
    rp_hf_put_u32(m, "block_count", n + (uint32_t)m->n_layer_next);
    return RP_OK;
}

/* Some models have experts alone. */
static RpStatus feed_forward(const HfModel *m) {
    const bool dense = rp_hf_value(m, "intermediate_size") != NULL || rp_hf_value(m, "moe_intermediate_size") == NULL;
    if (m->family->own_length) return RP_OK;
    return rp_hf_copy_count(m, dense ? "intermediate_size" : "moe_intermediate_size", "feed_forward_length");
}

/* The last component of the path serves as the name of the model. */
static void put_name(const HfModel *m) {
    const char *slash = strrchr(m->dir.real, '/');
    rp_gguf_put_string(m->out, "general.name", slash[1] != '\0' ? slash + 1 : slash);
}

/* Lists the parts of the directory that the model does not use, for `reprise inspect`. */
static RpStatus put_not_read(const HfModel *m) {
    static const struct {
        const char *key, *what;
    } parts[] = {
        {"vision_config", "images"},
        {"audio_config",  "sound" },
    };
    char text[128] = "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const JsonNode *part = rp_json_get(&m->config, m->config.nodes, parts[i].key);
        if (part == NULL || part->type != JSON_OBJECT) continue;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] != '\0' ? ", " : "", parts[i].what);
    }
    if (m->n_left_out > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%slayers that predict further tokens",
                 text[0] != '\0' ? ", " : "");
    if (text[0] != '\0') rp_gguf_put_string(m->out, "reprise.not_read", text);
    return RP_OK;
}

RpStatus rp_hf_config(HfModel *m) {
    uint32_t n_trained = 0, n_ctx = 0, rope_dim = 0;
    m->text              = m->config.nodes;
    const JsonNode *part = rp_json_get(&m->config, m->config.nodes, "text_config");
    if (part != NULL && part->type == JSON_OBJECT) m->text = part;
    RP_TRY(rp_hf_find_family(m));
    RP_TRY(check_activation(m));
    RP_TRY(check_quantization(m));
    rp_gguf_put_string(m->out, "general.architecture", m->family->arch);
    RP_TRY(attention(m));
    put_name(m);
    rp_gguf_put_bool(m->out, RP_CONFIG_ALL_KEYS, true);
    RP_TRY(context(m, &n_trained, &n_ctx));
    rp_hf_put_u32(m, "context_length", n_ctx);
    RP_TRY(rp_hf_copy_count(m, "vocab_size", "vocab_size")); /* for other readers of a file that is made of this */
    RP_TRY(layers(m));
    RP_TRY(put_not_read(m));
    RP_TRY(feed_forward(m));
    const char *eps = m->family->eps_key != NULL ? m->family->eps_key : "rms_norm_eps";
    RP_TRY(rp_hf_copy_number(m, eps, 1e-6, "attention.layer_norm_rms_epsilon"));
    RP_TRY(m->family->heads != NULL ? m->family->heads(m, &rope_dim) : heads(m, &rope_dim));
    RP_TRY(rp_hf_rope(m, rope_dim, n_trained));
    if (m->family->windows) RP_TRY(windows(m));
    RP_TRY(m->family->head != NULL ? rp_hf_classifier(m) : rp_hf_pooling(m));
    return m->family->keys != NULL ? m->family->keys(m) : RP_OK;
}
