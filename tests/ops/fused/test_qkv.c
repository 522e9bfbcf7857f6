/* The fused op qkv: column -> norm -> quantise -> three products -> bias -> head norm -> rotation (q, k) -> k
 * and v stored in the KV cache. Bit for bit against the single ops (fused.h), and against the formula in
 * double. */
#include "tests/support/fused.h"

enum { CONTEXT = 6 };

static RpTensorView head_rows(RpTensorView y, int64_t d) { return floats(y.data, d, rp_view_elems(&y) / d); }

/* Head norm and rotation of q or k, in place. A norm over all heads sees one long row. */
static void norm_and_rotate(Runner *run, const RpOpArgs *as, RpTensorView y, RpTensorView weight) {
    const RpQkvParams *p     = &as->params->qkv;
    const RpTensorView heads = head_rows(y, p->head_dim), row = floats(y.data, rp_view_elems(&y), 1);
    const RpTensorView normed = p->norm == RP_HEAD_NORM_WHOLE ? row : heads;
    if (p->norm != RP_HEAD_NORM_NONE)
        run_op(run, rp_cpu_rms_norm, normed, (RpOpParams){.rms_norm = {.eps = p->norm_eps}}, normed, weight);
    const RpOpParams rope     = {.rope = p->rope};
    const RpOpArgs   rotation = {
          .dst    = heads,
          .src    = {heads, as->qkv.pos, as->qkv.factors},
          .params = &rope,
    };
    run(rp_cpu_rope, &rotation);
}

/* The heads query, gate, query, gate, ... of `row` to y: the queries, which are normed and rotated, then the gates. */
static void split_gates(Runner *run, const RpOpArgs *as, const float *row) {
    const int64_t d = as->params->qkv.head_dim, heads = rp_view_elems(&as->dst) / d / 2;
    float        *y = as->dst.data;
    for (int64_t h = 0; h < heads; h++) {
        memcpy(y + h * d, row + 2 * h * d, (size_t)d * sizeof(float));
        memcpy(y + (heads + h) * d, row + (2 * h + 1) * d, (size_t)d * sizeof(float));
    }
    norm_and_rotate(run, as, floats(y, d * heads, 1), as->src[11]);
}

/* The numbers of the weights of q, k and v among the sources. */
static const int weights_at[3] = {RP_SOURCE(qkv, wq), RP_SOURCE(qkv, wk), RP_SOURCE(qkv, wv)};

/* Other sources: 1 column; 2 position; 5, 6 caches of k and v, which the op writes to; 7 norm
 * weight; 8-10 biases; 11, 12 head norm weights of q and k; 13 rotation factors; 7 to 13 may be absent. */
static void unfused(Runner *run, const RpOpArgs *as) {
    const RpTensorView column = unfused_column(run, as->qkv.x, as->qkv.norm, &as->params->qkv.column);
    for (int i = 0; i < (rp_is_present(&as->qkv.wk) ? 3 : 1); i++) {
        const int64_t      rows  = as->src[weights_at[i]].ne[1];
        const bool         gates = i == 0 && as->params->qkv.gates != 0;
        const RpTensorView y     = i == 0 && !gates ? floats(as->dst.data, rows, 1) : new_floats(rows, 1);
        run_op(run, rp_cpu_mul_mat, y, (RpOpParams){0}, as->src[weights_at[i]], column);
        unfused_add(run, y, as->src[8 + i]);
        if (gates) split_gates(run, as, y.data), free(y.data);
        if (i < 2 && !gates) norm_and_rotate(run, as, y, as->src[11 + i]);
        if (i == 2 && as->params->qkv.value_norm != 0) {
            const RpTensorView heads = head_rows(y, as->params->qkv.head_dim), none = {.data = NULL};
            run_op(run, rp_cpu_rms_norm, heads, (RpOpParams){.rms_norm = {.eps = as->params->qkv.norm_eps}}, heads,
                   none);
        }
        if (i == 0) continue;
        const int64_t      d     = as->params->qkv.head_dim;
        const RpTensorView heads = VIEW(RP_F32, y.data, d, 1, rows / d, 1);
        const RpOpArgs     store = {
                .dst = as->src[4 + i],
                .src = {heads, as->src[4 + i], rp_is_present(&as->qkv.rows) ? as->qkv.rows : as->qkv.pos}
        };
        run(rp_cpu_copy, &store);
        free(y.data);
    }
    free(column.data);
}

