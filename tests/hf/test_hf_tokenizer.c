/* tokenizer.json against the package tokenizers: token ids of many texts, for each kind of pipeline
 * (tools/golden/golden_hf_tokenizers.py). */
#include "tests/support/golden.h"

#include <dirent.h>

static void check(const char *name) {
    RpGgufFile  *f;
    RpTokenizer *tk;
    char         path[512], *line = NULL;
    size_t       size = 0;
    int          n = 0, wrong = 0;
    snprintf(path, sizeof path, GOLDEN_DIR "hf_tokenizers/%s", name);
    OK(rp_gguf_open(path, &f));
    OK(rp_tokenizer_new(f, &tk));
    snprintf(path, sizeof path, "hf_tokenizers/%s/tokens.txt", name);
    FILE *in = golden_open(path);
    for (; golden_line(in, &line, &size) != NULL && wrong < 5; n++) {
        char          *text  = line + 3;
        const unsigned flags = RP_TOK_PARSE_SPECIAL | (line[0] == '1' ? RP_TOK_ADD_SPECIAL : 0u);
        size_t         len;
        char          *bytes = golden_hex(&text, &len);
        int32_t        want[4096];
        const size_t   n_want = golden_ids(text, want, 4096);
        RpTokenList    got    = {0};
        OK(rp_tokenize(tk, bytes, len, flags, &got));
        const bool same = got.n == n_want && (n_want == 0 || memcmp(got.ids, want, n_want * sizeof *want) == 0);
        cr_expect(same, "%s, case %d, \"%.*s\": %zu ids, %zu are right", name, n, (int)len, bytes, got.n, n_want);
        wrong += !same;
        rp_token_list_free(&got);
        free(bytes);
    }
    cr_expect(n >= 200 || wrong > 0, "%s: only %d cases", name, n);
    free(line);
    fclose(in);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

Test(hf_tokenizer, ids_are_those_of_the_package_tokenizers) {
    DIR *dir = opendir(GOLDEN_DIR "hf_tokenizers");
    int  n   = 0;
    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') check(entry->d_name), n++;
    closedir(dir);
    cr_expect_geq(n, 13);
}
