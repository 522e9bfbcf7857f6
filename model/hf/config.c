/* config.json as keys "<arch>.*". The numbers are those that llama.cpp's convert_hf_to_gguf.py writes; what the
 * library does not compute is refused by its name in config.json (I12). */
#include "model/hf/hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

const JsonNode *rp_hf_value(const HfModel *m, const char *name) {
    const JsonNode *v = rp_json_get(&m->config, m->text, name);
    return v != NULL && v->type != JSON_NULL ? v : NULL;
}

RpStatus rp_hf_number(const HfModel *m, const JsonNode *object, const char *name, double fallback, double *out) {
    const JsonNode *v = rp_json_get(&m->config, object, name);
    *out              = fallback;
    if (v != NULL && v->type != JSON_NULL) {
        *out = rp_json_number(&m->config, v);
        if (isfinite(*out)) return RP_OK;
        return rp_fail(RP_E_FORMAT, "%s: %s is no finite number", m->config.path, name);
    }
    if (isfinite(fallback)) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is missing", m->config.path, name);
}

RpStatus rp_hf_count(const HfModel *m, const char *name, double fallback, uint32_t *out) {
    double x = 0.0;
    *out     = 0;
    RP_TRY(rp_hf_number(m, m->text, name, fallback, &x));
    if (!(x >= 0.0 && x <= 2147483647.0) || x != floor(x))
        return rp_fail(RP_E_FORMAT, "%s: %s is %g, must be a whole number from 0 to 2^31-1", m->config.path, name, x);
    *out = (uint32_t)x;
    return RP_OK;
}

bool rp_hf_flag(const HfModel *m, const char *name, bool fallback) {
    const JsonNode *v = rp_hf_value(m, name);
    return v != NULL ? v->type == JSON_TRUE : fallback;
}

RpStatus rp_hf_refuse(const HfModel *m, const char *name, const char *why) {
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s: %s is not supported", m->config.path, name, why);
}

static const char *key_of(const HfModel *m, const char *key, char *buf, size_t size) {
    snprintf(buf, size, "%s.%s", m->family->arch, key);
    return buf;
}

void rp_hf_put_u32(const HfModel *m, const char *key, uint32_t value) {
    char buf[128];
    rp_gguf_put_u32(m->out, key_of(m, key, buf, sizeof buf), value);
}

void rp_hf_put_text(const HfModel *m, const char *key, const char *text) {
    char buf[128];
    rp_gguf_put_string(m->out, key_of(m, key, buf, sizeof buf), text);
}

void rp_hf_put_f32(const HfModel *m, const char *key, double value) {
    char buf[128];
    rp_gguf_put_f32(m->out, key_of(m, key, buf, sizeof buf), (float)value);
}

static void put_bool(const HfModel *m, const char *key, bool value) {
    char buf[128];
    rp_gguf_put_bool(m->out, key_of(m, key, buf, sizeof buf), value);
}

static RpStatus copy_count(const HfModel *m, const char *name, const char *key) {
    uint32_t n;
    RP_TRY(rp_hf_count(m, name, (double)NAN, &n));
    rp_hf_put_u32(m, key, n);
    return RP_OK;
}

static RpStatus copy_number(const HfModel *m, const char *name, double fallback, const char *key) {
    double x;
    RP_TRY(rp_hf_number(m, m->text, name, fallback, &x));
    rp_hf_put_f32(m, key, x);
    return RP_OK;
}

/* ---- families ---- */

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

static RpStatus mixtral(const HfModel *m) {
    RP_TRY(copy_count(m, "num_local_experts", "expert_count"));
    return copy_count(m, "num_experts_per_tok", "expert_used_count");
}

static RpStatus experts(const HfModel *m) {
    RP_TRY(all_layers_have_experts(m));
    const bool newer = rp_hf_value(m, "num_local_experts") != NULL;
    RP_TRY(copy_count(m, newer ? "num_local_experts" : "num_experts", "expert_count"));
    put_bool(m, "expert_weights_norm", rp_hf_flag(m, "norm_topk_prob", false));
    return copy_count(m, "num_experts_per_tok", "expert_used_count");
}

