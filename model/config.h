/* config.h - the configuration of a model, read from the metadata of its file and checked (I11). */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "reprise/gguf.h"

#include "model/arch_table.h"

typedef struct ExpertConfig {
    int32_t n, n_used;   /* experts of a layer, and of one token; 0: a dense model */
    int32_t n_ff;        /* of one expert */
    int32_t n_ff_shared; /* of the shared ones together, 0: there are none */
    int32_t n_latent;    /* width of what the experts read and give, not that of the model; 0: they have that */
    Gating  gating;
    int32_t n_group, n_group_used; /* expert groups, and how many of them take part; 0: no groups */
    bool    normalize;             /* weights are divided by their sum, */
    float   scale;                 /* then multiplied by this */
} ExpertConfig;

/* DeepSeek-V2 (arXiv:2405.04434): the cache holds one latent vector and one rotated key a token. */
typedef struct MlaConfig {
    int32_t kv_lora;     /* rank of the latent vector */
    int32_t q_lora;      /* rank of the queries, 0: full */
    int32_t nope, value; /* dimensions of a head: of q and k without RoPE, and of v */
} MlaConfig;

/* Gated delta nets. Heads of keys and of values have one size. */
typedef struct DeltaConfig {
    int32_t dim;           /* of a head */
    int32_t n_key, n_head; /* heads of keys and queries, and of values, a multiple */
} DeltaConfig;

/* Mamba-2. The inner width is n_head * dim channels. */
typedef struct SsmConfig {
    int32_t n_head, dim;    /* heads, and channels of each */
    int32_t n_group, state; /* groups of heads with common b and c; elements of the state of a channel */
} SsmConfig;

/* Channels of its convolution: x, b and c. */
static inline int64_t rp_ssm_channels(const SsmConfig *s) {
    return (int64_t)s->n_head * s->dim + 2 * (int64_t)s->n_group * s->state;
}

/* Channels of the convolution: queries, keys and values. */
static inline int64_t rp_delta_channels(const DeltaConfig *d) {
    return (int64_t)d->dim * (2 * (int64_t)d->n_key + d->n_head);
}

typedef struct ModelConfig {
    const ArchRow     *arch;
    LayerPattern       layers;        /* that of the row, with the numbers of the file */
    const RpGgufValue *window_layers; /* from the file: booleans [n_layer], true: a window; or NULL */
    const RpGgufValue *delta_layers;  /* from the file: booleans, true: a gated delta net; or NULL */
    int32_t            n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    const RpGgufValue *heads_kv, *ff_lengths; /* from the file: n_head_kv and n_ff of each layer; or NULL. With
                                                 layers.attention.without_heads, n_head_kv may be 0 */
    int32_t            head_dim_window;       /* of layers with a window */
    Activation         activation;
    const RpGgufValue *xielu[4];        /* with ACTIVATION_XIELU, from the file, see rp_config_xielu */
    int32_t            n_layer_kv;      /* layers from this one on read caches of layers before */
    int32_t            n_embd_layer;    /* length of the embeddings that layers add; 0: none */
    int32_t            n_embd_target;   /* n_embd of the model that an assistant guesses for; 0: no assistant */
    int32_t            n_layer_next;    /* layers behind those that predict further tokens (MTP): the first may guess */
    bool               bidirectional;   /* tokens attend to later positions too: texts have embeddings, no next token */
    int32_t            pooling;         /* RpPooling that the file names; 0: none */
    int32_t            pooling_of_rank; /* of a model with RP_POOLING_RANK: the same, of what its head reads */
    int32_t            n_labels;        /* results of a classification head */
    float              norm_eps, embd_scale, attn_scale, residual_scale, logit_scale;
    float              attn_cap, logit_cap; /* soft caps of scores and logits; 0: none */
    float              temperature;         /* of attention, see ArchRow. 0: none */
    int32_t            temperature_length;  /* positions of one value of it */
    RpRopeParams       rope, rope_window;   /* rope_window: of layers with a window */
    int32_t            window;              /* positions that a token attends to there; 0: no layer has one */
    ExpertConfig       experts;
    MlaConfig          mla;
    int32_t            taps; /* of the convolutions over tokens in recurrent layers */
    DeltaConfig        delta;
    SsmConfig          ssm;
} ModelConfig;

