/* Keys of a file as numbers of the model: values that are given, absent, or given in the form of older files. The
 * expected ones are those of llama.cpp (load_hparams). */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/config.h"

#include <math.h>

/* A number, a text, a flag or an array of n counts for "<arch>.<key>"; a key behind a slash has no prefix. */
typedef struct Key {
    const char *key, *text;
    float       real;
    uint32_t    n, counts[4];
    bool        is_flag, flag;
} Key;

static void put_one(Bytes *b, const char *name, const Key *k) {
    if (k->text != NULL) {
        put_key_string(b, name, k->text);
    } else if (k->n == 1) {
        put_key_u32(b, name, k->counts[0]);
    } else if (k->n > 1) {
        put_key_array(b, name, RP_GGUF_U32, k->counts, k->n);
    } else if (k->is_flag) {
        put_key(b, name, RP_GGUF_BOOL);
        put_bytes(b, &k->flag, 1);
    } else {
        put_key(b, name, RP_GGUF_F32);
        put_bytes(b, &k->real, 4);
    }
}

static bool given(const Key *keys, const char *key) {
    for (; keys->key != NULL; keys++)
        if (strcmp(keys->key, key) == 0) return true;
    return false;
}

/* The configuration of a small model of the family with these keys too; they end with a NULL. */
static RpStatus read_with(const char *arch, const Key *keys, ModelConfig *out) {
    static const struct {
        const char *key;
        uint32_t    value;
    } whole[] = {
        {"context_length",       64},
        {"embedding_length",     64},
        {"block_count",          4 },
        {"feed_forward_length",  48},
        {"attention.head_count", 4 },
        {"vocab_size",           16}
    };
    const size_t n_whole = sizeof whole / sizeof whole[0];
    Bytes        b       = {0};
    RpGgufFile  *f;
    size_t       n = 0;
    char         name[96];
    while (keys[n].key != NULL) n++;
    size_t n_given = 0; /* of the usual keys */
    for (size_t i = 0; i < n_whole; i++) n_given += given(keys, whole[i].key);
    put_header(&b, 3, 0, 2 + n_whole - n_given + n);
    put_key_string(&b, "general.architecture", arch);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", arch);
    put_key(&b, name, RP_GGUF_F32);
    put_bytes(&b, &(float){1e-5f}, 4);
    for (size_t i = 0; i < n_whole; i++) {
        if (given(keys, whole[i].key)) continue;
        snprintf(name, sizeof name, "%s.%s", arch, whole[i].key);
        put_key_u32(&b, name, whole[i].value);
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s.%s", arch, keys[i].key);
        put_one(&b, keys[i].key[0] == '/' ? keys[i].key + 1 : name, &keys[i]);
    }
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    const RpStatus st = rp_config_read(f, out);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

#define COUNTS(key, ...)                                                                                               \
    { key, NULL, 0, sizeof((uint32_t[]){__VA_ARGS__}) / 4, {__VA_ARGS__}, false, false }
#define FLAG(key, value)                                                                                               \
    { key, NULL, 0, 0, {0}, true, value }
#define REAL(key, value)                                                                                               \
    { key, NULL, value, 0, {0}, false, false }
#define TEXT(key, value)                                                                                               \
    { key, value, 0, 0, {0}, false, false }
#define KEYS(...) ((const Key[]){__VA_ARGS__, {0}})

Test(config, scaling_of_rope_is_linear_where_no_type_is_given) {
    /* clang-format off */
    const struct {
        const char *what;
        const Key  *keys;
        float       freq_scale;
    } cases[] = {
        {"a factor alone", KEYS(REAL("rope.scaling.factor", 8.0f)), 0.125f},
        {"a factor of 0", KEYS(REAL("rope.scaling.factor", 0.0f)), 1.0f},
        {"type none beside a factor", KEYS(TEXT("rope.scaling.type", "none"), REAL("rope.scaling.factor", 8.0f)), 1.0f},
        {"the key of older files", KEYS(REAL("rope.scale_linear", 4.0f)), 0.25f},
        {"both keys", KEYS(REAL("rope.scale_linear", 4.0f), REAL("rope.scaling.factor", 8.0f)), 0.125f},
        {"type none beside the older key", KEYS(TEXT("rope.scaling.type", "none"), REAL("rope.scale_linear", 4.0f)),
         1.0f},
        {"type yarn", KEYS(TEXT("rope.scaling.type", "yarn"), REAL("rope.scaling.factor", 2.0f)), 0.5f},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ModelConfig c;
        OK(read_with("llama", cases[i].keys, &c));
        cr_expect_eq(c.rope.freq_scale, cases[i].freq_scale, "%s: %g", cases[i].what, (double)c.rope.freq_scale);
    }
}

Test(config, a_scale_of_attention_of_0_is_the_usual_one) {
    ModelConfig c;
    OK(read_with("granite", KEYS(REAL("attention.scale", 0.0f)), &c));
    cr_expect_eq(c.attn_scale, 0.25f, "%g", (double)c.attn_scale);
    OK(read_with("granite", KEYS(REAL("attention.scale", 0.5f)), &c));
    cr_expect_eq(c.attn_scale, 0.5f, "%g", (double)c.attn_scale);
    REFUSED(read_with("granite", KEYS(REAL("attention.scale", -0.5f)), &c), RP_E_FORMAT,
            "m.gguf: granite.attention.scale is -0.5, must not be negative");
}

/* As in llama.cpp, which has M-RoPE if the first two sections have elements. */
Test(config, glm4_has_sections_if_two_have_elements) {
    static const struct {
        uint32_t     sections[4];
        PositionKind kind;
    } cases[] = {
        {{2, 2, 2, 0}, POSITION_NEOX},
        {{4, 4, 0, 0}, POSITION_NEOX},
        {{8, 0, 0, 0}, POSITION_NORM},
        {{0, 8, 0, 0}, POSITION_NORM},
        {{0, 0, 0, 0}, POSITION_NORM}
    };
    ModelConfig c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t *s   = cases[i].sections;
        const Key       k[] = {
                  {.key = "rope.dimension_sections",    .n = 4, .counts = {s[0], s[1], s[2], s[3]}},
                  {0}
        };
        OK(read_with("glm4", k, &c));
        cr_expect_eq(rp_config_layer(&c, 0).position, cases[i].kind, CASE(i));
    }
    REFUSED(read_with("glm4", KEYS(COUNTS("rope.dimension_sections", 4)), &c), RP_E_FORMAT,
            "m.gguf: glm4.rope.dimension_sections must be an array of 4 integers");
}

