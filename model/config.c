/* The configuration of a model: the row of its architecture, and the keys "<arch>.<key>" of the file's
 * metadata. An absent key gives the default of the family. A value that cannot be is refused with file, key
 * and value (I11). */
#include "model/config.h"

#include "base/limits.h"
#include "model/gguf/gguf_file.h"
#include "reprise/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The row of general.architecture; an unknown name is refused (I12). */
static RpStatus find_arch(const RpGgufFile *f, const ArchRow **out) {
    RpGgufString name = {"", 0};
    RP_TRY(rp_gguf_get_string(f, "general.architecture", &name));
    if (name.len == 0) return rp_fail(RP_E_FORMAT, "%s: general.architecture is missing", rp_gguf_path(f));
    *out = rp_arch_find(name.ptr, name.len);
    if (*out != NULL) return RP_OK;
    const char *missing = rp_arch_missing(name.ptr, name.len);
    return rp_fail(RP_E_UNSUPPORTED, "%s: architecture '%.*s' is not supported%s%s", rp_gguf_path(f),
                   (int)(name.len < 64 ? name.len : 64), name.ptr, missing != NULL ? ": it needs " : "",
                   missing != NULL ? missing : " (docs/models.md lists those that are)");
}

static bool string_is(RpGgufString s, const char *text) {
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* NTK-aware scaling: freq_base * alpha^(d/(d-2)), d rotated dimensions. The slowest pair, i = d/2 - 1, turns
 * by base^(-(d-2)/d) a position, which this divides by alpha; the fastest pair is unchanged. */
static RpStatus read_ntk(const ConfigReader *r, float factor, ModelConfig *c) {
    float alpha = factor;
    RP_TRY(rp_config_f32(r, "rope.scaling.alpha", &alpha));
    if (!(alpha >= 1.0f) || c->rope.n_dims <= 2)
        return rp_fail(RP_E_FORMAT, "%s: ntk rope scaling with alpha %g over %d dimensions is not possible",
                       rp_gguf_path(r->file), (double)alpha, c->rope.n_dims);
    const float d = (float)c->rope.n_dims;
    c->rope.freq_base *= powf(alpha, d / (d - 2.0f));
    return RP_OK;
}

/* The op rope multiplies by YaRN's magnitude 1 + 0.1 ln(factor). With the key it is divided by 1 + 0.1 m ln(factor). */
static RpStatus read_yarn_log(const ConfigReader *r, ModelConfig *c) {
    float m = 0.0f;
    RP_TRY(rp_config_f32(r, "rope.scaling.yarn_log_multiplier", &m));
    if (c->rope.ext_factor == 0.0f || c->rope.freq_scale >= 1.0f) return RP_OK;
    c->rope.attn_factor /= 1.0f - 0.1f * m * logf(c->rope.freq_scale);
    return RP_OK;
}

/* Linear, also where no type is given: freq_scale = 1/factor. YaRN (Peng et al. 2023, arXiv:2309.00071): the same,
 * blended by ext_factor. Longrope has a factor for each pair (weights.c). */
static RpStatus read_rope_scaling(const ConfigReader *r, ModelConfig *c) {
    RpGgufString type   = {"linear", 6};
    float        factor = 0.0f;
    uint32_t     n_orig = (uint32_t)c->n_ctx_train;
    char         key[128];
    RP_TRY(rp_gguf_get_string(r->file, rp_config_key(r, "rope.scaling.type", key, sizeof key), &type));
    RP_TRY(rp_config_f32(r, "rope.scale_linear", &factor)); /* older files, without rope.scaling.factor */
    RP_TRY(rp_config_f32(r, "rope.scaling.factor", &factor));
    RP_TRY(rp_config_u32(r, "rope.scaling.original_context_length", &n_orig));
    RP_TRY(rp_config_f32(r, "rope.scaling.attn_factor", &c->rope.attn_factor));
    if (c->arch->yarn_betas || r->all_keys) {
        RP_TRY(rp_config_f32(r, "rope.scaling.yarn_beta_fast", &c->rope.beta_fast));
        RP_TRY(rp_config_f32(r, "rope.scaling.yarn_beta_slow", &c->rope.beta_slow));
    }
    const bool yarn = string_is(type, "yarn"), ntk = string_is(type, "ntk");
    if (!yarn && !ntk && !string_is(type, "linear") && !string_is(type, "longrope") && !string_is(type, "none"))
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: rope scaling '%.*s' is not supported (there are none, linear, ntk, yarn, longrope)",
                       rp_gguf_path(r->file), (int)(type.len < 32 ? type.len : 32), type.ptr);
    if (factor < 0.0f || n_orig == 0 || n_orig > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: rope scaling by %g from a context of %u is not possible",
                       rp_gguf_path(r->file), (double)factor, n_orig);
    c->rope.n_ctx_orig = (int32_t)n_orig;
    float alpha        = 0.0f;
    if (c->arch->rope_alpha) RP_TRY(rp_config_f32(r, "rope.scaling.alpha", &alpha));
    if (alpha > 0.0f && !ntk && factor > 0.0f && factor != 1.0f && !string_is(type, "none"))
        return rp_fail(RP_E_UNSUPPORTED, "%s: rope.scaling.alpha beside a rope.scaling.factor of %g is not supported",
                       rp_gguf_path(r->file), (double)factor);
    if (ntk || alpha > 0.0f) return read_ntk(r, factor, c);
    /* a factor beside the type "none" is ignored */
    if (factor > 0.0f && !string_is(type, "none")) c->rope.freq_scale = 1.0f / factor;
    if (yarn) {
        c->rope.ext_factor = 1.0f;
        const bool latent  = rp_pattern_has(&c->layers, ATTENTION_LATENT); /* rp_config_read_mla reads it */
        if (c->arch->yarn_log && !latent) return read_yarn_log(r, c);
    }
    return RP_OK;
}

