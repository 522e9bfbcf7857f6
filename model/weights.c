/* The tensors that a layer has, as one table: name, field of LayerWeights, shape, and when it is expected.
 * The table serves both to find the tensors of a file and to list those of a model that is to be written.
 * RpGgufFile owns the mapping and its GgufTensors; LayerWeights points to these. */
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_OF_LAYER = 10 }; /* three matrices and their biases, gate and up, those of experts */

/* Lengths that shapes are made of; length() gives their values. */
typedef enum Length {
    ONE,
    EMBD,
    HEADS,
    HEADS_KV,
    HEAD_DIM,
    N_HEADS,
    N_HEADS_KV,
    FF,
    FF_TWICE,
    QKV_ROWS,
    EXPERTS,
    FF_EXPERT,
    FF_BOTH,
    FF_SHARED,
    Q_LORA,
    KV_LORA,
    KV_A,
    NOPE,
    MLA_Q,
    MLA_VALUE,
    MLA_OUT,
    MLA_KV,
    QUERY_AND_GATE,
    EMBD_THRICE,
    TAPS,
    SSM_IN,
    SSM_CHANNELS,
    SSM_HEADS,
    SSM_GROUPS,
    SSM_OF_GROUP,
    SSM_INNER,
    EMBD_EXPERT,
    DELTA_CHANNELS,
    DELTA_DIM,
    DELTA_HEADS,
    DELTA_GATES,
    DELTA_VALUES,
    DELTA_IN,
    EMBD_LAYER,
    N_LENGTHS
} Length;

/* The parts of a layer. It has a tensor if it has all the parts of the row. */
typedef uint64_t Parts;
#define ATTENDS        ((Parts)1 << 0) /* attention of any kind */
#define GQA            ((Parts)1 << 1) /* full or with a window: grouped queries, cached keys and values */
#define LATENT         ((Parts)1 << 2)
#define Q_LOW_RANK     ((Parts)1 << 3) /* latent attention: queries of rank q_lora, */
#define Q_FULL_RANK    ((Parts)1 << 4) /* or of full rank */
#define Q_NORM_HEAD    ((Parts)1 << 5)
#define Q_NORM_ROW     ((Parts)1 << 6)
#define OUTPUT_BIAS    ((Parts)1 << 7)
#define NO_OUT_BIAS    ((Parts)1 << 8)
#define SINKS          ((Parts)1 << 9)
#define POST_NORM      ((Parts)1 << 10)
#define FFN_NORM       ((Parts)1 << 11) /* the norm before the feed-forward has its usual name, */
#define FFN_NORM_POST  ((Parts)1 << 12) /* or that of a norm after attention */
#define DENSE          ((Parts)1 << 13)
#define ROUTED         ((Parts)1 << 14)
#define BIASED         ((Parts)1 << 15) /* experts with biases */
#define SHARED         ((Parts)1 << 16)
#define SHARED_GATE    ((Parts)1 << 17)
#define PRE_NORM       ((Parts)1 << 18) /* norms before attention and feed-forward */
#define Q_NORM_IF      ((Parts)1 << 19) /* norms of heads, in files that have them */
#define QKV_APART      ((Parts)1 << 20) /* a tensor each of queries, keys and values, */
#define QKV_JOINED     ((Parts)1 << 21) /* or one of all three */
#define FF_APART       ((Parts)1 << 22) /* a tensor each of gate and up, */
#define FF_JOINED      ((Parts)1 << 23) /* or one of both */
#define QUERY_ALONE    ((Parts)1 << 24) /* wq gives queries, */
#define QUERY_GATED    ((Parts)1 << 25) /* or queries and gates */
#define DELTA          ((Parts)1 << 26)
#define JOINT_GATES    ((Parts)1 << 27) /* of a delta net: beta and alpha have one matrix, */
#define SPLIT_GATES    ((Parts)1 << 28) /* or two */
#define LAYER_EMBD     ((Parts)1 << 29) /* an embedding of the layer */
#define CONV           ((Parts)1 << 30) /* a short convolution */
#define SSM            ((Parts)1 << 31) /* a selective scan */
#define FF_GATED       ((Parts)1 << 32) /* the feed-forward has a gate */
#define FF_ALONE       ((Parts)1 << 33) /* a feed-forward without attention before it: its norm is called attn_norm */
#define FFN_NORM_BARE  ((Parts)1 << 34) /* the norm before the feed-forward is called ffn_norm, without .weight */
#define EXPERTS_LATENT ((Parts)1 << 35) /* experts of another width than the model */
#define BESIDE         ((Parts)1 << 36) /* experts beside a dense feed-forward */
#define EXP_APART      ((Parts)1 << 37) /* a tensor each of gate and up of all experts, */
#define EXP_JOINED     ((Parts)1 << 38) /* or one of both */
#define LATENT_SPLIT   ((Parts)1 << 39) /* a tensor each of keys and values of the heads, */
#define LATENT_JOINED  ((Parts)1 << 40) /* or one of both */
#define SUM_NORM       ((Parts)1 << 41) /* norms with biases behind the residuals */
#define FF_BIASES      ((Parts)1 << 42) /* of a dense feed-forward */
#define DELTA_SPLIT    ((Parts)1 << 43) /* queries, keys and values, and a gate, */
#define DELTA_JOINED   ((Parts)1 << 44) /* or one of all */
#define NORM_BIASES    ((Parts)1 << 45) /* norms have biases */
#define MATRIX_GATED   ((Parts)1 << 46) /* a matrix gives gates of attention */
#define Q_NORM_OWN     ((Parts)1 << 47) /* norms of heads with weights of their own, in files that have them */

