/* Repacks a quantised weight for the device: each field of the block becomes a plane over all B blocks of the
 * tensor. The largest field comes first, so every plane is aligned for its field. For q5_0 (d 2, qh 4, qs 16):
 *
 *     file:    d0 qh0 qs0 d1 qh1 qs1 ...                    22 bytes per block, aligned to 2 bytes only
 *     device:  qs0 qs1 ... qs[B-1] | qh0 ... qh[B-1] | d0 ... d[B-1]
 *     field g of block b:  out + B * (bytes of the fields before g) + b * (bytes of g)
 *
 * Blocks of some types are rearranged before, so that a lane of the device needs few operations for the elements that
 * it multiplies (kernels/device/quants.cuh). The total size stays the same. Float types are copied as they are. */
#include "base/dtypes.h"
#include "base/kernels.h"

#include <string.h>

enum { MAX_FIELDS = 5, MAX_BYTES = 256 /* of a block */ };

/* Bytes [from, from + bytes) of the block; `bytes` is 0 past the last field. */
typedef struct Field {
    int from, bytes;
} Field;

/* In the order of the planes (base/dtypes.h). */
static const Field layouts[RP_DTYPE_COUNT][MAX_FIELDS] = {
#define FIELD(field, at, bytes)                                                      {at, bytes},
#define X(ID, name, sub, offset, has_min, top, from, end, file_type, output, fields) [RP_##ID] = {fields},
    RP_QUANTS(X)
#undef X
#undef FIELD
};

/* Nibble n of word w is element 8w + n. In the file byte i has elements i and 16 + i. */
static void arrange_mxfp4(const uint8_t *in, uint8_t *out) {
    out[0] = in[0];
    for (int i = 0; i < 8; i++) {
        const uint8_t *pair = in + 1 + 2 * i;
        out[1 + i]          = (uint8_t)((pair[0] & 15) | pair[1] << 4);
        out[9 + i]          = (uint8_t)(pair[0] >> 4 | (pair[1] & 0xf0));
    }
}

/* Bit 8b + w is the bit of element 4w + b. In the file bit i is that of element i. */
static void arrange_fifth_bits(const uint8_t *in, uint8_t *out) {
    for (int b = 0; b < 4; b++) {
        unsigned byte = 0;
        for (int w = 0; w < 8; w++) byte |= ((unsigned)in[(4 * w + b) / 8] >> (4 * w + b) % 8 & 1u) << w;
        out[b] = (uint8_t)byte;
    }
}

/* q5_0 and q5_1, whose fifth bits begin at byte 2 or 4. */
static void arrange_q5_0(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_Q5_0_BYTES);
    arrange_fifth_bits(in + 2, out + 2);
}
static void arrange_q5_1(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_Q5_1_BYTES);
    arrange_fifth_bits(in + 4, out + 4);
}

/* A block of 256 elements is eight runs of 32. Fragment j of the device has runs j and j + 4.
 *
 * The heads of q4_k and q5_k: d, dmin (4 bytes), then 12 bytes with the scales s and the minima m of the runs, 6 bits
 * each. In the file, where x.l are the low and x.h the high bits of x:
 *
 *     byte i < 4     s(i)          6 bits   | s(i+4).h  2 bits
 *     byte 4 + i     m(i)          6 bits   | m(i+4).h  2 bits
 *     byte 8 + i     s(i+4).l      4 bits   | m(i+4).l  4 bits
 *
 * On the device:
 *
 *     byte i < 4     s(i)          6 bits   | m(i+4) bits 0-1
 *     byte 4 + i     s(i+4)        6 bits   | m(i+4) bits 2-3
 *     byte 8 + i     m(i)          6 bits   | m(i+4) bits 4-5 */
static void arrange_head(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, 4);
    for (int i = 0; i < 4; i++) {
        const unsigned a = in[4 + i], b = in[8 + i], c = in[12 + i], s = (c & 15) | a >> 6 << 4,
                       m = c >> 4 | b >> 6 << 4;
        out[4 + i]       = (uint8_t)((a & 63) | m << 6);
        out[8 + i]       = (uint8_t)(s | m >> 2 << 6);
        out[12 + i]      = (uint8_t)((b & 63) | m >> 4 << 6);
    }
}

