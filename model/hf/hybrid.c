/* Keys of families with recurrent layers: short convolutions (LFM2), and selective scans of Mamba-2 (Granite 4,
 * Nemotron-H, Falcon-H1). */
#include "model/hf/hf.h"

#include <math.h>
#include <string.h>

typedef enum Kind { FULL, RECURRENT, DENSE, EXPERTS, N_KINDS } Kind;

/* A layer as a text of a list, or as a letter of hybrid_override_pattern. */
static const struct {
    const char *text;
    char        letter;
    Kind        kind;
} kinds[] = {
    {"full_attention",   '*',  FULL     },
    {"attention",        '*',  FULL     },
    {"linear_attention", 'M',  RECURRENT},
    {"mamba",            'M',  RECURRENT},
    {"conv",             '\0', RECURRENT},
    {"mlp",              '-',  DENSE    },
    {"moe",              'E',  EXPERTS  },
};

static Kind kind_of(const HfModel *m, const JsonNode *text, char letter) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (text != NULL ? rp_json_is(&m->config, text, kinds[i].text) : letter == kinds[i].letter)
            return kinds[i].kind;
    return N_KINDS;
}

/* The list that says the kind of each layer; NULL: there is none. */
static const JsonNode *list_of_layers(const HfModel *m, const char **key) {
    static const char *const keys[] = {"layer_types", "layers_block_type", "hybrid_override_pattern"};
    const JsonNode          *list   = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && list == NULL; i++) list = rp_hf_value(m, *key = keys[i]);
    return list;
}

/* full_attn_idxs: the numbers of layers with attention; all others are recurrent. */
static RpStatus kinds_by_index(const HfModel *m, Kind out[HF_MAX_LAYERS]) {
    const JsonNode *list = rp_hf_value(m, "full_attn_idxs");
    uint64_t        i;
    if (list == NULL || list->type != JSON_ARRAY)
        return rp_fail(RP_E_FORMAT, "%s: layer_types is missing", m->config.path);
    for (int k = 0; k < m->n_layer; k++) out[k] = RECURRENT;
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x)) {
        if (!rp_json_u63(&m->config, x, &i) || i >= (uint64_t)m->n_layer)
            return rp_fail(RP_E_FORMAT, "%s: full_attn_idxs has an element that is no layer", m->config.path);
        out[i] = FULL;
    }
    return RP_OK;
}

/* The kind of each layer, and how many there are of each. */
static RpStatus read_kinds(const HfModel *m, Kind out[HF_MAX_LAYERS], int n[N_KINDS]) {
    const char     *key;
    const JsonNode *list = list_of_layers(m, &key), *x = NULL;
    memset(n, 0, N_KINDS * sizeof *n);
    const RpGgufString letters = list != NULL ? rp_json_string(&m->config, list) : (RpGgufString){"", 0};
    const bool         text    = list != NULL && list->type == JSON_STRING;
    if (list == NULL) RP_TRY(kinds_by_index(m, out));
    if (list != NULL && (text ? letters.len : list->type == JSON_ARRAY ? list->n : 0) != (size_t)m->n_layer)
        return rp_fail(RP_E_FORMAT, "%s: %s does not have the kinds of %d layers", m->config.path, key, m->n_layer);
    for (int i = 0; i < m->n_layer; i++) {
        if (list != NULL && !text) x = x == NULL ? rp_json_first(&m->config, list) : rp_json_next(&m->config, list, x);
        if (list != NULL) out[i] = kind_of(m, x, text ? letters.ptr[i] : '\0');
        if (out[i] == N_KINDS) return rp_hf_refuse(m, key, "a layer of an unknown kind");
        n[out[i]]++;
    }
    return RP_OK;
}

/* An array with the count of each layer's kind. */
static void put_counts(const HfModel *m, const char *key, const Kind kind[HF_MAX_LAYERS],
                       const uint32_t count[N_KINDS]) {
    char buf[128];
    rp_gguf_put_array(m->out, rp_hf_key(m, key, buf, sizeof buf), RP_GGUF_U32, (uint64_t)m->n_layer);
    for (int i = 0; i < m->n_layer; i++) rp_gguf_put_element(m->out, &count[kind[i]], sizeof *count);
}