/* Without RoPE, all layers have the position POSITION_NONE. */
static RpStatus read_rope_switch(const ConfigReader *r, ModelConfig *c) {
    bool rope = true;
    char key[128];
    if (!c->arch->rope_switch) return RP_OK;
    RP_TRY(rp_gguf_get_bool(r->file, rp_config_key(r, "rope.scaling.finetuned", key, sizeof key), &rope));
    if (!rope) c->layers.position.kind = c->layers.position.nth = POSITION_NONE;
    return RP_OK;
}

/* M-RoPE rotates sections of a head by the coordinates of an image. For text all coordinates are the position. Files
 * without a second section have no M-RoPE, as in llama.cpp. */
static RpStatus read_rope_sections(const ConfigReader *r, ModelConfig *c) {
    char               key[128];
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, "rope.dimension_sections", key, sizeof key));
    if (!c->arch->sections_neox || v == NULL) return RP_OK;
    if (!rp_config_are_sections(v))
        return rp_fail(RP_E_FORMAT, "%s: %s must be an array of 4 integers", rp_gguf_path(r->file), key);
    if (rp_gguf_number_at(v, 0) > 0.0 && rp_gguf_number_at(v, 1) > 0.0) c->layers.position.kind = POSITION_NEOX;
    return RP_OK;
}

/* The scale of attention may grow with the position, so that it stays sharp in long contexts. */
static RpStatus read_temperature(const ConfigReader *r, ModelConfig *c) {
    uint32_t length = (uint32_t)c->rope.n_ctx_orig;
    if (!c->arch->temperature) return RP_OK;
    RP_TRY(rp_config_f32(r, "attention.temperature_scale", &c->temperature));
    if (c->temperature == 0.0f) return RP_OK;
    RP_TRY(rp_config_u32(r, "attention.temperature_length", &length));
    if (length < 1 || length > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: %s.attention.temperature_length is %u, must be from 1 to 2147483647",
                       rp_gguf_path(r->file), r->arch, length);
    c->temperature_length = (int32_t)length;
    return RP_OK;
}

/* RoPE of all layers, and of those with a window where they differ. Frequencies: theta_i = pos * freq_scale *
 * freq_base^(-2i/n). */
