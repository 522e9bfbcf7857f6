/* The tensors that a layer has, as one table: name, field of LayerWeights, shape, and when it is expected.
 * The table serves both to find the tensors of a file and to list those of a model that is to be written.
 *
 * Ownership: RpGgufFile owns the mapping and its GgufTensors. LayerWeights points to these; nothing is
 * copied. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* Lengths that shapes are made of; length() gives their values. */
typedef enum Length {
    ONE,
    EMBD,
    HEADS,
    HEADS_KV,
    HEAD_DIM,
    N_HEADS,
    FF,
    EXPERTS,
    FF_EXPERT,
    FF_SHARED,
    Q_LORA,
    KV_LORA,
    KV_A,
    NOPE,
    MLA_Q,
    MLA_VALUE,
    MLA_OUT,
    N_LENGTHS
} Length;

/* A layer has a tensor if the layer's bits include all bits of the row. */
enum {
    ALWAYS      = 0,
    QK_NORM     = 1 << 0,
    QK_NORM_ALL = 1 << 1,
    POST_NORM   = 1 << 2,
    PLAIN       = 1 << 3, /* attention with cached keys and values, not MLA */
    MLA         = 1 << 4,
    MLA_Q_LORA  = 1 << 5,
    MLA_Q_PLAIN = 1 << 6,
    OAI         = 1 << 7,
    NOT_OAI     = 1 << 8,
    DENSE       = 1 << 9,
    ROUTED      = 1 << 10,
    SHARED      = 1 << 11,
    SHARED_GATE = 1 << 12
};

typedef enum Presence {
    REQUIRED,
    OPTIONAL,
    READ_ONLY /* optional in files that are read, never in those that are written */
} Presence;

/* One tensor of a layer; its full name is "blk.<layer>.<name>". */
typedef struct WeightRow {
    const char *name;
    size_t      field; /* offset of its pointer in LayerWeights */
    Length      ne[3]; /* ne[0] contiguous */
    Presence    presence;
    unsigned    when; /* bits that the layer must have */
} WeightRow;

#define FIELD(name) offsetof(LayerWeights, name)

