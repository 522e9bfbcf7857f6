/* The normalizer of tokenizer.json: what is refused, by its name, and the keys of GGUF that it becomes. Token ids are
 * compared with those of the package tokenizers in test_hf_tokenizer. */
#include "tests/support/gguf_writer.h"
#include "tests/support/hf_folder.h"

/* The tokenizer of a golden directory with a text of tokenizer.json replaced. */
static RpStatus open_tokenizer(const char *dir, const char *from, const char *to) {
    RpGgufFile  *f;
    RpTokenizer *tk = NULL;
    hf_change(dir, "config.json", NULL, NULL);
    hf_copy_weights(dir);
    hf_change(dir, "tokenizer.json", from, to);
    RpStatus st = rp_gguf_open(folder, &f);
    if (st != RP_OK) return st;
    st = rp_tokenizer_new(f, &tk);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    return st;
}

static void refuse(const char *dir, const char *from, const char *to, RpStatus status, const char *text) {
    hf_begin();
    REFUSED(open_tokenizer(dir, from, to), status, text);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

#define NORMALIZER(steps) "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" steps "]}"
#define NFC               "{\"type\":\"NFC\"}"
#define MARK              "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define EIGHT(x)          x "," x "," x "," x "," x "," x "," x "," x

Test(hf_normalizer, steps_that_are_refused) {
    static const char none[] = "\"normalizer\":null", gpt2[] = "hf_tokenizers/gpt2",
                      words[] = "hf_tokenizers/words-never";
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Nmt\"}"), RP_E_UNSUPPORTED, "normalizer 'Nmt' is not supported");
    refuse(words, none, NORMALIZER(MARK "," NFC), RP_E_UNSUPPORTED,
           "a normalizer behind U+2581 for spaces 'NFC' is not supported");
    refuse(gpt2, none, NORMALIZER(EIGHT(NFC) "," EIGHT(NFC) "," NFC), RP_E_UNSUPPORTED,
           "a normalizer of more than 16 steps");
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"content\":\"\"}"),
           RP_E_UNSUPPORTED, "the expression '[a&&b]' is not supported: intersections of classes");
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a*\"},\"content\":\"b\"}"),
           RP_E_UNSUPPORTED, "normalizer 'replace': 'a*' matches the empty text, which is not supported");
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a(\"},\"content\":\"b\"}"),
           RP_E_NOT_AVAILABLE, "normalizer 'replace': this PCRE2 does not compile its expressions");
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}"),
           RP_E_FORMAT, "a Replace has no pattern");
    refuse(gpt2, none, NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), RP_E_FORMAT,
           "a Replace has no content");
}

Test(hf_normalizer, maps_of_characters_that_are_refused) {
    static const char map[] = "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}",
                      bge[] = "hf_tokenizers/bge-m3";
    char to[256];
    snprintf(to, sizeof to, "\"normalizers\":[%s,", map);
    refuse(bge, "\"normalizers\":[", to, RP_E_UNSUPPORTED, "a second normalizer 'Precompiled' is not supported");
    refuse(bge, "\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"!", RP_E_FORMAT,
           "precompiled_charsmap is no base64");
    snprintf(to, sizeof to, "\"normalizer\":%s,\"x\":", map);
    refuse(bge, "\"normalizer\":", to, RP_E_FORMAT, "tokenizer.ggml.precompiled_charsmap is not an array of bytes");
}

Test(hf_normalizer, pre_tokenizers_and_post_processors_that_are_refused) {
    static const char xlm[] = "hf_tokenizers/xlm-roberta", split[] = "{\"type\":\"WhitespaceSplit\"}";
    char              to[256];
    snprintf(to, sizeof to, "%s,%s", split, split);
    refuse(xlm, split, to, RP_E_UNSUPPORTED, "a pre_tokenizer in front of 'WhitespaceSplit' is not supported");
    snprintf(to, sizeof to, "\"pretokenizers\":[%s,", split);
    refuse("hf_tokenizers/smollm", "\"pretokenizers\":[", to, RP_E_UNSUPPORTED,
           "WhitespaceSplit without Metaspace is not supported");
    refuse("hf_tokenizers/punctuation", "\"Contiguous\"", "\"Removed\"", RP_E_UNSUPPORTED,
           "behavior of Punctuation 'Removed' is not supported");
    refuse("hf_tokenizers/bge-m3", "\"sep\":[\"</s>\"", "\"sep\":[\"</x>\"", RP_E_FORMAT,
           "sep of post_processor is no token");
    refuse("hf_tokenizers/words-never", "\"pre_tokenizer\":{",
           "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
           "{\"type\":\"Digits\"},{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}]},\"x\":{",
           RP_E_UNSUPPORTED, "a vocabulary with U+2581 for spaces whose texts are also split");
}

