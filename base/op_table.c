/* The table of ops, made from the rows of reprise/ops.h and ops/private.h, and the custom ops that a program registers
 * (reprise/extend.h). A number that is no op has no description, so its use is an error (I12). */
#include "base/op_table.h"

#include "base/argument.h"

#include "base/each.h"
#include "base/kernels.h"
#include "base/sized.h"

#include <string.h>

/* rms_norm_params[] = {{"eps", PARAM_FLOAT, offsetof(RpRmsNormParams, eps), 4}} */
#define KIND(m)                                                                                                        \
    _Generic((m), bool: PARAM_BOOL, bool *: PARAM_BOOL, float: PARAM_FLOAT, size_t: PARAM_BYTES, size_t *: PARAM_BYTES, \
             int64_t *: PARAM_I64, default: PARAM_I32)
#define MEMBER(Params, m)      ((Params *)NULL)->m
#define PARAM(Params, m)       {#m, KIND(MEMBER(Params, m)), offsetof(Params, m), sizeof(MEMBER(Params, m))},
#define PARAM_SIZE(Params, m)  +sizeof(MEMBER(Params, m))
#define SOURCE_NAME(unused, s) #s,
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    static const OpParam name##_params[] = {RP_EACH(PARAM, Params, fields)};                                           \
    _Static_assert(0 RP_EACH(PARAM_SIZE, Params, fields) == sizeof(Params),                                            \
                   "the list of parameters of " #name " lacks a member of its struct");                                \
    _Static_assert(sizeof(Params) <= sizeof(((RpOpParams *)NULL)->reserved),                                           \
                   "the parameters of " #name " are larger than RpOpParams, whose size is fixed");                     \
    _Static_assert(RP_COUNT(sources) <= RP_MAX_SRC, #name " has more than RP_MAX_SRC sources");
RP_OPS(OP, OP)
#undef OP

/* The sizes are part of the kernel ABI (docs/api.md): a row changes none of them. */
_Static_assert(sizeof(RpOpParams) == sizeof(((RpOpParams *)NULL)->reserved), "RpOpParams has a fixed size");
_Static_assert(sizeof(RpOpArgs) == (RP_MAX_SRC + 1) * sizeof(RpTensorView) + sizeof(void *),
               "RpOpArgs has a fixed size");
_Static_assert((int)RP_OP_LAST_PRIVATE < (int)RP_OP_CUSTOM, "the first number of a custom op is fixed");
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    _Static_assert((int)RP_OP_##ID == (int)RP_ROW_##ID, "the rows of ops.h are in the order of their numbers");
RP_PUBLIC_OPS(OP, OP)
#undef OP

static const OpInfo table[RP_N_ROWS] = {
#define OP(number, ID, op, required, names, Params, fields, op_flags)                                                  \
    [RP_ROW_##ID] = {.name         = #op,                                                                              \
                     .n_required   = required,                                                                         \
                     .n_sources    = RP_COUNT(names),                                                                  \
                     .sources      = {RP_EACH(SOURCE_NAME, , names)},                                                  \
                     .params_bytes = sizeof(Params),                                                                   \
                     .params       = op##_params,                                                                      \
                     .n_params     = RP_COUNT(fields),                                                                 \
                     .flags        = op_flags},
    RP_OPS(OP, OP)
#undef OP
};

static OpInfo          custom[RP_MAX_CUSTOM_OPS];
static RpOpDescription descriptions[RP_MAX_CUSTOM_OPS]; /* custom[i].custom is &descriptions[i] */
static RpCudaSource    sources[RP_MAX_CUSTOM_OPS];      /* custom[i].source is &sources[i], or NULL */
static char            source_files[RP_MAX_CUSTOM_OPS][RP_SOURCE_FILE_BYTES];
static int             n_custom;

const OpInfo *rp_op_info(TensorOp op) {
    const int      row = rp_op_row(op);
    const unsigned i   = (unsigned)op - RP_OP_CUSTOM;
    if (row >= 0) return &table[row];
    return i < (unsigned)n_custom ? &custom[i] : NULL;
}

const char *rp_op_source_name(const OpInfo *info, int i) {
    return info != NULL && i >= 0 && i < info->n_sources && info->sources[i] != NULL ? info->sources[i] : "";
}

bool rp_op_find(const char *name, size_t len, TensorOp *out) {
    for (int i = 0; i < RP_N_ROWS + n_custom; i++) {
        const TensorOp op   = i < RP_N_ROWS ? rp_row_op(i) : (TensorOp)(RP_OP_CUSTOM + i - RP_N_ROWS);
        const char    *have = rp_op_info(op)->name;
        *out                = op;
        if (strlen(have) == len && strncmp(have, name, len) == 0) return true;
    }
    return false;
}

size_t rp_name_length(const char *s) {
    return strspn(s, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
}

bool rp_is_name(const char *s) { return s != NULL && *s != '\0' && s[rp_name_length(s)] == '\0'; }

static RpStatus check_description(const RpOpDescription *d, bool has_source) {
    /* Bits 0 to 7 are plain flags; bit 8+i means that the op also writes to source i. */
    const unsigned writes = d->flags >> RP_FLAG_WRITES, plain_flags = d->flags & ((1u << RP_FLAG_WRITES) - 1);
    const unsigned known = RP_FLAG_INPLACE | RP_FLAG_FUSED;
    TensorOp       taken;
    if (!rp_is_name(d->name)) return rp_fail(RP_E_ARG, "an op's name is made of letters, digits and _");
    if (rp_op_find(d->name, strlen(d->name), &taken)) return rp_fail(RP_E_ARG, "there is an op '%s'", d->name);
    if (has_source && d->cuda != NULL)
        return rp_fail(RP_E_ARG, "op '%s': a CUDA kernel and the source of one are given", d->name);
    if (d->shape == NULL || (d->cpu == NULL && !has_source) || (plain_flags & ~known) != 0 || d->n_required < 0 ||
        d->n_sources < d->n_required || d->n_sources > RP_MAX_SRC)
        return rp_fail(
            RP_E_ARG,
            "op '%s': must have a shape rule, a CPU kernel, 0 <= n_required <= n_sources <= %d and no flags but "
            "RP_FLAG_INPLACE, RP_FLAG_FUSED and RP_WRITES",
            d->name, RP_MAX_SRC);
    for (int i = 0; d->sources != NULL && i < d->n_sources; i++)
        if (!rp_is_name(d->sources[i]))
            return rp_fail(RP_E_ARG, "op '%s': the name of source %d must be made of letters, digits and _", d->name,
                           i);
    if ((d->flags & RP_FLAG_INPLACE) != 0 && d->n_required == 0)
        return rp_fail(RP_E_ARG, "op '%s': must have a source to work in place", d->name);
    if (writes != 0 && (d->flags & RP_FLAG_FUSED) == 0)
        return rp_fail(RP_E_ARG, "op '%s': RP_WRITES is for ops that patterns make (RP_FLAG_FUSED)", d->name);
    if (writes >> d->n_sources != 0)
        return rp_fail(RP_E_ARG, "op '%s': it writes to a source that it does not have", d->name);
    return RP_OK;
}

/* ---- registration ---- */

static RpStatus register_op(const RpOpDescription *given, const RpCudaSource *source, TensorOp *out) {
    RP_TRY(check_description(given, source != NULL));
    if (n_custom == RP_MAX_CUSTOM_OPS)
        return rp_fail(RP_E_NOMEM, "op '%s': at most %d custom ops can be registered", given->name, RP_MAX_CUSTOM_OPS);
    OpInfo *info = &custom[n_custom];
    if (source != NULL) {
        sources[n_custom] = *source;
        RP_TRY(rp_source_complete(&sources[n_custom], given->name, source_files[n_custom]));
    }
    descriptions[n_custom]   = *given;
    const RpOpDescription *d = &descriptions[n_custom];
    *info                    = (OpInfo){.name         = d->name,
                                        .n_required   = d->n_required,
                                        .n_sources    = d->n_sources,
                                        .params_bytes = sizeof(RpCustomParams),
                                        .flags        = d->flags,
                                        .custom       = d,
                                        .source       = source != NULL ? &sources[n_custom] : NULL};
    for (int i = 0; d->sources != NULL && i < d->n_sources; i++) info->sources[i] = d->sources[i];
    *out = (TensorOp)(RP_OP_CUSTOM + n_custom++);
    return RP_OK;
}

RpStatus rp_op_register_sized(const RpOpDescription *description, size_t description_bytes, TensorOp *out) {
    RP_NOT_NULL(description, "description");
    RP_NOT_NULL(out, "out");

    RpOpDescription given;
    RP_TRY(rp_sized_in(&given, sizeof given, description, description_bytes, "RpOpDescription"));
    return register_op(&given, NULL, out);
}

RpStatus rp_op_register_source_sized(const RpOpDescription *description, size_t description_bytes,
                                     const RpCudaSource *source, size_t source_bytes, TensorOp *out) {
    RP_NOT_NULL(description, "description");
    RP_NOT_NULL(source, "source");
    RP_NOT_NULL(out, "out");

    RpOpDescription given;
    RpCudaSource    given_source;
    RP_TRY(rp_sized_in(&given, sizeof given, description, description_bytes, "RpOpDescription"));
    RP_TRY(rp_sized_in(&given_source, sizeof given_source, source, source_bytes, "RpCudaSource"));
    return register_op(&given, &given_source, out);
}
