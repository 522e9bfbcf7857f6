/* Keys of a file as numbers of the model: values that are given, absent, or given in the form of older files. The
 * expected ones are those of llama.cpp (load_hparams). */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/config.h"

#include <math.h>

/* A number or a text for "<arch>.<key>". */
typedef struct Key {
    const char *key, *text;
    float       real;
} Key;

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
    put_header(&b, 3, 0, 2 + n_whole + n);
    put_key_string(&b, "general.architecture", arch);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", arch);
    put_key(&b, name, RP_GGUF_F32);
    put_bytes(&b, &(float){1e-5f}, 4);
    for (size_t i = 0; i < n_whole; i++) {
        snprintf(name, sizeof name, "%s.%s", arch, whole[i].key);
        put_key_u32(&b, name, whole[i].value);
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s.%s", arch, keys[i].key);
        if (keys[i].text != NULL) {
            put_key_string(&b, name, keys[i].text);
        } else {
            put_key(&b, name, RP_GGUF_F32);
            put_bytes(&b, &keys[i].real, 4);
        }
    }
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    const RpStatus st = rp_config_read(f, out);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

#define KEYS(...) ((const Key[]){__VA_ARGS__, {0}})

Test(config, scaling_of_rope_is_linear_where_no_type_is_given) {
    /* clang-format off */
    const struct {
        const char *what;
        const Key  *keys;
        float       freq_scale;
    } cases[] = {
        {"a factor alone", KEYS({"rope.scaling.factor", NULL, 8.0f}), 0.125f},
        {"a factor of 0", KEYS({"rope.scaling.factor", NULL, 0.0f}), 1.0f},
        {"type none beside a factor", KEYS({"rope.scaling.type", "none", 0}, {"rope.scaling.factor", NULL, 8.0f}), 1.0f},
        {"the key of older files", KEYS({"rope.scale_linear", NULL, 4.0f}), 0.25f},
        {"both keys", KEYS({"rope.scale_linear", NULL, 4.0f}, {"rope.scaling.factor", NULL, 8.0f}), 0.125f},
        {"type none beside the older key", KEYS({"rope.scaling.type", "none", 0}, {"rope.scale_linear", NULL, 4.0f}),
         1.0f},
        {"type yarn", KEYS({"rope.scaling.type", "yarn", 0}, {"rope.scaling.factor", NULL, 2.0f}), 0.5f},
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
    OK(read_with("granite", KEYS({"attention.scale", NULL, 0.0f}), &c));
    cr_expect_eq(c.attn_scale, 0.25f, "%g", (double)c.attn_scale);
    OK(read_with("granite", KEYS({"attention.scale", NULL, 0.5f}), &c));
    cr_expect_eq(c.attn_scale, 0.5f, "%g", (double)c.attn_scale);
    REFUSED(read_with("granite", KEYS({"attention.scale", NULL, -0.5f}), &c), RP_E_FORMAT,
            "m.gguf: granite.attention.scale is -0.5, must not be negative");
}

Test(config, a_cap_of_logits_counts_in_every_family) {
    ModelConfig c;
    OK(read_with("gemma3", KEYS({"final_logit_softcapping", NULL, 20.0f}), &c));
    cr_expect_eq(c.logit_cap, 20.0f, "gemma3 with the key: %g", (double)c.logit_cap);
    OK(read_with("gemma3", KEYS({"rope.freq_base", NULL, 1e6f}), &c));
    cr_expect_eq(c.logit_cap, 0.0f, "gemma3 without it: %g", (double)c.logit_cap);
    OK(read_with("gemma2", KEYS({"rope.freq_base", NULL, 1e4f}), &c));
    cr_expect_eq(c.logit_cap, 30.0f, "gemma2 without it: %g", (double)c.logit_cap);
    OK(read_with("gemma2", KEYS({"final_logit_softcapping", NULL, 0.0f}), &c));
    cr_expect_eq(c.logit_cap, 0.0f, "gemma2 with 0: %g", (double)c.logit_cap);
    REFUSED(read_with("gemma3", KEYS({"final_logit_softcapping", NULL, -1.0f}), &c), RP_E_FORMAT,
            "m.gguf: gemma3.final_logit_softcapping is -1, must not be negative");
}
