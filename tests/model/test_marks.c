/* Tokens that end a reply, control tokens, and tokens of code in the middle of a file, against llama.cpp's
 * (golden/tokenizer/marks.txt). */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

enum { MOST_TOKENS = 16 };

/* Cuts `text` at the spaces. */
static size_t words(char *text, const char **out) {
    size_t n = 0;
    for (char *word = strtok(text, " "); word != NULL && n < MOST_TOKENS; word = strtok(NULL, " ")) out[n++] = word;
    return n;
}

static RpTokenizer *tokenizer(const char *const *tokens, size_t n_tokens, const char *const *keys, size_t n_keys) {
    Bytes        b = {0};
    RpGgufFile  *f;
    RpTokenizer *tk;
    put_header(&b, 3, 0, 4 + n_keys);
    put_key_string(&b, "tokenizer.ggml.model", "gpt2");
    put_key_string(&b, "tokenizer.ggml.pre", "gpt-2");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, n_tokens);
    put_key_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    for (size_t i = 0; i < n_keys; i++) {
        char name[32], key[64];
        int  id;
        cr_assert_eq(sscanf(keys[i], "%31[^=]=%d", name, &id), 2, "%s", keys[i]);
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
        put_key_u32(&b, key, (uint32_t)id);
    }
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    rp_gguf_close(f);
    free(b.p);
    return tk;
}

/* Ids in a field of the golden file, which end at " |". */
static size_t read_ids(char **at, int *out) {
    size_t n = 0;
    for (; **at != '\0' && **at != '|'; n++) {
        cr_assert_lt(n, (size_t)MOST_TOKENS, CASE(n));
        out[n] = (int)strtol(*at, at, 10);
        *at += strspn(*at, " ");
    }
    *at += **at == '|';
    *at += strspn(*at, " ");
    return n;
}

