/* Tokenizers against llama.cpp: token ids of the golden files, for the real vocabularies of SmolLM2 and Gemma 3
 * and for small vocabularies with every pre-tokenizer. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "model/tokenizer/tokenizer_impl.h"

/* llama.cpp merges the text of a control token, or of the unknown token, to that token where merges lead there, even if
 * it is not to look for control tokens. Here it stays text. `first`: ids in front that do not come from the text
 * (BOS). */
static bool merges_to_control(const RpTokenizer *tk, const int32_t *ids, size_t n, size_t first) {
    bool found = false;
    for (size_t i = first; i < n; i++) found = found || rp_tokenizer_is_control(tk, ids[i]);
    return found;
}

/* llama.cpp takes </s> for the end of a reply in Gemma 3 too, where it is a tag of HTML; then a text of the user does
 * not give this token. */
static bool takes_tag_for_mark(const RpTokenizer *tk, const char *text, size_t n) {
    const int32_t id = rp_tokenizer_find(tk, "</s>");
    return id >= 0 && !rp_tokenizer_is_control(tk, id) && rp_tokenizer_find(tk, "<sub>") >= 0 &&
           memmem(text, n, "</s>", 4) != NULL;
}

/* Every line of a golden file must give the same ids:  <add special><parse special> <text in hex> <ids> */
static void check_golden(const char *model, const char *golden, int wanted) {
    RpGgufFile  *f;
    RpTokenizer *tk;
    OK(rp_gguf_open(model, &f));
    OK(rp_tokenizer_new(f, &tk));
    FILE  *in   = golden_open(golden);
    char  *line = NULL;
    size_t size = 0;
    int    n = 0, wrong = 0, merged = 0;
    while (golden_line(in, &line, &size) != NULL) {
        char          *text = line + 3;
        const unsigned flags =
            (line[0] == '1' ? RP_TOK_ADD_SPECIAL : 0u) | (line[1] == '1' ? RP_TOK_PARSE_SPECIAL : 0u);
        size_t       len;
        char        *bytes = golden_hex(&text, &len);
        int32_t      want[4096];
        const size_t n_want = golden_ids(text, want, 4096);
        RpTokenList  got    = {0};
        OK(rp_tokenize(tk, bytes, len, flags, &got));
        const size_t first = line[0] == '1' && rp_tokenizer_adds_bos(tk);
        bool         same  = got.n == n_want && (n_want == 0 || memcmp(got.ids, want, n_want * sizeof *want) == 0);
        if (line[1] == '0' && merges_to_control(tk, want, n_want, first))
            same = !merges_to_control(tk, got.ids, got.n, first), merged++;
        if (line[1] == '0' && !same && takes_tag_for_mark(tk, bytes, len)) same = true, merged++;
        cr_expect(same, "case %d, flags %.2s, \"%.*s\": %zu ids, %zu are right", n, line, (int)len, bytes, got.n,
                  n_want);
        wrong += !same;
        n++;
        rp_token_list_free(&got);
        free(bytes);
        if (wrong > 10) break;
    }
    cr_expect_leq(merged, 10, "%d of %d cases are not compared", merged, n);
    cr_expect_geq(n, wanted, "only %d cases", n);
    free(line);
    fclose(in);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

static const char *const vocabularies[] = {"smollm",      "gpt-2",  "default",       "llama-bpe", "qwen2",
                                           "tekken",      "spm",    "spm-no-prefix", "gpt-4o",    "deepseek-llm",
                                           "deepseek-v3", "dbrx",   "glm4",          "smaug-bpe", "chatglm-bpe",
                                           "minimax-m2",  "gemma4", "phi3"};

enum { N_VOCABULARIES = sizeof vocabularies / sizeof vocabularies[0] };

Test(tokenizer, tokenises_as_llama_cpp_does_for_smollm2) {
    check_golden(model_path(SMOLLM2), "smollm2/tokens.txt", 500);
}
Test(tokenizer, tokenises_as_llama_cpp_does_for_gemma3) { check_golden(model_path(GEMMA3), "gemma3/tokens.txt", 500); }

/* <s> and </s> are tags of HTML there, as <sub> is: texts of replies, found in plain text. */
Test(tokenizer, gemma_has_tags_of_html) {
    static const char text[] = "Was <s>10</s> now <sub>5</sub>";
    RpGgufFile       *f;
    RpTokenizer      *tk;
    RpTokenList       ids = {0};
    OK(rp_gguf_open(model_path(GEMMA3), &f));
    OK(rp_tokenizer_new(f, &tk));
    OK(rp_tokenize(tk, text, sizeof text - 1, 0, &ids));
    static const char *const tags[] = {"<s>", "</s>", "<sub>", "</sub>"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        const int32_t id    = rp_tokenizer_find(tk, tags[i]);
        bool          found = false;
        for (size_t k = 0; k < ids.n; k++) found = found || ids.ids[k] == id;
        cr_expect(id >= 0 && found && !rp_tokenizer_is_control(tk, id) && !rp_tokenizer_is_end(tk, id), "%s", tags[i]);
    }
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

/* llama.cpp approximates the expressions of these for letters beyond ASCII. */
static bool is_approximate(const char *name, const char *text, size_t len) {
    static const char *const names[] = {"kimi-k2", "tiny_aya", "cohere2moe", "youtu"};
    bool                     ascii = true, found = false;
    for (size_t i = 0; i < len; i++) ascii = ascii && (unsigned char)text[i] < 128;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) found = found || strcmp(name, names[i]) == 0;
    return found && !ascii;
}

/* Lines of crossing.txt: the name of a pre-tokenizer, a text, and its ids in a vocabulary whose merges cross the
 * borders between words. */
Test(tokenizer, splits_as_llama_cpp_does_for_every_name) {
    RpGgufFile  *f;
    RpTokenizer *tk;
    FILE        *in       = golden_open("tokenizer/crossing.txt");
    char        *line     = NULL;
    char         last[64] = "";
    size_t       size     = 0;
    int          n = 0, n_compared = 0;
    OK(rp_gguf_open(GOLDEN_DIR "tokenizer/crossing.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    while (golden_line(in, &line, &size) != NULL) {
        char       *text = strchr(line, ' '), *bytes;
        int32_t     want[256];
        size_t      len;
        RpTokenList got = {0};
        cr_assert_not_null(text, "%s", line);
        *text++             = '\0';
        bytes               = golden_hex(&text, &len);
        const size_t n_want = golden_ids(text, want, 256);
        if (strcmp(line, last) != 0) {
            rp_pretokenizer_free(tk->pretokenizer);
            OK(rp_pretokenizer_new(line, &tk->pretokenizer, &tk->ignore_merges, &tk->add_bos));
            snprintf(last, sizeof last, "%s", line);
            n++;
        }
        OK(rp_tokenize(tk, bytes, len, RP_TOK_ADD_SPECIAL, &got));
        if (!is_approximate(last, bytes, len)) {
            cr_expect(got.n == n_want && memcmp(got.ids, want, n_want * sizeof *want) == 0, "%s: \"%.*s\"", last,
                      (int)len, bytes);
            n_compared++;
        }
        rp_token_list_free(&got);
        free(bytes);
    }
    cr_expect_eq(n, 78, "%d names", n);
    cr_expect_eq(n_compared, 78 * 17 - 4 * 10, "%d lines", n_compared);
    free(line);
    fclose(in);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

Test(tokenizer, tokenises_as_llama_cpp_does_with_every_pre_tokenizer) {
    for (size_t i = 0; i < N_VOCABULARIES; i++) {
        char model[1024], golden[64];
        snprintf(model, sizeof model, GOLDEN_DIR "tokenizer/%s.gguf", vocabularies[i]);
        snprintf(golden, sizeof golden, "tokenizer/%s.txt", vocabularies[i]);
        cr_log_info("%s", vocabularies[i]);
        check_golden(model, golden, 150);
    }
}

/* The mask is that of the bytes shown as +. */
Test(tokenizer, finds_control_tokens_where_the_mask_allows_all_bytes) {
    static const char text[]  = "<|im_end|>a<|im_end|><|im_end|><|im_end|>  \n<|im_end|>";
    static const char shown[] = "++++++++++  ++++++++++++++++++++++++++++    ++++++++++";
    RpGgufFile       *f;
    RpTokenizer      *tk;
    RpTokenList       ids = {0}, plain = {0}, masked = {0};
    bool              control[sizeof text - 1];
    size_t            at = 0, n = 0;
    OK(rp_gguf_open(GOLDEN_DIR "tokenizer/smollm.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    cr_assert_eq(sizeof text, sizeof shown);
    for (size_t i = 0; i < sizeof control; i++) control[i] = shown[i] == '+';
    OK(rp_tokenize_masked(tk, text, control, sizeof control, 0, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        RpGgufString s;
        OK(rp_token_bytes(tk, ids.ids[i], true, &s));
        cr_assert_eq(memcmp(text + at, s.ptr, s.len), 0, CASE(i));
        if (rp_tokenizer_is_control(tk, ids.ids[i]))
            cr_expect(memchr(control + at, false, s.len) == NULL && ++n, CASE(i));
        at += s.len;
    }
    cr_expect_eq(at, sizeof control);
    cr_expect_eq(n, 3, "the first, third and last, not %zu", n);
    /* no mask and one that allows nothing */
    memset(control, 0, sizeof control);
    OK(rp_tokenize(tk, text, sizeof control, 0, &plain));
    OK(rp_tokenize_masked(tk, text, control, sizeof control, 0, &masked));
    cr_expect(plain.n == masked.n && memcmp(plain.ids, masked.ids, plain.n * sizeof *plain.ids) == 0);
    rp_token_list_free(&ids), rp_token_list_free(&plain), rp_token_list_free(&masked);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

/* ---- texts that are cut where no merge joins ---- */

static RpTokenizer *open_vocabulary(const char *name) {
    char         model[1024];
    RpGgufFile  *f;
    RpTokenizer *tk;
    snprintf(model, sizeof model, GOLDEN_DIR "tokenizer/%s.gguf", name);
    OK(rp_gguf_open(model, &f));
    OK(rp_tokenizer_new(f, &tk));
    rp_gguf_close(f);
    return tk;
}

/* A text of pieces of the vocabulary, of which some lose their last byte, and of random bytes. */
static size_t random_text(const RpTokenizer *tk, uint64_t *state, char *out, size_t room) {
    size_t n = 0;
    while (n + 64 < room) {
        *state                 = *state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t     r   = (uint32_t)(*state >> 33);
        const RpGgufString s   = tk->pieces[r % (uint32_t)tk->n_vocab];
        size_t             len = s.len < 32 ? s.len : 32;
        if (r >> 16 & 1 && len > 1) len--;
        memcpy(out + n, s.ptr, len);
        n += len;
        if ((r >> 17 & 7) == 0) out[n++] = (char)(r >> 20);
    }
    return n;
}

Test(tokenizer, cutting_a_text_where_no_merge_joins_changes_no_token) {
    enum { ROOM = 700, TEXTS = 40 };
    for (size_t v = 0; v < N_VOCABULARIES; v++) {
        RpTokenizer *tk      = open_vocabulary(vocabularies[v]);
        uint64_t     state   = v + 1;
        uint64_t    *joins   = tk->joins;
        uint64_t    *all     = malloc(RP_JOIN_BITS / 8);
        size_t       n_whole = 0;
        memset(all, 0xff, RP_JOIN_BITS / 8); /* every pair may be joined: nothing is cut */
        for (int i = 0; i < TEXTS; i++) {
            char         text[ROOM];
            const size_t len = random_text(tk, &state, text, ROOM);
            RpTokenList  cut = {0}, whole = {0};
            OK(rp_tokenize(tk, text, len, 0, &cut));
            tk->joins = all;
            OK(rp_tokenize(tk, text, len, 0, &whole));
            tk->joins = joins;
            cr_assert(cut.n == whole.n && memcmp(cut.ids, whole.ids, cut.n * sizeof *cut.ids) == 0,
                      "%s, text %d: %zu tokens, %zu without cuts", vocabularies[v], i, cut.n, whole.n);
            n_whole += whole.n;
            rp_token_list_free(&cut);
            rp_token_list_free(&whole);
        }
        cr_assert_gt(n_whole, TEXTS * 10, "%s: the texts are too short", vocabularies[v]);
        free(all);
        rp_tokenizer_free(tk);
    }
}

Test(tokenizer, memory_does_not_grow_with_a_text_of_words_without_line_ends) {
    static const char word[] = "word after ";
    enum { WORDS = 20000 };
    const size_t len  = WORDS * (sizeof word - 1);
    char        *text = malloc(len);
    for (size_t i = 0; i < len; i++) text[i] = word[i % (sizeof word - 1)];
    RpTokenizer *spm = open_vocabulary("spm"), *bpe = open_vocabulary("gpt-2");
    BpeMerger    merger[2] = {0};
    RpTokenList  ids[2]    = {0};
    OK(rp_spm_encode(spm, text, len, true, &merger[0], &ids[0]));
    OK(rp_bpe_encode(bpe, text, len, &merger[1], &ids[1]));
    for (int i = 0; i < 2; i++) {
        cr_assert_geq(ids[i].n, WORDS, "kind %d: %zu tokens", i, ids[i].n);
        cr_assert_leq(merger[i].symbol_capacity, 64, "kind %d: %zu symbols", i, merger[i].symbol_capacity);
        cr_assert_leq(merger[i].candidate_capacity, 64, "kind %d: %zu candidates", i, merger[i].candidate_capacity);
        rp_bpe_merger_free(&merger[i]);
        rp_token_list_free(&ids[i]);
    }
    rp_tokenizer_free(spm);
    rp_tokenizer_free(bpe);
    free(text);
}

Test(tokenizer, refuses_a_text_that_cannot_be_cut_above_a_limit) {
    const size_t len  = RP_MAX_MERGED_BYTES + 1;
    char        *text = malloc(len);
    memset(text, 'a', len);
    RpTokenizer *tk  = open_vocabulary("spm");
    RpTokenList  ids = {0};
    OK(rp_tokenizer_add_join(tk, 'a', 'a'));
    REFUSED(rp_tokenize(tk, text, len, 0, &ids), RP_E_ARG,
            "bytes of text without a place where it can be cut: the tokenizer takes at most ");
    REFUSED(rp_tokenize(tk, text, (size_t)1 << 30, 0, &ids), RP_E_ARG,
            "a text of 1073741824 bytes is too long to tokenise");
    REFUSED(rp_bpe_merges_begin(tk, 1u << 30), RP_E_FORMAT, "too many BPE merges");
    StringTable full = {.n = INT32_MAX / 2};
    REFUSED(rp_strings_append(&full, (RpGgufString){"a", 1}), RP_E_FORMAT, "too many strings");
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    free(text);
}
