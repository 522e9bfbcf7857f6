/* codebook.cuh - what codebook types and some K types share beside quants.cuh. */
#ifndef KERNELS_DEVICE_CODEBOOK_CUH
#define KERNELS_DEVICE_CODEBOOK_CUH

#include "kernels/device/quants.cuh"

/* The Lane of a type in blocks of 256 whose lanes find their runs j and j + 4 in words of the whole block. */
struct LaneRuns {
    int j;
    __device__ explicit LaneRuns(int f) : j(f % 4) {}
    __device__ void keep() { j = (int)rp_keep((unsigned)j); }
};

/* Codebook types: signed quants without offset or minima. */
struct CodebookBlocks : SuperBlocks {
    enum { QUANT_PLANES = 0, SIGNED = 1, HAS_MIN = 0 };
};

/* q - offset in each byte, as int8; bytes of 0 to 127, so nothing is borrowed. */
__device__ static inline unsigned rp_less(unsigned q, unsigned offset) {
    return ((q | 0x80808080u) - offset) ^ 0x80808080u;
}

/* The bytes of v whose bit of the lowest four of `signs` is set, negated. No byte is 0, so nothing is carried. */
__device__ static inline int rp_signed_bytes(unsigned v, unsigned signs) {
    const unsigned ones = (signs & 15) * 0x00204081u & 0x01010101u;
    return (int)((v ^ ones * 255) + ones);
}

/* The signs of 8 elements from the lowest 7 bits of `word`: the number of negative ones is even. */
__device__ static inline unsigned rp_even_signs(unsigned word) {
    const unsigned seven = word & 127, folded = (seven ^ seven >> 4) & 15; /* bit n of 0x6996 is the parity of n */
    return seven | (0x6996u >> folded & 1) << 7;
}

#endif
