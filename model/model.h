/* model.h - the inside of an RpModel: its file, configuration and tensors. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "reprise/model.h"

#include "model/adapter.h"
#include "model/config.h"

/* Tensors of one layer, borrowed from the file; NULL where the architecture has none or an optional one is
 * absent. */
typedef struct LayerWeights {
    const RpGgufTensor *attn_norm, *attn_norm_bias, *ffn_norm_bias, *attn_gate;
    const RpGgufTensor *q, *k, *v, *o, *q_bias, *k_bias, *v_bias, *o_bias, *q_norm, *k_norm, *sinks;
    const RpGgufTensor *embd_gate, *embd_proj, *embd_norm,
        *out_scale; /* embedding of the layer; factor of its result */
    const RpGgufTensor *attn_sum_norm, *attn_sum_bias, *sum_norm, *sum_bias; /* with ArchRow.norm_of_sum */
    const RpGgufTensor *gate_bias, *up_bias, *down_bias;
    const RpGgufTensor *qkv, *qkv_bias, *gate_up,
        *gate_up_exps; /* joined in the file; q, k, v, gate and up are parts of them */
    const RpGgufTensor *q_a, *q_a_norm, *kv_a, *kv_a_norm, *k_b, *v_b; /* MLA */
    const RpGgufTensor *kv_b;     /* joined in the file; k_b and v_b are made of it */
    const RpGgufTensor *delta_in; /* joined in the file; delta_qkv and delta_gate are made of it */
    const RpGgufTensor *delta_qkv, *delta_gate, *conv, *dt, *decay, *beta, *alpha, *beta_alpha, *delta_norm, *delta_out;
    const RpGgufTensor *conv_in, *conv_out;                                 /* a short convolution, with `conv` */
    const RpGgufTensor *ssm_in, *conv_bias, *ssm_skip, *ssm_norm, *ssm_out; /* Mamba-2, with conv, dt and decay */
    const RpGgufTensor *post_attn_norm, *ffn_norm, *gate, *up, *down, *post_ffn_norm;
    const RpGgufTensor *router, *router_bias, *choice_bias, *gate_exps, *up_exps, *down_exps;
    const RpGgufTensor *gate_exps_bias, *up_exps_bias, *down_exps_bias;
    const RpGgufTensor *latent_down, *latent_up; /* of the input and the result of all experts */
    /* experts beside a dense feed-forward */
    const RpGgufTensor *router_norm, *experts_norm, *post_dense, *post_experts, *expert_scales;
    const RpGgufTensor *gate_scales, *up_scales; /* of experts */
    const RpGgufTensor *shared_gate, *gate_shared, *up_shared, *down_shared;
} LayerWeights;

/* Tensors outside of the layers that make embeddings (embed/weights_embed.c); NULL where the file has none. */
typedef struct EmbedWeights {
    const RpGgufTensor *types, *positions;                /* rows that are added to the embeddings of tokens */
    const RpGgufTensor *norm, *norm_bias;                 /* of the embeddings */
    const RpGgufTensor *cls, *cls_bias, *cls_norm;        /* a classification head: norm(act(cls x + bias)), */
    const RpGgufTensor *cls_out, *cls_out_bias;           /* then cls_out x + bias */
    const RpGgufTensor *dense_2, *dense_2_bias, *dense_3; /* of a pooled embedding, one after the other */
} EmbedWeights;

/* The layer that predicts further tokens (MTP), beside its LayerWeights; all NULL: the file has none that is used. */
typedef struct MtpWeights {
    const RpGgufTensor *eh_proj;                    /* [2 * n_embd, n_embd], of the two norms, one behind the other: */
    const RpGgufTensor *embd_norm, *hidden_norm;    /* of the embedding of the next token, of the hidden state */
    const RpGgufTensor *token_embd, *norm, *output; /* its own, or those of the model */
    const RpGgufTensor *pre, *post;                 /* of an assistant: [2 * n_embd_target, n_embd] and back */
} MtpWeights;

/* Rows of a tensor of the file that joins several, as a tensor of its own. */
typedef struct WeightPart {
    RpGgufTensor tensor;
    char         name[64];
    void        *copy; /* owned: the data of a part that is not read where it is; else NULL */
} WeightPart;

