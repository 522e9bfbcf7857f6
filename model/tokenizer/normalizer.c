/* Normalizers (normalizer.h). The steps are those of the package tokenizers, to the letter where it differs from
 * SentencePiece: its Precompiled looks up grapheme clusters of less than 6 bytes, and takes the shortest string of the
 * map that begins one for the whole cluster.
 *
 *     A U+030A U+0301   "A U+030A" is in the map as U+00C5, and U+0301 is lost
 *     CR LF             is one cluster, and becomes one space */
#include "model/tokenizer/normalizer.h"

#include "base/text/utf8.h"
#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/expression.h"
#include "model/tokenizer/lower.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/space.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 16, MOST_CLUSTER = 5 };

/* A text that grows. */
typedef struct Text {
    char  *p;
    size_t n, room;
} Text;

typedef struct Step Step;
typedef RpStatus    Apply(const Normalizer *n, const Step *s, const char *text, size_t len, Text *out);
typedef RpStatus    NormalForm(const char *text, size_t len, char **out, size_t *out_len); /* nfc.h */

struct Step {
    Apply      *apply;
    NormalForm *form;       /* of normal_form */
    pcre2_code *expression; /* of "replace", or of grapheme clusters */
    char       *by;         /* of "replace"; owned */
    size_t      by_len;
    bool        left; /* of "strip" */
};

struct Normalizer {
    Step     steps[MAX_STEPS];
    int      n;
    Charsmap map;
};

void rp_normalizer_free(Normalizer *n) {
    if (n == NULL) return;
    for (int i = 0; i < n->n; i++) {
        pcre2_code_free(n->steps[i].expression);
        free(n->steps[i].by);
    }
    free(n->map.bytes);
    free(n);
}

