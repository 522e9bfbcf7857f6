/* The built-in model shapes. Published models have the shape of their config; the others are made for tests
 * and measurements. */
#include "model/convert/preset.h"

#include "reprise/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format 14 crashes on this table. */
/* clang-format off */
#define KEYS(...) (const PresetKey[]){__VA_ARGS__, {.key = NULL}}
#define DELTA(heads, inner) /* of 128, 16 for keys; every fourth layer attends */                                      \
    {.key = "ssm.conv_kernel", .u = 4}, {.key = "ssm.state_size", .u = 128}, {.key = "ssm.group_count", .u = 16},      \
    {.key = "ssm.time_step_rank", .u = (heads)}, {.key = "ssm.inner_size", .u = (inner)},                              \
    {.key = "full_attention_interval", .u = 4}, {.key = "rope.dimension_count", .u = 64}
#define SCAN(heads, inner) /* one group, states of 128 */                                                              \
    {.key = "ssm.conv_kernel", .u = 4}, {.key = "ssm.state_size", .u = 128}, {.key = "ssm.group_count", .u = 1},       \
    {.key = "ssm.time_step_rank", .u = (heads)}, {.key = "ssm.inner_size", .u = (inner)}
#define MLA(lora, experts) /* heads of 128, and 64 that rotate; YaRN by 40 */                                          \
    {.key = "attention.kv_lora_rank", .u = (lora)}, {.key = "attention.value_length", .u = (lora)},                    \
    {.key = "attention.key_length_mla", .u = 192}, {.key = "attention.value_length_mla", .u = 128},                    \
    {.key = "rope.dimension_count", .u = 64}, {.key = "expert_shared_count", .u = (experts)}
#define GEMMA4(pattern) /* heads of 256 in layers with a window, else of 512 */                                        \
    {.key = "attention.sliding_window_pattern", .layers = (pattern), .flag = true},                                      \
    {.key = "attention.key_length_swa", .u = 256}, {.key = "attention.value_length_swa", .u = 256},                    \
    {.key = "rope.dimension_count_swa", .u = 256}, {.key = "rope.freq_base_swa", .f = 10000.0f},                       \
    {.key = "final_logit_softcapping", .f = 30.0f}
#define SECTIONS {.key = "rope.dimension_sections", .list = (const int32_t[]){11, 11, 10, 0}, .n = 4}

