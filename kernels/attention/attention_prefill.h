/* attention_prefill.h - attention of five and more tokens over an f16 cache (attention_prefill.cu). */
#ifndef KERNELS_ATTENTION_ATTENTION_PREFILL_H
#define KERNELS_ATTENTION_ATTENTION_PREFILL_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether it computes such arguments; attention.cu has all others. */
bool rp_cuda_takes_attention_prefill(const RpOpArgs *args);

ScratchBytes rp_cuda_attention_prefill_scratch;
RpOpKernel   rp_cuda_attention_prefill;

#ifdef __cplusplus
}
#endif
#endif
