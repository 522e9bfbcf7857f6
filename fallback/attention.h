/* attention.h - the kernels of attention.c for one tile: up to ATTENTION_TILE consecutive positions of the KV
 * cache, and up to ATTENTION_HEADS query heads that share its keys and values.
 *
 *     scores   p[h][j] = scale * k[j] . q[h]                             16 lanes, reduced pairwise
 *     (then attention.c turns p into weights and computes rescale)
 *     values   acc[h]  = acc[h] * rescale[h] + sum over j of p[h][j] * v[j]       in the order of j, by fma
 *
 * A row of the cache is dim f16 values or dim / 32 blocks of q8_0. All variants give the same bits (I8). Processing
 * several heads at once converts each key and value to f32 once for all of them. */
#ifndef FALLBACK_ATTENTION_H
#define FALLBACK_ATTENTION_H

#include "fallback/quants.h"

enum { ATTENTION_LANES = 16, ATTENTION_TILE = 32, ATTENTION_CHUNK = 256, ATTENTION_HEADS = 4 };

/* The state of one query head (attention.c). */
typedef struct AttentionHead {
    _Alignas(64) float q[RP_ATTENTION_MAX_DIM]; /* zeros after dim, up to a multiple of 16 */
    _Alignas(64) float acc[RP_ATTENTION_MAX_DIM];
    _Alignas(64) float p[ATTENTION_TILE]; /* scores, then weights */
    float max, sum, rescale;
} AttentionHead;

typedef struct AttentionTile {
    const char    *k, *v; /* of the first of n positions; rows are k_row and v_row bytes apart */
    size_t         k_row, v_row;
    int64_t        dim;
    AttentionHead *heads; /* n_heads of them */
    int            n, n_heads;
    float          scale;
} AttentionTile;

typedef void AttentionKernel(const AttentionTile *t);

typedef struct AttentionKernels {
    AttentionKernel *scores, *values;
} AttentionKernels;

/* Bytes of n elements of a key or a value. */
static inline size_t attention_bytes(bool q8_0, int64_t n) {
    return q8_0 ? (size_t)n * sizeof(BlockQ8_0) / 32 : (size_t)n * sizeof(uint16_t);
}

/* Defines a variant's AttentionKernels from its scores(tile, q8_0, n_heads) and values(...). Type and number of
 * heads are constants at each call, so that the loops over heads unroll and their sums stay in registers. */
#define ATTENTION_BY_HEADS(target, step, name, q8_0)                                                         \
    target static void step##_##name(const AttentionTile *t) {                                               \
        if (t->n_heads == 4)                                                                                 \
            step(t, q8_0, 4);                                                                                \
        else if (t->n_heads == 3)                                                                            \
            step(t, q8_0, 3);                                                                                \
        else if (t->n_heads == 2)                                                                            \
            step(t, q8_0, 2);                                                                                \
        else                                                                                                 \
            step(t, q8_0, 1);                                                                                \
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
