/* Directories as transformers 5.24 writes and reads them: each has a spelling that other directories lack. They are
 * golden ones (tests/golden) with some texts of a file replaced. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <sys/stat.h>

#define COUNT(x) ((int)(sizeof(x) / sizeof(x)[0]))

static void expect_number(const RpGgufFile *f, const char *key, double want) {
    const double got = hf_number(f, key);
    cr_expect_eq(got, want, "%s is %.9g, not %.9g", key, got, want);
}

/* ---- Gemma 4 ---- */

/* The class of the 12B model has other defaults than that of the others, and no embeddings of layers. */
Test(hf_saved, gemma4_unified_has_defaults_of_its_own) {
    static const char *const changes[][2] = {
        {"Gemma4ForCausalLM",               "Gemma4UnifiedForCausalLM"},
        {"\"hidden_size_per_layer_input\"", "\"x\""                   },
        {"\"sliding_window\"",              "\"y\""                   },
        {"\"max_position_embeddings\"",     "\"z\""                   },
    };
    RpGgufFile *f;
    hf_begin();
    hf_copy_weights("hf/gemma4-moe");
    hf_edit("hf/gemma4-moe", "config.json", changes, COUNT(changes));
    OK(rp_gguf_open(folder, &f));
    expect_number(f, "gemma4.embedding_length_per_layer_input", 0);
    expect_number(f, "gemma4.attention.sliding_window", 1024);
    expect_number(f, "gemma4.context_length", 262144);
    rp_gguf_close(f);
    OK(hf_open());
    hf_end();
}

Test(hf_saved, assistants_of_gemma4_unified_have_no_embeddings_of_layers) {
    static const char *const changes[][2] = {
        {"Gemma4AssistantForCausalLM",      "Gemma4UnifiedAssistantForCausalLM"},
        {"\"hidden_size_per_layer_input\"", "\"x\""                            },
    };
    hf_begin();
    hf_copy_weights("hf/gemma4-assistant");
    hf_edit("hf/gemma4-assistant", "config.json", changes, COUNT(changes));
    OK(hf_open());
    hf_end();
}

Test(hf_saved, weights_for_images_of_gemma4_unified_are_not_read) {
    hf_begin();
    hf_change("hf/gemma4-images", "config.json", "Gemma4ForConditionalGeneration",
              "Gemma4UnifiedForConditionalGeneration");
    hf_add_tensor("hf/gemma4-images", "model.vision_embedder.pos_embedding", "BF16", "[4,2,8]", 128);
    OK(hf_open());
    hf_add_tensor("hf/gemma4-images", "model.embed_audio.embedding_projection.weight", "BF16", "[32,2]", 128);
    OK(hf_open());
    hf_add_tensor("hf/gemma4-images", "model.embedder.pos_embedding", "BF16", "[4,2,8]", 128);
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "does not use 1 of the tensors, first model.embedder.pos_embedding");
    hf_end();
}

/* save_pretrained writes all numbers of layers with as many digits as the last. */
Test(hf_saved, numbers_of_layers_may_begin_with_zeros) {
    static const char gemma4[] = "hf/gemma4";
    hf_begin();
    hf_copy_weights(gemma4);
    hf_change(gemma4, "config.json", "\"3\": {", "\"003\": {");
    OK(hf_open());
    hf_end();
    hf_refuse_config(gemma4, "\"3\": {", "\"4\": {", RP_E_FORMAT,
                     "per_layer_config has the key '4', which is no layer below 4");
    hf_refuse_config(gemma4, "\"3\": {", "\"-3\": {", RP_E_FORMAT, "the key '-3', which is no layer below 4");
    hf_refuse_config(gemma4, "\"3\": {", "\"\": {", RP_E_FORMAT, "the key '', which is no layer below 4");
    hf_refuse_config(gemma4, "\"3\": {", "\"99999999999999999999\": {", RP_E_FORMAT, "which is no layer below 4");
    hf_refuse_config(gemma4, "\"3\": {", "\"01\": {", RP_E_FORMAT, "per_layer_config has layer 1 twice");
    hf_refuse_config(gemma4, "\"per_layer_config\"", "\"per_layer_config\": [], \"x\"", RP_E_FORMAT,
                     "per_layer_config is no object");
}

/* ---- attention to later tokens ---- */

