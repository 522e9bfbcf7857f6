/* Numbers: bounds and multiples as expressions over decimal texts. */
#include "grammar/schema/schema.h"

#include <string.h>

enum { MAX_DIGITS = 60 };

/* A number as digits: the value is 0.whole fraction, whole without leading zeros (but "0"), fraction without trailing
 * ones. */
typedef struct Decimal {
    bool negative;
    char whole[2 * MAX_DIGITS], fraction[2 * MAX_DIGITS];
    int  n_whole, n_fraction;
} Decimal;

static bool parse(RpGgufString text, Decimal *d) {
    char   digits[MAX_DIGITS];
    int    n = 0, point = -1, exponent = 0;
    size_t i = 0;
    *d       = (Decimal){0};
    if (text.len > 0 && text.ptr[0] == '-') d->negative = true, i = 1;
    for (; i < text.len && text.ptr[i] != 'e' && text.ptr[i] != 'E'; i++) {
        if (text.ptr[i] == '.') {
            point = n;
        } else if (text.ptr[i] < '0' || text.ptr[i] > '9' || n == MAX_DIGITS) {
            return false;
        } else {
            digits[n++] = text.ptr[i];
        }
    }
    if (i < text.len) {
        const bool down = text.ptr[i + 1] == '-';
        for (i += down || text.ptr[i + 1] == '+' ? 2 : 1; i < text.len; i++)
            if (exponent < 1000) exponent = exponent * 10 + (text.ptr[i] - '0');
        if (down) exponent = -exponent;
    }
    if (point < 0) point = n;
    point += exponent;
    if (n == 0 || point > MAX_DIGITS || point < -MAX_DIGITS) return false;
    for (int k = 0; k < point; k++) {
        const char c = k < n ? digits[k] : '0';
        if (d->n_whole > 0 || c != '0') d->whole[d->n_whole++] = c;
    }
    if (d->n_whole == 0) d->whole[d->n_whole++] = '0';
    for (int k = point; k < n; k++) d->fraction[d->n_fraction++] = k < 0 ? '0' : digits[k];
    while (d->n_fraction > 0 && d->fraction[d->n_fraction - 1] == '0') d->n_fraction--;
    if (d->n_fraction == 0 && d->n_whole == 1 && d->whole[0] == '0') d->negative = false;
    return true;
}

static Rx digits(Schema *s, uint32_t lo, uint32_t hi) {
    return rp_rx_repeat(s->rx, rp_rx_range(s->rx, '0', '9'), lo, hi);
}

static Rx digit_between(Schema *s, int lo, int hi) {
    return lo > hi ? RX_NONE : rp_rx_range(s->rx, (unsigned)lo, (unsigned)hi);
}

/* Digits d[k..n) compared with as many others: greater, or less. */
static Rx same_length(Schema *s, const char *d, int n, bool greater, bool first) {
    Rx e = RX_NONE;
    for (int k = n; k-- > 0;) {
        const int lowest  = first && k == 0 && n > 1 ? '1' : '0';
        const Rx  differs = greater ? digit_between(s, d[k] + 1, '9') : digit_between(s, lowest, d[k] - 1);
        const Rx  here    = rp_rx_cat(s->rx, differs, digits(s, (uint32_t)(n - 1 - k), (uint32_t)(n - 1 - k)));
        e                 = rp_rx_alt2(s->rx, here, rp_rx_cat(s->rx, rp_rx_byte(s->rx, (unsigned char)d[k]), e));
    }
    return e;
}

static Rx whole_differs(Schema *s, const Decimal *d, bool greater) {
    const uint32_t n   = (uint32_t)d->n_whole;
    const Rx       one = rp_rx_range(s->rx, '1', '9'), same = same_length(s, d->whole, d->n_whole, greater, true);
    if (greater) {
        const Rx longer = rp_rx_cat(s->rx, one, digits(s, n, RX_NO_LIMIT));
        return rp_rx_alt2(s->rx, longer, same);
    }
    if (n == 1) return same;
    const Rx shorter = rp_rx_alt2(s->rx, rp_rx_byte(s->rx, '0'), rp_rx_cat(s->rx, one, digits(s, 0, n - 2)));
    return rp_rx_alt2(s->rx, shorter, same);
}

