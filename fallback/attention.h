/* attention.h - a tile of the cache and the query heads that attend to it. */
#ifndef FALLBACK_ATTENTION_H
#define FALLBACK_ATTENTION_H

#include "fallback/quants.h"

enum { ATTENTION_LANES = 16, ATTENTION_TILE = 32, ATTENTION_HEADS = 4 };

typedef struct AttentionHead {
    _Alignas(64) float q[RP_ATTENTION_MAX_DIM]; /* and zeros to a multiple of 16 */
    _Alignas(64) float acc[RP_ATTENTION_MAX_DIM];
    _Alignas(64) float p[ATTENTION_TILE]; /* scores, then weights */
    float top, sum, keep;                 /* keep: what the tile leaves of the sums before it */
} AttentionHead;

typedef struct AttentionTile {
    const char    *k, *v; /* of the first of n positions */
    size_t         k_row, v_row;
    int64_t        dim;
    AttentionHead *heads; /* all of the same keys and values */
    int            n, n_heads;
    float          scale;
} AttentionTile;

typedef void AttentionKernel(const AttentionTile *t);

/* scores: p[j] = scale * k[j] . q; values: acc = acc * keep + sum of p[j] * v[j]. */
typedef struct AttentionKernels {
    AttentionKernel *scores, *values;
} AttentionKernels;

#if defined(__x86_64__)
AttentionKernels rp_attention_avx512(RpDtype type);
#elif defined(__aarch64__)
AttentionKernels rp_attention_neon(RpDtype type);
#endif

#endif
