/* vocabulary.h - the products of linear_cross_entropy and its backward op as operands of op gemm, one chunk of the
 * vocabulary after the other. Chunk c has the rows c * n to c * n + rows - 1 of w, n the rows that the buffer `chunk`
 * holds:
 *
 *     logits   l[i,t]  = scale * sum_k x[k,t] w[k,i]     into `chunk`
 *     dx       dx[k,t] = dx[k,t] + sum_i d[i,t] w[k,i]   d in `chunk`; the first chunk begins the sum
 *     dw       dw[k,i] = sum_t d[i,t] x[k,t] */
#ifndef BASE_VOCABULARY_H
#define BASE_VOCABULARY_H

#include "base/kernels.h"

#include <string.h>

typedef struct VocabularyChunk {
    RpTensorView x, w, logits; /* w [k,rows], logits [rows,t] in the buffer */
    int64_t      first, rows;  /* of the vocabulary */
} VocabularyChunk;

/* A product and its parameters. */
typedef struct VocabularyProduct {
    RpOpArgs   args;
    RpOpParams params;
} VocabularyProduct;

static inline int64_t rp_vocabulary_chunks(const RpTensorView *w, const RpTensorView *chunk) {
    return (w->ne[1] + chunk->ne[0] - 1) / chunk->ne[0];
}

/* Rows [first, first + rows) of a matrix. */
static inline RpTensorView rp_vocabulary_rows(const RpTensorView *m, int64_t first, int64_t rows) {
    RpTensorView v = *m;
    v.data         = (char *)m->data + (size_t)first * m->nb[1];
    v.ne[1]        = rows;
    return v;
}

static inline VocabularyChunk rp_vocabulary_chunk(const RpTensorView *x, const RpTensorView *w,
                                                  const RpTensorView *chunk, int64_t c) {
    const int64_t   n = chunk->ne[0], first = c * n, left = w->ne[1] - first;
    VocabularyChunk v;
    v.first = first, v.rows = left < n ? left : n;
    v.x = *x, v.w = rp_vocabulary_rows(w, first, v.rows), v.logits = *chunk;
    v.logits.ne[0] = v.rows;
    return v;
}

static inline RpTensorView rp_vocabulary_transposed(const RpTensorView *m) {
    RpTensorView v = *m;
    v.ne[0] = m->ne[1], v.ne[1] = m->ne[0];
    v.nb[0] = m->nb[1], v.nb[1] = m->nb[0];
    return v;
}

/* `p` holds its own parameters, so it is not to be copied. */
static inline void rp_vocabulary_product(VocabularyProduct *p, const RpTensorView *a, const RpTensorView *b,
                                         const RpTensorView *y) {
    memset(p, 0, sizeof *p);
    p->params.gemm.alpha = 1.0f;
    p->args.dst = *y, p->args.gemm.a = *a, p->args.gemm.b = *b;
    p->args.params = &p->params;
}

static inline void rp_vocabulary_logits(const VocabularyChunk *v, float scale, VocabularyProduct *p) {
    const RpTensorView w = rp_vocabulary_transposed(&v->w);
    rp_vocabulary_product(p, &v->x, &w, &v->logits);
    if (scale != 0.0f) p->params.gemm.alpha = scale;
}

static inline void rp_vocabulary_dx(const VocabularyChunk *v, const RpTensorView *dx, VocabularyProduct *p) {
    rp_vocabulary_product(p, &v->logits, &v->w, dx);
    if (v->first > 0) p->params.gemm.beta = 1.0f, p->args.gemm.c = *dx;
}

static inline void rp_vocabulary_dw(const VocabularyChunk *v, const RpTensorView *dw, VocabularyProduct *p) {
    const RpTensorView d = rp_vocabulary_transposed(&v->logits), rows = rp_vocabulary_rows(dw, v->first, v->rows);
    rp_vocabulary_product(p, &d, &v->x, &rows);
}

#endif