/* Digits of a fraction that is at least d's from k on; `strict`: more. */
static Rx fraction_above(Schema *s, const Decimal *d, int k, bool strict) {
    const Rx any = digits(s, 0, RX_NO_LIMIT);
    if (k == d->n_fraction) {
        const Rx more = rp_rx_cat(s->rx, rp_rx_range(s->rx, '1', '9'), any);
        return strict ? rp_rx_cat(s->rx, rp_rx_repeat(s->rx, rp_rx_byte(s->rx, '0'), 0, RX_NO_LIMIT), more) : any;
    }
    const Rx above = rp_rx_cat(s->rx, digit_between(s, d->fraction[k] + 1, '9'), any);
    const Rx same =
        rp_rx_cat(s->rx, rp_rx_byte(s->rx, (unsigned char)d->fraction[k]), fraction_above(s, d, k + 1, strict));
    return rp_rx_alt2(s->rx, above, same);
}

static Rx fraction_below(Schema *s, const Decimal *d, int k, bool strict) {
    if (k == d->n_fraction) return strict ? RX_NONE : rp_rx_repeat(s->rx, rp_rx_byte(s->rx, '0'), 0, RX_NO_LIMIT);
    const Rx below = rp_rx_cat(s->rx, digit_between(s, '0', d->fraction[k] - 1), digits(s, 0, RX_NO_LIMIT));
    const Rx same =
        rp_rx_cat(s->rx, rp_rx_byte(s->rx, (unsigned char)d->fraction[k]), fraction_below(s, d, k + 1, strict));
    const Rx both = rp_rx_alt2(s->rx, below, same);
    return k > 0 ? rp_rx_alt2(s->rx, both, RX_EMPTY_TEXT) : both;
}

static Rx any_fraction(Schema *s) {
    const Rx point = rp_rx_cat(s->rx, rp_rx_byte(s->rx, '.'), digits(s, 1, RX_NO_LIMIT));
    return rp_rx_alt2(s->rx, point, RX_EMPTY_TEXT);
}

/* Unsigned numbers above or below |d|. */
static Rx compared(Schema *s, const Decimal *d, bool above, bool strict) {
    const Rx other = rp_rx_cat(s->rx, whole_differs(s, d, above), any_fraction(s)), point = rp_rx_byte(s->rx, '.');
    const Rx whole = rp_rx_text(s->rx, d->whole, (size_t)d->n_whole);
    Rx       rest;
    if (above) {
        const Rx some = rp_rx_not_empty(s->rx, fraction_above(s, d, 0, strict));
        rest          = rp_rx_cat(s->rx, point, some);
        if (!strict && d->n_fraction == 0) rest = rp_rx_alt2(s->rx, rest, RX_EMPTY_TEXT);
    } else {
        rest = rp_rx_cat(s->rx, point, rp_rx_not_empty(s->rx, fraction_below(s, d, 0, strict)));
        if (!strict || d->n_fraction > 0) rest = rp_rx_alt2(s->rx, rest, RX_EMPTY_TEXT);
    }
    return rp_rx_alt2(s->rx, other, rp_rx_cat(s->rx, whole, rest));
}

static Rx unsigned_decimal(Schema *s) {
    const Rx more = rp_rx_cat(s->rx, rp_rx_range(s->rx, '1', '9'), digits(s, 0, RX_NO_LIMIT));
    return rp_rx_cat(s->rx, rp_rx_alt2(s->rx, rp_rx_byte(s->rx, '0'), more), any_fraction(s));
}

static Rx minus(Schema *s, Rx e) { return rp_rx_cat(s->rx, rp_rx_byte(s->rx, '-'), e); }

Rx rp_schema_decimal(Schema *s) {
    const Rx plain = unsigned_decimal(s);
    return rp_rx_alt2(s->rx, plain, minus(s, plain));
}

