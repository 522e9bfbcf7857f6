/* iq3.cuh - iq3_xxs and iq3_s: 4 elements are an entry of a codebook, with signs (fallback/quants/types/iq3.h). */
#ifndef KERNELS_DEVICE_QUANTS_IQ3_CUH
#define KERNELS_DEVICE_QUANTS_IQ3_CUH

#include "base/codebooks/iq3_s.h"
#include "base/codebooks/iq3_xxs.h"
#include "kernels/device/codebook.cuh"

static __device__ const uint32_t rp_iq3_xxs_codebook[256] = {RP_CODEBOOK_IQ3_XXS};
static __device__ const uint32_t rp_iq3_s_codebook[512]   = {RP_CODEBOOK_IQ3_S};

/* A run has eight bytes of indices and a word of signs and the scale. */
template <> struct Blocks<RP_IQ3_XXS> : CodebookBlocks {
    enum { QUANT_PLANES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q;
        uint2    signs;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *signs, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ3_XXS, qs) + 16 * first, RP_PLANE(p, IQ3_XXS, signs) + 8 * first,
                RP_PLANE(p, IQ3_XXS, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<uint2>(row.signs, f), rp_load<uint16_t>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 2; k++) {
            const unsigned word = k == 0 ? w.signs.x : w.signs.y;
            for (int e = 0; e < 8; e++) {
                const unsigned at         = rp_word(w.q, 2 * k + e / 4) >> (e % 4 * 8) & 255;
                const unsigned signs      = rp_even_signs(word >> (e / 2 * 7)) >> (e % 2 * 4);
                r.q[2 * k + e / 4][e % 4] = rp_signed_bytes(rp_iq3_xxs_codebook[at], signs);
            }
            r.scale[k] = rp_half_bits(w.d) / 4.0f * (float)(2 * (word >> 28) + 1);
            r.min[k]   = 0.0f;
        }
        return r;
    }
};

/* A run has eight bytes of indices, a byte with bit 8 of each, and four bytes of signs. A word has the scales of all
 * runs. */
template <> struct Blocks<RP_IQ3_S> : CodebookBlocks {
    enum { QUANT_PLANES = 1 };
    typedef LaneRuns Lane;
    struct Raw {
        uint4    q;
        uint2    signs;
        unsigned scales;
        uint16_t high, d;
    };
    struct Row {
        const uint8_t *qs, *signs, *qh, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, IQ3_S, qs) + 16 * first, RP_PLANE(p, IQ3_S, signs) + 8 * first,
                RP_PLANE(p, IQ3_S, qh) + 2 * first, RP_PLANE(p, IQ3_S, scales) + 4 * (first / 4),
                RP_PLANE(p, IQ3_S, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<uint2>(row.signs, f), rp_load<unsigned>(row.scales, f / 4),
                rp_load<uint16_t>(row.qh, f), rp_load<uint16_t>(row.d, f / 4)};
    }
    __device__ static Fragment<2> dequantize(const Raw &w, const Lane &lane) {
        Fragment<2> r;
        for (int k = 0; k < 2; k++) {
            const unsigned signs = k == 0 ? w.signs.x : w.signs.y;
            for (int e = 0; e < 8; e++) {
                const unsigned low        = rp_word(w.q, 2 * k + e / 4) >> (e % 4 * 8) & 255;
                const unsigned at         = low | (w.high >> (8 * k + e) & 1) << 8;
                r.q[2 * k + e / 4][e % 4] = rp_signed_bytes(rp_iq3_s_codebook[at], signs >> (4 * e));
            }
            r.scale[k] = rp_half_bits(w.d) * (float)(2 * (w.scales >> (4 * (lane.j + 4 * k)) & 15) + 1);
            r.min[k]   = 0.0f;
        }
        return r;
    }
};

#endif
