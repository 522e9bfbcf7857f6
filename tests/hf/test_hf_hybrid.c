/* config.json of families with recurrent layers, and of Gemma: what is refused, and what absent keys mean. The
 * directories are golden ones (tests/golden/hf) with one text of a file replaced. */
#include "tests/support/hf_folder.h"

static const char layers[] = "\"layer_types\"", blocks[] = "\"layers_block_type\"";

/* The values are those of the configuration classes of transformers 5.24.0 without arguments. */
Test(hf_hybrid, defaults_of_absent_keys) {
    hf_expect("hf/gemma", "\"head_dim\"", "\"x\"", "gemma.attention.key_length", 256);
    hf_expect("hf/gemma", "\"max_position_embeddings\"", "\"x\"", "gemma.context_length", 8192);
    hf_expect("hf/gemma2", "\"head_dim\"", "\"x\"", "gemma2.attention.key_length", 256);
    hf_expect("hf/gemma2", "\"sliding_window\"", "\"x\"", "gemma2.attention.sliding_window", 4096);
    hf_expect("hf/gemma2", "\"attn_logit_softcapping\"", "\"x\"", "gemma2.attn_logit_softcapping", 50);
    hf_expect("hf/gemma2", "\"final_logit_softcapping\"", "\"x\"", "gemma2.final_logit_softcapping", 30);
    hf_expect("hf/gemma2", "\"query_pre_attn_scalar\"", "\"x\"", "gemma2.attention.scale", 0.0625);
    hf_expect("hf/gemma2", layers, "\"x\"", "gemma2.attention.sliding_window_pattern", 1);
    hf_expect("hf/gemma4", "\"sliding_window\"", "\"x\"", "gemma4.attention.sliding_window", 512);
    hf_expect("hf/gemma4", "\"hidden_size_per_layer_input\"", "\"x\"", "gemma4.embedding_length_per_layer_input", 256);
    hf_expect("hf/gemma4", "\"per_layer_config\"", "\"x\"", "gemma4.attention.key_length", 512);
    hf_expect("hf/lfm2", "\"norm_eps\"", "\"x\"", "lfm2.attention.layer_norm_rms_epsilon", 1e-5);
    hf_expect("hf/lfm2", "\"rope_theta\"", "\"x\"", "lfm2.rope.freq_base", 1e6);
    hf_expect("hf/lfm2", "\"conv_L_cache\"", "\"x\"", "lfm2.shortconv.l_cache", 3);
    hf_expect("hf/lfm2", "\"block_auto_adjust_ff_dim\"", "\"x\"", "lfm2.feed_forward_length", 256);
    hf_expect("hf/lfm2-moe", "\"num_dense_layers\"", "\"x\"", "lfm2moe.leading_dense_block_count", 2);
    hf_expect("hf/granitehybrid", "\"mamba_d_state\"", "\"x\"", "granitehybrid.ssm.state_size", 256);
    hf_expect("hf/granitehybrid", "\"mamba_d_conv\"", "\"x\"", "granitehybrid.ssm.conv_kernel", 4);
    hf_expect("hf/nemotron_h", "\"ssm_state_size\"", "\"x\"", "nemotron_h.ssm.state_size", 128);
    hf_expect("hf/nemotron_h", "\"layer_norm_epsilon\"", "\"x\"", "nemotron_h.attention.layer_norm_rms_epsilon", 1e-5);
    hf_expect("hf/falcon_h1", "\"rms_norm_eps\"", "\"x\"", "falcon-h1.attention.layer_norm_rms_epsilon", 1e-5);
    hf_expect("hf/falcon_h1", "\"mamba_d_state\"", "\"x\"", "falcon-h1.ssm.state_size", 256);
}

/* Older spellings of the same. */
Test(hf_hybrid, other_names_of_keys) {
    hf_expect("hf/gemma", "\"gelu_pytorch_tanh\"", "\"gelu\"", "gemma.attention.head_count", 4);
    hf_expect("hf/lfm2-moe", layers, "\"full_attn_idxs\": [1], \"x\"", "lfm2moe.attention.head_count_kv", 0);
    hf_expect("hf/lfm2-moe", layers, "\"full_attn_idxs\": [0], \"x\"", "lfm2moe.attention.head_count_kv", 2);
    hf_expect("hf/lfm2", "\"intermediate_size\"", "\"block_ff_dim\": 80, \"x\"", "lfm2.feed_forward_length", 80);
    hf_expect("hf/nemotron_h", blocks, "\"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"*-M-\", \"x\"",
              "nemotron_h.attention.head_count_kv", 2);
    hf_expect("hf/nemotron_h", blocks, "\"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"-*M-\", \"x\"",
              "nemotron_h.feed_forward_length", 48);
    hf_expect("hf/nemotron_h", "\"num_nextn_predict_layers\": 0", "\"num_nextn_predict_layers\": 1",
              "nemotron_h.block_count", 4);
    hf_expect("hf/nemotron_h", "{\n      \"__float__\": \"Infinity\"\n    }", "Infinity", "nemotron_h.block_count", 4);
    for (int i = 0; i < 2; i++)
        hf_expect("hf/granitehybrid", "\"position_embedding_type\": null",
                  i == 0 ? "\"position_embedding_type\": \"nope\"" : "\"position_embedding_type\": \"rope\"",
                  "granitehybrid.rope.scaling.finetuned", i);
    hf_expect("hf/gemma4", "\"per_layer_config\"", "\"global_head_dim\": 32, \"x\"", "gemma4.attention.key_length", 32);
}

