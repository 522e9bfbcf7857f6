/* golden_texts.h - tokenizers of tests/golden/FOLDER, and the ids of many texts: each line of NAME.txt has the bytes of
 * a text in hexadecimal, and its ids. */
#ifndef TESTS_GOLDEN_TEXTS_H
#define TESTS_GOLDEN_TEXTS_H

#include "tests/support/case.h"
#include "tests/support/golden.h"

static inline RpTokenizer *golden_tokenizer(const char *folder, const char *name) {
    char         path[1024];
    RpGgufFile  *f;
    RpTokenizer *tk;
    snprintf(path, sizeof path, GOLDEN_DIR "%s/%s.gguf", folder, name);
    OK(rp_gguf_open(path, &f));
    OK(rp_tokenizer_new(f, &tk));
    rp_gguf_close(f);
    return tk;
}

static inline void golden_check_texts(const char *folder, const char *name) {
    static int32_t want[4096];
    char           path[1024], *line = NULL, *text;
    size_t         size = 0, n_texts = 0;
    RpTokenizer   *tk = golden_tokenizer(folder, name);
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *f = golden_open(path);
    while ((text = golden_line(f, &line, &size)) != NULL) {
        size_t       len;
        char        *bytes = golden_hex(&text, &len);
        RpTokenList  got   = {0};
        const size_t n     = golden_ids(text, want, 4096);
        OK(rp_tokenize(tk, bytes, len, 0, &got));
        const bool same = got.n == n && (n == 0 || memcmp(got.ids, want, n * sizeof *want) == 0);
        if (!same) {
            size_t i = 0;
            while (i < n && i < got.n && got.ids[i] == want[i]) i++;
            cr_expect(false, "%s: \"%.*s\": %zu ids, %zu are wanted; id %zu is %d, not %d", name, (int)len, bytes,
                      got.n, n, i, i < got.n ? got.ids[i] : -1, i < n ? want[i] : -1);
        }
        n_texts++;
        rp_token_list_free(&got);
        free(bytes);
    }
    cr_expect_gt(n_texts, (size_t)500);
    free(line);
    fclose(f);
    rp_tokenizer_free(tk);
}

#endif
