/* quants.cuh - loads and dequantises block-quantised weights on the device. Further types are in kernels/device/quants;
 * weights.cuh has them all.
 *
 * Device planes (rp_cuda_repack): each field of the block becomes an array over all B blocks of the tensor.
 * base/dtypes.h lists the fields, planes.c says how the bits of a block are arranged before.
 *
 *     q8_0:  q0 16 bytes of block 0, of block 1, ... of block B-1, then q1 likewise, then d 2 bytes of each block
 *     field of block b:  data + B * (bytes of the fields before) + b * (bytes of the field)
 *
 * A fragment is what one lane loads and multiplies at a time: one run of 32 elements with one scale, or two runs (K
 * types). Its quants are 16 bytes of each of the planes q0, q1, ..., so that every load of a lane has 16 aligned bytes
 * and neighbouring lanes load neighbouring bytes.
 *
 *     types in blocks of 32   fragment f is block f
 *     K types                 a block of 256 is fragments 4b to 4b + 3; fragment 4b + j is its runs j and j + 4
 *
 * A run consists of two sum blocks, 16 elements with one activation sum each. Sum block k of the fragment (run k / 2):
 *
 *     element i    =  scale[k/2] * (factor(k) * q[k][i]) + min[k/2]                      i < 16
 *     its place    =  16 * (first_sum_block(f) + k % 2 + k / 2 * 8) + i  in the row
 *
 * factor(k) is 1, or a constant that saves a shift of the quants (FIRST), or a scale of its own (q6_K). */
#ifndef KERNELS_DEVICE_QUANTS_CUH
#define KERNELS_DEVICE_QUANTS_CUH

#include "base/dtypes.h"
#include "kernels/device/device.cuh"

enum { RP_RUN = 32, RP_RUN_STRIDE = 8 /* sum blocks from a run of a fragment to the next */ };
static_assert((int)RP_RUN == 2 * (int)RP_SUM_BLOCK, "a run is two sum blocks");

/* Dequantised to integers: q holds four 8-bit integers per word, for dp4a. Offsets (8 of q4_0) are part of min. */
template <int RUNS> struct Fragment {
    int   q[2 * RUNS][4];
    int   minus[2 * RUNS][4]; /* subtracted from q, with MINUS */
    int   sub[2 * RUNS];      /* scales of the sum blocks, with SUB_SCALES */
    float scale[RUNS], min[RUNS];
    float sub_min[2 * RUNS]; /* minima of the sum blocks, with SUB_MINS */
};

/* A whole tensor of quantised weights; every plane's address follows from the number of its blocks. */
struct Planes {
    const uint8_t *data;
    int64_t        blocks;
};

/* The plane `field` of a type (base/dtypes.h), for instance RP_PLANE(p, Q5_0, qh). */
#define RP_PLANE(p, ID, field) ((p).data + (int64_t)offsetof(Planes##ID, field) * (p).blocks)

/* Element i of a plane of V, by the read-only path. The index has 32 bits: one multiply-add then gives the address. */
template <class V> __device__ inline V rp_load(const uint8_t *plane, unsigned i) { return __ldg((const V *)plane + i); }

template <> __device__ inline uint4 rp_load<uint4>(const uint8_t *plane, unsigned i) {
    return rp_ldg16((const uint4 *)plane + i);
}

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

/* Selects instead of an array, so that the words stay in registers. */
__device__ static inline unsigned rp_word(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* q = the low nibbles of 16 bytes; the high nibbles; the high nibbles times 16, which saves the shift. */
__device__ static inline void rp_low_nibbles(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) & 0x0f0f0f0fu);
}
__device__ static inline void rp_high_nibbles(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) >> 4 & 0x0f0f0f0fu);
}
__device__ static inline void rp_high_nibbles_16(const uint4 &v, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] = (int)(rp_word(v, i) & 0xf0f0f0f0u);
}

/* Adds the fifth bits of the words [4 * half, 4 * half + 4) of a run: bit 8b + w of `high` belongs to byte b of word w,
 * which is element 4w + b of the run. */
__device__ static inline void rp_fifth_bits(unsigned high, int half, int (&q)[4]) {
    for (int i = 0; i < 4; i++) q[i] |= (int)((half == 0 ? high << (4 - i) : high >> i) & 0x10101010u);
}

/* Byte i of the result is byte n & 7 of b:a, with n = selector >> 4i; if n & 8, it is eight times the sign of that
 * byte. (For __byte_perm, bit 3 of n means nothing, and so it masks the selector.) */
__device__ static inline unsigned rp_bytes(unsigned a, unsigned b, unsigned selector) {
#ifdef RP_CUDASIM
    return __byte_perm(a, b, selector);
#else
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
#endif
}

