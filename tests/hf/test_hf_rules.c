/* Each rule for a Hugging Face directory, violated alone, with the text of its refusal: a golden directory
 * (tests/golden/hf, hf_tokenizers) with one text of a file replaced. */
#include "tests/support/hf_folder.h"

#include "model/hf/fp8.h"

static void refuse_file(const char *dir, const char *name, const char *from, const char *to, RpStatus status,
                        const char *text) {
    static const char *const names[] = {"config.json", "tokenizer.json"};
    char                     path[512];
    hf_begin();
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, GOLDEN_DIR "%s/%s", dir, names[i]);
        if (access(path, R_OK) == 0) hf_copy(dir, names[i]);
    }
    hf_copy_weights(dir);
    hf_change(dir, name, from, to);
    REFUSED(hf_open(), status, text);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

static void unsupported(const char *dir, const char *from, const char *to, const char *text) {
    refuse_file(dir, "config.json", from, to, RP_E_UNSUPPORTED, text);
}

static void bad(const char *dir, const char *from, const char *to, const char *text) {
    refuse_file(dir, "config.json", from, to, RP_E_FORMAT, text);
}

/* ---- config.json ---- */

Test(hf_rules, layers_and_heads) {
    bad("hf/gemma3", "\"num_hidden_layers\": 6", "\"num_hidden_layers\": 5000", "num_hidden_layers is 5000");
    bad("hf/gemma3", "\"layer_types\": [", "\"layer_types\": [ \"full_attention\",",
        "layer_types is not a list of 6 texts");
    unsupported("hf/gemma3", "\"sliding_attention\",", "\"chunked_attention\",",
                "layer_types: a layer that is neither sliding_attention nor full_attention is not supported");
    unsupported("hf/exaone4", "\"LLLG\"", "\"LLXG\"",
                "sliding_window_pattern: a layer that is neither L nor G is not supported");
    bad("hf/hunyuan", "\"alpha\": 8.0", "\"alpha\": 0.5", "alpha is 0.5 for heads of 16");
    unsupported("hf/hunyuan", "\"model_type\"", "\"use_cla\": true, \"model_type\"",
                "use_cla: keys and values of another layer is not supported");
    unsupported("hf/hunyuan-moe", "\"model_type\"", "\"use_mla\": true, \"model_type\"",
                "use_mla: latent attention is not supported");
    unsupported("hf/ling", "\"use_qk_norm\": true", "\"use_qk_norm\": false",
                "use_qk_norm: a model without norms of q and k is not supported");
    bad("hf/glm4", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5", "partial_rotary_factor is 1.5");
}

Test(hf_rules, what_families_do_not_compute) {
    unsupported("hf/qwen3moe", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2",
                "decoder_sparse_step: a model with dense layers between those with experts is not supported");
    unsupported("hf/qwen3moe", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [0]",
                "mlp_only_layers: a model with dense layers between those with experts is not supported");
    unsupported("hf/olmoe", "\"clip_qkv\": null", "\"clip_qkv\": 8.0",
                "clip_qkv: clamping of q, k and v is not supported");
    unsupported("hf/smollm3", "\"no_rope_layer_interval\": 4,\n  \"no_rope_layers\"",
                "\"no_rope_layer_interval\": 3, \"x\"",
                "no_rope_layer_interval: another interval than 4 is not supported");
    unsupported("hf/smollm3", "\"no_rope_layers\": [\n    1", "\"no_rope_layers\": [\n    0",
                "no_rope_layers: another pattern than each fourth layer is not supported");
    unsupported("hf/gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 30.0",
                "attn_logit_softcapping: a soft cap of scores is not supported");
    unsupported("hf/gemma3", "\"use_bidirectional_attention\": false", "\"use_bidirectional_attention\": true",
                "use_bidirectional_attention: attention to later tokens is not supported");
    bad("hf/gemma3", "\"query_pre_attn_scalar\": 12", "\"query_pre_attn_scalar\": 0", "query_pre_attn_scalar is 0");
    unsupported("hf/afmoe", "\"mup_enabled\": true", "\"mup_enabled\": false",
                "mup_enabled: embeddings that are not scaled is not supported");
    unsupported("hf/cohere", "\"use_qk_norm\": false", "\"use_qk_norm\": true",
                "use_qk_norm: norms of queries and keys is not supported");
    unsupported("hf/stablelm", "\"use_parallel_residual\": false", "\"use_parallel_residual\": true",
                "use_parallel_residual: a feed-forward beside attention is not supported");
    unsupported("hf/mellum", "\"mlp_layer_types\": [\n    \"sparse\"", "\"mlp_layer_types\": [\n    \"dense\"",
                "mlp_layer_types: a model with dense layers between those with experts is not supported");
    unsupported("hf/glm4moe", "\"n_group\": 1", "\"n_group\": 2",
                "n_group: a choice by groups of experts is not supported");
}

Test(hf_rules, rope_scaling) {
    bad("hf/llama-llama3", "\"factor\": 4.0", "\"factor\": 0.5",
        "rope scaling llama3 by 0.5 between 1 and 4 is not possible");
    bad("hf/llama-linear", "\"factor\": 4.0", "\"factor\": 0.5",
        "rope scaling by 0.5 from a context of 64 is not possible");
    bad("hf/phi3-long", "2.0,", "-2.0,", "long_factor has an element that is no positive number");
    unsupported("hf/olmo3", "\"rope_theta\": 5000.0", "\"rope_theta\": 5000.0, \"partial_rotary_factor\": 0.5",
                "partial_rotary_factor: another value for layers with a window is not supported");
}

/* ---- weights ---- */

/* Tensors of zeros. */
static void refuse_tensor(const char *dir, const char *header, size_t data, const char *text) {
    const uint64_t n = strlen(header);
    char          *p = calloc(1, 8 + n + data);
    cr_assert_not_null(p);
    memcpy(p, &n, 8);
    memcpy(p + 8, header, n);
    hf_begin();
    hf_copy(dir, "config.json");
    hf_write("model.safetensors", p, 8 + n + data);
    REFUSED(hf_open(), RP_E_FORMAT, text);
    hf_end();
    free(p);
}

#define ENTRY(name, dtype, shape, offsets)                                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(hf_rules, tensors) {
    refuse_tensor("hf/qwen3moe",
                  "{" ENTRY("lm_head.weight", "F32", "[1]", "[64,68]") "," ENTRY(
                      "model.layers.0.mlp.experts.0.gate_proj.weight", "F32", "[2,2,4]", "[0,64]") "}",
                  68, "gate_proj.weight (blk.0.ffn_gate_exps.weight): an expert is no matrix");
    refuse_tensor("hf/qwen3moe",
                  "{" ENTRY("lm_head.weight", "F32", "[1]", "[16,20]") "," ENTRY(
                      "model.layers.0.mlp.experts.1.gate_proj.weight", "F32", "[2,2]", "[0,16]") "}",
                  20, "gate_proj.weight (blk.0.ffn_gate_exps.weight): an expert before it is missing, or occurs twice");
    refuse_file(
        "hf/qwen3moe", "model-00002-of-00008.safetensors", "[24,32]", "[32,24]", RP_E_FORMAT,
        "experts.1.gate_proj.weight (blk.0.ffn_gate_exps.weight): experts of one layer differ in type or shape");
    refuse_tensor("hf/llama",
                  "{" ENTRY("lm_head.weight", "F32", "[1]", "[8,12]") "," ENTRY(
                      "model.layers.0.self_attn.q_proj.weight", "F8_E4M3", "[2,2,2]", "[0,8]") "}",
                  12, "q_proj.weight (blk.0.attn_q.weight): FP8 of other shapes than a matrix");
    refuse_tensor("hf/llama",
                  "{" ENTRY("lm_head.weight", "F32", "[1]", "[0,4]") "," ENTRY("language_model.lm_head.weight", "F32",
                                                                               "[1]", "[4,8]") "}",
                  8, "lm_head.weight (output.weight): two tensors have this name");
    refuse_tensor("hf/llama", "{" ENTRY("model.norm.weight", "F32", "[1]", "[0,4]") "}", 4,
                  "tensor lm_head.weight is missing, and tie_word_embeddings is false");
    bad("hf/llama-fp8", "\"weight_block_size\": [\n      16", "\"weight_block_size\": [\n      0",
        "weight_block_size is not two numbers from 1 to 65536");
}

