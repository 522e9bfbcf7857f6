/* Expressions of a pre-tokenizer are written for Onigmo in the syntax of Ruby, and run by PCRE2. Expressions that the
 * two read differently are refused here. Expressions that PCRE2 does not compile are refused elsewhere. */
#include "model/hf/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* The character at i, '\0' behind the end. */
static char at(RpGgufString s, size_t i) { return i < s.len ? s.ptr[i] : '\0'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Steps over an escape with the braces of \p{L}, \P{L} and \x{2581}. */
static const char *escape(RpGgufString s, size_t *i) {
    const char c = at(s, *i + 1);
    if (c != '\0' && strchr("hHvVNRX", c) != NULL) return "\\h, \\H, \\v, \\V, \\N, \\R or \\X";
    *i += 2;
    if (c == '\0' || strchr("pPx", c) == NULL || at(s, *i) != '{') return NULL;
    while (*i < s.len && s.ptr[*i] != '}') ++*i;
    ++*i;
    return NULL;
}

/* Steps over a class, from its bracket on. [:alpha:] is the same for both. */
static const char *class_of(RpGgufString s, size_t *i) {
    ++*i;
    if (at(s, *i) == '^') ++*i;
    if (at(s, *i) == ']') return "a class that begins with ]";
    while (*i < s.len && s.ptr[*i] != ']') {
        const char c = s.ptr[*i];
        if (c == '\\') {
            const char *differs = escape(s, i);
            if (differs != NULL) return differs;
            continue;
        }
        if (c == '&' && at(s, *i + 1) == '&') return "intersections of classes";
        if (c == '[') {
            const char *end = at(s, *i + 1) == ':' ? memmem(s.ptr + *i, s.len - *i, ":]", 2) : NULL;
            if (end == NULL) return "a class inside of a class";
            *i = (size_t)(end - s.ptr) + 1;
        }
        ++*i;
    }
    ++*i;
    return NULL;
}

/* a{2}+ is (a{2})+ in Ruby and possessive in PCRE2; a{,2} is a text in older PCRE2. */
static const char *interval(RpGgufString s, size_t i) {
    if (at(s, ++i) == ',') return "{,n}";
    while (is_digit(at(s, i)) || at(s, i) == ',') i++;
    return at(s, i) == '}' && at(s, i + 1) == '+' ? "{n,m}+" : NULL;
}

/* (?m) lets a dot match line ends in Ruby. */
static const char *options(RpGgufString s, size_t i) {
    for (i += 2; is_letter(at(s, i)) || at(s, i) == '-'; i++)
        if (at(s, i) != 'i' && at(s, i) != '-') return "an option other than i";
    return NULL;
}

/* What both read in two ways; NULL: nothing. */
static const char *difference(RpGgufString s) {
    if (memchr(s.ptr, '\0', s.len) != NULL) return "a zero byte";
    for (size_t i = 0; i < s.len;) {
        const char  c       = s.ptr[i];
        const char *differs = NULL;
        if (c == '\\') differs = escape(s, &i);
        if (c == '[') differs = class_of(s, &i);
        if (c == '{') differs = interval(s, i);
        if (c == '(' && at(s, i + 1) == '?') differs = options(s, i);
        if (differs != NULL) return differs;
        if (c != '\\' && c != '[') i++;
    }
    return NULL;
}

RpStatus rp_hf_check_expression(const HfVocabulary *v, RpGgufString s) {
    const char *differs = difference(s);
    if (differs == NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: the expression '%.*s' is not supported: %s", v->j->path,
                   (int)(s.len < 96 ? s.len : 96), s.ptr, differs);
}

RpStatus rp_hf_escaped(const HfVocabulary *v, RpGgufString s, RpGgufString *out) {
    char  *p = malloc(2 * s.len + 1);
    size_t n = 0;
    if (p == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", v->j->path);
    for (size_t i = 0; i < s.len; i++) {
        const unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x80 && strchr("\\^$.|?*+()[]{}&-#", (char)c) != NULL && c != '\0') p[n++] = '\\';
        p[n++] = (char)c;
    }
    *out = (RpGgufString){p, n};
    return RP_OK;
}
