/* utf8.h - characters of UTF-8 (RFC 3629). Streams are in reprise/tokenizer.h. */
#ifndef BASE_TEXT_UTF8_H
#define BASE_TEXT_UTF8_H

#include "reprise/tokenizer.h"

/* Bytes of the UTF-8 character at p, of which n >= 1 bytes are readable; 1 for an ill-formed byte. */
size_t rp_utf8_length(const char *p, size_t n);

#endif
