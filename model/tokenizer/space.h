/* space.h - the characters of Unicode's property White_Space, in UTF-8. */
#ifndef MODEL_TOKENIZER_SPACE_H
#define MODEL_TOKENIZER_SPACE_H

#include "base/text/utf8.h"

#include <string.h>

/* Bytes of the white space character at p, of which n bytes are readable; 0: there is none. */
static inline size_t rp_space_length(const char *p, size_t n) {
    const unsigned char *b = (const unsigned char *)p;
    if (n >= 1 && (b[0] == ' ' || (b[0] >= '\t' && b[0] <= '\r'))) return 1;
    if (n >= 2 && b[0] == 0xc2 && (b[1] == 0x85 || b[1] == 0xa0)) return 2; /* U+0085, U+00A0 */
    if (n < 3) return 0;
    const uint32_t c  = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
    const bool     is = c == 0xe19a80 || (c >= 0xe28080 && c <= 0xe2808a) ||            /* U+1680, U+2000 to U+200A */
                    c == 0xe280a8 || c == 0xe280a9 || c == 0xe280af || c == 0xe2819f || /* U+2028, 2029, 202F, 205F */
                    c == 0xe38080;                                                      /* U+3000 */
    return is ? 3 : 0;
}

/* Bytes of white space at the beginning of a text. */
static inline size_t rp_space_in_front(const char *p, size_t n) {
    size_t at = 0;
    for (size_t k; (k = rp_space_length(p + at, n - at)) > 0;) at += k;
    return at;
}

/* Bytes of a text without the white space at its end. */
static inline size_t rp_without_space_behind(const char *p, size_t n) {
    for (size_t k = 1; k <= 3 && k <= n; k++)
        if (rp_space_length(p + n - k, k) == k) n -= k, k = 0;
    return n;
}

#endif
