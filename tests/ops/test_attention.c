/* The fused op attention: softmax(scale q k^T) v per head, over positions pos - window + 1 to pos, with
 * optional sinks.
 *
 * Reference: the formula in double over the dequantised KV cache. Beyond that, a token must have the same bits
 * alone and among others (I8), and a quantised result those of the op quantize.
 *     q [dim, heads, tokens] f32     k, v [dim, heads_kv, context] f16, q8_0 or f32
 *     query head h reads key head h / (heads / heads_kv) */
#include "tests/support/blocks.h"
#include "tests/support/case.h"

typedef struct Case {
    int64_t dim, heads, heads_kv, tokens, context;
    int32_t window;
    bool    sinks;
    RpDtype type; /* of the KV cache */
} Case;

static float soft_cap; /* of the scores; 0: none */

static float sink_of(int64_t h) { return 2.0f * (float)h - 3.0f; }

static bool
    heads_in_rows; /* a row of the cache has all heads of a position; else the positions of a head lie together */

static RpTensorView cache_view(const Case *c, void *data) {
    RpTensorView v = rp_view_contiguous(c->type, (int64_t[]){c->dim, c->context, c->heads_kv, 1}, data);
    if (heads_in_rows) v.nb[2] = v.nb[1], v.nb[1] *= (size_t)c->heads_kv;
    return v;
}

/* A random KV cache; its dequantised values [dim,heads_kv,context] in `values`. */
static void *random_cache(const Case *c, uint64_t seed, float *values) {
    float             *x = random_floats((size_t)(c->dim * c->heads_kv * c->context), seed), *from = x;
    char              *data = malloc(rp_row_bytes(c->type, c->dim) * (size_t)(c->heads_kv * c->context) + 64);
    const RpTensorView v    = cache_view(c, data);
    for (int64_t i = 0; i < c->context; i++)
        for (int64_t h = 0; h < c->heads_kv; h++, from += c->dim, values += c->dim) {
            char *row = data + (size_t)i * v.nb[1] + (size_t)h * v.nb[2];
            OK(rp_quantize_row(c->type, from, c->dim, row));
            rp_dequantize_row(c->type, row, c->dim, values);
        }
    free(x);
    return data;
}

static void reference(const Case *c, const float *q, const float *k, const float *v, const int32_t *pos, double scale,
                      double *y) {
    for (int64_t t = 0; t < c->tokens; t++)
        for (int64_t h = 0; h < c->heads; h++) {
            const int64_t hk = h / (c->heads / c->heads_kv), end = pos[t] + 1;
            const int64_t from = c->window > 0 && end > c->window ? end - c->window : 0;
            double       *out = y + c->dim * (h + c->heads * t), sum = 0.0;
            memset(out, 0, (size_t)c->dim * sizeof *out);
            if (c->sinks) sum = exp((double)sink_of(h));
            for (int64_t i = from; i < end; i++) {
                const float *key = k + c->dim * (hk + c->heads_kv * i), *value = v + c->dim * (hk + c->heads_kv * i);
                double       dot = 0.0;
                for (int64_t d = 0; d < c->dim; d++) dot += (double)key[d] * (double)q[d + c->dim * (h + c->heads * t)];
                const double cap = (double)soft_cap, e = exp(cap > 0.0 ? cap * tanh(scale * dot / cap) : scale * dot);
                sum += e;
                for (int64_t d = 0; d < c->dim; d++) out[d] += e * (double)value[d];
            }
            for (int64_t d = 0; d < c->dim && sum > 0.0; d++) out[d] /= sum;
        }
}

/* q is stored as [dim, heads, tokens] and viewed as [dim, tokens, heads], as in models. */
static RpTensorView query_view(const Case *c, float *data, int64_t tokens) {
    const size_t head = (size_t)c->dim * 4, token = head * (size_t)c->heads;
    return (RpTensorView){
        data, RP_F32, {c->dim, tokens, c->heads, 1                     },
          {4,      token,  head,     token * (size_t)tokens}
    };
}

#ifdef RP_TEST_CUDA
enum { BESIDE = 5 }; /* RP_PREFILL_TOKENS */

/* As kernels/attention/attention_prefill.cu has it, for tensors that are aligned. */
static bool is_prefill(const Case *c) {
    return c->type == RP_F16 && c->tokens >= BESIDE && soft_cap == 0.0f && (c->dim == 64 || c->dim == 128);
}

