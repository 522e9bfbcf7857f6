/* What filters and methods of strings share: white space, stripping, replacing, case. */
#include "template/run.h"

#include "base/text/utf8.h"

#include <string.h>

static uint32_t decode(TplString s, size_t at, size_t *len) {
    const unsigned char *p = (const unsigned char *)s.p + at;
    *len                   = rp_utf8_length(s.p + at, s.n - at);
    if (*len == 1) return p[0] < 0x80 ? p[0] : 0xfffd;
    uint32_t c = p[0] & (0xffu >> (*len + 1));
    for (size_t i = 1; i < *len; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

bool rp_tpl_is_space(TplString s, size_t at, size_t *len) {
    const uint32_t c = decode(s, at, len);
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool strips(TplString s, size_t at, const TplString *chars, size_t *len) {
    if (chars == NULL) return rp_tpl_is_space(s, at, len);
    *len = rp_utf8_length(s.p + at, s.n - at);
    for (size_t i = 0, n; i < chars->n; i += n) {
        n = rp_utf8_length(chars->p + i, chars->n - i);
        if (n == *len && memcmp(chars->p + i, s.p + at, n) == 0) return true;
    }
    return false;
}

TplString rp_tpl_strip(TplString s, const TplString *chars, bool left, bool right) {
    size_t first = 0, end = s.n, len;
    while (left && first < end && strips(s, first, chars, &len)) first += len;
    while (right && end > first) {
        size_t at = end - 1; /* where the last character begins */
        while (at > first && end - at < 4 && ((unsigned char)s.p[at] & 0xc0) == 0x80) at--;
        if (at + rp_utf8_length(s.p + at, end - at) != end) at = end - 1;
        if (!strips(s, at, chars, &len)) break;
        end = at;
    }
    return rp_tpl_cut(s, first, end);
}

RpStatus rp_tpl_replace(TplRun *r, TplString s, TplString old, TplString new, int64_t most, TplValue *out) {
    TplText t     = rp_tpl_new_text(r);
    size_t  plain = 0;
    for (size_t i = 0; most != 0 && i + old.n <= s.n;) {
        if (memcmp(s.p + i, old.p, old.n) != 0) {
            i++;
            continue;
        }
        rp_tpl_put(&t, rp_tpl_cut(s, plain, i));
        rp_tpl_put(&t, new);
        most--;
        plain = i + old.n;
        i     = old.n > 0 ? plain : i < s.n ? i + rp_utf8_length(s.p + i, s.n - i) : i + 1;
    }
    RP_TRY(rp_tpl_charge(r, s.n / 32));
    rp_tpl_put(&t, rp_tpl_cut(s, plain, s.n));
    return rp_tpl_end_text(r, &t, out);
}

/* The other case of a letter of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic; else the letter itself. */
static uint32_t upper(uint32_t c) {
    if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7)) return c - 0x20;
    if (c == 0xff) return 0x178;
    if (c == 0xb5) return 0x39c;
    if (c == 0x17f) return 'S';
    if (c == 0x131) return 'I';
    if ((c >= 0x100 && c <= 0x137) || (c >= 0x14a && c <= 0x177)) return c & ~1u;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c % 2 == 0 ? c - 1 : c;
    if (c == 0x3c2) return 0x3a3;
    if (c >= 0x3b1 && c <= 0x3cb) return c - 0x20;
    if (c == 0x3ac) return 0x386;
    if (c >= 0x3ad && c <= 0x3af) return c - 37;
    if (c == 0x3cc) return 0x38c;
    if (c == 0x3cd || c == 0x3ce) return c - 63;
    if (c >= 0x430 && c <= 0x44f) return c - 0x20;
    return c >= 0x450 && c <= 0x45f ? c - 0x50 : c;
}

static uint32_t lower(uint32_t c) {
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) return c + 0x20;
    if (c == 0x178) return 0xff;
    if ((c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14a && c <= 0x177)) return c | 1u;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c % 2 == 1 ? c + 1 : c;
    if (c >= 0x391 && c <= 0x3ab && c != 0x3a2) return c + 0x20;
    if (c == 0x386) return 0x3ac;
    if (c >= 0x388 && c <= 0x38a) return c + 37;
    if (c == 0x38c) return 0x3cc;
    if (c == 0x38e || c == 0x38f) return c + 63;
    if (c >= 0x410 && c <= 0x42f) return c + 0x20;
    return c >= 0x400 && c <= 0x40f ? c + 0x50 : c;
}

static bool is_letter(uint32_t c) { return upper(c) != c || lower(c) != c || c == 0xdf; }

/* mode: 'u'pper, 'l'ower, 'c'apitalize, 't'itle (a letter behind no letter is upper case), 'w'ords: the first character
 * behind white space or an opening bracket or "-" is (the filter title of Jinja). */
RpStatus rp_tpl_case(TplRun *r, TplString s, int mode, TplValue *out) {
    TplText t     = rp_tpl_new_text(r);
    bool    first = true;
    for (size_t i = 0, len; i < s.n; i += len) {
        const uint32_t c    = decode(s, i, &len);
        const bool     up   = mode == 'u' || (mode != 'l' && first);
        const uint32_t to   = up ? upper(c) : lower(c);
        const bool     mark = s.from != NULL ? s.from[i] : s.of_template;
        if (up && c == 0xdf)
            rp_tpl_put_bytes(&t, mode == 'u' ? "SS" : "Ss", 2, mark);
        else if (to == c)
            rp_tpl_put(&t, rp_tpl_cut(s, i, i + len));
        else
            rp_tpl_put_code(&t, to, mark);
        size_t ignored;
        if (mode == 't') first = !is_letter(c);
        if (mode == 'c') first = false;
        if (mode == 'w')
            first = rp_tpl_is_space(s, i, &ignored) || (c < 0x80 && c != 0 && strchr("-({[<", (int)c) != NULL);
    }
    RP_TRY(rp_tpl_charge(r, s.n / 8));
    return rp_tpl_end_text(r, &t, out);
}
