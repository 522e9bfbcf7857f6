/* iq1.cuh - iq1_s and iq1_m: 8 elements are an entry of a codebook of 8 * -1, 0 or 1, plus or minus 1
 * (fallback/quants/types/iq1.h). */
#ifndef KERNELS_DEVICE_QUANTS_IQ1_CUH
#define KERNELS_DEVICE_QUANTS_IQ1_CUH

#include "base/codebooks/iq1.h"
#include "kernels/device/codebook.cuh"

static __device__ const uint64_t rp_iq1_codebook[2048] = {RP_CODEBOOK_IQ1};

/* 8 elements, raised by 128 while 1 is added or subtracted, so that nothing is carried or borrowed. */
__device__ static inline void rp_iq1_entry(unsigned at, bool minus, int *q) {
    const uint64_t entry = rp_iq1_codebook[at];
    for (int h = 0; h < 2; h++) {
        const unsigned raised = (unsigned)(entry >> (32 * h)) ^ 0x80808080u;
        q[h]                  = (int)((minus ? raised - 0x01010101u : raised + 0x01010101u) ^ 0x80808080u);
    }
}

/* A run has four bytes of indices and a word of 16 bits. */
template <> struct Blocks<RP_IQ1_S> : CodebookBlocks {
    typedef NoLane Lane;
    struct Raw {
        uint2    q;
        unsigned high;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *qh, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ1_S, qs) + 8 * first, RP_PLANE(p, IQ1_S, qh) + 4 * first,
                RP_PLANE(p, IQ1_S, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint2>(row.qs, f), rp_load<unsigned>(row.qh, f), rp_load<uint16_t>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 2; k++) {
            const unsigned at = k == 0 ? w.q.x : w.q.y, high = w.high >> (16 * k) & 0xffff;
            for (int e = 0; e < 4; e++)
                rp_iq1_entry((at >> (8 * e) & 255) | (high >> (3 * e) & 7) << 8, high >> 15 != 0,
                             &r.q[2 * k + e / 2][e % 2 * 2]);
            r.scale[k] = rp_half_bits(w.d) / 8.0f * (float)(2 * (high >> 12 & 7) + 1);
            r.min[k]   = 0.0f;
        }
        return r;
    }
};

/* A run has four bytes of indices and two bytes of nibbles. The scales and d of the block are four words of 16 bits. */
template <> struct Blocks<RP_IQ1_M> : CodebookBlocks {
    enum { SUB_SCALES = 1 };
    typedef LaneRuns Lane;
    struct Raw {
        uint2    q, scales;
        unsigned high;
    };
    struct Row {
        const uint8_t *qs, *qh, *scales;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ1_M, qs) + 8 * first, RP_PLANE(p, IQ1_M, qh) + 4 * first,
                RP_PLANE(p, IQ1_M, scales) + 8 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint2>(row.qs, f), rp_load<uint2>(row.scales, f / 4), rp_load<unsigned>(row.qh, f)};
    }
    /* Bits 12-15 of the words. */
    __device__ static float d(const uint2 &s) {
        const unsigned half = (s.x >> 12 & 15) | (s.x >> 28) << 4 | (s.y >> 12 & 15) << 8 | (s.y >> 28) << 12;
        return rp_half_bits((uint16_t)half);
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++) {
            const unsigned at = k < 2 ? w.q.x : w.q.y, u = 2 * (unsigned)lane.j + k % 2; /* u + 8 for k >= 2 */
            for (int e = 0; e < 2; e++) {
                const int      group  = k % 2 * 2 + e;
                const unsigned nibble = w.high >> (k / 2 * 16 + 4 * group) & 15;
                rp_iq1_entry((at >> (8 * group) & 255) | (nibble & 7) << 8, nibble >> 3 != 0, &r.q[k][2 * e]);
            }
            r.sub[k] = (int)(2 * ((k < 2 ? w.scales.x : w.scales.y) >> (u / 4 * 16 + u % 4 * 3) & 7) + 1);
        }
        r.scale[0] = r.scale[1] = d(w.scales) / 8.0f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
