/* WordPiece against Hugging Face's package `tokenizers`, for many strings: with lower case and without accents, and as
 * they are. */
#include "tests/support/gguf_writer.h"
#include "tests/support/golden_texts.h"

Test(wordpiece, texts_have_the_ids_of_hugging_face) { golden_check_texts("wordpiece", "wordpiece"); }
Test(wordpiece, cased_texts_have_the_ids_of_hugging_face) { golden_check_texts("wordpiece", "wordpiece-cased"); }

Test(wordpiece, special_tokens_stand_around_a_text) {
    RpTokenizer *tk  = golden_tokenizer("wordpiece", "wordpiece");
    RpTokenList  ids = {0};
    RpGgufString bytes;
    OK(rp_tokenize(tk, "[MASK]", 6, RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, &ids));
    cr_assert_eq(ids.n, (size_t)3);
    cr_expect(ids.ids[0] == 2 && ids.ids[1] == 4 && ids.ids[2] == 3);
    ids.n = 0;
    OK(rp_tokenize(tk, "[MASK]", 6, 0, &ids)); /* plain text */
    for (size_t i = 0; i < ids.n; i++) cr_expect_neq(ids.ids[i], 4, CASE(i));
    cr_expect_str_eq(rp_tokenizer_kind(tk), "bert");
    OK(rp_token_bytes(tk,
                      rp_tokenizer_find(tk, "\xe2\x96\x81"
                                            "a"),
                      false, &bytes));
    cr_expect(bytes.len == 2 && memcmp(bytes.ptr, " a", 2) == 0);
    OK(rp_token_bytes(tk, rp_tokenizer_find(tk, "a"), false, &bytes));
    cr_expect(bytes.len == 1 && bytes.ptr[0] == 'a');
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
}

Test(wordpiece, bytes_that_are_not_utf_8_are_left_out) {
    RpTokenizer *tk = golden_tokenizer("wordpiece", "wordpiece");
    RpTokenList  a = {0}, b = {0};
    OK(rp_tokenize(tk,
                   "a\xff"
                   "b \xc3",
                   5, 0, &a));
    OK(rp_tokenize(tk, "ab ", 3, 0, &b));
    cr_expect(a.n == b.n && memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0);
    rp_token_list_free(&a);
    rp_token_list_free(&b);
    rp_tokenizer_free(tk);
}

Test(wordpiece, a_word_without_tokens_needs_the_unknown_token) {
    static const char *const tokens[] = {"\xe2\x96\x81"
                                         "a"};
    Bytes                    b        = {0};
    RpGgufFile              *f;
    RpTokenizer             *tk;
    RpTokenList              ids = {0};
    put_header(&b, 3, 0, 2);
    put_key_string(&b, "tokenizer.ggml.model", "bert");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 1);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    OK(rp_tokenize(tk, "a A", 3, 0, &ids));
    cr_expect_eq(ids.n, (size_t)2);
    REFUSED(rp_tokenize(tk, "a b", 3, 0, &ids), RP_E_UNSUPPORTED,
            "the tokenizer has no unknown token, which a word needs");
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    free(b.p);
}
