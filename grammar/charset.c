#include "grammar/charset.h"

#include <stdlib.h>
#include <string.h>

void rp_charset_free(Charset *s) {
    free(s->ranges);
    *s = (Charset){0};
}

RpStatus rp_charset_add(Charset *s, uint32_t lo, uint32_t hi) {
    size_t i = 0, j;
    RP_TRY(RP_GROW(s->ranges, s->room, s->n + 1));
    while (i < s->n && s->ranges[i].hi + 1 < lo) i++;
    for (j = i; j < s->n && s->ranges[j].lo <= hi + 1; j++) {
        if (s->ranges[j].lo < lo) lo = s->ranges[j].lo;
        if (s->ranges[j].hi > hi) hi = s->ranges[j].hi;
    }
    memmove(s->ranges + i + 1, s->ranges + j, (s->n - j) * sizeof *s->ranges);
    s->n         = s->n - (j - i) + 1;
    s->ranges[i] = (CharRange){lo, hi};
    return RP_OK;
}

RpStatus rp_charset_add_all(Charset *s, const Charset *other) {
    for (size_t i = 0; i < other->n; i++) RP_TRY(rp_charset_add(s, other->ranges[i].lo, other->ranges[i].hi));
    return RP_OK;
}

RpStatus rp_charset_negate(Charset *s) {
    Charset  out  = {0};
    uint32_t next = 0;
    RpStatus st   = RP_OK;
    for (size_t i = 0; i < s->n && st == RP_OK; i++) {
        if (s->ranges[i].lo > next) st = rp_charset_add(&out, next, s->ranges[i].lo - 1);
        next = s->ranges[i].hi + 1;
    }
    if (st == RP_OK && next <= MAX_CODE_POINT) st = rp_charset_add(&out, next, MAX_CODE_POINT);
    rp_charset_free(s);
    *s = out;
    return st;
}

bool rp_charset_has(const Charset *s, uint32_t lo, uint32_t hi) {
    for (size_t i = 0; i < s->n; i++)
        if (s->ranges[i].lo <= lo && s->ranges[i].hi >= hi) return true;
    return false;
}

uint32_t rp_code_point(const char **text, const char *end) {
    const unsigned char *p = (const unsigned char *)*text;
    const size_t         n = p[0] < 0xc2 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 1;
    uint32_t             c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    if (n > (size_t)(end - *text)) return (void)++*text, p[0];
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return (void)++*text, p[0];
        c = c << 6 | (p[i] & 0x3f);
    }
    *text += n;
    return c;
}

/* The numbers of `n` digits in base 2^bits from lo to hi, as an alternative of sequences of digit ranges.
 * digit(p, position, lo, hi) is the expression of one digit. */
typedef Rx DigitRange(RxPool *p, int position, uint32_t lo, uint32_t hi);

typedef struct Digits {
    DigitRange *digit;
    int         bits;
} Digits;

static Rx digit_ranges(RxPool *p, const Digits *d, int position, uint32_t lo, uint32_t hi) {
    if (position < 0) return RX_EMPTY_TEXT;
    const int      shift = position * d->bits;
    const uint32_t top = ((uint32_t)1 << d->bits) - 1, rest = ((uint32_t)1 << shift) - 1;
    const uint32_t a = lo >> shift & top, b = hi >> shift & top;
    if (a == b)
        return rp_rx_cat(p, d->digit(p, position, a, a), digit_ranges(p, d, position - 1, lo & rest, hi & rest));
    Rx       list[3] = {RX_NONE, RX_NONE, RX_NONE};
    uint32_t from = a, to = b;
    if ((lo & rest) != 0) {
        list[0] = rp_rx_cat(p, d->digit(p, position, a, a), digit_ranges(p, d, position - 1, lo & rest, rest));
        from    = a + 1;
    }
    if ((hi & rest) != rest) {
        list[1] = rp_rx_cat(p, d->digit(p, position, b, b), digit_ranges(p, d, position - 1, 0, hi & rest));
        to      = b - 1;
    }
    if (from <= to) list[2] = rp_rx_cat(p, d->digit(p, position, from, to), digit_ranges(p, d, position - 1, 0, rest));
    return rp_rx_alt(p, list, 3);
}

static Rx tail_byte(RxPool *p, int position, uint32_t lo, uint32_t hi) {
    (void)position;
    return rp_rx_range(p, 0x80 | lo, 0x80 | hi);
}

/* The first byte has the marks of the length, which is position + 1. */
static Rx utf8_length(RxPool *p, int n, uint32_t lo, uint32_t hi) {
    static const uint32_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const Digits          d       = {tail_byte, 6};
    const int             shift   = (n - 1) * 6;
    const uint32_t        rest    = ((uint32_t)1 << shift) - 1;
    Rx                    all     = RX_NONE;
    for (uint32_t top = lo >> shift; top <= hi >> shift;) {
        const uint32_t from = top == lo >> shift ? lo & rest : 0, to = top == hi >> shift ? hi & rest : rest;
        uint32_t       last = top; /* several first bytes with all of their tails are one range */
        if (from == 0 && to == rest)
            while (last + 1 < hi >> shift || (last + 1 == hi >> shift && (hi & rest) == rest)) last++;
        const Rx one =
            rp_rx_cat(p, rp_rx_range(p, marks[n] | top, marks[n] | last), digit_ranges(p, &d, n - 2, from, to));
        all = rp_rx_alt2(p, all, one);
        top = last + 1;
    }
    return all;
}

