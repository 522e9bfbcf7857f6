/* pair.h - the tokens of a query and a document, for models that score documents (reprise/embed.h, rp_rerank). */
#ifndef MODEL_TOKENIZER_PAIR_H
#define MODEL_TOKENIZER_PAIR_H

#include "reprise/tokenizer.h"

typedef struct TextPair {
    RpGgufString query, document;
    RpGgufString format; /* "{query}" and "{document}" stand for the texts; empty: special tokens stand between them */
    size_t       second; /* of the result: where the tokens of the document begin; without a format alone */
} TextPair;

/* Appends the tokens of the pair to `out`, and sets pair->second. Errors of rp_tokenize. */
RP_NODISCARD RpStatus rp_tokenize_pair(const RpTokenizer *tk, TextPair *pair, RpTokenList *out);

#endif
