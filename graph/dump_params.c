/* The parameters of a node in a dump, by their names in ops.h. Parameters that the shape of the result
 * shows, such as those of reshape, are left out. Each Params type has a table of its fields:
 *
 *     FIELDS(scale, FIELD(ScaleParams, scale), ...)
 *         ->  scale[] = {{"scale", FIELD_FLOAT, 1, offsetof(ScaleParams, scale)}, ..., {.name = NULL}}
 *
 * of_op[] selects the table of an op by the type in its row of ops.h. */
#include "graph/dump.h"

#include <math.h>
#include <string.h>

typedef enum FieldKind { FIELD_INT, FIELD_BYTES, FIELD_FLOAT, FIELD_BOOL } FieldKind;

typedef struct ParamField {
    const char *name; /* NULL ends the table */
    FieldKind   kind;
    int         n; /* elements of an array */
    size_t      offset;
} ParamField;

#define KIND(field)                                                                                          \
    _Generic((field), bool : FIELD_BOOL, float : FIELD_FLOAT, size_t : FIELD_BYTES, default : FIELD_INT)
#define FIELD(Params, f)                                                                                     \
    { #f, KIND(((Params *)NULL)->f), 1, offsetof(Params, f) }
#define LIST(Params, f)                                                                                      \
    { #f, KIND(((Params *)NULL)->f[0]), RP_MAX_DIMS, offsetof(Params, f) }
#define FIELDS(list, ...) static const ParamField list[] = {__VA_ARGS__, {.name = NULL}}

static const ParamField none[] = {{.name = NULL}};
FIELDS(rms_norm, FIELD(RmsNormParams, eps));
FIELDS(mul_mat, FIELD(MulMatParams, bound));
FIELDS(rope, FIELD(RopeParams, mode), FIELD(RopeParams, n_dims), FIELD(RopeParams, freq_base),
       FIELD(RopeParams, freq_scale), FIELD(RopeParams, ext_factor), FIELD(RopeParams, attn_factor),
       FIELD(RopeParams, beta_fast), FIELD(RopeParams, beta_slow), FIELD(RopeParams, n_ctx_orig));
FIELDS(soft_max, FIELD(SoftMaxParams, scale), FIELD(SoftMaxParams, window));
FIELDS(gelu, FIELD(GeluParams, kind));
FIELDS(scale, FIELD(ScaleParams, scale), FIELD(ScaleParams, bias));
FIELDS(view, FIELD(ViewParams, offset));
FIELDS(permute, LIST(PermuteParams, axis));
FIELDS(attention, FIELD(AttentionParams, scale), FIELD(AttentionParams, window),
       FIELD(AttentionParams, dtype));
FIELDS(get_rows, FIELD(GetRowsParams, scale));
FIELDS(bits, FIELD(BitsParams, dtype));
#define COLUMN(Params) FIELD(Params, column.norm), FIELD(Params, column.eps), FIELD(Params, column.round)
FIELDS(linear, COLUMN(LinearParams), FIELD(LinearParams, scale), FIELD(LinearParams, post_norm),
       FIELD(LinearParams, post_eps));
FIELDS(gate_up, COLUMN(GateUpParams), FIELD(GateUpParams, kind), FIELD(GateUpParams, alpha),
       FIELD(GateUpParams, limit), FIELD(GateUpParams, dtype));
FIELDS(qkv, COLUMN(QkvParams), FIELD(QkvParams, head_dim), FIELD(QkvParams, norm), FIELD(QkvParams, norm_eps),
       FIELD(QkvParams, rope.mode), FIELD(QkvParams, rope.n_dims), FIELD(QkvParams, rope.freq_base),
       FIELD(QkvParams, rope.freq_scale), FIELD(QkvParams, rope.ext_factor),
       FIELD(QkvParams, rope.attn_factor), FIELD(QkvParams, rope.beta_fast), FIELD(QkvParams, rope.beta_slow),
       FIELD(QkvParams, rope.n_ctx_orig));
FIELDS(router, COLUMN(RouterParams), FIELD(RouterParams, kind), FIELD(RouterParams, soft_max_scale),
       FIELD(RouterParams, top_k.k), FIELD(RouterParams, top_k.n_group),
       FIELD(RouterParams, top_k.n_group_used), FIELD(RouterParams, route.soft_max),
       FIELD(RouterParams, route.normalize), FIELD(RouterParams, route.scale));
FIELDS(experts_down, FIELD(ExpertsDownParams, scale));
FIELDS(swiglu_oai, FIELD(SwigluOaiParams, alpha), FIELD(SwigluOaiParams, limit));
FIELDS(top_k, FIELD(TopKParams, k), FIELD(TopKParams, n_group), FIELD(TopKParams, n_group_used));
FIELDS(route, FIELD(RouteParams, soft_max), FIELD(RouteParams, normalize), FIELD(RouteParams, scale));

/* The table of a Params type. A type that is not in the list has none, and its bytes are dumped in
 * hexadecimal. */
/* clang-format off */
#define FIELDS_OF(Params)                                                                                    \
    _Generic(*(Params *)NULL, NoParams: none, CopyParams: none, ReshapeParams: none, RmsNormParams: rms_norm,\
             MulMatParams: mul_mat, RopeParams: rope, SoftMaxParams: soft_max, GeluParams: gelu,             \
             ScaleParams: scale, ViewParams: view, PermuteParams: permute, AttentionParams: attention,       \
             SwigluOaiParams: swiglu_oai, TopKParams: top_k, RouteParams: route,                             \
             GetRowsParams: get_rows, BitsParams: bits, LinearParams: linear, GateUpParams: gate_up,         \
             QkvParams: qkv, RouterParams: router, ExpertsDownParams: experts_down,                          \
             default: (const ParamField *)NULL)
/* clang-format on */

static const struct OpFields {
    const ParamField *fields;
    size_t            bytes;
} of_op[RP_OP_COUNT] = {
#define OP(ID, name, min_src, max_src, Params, shape, flags)                                                 \
    [RP_OP_##ID] = {FIELDS_OF(Params), sizeof(Params)},
    RP_OPS(OP)
#undef OP
};

static void dump_value(FieldKind kind, const void *at, FILE *out) {
    float   number;
    int32_t whole;
    size_t  bytes;
    switch (kind) {
    case FIELD_BOOL:
        fputs(*(const bool *)at ? "true" : "false", out);
        break;
    case FIELD_FLOAT:
        memcpy(&number, at, sizeof number);
        if (isfinite(number))
            fprintf(out, "%.9g", (double)number);
        else
            fprintf(out, "\"%g\"", (double)number);
        break;
    case FIELD_BYTES:
        memcpy(&bytes, at, sizeof bytes);
        fprintf(out, "%zu", bytes);
        break;
    case FIELD_INT:
        memcpy(&whole, at, sizeof whole);
        fprintf(out, "%d", whole);
        break;
    }
}

static void dump_field(const ParamField *f, const char *params, FILE *out) {
    static const size_t size[] = {[FIELD_INT]   = sizeof(int32_t),
                                  [FIELD_BYTES] = sizeof(size_t),
                                  [FIELD_FLOAT] = sizeof(float),
                                  [FIELD_BOOL]  = sizeof(bool)};
    fprintf(out, "\"%s\":%s", f->name, f->n > 1 ? "[" : "");
    for (int i = 0; i < f->n; i++) {
        if (i > 0) fputc(',', out);
        dump_value(f->kind, params + f->offset + (size_t)i * size[f->kind], out);
    }
    if (f->n > 1) fputc(']', out);
}

/* The fields of a custom op are unknown, so its parameters are dumped as bytes. */
static struct OpFields fields_of(TensorOp op) {
    return (unsigned)op < RP_OP_COUNT ? of_op[op] : (struct OpFields){NULL, sizeof(CustomParams)};
}

void rp_node_dump_params(const TensorNode *n, FILE *out) {
    const char           *params = (const char *)&n->params;
    const struct OpFields f      = n->kind == NODE_OP ? fields_of(n->op) : (struct OpFields){none, 0};
    fputc('{', out);
    for (const ParamField *p = f.fields; p != NULL && p->name != NULL; p++) {
        if (p != f.fields) fputc(',', out);
        dump_field(p, params, out);
    }
    if (f.fields == NULL) {
        fputs("\"bytes\":\"", out);
        for (size_t i = 0; i < f.bytes; i++) fprintf(out, "%02x", (unsigned char)params[i]);
        fputc('"', out);
    }
    fputc('}', out);
}
