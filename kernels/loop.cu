/* Last kernel in the body of the captured decode loop: hands the token to the host and decides on another
 * iteration.
 *
 *     ring->slots[number % RP_LOOP_SLOTS] = number << 32 | token        one 8-byte store to mapped host memory
 *     continue  =  token >= 0, no end token, left > 0, pos < n_ctx, and the host has not set ring->stop
 *
 * A slot shows by its number that it is valid, so the host needs no second flag and no fence between two stores.
 * The read of ring->stop crosses the bus, so it begins before the wait. No kernel writes the flag, and the host clears
 * it before the launch: a read is at worst too early for a stop, which the next iteration then sees.
 * geometry  one thread
 * traffic   8 bytes written to host memory, 4 read from it; the step state and LoopControl from L2
 * numerics  integers only */
#include "kernels/device/device.cuh"

#include "base/loop.h"

namespace {

__global__ void loop_end_kernel(LoopEnd l) {
    rp_pdl_launch_dependents();
    const int32_t stop = l.ring->stop;
    rp_pdl_wait();
    const int32_t token = l.step->token;
    LoopControl  *c     = l.control;
    const int32_t left  = --c->left;
    bool          over  = token < 0 || left <= 0 || l.step->pos >= c->n_ctx || stop != 0;
    for (int32_t i = 0; i < c->n_end; i++) over = over || c->end[i] == token;
    l.ring->slots[c->number % RP_LOOP_SLOTS] = (uint64_t)c->number << 32 | (uint32_t)token;
    c->number++;
    cudaGraphSetConditional(l.condition, over ? 0 : 1);
}

} // namespace

extern "C" RpStatus rp_cuda_loop_end(const LoopEnd *loop, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3(1), dim3(1), 0};
    return RP_LAUNCH("loop_end", ctx, shape, loop_end_kernel, *loop);
}

extern "C" const void *rp_cuda_loop_kernel(void) { return RP_KERNEL(loop_end_kernel); }
