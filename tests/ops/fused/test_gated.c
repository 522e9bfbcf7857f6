/* The fused op gated, y = norm(x) * silu(z) or x * sigmoid(z), against the formula in double. */
#include "tests/support/kernel_test.h"

/* wide: z is a view of rows that are twice as long; else it is contiguous, in another shape. */
static void check(int64_t n, int64_t heads, int64_t tokens, bool norm, bool silu, bool wide) {
    const size_t     total = (size_t)(n * heads * tokens);
    float           *x = random_floats(total, 1), *z = random_floats(2 * total, 2), *w = random_floats((size_t)n, 3);
    float           *y    = malloc(total * sizeof *y);
    double          *want = malloc(total * sizeof *want);
    const RpOpParams p    = {
           .gated = {.norm = norm, .silu = silu, .eps = norm ? 1e-5f : 0.0f}
    };
    for (int64_t r = 0; r < heads * tokens; r++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += (double)x[r * n + i] * (double)x[r * n + i];
        const double scale = norm ? 1.0 / sqrt(sum / (double)n + 1e-5) : 1.0;
        for (int64_t i = 0; i < n; i++) {
            const double gate = (double)z[wide ? 2 * r * n + n + i : r * n + i];
            want[r * n + i] =
                (silu ? gate : 1.0) / (1.0 + exp(-gate)) * (double)x[r * n + i] * scale * (norm ? (double)w[i] : 1.0);
        }
    }
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, n, heads, tokens, 1),
        .src    = {tensor(RP_F32, x, n, heads, tokens, 1), tensor(RP_F32, z, n * heads, tokens, 1, 1)},
        .params = &p
    };
    if (wide) {
        args.gated.z = tensor(RP_F32, z + n, n, heads, tokens, 1);
        for (int i = 1; i < RP_MAX_DIMS; i++) args.gated.z.nb[i] *= 2;
    }
    if (norm) args.gated.w = tensor(RP_F32, w, n, 1, 1, 1);
    run_variants(rp_cpu_gated, &args);
    expect_near(y, want, total, 1e-6);
    free(x), free(z), free(w), free(y), free(want);
}

Test(gated, multiplies_by_the_open_gate) {
    check(128, 3, 2, true, true, false);
    check(16, 4, 1, true, true, false);
    check(37, 2, 3, false, false, true);
    check(256, 2, 1, false, false, false);
    check(300, 1, 2, true, false, true);
}

Test(gated, refuses_what_does_not_fit) {
    float            x[8], z[8], y[8];
    const RpOpParams p    = {.gated = {.silu = 1}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, y, 4, 2, 1, 1),
                .src    = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, z, 4, 1, 1, 1)},
                .params = &p
    };
    REFUSED(run_workers(rp_cpu_gated, &args, 1), RP_E_SHAPE,
            "gated: z must have the elements of x: x f32 [4,2], z f32 [4], result f32 [4,2]");
}
