/* rp_cuda_repack, which stores quantised weights in planes for the device. Expected positions are in the table below:
 *     plane f:  field f of block 0 | field f of block 1 | ... */
#include "tests/golden.h"

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
        {RP_Q4_0,  {{2, 16}, {0, 2}}                         },
        {RP_Q4_1,  {{4, 16}, {0, 4}}                         },
        {RP_Q5_0,  {{6, 16}, {2, 4}, {0, 2}}                 },
        {RP_Q5_1,  {{8, 16}, {4, 4}, {0, 4}}                 },
        {RP_Q8_0,  {{2, 32}, {0, 2}}                         },
        {RP_Q4_K,  {{0, 144}}                                },
        {RP_Q5_K,  {{0, 176}}                                },
        {RP_Q6_K,  {{0, 128}, {128, 64}, {192, 16}, {208, 2}}},
        {RP_MXFP4, {{1, 16}, {0, 1}}                         },
    };
    cr_expect_eq(sizeof types / sizeof types[0], RP_Q8_ACT - RP_Q4_0,
                 "every quantised type is in this table");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) check(types[i].type, types[i].fields);
}

Test(planes, leave_floats_as_they_are) {
    float              in[6] = {1, 2, 3, 4, 5, 6}, out[6];
    const RpTensorView w     = rp_view_contiguous(RP_F32, (int64_t[]){3, 2, 1, 1}, in);
    OK(rp_cuda_repack(&w, out));
    cr_expect_arr_eq(in, out, sizeof in);
}

Test(planes, refuse_weights_that_are_not_contiguous) {
    char         in[4 * 34], out[4 * 34];
    RpTensorView w = rp_view_contiguous(RP_Q8_0, (int64_t[]){32, 2, 1, 1}, in);
    w.nb[1]        = 2 * 34;
    REFUSED(rp_cuda_repack(&w, out), RP_E_UNSUPPORTED, "q8_0 [32,2,1,1] is not contiguous");
    w = rp_view_contiguous(RP_Q8_ACT, (int64_t[]){32, 2, 1, 1}, in);
    REFUSED(rp_cuda_repack(&w, out), RP_E_DTYPE, "q8_act is not a weight type");
}
