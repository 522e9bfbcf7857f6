/* The op repeat_backward, the sum over what an operand of mul or add repeats to, against sums in double. */
#include "tests/support/kernel_test.h"

static void check(const int64_t dy_ne[RP_MAX_DIMS], const int64_t ne[RP_MAX_DIMS]) {
    RpOpParams p = {0};
    memcpy(p.repeat_backward.ne, ne, sizeof p.repeat_backward.ne);
    const size_t total = (size_t)(dy_ne[0] * dy_ne[1] * dy_ne[2] * dy_ne[3]),
                 n     = (size_t)(ne[0] * ne[1] * ne[2] * ne[3]);
    float         *dy = random_floats(total, 3), *y = malloc(n * sizeof *y);
    double        *want = calloc(n, sizeof *want);
    const RpOpArgs args = {.dst    = tensor(RP_F32, y, ne[0], ne[1], ne[2], ne[3]),
                           .src    = {tensor(RP_F32, dy, dy_ne[0], dy_ne[1], dy_ne[2], dy_ne[3])},
                           .params = &p};
    for (size_t i = 0; i < total; i++) {
        const int64_t at = (int64_t)i, i0 = at % dy_ne[0], i1 = at / dy_ne[0] % dy_ne[1],
                      i2 = at / (dy_ne[0] * dy_ne[1]) % dy_ne[2], i3 = at / (dy_ne[0] * dy_ne[1] * dy_ne[2]);
        want[i0 % ne[0] + ne[0] * (i1 % ne[1] + ne[1] * (i2 % ne[2] + ne[2] * (i3 % ne[3])))] += (double)dy[i];
    }
    run_variants(rp_cpu_repeat_backward, &args);
    expect_near(y, want, n, 4e-7);
    free(dy), free(y), free(want);
}

Test(repeat_backward, sums_what_was_repeated) {
    check(NE(33, 20, 1, 1), NE(33, 1, 1, 1)); /* a bias */
    check(NE(40, 3, 2, 2), NE(1, 3, 2, 1));   /* a factor of each row */
    check(NE(300, 7, 2, 1), NE(300, 7, 1, 1));
    check(NE(12, 6, 4, 2), NE(4, 3, 2, 1)); /* each dimension repeats */
    check(NE(100, 9, 1, 1), NE(1, 1, 1, 1));
    check(NE(31, 5, 1, 1), NE(31, 5, 1, 1));
}

Test(repeat_backward, refuses_a_shape_that_does_not_repeat) {
    float          a[12] = {0}, b[8];
    const RpOpArgs args  = {.dst = tensor(RP_F32, b, 4, 2, 1, 1), .src = {tensor(RP_F32, a, 4, 3, 1, 1)}};
    REFUSED(run_workers(rp_cpu_repeat_backward, &args, 1), RP_E_SHAPE,
            "repeat_backward: dimensions of the result must divide those of dy: dy f32 [4,3], result f32 [4,2]");
}