/* llama.cpp would rotate another part of the heads of these layers. */
Test(config, windows_that_rotate_other_elements_are_refused) {
    ModelConfig c;
    OK(read_with("gemma3", KEYS(COUNTS("rope.dimension_count_swa", 16)), &c));
    REFUSED(read_with("gemma3", KEYS(COUNTS("rope.dimension_count_swa", 8)), &c), RP_E_UNSUPPORTED,
            "m.gguf: gemma3.rope.dimension_count_swa is 8, and rope.dimension_count 16: they must be the same in this "
            "family");
}

Test(config, cohere2_needs_the_factor_of_its_logits) {
    ModelConfig c;
    OK(read_with("cohere2",
                 KEYS(REAL("logit_scale", 0.25f), REAL("attention.layer_norm_epsilon", 1e-5f),
                      COUNTS("attention.sliding_window", 8)),
                 &c));
    cr_expect_eq(c.logit_scale, 0.25f, "%g", (double)c.logit_scale);
    REFUSED(read_with("cohere2",
                      KEYS(REAL("attention.layer_norm_epsilon", 1e-5f), COUNTS("attention.sliding_window", 8)), &c),
            RP_E_FORMAT, "m.gguf: cohere2.logit_scale is missing or not positive");
    REFUSED(read_with("cohere2", KEYS(REAL("logit_scale", 0.25f), REAL("attention.layer_norm_epsilon", 1e-5f)), &c),
            RP_E_FORMAT, "m.gguf: cohere2.attention.sliding_window is missing or 0");
}

