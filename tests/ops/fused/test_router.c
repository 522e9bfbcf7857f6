/* The fused op router: column -> norm -> quantise -> product -> softmax or sigmoid -> top_k -> route.
 * Bit for bit against the single ops (fused.h), and against the formula in double.
 *     result:  ids[k] (i32) | weights[k] (f32) | with open: gate (f32), zeros[2k - 1]
 *              | with quantize: column q8_act, zeros up to whole rows of k words */
#include "tests/support/fused.h"

/* Sources: 0 weights, 1 column, 2 norm weight, 3 bias, 4 selection bias (for top_k only, not for the weights);
 * 2 to 4 may be absent. */
static void unfused(Runner *run, const RpOpArgs *as) {
    const RpRouterParams *p = &as->params->router;
    const int64_t         n = as->router.w.ne[1], k = p->top_k.k;
    const RpTensorView    probs = new_floats(n, 1),
                       column   = unfused_column(run, as->router.x, as->router.norm, &p->column);
    int32_t           *out      = as->dst.data;
    const RpTensorView ids = VIEW(RP_I32, out, k, 1, 1, 1), none = {0};
    const RpTensorView weights = floats((float *)(void *)(out + k), k, 1);
    run_op(run, rp_cpu_mul_mat, probs, (RpOpParams){0}, as->router.w, column);
    unfused_add(run, probs, as->router.bias);
    if (p->kind == RP_ROUTER_SOFT_MAX)
        run_op(run, rp_cpu_soft_max, probs, (RpOpParams){.soft_max = {.scale = p->soft_max_scale}}, probs, none);
    if (p->kind == RP_ROUTER_SIGMOID) run_op(run, rp_cpu_sigmoid, probs, (RpOpParams){0}, probs, none);
    run_op(run, rp_cpu_top_k, ids, (RpOpParams){.top_k = p->top_k}, probs, as->router.select_bias);
    run_op(run, rp_cpu_route, weights, (RpOpParams){.route = p->route}, probs, ids);
    const bool    opens  = as->router.open.ne[0] > 0;
    const int64_t before = (opens ? 4 : 2) * k;
    if (opens) {
        const RpTensorView gate = floats((float *)(void *)(out + 2 * k), 1, 1);
        memset(out + 2 * k, 0, (size_t)k * 8);
        run_op(run, rp_cpu_mul_mat, gate, (RpOpParams){0}, as->router.open, column);
        run_op(run, rp_cpu_sigmoid, gate, (RpOpParams){0}, gate, none);
    }
    if (p->quantize != 0) {
        const RpTensorView q     = VIEW(RP_Q8_ACT, out + before, column.ne[0], 1, 1, 1);
        const size_t       words = (size_t)(rp_view_elems(&as->dst) - before), used = rp_view_extent_bytes(&q) / 4;
        memset(out + before + used, 0, (words - used) * 4);
        run_op(run, rp_cpu_quantize, q, (RpOpParams){0}, column, none);
    }
    free(probs.data), free(column.data);
}

typedef struct Case {
    RpDtype       type;
    RpRouterKind  kind;
    int64_t       n, experts;
    bool          norm, quantize, quantized, bias, choice_bias, equal; /* equal: all experts have the same score */
    bool          column, open; /* the result has the quantised column; the gate of a shared expert */
    RpTopKParams  top_k;
    RpRouteParams route;
} Case;

