/* The table of architectures. A family that recombines known kinds and features is one row here; a new kind or
 * feature is a field of ArchRow and a line in the builder that reads it. Sizes and the values of the keys come
 * from the file. The comment at the name says which models have it; docs/models.md shows it (tools/models_table.py). */
#include "model/arch_table.h"

#include "reprise/model.h"

#include <string.h>

/* clang-format off */
static const ArchRow archs[] = {
    {
        .name                = "llama", /* Llama 2 and 3, Mistral, Mixtral, SmolLM2 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .experts_optional    = true,
        .normalize_weights   = true,
        .no_expert_length    = true,
    },
    {
        .name                = "qwen2", /* Qwen 2 and 2.5 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
    },
    {
        .name                = "qwen3", /* Qwen 3 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
    },
    {
        .name                = "gemma3", /* Gemma 3 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 6},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .window_rope         = true,
        .scale_embd_layers   = 62, /* Gemma 3 27B alone, and its file does not say so */
        .post_norm           = true,
        .embd_scale_sqrt     = true,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "smollm3", /* SmolLM3 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM, .nth = POSITION_NONE, .n = 4},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
    },
    {
        .name                = "granite", /* Granite 3 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .rope_switch         = true,
        .embd_scale_key      = "embedding_scale",
        .residual_scale_key  = "residual_scale",
        .logit_divisor_key   = "logit_scale",
    },
    {
        .name                = "qwen2moe", /* Qwen 1.5 and 2 with experts */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .shared              = SHARED_AS_DENSE,
        .shared_gate         = true,
        .length_of_chosen    = true,
    },
    {
        .name                = "qwen3moe", /* Qwen 3 with experts */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .normalize_weights   = true,
    },
    {
        .name                = "olmoe", /* OLMoE */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_ROW,
    },
    {
        .name                = "granitemoe", /* Granite 3 with experts */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .embd_scale_key      = "embedding_scale",
        .residual_scale_key  = "residual_scale",
        .logit_divisor_key   = "logit_scale",
        .normalize_weights   = true,
        .shared              = SHARED_BY_KEY,
    },
    {
        .name                = "gpt-oss", /* gpt-oss */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 2},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .sinks               = true,
        .output_bias         = true,
        .ffn_norm_is_post    = true,
        .activation          = ACTIVATION_SWIGLU_OAI,
        .gating              = GATING_SOFTMAX_OF_CHOSEN,
        .expert_biases       = true,
    },
    {
        .name                = "deepseek2", /* DeepSeek 2 and 3, in files with `attn_k_b` and `attn_v_b` */
        .layers.attention    = {.kind = ATTENTION_LATENT},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .shared              = SHARED_COUNTED,
    },
};
/* clang-format on */

enum { N_ARCHS = sizeof archs / sizeof archs[0] };

const char *rp_arch_name(int i) { return i >= 0 && i < N_ARCHS ? archs[i].name : NULL; }

const ArchRow *rp_arch_find(const char *name, size_t len) {
    for (int i = 0; i < N_ARCHS; i++)
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    return NULL;
}