static RpStatus qwen3moe(const HfModel *m) {
    RP_TRY(copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    return experts(m);
}

static RpStatus qwen2moe(const HfModel *m) {
    RP_TRY(copy_count(m, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"));
    return qwen3moe(m);
}

static RpStatus olmoe(const HfModel *m) {
    if (rp_hf_value(m, "clip_qkv") != NULL) return rp_hf_refuse(m, "clip_qkv", "clamping of q, k and v");
    return experts(m);
}

static RpStatus granite(const HfModel *m) {
    RP_TRY(copy_number(m, "embedding_multiplier", 1.0, "embedding_scale"));
    RP_TRY(copy_number(m, "residual_multiplier", 1.0, "residual_scale"));
    RP_TRY(copy_number(m, "attention_multiplier", 1.0, "attention.scale"));
    return copy_number(m, "logits_scaling", 1.0, "logit_scale");
}

/* The rows of arch_table.c leave RoPE out in each fourth layer; a list in config.json must agree. */
static RpStatus smollm3(const HfModel *m) {
    const JsonNode *list = rp_hf_value(m, "no_rope_layers");
    uint32_t        interval, i = 0;
    RP_TRY(rp_hf_count(m, "no_rope_layer_interval", 4, &interval));
    if (list == NULL && interval != 4) return rp_hf_refuse(m, "no_rope_layer_interval", "another interval than 4");
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x))
        if ((rp_json_number(&m->config, x) != 0.0) != (++i % 4 != 0))
            return rp_hf_refuse(m, "no_rope_layers", "another pattern than each fourth layer");
    return RP_OK;
}

/* True for a layer with a window: "layer_types" of newer files, else each but the n-th. */
static RpStatus gemma3_windows(const HfModel *m, uint32_t n_layer) {
    const JsonNode *types = rp_hf_value(m, "layer_types");
    uint32_t        n, i = 0;
    char            key[128];
    RP_TRY(rp_hf_count(m, "sliding_window_pattern", 6, &n));
    if (types != NULL && (types->type != JSON_ARRAY || types->n != n_layer))
        return rp_fail(RP_E_FORMAT, "%s: layer_types is not a list of %u texts", m->config.path, n_layer);
    rp_gguf_put_array(m->out, key_of(m, "attention.sliding_window_pattern", key, sizeof key), RP_GGUF_BOOL, n_layer);
    const JsonNode *x = rp_json_first(&m->config, types);
    for (; i < n_layer; i++) {
        bool window = n > 0 && (i + 1) % n != 0;
        if (x != NULL) {
            window = rp_json_is(&m->config, x, "sliding_attention");
            if (!window && !rp_json_is(&m->config, x, "full_attention"))
                return rp_hf_refuse(m, "layer_types", "a layer that is neither sliding_attention nor full_attention");
            x = rp_json_next(&m->config, types, x);
        }
        rp_gguf_put_element(m->out, &window, 1);
    }
    return RP_OK;
}

static RpStatus gemma3(const HfModel *m) {
    double   scalar;
    uint32_t n_layer;
    if (rp_hf_value(m, "final_logit_softcapping") != NULL || rp_hf_value(m, "attn_logit_softcapping") != NULL)
        return rp_hf_refuse(m, "final_logit_softcapping", "a soft cap of scores or logits");
    if (rp_hf_flag(m, "use_bidirectional_attention", false))
        return rp_hf_refuse(m, "use_bidirectional_attention", "attention to later tokens");
    RP_TRY(rp_hf_number(m, m->text, "query_pre_attn_scalar", 256.0, &scalar));
    if (!(scalar > 0.0)) return rp_fail(RP_E_FORMAT, "%s: query_pre_attn_scalar is %g", m->config.path, scalar);
    rp_hf_put_f32(m, "attention.scale", 1.0 / sqrt(scalar));
    RP_TRY(rp_hf_count(m, "num_hidden_layers", (double)NAN, &n_layer));
    if (n_layer > 4096) return rp_fail(RP_E_FORMAT, "%s: num_hidden_layers is %u", m->config.path, n_layer);
    RP_TRY(copy_count(m, "sliding_window", "attention.sliding_window"));
    return gemma3_windows(m, n_layer);
}

static const HfFamily families[] = {
    {.name = "LlamaForCausalLM",   .arch = "llama",      .activation = "silu",               .norm_rope = true           },
    {.name = "MistralForCausalLM", .arch = "llama",      .activation = "silu",               .norm_rope = true           },
    {.name = "MixtralForCausalLM", .arch = "llama",      .activation = "silu",               .norm_rope = true,            .keys = mixtral},
    {.name = "Qwen2ForCausalLM",                            .arch = "qwen2",                       .activation = "silu"              },
    {.name = "Qwen3ForCausalLM",   .arch = "qwen3",      .activation = "silu"              },
    {.name = "Qwen2MoeForCausalLM",          .arch = "qwen2moe", .activation = "silu",                   .keys = qwen2moe},
    {.name = "Qwen3MoeForCausalLM",          .arch = "qwen3moe", .activation = "silu",                   .keys = qwen3moe                            },
    {.name        = "Gemma3ForCausalLM",
     .arch        = "gemma3",
     .activation  = "gelu_pytorch_tanh",
     .norm_plus_1 = true,
     .four_norms  = true,
     .keys        = gemma3},
    {.name        = "Gemma3ForConditionalGeneration",
     .arch        = "gemma3",
     .activation  = "gelu_pytorch_tanh",
     .norm_plus_1 = true,
     .four_norms  = true,
     .keys        = gemma3},
    {.name = "SmolLM3ForCausalLM",          .arch = "smollm3",                              .activation = "silu",                                                                .norm_rope = true,                                                                                                  .keys = smollm3},
    {.name = "GraniteForCausalLM",        .arch = "granite",.activation = "silu",.norm_rope = true,                                                                                   .keys = granite},
    {.name = "OlmoeForCausalLM",    .arch = "olmoe",                       .activation = "silu",                                                                                                       .keys = olmoe                                                                },
};

enum { N_FAMILIES = sizeof families / sizeof families[0] };

static RpStatus find_family(HfModel *m) {
    const JsonNode    *list = rp_json_get(&m->config, m->config.nodes, "architectures");
    const JsonNode    *name = list != NULL && list->type == JSON_ARRAY ? rp_json_first(&m->config, list) : NULL;
    const RpGgufString text = rp_json_string(&m->config, name);
    char               known[512];
    size_t             n = 0;
    if (name == NULL) return rp_fail(RP_E_FORMAT, "%s: architectures is missing", m->config.path);
    for (int i = 0; i < N_FAMILIES; i++)
        if (rp_json_is(&m->config, name, families[i].name)) m->family = &families[i];
    if (m->family != NULL) return RP_OK;
    for (int i = 0; i < N_FAMILIES && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", families[i].name);
    return rp_fail(RP_E_UNSUPPORTED, "%s: architecture '%.*s' is not supported (there are %s)", m->config.path,
                   (int)(text.len < 64 ? text.len : 64), text.ptr, known);
}

/* ---- what all families have ---- */

/* Families without windows in arch_table.c run up to the length of the window, where both agree. */
static RpStatus context(const HfModel *m, uint32_t *n_ctx) {
    const bool mistral =
        strcmp(m->family->name, "MistralForCausalLM") == 0; /* 4096 where the key is absent, none for null */
    uint32_t window = 0;
    RP_TRY(rp_hf_count(m, "max_position_embeddings", (double)NAN, n_ctx));
    if (strcmp(m->family->arch, "gemma3") == 0) return RP_OK;
    const bool absent = rp_json_get(&m->config, m->text, "sliding_window") == NULL;
    RP_TRY(rp_hf_count(m, "sliding_window", mistral && absent ? 4096 : 0, &window));
    const bool used =
        mistral || rp_hf_flag(m, "use_sliding_window", strcmp(m->family->name, "MixtralForCausalLM") == 0);
    if (used && window > 0 && window < *n_ctx) *n_ctx = window;
    return RP_OK;
}

static RpStatus check_activation(const HfModel *m) {
    const JsonNode *act = rp_hf_value(m, "hidden_act");
    if (act == NULL) act = rp_hf_value(m, "hidden_activation");
    if (act == NULL || rp_json_is(&m->config, act, m->family->activation)) return RP_OK;
    const RpGgufString text = rp_json_string(&m->config, act);
    return rp_fail(RP_E_UNSUPPORTED, "%s: hidden_act '%.*s' is not supported (%s computes %s)", m->config.path,
                   (int)(text.len < 32 ? text.len : 32), text.ptr, m->family->arch, m->family->activation);
}

static RpStatus check_quantization(const HfModel *m) {
    const JsonNode *q = rp_json_get(&m->config, m->config.nodes, "quantization_config");
    if (q == NULL || q->type == JSON_NULL) return RP_OK;
    const JsonNode *method = rp_json_get(&m->config, q, "quant_method");
    if (rp_json_is(&m->config, method, "fp8")) return RP_OK;
    const RpGgufString text = rp_json_string(&m->config, method);
    return rp_fail(RP_E_UNSUPPORTED, "%s: quant_method '%.*s' is not supported (there is fp8)", m->config.path,
                   (int)(text.len < 32 ? text.len : 32), text.ptr);
}

static RpStatus heads(const HfModel *m, uint32_t *head_dim) {
    uint32_t n_embd, n_head, n_head_kv;
    double   rotated;
    RP_TRY(rp_hf_count(m, "hidden_size", (double)NAN, &n_embd));
    RP_TRY(rp_hf_count(m, "num_attention_heads", (double)NAN, &n_head));
    RP_TRY(rp_hf_count(m, "num_key_value_heads", n_head, &n_head_kv));
    if (n_head == 0) return rp_fail(RP_E_FORMAT, "%s: num_attention_heads is 0", m->config.path);
    RP_TRY(rp_hf_count(m, "head_dim", n_embd / n_head, head_dim));
    RP_TRY(rp_hf_number(m, m->text, "partial_rotary_factor", 1.0, &rotated));
    if (rotated != 1.0) return rp_hf_refuse(m, "partial_rotary_factor", "RoPE of a part of a head");
    rp_hf_put_u32(m, "embedding_length", n_embd);
    rp_hf_put_u32(m, "attention.head_count", n_head);
    rp_hf_put_u32(m, "attention.head_count_kv", n_head_kv);
    rp_hf_put_u32(m, "attention.key_length", *head_dim);
    rp_hf_put_u32(m, "attention.value_length", *head_dim);
    rp_hf_put_u32(m, "rope.dimension_count", *head_dim);
    return RP_OK;
}

/* The last component of the path serves as the name of the model. */
static void put_name(const HfModel *m) {
    const char *slash = strrchr(m->dir.real, '/');
    rp_gguf_put_string(m->out, "general.name", slash[1] != '\0' ? slash + 1 : slash);
}

RpStatus rp_hf_config(HfModel *m) {
    uint32_t n_ctx, head_dim;
    m->text              = m->config.nodes;
    const JsonNode *part = rp_json_get(&m->config, m->config.nodes, "text_config");
    if (part != NULL && part->type == JSON_OBJECT) m->text = part;
    RP_TRY(find_family(m));
    RP_TRY(check_activation(m));
    RP_TRY(check_quantization(m));
    rp_gguf_put_string(m->out, "general.architecture", m->family->arch);
    put_name(m);
    RP_TRY(context(m, &n_ctx));
    rp_hf_put_u32(m, "context_length", n_ctx);
    RP_TRY(copy_count(m, "num_hidden_layers", "block_count"));
    RP_TRY(copy_count(m, "intermediate_size", "feed_forward_length"));
    RP_TRY(copy_number(m, "rms_norm_eps", 1e-6, "attention.layer_norm_rms_epsilon"));
    RP_TRY(heads(m, &head_dim));
    RP_TRY(rp_hf_rope(m, head_dim, n_ctx));
    return m->family->keys != NULL ? m->family->keys(m) : RP_OK;
}