/* The same bits on the device, where a few tokens use one block per split of the context, and many tokens one block for
 * all splits. Tokens of a prefill are compared with the bits beside others: in a chunk of BESIDE, whose other queries
 * are NaN. */
static void check_alone_on_the_device(const Case *c, RpOpArgs args) {
    const size_t  head_row = (size_t)(c->dim * c->heads), token = head_row * 4;
    const int64_t n      = is_prefill(c) ? BESIDE : 1;
    char         *before = calloc((size_t)n, token * (size_t)c->tokens), *together = malloc(token * (size_t)c->tokens),
         *alone      = malloc(token * (size_t)n);
    float         *q = args.attention.q.data, *queries = malloc(token * (size_t)n);
    int32_t *const pos = args.attention.pos.data;
    args.dst.data      = together;
    sim_sched(2, 5);
    OK(cuda_run(rp_cpu_attention, &args, before));
    const int64_t every = n > 1            ? (c->tokens + 4) / 5
                          : c->tokens > 20 ? 3
                                           : 1; /* a prefill computes a whole tile for each */
    for (int64_t t = 0; t < c->tokens; t += every) {
        const int64_t at = 3 * t % n;
        int32_t       positions[BESIDE];
        for (int64_t i = 0; i < n; i++) positions[i] = pos[(t + 7 * i) % c->tokens];
        positions[at] = pos[t];
        memset(queries, 0xff, token * (size_t)n);
        memcpy(queries + head_row * (size_t)at, q + head_row * (size_t)t, token);
        args.dst           = tensor(RP_F32, alone, c->dim, c->heads, n, 1);
        args.attention.q   = query_view(c, queries, n);
        args.attention.pos = tensor(RP_I32, positions, n, 1, 1, 1);
        OK(cuda_run(rp_cpu_attention, &args, before));
        cr_assert_arr_eq(alone + token * (size_t)at, together + token * (size_t)t, token, "token %d on the device",
                         (int)t);
    }
    free(before), free(together), free(alone), free(queries);
}
#else
static void check_alone_on_the_device(const Case *c, RpOpArgs args) { (void)c, (void)args; }
#endif

static void check(Case c) {
    const size_t n_q = (size_t)(c.dim * c.heads * c.tokens), n_kv = (size_t)(c.dim * c.heads_kv * c.context);
    float *q = random_floats(n_q, 12), *k_values = malloc(n_kv * 4), *v_values = malloc(n_kv * 4), *y = malloc(n_q * 4);
    void  *k = random_cache(&c, 13, k_values), *v = random_cache(&c, 14, v_values);
    double          *want = malloc(n_q * sizeof *want);
    int32_t         *pos  = malloc((size_t)c.tokens * sizeof *pos);
    const RpOpParams p    = {
           .attention = {.scale = 0.7f, .window = c.window}
    };
    for (int64_t t = 0; t < c.tokens; t++) pos[t] = t == 1 ? -1 : (int32_t)(c.context - c.tokens + t);
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, c.dim, c.heads, c.tokens, 1),
        .src    = {query_view(&c, q, c.tokens), cache_view(&c, k), cache_view(&c, v),
                   tensor(RP_I32, pos, c.tokens, 1, 1, 1)},
        .params = &p
    };
    float *sinks = malloc((size_t)c.heads * sizeof *sinks);
    for (int64_t h = 0; h < c.heads; h++) sinks[h] = sink_of(h);
    if (c.sinks) args.attention.sinks = tensor(RP_F32, sinks, c.heads, 1, 1, 1);
    if (soft_cap > 0.0f) args.attention.cap = tensor(RP_F32, &soft_cap, 1, 1, 1, 1);
    run_variants(rp_cpu_attention, &args);
    check_alone_on_the_device(&c, args);
    reference(&c, q, k_values, v_values, pos, (double)0.7f, want);
    expect_near(y, want, n_q, 2e-6);
    for (int64_t t = 0; t < c.tokens; t++) { /* the same bits for a token alone (I8) */
        float *alone       = malloc((size_t)(c.dim * c.heads) * 4);
        args.dst           = tensor(RP_F32, alone, c.dim, c.heads, 1, 1);
        args.attention.q   = query_view(&c, q + c.dim * c.heads * t, 1);
        args.attention.pos = tensor(RP_I32, pos + t, 1, 1, 1, 1);
        OK(run_workers(rp_cpu_attention, &args, 2));
        cr_expect_arr_eq(alone, y + c.dim * c.heads * t, (size_t)(c.dim * c.heads) * 4, "token %d", (int)t);
        free(alone);
    }
    free(q), free(k_values), free(v_values), free(y), free(k), free(v), free(want), free(pos), free(sinks);
}

