/* Vocabularies as older converters wrote them: keys that are absent, or say what llama.cpp does not obey. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

static RpTokenizer *open_vocabulary(Bytes *b) {
    RpGgufFile  *f;
    RpTokenizer *tk;
    put_data(b, 0);
    OK(rp_gguf_open_memory(b->p, b->n, "v.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    rp_gguf_close(f);
    free(b->p);
    return tk;
}

static void expect_ids(const RpTokenizer *tk, const char *text, const int32_t *want, size_t n) {
    RpTokenList ids = {0};
    OK(rp_tokenize(tk, text, strlen(text), RP_TOK_ADD_SPECIAL, &ids));
    cr_assert_eq(ids.n, n, "%s: %zu ids", text, ids.n);
    for (size_t i = 0; i < n; i++) cr_expect_eq(ids.ids[i], want[i], "%s: id %zu is %d", text, i, ids.ids[i]);
    rp_token_list_free(&ids);
}

/* Without the ids of special tokens, and without types: bytes are found by their text. */
Test(old_vocabularies, sentencepiece_without_ids_and_types) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x0A>", "<0x78>", "a", "\xe2\x96\x81"};
    const float              scores[] = {0, 0, 0, 0, 0, 0, 0};
    Bytes                    b        = {0};
    put_header(&b, 3, 0, 3);
    put_key_string(&b, "tokenizer.ggml.model", "llama");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 7);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, scores, 7);
    RpTokenizer *tk = open_vocabulary(&b);
    cr_expect_eq(rp_tokenizer_bos(tk), 1);
    cr_expect_eq(rp_tokenizer_eos(tk), 2);
    cr_expect(rp_tokenizer_is_end(tk, 2));
    expect_ids(tk, "a\nxz", (const int32_t[]){1, 6, 5, 3, 4, 0}, 6); /* z: the unknown token */
    rp_tokenizer_free(tk);
}

/* BERT has [CLS] in front and [SEP] behind, whatever the keys say. */
Test(old_vocabularies, wordpiece_obeys_no_key) {
    static const char *const tokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xe2\x96\x81hello"};
    Bytes                    b        = {0};
    put_header(&b, 3, 0, 7);
    put_key_string(&b, "tokenizer.ggml.model", "bert");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 5);
    put_key_u32(&b, "tokenizer.ggml.bos_token_id", 2);
    put_key_u32(&b, "tokenizer.ggml.seperator_token_id", 3);
    put_key_u32(&b, "tokenizer.ggml.unknown_token_id", 1);
    put_key(&b, "tokenizer.ggml.add_bos_token", RP_GGUF_BOOL);
    put_bytes(&b, "\0", 1);
    put_key(&b, "tokenizer.ggml.add_eos_token", RP_GGUF_BOOL);
    put_bytes(&b, "\1", 1);
    RpTokenizer *tk = open_vocabulary(&b);
    expect_ids(tk, "hello", (const int32_t[]){2, 4, 3}, 3);
    rp_tokenizer_free(tk);
}

/* A token that is not written in the byte alphabet has the bytes of a later one that is: U+200D. */
Test(old_vocabularies, tokens_of_the_byte_alphabet_come_first) {
    static const char *const tokens[] = {
        "<|end|>", "\xe2\x80\x8d", "\xc3\xa2", "\xc4\xa2", "\xc4\xaf", "\xc3\xa2\xc4\xa2", "\xc3\xa2\xc4\xa2\xc4\xaf"};
    static const char *const merges[] = {"\xc3\xa2 \xc4\xa2", "\xc3\xa2\xc4\xa2 \xc4\xaf"};
    Bytes                    b        = {0};
    put_header(&b, 3, 0, 4);
    put_key_string(&b, "tokenizer.ggml.model", "gpt2");
    put_key_string(&b, "tokenizer.ggml.pre", "gpt-2");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 7);
    put_key_strings(&b, "tokenizer.ggml.merges", merges, 2);
    RpTokenizer *tk = open_vocabulary(&b);
    expect_ids(tk, "\xe2\x80\x8d", (const int32_t[]){6}, 1);
    rp_tokenizer_free(tk);
}