static RpStatus put_heads(const HfModel *m, const Kind kind[HF_MAX_LAYERS]) {
    uint32_t n_head, n_kv;
    RP_TRY(rp_hf_count(m, "num_attention_heads", (double)NAN, &n_head));
    RP_TRY(rp_hf_count(m, "num_key_value_heads", n_head, &n_kv));
    put_counts(m, "attention.head_count_kv", kind, (const uint32_t[N_KINDS]){[FULL] = n_kv});
    return RP_OK;
}

/* n: the number of layers of kinds that the family lacks. */
static RpStatus refuse_kinds(const HfModel *m, int n) {
    const char *key;
    (void)list_of_layers(m, &key);
    return n == 0 ? RP_OK : rp_hf_refuse(m, key, "a layer of a kind that the family lacks");
}

/* ---- LFM2 ---- */

static RpStatus lfm2_layers(HfModel *m) {
    Kind kind[HF_MAX_LAYERS];
    int  n[N_KINDS];
    RP_TRY(rp_hf_never(m, "conv_bias", "a bias of convolutions"));
    RP_TRY(rp_hf_copy_count(m, "conv_L_cache", "shortconv.l_cache"));
    RP_TRY(read_kinds(m, kind, n));
    RP_TRY(refuse_kinds(m, n[DENSE] + n[EXPERTS]));
    return put_heads(m, kind);
}

/* Two thirds of the length of config.json, times a factor, as a multiple of another number. */
static RpStatus adjusted_length(const HfModel *m, uint32_t *n) {
    const JsonNode *by = rp_json_get(&m->config, m->text, "block_ffn_dim_multiplier");
    double          factor;
    int64_t         multiple;
    *n = (uint32_t)((uint64_t)*n * 2 / 3);
    if (by != NULL && by->type == JSON_NULL) return RP_OK;
    RP_TRY(rp_hf_number(m, m->text, "block_ffn_dim_multiplier", 1.0, &factor));
    RP_TRY(rp_hf_size(m, "block_multiple_of", &multiple));
    if (!(factor > 0.0 && factor * *n <= 1e9))
        return rp_fail(RP_E_FORMAT, "%s: block_ffn_dim_multiplier is %g", m->config.path, factor);
    const int64_t times = ((int64_t)(factor * *n) + multiple - 1) / multiple;
    *n                  = (uint32_t)(times * multiple);
    return RP_OK;
}

RpStatus rp_hf_lfm2_keys(HfModel *m) {
    uint32_t n;
    bool     adjust;
    RP_TRY(lfm2_layers(m));
    RP_TRY(
        rp_hf_count(m, rp_hf_value(m, "block_ff_dim") != NULL ? "block_ff_dim" : "intermediate_size", (double)NAN, &n));
    RP_TRY(rp_hf_flag(m, m->text, "block_auto_adjust_ff_dim", true, &adjust));
    if (adjust) RP_TRY(adjusted_length(m, &n));
    rp_hf_put_u32(m, "feed_forward_length", n);
    return RP_OK;
}

