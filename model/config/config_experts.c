/* The keys of models with experts, and of latent attention (MLA). Counts are checked against each other, so
 * that the graph can rely on them (I11). */
#include "model/config.h"

#include <math.h>
#include <string.h>

enum { MAX_EXPERTS = 4096 };

static RpStatus read_flag(const ConfigReader *r, const char *key, bool *out) {
    char buf[128];
    return rp_gguf_get_bool(r->file, rp_config_key(r, key, buf, sizeof buf), out);
}

/* DeepSeek's expert groups: n experts in n_group groups of one size, of which n_group_used take part. The
 * n_used experts of a token must fit into these. */
static RpStatus read_groups(const ConfigReader *r, ExpertConfig *e) {
    uint32_t n = 0, used = 0;
    RP_TRY(rp_config_u32(r, "expert_group_count", &n));
    RP_TRY(rp_config_u32(r, "expert_group_used_count", &used));
    if (n <= 1) return RP_OK;
    if (n > (uint32_t)e->n || (uint32_t)e->n % n != 0 || used < 1 || used > n ||
        (uint32_t)e->n_used > (uint32_t)e->n / n * used)
        return rp_fail(RP_E_FORMAT, "%s: %d of %d experts from %u of %u groups is not possible", rp_gguf_path(r->file),
                       e->n_used, e->n, used, n);
    e->n_group      = (int32_t)n;
    e->n_group_used = (int32_t)used;
    return RP_OK;
}

static RpStatus read_weights(const ConfigReader *r, ExpertConfig *e) {
    RP_TRY(read_flag(r, "expert_weights_norm", &e->normalize));
    return rp_config_f32(r, "expert_weights_scale", &e->scale);
}

/* Files of GLM-4.7 Flash, of architecture deepseek2, do not name the function that experts are chosen by. */
static RpStatus is_glm_flash(const ConfigReader *r, const ModelConfig *c, bool *is) {
    const RpGgufValue *tokens  = rp_gguf_find(r->file, "tokenizer.ggml.tokens");
    uint32_t           n_vocab = tokens != NULL ? (uint32_t)tokens->n : 0;
    RP_TRY(rp_config_u32(r, "vocab_size", &n_vocab));
    *is = strcmp(r->arch, "deepseek2") == 0 && (c->n_layer == 47 || c->n_layer == 48) && n_vocab == 154880;
    return RP_OK;
}

/* Most families of llama.cpp ignore these keys. */
static RpStatus read_gating(const ConfigReader *r, const ModelConfig *c, ExpertConfig *e) {
    const ArchRow *arch   = c->arch;
    uint32_t       gating = arch->gating != 0 ? (uint32_t)arch->gating : GATING_SOFTMAX;
    bool           flash  = false;
    RP_TRY(is_glm_flash(r, c, &flash));
    if (flash) gating = GATING_SIGMOID;
    if (arch->gating_key || r->all_keys) RP_TRY(rp_config_u32(r, "expert_gating_func", &gating));
    if (gating < GATING_SOFTMAX || gating > GATING_SOFTMAX_OF_CHOSEN)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: %s.expert_gating_func %u is not supported (there are 1: softmax, 2: sigmoid, "
                       "3: softmax of the chosen)",
                       rp_gguf_path(r->file), r->arch, gating);
    e->gating    = (Gating)gating;
    e->normalize = arch->normalize_weights;
    e->scale     = 0.0f;
    if (arch->weight_keys || r->all_keys) RP_TRY(read_weights(r, e));
    if (e->scale == 0.0f) e->scale = 1.0f; /* files say 0 for none */
    return RP_OK;
}

/* The feed-forward length of all shared experts together, see SharedExperts. */
static RpStatus read_shared(const ConfigReader *r, const ModelConfig *c, ExpertConfig *e) {
    const SharedExperts rule   = c->arch->shared;
    uint32_t            length = 0, count = 0;
    if (rule == SHARED_NEVER) return RP_OK;
    if (rule == SHARED_AS_DENSE) RP_TRY(rp_config_u32(r, "feed_forward_length", &length));
    RP_TRY(rp_config_u32(r, "expert_shared_count", &count));
    const bool counted = rule == SHARED_COUNTED || rule == SHARED_EACH;
    if (counted && count <= MAX_EXPERTS) length = rule == SHARED_EACH ? (uint32_t)e->n_ff : count * (uint32_t)e->n_ff;
    RP_TRY(rp_config_u32(r, "expert_shared_feed_forward_length", &length));
    if (rule == SHARED_EACH && count <= MAX_EXPERTS && length <= 1u << 18) length *= count;
    if (length > 1u << 24)
        return rp_fail(RP_E_FORMAT, "%s: shared experts with a feed-forward length of %u", rp_gguf_path(r->file),
                       length);
    e->n_ff_shared = (int32_t)length;
    return RP_OK;
}

