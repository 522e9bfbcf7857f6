/* nfc.h - Normalization Forms C, D, KC and KD (Unicode Standard Annex 15) of UTF-8. */
#ifndef MODEL_TOKENIZER_NFC_H
#define MODEL_TOKENIZER_NFC_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>

/* *out has *out_len bytes, allocated: the caller frees. Ill-formed bytes stay as they are. *out is NULL if the text
 * is ASCII, which is normalised as it stands. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_nfc(const char *text, size_t len, char **out, size_t *out_len);
RP_NODISCARD RpStatus rp_nfd(const char *text, size_t len, char **out, size_t *out_len);
RP_NODISCARD RpStatus rp_nfkc(const char *text, size_t len, char **out, size_t *out_len);
RP_NODISCARD RpStatus rp_nfkd(const char *text, size_t len, char **out, size_t *out_len);

enum { RP_MOST_DECOMPOSED = 4 };

/* The canonical decomposition of a code, at most RP_MOST_DECOMPOSED of them; returns how many. */
size_t rp_decompose(uint32_t code, uint32_t *out);

/* The code of a character of n bytes, as rp_utf8_length gives them; 0x110000 + byte for an ill-formed byte. And its
 * bytes, at most 4; returns how many. */
uint32_t rp_utf8_code(const char *p, size_t n);
size_t   rp_utf8_put(uint32_t code, char *p);

#endif