typedef enum Presence {
    REQUIRED,
    OPTIONAL,
    WRITTEN,  /* optional in files that are read, always in those that are written */
    READ_ONLY /* optional in files that are read, never in those that are written */
} Presence;

/* One tensor of a layer; its full name is "blk.<layer>.<name>". */
typedef struct WeightRow {
    const char *name;
    size_t      field; /* offset of its pointer in LayerWeights */
    Length      ne[3]; /* ne[0] contiguous */
    Presence    presence;
    Parts       when; /* parts that the layer must have */
} WeightRow;

#define FIELD(name) offsetof(LayerWeights, name)

static const WeightRow rows[] = {
    {"attn_norm.weight",           FIELD(attn_norm),      {EMBD, ONE, ONE},                  REQUIRED,  ATTENDS | PRE_NORM           },
    {"attn_norm.bias",             FIELD(attn_norm_bias), {EMBD, ONE, ONE},                  REQUIRED,  ATTENDS | NORM_BIASES        },
    {"attn_gate.weight",           FIELD(attn_gate),      {EMBD, HEADS, ONE},                REQUIRED,  GQA | MATRIX_GATED           },
    {"attn_q.weight",              FIELD(q),              {EMBD, HEADS, ONE},                REQUIRED,  GQA | QKV_APART | QUERY_ALONE},
    {"attn_q.weight",              FIELD(q),              {EMBD, QUERY_AND_GATE, ONE},       REQUIRED,  GQA | QKV_APART | QUERY_GATED},
    {"attn_k.weight",              FIELD(k),              {EMBD, HEADS_KV, ONE},             REQUIRED,  GQA | QKV_APART              },
    {"attn_v.weight",              FIELD(v),              {EMBD, HEADS_KV, ONE},             REQUIRED,  GQA | QKV_APART              },
    {"attn_qkv.weight",            FIELD(qkv),            {EMBD, QKV_ROWS, ONE},             REQUIRED,  GQA | QKV_JOINED             },
    {"attn_qkv.bias",              FIELD(qkv_bias),       {QKV_ROWS, ONE, ONE},              READ_ONLY, GQA | QKV_JOINED             },
    {"attn_output.weight",         FIELD(o),              {HEADS, EMBD, ONE},                REQUIRED,  GQA                          },
    {"attn_q.bias",                FIELD(q_bias),         {HEADS, ONE, ONE},                 OPTIONAL,  GQA                          },
    {"attn_k.bias",                FIELD(k_bias),         {HEADS_KV, ONE, ONE},              OPTIONAL,  GQA                          },
    {"attn_v.bias",                FIELD(v_bias),         {HEADS_KV, ONE, ONE},              OPTIONAL,  GQA                          },
    {"attn_output.bias",           FIELD(o_bias),         {EMBD, ONE, ONE},                  OPTIONAL,  GQA | OUTPUT_BIAS            },
    {"attn_output.bias",           FIELD(o_bias),         {EMBD, ONE, ONE},                  READ_ONLY, GQA | NO_OUT_BIAS            },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEAD_DIM, ONE, ONE},              REQUIRED,  GQA | Q_NORM_HEAD            },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEAD_DIM, ONE, ONE},              REQUIRED,  GQA | Q_NORM_HEAD            },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEAD_DIM, ONE, ONE},              READ_ONLY, GQA | Q_NORM_IF              },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEAD_DIM, ONE, ONE},              READ_ONLY, GQA | Q_NORM_IF              },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEAD_DIM, N_HEADS, ONE},          READ_ONLY, GQA | Q_NORM_OWN             },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEAD_DIM, N_HEADS_KV, ONE},       READ_ONLY, GQA | Q_NORM_OWN             },
    {"attn_q_norm.weight",         FIELD(q_norm),         {HEADS, ONE, ONE},                 REQUIRED,  GQA | Q_NORM_ROW             },
    {"attn_k_norm.weight",         FIELD(k_norm),         {HEADS_KV, ONE, ONE},              REQUIRED,  GQA | Q_NORM_ROW             },
    {"attn_sinks.weight",          FIELD(sinks),          {N_HEADS, ONE, ONE},               REQUIRED,  GQA | SINKS                  },
    {"attn_q.weight",              FIELD(q),              {EMBD, MLA_Q, ONE},                REQUIRED,  LATENT | Q_FULL_RANK         },
    {"attn_q_a.weight",            FIELD(q_a),            {EMBD, Q_LORA, ONE},               REQUIRED,  LATENT | Q_LOW_RANK          },
    {"attn_q_a_norm.weight",       FIELD(q_a_norm),       {Q_LORA, ONE, ONE},                REQUIRED,  LATENT | Q_LOW_RANK          },
    {"attn_q_b.weight",            FIELD(q),              {Q_LORA, MLA_Q, ONE},              REQUIRED,  LATENT | Q_LOW_RANK          },
    {"attn_kv_a_mqa.weight",       FIELD(kv_a),           {EMBD, KV_A, ONE},                 REQUIRED,  LATENT                       },
    {"attn_kv_a_norm.weight",      FIELD(kv_a_norm),      {KV_LORA, ONE, ONE},               REQUIRED,  LATENT                       },
    {"attn_k_b.weight",            FIELD(k_b),            {NOPE, KV_LORA, N_HEADS},          REQUIRED,  LATENT | LATENT_SPLIT        },
    {"attn_v_b.weight",            FIELD(v_b),            {KV_LORA, MLA_VALUE, N_HEADS},     REQUIRED,  LATENT | LATENT_SPLIT        },
    {"attn_kv_b.weight",           FIELD(kv_b),           {KV_LORA, MLA_KV, ONE},            REQUIRED,  LATENT | LATENT_JOINED       },
    {"attn_output.weight",         FIELD(o),              {MLA_OUT, EMBD, ONE},              REQUIRED,  LATENT                       },
    {"attn_qkv.weight",            FIELD(delta_qkv),      {EMBD, DELTA_CHANNELS, ONE},       REQUIRED,  DELTA | DELTA_SPLIT          },
    {"attn_gate.weight",           FIELD(delta_gate),     {EMBD, DELTA_VALUES, ONE},         REQUIRED,  DELTA | DELTA_SPLIT          },
    {"ssm_in.weight",              FIELD(delta_in),       {EMBD, DELTA_IN, ONE},             REQUIRED,  DELTA | DELTA_JOINED         },
    {"ssm_conv1d.weight",          FIELD(conv),           {TAPS, DELTA_CHANNELS, ONE},       REQUIRED,  DELTA                        },
    {"ssm_dt.bias",                FIELD(dt),             {DELTA_HEADS, ONE, ONE},           REQUIRED,  DELTA                        },
    {"ssm_a",                      FIELD(decay),          {DELTA_HEADS, ONE, ONE},           REQUIRED,  DELTA                        },
    {"ssm_beta.weight",            FIELD(beta),           {EMBD, DELTA_HEADS, ONE},          REQUIRED,  DELTA | SPLIT_GATES          },
    {"ssm_alpha.weight",           FIELD(alpha),          {EMBD, DELTA_HEADS, ONE},          REQUIRED,  DELTA | SPLIT_GATES          },
    {"ssm_ba.weight",              FIELD(beta_alpha),     {EMBD, DELTA_GATES, ONE},          REQUIRED,  DELTA | JOINT_GATES          },
    {"ssm_norm.weight",            FIELD(delta_norm),     {DELTA_DIM, ONE, ONE},             REQUIRED,  DELTA                        },
    {"ssm_out.weight",             FIELD(delta_out),      {DELTA_VALUES, EMBD, ONE},         REQUIRED,  DELTA                        },
    {"shortconv.in_proj.weight",   FIELD(conv_in),        {EMBD, EMBD_THRICE, ONE},          REQUIRED,  CONV                         },
    {"shortconv.conv.weight",      FIELD(conv),           {TAPS, EMBD, ONE},                 REQUIRED,  CONV                         },
    {"shortconv.out_proj.weight",  FIELD(conv_out),       {EMBD, EMBD, ONE},                 REQUIRED,  CONV                         },
    {"ssm_in.weight",              FIELD(ssm_in),         {EMBD, SSM_IN, ONE},               REQUIRED,  SSM                          },
    {"ssm_conv1d.weight",          FIELD(conv),           {TAPS, SSM_CHANNELS, ONE},         REQUIRED,  SSM                          },
    {"ssm_conv1d.bias",            FIELD(conv_bias),      {SSM_CHANNELS, ONE, ONE},          WRITTEN,   SSM                          },
    {"ssm_dt.bias",                FIELD(dt),             {SSM_HEADS, ONE, ONE},             REQUIRED,  SSM                          },
    {"ssm_a",                      FIELD(decay),          {ONE, SSM_HEADS, ONE},             REQUIRED,  SSM                          },
    {"ssm_d",                      FIELD(ssm_skip),       {ONE, SSM_HEADS, ONE},             REQUIRED,  SSM                          },
    {"ssm_norm.weight",            FIELD(ssm_norm),       {SSM_OF_GROUP, SSM_GROUPS, ONE},   REQUIRED,  SSM                          },
    {"ssm_out.weight",             FIELD(ssm_out),        {SSM_INNER, EMBD, ONE},            REQUIRED,  SSM                          },
    {"post_attention_norm.weight", FIELD(post_attn_norm), {EMBD, ONE, ONE},                  REQUIRED,  ATTENDS | POST_NORM          },
    {"post_attention_norm.weight", FIELD(ffn_norm),       {EMBD, ONE, ONE},                  REQUIRED,  FFN_NORM_POST                },
    {"attn_norm.weight",           FIELD(ffn_norm),       {EMBD, ONE, ONE},                  REQUIRED,  FF_ALONE                     },
    {"ffn_norm",                   FIELD(ffn_norm),       {EMBD, ONE, ONE},                  REQUIRED,  FFN_NORM_BARE                },
    {"ffn_norm.weight",            FIELD(ffn_norm),       {EMBD, ONE, ONE},                  REQUIRED,  FFN_NORM                     },
    {"ffn_norm.bias",              FIELD(ffn_norm_bias),  {EMBD, ONE, ONE},                  REQUIRED,  FFN_NORM | NORM_BIASES       },
    {"attn_output_norm.weight",    FIELD(attn_sum_norm),  {EMBD, ONE, ONE},                  REQUIRED,  SUM_NORM                     },
    {"attn_output_norm.bias",      FIELD(attn_sum_bias),  {EMBD, ONE, ONE},                  REQUIRED,  SUM_NORM                     },
    {"layer_output_norm.weight",   FIELD(sum_norm),       {EMBD, ONE, ONE},                  REQUIRED,  SUM_NORM                     },
    {"layer_output_norm.bias",     FIELD(sum_bias),       {EMBD, ONE, ONE},                  REQUIRED,  SUM_NORM                     },
    {"ffn_gate.bias",              FIELD(gate_bias),      {FF, ONE, ONE},                    OPTIONAL,  FF_BIASES | FF_GATED         },
    {"ffn_up.bias",                FIELD(up_bias),        {FF, ONE, ONE},                    OPTIONAL,  FF_BIASES                    },
    {"ffn_down.bias",              FIELD(down_bias),      {EMBD, ONE, ONE},                  OPTIONAL,  FF_BIASES                    },
    {"ffn_gate.weight",            FIELD(gate),           {EMBD, FF, ONE},                   REQUIRED,  DENSE | FF_APART | FF_GATED  },
    {"ffn_up.weight",              FIELD(up),             {EMBD, FF, ONE},                   REQUIRED,  DENSE | FF_APART             },
    {"ffn_up.weight",              FIELD(gate_up),        {EMBD, FF_TWICE, ONE},             REQUIRED,  DENSE | FF_JOINED            },
    {"ffn_down.weight",            FIELD(down),           {FF, EMBD, ONE},                   REQUIRED,  DENSE                        },
    {"inp_gate.weight",            FIELD(embd_gate),      {EMBD, EMBD_LAYER, ONE},           REQUIRED,  LAYER_EMBD                   },
    {"proj.weight",                FIELD(embd_proj),      {EMBD_LAYER, EMBD, ONE},           REQUIRED,  LAYER_EMBD                   },
    {"post_norm.weight",           FIELD(embd_norm),      {EMBD, ONE, ONE},                  REQUIRED,  LAYER_EMBD                   },
    {"layer_output_scale.weight",  FIELD(out_scale),      {ONE, ONE, ONE},                   READ_ONLY, POST_NORM                    },
    {"post_ffw_norm.weight",       FIELD(post_ffn_norm),  {EMBD, ONE, ONE},                  REQUIRED,  POST_NORM                    },
    {"ffn_gate_inp.weight",        FIELD(router),         {EMBD, EXPERTS, ONE},              REQUIRED,  ROUTED                       },
    {"ffn_gate_inp.bias",          FIELD(router_bias),    {EXPERTS, ONE, ONE},               REQUIRED,  ROUTED | BIASED              },
    {"exp_probs_b.bias",           FIELD(choice_bias),    {EXPERTS, ONE, ONE},               READ_ONLY, ROUTED                       },
    {"ffn_gate_exps.weight",       FIELD(gate_exps),      {EMBD_EXPERT, FF_EXPERT, EXPERTS}, REQUIRED,  EXP_APART | FF_GATED         },
    {"ffn_up_exps.weight",         FIELD(up_exps),        {EMBD_EXPERT, FF_EXPERT, EXPERTS}, REQUIRED,  EXP_APART                    },
    {"ffn_gate_up_exps.weight",    FIELD(gate_up_exps),   {EMBD_EXPERT, FF_BOTH, EXPERTS},   REQUIRED,  EXP_JOINED                   },
    {"ffn_down_exps.weight",       FIELD(down_exps),      {FF_EXPERT, EMBD_EXPERT, EXPERTS}, REQUIRED,  ROUTED                       },
    {"ffn_gate_inp.scale",         FIELD(router_norm),    {EMBD, ONE, ONE},                  REQUIRED,  BESIDE                       },
    {"pre_ffw_norm_2.weight",      FIELD(experts_norm),   {EMBD, ONE, ONE},                  REQUIRED,  BESIDE                       },
    {"post_ffw_norm_1.weight",     FIELD(post_dense),     {EMBD, ONE, ONE},                  REQUIRED,  BESIDE                       },
    {"post_ffw_norm_2.weight",     FIELD(post_experts),   {EMBD, ONE, ONE},                  REQUIRED,  BESIDE                       },
    {"ffn_gate_exps.scale",        FIELD(gate_scales),    {EXPERTS, ONE, ONE},               READ_ONLY, EXP_APART | FF_GATED         },
    {"ffn_up_exps.scale",          FIELD(up_scales),      {EXPERTS, ONE, ONE},               READ_ONLY, EXP_APART                    },
    {"ffn_down_exps.scale",        FIELD(expert_scales),  {EXPERTS, ONE, ONE},               READ_ONLY, ROUTED                       },
    {"ffn_latent_down.weight",     FIELD(latent_down),    {EMBD, EMBD_EXPERT, ONE},          REQUIRED,  EXPERTS_LATENT               },
    {"ffn_latent_up.weight",       FIELD(latent_up),      {EMBD_EXPERT, EMBD, ONE},          REQUIRED,  EXPERTS_LATENT               },
    {"ffn_gate_exps.bias",         FIELD(gate_exps_bias), {FF_EXPERT, EXPERTS, ONE},         REQUIRED,  ROUTED | BIASED              },
    {"ffn_up_exps.bias",           FIELD(up_exps_bias),   {FF_EXPERT, EXPERTS, ONE},         REQUIRED,  ROUTED | BIASED              },
    {"ffn_down_exps.bias",         FIELD(down_exps_bias), {EMBD, EXPERTS, ONE},              REQUIRED,  ROUTED | BIASED              },
    {"ffn_gate_inp_shexp.weight",  FIELD(shared_gate),    {EMBD, ONE, ONE},                  REQUIRED,  SHARED | SHARED_GATE         },
    {"ffn_gate_shexp.weight",      FIELD(gate_shared),    {EMBD, FF_SHARED, ONE},            REQUIRED,  SHARED | FF_GATED            },
    {"ffn_up_shexp.weight",        FIELD(up_shared),      {EMBD, FF_SHARED, ONE},            REQUIRED,  SHARED                       },
    {"ffn_down_shexp.weight",      FIELD(down_shared),    {FF_SHARED, EMBD, ONE},            REQUIRED,  SHARED                       },
};

