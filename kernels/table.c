/* The table of CUDA launchers, generated from the rows of the ops, so that a missing one is a link error. It also has
 * the scratch memory of the ops that define rp_cuda_<op>_scratch. */
#include "base/kernels.h"
#include "base/op_table.h"

/* Weak: NULL where the file of the launcher does not define it. */
#define OP_VIEW(...)
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    extern ScratchBytes rp_cuda_##name##_scratch __attribute__((weak));
RP_OPS(OP, OP_VIEW)
#undef OP
#ifdef RP_SOME_KERNELS /* a short build for the simulated device (RP_SIM_OPS) */
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    extern RpOpKernel rp_cuda_##name __attribute__((weak));
RP_OPS(OP, OP_VIEW)
#undef OP
#endif

typedef struct Row {
    RpOpKernel   *launcher; /* NULL for views */
    ScratchBytes *scratch;  /* or NULL: none */
} Row;

static const Row rows[RP_N_ROWS] = {
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    [RP_ROW_##ID] = {rp_cuda_##name, rp_cuda_##name##_scratch},
    RP_OPS(OP, OP_VIEW)
#undef OP
#undef OP_VIEW
};

RpOpKernel *rp_cuda_kernel(TensorOp op) {
    const int row = rp_op_row(op);
    return row >= 0 ? rows[row].launcher : NULL;
}

size_t rp_cuda_scratch_bytes(TensorOp op, const RpOpArgs *args, const RpKernelCtx *ctx) {
    const int row = rp_op_row(op);
    return row >= 0 && rows[row].scratch != NULL ? rows[row].scratch(args, ctx) : 0;
}