Test(hf_saved, decoders_that_attend_to_later_tokens) {
    static const char vocab[] = "\"vocab_size\"", changed[] = "\"is_causal\": false, \"vocab_size\"";
    RpModel          *m;
    RpSession        *s;
    hf_begin();
    hf_copy_weights("hf/llama");
    hf_change("hf/llama", "config.json", vocab, changed);
    OK(rp_model_open(folder, NULL, &m));
    cr_expect(rp_model_info(m)->bidirectional);
    REFUSED(rp_session_open(m, NULL, &s), RP_E_UNSUPPORTED, "llama makes embeddings of texts (reprise embed, embed.h)");
    rp_model_free(m);
    hf_end();
    hf_refuse_config("hf/gemma3", vocab, changed, RP_E_UNSUPPORTED,
                     "gemma3.attention.causal is false: the window of layer 0 is of a decoder");
    hf_refuse_config("hf/qwen3next", vocab, changed, RP_E_UNSUPPORTED,
                     "qwen3next.attention.causal is false: layer 0 cannot attend to later positions");
    hf_refuse_config("hf/deepseek3", vocab, changed, RP_E_UNSUPPORTED,
                     "deepseek2.attention.causal is false: layer 0 cannot attend to later positions");
    hf_refuse_config("hf/llama", vocab, "\"is_causal\": 0, \"vocab_size\"", RP_E_FORMAT,
                     "is_causal is neither true nor false");
    hf_refuse_config("hf/llama", vocab, "\"use_bidirectional_attention\": true, \"vocab_size\"", RP_E_UNSUPPORTED,
                     "use_bidirectional_attention: attention to later tokens is not supported");
}

/* ---- models without an output matrix ---- */

static void run(const char *path, float *logits, int n) {
    RpModel   *m;
    RpSession *s;
    OK(rp_model_open(path, NULL, &m));
    cr_assert_eq(rp_model_info(m)->n_vocab, n);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 8, .n_threads = 1}, &s));
    OK(rp_session_step(s, 64));
    OK(rp_session_step(s, 65));
    memcpy(logits, rp_session_logits(s), (size_t)n * sizeof *logits);
    rp_session_free(s);
    rp_model_free(m);
}

/* Fine-tunes of embedding models are saved so. The golden directory has a tied output matrix. */
Test(hf_saved, models_without_a_head_have_the_weights_of_those_with_one) {
    static const char *const changes[][2] = {
        {"Qwen3ForCausalLM",              "Qwen3Model"                    },
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"},
    };
    static const char *const names[][2] = {
        {"\"model.", "\""}
    };
    static float ours[664], want[664];
    hf_begin();
    hf_edit("hf_text", "config.json", changes, COUNT(changes));
    hf_rename("hf_text", names, 1);
    run(folder, ours, COUNT(ours));
    run(GOLDEN_DIR "hf_text", want, COUNT(want));
    cr_expect_arr_eq(ours, want, sizeof want);
    hf_change("hf_text", "config.json", "Qwen3ForCausalLM", "Qwen9Model");
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "architecture 'Qwen9Model' is not supported");
    hf_end();
}

Test(hf_saved, an_output_matrix_beside_a_model_without_one_is_not_read) {
    RpGgufFile *f;
    hf_begin();
    hf_copy_weights("hf/ministral3");
    hf_change("hf/ministral3", "config.json", "Ministral3ForCausalLM", "Ministral3Model");
    OK(rp_gguf_open(folder, &f));
    cr_expect_null(rp_gguf_find_tensor(f, "output.weight"));
    rp_gguf_close(f);
    OK(hf_open());
    hf_end();
}

/* ---- two matrices that config.json ties ---- */

/* Writes two tensors of `bytes` bytes each. All bytes are 0, except the last one. */
static void write_two(const char *shape, size_t bytes, char last) {
    char      text[512], *p;
    const int n =
        snprintf(text, sizeof text,
                 "{\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,%zu]},"
                 "\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[%zu,%zu]}}",
                 shape, bytes, bytes, bytes + 128);
    const uint64_t header = (uint64_t)n;
    const size_t   all    = sizeof header + (size_t)n + bytes + 128;
    cr_assert_not_null(p = calloc(1, all));
    memcpy(p, &header, sizeof header);
    memcpy(p + sizeof header, text, (size_t)n);
    p[all - 1] = last;
    hf_write("model.safetensors", p, all);
    free(p);
}

