/* q6_k.cuh - q6_K: 16 sub-blocks with scales of 8 bits (fallback/quants/types/q6_k.h). */
#ifndef KERNELS_DEVICE_QUANTS_Q6_K_CUH
#define KERNELS_DEVICE_QUANTS_Q6_K_CUH

#include "kernels/device/quants.cuh"

/* Byte i of plane k < 3 is 4 * (q - 32) of element i of sum block k, whose low two bits are free. Those of the three
 * planes make up the element i of sum block 3:  bits 7-6 from q0, 5-4 from q1, 3-2 from q2. A word has the int8 scales
 * of the four sum blocks. */
template <> struct Blocks<RP_Q6_K> : SuperBlocks {
    enum { QUANT_PLANES = 3, SIGNED = 1, HAS_MIN = 0, SUB_SCALES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q[3];
        unsigned scales;
        uint16_t d;
    };
    struct Row {
        const uint8_t *q0, *q1, *q2, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q6_K, q0) + 16 * first, RP_PLANE(p, Q6_K, q1) + 16 * first,
                RP_PLANE(p, Q6_K, q2) + 16 * first, RP_PLANE(p, Q6_K, scales) + 4 * first,
                RP_PLANE(p, Q6_K, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f), rp_load<uint4>(row.q2, f)},
            rp_load<unsigned>(row.scales, f),
            rp_load<uint16_t>(row.d, f / 4)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int i = 0; i < 4; i++) {
            const unsigned a = rp_word(w.q[0], i), b = rp_word(w.q[1], i), c = rp_word(w.q[2], i);
            const unsigned top = (a << 6 & 0xc0c0c0c0u) | (b << 4 & ~0xc0c0c0c0u);
            r.q[0][i]          = (int)(a & 0xfcfcfcfcu);
            r.q[1][i]          = (int)(b & 0xfcfcfcfcu);
            r.q[2][i]          = (int)(c & 0xfcfcfcfcu);
            r.q[3][i]          = (int)(((top & 0xf0f0f0f0u) | (c << 2 & ~0xf0f0f0f0u)) & 0xfcfcfcfcu);
        }
        for (int k = 0; k < 4; k++) r.sub[k] = (int)(int8_t)(w.scales >> (8 * k));
        r.scale[0] = r.scale[1] = rp_half_bits(w.d) / 4.0f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
