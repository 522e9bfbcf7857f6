/* The CUDA launchers by op, made from the list of ops.h, so that a missing one is a link error; and the scratch
 * memory of the ops that need any. */
#include "base/kernels.h"

#include "kernels/scratch.h"

RpOpKernel *const rp_cuda_kernels[RP_OP_COUNT] = {
#define OP(ID, name, required, sources, Params, fields, shape, flags) [RP_OP_##ID] = rp_cuda_##name,
    RP_KERNEL_OPS(OP)
#undef OP
};

static ScratchBytes *const scratch[RP_OP_COUNT] = {
    [RP_OP_ATTENTION] = rp_cuda_attention_scratch,     [RP_OP_MUL_MAT] = rp_cuda_mul_mat_scratch,
    [RP_OP_MUL_MAT_ID] = rp_cuda_mul_mat_id_scratch,   [RP_OP_LINEAR] = rp_cuda_linear_scratch,
    [RP_OP_GATE_UP] = rp_cuda_gate_up_scratch,         [RP_OP_QKV] = rp_cuda_qkv_scratch,
    [RP_OP_ROUTER] = rp_cuda_router_scratch,           [RP_OP_SAMPLE] = rp_cuda_sample_scratch,
    [RP_OP_SAMPLE_ROWS] = rp_cuda_sample_rows_scratch,
};

size_t rp_cuda_scratch_bytes(TensorOp op, const RpOpArgs *args, const RpKernelCtx *ctx) {
    return (unsigned)op < RP_OP_COUNT && scratch[op] != NULL ? scratch[op](args, ctx) : 0;
}