static const Preset presets[] = {
    {.name = "tiny", .arch = "llama", .help = "nn-6.9b made small, for tests",
     .n_layer = 2, .n_embd = 64, .n_head = 4, .n_head_kv = 1, .head_dim = 16, .n_ff = 96, .n_vocab = 320,
     .n_ctx = 1024, .n_expert = 4, .n_used = 2, .n_ff_expert = 96, .rope_base = 10000.0f, .ntk_alpha = 8.0f},
    {.name = "demo", .arch = "qwen3moe", .help = "the demo model: 4 layers of 256, 8 experts of which 2; 8 M parameters",
     .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64, .n_ff = 256, .n_vocab = 4096,
     .n_ctx = 256, .n_expert = 8, .n_used = 2, .n_ff_expert = 256, .rope_base = 10000.0f, .eps = 1e-6f, .tied = true},
    {.name = "nn-6.9b", .arch = "llama", .help = "30 layers of 768, 16 experts of which 4, one key head, context 256K",
     .n_layer = 30, .n_embd = 768, .n_head = 12, .n_head_kv = 1, .head_dim = 64, .n_ff = 6144, .n_vocab = 32000,
     .n_ctx = 262144, .n_expert = 16, .n_used = 4, .n_ff_expert = 6144, .rope_base = 10000.0f, .ntk_alpha = 8.0f},
    {.name = "nn-1.8b", .arch = "llama", .help = "nn-6.9b with experts of 1536 and context 32K; 1.8 B parameters, to train",
     .n_layer = 30, .n_embd = 768, .n_head = 12, .n_head_kv = 1, .head_dim = 64, .n_ff = 1536, .n_vocab = 32000,
     .n_ctx = 32768, .n_expert = 16, .n_used = 4, .n_ff_expert = 1536, .rope_base = 10000.0f},
    {.name = "moe-1b", .arch = "qwen3moe", .help = "12 layers of 1024, 32 experts of which 4, for measurements",
     .n_layer = 12, .n_embd = 1024, .n_head = 16, .n_head_kv = 4, .head_dim = 64, .n_ff = 3072, .n_vocab = 32000,
     .n_ctx = 32768, .n_expert = 32, .n_used = 4, .n_ff_expert = 768, .rope_base = 1e6f},
    {.name = "smollm2-135m", .arch = "llama", .help = "the shape of SmolLM2-135M",
     .n_layer = 30, .n_embd = 576, .n_head = 9, .n_head_kv = 3, .head_dim = 64, .n_ff = 1536, .n_vocab = 49152,
     .n_ctx = 8192, .rope_base = 1e5f, .tied = true},
    {.name = "qwen2.5-0.5b", .arch = "qwen2", .help = "the shape of Qwen2.5 0.5B",
     .n_layer = 24, .n_embd = 896, .n_head = 14, .n_head_kv = 2, .head_dim = 64, .n_ff = 4864, .n_vocab = 151936,
     .n_ctx = 32768, .rope_base = 1e6f, .tied = true, .biases = true},
    {.name = "dense-1b", .arch = "llama", .help = "22 layers of 2048, the shape of TinyLlama 1.1B, for measurements",
     .n_layer = 22, .n_embd = 2048, .n_head = 32, .n_head_kv = 4, .head_dim = 64, .n_ff = 5632, .n_vocab = 32000,
     .n_ctx = 32768, .rope_base = 10000.0f},
    {.name = "llama3.2-1b", .arch = "llama", .help = "the shape of Llama 3.2 1B",
     .n_layer = 16, .n_embd = 2048, .n_head = 32, .n_head_kv = 8, .head_dim = 64, .n_ff = 8192, .n_vocab = 128256,
     .n_ctx = 131072, .rope_base = 5e5f, .tied = true},
    {.name = "llama3-8b", .arch = "llama", .help = "the shape of Llama 3 8B",
     .n_layer = 32, .n_embd = 4096, .n_head = 32, .n_head_kv = 8, .head_dim = 128, .n_ff = 14336, .n_vocab = 128256,
     .n_ctx = 8192, .rope_base = 5e5f},
    {.name = "mixtral-8x7b", .arch = "llama", .help = "the shape of Mixtral 8x7B",
     .n_layer = 32, .n_embd = 4096, .n_head = 32, .n_head_kv = 8, .head_dim = 128, .n_ff = 14336, .n_vocab = 32000,
     .n_ctx = 32768, .n_expert = 8, .n_used = 2, .n_ff_expert = 14336, .rope_base = 1e6f},
    {.name = "qwen3-30b-a3b", .arch = "qwen3moe", .help = "the shape of Qwen3 30B-A3B",
     .n_layer = 48, .n_embd = 2048, .n_head = 32, .n_head_kv = 4, .head_dim = 128, .n_ff = 6144, .n_vocab = 151936,
     .n_ctx = 40960, .n_expert = 128, .n_used = 8, .n_ff_expert = 768, .rope_base = 1e6f},
    {.name = "olmoe-1b-7b", .arch = "olmoe", .help = "the shape of OLMoE 1B-7B",
     .n_layer = 16, .n_embd = 2048, .n_head = 16, .n_head_kv = 16, .head_dim = 128, .n_ff = 1024, .n_vocab = 50304,
     .n_ctx = 4096, .n_expert = 64, .n_used = 8, .n_ff_expert = 1024, .rope_base = 10000.0f},
    {.name = "gpt-oss-20b", .arch = "gpt-oss", .help = "the shape of gpt-oss 20B",
     .n_layer = 24, .n_embd = 2880, .n_head = 64, .n_head_kv = 8, .head_dim = 64, .n_ff = 2880, .n_vocab = 201088,
     .n_ctx = 131072, .n_expert = 32, .n_used = 4, .n_ff_expert = 2880, .rope_base = 150000.0f, .yarn_factor = 32.0f,
     .yarn_ctx = 4096, .window = 128, .biases = true},
    {.name = "gemma4-e2b", .arch = "gemma4", .help = "the shape of Gemma 4 E2B: embeddings in each layer, 20 of 35 share caches",
     .n_layer = 35, .n_embd = 1536, .n_head = 8, .n_head_kv = 1, .head_dim = 512, .n_vocab = 262144, .n_ctx = 131072,
     .rope_base = 1e6f, .eps = 1e-6f, .window = 512, .tied = true,
     .keys = KEYS(GEMMA4("xxxx."), {.key = "attention.shared_kv_layers", .u = 20},
                  {.key = "embedding_length_per_layer_input", .u = 256},
                  {.key = "feed_forward_length", .n = 35, .list = (const int32_t[]){
                       6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144, 6144,
                       12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288,
                       12288, 12288, 12288, 12288, 12288, 12288}})},
    {.name = "gemma4-26b-a4b", .arch = "gemma4", .help = "the shape of Gemma 4 26B-A4B: experts beside a dense feed-forward",
     .n_layer = 30, .n_embd = 2816, .n_head = 16, .head_dim = 512, .n_ff = 2112, .n_vocab = 262144, .n_ctx = 262144,
     .n_expert = 128, .n_used = 8, .n_ff_expert = 704, .rope_base = 1e6f, .eps = 1e-6f, .window = 1024, .tied = true,
     .keys = KEYS(GEMMA4("xxxxx."), {.key = "embedding_length_per_layer_input", .u = 0},
                  {.key = "attention.head_count_kv", .n = 30, .list = (const int32_t[]){
                       8, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 2}})},
    {.name = "qwen3.5-0.8b", .arch = "qwen35", .help = "the shape of Qwen3.5 0.8B: 18 of 24 layers are delta nets",
     .n_layer = 24, .n_embd = 1024, .n_head = 8, .n_head_kv = 2, .head_dim = 256, .n_ff = 3584, .n_vocab = 248320,
     .n_ctx = 262144, .rope_base = 1e7f, .eps = 1e-6f, .tied = true, .keys = KEYS(DELTA(16, 2048), SECTIONS)},
    {.name = "qwen3.5-35b-a3b", .arch = "qwen35moe", .help = "the shape of Qwen3.5 35B-A3B",
     .n_layer = 40, .n_embd = 2048, .n_head = 16, .n_head_kv = 2, .head_dim = 256, .n_vocab = 248320, .n_ctx = 262144,
     .n_expert = 256, .n_used = 8, .n_ff_expert = 512, .rope_base = 1e7f, .eps = 1e-6f,
     .keys = KEYS(DELTA(32, 4096), SECTIONS, {.key = "expert_shared_feed_forward_length", .u = 512})},
    {.name = "delta-moe-1b", .arch = "qwen3next", .help = "moe-1b with delta nets in 9 of 12 layers, for measurements",
     .n_layer = 12, .n_embd = 1024, .n_head = 8, .n_head_kv = 2, .head_dim = 256, .n_vocab = 32000, .n_ctx = 262144,
     .n_expert = 32, .n_used = 4, .n_ff_expert = 768, .rope_base = 1e7f, .eps = 1e-6f,
     .keys = KEYS(DELTA(16, 2048), {.key = "expert_shared_feed_forward_length", .u = 768})},
    {.name = "lfm2-1.2b", .arch = "lfm2", .help = "the shape of LFM2 1.2B: short convolutions, 6 of 16 layers attend",
     .n_layer = 16, .n_embd = 2048, .n_head = 32, .n_head_kv = 8, .head_dim = 64, .n_ff = 8192, .n_vocab = 65536,
     .n_ctx = 128000, .rope_base = 1e6f, .tied = true,
     .keys = KEYS({.key = "attention.head_count_kv", .layers = "..x..x..x.x.x.x.", .u = 8},
                  {.key = "shortconv.l_cache", .u = 3})},
    {.name = "granite4-h-1b", .arch = "granitehybrid", .help = "the shape of Granite 4.0 H 1B: Mamba-2 in 36 of 40 layers",
     .n_layer = 40, .n_embd = 1536, .n_head = 12, .n_head_kv = 4, .head_dim = 128, .n_ff = 4096, .n_vocab = 100352,
     .n_ctx = 131072, .rope_base = 10000.0f, .tied = true,
     .keys = KEYS(SCAN(48, 3072), {.key = "attention.head_count_kv", .layers = ".....x....", .u = 4},
                  {.key = "embedding_scale", .f = 12.0f}, {.key = "residual_scale", .f = 0.22f},
                  {.key = "attention.scale", .f = 0.0078125f}, {.key = "logit_scale", .f = 6.0f})},
    {.name = "nemotron-h-1b", .arch = "nemotron_h", .help = "40 layers of 1536, 16 with Mamba-2, for measurements",
     .n_layer = 40, .n_embd = 1536, .n_head = 12, .n_head_kv = 4, .head_dim = 128, .n_ff = 6144, .n_vocab = 65536,
     .n_ctx = 131072, .rope_base = 10000.0f,
     .keys = KEYS(SCAN(48, 3072), {.key = "attention.head_count_kv", .layers = "..x..", .u = 4},
                  {.key = "feed_forward_length", .layers = ".x..x", .u = 6144},
                  {.key = "attention.layer_norm_epsilon", .f = 1e-5f})},
    {.name = "falcon-h1-0.5b", .arch = "falcon-h1", .help = "the shape of Falcon-H1 0.5B: Mamba-2 in each layer",
     .n_layer = 36, .n_embd = 1024, .n_head = 8, .n_head_kv = 2, .head_dim = 64, .n_ff = 2048, .n_vocab = 32784,
     .n_ctx = 16384, .rope_base = 1e11f, .keys = KEYS(SCAN(24, 1536))},
    {.name = "deepseek-v2-lite", .arch = "deepseek2", .help = "the shape of DeepSeek-V2-Lite: latent attention",
     .n_layer = 27, .n_embd = 2048, .n_head = 16, .n_head_kv = 1, .head_dim = 576, .n_ff = 10944, .n_vocab = 102400,
     .n_ctx = 163840, .n_expert = 64, .n_used = 6, .n_ff_expert = 1408, .rope_base = 10000.0f, .eps = 1e-6f,
     .yarn_factor = 40.0f, .yarn_ctx = 4096,
     .keys = KEYS(MLA(512, 2), {.key = "leading_dense_block_count", .u = 1},
                  {.key = "rope.scaling.yarn_log_multiplier", .f = 0.0707f})},
    {.name = "deepseek-v3", .arch = "deepseek2", .help = "the shape of DeepSeek-V3: latent attention, 671 B parameters",
     .n_layer = 61, .n_embd = 7168, .n_head = 128, .n_head_kv = 1, .head_dim = 576, .n_ff = 18432, .n_vocab = 129280,
     .n_ctx = 163840, .n_expert = 256, .n_used = 8, .n_ff_expert = 2048, .rope_base = 10000.0f, .eps = 1e-6f,
     .yarn_factor = 40.0f, .yarn_ctx = 4096,
     .keys = KEYS(MLA(512, 1), {.key = "attention.q_lora_rank", .u = 1536},
                  {.key = "leading_dense_block_count", .u = 3},
                  {.key = "rope.scaling.yarn_log_multiplier", .f = 0.1f}, {.key = "expert_gating_func", .u = 2},
                  {.key = "expert_weights_norm", .flag = true}, {.key = "expert_weights_scale", .f = 2.5f},
                  {.key = "expert_group_count", .u = 8}, {.key = "expert_group_used_count", .u = 4})},
};
/* clang-format on */

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *rp_synth_preset_name(int i) { return i >= 0 && i < N_PRESETS ? presets[i].name : NULL; }
const char *rp_synth_preset_help(int i) { return i >= 0 && i < N_PRESETS ? presets[i].help : NULL; }

RpStatus rp_preset_find(const char *name, const Preset **out) {
    char   known[1024] = "";
    size_t n           = 0;
    for (int i = 0; i < N_PRESETS; i++) {
        *out = &presets[i];
        if (strcmp(presets[i].name, name) == 0) return RP_OK;
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", presets[i].name);
    }
    *out = NULL;
    return rp_fail(RP_E_ARG, "there is no preset '%.32s' (there are %s)", name, known);
}

float rp_preset_rope_base(const Preset *p) {
    const double d = p->head_dim;
    if (p->ntk_alpha <= 0.0f) return p->rope_base;
    return (float)((double)p->rope_base * pow((double)p->ntk_alpha, d / (d - 2.0)));
}
