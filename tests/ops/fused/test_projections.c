/* The fused op projections: column -> norm -> quantise -> up to four products, one behind the other. Bit for bit
 * against the single ops (fused.h), and against the formula in double. */
#include "tests/support/fused.h"

#include "ops/fused/projections.h"

/* Float weights read the column before its quantisation. */
static void unfused(Runner *run, const RpOpArgs *as) {
    float *y = as->dst.data;
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        const RpTensorView *w = rp_projection(as, i);
        if (w == NULL) continue;
        RpColumnParams c = as->params->projections.column;
        if (w->dtype == RP_F32 || w->dtype == RP_F16 || w->dtype == RP_BF16) c.round = 0;
        const RpTensorView column = unfused_column(run, as->projections.x, as->projections.norm, &c);
        run_op(run, rp_cpu_mul_mat, floats(y, w->ne[1], 1), (RpOpParams){0}, *w, column);
        y += w->ne[1];
        free(column.data);
    }
}

typedef struct Case {
    RpDtype type, types[4]; /* types: of each matrix; type: of those whose type is 0 (f32) */
    int64_t n, rows[4];     /* 0: no matrix */
    bool    norm, weight, quantize, quantized;
} Case;

static void check(Case c) {
    static const int source[] = {RP_SOURCE(projections, wa), RP_SOURCE(projections, wb), RP_SOURCE(projections, wc),
                                 RP_SOURCE(projections, wd)};
    const int64_t    all      = c.rows[0] + c.rows[1] + c.rows[2] + c.rows[3];
    float *x = random_floats((size_t)c.n, 41), *norm = random_floats((size_t)c.n, 42), *y = malloc((size_t)all * 4);
    char  *w[4] = {NULL}, *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL;
    const RpOpParams p    = {.projections = {.column = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize}}};
    RpOpArgs         args = {.dst = floats(y, all, 1), .params = &p};
    for (int i = 0; i < 4; i++) {
        const RpDtype type = c.types[i] != RP_F32 ? c.types[i] : c.type;
        if (c.rows[i] == 0) continue;
        w[i]                = random_weights(type, c.n, c.rows[i], 50 + (uint64_t)i);
        args.src[source[i]] = VIEW(type, w[i], c.n, c.rows[i], 1, 1);
    }
    args.projections.x = c.quantized ? VIEW(RP_Q8_ACT, column, c.n, 1, 1, 1) : floats(x, c.n, 1);
    if (c.weight) args.projections.norm = floats(norm, c.n, 1);
    check_fused(rp_cpu_projections, &args, unfused);
    for (int i = 0; i < 4; i++) free(w[i]);
    free(x), free(norm), free(y), free(column);
}

DEFINE_FOR_ALL_TYPES(3, 77, 320);

Test(projections, are_products_one_behind_the_other) {
    for_all_types((Case){
        .rows = {21, 1, 40, 3}
    });
    for_all_types((Case){
        .rows = {2, 35},
          .quantized = true
    });
}
Test(projections, normalise_and_quantise_their_column) {
    for_all_types((Case){
        .rows = {21, 6, 3},
          .norm = true, .weight = true, .quantize = true
    });
    for_all_types((Case){
        .rows = {33, 20, 4, 5},
          .norm = true
    });
    for_all_types((Case){
        .rows = {5, 5},
          .quantize = true
    });
}

/* Float weights read the column as it is, quantised ones read it quantised; types in any order. */
Test(projections, take_weights_of_several_types) {
    Case c = {
        .type = RP_Q4_K, .n = 512, .rows = {40, 21, 3, 5},
                .norm = true, .weight = true, .quantize = true
    };
    check(c);
    c.types[2] = RP_BF16, c.types[3] = RP_BF16, check(c);
    c.types[1] = RP_Q6_K, c.types[3] = RP_Q8_0, check(c);
    c.types[0] = RP_F16, check(c);
    c.quantize = false, check(c);
    check((Case){
        .type = RP_F32, .n = 77, .types = {0, RP_F16, 0, RP_F16},
                .rows = {9, 8,      7, 6     },
                .norm = true
    });
}

/* On the device: blocks that take several row tiles, columns staged in slices, rows that warps share. */
Test(projections, take_any_shape) {
    check((Case){
        .type = RP_Q4_1, .n = 32, .rows = {33001, 17, 9000, 1},
                .norm = true, .quantize = true
    });
    check((Case){
        .type = RP_F32, .n = 9, .rows = {5, 33001},
                .norm = true, .weight = true
    });
    check((Case){
        .type = RP_Q8_0, .n = 33024, .rows = {3, 2, 1},
                .norm = true, .weight = true, .quantize = true
    });
    check((Case){
        .type = RP_Q4_0, .n = 4096, .rows = {16, 512},
                .quantized = true
    });
}

Test(projections, compute_the_documented_formula) {
    enum { N = 24, A = 5, B = 2, C = 1, D = 4, ALL = A + B + C + D };
    float           *x = random_floats(N, 60), *norm = random_floats(N, 61), *w = random_floats(N * ALL, 62), y[ALL];
    double           squares = 0.0, want[ALL];
    const RpOpParams p       = {.projections = {.column = {.norm = 1, .eps = 1e-5f}}};
    const RpOpArgs   args    = {
             .dst    = floats(y, ALL, 1),
             .src    = {floats(w, N, A), floats(w + N * A, N, B), floats(x, N, 1), floats(norm, N, 1),
                        floats(w + N * (A + B), N, C), floats(w + N * (A + B + C), N, D)},
             .params = &p
    };
    run_variants(rp_cpu_projections, &args);
    for (int k = 0; k < N; k++) squares += (double)x[k] * (double)x[k];
    for (int m = 0; m < ALL; m++) {
        want[m] = 0.0;
        for (int k = 0; k < N; k++)
            want[m] += (double)w[N * m + k] * (double)x[k] * (double)norm[k] / sqrt(squares / N + 1e-5);
    }
    expect_near(y, want, ALL, 1e-5);
    free(x), free(norm), free(w);
}

Test(projections, refuse_shapes_and_types_that_do_not_fit) {
    static float     w[256], x[64], y[64];
    const RpOpParams p    = {0};
    RpOpArgs         args = {
                .dst = floats(y, 6, 1), .src = {floats(w, 8, 4), floats(w, 6, 2), floats(x, 8, 1)},
                       .params = &p
    };
    REFUSED(run_workers(rp_cpu_projections, &args, 1), RP_E_SHAPE,
            "projections: rows of the weights and the column x must have one length: wa f32 [8,4], wb f32 [6,2], x f32 "
            "[8], result f32 [6]");
    args.projections.wb = floats(w, 8, 3);
    REFUSED(run_workers(rp_cpu_projections, &args, 1), RP_E_SHAPE,
            "projections: the result must be f32 [7]: wa f32 [8,4], wb f32 [8,3], x f32 [8], result f32 [6]");
    args.projections.x = VIEW(RP_Q8_ACT, x, 32, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_projections, &args, 1), RP_E_DTYPE,
            "projections: the weights must be quantised where the column x is: wa f32 [8,4], wb f32 [8,3], x q8_act "
            "[32], result f32 [6]");
}