static Parts attention_parts(const ModelConfig *c, const LayerKind *k) {
    const ArchRow *a = c->arch;
    if (k->attention == ATTENTION_NONE) return 0;
    if (k->attention == ATTENTION_DELTA) return ATTENDS | DELTA | (a->joint_gates ? JOINT_GATES : SPLIT_GATES);
    if (k->attention == ATTENTION_CONV) return ATTENDS | CONV;
    if (k->attention == ATTENTION_SSM) return ATTENDS | SSM;
    if (k->attention == ATTENTION_LATENT) return ATTENDS | LATENT | (c->mla.q_lora > 0 ? Q_LOW_RANK : Q_FULL_RANK);
    Parts parts = ATTENDS | GQA | (a->output_bias ? OUTPUT_BIAS : NO_OUT_BIAS);
    if (a->qk_norm == QK_NORM_HEAD) parts |= Q_NORM_HEAD;
    if (a->qk_norm == QK_NORM_HEAD_OPTIONAL) parts |= Q_NORM_IF;
    if (a->qk_norm == QK_NORM_OWN_OPTIONAL) parts |= Q_NORM_OWN;
    if (a->qk_norm == QK_NORM_ROW) parts |= Q_NORM_ROW;
    if (a->sinks) parts |= SINKS;
    if (a->parallel_ssm) parts |= SSM;
    parts |= a->attn_gate == ATTN_GATE_OF_QUERY ? QUERY_GATED : QUERY_ALONE;
    if (a->attn_gate == ATTN_GATE_MATRIX) parts |= MATRIX_GATED;
    return parts;
}

