/* random_graph_run.h - sets the inputs of graphs of random_graph.h, and reads and compares their results. */
#ifndef TESTS_RANDOM_GRAPH_RUN_H
#define TESTS_RANDOM_GRAPH_RUN_H

#include "tests/support/random_graph.h"

#include <math.h>

static inline const TensorNode *output_named(const ComputeGraph *g, const char *name) {
    for (int i = 0; i < rp_graph_n_nodes(g); i++) {
        const TensorNode *n = rp_graph_node(g, i);
        if (rp_node_is_output(n) && strcmp(rp_node_name(n), name) == 0) return n;
    }
    return NULL;
}

/* Inputs depend on the seed and the step only. An input without readers was dropped from the graph. */
static inline void set_random_inputs(const RandomGraph *r, RpExecutor *e, uint64_t seed, int step) {
    RandomGraph values = {.rng = seed ^ (0xabcdu + (uint64_t)step)};
    for (int i = 0; i < r->n_inputs; i++) {
        const TensorNode *n = rp_graph_find(r->g, r->inputs[i]);
        if (n == NULL) continue;
        const RpTensorView v    = rp_node_view(n);
        void              *data = rp_executor_data(e, n);
        const bool         half = strncmp(r->inputs[i], "before", 6) == 0;
        values.rng += (uint64_t)i;
        for (int64_t k = 0; k < rp_view_elems(&v); k++) {
            if (v.dtype == RP_F32) /* frequency factors are positive */
                ((float *)data)[k] = (float)below(&values, 1000) * 0.002f + (r->inputs[i][0] == 'f' ? 1.0f : -1.0f);
            else if (strncmp(r->inputs[i], "ids", 3) == 0)
                ((int32_t *)data)[k] = (int32_t)below(&values, 64);
            else
                ((int32_t *)data)[k] = (int32_t)(step * r->n_tok + k) / (half ? 2 : 1);
        }
    }
}

/* Results of a run: outputs and states, one after the other in `bytes`. */
typedef struct Item {
    char    name[32];
    RpDtype dtype;
    int     step;
    size_t  at, n_bytes;
} Item;

enum { RANDOM_ITEMS = RANDOM_STEPS * 2 * RANDOM_NAMED, RANDOM_ROOM = 16 << 20 };

typedef struct Items {
    char  *bytes;
    size_t n_bytes;
    Item   items[RANDOM_ITEMS];
    int    n;
} Items;

/* Makes all NaN equal: C does not define which operand's sign and payload a result has. */
static inline void unify_nan(RpDtype type, char *bytes, size_t n_bytes) {
    const uint32_t size = type == RP_F32 ? 4 : 2, infinity = type == RP_F32 ? 0x7f800000u : 0x7c00u;
    if (type != RP_F32 && type != RP_F16) return;
    for (size_t i = 0; i < n_bytes; i += size) {
        uint32_t       bits = 0;
        const uint32_t nan  = infinity | infinity >> 1;
        memcpy(&bits, bytes + i, size); /* little-endian, like every supported machine */
        if ((bits & (infinity | (infinity - 1))) > infinity) memcpy(bytes + i, &nan, size);
    }
}

static inline void read_item(Items *out, RpExecutor *e, const TensorNode *n, const char *name, int step) {
    if (n == NULL) return; /* the first name of an output that occurs twice; a state without stores */
    const RpTensorView v  = rp_node_view(n);
    Item              *it = &out->items[out->n++];
    *it = (Item){.dtype = v.dtype, .step = step, .at = out->n_bytes, .n_bytes = rp_view_extent_bytes(&v)};
    snprintf(it->name, sizeof it->name, "%s", name);
    cr_assert_leq(it->at + it->n_bytes, (size_t)RANDOM_ROOM);
    OK(rp_executor_get(e, n, out->bytes + it->at, it->n_bytes));
    unify_nan(it->dtype, out->bytes + it->at, it->n_bytes);
    out->n_bytes += it->n_bytes;
}

/* Appends the outputs and states of this step. */
static inline void read_items(const RandomGraph *r, RpExecutor *e, int step, Items *out) {
    for (int i = 0; i < r->n_outputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "out.%d", i);
        read_item(out, e, output_named(r->g, name), name, step);
    }
    for (int i = 0; i < r->n_states; i++) read_item(out, e, rp_graph_find(r->g, r->states[i]), r->states[i], step);
}

/* Relative error of an item: norm of the difference / norm of the expected values. 0 for integers, and if the
 * norm is not finite. */
static inline double item_off(const Items *got, const Items *want, int i) {
    const Item   *it  = &want->items[i];
    const int64_t n   = (int64_t)(it->n_bytes / (size_t)rp_dtype_info(it->dtype)->block_bytes);
    double        off = 0.0, size = 0.0;
    if (it->dtype == RP_I32) return 0.0;
    for (int64_t k = 0; k < n; k++) {
        float        a, b;
        const size_t at = it->at + (size_t)k * (size_t)rp_dtype_info(it->dtype)->block_bytes;
        rp_dequantize_row(it->dtype, got->bytes + at, 1, &a);
        rp_dequantize_row(it->dtype, want->bytes + at, 1, &b);
        off += pow((double)a - (double)b, 2.0);
        size += pow((double)b, 2.0);
    }
    return isfinite(size) && size > 0.0 ? sqrt(off / size) : 0.0;
}

#endif