Test(attention, computes_the_softmax_weighted_sum) { check((Case){64, 4, 4, 3, 100, 0, false, RP_F16}); }
Test(attention, shares_keys_among_heads) {
    check((Case){64, 9, 3, 5, 70, 0, false, RP_F16}), check((Case){32, 8, 1, 2, 33, 0, false, RP_F16});
}
Test(attention, takes_heads_of_any_size) {
    check((Case){24, 2, 1, 2, 40, 0, false, RP_F16}), check((Case){5, 2, 2, 2, 40, 0, false, RP_F16}),
        check((Case){256, 4, 1, 2, 65, 0, false, RP_F16}), check((Case){512, 1, 1, 1, 10, 0, false, RP_F16});
}
Test(attention, attends_only_to_positions_in_the_window) {
    check((Case){16, 2, 1, 6, 90, 7, false, RP_F16}), check((Case){16, 2, 1, 3, 90, 64, false, RP_F16}),
        check((Case){16, 2, 1, 3, 20, 1000, false, RP_F16});
}

Test(attention, adds_sinks_to_the_softmax_denominator) {
    check((Case){32, 6, 2, 3, 70, 0, true, RP_F16}), check((Case){16, 2, 1, 3, 90, 5, true, RP_F16});
}

Test(attention, caps_scores_by_tanh) {
    soft_cap = 2.0f;
    check((Case){64, 9, 3, 5, 70, 0, false, RP_F16}), check((Case){256, 4, 2, 3, 300, 64, false, RP_F16}),
        check((Case){128, 4, 1, 6, 90, 0, true, RP_Q8_0}), check((Case){40, 2, 2, 34, 60, 0, false, RP_F16});
    /* every kernel of the device: sizes of a head, and one, two and more groups of eight rows */
    for (int64_t dim = 64; dim <= 512; dim *= 2)
        for (int64_t tokens = 3; tokens <= 21; tokens += tokens == 3 ? 4 : 14) {
            check((Case){dim, 2, 1, tokens, 40, 0, false, RP_F16});
            check((Case){dim, 2, 1, tokens, 40, 0, false, RP_Q8_0});
        }
    soft_cap = 0.0f;
}

Test(attention, reads_a_q8_0_kv_cache) {
    check((Case){64, 9, 3, 5, 70, 0, false, RP_Q8_0}), check((Case){32, 6, 2, 3, 70, 5, true, RP_Q8_0}),
        check((Case){128, 4, 4, 2, 40, 0, false, RP_Q8_0}), check((Case){96, 2, 1, 2, 40, 0, false, RP_Q8_0}),
        check((Case){512, 3, 1, 2, 20, 0, false, RP_Q8_0}), check((Case){160, 2, 2, 2, 40, 0, false, RP_Q8_0});
}

/* Contexts of many splits, with few tokens and with so many that one block takes all splits. */
Test(attention, computes_a_context_of_many_splits) {
    check((Case){32, 4, 2, 12, 700, 0, false, RP_F16}), check((Case){96, 8, 2, 9, 300, 0, true, RP_F16}),
        check((Case){128, 3, 3, 2, 300, 70, false, RP_Q8_0}), check((Case){80, 5, 1, 10, 200, 0, false, RP_F16});
}

#ifdef RP_TEST_CUDA
/* Chunks of the prefill kernel: heads of both sizes, several blocks of rows, a window, splits of 512 positions. */
Test(attention, computes_long_chunks_in_registers) {
    check((Case){64, 2, 2, 5, 600, 0, false, RP_F16}), check((Case){128, 5, 1, 14, 90, 0, true, RP_F16}),
        check((Case){128, 1, 1, 5, 560, 530, true, RP_F16}), check((Case){64, 4, 1, 40, 150, 100, false, RP_F16});
}

/* With few multiprocessors a split has several tiles, and a growing maximum rescales what it has so far. With one and
 * two key heads there are 6 and 3 splits here. */
