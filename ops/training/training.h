/* training.h - what the rules of the ops of training share. n is the length of a row, t the number of tokens. */
#ifndef OPS_TRAINING_TRAINING_H
#define OPS_TRAINING_TRAINING_H

#include "ops/op.h"

/* The sources that linear_cross_entropy and its backward op have. */
typedef struct LinearSources {
    const RpTensorView *x, *w, *targets, *stats, *chunk;
} LinearSources;

RpStatus rp_check_linear_sources(const char *op, const RpOpArgs *args, const LinearSources *s);
RpStatus rp_shape_linear_sources(const LinearSources *s, const char **why);

/* Logits x [n,t] and a target for each row. */
RpStatus rp_shape_targets(const RpTensorView *x, const RpTensorView *targets, const char **why);

/* f32 [n,k,t] with contiguous rows: k columns for each of t tokens, which mul_mat_id finds by their number j + k*t. */
RpStatus rp_check_columns(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, int64_t n,
                          int64_t k, int64_t t);
bool     rp_shape_is_columns(const RpTensorView *v, int64_t n, int64_t k, int64_t t);

#endif