Test(hf_rules, a_matrix_in_fp8_that_is_too_large) {
    const SafeTensor w =
                         {
                             .ne = {8, INT64_C(1) << 33, 1, 1}
    },
                     scale = {.ne = {1, 1, 1, 1}, .type = SAFE_F32};
    REFUSED(rp_fp8_to_bf16("m", &w, &scale, (Fp8Blocks){0}, NULL), RP_E_SHAPE, "m: a matrix in FP8 is too large");
    const SafeTensor whole = {
        .name = {"s", 1},
          .ne = { 1, 1,  1, 1},
          .type = SAFE_I64
    };
    REFUSED(rp_fp8_to_bf16("m", &w, &whole, (Fp8Blocks){0}, NULL), RP_E_UNSUPPORTED, "m: scales s are I64");
}

/* ---- tokenizer.json ---- */

static void bad_tokenizer(const char *dir, const char *from, const char *to, const char *text) {
    refuse_file(dir, "tokenizer.json", from, to, RP_E_FORMAT, text);
}

static void unsupported_tokenizer(const char *dir, const char *from, const char *to, const char *text) {
    refuse_file(dir, "tokenizer.json", from, to, RP_E_UNSUPPORTED, text);
}

Test(hf_rules, vocabularies) {
    char long_merge[2200], letters[1025];
    bad_tokenizer("hf_tokenizers/unigram", "[\"\u2581breath\",", "[7,", "piece 300 is not a text and a number");
    bad_tokenizer("hf_text", "\"added_tokens\":[", "\"added_tokens\":{},\"x\":[", "added_tokens is no list");
    bad_tokenizer("hf_text", "\"merges\":[", "\"merges\":[7,", "a merge is no pair of texts");
    unsupported_tokenizer("hf_text", "\"merges\":[", "\"merges\":[[\"a b\",\"c\"],",
                          "a merge of texts with spaces is not supported");
    bad_tokenizer("hf_tokenizers/llama2", "\"merges\":[", "\"merges\":[[\"q\",\"q!\"],", "a merge makes no token");
    memset(letters, 'q', sizeof letters - 1);
    letters[sizeof letters - 1] = '\0';
    snprintf(long_merge, sizeof long_merge, "\"merges\":[[\"%s\",\"q\"],", letters);
    bad_tokenizer("hf_tokenizers/llama2", "\"merges\":[", long_merge, "a merge of more than 1024 bytes");
    bad_tokenizer("hf_text", "\"model\":", "\"m\":", "model is missing");
    bad("hf_text", "\"vocab_size\": 664", "\"vocab_size\": 0", "vocab_size is 0");
}

