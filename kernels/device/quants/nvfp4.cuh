/* nvfp4.cuh - nvfp4: 4-bit floats with a scale of 8 bits for each sum block (fallback/quants/types/nvfp4.h). Nibble n
 * of word w of a run is element 8w + n. */
#ifndef KERNELS_DEVICE_QUANTS_NVFP4_CUH
#define KERNELS_DEVICE_QUANTS_NVFP4_CUH

#include "kernels/device/codebook.cuh"

/* Four nibbles to four bytes: 0 1 2 3 4 6 8 12 and their negatives. */
__device__ static inline unsigned rp_nvfp4_values(unsigned nibbles) {
    const unsigned at   = nibbles & 0x7777u;
    const unsigned low  = rp_bytes(0x03020100u, 0x0c080604u, at);
    const unsigned high = rp_bytes(0xfdfeff00u, 0xf4f8fafcu, at);
    return rp_bytes(low, high, 0x3210u | (nibbles & 0x8888u) >> 1);
}

/* 1024 times half of the scale d, at most 18 bits. */
__device__ static inline int rp_nvfp4_fixed(unsigned d) {
    const unsigned exponent = d >> 3 & 15, mantissa = d & 7, normal = exponent > 0;
    return d == 127 ? 0 : (int)((mantissa | normal << 3) << (exponent - normal));
}

/* The scales of a fragment are a word. */
template <> struct Blocks<RP_NVFP4> : CodebookBlocks {
    enum { QUANT_PLANES = 2, SUB_SCALES = 1, WIDE_SCALES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q[2];
        unsigned d;
    };
    struct Row {
        const uint8_t *q0, *q1, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, NVFP4, q0) + 16 * first, RP_PLANE(p, NVFP4, q1) + 16 * first,
                RP_PLANE(p, NVFP4, d) + 4 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f)},
            rp_load<unsigned>(row.d, f)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < 2; i++) {
                const unsigned q  = rp_word(w.q[k / 2], k % 2 * 2 + i);
                r.q[k][2 * i]     = (int)rp_nvfp4_values(q & 0xffffu);
                r.q[k][2 * i + 1] = (int)rp_nvfp4_values(q >> 16);
            }
            r.sub[k] = rp_nvfp4_fixed(w.d >> (8 * k) & 255);
        }
        r.scale[0] = r.scale[1] = 0x1p-10f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

#endif
