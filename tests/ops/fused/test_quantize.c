/* The op quantize, f32 to q8_act, against the definition: per 32 elements scale = max|x| / 127 and q = round(x
 * / scale), ties to even; per 16 elements sum = scale * (sum of q).
 *     row of N elements:  q[N] (int8) | scale[N/32] (f32) | sum[N/16] (f32) */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

enum { N = 96, ROWS = 3 };

Test(quantize, quantises_each_block_of_32_with_a_separate_scale) {
    float       *x     = random_floats(N * ROWS, 10);
    const size_t bytes = ROWS * rp_row_bytes(RP_Q8_ACT, N);
    char        *y     = malloc(bytes);
    for (int i = 0; i < 32; i++) x[i] = 0.0f, x[32 + i] *= 1000.0f, x[64 + i] *= 1e-6f;
    x[N] = 127.0f, x[N + 1] = 2.5f, x[N + 2] = 3.5f, x[N + 3] = -2.5f; /* scale 1: ties round to even */
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, N, ROWS, 1, 1), .src = {tensor(RP_F32, x, N, ROWS, 1, 1)}};
    run_variants(rp_cpu_quantize, &args);
    for (int r = 0; r < ROWS; r++) {
        const int8_t *q     = (const int8_t *)y + (size_t)r * rp_row_bytes(RP_Q8_ACT, N);
        const float  *scale = (const float *)(const void *)(q + N), *sum = scale + N / 32;
        for (int b = 0; b < N / 32; b++) {
            float most = 0.0f;
            for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[r * N + 32 * b + i]));
            const double top = (double)most;
            cr_expect(fabs((double)scale[b] - top / 127.0) <= 1e-7 * top, CASE(r, b));
            for (int i = 0; i < 32; i++)
                cr_assert(fabs((double)q[32 * b + i] * (double)scale[b] - (double)x[r * N + 32 * b + i]) <=
                              0.5001 * top / 127.0,
                          CASE(r, b, i));
        }
        for (int g = 0; g < N / 16; g++) {
            int total = 0;
            for (int i = 0; i < 16; i++) total += q[16 * g + i];
            cr_expect(fabs((double)sum[g] - total * (double)scale[g / 2]) <= 1e-6 * fabs((double)sum[g]), CASE(r, g));
        }
    }
    const int8_t *second = (const int8_t *)y + rp_row_bytes(RP_Q8_ACT, N);
    cr_expect(second[0] == 127 && second[1] == 2 && second[2] == 4 && second[3] == -2);
    free(x), free(y);
}

Test(quantize, propagates_nan_and_infinity) {
    float          x[64] = {0};
    char           y[88];
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, 64, 1, 1, 1), .src = {tensor(RP_F32, x, 64, 1, 1, 1)}};
    for (int k = 0; k < 2; k++) {
        x[40] = k == 0 ? NAN : -INFINITY;
        run_variants(rp_cpu_quantize, &args);
        float scale[2];
        memcpy(scale, y + 64, sizeof scale);
        cr_expect(scale[0] == 0.0f && isnan(scale[1]), CASE(k));
    }
}

/* 127 / max|x| would be infinite: its products are infinity, and NaN for zeros, which are no integers. */
Test(quantize, gives_tiny_blocks_zero_quants) {
    float x[32] = {[0] = 1e-37f, [5] = -3e-37f, [31] = 1e-45f};
    char  y[44];
    memset(y, 1, sizeof y);
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, 32, 1, 1, 1), .src = {tensor(RP_F32, x, 32, 1, 1, 1)}};
    run_variants(rp_cpu_quantize, &args);
    for (int i = 0; i < 32; i++) cr_expect_eq(y[i], 0, "element %d", i);
    float scale, sum[2];
    memcpy(&scale, y + 32, sizeof scale);
    memcpy(sum, y + 36, sizeof sum);
    cr_expect(scale >= 0.0f && scale < 1e-38f && sum[0] == 0.0f && sum[1] == 0.0f);
    x[5] = 1.5e-36f; /* scale just above the limit */
    run_variants(rp_cpu_quantize, &args);
    cr_expect(y[5] == 127 && y[0] == 8, "%d %d", y[5], y[0]);
}

Test(quantize, refuses_half_a_block) {
    float          x[48] = {0};
    char           y[88];
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, 64, 1, 1, 1), .src = {tensor(RP_F32, x, 48, 1, 1, 1)}};
    REFUSED(run_workers(rp_cpu_quantize, &args, 1), RP_E_SHAPE,
            "quantize: rows of x must be whole blocks of 32: x f32 [48], result q8_act [64]");
}
