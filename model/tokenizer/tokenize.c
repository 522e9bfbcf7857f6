/* Text to tokens. The text is cut at special tokens, and the runs of text between them are encoded by the kind
 * of the tokenizer. Without RP_TOK_PARSE_SPECIAL control tokens are found only in the bytes that a mask allows.
 *
 *     text     <|im_start|>user\nSay <|im_end|><|im_end|>      a message that spells a control token
 *     control  111111111111111111000000000000001111111111
 *     -> <|im_start|>, "user\nSay <|im_end|>", <|im_end|>
 */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/argument.h"
#include "model/tokenizer/space.h"

#include <stdlib.h>
#include <string.h>

/* A stretch of text (id < 0), or a special token that was found in it. */
typedef struct Fragment {
    const char *text;
    size_t      len;
    int32_t     id;
} Fragment;

typedef struct Fragments {
    Fragment *items;
    size_t    n, capacity;
} Fragments;

/* The special tokens that a search finds, as bits. With FIND_IN_FRAGMENT it finds tokens with SINGLE_IN_FRAGMENT only,
 * without it the others only. */
enum { FIND_CONTROL = 1 << 0, FIND_USER_DEFINED = 1 << 1, FIND_IN_FRAGMENT = 1 << 2 };

typedef struct Search {
    const RpTokenizer *tk;
    const char        *text; /* the whole text, which `control` and `taken` belong to */
    size_t             len;
    const bool        *control; /* [len] bytes that may be part of a control token; NULL: all */
    bool              *taken;   /* [len] bytes of a token that is no word of its own there; NULL: there are none */
    unsigned           find;
    Fragments          lists[2]; /* lists[result] is the outcome so far, the other one is written next */
    int                result;
} Search;

static RpStatus add_fragment(Fragments *list, Fragment f) {
    if (f.len == 0 && f.id < 0) return RP_OK;
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        Fragment    *items    = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising");
        list->items    = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = f;
    return RP_OK;
}

/* The special token that is exactly p[0..len), if the search may find it there; else -1. */
static int32_t special_at(const Search *s, const char *p, size_t len) {
    const int32_t found = rp_strings_find(&s->tk->special_texts, p, len);
    if (found < 0) return -1;
    const int32_t id     = s->tk->special[found];
    const bool    inside = s->tk->strip != NULL && (s->tk->strip[id] & SINGLE_IN_FRAGMENT) != 0;
    if (inside != ((s->find & FIND_IN_FRAGMENT) != 0)) return -1;
    if (s->taken != NULL && memchr(s->taken + (p - s->text), true, len) != NULL) return -1;
    if (s->tk->types[id] == TOKEN_USER_DEFINED) return (s->find & FIND_USER_DEFINED) != 0 ? id : -1;
    if ((s->find & FIND_CONTROL) == 0) return -1;
    return s->control == NULL || memchr(s->control + (p - s->text), false, len) == NULL ? id : -1;
}

/* Whether the token at p, in the fragment f, may be one there. As in the package tokenizers, no shorter token is looked
 * for where it may not. */
