/* arch_table.h - an architecture as data: the kinds of its layers, and one named field for each feature in which
 * families differ. The builders and the table of weights read these fields, never a name. How to add a row:
 * docs/add-a-model.md. */
#ifndef MODEL_ARCH_TABLE_H
#define MODEL_ARCH_TABLE_H

#include "reprise/graph.h"

typedef enum AttentionKind {
    ATTENTION_NONE,   /* the layer is its feed-forward alone */
    ATTENTION_FULL,   /* a token attends to all positions up to its own */
    ATTENTION_WINDOW, /* to the last `window` of them; as FULL where the file has no window */
    ATTENTION_DELTA,  /* a gated delta net: a state of fixed size, no cache (Yang et al. 2024, arXiv:2412.06464) */
    ATTENTION_CONV,   /* a short convolution with gates (LFM2): the last inputs are its state, no cache */
    ATTENTION_SSM, /* Mamba-2: a selective scan, a state of fixed size, no cache (Dao and Gu 2024, arXiv:2405.21060) */
    ATTENTION_LATENT /* MLA: keys and values from one latent vector a token (DeepSeek-V2, arXiv:2405.04434) */
} AttentionKind;

/* RoPE rotates pairs of elements of q and k by angles that are proportional to the position (Su et al. 2021,
 * arXiv:2104.09864). */
typedef enum PositionKind {
    POSITION_NONE, /* no rotation (NoPE) */
    POSITION_NORM, /* pairs (2i, 2i + 1) */
    POSITION_NEOX  /* pairs (i, i + n_dims/2) */
} PositionKind;

typedef enum FeedForwardKind {
    FEED_FORWARD_DENSE,   /* down(act(gate x) * (up x)) */
    FEED_FORWARD_EXPERTS, /* the weighted sum of this over the chosen experts */
    FEED_FORWARD_NONE     /* the layer is its attention alone */
} FeedForwardKind;

/* The kinds of all layers. `nth` is the kind of each n-th layer, those with (layer + 1) % n == 0, layers being
 * numbered from 0; n = 0: there are none. Examples:
 *     .attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 6}   layers 5, 11, ... are full
 *     .position     = {.kind = POSITION_NORM, .nth = POSITION_NONE, .n = 4}       layers 3, 7, ... have no RoPE
 *     .feed_forward = {.kind = FEED_FORWARD_EXPERTS, .n_dense = 1}                layer 0 is dense */
typedef struct LayerPattern {
    struct {
        AttentionKind kind, nth;
        int32_t       n; /* replaced by <arch>.attention.sliding_window_pattern; delta nets: full_attention_interval */
        AttentionKind without_heads; /* of layers whose element of <arch>.attention.head_count_kv is 0 */
        bool          first;         /* `nth` is the kind of the first of each n layers: 0, n, ... */
    } attention;
    struct {
        PositionKind kind, nth;
        int32_t      n;
    } position;
    struct {
        FeedForwardKind kind;
        int32_t         n_dense; /* layers 0 to n_dense - 1 are dense; <arch>.leading_dense_block_count */
    } feed_forward;
} LayerPattern;

/* Some layer may have this kind of attention. */
static inline bool rp_pattern_has(const LayerPattern *p, AttentionKind kind) {
    return p->attention.kind == kind || (p->attention.n > 0 && p->attention.nth == kind) ||
           p->attention.without_heads == kind;
}

/* A layer of this kind has a recurrent state of fixed size instead of a KV cache. */
static inline bool rp_attention_is_recurrent(AttentionKind kind) {
    return kind == ATTENTION_DELTA || kind == ATTENTION_CONV || kind == ATTENTION_SSM;
}

/* RMSNorm of q and k before RoPE. */
typedef enum QkNorm {
    QK_NORM_NONE,
    QK_NORM_HEAD,          /* over each head: weights [head_dim] */
    QK_NORM_HEAD_OPTIONAL, /* the same in files that have the weights */
    QK_NORM_OWN_OPTIONAL,  /* over each head, with weights of its own: [head_dim, n_head], in files that have them */
    QK_NORM_ROW            /* over all heads as one row: weights [n_head * head_dim], [n_head_kv * head_dim] */
} QkNorm;

/* How gate and up are joined: gated = act(gate) * up. */
typedef enum Activation {
    ACTIVATION_SILU,       /* act(x) = x / (1 + exp(-x)) */
    ACTIVATION_GELU_TANH,  /* act(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
    ACTIVATION_SWIGLU_OAI, /* gpt-oss: g / (1 + exp(-1.702 g)) * (u + 1), g and u clamped to 7 */
    ACTIVATION_RELU_SQR,   /* no gate: down(max(up x, 0)^2) */
    ACTIVATION_GELU_ALONE, /* no gate: down(act(up x)), act as GELU_TANH */
    ACTIVATION_XIELU       /* no gate: down(act(up x)), act with numbers of each layer, see op xielu */
} Activation;