typedef struct Case {
    RpDtype    type, value_type, cache; /* value_type: 0 (f32) means type */
    int64_t    n, d, heads, heads_kv;
    bool       norm, quantize, quantized, bias, factors, weights; /* weights: of the head norms */
    RpHeadNorm head_norm;
    RpRopeMode mode;
    int32_t    n_dims, pos, row; /* n_dims 0: all; row: of the caches, where it is apart from pos */
    bool       yarn, gates, apart, value_norm, alone; /* alone: queries without keys and values */
} Case;

/* A cache of CONTEXT positions with random contents: positions other than `pos` must keep them. */
static RpTensorView cache_of(const Case *c, uint64_t seed) {
    const RpDtype type = c->cache == RP_F32 ? RP_F16 : c->cache;
    const int64_t rows = CONTEXT * c->heads_kv;
    RpTensorView  v    = VIEW(type, NULL, c->d, CONTEXT, c->heads_kv, 1);
    v.data = type == RP_Q8_0 ? random_blocks(type, c->d, rows, seed) : random_weights(RP_F16, c->d, rows, seed);
    return v;
}

static RpRopeParams rope_of(const Case *c) {
    RpRopeParams r = {.mode        = c->mode,
                      .n_dims      = c->n_dims != 0 ? c->n_dims : (int32_t)c->d,
                      .freq_base   = 10000.0f,
                      .freq_scale  = 1.0f,
                      .attn_factor = 1.0f};
    if (!c->yarn) return r;
    r.freq_scale = 0.25f, r.ext_factor = 1.0f, r.beta_fast = 32.0f, r.beta_slow = 1.0f, r.n_ctx_orig = 2048;
    return r;
}

static void check(Case c) {
    const int64_t rows[3] = {c.d * c.heads * (c.gates ? 2 : 1), c.d * c.heads_kv, c.d * c.heads_kv};
    float        *x = random_floats((size_t)c.n, 120), *norm = random_floats((size_t)c.n, 121), *bias[3],
          *weights = random_floats((size_t)(rows[0] + rows[1]), 125), *factors = random_floats((size_t)c.d, 126),
          *y = malloc((size_t)rows[0] * 4);
    char            *w[3], *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL;
    int32_t          pos   = c.pos;
    const bool       whole = c.head_norm == RP_HEAD_NORM_WHOLE;
    const RpOpParams p     = {
            .qkv = {.column     = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize},
                    .head_dim   = (int32_t)c.d,
                    .norm       = c.head_norm,
                    .norm_eps   = 1e-6f,
                    .rope       = rope_of(&c),
                    .gates      = c.gates,
                    .value_norm = c.value_norm}
    };
    RpOpArgs args = {.dst = floats(y, c.d, rows[0] / c.d), .params = &p};
    for (int i = 0; i < 3; i++) {
        const RpDtype type = i == 2 && c.value_type != RP_F32 ? c.value_type : c.type;
        w[i]               = random_weights(type, c.n, rows[i], 122 + (uint64_t)i);
        bias[i]            = random_floats((size_t)rows[i], 127 + (uint64_t)i);
        if (i > 0 && c.alone) continue;
        args.src[weights_at[i]] = VIEW(type, w[i], c.n, rows[i], 1, 1);
        if (c.bias) args.src[8 + i] = floats(bias[i], rows[i], 1);
    }
    for (int64_t i = 0; i < c.d; i++) factors[i] = 1.5f + factors[i];
    args.qkv.x   = c.quantized ? VIEW(RP_Q8_ACT, column, c.n, 1, 1, 1) : floats(x, c.n, 1);
    args.qkv.pos = VIEW(RP_I32, &pos, 1, 1, 1, 1);
    if (!c.alone) args.qkv.k_cache = cache_of(&c, 130), args.qkv.v_cache = cache_of(&c, 131);
    if (c.apart) args.qkv.rows = VIEW(RP_I32, &c.row, 1, 1, 1, 1);
    if (c.norm) args.qkv.norm = floats(norm, c.n, 1);
    if (c.weights) args.qkv.q_norm = floats(weights, whole ? rows[0] : c.d, 1);
    if (c.weights && !c.alone) args.qkv.k_norm = floats(weights + rows[0], whole ? rows[1] : c.d, 1);
    if (c.factors) args.qkv.factors = floats(factors, p.qkv.rope.n_dims / 2, 1);
    check_fused(rp_cpu_qkv, &args, unfused);
    for (int i = 0; i < 3; i++) free(w[i]), free(bias[i]);
    free(x), free(norm), free(weights), free(factors), free(y), free(column), free(args.qkv.k_cache.data),
        free(args.qkv.v_cache.data);
}