/* The neighbours of a single word are those of the normalised text, if it is looked for there. */
Test(hf_normalizer, single_words_that_are_refused) {
    static const char dir[] = "hf_tokenizers/single-word", nfc[] = "\"normalizer\":{\"type\":\"NFC\"}";
    refuse(dir, nfc, "\"normalizer\":{\"type\":\"NFKC\"}", RP_E_UNSUPPORTED,
           "single_word in the normalised text of an added token 'New York' is not supported");
    refuse(dir, nfc, "\"normalizer\":{\"type\":\"StripAccents\"}", RP_E_UNSUPPORTED,
           "single_word in the normalised text of an added token 'New York' is not supported");
    refuse("hf_encoders/bert-rank", "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false",
           "\"single_word\":true,\"lstrip\":false,\"rstrip\":false,\"normalized\":true", RP_E_UNSUPPORTED,
           "single_word in the normalised text of an added token '[PAD]' is not supported");
}

/* ---- keys of GGUF files ---- */

static const char *const tokens[] = {"<unk>", "a", "\xc3\xa9", "A"}; /* e with an accent is one character of NFC */

static void put_flag(Bytes *b, const char *key, char value) {
    put_key(b, key, RP_GGUF_BOOL);
    put_bytes(b, &value, 1);
}

/* A SentencePiece vocabulary with a list of strings, and one of numbers. */
static RpStatus open_keys(const char *key, const char *const *steps, int n_steps, uint32_t normalized,
                          RpTokenizer **tk) {
    static const float scores[] = {0.0f, -1.0f, -2.0f, -3.0f};
    Bytes              b        = {0};
    RpGgufFile        *f;
    put_header(&b, 3, 0, 6);
    put_key_string(&b, "tokenizer.ggml.model", "llama");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, scores, 4);
    put_key_array(&b, "tokenizer.hf.normalized", RP_GGUF_U32, &normalized, 1);
    put_flag(&b, "tokenizer.ggml.add_space_prefix", 0);
    if (steps != NULL) put_key_strings(&b, key, steps, (uint64_t)n_steps);
    if (steps == NULL) put_flag(&b, key, 1);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    const RpStatus st = rp_tokenizer_new(f, tk);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

Test(hf_normalizer, files_of_earlier_versions_have_nfc_alone) {
    RpTokenizer *tk;
    RpTokenList  ids = {0};
    OK(open_keys("tokenizer.hf.nfc", NULL, 0, 0, &tk));
    OK(rp_tokenize(tk, "e\xcc\x81", 3, 0, &ids));
    cr_expect(ids.n == 1 && ids.ids[0] == 2, "%zu ids", ids.n);
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
}

Test(hf_normalizer, keys_that_are_refused) {
    static const char        key[]   = "tokenizer.hf.normalizers";
    static const char *const two[]   = {"nfc", ""};
    static const char *const other[] = {"nmt", "", ""};
    static const char *const lower[] = {"lowercase", "", ""};
    RpTokenizer             *tk;
    REFUSED(open_keys(key, two, 2, 0, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.hf.normalizers is not a list of three strings for each of at most 16 steps");
    REFUSED(open_keys(key, other, 3, 0, &tk), RP_E_UNSUPPORTED,
            "v.gguf: normalizer 'nmt' of tokenizer.hf.normalizers is not supported");
    REFUSED(open_keys(key, lower, 3, 4, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.hf.normalized has 4, the vocabulary has 4 tokens");
    REFUSED(open_keys(key, lower, 3, 3, &tk), RP_E_UNSUPPORTED,
            "v.gguf: normalized of an added token that the normalizer changes 'A' is not supported");
}