RpStatus rp_config_read_experts(const ConfigReader *r, ModelConfig *c) {
    ExpertConfig *e = &c->experts;
    uint32_t      n = 0, n_ff = 0, latent = 0, dense = (uint32_t)c->layers.feed_forward.n_dense, step = 1;
    RP_TRY(rp_config_u32(r, "expert_count", &n));
    if (n == 0 && c->arch->experts_optional) return RP_OK;
    RP_TRY(rp_config_count(r, "expert_count", 0, MAX_EXPERTS, &e->n));
    RP_TRY(rp_config_count(r, "expert_used_count", 0, (uint32_t)e->n, &e->n_used));
    if (!c->arch->one_half && !c->arch->dense_beside) RP_TRY(rp_config_u32(r, "feed_forward_length", &n_ff));
    if (c->arch->length_of_chosen) n_ff /= (uint32_t)e->n_used;
    RP_TRY(rp_config_count(r, "expert_feed_forward_length", n_ff, 1u << 24, &e->n_ff));
    RP_TRY(rp_config_u32(r, "moe_latent_size", &latent));
    if (latent > 1u << 20) return rp_fail(RP_E_FORMAT, "%s: experts of width %u", rp_gguf_path(r->file), latent);
    e->n_latent = (int32_t)latent;
    RP_TRY(rp_config_u32(r, "leading_dense_block_count", &dense));
    if (dense > (uint32_t)c->n_layer)
        return rp_fail(RP_E_FORMAT, "%s: %u dense layers of %d", rp_gguf_path(r->file), dense, c->n_layer);
    c->layers.feed_forward.n_dense = (int32_t)dense;
    RP_TRY(rp_config_u32(r, "interleave_moe_layer_step", &step));
    if (step > 1)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: %s.interleave_moe_layer_step is %u: experts in some layers only are not "
                       "supported",
                       rp_gguf_path(r->file), r->arch, step);
    RP_TRY(read_shared(r, c, e));
    RP_TRY(read_gating(r, c, e));
    return read_groups(r, e);
}

/* YaRN's magnitude m = 1 + 0.1 ln(factor) (Peng et al. 2023, arXiv:2309.00071) multiplies q and k, so scores
 * by m^2. Only a part of an MLA head is rotated, so the scale of the scores takes it. As llama.cpp computes
 * deepseek2:
 *     whole       = 1 if the file has yarn_log_multiplier, else m
 *                   with ArchRow.yarn_log: m / (1 + yarn_log_multiplier * ln(factor))
 *     mscale      = attn_factor * whole * (1 + yarn_log_multiplier * ln(factor))
 *     attn_scale *= mscale^2;   magnitude of the rotation = attn_factor * whole */
static RpStatus scale_of_yarn(const ConfigReader *r, ModelConfig *c) {
    float log_multiplier = 0.0f;
    RP_TRY(rp_config_f32(r, "rope.scaling.yarn_log_multiplier", &log_multiplier));
    if (c->rope.ext_factor == 0.0f) return RP_OK;
    const float stretch = logf(1.0f / c->rope.freq_scale);
    const float m = 1.0f + 0.1f * stretch, all = 1.0f + log_multiplier * stretch;
    const float whole  = c->arch->yarn_log ? m / all : log_multiplier != 0.0f ? 1.0f : m;
    const float mscale = c->rope.attn_factor * whole * all;
    c->attn_scale *= mscale * mscale;
    /* the op rope multiplies by m itself */
    c->rope.attn_factor *= whole / m;
    return RP_OK;
}

/* The lengths of a head. Files that join keys and values of a head in attn_kv_b have them under the usual keys. */
static RpStatus read_lengths(const ConfigReader *r, const ModelConfig *c, int32_t *whole, int32_t *value) {
    char       buf[128];
    const bool split  = rp_gguf_find(r->file, rp_config_key(r, "attention.key_length_mla", buf, sizeof buf)) != NULL,
               joined = rp_gguf_find_tensor(r->file, "blk.0.attn_kv_b.weight") != NULL;
    if (!split && !joined)
        return rp_fail(RP_E_FORMAT, "%s: %s is missing, and there is no tensor blk.0.attn_kv_b.weight",
                       rp_gguf_path(r->file), buf);
    const char *const        key      = split ? "attention.key_length_mla" : "attention.key_length",
                      *const of_value = split ? "attention.value_length_mla" : "attention.value_length";
    RP_TRY(rp_config_count(r, key, split ? 0 : (uint32_t)c->head_dim, 1u << 12, whole));
    return rp_config_count(r, of_value, split ? 0 : (uint32_t)*whole, 1u << 12, value);
}

RpStatus rp_config_read_mla(const ConfigReader *r, ModelConfig *c) {
    MlaConfig *m     = &c->mla;
    int32_t    whole = 0;
    uint32_t   q     = 0;
    RP_TRY(rp_config_count(r, "attention.kv_lora_rank", 0, 1u << 16, &m->kv_lora));
    RP_TRY(read_lengths(r, c, &whole, &m->value));
    RP_TRY(rp_config_u32(r, "attention.q_lora_rank", &q));
    if (q > 1u << 16) return rp_fail(RP_E_FORMAT, "%s: a query rank of %u is not possible", rp_gguf_path(r->file), q);
    m->q_lora = (int32_t)q;
    m->nope   = whole - c->rope.n_dims;
    if (m->nope < 1)
        return rp_fail(RP_E_FORMAT, "%s: heads of %d with %d rotated dimensions", rp_gguf_path(r->file), whole,
                       c->rope.n_dims);
    c->attn_scale = 1.0f / sqrtf((float)whole);
    return scale_of_yarn(r, c);
}
