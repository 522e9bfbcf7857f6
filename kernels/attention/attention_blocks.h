/* attention_blocks.h - attention over a cache of blocks (attention_blocks.cu). */
#ifndef KERNELS_ATTENTION_ATTENTION_BLOCKS_H
#define KERNELS_ATTENTION_ATTENTION_BLOCKS_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

ScratchBytes rp_cuda_attention_blocks_scratch;
RpOpKernel   rp_cuda_attention_blocks;

#ifdef __cplusplus
}
#endif
#endif
