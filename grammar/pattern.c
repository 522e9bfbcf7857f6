/* Parses a regular expression by recursive descent. Anchors are kept exactly: each part is up to four expressions, by
 * whether it has to begin where the text begins (^) and to end where the text ends ($):
 *
 *     parts of  ^a|b$     [START] a, [END] b
 *     the whole           a ANY*  |  ANY* b         with PATTERN_SEARCH */
#include "grammar/pattern.h"

#include "grammar/pattern_class.h"

#include <string.h>

enum { START = 1, END = 2, BOTH = 3, MAX_NESTING = 100 };

typedef struct Part {
    Rx v[4];
} Part;

static const Part EMPTY = {
    {RX_EMPTY_TEXT, RX_NONE, RX_NONE, RX_NONE}
};

static RpStatus bad(const Pattern *s, const char *what) {
    return rp_fail(RP_E_FORMAT, "regular expression: %s at byte %zu", what, (size_t)(s->at - s->text));
}

static RpStatus unsupported(const char *what) {
    return rp_fail(RP_E_UNSUPPORTED, "regular expression: %s is not supported", what);
}

static Rx of_charset(Pattern *s, const Charset *set) {
    return (s->flags & PATTERN_JSON) != 0 ? rp_charset_json(s->pool, set) : rp_charset_utf8(s->pool, set);
}

Rx rp_pattern_any(RxPool *p, unsigned flags) {
    CharRange     all = {0, MAX_CODE_POINT};
    const Charset set = {&all, 1, 1};
    return (flags & PATTERN_JSON) != 0 ? rp_charset_json(p, &set) : rp_charset_utf8(p, &set);
}

/* Whether x can be the empty text, as an expression. */
static Rx empty_of(RxPool *p, Rx x) { return p->nodes[x].nullable ? RX_EMPTY_TEXT : RX_NONE; }

/* a, then b. Nothing but the empty text lies between the beginning and a ^ in b, or between a $ in a and the end. */
static Part join(RxPool *p, Part a, Part b) {
    Part out = {
        {RX_NONE, RX_NONE, RX_NONE, RX_NONE}
    };
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++) {
            Rx left = a.v[x], right = b.v[y];
            if (left == RX_NONE || right == RX_NONE) continue;
            if ((y & START) != 0) left = empty_of(p, left);
            if ((x & END) != 0) right = empty_of(p, right);
            out.v[x | y] = rp_rx_alt2(p, out.v[x | y], rp_rx_cat(p, left, right));
        }
    return out;
}

static RpStatus alternatives(Pattern *s, Part *out);

/* {n}, {n,}, {n,m}: false if it is none, and the brace is a character. */
static bool braces(Pattern *s, uint32_t *lo, uint32_t *hi) {
    const char *p = s->at + 1;
    uint64_t    v[2];
    int         n = 0;
    for (; n < 2; n++) {
        const char *first = p;
        for (v[n] = 0; p < s->end && *p >= '0' && *p <= '9'; p++)
            if (v[n] < UINT32_MAX) v[n] = v[n] * 10 + (uint64_t)(*p - '0');
        if (p == first) v[n] = UINT64_MAX;
        if (p == s->end || *p != ',' || n == 1) break;
        p++;
    }
    if (p == s->end || *p != '}' || v[0] == UINT64_MAX) return false;
    s->at = p + 1;
    *lo   = v[0] < UINT32_MAX ? (uint32_t)v[0] : UINT32_MAX - 1;
    *hi   = n == 0 ? *lo : v[1] < UINT32_MAX ? (uint32_t)v[1] : RX_NO_LIMIT;
    return true;
}