Test(hf_rules, pipelines) {
    static char expression[1 << 15];
    memset(expression, 'a', sizeof expression - 1);
    memcpy(expression, "(?i:'s|", 7);
    unsupported_tokenizer("hf_text", "(?i:'s", expression, "a pre_tokenizer of more than 12 parts or 16384 bytes");
    bad_tokenizer("hf_text", "\"Regex\"", "\"X\"", "a Split has no pattern");
    unsupported_tokenizer("hf_tokenizers/words-never", "\"replacement\":\"\u2581\"", "\"replacement\":\"_\"",
                          "replacement of Metaspace '_' is not supported");
    unsupported_tokenizer("hf_tokenizers/unigram",
                          "\"pre_tokenizer\":", "\"x\":", "a unigram model without U+2581 for spaces is not supported");
    unsupported_tokenizer("hf_text", "\"pre_tokenizer\":", "\"x\":",
                          "a vocabulary of neither bytes (ByteLevel) nor U+2581 for spaces is not supported");
    unsupported_tokenizer("hf_tokenizers/llama2", "\"single\":[", "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},",
                          "a second special token of post_processor '<|endoftext|>' is not supported");
    bad_tokenizer("hf_tokenizers/llama2", "\"single\":[", "\"single\":[{\"SpecialToken\":{\"id\":\"<none>\"}},",
                  "a special token of post_processor is no token");
}