/* `file`: NULL for one that is to be written, whose tensors are not joined. */
static bool has_joined(const RpGgufFile *file, int layer, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    return file != NULL && rp_gguf_find_tensor(file, name) != NULL;
}

static Parts parts_of(const ModelConfig *c, const RpGgufFile *file, int layer) {
    const LayerKind k     = rp_config_layer(c, layer);
    const ArchRow  *a     = c->arch;
    Parts           parts = attention_parts(c, &k);
    parts |= has_joined(file, layer, "attn_qkv") ? QKV_JOINED : QKV_APART;
    parts |= has_joined(file, layer, "attn_kv_b") ? LATENT_JOINED : LATENT_SPLIT;
    parts |= has_joined(file, layer, "ssm_in") ? DELTA_JOINED : DELTA_SPLIT;
    if (a->norm_of_sum) parts |= SUM_NORM;
    if (a->norm_biases) parts |= NORM_BIASES;
    if (a->ff_biases) parts |= FF_BIASES;
    const bool pre_norm = !a->no_pre_norm && !a->norm_of_sum;
    if (pre_norm && (layer > 0 || !a->first_bare)) parts |= PRE_NORM;
    if (k.feed_forward == FEED_FORWARD_NONE) return parts;
    if (a->one_half)
        parts |= FF_ALONE;
    else if (pre_norm && !a->parallel_ff)
        parts |= a->ffn_norm_is_post ? FFN_NORM_POST : a->ffn_norm_is_bare ? FFN_NORM_BARE : FFN_NORM;
    if (rp_activation_is_gated(a->activation)) parts |= FF_GATED;
    if (a->post_norm) parts |= POST_NORM;
    if (c->n_embd_layer > 0) parts |= LAYER_EMBD;
    if (k.feed_forward == FEED_FORWARD_DENSE) return parts | DENSE | (a->gate_up_joined ? FF_JOINED : FF_APART);
    parts |= ROUTED;
    parts |= (parts & FF_GATED) != 0 && has_joined(file, layer, "ffn_gate_up_exps") ? EXP_JOINED : EXP_APART;
    if (a->dense_beside) parts |= BESIDE | DENSE | FF_APART;
    if (a->expert_biases) parts |= BIASED;
    if (c->experts.n_latent > 0) parts |= EXPERTS_LATENT;
    if (c->experts.n_ff_shared > 0) parts |= SHARED;
    if (a->shared_gate) parts |= SHARED_GATE;
    return parts;
}