static RpStatus read_rope(const ConfigReader *r, ModelConfig *c) {
    c->rope = (RpRopeParams){
        .freq_base = 10000.0f, .freq_scale = 1.0f, .attn_factor = 1.0f, .beta_fast = 32.0f, .beta_slow = 1.0f};
    RP_TRY(rp_config_count(r, "rope.dimension_count", (uint32_t)c->head_dim, (uint32_t)c->head_dim, &c->rope.n_dims));
    if (c->rope.n_dims % 2 != 0)
        return rp_fail(RP_E_FORMAT, "%s: %s.rope.dimension_count is %d, must be even", rp_gguf_path(r->file), r->arch,
                       c->rope.n_dims);
    RP_TRY(rp_config_f32(r, "rope.freq_base", &c->rope.freq_base));
    RP_TRY(read_rope_scaling(r, c));
    c->rope_window      = c->rope;
    const uint32_t most = (uint32_t)(c->arch->window_heads ? c->head_dim_window : c->head_dim);
    const uint32_t same = c->arch->window_heads ? most : (uint32_t)c->rope.n_dims;
    RP_TRY(rp_config_count(r, "rope.dimension_count_swa", same, most, &c->rope_window.n_dims));
    if (!c->arch->window_heads && c->rope_window.n_dims != c->rope.n_dims)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: %s.rope.dimension_count_swa is %d, and rope.dimension_count %d: they must"
                       " be the same in this family",
                       rp_gguf_path(r->file), r->arch, c->rope_window.n_dims, c->rope.n_dims);
    if (c->rope_window.n_dims % 2 != 0)
        return rp_fail(RP_E_FORMAT, "%s: %s.rope.dimension_count_swa is %d, must be even", rp_gguf_path(r->file),
                       r->arch, c->rope_window.n_dims);
    if (c->arch->window_rope) {
        c->rope_window.freq_base  = 10000.0f;
        c->rope_window.freq_scale = 1.0f;
        c->rope_window.ext_factor = 0.0f;
    }
    if (c->arch->window_unscaled)
        c->rope_window.freq_scale = c->rope_window.attn_factor = 1.0f, c->rope_window.ext_factor = 0.0f;
    RP_TRY(rp_config_f32(r, "rope.freq_base_swa", &c->rope_window.freq_base));
    if (!(c->rope.freq_base > 0.0f) || !(c->rope_window.freq_base > 0.0f))
        return rp_fail(RP_E_FORMAT, "%s: %s.rope.freq_base is %g, must be positive", rp_gguf_path(r->file), r->arch,
                       (double)c->rope.freq_base);
    RP_TRY(read_rope_sections(r, c));
    RP_TRY(read_temperature(r, c));
    return read_rope_switch(r, c);
}

/* How a key with a count for each layer is read. */
typedef struct LayerCounts {
    const char *key;
    uint32_t    fallback; /* where the key is absent; 0: an error */
    uint32_t    least, max;
    bool        arrays; /* the row has an element for each layer, from `least` to `max`; else one count, from 1 */
} LayerCounts;

/* A count, or one for each layer; *out is the largest. */
static RpStatus read_of_layers(const ConfigReader *r, const LayerCounts *how, int32_t *out, const RpGgufValue **array) {
    char               text[128];
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, how->key, text, sizeof text));
    if (!how->arrays || v == NULL || v->type != RP_GGUF_ARRAY)
        return rp_config_count(r, how->key, how->fallback, how->max, out);
    *array = v;
    *out   = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const double n = rp_gguf_number_at(v, i);
        if (!(n >= (double)how->least && n <= (double)how->max))
            return rp_fail(RP_E_FORMAT, "%s: %s has %g for layer %llu, must be from %u to %u", rp_gguf_path(r->file),
                           text, n, (unsigned long long)i, how->least, how->max);
        if ((int32_t)n > *out) *out = (int32_t)n;
    }
    if (*out > 0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s has 0 for every layer", rp_gguf_path(r->file), text);
}

static RpStatus read_window_heads(const ConfigReader *r, ModelConfig *c) {
    RP_TRY(rp_config_count(r, "attention.key_length_swa", (uint32_t)c->head_dim, RP_ATTENTION_MAX_DIM,
                           &c->head_dim_window));
    int32_t value = 0;
    RP_TRY(
        rp_config_count(r, "attention.value_length_swa", (uint32_t)c->head_dim_window, RP_ATTENTION_MAX_DIM, &value));
    if (value == c->head_dim_window) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: heads of %d for keys and %d for values are not supported",
                   rp_gguf_path(r->file), c->head_dim_window, value);
}