static const WeightRow rows[] = {
    {"attn_norm.weight",           FIELD(attn_norm),      {EMBD, ONE, ONE},              REQUIRED,  ALWAYS              },
    {"attn_q.weight",              FIELD(q),              {EMBD, HEADS, ONE},            REQUIRED,  PLAIN               },
    {"attn_k.weight",              FIELD(k),              {EMBD, HEADS_KV, ONE},         REQUIRED,  PLAIN               },
    {"attn_v.weight",              FIELD(v),              {EMBD, HEADS_KV, ONE},         REQUIRED,  PLAIN               },
    {"attn_output.weight",         FIELD(o),              {HEADS, EMBD, ONE},            REQUIRED,  PLAIN               },
    {"attn_q.bias",                FIELD(q_bias),         {HEADS, ONE, ONE},             OPTIONAL,  PLAIN               },
    {"attn_k.bias",                FIELD(k_bias),         {HEADS_KV, ONE, ONE},          OPTIONAL,  PLAIN               },
    {"attn_v.bias",                FIELD(v_bias),         {HEADS_KV, ONE, ONE},          OPTIONAL,  PLAIN               },
    {"attn_output.bias",           FIELD(o_bias),         {EMBD, ONE, ONE},              OPTIONAL,  PLAIN | OAI         },
    {"attn_output.bias",           FIELD(o_bias),         {EMBD, ONE, ONE},              READ_ONLY, PLAIN | NOT_OAI     },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEAD_DIM, ONE, ONE},          REQUIRED,  QK_NORM             },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEAD_DIM, ONE, ONE},          REQUIRED,  QK_NORM             },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEADS, ONE, ONE},             REQUIRED,  QK_NORM_ALL         },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEADS_KV, ONE, ONE},          REQUIRED,  QK_NORM_ALL         },
    {"attn_sinks.weight",          FIELD(sinks),          {N_HEADS, ONE, ONE},           REQUIRED,  OAI                 },
    {"attn_q.weight",              FIELD(q),              {EMBD, MLA_Q, ONE},            REQUIRED,  MLA | MLA_Q_PLAIN   },
    {"attn_q_a.weight",            FIELD(q_a),            {EMBD, Q_LORA, ONE},           REQUIRED,  MLA | MLA_Q_LORA    },
    {"attn_q_a_norm.weight",       FIELD(q_a_norm),       {Q_LORA, ONE, ONE},            REQUIRED,  MLA | MLA_Q_LORA    },
    {"attn_q_b.weight",            FIELD(q),              {Q_LORA, MLA_Q, ONE},          REQUIRED,  MLA | MLA_Q_LORA    },
    {"attn_kv_a_mqa.weight",       FIELD(kv_a),           {EMBD, KV_A, ONE},             REQUIRED,  MLA                 },
    {"attn_kv_a_norm.weight",      FIELD(kv_a_norm),      {KV_LORA, ONE, ONE},           REQUIRED,  MLA                 },
    {"attn_k_b.weight",            FIELD(k_b),            {NOPE, KV_LORA, N_HEADS},      REQUIRED,  MLA                 },
    {"attn_v_b.weight",            FIELD(v_b),            {KV_LORA, MLA_VALUE, N_HEADS}, REQUIRED,  MLA                 },
    {"attn_output.weight",         FIELD(o),              {MLA_OUT, EMBD, ONE},          REQUIRED,  MLA                 },
    {"post_attention_norm.weight", FIELD(post_attn_norm), {EMBD, ONE, ONE},              REQUIRED,  POST_NORM           },
    {"post_attention_norm.weight", FIELD(ffn_norm),       {EMBD, ONE, ONE},              REQUIRED,  OAI                 },
    {"ffn_norm.weight",            FIELD(ffn_norm),       {EMBD, ONE, ONE},              REQUIRED,  NOT_OAI             },
    {"ffn_gate.weight",            FIELD(gate),           {EMBD, FF, ONE},               REQUIRED,  DENSE               },
    {"ffn_up.weight",              FIELD(up),             {EMBD, FF, ONE},               REQUIRED,  DENSE               },
    {"ffn_down.weight",            FIELD(down),           {FF, EMBD, ONE},               REQUIRED,  DENSE               },
    {"post_ffw_norm.weight",       FIELD(post_ffn_norm),  {EMBD, ONE, ONE},              REQUIRED,  POST_NORM           },
    {"ffn_gate_inp.weight",        FIELD(router),         {EMBD, EXPERTS, ONE},          REQUIRED,  ROUTED              },
    {"ffn_gate_inp.bias",          FIELD(router_bias),    {EXPERTS, ONE, ONE},           REQUIRED,  ROUTED | OAI        },
    {"exp_probs_b.bias",           FIELD(choice_bias),    {EXPERTS, ONE, ONE},           READ_ONLY, ROUTED              },
    {"ffn_gate_exps.weight",       FIELD(gate_exps),      {EMBD, FF_EXPERT, EXPERTS},    REQUIRED,  ROUTED              },
    {"ffn_up_exps.weight",         FIELD(up_exps),        {EMBD, FF_EXPERT, EXPERTS},    REQUIRED,  ROUTED              },
    {"ffn_down_exps.weight",       FIELD(down_exps),      {FF_EXPERT, EMBD, EXPERTS},    REQUIRED,  ROUTED              },
    {"ffn_gate_exps.bias",         FIELD(gate_exps_bias), {FF_EXPERT, EXPERTS, ONE},     REQUIRED,  ROUTED | OAI        },
    {"ffn_up_exps.bias",           FIELD(up_exps_bias),   {FF_EXPERT, EXPERTS, ONE},     REQUIRED,  ROUTED | OAI        },
    {"ffn_down_exps.bias",         FIELD(down_exps_bias), {EMBD, EXPERTS, ONE},          REQUIRED,  ROUTED | OAI        },
    {"ffn_gate_inp_shexp.weight",  FIELD(shared_gate),    {EMBD, ONE, ONE},              REQUIRED,  SHARED | SHARED_GATE},
    {"ffn_gate_shexp.weight",      FIELD(gate_shared),    {EMBD, FF_SHARED, ONE},        REQUIRED,  SHARED              },
    {"ffn_up_shexp.weight",        FIELD(up_shared),      {EMBD, FF_SHARED, ONE},        REQUIRED,  SHARED              },
    {"ffn_down_shexp.weight",      FIELD(down_shared),    {FF_SHARED, EMBD, ONE},        REQUIRED,  SHARED              },
};