Test(attention, adds_several_tiles_to_a_split) {
    cuda_n_sm = 3;
    check((Case){64, 4, 2, 3, 1100, 0, true, RP_F16}), check((Case){128, 8, 2, 5, 900, 0, false, RP_Q8_0}),
        check((Case){256, 2, 1, 2, 1000, 530, false, RP_F16}), check((Case){320, 2, 2, 2, 300, 0, true, RP_Q8_0}),
        check((Case){64, 12, 1, 2, 900, 0, true, RP_Q8_0}), check((Case){40, 2, 2, 10, 700, 0, false, RP_F16});
    cuda_n_sm = 0;
}

/* Maxima that grow from tile to tile, by so much that what came before nearly vanishes: scores are position / 4. */
static void check_growing_scores(int64_t dim, int64_t tokens) {
    enum { MAX_DIM = 64, MAX_TOKENS = 5, CONTEXT = 400 };
    static uint16_t  k[MAX_DIM * CONTEXT], v[MAX_DIM * CONTEXT];
    float            q[MAX_DIM * MAX_TOKENS], y[MAX_DIM * MAX_TOKENS];
    int32_t          pos[MAX_TOKENS];
    const RpOpParams p = {.attention = {.scale = 1.0f}};
    for (int64_t i = 0; i < dim * tokens; i++) q[i] = 1.0f;
    for (int64_t t = 0; t < tokens; t++) pos[t] = (int32_t)(CONTEXT - tokens + t);
    for (int64_t i = 0; i < CONTEXT * dim; i++) {
        const float score = (float)(i / dim) / (4.0f * (float)dim), value = (float)(i / dim % 7) - 3.0f;
        OK(rp_quantize_row(RP_F16, &score, 1, &k[i]));
        OK(rp_quantize_row(RP_F16, &value, 1, &v[i]));
    }
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, dim, 1, tokens, 1),
        .src    = {tensor(RP_F32, q, dim, tokens, 1, 1), tensor(RP_F16, k, dim, CONTEXT, 1, 1),
                   tensor(RP_F16, v, dim, CONTEXT, 1, 1), tensor(RP_I32, pos, tokens, 1, 1, 1)},
        .params = &p
    };
    for (cuda_n_sm = 1; cuda_n_sm < 3; cuda_n_sm++) run_variants(rp_cpu_attention, &args);
    cuda_n_sm = 0;
}

Test(attention, forgets_what_came_before_a_much_larger_score) { check_growing_scores(16, 1); }
Test(attention, rescales_chunks_in_registers) { check_growing_scores(64, 5); }
#endif

Test(attention, combines_the_chunks_of_a_long_context) {
    check((Case){16, 2, 1, 2, 1200, 0, false, RP_F16}), check((Case){32, 3, 1, 3, 900, 600, true, RP_Q8_0}),
        check((Case){16, 5, 1, 1, 513, 300, true, RP_F16}), check((Case){20, 4, 2, 2, 512, 0, false, RP_F16});
}

/* Enough queries that tiles of keys and values are converted once for all of them: with windows, heads of odd sizes,
 * several chunks, queries on the diagonal of a prompt from position 0 on, and one token that sees nothing. */
Test(attention, gives_many_tokens_the_bits_of_each_alone) {
    check((Case){64, 3, 1, 33, 150, 0, false, RP_F16}), check((Case){64, 2, 1, 70, 70, 0, true, RP_F16}),
        check((Case){24, 4, 2, 35, 290, 70, true, RP_F16}), check((Case){40, 1, 1, 40, 530, 300, false, RP_F16}),
        check((Case){64, 6, 2, 33, 270, 100, true, RP_Q8_0}), check((Case){96, 4, 1, 20, 140, 0, false, RP_Q8_0});
}

/* Every instance of the CUDA kernel: cache type, size of a head, groups of 8 rows, and heads of exactly that size. */
Test(attention, computes_every_combination_of_sizes) {
    static const int64_t dims[] = {32, 64, 96, 128, 160, 256, 288, 512}, heads[] = {1, 9, 17};
    for (int d = 0; d < 8; d++)
        for (int h = 0; h < 3; h++)
            check((Case){dims[d], heads[h], 1, 1, 9, 0, false, RP_F16}),
                check((Case){dims[d], heads[h], 1, 1, 9, 0, false, RP_Q8_0});
}

