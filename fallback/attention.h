/* attention.h - a tile of the cache and the query heads that attend to it. */
#ifndef FALLBACK_ATTENTION_H
#define FALLBACK_ATTENTION_H

#include "fallback/quants.h"

enum { ATTENTION_LANES = 16, ATTENTION_TILE = 32, ATTENTION_CHUNK = 256, ATTENTION_HEADS = 4 };

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

/* Of n elements of a key or a value. */
static inline size_t attention_bytes(bool q8_0, int64_t n) {
    return q8_0 ? (size_t)n * sizeof(BlockQ8_0) / 32 : (size_t)n * sizeof(uint16_t);
}

/* A variant's function of those, from its scores(tile, q8_0, n_heads) and values(...): constant numbers of heads,
 * so that the loops over them unroll into registers. */
#define ATTENTION_BY_HEADS(target, part, name, q8_0)                                                         \
    target static void part##_##name(const AttentionTile *t) {                                               \
        if (t->n_heads == 4)                                                                                 \
            part(t, q8_0, 4);                                                                                \
        else if (t->n_heads == 3)                                                                            \
            part(t, q8_0, 3);                                                                                \
        else if (t->n_heads == 2)                                                                            \
            part(t, q8_0, 2);                                                                                \
        else                                                                                                 \
            part(t, q8_0, 1);                                                                                \
    }
#define ATTENTION_KERNELS(variant, target)                                                                   \
    ATTENTION_BY_HEADS(target, scores, f16, false)                                                           \
    ATTENTION_BY_HEADS(target, values, f16, false)                                                           \
    ATTENTION_BY_HEADS(target, scores, q8_0, true)                                                           \
    ATTENTION_BY_HEADS(target, values, q8_0, true)                                                           \
    AttentionKernels variant(RpDtype type) {                                                                 \
        return type == RP_Q8_0 ? (AttentionKernels){scores_q8_0, values_q8_0}                                \
                               : (AttentionKernels){scores_f16, values_f16};                                 \
    }

#if defined(__x86_64__)
AttentionKernels rp_attention_avx2(RpDtype type);
AttentionKernels rp_attention_avx512(RpDtype type);
#elif defined(__aarch64__)
AttentionKernels rp_attention_neon(RpDtype type);
#endif

#endif