/* Published files have these keys in place of per_layer_config. Shapes of other heads would be refused. */
Test(hf_hybrid, heads_of_layers_without_a_window) {
    hf_begin();
    hf_copy_weights("hf/gemma4-moe");
    hf_change("hf/gemma4-moe", "config.json", "\"per_layer_config\"",
              "\"global_head_dim\": 16, \"num_global_key_value_heads\": 1, \"x\"");
    OK(hf_open());
    hf_end();
}

Test(hf_hybrid, kinds_of_layers) {
    static const char lfm2[] = "hf/lfm2", nemotron[] = "hf/nemotron_h";
    hf_refuse_config(lfm2, layers, "\"x\"", RP_E_FORMAT, "layer_types is missing");
    hf_refuse_config("hf/lfm2-moe", layers, "\"full_attn_idxs\": [3], \"x\"", RP_E_FORMAT,
                     "full_attn_idxs has an element that is no layer");
    hf_refuse_config(lfm2, layers, "\"layer_types\": [\"conv\"], \"x\"", RP_E_FORMAT,
                     "layer_types does not have the kinds of 3 layers");
    hf_refuse_config(lfm2, layers, "\"layer_types\": 3, \"x\"", RP_E_FORMAT,
                     "layer_types does not have the kinds of 3 layers");
    hf_refuse_config(lfm2, "\"conv\"", "\"window\"", RP_E_UNSUPPORTED,
                     "layer_types: a layer of an unknown kind is not supported");
    hf_refuse_config(lfm2, "\"conv\"", "\"moe\"", RP_E_UNSUPPORTED,
                     "layer_types: a layer of a kind that the family lacks is not supported");
    hf_refuse_config(lfm2, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4097", RP_E_FORMAT,
                     "num_hidden_layers is 4097");
    hf_refuse_config(nemotron, "\"mlp\"", "\"moe\"", RP_E_UNSUPPORTED,
                     "layers_block_type: a layer of a kind that the family lacks is not supported");
    hf_refuse_config(nemotron, blocks, "\"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"M-*\", \"x\"",
                     RP_E_FORMAT, "hybrid_override_pattern does not have the kinds of 4 layers");
    hf_refuse_config("hf/granitehybrid", "\"linear_attention\"", "\"mlp\"", RP_E_UNSUPPORTED,
                     "layer_types: a layer of a kind that the family lacks is not supported");
}

