/* Unigram vocabularies of GGUF files, with a precompiled map of characters, against SentencePiece, for many strings.
 * Those of Hugging Face directories are in test_hf_tokenizer. */
#include "tests/support/gguf_writer.h"
#include "tests/support/golden_texts.h"

Test(unigram, texts_have_the_ids_of_sentencepiece) { golden_check_texts("unigram", "unigram"); }
Test(unigram, with_bytes_and_all_spaces) { golden_check_texts("unigram", "unigram-bytes"); }

Test(unigram, special_tokens_stand_around_a_text) {
    RpTokenizer *tk  = golden_tokenizer("unigram", "unigram");
    RpTokenList  ids = {0};
    OK(rp_tokenize(tk, "a", 1, RP_TOK_ADD_SPECIAL, &ids));
    cr_assert_geq(ids.n, (size_t)3);
    cr_expect(ids.ids[0] == 1 && ids.ids[ids.n - 1] == 2);
    cr_expect_str_eq(rp_tokenizer_kind(tk), "t5");
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
}

/* ---- maps of characters ---- */

static const char *const tokens[] = {"<unk>", "\xe2\x96\x81", "a", "b"};

/* A vocabulary with a map of these bytes. */
static RpStatus open_map(const void *map, size_t n, RpGgufType type, RpTokenizer **tk) {
    static const float scores[] = {0.0f, -1.0f, -2.0f, -3.0f};
    static const float types[]  = {2.0f, 1.0f, 1.0f, 1.0f};
    Bytes              b        = {0};
    RpGgufFile        *f;
    put_header(&b, 3, 0, 6);
    put_key_string(&b, "tokenizer.ggml.model", "t5");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, scores, 4);
    put_key_array(&b, "tokenizer.ggml.token_type", RP_GGUF_F32, types, 4);
    put_key_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    put_key(&b, "tokenizer.ggml.precompiled_charsmap", RP_GGUF_ARRAY);
    put_u32(&b, type);
    put_u64(&b, n);
    put_bytes(&b, map, n);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    const RpStatus st = rp_tokenizer_new(f, tk);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

/* Bytes of the nodes, nodes, replacements. Node 0 has the base 0: byte 'a' (97) leads to node 97. */
typedef struct Map {
    uint32_t bytes, nodes[128];
    char     text[4];
} Map;

Test(unigram, a_damaged_map_is_an_error) {
    Map          map = {.bytes = sizeof map.nodes, .text = "b"};
    RpTokenizer *tk;
    RpTokenList  ids = {0};
    map.nodes['a']   = 'a' | 1u << 8 | 1u << 10; /* a leaf in node 97 ^ 1, which has place 0 */
    OK(open_map(&map, sizeof map, RP_GGUF_U8, &tk));
    OK(rp_tokenize(tk, "a", 1, 0, &ids));
    cr_assert_eq(ids.n, (size_t)2);
    cr_expect_eq(ids.ids[1], 3, "a became b");
    rp_tokenizer_free(tk);
    map.nodes['a' ^ 1] = 4; /* a place behind the end */
    OK(open_map(&map, sizeof map, RP_GGUF_U8, &tk));
    REFUSED(rp_tokenize(tk, "a", 1, 0, &ids), RP_E_FORMAT, "tokenizer.ggml.precompiled_charsmap is damaged");
    rp_tokenizer_free(tk);
    map.nodes['a'] = 'a' | 1u << 8 | 500u << 10; /* a leaf beyond the nodes */
    OK(open_map(&map, sizeof map, RP_GGUF_U8, &tk));
    REFUSED(rp_tokenize(tk, "a", 1, 0, &ids), RP_E_FORMAT, "tokenizer.ggml.precompiled_charsmap is damaged");
    rp_tokenizer_free(tk);
    rp_token_list_free(&ids);
    REFUSED(open_map(&map, 4, RP_GGUF_U8, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.ggml.precompiled_charsmap is not an array of bytes");
    map.bytes = sizeof map.nodes + 4;
    REFUSED(open_map(&map, sizeof map, RP_GGUF_U8, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.ggml.precompiled_charsmap has 516 bytes of nodes in 520");
}