static int64_t query_rows(const ModelConfig *c, const LayerKind *k) {
    return (c->arch->attn_gate == ATTN_GATE_OF_QUERY ? 2 : 1) * (int64_t)c->n_head * k->head_dim;
}

static int64_t length(const ModelConfig *c, const LayerKind *k, Length which) {
    const SsmConfig *s         = &c->ssm;
    const int64_t    ssm_inner = (int64_t)s->n_head * s->dim;
    const int64_t    heads = c->n_head, rows_kv = (int64_t)k->n_head_kv * k->head_dim;
    const int64_t    lengths[N_LENGTHS] = {[ONE]            = 1,
                                           [EMBD]           = c->n_embd,
                                           [HEADS]          = heads * k->head_dim,
                                           [HEADS_KV]       = rows_kv,
                                           [QKV_ROWS]       = query_rows(c, k) + 2 * rows_kv,
                                           [HEAD_DIM]       = k->head_dim,
                                           [N_HEADS]        = heads,
                                           [N_HEADS_KV]     = k->n_head_kv,
                                           [FF]             = k->n_ff,
                                           [FF_TWICE]       = 2 * (int64_t)k->n_ff,
                                           [EXPERTS]        = c->experts.n,
                                           [FF_EXPERT]      = c->experts.n_ff,
                                           [FF_BOTH]        = 2 * (int64_t)c->experts.n_ff,
                                           [FF_SHARED]      = c->experts.n_ff_shared,
                                           [Q_LORA]         = c->mla.q_lora,
                                           [KV_LORA]        = c->mla.kv_lora,
                                           [KV_A]           = c->mla.kv_lora + c->rope.n_dims,
                                           [NOPE]           = c->mla.nope,
                                           [MLA_Q]          = heads * (c->mla.nope + c->rope.n_dims),
                                           [MLA_VALUE]      = c->mla.value,
                                           [MLA_OUT]        = heads * c->mla.value,
                                           [MLA_KV]         = heads * (c->mla.nope + c->mla.value),
                                           [QUERY_AND_GATE] = 2 * heads * k->head_dim,
                                           [EMBD_LAYER]     = c->n_embd_layer,
                                           [EMBD_THRICE]    = 3 * (int64_t)c->n_embd,
                                           [TAPS]           = c->taps,
                                           [SSM_IN]         = ssm_inner + rp_ssm_channels(s) + s->n_head,
                                           [SSM_CHANNELS]   = rp_ssm_channels(s),
                                           [SSM_HEADS]      = s->n_head,
                                           [SSM_GROUPS]     = s->n_group,
                                           [SSM_OF_GROUP]   = s->n_group > 0 ? ssm_inner / s->n_group : 0,
                                           [SSM_INNER]      = ssm_inner,
                                           [EMBD_EXPERT]    = c->experts.n_latent > 0 ? c->experts.n_latent : c->n_embd,
                                           [DELTA_CHANNELS] = rp_delta_channels(&c->delta),
                                           [DELTA_DIM]      = c->delta.dim,
                                           [DELTA_HEADS]    = c->delta.n_head,
                                           [DELTA_IN] =
                                               rp_delta_channels(&c->delta) + (int64_t)c->delta.dim * c->delta.n_head,
                                           [DELTA_GATES]  = 2 * (int64_t)c->delta.n_head,
                                           [DELTA_VALUES] = (int64_t)c->delta.dim * c->delta.n_head};
    return lengths[which];
}

