/* vocabulary.h - vocabularies of tests/golden/tokenizer with further tokens. */
#ifndef TESTS_VOCABULARY_H
#define TESTS_VOCABULARY_H

#include "tests/support/gguf_writer.h"

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 }; /* tokenizer.ggml.token_type */

/* Tokens that are added to a vocabulary of tests/golden/tokenizer. */
typedef struct Added {
    const char *text;
    int32_t     type;
    float       score; /* SentencePiece */
} Added;

static inline void copy_value(Bytes *b, const RpGgufFile *f, const char *key) {
    const RpGgufValue *v = rp_gguf_find(f, key);
    put_key(b, key, v->type);
    if (v->type == RP_GGUF_STRING) {
        const RpGgufString s = rp_gguf_string_at(v, 0);
        put_u64(b, s.len), put_bytes(b, s.ptr, s.len);
    } else {
        put_bytes(b, v->data, v->type == RP_GGUF_BOOL ? 1 : 4);
    }
}

/* An array of strings, with the added texts at its end. */
static inline void put_texts(Bytes *b, const RpGgufFile *f, const char *key, const Added *added, size_t n) {
    const RpGgufValue *v      = rp_gguf_find(f, key);
    const void        *cursor = v->data;
    put_key(b, key, RP_GGUF_ARRAY);
    put_u32(b, RP_GGUF_STRING), put_u64(b, v->n + n);
    for (uint64_t i = 0; i < v->n; i++) {
        const RpGgufString s = rp_gguf_next_string(&cursor);
        put_u64(b, s.len), put_bytes(b, s.ptr, s.len);
    }
    for (size_t i = 0; i < n; i++) put_string(b, added[i].text);
}

/* An array of numbers of 4 bytes: types or scores. */
static inline void put_numbers(Bytes *b, const RpGgufFile *f, const char *key, const Added *added, size_t n) {
    const RpGgufValue *v = rp_gguf_find(f, key);
    put_key(b, key, RP_GGUF_ARRAY);
    put_u32(b, v->elem_type), put_u64(b, v->n + n), put_bytes(b, v->data, 4 * v->n);
    for (size_t i = 0; i < n; i++)
        put_bytes(b, v->elem_type == RP_GGUF_F32 ? (const void *)&added[i].score : &added[i].type, 4);
}

/* A vocabulary of tests/golden/tokenizer with more tokens at its end. */
static inline RpTokenizer *vocabulary(const char *name, const Added *added, size_t n) {
    static const char *const keys[] = {"tokenizer.ggml.model",           "tokenizer.ggml.pre",
                                       "tokenizer.ggml.bos_token_id",    "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.add_bos_token",   "tokenizer.ggml.unknown_token_id",
                                       "tokenizer.ggml.add_space_prefix"};
    char                     path[1024];
    Bytes                    b = {0};
    RpGgufFile              *f, *g;
    RpTokenizer             *tk;
    snprintf(path, sizeof path, GOLDEN_DIR "tokenizer/%s.gguf", name);
    OK(rp_gguf_open(path, &f));
    const bool spm      = rp_gguf_find(f, "tokenizer.ggml.scores") != NULL;
    uint64_t   n_values = 3;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) n_values += rp_gguf_find(f, keys[i]) != NULL;
    put_header(&b, 3, 0, n_values);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (rp_gguf_find(f, keys[i]) != NULL) copy_value(&b, f, keys[i]);
    put_texts(&b, f, "tokenizer.ggml.tokens", added, n);
    put_numbers(&b, f, "tokenizer.ggml.token_type", added, n);
    if (spm)
        put_numbers(&b, f, "tokenizer.ggml.scores", added, n);
    else
        put_texts(&b, f, "tokenizer.ggml.merges", NULL, 0);
    OK(rp_gguf_open_memory(b.p, b.n, name, &g));
    OK(rp_tokenizer_new(g, &tk));
    rp_gguf_close(g), rp_gguf_close(f);
    free(b.p);
    return tk;
}

#endif
