/* NFD: decompose, sort marks by their class. NFC: the same, then compose (nfc.h). NFKD and NFKC also decompose what is
 * only compatible. A character is one number:
 *
 *     class << 56 | place << 21 | code       so that sorting a run of marks is stable
 *
 * An ill-formed byte has the code 0x110000 + byte, which nothing decomposes or composes. */
#include "model/tokenizer/nfc.h"

#include "base/text/utf8.h"
#include "model/tokenizer/nfc_marks.h"
#include "model/tokenizer/nfc_pairs.h"
#include "model/tokenizer/nfkd_codes.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum {
    RAW     = 0x110000,
    CODE    = 0x1fffff,
    S_FIRST = 0xac00, /* Hangul syllables: S = S_FIRST + (L * V_COUNT + V) * T_COUNT + T */
    L_FIRST = 0x1100,
    V_FIRST = 0x1161,
    T_FIRST = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT,

    MOST_COMPATIBLE = 18 /* codes of a character in NFKD: U+FDFA, which has 3 bytes */
};

static uint64_t class_of(uint32_t code) {
    size_t low = 0, high = COUNT(nfc_marks);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code < nfc_marks[mid][0])
            high = mid;
        else if (code > nfc_marks[mid][1])
            low = mid + 1;
        else
            return nfc_marks[mid][2];
    }
    return 0;
}

static const uint32_t *pair_of(uint32_t code) {
    size_t low = 0, high = COUNT(nfc_pairs);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code == nfc_pairs[mid][0]) return nfc_pairs[mid];
        if (code < nfc_pairs[mid][0]) high = mid;
        if (code > nfc_pairs[mid][0]) low = mid + 1;
    }
    return NULL;
}

/* The character that first and second make; 0: none. */
static uint32_t composed(uint32_t first, uint32_t second) {
    const uint32_t l = first - L_FIRST, v = second - V_FIRST, s = first - S_FIRST, t = second - T_FIRST;
    size_t         low = 0, high = COUNT(nfc_composed);
    if (l < L_COUNT && v < V_COUNT) return S_FIRST + (l * V_COUNT + v) * T_COUNT;
    if (s < S_COUNT && s % T_COUNT == 0 && t > 0 && t < T_COUNT) return first + t;
    while (low < high) {
        const size_t    mid = low + (high - low) / 2;
        const uint32_t *p   = nfc_pairs[nfc_composed[mid]];
        if (p[1] == first && p[2] == second) return p[0];
        if (first < p[1] || (first == p[1] && second < p[2]))
            high = mid;
        else
            low = mid + 1;
    }
    return 0;
}

size_t rp_decompose(uint32_t code, uint32_t *out) {
    const uint32_t s = code - S_FIRST;
    if (s < S_COUNT) {
        out[0] = L_FIRST + s / (V_COUNT * T_COUNT);
        out[1] = V_FIRST + s / T_COUNT % V_COUNT;
        out[2] = T_FIRST + s % T_COUNT;
        return s % T_COUNT != 0 ? 3 : 2;
    }
    const uint32_t *p = pair_of(code);
    if (p == NULL) {
        out[0] = code;
        return 1;
    }
    size_t n = rp_decompose(p[1], out);
    if (p[2] != 0) n += rp_decompose(p[2], out + n);
    return n;
}

static const uint32_t *compatible_row(uint32_t code) {
    size_t low = 0, high = COUNT(nfkd_rows);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code < nfkd_rows[mid][0])
            high = mid;
        else if (code > nfkd_rows[mid][1])
            low = mid + 1;
        else
            return nfkd_rows[mid];
    }
    return NULL;
}

/* The compatibility decomposition. The canonical one comes first; the rows of the table need no further
 * decomposition. */
static size_t decompose_compatible(uint32_t code, uint32_t *out) {
    uint32_t     codes[RP_MOST_DECOMPOSED];
    size_t       n = 0;
    const size_t m = rp_decompose(code, codes);
    for (size_t i = 0; i < m; i++) {
        const uint32_t *row = compatible_row(codes[i]);
        if (row == NULL) out[n++] = codes[i];
        for (uint32_t k = 0; row != NULL && k < row[3]; k++)
            out[n++] = nfkd_codes[row[2] + (codes[i] - row[0]) * row[3] + k];
    }
    return n;
}

