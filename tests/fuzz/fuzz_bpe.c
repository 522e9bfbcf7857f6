/* Fuzz target: a tokenizer is trained on any texts.
 *     byte 0  size of the vocabulary, from 250 on      then  texts, each ended by byte 0
 * What it writes is a tokenizer: tokens 1 to 256 are the bytes, each merge joins two tokens into a later one, and every
 * text comes back byte for byte, in no more tokens than bytes. The same texts give the same file. */
#include "tests/fuzz/file_edit.h"

#include "reprise/convert.h"
#include "reprise/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXTS = 16, LEAST = 257 };

static void round_trip(const RpTokenizer *tk, RpGgufString text) {
    RpTokenList ids = {0};
    size_t      at  = 0;
    fuzz_expect(rp_tokenize(tk, text.ptr, text.len, 0, &ids) == RP_OK, "a text cannot be tokenised");
    fuzz_expect(ids.n <= text.len, "more tokens than bytes");
    for (size_t i = 0; i < ids.n; i++) {
        RpGgufString s;
        fuzz_expect(rp_token_bytes(tk, ids.ids[i], false, &s) == RP_OK, "a token without bytes");
        fuzz_expect(s.len <= text.len - at && memcmp(text.ptr + at, s.ptr, s.len) == 0, "another text comes back");
        at += s.len;
    }
    fuzz_expect(at == text.len, "a part of the text comes back");
    rp_token_list_free(&ids);
}

static int64_t find(const RpGgufValue *tokens, const char *text, size_t len) {
    for (uint64_t i = 0; i < tokens->n; i++) {
        const RpGgufString s = rp_gguf_string_at(tokens, i);
        if (s.len == len && memcmp(s.ptr, text, len) == 0) return (int64_t)i;
    }
    return -1;
}

/* Merge i is "left right", and token 257 + i is both together. */
static void check_merges(const RpGgufFile *f, int32_t n_vocab) {
    const RpGgufValue *tokens = rp_gguf_find(f, "tokenizer.ggml.tokens"),
                      *merges = rp_gguf_find(f, "tokenizer.ggml.merges");
    fuzz_expect(tokens != NULL && tokens->n >= LEAST && tokens->n <= (uint64_t)n_vocab, "the number of tokens");
    const uint64_t n = merges != NULL ? merges->n : 0;
    fuzz_expect(tokens->n == LEAST + n, "a token for each merge");
    for (uint64_t i = 0; i < n; i++) {
        const RpGgufString m = rp_gguf_string_at(merges, i), t = rp_gguf_string_at(tokens, LEAST + i);
        const char        *space = memchr(m.ptr, ' ', m.len);
        fuzz_expect(space != NULL && t.len == m.len - 1, "a merge of two tokens");
        const size_t  left = (size_t)(space - m.ptr), right = m.len - left - 1;
        const int64_t a = find(tokens, m.ptr, left), b = find(tokens, space + 1, right);
        fuzz_expect(a > 0 && b > 0 && a < LEAST + (int64_t)i && b < LEAST + (int64_t)i, "a merge of later tokens");
        fuzz_expect(memcmp(t.ptr, m.ptr, left) == 0 && memcmp(t.ptr + left, space + 1, right) == 0, "its token");
    }
}

static size_t split(const uint8_t *data, size_t size, RpGgufString *texts) {
    size_t n = 0;
    for (size_t at = 0; at < size && n < MAX_TEXTS; n++) {
        const uint8_t *end = memchr(data + at, 0, size - at);
        const size_t   len = end != NULL && n + 1 < MAX_TEXTS ? (size_t)(end - data) - at : size - at;
        texts[n]           = (RpGgufString){(const char *)data + at, len};
        at += len + 1;
    }
    return n;
}

static char *contents(const char *path, size_t *n) {
    FILE *in = fopen(path, "rb");
    char *p  = malloc(FUZZ_MAX_BYTES);
    fuzz_expect(in != NULL && p != NULL, "the file cannot be read");
    *n = fread(p, 1, FUZZ_MAX_BYTES, in);
    fclose(in);
    return p;
}

static void check_same(const char *path, const char *again) {
    size_t n, n_again;
    char  *a = contents(path, &n), *b = contents(again, &n_again);
    fuzz_expect(n == n_again && memcmp(a, b, n) == 0, "the same texts gave another file");
    free(a), free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char         path[64], again[64];
    RpGgufString texts[MAX_TEXTS];
    RpGgufFile  *f;
    RpTokenizer *tk;
    if (size < 1) return 0;
    const RpTrainTokenizerOptions o     = {.n_vocab = 250 + data[0] % 128};
    const size_t                  n     = split(data + 1, size - 1, texts);
    size_t                        bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += texts[i].len;
    fuzz_path(path, "bpe.gguf"), fuzz_path(again, "bpe-2.gguf");
    const RpStatus st = rp_train_tokenizer(texts, n, &o, path);
    fuzz_expect(st == (bytes == 0 || o.n_vocab < LEAST ? RP_E_ARG : RP_OK), "the tokenizer");
    if (st == RP_OK) {
        fuzz_expect(rp_train_tokenizer(texts, n, &o, again) == RP_OK, "not a second time");
        check_same(path, again);
        fuzz_expect(rp_gguf_open(path, &f) == RP_OK && rp_tokenizer_new(f, &tk) == RP_OK, "the file does not open");
        check_merges(f, o.n_vocab);
        for (size_t i = 0; i < n; i++) round_trip(tk, texts[i]);
        rp_tokenizer_free(tk);
        rp_gguf_close(f);
        unlink(path), unlink(again);
    }
    fuzz_expect(access(path, F_OK) != 0, "a file is left behind after a failure");
    return 0;
}
