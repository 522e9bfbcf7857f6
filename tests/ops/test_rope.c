/* The op rope against the formulas of the papers in double (see theta), and against cos and sin of the C library. */
#include "tests/support/kernel_test.h"

enum { N = 20, H = 3, T = 4 };

static const int32_t positions[T] = {0, 1, 1000, -1};

/* Angle by which the pair is rotated at position pos, and the factor on the result. Su et al. 2021
 * (arXiv:2104.09864) eq. 34; YaRN: Peng et al. 2023 (arXiv:2309.00071) eqs. 19-23. */
static double theta(const RpRopeParams *p, const float *factors, int pair, int32_t pos, double *magnitude) {
    const double factor = factors != NULL ? (double)factors[pair] : 1.0;
    const double extra =
        p->freq_base == 0.0f ? pos * factor : pos * pow((double)p->freq_base, -2.0 * pair / p->n_dims) / factor;
    const double inter = extra * (double)p->freq_scale, pi = acos(-1.0);
    *magnitude = (double)p->attn_factor;
    if (p->ext_factor == 0.0f) return inter;
    double at[2];
    for (int k = 0; k < 2; k++) /* the pair that makes beta full turns over the training context */
        at[k] = p->n_dims * log(p->n_ctx_orig / (2.0 * pi * (double)(k == 0 ? p->beta_fast : p->beta_slow))) /
                (2.0 * log((double)p->freq_base));
    const double low = fmax(floor(at[0]), 0.0), high = fmin(ceil(at[1]), p->n_dims - 1.0);
    const double ramp = fmin(fmax((pair - low) / fmax(high - low, 0.001), 0.0), 1.0),
                 mix  = (1.0 - ramp) * (double)p->ext_factor;
    *magnitude *= 1.0 + 0.1 * log(1.0 / (double)p->freq_scale);
    return inter * (1.0 - mix) + extra * mix;
}

static void check(RpRopeParams rope, bool with_factors) {
    float           *x = random_floats(N * H * T, 11), y[N * H * T], factors[N / 2];
    double           want[N * H * T];
    int32_t          pos[T];
    const RpOpParams p = {.rope = rope};
    for (int i = 0; i < N / 2; i++) factors[i] = 1.0f + (float)i;
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, N, H, T, 1),
        .src    = {tensor(RP_F32, x, N, H, T, 1), tensor(RP_I32, memcpy(pos, positions, sizeof pos), T, 1, 1, 1)},
        .params = &p
    };
    if (with_factors) args.rope.factors = tensor(RP_F32, factors, rope.n_dims / 2, 1, 1, 1);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++) {
            const float *in  = x + N * (h + H * t);
            double      *out = want + N * (h + H * t), magnitude;
            for (int i = 0; i < N; i++) out[i] = (double)in[i];
            for (int i = 0; i < rope.n_dims / 2; i++) {
                const int a = rope.mode == RP_ROPE_NORM ? 2 * i : i,
                          b = rope.mode == RP_ROPE_NORM ? 2 * i + 1 : i + rope.n_dims / 2;
                const double angle =
                    theta(&rope, with_factors ? factors : NULL, i, pos[t] < 0 ? 0 : pos[t], &magnitude);
                out[a] = magnitude * ((double)in[a] * cos(angle) - (double)in[b] * sin(angle));
                out[b] = magnitude * ((double)in[a] * sin(angle) + (double)in[b] * cos(angle));
            }
        }
    run_variants(rp_cpu_rope, &args);
    expect_near(y, want, N * H * T, 1e-6);
    args.dst.data = x;
    run_variants(rp_cpu_rope, &args);
    cr_expect_arr_eq(x, y, sizeof y);
    free(x);
}

#define PLAIN .freq_base = 10000.0f, .freq_scale = 1.0f, .attn_factor = 1.0f