Test(hf_rules, tokens_that_end_a_reply) {
    char ids[512] = "";
    for (int i = 0; i < 33; i++) sprintf(ids + strlen(ids), "%d,", i);
    refuse_file("hf_text", "generation_config.json", "658", "\"x\"", RP_E_FORMAT,
                "eos_token_id is neither a number nor a list of numbers");
    strcat(ids, "658");
    refuse_file("hf_text", "generation_config.json", "658", ids, RP_E_FORMAT, "more than 32 tokens end a reply");
}

/* Some files have -1 for a token that they lack, or an id of a longer vocabulary. */
Test(hf_rules, numbers_that_are_no_token_are_left_out) {
    RpGgufFile *f;
    hf_begin();
    hf_copy_weights("hf_text");
    hf_copy("hf_text", "tokenizer.json");
    hf_change("hf_text", "generation_config.json", "658", "-1, 664, 5");
    hf_change("hf_text", "config.json", "\"bos_token_id\": null", "\"bos_token_id\": -1");
    OK(rp_gguf_open(folder, &f));
    const RpGgufValue *ends = rp_gguf_find(f, "tokenizer.hf.end_tokens");
    cr_assert(ends != NULL && ends->n == 3);
    cr_expect_eq(rp_gguf_number_at(ends, 0), 5);
    cr_expect_eq(rp_gguf_number_at(ends, 1), 656);
    cr_expect_eq(rp_gguf_number_at(ends, 2), 658);
    cr_expect_null(rp_gguf_find(f, "tokenizer.ggml.bos_token_id"));
    rp_gguf_close(f);
    OK(hf_open());
    hf_end();
}

/* Older files have "a b" where newer ones have ["a","b"]. */
Test(hf_rules, merges_that_are_one_text) {
    hf_begin();
    hf_copy("hf_text", "config.json");
    hf_copy_weights("hf_text");
    hf_change("hf_text", "tokenizer.json", "\"merges\":[[\"a\",\"a\"]", "\"merges\":[\"a a\"");
    OK(hf_open());
    hf_change("hf_text", "tokenizer.json", "\"merges\":[[\"a\",\"a\"]", "\"merges\":[\"aa\"");
    REFUSED(hf_open(), RP_E_FORMAT, "a merge is no pair of texts");
    hf_end();
}

Test(hf_rules, the_default_of_several_chat_templates) {
    static const char config[] = "{\"chat_template\":[{\"name\":\"tools\",\"template\":\"<start_of_turn>\"},{\"name\":"
                                 "\"default\",\"template\":\"<|im_start|>{{ role }}\"}]}";
    RpGgufFile       *f;
    RpChatKind        kind;
    hf_begin();
    hf_copy("hf_text", "config.json");
    hf_copy("hf_text", "tokenizer.json");
    hf_copy_weights("hf_text");
    hf_write("tokenizer_config.json", config, sizeof config - 1);
    OK(rp_gguf_open(folder, &f));
    OK(rp_chat_detect(f, &kind));
    cr_expect_eq(kind, RP_CHAT_CHATML);
    rp_gguf_close(f);
    hf_end();
}

static void expect_key(const char *key, const char *want) {
    RpGgufFile  *f;
    RpGgufString text = {"", 0};
    OK(rp_gguf_open(folder, &f));
    OK(rp_gguf_get_string(f, key, &text));
    cr_expect(text.len == strlen(want) && memcmp(text.ptr, want, text.len) == 0, "%s is \"%.*s\"", key, (int)text.len,
              text.ptr);
    rp_gguf_close(f);
}

/* The template of a processor is in chat_template.json, and a list of templates may have one for tools. */
Test(hf_rules, chat_templates_in_other_places) {
    static const char processor[] = "{\"chat_template\": \"{{ processor }}\"}";
    static const char config[] = "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"{{ tools }}\"},{\"name\":"
                                 "\"default\",\"template\":\"{{ role }}\"}]}";
    hf_begin();
    hf_copy("hf_text", "config.json");
    hf_copy("hf_text", "tokenizer.json");
    hf_copy_weights("hf_text");
    hf_write("chat_template.json", processor, sizeof processor - 1);
    expect_key("tokenizer.chat_template", "{{ processor }}");
    hf_write("tokenizer_config.json", config, sizeof config - 1);
    expect_key("tokenizer.chat_template", "{{ role }}");
    expect_key("tokenizer.chat_template.tool_use", "{{ tools }}");
    hf_end();
}

