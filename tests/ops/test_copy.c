/* The op copy: conversions against values of IEEE 754 and of ggml's q8_0 written out here; permuted sources and
 * stores at positions (the KV cache) against index formulas. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

Test(copy, converts_f32_to_f16_with_ties_to_even) {
    /* f32 values and their f16: ties to even, subnormals, the largest value, values that round to infinity */
    static const struct {
        float    x;
        uint16_t h;
    } cases[] = {
        {0.0f,                   0     },
        {-0.0f,                  0x8000},
        {1.0f,                   0x3c00},
        {-2.0f,                  0xc000},
        {65504.0f,               0x7bff},
        {65519.996f,             0x7bff},
        {65520.0f,               0x7c00},
        {1e30f,                  0x7c00},
        {-INFINITY,              0xfc00},
        {1.00048828125f,         0x3c00},
        {1.0009765625f,          0x3c01},
        {1.00146484375f,         0x3c02},
        {6.103515625e-05f,       0x0400},
        {6.097555160522461e-05f, 0x03ff},
        {5.9604645e-08f,         1     },
        {2.9802322e-08f,         0     },
        {2.9802326e-08f,         1     },
        {8.9406967e-08f,         2     },
        {1e-10f,                 0     },
        {0.333333343f,           0x3555}
    };
    enum { N = sizeof cases / sizeof cases[0] };
    float    x[N], back[N];
    uint16_t y[N];
    for (int i = 0; i < N; i++) x[i] = cases[i].x;
    RpOpArgs args = {.dst = tensor(RP_F16, y, N, 1, 1, 1), .src = {tensor(RP_F32, x, N, 1, 1, 1)}};
    run_variants(rp_cpu_copy, &args);
    for (int i = 0; i < N; i++)
        cr_expect_eq(y[i], cases[i].h, "%.9g becomes %04x, not %04x", (double)x[i], y[i], cases[i].h);
    args = (RpOpArgs){.dst = tensor(RP_F32, back, N, 1, 1, 1), .src = {tensor(RP_F16, y, N, 1, 1, 1)}};
    run_variants(rp_cpu_copy, &args);
    cr_expect(back[2] == 1.0f && back[4] == 65504.0f && isinf(back[6]) && back[14] == 0x1p-24f && signbit(back[1]));
}

Test(copy, keeps_nan) {
    float          x[1] = {NAN}, back[1];
    uint16_t       y[1];
    const RpOpArgs to   = {.dst = tensor(RP_F16, y, 1, 1, 1, 1), .src = {tensor(RP_F32, x, 1, 1, 1, 1)}};
    const RpOpArgs from = {.dst = tensor(RP_F32, back, 1, 1, 1, 1), .src = {tensor(RP_F16, y, 1, 1, 1, 1)}};
    OK(run_workers(rp_cpu_copy, &to, 1));
    OK(run_workers(rp_cpu_copy, &from, 1));
    cr_expect(isnan(back[0]));
}

Test(copy, converts_f32_to_bf16) {
    float          x[4] = {1.0f, 1.00390625f, 1.01171875f, -3.3895314e38f};
    uint16_t       y[4];
    const RpOpArgs args = {.dst = tensor(RP_BF16, y, 4, 1, 1, 1), .src = {tensor(RP_F32, x, 4, 1, 1, 1)}};
    run_variants(rp_cpu_copy, &args);
    cr_expect(y[0] == 0x3f80 && y[1] == 0x3f80 && y[2] == 0x3f82 && y[3] == 0xff7f);
}

Test(copy, makes_a_permuted_or_transposed_source_contiguous) {
    float x[24], y[24];
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    const RpTensorView swapped = {
        x, RP_F32, {2, 4,  3, 1 },
          {4, 24, 8, 96}
    }; /* [2,3,4] with dimensions 1 and 2 swapped */
    RpOpArgs args = {.dst = tensor(RP_F32, y, 2, 4, 3, 1), .src = {swapped}};
    run_variants(rp_cpu_copy, &args);
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 4; j++) cr_expect(y[2 * (j + 4 * k)] == (float)(6 * j + 2 * k), CASE(k, j));
    args = (RpOpArgs){.dst = tensor(RP_F32, y, 6, 4, 1, 1), .src = {{x, RP_F32, {6, 4, 1, 1}, {16, 4, 96, 96}}}};
    run_variants(rp_cpu_copy, &args);
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 6; i++) cr_expect(y[i + 6 * j] == (float)(4 * i + j), CASE(j, i));
}

Test(copy, stores_rows_at_their_positions) {
    float    x[8]   = {1, 2, 3, 4, 5, 6, 7, 8};
    float    d[12]  = {0};
    int32_t  pos[4] = {5, -1, 0, 2};
    RpOpArgs args   = {
          .dst = tensor(RP_F32, d, 2, 6, 1, 1),
          .src = {tensor(RP_F32, x, 2, 4, 1, 1), tensor(RP_F32, d, 2, 6, 1, 1), tensor(RP_I32, pos, 4, 1, 1, 1)}
    };
    OK(run_workers(rp_cpu_copy, &args, 3));
    cr_expect_arr_eq(d, ((float[]){5, 6, 0, 0, 7, 8, 0, 0, 0, 0, 1, 2}), sizeof d);
    args.copy.pos = (RpTensorView){0};
    OK(run_workers(rp_cpu_copy, &args, 2));
    cr_expect_arr_eq(d, ((float[]){1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 2}), sizeof d);
}

