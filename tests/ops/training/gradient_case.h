/* gradient_case.h - a graph with parameters and their gradients, as the tests of rp_graph_backward build them. */
#ifndef TESTS_TRAINING_GRADIENT_CASE_H
#define TESTS_TRAINING_GRADIENT_CASE_H

#include "tests/support/golden.h"

enum { MAX_PARAMS = 12 };

typedef struct Case {
    ComputeGraph *g;
    TensorNode   *params[MAX_PARAMS], *grads[MAX_PARAMS], *loss, *ids;
    int           n_params;
    uint32_t      seed;
} Case;

static inline float next_float(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

/* A parameter: an input, so that the test can change it. */
static inline TensorNode *param(Case *c, int64_t n0, int64_t n1, int64_t n2) {
    char name[8];
    snprintf(name, sizeof name, "p%d", c->n_params);
    return c->params[c->n_params++] = rp_graph_input(c->g, name, RP_F32, (int64_t[]){n0, n1, n2, 1});
}

/* i32 [n0,n1] with the contents 0, 2, 1, 0, 2, 1, ... */
static inline TensorNode *ids(Case *c, int64_t n0, int64_t n1) {
    return c->ids = rp_graph_input(c->g, "ids", RP_I32, (int64_t[]){n0, n1, 1, 1});
}

static inline TensorNode *op(Case *c, TensorOp id, RpOpParams p, TensorNode *a, TensorNode *b) {
    return rp_graph_op(c->g, id, &p, (TensorNode *[]){a, b}, b != NULL ? 2 : 1);
}

#endif
