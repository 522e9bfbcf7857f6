/* values.c - reads the values of a node from an executor, and converts them. */
#include "cli/provenance/values.h"

#include "cli/provenance/npy.h"

#include <stdlib.h>
#include <string.h>

void cli_values_free(NodeValues *v) {
    free(v->bytes);
    *v = (NodeValues){0};
}

/* Copies row r of a view to `out`. Elements of a transposed view are not neighbours. */
static void copy_row(const RpTensorView *v, int64_t r, char *out) {
    const char  *row  = rp_view_row(v, r);
    const size_t unit = (size_t)rp_dtype_info(v->dtype)->block_bytes;
    if (v->nb[0] == unit || rp_dtype_is_quant(v->dtype)) {
        memcpy(out, row, rp_row_bytes(v->dtype, v->ne[0]));
        return;
    }
    for (int64_t i = 0; i < v->ne[0]; i++) memcpy(out + (size_t)i * unit, row + (size_t)i * v->nb[0], unit);
}

RpStatus cli_values_read(RpExecutor *exec, const TensorNode *node, NodeValues *out) {
    RpTensorView v      = rp_node_view(node);
    const size_t extent = rp_view_extent_bytes(&v), row = rp_row_bytes(v.dtype, v.ne[0]);
    const size_t bytes = row * (size_t)rp_view_rows(&v);
    *out               = (NodeValues){.dtype = v.dtype, .bytes = malloc(bytes + 1), .n_bytes = bytes};
    memcpy(out->ne, v.ne, sizeof out->ne);
    v.data      = malloc(extent + 1);
    RpStatus st = v.data != NULL && out->bytes != NULL
                      ? rp_executor_read(exec, node, v.data, extent)
                      : rp_fail(RP_E_NOMEM, "out of memory for the %zu bytes of a node", extent);
    for (int64_t r = 0; r < rp_view_rows(&v) && st == RP_OK; r++) copy_row(&v, r, (char *)out->bytes + (size_t)r * row);
    free(v.data);
    if (st != RP_OK) cli_values_free(out);
    return st;
}

/* A row of q8_act: int8 quant[n], f32 scale[n/32], sums. */
static void row_of_q8_act(const char *row, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        float scale;
        memcpy(&scale, row + n + i / 32 * (int64_t)sizeof scale, sizeof scale);
        out[i] = scale * (float)((const int8_t *)row)[i];
    }
}

RpStatus cli_values_to_f32(NodeValues *v) {
    if (v->dtype == RP_F32 || v->dtype == RP_I32) return RP_OK;
    const size_t n = cli_values_n(v), row = rp_row_bytes(v->dtype, v->ne[0]);
    float       *x = malloc(n * sizeof *x + 1);
    if (x == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu values of a node", n);
    for (size_t r = 0; r < n / (size_t)v->ne[0]; r++) {
        const char *bytes = (const char *)v->bytes + r * row;
        if (v->dtype == RP_Q8_ACT)
            row_of_q8_act(bytes, v->ne[0], x + r * (size_t)v->ne[0]);
        else
            rp_dequantize_row(v->dtype, bytes, v->ne[0], x + r * (size_t)v->ne[0]);
    }
    free(v->bytes);
    v->bytes   = x;
    v->n_bytes = n * sizeof *x;
    v->dtype   = RP_F32;
    return RP_OK;
}

void cli_values_write_npy(const NodeValues *v, FILE *out) {
    static const struct {
        RpDtype     dtype;
        const char *descr;
    } types[] = {
        {RP_F32, "<f4"},
        {RP_F16, "<f2"},
        {RP_I32, "<i4"}
    };
    const char *descr = "|u1";
    int64_t     ne[RP_MAX_DIMS];
    size_t      shape[RP_MAX_DIMS];
    memcpy(ne, v->ne, sizeof ne);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == v->dtype) descr = types[i].descr;
    if (strcmp(descr, "|u1") == 0) ne[0] = (int64_t)rp_row_bytes(v->dtype, v->ne[0]);
    const int n = cli_npy_shape(ne, shape);
    cli_npy_head(descr, shape, n, out);
    fwrite(v->bytes, 1, v->n_bytes, out);
}