DEFINE_FOR_ALL_TYPES(2, 77);

Test(qkv, rotates_queries_and_keys_and_stores_keys_and_values) {
    for_all_types((Case){.d = 32, .heads = 3, .heads_kv = 1, .pos = 4});
    for_all_types((Case){.d = 32, .heads = 2, .heads_kv = 2, .quantized = true, .pos = 0, .cache = RP_Q8_0});
    for_all_types((Case){.d        = 32,
                         .heads    = 4,
                         .heads_kv = 2,
                         .norm     = true,
                         .quantize = true,
                         .bias     = true,
                         .mode     = RP_ROPE_NEOX,
                         .pos      = 5});
}
Test(qkv, normalises_each_head) {
    for_all_types((Case){.d         = 64,
                         .heads     = 4,
                         .heads_kv  = 2,
                         .norm      = true,
                         .quantize  = true,
                         .head_norm = RP_HEAD_NORM_EACH,
                         .weights   = true,
                         .mode      = RP_ROPE_NEOX,
                         .pos       = 3});
    for_all_types((Case){.d = 8, .heads = 5, .heads_kv = 3, .norm = true, .head_norm = RP_HEAD_NORM_EACH, .pos = 2});
}
Test(qkv, computes_queries_alone) {
    Case c = {.d = 64, .heads = 4, .heads_kv = 2, .alone = true, .norm = true, .quantize = true, .pos = 3};
    for (int norm = RP_HEAD_NORM_NONE; norm <= RP_HEAD_NORM_WHOLE; norm++) {
        c.head_norm = (RpHeadNorm)norm;
        c.weights   = norm != RP_HEAD_NORM_NONE;
        c.mode      = norm == RP_HEAD_NORM_EACH ? RP_ROPE_NEOX : RP_ROPE_NORM;
        for_all_types(c);
    }
    for_all_types((Case){.d = 32, .heads = 3, .alone = true, .quantized = true, .bias = true, .factors = true});
    for_all_types((Case){.d = 32, .heads = 2, .alone = true, .gates = true, .pos = 5});
}
Test(qkv, normalises_each_head_of_values) {
    Case c = {.d          = 64,
              .heads      = 4,
              .heads_kv   = 2,
              .norm       = true,
              .quantize   = true,
              .head_norm  = RP_HEAD_NORM_EACH,
              .weights    = true,
              .mode       = RP_ROPE_NEOX,
              .pos        = 3,
              .value_norm = true};
    for_all_types(c);
    c.cache = RP_Q8_0, c.bias = true, c.norm = false;
    for_all_types(c);
    c.type = RP_Q4_K, c.value_type = RP_Q6_K, c.n = 512, c.cache = RP_F16;
    check(c);
}
Test(qkv, normalises_all_heads_as_one_row) {
    for_all_types((Case){.d         = 32,
                         .heads     = 4,
                         .heads_kv  = 2,
                         .norm      = true,
                         .quantize  = true,
                         .head_norm = RP_HEAD_NORM_WHOLE,
                         .weights   = true,
                         .cache     = RP_Q8_0,
                         .pos       = 1});
    for_all_types((Case){.d = 20, .heads = 2, .heads_kv = 2, .bias = true, .head_norm = RP_HEAD_NORM_WHOLE, .pos = 2});
}

