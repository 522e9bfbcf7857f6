/* Directories whose files say what the library would compute otherwise than transformers: each is refused with a
 * text that names file and key or tensor, or is read as transformers reads it. The directories are golden ones
 * (tests/golden/hf) with one text of a file replaced, or hold a few tensors of zeros. */
#include "tests/support/hf_folder.h"

/* ---- weights ---- */

static void write_weights(const char *header, size_t data) {
    const uint64_t n = strlen(header);
    char          *p = calloc(1, 8 + n + data);
    cr_assert_not_null(p);
    memcpy(p, &n, 8);
    memcpy(p + 8, header, n);
    hf_write("model.safetensors", p, 8 + n + data);
    free(p);
}

#define TIED  "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"
#define LAYER "model.layers.0."
#define TENSOR(name, dtype, shape, offsets)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* norm_plus_1 adds 1 to floats. */
Test(hf_refused, norms_that_are_no_vectors_of_floats) {
    hf_begin();
    hf_change("hf/gemma3", "config.json", NULL, NULL);
    write_weights("{" TENSOR(LAYER "input_layernorm.weight", "F8_E4M3", "[4096]", "[0,4096]") "}", 4096);
    REFUSED(hf_open(), RP_E_FORMAT, "input_layernorm.weight (blk.0.attn_norm.weight): a vector in F8_E4M3");
    write_weights("{" TENSOR(LAYER "input_layernorm.weight", "BF16", "[2,32]", "[0,128]") "}", 128);
    REFUSED(hf_open(), RP_E_FORMAT, "input_layernorm.weight (blk.0.attn_norm.weight): a norm that is no vector");
    hf_end();
}

/* The undefined-behaviour sanitizer sees reads of f16 at odd addresses. */
Test(hf_refused, vectors_and_scales_at_odd_addresses) {
    static const char *const types[] = {"BF16", "F16"};
    char                     header[1024];
    RpGgufFile              *f;
    hf_begin();
    hf_change("hf/llama", "config.json", TIED);
    for (int i = 0; i < 4; i++) {
        const char *type = types[i / 2];
        const int   n    = snprintf(
                 header, sizeof header,
                 "{\"" LAYER
                 "input_layernorm.weight\":{\"dtype\":\"%s\",\"shape\":[1500],\"data_offsets\":[0,3000]},\"" LAYER
                 "self_attn.q_proj.weight_scale\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[3000,3002]}," TENSOR(
                     LAYER "self_attn.q_proj.weight", "F8_E4M3", "[4,8]", "[3002,3034]") "}%s",
                 type, type, i % 2 == 0 ? "" : " ");
        write_weights(header, 3034);
        OK(rp_gguf_open(folder, &f));
        const RpGgufTensor *norm = rp_gguf_find_tensor(f, "blk.0.attn_norm.weight");
        cr_assert_not_null(norm, "%s, %d bytes", type, n);
        cr_expect_eq(norm->view.dtype, RP_F32, "%s", type);
        cr_expect_eq(norm->view.ne[0], 1500, "%s", type);
        for (int k = 0; k < 1500; k++)
            cr_assert_eq(((const float *)norm->view.data)[k], 0.0f, "%s, %d bytes, element %d", type, n, k);
        rp_gguf_close(f);
    }
    hf_end();
}