static RpStatus quantifier(Pattern *s, Part *part) {
    while (s->at < s->end) {
        uint32_t lo = 0, hi = RX_NO_LIMIT;
        if (*s->at == '{') {
            if (!braces(s, &lo, &hi)) return RP_OK;
        } else if (*s->at == '*' || *s->at == '+' || *s->at == '?') {
            lo = *s->at == '+';
            hi = *s->at == '?' ? 1 : RX_NO_LIMIT;
            s->at++;
        } else {
            return RP_OK;
        }
        if (lo > hi) return bad(s, "a repetition whose lowest count is above its highest");
        if (s->at < s->end && *s->at == '?') s->at++; /* lazy: the same texts */
        const bool anchored = part->v[START] != RX_NONE || part->v[END] != RX_NONE || part->v[BOTH] != RX_NONE;
        if (anchored && hi > 1) return unsupported("an anchor inside of a repetition");
        if (anchored) {
            if (lo == 0) part->v[0] = rp_rx_alt2(s->pool, part->v[0], RX_EMPTY_TEXT);
        } else {
            part->v[0] = rp_rx_repeat(s->pool, part->v[0], lo, hi);
        }
    }
    return RP_OK;
}

static RpStatus group(Pattern *s, Part *out) {
    if (s->end - s->at >= 2 && s->at[0] == '?') {
        const char kind = s->at[1];
        if (kind == ':') {
            s->at += 2;
        } else if (kind == '<' && s->end - s->at >= 3 && s->at[2] != '=' && s->at[2] != '!') {
            const char *close = memchr(s->at, '>', (size_t)(s->end - s->at));
            if (close == NULL) return bad(s, "a name of a group without >");
            s->at = close + 1;
        } else {
            return unsupported(kind == '=' || kind == '!' ? "a look-ahead in this place" : "a group of this kind");
        }
    }
    if (++s->depth > MAX_NESTING)
        return rp_fail(RP_E_UNSUPPORTED, "regular expression: groups nested deeper than %d", MAX_NESTING);
    RP_TRY(alternatives(s, out));
    s->depth--;
    if (s->at == s->end || *s->at != ')') return bad(s, "a group without )");
    s->at++;
    return RP_OK;
}

static RpStatus dot(Charset *set) {
    RP_TRY(rp_charset_add(set, '\n', '\n'));
    RP_TRY(rp_charset_add(set, '\r', '\r'));
    RP_TRY(rp_charset_add(set, 0x2028, 0x2029));
    return rp_charset_negate(set);
}

static RpStatus character(Pattern *s, Charset *set) {
    uint32_t   c;
    const char first = *s->at++;
    if (first == '.') return dot(set);
    if (first == '[') return rp_pattern_set(s, set);
    if (first == '\\') {
        if (s->at < s->end && (*s->at == 'b' || *s->at == 'B')) return unsupported("\\b");
        if (s->at < s->end && ((*s->at >= '1' && *s->at <= '9') || *s->at == 'k'))
            return unsupported("a back reference");
        return rp_pattern_escape(s, set, &c);
    }
    if (strchr("*+?", first) != NULL && first != '\0') {
        s->at--;
        return bad(s, "nothing to repeat");
    }
    s->at--;
    c = rp_code_point(&s->at, s->end);
    return rp_charset_add(set, c, c);
}

static RpStatus atom(Pattern *s, Part *out) {
    *out = EMPTY;
    if (*s->at == '^' || *s->at == '$') {
        const int which = *s->at++ == '^' ? START : END;
        *out            = (Part){
                       {RX_NONE, RX_NONE, RX_NONE, RX_NONE}
        };
        out->v[which] = RX_EMPTY_TEXT;
    } else if (*s->at == '(') {
        s->at++;
        RP_TRY(group(s, out));
    } else {
        Charset        set = {0};
        const RpStatus st  = character(s, &set);
        if (st == RP_OK) out->v[0] = of_charset(s, &set);
        rp_charset_free(&set);
        RP_TRY(st);
    }
    return quantifier(s, out);
}

static Rx any_text(Pattern *s) { return rp_rx_repeat(s->pool, rp_pattern_any(s->pool, s->flags), 0, RX_NO_LIMIT); }