/* A gate of attention: y = wo (heads * sigmoid(gate)). */
typedef enum AttnGate {
    ATTN_GATE_NONE,
    ATTN_GATE_OF_QUERY, /* wq gives a query and a gate for each head, both [head_dim] */
    ATTN_GATE_MATRIX    /* gate = attn_gate x, [n_head * head_dim] */
} AttnGate;

/* Whether the feed-forward has a gate. */
static inline bool rp_activation_is_gated(Activation a) {
    return a != ACTIVATION_RELU_SQR && a != ACTIVATION_GELU_ALONE && a != ACTIVATION_XIELU;
}

/* From router logits to the values that experts are chosen by; numbers of <arch>.expert_gating_func. */
typedef enum Gating {
    GATING_SOFTMAX           = 1, /* softmax over all experts, then the choice */
    GATING_SIGMOID           = 2, /* a sigmoid of each logit, then the choice */
    GATING_SOFTMAX_OF_CHOSEN = 3  /* the choice by logits, then softmax over the chosen */
} Gating;

/* Shared experts, which every token goes through. Their feed-forward length, all of them together, is
 * <arch>.expert_shared_feed_forward_length, and where that key is absent: */
typedef enum SharedExperts {
    SHARED_NEVER,    /* the family has none, whatever the file says */
    SHARED_BY_KEY,   /* 0: the model has none */
    SHARED_AS_DENSE, /* <arch>.feed_forward_length */
    SHARED_COUNTED,  /* <arch>.expert_shared_count * <arch>.expert_feed_forward_length */
    SHARED_EACH      /* the same; and where the key is there, it is the length of one: times expert_shared_count */
} SharedExperts;

