/* The families of models: the keys and names of tensors that each has in addition to config.c. A family that recombines
 * known keys and names is one row of the table. */
#include "model/hf/hf.h"

/* The rows of arch_table.c leave RoPE out in each fourth layer; a list in config.json must agree. */
static RpStatus smollm3(HfModel *m) {
    const JsonNode *list = rp_hf_value(m, "no_rope_layers");
    uint32_t        interval, i = 0;
    RP_TRY(rp_hf_count(m, "no_rope_layer_interval", 4, &interval));
    if (list != NULL && (list->type != JSON_ARRAY || list->n != (uint32_t)m->n_layer))
        return rp_fail(RP_E_FORMAT, "%s: no_rope_layers is not a list of %d numbers", m->config.path, m->n_layer);
    if (list == NULL && interval != 4) return rp_hf_refuse(m, "no_rope_layer_interval", "another interval than 4");
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x)) {
        if (x->type != JSON_NUMBER)
            return rp_fail(RP_E_FORMAT, "%s: no_rope_layers is not a list of %d numbers", m->config.path, m->n_layer);
        if ((rp_json_number(&m->config, x) != 0.0) != (++i % 4 != 0))
            return rp_hf_refuse(m, "no_rope_layers", "another pattern than each fourth layer");
    }
    return RP_OK;
}

/* clang-format off */
static const HfDefault mistral_defaults[] = {{"sliding_window", 4096}, {NULL, 0}};
static const HfDefault mixtral_defaults[] = {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault qwen3_defaults[]   = {{"head_dim", 128}, {NULL, 0}};
static const HfDefault qwen2_vl_defaults[] = {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault qwen3_vl_defaults[] = {{"rope_theta", 5e5}, {"head_dim", 128}, {NULL, 0}};
static const HfDefault qwen3_vl_moe_defaults[] = {{"rope_theta", 5e5}, {NULL, 0}};
static const HfDefault gemma1_defaults[]  = {{"head_dim", 256}, {"max_position_embeddings", 8192}, {NULL, 0}};
static const HfDefault gemma2_defaults[]  = {
    {"head_dim", 256}, {"max_position_embeddings", 8192}, {"num_attention_heads", 8}, {"num_key_value_heads", 4},
    {"sliding_window", 4096}, {"sliding_window_pattern", 2}, {"attn_logit_softcapping", 50}, {"final_logit_softcapping", 30},
    {NULL, 0}};
static const HfDefault lfm2_defaults[]    = {{"rope_theta", 1e6}, {"norm_eps", 1e-5}, {"conv_L_cache", 3}, {"block_multiple_of", 256},
                                             {"num_key_value_heads", 8}, {NULL, 0}};
static const HfDefault lfm2_moe_defaults[] = {{"rope_theta", 1e6}, {"norm_eps", 1e-5}, {"conv_L_cache", 3},
                                              {"num_key_value_heads", 8}, {"num_dense_layers", 2}, {NULL, 0}};
static const HfDefault granite_hybrid_defaults[] = {
    {"mamba_d_conv", 4}, {"mamba_d_state", 256}, {"mamba_n_groups", 1}, {"mamba_n_heads", 128}, {"mamba_expand", 2},
    {"shared_intermediate_size", 1024}, {NULL, 0}};
static const HfDefault nemotron_h_defaults[] = {
    {"layer_norm_epsilon", 1e-5}, {"head_dim", 128}, {"num_key_value_heads", 8}, {"conv_kernel", 4}, {"ssm_state_size", 128},
    {"n_groups", 8}, {"mamba_num_heads", 128}, {"mamba_head_dim", 64}, {"n_group", 1}, {"topk_group", 1}, {NULL, 0}};
static const HfDefault falcon_h1_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"num_key_value_heads", 8}, {"mamba_d_conv", 4}, {"mamba_d_state", 256}, {"mamba_n_groups", 1},
    {"mamba_n_heads", 128}, {"mamba_expand", 2}, {"mamba_d_ssm", 1024}, {NULL, 0}};
static const HfDefault gemma4_defaults[] = {
    {"head_dim", 256}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"global_head_dim", 512},
    {"max_position_embeddings", 131072}, {"sliding_window", 512}, {"hidden_size_per_layer_input", 256}, {NULL, 0}};
static const HfDefault gemma4_unified_defaults[] = {
    {"head_dim", 256}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"global_head_dim", 512},
    {"max_position_embeddings", 262144}, {"sliding_window", 1024}, {NULL, 0}};
