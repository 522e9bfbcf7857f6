/* The op mul, y = a * b with b repeated, against the product in double. */
#include "tests/support/repeat_test.h"

static double reference(double a, double b) { return a * b; }

static void check(int64_t m0, int64_t m1, int64_t m2, bool permuted) {
    check_repeat(rp_cpu_mul, reference, m0, m1, m2, permuted);
}

Test(mul, multiplies_tensors_of_equal_shapes) { check(N0, N1, N2, false); }
Test(mul, repeats_a_row) { check(N0, 1, 1, false); }
Test(mul, repeats_part_of_a_row) { check(8, 2, 1, false); }
Test(mul, repeats_one_number) { check(1, 1, 1, false); }
Test(mul, reads_a_permuted_source) { check(N0, N2, 1, true); }

Test(mul, multiplies_a_tensor_by_itself_in_place) {
    float          x[3] = {1, -2, 3};
    const RpOpArgs args = {
        .dst = tensor(RP_F32, x, 3, 1, 1, 1), .src = {tensor(RP_F32, x, 3, 1, 1, 1), tensor(RP_F32, x, 3, 1, 1, 1)}
    };
    OK(run_workers(rp_cpu_mul, &args, 1));
    cr_expect_float_eq(x[1], -2.0f * -2.0f, 0.0f);
}

Test(mul, refuses_a_source_that_does_not_repeat) {
    float          x[8];
    const RpOpArgs args = {
        .dst = tensor(RP_F32, x, 8, 1, 1, 1), .src = {tensor(RP_F32, x, 8, 1, 1, 1), tensor(RP_F32, x, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul, &args, 1), RP_E_SHAPE,
            "mul: b must repeat to the shape of a: a f32 [8], b f32 [3], result f32 [8]");
}
