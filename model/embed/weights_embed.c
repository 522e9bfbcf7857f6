/* The tensors outside of the layers that make embeddings of texts, and those that score them. */
#include "model/model.h"

#include "reprise/embed.h"

/* How a tensor is expected. */
typedef struct EmbedRow {
    const char          *name;
    const RpGgufTensor **out;
    int64_t              ne0, ne1;
    bool                 has, required;
} EmbedRow;

RpStatus rp_model_find_embed_weights(RpModel *m) {
    const ModelConfig *c    = &m->config;
    const ArchRow     *a    = c->arch;
    EmbedWeights      *e    = &m->embed;
    const int64_t      n    = c->n_embd;
    const bool         bias = a->norm_of_sum; /* as in the norms of the layers */
    /* n_ctx_train positions; the others are optional in every family */
    const EmbedRow rows[] = {
        {"token_types.weight",     &e->types,        n,           -1,             a->embd_types,     false},
        {"position_embd.weight",   &e->positions,    n,           c->n_ctx_train, a->embd_positions, true },
        {"token_embd_norm.weight", &e->norm,         n,           1,              a->embd_norm,      true },
        {"token_embd_norm.bias",   &e->norm_bias,    n,           1,              a->embd_norm,      bias },
        {"cls.weight",             &e->cls,          n,           n,              true,              false},
        {"cls.bias",               &e->cls_bias,     n,           1,              true,              false},
        {"cls.norm.weight",        &e->cls_norm,     n,           1,              true,              false},
        {"cls.output.weight",      &e->cls_out,      n,           c->n_labels,    true,              false},
        {"cls.output.bias",        &e->cls_out_bias, c->n_labels, 1,              true,              false},
        {"dense_2.weight",         &e->dense_2,      n,           -1,             true,              false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].has)
            RP_TRY(rp_model_find_tensor(m, rows[i].name, rows[i].ne0, rows[i].ne1, 1, !rows[i].required, rows[i].out));
    const int64_t middle = e->dense_2 != NULL ? e->dense_2->view.ne[1] : n;
    RP_TRY(rp_model_find_tensor(m, "dense_2.bias", middle, 1, 1, true, &e->dense_2_bias));
    return rp_model_find_tensor(m, "dense_3.weight", middle, -1, 1, true, &e->dense_3);
}
