/* attention.h - the kernels of attention.c for one tile: up to ATTENTION_TILE consecutive positions of keys and
 * values, and up to ATTENTION_HEADS query heads that share its keys and values.
 *
 *     scores   p[h][j] = scale * k[j] . q[h]                             16 lanes, reduced pairwise
 *     (then attention.c adds the mask; weights turns p into weights and computes rescale)
 *     values   acc[h]  = acc[h] * rescale[h] + sum over j of p[h][j] * v[j]       in the order of j, by fma
 *
 * A row is dim values of f32 or f16, or dim / 32 blocks of q8_0. All variants give the same bits (I8). Processing
 * several heads at once converts each key and value to f32 once for all of them. */
#ifndef FALLBACK_ATTENTION_ATTENTION_H
#define FALLBACK_ATTENTION_ATTENTION_H

#include "fallback/quants/quants.h"
#include "fallback/simd/prefetch.h"

enum { ATTENTION_LANES = 16, ATTENTION_TILE = 32, ATTENTION_CHUNK = 256, ATTENTION_HEADS = 4 };

/* The state of one query head (attention.c). */
typedef struct AttentionHead {
    float *q, *acc;                       /* attention_dim(dim) floats each, aligned to 64 bytes; q ends in zeros */
    _Alignas(64) float p[ATTENTION_TILE]; /* scores, then weights */
    float        max, sum, rescale;
    const float *mask; /* of its token, added to the scores; or NULL */
    int          n;    /* it sees the first n positions of the tile */
} AttentionHead;

/* Elements of a head rounded up to whole vectors of 16 lanes. */
static inline int64_t attention_dim(int64_t dim) {
    return (dim + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES;
}

typedef struct AttentionTile {
    const char *k, *v;           /* of the first of n positions; rows are k_row and v_row bytes apart */
    const char *next_k, *next_v; /* of the first position of the next tile, to be prefetched */
    /* Keys and values of the tile in f32, zeros from position n on; or NULL: */
    float         *kt_f32; /* [attention_dim(dim)][ATTENTION_TILE], transposed */
    float         *v_f32;  /* [ATTENTION_TILE][attention_dim(dim)] */
    size_t         k_row, v_row;
    int64_t        dim, first; /* elements of a row; position of the first */
    AttentionHead *heads;      /* n_heads of them */
    int            n, n_heads;
    float          scale;
} AttentionTile;

typedef void AttentionKernel(const AttentionTile *t);

/* weights: the online softmax of p, with max, sum and rescale; NULL: the common C code.
 *
 * For many queries of a tile load fills kt_f32 and v_f32 once; whole_scores and whole_values read them and give the
 * bits of scores and values. A head may see fewer than all n positions. All three are NULL in variants without them. */
typedef struct AttentionKernels {
    AttentionKernel *scores, *weights, *values;
    AttentionKernel *load, *whole_scores, *whole_values;
    float            cap; /* of the scores; 0: none */
} AttentionKernels;

/* Bytes of n elements of a key or a value. */
static inline size_t attention_bytes(RpDtype type, int64_t n) {
    if (type == RP_Q8_0) return (size_t)n * sizeof(BlockQ8_0) / RP_Q8_0_ELEMS;
    return (size_t)n * (type == RP_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Two tiles of this many bytes, one of keys and one of values, fill an L1 cache of 32 KB. */
enum { ATTENTION_LARGE_TILE = 16 << 10 };

/* Prefetches a part of the keys or values that are read next. They go to L1, whatever the hint for weights is. Only
 * large tiles go to L2 where that is the hint. */
RP_BODY void prefetch_kv(const AttentionTile *t, RpDtype type, const char *p, size_t bytes) {
    const bool large = attention_bytes(type, t->dim) * ATTENTION_TILE >= ATTENTION_LARGE_TILE;
    const bool to_l2 = large && rp_prefetch_now().hint == RP_PREFETCH_L2;
    rp_prefetch_next(to_l2 ? RP_PREFETCH_L2 : RP_PREFETCH_L1, p, bytes);
}

/* Defines a variant's AttentionKernels from its scores(tile, type, n_heads) and values(...). Type and number of
 * heads are constants at each call, so that the loops over heads unroll and their sums stay in registers. */
#define ATTENTION_BY_HEADS(target, step, name, type)                                                                   \
    target static void step##_##name(const AttentionTile *t) {                                                         \
        if (t->n_heads == 4)                                                                                           \
            step(t, type, 4);                                                                                          \
        else if (t->n_heads == 3)                                                                                      \
            step(t, type, 3);                                                                                          \
        else if (t->n_heads == 2)                                                                                      \
            step(t, type, 2);                                                                                          \
        else                                                                                                           \
            step(t, type, 1);                                                                                          \
    }
#define ATTENTION_KERNELS(variant, target, ...)                                                                        \
    ATTENTION_BY_HEADS(target, scores, f16, RP_F16)                                                                    \
    ATTENTION_BY_HEADS(target, values, f16, RP_F16)                                                                    \
    ATTENTION_BY_HEADS(target, scores, q8_0, RP_Q8_0)                                                                  \
    ATTENTION_BY_HEADS(target, values, q8_0, RP_Q8_0)                                                                  \
    ATTENTION_BY_HEADS(target, scores, f32, RP_F32)                                                                    \
    ATTENTION_BY_HEADS(target, values, f32, RP_F32)                                                                    \
    AttentionKernels variant(RpDtype type) {                                                                           \
        AttentionKernels k = {.scores = scores_f16, .values = values_f16, __VA_ARGS__};                                \
        if (type == RP_Q8_0) k.scores = scores_q8_0, k.values = values_q8_0;                                           \
        if (type == RP_F32) k.scores = scores_f32, k.values = values_f32;                                              \
        return k;                                                                                                      \
    }

/* The kernels for this CPU and this type of keys and values. */
AttentionKernels rp_attention_kernels(RpDtype type);

/* Merges the state of the next chunk of positions into (acc, max, sum): the update of attention.c, with a chunk in
 * place of a tile. */
void rp_attention_merge(float *acc, float *max, float *sum, const float *chunk, float chunk_max, float chunk_sum,
                        int64_t dim);

#if defined(__x86_64__)
AttentionKernels rp_attention_avx2(RpDtype type);
AttentionKernels rp_attention_avx512(RpDtype type);
#elif defined(__aarch64__)
AttentionKernels rp_attention_neon(RpDtype type);
#endif

#endif
