/* The table of architectures. A family that recombines known kinds and features is one row here; a new kind or
 * feature is a field of ArchRow and a line in the builder that reads it. Sizes and the values of the keys come
 * from the file. The comment at the name says which models have it; docs/models.md shows it (tools/models_table.py). */
#include "model/arch_table.h"

#include "model/gguf/known_archs.h"

#include "reprise/model.h"

#include <string.h>

/* clang-format off */
static const ArchRow archs[] = {
    {
        .name                = "llama", /* Llama 2 and 3, Mistral, Mixtral, SmolLM2, Granite Code */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .experts_optional    = true,
        .normalize_weights   = true,
        .no_expert_length    = true,
        .ff_biases           = true,
    },
    {
        .name                = "mistral3", /* Mistral Small 3.1 and 3.2, Ministral 3 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .yarn_log            = true,
        .temperature         = true,
        .experts_optional    = true,
        .normalize_weights   = true,
        .no_expert_length    = true,
        .yarn_betas          = true,
        .ff_biases           = true,
    },
    {
        .name                = "phi3", /* Phi 3 and 4 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .gate_up_joined      = true,
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
        .head_soft_max       = true,
    },
    {
        .name                = "gemma", /* Gemma */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .embd_scale_sqrt     = true,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "gemma2", /* Gemma 2 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 2},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .attn_cap            = 50.0f,
        .window_default      = 4096,
        .scale_embd_layers   = 46, /* Gemma 2 27B */
        .post_norm           = true,
        .embd_scale_sqrt     = true,
        .logit_cap           = 30.0f,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "gemma3", /* Gemma 3, Rnj-1 */
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
        .name                = "gemma4", /* Gemma 4 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 6},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .window_rope         = true,
        .window_heads        = true,
        .head_arrays         = true,
        .shared_caches       = true,
        .value_norm          = true,
        .layer_embd          = true,
        .attn_scale          = 1.0f,
        .post_norm           = true,
        .embd_scale_sqrt     = true,
        .logit_cap           = 30.0f,
        .activation          = ACTIVATION_GELU_TANH,
        .experts_optional    = true,
        .normalize_weights   = true,
        .dense_beside        = true,
    },
    {
        .name                = "gemma4-assistant", /* assistants of Gemma 4 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .window_rope         = true,
        .window_heads        = true,
        .head_arrays         = true,
        .assistant           = true,
        .attn_scale          = 1.0f,
        .post_norm           = true,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "smollm3", /* SmolLM3 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM, .nth = POSITION_NONE, .n = 4},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
    },
    {
        .name                = "olmo2", /* OLMo 2, all of whose layers are full, and OLMo 3 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_ROW,
        .window_unscaled     = true,
        .post_norm           = true,
        .no_pre_norm         = true,
    },
    {
        .name                = "glm4", /* GLM-4 0414 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .sections_neox       = true,
        .post_norm           = true,
        .gate_up_joined      = true,
    },
    {
        .name                = "ernie4_5", /* ERNIE 4.5 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
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
        .ff_biases           = true,
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
        .name                = "qwen2vl", /* text of Qwen2-VL and Qwen2.5-VL */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .rope_sections       = true,
    },
    {
        .name                = "qwen3vl", /* text of Qwen3-VL */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .rope_sections       = true,
        .qk_norm             = QK_NORM_HEAD,
        .head_soft_max       = true,
    },
    {
        .name                = "qwen3vlmoe", /* text of Qwen3-VL with experts */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .rope_sections       = true,
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
        .name                = "glm4moe", /* GLM-4.5 and 4.6 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD_OPTIONAL,
        .ffn_norm_is_post    = true,
        .gating              = GATING_SIGMOID,
        .shared              = SHARED_COUNTED,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "ernie4_5-moe", /* ERNIE 4.5 with experts */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .normalize_weights   = true,
        .shared              = SHARED_BY_KEY,
    },
    {
        .name                = "minimax-m2", /* MiniMax M2 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_ROW,
        .gating              = GATING_SIGMOID,
        .normalize_weights   = true,
        .gating_key          = true,
    },
    {
        .name                = "deepseek2", /* DeepSeek 2 and 3, GLM-4.7 Flash */
        .temperature         = true, /* in Mistral Large 3 */
        .layers.attention    = {.kind = ATTENTION_LATENT},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .shared              = SHARED_COUNTED,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "mistral4", /* Mistral Small 4 */
        .layers.attention    = {.kind = ATTENTION_LATENT},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .yarn_log            = true,
        .temperature         = true,
        .shared              = SHARED_COUNTED,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "qwen3next", /* Qwen3-Next */
        .layers.attention    = {.kind = ATTENTION_DELTA, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .attn_gate           = ATTN_GATE_OF_QUERY,
        .joint_gates         = true,
        .ffn_norm_is_post    = true,
        .normalize_weights   = true,
        .shared              = SHARED_AS_DENSE,
        .shared_gate         = true,
    },
    {
        .name                = "qwen35", /* Qwen 3.5 to 3.8 */
        .layers.attention    = {.kind = ATTENTION_DELTA, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .attn_gate           = ATTN_GATE_OF_QUERY,
        .rope_sections       = true,
        .ffn_norm_is_post    = true,
    },
    {
        .name                = "qwen35moe", /* Qwen 3.5 to 3.8 with experts */
        .layers.attention    = {.kind = ATTENTION_DELTA, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .attn_gate           = ATTN_GATE_OF_QUERY,
        .rope_sections       = true,
        .ffn_norm_is_post    = true,
        .normalize_weights   = true,
        .shared              = SHARED_AS_DENSE,
        .shared_gate         = true,
    },
    {
        .name                = "lfm2", /* LFM2 and LFM2.5 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .without_heads = ATTENTION_CONV},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .output_norm_is_embd = true,
    },
    {
        .name                = "lfm2moe", /* LFM2 with experts */
        .layers.attention    = {.kind = ATTENTION_FULL, .without_heads = ATTENTION_CONV},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .output_norm_is_embd = true,
        .gating              = GATING_SIGMOID,
        .normalize_weights   = true,
        .gating_key          = true,
    },
    {
        .name                = "granitehybrid", /* Granite 4 */
        .layers.attention    = {.kind = ATTENTION_FULL, .without_heads = ATTENTION_SSM},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .rope_switch         = true,
        .embd_scale_key      = "embedding_scale",
        .residual_scale_key  = "residual_scale",
        .logit_divisor_key   = "logit_scale",
        .experts_optional    = true,
        .normalize_weights   = true,
        .shared              = SHARED_BY_KEY,
        .no_expert_length    = true,
        .ff_biases           = true,
    },
    {
        .name                = "nemotron_h", /* Nemotron-H and Nemotron Nano 2 */
        .layers.attention    = {.kind = ATTENTION_FULL, .without_heads = ATTENTION_SSM},
        .layers.position     = {.kind = POSITION_NONE},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .one_half            = true,
        .activation          = ACTIVATION_RELU_SQR,
        .ff_biases           = true,
    },
    {
        .name                = "nemotron_h_moe", /* Nemotron 3 */
        .layers.attention    = {.kind = ATTENTION_FULL, .without_heads = ATTENTION_SSM},
        .layers.position     = {.kind = POSITION_NONE},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .one_half            = true,
        .activation          = ACTIVATION_RELU_SQR,
        .gating              = GATING_SIGMOID,
        .shared              = SHARED_BY_KEY,
        .weight_keys         = true,
    },
    {
        .name                = "seed_oss", /* Seed-OSS */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .ffn_norm_is_post    = true,
    },
    {
        .name                = "exaone4", /* EXAONE 4.0 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .full_unrotated      = true,
        .post_norm           = true,
        .no_pre_norm         = true,
    },
    {
        .name                = "cohere2", /* Command R7B, Command A */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .full_unrotated      = true,
        .needs_window        = true,
        .layer_norm          = true,
        .parallel_ff         = true,
        .logit_factor_key    = "logit_scale",
    },
    {
        .name                = "hunyuan-dense", /* Hunyuan 0.5B to 7B */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .norm_of_rotated     = true,
        .rope_alpha          = true,
    },
    {
        .name                = "hunyuan-moe", /* Hunyuan A13B */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .norm_of_rotated     = true,
        .normalize_weights   = true,
        .shared              = SHARED_AS_DENSE,
    },
    {
        .name                = "dots1", /* dots.llm1 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .shared              = SHARED_COUNTED,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "bailingmoe2", /* Ling 2.0, Ring 2.0 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .qk_norm             = QK_NORM_HEAD,
        .shared              = SHARED_EACH,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "exaone", /* EXAONE 3.0 and 3.5, EXAONE Deep */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
    },
    {
        .name                = "internlm2", /* InternLM 2 and 2.5 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
    },
    {
        .name                = "arcee", /* AFM 4.5B */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .ff_biases           = true,
        .activation          = ACTIVATION_RELU_SQR,
    },
    {
        .name                = "deepseek", /* DeepSeek MoE 16B */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .shared              = SHARED_COUNTED,
        .weight_keys         = true,
    },
    {
        .name                = "command-r", /* Command R, Command R+ */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_OWN_OPTIONAL,
        .layer_norm          = true,
        .parallel_ff         = true,
        .logit_factor_key    = "logit_scale",
    },
    {
        .name                = "mellum", /* Mellum 2 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .window_unscaled     = true,
        .qk_norm             = QK_NORM_HEAD,
        .normalize_weights   = true,
        .length_of_chosen    = true,
    },
    {
        .name                = "maincoder", /* Maincoder */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .norm_of_rotated     = true,
    },
    {
        .name                = "afmoe", /* Trinity */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_EXPERTS},
        .full_unrotated      = true,
        .needs_window        = true,
        .qk_norm             = QK_NORM_HEAD,
        .attn_gate           = ATTN_GATE_MATRIX,
        .post_norm           = true,
        .embd_scale_sqrt     = true,
        .gating              = GATING_SIGMOID,
        .shared              = SHARED_COUNTED,
        .gating_key          = true,
        .weight_keys         = true,
    },
    {
        .name                = "muse-glimmer", /* Muse Glimmer */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 4},
        .layers.position     = {.kind = POSITION_NORM},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .full_unrotated      = true,
        .needs_window        = true,
        .qk_norm             = QK_NORM_HEAD,
        .attn_gate           = ATTN_GATE_MATRIX,
        .post_norm           = true,
        .post_norm_eps       = 1e-8f,
        .embd_unit           = true,
        .logit_cap           = 30.0f,
        .logit_factor_key    = "logit_scale",
    },
    {
        .name                = "starcoder2", /* StarCoder2 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .layer_norm          = true,
        .norm_biases         = true,
        .ff_biases           = true,
        .activation          = ACTIVATION_GELU_ALONE,
    },
    {
        .name                = "nemotron", /* Nemotron 3 8B and 4, Minitron */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .layer_norm          = true,
        .norm_biases         = true,
        .ff_biases           = true,
        .activation          = ACTIVATION_RELU_SQR,
    },
    {
        .name                = "stablelm", /* StableLM, StableLM 2 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_OWN_OPTIONAL,
        .parallel_if_bare    = true,
        .layer_norm          = true,
        .norm_biases         = true,
    },
    {
        .name                = "gpt2", /* GPT-2 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NONE},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .layer_norm          = true,
        .norm_biases         = true,
        .embd_positions      = true,
        .ff_biases           = true,
        .activation          = ACTIVATION_GELU_ALONE,
    },
    {
        .name                = "starcoder", /* StarCoder */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NONE},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .layer_norm          = true,
        .norm_biases         = true,
        .embd_positions      = true,
        .ff_biases           = true,
        .activation          = ACTIVATION_GELU_ALONE,
    },
    {
        .name                = "apertus", /* Apertus */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .qk_norm             = QK_NORM_HEAD,
        .activation          = ACTIVATION_XIELU,
    },
    {
        .name                = "bert", /* BERT, all-MiniLM, BGE, E5, mxbai, XLM-RoBERTa with bge-m3 and bge-reranker */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NONE},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .output_bias         = true,
        .bidirectional       = true,
        .layer_norm          = true,
        .norm_of_sum         = true,
        .embd_norm           = true,
        .embd_types          = true,
        .embd_positions      = true,
        .ff_biases           = true,
        .activation          = ACTIVATION_GELU_ALONE,
    },
    {
        .name                = "nomic-bert", /* Nomic Embed 1 and 1.5 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .bidirectional       = true,
        .layer_norm          = true,
        .norm_of_sum         = true,
        .embd_norm           = true,
        .embd_types          = true,
    },
    {
        .name                = "modern-bert", /* ModernBERT, GTE and Granite Embedding R2 */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 3, .first = true},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .bidirectional       = true,
        .symmetric_window    = true,
        .window_rope         = true,
        .layer_norm          = true,
        .embd_norm           = true,
        .first_bare          = true,
        .head_gelu           = true,
        .gate_up_joined      = true,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "eurobert", /* EuroBERT */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .bidirectional       = true,
    },
    {
        .name                = "gemma-embedding", /* EmbeddingGemma */
        .layers.attention    = {.kind = ATTENTION_WINDOW, .nth = ATTENTION_FULL, .n = 6},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .qk_norm             = QK_NORM_HEAD,
        .window_rope         = true,
        .post_norm           = true,
        .embd_scale_sqrt     = true,
        .bidirectional       = true,
        .symmetric_window    = true,
        .activation          = ACTIVATION_GELU_TANH,
    },
    {
        .name                = "falcon-h1", /* Falcon-H1 */
        .layers.attention    = {.kind = ATTENTION_FULL},
        .layers.position     = {.kind = POSITION_NEOX},
        .layers.feed_forward = {.kind = FEED_FORWARD_DENSE},
        .parallel_ssm        = true,
        .ffn_norm_is_bare    = true,
        .ff_biases           = true,
        .embd_scale_key      = "embedding_scale",
        .logit_divisor_key   = "logit_scale",
    },
};
/* clang-format on */

enum { N_ARCHS = sizeof archs / sizeof archs[0] };

const char *rp_arch_missing(const char *name, size_t len) {
#define ROW(arch, hf, missing) {arch, missing},
    static const struct { const char *name, *missing; } known[] = {RP_KNOWN_ARCHS(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (len > 0 && strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0) return known[i].missing;
    return NULL;
}

const char *rp_arch_name(int i) { return i >= 0 && i < N_ARCHS ? archs[i].name : NULL; }

const ArchRow *rp_arch_find(const char *name, size_t len) {
    for (int i = 0; i < N_ARCHS; i++)
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    return NULL;
}
