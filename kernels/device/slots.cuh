/* slots.cuh - the slots of recurrent ops (ops/private.h): slot[0] before the first token, slot[1+t] after token t. Each
 * sequence of a batch is computed by blocks of its own:
 *
 *     starts       2 -2 -2  -1  0 -2      slot before the token; -1: zeros; -2: the token follows the one before it
 *     blockIdx.z   0  1  2   3  4  5      blocks 1, 2 and 5 end at once */
#ifndef KERNELS_DEVICE_SLOTS_CUH
#define KERNELS_DEVICE_SLOTS_CUH

#include "kernels/device/device.cuh"

/* The tokens up to the last one with a slot; those behind it are padding. */
__device__ static inline int rp_last_slot(const int32_t *slot, int tokens) {
    int n = tokens;
    while (n > 0 && slot[n] < 0) n--;
    return n;
}

/* The tokens [first, end) of one sequence that a block computes, and the slot of the state before them. With starts the
 * tokens of a sequence follow each other, and the block of the first one has them all; the others have none. */
struct SlotRun {
    int     first, end;
    int32_t from;
};

enum { RP_SLOT_FOLLOWS = -2 };

/* The run of tokens that the thread block of token `block` computes; without starts one thread block computes all. */
__device__ static inline SlotRun rp_slot_run(const int32_t *slot, const int32_t *starts, int tokens, int block) {
    if (starts == nullptr) return {0, tokens, slot[0]};
    if (block > 0 && starts[block] == RP_SLOT_FOLLOWS) return {block, block, -1};
    SlotRun run = {block, block + 1, starts[block]};
    while (run.end < tokens && starts[run.end] == RP_SLOT_FOLLOWS) run.end++;
    return run;
}

/* Blocks of a grid along its tokens. */
static inline unsigned rp_slot_blocks(const RpTensorView &starts) {
    return rp_is_present(&starts) ? (unsigned)starts.ne[0] : 1;
}

/* The row of a slot, or NULL if there is none. */
__device__ static inline float *rp_slot_row(const RpTensorView &state, int32_t slot) {
    return slot < 0 || slot >= state.ne[1] ? nullptr : (float *)rp_row(state, slot);
}

#endif