RpStatus rp_schema_bound(Schema *s, RpGgufString bound, bool lower, bool exclusive, Rx *out) {
    Decimal d;
    *out = RX_NONE;
    if (!parse(bound, &d))
        return rp_fail(RP_E_UNSUPPORTED, "JSON schema: the bound %.*s has too many digits",
                       (int)(bound.len < 100 ? bound.len : 100), bound.ptr);
    /* beyond the bound, on its side of 0; all of the other side, or none */
    if (d.negative == lower) {
        const bool zero = d.n_fraction == 0 && d.n_whole == 1 && d.whole[0] == '0';
        const Rx   near = compared(s, &d, false, exclusive);
        const Rx   all  = zero && exclusive ? compared(s, &d, true, true) : unsigned_decimal(s); /* -0 is not below 0 */
        *out            = lower ? rp_rx_alt2(s->rx, all, minus(s, near)) : rp_rx_alt2(s->rx, near, minus(s, all));
    } else {
        const Rx far = compared(s, &d, true, exclusive);
        *out         = lower ? far : minus(s, far);
    }
    return s->rx->status;
}

RpStatus rp_schema_equal_numbers(Schema *s, RpGgufString number, Rx *out) {
    Decimal d;
    *out = RX_NONE;
    if (!parse(number, &d))
        return rp_fail(RP_E_UNSUPPORTED, "JSON schema: the number %.*s has too many digits",
                       (int)(number.len < 100 ? number.len : 100), number.ptr);
    const Rx zeros = rp_rx_repeat(s->rx, rp_rx_byte(s->rx, '0'), d.n_fraction == 0 ? 1 : 0, RX_NO_LIMIT);
    Rx       rest  = rp_rx_cat(s->rx, rp_rx_byte(s->rx, '.'),
                               rp_rx_cat(s->rx, rp_rx_text(s->rx, d.fraction, (size_t)d.n_fraction), zeros));
    if (d.n_fraction == 0) rest = rp_rx_alt2(s->rx, rest, RX_EMPTY_TEXT);
    *out            = rp_rx_cat(s->rx, rp_rx_text(s->rx, d.whole, (size_t)d.n_whole), rest);
    const bool zero = d.n_whole == 1 && d.whole[0] == '0' && d.n_fraction == 0;
    if (d.negative || zero) *out = zero ? rp_rx_alt2(s->rx, *out, minus(s, *out)) : minus(s, *out);
    return s->rx->status;
}

RpStatus rp_schema_multiple(Schema *s, uint32_t node, Rx *out) {
    const JsonNode    *n    = rp_schema_get(s, node, "multipleOf");
    const RpGgufString text = rp_json_string(&s->json, n);
    Decimal            d;
    uint64_t           divisor = 0;
    *out                       = RX_ALL;
    if (n->type != JSON_NUMBER) return rp_schema_bad(s, node, "multipleOf that is no number");
    if (!parse(text, &d) || d.n_whole + d.n_fraction > 9)
        return rp_schema_drop(s, node, "multipleOf", "more than 9 digits");
    for (int i = 0; i < d.n_whole; i++) divisor = divisor * 10 + (uint64_t)(d.whole[i] - '0');
    for (int i = 0; i < d.n_fraction; i++) divisor = divisor * 10 + (uint64_t)(d.fraction[i] - '0');
    if (divisor == 0 || d.negative) return rp_schema_bad(s, node, "multipleOf that is not above 0");
    *out = rp_rx_and(s->rx, rp_rx_multiple(s->rx, (uint32_t)divisor, (uint32_t)d.n_fraction), rp_schema_decimal(s));
    return s->rx->status;
}

Rx rp_schema_number(Schema *s, const Shape *shape) {
    const Rx whole = rp_rx_alt2(s->rx, rp_rx_byte(s->rx, '0'),
                                rp_rx_cat(s->rx, rp_rx_range(s->rx, '1', '9'), digits(s, 0, RX_NO_LIMIT)));
    const Rx sign  = rp_rx_alt2(s->rx, rp_rx_byte(s->rx, '-'), RX_EMPTY_TEXT);
    Rx       e     = rp_rx_cat(s->rx, sign, whole);
    if ((shape->types & TYPE_INTEGER) == 0) e = rp_schema_pattern(s, "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
    return shape->number == RX_ALL ? e : rp_rx_and(s->rx, e, shape->number);
}
