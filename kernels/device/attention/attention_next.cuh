/* attention_next.cuh - attention prefetches the weights of the kernels behind it into L2 (base/tuning.h). */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_NEXT_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_NEXT_CUH

#include "base/tuning.h"
#include "kernels/device/device.cuh"

static inline RpNextWeights rp_next_weights(const RpKernelCtx *ctx) {
    return ctx->next != nullptr ? *ctx->next : RpNextWeights{};
}

/* The share of one of `blocks` thread blocks, in pieces that its first warp prefetches. */
__device__ static inline void rp_prefetch_next(const RpNextWeights &next, int block, int blocks) {
    enum { PIECE = 2048 };
    if (threadIdx.x >= RP_WARP) return;
#pragma unroll
    for (int i = 0; i < RP_NEXT_MATRICES; i++)
        for (int64_t at = ((int64_t)block * RP_WARP + threadIdx.x) * PIECE; at < next.bytes[i];
             at += (int64_t)blocks * RP_WARP * PIECE) {
            const int64_t left = next.bytes[i] - at;
            rp_prefetch_bytes(next.data[i] + at, left < PIECE ? (int)left : (int)PIECE);
        }
}

#endif
