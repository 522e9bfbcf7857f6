/* Names of Hugging Face in errors (origin.h). */
#include "model/hf/origin.h"

#include "model/gguf/gguf_file.h"
#include "model/hf/hf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *key, *name;
} keys[] = {
    {"block_count",             "num_hidden_layers"                                 },
    {"embedding_length",        "hidden_size"                                       },
    {"context_length",          "max_position_embeddings"                           },
    {"feed_forward_length",     "intermediate_size"                                 },
    {"attention.head_count",    "num_attention_heads"                               },
    {"attention.head_count_kv", "num_key_value_heads"                               },
    {"attention.key_length",    "head_dim"                                          },
    {"attention.value_length",  "head_dim"                                          },
    {"expert_count",            "num_experts, num_local_experts or n_routed_experts"},
    {"expert_used_count",       "num_experts_per_tok"                               },
};

static bool is_of_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* The first name with a dot inside; an empty one at the end of the text. A dot behind it does not belong to it. */
static RpGgufString next_name(const char *text) {
    for (const char *end; *text != '\0'; text = end) {
        while (*text != '\0' && !is_of_name(*text)) text++;
        for (end = text; is_of_name(*end);) end++;
        if (memchr(text, '.', (size_t)(end - text)) != NULL) return (RpGgufString){text, (size_t)(end - text)};
    }
    return (RpGgufString){text, 0};
}

static bool origin_of(const HfFamily *f, RpGgufString name, char out[HF_NAME_BYTES]) {
    const size_t n = strlen(f->arch) + 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && name.len > n; i++) {
        if (name.len - n != strlen(keys[i].key) || memcmp(name.ptr + n, keys[i].key, name.len - n) != 0) continue;
        snprintf(out, HF_NAME_BYTES, "%s in config.json", keys[i].name);
        return true;
    }
    return rp_hf_name_of(f, name, out);
}

RpStatus rp_hf_name_origin(const RpGgufFile *f, RpStatus st) {
    char         text[1024], origin[HF_NAME_BYTES];
    const size_t path = strlen(f->path);
    if (f->parts.family == NULL || strncmp(rp_last_error(), f->path, path) != 0) return st;
    snprintf(text, sizeof text, "%s", rp_last_error());
    for (RpGgufString name = next_name(text + path); name.len > 0; name = next_name(name.ptr + name.len))
        if (origin_of(f->parts.family, name, origin)) return rp_fail(st, "%s (%s)", text, origin);
    return st;
}