Test(hf_refused, scales_of_fp8) {
#define Q_SCALE "\"" LAYER "self_attn.q_proj.weight_scale_inv\""
    static const struct {
        const char *from, *to, *text;
        RpStatus    status;
    } cases[] = {
        {Q_SCALE,                                "\"" LAYER "self_attn.q_proj.weight_scale_xxx\"",
         "q_proj.weight (blk.0.attn_q.weight): its scales are missing, and quantization_config says fp8",                                    RP_E_FORMAT     },
        {Q_SCALE,                                "\"" LAYER "self_attn.k_proj.weight_scale\"",     "its weight has two tensors of scales",   RP_E_FORMAT     },
        {Q_SCALE,                                "\"" LAYER "input_layernorm.weight_scale\"",      "scales of a weight that is not F8_E4M3", RP_E_FORMAT     },
        {"\"" LAYER "self_attn.q_proj.weight\"", "\"" LAYER "self_attn.q_projxweight\"",
         "scales of a weight that is missing",                                                                                               RP_E_FORMAT     },
        {Q_SCALE,                                "\"blk.0.attn_q.weight#scale\"",
         "tensor blk.0.attn_q.weight#scale: names that begin with train. or contain #",                                                      RP_E_UNSUPPORTED},
    };
    char to[128];
    hf_begin();
    hf_change("hf/llama-fp8", "config.json", NULL, NULL);
    hf_change("hf/llama-fp8", "model.safetensors", NULL, NULL);
    OK(hf_open());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(to, sizeof to, "%-*s", (int)strlen(cases[i].from), cases[i].to); /* the header keeps its length */
        hf_change("hf/llama-fp8", "model.safetensors", cases[i].from, to);
        REFUSED(hf_open(), cases[i].status, cases[i].text);
    }
    hf_end();
}

/* Without weight_block_size there is one scale, or one for each row; 4 scales in a square, or
 * in a row that could be one for each column, are neither. */
Test(hf_refused, shapes_of_scales) {
    static const struct {
        const char *shape, *refused; /* NULL: good */
    } cases[] = {
        {"[2,2]",   "scales " LAYER "self_attn.q_proj.weight_scale are [2,2] for a weight of [8,4]"},
        {"[1,4]",   "scales " LAYER "self_attn.q_proj.weight_scale are [4,1] for a weight of [8,4]"},
        {"[4,1,1]", "scales " LAYER "self_attn.q_proj.weight_scale are [1,1] for a weight of [8,4]"},
        {"[4]",     NULL                                                                           },
        {"[4,1]",   NULL                                                                           },
    };
    static const char format[] = "{" TENSOR(LAYER "self_attn.q_proj.weight", "F8_E4M3", "[4,8]", "[0,32]") "," TENSOR(
        LAYER "self_attn.q_proj.weight_scale", "F32", "%s", "[32,48]") "}";
    char        header[1024];
    RpGgufFile *f;
    hf_begin();
    hf_change("hf/llama", "config.json", TIED);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(header, sizeof header, format, cases[i].shape);
        write_weights(header, 48);
        const RpStatus st = rp_gguf_open(folder, &f);
        cr_assert_eq(st, cases[i].refused == NULL ? RP_OK : RP_E_SHAPE, "%s: %s", cases[i].shape, rp_last_error());
        if (cases[i].refused != NULL)
            cr_assert_not_null(strstr(rp_last_error(), cases[i].refused), "%s: %s", cases[i].shape, rp_last_error());
        rp_gguf_close(cases[i].refused == NULL ? f : NULL);
    }
    hf_end();
}

/* "train.*" is the state of a training in a file of this project, which a model does not use. */
Test(hf_refused, tensors_of_a_training) {
    static const char from[] = LAYER "input_layernorm.weight";
    hf_begin();
    hf_change("hf/llama", "config.json", NULL, NULL);
    hf_change("hf/llama", "model.safetensors", from, "train.xxxxxx.0.input_layernorm.weight");
    REFUSED(
        hf_open(), RP_E_UNSUPPORTED,
        "tensor train.xxxxxx.0.input_layernorm.weight: names that begin with train. or contain # are not supported");
    cr_assert_eq(strlen(from), strlen("train.xxxxxx.0.input_layernorm.weight"));
    hf_end();
}

/* ---- config.json ---- */