/* Arrays have an element for each layer; the keys of caches that are shared, and of the embeddings of layers. */
static RpStatus read_layers(const ConfigReader *r, ModelConfig *c) {
    uint32_t shared = 0, embd = 0;
    c->n_layer_kv                     = c->n_layer;
    const RpGgufValue *const arrays[] = {c->heads_kv, c->ff_lengths};
    for (int i = 0; i < 2; i++)
        if (arrays[i] != NULL && arrays[i]->n != (uint64_t)c->n_layer &&
            arrays[i]->n != (uint64_t)c->n_layer + (uint64_t)c->n_layer_next)
            return rp_fail(RP_E_FORMAT, "%s: an array of %llu elements for %d layers", rp_gguf_path(r->file),
                           (unsigned long long)arrays[i]->n, c->n_layer);
    if (c->arch->shared_caches) RP_TRY(rp_config_u32(r, "attention.shared_kv_layers", &shared));
    if (c->arch->layer_embd) RP_TRY(rp_config_u32(r, "embedding_length_per_layer_input", &embd));
    if (shared > 0 && shared + 2 > (uint32_t)c->n_layer)
        return rp_fail(RP_E_FORMAT, "%s: %u of %d layers share a cache", rp_gguf_path(r->file), shared, c->n_layer);
    if (embd > 1u << 16) return rp_fail(RP_E_FORMAT, "%s: embeddings of layers of %u", rp_gguf_path(r->file), embd);
    c->n_layer_kv   = c->n_layer - (int32_t)shared;
    c->n_embd_layer = (int32_t)embd;
    for (int i = c->n_layer_kv; i < c->n_layer; i++) {
        const LayerKind k = rp_config_layer(c, i), of = rp_config_layer(c, k.kv_layer);
        if (k.attention != of.attention || k.n_head_kv != of.n_head_kv)
            return rp_fail(RP_E_FORMAT, "%s: layer %d cannot read the cache of layer %d", rp_gguf_path(r->file), i,
                           k.kv_layer);
    }
    return RP_OK;
}

/* 0 in the file, or no key: the usual scale of the family, 1/sqrt(head_dim) in most. */
static RpStatus read_attention_scale(const ConfigReader *r, ModelConfig *c) {
    float scale = 0.0f;
    RP_TRY(rp_config_f32(r, "attention.scale", &scale));
    if (scale < 0.0f)
        return rp_fail(RP_E_FORMAT, "%s: %s.attention.scale is %g, must not be negative", rp_gguf_path(r->file),
                       r->arch, (double)scale);
    c->attn_scale = c->arch->attn_scale > 0.0f ? c->arch->attn_scale : 1.0f / sqrtf((float)c->head_dim);
    if (c->n_layer == c->arch->scale_embd_layers) c->attn_scale = 1.0f / sqrtf((float)c->n_embd / (float)c->n_head);
    if (scale > 0.0f) c->attn_scale = scale;
    return RP_OK;
}

/* Scores are multiplied by 1/sqrt(head_dim), unless row or file say otherwise. */
static RpStatus read_heads(const ConfigReader *r, ModelConfig *c) {
    int32_t value_dim = 0;
    RP_TRY(rp_config_count(r, "attention.head_count", 0, 1024, &c->n_head));
    const bool        recurrent = c->layers.attention.without_heads != ATTENTION_NONE;
    const LayerCounts heads_kv  = {.key      = "attention.head_count_kv",
                                   .fallback = (uint32_t)c->n_head,
                                   .least    = recurrent ? 0 : 1,
                                   .max      = (uint32_t)c->n_head,
                                   .arrays   = recurrent || c->arch->head_arrays};
    RP_TRY(read_of_layers(r, &heads_kv, &c->n_head_kv, &c->heads_kv));
    if (c->n_head % c->n_head_kv != 0)
        return rp_fail(RP_E_FORMAT, "%s: %d heads are not a multiple of %d key heads", rp_gguf_path(r->file), c->n_head,
                       c->n_head_kv);
    RP_TRY(rp_config_count(r, "attention.key_length", (uint32_t)(c->n_embd / c->n_head), 1024, &c->head_dim));
    RP_TRY(rp_config_count(r, "attention.value_length", (uint32_t)c->head_dim, 1024, &value_dim));
    if (value_dim != c->head_dim && !rp_pattern_has(&c->layers, ATTENTION_LATENT))
        return rp_fail(RP_E_UNSUPPORTED, "%s: heads of %d for keys and %d for values are not supported",
                       rp_gguf_path(r->file), c->head_dim, value_dim);
    if (c->head_dim > RP_ATTENTION_MAX_DIM && !rp_pattern_has(&c->layers, ATTENTION_LATENT))
        return rp_fail(RP_E_UNSUPPORTED, "%s: heads of %d are not supported, at most %d", rp_gguf_path(r->file),
                       c->head_dim, RP_ATTENTION_MAX_DIM);
    c->head_dim_window = c->head_dim;
    if (c->arch->window_heads) RP_TRY(read_window_heads(r, c));
    return read_attention_scale(r, c);
}

