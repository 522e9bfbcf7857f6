/* mark.h - a kernel that tells the host how far a run has come (RpExecutorOptions.watchdog_s): after each step of a plan
 * it writes the number of steps that have finished to pinned host memory.
 *
 *   RP_TRY(rp_cuda_mark(mapped, 3, &ctx));      // enqueued behind step 2; *mapped is 3 when steps 0, 1 and 2 have ended
 */
#ifndef BASE_MARK_H
#define BASE_MARK_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches the kernel on ctx->stream. `done` is the device address of pinned host memory. RP_E_CUDA if the launch
 * fails. */
RP_NODISCARD RpStatus rp_cuda_mark(volatile int32_t *done, int32_t n_done, RpKernelCtx *ctx);

/* The function of that kernel, to load it. */
const void *rp_cuda_mark_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
