/* The fused op experts_down: products of k experts -> bias -> weighted sum in the order of the ids -> scale ->
 * residual. Bit for bit against the single ops (fused.h), and against the formula in double. */
#include "tests/support/fused.h"

enum { E = 6 };

/* weights[j] * scales[ids[j]]; the product of a bad id is 0 whatever its weight. */
static float *scaled_weights(const RpOpArgs *as, int64_t k) {
    float         *to = malloc((size_t)k * sizeof *to);
    const float   *w = as->experts_down.weights.data, *scales = as->experts_down.scales.data;
    const int32_t *ids = as->experts_down.ids.data;
    for (int64_t j = 0; j < k; j++)
        to[j] = scales == NULL ? w[j] : ids[j] >= 0 && ids[j] < E ? w[j] * scales[ids[j]] : 0.0f;
    return to;
}

/* Sources: 0 weights, 1 columns, 2 ids, 3 weights of the experts, 4 bias, 5 residual, 8 scales, 9 post-norm weight;
 * those from 4 on may be absent. */
static void unfused_others(Runner *run, const RpOpArgs *as) {
    const RpTensorView *x = &as->experts_down.x, *ids = &as->experts_down.ids, *bias = &as->experts_down.bias;
    const int64_t       m = as->experts_down.w.ne[1], k = x->ne[1];
    RpTensorView        all = new_floats(m, k), weights;
    const RpOpArgs      product =
                       {
                           .dst = all, .src = {as->experts_down.w, *x, *ids}
    },
                   add = {.dst = all, .src = {all, *bias, *ids}};
    run(rp_cpu_mul_mat_id, &product);
    if (bias->ne[0] > 0) run(rp_cpu_add_id, &add);
    weights = floats(scaled_weights(as, k), k, 1);
    run_op(run, rp_cpu_combine, as->dst, (RpOpParams){0}, all, weights);
    unfused_scale(run, as->dst, as->params->experts_down.scale);
    if (as->params->experts_down.post_norm != 0)
        run_op(run, rp_cpu_rms_norm, as->dst, (RpOpParams){.rms_norm = {.eps = as->params->experts_down.post_eps}},
               as->dst, as->experts_down.post_norm);
    unfused_add(run, as->dst, as->experts_down.residual);
    free(all.data), free(weights.data);
}

/* The shared expert is one more expert, with the last column, whose products are added by themselves: the rows of all
 * products are those of one mul_mat_id. Sources: 6 matrix of the shared expert, 7 open. */
static void unfused(Runner *run, const RpOpArgs *as) {
    const RpTensorView *x = &as->experts_down.x, *w = &as->experts_down.w, *own = &as->experts_down.shared;
    const int64_t       m = w->ne[1], k = x->ne[1] - 1;
    if (own->ne[0] <= 0) {
        unfused_others(run, as);
        return;
    }
    const size_t bytes = rp_view_extent_bytes(w), more = rp_view_extent_bytes(own);
    char        *both = malloc(bytes + more + 64);
    int32_t     *ids  = malloc((size_t)(k + 1) * sizeof *ids);
    RpTensorView all = new_floats(m, k + 1), some = all, weights = floats(scaled_weights(as, k), k, 1);
    memcpy(both, w->data, bytes), memcpy(both + bytes, own->data, more);
    for (int64_t j = 0; j < k; j++) {
        const int32_t id = ((const int32_t *)as->experts_down.ids.data)[j];
        ids[j]           = id >= E ? -1 : id;
    }
    ids[k]                 = E;
    const RpOpArgs product = {
        .dst = all, .src = {VIEW(w->dtype, both, w->ne[0], m, E + 1, 1), *x, VIEW(RP_I32, ids, k + 1, 1, 1, 1)}
    };
    run(rp_cpu_mul_mat_id, &product);
    const RpTensorView last = floats((float *)all.data + m * k, m, 1);
    some.ne[1]              = k;
    run_op(run, rp_cpu_combine, as->dst, (RpOpParams){0}, some, weights);
    unfused_scale(run, as->dst, as->params->experts_down.scale);
    if (as->experts_down.open.ne[0] > 0) run_op(run, rp_cpu_mul, last, (RpOpParams){0}, last, as->experts_down.open);
    unfused_add(run, last, as->experts_down.residual);
    unfused_add(run, as->dst, last);
    free(all.data), free(both), free(ids), free(weights.data);
}