/* Nibbles of q4_k and q5_k. In the file the 32 bytes p have run 2p in the low nibbles and run 2p + 1 in the high ones.
 * On the device fragment j has run j in the low nibbles, run j + 4 in the high ones; its elements 0 to 15 of both are
 * in q0[16j..], 16 to 31 in q1[16j..]. */
static void arrange_nibbles(const uint8_t *in, uint8_t *q0, uint8_t *q1) {
    for (int j = 0; j < 4; j++) {
        const uint8_t *a = in + j / 2 * 32, *b = a + 64;
        uint8_t        pair[32];
        if (j % 2 == 0)
            for (int i = 0; i < 32; i++) pair[i] = (uint8_t)((a[i] & 15) | b[i] << 4);
        else
            for (int i = 0; i < 32; i++) pair[i] = (uint8_t)(a[i] >> 4 | (b[i] & 0xf0));
        memcpy(q0 + 16 * j, pair, 16);
        memcpy(q1 + 16 * j, pair + 16, 16);
    }
}

static void arrange_q4_k(const uint8_t *in, uint8_t *out) {
    PlanesQ4_K *to = (PlanesQ4_K *)(void *)out;
    arrange_head(in, to->head);
    arrange_nibbles(in + 16, to->q0, to->q1);
}

/* In the file bit s of byte i belongs to element i of run s. On the device each run has four bytes, those of
 * fragment j at 8j for run j, at 8j + 4 for run j + 4: bit w of byte b belongs to element 4w + b. */
static void arrange_run_bits(const uint8_t *in, uint8_t *out) {
    for (int s = 0; s < 8; s++)
        for (int b = 0; b < 4; b++) {
            unsigned byte = 0;
            for (int w = 0; w < 8; w++) byte |= (in[4 * w + b] >> s & 1u) << w;
            out[s % 4 * 8 + s / 4 * 4 + b] = (uint8_t)byte;
        }
}

static void arrange_q5_k(const uint8_t *in, uint8_t *out) {
    PlanesQ5_K *to = (PlanesQ5_K *)(void *)out;
    arrange_head(in, to->head);
    arrange_nibbles(in + 48, to->q0, to->q1);
    arrange_run_bits(in + 16, to->qh);
}

/* Sum block k of fragment j in q6_k is 16 elements of run j (k < 2) or j + 4. On the device v = 4 * (q - 32) is one
 * byte for k < 3; the six bits of the element of sub block 3 are the lowest two of the others, the highest in q0. In
 * the file run r of a half block has its low bits in nibble r / 2 of bytes 32 * (r % 2), its high ones in bits 2r of
 * qh. */
static void arrange_q6_k(const uint8_t *in, uint8_t *out) {
    PlanesQ6_K *to = (PlanesQ6_K *)(void *)out;
    for (int j = 0; j < 4; j++) {
        uint8_t v[64]; /* six bits, shifted left by 2 */
        for (int half = 0; half < 2; half++) {
            const uint8_t *low = in + 64 * half + j % 2 * 32, *high = in + 128 + 32 * half;
            for (int i = 0; i < 32; i++) {
                const unsigned q = (low[i] >> (j / 2 * 4) & 15u) | (high[i] >> (2 * j) & 3u) << 4;
                v[32 * half + i] = (uint8_t)(q << 2 ^ 0x80);
            }
        }
        for (int i = 0; i < 16; i++) {
            to->q0[16 * j + i] = (uint8_t)(v[i] | v[48 + i] >> 6);
            to->q1[16 * j + i] = (uint8_t)(v[16 + i] | (v[48 + i] >> 4 & 3));
            to->q2[16 * j + i] = (uint8_t)(v[32 + i] | (v[48 + i] >> 2 & 3));
        }
        for (int k = 0; k < 4; k++) to->scales[4 * j + k] = in[192 + 2 * j + k % 2 + k / 2 * 8];
    }
    memcpy(to->d, in + 208, 2);
}

/* Types in blocks of 256 whose field at `at` has `bytes` bytes for each run: those of runs 0, 4, 1, 5, 2, 6, 3, 7. */
static void arrange_runs(const uint8_t *in, size_t at, size_t bytes, uint8_t *out) {
    for (size_t run = 0; run < 8; run++)
        memcpy(out + at + bytes * (run % 4 * 2 + run / 4), in + at + bytes * run, bytes);
}

