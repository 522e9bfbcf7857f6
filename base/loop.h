/* loop.h - the last kernel in the body of the decode loop (RP_MODE_LOOP): it hands the sampled token to the host and
 * decides whether the loop continues. Host and device communicate through a ring in pinned host memory.
 *
 *   LoopEnd end = {.step = step, .control = control, .ring = ring, .condition = handle};     // device addresses
 *   RP_TRY(rp_cuda_loop_end(&end, &ctx));                                                     // captured in the body
 *
 *   uint64_t slot = ring->slots[n % RP_LOOP_SLOTS];                                           // the host polls
 *   if (slot >> 32 == n) token = (int32_t)(uint32_t)slot;
 *
 * And the kernel that a watchdog has behind each step, in a loop or not.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/kernels.h"
#include "reprise/step.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RP_LOOP_SLOTS = 4096 };

/* In pinned host memory that the device can write. Token number n goes to slot n % RP_LOOP_SLOTS:
 *
 *     slot: n in bits 32..63, token in bits 0..31
 *
 * One 64-bit store writes a slot, so it needs no separate flag: it is valid when its upper half is the number that the
 * host waits for. Numbers start at 1, because a zeroed ring would look like token number 0. */
typedef struct LoopRing {
    volatile uint64_t slots[RP_LOOP_SLOTS];
    volatile int32_t  stop; /* the host sets it to end the loop after the current token */
} LoopRing;

/* In device memory; the host writes it before a launch. */
typedef struct LoopControl {
    uint32_t number;                       /* of the next token */
    int32_t  left;                         /* tokens that this launch may still sample, at most RP_LOOP_SLOTS */
    int32_t  n_ctx;                        /* the loop ends when RpStepState.pos reaches it */
    int32_t  n_end, end[RP_REPLY_MAX_END]; /* tokens that end the reply */
} LoopControl;

/* Device addresses. */
typedef struct LoopEnd {
    RpStepState       *step;
    LoopControl       *control;
    LoopRing          *ring;
    unsigned long long condition; /* a cudaGraphConditionalHandle */
} LoopEnd;

/* Launches the kernel on ctx->stream. It writes the token of *step to its slot. The loop continues unless the token is
 * -1 (nothing could be sampled) or an end token, `left` is used up, the context is full, or `stop` is set.
 * RP_E_CUDA if the launch fails. */
RP_NODISCARD RpStatus rp_cuda_loop_end(const LoopEnd *loop, RpKernelCtx *ctx);

/* The function of that kernel, to load it or to find out whether this build has code for a device. */
const void *rp_cuda_loop_kernel(void);

/* Launches a kernel on ctx->stream that tells the host how far a run is (RpExecutorOptions.watchdog_s): *done, the
 * device address of pinned host memory, is n_done when all earlier kernels have ended. RP_E_CUDA if it fails. */
RP_NODISCARD RpStatus rp_cuda_mark(volatile int32_t *done, int32_t n_done, RpKernelCtx *ctx);

/* The function of that kernel. */
const void *rp_cuda_mark_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
