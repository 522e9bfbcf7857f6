/* slots.cuh - the slots of recurrent ops (ops/private.h): slot[0] before the first token, slot[1+t] after token t. */
#ifndef KERNELS_DEVICE_SLOTS_CUH
#define KERNELS_DEVICE_SLOTS_CUH

#include "kernels/device/device.cuh"

/* The tokens up to the last one with a slot; those behind it are padding. */
__device__ static inline int rp_last_slot(const int32_t *slot, int tokens) {
    int n = tokens;
    while (n > 0 && slot[n] < 0) n--;
    return n;
}

/* The row of a slot, or NULL if there is none. */
__device__ static inline float *rp_slot_row(const RpTensorView &state, int32_t slot) {
    return slot < 0 || slot >= state.ne[1] ? nullptr : (float *)rp_row(state, slot);
}

#endif
