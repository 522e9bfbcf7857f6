/* q3_k.cuh - q3_K: quants as in q2_K, with a third bit. Bit 8b + w of a word of `high` is that of element 4w + b of
 * a run. */
#ifndef KERNELS_DEVICE_QUANTS_Q3_K_CUH
#define KERNELS_DEVICE_QUANTS_Q3_K_CUH

#include "kernels/device/codebook.cuh"

/* The scales of a block are 12 bytes, as in the file. */
template <> struct Blocks<RP_Q3_K> : SuperBlocks {
    enum { QUANT_PLANES = 1, SIGNED = 1, HAS_MIN = 0, SUB_SCALES = 1 };
    typedef LaneRuns Lane;
    struct Raw {
        uint4    q;
        uint2    high;
        unsigned low_nibbles[2], two_bits;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *high, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q3_K, qs) + 16 * first, RP_PLANE(p, Q3_K, high) + 8 * first,
                RP_PLANE(p, Q3_K, scales) + 12 * (first / 4), RP_PLANE(p, Q3_K, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            rp_load<uint4>(row.qs, f),
            rp_load<uint2>(row.high, f),
            {rp_load<unsigned>(row.scales, f / 4 * 3), rp_load<unsigned>(row.scales, f / 4 * 3 + 1)},
            rp_load<unsigned>(row.scales, f / 4 * 3 + 2),
            rp_load<uint16_t>(row.d, f / 4)
        };
    }
    /* Sum block u of 16: nibble u / 8 of byte u % 8, bits 2(u / 4) of byte u % 4 of the last word. */
    __device__ static int scale(const Raw &w, int u) {
        const unsigned low = w.low_nibbles[u / 4 % 2] >> (u % 4 * 8 + u / 8 * 4) & 15;
        return (int)(low | (w.two_bits >> (u % 4 * 8 + u / 4 * 2) & 3) << 4) - 32;
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++) {
            const unsigned high = (k < 2 ? w.high.x : w.high.y) >> (k % 2 * 4);
            for (int i = 0; i < 4; i++)
                r.q[k][i] = (int)rp_less((rp_word(w.q, i) >> (2 * k) & 0x03030303u) | (high >> i & 0x01010101u) << 2,
                                         0x04040404u);
            r.sub[k] = scale(w, 2 * lane.j + k % 2 + k / 2 * 8);
        }
        r.scale[0] = r.scale[1] = rp_half_bits(w.d);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