/* The values are those of the configuration classes of transformers 5.24.0 without arguments. */
Test(hf_refused, defaults_of_absent_keys) {
#define EPS ".attention.layer_norm_rms_epsilon"
    hf_expect("hf/smollm3", "\"rope_theta\": 2000000.0,", "", "smollm3.rope.freq_base", 2e6);
    hf_expect("hf/mixtral", "\"rope_theta\"", "\"partial_rotary_factor\": 1, \"x\"", "llama.rope.freq_base", 1e6);
    hf_expect("hf/ernie4_5", "\"rope_theta\"", "\"x\"", "ernie4_5.rope.freq_base", 5e5);
    hf_expect("hf/llama", "\"rope_theta\"", "\"x\"", "llama.rope.freq_base", 1e4);
    hf_expect("hf/olmo3", "\"rope_theta\"", "\"x\"", "olmo2.rope.freq_base", 5e5);
    hf_expect("hf/glm4", "\"partial_rotary_factor\"", "\"x\"", "glm4.rope.dimension_count", 8);
    hf_expect("hf/glm4moe", "\"partial_rotary_factor\"", "\"x\"", "glm4moe.rope.dimension_count", 8);
    hf_expect("hf/llama", "\"rms_norm_eps\"", "\"x\"", "llama" EPS, 1e-6);
    hf_expect("hf/glm4", "\"rms_norm_eps\"", "\"x\"", "glm4" EPS, 1.5625e-7);
    hf_expect("hf/glm4moe", "\"rms_norm_eps\"", "\"x\"", "glm4moe" EPS, 1e-5);
    hf_expect("hf/mixtral", "\"rms_norm_eps\"", "\"x\"", "llama" EPS, 1e-5);
    hf_expect("hf/olmo2", "\"rms_norm_eps\"", "\"x\"", "olmo2" EPS, 1e-5);
    hf_expect("hf/olmo3", "\"rms_norm_eps\"", "\"x\"", "olmo2" EPS, 1e-5);
    hf_expect("hf/olmoe", "\"rms_norm_eps\"", "\"x\"", "olmoe" EPS, 1e-5);
    hf_expect("hf/phi3", "\"rms_norm_eps\"", "\"x\"", "phi3" EPS, 1e-5);
    hf_expect("hf/ernie4_5", "\"rms_norm_eps\"", "\"x\"", "ernie4_5" EPS, 1e-5);
    hf_expect("hf/gemma3", "\"vocab_size\"", "\"x\"", "gemma3.vocab_size", 262208);
    hf_expect("hf/gemma3", "\"max_position_embeddings\"", "\"x\"", "gemma3.context_length", 131072);
    hf_expect("hf/gemma3", "\"head_dim\"", "\"x\"", "gemma3.attention.key_length", 256);
    hf_expect("hf/gemma3", "\"num_attention_heads\"", "\"x\"", "gemma3.attention.head_count", 8);
    hf_expect("hf/gemma3", "\"num_key_value_heads\"", "\"x\"", "gemma3.attention.head_count_kv", 4);
    hf_expect("hf/gemma3", "\"sliding_window\"", "\"x\"", "gemma3.attention.sliding_window", 4096);
    hf_expect("hf/qwen3", "\"head_dim\"", "\"x\"", "qwen3.attention.key_length", 128);
    hf_expect("hf/glm4", "\"head_dim\"", "\"x\"", "glm4.attention.key_length", 128);
    hf_expect("hf/ernie4_5", "\"head_dim\"", "\"x\"", "ernie4_5.attention.key_length", 128);
    hf_expect("hf/llama", "\"num_key_value_heads\"", "\"x\"", "llama.attention.head_count_kv", 4);
    hf_expect("hf/llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": null",
              "llama.attention.head_count_kv", 4);
    hf_expect("hf/minimax-m2", "\"rope_theta\"", "\"x\"", "minimax-m2.rope.freq_base", 5e6);
    hf_expect("hf/minimax-m2", "\"partial_rotary_factor\"", "\"x\"", "minimax-m2.rope.dimension_count", 8);
    hf_expect("hf/ministral3", "\"head_dim\"", "\"x\"", "mistral3.attention.key_length", 128);
    hf_expect("hf/ministral3", "\"rms_norm_eps\"", "\"x\"", "mistral3" EPS, 1e-5);
    hf_expect("hf/ernie4_5-moe", "\"rope_theta\"", "\"x\"", "ernie4_5-moe.rope.freq_base", 5e5);
    hf_expect("hf/ernie4_5-moe", "\"moe_num_shared_experts\"", "\"x\"",
              "ernie4_5-moe.expert_shared_feed_forward_length", 48);
}