Test(rope, rotates_neighbouring_pairs) { check((RpRopeParams){.mode = RP_ROPE_NORM, .n_dims = N, PLAIN}, false); }
Test(rope, rotates_pairs_across_the_halves) { check((RpRopeParams){.mode = RP_ROPE_NEOX, .n_dims = N, PLAIN}, false); }
Test(rope, leaves_the_remaining_dimensions_unchanged) {
    check((RpRopeParams){.mode = RP_ROPE_NORM, .n_dims = 8, PLAIN}, false);
    check((RpRopeParams){.mode = RP_ROPE_NEOX, .n_dims = 8, PLAIN}, false);
}
Test(rope, divides_frequencies_by_factors) { check((RpRopeParams){.mode = RP_ROPE_NORM, .n_dims = N, PLAIN}, true); }
Test(rope, takes_factors_as_frequencies) {
    check((RpRopeParams){.mode = RP_ROPE_NEOX, .n_dims = N, .freq_scale = 1.0f, .attn_factor = 1.0f}, true);
    check((RpRopeParams){.mode = RP_ROPE_NORM, .n_dims = 8, .freq_scale = -1.0f, .attn_factor = 1.0f}, true);
}
Test(rope, scales_frequencies_linearly) {
    check(
        (RpRopeParams){.mode = RP_ROPE_NEOX, .n_dims = N, .freq_base = 5e5f, .freq_scale = 0.25f, .attn_factor = 1.0f},
        false);
}
Test(rope, follows_yarn) {
    const RpRopeParams yarn = {.mode        = RP_ROPE_NEOX,
                               .n_dims      = N,
                               .freq_base   = 10000.0f,
                               .freq_scale  = 0.25f,
                               .ext_factor  = 1.0f,
                               .attn_factor = 1.0f,
                               .beta_fast   = 32.0f,
                               .beta_slow   = 1.0f,
                               .n_ctx_orig  = 2048};
    check(yarn, false);
    check(yarn, true);
}

/* Rows of ones in the first half and zeros in the second: results are cosines and sines, of small and very
 * large angles. */
Test(rope, rotates_by_accurate_angles) {
    enum { DIMS = 80, MANY = 300 };
    static float     x[DIMS * MANY], y[DIMS * MANY];
    static int32_t   at[MANY];
    const RpOpParams p = {
        .rope = {.mode = RP_ROPE_NEOX, .n_dims = DIMS, PLAIN}
    };
    for (int t = 0; t < MANY; t++) {
        at[t] = t < 200 ? t : t < 231 ? (int32_t)(1u << (t - 200)) : INT32_MAX - t; /* the largest positions */
        for (int i = 0; i < DIMS / 2; i++) x[DIMS * t + i] = 1.0f;
    }
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, DIMS, 1, MANY, 1),
        .src    = {tensor(RP_F32, x, DIMS, 1, MANY, 1), tensor(RP_I32, at, MANY, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_rope, &args);
    for (int t = 0; t < MANY; t++)
        for (int i = 0; i < DIMS / 2; i++) {
            const double angle = at[t] * pow(10000.0, -2.0 * i / DIMS);
            const double allowed =
                6.1e-8 + 4e-15 * angle; /* half an ulp of 1 in f32; frequencies are successive products */
            cr_assert(fabs((double)y[DIMS * t + i] - cos(angle)) <= allowed, "cos of %g", angle);
            cr_assert(fabs((double)y[DIMS * t + DIMS / 2 + i] - sin(angle)) <= allowed, "sin of %g", angle);
        }
}

Test(rope, refuses_more_dimensions_than_a_row_has) {
    float            x[8]   = {0};
    int32_t          pos[1] = {0};
    const RpOpParams p      = {
             .rope = {.n_dims = 10, PLAIN}
    };
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, x, 8, 1, 1, 1),
        .src    = {tensor(RP_F32, x, 8, 1, 1, 1), tensor(RP_I32, pos, 1, 1, 1, 1)},
        .params = &p
    };
    REFUSED(run_workers(rp_cpu_rope, &args, 1), RP_E_SHAPE,
            "rope: n_dims = 10 must be even, from 2 to the length of a row and to 1024: x f32 [8], pos i32 "
            "[1], result f32 [8]");
}