/* The bits of a layer, from the features of its family and from its place. */
static unsigned layer_bits(const ModelConfig *c, int layer) {
    const unsigned f    = c->arch->features;
    unsigned       bits = rp_config_routes(c, layer) ? ROUTED : DENSE;
    if ((bits & ROUTED) != 0 && c->experts.n_ff_shared > 0) bits |= SHARED;
    if ((f & ARCH_SHARED_GATE) != 0) bits |= SHARED_GATE;
    if ((f & ARCH_QK_NORM) != 0) bits |= QK_NORM;
    if ((f & ARCH_QK_NORM_FULL) != 0) bits |= QK_NORM_ALL;
    if ((f & ARCH_POST_NORM) != 0) bits |= POST_NORM;
    bits |= (f & ARCH_OAI) != 0 ? OAI : NOT_OAI;
    bits |= (f & ARCH_MLA) != 0 ? MLA : PLAIN;
    bits |= c->mla.q_lora > 0 ? MLA_Q_LORA : MLA_Q_PLAIN;
    return bits;
}

static int64_t length(const ModelConfig *c, Length which) {
    const int64_t heads              = c->n_head;
    const int64_t lengths[N_LENGTHS] = {[ONE]       = 1,
                                        [EMBD]      = c->n_embd,
                                        [HEADS]     = heads * c->head_dim,
                                        [HEADS_KV]  = (int64_t)c->n_head_kv * c->head_dim,
                                        [HEAD_DIM]  = c->head_dim,
                                        [N_HEADS]   = heads,
                                        [FF]        = c->n_ff,
                                        [EXPERTS]   = c->experts.n,
                                        [FF_EXPERT] = c->experts.n_ff,
                                        [FF_SHARED] = c->experts.n_ff_shared,
                                        [Q_LORA]    = c->mla.q_lora,
                                        [KV_LORA]   = c->mla.kv_lora,
                                        [KV_A]      = c->mla.kv_lora + c->rope.n_dims,
                                        [NOPE]      = c->mla.nope,
                                        [MLA_Q]     = heads * (c->mla.nope + c->rope.n_dims),
                                        [MLA_VALUE] = c->mla.value,
                                        [MLA_OUT]   = heads * c->mla.value};
    return lengths[which];
}

/* Finds a tensor and checks type and shape; the error names both shapes. ne1 = -1: any number of rows. A
 * vector must be f32. *out is NULL for an absent optional tensor. */