static RpStatus find(const RpModel *m, const char *name, int64_t ne0, int64_t ne1, bool optional,
                     const RpGgufTensor **out) {
    return rp_model_find_tensor(m, name, ne0, ne1, 1, optional, out);
}

/* Elements [from, from + n) of a joined vector, or as many rows of a joined matrix, or of each matrix of experts, which
 * then do not follow one another. NULL for NULL. */
static const RpGgufTensor *part_of(RpModel *m, const RpGgufTensor *whole, const char *of, int64_t from, int64_t n) {
    if (whole == NULL) return NULL;
    WeightPart   *p       = rp_model_new_part(m, whole, of);
    RpTensorView *v       = &p->tensor.view;
    const bool    vector  = whole->view.ne[1] == 1;
    v->data               = (char *)v->data + (size_t)from * (vector ? sizeof(float) : v->nb[1]);
    v->ne[vector ? 0 : 1] = n;
    if (v->ne[2] == 1) *v = rp_view_contiguous(v->dtype, v->ne, v->data);
    p->tensor.bytes = whole->bytes / (size_t)whole->view.ne[vector ? 0 : 1] * (size_t)n;
    return &p->tensor;
}

static void take_apart(RpModel *m, const LayerKind *k, LayerWeights *l) {
    const int64_t q = query_rows(&m->config, k), kv = length(&m->config, k, HEADS_KV), ff = k->n_ff;
    if (l->qkv != NULL) {
        l->q = part_of(m, l->qkv, "q", 0, q);
        l->k = part_of(m, l->qkv, "k", q, kv);
        l->v = part_of(m, l->qkv, "v", q + kv, kv);
    }
    if (l->qkv_bias != NULL) {
        l->q_bias = part_of(m, l->qkv_bias, "q", 0, q);
        l->k_bias = part_of(m, l->qkv_bias, "k", q, kv);
        l->v_bias = part_of(m, l->qkv_bias, "v", q + kv, kv);
    }
    if (l->gate_up != NULL) {
        l->gate = part_of(m, l->gate_up, "gate", 0, ff);
        l->up   = part_of(m, l->gate_up, "up", ff, ff);
    }
    if (l->gate_up_exps != NULL) {
        l->gate_exps = part_of(m, l->gate_up_exps, "gate", 0, m->config.experts.n_ff);
        l->up_exps   = part_of(m, l->gate_up_exps, "up", m->config.experts.n_ff, m->config.experts.n_ff);
    }
}