Test(attention, reads_a_cache_whose_rows_have_all_heads) {
    heads_in_rows = true;
    check((Case){64, 6, 3, 1, 300, 0, false, RP_F16});
    check((Case){64, 6, 3, 9, 40, 16, true, RP_F16});
    check((Case){128, 4, 2, 7, 33, 0, false, RP_F16});
    check((Case){96, 4, 4, 3, 50, 0, false, RP_Q8_0});
    check((Case){64, 8, 2, 1, 270, 0, true, RP_Q8_0});
    heads_in_rows = false;
}

/* A q8_act result has the bits of the f32 result quantised by the op quantize: on the CPU, and on the device
 * with one block per split and with one block for all splits. */
static void check_quantized(Case c) {
    const int64_t    row = c.dim * c.heads;
    const size_t     n_q = (size_t)(row * c.tokens), n_kv = (size_t)(c.dim * c.heads_kv * c.context);
    float           *q = random_floats(n_q, 15), *values = malloc(n_kv * 4), *y = malloc(n_q * 4);
    char            *quantized = malloc((size_t)c.tokens * rp_row_bytes(RP_Q8_ACT, row)), *want;
    void            *k = random_cache(&c, 16, values), *v = random_cache(&c, 17, values);
    int32_t         *pos = malloc((size_t)c.tokens * sizeof *pos);
    const RpOpParams p   = {
          .attention = {.scale = 0.7f, .window = c.window, .dtype = RP_Q8_ACT}
    };
    for (int64_t t = 0; t < c.tokens; t++) pos[t] = t == 1 ? -1 : (int32_t)(c.context - c.tokens + t);
    RpOpArgs args = {
        .dst    = tensor(RP_Q8_ACT, quantized, row, c.tokens, 1, 1),
        .src    = {query_view(&c, q, c.tokens), cache_view(&c, k), cache_view(&c, v),
                   tensor(RP_I32, pos, c.tokens, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_attention, &args);
    args.dst = tensor(RP_F32, y, c.dim, c.heads, c.tokens, 1);
    OK(run_workers(rp_cpu_attention, &args, 1));
    want = quantize_columns(y, row, c.tokens);
    cr_assert_arr_eq(quantized, want, (size_t)c.tokens * rp_row_bytes(RP_Q8_ACT, row), "CPU");
    free(want);
#ifdef RP_TEST_CUDA
    memset(y, 0, n_q * 4);
    OK(cuda_run(rp_cpu_attention, &args, y));
    want     = quantize_columns(y, row, c.tokens); /* the CUDA op quantize gives the same bits as the CPU's */
    args.dst = tensor(RP_Q8_ACT, quantized, row, c.tokens, 1, 1);
    OK(cuda_run(rp_cpu_attention, &args, want));
    cr_assert_arr_eq(quantized, want, (size_t)c.tokens * rp_row_bytes(RP_Q8_ACT, row), "device");
    free(want);
#endif
    free(q), free(values), free(y), free(quantized), free(k), free(v), free(pos);
}

Test(attention, quantises_its_result_as_the_op_quantize_does) {
    check_quantized((Case){64, 9, 3, 1, 700, 0, false, RP_F16}),
        check_quantized((Case){32, 8, 1, 2, 33, 0, false, RP_F16}),
        check_quantized((Case){64, 5, 1, 14, 600, 0, false, RP_F16}),
        check_quantized((Case){96, 4, 2, 12, 50, 7, false, RP_Q8_0}),
        check_quantized((Case){512, 3, 1, 1, 300, 0, false, RP_F16}),
        check_quantized((Case){128, 4, 4, 3, 200, 0, false, RP_Q8_0});
}

Test(attention, does_not_overflow_with_large_scores) {
    float            q[16], y[16];
    uint16_t         k[32], v[32];
    int32_t          pos[1] = {1};
    const RpOpParams p      = {.attention = {.scale = 1.0f}};
    for (int i = 0; i < 16; i++)
        q[i] = 1000.0f, k[i] = 0xc400, k[16 + i] = 0x4400, v[i] = 0x3c00, v[16 + i] = 0x4000; /* -4, 4; 1, 2 */
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, 16, 1, 1, 1),
        .src    = {tensor(RP_F32, q, 16, 1, 1, 1), tensor(RP_F16, k, 16, 2, 1, 1), tensor(RP_F16, v, 16, 2, 1, 1),
                   tensor(RP_I32, pos, 1, 1, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_attention, &args);
    cr_expect_float_eq(y[0], 2.0f, 0.0f);
}

/* A NaN or an infinity in one key or value reaches the queries that see it and no other, with the same bits in every
 * variant, for one token and for many. */
static void check_specials(int64_t dim) {
    enum { MAX_DIM = 64, HEADS = 3, TOKENS = 24, CONTEXT = 100, BAD = 90 };
    static const uint16_t bad[] = {0x7e00, 0x7c00, 0xfc00}; /* NaN, infinity, -infinity */
    for (int which = 0; which < 6; which++) {
        float *q = random_floats((size_t)(dim * HEADS * TOKENS), 3), *k32 = random_floats((size_t)(dim * CONTEXT), 4),
              *v32 = random_floats((size_t)(dim * CONTEXT), 5), *y = malloc((size_t)(dim * HEADS * TOKENS) * sizeof *y);
        static uint16_t  k[MAX_DIM * CONTEXT], v[MAX_DIM * CONTEXT];
        int32_t          pos[TOKENS];
        const RpOpParams p = {.attention = {.scale = 0.3f}};
        OK(rp_quantize_row(RP_F16, k32, dim * CONTEXT, k));
        OK(rp_quantize_row(RP_F16, v32, dim * CONTEXT, v));
        (which < 3 ? k : v)[dim * BAD + 7] = bad[which % 3];
        for (int t = 0; t < TOKENS; t++) pos[t] = CONTEXT - TOKENS + t;
        const RpOpArgs args = {
            .dst    = tensor(RP_F32, y, dim, HEADS, TOKENS, 1),
            .src    = {query_view(&(Case){dim, HEADS, 1, TOKENS, CONTEXT, 0, false, RP_F16}, q, TOKENS),
                       tensor(RP_F16, k, dim, CONTEXT, 1, 1), tensor(RP_F16, v, dim, CONTEXT, 1, 1),
                       tensor(RP_I32, pos, TOKENS, 1, 1, 1)},
            .params = &p
        };
        run_variants(rp_cpu_attention, &args);
        for (int t = 0; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++) {
                bool finite = true;
                for (int64_t i = 0; i < dim; i++) finite = finite && isfinite(y[dim * (h + HEADS * t) + i]);
                const bool sees = pos[t] >= BAD;
                /* a score of -infinity is a weight of 0 */
                const bool score = which > 0 && which < 3 && (q[dim * (h + HEADS * t) + 7] < 0) == (which == 1);
                cr_expect_eq(finite, !sees || score, "case %d, token %d, head %d", which, t, h);
            }
        free(q), free(k32), free(v32), free(y);
    }
}

Test(attention, shows_a_nan_to_those_who_see_it) { check_specials(32), check_specials(64); }

/* ---- keys and values of f32 ---- */

Test(attention, reads_keys_and_values_of_f32) {
    check((Case){64, 9, 3, 5, 70, 0, false, RP_F32}), check((Case){5, 2, 2, 2, 40, 0, false, RP_F32}),
        check((Case){24, 4, 1, 35, 290, 70, true, RP_F32}), check((Case){128, 12, 1, 3, 130, 0, true, RP_F32}),
        check((Case){160, 2, 1, 2, 65, 0, false, RP_F32}), check((Case){257, 3, 1, 3, 70, 5, false, RP_F32}),
        check((Case){512, 1, 1, 1, 10, 0, false, RP_F32}), check((Case){64, 2, 2, 33, 300, 0, false, RP_F32});
}

/* A batch without positions. Token 0 is masked completely and becomes 0. */
typedef struct Batch {
    int64_t dim, heads, heads_kv, tokens, context, batch;
    bool    causal, mask;
} Batch;

static float mask_of(int64_t t, int64_t i) { return t == 0 || (t + i) % 3 == 0 ? -INFINITY : 0.3f * (float)(i % 5); }

/* Sequence b of row t of head h: k and v lie as [dim, heads_kv, context, batch], q as [dim, heads, tokens, batch]. */
static void reference_of_row(const Batch *c, const float *q, const float *k, const float *v, int64_t b, int64_t t,
                             int64_t h, double *y) {
    const int64_t end = c->causal ? c->context - c->tokens + t + 1 : c->context;
    double        sum = 0.0;
    for (int64_t d = 0; d < c->dim; d++) y[d] = 0.0;
    for (int64_t i = 0; i < end; i++) {
        const int64_t at  = c->dim * (h / (c->heads / c->heads_kv) + c->heads_kv * (i + c->context * b));
        double        dot = 0.0;
        for (int64_t d = 0; d < c->dim; d++)
            dot += (double)k[at + d] * (double)q[c->dim * (h + c->heads * (t + c->tokens * b)) + d];
        const double e = exp((double)0.7f * dot + (c->mask ? (double)mask_of(t, i) : 0.0));
        sum += e;
        for (int64_t d = 0; d < c->dim; d++) y[d] += e * (double)v[at + d];
    }
    for (int64_t d = 0; d < c->dim && sum > 0.0; d++) y[d] /= sum;
}

/* [dim, n, heads, batch], stored as [dim, heads, n, batch]. */
static RpTensorView sequences(float *data, int64_t dim, int64_t n, int64_t heads, int64_t batch) {
    const size_t row = (size_t)dim * 4, all = row * (size_t)heads;
    return (RpTensorView){
        data, RP_F32, {dim, n,   heads, batch          },
          {4,   all, row,   all * (size_t)n}
    };
}

static void check_batch(Batch c) {
    const size_t n_q = (size_t)(c.dim * c.heads * c.tokens * c.batch),
                 n_k = (size_t)(c.dim * c.heads_kv * c.context * c.batch);
    float *q = random_floats(n_q, 21), *k = random_floats(n_k, 22), *v = random_floats(n_k, 23),
          *y = malloc(n_q * sizeof *y), *mask = malloc((size_t)(c.tokens * c.context) * sizeof *mask);
    double *want = malloc(n_q * sizeof *want);
    for (int64_t i = 0; i < c.tokens * c.context; i++) mask[i] = mask_of(i / c.context, i % c.context);
    const RpOpParams p = {
        .attention = {.scale = 0.7f, .causal = c.causal}
    };
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, c.dim, c.heads, c.tokens, c.batch),
        .src    = {sequences(q, c.dim, c.tokens, c.heads, c.batch), sequences(k, c.dim, c.context, c.heads_kv, c.batch),
                   sequences(v, c.dim, c.context, c.heads_kv, c.batch)},
        .params = &p
    };
    if (c.mask) args.attention.mask = tensor(RP_F32, mask, c.context, c.tokens, 1, 1);
    run_variants(rp_cpu_attention, &args);
    for (int64_t b = 0; b < c.batch; b++)
        for (int64_t t = 0; t < c.tokens; t++)
            for (int64_t h = 0; h < c.heads; h++)
                reference_of_row(&c, q, k, v, b, t, h, want + c.dim * (h + c.heads * (t + c.tokens * b)));
    expect_near(y, want, n_q, 2e-6);
    for (int64_t i = 0; i < c.dim * c.heads && c.mask; i++) cr_expect_eq(y[i], 0.0f, CASE(i));
    free(q), free(k), free(v), free(y), free(mask), free(want);
}

