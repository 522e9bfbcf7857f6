/* The table of ops, made from the list in ops.h, and the custom ops that a program registers
 * (reprise/extend.h). A number that is no op has no description, so its use is an error (I12). */
#include "graph/op_table.h"

#include <string.h>

static const OpDescription table[RP_OP_COUNT] = {
#define OP(ID, name, min_src, max_src, Params, shape, flags)                                                 \
    [RP_OP_##ID] = {#name, min_src, max_src, rp_shape_##shape, flags, NULL, NULL},
    RP_OPS(OP)
#undef OP
};

static const OpDescription *custom[RP_MAX_CUSTOM_OPS];
static int                  n_custom;

const OpDescription *rp_op_info(TensorOp op) {
    const unsigned i = (unsigned)op;
    if (i < RP_OP_COUNT) return &table[i];
    return i - RP_OP_COUNT < (unsigned)n_custom ? custom[i - RP_OP_COUNT] : NULL;
}

bool rp_op_find(const char *name, size_t len, TensorOp *out) {
    for (unsigned i = 0; i < RP_OP_COUNT + (unsigned)n_custom; i++) {
        const char *have = rp_op_info((TensorOp)i)->name;
        *out             = (TensorOp)i;
        if (strlen(have) == len && strncmp(have, name, len) == 0) return true;
    }
    return false;
}

size_t rp_name_length(const char *s) {
    return strspn(s, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
}

bool rp_is_name(const char *s) { return s != NULL && *s != '\0' && s[rp_name_length(s)] == '\0'; }

RpStatus rp_op_register(const OpDescription *d, TensorOp *out) {
    /* Bits 0 to 7 are plain flags; bit 8+i means that the op also writes to source i. */
    const unsigned writes = d->flags >> RP_FLAG_WRITES, plain_flags = d->flags & ((1u << RP_FLAG_WRITES) - 1);
    const unsigned known = RP_FLAG_INPLACE | RP_FLAG_FUSED;
    TensorOp       taken;
    if (!rp_is_name(d->name)) return rp_fail(RP_E_ARG, "an op's name is made of letters, digits and _");
    if (rp_op_find(d->name, strlen(d->name), &taken))
        return rp_fail(RP_E_ARG, "there is an op '%s'", d->name);
    if (d->shape == NULL || d->cpu == NULL || (plain_flags & ~known) != 0 || d->min_src < 0 ||
        d->max_src < d->min_src || d->max_src > RP_MAX_SRC)
        return rp_fail(RP_E_ARG,
                       "op '%s': a shape rule, a CPU kernel, 0 <= min_src <= max_src <= %d and no flags but "
                       "RP_FLAG_INPLACE, RP_FLAG_FUSED and RP_WRITES are required",
                       d->name, RP_MAX_SRC);
    if ((d->flags & RP_FLAG_INPLACE) != 0 && d->min_src == 0)
        return rp_fail(RP_E_ARG, "op '%s': an op that works in place needs a source", d->name);
    if (writes != 0 && (d->flags & RP_FLAG_FUSED) == 0)
        return rp_fail(RP_E_ARG, "op '%s': RP_WRITES is for ops that patterns make (RP_FLAG_FUSED)", d->name);
    if (writes >> d->max_src != 0)
        return rp_fail(RP_E_ARG, "op '%s': it writes to a source that it does not have", d->name);
    if (n_custom == RP_MAX_CUSTOM_OPS)
        return rp_fail(RP_E_NOMEM, "op '%s': at most %d custom ops can be registered", d->name,
                       RP_MAX_CUSTOM_OPS);
    custom[n_custom] = d;
    *out             = (TensorOp)(RP_OP_COUNT + n_custom++);
    return RP_OK;
}
