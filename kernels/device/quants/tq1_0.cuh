/* tq1_0.cuh - tq1_0: -1, 0 and 1, five in a byte (fallback/quants/types/tq1_0.h). */
#ifndef KERNELS_DEVICE_QUANTS_TQ1_0_CUH
#define KERNELS_DEVICE_QUANTS_TQ1_0_CUH

#include "kernels/device/codebook.cuh"

/* Digit n of four bytes in base 3, less 1. */
__device__ static inline int rp_tq1_digits(unsigned bytes, int n) {
    const unsigned power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    unsigned       q     = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) q |= ((bytes >> (8 * i)) * power & 255) * 3 >> 8 << (8 * i);
    return (int)rp_less(q, 0x01010101u);
}

/* The whole block is as in the file: each lane finds the digits of its runs. */
template <> struct Blocks<RP_TQ1_0> : CodebookBlocks {
    typedef LaneRuns Lane;
    struct Raw {
        uint4    q[3];
        unsigned high;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *qh, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, TQ1_0, qs) + 48 * (first / 4), RP_PLANE(p, TQ1_0, qh) + 4 * (first / 4),
                RP_PLANE(p, TQ1_0, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        const unsigned b = f / 4;
        return {
            {rp_load<uint4>(row.qs, 3 * b), rp_load<uint4>(row.qs, 3 * b + 1), rp_load<uint4>(row.qs, 3 * b + 2)},
            rp_load<unsigned>(row.qh, b),
            rp_load<uint16_t>(row.d, b)
        };
    }
    /* Word i of half h of a run. */
    __device__ static int word(const Raw &w, int run, int h, int i) {
        if (run < 5) return rp_tq1_digits(rp_word(w.q[h], i), run);
        if (run == 7 && h == 1) return rp_tq1_digits(w.high, i);
        return rp_tq1_digits(rp_word(w.q[2], i), 2 * (run - 5) + h);
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) r.q[k][i] = word(w, lane.j + k / 2 * 4, k % 2, i);
        r.scale[0] = r.scale[1] = rp_half_bits(w.d);
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