/* Each query head has a gate behind it. Workers and blocks begin at gates and at queries. */
Test(qkv, leaves_the_gates_of_queries_as_they_are) {
    Case c = {.d         = 64,
              .heads     = 5,
              .heads_kv  = 1,
              .norm      = true,
              .quantize  = true,
              .head_norm = RP_HEAD_NORM_EACH,
              .weights   = true,
              .mode      = RP_ROPE_NEOX,
              .n_dims    = 16,
              .pos       = 3,
              .gates     = true};
    for_all_types(c);
    c.head_norm = RP_HEAD_NORM_NONE, c.weights = false, c.bias = true;
    for_all_types(c);
    c.d = 6, c.n_dims = 2, c.heads = 7, c.mode = RP_ROPE_NORM;
    for_all_types(c);
    check((Case){.type      = RP_Q8_0,
                 .n         = 64,
                 .d         = 64,
                 .heads     = 2,
                 .heads_kv  = 2,
                 .quantized = true,
                 .cache     = RP_Q8_0,
                 .head_norm = RP_HEAD_NORM_EACH,
                 .pos       = -1,
                 .gates     = true});
}

/* A negative position is padding: queries are rotated as at position 0, and nothing is stored. */
Test(qkv, stores_nothing_at_a_negative_position) {
    check((Case){
        .type = RP_Q4_K, .n = 256, .d = 32, .heads = 4, .heads_kv = 2, .norm = true, .quantize = true, .pos = -1});
    check((Case){.type = RP_F32, .n = 64, .d = 32, .heads = 1, .heads_kv = 1, .pos = -1, .cache = RP_Q8_0});
}

/* A cache of blocks: the row is apart from the position, which may be larger than the cache. */
Test(qkv, stores_in_the_row_that_is_given) {
    Case c = {.type     = RP_Q8_0,
              .n        = 64,
              .d        = 32,
              .heads    = 2,
              .heads_kv = 2,
              .norm     = true,
              .quantize = true,
              .pos      = 40,
              .row      = 3,
              .apart    = true};
    check(c);
    c.cache = RP_Q8_0;
    check(c);
    c.row = -1;
    check(c);
}

Test(qkv, supports_every_rotation) {
    const Case c = {
        .type = RP_Q8_0, .n = 64, .d = 64, .heads = 3, .heads_kv = 1, .norm = true, .quantize = true, .pos = 5};
    for (int i = 0; i < 8; i++) {
        Case d    = c;
        d.mode    = (i & 1) != 0 ? RP_ROPE_NEOX : RP_ROPE_NORM;
        d.factors = (i & 2) != 0;
        d.yarn    = (i & 4) != 0;
        d.n_dims  = i % 3 == 0 ? 24 : 0;
        check(d);
    }
}

/* Weights of two types, as in Q4_K_M files, and other mixtures. */
Test(qkv, takes_weights_of_several_types) {
    Case c = {
        .type = RP_Q4_K, .value_type = RP_Q6_K, .n = 512, .d = 64, .heads = 4, .heads_kv = 1, .norm = true, .pos = 2};
    for (int round = 0; round < 2; round++) {
        c.quantize = round != 0;
        c.type = RP_Q4_K, c.value_type = RP_Q6_K, check(c);
        c.type = RP_Q5_K, c.value_type = RP_Q6_K, check(c);
        for (int i = 0; i < N_QUANT_TYPES; i++) c.type = RP_Q8_0, c.value_type = quant_types[i], check(c);
    }
    c.quantize = false;
    c.type = RP_Q4_0, c.value_type = RP_F16, check(c);
    c.type = RP_F32, c.value_type = RP_BF16, check(c);
    c.type = RP_BF16, c.value_type = RP_Q6_K, check(c);
}

/* On the device: blocks with rows of several heads, heads of several blocks, rows that warps share, a column in
 * slices. */
