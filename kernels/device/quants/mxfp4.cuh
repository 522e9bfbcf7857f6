/* mxfp4.cuh - mxfp4: the 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives (fallback/quants/types/mxfp4.h). */
#ifndef KERNELS_DEVICE_QUANTS_MXFP4_CUH
#define KERNELS_DEVICE_QUANTS_MXFP4_CUH

#include "kernels/device/quants.cuh"

/* Byte i of a plane as a word: nvcc converts the result of __ldg of a byte at once, which waits for it. */
__device__ static inline unsigned rp_load_byte(const uint8_t *plane, unsigned i) {
#ifdef RP_CUDASIM
    return plane[i];
#else
    unsigned byte;
    asm("ld.global.nc.u8 %0, [%1];" : "=r"(byte) : "l"(plane + i));
    return byte;
#endif
}

/* Doubled the values are integers, so the scale is halved: 2^(e-128). Nibble n of word w of the quants is element
 * 8w + n. */
template <> struct Blocks<RP_MXFP4> : SmallBlocks {
    enum { MINUS = 1, HAS_MIN = 0 };
    struct Raw {
        uint4    q;
        unsigned e;
    };
    struct Row {
        const uint8_t *qs, *e;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, MXFP4, qs) + 16 * first, RP_PLANE(p, MXFP4, e) + first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load_byte(row.e, f)};
    }
    /* Four nibbles to four bytes: 0 1 2 3 4 6 8 12 by the low three bits, 0 where bit 3 is set, since rp_bytes then
     * takes the sign of that byte. */
    struct Lane {
        unsigned table;
        __device__ explicit Lane(int) : table(0x03020100u) {}
        __device__ void keep() { table += rp_keep(threadIdx.x) - threadIdx.x; }
        __device__ int  four(unsigned nibbles) const { return (int)rp_bytes(table, 0x0c080604u, nibbles); }
    };
    /* 2^(e-128): e is the exponent field of twice this value, except that 2^-127 is subnormal and 255 stands for
     * infinity. */
    __device__ static float half_scale(unsigned e) {
        const unsigned least = 0x00400000u, bits = e << 23;
        return fminf(0.5f * __uint_as_float(bits > least ? bits : least), 0x1p127f);
    }
    /* Positive values in q, the magnitude of negative ones in minus. */
    __device__ static Fragment<1> dequantize(const Raw &w, const Lane &lane) {
        Fragment<1> r = scaled(half_scale(w.e), 0.0f);
        for (int i = 0; i < 4; i++) {
            const unsigned q = rp_word(w.q, i), minus = q ^ 0x88888888u;
            const int      k = i / 2, at = i % 2 * 2;
            r.q[k][at] = lane.four(q), r.q[k][at + 1] = lane.four(q >> 16);
            r.minus[k][at] = lane.four(minus), r.minus[k][at + 1] = lane.four(minus >> 16);
        }
        return r;
    }
};

#endif
