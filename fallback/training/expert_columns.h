/* expert_columns.h - the columns of a product of experts, sorted by expert. A column is the pair of choice j and token
 * t, number j + k*t; those of expert e are order[first[e]] to order[first[e + 1] - 1], ascending:
 *
 *     ids 2 0 2 7 0, 3 experts:   order 1 4 0 2    first 0 2 2 4
 *
 * Ids that are no expert are left out. The ids are data (I4), so memory is sized for any of them. */
#ifndef FALLBACK_TRAINING_EXPERT_COLUMNS_H
#define FALLBACK_TRAINING_EXPERT_COLUMNS_H

#include "fallback/fused/fused.h"

#include <string.h>

typedef struct ExpertColumns {
    int64_t *first; /* [n_expert + 1] */
    int32_t *order; /* [k * t] */
} ExpertColumns;

static inline size_t rp_expert_columns_bytes(const RpTensorView *ids, int64_t n_expert) {
    return rp_align_bytes((size_t)(n_expert + 2) * sizeof(int64_t)) +
           rp_align_bytes((size_t)(ids->ne[0] * ids->ne[1]) * sizeof(int32_t));
}

/* Counting sort. Counts are kept one entry late: while columns are placed, first[e + 1] is the next place of expert
 * e. */
static inline ExpertColumns rp_expert_columns(const RpTensorView *ids, int64_t n_expert, char *memory) {
    const size_t        bytes = rp_align_bytes((size_t)(n_expert + 2) * sizeof(int64_t));
    const int32_t      *id    = ids->data;
    const int64_t       n     = ids->ne[0] * ids->ne[1];
    const ExpertColumns c     = {.first = (int64_t *)(void *)memory, .order = (int32_t *)(void *)(memory + bytes)};
    memset(c.first, 0, bytes);
    for (int64_t i = 0; i < n; i++)
        if (id[i] >= 0 && id[i] < n_expert) c.first[id[i] + 2]++;
    for (int64_t e = 2; e <= n_expert; e++) c.first[e] += c.first[e - 1];
    for (int64_t i = 0; i < n; i++)
        if (id[i] >= 0 && id[i] < n_expert) c.order[c.first[id[i] + 1]++] = (int32_t)i;
    return c;
}

/* Column j + k*t of v [n,k,t], or of v [n,1,t], whose columns serve all j. */
static inline const float *rp_expert_column(const RpTensorView *v, int64_t k, int32_t column) {
    const int64_t j = v->ne[1] > 1 ? column % k : 0, t = column / k;
    return (const float *)(const void *)((const char *)v->data + (size_t)j * v->nb[1] + (size_t)t * v->nb[2]);
}

#endif
