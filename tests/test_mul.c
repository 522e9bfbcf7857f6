#include "tests/kernel_test.h"

enum { N0 = 24, N1 = 6, N2 = 4, N = N0 * N1 * N2 };

/* b of shape [m0, m1, m2] repeated over a; a is seen with its dimensions 1 and 2 swapped when `permuted`. */
static void check(int64_t m0, int64_t m1, int64_t m2, bool permuted) {
    float     *a = random_floats(N, 4), *b = random_floats((size_t)(m0 * m1 * m2), 5), y[N];
    double     want[N];
    TensorView va = packed(RP_F32, a, N0, N1, N2, 1);
    if (permuted)
        va = (TensorView){
            a, RP_F32, {N0, N2,          N1,     1    },
              {4,  4 * N0 * N1, 4 * N0, 4 * N}
        };
    OpArgs args = {
        .dst = rp_view_packed(RP_F32, va.ne, y), .src = {va, packed(RP_F32, b, m0, m1, m2, 1)}
    };
    for (int64_t k = 0; k < va.ne[2]; k++)
        for (int64_t j = 0; j < va.ne[1]; j++)
            for (int64_t i = 0; i < N0; i++)
                want[i + N0 * (j + va.ne[1] * k)] =
                    (double)a[permuted ? i + N0 * (k + N1 * j) : i + N0 * (j + N1 * k)] *
                    (double)b[i % m0 + m0 * (j % m1 + m1 * (k % m2))];
    run_everywhere(rp_cpu_mul, &args);
    expect_near(y, want, N, 1e-7);
    if (!permuted) {
        args.dst.data = a;
        run_everywhere(rp_cpu_mul, &args);
        cr_expect_arr_eq(a, y, sizeof y);
    }
    free(a), free(b);
}

Test(mul, of_equal_shapes) { check(N0, N1, N2, false); }
Test(mul, repeats_a_row) { check(N0, 1, 1, false); }
Test(mul, repeats_part_of_a_row) { check(8, 2, 1, false); }
Test(mul, repeats_one_number) { check(1, 1, 1, false); }
Test(mul, reads_a_permuted_source) { check(N0, N2, 1, true); }

Test(mul, works_on_itself) {
    float        x[3] = {1, -2, 3};
    const OpArgs args = {
        .dst = packed(RP_F32, x, 3, 1, 1, 1),
        .src = {packed(RP_F32, x, 3, 1, 1, 1), packed(RP_F32, x, 3, 1, 1, 1)}
    };
    OK(run_workers(rp_cpu_mul, &args, 1));
    cr_expect_float_eq(x[1], -2.0f * -2.0f, 0.0f);
}

Test(mul, refuses_what_does_not_repeat) {
    float        x[8];
    const OpArgs args = {
        .dst = packed(RP_F32, x, 8, 1, 1, 1),
        .src = {packed(RP_F32, x, 8, 1, 1, 1), packed(RP_F32, x, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul, &args, 1), RP_E_SHAPE, "mul: [3,1,1,1] does not repeat to [8,1,1,1]");
}