static void arrange_iq1_s(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ1_S_BYTES);
    arrange_runs(in, 2, 4, out), arrange_runs(in, 34, 2, out);
}
static void arrange_iq1_m(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ1_M_BYTES);
    arrange_runs(in, 0, 4, out), arrange_runs(in, 32, 2, out);
}
static void arrange_iq2_xxs(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ2_XXS_BYTES);
    arrange_runs(in, 2, 8, out);
}
static void arrange_iq2_xs(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ2_XS_BYTES);
    arrange_runs(in, 2, 8, out), arrange_runs(in, 66, 1, out);
}
static void arrange_iq2_s(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ2_S_BYTES);
    arrange_runs(in, 2, 4, out), arrange_runs(in, 34, 4, out);
    arrange_runs(in, 66, 1, out), arrange_runs(in, 74, 1, out);
}
static void arrange_iq3_xxs(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ3_XXS_BYTES);
    arrange_runs(in, 2, 8, out), arrange_runs(in, 66, 4, out);
}
static void arrange_iq3_s(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_IQ3_S_BYTES);
    arrange_runs(in, 2, 8, out), arrange_runs(in, 66, 1, out), arrange_runs(in, 74, 4, out);
}

/* Two bits of each element. In the file run r has bits 2(r % 4) of the bytes 32(r / 4)..; on the device the bits 2k
 * of byte 16j + i are element i of sum block k of fragment j. */
static void arrange_two_bits(const uint8_t *in, uint8_t *out) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 16; i++) {
            unsigned byte = 0;
            for (int k = 0; k < 4; k++) byte |= ((unsigned)in[k / 2 * 32 + k % 2 * 16 + i] >> (2 * j) & 3u) << (2 * k);
            out[16 * j + i] = (uint8_t)byte;
        }
}
static void arrange_q2_k(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_Q2_K_BYTES);
    arrange_runs(in, 0, 2, out);
    arrange_two_bits(in + 16, out + 16);
}
static void arrange_tq2_0(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_TQ2_0_BYTES);
    arrange_two_bits(in, out);
}

/* Four blocks of ggml, whose scales are put together. Block m has the runs 2m and 2m + 1, which are in q0 or, as second
 * runs of the fragments, in q1: nibble n of word w is element 8w + n of the run. */
static void arrange_nvfp4(const uint8_t *in, uint8_t *out) {
    PlanesNVFP4 *to = (PlanesNVFP4 *)(void *)out;
    for (int run = 0; run < 8; run++) {
        const uint8_t *of = in + run / 2 * 36, *qs = of + 4 + run % 2 * 16;
        uint8_t       *q = (run < 4 ? to->q0 : to->q1) + run % 4 * 16;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < 4; i++) {
                const uint8_t *pair = qs + 8 * s + 2 * i;
                q[8 * s + i]        = (uint8_t)((pair[0] & 15) | pair[1] << 4);
                q[8 * s + 4 + i]    = (uint8_t)(pair[0] >> 4 | (pair[1] & 0xf0));
            }
        memcpy(to->d + run % 4 * 4 + run / 4 * 2, of + run % 2 * 2, 2);
    }
}

/* Two blocks of ggml. A run has 32 bits, ordered as the fifth bits of q5_0. */
static void arrange_q1_0(const uint8_t *in, uint8_t *out) {
    for (size_t run = 0; run < 8; run++)
        arrange_fifth_bits(in + run / 4 * 18 + 2 + run % 4 * 4, out + 4 + 4 * (run % 4 * 2 + run / 4));
    memcpy(out, in, 2), memcpy(out + 2, in + 18, 2);
}

/* Four blocks of ggml. Run r is half of block r / 2, with element 4k + n in bits 2n of byte k; on the device the bits
 * 2k of byte 16j + i are element i of sum block k of fragment j. */
static void arrange_q2_0(const uint8_t *in, uint8_t *out) {
    memset(out, 0, RP_Q2_0_BYTES);
    for (int m = 0; m < 4; m++) memcpy(out + 2 * m, in + 18 * m, 2);
    for (int i = 0; i < 256; i++) {
        const int      run = i / 32, k = run / 4 * 2 + i % 32 / 16;
        const unsigned q  = (unsigned)in[i / 64 * 18 + 2 + i % 64 / 4] >> (i % 4 * 2) & 3u;
        uint8_t       *to = out + 8 + run % 4 * 16 + i % 16;
        *to               = (uint8_t)(*to | q << (2 * k));
    }
}