Test(attention, takes_batches_without_positions) {
    check_batch((Batch){64, 4, 2, 5, 70, 3, false, false}), check_batch((Batch){48, 3, 3, 40, 40, 2, true, false}),
        check_batch((Batch){32, 2, 1, 1, 300, 2, false, false}), check_batch((Batch){16, 2, 2, 9, 4, 1, true, false});
}

Test(attention, adds_a_mask) {
    check_batch((Batch){64, 4, 1, 5, 70, 2, false, true}), check_batch((Batch){20, 3, 3, 40, 100, 1, true, true}),
        check_batch((Batch){128, 2, 1, 1, 290, 1, false, true}),
        check_batch((Batch){192, 2, 2, 17, 33, 1, false, true});
}

/* As shows_a_nan_to_those_who_see_it, for values of f32. */
Test(attention, shows_a_nan_of_f32_to_those_who_see_it) {
    enum { DIM = 20, HEADS = 2, TOKENS = 40, BAD = 31 };
    float *q = random_floats(DIM * HEADS * TOKENS, 3), *k = random_floats(DIM * TOKENS, 4),
          *v = random_floats(DIM * TOKENS, 5), *y = malloc(DIM * HEADS * TOKENS * sizeof *y);
    const RpOpParams p = {
        .attention = {.scale = 0.3f, .causal = 1}
    };
    v[DIM * BAD + 7]    = NAN;
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, DIM, HEADS, TOKENS, 1),
        .src = {sequences(q, DIM, TOKENS, HEADS, 1), sequences(k, DIM, TOKENS, 1, 1), sequences(v, DIM, TOKENS, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_attention, &args);
    for (int i = 0; i < DIM * HEADS * TOKENS; i++)
        cr_expect_eq(isnan(y[i]) != 0, i / (DIM * HEADS) >= BAD && i % DIM == 7, "element %d", i);
    free(q), free(k), free(v), free(y);
}