/* A model that also sees images names the family of its language model in text_config. */
Test(hf_refused, models_of_mistral_that_see_images) {
    static const char from[] = "\"Ministral3ForCausalLM\"", name[] = "\"Mistral3ForConditionalGeneration\"";
    static const char type[] = "\"model_type\": \"ministral3\"";
    RpGgufFile       *f;
    hf_expect("hf/ministral3", from, name, "mistral3.attention.temperature_scale", 0.5);
    hf_begin();
    hf_change("hf/ministral3", "config.json", from, name);
    hf_copy_weights("hf/ministral3");
    size_t n;
    char  *p = hf_read_golden("hf/ministral3", "config.json", &n), *at = strstr(p, from);
    memmove(at + strlen(name), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, name, strlen(name));
    at = strstr(p, type);
    cr_assert_not_null(at);
    memcpy(at, "\"model_type\":    \"mistral\"", strlen(type));
    hf_write("config.json", p, strlen(p));
    OK(rp_gguf_open(folder, &f));
    cr_expect_null(rp_gguf_find(f, "mistral3.attention.temperature_scale"));
    rp_gguf_close(f);
    memcpy(at, "\"model_type\":    \"mixtral\"", strlen(type));
    hf_write("config.json", p, strlen(p));
    REFUSED(hf_open(), RP_E_UNSUPPORTED,
            "model_type of text_config is not supported in Mistral3ForConditionalGeneration");
    free(p);
    hf_end();
}

/* Weights without norms of q and k, which config.json promises. */
Test(hf_refused, norms_of_q_and_k_that_are_missing) {
    static const char from[] = "model.layers.1.self_attn.k_norm.weight";
    hf_begin();
    hf_change("hf/glm4moe", "config.json", NULL, NULL);
    hf_change("hf/glm4moe", "model.safetensors", from, "model.layers.9.self_attn.k_norm.weight");
    REFUSED(hf_open(), RP_E_FORMAT,
            "tensor model.layers.1.self_attn.k_norm.weight (blk.1.attn_k_norm.weight) is missing, and use_qk_norm of "
            "config.json is true");
    hf_end();
}

Test(hf_refused, layers_with_a_window_of_olmo3) {
    RpGgufFile *f;
    hf_begin();
    hf_change("hf/olmo3", "config.json", "\"layer_types\"", "\"x\"");
    hf_change("hf/olmo3", "model.safetensors", NULL, NULL);
    OK(rp_gguf_open(folder, &f));
    const RpGgufValue *v = rp_gguf_find(f, "olmo2.attention.sliding_window_pattern");
    cr_assert(v != NULL && v->n == 4);
    for (uint64_t i = 0; i < 4; i++) cr_expect_eq(rp_gguf_number_at(v, i) != 0.0, i != 3, "layer %d", (int)i);
    rp_gguf_close(f);
    hf_end();
}

/* RoPE scaling counts from max_position_embeddings, not from the length of the window. */
Test(hf_refused, rope_scaling_of_a_model_with_a_window) {
    hf_expect("hf/mistral", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\", \"factor\": 4.0",
              "llama.rope.scaling.original_context_length", 64);
    hf_expect("hf/phi3-long", "\"long_factor\"", "\"factor\": 1.0, \"long_factor\"", "phi3.rope.scaling.attn_factor",
              1.0);
    hf_expect("hf/llama", "\"rope_parameters\"",
              "\"rope_theta\": 1e5, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"x\"",
              "llama.rope.scaling.factor", 2.0);
}

