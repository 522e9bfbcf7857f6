/* The tokens of a query and a document. */
#include "model/tokenizer/pair.h"

#include "model/tokenizer/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static bool begins_with(RpGgufString s, size_t at, const char *mark) {
    const size_t n = strlen(mark);
    return s.len - at >= n && memcmp(s.ptr + at, mark, n) == 0;
}

typedef struct Filled {
    char  *text;
    bool  *control;
    size_t n;
} Filled;

static void put(Filled *f, const char *p, size_t len, bool control) {
    memcpy(f->text + f->n, p, len);
    memset(f->control + f->n, control, len);
    f->n += len;
}

/* The template with the texts in their places. The bytes of the template alone may be part of control tokens. */
static void fill(const TextPair *pair, Filled *f) {
    const RpGgufString t = pair->format;
    for (size_t at = 0; at < t.len;) {
        if (begins_with(t, at, "{query}")) {
            put(f, pair->query.ptr, pair->query.len, false);
            at += strlen("{query}");
        } else if (begins_with(t, at, "{document}")) {
            put(f, pair->document.ptr, pair->document.len, false);
            at += strlen("{document}");
        } else
            put(f, t.ptr + at++, 1, true);
    }
}

static RpStatus tokenize_format(const RpTokenizer *tk, TextPair *pair, RpTokenList *out) {
    size_t room = pair->format.len + 1;
    for (size_t at = 0; at < pair->format.len; at++) {
        if (begins_with(pair->format, at, "{query}")) room += pair->query.len;
        if (begins_with(pair->format, at, "{document}")) room += pair->document.len;
    }
    Filled   f = {.text = malloc(room), .control = malloc(room * sizeof(bool))};
    RpStatus st =
        f.text != NULL && f.control != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a pair of texts");
    if (st == RP_OK) {
        fill(pair, &f);
        st = rp_tokenize_masked(tk, f.text, f.control, f.n, 0, out);
    }
    free(f.text);
    free(f.control);
    pair->second = out->n;
    return st;
}

RpStatus rp_tokenize_pair(const RpTokenizer *tk, TextPair *pair, RpTokenList *out) {
    const int32_t end = tk->eos >= 0 ? tk->eos : tk->sep;
    if (pair->format.len > 0) return tokenize_format(tk, pair, out);
    if (tk->add_bos && tk->bos >= 0) RP_TRY(rp_token_list_push(out, tk->bos));
    RP_TRY(rp_tokenize(tk, pair->query.ptr, pair->query.len, 0, out));
    if (tk->add_eos && end >= 0) RP_TRY(rp_token_list_push(out, end));
    if (tk->add_sep && tk->sep >= 0) RP_TRY(rp_token_list_push(out, tk->sep));
    pair->second = out->n;
    RP_TRY(rp_tokenize(tk, pair->document.ptr, pair->document.len, 0, out));
    if (tk->add_eos && end >= 0) return rp_token_list_push(out, end);
    return tk->words && tk->sep >= 0 ? rp_token_list_push(out, tk->sep) : RP_OK;
}
