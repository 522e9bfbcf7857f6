/* Which layers of a directory attend to a window of positions. */
#include "model/hf/hf.h"

/* "layer_types" of newer files, else each but the n-th; ModernBERT begins with a layer without a window. */
RpStatus rp_hf_windows(const HfModel *m, bool out[HF_MAX_LAYERS]) {
    const JsonNode *types = rp_hf_value(m, "layer_types");
    const bool      first = m->family->keys == rp_hf_modern_bert_keys;
    uint32_t        n;
    RP_TRY(first ? rp_hf_count(m, "global_attn_every_n_layers", 3, &n)
                 : rp_hf_count(m, "sliding_window_pattern", 6, &n));
    if (types != NULL && (types->type != JSON_ARRAY || types->n != (uint32_t)m->n_layer))
        return rp_fail(RP_E_FORMAT, "%s: layer_types is not a list of %d texts", m->config.path, m->n_layer);
    const JsonNode *x = rp_json_first(&m->config, types);
    for (uint32_t i = 0; i < (uint32_t)m->n_layer; i++) {
        out[i] = n > 0 && (i + (first ? 0 : 1)) % n != 0;
        if (x == NULL) continue;
        out[i] = rp_json_is(&m->config, x, "sliding_attention");
        if (!out[i] && !rp_json_is(&m->config, x, "full_attention"))
            return rp_hf_refuse(m, "layer_types", "a layer that is neither sliding_attention nor full_attention");
        x = rp_json_next(&m->config, types, x);
    }
    return RP_OK;
}
