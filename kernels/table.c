#include "reprise/kernel.h"

OpKernel *const rp_cuda_kernels[RP_OP_COUNT] = {
#define OP(ID, name, min_src, max_src, Params, shape, flags) [RP_OP_##ID] = rp_cuda_##name,
    RP_KERNEL_OPS(OP)
#undef OP
};
