/* The CPU kernel of every op, and the phases and memory of those that need more than one call. The first table is made
 * from ops.h, so a missing kernel is a link error. */
#include "fallback/fused.h"

RpOpKernel *const rp_cpu_kernels[RP_OP_COUNT] = {
#define OP(ID, name, required, sources, Params, fields, shape, flags) [RP_OP_##ID] = rp_cpu_##name,
    RP_KERNEL_OPS(OP)
#undef OP
};

RpOpKernel *rp_cpu_kernel(TensorOp op) { return (unsigned)op < RP_OP_COUNT ? rp_cpu_kernels[op] : NULL; }

CpuNeeds rp_cpu_needs(TensorOp op, const RpOpArgs *args) {
    static NeedsFunction *const table[RP_OP_COUNT] = {
        [RP_OP_MUL_MAT]               = rp_needs_mul_mat,
        [RP_OP_MUL_MAT_ID]            = rp_needs_mul_mat_id,
        [RP_OP_ATTENTION]             = rp_needs_attention,
        [RP_OP_LINEAR]                = rp_needs_linear,
        [RP_OP_GATE_UP]               = rp_needs_gate_up,
        [RP_OP_QKV]                   = rp_needs_qkv,
        [RP_OP_ROUTER]                = rp_needs_router,
        [RP_OP_EXPERTS_DOWN]          = rp_needs_experts_down,
        [RP_OP_GRAD_NORM]             = rp_needs_grad_norm,
        [RP_OP_RMS_NORM_BACKWARD]     = rp_needs_rms_norm_backward,
        [RP_OP_MUL_MAT_ID_BACKWARD]   = rp_needs_mul_mat_id_backward,
        [RP_OP_MUL_MAT_ID_TRANSPOSED] = rp_needs_mul_mat_id_transposed,
        [RP_OP_LINEAR_CROSS_ENTROPY]  = rp_needs_linear_cross_entropy,

        [RP_OP_LINEAR_CROSS_ENTROPY_BACKWARD] = rp_needs_linear_cross_entropy_backward,
    };
    if ((unsigned)op < RP_OP_COUNT && table[op] != NULL) return table[op](args);
    return (CpuNeeds){.phases = 1};
}
