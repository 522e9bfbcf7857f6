/* edited_model.h - the demo model with the marks of a format of replies as tokens. */
#ifndef TESTS_EDITED_MODEL_H
#define TESTS_EDITED_MODEL_H

#include "model/chat/parser.h"
#include "tests/support/golden.h"

#include <stdlib.h>
#include <string.h>

enum { N_EDITED = 60 };

/* The bytes of the model, with a context of 1024 tokens. The caller frees them. */
static inline char *demo_file(size_t *bytes) {
    FILE *f = fopen(RP_SOURCE_DIR "/assets/demo.gguf", "rb");
    cr_assert(f != NULL);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *file = aligned_alloc(64, (*bytes + 63) / 64 * 64);
    cr_assert_eq(fread(file, 1, *bytes, f), *bytes);
    fclose(f);
    char *context = memmem(file, *bytes, "qwen3moe.context_length", 23);
    memcpy(context + 23 + 4, &(uint32_t){1024}, 4);
    return file;
}

/* Marks that are one token in the vocabularies of the models. */
static inline bool is_token(const char *mark) {
    const char last = mark[strlen(mark) - 1];
    return (mark[0] == '<' || mark[0] == '[') && (last == '>' || last == ']');
}

/* The last tokens of the vocabulary become the marks. Their texts have as many bytes together as before: the last one
 * takes what is left. */
static inline void edit_vocabulary(char *copy, size_t file_bytes, const char *calls, const char *reasoning,
                                   uint32_t type) {
    const ReplyFormat *formats[2];
    RpGgufFile        *f;
    OK(rp_reply_format_of(calls, &formats[0]));
    OK(rp_reasoning_format_of(reasoning, &formats[1]));
    OK(rp_gguf_open_memory(copy, file_bytes, "copy", &f));
    const RpGgufValue *tokens = rp_gguf_find(f, "tokenizer.ggml.tokens");
    const size_t       first  = (size_t)tokens->n - N_EDITED;
    char              *at = copy + (rp_gguf_string_at(tokens, first).ptr - 8 - copy), *types = copy;
    types     = copy + ((const char *)rp_gguf_find(f, "tokenizer.ggml.token_type")->data - copy);
    size_t id = first, bytes = 0;
    for (size_t i = first; i < tokens->n; i++) bytes += rp_gguf_string_at(tokens, i).len;
    rp_gguf_close(f);
    for (int k = 0; k < 2; k++)
        for (int m = 0; m < N_MARKS; m++) {
            const char *mark = formats[k]->marks[m];
            if (mark == NULL || !is_token(mark)) continue;
            bool again = false;
            for (int n = 0; n < m; n++) again |= formats[k]->marks[n] != NULL && !strcmp(formats[k]->marks[n], mark);
            if (again || !strcmp(mark, "<|end|>")) continue;
            const uint64_t n = strlen(mark);
            memcpy(at, &n, 8), memcpy(at + 8, mark, n);
            memcpy(types + 4 * id++, &type, 4);
            at += 8 + n, bytes -= n;
        }
    for (; id < first + N_EDITED; id++) {
        const uint64_t left = first + N_EDITED - id, n = left > 1 ? 5 : bytes;
        memcpy(at, &n, 8);
        memset(at + 8, 'z', n);
        snprintf(at + 8, 6, "~%03zu", id - first), at[12] = 'z';
        at += 8 + n, bytes -= n;
    }
}

#endif
