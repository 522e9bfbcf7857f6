/* shape.h - what the shape rules share. */
#ifndef GRAPH_SHAPE_H
#define GRAPH_SHAPE_H

#include "graph/op_table.h"

#define REFUSE(status, text) return *why = (text), (status)

#define SHAPE_RULE(name)                                                                                     \
    RpStatus rp_shape_##name(const TensorView *const src[RP_MAX_SRC], const OpParams *params,                \
                             TensorView *out, const char **why)

bool rp_shape_same(const TensorView *a, const TensorView *b);
bool rp_shape_contiguous_rows(const TensorView *v);

/* i32 [n], one for each of n tokens. */
bool rp_shape_is_index(const TensorView *v, int64_t n);

/* f32 [n]. */
bool rp_shape_is_vector(const TensorView *v, int64_t n);

/* i32 [k,t], packed: k experts for each of t tokens. */
bool rp_shape_is_choice(const TensorView *v, int64_t k, int64_t n_tok);

#endif
