/* q5.cuh - q5_0 and q5_1: nibbles and a word of fifth bits, with a scale; q5_1 has a minimum too
 * (fallback/quants/types/q5.h). */
#ifndef KERNELS_DEVICE_QUANTS_Q5_CUH
#define KERNELS_DEVICE_QUANTS_Q5_CUH

#include "kernels/device/quants.cuh"

/* Low nibbles, high nibbles and fifth bits of one run. */
__device__ static inline void rp_five_bits(const uint4 &v, unsigned high, Fragment<1> *r) {
    rp_low_nibbles(v, r->q[0]);
    rp_high_nibbles(v, r->q[1]);
    for (int k = 0; k < 2; k++) rp_fifth_bits(high, k, r->q[k]);
}

template <> struct Blocks<RP_Q5_0> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned high;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *qh, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q5_0, qs) + 16 * first, RP_PLANE(p, Q5_0, qh) + 4 * first,
                RP_PLANE(p, Q5_0, d) + 2 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<unsigned>(row.qh, f), rp_load<uint16_t>(row.d, f)};
    }
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        const float d = rp_half_bits(w.d);
        Fragment<1> r = scaled(d, -(float)RP_Q5_0_OFFSET * d);
        rp_five_bits(w.q, w.high, &r);
        return r;
    }
};

template <> struct Blocks<RP_Q5_1> : SmallBlocks {
    struct Raw {
        uint4    q;
        unsigned high, dm;
    };
    struct Row {
        const uint8_t *qs, *qh, *dm;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q5_1, qs) + 16 * first, RP_PLANE(p, Q5_1, qh) + 4 * first,
                RP_PLANE(p, Q5_1, dm) + 4 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<unsigned>(row.qh, f), rp_load<unsigned>(row.dm, f)};
    }
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        Fragment<1> r = scaled(rp_low_half(w.dm), rp_high_half(w.dm));
        rp_five_bits(w.q, w.high, &r);
        return r;
    }
};

#endif
