#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* One expected tensor of a layer: its name after "blk.N.", where it goes, and its shape in terms of the
 * config. */
typedef enum Length { ONE, EMBD, HEADS, HEADS_KV, HEAD_DIM, FF } Length;

typedef struct WeightRow {
    const char *name;
    size_t      field; /* offset in LayerWeights */
    Length      ne0, ne1;
    bool        optional;
    unsigned    feature; /* 0, or: only where the architecture has this */
} WeightRow;

#define FIELD(name) offsetof(LayerWeights, name)

static const WeightRow rows[] = {
    {"attn_norm.weight",           FIELD(attn_norm),      EMBD,     ONE,      false, 0             },
    {"attn_q.weight",              FIELD(q),              EMBD,     HEADS,    false, 0             },
    {"attn_k.weight",              FIELD(k),              EMBD,     HEADS_KV, false, 0             },
    {"attn_v.weight",              FIELD(v),              EMBD,     HEADS_KV, false, 0             },
    {"attn_output.weight",         FIELD(o),              HEADS,    EMBD,     false, 0             },
    {"attn_q.bias",                FIELD(q_bias),         HEADS,    ONE,      true,  0             },
    {"attn_k.bias",                FIELD(k_bias),         HEADS_KV, ONE,      true,  0             },
    {"attn_v.bias",                FIELD(v_bias),         HEADS_KV, ONE,      true,  0             },
    {"attn_output.bias",           FIELD(o_bias),         EMBD,     ONE,      true,  0             },
    {"attn_q_norm.weight",         FIELD(q_norm),         HEAD_DIM, ONE,      false, ARCH_QK_NORM  },
    {"attn_k_norm.weight",         FIELD(k_norm),         HEAD_DIM, ONE,      false, ARCH_QK_NORM  },
    {"post_attention_norm.weight", FIELD(post_attn_norm), EMBD,     ONE,      false, ARCH_POST_NORM},
    {"ffn_norm.weight",            FIELD(ffn_norm),       EMBD,     ONE,      false, 0             },
    {"ffn_gate.weight",            FIELD(gate),           EMBD,     FF,       false, 0             },
    {"ffn_up.weight",              FIELD(up),             EMBD,     FF,       false, 0             },
    {"ffn_down.weight",            FIELD(down),           FF,       EMBD,     false, 0             },
    {"post_ffw_norm.weight",       FIELD(post_ffn_norm),  EMBD,     ONE,      false, ARCH_POST_NORM},
};

static int64_t length(const ModelConfig *c, Length which) {
    const int64_t lengths[] = {[ONE]      = 1,
                               [EMBD]     = c->n_embd,
                               [HEADS]    = (int64_t)c->n_head * c->head_dim,
                               [HEADS_KV] = (int64_t)c->n_head_kv * c->head_dim,
                               [HEAD_DIM] = c->head_dim,
                               [FF]       = c->n_ff};
    return lengths[which];
}

/* ne1 -1: any number of rows. A vector must be f32. *out is NULL for an absent optional tensor. */
static RpStatus find(const Model *m, const char *name, int64_t ne0, int64_t ne1, bool optional,
                     const GgufTensor **out) {
    const char       *path = rp_gguf_path(m->file);
    const GgufTensor *t    = rp_gguf_find_tensor(m->file, name);
    *out                   = t;
    if (t == NULL) return optional ? RP_OK : rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", path, name);
    if (!t->known) {
        const char *type = rp_gguf_type_name(t->gguf_type);
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %s is of type %s (%u), which is not supported", path,
                       name, type != NULL ? type : "unknown", t->gguf_type);
    }
    const TensorView *v = &t->view;
    if (v->ne[0] != ne0 || (ne1 >= 0 && v->ne[1] != ne1) || v->ne[2] != 1 || v->ne[3] != 1) {
        char rows_text[24] = "any";
        if (ne1 >= 0) snprintf(rows_text, sizeof rows_text, "%lld", (long long)ne1);
        return rp_fail(RP_E_SHAPE, "%s: tensor %s is %s [%lld,%lld,%lld,%lld], [%lld,%s] is expected", path,
                       name, rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1],
                       (long long)v->ne[2], (long long)v->ne[3], (long long)ne0, rows_text);
    }
    if (ne1 == 1 && v->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: tensor %s is %s, f32 is expected of a vector", path, name,
                       rp_dtype_name(v->dtype));
    if (v->dtype == RP_I32) return rp_fail(RP_E_DTYPE, "%s: tensor %s is i32: no weight", path, name);
    return RP_OK;
}

static RpStatus find_layer(Model *m, int layer) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const WeightRow *r = &rows[i];
        if (r->feature != 0 && (m->config.arch->features & r->feature) == 0) continue;
        char              name[64];
        const GgufTensor *t = NULL;
        snprintf(name, sizeof name, "blk.%d.%s", layer, r->name);
        RP_TRY(find(m, name, length(&m->config, r->ne0), length(&m->config, r->ne1), r->optional, &t));
        memcpy((char *)&m->layers[layer] + r->field, &t, sizeof(const GgufTensor *));
    }
    return RP_OK;
}

static RpStatus find_rope_factors(Model *m) {
    const ModelConfig *c = &m->config;
    if (rp_gguf_find_tensor(m->file, "rope_factors_long.weight") != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: long and short RoPE factors are not supported",
                       rp_gguf_path(m->file));
    return find(m, "rope_freqs.weight", c->rope.n_dims / 2, 1, true, &m->rope_factors);
}

RpStatus rp_model_find_weights(Model *m) {
    const ModelConfig *c = &m->config;
    RP_TRY(find(m, "token_embd.weight", c->n_embd, -1, false, &m->token_embd));
    const int64_t n_vocab = m->token_embd->view.ne[1];
    if (n_vocab > INT32_MAX / 2)
        return rp_fail(RP_E_FORMAT, "%s: a vocabulary of %lld", rp_gguf_path(m->file), (long long)n_vocab);
    RP_TRY(find(m, "output_norm.weight", c->n_embd, 1, false, &m->output_norm));
    RP_TRY(find(m, "output.weight", c->n_embd, n_vocab, true, &m->output));
    if (m->output == NULL) m->output = m->token_embd;
    RP_TRY(find_rope_factors(m));
    for (int layer = 0; layer < c->n_layer; layer++) RP_TRY(find_layer(m, layer));
    return RP_OK;
}
