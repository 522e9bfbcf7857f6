/* The parameters of a node as JSON, by their names in ops.h: {"column.eps":1e-05,"scale":1}. */
#include "graph/dump.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* JSON has no infinities and no NaN: they become strings. */
static void dump_float(float number, FILE *out) {
    if (isfinite(number))
        fprintf(out, "%.9g", (double)number);
    else
        fprintf(out, "\"%g\"", (double)number);
}

static void dump_element(ParamKind kind, const char *at, FILE *out) {
    float   number;
    int32_t i32;
    int64_t i64;
    size_t  bytes;
    switch (kind) {
    case PARAM_BOOL:
        fputs(*(const bool *)at ? "true" : "false", out);
        return;
    case PARAM_FLOAT:
        memcpy(&number, at, sizeof number);
        dump_float(number, out);
        return;
    case PARAM_BYTES:
        memcpy(&bytes, at, sizeof bytes);
        fprintf(out, "%zu", bytes);
        return;
    case PARAM_I64:
        memcpy(&i64, at, sizeof i64);
        fprintf(out, "%" PRId64, i64);
        return;
    case PARAM_I32:
        break;
    }
    memcpy(&i32, at, sizeof i32);
    fprintf(out, "%d", i32);
}

static size_t element_bytes(ParamKind kind) {
    static const size_t bytes[] = {[PARAM_I32]   = sizeof(int32_t),
                                   [PARAM_I64]   = sizeof(int64_t),
                                   [PARAM_BYTES] = sizeof(size_t),
                                   [PARAM_FLOAT] = sizeof(float),
                                   [PARAM_BOOL]  = sizeof(bool)};
    return bytes[kind];
}

static void dump_param(const OpParam *p, const char *params, FILE *out) {
    const size_t each = element_bytes(p->kind);
    const bool   list = p->bytes > each;
    fprintf(out, "\"%s\":%s", p->name, list ? "[" : "");
    for (size_t at = 0; at < p->bytes; at += each) {
        if (at > 0) fputc(',', out);
        dump_element(p->kind, params + p->offset + at, out);
    }
    if (list) fputc(']', out);
}

/* "unused" and "route.unused" are padding. */
static bool is_padding(const char *name) {
    const char *dot = strrchr(name, '.');
    return strcmp(dot != NULL ? dot + 1 : name, "unused") == 0;
}

void rp_dump_params(const OpInfo *info, const RpOpParams *of, FILE *out) {
    const char *params    = (const char *)of;
    const char *separator = "";
    fputc('{', out);
    for (int i = 0; i < info->n_params; i++) {
        if (is_padding(info->params[i].name)) continue;
        fputs(separator, out);
        dump_param(&info->params[i], params, out);
        separator = ",";
    }
    if (info->custom != NULL) { /* only its kernels know what they mean */
        fputs("\"bytes\":\"", out);
        for (size_t i = 0; i < info->params_bytes; i++) fprintf(out, "%02x", (unsigned char)params[i]);
        fputc('"', out);
    }
    fputc('}', out);
}

void rp_node_dump_params(const TensorNode *n, FILE *out) {
    if (n->kind == NODE_OP)
        rp_dump_params(rp_op_info(n->op), &n->params, out);
    else
        fputs("{}", out);
}