/* alpha_p, alpha_n, beta and eps of xIELU: one number, or one for each of the 4 layers. */
Test(config, apertus_needs_the_numbers_of_its_activation) {
    ModelConfig c;
    OK(read_with("apertus",
                 KEYS(REAL("/xielu.alpha_p", 0.5f), REAL("/xielu.alpha_n", 0.5f), REAL("/xielu.beta", 0.5f),
                      REAL("/xielu.eps", -1e-6f)),
                 &c));
    REFUSED(read_with("apertus",
                      KEYS(REAL("/xielu.alpha_p", 0.5f), REAL("/xielu.alpha_n", 0.5f), REAL("/xielu.beta", 0.5f)), &c),
            RP_E_FORMAT, "m.gguf: xielu.eps is missing");
    REFUSED(read_with("apertus",
                      KEYS(REAL("/xielu.alpha_p", 0.5f), REAL("/xielu.alpha_n", 0.5f), REAL("/xielu.beta", 0.5f),
                           REAL("/xielu.eps", 0.0f)),
                      &c),
            RP_E_FORMAT, "m.gguf: xielu.eps is 0 for layer 0, must be below 0");
    REFUSED(read_with("apertus", KEYS(REAL("/xielu.alpha_p", NAN)), &c), RP_E_FORMAT,
            "m.gguf: xielu.alpha_p is nan for layer 0, must be finite");
    REFUSED(read_with("apertus", KEYS(COUNTS("/xielu.alpha_p", 1, 2)), &c), RP_E_FORMAT,
            "m.gguf: xielu.alpha_p must be a float, or an array of 4, one for each layer");
}

Test(config, hunyuan_stretches_the_base_of_rope) {
    ModelConfig c;
    OK(read_with("hunyuan-dense", KEYS(REAL("rope.scaling.alpha", 0.0f)), &c));
    const float plain = c.rope.freq_base;
    OK(read_with(
        "hunyuan-dense",
        KEYS(REAL("rope.scaling.alpha", 8.0f), TEXT("rope.scaling.type", "none"), REAL("rope.scaling.factor", 4.0f)),
        &c));
    cr_expect(c.rope.freq_base > plain && c.rope.freq_scale == 1.0f, "%g and %g: %g", (double)plain,
              (double)c.rope.freq_base, (double)c.rope.freq_scale);
    REFUSED(read_with("hunyuan-dense", KEYS(REAL("rope.scaling.alpha", 8.0f), REAL("rope.scaling.factor", 4.0f)), &c),
            RP_E_UNSUPPORTED, "m.gguf: rope.scaling.alpha beside a rope.scaling.factor of 4 is not supported");
}

/* The length is that of one shared expert, not of all together. */
Test(config, bailingmoe2_counts_shared_experts) {
    ModelConfig c;
    OK(read_with("bailingmoe2",
                 KEYS(COUNTS("expert_count", 8), COUNTS("expert_used_count", 2),
                      COUNTS("expert_feed_forward_length", 32), COUNTS("expert_shared_count", 3)),
                 &c));
    cr_expect_eq(c.experts.n_ff_shared, 96, "%d", c.experts.n_ff_shared);
    OK(read_with("bailingmoe2",
                 KEYS(COUNTS("expert_count", 8), COUNTS("expert_used_count", 2),
                      COUNTS("expert_feed_forward_length", 32), COUNTS("expert_shared_count", 3),
                      COUNTS("expert_shared_feed_forward_length", 16)),
                 &c));
    cr_expect_eq(c.experts.n_ff_shared, 48, "%d", c.experts.n_ff_shared);
}

Test(config, a_cap_of_logits_counts_in_every_family) {
    ModelConfig c;
    OK(read_with("gemma3", KEYS(REAL("final_logit_softcapping", 20.0f)), &c));
    cr_expect_eq(c.logit_cap, 20.0f, "gemma3 with the key: %g", (double)c.logit_cap);
    OK(read_with("gemma3", KEYS(REAL("rope.freq_base", 1e6f)), &c));
    cr_expect_eq(c.logit_cap, 0.0f, "gemma3 without it: %g", (double)c.logit_cap);
    OK(read_with("gemma2", KEYS(REAL("rope.freq_base", 1e4f)), &c));
    cr_expect_eq(c.logit_cap, 30.0f, "gemma2 without it: %g", (double)c.logit_cap);
    OK(read_with("gemma2", KEYS(REAL("final_logit_softcapping", 0.0f)), &c));
    cr_expect_eq(c.logit_cap, 0.0f, "gemma2 with 0: %g", (double)c.logit_cap);
    REFUSED(read_with("gemma3", KEYS(REAL("final_logit_softcapping", -1.0f)), &c), RP_E_FORMAT,
            "m.gguf: gemma3.final_logit_softcapping is -1, must not be negative");
}