static RpStatus may_stand(Search *s, Fragment f, const char *p, size_t len, int32_t id, bool *out) {
    const int flags = s->tk->strip != NULL ? s->tk->strip[id] : 0;
    *out            = true;
    if ((flags & SINGLE_WORD) == 0) return RP_OK;
    if ((flags & SINGLE_IN_FRAGMENT) == 0) f = (Fragment){s->text, s->len, -1};
    RP_TRY(rp_is_single_word(s->tk->word_characters, f.text, f.len, (size_t)(p - f.text), len, out));
    if (*out) return RP_OK;
    if (s->taken == NULL) s->taken = calloc(s->len, sizeof *s->taken);
    if (s->taken == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising");
    memset(s->taken + (p - s->text), true, len);
    return RP_OK;
}

/* Cuts the fragments at every occurrence of the special tokens special[first..end), which have one length.
 * starts[] rules out most places by their first byte. */
static RpStatus cut_length(Search *s, size_t first, size_t end) {
    const RpGgufString *texts       = s->tk->special_texts.strings;
    const size_t        len         = texts[first].len;
    const Fragments    *in          = &s->lists[s->result];
    Fragments          *out         = &s->lists[1 - s->result];
    bool                starts[256] = {false};
    for (size_t i = first; i < end; i++) starts[(unsigned char)texts[i].ptr[0]] = true;
    out->n = 0;
    for (size_t k = 0; k < in->n; k++) {
        const Fragment f    = in->items[k];
        size_t         done = 0;
        for (size_t at = 0; f.id < 0 && f.len >= len && at <= f.len - len;) {
            const int32_t id    = starts[(unsigned char)f.text[at]] ? special_at(s, f.text + at, len) : -1;
            bool          found = id >= 0;
            if (found) RP_TRY(may_stand(s, f, f.text + at, len, id, &found));
            if (!found) {
                at++;
                continue;
            }
            const int    strip = s->tk->strip != NULL ? s->tk->strip[id] : 0;
            const size_t front = strip & STRIP_LEFT ? rp_without_space_behind(f.text + done, at - done) : at - done;
            RP_TRY(add_fragment(out, (Fragment){f.text + done, front, -1}));
            RP_TRY(add_fragment(out, (Fragment){f.text + at, len, id}));
            at += len;
            if (strip & STRIP_RIGHT) at += rp_space_in_front(f.text + at, f.len - at);
            done = at;
        }
        RP_TRY(add_fragment(out, (Fragment){f.text + done, f.id >= 0 ? f.len : f.len - done, f.id}));
    }
    s->result = 1 - s->result;
    return RP_OK;
}

/* One pass for each length, longest first, between two lists.
 * Example: tokens "<|im_end|>" and "<|", text "a<|im_end|>b<|" -> "a", <|im_end|>, "b<|" -> "a", <|im_end|>,
 * "b", <| */
static RpStatus cut(Search *s, unsigned find, const bool *control) {
    s->find    = find;
    s->control = control;
    for (size_t first = 0, end; first < s->tk->n_special; first = end) {
        const size_t len = s->tk->special_texts.strings[first].len;
        for (end = first; end < s->tk->n_special && s->tk->special_texts.strings[end].len == len;) end++;
        RP_TRY(cut_length(s, first, end));
    }
    return RP_OK;
}

/* User-defined tokens are found in any text. With a mask they come last: a user-defined token that begins in a
 * message must not take the first bytes of a control token behind it. */
static RpStatus cut_kinds(Search *s, unsigned find, const bool *control, unsigned flags) {
    if ((flags & RP_TOK_PARSE_SPECIAL) != 0) return cut(s, find | FIND_CONTROL | FIND_USER_DEFINED, NULL);
    if (control != NULL) RP_TRY(cut(s, find | FIND_CONTROL, control));
    return cut(s, find | FIND_USER_DEFINED, NULL);
}

static RpStatus cut_specials(Search *s, const bool *control, unsigned flags) {
    RP_TRY(cut_kinds(s, 0, control, flags));
    return s->tk->word_characters != NULL ? cut_kinds(s, FIND_IN_FRAGMENT, control, flags) : RP_OK;
}

/* Encodes a text without special tokens by the kind of the tokenizer. */
static RpStatus encode_text(const RpTokenizer *tk, const char *text, size_t len, bool prefix, BpeMerger *merger,
                            RpTokenList *out) {
    if (tk->normalizes) return rp_charsmap_encode(tk, text, len, prefix, out);
    if (tk->words) return rp_wordpiece_encode(tk, text, len, out);
    if (tk->scores != NULL) return rp_spm_encode(tk, text, len, prefix, merger, out); /* SentencePiece */
    return rp_bpe_encode(tk, text, len, merger, out);
}

static RpStatus encode(const RpTokenizer *tk, const Fragments *list, BpeMerger *merger, RpTokenList *out) {
    bool after_special = true; /* or at the start of the text: SentencePiece puts a space there */
    for (size_t i = 0; i < list->n; i++) {
        const Fragment f = list->items[i];
        char          *normal;
        size_t         len;
        if (f.id >= 0) {
            RP_TRY(rp_token_list_push(out, f.id));
            after_special = true;
            continue;
        }
        const bool prefix =
            tk->add_space_prefix && after_special && (i == 0 || tk->space_prefix != PREFIX_FIRST_ABSENT);
        RP_TRY(rp_normalize(tk->normalizer, f.text, f.len, &normal, &len));
        const RpStatus st =
            len > 0 ? encode_text(tk, normal != NULL ? normal : f.text, len, prefix, merger, out) : RP_OK;
        free(normal);
        RP_TRY(st);
        after_special = false;
    }
    return RP_OK;
}

RpStatus rp_tokenize_masked(const RpTokenizer *tk, const char *text, const bool *control, size_t len, unsigned flags,
                            RpTokenList *out) {
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(out, "out");
    if (len > 0) RP_NOT_NULL(text, "text");

    const bool special = (flags & RP_TOK_ADD_SPECIAL) != 0;
    Search     search  = {.tk = tk, .text = text, .len = len};
    BpeMerger  merger  = {0};
    RpStatus   st      = RP_OK;
    if (len > INT32_MAX / 8) return rp_fail(RP_E_ARG, "a text of %zu bytes is too long to tokenise", len);
    if (special && tk->add_bos && tk->bos >= 0) st = rp_token_list_push(out, tk->bos);
    if (st == RP_OK) st = add_fragment(&search.lists[0], (Fragment){text, len, -1});
    if (st == RP_OK && len > 0) st = cut_specials(&search, control, flags);
    if (st == RP_OK) st = encode(tk, &search.lists[search.result], &merger, out);
    if (st == RP_OK && special && tk->add_eos && tk->eos >= 0) st = rp_token_list_push(out, tk->eos);
    if (st == RP_OK && special && tk->words && tk->add_sep && tk->sep >= 0) st = rp_token_list_push(out, tk->sep);
    rp_bpe_merger_free(&merger);
    free(search.lists[0].items);
    free(search.lists[1].items);
    free(search.taken);
    return st;
}

RpStatus rp_tokenize(const RpTokenizer *tk, const char *text, size_t len, unsigned flags, RpTokenList *out) {
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(out, "out");
    if (len > 0) RP_NOT_NULL(text, "text");

    return rp_tokenize_masked(tk, text, NULL, len, flags, out);
}