Test(attention, refuses_a_mask_or_a_batch_with_f16) {
    static float    x[64], y[64];
    static uint16_t k[64];
    int32_t         pos[2] = {0, 1};
    RpOpArgs        args   = {
                 .dst = tensor(RP_F32, y, 16, 1, 2, 1),
                 .src = {tensor(RP_F32, x, 16, 2, 1, 1), tensor(RP_F16, k, 16, 2, 1, 1), tensor(RP_F16, k, 16, 2, 1, 1),
                         tensor(RP_I32, pos, 2, 1, 1, 1)}
    };
    args.attention.mask = tensor(RP_F32, x, 2, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_UNSUPPORTED,
            "attention: k must be f32 where there is a mask: q f32 [16,2], k f16 [16,2], v f16 [16,2], pos "
            "i32 [2], mask f32 [2,2], result f32 [16,1,2]");
    args.attention.mask = (RpTensorView){0}, args.attention.pos = (RpTensorView){0};
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_UNSUPPORTED,
            "attention: k must be f32 where there are no positions: q f32 [16,2], k f16 [16,2], v f16 "
            "[16,2], result f32 [16,1,2]");
    args.attention.k = args.attention.v = tensor(RP_F32, x, 16, 2, 1, 1);
    args.attention.mask                 = tensor(RP_F32, x, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "attention: mask must be [2,2], a row of all positions for each token: q f32 [16,2], k f32 "
            "[16,2], v f32 [16,2], mask f32 [2], result f32 [16,1,2]");
    args.attention.mask = (RpTensorView){0};
    args.attention.q    = tensor(RP_F32, x, 32, 1, 1, 1);
    args.attention.k = args.attention.v = tensor(RP_F32, x, 32, 1, 1, 1);
    args.dst                            = tensor(RP_Q8_ACT, y, 32, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_DTYPE,
            "attention: the result must be f32 where k is f32: q f32 [32], k f32 [32], v f32 [32], result "
            "q8_act [32]");
}