static Rx utf8_range(RxPool *p, uint32_t lo, uint32_t hi) {
    static const CharRange lengths[] = {
        {0,       0x7f          },
        {0x80,    0x7ff         },
        {0x800,   0xd7ff        },
        {0xe000,  0xffff        },
        {0x10000, MAX_CODE_POINT}
    };
    static const int bytes[] = {1, 2, 3, 3, 4};
    Rx               all     = RX_NONE;
    for (int i = 0; i < 5; i++) {
        const uint32_t a = lo > lengths[i].lo ? lo : lengths[i].lo, b = hi < lengths[i].hi ? hi : lengths[i].hi;
        if (a <= b) all = rp_rx_alt2(p, all, bytes[i] == 1 ? rp_rx_range(p, a, b) : utf8_length(p, bytes[i], a, b));
    }
    return all;
}

Rx rp_charset_utf8(RxPool *p, const Charset *s) {
    Rx all = RX_NONE;
    for (size_t i = 0; i < s->n; i++) all = rp_rx_alt2(p, all, utf8_range(p, s->ranges[i].lo, s->ranges[i].hi));
    return all;
}

static Rx hex_digit(RxPool *p, int position, uint32_t lo, uint32_t hi) {
    ByteSet s = {{0}};
    (void)position;
    for (uint32_t x = lo; x <= hi; x++)
        for (int upper = 0; upper < 2; upper++) {
            const unsigned byte = (unsigned)(upper ? "0123456789ABCDEF" : "0123456789abcdef")[x];
            s.bits[byte / 64] |= (uint64_t)1 << (byte % 64);
        }
    return rp_rx_set(p, &s);
}

static Rx hex_range(RxPool *p, uint32_t lo, uint32_t hi) {
    const Digits d = {hex_digit, 4};
    return digit_ranges(p, &d, 3, lo, hi);
}

/* The part of \uXXXX behind the u. */
static Rx hex_escapes(RxPool *p, const Charset *s, bool wide) {
    Rx all = RX_NONE;
    for (size_t i = 0; i < s->n; i++) {
        const CharRange r   = s->ranges[i];
        const uint32_t  top = wide ? 0xffff : 0x1f;
        if (r.lo > top) break;
        const uint32_t hi = r.hi < top ? r.hi : top;
        if (r.lo < 0xd800) all = rp_rx_alt2(p, all, hex_range(p, r.lo, hi < 0xd7ff ? hi : 0xd7ff));
        if (hi > 0xdfff) all = rp_rx_alt2(p, all, hex_range(p, r.lo > 0xe000 ? r.lo : 0xe000, hi));
    }
    if (!wide) return all;
    const Rx low = rp_rx_cat(p, rp_rx_text(p, "\\u", 2), hex_range(p, 0xdc00, 0xdfff));
    return rp_rx_alt2(p, all, rp_rx_cat(p, hex_range(p, 0xd800, 0xdbff), low));
}

/* U+007F to U+009F and the separators U+2028 and U+2029 are left out of what counts as safe, so that "." is any. */
static bool has_safe(const Charset *raw) {
    static const CharRange safe[] = {
        {0x20,   0x21          },
        {0x23,   0x5b          },
        {0x5d,   0x7e          },
        {0xa0,   0x2027        },
        {0x202a, 0xd7ff        },
        {0xe000, MAX_CODE_POINT}
    };
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++)
        if (!rp_charset_has(raw, safe[i].lo, safe[i].hi)) return false;
    return true;
}

Rx rp_charset_json(RxPool *p, const Charset *s) {
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* letter, character */
    Charset           raw       = {0};
    Rx                simple = RX_NONE, plain = RX_NONE;
    const bool        wide = rp_charset_has(s, 0x10000, MAX_CODE_POINT);
    RpStatus          st   = rp_charset_add_all(&raw, s);
    if (st == RP_OK) st = rp_charset_negate(&raw);
    if (st == RP_OK) st = rp_charset_add(&raw, 0, 0x1f);
    if (st == RP_OK) st = rp_charset_add(&raw, '"', '"');
    if (st == RP_OK) st = rp_charset_add(&raw, '\\', '\\');
    if (st == RP_OK) st = rp_charset_negate(&raw);
    if (st == RP_OK)
        plain = rp_charset_utf8(p, &raw);
    else if (p->status == RP_OK)
        p->status = st;
    for (int i = 0; escapes[i] != '\0'; i += 2)
        if (rp_charset_has(s, (unsigned char)escapes[i + 1], (unsigned char)escapes[i + 1]))
            simple = rp_rx_alt2(p, simple, rp_rx_byte(p, (unsigned char)escapes[i]));
    const Rx hex     = rp_rx_cat(p, rp_rx_byte(p, 'u'), hex_escapes(p, s, wide));
    const Rx escaped = rp_rx_cat(p, rp_rx_byte(p, '\\'), rp_rx_alt2(p, simple, hex));
    const Rx all     = rp_rx_alt2(p, plain, escaped);
    if (has_safe(&raw)) rp_rx_mark_any_char(p, all);
    rp_charset_free(&raw);
    return all;
}
