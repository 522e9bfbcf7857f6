/* The end of a decode loop's body: the token to its slot, and the loop's condition.
 * geometry  one thread
 * traffic   8 bytes to host memory, 4 from it */
#include "kernels/device.cuh"

#include "reprise/loop.h"

__global__ void loop_end_kernel(LoopEnd l) {
    rp_begin();
    const int32_t token = l.step->token;
    LoopControl  *c     = l.control;
    const int32_t left  = --c->left;
    bool          over  = token < 0 || left <= 0 || l.step->pos >= c->n_ctx || l.ring->stop != 0;
    for (int32_t i = 0; i < c->n_end; i++) over = over || c->end[i] == token;
    l.ring->slots[c->number % RP_LOOP_SLOTS] = (uint64_t)c->number << 32 | (uint32_t)token;
    c->number++;
    cudaGraphSetConditional(l.condition, over ? 0 : 1);
}

extern "C" RpStatus rp_cuda_loop_end(const LoopEnd *loop, KernelCtx *ctx) {
    const LaunchShape shape = {dim3(1), dim3(1), 0};
    return RP_LAUNCH("loop_end", ctx, shape, loop_end_kernel, *loop);
}

extern "C" const void *rp_cuda_loop_kernel(void) { return RP_KERNEL(loop_end_kernel); }
