/* q4.cuh - q4_0 and q4_1: nibbles with a scale; q4_1 has a minimum too (fallback/quants/types/q4.h). */
#ifndef KERNELS_DEVICE_QUANTS_Q4_CUH
#define KERNELS_DEVICE_QUANTS_Q4_CUH

#include "kernels/device/quants.cuh"

template <> struct Blocks<RP_Q4_0> : SmallBlocks, QuantsAndScale<RP_Q4_0, uint16_t> {
    enum { FIRST = 16 };
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        const float d = rp_half_bits(w.d);
        Fragment<1> r = scaled(d / 16.0f, -(float)RP_Q4_0_OFFSET * d);
        rp_low_nibbles(w.q, r.q[0]);
        rp_high_nibbles_16(w.q, r.q[1]);
        return r;
    }
};

/* d is a word: the scale, then the minimum. */
template <> struct Blocks<RP_Q4_1> : SmallBlocks, QuantsAndScale<RP_Q4_1, unsigned> {
    enum { FIRST = 16 };
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        Fragment<1> r = scaled(rp_low_half(w.d) / 16.0f, rp_high_half(w.d));
        rp_low_nibbles(w.q, r.q[0]);
        rp_high_nibbles_16(w.q, r.q[1]);
        return r;
    }
};

#endif