/* Which layers have a window: each but the n-th, or as an array of booleans says, one for each layer. */
static RpStatus read_window_layers(const ConfigReader *r, ModelConfig *c) {
    char               key[128];
    uint32_t           n = (uint32_t)c->layers.attention.n;
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, "attention.sliding_window_pattern", key, sizeof key));
    if (v != NULL && v->type == RP_GGUF_ARRAY && v->elem_type == RP_GGUF_BOOL) {
        if (v->n != (uint64_t)c->n_layer)
            return rp_fail(RP_E_FORMAT, "%s: %s has %llu elements for %d layers", rp_gguf_path(r->file), key,
                           (unsigned long long)v->n, c->n_layer);
        c->window_layers = v;
        return RP_OK;
    }
    RP_TRY(rp_gguf_get_u32(r->file, key, &n));
    if (n > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: %s is %u, must be at most %d", rp_gguf_path(r->file), key, n, INT32_MAX);
    if (v != NULL) c->layers.attention.nth = ATTENTION_FULL;
    c->layers.attention.n = (int32_t)n;
    return RP_OK;
}

static RpStatus read_window(const ConfigReader *r, ModelConfig *c) {
    uint32_t window = (uint32_t)c->arch->window_default;
    if (!rp_pattern_has(&c->layers, ATTENTION_WINDOW)) return RP_OK;
    RP_TRY(rp_config_u32(r, "attention.sliding_window", &window));
    if (c->arch->needs_window && window == 0)
        return rp_fail(RP_E_FORMAT, "%s: %s.attention.sliding_window is missing or 0", rp_gguf_path(r->file), r->arch);
    if (window > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: a sliding window of %u positions is not possible", rp_gguf_path(r->file),
                       window);
    c->window = (int32_t)window;
    if (c->arch->assistant && window < 2) /* the position of the next token, which is not attended to, is one of it */
        return rp_fail(RP_E_FORMAT, "%s: %s.attention.sliding_window is %u, must be at least 2", rp_gguf_path(r->file),
                       r->arch, window);
    return read_window_layers(r, c);
}

/* A file without the key has the usual cap of its family. 0: none. */
static RpStatus read_cap(const ConfigReader *r, const char *key, float usual, float *out) {
    *out = usual;
    RP_TRY(rp_config_f32(r, key, out));
    if (*out >= 0.0f) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s.%s is %g, must not be negative", rp_gguf_path(r->file), r->arch, key,
                   (double)*out);
}

/* Factors of embedding, residual and logits, from the keys that the row names; the value for the logits is a
 * divisor. */
static RpStatus read_scales(const ConfigReader *r, ModelConfig *c) {
    const ArchRow *a       = c->arch;
    float          divisor = 1.0f, factor = a->logit_factor_key != NULL ? 0.0f : 1.0f;
    c->embd_scale     = a->embd_scale_sqrt ? sqrtf((float)c->n_embd) : 1.0f;
    c->residual_scale = 1.0f;
    if (a->embd_scale_key != NULL) RP_TRY(rp_config_f32(r, a->embd_scale_key, &c->embd_scale));
    if (a->residual_scale_key != NULL) RP_TRY(rp_config_f32(r, a->residual_scale_key, &c->residual_scale));
    if (a->logit_divisor_key != NULL) RP_TRY(rp_config_f32(r, a->logit_divisor_key, &divisor));
    if (a->logit_factor_key != NULL) {
        RP_TRY(rp_config_f32(r, a->logit_factor_key, &factor));
        if (!(factor > 0.0f))
            return rp_fail(RP_E_FORMAT, "%s: %s.%s is missing or not positive", rp_gguf_path(r->file), r->arch,
                           a->logit_factor_key);
    }
    if (divisor == 0.0f)
        return rp_fail(RP_E_FORMAT, "%s: %s.%s is 0", rp_gguf_path(r->file), r->arch, a->logit_divisor_key);
    c->logit_scale = factor / divisor;
    RP_TRY(read_cap(r, "attn_logit_softcapping", a->attn_cap, &c->attn_cap));
    return read_cap(r, "final_logit_softcapping", a->logit_cap, &c->logit_cap);
}

