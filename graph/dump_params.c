/* The parameters of a node in a dump, by their names in ops.h; what the view of the result says is left out. */
#include "graph/dump.h"

#include <math.h>
#include <string.h>

typedef enum FieldKind { FIELD_INT, FIELD_BYTES, FIELD_FLOAT, FIELD_BOOL } FieldKind;

typedef struct ParamField {
    const char *name; /* NULL: the end */
    FieldKind   kind;
    int         n;
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
FIELDS(attention, FIELD(AttentionParams, scale), FIELD(AttentionParams, window));
FIELDS(swiglu_oai, FIELD(SwigluOaiParams, alpha), FIELD(SwigluOaiParams, limit));
FIELDS(top_k, FIELD(TopKParams, k), FIELD(TopKParams, n_group), FIELD(TopKParams, n_group_used));
FIELDS(route, FIELD(RouteParams, soft_max), FIELD(RouteParams, normalize), FIELD(RouteParams, scale));

/* Of a type that is not here: NULL, and its bytes are dumped as they are. */
/* clang-format off */
#define FIELDS_OF(Params)                                                                                    \
    _Generic(*(Params *)NULL, NoParams: none, CopyParams: none, ReshapeParams: none, RmsNormParams: rms_norm,\
             MulMatParams: mul_mat, RopeParams: rope, SoftMaxParams: soft_max, GeluParams: gelu,             \
             ScaleParams: scale, ViewParams: view, PermuteParams: permute, AttentionParams: attention,       \
             SwigluOaiParams: swiglu_oai, TopKParams: top_k, RouteParams: route,                             \
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

void rp_node_dump_params(const TensorNode *n, FILE *out) {
    const char *params = (const char *)&n->params;
    fputc('{', out);
    if (n->kind == NODE_OP && of_op[n->op].fields != NULL) {
        for (const ParamField *f = of_op[n->op].fields; f->name != NULL; f++) {
            if (f != of_op[n->op].fields) fputc(',', out);
            dump_field(f, params, out);
        }
    } else if (n->kind == NODE_OP) {
        fputs("\"bytes\":\"", out);
        for (size_t i = 0; i < of_op[n->op].bytes; i++) fprintf(out, "%02x", (unsigned char)params[i]);
        fputc('"', out);
    }
    fputc('}', out);
}