Test(hf_hybrid, values_of_recurrent_layers) {
    static const char granite[] = "hf/granitehybrid", falcon[] = "hf/falcon_h1";
    hf_refuse_config("hf/lfm2", "\"conv_bias\": false", "\"conv_bias\": true", RP_E_UNSUPPORTED,
                     "conv_bias: a bias of convolutions is not supported");
    hf_refuse_config("hf/lfm2-adjusted", "\"block_ffn_dim_multiplier\": 1.2", "\"block_ffn_dim_multiplier\": -1",
                     RP_E_FORMAT, "block_ffn_dim_multiplier is -1");
    hf_refuse_config("hf/lfm2-moe", "\"use_expert_bias\": true", "\"use_expert_bias\": false", RP_E_UNSUPPORTED,
                     "use_expert_bias: a choice of experts without a bias is not supported");
    hf_refuse_config("hf/lfm2-moe", "\"tie_word_embeddings\": false", "\"tie_embedding\": 0", RP_E_FORMAT,
                     "tie_embedding is neither true nor false");
    hf_refuse_config("hf/lfm2", "\"tie_word_embeddings\": true", "\"tie_embedding\": false", RP_E_FORMAT,
                     "tensor lm_head.weight is missing, and tie_embedding is false");
    hf_refuse_config(granite, "\"position_embedding_type\": null", "\"position_embedding_type\": \"alibi\"",
                     RP_E_UNSUPPORTED, "position_embedding_type: another value is not supported");
    hf_refuse_config(granite, "\"mamba_d_head\": 8", "\"mamba_d_head\": 16", RP_E_FORMAT,
                     "a selective scan of 64 channels in 8 heads of 16");
    hf_refuse_config(granite, "\"mamba_n_groups\": 2", "\"mamba_n_groups\": 3", RP_E_FORMAT,
                     "mamba.norm.weight (blk.0.ssm_norm.weight): its shape is not that of config.json");
    hf_refuse_config(granite, "\"mamba_proj_bias\": false", "\"mamba_proj_bias\": true", RP_E_UNSUPPORTED,
                     "mamba_proj_bias: a bias of the projections of a scan is not supported");
    hf_refuse_config(granite, "\"time_step_limit\"", "\"time_step_limit\": [0.001, 0.1], \"x\"", RP_E_UNSUPPORTED,
                     "time_step_limit: a limit of time steps is not supported");
    hf_refuse_config("hf/nemotron_h", "\"mlp_hidden_act\": \"relu2\"", "\"mlp_hidden_act\": \"silu\"", RP_E_UNSUPPORTED,
                     "mlp_hidden_act 'silu' is not supported (nemotron_h computes relu2)");
    hf_refuse_config("hf/nemotron_h", "\"use_bias\": false", "\"use_bias\": true", RP_E_UNSUPPORTED,
                     "use_bias: a bias of projections is not supported");
    hf_refuse_config("hf/falcon_h1-norm", "\"mamba_norm_before_gate\": false", "\"mamba_norm_before_gate\": true",
                     RP_E_UNSUPPORTED, "mamba_norm_before_gate: a norm before the gate of a scan is not supported");
    hf_refuse_config(falcon, "\"mlp_multipliers\"", "\"mlp_multipliers\": [1, 2, 3], \"x\"", RP_E_FORMAT,
                     "mlp_multipliers is not a list of 2 numbers");
    hf_refuse_config(falcon, "\"ssm_multipliers\"", "\"ssm_multipliers\": [1, 2, 3, 4, 1e9], \"x\"", RP_E_FORMAT,
                     "ssm_multipliers has an element that is no number from -1e6 to 1e6");
    hf_refuse_config(falcon, "\"lm_head_multiplier\": 0.25", "\"lm_head_multiplier\": 0", RP_E_FORMAT,
                     "lm_head_multiplier is 0");
    hf_refuse_config("hf/falcon_h1-norm", "\"key_multiplier\": 0.5", "\"key_multiplier\": 1e6", RP_E_FORMAT,
                     "tensor blk.0.attn_k.weight: a product with its multiplier is beyond the numbers of its type");
}

Test(hf_hybrid, values_of_gemma) {
    static const char g4[] = "hf/gemma4";
    hf_refuse_config("hf/gemma", "\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": true",
                     RP_E_UNSUPPORTED, "use_bidirectional_attention: attention to later tokens is not supported");
    hf_refuse_config("hf/gemma", "\"gelu_pytorch_tanh\"", "\"relu\"", RP_E_UNSUPPORTED,
                     "hidden_act 'relu' is not supported (gemma computes gelu_pytorch_tanh)");
    hf_refuse_config("hf/gemma2", "\"query_pre_attn_scalar\": 12", "\"query_pre_attn_scalar\": 0", RP_E_FORMAT,
                     "query_pre_attn_scalar is 0");
    hf_refuse_config(g4, "\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": \"all\"",
                     RP_E_UNSUPPORTED, "use_bidirectional_attention: another value is not supported");
    hf_refuse_config(g4, "\"rope_parameters\"", "\"x\"", RP_E_FORMAT,
                     "rope_parameters of both kinds of layers are missing");
    hf_refuse_config(g4, "\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 2", RP_E_FORMAT,
                     "partial_rotary_factor is 2");
    hf_refuse_config(g4, "\"partial_rotary_factor\": 0.25", "\"factor\": 2", RP_E_UNSUPPORTED,
                     "factor: proportional RoPE with a factor is not supported");
    hf_refuse_config(g4, "\"rope_theta\": 10000.0", "\"partial_rotary_factor\": 0.5, \"rope_theta\": 10000.0",
                     RP_E_UNSUPPORTED,
                     "partial_rotary_factor: RoPE of a part of a head in layers with a window is not supported");
    hf_refuse_config(g4, "\"head_dim\": 16", "\"head_dim\": 24", RP_E_UNSUPPORTED,
                     "per_layer_config: layers of one kind with heads of several sizes is not supported");
    hf_refuse_config(g4, "\"head_dim\": 8", "\"head_dim\": 0", RP_E_FORMAT,
                     "head_dim is 0, must be a whole number from 1 to 65536");
    hf_refuse_config(
        "hf/llama", "\"rope_type\": \"default\"", "\"rope_type\": \"proportional\"", RP_E_UNSUPPORTED,
        "rope_type 'proportional' is not supported (there are default, dynamic, linear, llama3, yarn, longrope "
        "of Phi3, and proportional of Gemma4)");
}

