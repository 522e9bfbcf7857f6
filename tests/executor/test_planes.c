/* rp_cuda_repack, which stores quantised weights in planes for the device. Expected positions are in the table below:
 *     plane f:  field f of block 0 | field f of block 1 | ... */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "base/dtypes.h"
#include "base/kernels.h"

/* Two rows of three blocks. Byte k of block b is k + 41 b, so every byte tells where it came from. */
static void check(RpDtype type, const int (*fields)[2]) {
    const RpDtypeInfo *info = rp_dtype_info(type);
    enum { BLOCKS = 6 };
    const size_t       size = (size_t)info->block_bytes;
    unsigned char      in[BLOCKS * 256], out[BLOCKS * 256];
    const RpTensorView w = rp_view_contiguous(type, (int64_t[]){3 * info->block_elems, 2, 1, 1}, in);
    for (size_t i = 0; i < BLOCKS * size; i++) in[i] = (unsigned char)(i % size + 41 * (i / size));
    OK(rp_cuda_repack(&w, out));
    const unsigned char *plane = out;
    for (int f = 0; f < 4 && fields[f][1] > 0; f++)
        for (int b = 0; b < BLOCKS; b++, plane += fields[f][1])
            cr_expect_arr_eq(plane, in + (size_t)b * size + fields[f][0], (size_t)fields[f][1],
                             "%s: field %d of block %d", info->name, f, b);
    cr_expect_eq(plane, out + BLOCKS * size);
}

Test(planes, hold_one_field_of_every_block) {
    static const struct {
        RpDtype type;
        int     fields[4][2]; /* of a block: offset and bytes, in the order of the planes */
    } types[] = {
        {RP_Q4_0, {{2, 16}, {0, 2}}          },
        {RP_Q4_1, {{4, 16}, {0, 4}}          },
        {RP_Q8_0, {{2, 16}, {18, 16}, {0, 2}}},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) check(types[i].type, types[i].fields);
}

enum { BLOCKS = 5 };

/* Element e of block b from planes whose blocks are rearranged; d is 1, dmin 1/2. */
typedef double Element(const unsigned char *planes, int b, int e);

static double mxfp4(const unsigned char *planes, int b, int e) {
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int           q         = planes[16 * b + e / 2] >> (e % 2 * 4) & 15;
    return q & 8 ? -values[q & 7] : values[q];
}

static int fifth_bit(const unsigned char *run, int i) { return (run[i % 4] >> (i / 4) & 1) << 4; }

static int nibble_of_32(const unsigned char *qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

static double q5_0(const unsigned char *planes, int b, int e) {
    return nibble_of_32(planes + 16 * b, e) + fifth_bit(planes + 16 * BLOCKS + 4 * b, e) - 16;
}

static double q5_1(const unsigned char *planes, int b, int e) {
    return nibble_of_32(planes + 16 * b, e) + fifth_bit(planes + 16 * BLOCKS + 4 * b, e) + 0.5;
}

/* The byte of plane p with element e of block b: fragment j has the runs j and j + 4. */
static int quants(const unsigned char *planes, int p, int b, int e) {
    return planes[64 * (BLOCKS * p + b) + 16 * (e / 32 % 4) + e % 16];
}

static double scaled(const unsigned char *head, int e, int q) {
    const int j = e / 32 % 4, a = head[4 + j], b = head[8 + j], c = head[12 + j];
    const int scale = e < 128 ? a & 63 : b & 63, min = e < 128 ? c & 63 : a >> 6 | b >> 6 << 2 | c >> 6 << 4;
    return scale * q - 0.5 * min;
}

static int nibble(const unsigned char *planes, int b, int e) {
    return quants(planes, e % 32 / 16, b, e) >> (e < 128 ? 0 : 4) & 15;
}

static double q4_k(const unsigned char *planes, int b, int e) {
    return scaled(planes + 128 * BLOCKS + 16 * b, e, nibble(planes, b, e));
}

static double q5_k(const unsigned char *planes, int b, int e) {
    const unsigned char *run = planes + 128 * BLOCKS + 32 * b + 8 * (e / 32 % 4) + 4 * (e / 128);
    return scaled(planes + 160 * BLOCKS + 16 * b, e, nibble(planes, b, e) + fifth_bit(run, e % 32));
}

static double q6_k(const unsigned char *planes, int b, int e) {
    const int k = e / 128 * 2 + e % 32 / 16, scale = (signed char)planes[192 * BLOCKS + 16 * b + 4 * (e / 32 % 4) + k];
    int       q = 0;
    for (int p = 0; k == 3 && p < 3; p++) q |= (quants(planes, p, b, e) & 3) << (6 - 2 * p);
    if (k < 3) q = quants(planes, k, b, e) & 252;
    return scale * ((signed char)q / 4);
}

/* Blocks of random bytes, with d and dmin at `at`. */
static void check_arranged(RpDtype type, int at, bool dmin, Element *element) {
    const RpDtypeInfo *info = rp_dtype_info(type);
    unsigned char      in[BLOCKS * 256], planes[BLOCKS * 256];
    float              want[256];
    unsigned           state = 7;
    const size_t       bytes = (size_t)info->block_bytes;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t b = 0; b < BLOCKS; b++) {
        unsigned char *d = in + b * bytes + at;
        if (type == RP_MXFP4) d[0] = 127;
        if (type != RP_MXFP4) d[0] = 0, d[1] = 0x3c;
        if (dmin) d[2] = 0, d[3] = 0x38;
    }
    const RpTensorView w = rp_view_contiguous(type, (int64_t[]){BLOCKS * info->block_elems, 1, 1, 1}, in);
    OK(rp_cuda_repack(&w, planes));
    for (int b = 0; b < BLOCKS; b++) {
        rp_dequantize_row(type, in + (size_t)b * bytes, info->block_elems, want);
        for (int e = 0; e < (int)info->block_elems; e++)
            cr_assert_eq(element(planes, b, e), (double)want[e], "%s: element %d of block %d", info->name, e, b);
    }
}