/* v, which then stays in a register: the compiler would compute it anew for each use. Every lane of the warp calls
 * it. */
__device__ static inline unsigned rp_keep(unsigned v) { return __shfl_xor_sync(RP_ALL_LANES, v, 0); }

__device__ static inline float rp_low_half(unsigned v) { return rp_half_bits((uint16_t)(v & 0xffff)); }
__device__ static inline float rp_high_half(unsigned v) { return rp_half_bits((uint16_t)(v >> 16)); }

/* Elements of a fragment: a block of 32 is one, a block of 256 is four. */
constexpr int rp_frag_elems(int block_elems) { return block_elems == RP_RUN ? RP_RUN : 2 * RP_RUN; }

/* The constants of a type: the elements of a block and of a fragment. */
template <RpDtype T> struct QuantType;

#define X(ID, ...)                                                                                                     \
    template <> struct QuantType<RP_##ID> {                                                                            \
        static constexpr RpDtype TYPE = RP_##ID;                                                                       \
        enum { ELEMS = RP_##ID##_ELEMS, FRAG = rp_frag_elems(RP_##ID##_ELEMS) };                                       \
    };
RP_QUANTS(X)
#undef X

/* Access to the fragments of a type. Loading (Raw) is separate from dequantising, so that several loads are in
 * flight before the first is used.
 *
 *     RUNS             of a fragment, 1 or 2
 *     QUANT_PLANES     planes with 16 bytes of quants of each fragment, the first planes of the tensor
 *     SIGNED           the bytes of q are signed
 *     FIRST            factor(k) for even k; that for odd k is 1
 *     SECOND           the quants of the second run are multiplied by it, its scale is divided
 *     SUB_SCALES       factor(k) is sub[k] instead
 *     SUB_MINS         each sum block has a minimum, sub_min[k] instead of min
 *     MINUS            minus is subtracted from q
 *     HAS_MIN          min may differ from 0: the type has minima or an offset
 *     LOADS            fragments that a lane loads at a time
 *     Lane             what all fragments of a lane share; they are f, f + 4n, ...; keep() it in registers over a loop
 *     first_sum_block  of fragment f of a row
 *     Row              pointers to the planes at the first fragment of a row, made by row(planes, first fragment)
 *     load             fragment f of a row */
template <RpDtype T> struct Blocks;

template <RpDtype T> using FragmentOf = Fragment<Blocks<T>::RUNS>;

/* The Lane of a type whose fragments share nothing. */
struct NoLane {
    __device__ explicit NoLane(int) {}
    __device__ void keep() {}
};

/* Types in blocks of 32 elements with one scale: a fragment is a block. */
struct SmallBlocks {
    enum {
        RUNS         = 1,
        QUANT_PLANES = 1,
        SIGNED       = 0,
        FIRST        = 1,
        SECOND       = 1,
        SUB_SCALES   = 0,
        SUB_MINS     = 0,
        MINUS        = 0,
        HAS_MIN      = 1,
        LOADS        = 2
    };
    typedef NoLane                         Lane;
    template <class I> __device__ static I first_sum_block(I f) { return 2 * f; }
    __device__ static Fragment<1>          scaled(float scale, float min) {
                 Fragment<1> r;
                 r.scale[0] = scale, r.min[0] = min;
                 return r;
    }
};

/* Blocks of 256 elements: four fragments, each of two runs. */
struct SuperBlocks {
    enum {
        RUNS         = 2,
        QUANT_PLANES = 2,
        SIGNED       = 0,
        FIRST        = 1,
        SECOND       = 1,
        SUB_SCALES   = 0,
        SUB_MINS     = 0,
        MINUS        = 0,
        HAS_MIN      = 1,
        LOADS        = 1
    };
    template <class I> __device__ static I first_sum_block(I f) { return f / 4 * 16 + f % 4 * 2; }
};

template <> struct Blocks<RP_Q4_0> : SmallBlocks {
    enum { FIRST = 16 };
    struct Raw {
        uint4    q;
        uint16_t d;
    };
    struct Row {
        const uint8_t *qs, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q4_0, qs) + 16 * first, RP_PLANE(p, Q4_0, d) + 2 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<uint16_t>(row.d, f)};
    }
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        const float d = rp_half_bits(w.d);
        Fragment<1> r = scaled(d / 16.0f, -(float)RP_Q4_0_OFFSET * d);
        rp_low_nibbles(w.q, r.q[0]);
        rp_high_nibbles_16(w.q, r.q[1]);
        return r;
    }
};