Test(qkv, takes_any_shape) {
    check((Case){.type = RP_F32, .n = 40, .d = 2, .heads = 21, .heads_kv = 3, .norm = true, .pos = 3});
    check(
        (Case){.type = RP_Q4_0, .n = 64, .d = 80, .heads = 3, .heads_kv = 3, .norm = true, .quantize = true, .pos = 3});
    check((Case){.type      = RP_Q4_0,
                 .n         = 4096,
                 .d         = 36,
                 .heads     = 3,
                 .heads_kv  = 1,
                 .norm      = true,
                 .quantize  = true,
                 .head_norm = RP_HEAD_NORM_EACH,
                 .pos       = 3});
    check((Case){
        .type = RP_Q6_K, .n = 33024, .d = 4, .heads = 1, .heads_kv = 1, .norm = true, .quantize = true, .pos = 1});
    check((Case){.type = RP_Q8_0, .n = 32, .d = 300, .heads = 1, .heads_kv = 1, .quantize = true, .pos = 1});
}

static void check_formula(int32_t value_norm) {
    enum { N = 24, D = 4, H = 2 };
    float           *x = random_floats(N, 140), *w = random_floats(N * D * H, 141), y[D * H];
    uint16_t         caches[2][D * CONTEXT] = {{0}};
    int32_t          pos                    = 3;
    double           of_value               = 0.0;
    const RpOpParams p                      = {
                             .qkv = {.column     = {.norm = 1, .eps = 1e-5f},
                                     .head_dim   = D,
                                     .value_norm = value_norm,
                                     .norm       = RP_HEAD_NORM_EACH,
                                     .norm_eps   = 1e-6f,
                                     .rope       = {.n_dims = D, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.0f}}
    };
    const RpOpArgs args = {
        .dst    = floats(y, D, H),
        .src    = {floats(w, N, D * H), floats(x, N, 1), VIEW(RP_I32, &pos, 1, 1, 1, 1), floats(w, N, D),
                   floats(w + N * D, N, D), VIEW(RP_F16, caches[0], D, CONTEXT, 1, 1),
                   VIEW(RP_F16, caches[1], D, CONTEXT, 1, 1)},
        .params = &p
    };
    double squares = 0.0, product[D * H], want[D * H];
    float  key[D], value[D];
    run_variants(rp_cpu_qkv, &args);
    for (int k = 0; k < N; k++) squares += (double)x[k] * (double)x[k];
    for (int m = 0; m < D * H; m++) {
        product[m] = 0.0;
        for (int k = 0; k < N; k++) product[m] += (double)w[N * m + k] * (double)x[k] / sqrt(squares / N + 1e-5);
    }
    for (int h = 0; h < H; h++) {
        double of_head = 0.0;
        for (int i = 0; i < D; i++) of_head += product[D * h + i] * product[D * h + i];
        for (int i = 0; i < D; i += 2) {
            const double a      = product[D * h + i] / sqrt(of_head / D + 1e-6),
                         b      = product[D * h + i + 1] / sqrt(of_head / D + 1e-6),
                         angle  = pos * pow(100.0, -(double)i / D);
            want[D * h + i]     = a * cos(angle) - b * sin(angle);
            want[D * h + i + 1] = a * sin(angle) + b * cos(angle);
        }
    }
    expect_near(y, want, D * H, 1e-5);
    rp_dequantize_row(RP_F16, caches[0] + D * pos, D, key), rp_dequantize_row(RP_F16, caches[1] + D * pos, D, value);
    expect_near(key, want, D, 1e-3); /* the key weights are those of the first query head, */
    for (int i = 0; i < D; i++) of_value += product[D + i] * product[D + i];
    for (int i = 0; i < D && value_norm != 0; i++) product[D + i] /= sqrt(of_value / D + 1e-6);
    expect_near(value, product + D, D, 1e-3); /* the value weights those of the second */
    for (int i = 0; i < D * CONTEXT; i++)
        cr_expect(i / D == pos || (caches[0][i] == 0 && caches[1][i] == 0), "element %d was not to be written", i);
    free(x), free(w);
}

Test(qkv, computes_the_documented_formula) {
    check_formula(0);
    check_formula(1);
}