RpStatus rp_hf_lfm2_moe_keys(HfModel *m) {
    bool norm, bias;
    RP_TRY(lfm2_layers(m));
    RP_TRY(rp_hf_flag(m, m->text, "use_expert_bias", true, &bias));
    if (!bias) return rp_hf_refuse(m, "use_expert_bias", "a choice of experts without a bias");
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", true, &norm));
    rp_hf_put_u32(m, "expert_gating_func", 2); /* a sigmoid */
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    RP_TRY(rp_hf_copy_number(m, "routed_scaling_factor", 1.0, "expert_weights_scale"));
    RP_TRY(rp_hf_copy_count(m, "num_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    return rp_hf_copy_count(m, "num_dense_layers", "leading_dense_block_count");
}

/* ---- selective scans ---- */

/* Names of config.json. */
typedef struct ScanNames {
    const char *taps, *state, *groups, *heads, *head_dim;
} ScanNames;

static const ScanNames mamba_names = {"mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads",
                                      "mamba_d_head"};

/* [0, Infinity], also as {"__float__": "Infinity"}. */
static RpStatus no_limit_of_steps(const HfModel *m) {
    const JsonNode *list  = rp_hf_value(m, "time_step_limit");
    const JsonNode *least = list != NULL ? rp_json_first(&m->config, list) : NULL;
    const JsonNode *most  = least != NULL ? rp_json_next(&m->config, list, least) : NULL;
    if (list == NULL) return RP_OK;
    if (most != NULL && most->type == JSON_OBJECT) most = rp_json_get(&m->config, most, "__float__");
    if (most != NULL && rp_json_number(&m->config, least) == 0.0 &&
        (rp_json_is(&m->config, most, "Infinity") || isinf(rp_json_number(&m->config, most))))
        return RP_OK;
    return rp_hf_refuse(m, "time_step_limit", "a limit of time steps");
}

/* `inner`: channels; 0: as many as the heads have. */
static RpStatus scan(HfModel *m, const ScanNames *names, int64_t inner) {
    const JsonNode *dim = rp_hf_value(m, names->head_dim);
    int64_t         heads, head_dim = 0;
    RP_TRY(no_limit_of_steps(m));
    RP_TRY(rp_hf_never(m, "mamba_proj_bias", "a bias of the projections of a scan"));
    RP_TRY(rp_hf_copy_count(m, names->taps, "ssm.conv_kernel"));
    RP_TRY(rp_hf_copy_count(m, names->state, "ssm.state_size"));
    RP_TRY(rp_hf_size(m, names->groups, &m->sizes.n_group));
    RP_TRY(rp_hf_size(m, names->heads, &heads));
    if (dim == NULL || !rp_json_is(&m->config, dim, "auto")) RP_TRY(rp_hf_size(m, names->head_dim, &head_dim));
    if (inner == 0) inner = heads * head_dim;
    if ((head_dim != 0 && head_dim * heads != inner) || inner % heads != 0 || inner > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: a selective scan of %lld channels in %lld heads of %lld", m->config.path,
                       (long long)inner, (long long)heads, (long long)head_dim);
    rp_hf_put_u32(m, "ssm.group_count", (uint32_t)m->sizes.n_group);
    rp_hf_put_u32(m, "ssm.time_step_rank", (uint32_t)heads);
    rp_hf_put_u32(m, "ssm.inner_size", (uint32_t)inner);
    return RP_OK;
}

/* mamba_expand times the width of the model. */
static RpStatus expanded(const HfModel *m, int64_t *inner) {
    int64_t n_embd, by;
    RP_TRY(rp_hf_size(m, "hidden_size", &n_embd));
    RP_TRY(rp_hf_size(m, "mamba_expand", &by));
    *inner = n_embd * by;
    return RP_OK;
}

/* ---- Granite 4 ---- */

static const HfPart granite_dense_parts[] = {
    {"shared_mlp.input_linear.weight",  "ffn_gate.weight", FORM_GATE_ROWS, -1},
    {"shared_mlp.input_linear.weight",  "ffn_up.weight",   FORM_UP_ROWS,   -1},
    {"shared_mlp.output_linear.weight", "ffn_down.weight", FORM_WHOLE,     -1},
    HF_SCAN_PARTS("mamba."),
    {NULL,                              NULL,              FORM_WHOLE,     -1}
};

/* Without experts the shared expert is the feed-forward. */
RpStatus rp_hf_granite_hybrid_keys(HfModel *m) {
    Kind     kind[HF_MAX_LAYERS];
    int      n[N_KINDS];
    int64_t  inner;
    uint32_t n_experts;
    RP_TRY(read_kinds(m, kind, n));
    RP_TRY(refuse_kinds(m, n[DENSE] + n[EXPERTS]));
    RP_TRY(put_heads(m, kind));
    RP_TRY(expanded(m, &inner));
    RP_TRY(scan(m, &mamba_names, inner));
    const JsonNode *position = rp_hf_value(m, "position_embedding_type");
    const bool      rotates  = position != NULL && rp_json_is(&m->config, position, "rope");
    if (!rotates && position != NULL && !rp_json_is(&m->config, position, "nope"))
        return rp_hf_refuse(m, "position_embedding_type", "another value");
    rp_hf_put_bool(m, "rope.scaling.finetuned", rotates);
    RP_TRY(rp_hf_count(m, "num_local_experts", 0, &n_experts));
    RP_TRY(
        rp_hf_copy_count(m, n_experts > 0 ? "intermediate_size" : "shared_intermediate_size", "feed_forward_length"));
    if (n_experts > 0) return rp_hf_granite_moe_keys(m);
    m->parts = granite_dense_parts;
    return rp_hf_granite_keys(m);
}

/* ---- Nemotron-H ---- */

bool rp_hf_nemotron_has_experts(const HfModel *m) {
    const char        *key;
    const JsonNode    *list    = list_of_layers(m, &key);
    const RpGgufString letters = list != NULL ? rp_json_string(&m->config, list) : (RpGgufString){"", 0};
    if (list == NULL || list->type == JSON_STRING) return memchr(letters.ptr, 'E', letters.len) != NULL;
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x))
        if (rp_json_is(&m->config, x, "moe")) return true;
    return false;
}

