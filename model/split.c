/* Pre-tokenizers: a text is split by one regular expression after the other, each within the pieces of the
 * one before. What an expression does not match is a piece of its own. */
#include "model/tokenizer_impl.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPRESSIONS = 4 };

struct Splitter {
    pcre2_code *expressions[MAX_EXPRESSIONS];
    int         n;
};

#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORDS(digits)                                                                                        \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                                    \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "(?=[\\p{L}])([^a-z])"
#define LOWER "(?=[\\p{L}])([^A-Z])"
#define TEKKEN                                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?(" UPPER ")*(" LOWER ")+|[^\\r\\n\\p{L}\\p{N}]?(" UPPER ")+(" LOWER               \
    ")*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Facts of the models: the expressions that their tokenizers were trained with, by the name that files give
 * them. */
static const struct {
    const char *names[8];
    const char *expressions[MAX_EXPRESSIONS];
    bool        ignore_merges; /* a piece that is a token as a whole is taken as that */
    bool        add_bos;
} rows[] = {
    {{"default"},
     {"[\\p{P}\\$\\+<=>\\^~\\|]+",
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)", "\\p{N}+",
      "[0-9][0-9][0-9]"},
     false,                                                                                                              false},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais"},                                           {GPT2},                 false, false},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {"\\p{N}", GPT2},
     false,                                                                                                              false},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"},                           {WORDS("\\p{N}{1,3}")}, true,  true },
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"},                                {WORDS("\\p{N}")},      false, false},
    {{"tekken"},                                                                          {TEKKEN},               true,  true },
};

static int find_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 8 && rows[i].names[k] != NULL; k++)
            if (strcmp(rows[i].names[k], name) == 0) return (int)i;
    return -1;
}

void rp_splitter_free(Splitter *s) {
    if (s == NULL) return;
    for (int i = 0; i < s->n; i++) pcre2_code_free(s->expressions[i]);
    free(s);
}

RpStatus rp_splitter_new(const char *name, Splitter **out, bool *ignore_merges, bool *add_bos) {
    const int row = find_row(name);
    *out          = NULL;
    if (row < 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "pre-tokenizer '%s' is not supported (there are default, gpt-2, smollm, "
                       "llama-bpe, qwen2, tekken and their kin)",
                       name);
    Splitter *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a pre-tokenizer");
    for (; s->n < MAX_EXPRESSIONS && rows[row].expressions[s->n] != NULL; s->n++) {
        int         error;
        PCRE2_SIZE  at;
        const char *text = rows[row].expressions[s->n];
        s->expressions[s->n] =
            pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, NULL);
        if (s->expressions[s->n] == NULL) {
            rp_splitter_free(s);
            return rp_fail(RP_E_NOT_AVAILABLE,
                           "pre-tokenizer '%s': this PCRE2 does not compile it (error %d at %zu)", name,
                           error, at);
        }
        (void)pcre2_jit_compile(s->expressions[s->n], PCRE2_JIT_COMPLETE); /* matching works without */
    }
    *ignore_merges = rows[row].ignore_merges;
    *add_bos       = rows[row].add_bos;
    *out           = s;
    return RP_OK;
}

/* One after the other over the same text: `level` is the expression at work. */
static RpStatus split(const Splitter *s, int level, const char *text, size_t len, PieceCallback *callback,
                      void *user) {
    if (level >= s->n || level >= MAX_EXPRESSIONS) return len > 0 ? callback(text, len, user) : RP_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    RpStatus st = match != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory while splitting a text");
    size_t   at = 0;
    while (st == RP_OK && at < len) {
        int n = pcre2_match(s->expressions[level], (PCRE2_SPTR)text, len, at, 0, match, NULL);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(s->expressions[level], (PCRE2_SPTR)text, len, at, PCRE2_NO_JIT, match, NULL);
        if (n == PCRE2_ERROR_NOMATCH) break;
        if (n < 0) {
            st = rp_fail(RP_E_UNSUPPORTED,
                         "splitting a text of %zu bytes failed at byte %zu (PCRE2 error %d)", len, at, n);
            break;
        }
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
        const size_t      from = ends[0], to = ends[1];
        if (from > at) st = split(s, level + 1, text + at, from - at, callback, user);
        if (st == RP_OK) st = split(s, level + 1, text + from, to - from, callback, user);
        at = to;
    }
    if (st == RP_OK && at < len) st = split(s, level + 1, text + at, len - at, callback, user);
    pcre2_match_data_free(match);
    return st;
}

RpStatus rp_split(const Splitter *s, const char *text, size_t len, PieceCallback *callback, void *user) {
    return split(s, 0, text, len, callback, user);
}
