/* The op soft_max against the formula in double: y[i] = e[i] / (sum of e), e[i] = exp(scale x[i] + mask[i]), for
 * positions i from pos - window + 1 to pos; sinks add exp(sink) to the sum. Layout: x [N, T tokens, H heads]. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

enum { N = 40, T = 5, H = 3 };

/* pos NULL: whole rows. */
static void check(bool masked, const int32_t *pos, int32_t window) {
    float *x = random_floats(N * T * H, 8), *mask = random_floats(N * T, 9), *y = malloc(N * T * H * sizeof *y);
    const RpOpParams p = {
        .soft_max = {.scale = 3.0f, .window = window}
    };
    RpOpArgs args = {.dst = tensor(RP_F32, y, N, T, H, 1), .src = {tensor(RP_F32, x, N, T, H, 1)}, .params = &p};
    int32_t  at[T];
    mask[3] = -INFINITY;
    if (masked) args.soft_max.mask = tensor(RP_F32, mask, N, T, 1, 1);
    if (pos != NULL) args.soft_max.pos = tensor(RP_I32, memcpy(at, pos, sizeof at), T, 1, 1, 1);
    run_variants(rp_cpu_soft_max, &args);
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++) {
            const float *in = x + N * (t + T * h), *out = y + N * (t + T * h);
            const int    end = pos != NULL ? pos[t] + 1 : N, from = window > 0 && end > window ? end - window : 0;
            double       sum = 0.0, e[N];
            for (int i = from; i < end; i++)
                sum += e[i] = exp(3.0 * (double)in[i] + (masked ? (double)mask[i + N * t] : 0.0));
            for (int i = 0; i < end; i++) {
                const double want = i < from ? 0.0 : e[i] / sum;
                cr_assert(fabs((double)out[i] - want) <= 1e-6 * want + 1e-12, "%d: %g, not %g", i, (double)out[i],
                          want);
            }
        }
    free(x), free(mask), free(y);
}

static const int32_t positions[T] = {0, 5, 39, 20, -1};

Test(soft_max, computes_the_softmax) { check(false, NULL, 0); }
Test(soft_max, adds_the_mask) { check(true, NULL, 0); }
Test(soft_max, ends_each_row_at_its_position) { check(false, positions, 0), check(true, positions, 0); }
Test(soft_max, starts_each_row_at_its_window) {
    check(false, positions, 8), check(false, positions, 1), check(true, positions, 100);
}

/* With sinks, every probability shrinks by sum / (sum + exp(sink)). */
Test(soft_max, adds_sinks_to_the_denominator) {
    float  *x = random_floats(N * T * H, 8), *y = malloc(N * T * H * sizeof *y), *z = malloc(N * T * H * sizeof *z);
    float   sinks[H] = {-1.0f, 5.0f, 0.5f};
    int32_t at[T];
    const RpOpParams p    = {.soft_max = {.scale = 3.0f}};
    RpOpArgs         args = {
                .dst = tensor(RP_F32, y, N, T, H, 1),
                .src = {tensor(RP_F32, x, N, T, H, 1), {0}, tensor(RP_I32, memcpy(at, positions, sizeof at), T, 1, 1, 1)},
                .params = &p
    };
    run_variants(rp_cpu_soft_max, &args);
    args.dst            = tensor(RP_F32, z, N, T, H, 1);
    args.soft_max.sinks = tensor(RP_F32, sinks, H, 1, 1, 1);
    run_variants(rp_cpu_soft_max, &args);
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++) {
            double sum = 0.0;
            for (int i = 0; i <= positions[t]; i++) sum += exp(3.0 * (double)x[i + N * (t + T * h)]);
            const double left = sum / (sum + exp((double)sinks[h]));
            for (int i = 0; i <= positions[t]; i++) {
                const int at_i = i + N * (t + T * h);
                cr_assert(fabs((double)z[at_i] - left * (double)y[at_i]) <= 1e-6 * left * (double)y[at_i] + 1e-30,
                          CASE(h, t, i));
            }
        }
    args.soft_max.sinks = tensor(RP_F32, sinks, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_soft_max, &args, 1), RP_E_SHAPE,
            "soft_max: sinks must have one for each head of x, its dimension 2: x f32 [40,5,3], pos i32 [5], "
            "sinks f32 [2], result f32 [40,5,3]");
    free(x), free(y), free(z);
}

Test(soft_max, reads_f16_masks_and_gives_zeros_where_all_is_masked) {
    uint16_t         mask[4] = {0xfc00, 0xfc00, 0xfc00, 0x3c00}; /* -inf x3, 1 */
    float            x[4]    = {1, 2, 3, 4}, y[4];
    const RpOpParams p       = {.soft_max = {.scale = 1.0f}};
    const RpOpArgs   args    = {
             .dst    = tensor(RP_F32, y, 2, 2, 1, 1),
             .src    = {tensor(RP_F32, x, 2, 2, 1, 1), tensor(RP_F16, mask, 2, 2, 1, 1)},
             .params = &p
    };
    OK(run_workers(rp_cpu_soft_max, &args, 1));
    cr_expect(y[0] == 0.0f && y[1] == 0.0f && y[2] == 0.0f && y[3] == 1.0f);
}

Test(soft_max, propagates_nan) {
    float            x[3] = {1, NAN, 2}, y[3];
    const RpOpParams p    = {.soft_max = {.scale = 1.0f}};
    const RpOpArgs args = {.dst = tensor(RP_F32, y, 3, 1, 1, 1), .src = {tensor(RP_F32, x, 3, 1, 1, 1)}, .params = &p};
    OK(run_workers(rp_cpu_soft_max, &args, 1));
    cr_expect(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
}

Test(soft_max, refuses_a_mask_of_another_shape) {
    float          x[8] = {0}, mask[3];
    const RpOpArgs args = {
        .dst = tensor(RP_F32, x, 4, 2, 1, 1), .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, mask, 3, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_soft_max, &args, 1), RP_E_SHAPE,
            "soft_max: dimensions 0 and 1 of mask must be those of x: x f32 [4,2], mask f32 [3], result f32 "
            "[4,2]");
}
