/* config.h - what a model file says of its architecture, checked. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "reprise/gguf.h"
#include "reprise/graph.h"

/* What a family has beyond the plain decoder. */
enum {
    ARCH_QK_NORM = 1 << 0, /* RMSNorm over each head of q and k, before RoPE */
    ARCH_POST_NORM =
        1 << 1, /* RMSNorm of the attention's and the feed-forward's result, before the residual */
    ARCH_EMBD_SCALE = 1 << 2, /* embeddings times sqrt(n_embd) */
    ARCH_GELU       = 1 << 3, /* GELU instead of SiLU in the gated feed-forward */
    ARCH_LOCAL      = 1 << 4  /* layers with a sliding window and a RoPE of their own */
};

typedef struct ArchRow {
    const char *name; /* general.architecture */
    RopeMode    rope_mode;
    unsigned    features;
} ArchRow;

typedef struct ModelConfig {
    const ArchRow *arch;
    int32_t        n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    float          norm_eps, embd_scale, attn_scale;
    RopeParams     rope, rope_local;
    int32_t        window;        /* of local layers, 0: there are none */
    int32_t        local_pattern; /* every local_pattern-th layer is global */
} ModelConfig;

/* RP_E_UNSUPPORTED for an architecture that is not in the table, RP_E_FORMAT (file, key, value) for what
 * cannot be. */
RP_NODISCARD RpStatus rp_config_read(const GgufFile *f, ModelConfig *out);

static inline bool rp_config_is_local(const ModelConfig *c, int layer) {
    return c->window > 0 && (layer + 1) % c->local_pattern != 0;
}

#endif
