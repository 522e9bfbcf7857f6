/* Fuzz target: any text, with a BPE and a SentencePiece vocabulary.
 *     byte 0: bit 0 the vocabulary, bits 1 and 2 the flags, bits 3 to 7 the mask     bytes 1 and up: the text
 * Plain text through BPE must come back byte for byte, with control tokens only where the mask allows them. */
#include "reprise/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static RpTokenizer *tokenizers[2];

static void load(void) {
    static const char *const files[2] = {RP_SOURCE_DIR "/tests/golden/tokenizer/smollm.gguf",
                                         RP_SOURCE_DIR "/tests/golden/tokenizer/spm.gguf"};
    for (int i = 0; i < 2; i++) {
        RpGgufFile *f;
        if (rp_gguf_open(files[i], &f) != RP_OK || rp_tokenizer_new(f, &tokenizers[i]) != RP_OK) {
            fprintf(stderr, "%s\n", rp_last_error());
            exit(1);
        }
        rp_gguf_close(f);
    }
}

/* Which bytes may be part of a control token: all but each n-th, for n = 0 none. */
static bool *mask_of(size_t size, size_t n) {
    bool *mask = malloc(size + 1);
    if (mask == NULL) exit(1);
    for (size_t i = 0; i < size; i++) mask[i] = n > 0 && i % n != n - 1;
    return mask;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (tokenizers[0] == NULL) load();
    if (size == 0) return 0;
    const RpTokenizer *tk    = tokenizers[data[0] & 1];
    const unsigned     flags = data[0] >> 1 & 3;
    const bool         exact = flags == 0 && (data[0] & 1) == 0; /* SentencePiece cannot tell U+2581 from a space */
    const char        *text  = (const char *)data + 1;
    RpTokenList        ids   = {0};
    RpUtf8Stream       u     = {0};
    size_t             at    = 0;
    char               out[8192];
    size--;
    bool *mask = mask_of(size, data[0] >> 3);
    if (rp_tokenize_masked(tk, text, mask, size, flags, &ids) != RP_OK) __builtin_trap();
    for (size_t i = 0; i < ids.n; i++) {
        RpGgufString s;
        if (rp_token_bytes(tk, ids.ids[i], true, &s) != RP_OK) __builtin_trap();
        if (s.len < 1024) (void)rp_utf8_feed(&u, s.ptr, s.len, out);
        if (!exact) continue;
        if (s.len > size - at || memcmp(text + at, s.ptr, s.len) != 0) __builtin_trap();
        if (rp_tokenizer_is_control(tk, ids.ids[i]) && memchr(mask + at, false, s.len) != NULL) __builtin_trap();
        at += s.len;
    }
    if (exact && at != size) __builtin_trap();
    rp_token_list_free(&ids);
    free(mask);
    return 0;
}