typedef struct Case {
    RpDtype type;
    int64_t n, rows, k;
    bool    quantized, bias, residual, shared, open; /* quantized: x is q8_act; k: with the shared one */
    float   scale;                                   /* 0 means 1 */
    bool    scales, post, post_weight;
} Case;

static void check(Case c) {
    char  *w = random_weights(c.type, c.n, c.rows * E, 100);
    float *x = random_floats((size_t)(c.n * c.k), 101), *weights = random_floats((size_t)c.k, 102),
          *bias = random_floats((size_t)(c.rows * E), 103), *residual = random_floats((size_t)c.rows, 104),
          *scales = random_floats(E, 106), *post = random_floats((size_t)c.rows, 107), *y = malloc((size_t)c.rows * 4),
          open            = 0.7f;
    char         *own     = random_weights(c.type, c.n, c.rows, 105);
    const int64_t chosen  = c.shared ? c.k - 1 : c.k;
    char         *columns = c.quantized ? quantize_columns(x, c.n, c.k) : NULL;
    int32_t      *ids     = malloc((size_t)c.k * sizeof *ids);
    for (int64_t j = 0; j < c.k; j++)
        ids[j] = j == 1 ? E : j == 4 ? -1 : (int32_t)(j * 5 % E); /* two ids name no expert */
    const RpOpParams p = {
        .experts_down = {.scale = c.scale == 0.0f ? 1.0f : c.scale, .post_norm = c.post, .post_eps = 1e-6f}
    };
    RpOpArgs args = {
        .dst    = floats(y, c.rows, 1),
        .src    = {VIEW(c.type, w, c.n, c.rows, E, 1),
                   c.quantized ? VIEW(RP_Q8_ACT, columns, c.n, c.k, 1, 1) : floats(x, c.n, c.k),
                   VIEW(RP_I32, ids, chosen, 1, 1, 1), floats(weights, chosen, 1)},
        .params = &p
    };
    if (c.bias) args.experts_down.bias = floats(bias, c.rows, E);
    if (c.residual) args.experts_down.residual = floats(residual, c.rows, 1);
    if (c.shared) args.experts_down.shared = VIEW(c.type, own, c.n, c.rows, 1, 1);
    if (c.open) args.experts_down.open = floats(&open, 1, 1);
    if (c.scales) args.experts_down.scales = floats(scales, E, 1);
    if (c.post_weight) args.experts_down.post_norm = floats(post, c.rows, 1);
    check_fused(rp_cpu_experts_down, &args, unfused);
    free(scales), free(post), free(own), free(w), free(x), free(weights), free(bias), free(residual), free(y),
        free(columns), free(ids);
}

static void for_each_type(Case c) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        c.type = quant_types[i];
        c.n    = 3 * rp_dtype_info(c.type)->block_elems;
        check(c);
    }
    if (c.quantized) return;
    for (int i = 0; i < 3; i++) {
        c.type = (RpDtype[]){RP_F32, RP_F16, RP_BF16}[i];
        c.n    = 77;
        check(c);
        c.n = 328;
        check(c);
    }
}

