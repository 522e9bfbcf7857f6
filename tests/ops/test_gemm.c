/* The op gemm, y = alpha a b + beta c, against sums in double. Sizes lie around the blocks of both kernels: 12, 32, 128
 * and 240 on the CPU, 16, 64 and 128 on a device. */
#include "tests/support/kernel_test.h"

/* A matrix [n0,n1,n2] of random floats; transposed: dimension 1 is the contiguous one. */
static RpTensorView matrix(int64_t n0, int64_t n1, int64_t n2, bool transposed, uint64_t seed) {
    RpTensorView v = tensor(RP_F32, random_floats((size_t)(n0 * n1 * n2), seed), n0, n1, n2, 1);
    if (transposed) v.nb[0] = (size_t)n1 * sizeof(float), v.nb[1] = sizeof(float);
    return v;
}

static double at(const RpTensorView *v, int64_t i0, int64_t i1, int64_t i2) {
    return (double)*(const float *)(const void *)((const char *)v->data + (size_t)i0 * v->nb[0] +
                                                  (size_t)i1 * v->nb[1] + (size_t)i2 * v->nb[2]);
}

/* Errors of at most 2^-20 of the sum of magnitudes. */
static void expect_product(const RpOpArgs *args, const RpTensorView *c) {
    const RpTensorView *a = &args->gemm.a, *b = &args->gemm.b, *y = &args->dst;
    const double        alpha = (double)args->params->gemm.alpha, beta = (double)args->params->gemm.beta;
    for (int64_t s = 0; s < y->ne[2]; s++)
        for (int64_t i = 0; i < y->ne[1]; i++)
            for (int64_t j = 0; j < y->ne[0]; j++) {
                double sum = 0.0, size = 0.0;
                for (int64_t k = 0; k < a->ne[0] && alpha != 0.0; k++) {
                    const double term = at(a, k, i, s) * at(b, j, k, s);
                    sum += term, size += fabs(term);
                }
                const double old  = beta != 0.0 ? beta * at(c, j, i, s) : 0.0;
                const double want = alpha * sum + old, most = (fabs(alpha) * size + fabs(old)) * 0x1p-20;
                cr_assert(fabs(at(y, j, i, s) - want) <= most, "[%lld,%lld,%lld] is %.9g, not %.9g", (long long)j,
                          (long long)i, (long long)s, at(y, j, i, s), want);
            }
}

typedef struct Case {
    int64_t m, n, k, batch;
    bool    a_transposed, b_transposed;
    float   alpha, beta;
} Case;

static void check(Case t) {
    const RpOpParams p = {
        .gemm = {t.alpha, t.beta}
    };
    RpTensorView a = matrix(t.k, t.m, t.batch, t.a_transposed, 1), b = matrix(t.n, t.k, t.batch, t.b_transposed, 2),
                 c = matrix(t.n, t.m, t.batch, false, 3), y = matrix(t.n, t.m, t.batch, false, 4);
    RpOpArgs args = {
        .dst    = y,
        .src    = {a, b, c},
        .params = &p,
    };
    run_variants(rp_cpu_gemm, &args);
    expect_product(&args, &c);
    free(a.data), free(b.data), free(c.data), free(y.data);
}

Test(gemm, multiplies_matrices_of_any_size) {
    check((Case){1, 1, 1, 1, false, false, 1, 0});
    check((Case){13, 33, 129, 1, false, false, 1, 0});
    check((Case){241, 31, 17, 1, false, false, 1, 0});
    check((Case){5, 200, 300, 1, false, false, 1, 0});
    check((Case){70, 130, 40, 1, false, false, 1, 0});
    check((Case){3, 320, 150, 1, false, false, 1, 0}); /* few rows: b is not packed */
}

Test(gemm, multiplies_one_row) {
    check((Case){1, 2100, 301, 1, false, false, 1, 0}); /* columns in two steps; terms that are no multiple of 4 */
    check((Case){1, 77, 131, 3, true, false, 0.5f, 2});
    check((Case){1, 16, 5, 1, false, false, 0, 3});
}

Test(gemm, multiplies_transposed_matrices) {
    for (int i = 0; i < 4; i++) check((Case){29, 67, 45, 1, i % 2 != 0, i / 2 != 0, 1, 0});
}

Test(gemm, scales_and_adds) {
    check((Case){14, 35, 131, 1, false, false, -0.75f, 0.5f});
    check((Case){14, 35, 20, 1, false, true, 2.0f, 1.0f});
    check((Case){14, 35, 20, 1, false, false, 0.0f, 3.0f});
}

Test(gemm, multiplies_a_batch) { check((Case){17, 21, 33, 3, false, true, 1, 1}); }

/* Stride 0: all of the batch has the same b. */
Test(gemm, one_matrix_serves_a_batch) {
    const RpOpParams p = {
        .gemm = {1.0f, 0.0f}
    };
    RpOpArgs args = {
        .dst    = matrix(9, 7, 4, false, 1),
        .gemm   = {.a = matrix(20, 7, 4, false, 2), .b = matrix(9, 20, 4, false, 3)},
        .params = &p
    };
    args.gemm.b.nb[2] = 0;
    run_variants(rp_cpu_gemm, &args);
    expect_product(&args, &args.gemm.c);
    free(args.gemm.a.data), free(args.gemm.b.data), free(args.dst.data);
}

Test(gemm, adds_to_its_own_memory) {
    const RpOpParams p = {
        .gemm = {1.0f, 1.0f}
    };
    RpTensorView a = matrix(40, 15, 1, false, 1), b = matrix(37, 40, 1, false, 2), y = matrix(37, 15, 1, false, 3),
                 before = matrix(37, 15, 1, false, 3);
    const RpOpArgs args = {
        .dst    = y,
        .src    = {a, b, y},
        .params = &p,
    };
    run_variants(rp_cpu_gemm, &args);
    expect_product(&args, &before);
    free(a.data), free(b.data), free(y.data), free(before.data);
}

/* beta 0 does not read c: NaN stays out. */
Test(gemm, beta_0_ignores_what_was_there) {
    float            one[1] = {2.0f}, y[1] = {NAN};
    const RpOpParams p = {
        .gemm = {1.0f, 0.0f}
    };
    const RpTensorView v = tensor(RP_F32, one, 1, 1, 1, 1), out = tensor(RP_F32, y, 1, 1, 1, 1);
    const RpOpArgs     args = {
            .dst    = out,
            .src    = {v, v, out},
            .params = &p,
    };
    OK(run_workers(rp_cpu_gemm, &args, 1));
    cr_expect_eq(y[0], 4.0f);
}

Test(gemm, refuses_what_does_not_fit) {
    float            x[64] = {0};
    const RpOpParams p     = {
            .gemm = {1.0f, 0.0f}
    };
    RpOpArgs args = {
        .dst    = tensor(RP_F32, x, 3, 4, 1, 1),
        .gemm   = {.a = tensor(RP_F32, x, 5, 4, 1, 1), .b = tensor(RP_F32, x, 3, 6, 1, 1)},
        .params = &p
    };
    REFUSED(run_workers(rp_cpu_gemm, &args, 1), RP_E_SHAPE,
            "gemm: b must have a row for each element of a row of a: a f32 [5,4], b f32 [3,6], result f32 [3,4]");
    args.gemm.b = tensor(RP_F16, x, 3, 5, 1, 1);
    REFUSED(run_workers(rp_cpu_gemm, &args, 1), RP_E_DTYPE,
            "gemm: a and b must be f32 with adjacent rows or columns: a f32 [5,4], b f16 [3,5], result f32 "
            "[3,4]");
}
