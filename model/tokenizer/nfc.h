/* nfc.h - Normalization Form C (Unicode Standard Annex 15) of UTF-8. */
#ifndef MODEL_TOKENIZER_NFC_H
#define MODEL_TOKENIZER_NFC_H

#include "reprise/status.h"

#include <stddef.h>

/* *out has *out_len bytes, allocated: the caller frees. Ill-formed bytes stay as they are. *out is NULL if the text
 * is ASCII, which is normalised as it stands. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_nfc(const char *text, size_t len, char **out, size_t *out_len);

#endif