/* The third bits, at the start of the block, as the fifth ones of q5_k. */
static void arrange_q3_k(const uint8_t *in, uint8_t *out) {
    memcpy(out, in, RP_Q3_K_BYTES);
    arrange_run_bits(in, out);
    arrange_two_bits(in + 32, out + 32);
}

static void (*const arrangements[RP_DTYPE_COUNT])(const uint8_t *in, uint8_t *out) = {
    [RP_MXFP4] = arrange_mxfp4,   [RP_Q5_0] = arrange_q5_0,   [RP_Q5_1] = arrange_q5_1,
    [RP_Q4_K] = arrange_q4_k,     [RP_Q5_K] = arrange_q5_k,   [RP_Q6_K] = arrange_q6_k,
    [RP_Q2_K] = arrange_q2_k,     [RP_Q3_K] = arrange_q3_k,   [RP_TQ2_0] = arrange_tq2_0,
    [RP_IQ1_S] = arrange_iq1_s,   [RP_IQ1_M] = arrange_iq1_m, [RP_IQ2_XXS] = arrange_iq2_xxs,
    [RP_IQ2_XS] = arrange_iq2_xs, [RP_IQ2_S] = arrange_iq2_s, [RP_IQ3_XXS] = arrange_iq3_xxs,
    [RP_IQ3_S] = arrange_iq3_s,   [RP_NVFP4] = arrange_nvfp4, [RP_Q1_0] = arrange_q1_0,
    [RP_Q2_0] = arrange_q2_0,
};

/* Block i of n: each field goes to its plane. */
static void scatter(const Field *fields, const uint8_t *block, size_t i, size_t n, char *out) {
    for (int f = 0; f < MAX_FIELDS && fields[f].bytes > 0; f++) {
        const size_t bytes = (size_t)fields[f].bytes;
        memcpy(out + i * bytes, block + fields[f].from, bytes);
        out += n * bytes;
    }
}

/* Blocks of each matrix follow one another. Matrices may lie apart: gate and up of experts that a file joins. */
static bool has_whole_matrices(const RpTensorView *w) {
    RpTensorView one = *w;
    one.ne[2] = one.ne[3] = 1;
    return rp_view_is_contiguous(w) || (rp_view_is_contiguous(&one) && w->ne[3] == 1);
}

size_t rp_cuda_weight_bytes(const RpTensorView *w) {
    const bool planes = rp_dtype_is_quant(w->dtype) && has_whole_matrices(w);
    return planes ? rp_row_bytes(w->dtype, rp_view_elems(w)) : rp_view_extent_bytes(w);
}

RpStatus rp_cuda_repack(const RpTensorView *w, void *out) {
    const RpDtypeInfo *info = rp_dtype_info(w->dtype);
    if (info == NULL || w->dtype == RP_Q8_ACT)
        return rp_fail(RP_E_DTYPE, "%s is not a weight type", rp_dtype_name(w->dtype));
    if (!rp_dtype_is_quant(w->dtype)) {
        memcpy(out, w->data, rp_view_extent_bytes(w));
        return RP_OK;
    }
    const Field *fields = layouts[w->dtype];
    if (!has_whole_matrices(w))
        return rp_fail(RP_E_UNSUPPORTED, "%s [%lld,%lld,%lld,%lld] is not contiguous: the device takes whole matrices",
                       info->name, (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)w->ne[3]);
    const size_t        bytes = (size_t)info->block_bytes, n = rp_cuda_weight_bytes(w) / bytes;
    const size_t        each  = n / (size_t)(w->ne[2] * w->ne[3]); /* of a matrix */
    const uint8_t      *block = w->data;
    alignas(16) uint8_t arranged[MAX_BYTES];
    for (size_t i = 0; i < n; i++, block += bytes) {
        if (i > 0 && i % each == 0) block += w->nb[2] - each * bytes; /* the gap between matrices */
        if (arrangements[w->dtype] != NULL) arrangements[w->dtype](block, arranged);
        scatter(fields, arrangements[w->dtype] != NULL ? arranged : block, i, n, out);
    }
    return RP_OK;
}