static const HfDefault gemma_defaults[]   = {
    {"rope_theta", 1e6}, {"vocab_size", 262208}, {"max_position_embeddings", 131072}, {"num_attention_heads", 8},
    {"num_key_value_heads", 4}, {"head_dim", 256}, {"sliding_window", 4096}, {NULL, 0}};
static const HfDefault exaone4_defaults[] = {{"rms_norm_eps", 1e-5}, {"sliding_window", 4096}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault cohere2_defaults[] = {{"layer_norm_eps", 1e-5}, {"sliding_window", 4096}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault cohere_defaults[]  = {{"layer_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault afmoe_defaults[]   = {
    {"rms_norm_eps", 1e-5}, {"head_dim", 128}, {"num_dense_layers", 1}, {"num_experts", 64}, {"num_experts_per_tok", 6},
    {"num_shared_experts", 2}, {"sliding_window", 1024}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault mellum_defaults[]  = {
    {"rms_norm_eps", 1e-6}, {"head_dim", 128}, {"sliding_window", 1024}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault starcoder2_defaults[] = {{"norm_epsilon", 1e-5}, {"num_key_value_heads", 2}, {NULL, 0}};
static const HfDefault nemotron_defaults[] = {{"norm_eps", 1e-5}, {"partial_rotary_factor", 0.5}, {NULL, 0}};
static const HfDefault stablelm_defaults[] = {{"layer_norm_eps", 1e-5}, {"partial_rotary_factor", 0.25}, {NULL, 0}};
static const HfDefault dots1_defaults[]   = {{"first_k_dense_replace", 0}, {"n_group", 1}, {"topk_group", 1}, {NULL, 0}};
static const HfDefault ling_defaults[]    = {
    {"rope_theta", 6e5}, {"head_dim", 128}, {"num_shared_experts", 1}, {"n_group", 8}, {"topk_group", 4}, {"first_k_dense_replace", 1},
    {NULL, 0}};
static const HfDefault smollm3_defaults[] = {{"rope_theta", 2e6}, {NULL, 0}};
static const HfDefault olmo2_defaults[]   = {{"rms_norm_eps", 1e-5}, {NULL, 0}}; /* also of OLMoE, Phi 3 and Hunyuan */
static const HfDefault olmo3_defaults[]   = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {"sliding_window", 4096},
                                             {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault glm4_defaults[]    = {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1.5625e-7},
                                             {"head_dim", 128}, {NULL, 0}};
static const HfDefault glm4moe_defaults[] = {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault ministral3_defaults[] = {{"head_dim", 128}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault minimax_defaults[] = {{"rope_theta", 5e6}, {"head_dim", 128}, {NULL, 0}};
static const HfDefault ernie_moe_defaults[] = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault deepseek2_defaults[] = {{"q_lora_rank", 1536}, {"n_shared_experts", 2}, {NULL, 0}};
static const HfDefault deepseek3_defaults[] = {{"q_lora_rank", 1536}, {"n_shared_experts", 1}, {"n_group", 8}, {"topk_group", 4},
                                               {"first_k_dense_replace", 3}, {"routed_scaling_factor", 2.5}, {NULL, 0}};
static const HfDefault glm4_lite_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"q_lora_rank", 768}, {"n_shared_experts", 1}, {"n_group", 1}, {"topk_group", 1},
    {"first_k_dense_replace", 1}, {"routed_scaling_factor", 1.8}, {NULL, 0}};
static const HfDefault mistral4_defaults[] = {{"q_lora_rank", 1024}, {"n_shared_experts", 1}, {"n_group", 1}, {"topk_group", 1},
                                              {"first_k_dense_replace", 0}, {NULL, 0}};
static const HfDefault gpt_oss_defaults[] = {{"rope_theta", 1.5e5}, {"rms_norm_eps", 1e-5}, {"head_dim", 64}, {"sliding_window", 128},
                                             {"sliding_window_pattern", 2}, {NULL, 0}};
static const HfDefault delta_defaults[] = {{"partial_rotary_factor", 0.25}, {"head_dim", 256}, {"linear_conv_kernel_dim", 4},
                                           {NULL, 0}};
static const HfDefault ernie_defaults[]   = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {"head_dim", 128}, {NULL, 0}};

static const HfDefault modern_bert_defaults[] = {
    {"global_rope_theta", 160000}, {"max_position_embeddings", 8192}, {"local_attention", 128}, {"norm_eps", 1e-5}, {NULL, 0}};

#define GEMMA4(of, is, its_keys, its_defaults) \
    {.name = of, .arch = is, .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation", .names = rp_hf_gemma4_names, \
     .parts = rp_hf_gemma4_parts, .tied = true, .windows = true, .own_length = true, .keys = its_keys, .heads = rp_hf_gemma4_heads, \
     .defaults = its_defaults}

#define BERT(of, is_padded) \
    {.name = of, .arch = "bert", .activation = "gelu", .names = rp_hf_bert_names, .encoder = true, .padded = is_padded, \
     .keys = rp_hf_bert_keys}
#define BERT_RANK(of, is_padded, its_head) \
    {.name = of, .arch = "bert", .activation = "gelu", .names = rp_hf_bert_names, .encoder = true, .padded = is_padded, \
     .head = its_head, .keys = rp_hf_bert_keys}
#define MODERN_BERT \
    .arch = "modern-bert", .eps_key = "norm_eps", .names = rp_hf_modern_bert_names, .tied = true, .windows = true, \
    .encoder = true, .keys = rp_hf_modern_bert_keys, .defaults = modern_bert_defaults

const HfFamily rp_hf_families[] = {
    BERT("BertModel", false), BERT("BertForMaskedLM", false), BERT("RobertaModel", true), BERT("RobertaForMaskedLM", true),
    BERT("XLMRobertaModel", true), BERT("XLMRobertaForMaskedLM", true), BERT("CamembertModel", true),
    BERT_RANK("BertForSequenceClassification", false, rp_hf_bert_head),
    BERT_RANK("RobertaForSequenceClassification", true, rp_hf_roberta_head),
    BERT_RANK("XLMRobertaForSequenceClassification", true, rp_hf_roberta_head),
    BERT_RANK("CamembertForSequenceClassification", true, rp_hf_roberta_head),
    {.name = "ModernBertModel", MODERN_BERT}, {.name = "ModernBertForMaskedLM", MODERN_BERT},
    {.name = "ModernBertForSequenceClassification", MODERN_BERT, .head = rp_hf_modern_bert_head},
    {.name = "LlamaForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true},
    {.name = "MistralForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true,
     .window_unless_null = true, .defaults = mistral_defaults},
    {.name = "MixtralForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true,
     .window_unless_null = true, .keys = rp_hf_mixtral_keys, .defaults = mixtral_defaults},
    {.name = "Qwen2ForCausalLM", .arch = "qwen2", .activation = "silu"},
    {.name = "Qwen3ForCausalLM", .arch = "qwen3", .activation = "silu", .defaults = qwen3_defaults},
    {.name = "Qwen2MoeForCausalLM", .arch = "qwen2moe", .activation = "silu", .keys = rp_hf_qwen2_moe_keys},
    {.name = "Qwen3MoeForCausalLM", .arch = "qwen3moe", .activation = "silu", .keys = rp_hf_qwen3_moe_keys},
    {.name = "Qwen2VLForConditionalGeneration", .arch = "qwen2vl", .activation = "silu", .keys = rp_hf_qwen2_vl_keys,
     .defaults = qwen2_vl_defaults},
    {.name = "Qwen2_5_VLForConditionalGeneration", .arch = "qwen2vl", .activation = "silu", .keys = rp_hf_qwen2_vl_keys,
     .defaults = qwen2_vl_defaults},
    {.name = "Qwen3VLForConditionalGeneration", .arch = "qwen3vl", .activation = "silu", .keys = rp_hf_qwen3_vl_keys,
     .defaults = qwen3_vl_defaults},
    {.name = "Qwen3VLMoeForConditionalGeneration", .arch = "qwen3vlmoe", .activation = "silu", .parts = rp_hf_qwen3_vl_moe_parts,
     .keys = rp_hf_qwen3_vl_moe_keys, .defaults = qwen3_vl_moe_defaults},
    {.name = "GemmaForCausalLM", .arch = "gemma", .activation = "gelu_pytorch_tanh", .norm_plus_1 = true, .tied = true,
     .keys = rp_hf_gemma_keys, .defaults = gemma1_defaults},
    {.name = "Gemma2ForCausalLM", .arch = "gemma2", .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation",
     .names = rp_hf_gemma_names, .norm_plus_1 = true, .tied = true, .windows = true, .keys = rp_hf_gemma2_keys,
     .defaults = gemma2_defaults},
    {.name = "Gemma3ForCausalLM", .arch = "gemma3", .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = rp_hf_gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3ForConditionalGeneration", .arch = "gemma3", .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = rp_hf_gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3TextModel", .arch = "gemma3", .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation",
     .names = rp_hf_gemma_names, .norm_plus_1 = true, .tied = true, .windows = true, .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3TextModel", .arch = "gemma-embedding", .when = rp_hf_gemma_is_bidirectional, .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = rp_hf_gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma_embedding_keys, .defaults = gemma_defaults},
    GEMMA4("Gemma4ForCausalLM", "gemma4", rp_hf_gemma4_keys, gemma4_defaults),
    GEMMA4("Gemma4ForConditionalGeneration", "gemma4", rp_hf_gemma4_keys, gemma4_defaults),
    GEMMA4("Gemma4UnifiedForCausalLM", "gemma4", rp_hf_gemma4_keys, gemma4_unified_defaults),
    GEMMA4("Gemma4UnifiedForConditionalGeneration", "gemma4", rp_hf_gemma4_keys, gemma4_unified_defaults),
    GEMMA4("Gemma4AssistantForCausalLM", "gemma4-assistant", rp_hf_gemma4_assistant_keys, gemma4_defaults),
    GEMMA4("Gemma4UnifiedAssistantForCausalLM", "gemma4-assistant", rp_hf_gemma4_assistant_keys, gemma4_unified_defaults),
    {.name = "SmolLM3ForCausalLM", .arch = "smollm3", .activation = "silu", .norm_rope = true, .keys = smollm3,
     .defaults = smollm3_defaults},
    {.name = "GraniteForCausalLM", .arch = "granite", .activation = "silu", .norm_rope = true, .keys = rp_hf_granite_keys},
    {.name = "OlmoeForCausalLM", .arch = "olmoe", .activation = "silu", .keys = rp_hf_olmoe_keys, .defaults = olmo2_defaults},
    {.name = "Olmo2ForCausalLM", .arch = "olmo2", .activation = "silu", .names = rp_hf_olmo2_names, .defaults = olmo2_defaults},
    {.name = "Olmo3ForCausalLM", .arch = "olmo2", .activation = "silu", .names = rp_hf_olmo2_names, .windows = true,
     .defaults = olmo3_defaults},
    {.name = "Phi3ForCausalLM", .arch = "phi3", .activation = "silu", .names = rp_hf_phi3_names, .window_unless_null = true,
     .defaults = olmo2_defaults},
    {.name = "SeedOssForCausalLM", .arch = "seed_oss", .activation = "silu", .names = rp_hf_seed_oss_names, .defaults = qwen3_defaults},
    {.name = "Exaone4ForCausalLM", .arch = "exaone4", .activation = "silu", .names = rp_hf_olmo2_names, .windows = true,
     .window_unless_null = true, .defaults = exaone4_defaults},
    {.name = "Cohere2ForCausalLM", .arch = "cohere2", .activation = "silu", .eps_key = "layer_norm_eps", .tied = true, .windows = true,
     .keys = rp_hf_cohere2_keys, .defaults = cohere2_defaults},
    {.name = "CohereForCausalLM", .arch = "command-r", .activation = "silu", .eps_key = "layer_norm_eps", .tied = true,
     .keys = rp_hf_cohere_keys, .defaults = cohere_defaults},
    {.name = "ArceeForCausalLM", .arch = "arcee", .activation = "relu2", .norm_rope = true, .defaults = olmo2_defaults},
    {.name = "AfmoeForCausalLM", .arch = "afmoe", .activation = "silu", .names = rp_hf_afmoe_names, .parts = rp_hf_afmoe_parts,
     .windows = true, .keys = rp_hf_afmoe_keys, .defaults = afmoe_defaults},
    {.name = "MellumForCausalLM", .arch = "mellum", .activation = "silu", .parts = rp_hf_afmoe_parts, .windows = true,
     .keys = rp_hf_mellum_keys, .defaults = mellum_defaults},
    {.name = "Starcoder2ForCausalLM", .arch = "starcoder2", .activation = "gelu_pytorch_tanh", .eps_key = "norm_epsilon",
     .names = rp_hf_starcoder2_names, .tied = true, .window_unless_null = true, .keys = rp_hf_layer_norm_keys,
     .defaults = starcoder2_defaults},
    {.name = "NemotronForCausalLM", .arch = "nemotron", .activation = "relu2", .eps_key = "norm_eps", .norm_plus_1 = true,
     .keys = rp_hf_layer_norm_keys, .defaults = nemotron_defaults},
    {.name = "StableLmForCausalLM", .arch = "stablelm", .activation = "silu", .eps_key = "layer_norm_eps",
     .keys = rp_hf_stablelm_keys, .defaults = stablelm_defaults},
    {.name = "HunYuanDenseV1ForCausalLM", .arch = "hunyuan-dense", .activation = "silu", .names = rp_hf_hunyuan_names,
     .keys = rp_hf_hunyuan_keys, .defaults = olmo2_defaults},
    {.name = "HunYuanMoEV1ForCausalLM", .arch = "hunyuan-moe", .activation = "silu", .names = rp_hf_hunyuan_moe_names, .own_length = true,
     .keys = rp_hf_hunyuan_moe_keys, .defaults = olmo2_defaults},
    {.name = "BailingMoeV2ForCausalLM", .arch = "bailingmoe2", .activation = "silu", .names = rp_hf_ling_names, .keys = rp_hf_ling_keys,
     .defaults = ling_defaults},
    {.name = "Dots1ForCausalLM", .arch = "dots1", .activation = "silu", .names = rp_hf_deepseek_names, .keys = rp_hf_dots1_keys,
     .defaults = dots1_defaults},
    {.name = "Glm4ForCausalLM", .arch = "glm4", .activation = "silu", .names = rp_hf_glm4_names, .defaults = glm4_defaults},
    {.name = "Glm4MoeForCausalLM", .arch = "glm4moe", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = rp_hf_glm4moe_names, .keys = rp_hf_glm4_moe_keys,
     .defaults = glm4moe_defaults},
    {.name = "Ernie4_5ForCausalLM", .arch = "ernie4_5", .activation = "silu", .tied = true, .defaults = ernie_defaults},
    {.name = "Ernie4_5_MoeForCausalLM", .arch = "ernie4_5-moe", .activation = "silu", .names = rp_hf_ernie_moe_names, .tied = true,
     .keys = rp_hf_ernie_moe_keys, .defaults = ernie_moe_defaults},
    {.name = "MiniMaxM2ForCausalLM", .arch = "minimax-m2", .activation = "silu", .rotary_dim = true,
     .keys = rp_hf_minimax_m2_keys, .defaults = minimax_defaults},
    {.name = "GraniteMoeForCausalLM", .arch = "granitemoe", .activation = "silu", .parts = rp_hf_granite_moe_parts, .norm_rope = true,
     .keys = rp_hf_granite_moe_keys},
    {.name = "GraniteMoeSharedForCausalLM", .arch = "granitemoe", .activation = "silu", .parts = rp_hf_granite_moe_parts,
     .norm_rope = true, .keys = rp_hf_granite_moe_keys},
    {.name = "GraniteMoeHybridForCausalLM", .arch = "granitehybrid", .activation = "silu", .names = rp_hf_granite_hybrid_names,
     .parts = rp_hf_granite_moe_parts, .norm_rope = true, .hybrid = true, .own_length = true, .keys = rp_hf_granite_hybrid_keys,
     .defaults = granite_hybrid_defaults},
    {.name = "Lfm2ForCausalLM", .arch = "lfm2", .activation = "silu", .eps_key = "norm_eps", .names = rp_hf_lfm2_names,
     .parts = rp_hf_lfm2_parts, .tied = true, .hybrid = true, .own_length = true, .keys = rp_hf_lfm2_keys, .defaults = lfm2_defaults},
    {.name = "Lfm2VlForConditionalGeneration", .text_type = "lfm2", .arch = "lfm2", .activation = "silu", .eps_key = "norm_eps",
     .names = rp_hf_lfm2_names, .parts = rp_hf_lfm2_parts, .tied = true, .hybrid = true, .own_length = true, .keys = rp_hf_lfm2_keys,
     .defaults = lfm2_defaults},
    {.name = "Lfm2MoeForCausalLM", .arch = "lfm2moe", .activation = "silu", .eps_key = "norm_eps", .names = rp_hf_lfm2_names,
     .parts = rp_hf_lfm2_parts, .tied = true, .hybrid = true, .keys = rp_hf_lfm2_moe_keys, .defaults = lfm2_moe_defaults},
    {.name = "NemotronHForCausalLM", .arch = "nemotron_h", .activation = "relu2", .activation_key = "mlp_hidden_act",
     .eps_key = "layer_norm_epsilon", .names = rp_hf_nemotron_h_names, .parts = rp_hf_nemotron_h_parts, .hybrid = true, .own_length = true,
     .keys = rp_hf_nemotron_h_keys, .defaults = nemotron_h_defaults},
    {.name = "NemotronHForCausalLM", .arch = "nemotron_h_moe", .when = rp_hf_nemotron_has_experts, .activation = "relu2",
     .activation_key = "mlp_hidden_act", .eps_key = "layer_norm_epsilon", .names = rp_hf_nemotron_h_names, .parts = rp_hf_nemotron_h_parts,
     .hybrid = true, .own_length = true, .keys = rp_hf_nemotron_h_moe_keys, .defaults = nemotron_h_defaults},
    {.name = "DeepseekV2ForCausalLM", .arch = "deepseek2", .activation = "silu", .names = rp_hf_deepseek_names, .parts = rp_hf_deepseek_parts,
     .latent = true, .keys = rp_hf_deepseek2_keys, .defaults = deepseek2_defaults},
    {.name = "DeepseekV3ForCausalLM", .arch = "deepseek2", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = rp_hf_deepseek_names, .parts = rp_hf_deepseek_parts,
     .latent = true, .keys = rp_hf_deepseek3_keys, .defaults = deepseek3_defaults},
    {.name = "Glm4MoeLiteForCausalLM", .arch = "deepseek2", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = rp_hf_deepseek_names,
     .parts = rp_hf_deepseek_parts, .latent = true, .keys = rp_hf_deepseek3_keys, .defaults = glm4_lite_defaults},
    {.name = "Mistral4ForCausalLM", .arch = "mistral4", .activation = "silu", .names = rp_hf_deepseek_names,
     .parts = rp_hf_mistral4_parts, .latent = true, .keys = rp_hf_mistral4_keys, .defaults = mistral4_defaults},
    {.name = "FalconH1ForCausalLM", .arch = "falcon-h1", .activation = "silu", .names = rp_hf_falcon_h1_names,
     .parts = rp_hf_falcon_h1_parts, .keys = rp_hf_falcon_h1_keys, .defaults = falcon_h1_defaults},
    {.name = "GptOssForCausalLM", .arch = "gpt-oss", .activation = "silu", .names = rp_hf_gpt_oss_names, .parts = rp_hf_gpt_oss_parts,
     .windows = true, .keys = rp_hf_gpt_oss_keys, .defaults = gpt_oss_defaults},
    {.name = "Qwen3NextForCausalLM", .arch = "qwen3next", .activation = "silu", .names = rp_hf_delta_names, .parts = rp_hf_qwen3next_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5ForCausalLM", .arch = "qwen35", .activation = "silu", .names = rp_hf_delta_names, .parts = rp_hf_qwen35_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5ForConditionalGeneration", .arch = "qwen35", .activation = "silu", .names = rp_hf_delta_names,
     .parts = rp_hf_qwen35_parts, .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5MoeForCausalLM", .arch = "qwen35moe", .activation = "silu", .names = rp_hf_delta_names, .parts = rp_hf_qwen35_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5MoeForConditionalGeneration", .arch = "qwen35moe", .activation = "silu", .names = rp_hf_delta_names,
     .parts = rp_hf_qwen35_parts, .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Ministral3ForCausalLM", .arch = "mistral3", .activation = "silu", .norm_rope = true, .window_unless_null = true,
     .keys = rp_hf_ministral3_keys, .defaults = ministral3_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "ministral3", .arch = "mistral3", .activation = "silu",
     .norm_rope = true, .window_unless_null = true, .keys = rp_hf_ministral3_keys, .defaults = ministral3_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "mistral", .arch = "mistral3", .activation = "silu",
     .norm_rope = true, .window_unless_null = true, .defaults = mistral_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "mistral4", .arch = "mistral4", .activation = "silu",
     .names = rp_hf_deepseek_names, .parts = rp_hf_mistral4_parts, .latent = true, .keys = rp_hf_mistral4_keys, .defaults = mistral4_defaults},
    {.name = NULL},
};
/* clang-format on */