/* Hugging Face keeps the rows of q and k of each family in the order of pairs (i, i + n/2). */
static void use_order_of_halves(LayerPattern *p) {
    if (p->position.kind == POSITION_NORM) p->position.kind = POSITION_NEOX;
    if (p->position.nth == POSITION_NORM) p->position.nth = POSITION_NEOX;
}

/* The last layers of block_count may be those of multi-token prediction. Files of assistants say that all are. */
static RpStatus read_next_layers(const ConfigReader *r, ModelConfig *c) {
    uint32_t n = 0;
    if (c->arch->assistant) return rp_config_count(r, "embedding_length_out", 0, 1u << 20, &c->n_embd_target);
    RP_TRY(rp_config_u32(r, "nextn_predict_layers", &n));
    if (n >= (uint32_t)c->n_layer)
        return rp_fail(RP_E_FORMAT, "%s: %s.nextn_predict_layers is %u of %d layers", rp_gguf_path(r->file), r->arch, n,
                       c->n_layer);
    c->n_layer_next = (int32_t)n;
    c->n_layer -= c->n_layer_next;
    return RP_OK;
}

static RpStatus read_feed_forward(const ConfigReader *r, ModelConfig *c) {
    const LayerCounts lengths = {.key      = "feed_forward_length",
                                 .fallback = (uint32_t)c->experts.n_ff,
                                 .least    = c->arch->one_half ? 0 : 1,
                                 .max      = 1u << 24,
                                 .arrays   = c->arch->one_half || c->arch->head_arrays};
    return read_of_layers(r, &lengths, &c->n_ff, &c->ff_lengths);
}

static RpStatus read_norm_eps(const ConfigReader *r, ModelConfig *c) {
    const bool  layer = c->arch->layer_norm;
    const char *name  = layer ? "layer_norm_epsilon" : "layer_norm_rms_epsilon";
    if (layer || c->arch->one_half) RP_TRY(rp_config_f32(r, "attention.layer_norm_epsilon", &c->norm_eps));
    if (!layer) RP_TRY(rp_config_f32(r, "attention.layer_norm_rms_epsilon", &c->norm_eps));
    if (c->norm_eps > 0.0f) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s.attention.%s is missing or not positive", rp_gguf_path(r->file), r->arch, name);
}

/* The order matters: later keys take their defaults from earlier ones. */
RpStatus rp_config_read(const RpGgufFile *f, ModelConfig *out) {
    ModelConfig c = {0};
    RP_TRY(find_arch(f, &c.arch));
    ConfigReader r = {.file = f, .arch = c.arch->name};
    RP_TRY(rp_gguf_get_bool(f, RP_CONFIG_ALL_KEYS, &r.all_keys));
    c.layers = c.arch->layers;
    if (f->parts.norm_rope) use_order_of_halves(&c.layers);
    RP_TRY(rp_config_count(&r, "context_length", 0, 1u << 30, &c.n_ctx_train));
    RP_TRY(rp_config_count(&r, "embedding_length", 0, 1u << 20, &c.n_embd));
    RP_TRY(rp_config_count(&r, "block_count", 0, 4096, &c.n_layer));
    RP_TRY(read_next_layers(&r, &c));
    if (c.layers.feed_forward.kind == FEED_FORWARD_EXPERTS) RP_TRY(rp_config_read_experts(&r, &c));
    RP_TRY(read_feed_forward(&r, &c));
    RP_TRY(read_heads(&r, &c));
    RP_TRY(read_rope(&r, &c));
    RP_TRY(read_window(&r, &c));
    RP_TRY(read_layers(&r, &c));
    RP_TRY(read_norm_eps(&r, &c));
    RP_TRY(rp_config_read_activation(&r, &c));
    RP_TRY(read_scales(&r, &c));
    RP_TRY(rp_config_read_embed(&r, &c));
    if (rp_pattern_has(&c.layers, ATTENTION_LATENT)) RP_TRY(rp_config_read_mla(&r, &c));
    if (rp_pattern_has(&c.layers, ATTENTION_DELTA)) RP_TRY(rp_config_read_delta(&r, &c));
    if (rp_pattern_has(&c.layers, ATTENTION_SSM) || c.arch->parallel_ssm) RP_TRY(rp_config_read_ssm(&r, &c));
    if (rp_pattern_has(&c.layers, ATTENTION_CONV)) RP_TRY(rp_config_read_taps(&r, "shortconv.l_cache", &c));
    if (c.arch->rope_sections) RP_TRY(rp_config_read_sections(&r, &c));
    *out = c;
    return RP_OK;
}
