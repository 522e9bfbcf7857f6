/* Values of config.json, and keys "<arch>.*" (hf.h). */
#include "model/hf/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const JsonNode *rp_hf_value(const HfModel *m, const char *name) {
    const JsonNode *v = rp_json_get(&m->config, m->text, name);
    return v != NULL && v->type != JSON_NULL ? v : NULL;
}

static double default_of(const HfModel *m, const char *name, double fallback) {
    for (const HfDefault *d = m->family->defaults; d != NULL && d->name != NULL; d++)
        if (strcmp(d->name, name) == 0) return d->value;
    return fallback;
}

RpStatus rp_hf_number(const HfModel *m, const JsonNode *object, const char *name, double fallback, double *out) {
    const JsonNode *v = rp_json_get(&m->config, object, name);
    if (v == NULL && object == m->text) fallback = default_of(m, name, fallback);
    *out = fallback;
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

RpStatus rp_hf_routed_experts(const HfModel *m) {
    RP_TRY(rp_hf_copy_count(m, "n_routed_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    RP_TRY(rp_hf_copy_count(m, "n_shared_experts", "expert_shared_count"));
    return rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length");
}

RpStatus rp_hf_grouped_choice(const HfModel *m) {
    RP_TRY(rp_hf_copy_count(m, "n_group", "expert_group_count"));
    RP_TRY(rp_hf_copy_count(m, "topk_group", "expert_group_used_count"));
    RP_TRY(rp_hf_copy_number(m, "routed_scaling_factor", 1.0, "expert_weights_scale"));
    rp_hf_put_u32(m, "expert_gating_func", 2); /* a sigmoid */
    return RP_OK;
}

RpStatus rp_hf_layer_texts(const HfModel *m, const char *name, const JsonNode **out) {
    *out = rp_hf_value(m, name);
    if (*out == NULL || ((*out)->type == JSON_ARRAY && (*out)->n == (uint32_t)m->n_layer)) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is not a list of %d texts", m->config.path, name, m->n_layer);
}

RpStatus rp_hf_flag(const HfModel *m, const JsonNode *object, const char *name, bool fallback, bool *out) {
    const JsonNode *v = rp_json_get(&m->config, object, name);
    *out              = v != NULL && v->type != JSON_NULL ? v->type == JSON_TRUE : fallback;
    if (v == NULL || v->type == JSON_NULL || v->type == JSON_TRUE || v->type == JSON_FALSE) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is neither true nor false", m->config.path, name);
}

RpStatus rp_hf_refuse(const HfModel *m, const char *name, const char *why) {
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s: %s is not supported", m->config.path, name, why);
}

RpStatus rp_hf_only_text(const HfModel *m, const char *name, const char *only) {
    const JsonNode *v = rp_hf_value(m, name);
    if (v == NULL || rp_json_is(&m->config, v, only)) return RP_OK;
    return rp_hf_refuse(m, name, "another value");
}

RpStatus rp_hf_never(const HfModel *m, const char *name, const char *why) {
    bool set;
    RP_TRY(rp_hf_flag(m, m->text, name, false, &set));
    return set ? rp_hf_refuse(m, name, why) : RP_OK;
}

RpStatus rp_hf_only_number(const HfModel *m, const char *name, double only) {
    double x;
    RP_TRY(rp_hf_number(m, m->text, name, only, &x));
    return x == only ? RP_OK : rp_hf_refuse(m, name, "another value");
}

RpStatus rp_hf_size(const HfModel *m, const char *name, int64_t *out) {
    uint32_t n;
    RP_TRY(rp_hf_count(m, name, (double)NAN, &n));
    *out = n;
    if (n >= 1 && n <= 65536) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is %u, must be from 1 to 65536", m->config.path, name, n);
}

const char *rp_hf_key(const HfModel *m, const char *key, char *buf, size_t size) {
    snprintf(buf, size, "%s.%s", m->family->arch, key);
    return buf;
}

void rp_hf_put_u32(const HfModel *m, const char *key, uint32_t value) {
    char buf[128];
    rp_gguf_put_u32(m->out, rp_hf_key(m, key, buf, sizeof buf), value);
}

void rp_hf_put_text(const HfModel *m, const char *key, const char *text) {
    char buf[128];
    rp_gguf_put_string(m->out, rp_hf_key(m, key, buf, sizeof buf), text);
}

void rp_hf_put_f32(const HfModel *m, const char *key, double value) {
    char buf[128];
    rp_gguf_put_f32(m->out, rp_hf_key(m, key, buf, sizeof buf), (float)value);
}

void rp_hf_put_bool(const HfModel *m, const char *key, bool value) {
    char buf[128];
    rp_gguf_put_bool(m->out, rp_hf_key(m, key, buf, sizeof buf), value);
}

RpStatus rp_hf_copy_count(const HfModel *m, const char *name, const char *key) {
    uint32_t n;
    RP_TRY(rp_hf_count(m, name, (double)NAN, &n));
    rp_hf_put_u32(m, key, n);
    return RP_OK;
}

RpStatus rp_hf_copy_number(const HfModel *m, const char *name, double fallback, const char *key) {
    double x;
    RP_TRY(rp_hf_number(m, m->text, name, fallback, &x));
    rp_hf_put_f32(m, key, x);
    return RP_OK;
}
