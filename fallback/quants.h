/* quants.h - block-quantised weights: the layouts of GGUF files, and one form that they all unpack to.
 *
 * Unpacked, element i of a row is scale[i/16] * (q[i] - offset) + min[i/16] with q in 0..255: every type is one
 * integer dot product and, where it has minima, one sum of activations. */
#ifndef FALLBACK_QUANTS_H
#define FALLBACK_QUANTS_H

#include "reprise/check.h"
#include "reprise/quants.h"

enum { RP_GROUP = 16 };

typedef struct BlockQ4_0 {
    uint16_t d;
    uint8_t  qs[16]; /* element i low nibble, i + 16 high */
} BlockQ4_0;

typedef struct BlockQ4_1 {
    uint16_t d, m;
    uint8_t  qs[16];
} BlockQ4_1;

typedef struct BlockQ5_0 {
    uint16_t d;
    uint8_t  qh[4]; /* bit i: the fifth bit of element i */
    uint8_t  qs[16];
} BlockQ5_0;

typedef struct BlockQ5_1 {
    uint16_t d, m;
    uint8_t  qh[4];
    uint8_t  qs[16];
} BlockQ5_1;

typedef struct BlockQ8_0 {
    uint16_t d;
    int8_t   qs[32];
} BlockQ8_0;

typedef struct BlockQ4_K {
    uint16_t d, dmin;
    uint8_t  scales[12]; /* 8 scales and 8 minima of 6 bits */
    uint8_t  qs[128];    /* of 64 elements: the first 32 low nibbles, the others high */
} BlockQ4_K;

typedef struct BlockQ5_K {
    uint16_t d, dmin;
    uint8_t  scales[12];
    uint8_t  qh[32]; /* bit j of byte i: the fifth bit of element i of sub-block j */
    uint8_t  qs[128];
} BlockQ5_K;

typedef struct BlockQ6_K {
    uint8_t  ql[128];
    uint8_t  qh[64];
    int8_t   scales[16];
    uint16_t d;
} BlockQ6_K;

typedef struct BlockMXFP4 {
    uint8_t e; /* the scale is 2^(e - 127) */
    uint8_t qs[16];
} BlockMXFP4;

typedef struct QuantForm {
    int  unit;   /* elements that share a scale: 32 or 16 */
    int  offset; /* of the quants */
    bool has_min;
} QuantForm;

/* NULL for types that are not block-quantised weights. */
const QuantForm *rp_quant_form(RpDtype dtype);

/* A stretch of n elements (whole blocks) of a row, from block memory. */
typedef void UnpackFunction(const void *blocks, int64_t n, uint8_t *q, float *scale, float *min);

/* NULL for types that are not block-quantised weights. Of the variant in use. */
UnpackFunction *rp_unpack_function(RpDtype dtype);

#endif
