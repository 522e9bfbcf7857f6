/* loop.h - the end of the body of a loop that decodes on the device: hand the token out, decide whether to go on. */
#ifndef REPRISE_LOOP_H
#define REPRISE_LOOP_H

#include "reprise/kernel.h"
#include "reprise/step.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RP_LOOP_SLOTS = 4096 };

/* In host memory that the device sees. A slot is written at once and says by itself that it is valid: the number of the
 * token in its upper half, the token in the lower. */
typedef struct LoopRing {
    volatile uint64_t slots[RP_LOOP_SLOTS]; /* number n at n % RP_LOOP_SLOTS */
    volatile int32_t  stop;                 /* set by the host */
} LoopRing;

/* In device memory, written before a launch. */
typedef struct LoopControl {
    uint32_t number; /* of the next token */
    int32_t  left;   /* tokens that this launch may still draw, at most RP_LOOP_SLOTS */
    int32_t  n_ctx;
    int32_t  n_end, end[RP_REPLY_MAX_END]; /* tokens that end the reply */
} LoopControl;

typedef struct LoopEnd {
    StepState         *step;
    LoopControl       *control;
    LoopRing          *ring;
    unsigned long long condition; /* a cudaGraphConditionalHandle */
} LoopEnd;

/* Launches the kernel: the token of *step goes to its slot; the loop goes on unless the token is -1 or an end token, none
 * are left, the context is full, or the host has said stop. */
RP_NODISCARD RpStatus rp_cuda_loop_end(const LoopEnd *loop, KernelCtx *ctx);

/* The kernel of rp_cuda_loop_end, to load it or to ask whether there is code for a device. */
const void *rp_cuda_loop_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