struct RpModel {
    RpGgufFile  *file;      /* owned, and with it every tensor */
    RpTokenizer *tokenizer; /* owned, or NULL */
    ModelConfig  config;
    union {
        RpModelInfo   info;
        unsigned char room[512]; /* zero behind `info`: a caller of a newer version may read on */
    };
    char                name[128], warning[384];                              /* warning: info.adapter_warning */
    const RpGgufTensor *token_embd, *output_norm, *output_norm_bias, *output; /* tied: output is token_embd */
    const RpGgufTensor *rope_factors;
    const RpGgufTensor *layer_embd, *layer_proj, *layer_norm; /* embeddings of all layers; NULL: they have none */
    const RpGgufTensor *rope_long, *rope_short; /* factors for contexts longer than rope.n_ctx_orig, and for others */
    EmbedWeights        embed;
    MtpWeights          mtp;
    LayerWeights       *layers; /* [n_layer + 1], the last for mtp */
    WeightPart         *parts;  /* [n_parts], owned; borrows the data of the file, but for copies */
    int                 n_parts;
    RpGgufFile        **adapters; /* owned */
    AdapterPair        *pairs;    /* of all adapters */
    int                 n_adapters, n_pairs;
};

/* Calls back with name and shape of every tensor that a model of this configuration has, in the order of a
 * file. `tied`: no output matrix. `biases`: the optional biases that the architecture has are included. Stops at
 * the first error and returns it. */
typedef RpStatus      WeightVisitor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user);
RP_NODISCARD RpStatus rp_model_list_weights(const ModelConfig *c, int64_t n_vocab, bool tied, bool biases,
                                            WeightVisitor *visit, void *user);

/* The same of MtpWeights alone, as far as they are not those of the model (mtp/weights_mtp.c). */
RP_NODISCARD RpStatus rp_model_list_mtp_weights(const ModelConfig *c, WeightVisitor *visit, void *user);

/* Finds a tensor and checks type and shape; the error names both shapes. ne1 = -1: any number of rows. A vector must be
 * f32. *out is NULL for an absent optional tensor. */
RP_NODISCARD RpStatus rp_model_find_tensor(const RpModel *m, const char *name, int64_t ne0, int64_t ne1, int64_t ne2,
                                           bool optional, const RpGgufTensor **out);

/* Finds every tensor and checks its shape and type. RP_E_FORMAT where one is missing, RP_E_SHAPE, RP_E_DTYPE,
 * RP_E_UNSUPPORTED for a type that is not computed with. */
RP_NODISCARD RpStatus rp_model_find_weights(RpModel *m);

/* Finds those of m->embed, as rp_model_find_weights. */
RP_NODISCARD RpStatus rp_model_find_embed_weights(RpModel *m);

/* Finds those of m->mtp, as rp_model_find_weights. If m is no assistant, they are all NULL if the file has no
 * blk.N.nextn.eh_proj.weight or a layer N that is not run. After the embedding, norm and output matrix of the model
 * (mtp/weights_mtp.c). */
RP_NODISCARD RpStatus rp_model_find_mtp_weights(RpModel *m);

/* A part of a tensor, called "NAME:OF", with the shape and the data of the whole at first; m->parts must have room for
 * it. The second gives it memory of its own for this type and shape, which is not filled. RP_E_NOMEM. */
WeightPart           *rp_model_new_part(RpModel *m, const RpGgufTensor *whole, const char *of);
RP_NODISCARD RpStatus rp_model_copied_part(WeightPart *p, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);

/* Makes delta_qkv and delta_gate of delta_in, which older files have. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_model_split_delta(RpModel *m, LayerWeights *l);

/* Makes k_b and v_b of kv_b, if the layer has it (weights/latent.c). */
RP_NODISCARD RpStatus rp_model_split_latent(RpModel *m, LayerWeights *l);

/* Frees m->parts. */
void rp_model_free_parts(RpModel *m);

/* The graph reads t as a whole: not the rows of a part each, and not the layers that predict further tokens. */
bool rp_model_reads(const RpModel *m, const RpGgufTensor *t);

/* Whether it is a tensor of the layers that predict further tokens, which no step of the model itself runs. */
bool rp_model_is_of_next_layers(const RpModel *m, const RpGgufTensor *t);

/* The number that products with w, or a part of it, are multiplied by; 1 without a tensor of it (arch_adapter.c). */
float rp_model_scale_of(const RpModel *m, const RpGgufTensor *w);

/* The first weight with such a number; NULL: none has one. */
const RpGgufTensor *rp_model_scaled(const RpModel *m);

/* A tensor with such a number that is used, or a scale of activations, which has no meaning here. */
bool rp_model_is_scale(const RpModel *m, const RpGgufTensor *t);

/* RP_E_UNSUPPORTED names a tensor that the model does not use, unless REPRISE_UNUSED_TENSORS is "ignore". */
RP_NODISCARD RpStatus rp_model_check_unused(const RpModel *m);

#endif