#define EXPERTS COUNTS("expert_count", 8), COUNTS("expert_used_count", 2)

/* llama.cpp ignores keys of the choice of experts in most families. A file that is made of a Hugging Face directory has
 * them for a reason. */
Test(config, keys_of_the_choice_of_experts_count_where_llama_cpp_reads_them) {
    static const struct {
        const char *arch;
        bool        gating, weights, normalize; /* the first two: the keys count */
        Gating      usual;
    } cases[] = {
        {"llama",        false, false, true,  GATING_SOFTMAX          },
        {"qwen2moe",     false, false, false, GATING_SOFTMAX          },
        {"qwen3moe",     false, false, true,  GATING_SOFTMAX          },
        {"olmoe",        false, false, false, GATING_SOFTMAX          },
        {"granitemoe",   false, false, true,  GATING_SOFTMAX          },
        {"gpt-oss",      false, false, false, GATING_SOFTMAX_OF_CHOSEN},
        {"ernie4_5-moe", false, false, true,  GATING_SOFTMAX          },
        {"minimax-m2",   true,  false, true,  GATING_SIGMOID          },
        {"glm4moe",      true,  true,  false, GATING_SIGMOID          },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int hf = 0; hf < 2; hf++) {
            const bool     gating = cases[i].gating || hf == 1, weights = cases[i].weights || hf == 1;
            const uint32_t other = cases[i].usual == GATING_SIGMOID ? GATING_SOFTMAX : GATING_SIGMOID;
            ModelConfig    c;
            OK(read_with(cases[i].arch,
                         KEYS(EXPERTS, COUNTS("expert_gating_func", other), REAL("expert_weights_scale", 2.5f),
                              FLAG("expert_weights_norm", !cases[i].normalize), FLAG("/reprise.hf_directory", hf == 1)),
                         &c));
            cr_expect_eq(c.experts.gating, gating ? (Gating)other : cases[i].usual, "%s, %d", cases[i].arch, hf);
            cr_expect_eq(c.experts.normalize, cases[i].normalize != weights, "%s, %d", cases[i].arch, hf);
            cr_expect_eq(c.experts.scale, weights ? 2.5f : 1.0f, "%s, %d", cases[i].arch, hf);
        }
}

Test(config, borders_of_yarn_count_where_llama_cpp_reads_them) {
    static const char *const archs[] = {"mistral3", "llama", "qwen3"};
    for (int i = 0; i < 6; i++) {
        const bool  hf = i % 2 == 1, reads = i / 2 == 0 || hf;
        ModelConfig c;
        OK(read_with(archs[i / 2],
                     KEYS(TEXT("rope.scaling.type", "yarn"), REAL("rope.scaling.factor", 4.0f),
                          REAL("rope.scaling.yarn_beta_fast", 8.0f), REAL("rope.scaling.yarn_beta_slow", 2.0f),
                          REAL("rope.scaling.yarn_ext_factor", 0.5f), FLAG("/reprise.hf_directory", hf)),
                     &c));
        cr_expect_eq(c.rope.beta_fast, reads ? 8.0f : 32.0f, CASE(i));
        cr_expect_eq(c.rope.beta_slow, reads ? 2.0f : 1.0f, CASE(i));
        cr_expect_eq(c.rope.ext_factor, 1.0f, CASE(i));
    }
}