Test(planes, arrange_the_bits_of_some_types) {
    check_arranged(RP_MXFP4, 0, false, mxfp4);
    check_arranged(RP_Q5_0, 0, false, q5_0);
    check_arranged(RP_Q5_1, 0, true, q5_1);
    check_arranged(RP_Q4_K, 0, true, q4_k);
    check_arranged(RP_Q5_K, 0, true, q5_k);
    check_arranged(RP_Q6_K, 208, false, q6_k);
}

static int bit_of(const unsigned char *p, int i) { return p[i / 8] >> (i % 8) & 1; }

/* Each bit of the blocks is at one place of the planes, perhaps inverted: if one bit of the blocks changes, one bit of
 * the planes changes, each time another. */
Test(planes, move_each_bit_of_every_type_to_a_place_of_its_own) {
#define X(ID, ...) RP_##ID,
    static const RpDtype types[] = {RP_QUANTS(X)};
#undef X
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        enum { N = 2 };
        const RpDtypeInfo *info            = rp_dtype_info(types[t]);
        const int          bits            = N * info->block_bytes * 8;
        unsigned char      in[N * 256]     = {0}, planes[N * 256], other[N * 256];
        bool               taken[N * 2048] = {false};
        const RpTensorView w = rp_view_contiguous(types[t], (int64_t[]){N * info->block_elems, 1, 1, 1}, in);
        OK(rp_cuda_repack(&w, planes));
        for (int i = 0; i < bits; i++) {
            int n = 0, at = 0;
            in[i / 8] ^= (unsigned char)(1 << i % 8);
            OK(rp_cuda_repack(&w, other));
            in[i / 8] ^= (unsigned char)(1 << i % 8);
            for (int k = 0; k < bits; k++)
                if (bit_of(planes, k) != bit_of(other, k)) n++, at = k;
            cr_assert_eq(n, 1, "%s: bit %d changes %d bits of the planes", info->name, i, n);
            cr_assert(!taken[at], "%s: bit %d is at bit %d of the planes, as another", info->name, i, at);
            taken[at] = true;
        }
    }
}

Test(planes, leave_floats_as_they_are) {
    float              in[6] = {1, 2, 3, 4, 5, 6}, out[6];
    const RpTensorView w     = rp_view_contiguous(RP_F32, (int64_t[]){3, 2, 1, 1}, in);
    OK(rp_cuda_repack(&w, out));
    cr_expect_arr_eq(in, out, sizeof in);
}

/* Gate and up of experts that a file joins: matrices 0 and 2 of four, then 1 and 3. */
Test(planes, leave_out_the_gaps_between_matrices) {
    enum { N = 4 * 2 * 34 };
    unsigned char in[N], apart[N / 2], planes[N / 2], want[N / 2];
    for (int i = 0; i < N; i++) in[i] = (unsigned char)(7 * i + i / 34);
    for (int k = 0; k < 2; k++) {
        RpTensorView w = rp_view_contiguous(RP_Q8_0, (int64_t[]){32, 2, 2, 1}, in + k * 68);
        w.nb[2]        = 2 * 68;
        for (int i = 0; i < 2; i++) memcpy(apart + 68 * i, in + k * 68 + 136 * i, 68);
        const RpTensorView plain = rp_view_contiguous(RP_Q8_0, (int64_t[]){32, 2, 2, 1}, apart);
        cr_assert_eq(rp_cuda_weight_bytes(&w), sizeof planes, CASE(k));
        OK(rp_cuda_repack(&w, planes));
        OK(rp_cuda_repack(&plain, want));
        cr_expect_arr_eq(planes, want, sizeof want, CASE(k));
    }
    RpTensorView floats = rp_view_contiguous(RP_F32, (int64_t[]){3, 2, 2, 1}, in);
    floats.nb[2]        = 48;
    cr_expect_eq(rp_cuda_weight_bytes(&floats), 72); /* 6 elements, 6 that are not read, and 6 */
}

Test(planes, refuse_weights_that_are_not_contiguous) {
    char         in[4 * 34], out[4 * 34];
    RpTensorView w = rp_view_contiguous(RP_Q8_0, (int64_t[]){32, 2, 1, 1}, in);
    w.nb[1]        = 2 * 34;
    REFUSED(rp_cuda_repack(&w, out), RP_E_UNSUPPORTED, "q8_0 [32,2,1,1] is not contiguous");
    w = rp_view_contiguous(RP_Q8_ACT, (int64_t[]){32, 2, 1, 1}, in);
    REFUSED(rp_cuda_repack(&w, out), RP_E_DTYPE, "q8_act is not a weight type");
}