Test(hf_refused, values_of_config_json) {
    static const char llama[] = "hf/llama", rope[] = "\"rope_parameters\"";
    hf_refuse_config(llama, rope, "\"rope_scaling\": 7, \"x\"", RP_E_FORMAT, "rope_scaling is no object");
    hf_refuse_config(llama, rope, "\"rope_parameters\": [], \"x\"", RP_E_FORMAT, "rope_parameters is no object");
    hf_refuse_config(llama, rope, "\"rope_scaling\": {\"factor\": 2}, \"x\"", RP_E_FORMAT,
                     "rope_type is missing beside factor");
    hf_refuse_config("hf/olmo3", "5000.0,\n      \"rope_type\": \"default\"\n    }\n",
                     "5000.0, \"rope_type\": \"linear\", \"factor\": 2}", RP_E_UNSUPPORTED,
                     "sliding_attention: RoPE scaling of layers with a window is not supported");
    hf_refuse_config("hf/phi3-long", "\"original_max_position_embeddings\"",
                     "\"original_max_position_embeddings\": 5, \"x\"", RP_E_UNSUPPORTED,
                     "original_max_position_embeddings is both 5 and 10");
    hf_refuse_config(llama, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 0", RP_E_FORMAT,
                     "tie_word_embeddings is neither true nor false");
    hf_refuse_config("hf/qwen3moe", "\"norm_topk_prob\": ", "\"norm_topk_prob\": 1, \"x\": ", RP_E_FORMAT,
                     "norm_topk_prob is neither true nor false");
    hf_refuse_config("hf/qwen2", "\"use_sliding_window\": ", "\"use_sliding_window\": \"true\", \"x\": ", RP_E_FORMAT,
                     "use_sliding_window is neither true nor false");
    hf_refuse_config("hf/smollm3", "\"no_rope_layers\"", "\"no_rope_layers\": [true, true, true, false], \"x\"",
                     RP_E_FORMAT, "no_rope_layers is not a list of 4 numbers");
    hf_refuse_config("hf/smollm3", "\"no_rope_layers\"", "\"no_rope_layers\": [1, 1, 1], \"x\"", RP_E_FORMAT,
                     "no_rope_layers is not a list of 4 numbers");
    hf_refuse_config("hf/glm4moe", "\"use_qk_norm\": true", "\"use_qk_norm\": false", RP_E_FORMAT,
                     "a norm of q or k, and use_qk_norm of config.json is not true");
    hf_refuse_config("hf/minimax-m2", "\"model_type\"", "\"scoring_func\": \"softmax\", \"model_type\"",
                     RP_E_UNSUPPORTED, "scoring_func: another value is not supported");
    hf_refuse_config("hf/minimax-m2", "\"model_type\"", "\"qk_norm_type\": \"per_head\", \"model_type\"",
                     RP_E_UNSUPPORTED, "qk_norm_type: another value is not supported");
    hf_refuse_config("hf/minimax-m2", "\"model_type\"", "\"attn_type_list\": [1, 0], \"model_type\"", RP_E_UNSUPPORTED,
                     "attn_type_list: attention of another kind is not supported");
    hf_refuse_config("hf/minimax-m2", "\"head_dim\": 16", "\"head_dim\": 0", RP_E_FORMAT, "head_dim is 0");
    hf_refuse_config("hf/ernie4_5-moe", "\"use_bias\": false", "\"use_bias\": true", RP_E_UNSUPPORTED,
                     "use_bias: a bias of projections is not supported");
    hf_refuse_config("hf/ernie4_5-moe", "\"moe_layer_interval\": 1", "\"moe_layer_interval\": 2", RP_E_UNSUPPORTED,
                     "moe_layer_interval: a model with dense layers between those with experts is not supported");
    hf_refuse_config("hf/ernie4_5-moe", "\"moe_layer_end_index\": 1", "\"moe_layer_end_index\": 0", RP_E_UNSUPPORTED,
                     "moe_layer_end_index: a model with dense layers behind those with experts is not supported");
    hf_refuse_config("hf/ernie4_5-moe", "\"moe_num_shared_experts\": 2", "\"moe_num_shared_experts\": 2000000000",
                     RP_E_FORMAT, "2000000000 shared experts of 24");
    hf_refuse_config("hf/ministral3", "\"rope_parameters\"", "\"x\"", RP_E_FORMAT, "rope_parameters is missing");
    hf_refuse_config("hf/ministral3", "\"rope_type\": \"yarn\"", "\"rope_type\": \"linear\"", RP_E_UNSUPPORTED,
                     "llama_4_scaling_beta: a scale that grows with the position without YaRN is not supported");
    hf_refuse_config("hf/llama-yarn", "\"beta_fast\": 3.0", "\"beta_fast\": -1", RP_E_FORMAT,
                     "YaRN between -1 and 0.5 turns is not possible");
    hf_refuse_config("hf/gemma3", "\"hidden_activation\"",
                     "\"hidden_act\": \"gelu_pytorch_tanh\", \"hidden_activation\": \"relu\", \"x\"", RP_E_UNSUPPORTED,
                     "hidden_activation 'relu' is not supported (gemma3 computes gelu_pytorch_tanh)");
}