/* Files may have an array, an element for each layer, of what the library has one of. */
Test(config, arrays_of_layers_must_have_one_value) {
    ModelConfig c;
    OK(read_with("llama",
                 KEYS(COUNTS("attention.head_count", 4, 4, 4, 4), COUNTS("attention.head_count_kv", 2, 2, 2, 2),
                      COUNTS("feed_forward_length", 32, 32, 32, 32)),
                 &c));
    cr_expect(c.n_head == 4 && c.n_head_kv == 2 && c.n_ff == 32, "%d, %d, %d", c.n_head, c.n_head_kv, c.n_ff);
    OK(read_with("qwen3moe", KEYS(EXPERTS, COUNTS("feed_forward_length", 16, 16, 16, 16)), &c));
    cr_expect_eq(c.experts.n_ff, 16);
    REFUSED(
        read_with("llama", KEYS(COUNTS("attention.head_count", 4, 4, 2, 4)), &c), RP_E_UNSUPPORTED,
        "m.gguf: llama.attention.head_count is 4 for layer 0 and 2 for layer 2: layers that differ are not supported");
    REFUSED(read_with("llama", KEYS(COUNTS("attention.head_count_kv", 4, 4, 4, 2)), &c), RP_E_UNSUPPORTED,
            "m.gguf: llama.attention.head_count_kv is 4 for layer 0 and 2 for layer 3");
    REFUSED(read_with("llama", KEYS(COUNTS("feed_forward_length", 48, 32, 48, 48)), &c), RP_E_UNSUPPORTED,
            "m.gguf: llama.feed_forward_length is 48 for layer 0 and 32 for layer 1");
}

/* Files of GLM-4.7 Flash do not say how they choose experts: llama.cpp knows them by layers and vocabulary. */
Test(config, experts_of_glm_flash_are_chosen_by_sigmoid) {
    static const struct {
        uint32_t n_layer, n_vocab, key;
        Gating   want;
    } cases[] = {
        {47, 154880, 0, GATING_SIGMOID},
        {48, 154880, 0, GATING_SIGMOID},
        {47, 154880, 1, GATING_SOFTMAX},
        {46, 154880, 0, GATING_SOFTMAX},
        {47, 154881, 0, GATING_SOFTMAX}
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Key keys[] = {
            {.key = "block_count",                .n = 1, .counts = {cases[i].n_layer}},
            {.key = "vocab_size",       .n = 1, .counts = {cases[i].n_vocab}},
            {.key = "expert_count",                 .n = 1, .counts = {4}},
            {.key = "expert_used_count",       .n = 1, .counts = {2}},
            {.key = "expert_feed_forward_length",               .n = 1, .counts = {32}},
            {.key = "attention.kv_lora_rank",                      .n = 1, .counts = {16}},
            {.key = "attention.key_length",          .n = 1, .counts = {24}},
            {.key = "attention.value_length",                      .n = 1, .counts = {16}},
            {.key = "attention.key_length_mla", .n = 1, .counts = {24}},
            {.key = "attention.value_length_mla",                     .n = 1, .counts = {16}},
            {.key = "rope.dimension_count",     .n = 1, .counts = {8}},
            {.key = cases[i].key != 0 ? "expert_gating_func" : "unused",                     .n = 1, .counts = {cases[i].key}},
            {.key = NULL      }
        };
        ModelConfig c;
        OK(read_with("deepseek2", keys, &c));
        cr_expect_eq(c.experts.gating, cases[i].want, CASE(i));
    }
}

/* A key that llama.cpp writes for ModernBERT. */
Test(config, modern_bert_says_its_activation) {
    ModelConfig c;
    Key         keys[] = {
                {.key = "attention.layer_norm_epsilon", .real = 1e-5f},
                {.key = "hidden_activation",                                     .text = "silu"},
                {.key = NULL}
    };
    OK(read_with("modern-bert", keys, &c));
    cr_expect_eq(c.activation, ACTIVATION_SILU);
    keys[1].text = "gelu";
    OK(read_with("modern-bert", keys, &c));
    cr_expect_eq(c.activation, ACTIVATION_GELU_TANH);
    keys[1].text = "relu";
    REFUSED(read_with("modern-bert", keys, &c), RP_E_UNSUPPORTED,
            "m.gguf: modern-bert.hidden_activation 'relu' is not supported (there are gelu and silu)");
    keys[1].key = NULL;
    OK(read_with("modern-bert", keys, &c));
    cr_expect_eq(c.activation, ACTIVATION_GELU_TANH);
}
