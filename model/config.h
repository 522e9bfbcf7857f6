/* config.h - the configuration of a model, read from the metadata of its file and checked (I11). */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "reprise/gguf.h"
#include "reprise/graph.h"

/* Features of a family beyond the plain decoder. */
enum {
    ARCH_QK_NORM      = 1 << 0,  /* RMSNorm over each head of q and k, before RoPE */
    ARCH_QK_NORM_FULL = 1 << 1,  /* the same over all heads of q as one row, and of k */
    ARCH_POST_NORM    = 1 << 2,  /* RMSNorm of attention and feed-forward before the residual is added */
    ARCH_EMBD_SCALE   = 1 << 3,  /* embeddings times sqrt(n_embd) */
    ARCH_GELU         = 1 << 4,  /* GELU instead of SiLU in the gated feed-forward */
    ARCH_LOCAL        = 1 << 5,  /* layers with a sliding window */
    ARCH_LOCAL_ROPE   = 1 << 6,  /* local layers have another RoPE: freq_base_swa, no scaling */
    ARCH_MAY_ROUTE    = 1 << 7,  /* experts where the file has expert_count > 0 */
    ARCH_ROUTE        = 1 << 8,  /* experts always */
    ARCH_ROUTE_NORM   = 1 << 9,  /* weights of the chosen experts are divided by their sum */
    ARCH_SHARED       = 1 << 10, /* shared experts, which every token goes through, where the file has them */
    ARCH_SHARED_GATE  = 1 << 11, /* their result is multiplied by sigmoid(shared_gate x) */
    ARCH_OAI = 1 << 12, /* gpt-oss: attention sinks, expert biases, clamped SwiGLU, softmax over the chosen */
    ARCH_MLA = 1 << 13, /* multi-head latent attention */
    ARCH_SCALES = 1 << 14 /* granite: factors of embedding, residual and logits */
};

/* One row of the table of architectures in config.c. */
typedef struct ArchRow {
    const char *name; /* general.architecture */
    RpRopeMode  rope_mode;
    unsigned    features;
} ArchRow;

/* From router logits to the values that experts are chosen by; numbers of <arch>.expert_gating_func. */
typedef enum Gating { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SOFTMAX_OF_CHOSEN = 3 } Gating;

typedef struct ExpertConfig {
    int32_t n, n_used;   /* experts of a layer, and of one token; 0: a dense model */
    int32_t n_ff;        /* of one expert */
    int32_t n_ff_shared; /* of the shared ones together, 0: there are none */
    int32_t n_dense;     /* the first n_dense layers have a dense feed-forward instead */
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

typedef struct ModelConfig {
    const ArchRow *arch;
    int32_t        n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    float          norm_eps, embd_scale, attn_scale, residual_scale, logit_scale;
    RpRopeParams   rope, rope_local;
    int32_t        window;        /* of local layers, in positions; 0: every layer is global */
    int32_t        local_pattern; /* every local_pattern-th layer is global, the others local */
    ExpertConfig   experts;
    MlaConfig      mla;
} ModelConfig;

/* The row of that name, or NULL. */
const ArchRow *rp_arch_find(const char *name, size_t len);

/* RP_E_UNSUPPORTED for an architecture that is not in the table, RP_E_FORMAT for a missing or impossible
 * value. The error names file, key and value. */
RP_NODISCARD RpStatus rp_config_read(const RpGgufFile *f, ModelConfig *out);

/* Layer `layer` attends to the last c->window positions only. Example, pattern 6: layers 0..4 local, 5
 * global. */
static inline bool rp_config_is_local(const ModelConfig *c, int layer) {
    return c->window > 0 && (layer + 1) % c->local_pattern != 0;
}

/* Reads keys of the form "<arch>.<key>". */
typedef struct ConfigReader {
    const RpGgufFile *file;
    const char       *arch;
} ConfigReader;

/* The keys of families with experts; those of MLA, which replace the scale of attention and adjust RoPE. */
RP_NODISCARD RpStatus rp_config_read_experts(const ConfigReader *r, ModelConfig *c);
RP_NODISCARD RpStatus rp_config_read_mla(const ConfigReader *r, ModelConfig *c);

/* Writes "<arch>.<key>" to buf and returns it. */
const char *rp_config_key(const ConfigReader *r, const char *key, char *buf, size_t size);

/* *out keeps its value where the key is absent. */
RP_NODISCARD RpStatus rp_config_u32(const ConfigReader *r, const char *key, uint32_t *out);
RP_NODISCARD RpStatus rp_config_f32(const ConfigReader *r, const char *key, float *out); /* finite */

/* A count from 1 to max. An absent key gives `fallback`; with fallback 0 it is an error. */
RP_NODISCARD RpStatus rp_config_count(const ConfigReader *r, const char *key, uint32_t fallback, uint32_t max,
                                      int32_t *out);

/* Layer `layer` has experts. */
static inline bool rp_config_routes(const ModelConfig *c, int layer) {
    return c->experts.n > 0 && layer >= c->experts.n_dense;
}

#endif
