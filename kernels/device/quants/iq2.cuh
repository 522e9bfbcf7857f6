/* iq2.cuh - iq2_xxs, iq2_xs and iq2_s: 8 elements are an entry of a codebook, with signs
 * (fallback/quants/types/iq2.h). */
#ifndef KERNELS_DEVICE_QUANTS_IQ2_CUH
#define KERNELS_DEVICE_QUANTS_IQ2_CUH

#include "base/codebooks/iq2_s.h"
#include "base/codebooks/iq2_xs.h"
#include "base/codebooks/iq2_xxs.h"
#include "kernels/device/codebook.cuh"

static __device__ const uint64_t rp_iq2_xxs_codebook[256] = {RP_CODEBOOK_IQ2_XXS};
static __device__ const uint64_t rp_iq2_xs_codebook[512]  = {RP_CODEBOOK_IQ2_XS};
static __device__ const uint64_t rp_iq2_s_codebook[1024]  = {RP_CODEBOOK_IQ2_S};

/* 8 elements with their signs. */
__device__ static inline void rp_iq2_entry(uint64_t entry, unsigned signs, int *q) {
    q[0] = rp_signed_bytes((unsigned)entry, signs);
    q[1] = rp_signed_bytes((unsigned)(entry >> 32), signs >> 4);
}

/* A run has four bytes of indices, then a word with signs and the scale. */
template <> struct Blocks<RP_IQ2_XXS> : CodebookBlocks, QuantsAndScale<RP_IQ2_XXS, uint16_t> {
    enum { QUANT_PLANES = 1 };
    typedef NoLane Lane;

    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 2; k++) {
            const unsigned at = rp_word(w.q, 2 * k), signs = rp_word(w.q, 2 * k + 1);
            for (int e = 0; e < 4; e++)
                rp_iq2_entry(rp_iq2_xxs_codebook[at >> (8 * e) & 255], rp_even_signs(signs >> (7 * e)),
                             &r.q[2 * k + e / 2][e % 2 * 2]);
            r.scale[k] = rp_half_bits(w.d) / 8.0f * (float)(2 * (signs >> 28) + 1);
            r.min[k]   = 0.0f;
        }
        return r;
    }
};

/* A run has four words of 16 bits and a byte of scales. */
template <> struct Blocks<RP_IQ2_XS> : CodebookBlocks {
    enum { QUANT_PLANES = 1, SUB_SCALES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q;
        uint16_t scales, d;
    };
    struct Row {
        const uint8_t *qs, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ2_XS, qs) + 16 * first, RP_PLANE(p, IQ2_XS, scales) + 2 * first,
                RP_PLANE(p, IQ2_XS, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<uint16_t>(row.scales, f), rp_load<uint16_t>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++) {
            for (int e = 0; e < 2; e++) {
                const unsigned word = rp_word(w.q, k) >> (16 * e);
                rp_iq2_entry(rp_iq2_xs_codebook[word & 511], rp_even_signs(word >> 9), &r.q[k][2 * e]);
            }
            r.sub[k] = 2 * (w.scales >> (4 * k) & 15) + 1;
        }
        r.scale[0] = r.scale[1] = rp_half_bits(w.d) / 8.0f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

/* A run has four bytes of indices, four of signs, a byte with bits 8 and 9 of the indices, and a byte of scales. */
template <> struct Blocks<RP_IQ2_S> : CodebookBlocks {
    enum { SUB_SCALES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint2    q, signs;
        uint16_t high, scales, d;
    };
    struct Row {
        const uint8_t *qs, *signs, *qh, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ2_S, qs) + 8 * first, RP_PLANE(p, IQ2_S, signs) + 8 * first,
                RP_PLANE(p, IQ2_S, qh) + 2 * first, RP_PLANE(p, IQ2_S, scales) + 2 * first,
                RP_PLANE(p, IQ2_S, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint2>(row.qs, f), rp_load<uint2>(row.signs, f), rp_load<uint16_t>(row.qh, f),
                rp_load<uint16_t>(row.scales, f), rp_load<uint16_t>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++) {
            const unsigned at = k < 2 ? w.q.x : w.q.y, signs = k < 2 ? w.signs.x : w.signs.y;
            for (int e = 0; e < 2; e++) {
                const int      group = k % 2 * 2 + e;
                const unsigned entry = (at >> (8 * group) & 255) | (w.high >> (k / 2 * 8 + 2 * group) & 3) << 8;
                rp_iq2_entry(rp_iq2_s_codebook[entry], signs >> (8 * group), &r.q[k][2 * e]);
            }
            r.sub[k] = 2 * (w.scales >> (4 * k) & 15) + 1;
        }
        r.scale[0] = r.scale[1] = rp_half_bits(w.d) / 8.0f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