/* A layer that reads the cache of another needs no keys and values, but files may have them. Some files of Falcon-H1
 * have no norm behind the scan. */
static bool may_be_absent(const ModelConfig *c, const LayerKind *k, int layer, const WeightRow *r) {
    const bool is_value = r->field == FIELD(v);
    if (c->arch->value_norm && is_value) return true;
    if (c->arch->parallel_ssm && r->field == FIELD(ssm_norm)) return true;
    if (c->arch->parallel_if_bare && (r->field == FIELD(ffn_norm) || r->field == FIELD(ffn_norm_bias))) return true;
    return k->kv_layer != layer && (is_value || r->field == FIELD(k) || r->field == FIELD(k_norm));
}

static RpStatus find_layer(RpModel *m, int layer) {
    const ModelConfig *c   = &m->config;
    const LayerKind    k   = rp_config_layer(c, layer);
    const Parts        has = parts_of(c, m->file, layer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const WeightRow *r = &rows[i];
        if ((r->when & ~has) != 0) continue;
        char                name[64];
        const RpGgufTensor *t = NULL;
        snprintf(name, sizeof name, "blk.%d.%s", layer, r->name);
        RP_TRY(rp_model_find_tensor(m, name, length(c, &k, r->ne[0]), length(c, &k, r->ne[1]), length(c, &k, r->ne[2]),
                                    r->presence != REQUIRED || may_be_absent(c, &k, layer, r), &t));
        /* rows that share a field exclude each other by `when` */
        memcpy((char *)&m->layers[layer] + r->field, &t, sizeof(const RpGgufTensor *));
    }
    take_apart(m, &k, &m->layers[layer]);
    RP_TRY(rp_model_split_delta(m, &m->layers[layer]));
    return rp_model_split_latent(m, &m->layers[layer]);
}

