/* The tensors of the layer that predicts further tokens, beside those of any layer. */
#include "model/model.h"

#include <stdio.h>

static RpStatus find_assistant_weights(RpModel *m) {
    const int64_t n = m->config.n_embd, n_target = m->config.n_embd_target;
    RP_TRY(rp_model_find_tensor(m, "nextn.pre_projection.weight", 2 * n_target, n, 1, false, &m->mtp.pre));
    return rp_model_find_tensor(m, "nextn.post_projection.weight", n, n_target, 1, false, &m->mtp.post);
}

RpStatus rp_model_find_mtp_weights(RpModel *m) {
    const ModelConfig *c = &m->config;
    const int64_t      n = c->n_embd;
    MtpWeights         w = {0};
    if (c->arch->assistant) return find_assistant_weights(m);
    const struct {
        const char          *name;
        const RpGgufTensor **out;
        int64_t              ne0, ne1;
        bool                 required;
    } rows[] = {
        {"eh_proj",          &w.eh_proj,     2 * n, n,                         true },
        {"enorm",            &w.embd_norm,   n,     1,                         true },
        {"hnorm",            &w.hidden_norm, n,     1,                         true },
        {"embed_tokens",     &w.token_embd,  n,     m->token_embd->view.ne[1], false},
        {"shared_head_norm", &w.norm,        n,     1,                         false},
        {"shared_head_head", &w.output,      n,     m->token_embd->view.ne[1], false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rp_config_may_have_mtp(c); i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.nextn.%s.weight", c->n_layer, rows[i].name);
        if (i == 0 && rp_gguf_find_tensor(m->file, name) == NULL) return RP_OK; /* files may lack them */
        RP_TRY(rp_model_find_tensor(m, name, rows[i].ne0, rows[i].ne1, 1, !rows[i].required, rows[i].out));
    }
    if (w.eh_proj != NULL && w.norm == NULL) { /* its name in Ling 2.0 */
        char name[64];
        snprintf(name, sizeof name, "blk.%d.layer_output_norm.weight", c->n_layer);
        RP_TRY(rp_model_find_tensor(m, name, n, 1, 1, true, &w.norm));
    }
    if (w.token_embd == NULL) w.token_embd = m->token_embd;
    if (w.norm == NULL) w.norm = m->output_norm;
    if (w.output == NULL) w.output = m->output;
    if (w.eh_proj != NULL) m->mtp = w;
    return RP_OK;
}

RpStatus rp_model_list_mtp_weights(const ModelConfig *c, WeightVisitor *visit, void *user) {
    static const char *const names[] = {"eh_proj", "enorm", "hnorm", "shared_head_norm"};
    for (int i = 0; i < 4; i++) {
        const int64_t n = c->n_embd, ne[RP_MAX_DIMS] = {i == 0 ? 2 * n : n, i == 0 ? n : 1, 1, 1};
        char          name[64];
        snprintf(name, sizeof name, "blk.%d.nextn.%s.weight", c->n_layer, names[i]);
        RP_TRY(visit(name, ne, user));
    }
    return RP_OK;
}