/* ggml's q8_0: d = max|x| / 127, stored as f16; q = round(x / d) with d before its conversion, ties away from
 * zero. */
Test(copy, quantises_stored_rows_to_q8_0_as_ggml_does) {
    enum { N = 96, T = 5, ROWS = 9 };
    float    *x = random_floats(N * T, 70);
    BlockQ8_0 d[ROWS * N / 32];
    int32_t   pos[T] = {8, 0, -1, 3, 4};
    for (int i = 0; i < 32; i++) x[i] *= 1e-3f;
    memset(x + 40 * 1 + N, 0, 4 * 32);
    for (int i = 0; i < 32; i++) x[4 * N + i] = 1e-42f * (float)i; /* the scale underflows to 0 */
    x[3 * N + 35] = NAN;
    memset(d, 0x55, sizeof d);
    RpOpArgs args = {
        .dst = tensor(RP_Q8_0, d, N, ROWS, 1, 1),
        .src = {tensor(RP_F32, x, N, T, 1, 1), tensor(RP_Q8_0, d, N, ROWS, 1, 1), tensor(RP_I32, pos, T, 1, 1, 1)}
    };
    run_variants(rp_cpu_copy, &args);
    for (int r = 0; r < ROWS; r++) {
        int t = T - 1;
        while (t >= 0 && pos[t] != r) t--;
        for (int b = 0; b < N / 32; b++) {
            const BlockQ8_0 *block = &d[r * N / 32 + b];
            const float     *from  = x + t * N + 32 * b;
            float            most  = 0.0f, scale;
            if (t < 0) {
                cr_expect(block->d == 0x5555 && block->qs[31] == 0x55, "row %d was written", r);
                continue;
            }
            rp_dequantize_row(RP_F16, &block->d, 1, &scale);
            if (t == 3 && b == 1) {
                cr_expect(isnan(scale), CASE(r, b));
                continue;
            }
            for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(from[i]));
            const double top = (double)most;
            cr_expect(fabs((double)scale - top / 127.0) <= 5e-4 * top / 127.0 + 3e-8, "scale %g of %g", (double)scale,
                      top);
            for (int i = 0; i < 32; i++) {
                const double q = top < 1e-36 ? 0.0 : round((double)from[i] / (top / 127.0));
                cr_expect(fabs((double)block->qs[i] - q) <=
                              (fabs(fabs((double)from[i] / (top / 127.0) - q) - 0.5) < 1e-4 ? 1.0 : 0.0),
                          "row %d, element %d is %d, not %g", r, 32 * b + i, block->qs[i], q);
            }
        }
    }
    free(x);
}

Test(copy, refuses_positions_outside_and_unsupported_types) {
    float    x[4]   = {0}, d[4];
    int32_t  pos[2] = {0, 2};
    RpOpArgs args   = {
          .dst = tensor(RP_F32, d, 2, 2, 1, 1),
          .src = {tensor(RP_F32, x, 2, 2, 1, 1), tensor(RP_F32, d, 2, 2, 1, 1), tensor(RP_I32, pos, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_copy, &args, 1), RP_E_ARG, "copy: position 2, the destination has 2 rows");
    args = (RpOpArgs){.dst = tensor(RP_I32, d, 2, 2, 1, 1), .src = {tensor(RP_F32, x, 2, 2, 1, 1)}};
    REFUSED(run_workers(rp_cpu_copy, &args, 1), RP_E_DTYPE,
            "copy: x and the result must be of float types, or f32 and q8_0: x f32 [2,2], result i32 [2,2]");
    args = (RpOpArgs){.dst = tensor(RP_Q8_0, d, 48, 1, 1, 1), .src = {tensor(RP_F32, x, 48, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_copy, &args, 1), RP_E_SHAPE,
            "copy: rows must be whole q8_0 blocks of 32: x f32 [48], result q8_0 [48]");
}

#ifdef RP_TEST_CUDA
/* A kernel on the device cannot report an error: it skips the rows that the CPU refuses. */
Test(copy, skips_positions_past_the_end_on_the_device) {
    float    x[6] = {1, 2, 3, 4, 5, 6}, d[4] = {0}, before[4] = {7, 7, 7, 7};
    int32_t  pos[3] = {1, 2, -1};
    RpOpArgs args   = {
          .dst = tensor(RP_F32, d, 2, 2, 1, 1),
          .src = {tensor(RP_F32, x, 2, 3, 1, 1), tensor(RP_F32, d, 2, 2, 1, 1), tensor(RP_I32, pos, 3, 1, 1, 1)}
    };
    OK(cuda_run(rp_cpu_copy, &args, before));
    cr_expect_arr_eq(d, ((float[]){7, 7, 1, 2}), sizeof d);
}
#endif