/* One layer, resolved from the pattern and the numbers of the file. Builders and the table of weights read
 * this. */
typedef struct LayerKind {
    AttentionKind   attention;
    PositionKind    position;
    FeedForwardKind feed_forward;
    int32_t         head_dim, n_head_kv, n_ff;
    int32_t         kv_layer;     /* the layer whose cache it reads, its own or one before; in an assistant n_layer with
                                     a window and n_layer + 1 without, for those of its target */
    int32_t         window;       /* positions that a token attends to, its own included, but in an assistant; 0: all */
    RpRopeParams    rope;         /* of q and k, unless position is POSITION_NONE */
    bool            rope_factors; /* frequencies are divided by the file's rope_freqs, where it has them */
} LayerKind;

/* Layer `layer` of c, 0 <= layer < n_layer, or n_layer with rp_config_may_have_mtp. */
LayerKind rp_config_layer(const ModelConfig *c, int layer);

/* The numbers of op xielu in a layer of a model with ACTIVATION_XIELU. */
RpXieluParams rp_config_xielu(const ModelConfig *c, int layer);

bool rp_config_has_windows(const ModelConfig *c); /* some layers attend to the last positions only */

/* The layer behind the last one can predict further tokens (MTP): it has full or latent attention, which does not
 * depend on arrays of the file. It is layer n_layer of rp_config_layer. */
bool rp_config_may_have_mtp(const ModelConfig *c);

/* RP_E_UNSUPPORTED for an architecture that is not in the table, RP_E_FORMAT for a missing or impossible
 * value. The error names file, key and value. */
RP_NODISCARD RpStatus rp_config_read(const RpGgufFile *f, ModelConfig *out);

/* Reads keys of the form "<arch>.<key>". */
typedef struct ConfigReader {
    const RpGgufFile *file;
    const char       *arch;
    bool              all_keys; /* of a Hugging Face directory or made of one: keys count that llama.cpp ignores */
} ConfigReader;

/* The keys of families with experts; those of MLA, which replace the scale of attention and adjust RoPE. */
RP_NODISCARD RpStatus rp_config_read_experts(const ConfigReader *r, ModelConfig *c);
RP_NODISCARD RpStatus rp_config_read_mla(const ConfigReader *r, ModelConfig *c);

/* The keys of gated delta nets; of Mamba-2; the taps of a convolution; the sections of M-RoPE where the family has
 * it. */
RP_NODISCARD RpStatus rp_config_read_delta(const ConfigReader *r, ModelConfig *c);
RP_NODISCARD RpStatus rp_config_read_ssm(const ConfigReader *r, ModelConfig *c);
RP_NODISCARD RpStatus rp_config_read_taps(const ConfigReader *r, const char *key, ModelConfig *c);
bool                  rp_config_are_sections(const RpGgufValue *v); /* an array of 4 integers */
RP_NODISCARD RpStatus rp_config_read_sections(const ConfigReader *r, const ModelConfig *c);

/* The activation, and its numbers. */
RP_NODISCARD RpStatus rp_config_read_activation(const ConfigReader *r, ModelConfig *c);

/* The keys of models that make embeddings: attention.causal, pooling_type, classifier labels (embed/config_embed.c). */
RP_NODISCARD RpStatus rp_config_read_embed(const ConfigReader *r, ModelConfig *c);

/* Bytes of the recurrent states of all layers, for one position; 0: no layer has one. */
size_t rp_config_state_bytes(const ModelConfig *c);

/* Writes "<arch>.<key>" to buf and returns it. */
const char *rp_config_key(const ConfigReader *r, const char *key, char *buf, size_t size);

/* *out keeps its value where the key is absent. */
/* An array of one value, an element for each layer, is this value. Arrays of others: RP_E_UNSUPPORTED. */
RP_NODISCARD RpStatus rp_config_u32(const ConfigReader *r, const char *key, uint32_t *out);
RP_NODISCARD RpStatus rp_config_f32(const ConfigReader *r, const char *key, float *out); /* finite */

/* A count from 1 to max. An absent key gives `fallback`; with fallback 0 it is an error. */
RP_NODISCARD RpStatus rp_config_count(const ConfigReader *r, const char *key, uint32_t fallback, uint32_t max,
                                      int32_t *out);

#endif