/* One row of the table. A field that is not set means that the family does without the feature. */
typedef struct ArchRow {
    const char  *name;   /* general.architecture, also the prefix of the keys of its files */
    LayerPattern layers; /* kinds of attention, position and feed-forward */

    /* attention: softmax(scale * k . q) v, scale = 1/sqrt(head_dim) or the value of attention.scale */
    QkNorm   qk_norm; /* q = norm(wq x), k = norm(wk x), before RoPE */
    AttnGate attn_gate;
    bool     sinks;           /* each head has a score that joins its softmax sum and has no value */
    bool     output_bias;     /* files have a bias of the output matrix, as of q, k and v */
    bool     window_rope;     /* with a window: rope.freq_base_swa is 10000 if absent, no scaling, no factors */
    bool     window_heads;    /* layers with a window have heads of their own length, key_length_swa, also rotated */
    bool     head_arrays;     /* head_count_kv and feed_forward_length may be arrays, an element for each layer */
    bool     shared_caches;   /* the last shared_kv_layers layers read the cache of the last one before of their kind */
    bool     assistant;       /* it reads the caches and hidden states of a model, and guesses its tokens */
    bool     value_norm;      /* v = norm of each head without weights; without attn_v v is k before its norm */
    bool     layer_embd;      /* each layer adds an embedding of its own, of embedding_length_per_layer_input */
    float    attn_scale;      /* scale, where it is not 1/sqrt(head_dim) */
    bool     window_unscaled; /* with a window: the frequencies of all layers, without scaling */
    bool     sections_neox;   /* pairs are (i, i + n_dims/2) where the file has rope.dimension_sections (M-RoPE) */
    bool     yarn_betas;      /* files may have rope.scaling.yarn_beta_fast and yarn_beta_slow; others ignore them */
    bool     yarn_log;       /* rope.scaling.yarn_log_multiplier m: YaRN's magnitude is divided by 1 + 0.1 m ln(factor),
                              with latent attention by 1 + m ln(factor) */
    bool     temperature;    /* q * (1 + attention.temperature_scale * ln(1 + floor(pos / original context))) */
    bool     rope_sections;  /* M-RoPE: pairs take positions of time, height or width, which are equal for text */
    bool     rope_switch;    /* no layer has RoPE where the file says false to rope.scaling.finetuned */
    bool     full_unrotated; /* in files with a window, layers without one have no RoPE */
    bool     needs_window;   /* files must say attention.sliding_window */
    bool     norm_of_rotated;   /* norms of q and k come behind RoPE: q = norm(rope(wq x)) */
    bool     rope_alpha;        /* rope.scaling.alpha scales frequencies (NTK) whatever rope.scaling.type says */
    float    attn_cap;          /* scores = cap * tanh(scores / cap), where the file has no attn_logit_softcapping */
    int32_t  window_default;    /* where the file has no attention.sliding_window */
    int32_t  scale_embd_layers; /* models with this number of layers: scale = 1/sqrt(n_embd/n_head), not of head_dim */

    /* which halves a layer has */
    bool one_half; /* a feed-forward where the element of feed_forward_length is not 0, else attention; never both */
    bool parallel_ssm; /* x += attention(norm(x)) + selective scan(norm(x)) in every layer */

    /* gated delta nets */
    bool joint_gates; /* one matrix for beta and alpha; heads of values that share a key head are adjacent */

    /* norms and scales; f is attention or feed-forward */
    bool        post_norm;           /* x += norm(f(norm(x))), not x += f(norm(x)) */
    bool        no_pre_norm;         /* x += norm(f(x)): with post_norm */
    bool        parallel_ff;         /* y = norm(x), x += attention(y) + feed_forward(y) */
    bool        parallel_if_bare;    /* the same in layers without ffn_norm */
    bool        ffn_norm_is_post;    /* files call the norm before the feed-forward post_attention_norm */
    bool        ffn_norm_is_bare;    /* files call it ffn_norm, without .weight */
    bool        embd_scale_sqrt;     /* embeddings * sqrt(n_embd) */
    bool        embd_unit;           /* embeddings / their root mean square: RMSNorm without weights */
    float       post_norm_eps;       /* of the norms of post_norm, where it is not that of the others */
    const char *embd_scale_key;      /* embeddings * the value of this key */
    const char *residual_scale_key;  /* x += the value of this key * f(norm(x)) */
    bool        output_norm_is_embd; /* files call the norm before the output matrix token_embd_norm */
    float       logit_cap;           /* logits = cap * tanh(logits / cap), where there is no final_logit_softcapping */
    const char *logit_factor_key;    /* logits * the value of this key, which files must have */
    const char *logit_divisor_key;   /* logits / the value of this key */

    /* encoders, which make embeddings of whole texts */
    bool bidirectional;    /* a token attends to later positions too, if attention.causal does not say otherwise */
    bool symmetric_window; /* a window reaches as far to later positions: |i - t| <= window / 2 */
    bool layer_norm;       /* LayerNorm, not RMSNorm; its key is attention.layer_norm_epsilon */
    bool norm_biases;      /* with layer_norm: attn_norm, ffn_norm and output_norm have biases */
    bool norm_of_sum;      /* x = norm(x + f(x)), with biases, not x += f(norm(x)); no norm behind the last layer */
    bool embd_norm;        /* x = norm(embeddings) */
    bool embd_types;       /* embeddings + token_types[type of the token] */
    bool embd_positions;   /* embeddings + position_embd[position] */
    bool first_bare;       /* layer 0 has no norm before attention */
    bool ff_biases;        /* files may have biases of ffn_gate, ffn_up and ffn_down */
    bool head_gelu;        /* of a classification head: GELU behind cls, not tanh */
    bool head_soft_max;    /* the same: softmax of its results */

    /* feed-forward and experts */
    Activation    activation;        /* of the gate, see above */
    bool          gate_up_joined;    /* one tensor ffn_up, of gate and then up, each with all its rows */
    bool          experts_optional;  /* dense where the file has no expert_count, or 0 */
    Gating        gating;            /* 0: softmax */
    bool          gating_key;        /* files may say otherwise with expert_gating_func */
    bool          normalize_weights; /* w / sum of the chosen w */
    bool          weight_keys;       /* files may say otherwise with expert_weights_norm; expert_weights_scale */
    bool          expert_biases;     /* router, gate, up and down of the experts have biases */
    SharedExperts shared;            /* y += shared(x) */
    bool          shared_gate;       /* y += sigmoid(shared_gate x) * shared(x) */
    bool          length_of_chosen;  /* feed_forward_length is that of a token's n_used experts together */
    bool          dense_beside; /* experts beside a dense feed-forward: y = norm(dense(norm x)) + norm(experts(norm x)),
                                   chosen by router (norm(x) / sqrt(n_embd)), weights times a scale of each expert */
    bool          no_expert_length; /* files have no expert_feed_forward_length, only feed_forward_length */
} ArchRow;

/* The feature that a known family needs and this library lacks; NULL for other names. */
const char *rp_arch_missing(const char *name, size_t len);

/* The row of that name, or NULL. */
const ArchRow *rp_arch_find(const char *name, size_t len);

#endif
