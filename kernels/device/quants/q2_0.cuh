/* q2_0.cuh - q2_0: -1, 0, 1 and 2 of two bits (fallback/quants/types/q2_0.h). Byte i of the 16 bytes of a fragment has
 * the elements i of its four sum blocks. */
#ifndef KERNELS_DEVICE_QUANTS_Q2_0_CUH
#define KERNELS_DEVICE_QUANTS_Q2_0_CUH

#include "kernels/device/codebook.cuh"

/* Fragment j of a block has its runs j and j + 4, whose scales are j / 2 and 2 + j / 2 of the four. */
template <> struct Blocks<RP_Q2_0> : CodebookBlocks {
    enum { QUANT_PLANES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q;
        uint16_t d[2];
    };
    struct Row {
        const uint8_t *qs, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q2_0, qs) + 16 * first, RP_PLANE(p, Q2_0, d) + 2 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        const unsigned d = f / 4 * 4 + f % 4 / 2;
        return {
            rp_load<uint4>(row.qs, f), {rp_load<uint16_t>(row.d, d), rp_load<uint16_t>(row.d, d + 2)}
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)rp_less(rp_word(w.q, i) >> (2 * k) & 0x03030303u, 0x01010101u);
        for (int k = 0; k < 2; k++) r.scale[k] = rp_half_bits(w.d[k]);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