Test(experts_down, adds_the_weighted_expert_results) {
    for_each_type((Case){.rows = 21, .k = 4, .quantized = true});
    for_each_type((Case){.rows = 21, .k = 3});
}
Test(experts_down, scales_each_expert) {
    for_each_type((Case){.rows = 21, .k = 6, .quantized = true, .scales = true});
    for_each_type((Case){.rows = 21, .k = 4, .scales = true, .bias = true, .scale = 0.5f, .residual = true});
    for_each_type((Case){.rows = 20, .k = 5, .scales = true, .shared = true, .open = true});
}
Test(experts_down, norms_its_result) {
    for_each_type((Case){.rows = 35, .k = 4, .quantized = true, .post = true, .post_weight = true, .scales = true});
    for_each_type((Case){.rows = 35, .k = 9, .post = true, .residual = true});
    /* more rows than a block of the device has threads; the types above differ in how they load weights alone */
    check((Case){.type = RP_Q4_0, .n = 96, .rows = 600, .k = 9, .quantized = true, .post = true, .residual = true});
    check((Case){.type = RP_Q6_K, .n = 256, .rows = 600, .k = 9, .post = true, .residual = true});
    check((Case){.type = RP_F16, .n = 77, .rows = 600, .k = 9, .post = true, .residual = true});
}
/* Rows of 4, 8, 16 and 20 fragments of a K type: a quarter, a quarter, half and all of a warp. */
Test(experts_down, takes_short_rows) {
    for (int i = 0; i < 4; i++)
        check((Case){
            .type      = (RpDtype[]){RP_Q4_K, RP_Q5_K, RP_Q6_K, RP_Q4_K}
                   [i],
            .n         = (int64_t[]){256,     512,     1024,    1280   }
                   [i],
            .rows      = 37,
            .k         = i + 3,
            .quantized = true
        });
}
Test(experts_down, adds_bias_and_residual) {
    for_each_type((Case){.rows = 16, .k = 8, .quantized = true, .bias = true, .residual = true, .scale = 2.5f});
    for_each_type((Case){.rows = 7, .k = 5, .bias = true, .residual = true});
    for_each_type((Case){.rows = 40, .k = 1, .quantized = true, .residual = true});
}

Test(experts_down, adds_a_shared_expert) {
    for_each_type((Case){.rows = 21, .k = 5, .quantized = true, .shared = true, .open = true, .residual = true});
    for_each_type((Case){.rows = 16, .k = 9, .quantized = true, .shared = true, .open = true, .scale = 2.5f});
    for_each_type((Case){.rows = 7, .k = 2, .shared = true, .residual = true});
    check((Case){.type = RP_Q4_K, .n = 512, .rows = 37, .k = 11, .quantized = true, .shared = true, .open = true});
    check((Case){.type = RP_F16, .n = 77, .rows = 37, .k = 17, .shared = true, .open = true, .residual = true});
}

/* On the device: more experts than warps, rows that warps share, columns in slices. */
Test(experts_down, takes_any_shape) {
    check((Case){.type = RP_Q4_0, .n = 64, .rows = 9, .k = 11, .quantized = true, .bias = true});
    check((Case){.type = RP_Q4_K, .n = 8192, .rows = 5, .k = 6, .quantized = true});
    check((Case){.type = RP_Q8_0, .n = 4128, .rows = 3, .k = 8, .quantized = true, .residual = true});
    check((Case){.type = RP_Q5_1, .n = 32, .rows = 4500, .k = 3, .quantized = true});
    check((Case){.type = RP_Q4_0, .n = 64, .rows = 9, .k = 11, .bias = true});
    check((Case){.type = RP_BF16, .n = 77, .rows = 9, .k = 11, .residual = true});
    check((Case){.type = RP_F16, .n = 2048, .rows = 6, .k = 9});
    check((Case){.type = RP_Q6_K, .n = 16640, .rows = 2, .k = 2, .quantized = true});
}

/* run_variants compares repacked weights with those of the file. */
Test(experts_down, reads_repacked_weights) {
    enum { N = 512, ROWS = 80, CHOSEN = 2 };
    char            *w = random_weights(RP_Q4_K, N, ROWS * E, 106), *own = random_weights(RP_Q4_K, N, ROWS, 107);
    float           *x = random_floats(N * (CHOSEN + 1), 108), weights[CHOSEN] = {0.3f, 0.6f}, y[ROWS];
    char            *columns     = quantize_columns(x, N, CHOSEN + 1);
    int32_t          ids[CHOSEN] = {2, 0};
    const int        before      = repacked_sources;
    const RpOpParams p           = {.experts_down = {.scale = 1.0f}};
    RpOpArgs         args        = {
                       .dst    = floats(y, ROWS, 1),
                       .src    = {VIEW(RP_Q4_K, w, N, ROWS, E, 1), VIEW(RP_Q8_ACT, columns, N, CHOSEN + 1, 1, 1),
                                  VIEW(RP_I32, ids, CHOSEN, 1, 1, 1), floats(weights, CHOSEN, 1)},
                       .params = &p
    };
    args.experts_down.shared = VIEW(RP_Q4_K, own, N, ROWS, 1, 1);
    run_variants(rp_cpu_experts_down, &args);
    cr_assert_eq(repacked_sources - before, 2);
    free(w), free(own), free(x), free(columns);
}

