/* A pushdown automaton for JSON. */
#include "model/chat/json_scan.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static bool is_hex(unsigned char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

/* A value has ended: what comes next. */
static ScanResult value_ended(JsonScan *s) {
    s->state = s->depth > 0 ? SCAN_BEHIND : SCAN_END;
    return s->depth > 0 ? SCAN_MORE : SCAN_DONE;
}

static ScanResult open_container(JsonScan *s, bool object) {
    if (s->depth == JSON_SCAN_DEPTH) return SCAN_BAD;
    s->object[s->depth++] = object;
    s->state              = object ? SCAN_FIRST_KEY : SCAN_FIRST_ITEM;
    return SCAN_MORE;
}

static ScanResult close_container(JsonScan *s, unsigned char c) {
    if (c != (s->object[s->depth - 1] ? '}' : ']')) return SCAN_BAD;
    s->depth--;
    return value_ended(s);
}

static ScanResult begin_value(JsonScan *s, unsigned char c) {
    if (c == '{' || c == '[') return open_container(s, c == '{');
    if (c == '"')
        s->state = SCAN_STRING, s->key = false;
    else if (c == '-')
        s->state = SCAN_MINUS;
    else if (is_digit(c))
        s->state = c == '0' ? SCAN_ZERO : SCAN_DIGITS;
    else if (c == 't' || c == 'f' || c == 'n')
        s->state = SCAN_WORD, s->word = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    else
        return SCAN_BAD;
    return SCAN_MORE;
}

static ScanResult scan_string(JsonScan *s, unsigned char c) {
    if (s->state == SCAN_HEX) {
        if (!is_hex(c)) return SCAN_BAD;
        if (--s->hex == 0) s->state = SCAN_STRING;
        return SCAN_MORE;
    }
    if (s->state == SCAN_ESCAPE) {
        if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL) return SCAN_BAD;
        s->state = c == 'u' ? SCAN_HEX : SCAN_STRING;
        s->hex   = 4;
        return SCAN_MORE;
    }
    if (c == '\\') s->state = SCAN_ESCAPE;
    if (c != '"') return SCAN_MORE;
    if (!s->key) return value_ended(s);
    s->state = SCAN_COLON;
    return SCAN_MORE;
}

/* The state behind byte c of a number, or SCAN_END: c is no part of it. */
static ScanState next_of_number(ScanState state, unsigned char c) {
    const bool digit = is_digit(c), e = c == 'e' || c == 'E';
    switch (state) {
    case SCAN_MINUS:
        return c == '0' ? SCAN_ZERO : digit ? SCAN_DIGITS : SCAN_END;
    case SCAN_ZERO:
        return c == '.' ? SCAN_POINT : e ? SCAN_E : SCAN_END;
    case SCAN_DIGITS:
        return digit ? SCAN_DIGITS : c == '.' ? SCAN_POINT : e ? SCAN_E : SCAN_END;
    case SCAN_POINT:
        return digit ? SCAN_FRACTION : SCAN_END;
    case SCAN_FRACTION:
        return digit ? SCAN_FRACTION : e ? SCAN_E : SCAN_END;
    case SCAN_E:
        return c == '+' || c == '-' ? SCAN_E_SIGN : digit ? SCAN_EXPONENT : SCAN_END;
    default:
        return digit ? SCAN_EXPONENT : SCAN_END; /* SCAN_E_SIGN, SCAN_EXPONENT */
    }
}

static bool ends_number(ScanState s) {
    return s == SCAN_ZERO || s == SCAN_DIGITS || s == SCAN_FRACTION || s == SCAN_EXPONENT;
}

static ScanResult scan_number(JsonScan *s, unsigned char c) {
    const ScanState next = next_of_number(s->state, c), before = s->state;
    if (next != SCAN_END) {
        s->state = next;
        return SCAN_MORE;
    }
    if (!ends_number(s->state)) return SCAN_BAD;
    if (value_ended(s) == SCAN_DONE) return SCAN_OVER;
    const ScanResult r = rp_json_scan(s, c);
    if (r == SCAN_BAD) s->state = before;
    return r;
}

