/* whole_tile.h - scores and values of many queries, from a tile of keys and values in f32 (attention.h). A score has 16
 * partial sums, as in all variants. Here lanes are positions, so a partial sum is a vector and the reduction adds whole
 * vectors. A variant includes this file behind its definitions of
 *
 *     Vec, FLOATS     a vector, and how many floats it has
 *     vec_zero, vec_all, vec_load, vec_store, vec_add, vec_mul, vec_fma (a * b + c)
 *     vec_load_once   a load into a register, where vec_load may become an operand of each use
 *     SCORE_HEADS     2 to 4 heads, whose partial sums of a tile stay in registers
 *     VALUE_VECS      vectors of four heads that stay in registers */
#ifndef FALLBACK_ATTENTION_WHOLE_TILE_H
#define FALLBACK_ATTENTION_WHOLE_TILE_H

#include "fallback/attention/attention.h"

enum { PARTS = ATTENTION_TILE / FLOATS };

typedef struct Scores {
    Vec of[SCORE_HEADS][PARTS];
} Scores;

INLINE Scores add_scores(int n_heads, Scores a, Scores b) {
    for (int h = 0; h < n_heads; h++)
        for (int v = 0; v < PARTS; v++) a.of[h][v] = vec_add(a.of[h][v], b.of[h][v]);
    return a;
}

/* Partial sum l: elements l, l + 16, l + 32, ... */
INLINE Scores partial_sum(const AttentionTile *t, const AttentionHead *heads, int n_heads, int64_t padded, int l) {
    Scores s;
    for (int h = 0; h < n_heads; h++)
        for (int v = 0; v < PARTS; v++) s.of[h][v] = vec_zero();
    for (int64_t i = l; i < padded; i += ATTENTION_LANES) {
        Vec q[SCORE_HEADS];
        for (int h = 0; h < n_heads; h++) q[h] = vec_all(heads[h].q[i]);
        for (int v = 0; v < PARTS; v++) {
            const Vec k = vec_load_once(t->kt_f32 + i * ATTENTION_TILE + v * FLOATS);
            for (int h = 0; h < n_heads; h++) s.of[h][v] = vec_fma(q[h], k, s.of[h][v]);
        }
    }
    return s;
}

/* Pairwise reduction of the 16 partial sums: l and l + 8 first, then 4, 2 and 1 apart. */
INLINE Scores sum_by_8(const AttentionTile *t, const AttentionHead *heads, int n_heads, int64_t padded, int l) {
    return add_scores(n_heads, partial_sum(t, heads, n_heads, padded, l),
                      partial_sum(t, heads, n_heads, padded, l + 8));
}
INLINE Scores sum_by_4(const AttentionTile *t, const AttentionHead *heads, int n_heads, int64_t padded, int l) {
    return add_scores(n_heads, sum_by_8(t, heads, n_heads, padded, l), sum_by_8(t, heads, n_heads, padded, l + 4));
}
INLINE Scores sum_by_2(const AttentionTile *t, const AttentionHead *heads, int n_heads, int64_t padded, int l) {
    return add_scores(n_heads, sum_by_4(t, heads, n_heads, padded, l), sum_by_4(t, heads, n_heads, padded, l + 2));
}

INLINE void scores_of(const AttentionTile *t, AttentionHead *heads, int n_heads) {
    const int64_t padded = attention_dim(t->dim);
    const Scores  s =
        add_scores(n_heads, sum_by_2(t, heads, n_heads, padded, 0), sum_by_2(t, heads, n_heads, padded, 1));
    for (int h = 0; h < n_heads; h++)
        for (int v = 0; v < PARTS; v++) vec_store(heads[h].p + v * FLOATS, vec_mul(vec_all(t->scale), s.of[h][v]));
}

/* The number of heads is a constant at each call. */
INLINE void whole_scores_of(const AttentionTile *t) {
    for (int h = 0; h < t->n_heads; h += SCORE_HEADS) {
        const int n = t->n_heads - h;
        if (SCORE_HEADS >= 4 && n >= 4)
            scores_of(t, t->heads + h, 4);
        else if (SCORE_HEADS >= 3 && n == 3)
            scores_of(t, t->heads + h, 3);
        else if (n >= 2)
            scores_of(t, t->heads + h, 2);
        else
            scores_of(t, t->heads + h, 1);
    }
}

/* Adds elements i to i + FLOATS n_vecs of the values that each head sees. */
INLINE void add_whole_values(const AttentionTile *t, int n_heads, int64_t i, int n_vecs) {
    const int64_t padded = attention_dim(t->dim);
    const float  *from   = t->v_f32 + i;
    Vec           acc[ATTENTION_HEADS][VALUE_VECS];
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++)
            acc[h][c] = vec_mul(vec_load(t->heads[h].acc + i + c * FLOATS), vec_all(t->heads[h].rescale));
    int n = t->n, most = 0; /* positions that all heads see, and that any sees */
    for (int h = 0; h < n_heads; h++) {
        n    = t->heads[h].n < n ? t->heads[h].n : n;
        most = t->heads[h].n > most ? t->heads[h].n : most;
    }
    for (int j = 0; j < n; j++) {
        Vec v[VALUE_VECS];
        for (int c = 0; c < n_vecs; c++) v[c] = vec_load(from + j * padded + c * FLOATS);
        for (int h = 0; h < n_heads; h++) {
            const Vec p = vec_all(t->heads[h].p[j]);
            for (int c = 0; c < n_vecs; c++) acc[h][c] = vec_fma(v[c], p, acc[h][c]);
        }
    }
    for (int j = n; j < most; j++)
        for (int h = 0; h < n_heads; h++) {
            if (j >= t->heads[h].n) continue;
            const Vec p = vec_all(t->heads[h].p[j]);
            for (int c = 0; c < n_vecs; c++)
                acc[h][c] = vec_fma(vec_load(from + j * padded + c * FLOATS), p, acc[h][c]);
        }
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < n_vecs; c++) vec_store(t->heads[h].acc + i + c * FLOATS, acc[h][c]);
}

/* The rest of a row is a multiple of 16 elements. */
INLINE void whole_values_of(const AttentionTile *t, RpDtype type, int n_heads) {
    enum { REST = VALUE_VECS < ATTENTION_LANES / FLOATS ? VALUE_VECS : ATTENTION_LANES / FLOATS };
    int64_t i = 0;
    (void)type;
    for (; i + VALUE_VECS * FLOATS <= attention_dim(t->dim); i += VALUE_VECS * FLOATS)
        add_whole_values(t, n_heads, i, VALUE_VECS);
    for (; i < attention_dim(t->dim); i += REST * FLOATS) add_whole_values(t, n_heads, i, REST);
}

#endif