/* Families whose tensors are made of parts of those of the file. */
Test(hf_refused, values_that_parts_of_tensors_depend_on) {
    static const char lite[] = "hf/deepseek2-lite", v3[] = "hf/deepseek3", oss[] = "hf/gpt-oss",
                      next[] = "hf/qwen3next", glm[] = "hf/glm4-lite", mlp[] = "\"mlp_layer_types\"";
    static const char qwen[] = "hf/qwen3_5", layers[] = "\"layer_types\"", type[] = "\"model_type\"";
    hf_refuse_config(lite, "\"v_head_dim\": 24", "\"v_head_dim\": 16", RP_E_FORMAT,
                     "kv_b_proj.weight (blk.0.attn_k_b.weight): its shape is not that of config.json");
    hf_refuse_config(lite, "\"v_head_dim\": 24", "\"v_head_dim\": 0", RP_E_FORMAT,
                     "v_head_dim is 0, must be from 1 to 65536");
    hf_refuse_config(lite, "\"topk_method\": \"greedy\"", "\"topk_method\": \"group_limited_greedy\"", RP_E_UNSUPPORTED,
                     "topk_method: another value is not supported");
    hf_refuse_config(lite, "\"norm_topk_prob\": false", "\"norm_topk_prob\": true", RP_E_UNSUPPORTED,
                     "norm_topk_prob: weights of experts divided by their sum is not supported");
    hf_refuse_config(v3, "\"rope_interleave\": true", "\"rope_interleave\": false", RP_E_UNSUPPORTED,
                     "rope_interleave: RoPE of pairs (i, i+n/2) in latent attention is not supported");
    hf_refuse_config(v3, "\"mscale\": 0.8", "\"mscale\": 0.7", RP_E_UNSUPPORTED,
                     "mscale: YaRN of latent attention whose mscale is not mscale_all_dim is not supported");
    hf_refuse_config(glm, mlp, "\"mlp_layer_types\": [\"dense\"], \"x\"", RP_E_FORMAT,
                     "mlp_layer_types is not a list of 2 texts");
    hf_refuse_config(glm, mlp, "\"mlp_layer_types\": [\"sparse\", \"dense\"], \"x\"", RP_E_UNSUPPORTED,
                     "mlp_layer_types: a dense layer behind one with experts is not supported");
    hf_refuse_config(glm, mlp, "\"mlp_layer_types\": [\"dense\", \"x\"], \"x\"", RP_E_UNSUPPORTED,
                     "mlp_layer_types: a layer that is neither dense nor sparse is not supported");
    hf_expect(glm, mlp, "\"mlp_layer_types\": [\"dense\", \"dense\"], \"x\"", "deepseek2.leading_dense_block_count", 2);
    hf_expect(glm, mlp, "\"x\"", "deepseek2.leading_dense_block_count", 1);
    hf_refuse_config("hf/llama-linear", "\"linear\"", "\"mrope\"", RP_E_UNSUPPORTED,
                     "rope_type 'mrope' is not supported");
    hf_refuse_config(oss, "\"swiglu_limit\": 7.0", "\"swiglu_limit\": 8", RP_E_UNSUPPORTED,
                     "swiglu_limit: another value is not supported");
    hf_refuse_config(next, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2", RP_E_UNSUPPORTED,
                     "decoder_sparse_step: another value is not supported");
    hf_refuse_config(next, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [1]", RP_E_UNSUPPORTED,
                     "mlp_only_layers: a model with dense layers between those with experts is not supported");
    hf_refuse_config(next, "\"linear_num_key_heads\": 2", "\"linear_num_key_heads\": 4", RP_E_FORMAT,
                     "linear_num_value_heads 6 is no multiple of linear_num_key_heads 4");
    hf_refuse_config(next, "\"linear_num_key_heads\": 2", "\"linear_num_key_heads\": 3", RP_E_FORMAT,
                     "conv1d.weight (blk.0.ssm_conv1d.weight): its shape is not that of config.json");
    hf_refuse_config(qwen, "\"linear_value_head_dim\": 8", "\"linear_value_head_dim\": 16", RP_E_UNSUPPORTED,
                     "linear_value_head_dim: another size than linear_key_head_dim is not supported");
    hf_refuse_config(qwen, layers, "\"layer_types\": [1, 2, 3], \"x\"", RP_E_FORMAT,
                     "layer_types is not a list of 4 texts");
    hf_refuse_config(qwen, layers, "\"layer_types\": [1, 2, 3, 4], \"x\"", RP_E_UNSUPPORTED,
                     "layer_types: a layer that is neither linear_attention nor full_attention is not supported");
    hf_refuse_config(qwen, "\"rope_theta\"", "\"mrope_section\": [11, 11], \"rope_theta\"", RP_E_FORMAT,
                     "mrope_section is not a list of 3 numbers");
    hf_refuse_config(qwen, "\"rope_theta\"", "\"mrope_section\": [-1, 11, 10], \"rope_theta\"", RP_E_FORMAT,
                     "mrope_section has -1");
    hf_refuse_config(qwen, type, "\"quantization_config\": {\"quant_method\": \"awq\"}, \"model_type\"",
                     RP_E_UNSUPPORTED,
                     "quant_method 'awq' is not supported (fp8 and mxfp4 are): take a GGUF file of the model, or its "
                     "weights before this quantisation");
    hf_expect(next, layers, "\"x\"", "qwen3next.attention.recurrent_layers", 1);
    hf_expect(next, "\"partial_rotary_factor\"", "\"x\"", "qwen3next.rope.dimension_count", 4);
    hf_expect(v3, "\"n_group\": 4", "\"n_group\": 2", "deepseek2.expert_group_count", 2);
    hf_expect(lite, "\"q_lora_rank\": null", "\"x\": 0", "deepseek2.attention.q_lora_rank", 1536);
    hf_expect(oss, layers, "\"x\"", "gpt-oss.attention.sliding_window_pattern", 1);
}