static ScanResult scan_between(JsonScan *s, unsigned char c) {
    if (rp_json_space(c)) return SCAN_MORE;
    switch (s->state) {
    case SCAN_FIRST_ITEM:
        return c == ']' ? close_container(s, c) : begin_value(s, c);
    case SCAN_FIRST_KEY:
    case SCAN_KEY:
        if (c == '}' && s->state == SCAN_FIRST_KEY) return close_container(s, c);
        if (c != '"') return SCAN_BAD;
        s->state = SCAN_STRING;
        s->key   = true;
        return SCAN_MORE;
    case SCAN_COLON:
        if (c != ':') return SCAN_BAD;
        s->state = SCAN_VALUE;
        return SCAN_MORE;
    case SCAN_BEHIND:
        if (c != ',') return close_container(s, c);
        s->state = s->object[s->depth - 1] ? SCAN_KEY : SCAN_VALUE;
        return SCAN_MORE;
    default:
        return begin_value(s, c); /* SCAN_VALUE */
    }
}

ScanResult rp_json_scan(JsonScan *s, unsigned char c) {
    if (s->state == SCAN_END) return SCAN_BAD;
    if (s->state >= SCAN_STRING && s->state <= SCAN_HEX) return scan_string(s, c);
    if (s->state >= SCAN_MINUS && s->state <= SCAN_EXPONENT) return scan_number(s, c);
    if (s->state != SCAN_WORD) return scan_between(s, c);
    if (c != (unsigned char)*s->word) return SCAN_BAD;
    return *++s->word == '\0' ? value_ended(s) : SCAN_MORE;
}

bool rp_json_scan_whole(const JsonScan *s) { return s->state == SCAN_END || (s->depth == 0 && ends_number(s->state)); }

bool rp_json_is_value(const char *p, size_t n) {
    JsonScan s = {0};
    size_t   i = 0;
    while (n > 0 && rp_json_space((unsigned char)p[n - 1])) n--;
    while (i < n && rp_json_scan(&s, (unsigned char)p[i]) <= SCAN_DONE) i++;
    return i == n && rp_json_scan_whole(&s);
}

size_t rp_code_to_utf8(uint32_t c, char out[4]) {
    unsigned char *p = (unsigned char *)out;
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (unsigned char)(0xc0 | c >> 6), p[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (unsigned char)(0xe0 | c >> 12), p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    p[0] = (unsigned char)(0xf0 | c >> 18), p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f)), p[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t hex_value(unsigned char c) { return (uint32_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10); }

/* A \uXXXX is complete. */
static size_t put_code(StringDecode *d, char *out) {
    const uint32_t code = d->code, high = d->high;
    size_t         n = 0;
    d->high          = 0;
    if (high != 0 && code >= 0xdc00 && code < 0xe000)
        return rp_code_to_utf8(0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00), out);
    if (high != 0) n = rp_code_to_utf8(0xfffd, out);
    if (code >= 0xd800 && code < 0xdc00) {
        d->high = code;
        return n;
    }
    return n + rp_code_to_utf8(code, out + n);
}

size_t rp_string_decode(StringDecode *d, unsigned char c, char out[STRING_DECODE_ROOM]) {
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    if (d->escape == 2) {
        d->code = d->code << 4 | hex_value(c);
        if (--d->missing > 0) return 0;
        d->escape = 0;
        return put_code(d, out);
    }
    if (d->escape == 1 && c == 'u') {
        d->escape = 2, d->missing = 4, d->code = 0;
        return 0;
    }
    if (d->escape == 0 && c == '\\') {
        d->escape = 1;
        return 0;
    }
    const size_t n     = rp_string_decode_end(d, out);
    const char  *found = d->escape == 1 && c != '\0' ? strchr(names, c) : NULL;
    out[n]             = found != NULL ? values[found - names] : (char)c;
    d->escape          = 0;
    return n + 1;
}

size_t rp_string_decode_end(StringDecode *d, char out[STRING_DECODE_ROOM]) {
    if (d->high == 0) return 0;
    d->high = 0;
    return rp_code_to_utf8(0xfffd, out);
}

size_t rp_json_escape(unsigned char c, char out[8]) {
    static const char values[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const char       *found = c != '\0' ? strchr(values, c) : NULL;
    out[0]                  = (char)c;
    if (found != NULL) {
        out[0] = '\\', out[1] = names[found - values];
        return 2;
    }
    return c < 0x20 ? (size_t)snprintf(out, 8, "\\u%04x", c) : 1;
}
