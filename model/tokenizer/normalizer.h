/* normalizer.h - the normalizers of a Hugging Face directory, one after the other. A file has three strings for each in
 * tokenizer.hf.normalizers: its kind, a pattern and a replacement.
 *
 *     "precompiled"   ""            ""       by tokenizer.ggml.precompiled_charsmap
 *     "nfc", "nfd", "nfkc", "nfkd"  "" ""    normal forms of Unicode
 *     "lowercase"     ""            ""
 *     "strip"         "left" or "right" ""   white space at this end of the text is removed
 *     "replace"       expression    text     each match of the expression becomes the text */
#ifndef MODEL_TOKENIZER_NORMALIZER_H
#define MODEL_TOKENIZER_NORMALIZER_H

#include "reprise/gguf.h"

#include <stddef.h>

typedef struct Normalizer Normalizer;

/* *out is NULL if the file has no normalizers. The caller frees it with rp_normalizer_free. RP_E_FORMAT;
 * RP_E_UNSUPPORTED for an expression that matches the empty text; RP_E_NOT_AVAILABLE, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_normalizer_new(const RpGgufFile *f, Normalizer **out);
void                  rp_normalizer_free(Normalizer *n);

/* *out has *out_len bytes, allocated: the caller frees. It is NULL if *out_len is 0, or if there are no normalizers: n
 * may be NULL. */
RP_NODISCARD RpStatus rp_normalize(const Normalizer *n, const char *text, size_t len, char **out, size_t *out_len);

#endif