static RpStatus put(Text *t, const char *p, size_t n) {
    if (n == 0) return RP_OK;
    if (t->n + n > t->room) {
        const size_t room = 2 * (t->n + n) + 64;
        char        *more = realloc(t->p, room);
        if (more == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the normal form of a text");
        t->p    = more;
        t->room = room;
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
    return RP_OK;
}

/* ---- the steps ---- */

static RpStatus normal_form(const Normalizer *n, const Step *s, const char *text, size_t len, Text *out) {
    char  *normal;
    size_t n_normal;
    (void)n;
    RP_TRY(s->form(text, len, &normal, &n_normal));
    if (normal == NULL) return put(out, text, len);
    *out = (Text){.p = normal, .n = n_normal, .room = n_normal};
    return RP_OK;
}

static RpStatus lowercase(const Normalizer *n, const Step *s, const char *text, size_t len, Text *out) {
    (void)n, (void)s;
    for (size_t at = 0, size; at < len; at += size) {
        char lower[8];
        size                = rp_utf8_length(text + at, len - at);
        const uint32_t code = rp_utf8_code(text + at, size);
        size_t         m    = rp_utf8_put(rp_lower(code), lower);
        if (code == 0x130) m += rp_utf8_put(0x307, lower + m);
        RP_TRY(put(out, lower, m));
    }
    return RP_OK;
}

static RpStatus strip(const Normalizer *n, const Step *s, const char *text, size_t len, Text *out) {
    (void)n;
    if (!s->left) return put(out, text, rp_without_space_behind(text, len));
    const size_t front = rp_space_in_front(text, len);
    return put(out, text + front, len - front);
}

static RpStatus replace_matches(const Step *s, const char *text, size_t len, pcre2_match_data *room, Text *out) {
    for (size_t at = 0;;) {
        ExpressionMatch m = {.found = false};
        if (at < len) RP_TRY(rp_expression_next(s->expression, text, len, at, room, &m));
        if (!m.found) return put(out, text + at, len - at);
        RP_TRY(put(out, text + at, m.from - at));
        RP_TRY(put(out, s->by, s->by_len));
        at = m.to;
    }
}

/* The characters of a cluster one by one. */
static RpStatus put_characters(const Normalizer *n, const char *text, size_t len, Text *out) {
    for (size_t at = 0, size, used; at < len; at += size) {
        RpGgufString by;
        size = rp_utf8_length(text + at, len - at);
        RP_TRY(rp_charsmap_next(&n->map, text + at, size, true, &used, &by));
        RP_TRY(put(out, by.ptr, by.len));
    }
    return RP_OK;
}

static RpStatus put_clusters(const Normalizer *n, const Step *s, const char *text, size_t len, pcre2_match_data *room,
                             Text *out) {
    for (size_t at = 0, size, used = 0; at < len; at += size, used = 0) {
        const bool      plain = (unsigned char)text[at] < 0x80 && text[at] != '\r';
        ExpressionMatch m     = {.from = at, .to = at + 1, .found = true};
        RpGgufString    by;
        if (!plain || (at + 1 < len && (unsigned char)text[at + 1] >= 0x80))
            RP_TRY(rp_expression_next(s->expression, text, len, at, room, &m));
        size = m.found && m.from == at ? m.to - at : 1; /* an ill-formed byte is in no cluster */
        if (size <= MOST_CLUSTER) RP_TRY(rp_charsmap_find(&n->map, text + at, size, true, &used, &by));
        RP_TRY(used > 0 ? put(out, by.ptr, by.len) : put_characters(n, text + at, size, out));
    }
    return RP_OK;
}

static RpStatus with_room(const Normalizer *n, const Step *s, const char *text, size_t len, Text *out) {
    pcre2_match_data *room = pcre2_match_data_create(1, NULL);
    if (room == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the normal form of a text");
    const RpStatus st =
        s->by != NULL ? replace_matches(s, text, len, room, out) : put_clusters(n, s, text, len, room, out);
    pcre2_match_data_free(room);
    return st;
}

/* ---- reading, and all of it ---- */

static bool is(RpGgufString s, const char *text) { return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0; }

static RpStatus read_expression(const RpGgufFile *f, RpGgufString pattern, Step *s) {
    char     name[128];
    uint32_t empty = 0;
    snprintf(name, sizeof name, "%.48s: normalizer 'replace'", rp_gguf_path(f));
    RP_TRY(rp_expression_compile(name, pattern, RP_EXPRESSION_OF_FILE, &s->expression));
    (void)pcre2_pattern_info(s->expression, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty == 0) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: normalizer 'replace': '%.*s' matches the empty text, which is not supported",
                   rp_gguf_path(f), (int)(pattern.len < 96 ? pattern.len : 96), pattern.ptr);
}

static RpStatus read_step(const RpGgufFile *f, const RpGgufString text[3], Normalizer *n, Step *s) {
    static const struct {
        const char *kind;
        Apply      *apply;
        NormalForm *form;
    } kinds[] = {
        {"precompiled", with_room,   NULL   },
        {"replace",     with_room,   NULL   },
        {"nfc",         normal_form, rp_nfc },
        {"nfd",         normal_form, rp_nfd },
        {"nfkc",        normal_form, rp_nfkc},
        {"nfkd",        normal_form, rp_nfkd},
        {"lowercase",   lowercase,   NULL   },
        {"strip",       strip,       NULL   },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is(text[0], kinds[i].kind)) s->apply = kinds[i].apply, s->form = kinds[i].form;
    if (s->apply == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: normalizer '%.*s' of tokenizer.hf.normalizers is not supported",
                       rp_gguf_path(f), (int)(text[0].len < 48 ? text[0].len : 48), text[0].ptr);
    s->left = is(text[1], "left");
    if (is(text[0], "precompiled")) {
        if (n->map.bytes == NULL) RP_TRY(rp_charsmap_read(&n->map, f));
        return rp_expression_compile("grapheme clusters", (RpGgufString){"\\X", 2}, 0, &s->expression);
    }
    if (!is(text[0], "replace")) return RP_OK;
    s->by     = malloc(text[2].len + 1);
    s->by_len = text[2].len;
    if (s->by == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    memcpy(s->by, text[2].ptr, text[2].len);
    return read_expression(f, text[1], s);
}

/* Files of earlier versions have NFC alone. */
static RpStatus only_nfc(const RpGgufFile *f, Normalizer **out) {
    bool has = false;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.hf.nfc", &has));
    if (!has) return RP_OK;
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    (*out)->steps[(*out)->n++] = (Step){.apply = normal_form, .form = rp_nfc};
    return RP_OK;
}

RpStatus rp_normalizer_new(const RpGgufFile *f, Normalizer **out) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.hf.normalizers");
    *out                 = NULL;
    if (v == NULL) return only_nfc(f, out);
    if (v->type != RP_GGUF_ARRAY || (v->n > 0 && v->elem_type != RP_GGUF_STRING) || v->n % 3 != 0 ||
        v->n > 3 * MAX_STEPS)
        return rp_fail(RP_E_FORMAT,
                       "%s: tokenizer.hf.normalizers is not a list of three strings for each of at most %d steps",
                       rp_gguf_path(f), MAX_STEPS);
    Normalizer *n = calloc(1, sizeof *n);
    if (n == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    for (uint64_t i = 0; i < v->n; i += 3) {
        RpGgufString text[3];
        for (uint64_t k = 0; k < 3; k++) text[k] = rp_gguf_string_at(v, i + k);
        const RpStatus st = read_step(f, text, n, &n->steps[n->n++]);
        if (st == RP_OK) continue;
        rp_normalizer_free(n);
        return st;
    }
    *out = n;
    return RP_OK;
}

RpStatus rp_normalize(const Normalizer *n, const char *text, size_t len, char **out, size_t *out_len) {
    Text t   = {0};
    *out     = NULL;
    *out_len = len;
    for (int i = 0; n != NULL && i < n->n && (i == 0 || t.n > 0); i++) {
        Text           next = {0};
        const Step    *s    = &n->steps[i];
        const RpStatus st   = s->apply(n, s, i > 0 ? t.p : text, i > 0 ? t.n : len, &next);
        free(t.p);
        t = next;
        if (st == RP_OK) continue;
        free(t.p);
        return st;
    }
    if (n == NULL || n->n == 0) return RP_OK;
    *out     = t.p;
    *out_len = t.n;
    return RP_OK;
}