Test(attention, refuses_heads_that_are_too_large_or_of_another_type) {
    static float    q[600], y[600];
    static uint16_t k[600];
    int32_t         pos[1] = {0};
    RpOpArgs        args   = {
                 .dst = tensor(RP_F32, y, 600, 1, 1, 1),
                 .src = {tensor(RP_F32, q, 600, 1, 1, 1), tensor(RP_F16, k, 600, 1, 1, 1), tensor(RP_F16, k, 600, 1, 1, 1),
                         tensor(RP_I32, pos, 1, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "attention: heads must have at most 512 elements: q f32 [600], k f16 [600], v f16 [600], pos i32 "
            "[1], result f32 [600]");
    args.attention.q = tensor(RP_F32, q, 80, 1, 1, 1);
    args.attention.k = args.attention.v = tensor(RP_Q8_0, k, 80, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "attention: heads of k must be whole q8_0 blocks of 32: q f32 [80], k q8_0 [80], v q8_0 [80], "
            "pos i32 [1], result f32 [600]");
    args.attention.v = tensor(RP_F16, k, 80, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_DTYPE,
            "attention: k and v must both be f16, q8_0 or f32: q f32 [80], k q8_0 [80], v f16 [80], pos i32 "
            "[1], result f32 [600]");
    args.attention.k = tensor(RP_F32, q, 600, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_DTYPE,
            "attention: k and v must both be f16, q8_0 or f32: q f32 [80], k f32 [600], v f16 [80], pos i32 "
            "[1], result f32 [600]");
    args.dst = tensor(RP_Q8_ACT, y, 160, 1, 1, 1), args.attention.q = tensor(RP_F32, q, 80, 1, 2, 1);
    args.attention.k = args.attention.v = tensor(RP_F16, k, 80, 1, 2, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "attention: heads must be whole blocks of 32 where the result is q8_act: q f32 [80,1,2], k f16 "
            "[80,1,2], v f16 [80,1,2], pos i32 [1], result q8_act [160]");
}