static void check(Case c) {
    char  *w = random_weights(c.type, c.n, c.experts, 80);
    float *x = random_floats((size_t)c.n, 81), *norm = random_floats((size_t)c.n, 82),
          *bias = random_floats((size_t)c.experts, 83), *choice = random_floats((size_t)c.experts, 84);
    char *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL, *open = random_weights(c.type, c.n, 1, 85);
    if (c.equal) memset(w, 0, (size_t)c.experts * rp_row_bytes(c.type, c.n));
    const RpOpParams p = {
        .router = {.column         = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize},
                   .kind           = c.kind,
                   .soft_max_scale = 0.8f,
                   .top_k          = c.top_k,
                   .route          = c.route,
                   .quantize       = c.column}
    };
    const int64_t rows = 2 + (c.open ? 2 : 0) + (c.column ? (c.n / 32 * 11 + c.top_k.k - 1) / c.top_k.k : 0);
    int32_t      *y    = malloc((size_t)(c.top_k.k * rows) * 4);
    RpOpArgs      args = {
             .dst    = VIEW(RP_I32, y, c.top_k.k, rows, 1, 1),
             .src    = {VIEW(c.type, w, c.n, c.experts, 1, 1),
                        c.quantized ? VIEW(RP_Q8_ACT, column, c.n, 1, 1, 1) : floats(x, c.n, 1)},
             .params = &p
    };
    if (c.norm) args.router.norm = floats(norm, c.n, 1);
    if (c.bias) args.router.bias = floats(bias, c.experts, 1);
    if (c.choice_bias) args.router.select_bias = floats(choice, c.experts, 1);
    if (c.open) args.router.open = VIEW(c.type, open, c.n, 1, 1, 1);
    check_fused(rp_cpu_router, &args, unfused);
    free(open), free(w), free(x), free(norm), free(bias), free(choice), free(column), free(y);
}

DEFINE_FOR_ALL_TYPES(2, 77);

#define PLAIN_ROUTE .route = {.scale = 1.0f}

Test(router, selects_experts_by_softmax) {
    for_all_types((Case){.experts = 37, .kind = RP_ROUTER_SOFT_MAX, .top_k = {.k = 4}, PLAIN_ROUTE});
    for_all_types((Case){
        .experts = 64, .kind = RP_ROUTER_SOFT_MAX, .norm = true, .quantize = true, .top_k = {.k = 8}, PLAIN_ROUTE});
    for_all_types((Case){
        .experts   = 8,
        .kind      = RP_ROUTER_SOFT_MAX,
        .quantized = true,
        .bias      = true,
        .top_k     = {.k = 2        },
        .route     = { .normalize = true, .scale = 2.5f}
    });
}
Test(router, selects_experts_by_sigmoid) {
    for_all_types((Case){
        .experts     = 48,
        .kind        = RP_ROUTER_SIGMOID,
        .norm        = true,
        .choice_bias = true,
        .top_k       = {.k = 6, .n_group = 8, .n_group_used = 3},
        .route       = {.normalize = true,      .scale = 2.5f }
    });
}
Test(router, selects_experts_by_logits) {
    for_all_types((Case){
        .experts = 32, .norm = true, .bias = true, .top_k = {.k = 4        },
                   .route = { .soft_max = true, .scale = 1.0f}
    });
}

/* 96 elements are 33 words, 2048 are 704: with and without zeros behind them. */
Test(router, also_gives_the_quantised_column) {
    for (int k = 1; k <= 8; k++)
        check((Case){.type    = k % 2 != 0 ? RP_F32 : RP_BF16,
                     .n       = 96,
                     .experts = 33,
                     .kind    = RP_ROUTER_SOFT_MAX,
                     .norm    = k % 4 != 0,
                     .column  = true,
                     .top_k   = {.k = k},
                     PLAIN_ROUTE});
    check(
        (Case){.type = RP_F32, .n = 2048, .experts = 12, .norm = true, .column = true, .top_k = {.k = 8}, PLAIN_ROUTE});
    check((Case){.type = RP_Q8_0, .n = 64, .experts = 9, .norm = true, .column = true, .top_k = {.k = 3}, PLAIN_ROUTE});
}

Test(router, also_opens_a_shared_expert) {
    for (int i = 0; i < 12; i++)
        check((Case){
            .type    = (RpDtype[]){RP_F32,   RP_F16, RP_BF16}
                 [i % 3],
            .n       = (int64_t[]){96, 2048, 4128, 32}
                 [i / 3],
            .experts = 33,
            .kind    = RP_ROUTER_SOFT_MAX,
            .norm    = i % 2 != 0,
            .column  = i % 4 != 3,
            .open    = true,
            .top_k   = {.k = 1 + i % 5      },
            PLAIN_ROUTE
        });
}

