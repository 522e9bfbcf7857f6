/* tq2_0.cuh - tq2_0: -1, 0 and 1 of two bits (fallback/quants/types/tq2_0.h). Byte i of the 16 bytes of a fragment
 * has the elements i of its four sum blocks. */
#ifndef KERNELS_DEVICE_QUANTS_TQ2_0_CUH
#define KERNELS_DEVICE_QUANTS_TQ2_0_CUH

#include "kernels/device/codebook.cuh"

template <> struct Blocks<RP_TQ2_0> : CodebookBlocks, QuantsAndScale<RP_TQ2_0, uint16_t> {
    enum { QUANT_PLANES = 1 };
    typedef NoLane Lane;

    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)rp_less(rp_word(w.q, i) >> (2 * k) & 0x03030303u, 0x01010101u);
        r.scale[0] = r.scale[1] = rp_half_bits(w.d);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