static bool is_listed(const int *ids, size_t n, int id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* llama.cpp leaves marks that begin a turn, and FIM tokens that keys name, as the file has them. Here they are control
 * tokens too: a message cannot forge them. */
static void compare(const RpTokenizer *tk, const char *name, char *want) {
    int          ends[MOST_TOKENS], control[MOST_TOKENS], fim[MOST_TOKENS];
    const size_t n_ends = read_ids(&want, ends), n_control = read_ids(&want, control), n_fim = read_ids(&want, fim);
    cr_assert_eq(n_fim, (size_t)RP_FIM_COUNT, "%s", name);
    for (int32_t i = 0; i < rp_tokenizer_n_vocab(tk); i++) {
        cr_expect_eq(rp_tokenizer_is_end(tk, i), is_listed(ends, n_ends, i), "%s, token %d", name, (int)i);
        cr_expect(rp_tokenizer_is_control(tk, i) || !is_listed(control, n_control, i), "%s, token %d", name, (int)i);
    }
    for (int i = 0; i < RP_FIM_COUNT; i++) {
        cr_expect_eq(rp_tokenizer_fim(tk, (RpFimToken)i), fim[i], "%s, FIM token %d", name, i);
        cr_expect(fim[i] < 0 || rp_tokenizer_is_control(tk, fim[i]), "%s, FIM token %d", name, i);
    }
}

Test(marks, are_those_of_llama_cpp) {
    char  line[1024], want[256];
    FILE *f = fopen(GOLDEN_DIR "tokenizer/marks.txt", "r");
    int   n = 0;
    cr_assert(f != NULL && fgets(line, sizeof line, f) != NULL);
    while (fgets(line, sizeof line, f) != NULL && fgets(want, sizeof want, f) != NULL) {
        const char *tokens[MOST_TOKENS], *keys[MOST_TOKENS];
        line[strcspn(line, "\n")] = want[strcspn(want, "\n")] = '\0';
        char *name = line, *text = strchr(line, ' '), *named = strstr(line, " ; ");
        cr_assert(text != NULL && named != NULL, "%s", line);
        *text = *named        = '\0';
        const size_t n_tokens = words(text + 1, tokens), n_keys = words(named + 3, keys);
        RpTokenizer *tk = tokenizer(tokens, n_tokens, keys, n_keys);
        compare(tk, name, want);
        rp_tokenizer_free(tk);
        n++;
    }
    fclose(f);
    cr_expect_geq(n, 17);
}

Test(marks, a_key_outside_of_the_vocabulary_is_refused) {
    static const char *const tokens[] = {"a", "b"};
    Bytes                    b        = {0};
    RpGgufFile              *f;
    RpTokenizer             *tk;
    put_header(&b, 3, 0, 4);
    put_key_string(&b, "tokenizer.ggml.model", "gpt2");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 2);
    put_key_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    put_key_u32(&b, "tokenizer.ggml.fim_sep_token_id", 2);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    REFUSED(rp_tokenizer_new(f, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.ggml.fim_sep_token_id is 2, the vocabulary has 2 tokens");
    rp_gguf_close(f);
    free(b.p);
}

/* A tokenizer of two tokens with the key tokenizer.ggml.suppress_tokens, of numbers of this type. */
static RpStatus suppressing(RpGgufType type, const void *elements, size_t n, RpTokenizer **tk) {
    static const char *const tokens[] = {"a", "b"};
    Bytes                    b        = {0};
    RpGgufFile              *f;
    put_header(&b, 3, 0, 4);
    put_key_string(&b, "tokenizer.ggml.model", "gpt2");
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, 2);
    put_key_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    put_key_array(&b, "tokenizer.ggml.suppress_tokens", type, elements, n);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    const RpStatus st = rp_tokenizer_new(f, tk);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

Test(marks, tokens_that_are_never_sampled) {
    RpTokenizer *tk;
    size_t       n;
    OK(suppressing(RP_GGUF_I32, (const int32_t[]){2, 1, -1}, 3, &tk));
    const int32_t *ids = rp_tokenizer_suppressed(tk, &n);
    cr_expect(n == 1 && ids[0] == 1, "%zu: those outside of the vocabulary are left out", n);
    rp_tokenizer_free(tk);
    OK(suppressing(RP_GGUF_U32, (const uint32_t[]){0, 1}, 2, &tk));
    ids = rp_tokenizer_suppressed(tk, &n);
    cr_expect(n == 2 && ids[0] == 0 && ids[1] == 1, "%zu", n);
    rp_tokenizer_free(tk);
    OK(suppressing(RP_GGUF_I32, (const int32_t[]){0}, 0, &tk));
    cr_expect_null(rp_tokenizer_suppressed(tk, &n));
    cr_expect_eq(n, (size_t)0);
    cr_expect_null(rp_tokenizer_suppressed(tk, NULL));
    rp_tokenizer_free(tk);
    cr_expect_null(rp_tokenizer_suppressed(NULL, &n));
    REFUSED(suppressing(RP_GGUF_F32, (const float[]){1.0f}, 1, &tk), RP_E_FORMAT,
            "v.gguf: tokenizer.ggml.suppress_tokens must be an array of i32 or u32");
}

Test(marks, there_are_none_without_a_tokenizer) {
    cr_expect_eq(rp_tokenizer_fim(NULL, RP_FIM_PRE), -1);
    RpTokenizer *tk = tokenizer((const char *const[]){"<PRE>"}, 1, NULL, 0);
    cr_expect_eq(rp_tokenizer_fim(tk, RP_FIM_PRE), 0);
    cr_expect_eq(rp_tokenizer_fim(tk, RP_FIM_SUF), -1);
    cr_expect_eq(rp_tokenizer_fim(tk, (RpFimToken)RP_FIM_COUNT), -1);
    cr_expect_eq(rp_tokenizer_fim(tk, (RpFimToken)-1), -1);
    rp_tokenizer_free(tk);
}
