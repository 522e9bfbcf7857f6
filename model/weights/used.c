/* Which tensors of a file the graph of its model reads. */
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include "reprise/options.h"

#include <stdio.h>
#include <string.h>

/* True for tensors of layer n_layer and above. */
bool rp_model_is_of_next_layers(const RpModel *m, const RpGgufTensor *t) {
    const int32_t n = m->config.n_layer + m->config.n_layer_next;
    char          prefix[24];
    for (int i = m->config.n_layer; i < n; i++) {
        const size_t len = (size_t)snprintf(prefix, sizeof prefix, "blk.%d.", i);
        if (t->name.len > len && memcmp(t->name.ptr, prefix, len) == 0) return true;
    }
    return false;
}

/* LayerWeights has nothing but pointers to tensors. */
static bool is_used(const RpModel *m, const RpGgufTensor *t) {
    enum { FIELDS = sizeof(LayerWeights) / sizeof(const RpGgufTensor *) };
    const RpGgufTensor *outside[sizeof(EmbedWeights) / sizeof(const RpGgufTensor *)];
    memcpy(outside, &m->embed, sizeof outside);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        if (outside[i] == t) return true;
    if (t == m->token_embd || t == m->output_norm || t == m->output_norm_bias || t == m->output ||
        t == m->rope_factors || t == m->rope_long || t == m->rope_short || t == m->layer_embd || t == m->layer_proj ||
        t == m->layer_norm || t == m->mtp.pre || t == m->mtp.post)
        return true;
    for (int layer = 0; layer < m->config.n_layer; layer++) {
        const RpGgufTensor *fields[FIELDS];
        memcpy(fields, &m->layers[layer], sizeof fields);
        for (int i = 0; i < FIELDS; i++)
            if (fields[i] == t) return true;
    }
    return false;
}

bool rp_model_reads(const RpModel *m, const RpGgufTensor *t) {
    for (int i = 0; i < m->config.n_layer; i++) {
        const LayerWeights *l = &m->layers[i];
        if (t == l->qkv || t == l->qkv_bias || t == l->gate_up || t == l->gate_up_exps || t == l->kv_b ||
            t == l->delta_in)
            return false;
    }
    return is_used(m, t);
}

/* Files of assistants may have a table that preselects candidates. The product with the whole embedding finds the same
 * most probable token, or a better one. */
static bool is_preselection(const RpModel *m, const RpGgufTensor *t) {
    static const char prefix[] = "masked_embd_";
    return m->config.arch->assistant && t->name.len >= sizeof prefix - 1 &&
           memcmp(t->name.ptr, prefix, sizeof prefix - 1) == 0;
}

RpStatus rp_model_check_unused(const RpModel *m) {
    const char  *option   = rp_option(RP_OPT_UNUSED_TENSORS);
    int64_t      n_unused = 0;
    RpGgufString first    = {"", 0};
    if (strcmp(option, "ignore") == 0) return RP_OK;
    if (strcmp(option, "refuse") != 0)
        return rp_fail(RP_E_ARG, "REPRISE_UNUSED_TENSORS '%.32s': must be refuse or ignore", option);
    for (int64_t i = 0; i < rp_gguf_n_tensors(m->file); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(m->file, i);
        const bool          known =
            is_used(m, t) || rp_model_is_of_next_layers(m, t) || rp_model_is_scale(m, t) || is_preselection(m, t);
        if (!known && !rp_gguf_is_training(t->name) && n_unused++ == 0) first = t->name;
    }
    if (n_unused == 0) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: architecture %s does not use %lld of the tensors, first %.*s: results could be wrong "
                   "(REPRISE_UNUSED_TENSORS=ignore opens it)",
                   rp_gguf_path(m->file), m->config.arch->name, (long long)n_unused, (int)first.len, first.ptr);
}
