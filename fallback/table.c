/* The table of CPU kernels, generated from the rows of the ops, so that a missing kernel is a link error. It also has
 * the phases and memory of the ops that define rp_needs_<op>. */
#include "base/kernels.h"
#include "base/op_table.h"

/* Weak: NULL where the file of the kernel does not define it. */
#define OP_VIEW(...)
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    extern NeedsFunction rp_needs_##name __attribute__((weak));
RP_OPS(OP, OP_VIEW)
#undef OP

typedef struct Row {
    RpOpKernel    *kernel; /* NULL for views */
    NeedsFunction *needs;  /* or NULL: one phase, no memory */
} Row;

static const Row rows[RP_N_ROWS] = {
#define OP(number, ID, name, required, sources, Params, fields, flags) [RP_ROW_##ID] = {rp_cpu_##name, rp_needs_##name},
    RP_OPS(OP, OP_VIEW)
#undef OP
#undef OP_VIEW
};

RpOpKernel *rp_cpu_kernel(TensorOp op) {
    const int row = rp_op_row(op);
    return row >= 0 ? rows[row].kernel : NULL;
}

CpuNeeds rp_cpu_needs(TensorOp op, const RpOpArgs *args) {
    const int row = rp_op_row(op);
    if (row >= 0 && rows[row].needs != NULL) return rows[row].needs(args);
    return (CpuNeeds){.phases = 1};
}
