/* q2_k.cuh - q2_K: byte i of the 16 bytes of a fragment has the elements i of its four sum blocks, two bits each. */
#ifndef KERNELS_DEVICE_QUANTS_Q2_K_CUH
#define KERNELS_DEVICE_QUANTS_Q2_K_CUH

#include "kernels/device/codebook.cuh"

/* A word of `scales` has a byte for each sum block: the scale in its low nibble, the minimum in its high one. */
template <> struct Blocks<RP_Q2_K> : SuperBlocks {
    enum { QUANT_PLANES = 1, SUB_SCALES = 1, SUB_MINS = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q;
        unsigned scales, dm;
    };
    struct Row {
        const uint8_t *qs, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q2_K, qs) + 16 * first, RP_PLANE(p, Q2_K, scales) + 4 * first,
                RP_PLANE(p, Q2_K, d) + 4 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<unsigned>(row.scales, f), rp_load<unsigned>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        const float minus = -rp_high_half(w.dm);
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)(rp_word(w.q, i) >> (2 * k) & 0x03030303u);
            r.sub[k]     = (int)(w.scales >> (8 * k) & 15);
            r.sub_min[k] = minus * (float)(w.scales >> (8 * k + 4) & 15);
        }
        r.scale[0] = r.scale[1] = rp_low_half(w.dm);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
