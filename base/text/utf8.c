/* UTF-8 (RFC 3629): lengths of characters, and a stream that lets whole characters through and replaces
 * ill-formed bytes by U+FFFD. At most 3 bytes of an unfinished character are held. */
#include "base/text/utf8.h"

#include <string.h>

/* The second byte decides: its range rules out overlong forms (e0, f0), surrogates (ed) and codes past
 * U+10FFFF (f4). */
static bool second_fits(unsigned char first, unsigned char second) {
    if (first == 0xe0) return second >= 0xa0 && second <= 0xbf;
    if (first == 0xed) return second >= 0x80 && second <= 0x9f;
    if (first == 0xf0) return second >= 0x90 && second <= 0xbf;
    if (first == 0xf4) return second >= 0x80 && second <= 0x8f;
    return second >= 0x80 && second <= 0xbf;
}

/* Bytes of the character that begins with this byte; 0: no character begins with it. */
static size_t wanted_length(unsigned char c) {
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c <= 0xdf) return 2;
    if (c >= 0xe0 && c <= 0xef) return 3;
    if (c >= 0xf0 && c <= 0xf4) return 4;
    return 0;
}

/* How many of the n bytes at p are a well-formed beginning of a character of `wanted` bytes; at least 1. */
static size_t valid_prefix(const unsigned char *p, size_t n, size_t wanted) {
    size_t i = 1;
    while (i < n && i < wanted && (i == 1 ? second_fits(p[0], p[1]) : (p[i] & 0xc0) == 0x80)) i++;
    return i;
}

size_t rp_utf8_length(const char *p, size_t n) {
    const unsigned char *u      = (const unsigned char *)p;
    const size_t         wanted = wanted_length(u[0]);
    return wanted <= 1 || valid_prefix(u, n, wanted) < wanted ? 1 : wanted;
}

static const char replacement[3] = {'\xef', '\xbf', '\xbd'};

/* Emits every character as it becomes complete. A byte that cannot follow makes the held prefix ill-formed:
 * U+FFFD, and the rest is looked at again, as it may begin another character. */
size_t rp_utf8_feed(RpUtf8Stream *u, const char *bytes, size_t n, char *out) {
    if (u == NULL || bytes == NULL || out == NULL) return 0;
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        u->held[u->n_held++] = (unsigned char)bytes[i];
        for (bool again = true; again && u->n_held > 0;) {
            const size_t wanted = wanted_length(u->held[0]);
            const size_t valid  = wanted == 0 ? 0 : valid_prefix(u->held, u->n_held, wanted);
            size_t       used   = 0;
            if (wanted > 0 && valid == wanted) {
                memcpy(out + n_out, u->held, wanted);
                n_out += wanted;
                used = wanted;
            } else if (wanted == 0 || valid < u->n_held) { /* ill-formed: U+FFFD stands for the longest valid prefix */
                memcpy(out + n_out, replacement, sizeof replacement);
                n_out += sizeof replacement;
                used = valid > 0 ? valid : 1;
            }
            again = used > 0;
            u->n_held -= (unsigned)used;
            memmove(u->held, u->held + used, u->n_held);
        }
    }
    return n_out;
}

size_t rp_utf8_flush(RpUtf8Stream *u, char *out) {
    if (u == NULL || out == NULL) return 0;
    if (u->n_held == 0) return 0;
    u->n_held = 0;
    memcpy(out, replacement, sizeof replacement);
    return sizeof replacement;
}