Test(hf_saved, an_output_matrix_with_other_values_is_not_tied) {
    static const struct {
        const char *shape;
        size_t      bytes;
        char        last;
        bool        tied;
    } cases[] = {
        {"[4,8]", 128, 0, true },
        {"[4,8]", 128, 1, false},
        {"[2,8]", 64,  0, false},
    };
    hf_begin();
    hf_change("hf/llama", "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    for (int i = 0; i < COUNT(cases); i++) {
        RpGgufFile *f;
        write_two(cases[i].shape, cases[i].bytes, cases[i].last);
        OK(rp_gguf_open(folder, &f));
        cr_expect_eq(rp_gguf_find_tensor(f, "output.weight") == NULL, cases[i].tied, CASE(i));
        rp_gguf_close(f);
    }
    hf_end();
}

/* ---- texts beside the model ---- */

/* hub models keep further templates in a folder. */
Test(hf_saved, a_template_for_tools_in_a_folder) {
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
    static const char        tools[] = "{{ tools }}";
    char                     path[128];
    RpGgufFile              *f;
    RpGgufString             text = {"", 0};
    hf_begin();
    for (int i = 0; i < COUNT(names); i++) hf_copy("hf_text", names[i]);
    snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    hf_write("additional_chat_templates/tool_use.jinja", tools, sizeof tools - 1);
    OK(rp_gguf_open(folder, &f));
    OK(rp_gguf_get_string(f, "tokenizer.chat_template.tool_use", &text));
    cr_expect(text.len == sizeof tools - 1 && memcmp(text.ptr, tools, text.len) == 0, "\"%.*s\"", (int)text.len,
              text.ptr);
    rp_gguf_close(f);
    hf_end();
}

/* NFC leaves U+FF5C as it is, and makes one character of e and U+0301. */
Test(hf_saved, added_tokens_that_nfc_does_not_change) {
#define FLAGS "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
    static const char from[] = "<repo_name>" FLAGS "false", bar[] = "<\uff5cUser\uff5c>";
    RpGgufFile       *f;
    RpTokenizer      *tk;
    hf_begin();
    hf_copy("hf_text", "config.json");
    hf_copy_weights("hf_text");
    hf_change("hf_text", "tokenizer.json", from, "<\uff5cUser\uff5c>" FLAGS "true");
    OK(rp_gguf_open(folder, &f));
    OK(rp_tokenizer_new(f, &tk));
    cr_expect_eq(rp_tokenizer_find(tk, bar), 659);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    hf_change("hf_text", "tokenizer.json", from, "<e\u0301>" FLAGS "true");
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "normalized of an added token that the normalizer changes '<e\u0301>'");
    hf_end();
}

/* ---- RoPE ---- */

Test(hf_saved, older_names_of_longrope) {
    static const char type[] = "\"rope_type\": \"longrope\"";
    hf_expect("hf/phi3-long", type, "\"type\": \"su\"", "phi3.rope.scaling.original_context_length", 10);
    hf_expect("hf/phi3-long", type, "\"rope_type\": \"yarn\"", "phi3.rope.scaling.original_context_length", 10);
}

/* transformers takes rope_scaling, and of rope_parameters nothing. */
Test(hf_saved, rope_scaling_beside_rope_parameters) {
    static const char from[] = "\"rope_parameters\": {\n    \"rope_theta\": 10000.0";
#define OLDER "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2"
    hf_expect("hf/llama", from, OLDER "}, \"rope_parameters\": {\"rope_theta\": 5e6", "llama.rope.scaling.factor", 2);
    hf_expect("hf/llama", from, OLDER "}, \"rope_parameters\": {\"rope_theta\": 5e6", "llama.rope.freq_base", 1e4);
    hf_expect("hf/llama", from, OLDER ", \"rope_theta\": 3e4}, \"rope_parameters\": {\"rope_theta\": 5e6",
              "llama.rope.freq_base", 3e4);
    hf_expect("hf/llama", from, "\"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 5e6",
              "llama.rope.freq_base", 5e6);
    hf_refuse_config("hf/olmo3", "\"rope_parameters\"", OLDER "}, \"rope_parameters\"", RP_E_UNSUPPORTED,
                     "rope_scaling: it beside rope_parameters is not supported");
}
