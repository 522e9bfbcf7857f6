/* Character classes and escapes of regular expressions: sets of code points. */
#include "grammar/pattern_class.h"

#include "grammar/pattern.h"

#include <string.h>

static RpStatus bad(const Pattern *s, const char *what) {
    return rp_fail(RP_E_FORMAT, "regular expression: %s at byte %zu", what, (size_t)(s->at - s->text));
}

static RpStatus add_class(Charset *out, char letter) {
    static const CharRange spaces[] = {
        {9,      13    },
        {0x20,   0x20  },
        {0xa0,   0xa0  },
        {0x1680, 0x1680},
        {0x2000, 0x200a},
        {0x2028, 0x2029},
        {0x202f, 0x202f},
        {0x205f, 0x205f},
        {0x3000, 0x3000},
        {0xfeff, 0xfeff}
    };
    Charset  s  = {0};
    RpStatus st = RP_OK;
    if (letter == 'w' || letter == 'W') {
        st = rp_charset_add(&s, 'a', 'z');
        if (st == RP_OK) st = rp_charset_add(&s, 'A', 'Z');
        if (st == RP_OK) st = rp_charset_add(&s, '_', '_');
    }
    if (st == RP_OK && strchr("wWdD", letter) != NULL) st = rp_charset_add(&s, '0', '9');
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0] && st == RP_OK && (letter == 's' || letter == 'S'); i++)
        st = rp_charset_add(&s, spaces[i].lo, spaces[i].hi);
    if (st == RP_OK && letter < 'a') st = rp_charset_negate(&s);
    if (st == RP_OK) st = rp_charset_add_all(out, &s);
    rp_charset_free(&s);
    return st;
}

static bool hex(Pattern *s, int min, int max, uint32_t *value) {
    const char *p = s->at;
    uint32_t    x = 0;
    int         n = 0;
    for (; n < max && p < s->end; n++, p++) {
        const char c = *p, lower = (char)(c | 32);
        if (c >= '0' && c <= '9')
            x = x << 4 | (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            x = x << 4 | (uint32_t)(lower - 'a' + 10);
        else
            break;
    }
    if (n < min) return false;
    s->at  = p;
    *value = x;
    return true;
}

/* Behind "\u": XXXX, a pair of surrogates, or {X...}. */
static RpStatus unicode(Pattern *s, uint32_t *c) {
    if (s->at < s->end && *s->at == '{') {
        s->at++;
        if (!hex(s, 1, 6, c) || s->at == s->end || *s->at++ != '}' || *c > MAX_CODE_POINT)
            return bad(s, "no code point behind \\u{");
        return RP_OK;
    }
    if (!hex(s, 4, 4, c)) {
        *c = 'u';
        return RP_OK;
    }
    uint32_t    low;
    const char *behind = s->at;
    if (*c >= 0xd800 && *c <= 0xdbff && s->end - s->at >= 6 && memcmp(s->at, "\\u", 2) == 0) {
        s->at += 2;
        if (hex(s, 4, 4, &low) && low >= 0xdc00 && low <= 0xdfff)
            *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
        else
            s->at = behind;
    }
    return RP_OK;
}

RpStatus rp_pattern_escape(Pattern *s, Charset *out, uint32_t *single) {
    static const char letters[] = "nrtfv", values[] = "\n\r\t\f\v";
    *single = NOT_SINGLE;
    if (s->at == s->end) return bad(s, "nothing behind \\");
    const char  c      = *s->at++;
    const char *letter = memchr(letters, c, sizeof letters - 1);
    if (memchr("wWdDsS", c, 6) != NULL) return add_class(out, c);
    if (c == 'p' || c == 'P') return rp_fail(RP_E_UNSUPPORTED, "regular expression: \\%c is not supported", c);
    if (letter != NULL) {
        *single = (unsigned char)values[letter - letters];
    } else if (c == 'x') {
        if (!hex(s, 2, 2, single)) *single = 'x';
    } else if (c == 'u') {
        RP_TRY(unicode(s, single));
    } else if (c == 'U' && s->gbnf) {
        if (!hex(s, 8, 8, single) || *single > MAX_CODE_POINT) return bad(s, "no code point behind \\U");
    } else if (c == 'c' && s->at < s->end && ((*s->at | 32) >= 'a' && (*s->at | 32) <= 'z')) {
        *single = (unsigned char)*s->at++ & 31;
    } else if (c == '0') {
        *single = 0;
    } else {
        s->at--;
        *single = rp_code_point(&s->at, s->end);
    }
    return rp_charset_add(out, *single, *single);
}

/* One element of a class; *single as of rp_pattern_escape. */
static RpStatus element(Pattern *s, Charset *out, uint32_t *single) {
    if (*s->at == '\\') {
        s->at++;
        if (s->at < s->end && *s->at == 'b') {
            s->at++;
            *single = '\b';
            return rp_charset_add(out, *single, *single);
        }
        return rp_pattern_escape(s, out, single);
    }
    *single = rp_code_point(&s->at, s->end);
    return rp_charset_add(out, *single, *single);
}

RpStatus rp_pattern_set(Pattern *s, Charset *out) {
    const bool negated = s->at < s->end && *s->at == '^';
    s->at += negated;
    while (s->at < s->end && *s->at != ']') {
        uint32_t first, last;
        RP_TRY(element(s, out, &first));
        if (s->end - s->at < 2 || *s->at != '-' || s->at[1] == ']' || first == NOT_SINGLE) continue;
        s->at++;
        RP_TRY(element(s, out, &last));
        if (last == NOT_SINGLE) { /* [a-\d]: the minus is a character */
            RP_TRY(rp_charset_add(out, '-', '-'));
            continue;
        }
        if (last < first) return bad(s, "a range that ends before it begins");
        RP_TRY(rp_charset_add(out, first, last));
    }
    if (s->at == s->end) return bad(s, "a class without ]");
    s->at++;
    return negated ? rp_charset_negate(out) : RP_OK;
}

RpStatus rp_pattern_class(const char *text, const char *end, const char **at, Charset *out) {
    Pattern        s  = {.text = text, .at = *at, .end = end, .gbnf = true};
    const RpStatus st = rp_pattern_set(&s, out);
    *at               = s.at;
    return st;
}