/* Rnj-1 is a Gemma 3 with this key. */
Test(hf_rules, gemma3_may_cap_its_logits) {
    RpGgufFile *f;
    float       cap = 0;
    hf_begin();
    hf_copy_weights("hf/gemma3");
    hf_change("hf/gemma3", "config.json", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0");
    OK(rp_gguf_open(folder, &f));
    OK(rp_gguf_get_f32(f, "gemma3.final_logit_softcapping", &cap));
    cr_expect_eq(cap, 30.0f);
    rp_gguf_close(f);
    hf_end();
}

/* ---- conversion ---- */

Test(hf_rules, rows_that_are_no_whole_heads_are_not_reordered) {
    hf_begin();
    hf_change("hf/llama", "config.json", "\"head_dim\": 8", "\"head_dim\": 7");
    hf_copy_weights("hf/llama");
    REFUSED(rp_requantize(folder, "/tmp/reprise-hf-none.gguf", "F32", NULL, NULL), RP_E_SHAPE,
            "tensor blk.0.attn_k.weight: 16 rows are not whole heads of 7");
    hf_end();
}

/* ---- sizes ---- */

Test(hf_rules, a_text_that_is_too_long) {
    char path[128];
    hf_begin();
    hf_copy("hf/llama", "config.json");
    snprintf(path, sizeof path, "%s/config.json", folder);
    cr_assert_eq(truncate(path, (256 << 20) + 1), 0);
    REFUSED(hf_open(), RP_E_FORMAT, "config.json: 268435457 bytes, at most 268435456 are read");
    hf_end();
}

/* ---- experts of Hunyuan and Ling ---- */

/* Published files of Hunyuan A13B have lists. */
Test(hf_rules, counts_that_are_lists_of_layers) {
    static const char topk[] = "\"moe_topk\": 2";
    hf_expect("hf/hunyuan-moe", topk, "\"moe_topk\": [2, 2]", "hunyuan-moe.expert_used_count", 2);
    hf_expect("hf/hunyuan-moe", topk, "\"num_experts_per_tok\": 2", "hunyuan-moe.expert_used_count", 2);
    hf_expect("hf/hunyuan-moe", "\"num_experts\": 4", "\"num_experts\": [4, 4]", "hunyuan-moe.expert_count", 4);
    unsupported("hf/hunyuan-moe", topk, "\"moe_topk\": [2, 1]",
                "moe_topk: another count in some layers is not supported");
    bad("hf/hunyuan-moe", topk, "\"moe_topk\": [2]", "moe_topk is not a list of 2 counts");
    bad("hf/hunyuan-moe", topk, "\"moe_topk\": [1.5, 1.5]", "moe_topk is not a list of 2 counts");
    bad("hf/hunyuan-moe", topk, "\"moe_topk\": [\"2\", \"2\"]", "moe_topk is not a list of 2 counts");
    unsupported("hf/hunyuan-moe", topk, "\"moe_topk\": 2, \"moe_layer_num_skipped\": 1",
                "moe_layer_num_skipped: a model with dense layers is not supported");
}

Test(hf_rules, experts_of_ling) {
    static const char scores[] = "\"score_function\": \"sigmoid\"";
    unsupported("hf/ling", scores, "\"score_function\": \"softmax\"", "score_function: another value is not supported");
    hf_expect("hf/ling", scores, "\"x\": 0", "bailingmoe2.expert_gating_func", 2);
    hf_expect("hf/ling", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 1", "bailingmoe2.expert_weights_norm",
              0);
    hf_expect("hf/ling", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false", "bailingmoe2.expert_weights_norm", 1);
    hf_expect("hf/ling", "\"n_group\"", "\"x\"", "bailingmoe2.expert_group_count", 8);
    hf_refuse_config("hf/ling", "\"hidden_size\": 32", "\"hidden_size\": 48", RP_E_SHAPE, "word_embeddings.weight");
}