/* One factor for each rotated pair: in Llama 3.1, and in Phi 3 one for long contexts and one for short ones. */
static RpStatus find_rope_factors(RpModel *m) {
    const int32_t n = m->config.rope.n_dims / 2;
    RP_TRY(find(m, "rope_freqs.weight", n, 1, true, &m->rope_factors));
    RP_TRY(find(m, "rope_factors_long.weight", n, 1, true, &m->rope_long));
    return find(m, "rope_factors_short.weight", n, 1, m->rope_long == NULL, &m->rope_short);
}

static const char *output_norm_name(const ModelConfig *c) {
    return c->arch->output_norm_is_embd ? "token_embd_norm.weight" : "output_norm.weight";
}

/* Tensors outside of the layers, then each layer. The size of the vocabulary is that of the embedding. */
RpStatus rp_model_find_weights(RpModel *m) {
    const ModelConfig *c = &m->config;
    RP_TRY(rp_gguf_widen_vectors(m->file));
    RP_TRY(find(m, "token_embd.weight", c->n_embd, -1, false, &m->token_embd));
    const int64_t n_vocab = m->token_embd->view.ne[1];
    if (n_vocab > INT32_MAX / 2)
        return rp_fail(RP_E_FORMAT, "%s: a vocabulary of %lld", rp_gguf_path(m->file), (long long)n_vocab);
    if (!c->arch->norm_of_sum) RP_TRY(find(m, output_norm_name(c), c->n_embd, 1, false, &m->output_norm));
    if (c->arch->norm_biases) RP_TRY(find(m, "output_norm.bias", c->n_embd, 1, false, &m->output_norm_bias));
    RP_TRY(find(m, "output.weight", c->n_embd, n_vocab, true, &m->output));
    if (m->output == NULL) m->output = m->token_embd;
    RP_TRY(find_rope_factors(m));
    RP_TRY(rp_model_find_embed_weights(m));
    if (c->n_embd_layer > 0) {
        const int64_t all = (int64_t)c->n_embd_layer * c->n_layer;
        RP_TRY(find(m, "per_layer_token_embd.weight", all, n_vocab, false, &m->layer_embd));
        RP_TRY(find(m, "per_layer_model_proj.weight", c->n_embd, all, false, &m->layer_proj));
        RP_TRY(find(m, "per_layer_proj_norm.weight", c->n_embd_layer, 1, false, &m->layer_norm));
    }
    rp_model_free_parts(m);
    RP_TRY(rp_model_find_mtp_weights(m));
    const int n_layer = c->n_layer + (m->mtp.eh_proj != NULL);
    m->parts          = calloc((size_t)n_layer * PARTS_OF_LAYER, sizeof *m->parts);
    if (m->parts == NULL) return rp_fail(RP_E_NOMEM, "out of memory for parts of weights");
    for (int layer = 0; layer < n_layer; layer++) RP_TRY(find_layer(m, layer));
    return RP_OK;
}

static RpStatus visit3(WeightVisitor *visit, void *user, const char *name, int64_t ne0, int64_t ne1, int64_t ne2) {
    return visit(name, (int64_t[RP_MAX_DIMS]){ne0, ne1, ne2, 1}, user);
}

RpStatus rp_model_list_weights(const ModelConfig *c, int64_t n_vocab, bool tied, bool biases, WeightVisitor *visit,
                               void *user) {
    const int64_t of_layers = (int64_t)c->n_embd_layer * c->n_layer;
    RP_TRY(visit3(visit, user, "token_embd.weight", c->n_embd, n_vocab, 1));
    if (of_layers > 0) {
        RP_TRY(visit3(visit, user, "per_layer_token_embd.weight", of_layers, n_vocab, 1));
        RP_TRY(visit3(visit, user, "per_layer_model_proj.weight", c->n_embd, of_layers, 1));
        RP_TRY(visit3(visit, user, "per_layer_proj_norm.weight", c->n_embd_layer, 1, 1));
    }
    const int n_layer = c->n_layer + rp_config_may_have_mtp(c);
    for (int layer = 0; layer < n_layer; layer++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const WeightRow *r = &rows[i];
            const LayerKind  k = rp_config_layer(c, layer);
            char             name[64];
            if ((r->when & ~parts_of(c, NULL, layer)) != 0) continue;
            if (r->presence == READ_ONLY || (r->presence == OPTIONAL && !biases)) continue;
            snprintf(name, sizeof name, "blk.%d.%s", layer, r->name);
            RP_TRY(
                visit3(visit, user, name, length(c, &k, r->ne[0]), length(c, &k, r->ne[1]), length(c, &k, r->ne[2])));
        }
    if (n_layer > c->n_layer) RP_TRY(rp_model_list_mtp_weights(c, visit, user));
    RP_TRY(visit3(visit, user, output_norm_name(c), c->n_embd, 1, 1));
    if (c->arch->norm_biases) RP_TRY(visit3(visit, user, "output_norm.bias", c->n_embd, 1, 1));
    return tied ? RP_OK : visit3(visit, user, "output.weight", c->n_embd, n_vocab, 1);
}
