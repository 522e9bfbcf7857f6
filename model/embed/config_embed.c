/* The keys of models that make embeddings of texts. */
#include "model/config.h"
#include "model/gguf/gguf_file.h"

#include "reprise/embed.h"

/* The values of llama.cpp's enum llama_pooling_type: none, mean, cls, last, rank. */
static RpStatus read_pooling(const ConfigReader *r, const char *name, int32_t *out) {
    uint32_t type = UINT32_MAX;
    char     key[128];
    RP_TRY(rp_gguf_get_u32(r->file, rp_config_key(r, name, key, sizeof key), &type));
    if (type == UINT32_MAX) return RP_OK; /* absent, or not specified */
    if (type > 4) return rp_fail(RP_E_FORMAT, "%s: %s is %u, must be from 0 to 4", rp_gguf_path(r->file), key, type);
    *out = (int32_t)type + RP_POOLING_NONE;
    return RP_OK;
}

/* Attention to all positions is an op on keys and values of the tokens, in f32. */
static RpStatus check_bidirectional(const ConfigReader *r, const ModelConfig *c) {
    const char *path = rp_gguf_path(r->file);
    for (int i = 0; i < c->n_layer; i++) {
        const LayerKind k = rp_config_layer(c, i);
        if ((k.attention != ATTENTION_FULL && k.attention != ATTENTION_WINDOW) || c->arch->parallel_ssm ||
            k.kv_layer != i)
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: %s.attention.causal is false: layer %d cannot attend to later positions", path, r->arch,
                           i);
        if (k.window > 0 && !c->arch->symmetric_window)
            return rp_fail(RP_E_UNSUPPORTED, "%s: %s.attention.causal is false: the window of layer %d is of a decoder",
                           path, r->arch, i);
    }
    if (c->attn_cap == 0.0f) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s.attention.causal is false: attention with a soft cap cannot be so", path,
                   r->arch);
}

RpStatus rp_config_read_embed(const ConfigReader *r, ModelConfig *c) {
    bool causal = !c->arch->bidirectional;
    char key[128];
    c->n_labels = 1;
    RP_TRY(rp_gguf_get_bool(r->file, rp_config_key(r, "attention.causal", key, sizeof key), &causal));
    c->bidirectional = !causal;
    if (causal && c->arch->bidirectional)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %s is true: the family attends to later positions", rp_gguf_path(r->file),
                       key);
    if (c->bidirectional) RP_TRY(check_bidirectional(r, c));
    RP_TRY(read_pooling(r, "pooling_type", &c->pooling));
    RP_TRY(read_pooling(r, "classifier.pooling_type", &c->pooling_of_rank));
    const RpGgufValue *labels = rp_gguf_find(r->file, rp_config_key(r, "classifier.output_labels", key, sizeof key));
    if (labels != NULL && labels->type == RP_GGUF_ARRAY && labels->n > 0) {
        if (labels->n > 1 << 16)
            return rp_fail(RP_E_FORMAT, "%s: %s has %llu elements", rp_gguf_path(r->file), key,
                           (unsigned long long)labels->n);
        c->n_labels = (int32_t)labels->n;
    }
    return RP_OK;
}
