/* Which layers of a directory attend to a window of positions. */
#include "model/hf/hf.h"

/* The pattern is n, for each but the n-th layer, or a text with a letter for each of n layers: L for a window, G for
 * none. ModernBERT begins with a layer without a window. */
static RpStatus window_pattern(const HfModel *m, bool out[HF_MAX_LAYERS]) {
    const bool         first = m->family->keys == rp_hf_modern_bert_keys;
    const RpGgufString text  = rp_json_string(&m->config, rp_hf_value(m, "sliding_window_pattern"));
    uint32_t           n;
    if (text.len > 0) {
        for (size_t i = 0; i < text.len; i++)
            if (text.ptr[i] != 'L' && text.ptr[i] != 'G')
                return rp_hf_refuse(m, "sliding_window_pattern", "a layer that is neither L nor G");
        for (int i = 0; i < m->n_layer; i++) out[i] = text.ptr[(size_t)i % text.len] == 'L';
        return RP_OK;
    }
    RP_TRY(first ? rp_hf_count(m, "global_attn_every_n_layers", 3, &n)
                 : rp_hf_count(m, "sliding_window_pattern", 6, &n));
    for (uint32_t i = 0; i < (uint32_t)m->n_layer; i++) out[i] = n > 0 && (i + (first ? 0 : 1)) % n != 0;
    return RP_OK;
}

/* "layer_types" of newer files, else the pattern. */
RpStatus rp_hf_windows(const HfModel *m, bool out[HF_MAX_LAYERS]) {
    const JsonNode *types;
    RP_TRY(rp_hf_layer_texts(m, "layer_types", &types));
    if (types == NULL) return window_pattern(m, out);
    const JsonNode *x = rp_json_first(&m->config, types);
    for (int i = 0; i < m->n_layer; i++, x = rp_json_next(&m->config, types, x)) {
        out[i] = rp_json_is(&m->config, x, "sliding_attention");
        if (!out[i] && !rp_json_is(&m->config, x, "full_attention"))
            return rp_hf_refuse(m, "layer_types", "a layer that is neither sliding_attention nor full_attention");
    }
    return RP_OK;
}
