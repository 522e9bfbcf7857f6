/* config.h - what a model file says of its architecture, checked. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "reprise/gguf.h"
#include "reprise/graph.h"

/* What a family has beyond the plain decoder. */
enum {
    ARCH_QK_NORM      = 1 << 0, /* RMSNorm over each head of q and k, before RoPE */
    ARCH_QK_NORM_FULL = 1 << 1, /* RMSNorm over all heads of q, and of k, together */
    ARCH_POST_NORM   = 1 << 2, /* RMSNorm of the results of attention and feed-forward, before the residual */
    ARCH_EMBD_SCALE  = 1 << 3, /* embeddings times sqrt(n_embd) */
    ARCH_GELU        = 1 << 4, /* GELU instead of SiLU in the gated feed-forward */
    ARCH_LOCAL       = 1 << 5, /* layers with a sliding window */
    ARCH_LOCAL_ROPE  = 1 << 6, /* which have a RoPE of their own */
    ARCH_MAY_ROUTE   = 1 << 7, /* experts where the file has a count of them */
    ARCH_ROUTE       = 1 << 8, /* experts always */
    ARCH_ROUTE_NORM  = 1 << 9, /* the weights of the chosen experts add up to 1 */
    ARCH_SHARED      = 1 << 10, /* experts that every token takes, where the file says so */
    ARCH_SHARED_GATE = 1 << 11, /* their result through a sigmoid gate */
    ARCH_OAI = 1 << 12,   /* gpt-oss: sinks, biases of the experts, its activation, softmax over the chosen */
    ARCH_MLA = 1 << 13,   /* multi-head latent attention */
    ARCH_SCALES = 1 << 14 /* granite: scales of embedding, residual and logits */
};

typedef struct ArchRow {
    const char *name; /* general.architecture */
    RopeMode    rope_mode;
    unsigned    features;
} ArchRow;

/* What stands before the choice of experts. */
typedef enum Gating { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SOFTMAX_OF_CHOSEN = 3 } Gating;

typedef struct ExpertConfig {
    int32_t n, n_used;   /* 0: there are none */
    int32_t n_ff;        /* of one expert */
    int32_t n_ff_shared; /* of the shared ones together, 0: there are none */
    int32_t n_dense;     /* so many first layers have a dense feed-forward instead */
    Gating  gating;
    int32_t n_group, n_group_used;
    bool    normalize;
    float   scale;
} ExpertConfig;

/* DeepSeek-V2 (arXiv:2405.04434): what is cached of a token is one latent vector and one rotated key. */
typedef struct MlaConfig {
    int32_t kv_lora;     /* length of the latent vector */
    int32_t q_lora;      /* of the queries' own, 0: none */
    int32_t nope, value; /* a head's length without its rotated part, and of its values */
} MlaConfig;

typedef struct ModelConfig {
    const ArchRow *arch;
    int32_t        n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    float          norm_eps, embd_scale, attn_scale, residual_scale, logit_scale;
    RopeParams     rope, rope_local;
    int32_t        window;        /* of local layers, 0: there are none */
    int32_t        local_pattern; /* every local_pattern-th layer is global */
    ExpertConfig   experts;
    MlaConfig      mla;
} ModelConfig;

/* The row of that name, or NULL. */
const ArchRow *rp_arch_find(const char *name, size_t len);

/* RP_E_UNSUPPORTED for an architecture that is not in the table, RP_E_FORMAT (file, key, value) for what
 * cannot be. */
RP_NODISCARD RpStatus rp_config_read(const GgufFile *f, ModelConfig *out);

static inline bool rp_config_is_local(const ModelConfig *c, int layer) {
    return c->window > 0 && (layer + 1) % c->local_pattern != 0;
}

/* The keys of ARCH_ROUTE and ARCH_MLA families; the rest of the config is read already. */
typedef struct ConfigReader {
    const GgufFile *file;
    const char     *arch;
} ConfigReader;

RP_NODISCARD RpStatus rp_config_read_experts(const ConfigReader *r, ModelConfig *c);
RP_NODISCARD RpStatus rp_config_read_mla(const ConfigReader *r, ModelConfig *c);

/* "<arch>.<key>", in buf. */
const char *rp_config_key(const ConfigReader *r, const char *key, char *buf, size_t size);

/* *out keeps its value where the key is absent. */
RP_NODISCARD RpStatus rp_config_u32(const ConfigReader *r, const char *key, uint32_t *out);
RP_NODISCARD RpStatus rp_config_f32(const ConfigReader *r, const char *key, float *out); /* finite */

/* A count from 1 to max; `fallback` where the key is absent, 0 for a key that must be there. */
RP_NODISCARD RpStatus rp_config_count(const ConfigReader *r, const char *key, uint32_t fallback, uint32_t max,
                                      int32_t *out);

static inline bool rp_config_routes(const ModelConfig *c, int layer) {
    return c->experts.n > 0 && layer >= c->experts.n_dense;
}

#endif