template <> struct Blocks<RP_Q4_1> : SmallBlocks {
    enum { FIRST = 16 };
    struct Raw {
        uint4    q;
        unsigned dm;
    };
    struct Row {
        const uint8_t *qs, *dm;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q4_1, qs) + 16 * first, RP_PLANE(p, Q4_1, dm) + 4 * first};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {rp_load<uint4>(row.qs, f), rp_load<unsigned>(row.dm, f)};
    }
    __device__ static Fragment<1> dequantize(const Raw &w, Lane) {
        Fragment<1> r = scaled(rp_low_half(w.dm) / 16.0f, rp_high_half(w.dm));
        rp_low_nibbles(w.q, r.q[0]);
        rp_high_nibbles_16(w.q, r.q[1]);
        return r;
    }
};

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

/* 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives. Doubled they are integers, so the scale is halved: 2^(e-128).
 * Nibble n of word w of the quants is element 8w + n. */
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
    /* 2^(e-128): e is the exponent field of the double of it, but that 2^-127 is subnormal, and 255 stands for
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

/* Byte i of plane k < 3 is 4 * (q - 32) of element i of sum block k, whose low two bits are free. Those of the three
 * planes make up the element i of sum block 3:  bits 7-6 from q0, 5-4 from q1, 3-2 from q2. A word has the int8 scales
 * of the four sum blocks. */
template <> struct Blocks<RP_Q6_K> : SuperBlocks {
    enum { QUANT_PLANES = 3, SIGNED = 1, HAS_MIN = 0, SUB_SCALES = 1 };
    typedef NoLane Lane;
    struct Raw {
        uint4    q[3];
        unsigned scales;
        uint16_t d;
    };
    struct Row {
        const uint8_t *q0, *q1, *q2, *scales, *d;
    };
    __device__ static Row row(const Planes &p, int64_t first) {
        return {RP_PLANE(p, Q6_K, q0) + 16 * first, RP_PLANE(p, Q6_K, q1) + 16 * first,
                RP_PLANE(p, Q6_K, q2) + 16 * first, RP_PLANE(p, Q6_K, scales) + 4 * first,
                RP_PLANE(p, Q6_K, d) + 2 * (first / 4)};
    }
    __device__ static Raw load(const Row &row, unsigned f) {
        return {
            {rp_load<uint4>(row.q0, f), rp_load<uint4>(row.q1, f), rp_load<uint4>(row.q2, f)},
            rp_load<unsigned>(row.scales, f),
            rp_load<uint16_t>(row.d, f / 4)
        };
    }
    __device__ static Fragment<2> dequantize(const Raw &w, Lane) {
        Fragment<2> r;
        for (int i = 0; i < 4; i++) {
            const unsigned a = rp_word(w.q[0], i), b = rp_word(w.q[1], i), c = rp_word(w.q[2], i);
            const unsigned top = (a << 6 & 0xc0c0c0c0u) | (b << 4 & ~0xc0c0c0c0u);
            r.q[0][i]          = (int)(a & 0xfcfcfcfcu);
            r.q[1][i]          = (int)(b & 0xfcfcfcfcu);
            r.q[2][i]          = (int)(c & 0xfcfcfcfcu);
            r.q[3][i]          = (int)(((top & 0xf0f0f0f0u) | (c << 2 & ~0xf0f0f0f0u)) & 0xfcfcfcfcu);
        }
        for (int k = 0; k < 4; k++) r.sub[k] = (int)(int8_t)(w.scales >> (8 * k));
        r.scale[0] = r.scale[1] = rp_half_bits(w.d) / 4.0f;
        r.min[0] = r.min[1] = 0.0f;
        return r;
    }
};

template <RpDtype T> __device__ static inline Planes rp_planes(const RpTensorView &w) {
    return {(const uint8_t *)w.data, w.ne[0] * w.ne[1] * w.ne[2] * w.ne[3] / QuantType<T>::ELEMS};
}

/* Element i of sum block k as f32: scale * q + min, rounded once. */
template <RpDtype T> __device__ static inline float rp_element(const FragmentOf<T> &w, int k, int i) {
    typedef Blocks<T> B;
    const int         shift = 8 * (i % 4), byte = w.q[k][i / 4] >> shift;
    const int         q = (B::SIGNED ? (int8_t)byte : byte & 255) - (B::MINUS ? w.minus[k][i / 4] >> shift & 255 : 0);
    const int         factor = B::SUB_SCALES ? w.sub[k] : k % 2 == 0 ? (int)B::FIRST : 1;
    return fmaf(w.scale[k / 2], (float)(factor * q), B::SUB_MINS ? w.sub_min[k] : w.min[k / 2]);
}

/* The place of sum block k of fragment f in the row, in sum blocks. */
template <RpDtype T> __device__ static inline int64_t rp_sum_block(int64_t f, int k) {
    return Blocks<T>::first_sum_block(f) + k % 2 + k / 2 * RP_RUN_STRIDE;
}

#endif
