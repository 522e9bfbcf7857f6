/* q1_0.cuh - q1_0: 1 and -1 of one bit (fallback/quants/types/q1_0.h). Bit 8b + w of a word is that of element 4w + b
 * of a run. */
#ifndef KERNELS_DEVICE_QUANTS_Q1_0_CUH
#define KERNELS_DEVICE_QUANTS_Q1_0_CUH

#include "kernels/device/codebook.cuh"

/* The first runs of all fragments have the scale in the low half of d, the second ones that in the high half. */
template <> struct Blocks<RP_Q1_0> : CodebookBlocks {
    typedef NoLane Lane;
    struct Raw {
        uint2    q;
        unsigned d;
    };
    struct Row {
        const uint8_t *qs, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q1_0, qs) + 8 * first, RP_PLANE(p, Q1_0, d) + 4 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint2>(row.qs, f), rp_load<unsigned>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 4; i++) {
                const unsigned bits = (k < 2 ? w.q.x : w.q.y) >> (k % 2 * 4 + i) & 0x01010101u;
                r.q[k][i]           = (int)rp_less(bits << 1, 0x01010101u);
            }
        r.scale[0] = rp_low_half(w.d);
        r.scale[1] = rp_high_half(w.d);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