Test(hf_hybrid, what_assistants_do_not_have_is_refused) {
    static const char a[] = "hf/gemma4-assistant";
    hf_refuse_config(a, "\"backbone_hidden_size\": 32", "\"backbone_hidden_size\": 0.5", RP_E_FORMAT,
                     "backbone_hidden_size is 0.5, must be a whole number from 1 to 65536");
    hf_refuse_config(a, "\"backbone_hidden_size\": 32,", "", RP_E_FORMAT, "backbone_hidden_size is missing");
    hf_refuse_config(a, "\"hidden_size_per_layer_input\": 0", "\"hidden_size_per_layer_input\": 8", RP_E_UNSUPPORTED,
                     "hidden_size_per_layer_input: another value is not supported");
    hf_refuse_config(a, "\"enable_moe_block\": false", "\"enable_moe_block\": true", RP_E_UNSUPPORTED,
                     "enable_moe_block: an assistant with it is not supported");
    hf_refuse_config(a, "\"use_double_wide_mlp\": false", "\"use_double_wide_mlp\": true", RP_E_UNSUPPORTED,
                     "use_double_wide_mlp: an assistant with it is not supported");
}

Test(hf_hybrid, what_families_that_are_not_supported_need) {
    hf_refuse_config("hf/gemma", "GemmaForCausalLM", "Gemma3nForConditionalGeneration", RP_E_UNSUPPORTED,
                     "architecture 'Gemma3nForConditionalGeneration' is not supported: it needs AltUp, LAuReL, and "
                     "activations that are cut by their mean and deviation");
    hf_refuse_config("hf/gemma", "GemmaForCausalLM", "Mamba2ForCausalLM", RP_E_UNSUPPORTED,
                     "architecture 'Mamba2ForCausalLM' is not supported: it needs a graph without attention");
    hf_refuse_config("hf/gemma", "GemmaForCausalLM", "MambaForCausalLM", RP_E_UNSUPPORTED,
                     "architecture 'MambaForCausalLM' is not supported: it needs the selective scan of Mamba-1");
    hf_refuse_config(
        "hf/gemma", "GemmaForCausalLM", "Gemma9ForCausalLM", RP_E_UNSUPPORTED,
        "config.json: architecture 'Gemma9ForCausalLM' is not supported (docs/models.md lists those that are)");
}

/* reprise.not_read; NULL: there is none. */
static void expect_not_read(const char *dir, const char *from, const char *to, const char *want) {
    RpGgufFile  *f;
    RpGgufString got = {"", 0};
    hf_begin();
    hf_change(dir, "config.json", from, to);
    hf_copy_weights(dir);
    OK(rp_gguf_open(folder, &f));
    cr_expect_eq(rp_gguf_find(f, "reprise.not_read") != NULL, want != NULL, "%s, %s", dir, to);
    OK(rp_gguf_get_string(f, "reprise.not_read", &got));
    if (want != NULL)
        cr_expect(got.len == strlen(want) && memcmp(got.ptr, want, got.len) == 0, "%.*s", (int)got.len, got.ptr);
    rp_gguf_close(f);
    hf_end();
}

Test(hf_hybrid, what_is_not_read) {
    static const char from[] = "\"model_type\"";
    expect_not_read("hf/gemma4", NULL, NULL, NULL);
    expect_not_read("hf/gemma4", from, "\"vision_config\": null, \"model_type\"", NULL);
    expect_not_read("hf/gemma4", from, "\"vision_config\": {}, \"model_type\"", "images");
    expect_not_read("hf/gemma4", from, "\"vision_config\": {}, \"audio_config\": {}, \"model_type\"", "images, sound");
    expect_not_read("hf/qwen3_5", from, "\"vision_config\": {}, \"mtp_num_hidden_layers\": 1, \"model_type\"",
                    "images");
    expect_not_read("hf/nemotron_h", "\"num_nextn_predict_layers\": 0", "\"num_nextn_predict_layers\": 2",
                    "layers that predict further tokens");
}

/* Gate and up are halves of one tensor. Its rows follow one another in the file. Copies would have the norm that is
 * between these names between them. */
Test(hf_hybrid, parts_that_are_whole_rows_are_not_copied) {
    RpGgufFile *f;
    OK(rp_gguf_open(GOLDEN_DIR "hf/granitehybrid", &f));
    const RpGgufTensor *gate = rp_gguf_find_tensor(f, "blk.0.ffn_gate.weight");
    const RpGgufTensor *up   = rp_gguf_find_tensor(f, "blk.0.ffn_up.weight");
    cr_assert(gate != NULL && up != NULL);
    cr_expect_eq((char *)up->view.data, (char *)gate->view.data + gate->bytes);
    cr_expect_eq(gate->bytes, 32 * 40 * 2);
    rp_gguf_close(f);
}
