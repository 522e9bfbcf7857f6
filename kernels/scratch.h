/* scratch.h - bytes of device scratch memory that the CUDA kernels of an op need, from shapes only (I5). The
 * layout is in arrive.cuh. Launches of one stream run one after the other, so one buffer serves them all. */
#ifndef KERNELS_SCRATCH_H
#define KERNELS_SCRATCH_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef size_t ScratchBytes(const RpOpArgs *args, const RpKernelCtx *ctx);

ScratchBytes rp_cuda_attention_scratch, rp_cuda_mul_mat_scratch, rp_cuda_mul_mat_id_scratch,
    rp_cuda_linear_scratch, rp_cuda_gate_up_scratch, rp_cuda_qkv_scratch, rp_cuda_router_scratch,
    rp_cuda_sample_scratch, rp_cuda_sample_rows_scratch;

#ifdef __cplusplus
}
#endif
#endif
