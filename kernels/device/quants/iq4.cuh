/* iq4.cuh - iq4_nl and iq4_xs: 16 values of 8 bits by nibble, -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89
 * 113. */
#ifndef KERNELS_DEVICE_QUANTS_IQ4_CUH
#define KERNELS_DEVICE_QUANTS_IQ4_CUH

#include "kernels/device/codebook.cuh"

/* Four nibbles to four bytes. */
__device__ static inline unsigned rp_iq4_values(unsigned nibbles) {
    const unsigned at   = nibbles & 0x7777u;
    const unsigned low  = rp_bytes(0xbfad9881u, 0xf6eaddcfu, at);
    const unsigned high = rp_bytes(0x26190d01u, 0x71594535u, at);
    return rp_bytes(low, high, 0x3210u | (nibbles & 0x8888u) >> 1);
}

/* 16 bytes, whose low nibbles are the first half of a run. */
__device__ static inline void rp_iq4_run(const uint4 &v, int (&low)[4], int (&high)[4]) {
    for (int i = 0; i < 4; i++) {
        const unsigned a = rp_iq4_values(rp_word(v, i) & 0xffffu), b = rp_iq4_values(rp_word(v, i) >> 16);
        low[i]  = (int)rp_bytes(a, b, 0x6420u);
        high[i] = (int)rp_bytes(a, b, 0x7531u);
    }
}

template <> struct Blocks<RP_IQ4_NL> : SmallBlocks, QuantsAndScale<RP_IQ4_NL, uint16_t> {
    enum { SIGNED = 1, HAS_MIN = 0 };
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        Fragment<1> r = scaled(rp_half_bits(w.d), 0.0f);
        rp_iq4_run(w.q, r.q[0], r.q[1]);
        return r;
    }
};

/* The head: d f16, two bits of each of the 8 scales, then their low nibbles. */
template <> struct Blocks<RP_IQ4_XS> : SuperBlocks {
    enum { SIGNED = 1, HAS_MIN = 0 };
    typedef LaneRuns Lane;
    struct Raw {
        uint4 q[2];
        uint2 head;
    };
    struct Row {
        const uint8_t *q0, *q1, *head;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ4_XS, q0) + 16 * first, RP_PLANE(p, IQ4_XS, q1) + 16 * first,
                RP_PLANE(p, IQ4_XS, head) + 8 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f)},
            rp_load<uint2>(row.head, f / 4)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        for (int k = 0; k < 2; k++) {
            const int      run = lane.j + 4 * k;
            const unsigned s   = (w.head.y >> (4 * run) & 15) | (w.head.x >> (16 + 2 * run) & 3) << 4;
            r.scale[k]         = rp_low_half(w.head.x) * (float)((int)s - 32);
            r.min[k]           = 0.0f;
            rp_iq4_run(w.q[k], r.q[2 * k], r.q[2 * k + 1]);
        }
        return r;
    }
};

#endif
