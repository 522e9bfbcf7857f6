/* q8_0.cuh - q8_0: signed bytes with a scale (fallback/quants/types/q8_0.h). */
#ifndef KERNELS_DEVICE_QUANTS_Q8_0_CUH
#define KERNELS_DEVICE_QUANTS_Q8_0_CUH

#include "kernels/device/quants.cuh"

template <> struct Blocks<RP_Q8_0> : SmallBlocks {
    enum { QUANT_PLANES = 2, SIGNED = 1, HAS_MIN = 0, LOADS = 1 };
    struct Raw {
        uint4    q[2];
        uint16_t d;
    };
    struct Row {
        const uint8_t *q0, *q1, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q8_0, q0) + 16 * first, RP_PLANE(p, Q8_0, q1) + 16 * first,
                RP_PLANE(p, Q8_0, d) + 2 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f)},
            rp_load<uint16_t>(row.d, f)
        };
    }
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        Fragment<1> r = scaled(rp_half_bits(w.d), 0.0f);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 4; i++) r.q[k][i] = (int)rp_word(w.q[k], i);
        return r;
    }
};

#endif
