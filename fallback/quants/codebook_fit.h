/* codebook_fit.h - the search of the types IQ1 to IQ3, whose groups of elements are entries of a codebook:
 *
 *     x[i] ~ d * (2 * s + 1) * v[i]      d of a block of 256, s of each sub-block, v from the codebook
 *
 * The search looks for a small sum of squared errors, weighted by the importance w. */
#ifndef FALLBACK_QUANTS_CODEBOOK_FIT_H
#define FALLBACK_QUANTS_CODEBOOK_FIT_H

#include <stdint.h>

/* How the values of an entry become v, for 8 elements. */
typedef enum CodebookSigns {
    RP_ANY_SIGNS,       /* each may be negated */
    RP_EVEN_SIGNS,      /* an even number of them is negated */
    RP_OFFSET_OF_SUB,   /* 1 or -1 is added to all, the same in a sub-block */
    RP_OFFSET_OF_ENTRY, /* 1 or -1 is added to all */
} CodebookSigns;

typedef struct CodebookForm {
    const void   *entries; /* [n][width] signed bytes */
    int           n, width;
    CodebookSigns signs;
    int           sub, top; /* elements of a sub-block, largest s */
    float         unit;     /* d is an f16 times this */
} CodebookForm;

/* A block. signs: of 8 elements, bit i for a negative one; with offsets not 0 for -1. */
typedef struct CodebookFit {
    uint16_t d, index[64]; /* index[] of each entry */
    uint8_t  s[16], signs[32];
} CodebookFit;

/* 256 finite elements and their importance. d is infinite where the f16 is too small for them. */
void rp_fit_codebook(const CodebookForm *form, const float *x, const float *w, CodebookFit *out);

/* n bytes of two nibbles: s[2 * i] is the low one of byte i. */
static inline void rp_put_nibble_pairs(const uint8_t *s, int n, uint8_t *out) {
    for (int i = 0; i < n; i++) out[i] = (uint8_t)(s[2 * i] | s[2 * i + 1] << 4);
}

#endif
