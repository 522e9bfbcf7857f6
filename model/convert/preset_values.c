/* The metadata of a file in the shape of a preset, with a tokenizer of one token per byte. */
#include "model/convert/preset.h"

#include "model/arch_table.h"
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

enum { N_CONTROL = 3, N_BYTES = 256 };

static const PresetKey *further_key(const Preset *p, const char *key) {
    for (const PresetKey *k = p->keys; k != NULL && k->key != NULL; k++)
        if (strcmp(k->key, key) == 0) return k;
    return NULL;
}

/* Values under "<arch>.<key>". A count of 0 is left out, and so is a key that the preset has in its list. */
static void put_u32(GgufWriter *w, const Preset *p, const char *key, int32_t value) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", p->arch, key);
    if (value > 0 && further_key(p, key) == NULL) rp_gguf_put_u32(w, full, (uint32_t)value);
}

static void put_f32(GgufWriter *w, const Preset *p, const char *key, float value) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", p->arch, key);
    rp_gguf_put_f32(w, full, value);
}

static void put_further_key(GgufWriter *w, const Preset *p, const PresetKey *k) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", p->arch, k->key);
    if (k->layers != NULL) {
        rp_gguf_put_array(w, full, k->flag ? RP_GGUF_BOOL : RP_GGUF_I32, (uint64_t)p->n_layer);
        for (size_t i = 0; i < (size_t)p->n_layer; i++) {
            const bool    is    = k->layers[i % strlen(k->layers)] == 'x';
            const int32_t value = is ? (int32_t)k->u : 0;
            rp_gguf_put_element(w, k->flag ? (const void *)&is : &value, k->flag ? sizeof is : sizeof value);
        }
    } else if (k->list != NULL) {
        rp_gguf_put_array(w, full, RP_GGUF_I32, k->n);
        rp_gguf_put_element(w, k->list, k->n * sizeof *k->list);
    } else if (k->flag) {
        rp_gguf_put_bool(w, full, true);
    } else if (k->f != 0.0f) {
        rp_gguf_put_f32(w, full, k->f);
    } else {
        rp_gguf_put_u32(w, full, k->u);
    }
}

void rp_preset_put_values(GgufWriter *w, const Preset *p, const char *name, uint32_t file_type) {
    rp_gguf_put_string(w, "general.architecture", p->arch);
    rp_gguf_put_string(w, "general.name", name);
    rp_gguf_put_u32(w, "general.file_type", file_type);
    rp_gguf_put_u32(w, "general.quantization_version", 2);
    put_u32(w, p, "context_length", p->n_ctx);
    put_u32(w, p, "embedding_length", p->n_embd);
    put_u32(w, p, "block_count", p->n_layer + p->n_mtp);
    if (p->n_mtp > 0) put_u32(w, p, "nextn_predict_layers", p->n_mtp);
    put_u32(w, p, "feed_forward_length", p->n_ff);
    put_u32(w, p, "attention.head_count", p->n_head);
    put_u32(w, p, "attention.head_count_kv", p->n_head_kv);
    put_u32(w, p, "attention.key_length", p->head_dim);
    put_u32(w, p, "attention.value_length", p->head_dim);
    put_u32(w, p, "attention.sliding_window", p->window);
    put_u32(w, p, "rope.dimension_count", p->head_dim);
    put_u32(w, p, "expert_count", p->n_expert);
    put_u32(w, p, "expert_used_count", p->n_used);
    if (!rp_arch_find(p->arch, strlen(p->arch))->no_expert_length)
        put_u32(w, p, "expert_feed_forward_length", p->n_ff_expert);
    put_f32(w, p, "attention.layer_norm_rms_epsilon", p->eps > 0.0f ? p->eps : 1e-5f);
    put_f32(w, p, "rope.freq_base", rp_preset_rope_base(p));
    if (p->yarn_factor > 0.0f) {
        char key[128];
        snprintf(key, sizeof key, "%s.rope.scaling.type", p->arch);
        rp_gguf_put_string(w, key, "yarn");
        put_f32(w, p, "rope.scaling.factor", p->yarn_factor);
        put_u32(w, p, "rope.scaling.original_context_length", p->yarn_ctx);
    }
    for (const PresetKey *k = p->keys; k != NULL && k->key != NULL; k++) put_further_key(w, p, k);
}

/* Tokens: 3 control tokens, 256 byte tokens, and unused ones up to the size of the vocabulary. */
void rp_preset_put_byte_tokenizer(GgufWriter *w, int32_t n) {
    enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6 };
    static const char *const control[N_CONTROL] = {"<unk>", "<s>", "</s>"};
    const float              score              = 0.0f;
    rp_gguf_put_string(w, "tokenizer.ggml.model", "llama");
    rp_gguf_put_array(w, "tokenizer.ggml.tokens", RP_GGUF_STRING, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        if (i < N_CONTROL)
            snprintf(text, sizeof text, "%s", control[i]);
        else if (i < N_CONTROL + N_BYTES)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - N_CONTROL));
        else
            snprintf(text, sizeof text, "<unused%d>", i);
        rp_gguf_put_text(w, text, strlen(text));
    }
    rp_gguf_put_array(w, "tokenizer.ggml.scores", RP_GGUF_F32, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) rp_gguf_put_element(w, &score, sizeof score);
    rp_gguf_put_array(w, "tokenizer.ggml.token_type", RP_GGUF_I32, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t kind = i == 0 ? UNKNOWN : (i < N_CONTROL ? CONTROL : (i < N_CONTROL + N_BYTES ? BYTE : UNUSED));
        rp_gguf_put_element(w, &kind, sizeof kind);
    }
    rp_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    rp_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    rp_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    rp_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    rp_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
}

RpStatus rp_preset_config(const Preset *p, RpGgufFile **file, ModelConfig *out) {
    GgufWriter *w;
    *file = NULL;
    RP_TRY(rp_gguf_writer_memory(p->name, &w));
    rp_preset_put_values(w, p, p->name, 0);
    const RpStatus st = rp_gguf_writer_read(w, file);
    rp_gguf_writer_drop(w);
    RP_TRY(st);
    return rp_config_read(*file, out);
}