/* A layer is a scan, attention or a feed-forward of one kind. `length`: the key of its length. */
static RpStatus nemotron_h(HfModel *m, Kind feed_forward, const char *length) {
    static const ScanNames names = {"conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads", "mamba_head_dim"};
    Kind                   kind[HF_MAX_LAYERS];
    int                    n[N_KINDS];
    uint32_t               count[N_KINDS] = {0};
    RP_TRY(read_kinds(m, kind, n));
    RP_TRY(refuse_kinds(m, n[feed_forward == DENSE ? EXPERTS : DENSE]));
    RP_TRY(put_heads(m, kind));
    RP_TRY(rp_hf_count(m, length, (double)NAN, &count[feed_forward]));
    put_counts(m, "feed_forward_length", kind, count);
    RP_TRY(rp_hf_only_text(m, "mamba_hidden_act", "silu"));
    RP_TRY(rp_hf_never(m, "use_bias", "a bias of projections"));
    return scan(m, &names, 0);
}

RpStatus rp_hf_nemotron_h_keys(HfModel *m) { return nemotron_h(m, DENSE, "intermediate_size"); }

RpStatus rp_hf_nemotron_h_moe_keys(HfModel *m) {
    bool     norm;
    uint32_t latent;
    RP_TRY(nemotron_h(m, EXPERTS, "moe_intermediate_size"));
    RP_TRY(rp_hf_flag(m, m->text, "norm_topk_prob", true, &norm));
    rp_hf_put_bool(m, "expert_weights_norm", norm);
    RP_TRY(rp_hf_grouped_choice(m));
    RP_TRY(rp_hf_copy_count(m, "n_routed_experts", "expert_count"));
    RP_TRY(rp_hf_copy_count(m, "num_experts_per_tok", "expert_used_count"));
    RP_TRY(rp_hf_copy_count(m, "moe_intermediate_size", "expert_feed_forward_length"));
    RP_TRY(rp_hf_copy_count(m, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"));
    RP_TRY(rp_hf_count(m, "moe_latent_size", 0, &latent));
    if (latent > 0) rp_hf_put_u32(m, "moe_latent_size", latent);
    return RP_OK;
}

/* ---- Falcon-H1 ---- */

RpStatus rp_hf_falcon_h1_keys(HfModel *m) {
    int64_t inner;
    bool    norm, before;
    double  logits;
    if (rp_hf_value(m, "mamba_d_ssm") != NULL)
        RP_TRY(rp_hf_size(m, "mamba_d_ssm", &inner));
    else
        RP_TRY(expanded(m, &inner));
    RP_TRY(scan(m, &mamba_names, inner));
    RP_TRY(rp_hf_flag(m, m->text, "mamba_rms_norm", false, &norm));
    RP_TRY(rp_hf_flag(m, m->text, "mamba_norm_before_gate", true, &before));
    if (norm && before) return rp_hf_refuse(m, "mamba_norm_before_gate", "a norm before the gate of a scan");
    RP_TRY(rp_hf_never(m, "attention_bias", "a bias of projections"));
    RP_TRY(rp_hf_never(m, "projectors_bias", "a bias of projections"));
    RP_TRY(rp_hf_copy_number(m, "embedding_multiplier", 1.0, "embedding_scale"));
    RP_TRY(rp_hf_number(m, m->text, "lm_head_multiplier", 1.0, &logits));
    if (logits == 0.0) return rp_fail(RP_E_FORMAT, "%s: lm_head_multiplier is 0", m->config.path);
    rp_hf_put_f32(m, "logit_scale", 1.0 / logits);
    return rp_hf_falcon_factors(m, inner);
}