Test(hf_refused, scales_of_mxfp4) {
    static const char scales[] = "\"model.layers.0.mlp.experts.down_proj_scales\":{\"dtype\":\"U8\"";
    static const char oss[]    = "hf/gpt-oss-mxfp4";
    char              other[sizeof scales];
    hf_begin();
    hf_change(oss, "config.json", NULL, NULL);
    memcpy(other, scales, sizeof scales);
    memcpy(strstr(other, "down"), "DOWN", 4);
    hf_change(oss, "model.safetensors", scales, other);
    REFUSED(hf_open(), RP_E_FORMAT, "down_proj_blocks (blk.0.ffn_down_exps.weight): its scales are missing");
    memcpy(other, scales, sizeof scales);
    memcpy(strstr(other, "U8"), "I8", 2);
    hf_change(oss, "model.safetensors", scales, other);
    REFUSED(hf_open(), RP_E_FORMAT,
            "down_proj_scales (blk.0.ffn_down_exps.weight#scale): its scales are not a byte for each block");
    hf_end();
}

/* ---- tokenizer.json ---- */

/* The tokenizer of a golden directory with a text of tokenizer.json replaced. */
static RpStatus open_tokenizer(const char *dir, const char *from, const char *to, RpTokenizer **out) {
    RpGgufFile *f;
    hf_change(dir, "config.json", NULL, NULL);
    hf_copy_weights(dir);
    hf_change(dir, "tokenizer.json", from, to);
    *out              = NULL;
    const RpStatus st = rp_gguf_open(folder, &f);
    if (st != RP_OK) return st;
    const RpStatus made = rp_tokenizer_new(f, out);
    rp_gguf_close(f);
    return made;
}

