/* bpe_train.h - learns the vocabulary of a byte-level BPE tokenizer from texts. */
#ifndef MODEL_TOKENIZER_BPE_TRAIN_H
#define MODEL_TOKENIZER_BPE_TRAIN_H

#include "reprise/gguf.h"

enum { BPE_END = 0, BPE_FIRST_BYTE = 1, BPE_FIRST_MERGED = 257 };

/* Token 0 is the end token, which has no bytes; 1 to 256 are the bytes, in the order of the characters that stand
 * for them; then come the results of merges. Two merges may have one result. */
typedef struct BpeVocabulary {
    RpGgufString *tokens; /* [n_tokens], the bytes; owned */
    int32_t       n_tokens;
    int32_t (*merges)[2]; /* [n_merges], token ids, in the order in which they are applied */
    size_t n_merges;
} BpeVocabulary;

/* Called after every text and every merge; `done` of `total` are bytes of texts, then tokens. False stops. */
typedef bool BpeProgress(size_t done, size_t total, void *user);

/* Learns merges until there are n_vocab tokens, or until no pair of neighbours is left. On failure *out is empty.
 * RP_E_NOMEM, RP_E_CANCELLED. */
RP_NODISCARD RpStatus rp_bpe_train(const RpGgufString *texts, size_t n_texts, int32_t n_vocab, BpeProgress *progress,
                                   void *user, BpeVocabulary *out);
void                  rp_bpe_vocabulary_free(BpeVocabulary *v);

/* Writes bytes as a vocabulary file does, one character for each byte (tokenizer_bpe.c). `out` has room for 2*n
 * bytes; returns how many were written. */
size_t rp_bpe_spell(const char *bytes, size_t n, char *out);

#endif