/* n_dims 0: queries and keys are the plain products. */
Test(qkv, rotates_nothing_with_n_dims_0) {
    enum { N = 32, D = 8, H = 2 };
    float           *w = random_floats(N * 4 * D, 7), *x = random_floats(N, 8), y[D * H], key[D];
    static uint16_t  caches[2][D * 4];
    int32_t          pos = 3;
    double           want[4 * D];
    const RpOpParams p    = {.qkv = {.head_dim = D}};
    const RpOpArgs   args = {
          .dst    = floats(y, D, H),
          .src    = {floats(w, N, D * H), floats(x, N, 1), VIEW(RP_I32, &pos, 1, 1, 1, 1), floats(w + N * D * H, N, D),
                     floats(w + N * D * 3, N, D), VIEW(RP_F16, caches[0], D, 4, 1, 1), VIEW(RP_F16, caches[1], D, 4, 1, 1)},
          .params = &p
    };
    for (int m = 0; m < 4 * D; m++) {
        want[m] = 0.0;
        for (int k = 0; k < N; k++) want[m] += (double)w[N * m + k] * (double)x[k];
    }
    run_variants(rp_cpu_qkv, &args);
    expect_near(y, want, D * H, 1e-5);
    rp_dequantize_row(RP_F16, caches[0] + D * pos, D, key);
    expect_near(key, want + D * H, D, 1e-2);
    free(w), free(x);
}

Test(qkv, refuses_shapes_that_do_not_fit) {
    static float   w[512], x[64], y[64];
    static uint8_t cache[4096];
    int32_t        pos = 0;
    RpOpParams     p   = {
              .qkv = {.head_dim = 4, .rope = {.n_dims = 4, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.0f}}
    };
    RpOpArgs args = {
        .dst    = floats(y, 4, 2),
        .src    = {floats(w, 8, 8), floats(x, 8, 1), VIEW(RP_I32, &pos, 1, 1, 1, 1), floats(w, 8, 6), floats(w, 8, 4),
                   VIEW(RP_F16, cache, 4, 8, 1, 1), VIEW(RP_F16, cache, 4, 8, 1, 1)},
        .params = &p
    };
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_SHAPE,
            "qkv: 6 rows must be whole heads of 4: wq f32 [8,8], x f32 [8], pos i32 [1], wk f32 [8,6], wv f32 "
            "[8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
    args.qkv.wk = floats(w, 8, 8);
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_SHAPE,
            "qkv: the caches must have rows of 4 and the heads of wk and wv: wq f32 [8,8], x f32 [8], pos i32 "
            "[1], wk f32 [8,8], wv f32 [8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
    args.qkv.wk = floats(w, 8, 4), p.qkv.rope.n_dims = 6;
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_SHAPE,
            "qkv: n_dims = 6 must be even, from 0 to heads of 4 and to 1024: wq f32 [8,8], x f32 [8], pos i32 "
            "[1], wk f32 [8,4], wv f32 [8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
    p.qkv.rope.n_dims = 4, args.qkv.q_norm = floats(w, 8, 1);
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_SHAPE,
            "qkv: q_norm must be f32 of 4 elements: wq f32 [8,8], x f32 [8], pos i32 [1], wk f32 [8,4], wv f32 "
            "[8,4], k_cache f16 [4,8], v_cache f16 [4,8], q_norm f32 [8], result f32 [4,2]");
    args.qkv.q_norm = (RpTensorView){0}, p.qkv.gates = 1, p.qkv.norm = RP_HEAD_NORM_WHOLE;
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_ARG,
            "qkv: queries with gates must have a norm of each head, or none: wq f32 [8,8], x f32 [8], pos i32 "
            "[1], wk f32 [8,4], wv f32 [8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
    p.qkv.gates = 0, p.qkv.value_norm = 1;
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_ARG,
            "qkv: norm = 2 must be RP_HEAD_NORM_EACH, 1, where value_norm is not 0: wq f32 [8,8], x f32 [8], pos i32 "
            "[1], wk f32 [8,4], wv f32 [8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
    p.qkv.value_norm = 0, p.qkv.gates = 1;
    p.qkv.norm = RP_HEAD_NORM_NONE, args.qkv.wq = floats(w, 8, 12);
    REFUSED(run_workers(rp_cpu_qkv, &args, 1), RP_E_SHAPE,
            "qkv: 12 rows must be whole heads of 4: wq f32 [8,12], x f32 [8], pos i32 [1], wk f32 [8,4], wv f32 "
            "[8,4], k_cache f16 [4,8], v_cache f16 [4,8], result f32 [4,2]");
}