static void refuse_tokenizer(const char *dir, const char *from, const char *to, const char *text) {
    RpTokenizer *tk;
    hf_begin();
    REFUSED(open_tokenizer(dir, from, to, &tk), RP_E_UNSUPPORTED, text);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

Test(hf_refused, tokenizers) {
    static const char llama2[] = "hf_tokenizers/llama2", words[] = "hf_tokenizers/words-never";
    refuse_tokenizer(llama2, "\"normalized\":false", "\"normalized\":true",
                     "normalized of an added token that the normalizer changes '<unk>' is not supported");
    refuse_tokenizer(llama2, "\"byte_fallback\":true", "\"byte_fallback\":false",
                     "byte_fallback: a BPE model with U+2581 for spaces needs a token for each of 256 bytes, not 0");
    refuse_tokenizer(llama2, "\"<0x41>\":", "\"<0x4x>\":", "for each of 256 bytes, not 255");
    refuse_tokenizer(words, "\"normalizer\":null", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}",
                     "Prepend beside 'Metaspace' is not supported");
    refuse_tokenizer("hf_tokenizers/gpt2", "\"normalizer\":null",
                     "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}",
                     "Prepend beside 'ByteLevel' is not supported");
}

/* A piece as long as the text would make the search cubic. */
Test(hf_refused, long_pieces_of_a_unigram_model) {
    char to[512], letters[258];
    memset(letters, 'q', sizeof letters);
    for (int n = 256; n <= 257; n++) {
        RpTokenizer *tk;
        hf_begin();
        snprintf(to, sizeof to, "[\"%.*s\",", n, letters);
        const RpStatus st = open_tokenizer("hf_tokenizers/unigram", "[\"\u2581breath\",", to, &tk);
        cr_expect_eq(st, n == 256 ? RP_OK : RP_E_UNSUPPORTED, "%d bytes: %s", n, rp_last_error());
        if (n == 257)
            cr_expect_not_null(
                strstr(rp_last_error(), "piece 300 of a unigram model has 257 bytes (at most 256 are supported)"), "%s",
                rp_last_error());
        rp_tokenizer_free(tk);
        hf_end();
    }
}

/* Gemma 3 1B lists a token for images that its embedding does not have. */
Test(hf_refused, special_tokens_behind_the_vocabulary_are_left_out) {
    RpTokenizer *tk;
    hf_begin();
    OK(open_tokenizer(
        "hf_tokenizers/llama2", "\"added_tokens\":[",
        "\"added_tokens\":[{\"id\":99999,\"content\":\"<image_soft_token>\",\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true},",
        &tk));
    cr_expect_lt(rp_tokenizer_find(tk, "<image_soft_token>"), 0);
    cr_expect_geq(rp_tokenizer_find(tk, "<|im_end|>"), 0);
    rp_tokenizer_free(tk);
    hf_end();
}