uint32_t rp_utf8_code(const char *p, size_t n) {
    const unsigned char *b = (const unsigned char *)p;
    if (n == 1) return b[0] < 0x80 ? b[0] : RAW + (uint32_t)b[0];
    if (n == 2) return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    if (n == 3) return (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    return (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
}

size_t rp_utf8_put(uint32_t c, char *p) {
    if (c >= RAW || c < 0x80) {
        p[0] = (char)(unsigned char)(c >= RAW ? c - RAW : c);
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) p[i] = (char)(unsigned char)(0x80 | (c & 0x3f));
    p[0] = (char)(unsigned char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

static int by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Gives each code its class and place, and sorts the runs of marks. */
static void sort_marks(uint64_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] |= class_of((uint32_t)x[i]) << 56 | (uint64_t)i << 21;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && x[end] >> 56 != 0;) end++;
        if (end - i > 1) qsort(x + i, end - i, sizeof *x, by_number);
        if (end == i) end++;
    }
}

/* A mark joins the last starter, unless one of its own class or a higher one stands between. Returns the new length. */
static size_t compose(uint64_t *x, size_t n) {
    size_t   out = 0, starter = SIZE_MAX;
    uint64_t last = 0; /* class of the character before, if it was kept behind the starter */
    for (size_t i = 0; i < n; i++) {
        const uint64_t class   = x[i] >> 56;
        const uint32_t code    = (uint32_t)(x[i] & CODE);
        const bool     blocked = out > 0 && starter != out - 1 && (last >= class || last == 0);
        const uint32_t joined  = starter != SIZE_MAX && !blocked ? composed((uint32_t)(x[starter] & CODE), code) : 0;
        if (joined != 0) {
            x[starter] = joined;
            continue;
        }
        x[out] = x[i];
        if (class == 0) starter = out;
        last = class;
        out++;
    }
    return out;
}

/* At most codes_per_byte codes for each byte. */
static RpStatus normal_form(const char *text, size_t len, size_t decompose(uint32_t code, uint32_t *out),
                            size_t codes_per_byte, bool composes, char **out, size_t *out_len) {
    size_t i = 0, n = 0, bytes = 0;
    *out     = NULL;
    *out_len = len;
    while (i < len && (unsigned char)text[i] < 0x80) i++;
    if (i == len) return RP_OK;
    uint64_t *x = malloc(codes_per_byte * len * sizeof *x);
    if (x == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the normal form of %zu bytes", len);
    for (size_t at = 0, size; at < len; at += size) {
        size = rp_utf8_length(text + at, len - at);
        uint32_t     codes[MOST_COMPATIBLE];
        const size_t m = decompose(rp_utf8_code(text + at, size), codes);
        for (size_t k = 0; k < m; k++) x[n++] = codes[k];
    }
    sort_marks(x, n);
    if (composes) n = compose(x, n);
    *out = malloc(4 * n);
    if (*out == NULL) {
        free(x);
        return rp_fail(RP_E_NOMEM, "out of memory for the normal form of %zu bytes", len);
    }
    for (size_t k = 0; k < n; k++) bytes += rp_utf8_put((uint32_t)(x[k] & CODE), *out + bytes);
    *out_len = bytes;
    free(x);
    return RP_OK;
}

RpStatus rp_nfc(const char *text, size_t len, char **out, size_t *out_len) {
    return normal_form(text, len, rp_decompose, RP_MOST_DECOMPOSED, true, out, out_len);
}

RpStatus rp_nfd(const char *text, size_t len, char **out, size_t *out_len) {
    return normal_form(text, len, rp_decompose, RP_MOST_DECOMPOSED, false, out, out_len);
}

RpStatus rp_nfkc(const char *text, size_t len, char **out, size_t *out_len) {
    return normal_form(text, len, decompose_compatible, MOST_COMPATIBLE / 3, true, out, out_len);
}

RpStatus rp_nfkd(const char *text, size_t len, char **out, size_t *out_len) {
    return normal_form(text, len, decompose_compatible, MOST_COMPATIBLE / 3, false, out, out_len);
}