Test(router, takes_any_shape) {
    check((Case){.type    = RP_F32,
                 .n       = 2048,
                 .experts = 128,
                 .kind    = RP_ROUTER_SOFT_MAX,
                 .norm    = true,
                 .top_k   = {.k = 8},
                 PLAIN_ROUTE});
    check((Case){
        .type = RP_Q8_0, .n = 8192, .experts = 3, .norm = true, .quantize = true, .top_k = {.k = 3}, PLAIN_ROUTE});
    check((Case){.type = RP_F16, .n = 16, .experts = 700, .kind = RP_ROUTER_SIGMOID, .top_k = {.k = 10}, PLAIN_ROUTE});
    check((Case){.type = RP_F32, .n = 8, .experts = 1, .kind = RP_ROUTER_SOFT_MAX, .top_k = {.k = 1}, PLAIN_ROUTE});
    check((Case){.type    = RP_F32,
                 .n       = 8,
                 .experts = 40,
                 .kind    = RP_ROUTER_SOFT_MAX,
                 .equal   = true,
                 .top_k   = {.k = 5},
                 PLAIN_ROUTE});
}

Test(router, computes_the_documented_formula) {
    enum { N = 24, M = 5 };
    float           *x = random_floats(N, 90), *w = random_floats(N * M, 91);
    int32_t          y[4];
    const RpOpParams p = {
        .router = {.kind           = RP_ROUTER_SOFT_MAX,
                   .soft_max_scale = 1.0f,
                   .top_k          = {.k = 2},
                   .route          = {.normalize = true, .scale = 1.0f}}
    };
    const RpOpArgs args = {
        .dst = VIEW(RP_I32, y, 2, 2, 1, 1), .src = {floats(w, N, M), floats(x, N, 1)},
                  .params = &p
    };
    run_variants(rp_cpu_router, &args);
    double score[M];
    int    best = 0, second = -1;
    for (int m = 0; m < M; m++) {
        score[m] = 0.0;
        for (int k = 0; k < N; k++) score[m] += (double)w[N * m + k] * (double)x[k];
        if (score[m] > score[best]) best = m;
    }
    for (int m = 0; m < M; m++)
        if (m != best && (second < 0 || score[m] > score[second])) second = m;
    float        got[2];
    const double share = 1.0 / (1.0 + exp(score[second] - score[best])), want[2] = {share, 1.0 - share};
    memcpy(got, y + 2, sizeof got);
    cr_expect_eq(y[0], best);
    cr_expect_eq(y[1], second);
    expect_near(got, want, 2, 1e-6);
    free(x), free(w);
}

Test(router, refuses_shapes_that_do_not_fit) {
    static float     w[64], x[16];
    int32_t          y[32];
    const RpOpParams p = {.router = {.top_k = {.k = 9}}}, few = {.router = {.top_k = {.k = 2}}};
    RpOpArgs         args = {
                .dst = VIEW(RP_I32, y, 9, 2, 1, 1), .src = {floats(w, 8, 8), floats(x, 8, 1)},
                          .params = &p
    };
    REFUSED(run_workers(rp_cpu_router, &args, 1), RP_E_SHAPE,
            "router: k = 9 must be from 1 to the number of experts: w f32 [8,8], x f32 [8], result i32 [9,2]");
    args.params = &few;
    REFUSED(run_workers(rp_cpu_router, &args, 1), RP_E_SHAPE,
            "router: the result must be i32 [2,2]: w f32 [8,8], x f32 [8], result i32 [9,2]");
    args.router.select_bias = floats(x, 5, 1);
    REFUSED(run_workers(rp_cpu_router, &args, 1), RP_E_SHAPE,
            "router: select_bias must be f32 of 8 elements: w f32 [8,8], x f32 [8], select_bias f32 [5], "
            "result i32 [9,2]");
    args.router.select_bias = (RpTensorView){0}, args.router.open = floats(x, 7, 1);
    REFUSED(run_workers(rp_cpu_router, &args, 1), RP_E_SHAPE,
            "router: open must be one row as long as those of w: w f32 [8,8], x f32 [8], open f32 [7], "
            "result i32 [9,2]");
}