/* Behind (?= or (?!: what follows in the text, up to its end, and the rest of the pattern have to match both. */
static RpStatus look_ahead(Pattern *s, Part *rest) {
    const bool negative = s->at[2] == '!';
    RxPool    *p        = s->pool;
    Part       inside;
    s->at += 3;
    if (++s->depth > MAX_NESTING)
        return rp_fail(RP_E_UNSUPPORTED, "regular expression: groups nested deeper than %d", MAX_NESTING);
    RP_TRY(alternatives(s, &inside));
    s->depth--;
    if (s->at == s->end || *s->at++ != ')') return bad(s, "a group without )");
    if (inside.v[START] != RX_NONE || inside.v[BOTH] != RX_NONE) return unsupported("^ in a look-ahead");
    const Rx look  = rp_rx_alt2(p, rp_rx_cat(p, inside.v[0], any_text(s)), inside.v[END]);
    const Rx known = negative ? rp_rx_not(p, look) : look;
    /* the rest of the sequence comes now: *rest is what stands behind */
    Part behind = EMPTY;
    while (s->at < s->end && *s->at != '|' && *s->at != ')') {
        Part next;
        if (s->end - s->at >= 3 && s->at[0] == '(' && s->at[1] == '?' && (s->at[2] == '=' || s->at[2] == '!')) {
            RP_TRY(look_ahead(s, &next));
        } else {
            RP_TRY(atom(s, &next));
        }
        behind = join(p, behind, next);
    }
    *rest = (Part){
        {RX_NONE, RX_NONE, RX_NONE, RX_NONE}
    };
    for (int start = 0; start < 2; start++) {
        const Rx tail        = (s->flags & PATTERN_SEARCH) != 0 ? any_text(s) : RX_EMPTY_TEXT;
        const Rx whole       = rp_rx_alt2(p, rp_rx_cat(p, behind.v[start], tail), behind.v[start | END]);
        rest->v[start | END] = rp_rx_and(p, whole, known);
    }
    return RP_OK;
}

static RpStatus sequence(Pattern *s, Part *out) {
    *out = EMPTY;
    while (s->at < s->end && *s->at != '|' && *s->at != ')') {
        Part next;
        if (s->depth == 0 && s->end - s->at >= 3 && s->at[0] == '(' && s->at[1] == '?' &&
            (s->at[2] == '=' || s->at[2] == '!')) {
            RP_TRY(look_ahead(s, &next));
        } else {
            RP_TRY(atom(s, &next));
        }
        *out = join(s->pool, *out, next);
        RP_TRY(s->pool->status);
    }
    return RP_OK;
}

static RpStatus alternatives(Pattern *s, Part *out) {
    *out = (Part){
        {RX_NONE, RX_NONE, RX_NONE, RX_NONE}
    };
    for (;;) {
        Part next;
        RP_TRY(sequence(s, &next));
        for (int i = 0; i < 4; i++) out->v[i] = rp_rx_alt2(s->pool, out->v[i], next.v[i]);
        if (s->at == s->end || *s->at != '|') return s->pool->status;
        s->at++;
    }
}

RpStatus rp_pattern(RxPool *p, const char *text, size_t n, unsigned flags, Rx *out) {
    Pattern s = {.text = text, .at = text, .end = text + n, .pool = p, .flags = flags};
    Part    whole;
    *out = RX_NONE;
    RP_TRY(alternatives(&s, &whole));
    if (s.at < s.end) return bad(&s, "a ) without a group");
    const Rx any = (flags & PATTERN_SEARCH) != 0 ? any_text(&s) : RX_EMPTY_TEXT;
    for (int i = 0; i < 4; i++) {
        const Rx left = rp_rx_cat(p, (i & START) != 0 ? RX_EMPTY_TEXT : any, whole.v[i]);
        *out          = rp_rx_alt2(p, *out, rp_rx_cat(p, left, (i & END) != 0 ? RX_EMPTY_TEXT : any));
    }
    return p->status;
}
