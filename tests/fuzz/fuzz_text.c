/* Fuzz target: text in pieces gives what it gives as a whole.
 *     byte 0     number of stop strings, modulo 5    byte 1  how the text is cut
 *     then       the stop strings, each ended by byte 0, then the text
 * The UTF-8 stream, visible texts, and the search for stop strings, which is compared with a search by hand. */
#include "base/text/visible.h"
#include "model/text/stop_match.h"
#include "reprise/text.h"
#include "reprise/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXT = 2000, MAX_STOPS = 5 };

static void expect(bool ok) {
    if (!ok) __builtin_trap();
}

/* Length of the next piece: 1 to 8, by a rule of its own for each seed. */
static size_t piece(unsigned *seed, size_t left) {
    *seed          = *seed * 1664525u + 1013904223u;
    const size_t n = 1 + (*seed >> 24) % 8;
    return n < left ? n : left;
}

/* Every character of the stream is well-formed: a second pass over it changes nothing. */
static void utf8(const char *text, size_t n, unsigned seed) {
    static char  whole[4 * MAX_TEXT + 32], parts[4 * MAX_TEXT + 32], again[16 * MAX_TEXT + 256];
    RpUtf8Stream u = {0}, v = {0}, w = {0};
    size_t       n_whole = rp_utf8_feed(&u, text, n, whole), n_parts = 0;
    n_whole += rp_utf8_flush(&u, whole + n_whole);
    for (size_t at = 0; at < n;) {
        const size_t k = piece(&seed, n - at), room = 4 * k + 16;
        char        *out = malloc(room); /* exactly what the call may write */
        expect(out != NULL);
        const size_t wrote = rp_utf8_feed(&v, text + at, k, out);
        memcpy(parts + n_parts, out, wrote);
        free(out);
        n_parts += wrote;
        at += k;
    }
    n_parts += rp_utf8_flush(&v, parts + n_parts);
    expect(n_whole == n_parts && memcmp(whole, parts, n_whole) == 0);
    expect(rp_utf8_feed(&w, whole, n_whole, again) == n_whole && memcmp(whole, again, n_whole) == 0);
    expect(rp_utf8_flush(&w, again) == 0);
}

/* A cut copy is the beginning of the whole one, and there are no control characters in it. */
static void visible(const char *text, size_t n, unsigned seed) {
    static char  whole[4 * MAX_TEXT + 1];
    const size_t total = rp_visible_text(text, n, whole, sizeof whole), room = seed % (total + 2);
    char        *cut = malloc(room + 1);
    expect(cut != NULL && total < sizeof whole && rp_visible_text(text, n, NULL, 0) == total);
    expect(strlen(whole) == total);
    for (size_t i = 0; i < total; i++) {
        const unsigned char c = (unsigned char)whole[i], d = (unsigned char)whole[i + 1];
        expect((c >= 0x20 || c == '\n' || c == '\t') && c != 0x7f && !(c == 0xc2 && d >= 0x80 && d <= 0x9f));
    }
    cut[room] = 'x'; /* room bytes only */
    expect(rp_visible_text(text, n, cut, room) == total && cut[room] == 'x');
    if (room > 0) expect(strlen(cut) < room && memcmp(cut, whole, strlen(cut)) == 0);
    free(cut);
}

/* The end of the first stop string that is complete, and the longest that ends there; n and 0 without one. */
static size_t first_stop(const char *text, size_t n, const char *const *stops, size_t n_stops, size_t *len) {
    *len = 0;
    for (size_t end = 1; end <= n; end++) {
        for (size_t i = 0; i < n_stops; i++) {
            const size_t k = strlen(stops[i]);
            if (k <= end && k > *len && memcmp(text + end - k, stops[i], k) == 0) *len = k;
        }
        if (*len > 0) return end;
    }
    return n;
}

/* The output is the text before the first stop string, and at any time at least all but the bytes that could
 * begin one. */
static void stop(const char *text, size_t n, const char *const *stops, size_t n_stops) {
    static char out[MAX_TEXT + 1];
    StopMatch   m;
    size_t      n_out = 0, len, at = 0;
    bool        found = false;
    const bool  ok    = rp_stop_match_init(&m, stops, n_stops) == RP_OK;
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i][0] == '\0') expect(!ok);
    if (ok) {
        const size_t end = first_stop(text, n, stops, n_stops, &len);
        for (; at < n && !found; at++) {
            found = rp_stop_match_feed(&m, text[at], out, &n_out);
            expect(m.n_held <= rp_stop_match_longest(&m) && (found || n_out + m.n_held == at + 1));
        }
        expect(at == end && found == (len > 0));
        expect(n_out == (found ? end - len : n - m.n_held) && memcmp(out, text, n_out) == 0);
    }
    rp_stop_match_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *stops[MAX_STOPS];
    if (size < 2 || size > MAX_TEXT) return 0;
    char *copy = malloc(size + 1);
    expect(copy != NULL);
    memcpy(copy, data, size);
    copy[size]     = '\0';
    char  *text    = copy + 2;
    size_t left    = size - 2;
    size_t n_stops = 0;
    for (; n_stops < data[0] % MAX_STOPS && left > 0; n_stops++) {
        stops[n_stops]   = text;
        const size_t len = strlen(text) < left ? strlen(text) + 1 : left;
        text += len;
        left -= len;
    }
    utf8(text, left, data[1]);
    visible(text, left, data[1]);
    stop(text, left, stops, n_stops);
    free(copy);
    return 0;
}