Test(experts_down, computes_the_documented_formula) {
    enum { N = 40, M = 3, TAKEN = 2 };
    float *w = random_floats(N * M * E, 110), *x = random_floats(N * TAKEN, 111), *bias = random_floats(M * E, 112),
          *residual = random_floats(M, 113), weights[TAKEN] = {0.7f, -0.2f}, y[M];
    int32_t          ids[TAKEN] = {4, 1};
    const RpOpParams p          = {.experts_down = {.scale = 1.5f}};
    const RpOpArgs   args       = {
                .dst    = floats(y, M, 1),
                .src    = {VIEW(RP_F32, w, N, M, E, 1), floats(x, N, TAKEN), VIEW(RP_I32, ids, TAKEN, 1, 1, 1),
                           floats(weights, TAKEN, 1), floats(bias, M, E), floats(residual, M, 1)},
                .params = &p
    };
    double want[M];
    run_variants(rp_cpu_experts_down, &args);
    for (int m = 0; m < M; m++) {
        want[m] = 0.0;
        for (int j = 0; j < TAKEN; j++) {
            double dot = (double)bias[M * ids[j] + m];
            for (int k = 0; k < N; k++) dot += (double)w[N * (M * ids[j] + m) + k] * (double)x[N * j + k];
            want[m] += (double)weights[j] * dot;
        }
        want[m] = 1.5 * want[m] + (double)residual[m];
    }
    expect_near(y, want, M, 1e-5);
    free(w), free(x), free(bias), free(residual);
}

Test(experts_down, refuses_shapes_that_do_not_fit) {
    static float     w[512], x[64], y[64];
    int32_t          ids[4] = {0};
    const RpOpParams p      = {.experts_down = {.scale = 1.0f}};
    RpOpArgs         args   = {
                  .dst = floats(y, 4, 1),
                  .src = {VIEW(RP_F32, w, 8, 4, 3, 1), floats(x, 6, 2), VIEW(RP_I32, ids, 2, 1, 1, 1), floats(x, 2, 1)},
                  .params = &p
    };
    REFUSED(run_workers(rp_cpu_experts_down, &args, 1), RP_E_SHAPE,
            "experts_down: rows of w and x must have one length: w f32 [8,4,3], x f32 [6,2], ids i32 [2], "
            "weights f32 [2], result f32 [4]");
    args.experts_down.x = floats(x, 8, 2), args.experts_down.ids = VIEW(RP_I32, ids, 3, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_experts_down, &args, 1), RP_E_SHAPE,
            "experts_down: ids must be i32 [2]: w f32 [8,4,3], x f32 [8,2], ids i32 [3], weights f32 [2], "
            "result f32 [4]");
    args.experts_down.ids = VIEW(RP_I32, ids, 2, 1, 1, 1), args.experts_down.bias = floats(x, 4, 2);
    REFUSED(run_workers(rp_cpu_experts_down, &args, 1), RP_E_SHAPE,
            "experts_down: bias must be f32 of 12 elements: w f32 [8,4,3], x f32 [8,2], ids i32 [2], weights "
            "f32 [2], bias f32 [4,2], result f32 [4]");
    args.experts_down.bias = (RpTensorView){0}, args.experts_down.open = floats(x, 1, 1);
    REFUSED(
        run_workers(rp_cpu_experts_down, &args, 1), RP_E_SHAPE,
        "experts_down: shared must be given where open is: w f32 [8,4,3], x f32 [8,2], ids i32 [2], weights f32 [2], "
        "open f32 [1], result f32 [4]");
    args.experts_down.shared = floats(w, 8, 3);
    REFUSED(run_workers(rp_cpu_experts_down, &args, 1), RP_E_SHAPE,
            "experts_down: a shared expert must have the shape of the others: w f32 [8,4,3], x f32 [8,2], ids i32 [2], "
            "weights f32 [2], shared f32 [8,3], open f32 [1], result f32 [4]");
}
