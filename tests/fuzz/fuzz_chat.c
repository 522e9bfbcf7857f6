/* Fuzz target: a damaged vocabulary and chat template, with foreign messages. Bytes of the input as in file_edit.h; the
 * options are
 *     1 messages, modulo 6    2 chat format    3 flags of rp_tokenize    4 number of edits; the rest is the messages
 * A vocabulary may be refused. One that opened takes every text, or says why not, and its ids give bytes again. */
#include "tests/fuzz/file_edit.h"

#include "reprise/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

enum { MAX_MESSAGES = 6, MAX_TEXT = 400 };

static void expect(bool ok) {
    if (!ok) __builtin_trap();
}

/* Bytes of head and edits; the messages follow. */
static size_t edits_end(const uint8_t *data, size_t size) {
    const size_t n = FUZZ_HEAD + (size > 4 ? data[4] % 8u : 0) * FUZZ_EDIT;
    return n < size ? n : size;
}

/* Half of the mutations change the messages, the other half the file. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    uint8_t      edits[FUZZ_HEAD + 8 * FUZZ_EDIT] = {0}, text[MAX_TEXT];
    const size_t end                              = edits_end(data, size);
    size_t       n_text = size - end < MAX_TEXT ? size - end : MAX_TEXT, n_edits = end;
    memcpy(edits, data, end);
    memcpy(text, data + end, n_text);
    if (seed % 2 == 0 && n_text > 0)
        n_text = LLVMFuzzerMutate(text, n_text, MAX_TEXT);
    else
        n_edits = fuzz_mutate(edits, n_edits, FUZZ_HEAD + 7 * FUZZ_EDIT, seed);
    if (n_edits < FUZZ_HEAD) n_edits = FUZZ_HEAD;
    edits[4] = (uint8_t)((n_edits - FUZZ_HEAD) / FUZZ_EDIT);
    if (n_text == 0) memcpy(text, "hi\0there", n_text = 8);
    if (n_edits > room) return size;
    if (n_text > room - n_edits) n_text = room - n_edits;
    memcpy(data, edits, n_edits);
    memcpy(data + n_edits, text, n_text);
    return n_edits + n_text;
}

static void there_and_back(const RpTokenizer *tk, const char *text, unsigned flags) {
    RpTokenList  ids = {0};
    RpUtf8Stream u   = {0};
    if (rp_tokenize(tk, text, strlen(text), flags & 3, &ids) == RP_OK) {
        for (size_t i = 0; i < ids.n; i++) {
            RpGgufString s;
            expect(ids.ids[i] >= 0 && ids.ids[i] < rp_tokenizer_n_vocab(tk));
            expect(rp_token_bytes(tk, ids.ids[i], (flags & 4) != 0, &s) == RP_OK);
            char *out = malloc(4 * s.len + 16);
            if (out != NULL) expect(rp_utf8_feed(&u, s.ptr, s.len, out) <= 4 * s.len + 16);
            free(out);
            (void)rp_tokenizer_is_end(tk, ids.ids[i]), (void)rp_tokenizer_is_control(tk, ids.ids[i]);
        }
    }
    rp_token_list_free(&ids);
}

/* The messages are the parts of the text between NULs, with roles in a legal order. */
static void converse(const RpTokenizer *tk, RpChatKind kind, const char *text, size_t n, size_t n_messages, bool system,
                     unsigned flags) {
    RpChatMessage messages[MAX_MESSAGES];
    const char   *end  = text + n;
    char         *chat = NULL;
    for (size_t i = 0; i < n_messages; i++) {
        messages[i].role = system && i == 0 ? "system" : (i - system) % 2 == 0 ? "user" : "assistant";
        messages[i].text = text;
        if (text < end) text += strlen(text) + 1;
        if (text > end) text = end;
    }
    const RpStatus st = rp_chat_format(kind, messages, n_messages, &chat);
    expect(st == RP_OK ? chat != NULL : st == RP_E_ARG && chat == NULL);
    if (st == RP_OK) there_and_back(tk, chat, flags);
    free(chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t      head[FUZZ_HEAD] = {0};
    const size_t end             = edits_end(data, size);
    FuzzFile     f;
    RpGgufFile  *g;
    RpTokenizer *tk;
    RpChatKind   kind = RP_CHAT_CHATML;
    memcpy(head, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    fuzz_file_make(&f, fuzz_vocabulary, data, end);
    if (rp_gguf_open_memory(f.bytes, f.n, "fuzz", &g) == RP_OK) {
        char *text = calloc(1, size - end + 1);
        if (rp_chat_detect(g, &kind) != RP_OK) kind = (RpChatKind)(head[2] % 6);
        if (text != NULL && rp_tokenizer_new(g, &tk) == RP_OK) {
            rp_gguf_close(g); /* the tokenizer has copied what it needs */
            g = NULL;
            if (end < size) memcpy(text, data + end, size - end);
            there_and_back(tk, text, head[3] & 7);
            converse(tk, kind, text, size - end, head[1] % MAX_MESSAGES, (head[3] & 8) != 0, head[3] & 7);
            rp_tokenizer_free(tk);
        }
        free(text);
        rp_gguf_close(g);
    }
    fuzz_file_free(&f);
    return 0;
}
