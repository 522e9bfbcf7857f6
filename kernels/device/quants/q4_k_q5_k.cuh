/* q4_k_q5_k.cuh - q4_K and q5_K: eight sub-blocks with scales and minima of 6 bits
 * (fallback/quants/types/q4_k_q5_k.h). */
#ifndef KERNELS_DEVICE_QUANTS_Q4_K_Q5_K_CUH
#define KERNELS_DEVICE_QUANTS_Q4_K_Q5_K_CUH

#include "kernels/device/quants.cuh"

/* The head of a block of q4_K or q5_K: d f16, dmin f16, then bytes A[4], B[4], C[4]. For fragment j, which has the
 * sub-blocks j and j + 4 with scales s and minima m of six bits:
 *
 *     A[j] = s(j) | m(j+4) << 6       B[j] = s(j+4) | (m(j+4) >> 2) << 6       C[j] = m(j) | (m(j+4) >> 4) << 6
 *
 * (m(j+4) << 6 keeps two bits.) */
struct LaneK {
    unsigned ab, abc; /* selectors of A[j] and B[j]; of these two and C[j] */
    __device__ explicit LaneK(int f) {
        const unsigned j = (unsigned)f % 4;
        ab               = j | (j + 4) << 4;
        abc              = 0x10 | (j + 4) << 8;
    }
    __device__ void keep() { ab = rp_keep(ab), abc = rp_keep(abc); }
};

/* Scales and minima of both runs. The multiplication gathers the pairs of bits at 6, 14 and 22 in bits 24 to 29; no
 * other bits reach them:   6 + 18 = 24,  14 + 12 = 26,  22 + 6 = 28. */
template <int SECOND> /* divides scale[1], for quants of the second run that are multiplied by it */
__device__ static inline void rp_scales_k(const uint4 &head, const LaneK &lane, Fragment<2> *r) {
    const unsigned ab = rp_bytes(head.y, head.z, lane.ab), abc = rp_bytes(ab, head.w, lane.abc);
    const unsigned m1 = (abc & 0xc0c0c0u) * 0x41040u >> 24;
    const float    d = rp_low_half(head.x), dmin = -rp_high_half(head.x);
    r->scale[0] = d * (float)(abc & 63);
    r->scale[1] = d / (float)(256 * SECOND) * (float)(abc & 63 << 8);
    r->min[0]   = dmin * (float)(abc >> 16 & 63);
    r->min[1]   = dmin * (float)m1;
}

/* Byte i of q0 and of q1 has elements i and 16 + i of the first run in the low nibble, of the second in the high
 * one. */
template <> struct Blocks<RP_Q4_K> : SuperBlocks {
    enum { SECOND = 16 };
    typedef LaneK Lane;
    struct Raw {
        uint4 q[2], head;
    };
    struct Row {
        const uint8_t *q0, *q1, *head;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q4_K, q0) + 16 * first, RP_PLANE(p, Q4_K, q1) + 16 * first,
                RP_PLANE(p, Q4_K, head) + 16 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f)},
            rp_load<uint4>(row.head, f / 4)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        rp_scales_k<SECOND>(w.head, lane, &r);
        for (int k = 0; k < 2; k++) {
            rp_low_nibbles(w.q[k], r.q[k]);
            rp_high_nibbles_16(w.q[k], r.q[2 + k]);
        }
        return r;
    }
};

/* As q4_K, with the fifth bits of both runs in one word each. */
template <> struct Blocks<RP_Q5_K> : SuperBlocks {
    typedef LaneK Lane;
    struct Raw {
        uint4 q[2], head;
        uint2 high;
    };
    struct Row {
        const uint8_t *q0, *q1, *head, *qh;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q5_K, q0) + 16 * first, RP_PLANE(p, Q5_K, q1) + 16 * first,
                RP_PLANE(p, Q5_K, head) + 16 * (first / 4), RP_PLANE(p, Q5_K, qh) + 8 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f)},
            rp_load<uint4>(row.head, f / 4),
            rp_load<uint2>(row.qh, f)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        rp_scales_k<SECOND>(w.head, lane, &r);
        for (int k = 0; k < 2; k++) {
            rp_low_nibbles(w.q[k], r.q[k]);
            rp_high_nibbles(w.q[k], r.q[2 + k]);
            rp_fifth_bits(w.high.x, k, r.q[k]);
            rp_fifth_bits(w.high.y, k, r.q[2 + k]);
        }
        return r;
    }
};

#endif
