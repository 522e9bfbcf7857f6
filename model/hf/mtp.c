/* Layers that predict further tokens (MTP), as llama.cpp's converter maps them. They follow the other layers in GGUF
 * and in the files of DeepSeek and GLM; Qwen uses different names:
 *
 *     mtp.fc                       model.layers.N.eh_proj             N: the number of layers
 *     mtp.pre_fc_norm_embedding    model.layers.N.enorm
 *     mtp.pre_fc_norm_hidden       model.layers.N.hnorm
 *     mtp.norm                     model.layers.N.shared_head.norm
 *     mtp.layers.I                 model.layers.(N + I)
 *
 * config.json announces layers that many files lack, so the files decide. */
#include "model/hf/hf.h"

#include <stdio.h>
#include <string.h>

static bool has_tensor(const HfModel *m, const char *name) {
    return rp_hf_shards_find(&m->shards, (RpGgufString){name, strlen(name)}) != NULL;
}

/* The first layer has the matrix of its input. */
static bool has_first(const HfModel *m) {
    char name[64];
    snprintf(name, sizeof name, "model.layers.%d.eh_proj.weight", m->n_layer);
    if (m->family->mtp == HF_MTP_LAYERS) return has_tensor(m, name);
    return has_tensor(m, "mtp.fc.weight") || has_tensor(m, "model.mtp.fc.weight");
}

RpStatus rp_hf_next_layers(HfModel *m) {
    uint32_t n;
    RP_TRY(rp_hf_count(m, "num_nextn_predict_layers", m->family->mtp == HF_MTP_PREFIX, &n));
    RP_TRY(rp_hf_count(m, "mtp_num_hidden_layers", n, &n));
    if (n > HF_MAX_LAYERS) return rp_fail(RP_E_FORMAT, "%s: %u layers that predict further tokens", m->config.path, n);
    if (m->family->mtp == HF_MTP_NONE) m->n_left_out = (int32_t)n;
    if (m->family->mtp == HF_MTP_NONE || n == 0) return RP_OK;
    RP_TRY(rp_hf_open_shards(m));
    if (!has_first(m)) return RP_OK;
    m->n_layer_next = (int32_t)n;
    rp_hf_put_u32(m, "nextn_predict_layers", n);
    return RP_OK;
}

bool rp_hf_mtp_name(const HfModel *m, RpGgufString s, char *out, size_t size) {
    static const char *const names[][2] = {
        {"fc.",                    "eh_proj."         },
        {"pre_fc_norm_embedding.", "enorm."           },
        {"pre_fc_norm_hidden.",    "hnorm."           },
        {"norm.",                  "shared_head.norm."}
    };
    static const char layers[] = "layers.";
    const size_t      n        = sizeof layers - 1;
    if (s.len > n + 2 && s.len < size - 32 && memcmp(s.ptr, layers, n) == 0 && s.ptr[n + 1] == '.') {
        snprintf(out, size, "model.layers.%d.%.*s", m->n_layer + (s.ptr[n] - '0'), (int)(s.len - n - 2), s.ptr + n + 2);
        return s.ptr[n] >= '0' && s.ptr[n] < '0' + m->n_layer_next;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t len = strlen(names[i][0]);
        if (s.len < len || s.len > size - 64 || memcmp(s.ptr, names[i][0], len) != 0) continue;
        snprintf(out, size, "model.layers.%d.%s%.*s", m->n_layer, names[i][1], (int)(s.len - len), s.ptr + len);
        return true;
    }
    return false;
}
