/* values.h - the values of a node in memory of the host. */
#ifndef CLI_PROVENANCE_VALUES_H
#define CLI_PROVENANCE_VALUES_H

#include "reprise/reprise.h"

typedef struct NodeValues {
    RpDtype dtype;
    int64_t ne[RP_MAX_DIMS];
    void   *bytes; /* rows without gaps; owned */
    size_t  n_bytes;
} NodeValues;

void cli_values_free(NodeValues *v);

/* Copies a node as the steps that have run left it. RP_E_NOMEM, errors of rp_executor_read. */
RP_NODISCARD RpStatus cli_values_read(RpExecutor *exec, const TensorNode *node, NodeValues *out);

/* Converts to f32, which is exact for f16, bf16 and the product of a quant and its scale; i32 stays i32. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_values_to_f32(NodeValues *v);

/* Number of elements. */
static inline size_t cli_values_n(const NodeValues *v) { return (size_t)(v->ne[0] * v->ne[1] * v->ne[2] * v->ne[3]); }

/* Writes an array of NumPy: f32, f16 and i32 as they are, other types as the bytes of their rows. */
void cli_values_write_npy(const NodeValues *v, FILE *out);

#endif