static RpStatus find3(const RpModel *m, const char *name, int64_t ne0, int64_t ne1, int64_t ne2, bool optional,
                      const RpGgufTensor **out) {
    const char       *path = rp_gguf_path(m->file);
    const RpGgufTensor *t    = rp_gguf_find_tensor(m->file, name);
    *out                   = t;
    if (t == NULL) return optional ? RP_OK : rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", path, name);
    if (!t->known) {
        const char *type = rp_gguf_type_name(t->gguf_type);
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %s is of type %s (%u), which is not supported", path,
                       name, type != NULL ? type : "unknown", t->gguf_type);
    }
    const RpTensorView *v = &t->view;
    if (v->ne[0] != ne0 || (ne1 >= 0 && v->ne[1] != ne1) || v->ne[2] != ne2 || v->ne[3] != 1) {
        char rows_text[24] = "any", outer_text[24] = "";
        if (ne1 >= 0) snprintf(rows_text, sizeof rows_text, "%lld", (long long)ne1);
        if (ne2 != 1) snprintf(outer_text, sizeof outer_text, ",%lld", (long long)ne2);
        return rp_fail(RP_E_SHAPE, "%s: tensor %s is %s [%lld,%lld,%lld,%lld], [%lld,%s%s] is expected", path,
                       name, rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1],
                       (long long)v->ne[2], (long long)v->ne[3], (long long)ne0, rows_text, outer_text);
    }
    if (ne1 == 1 && v->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: tensor %s is %s, f32 is expected of a vector", path, name,
                       rp_dtype_name(v->dtype));
    if (v->dtype == RP_I32) return rp_fail(RP_E_DTYPE, "%s: tensor %s is i32: not a weight type", path, name);
    return RP_OK;
}

static RpStatus find(const RpModel *m, const char *name, int64_t ne0, int64_t ne1, bool optional,
                     const RpGgufTensor **out) {
    return find3(m, name, ne0, ne1, 1, optional, out);
}

static RpStatus find_layer(RpModel *m, int layer) {
    const ModelConfig *c   = &m->config;
    const unsigned     has = layer_bits(c, layer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const WeightRow *r = &rows[i];
        if ((r->when & ~has) != 0) continue;
        char              name[64];
        const RpGgufTensor *t = NULL;
        snprintf(name, sizeof name, "blk.%d.%s", layer, r->name);
        RP_TRY(
            find3(m, name, length(c, r->ne[0]), length(c, r->ne[1]), length(c, r->ne[2]), r->presence != REQUIRED,
                  &t));
        /* rows that share a field exclude each other by `when`; gpt-oss has another name for ffn_norm */
        memcpy((char *)&m->layers[layer] + r->field, &t, sizeof(const RpGgufTensor *));
    }
    return RP_OK;
}

/* Llama 3.1 has one factor for each rotated pair. */
static RpStatus find_rope_factors(RpModel *m) {
    const ModelConfig *c = &m->config;
    if (rp_gguf_find_tensor(m->file, "rope_factors_long.weight") != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: long and short RoPE factors are not supported",
                       rp_gguf_path(m->file));
    return find(m, "rope_freqs.weight", c->rope.n_dims / 2, 1, true, &m->rope_factors);
}

/* Tensors outside of the layers, then each layer. The size of the vocabulary is that of the embedding. */
RpStatus rp_model_find_weights(RpModel *m) {
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

static RpStatus visit3(WeightVisitor *visit, void *user, const char *name, int64_t ne0, int64_t ne1,
                       int64_t ne2) {
    return visit(name, (int64_t[RP_MAX_DIMS]){ne0, ne1, ne2, 1}, user);
}

RpStatus rp_model_list_weights(const ModelConfig *c, int64_t n_vocab, bool tied, bool biases,
                               WeightVisitor *visit, void *user) {
    RP_TRY(visit3(visit, user, "token_embd.weight", c->n_embd, n_vocab, 1));
    for (int layer = 0; layer < c->n_layer; layer++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const WeightRow *r = &rows[i];
            char             name[64];
            if ((r->when & ~layer_bits(c, layer)) != 0) continue;
            if (r->presence == READ_ONLY || (r->presence == OPTIONAL && !biases)) continue;
            snprintf(name, sizeof name, "blk.%d.%s", layer, r->name);
            RP_TRY(visit3(visit, user, name, length(c, r->ne[0]), length(c, r->ne[1]), length(c, r->ne[2])));
        }
    RP_TRY(visit3(visit, user, "output_norm.weight", c->n_embd, 1, 1));
    return tied ? RP_OK : visit3(visit, user, "output.weight", c->n_embd, n_vocab, 1);
}
