/* The fused op latent_attention: attention whose keys and values are latent vectors that all heads share.
 *
 * Reference: the formula in double over the f16 caches. Beyond that, a token must have the same bits alone and among
 * others (I8), and a quantised result those of the op quantize.
 *     q [n, t, h], q_rope [r, t, h]: heads of a token are adjacent, as in models, or those of a head */
#include "tests/support/blocks.h"
#include "tests/support/case.h"

typedef struct Case {
    int64_t n, r, heads, tokens, context;
} Case;

/* Memory of a case. */
typedef struct Data {
    float    *q, *q_rope, *latent_values, *key_values;
    uint16_t *latent, *key;
    int32_t  *pos;
} Data;

static uint16_t *as_f16(float *x, size_t n) {
    uint16_t *half = malloc((n + 64) * sizeof *half);
    OK(rp_quantize_row(RP_F16, x, (int64_t)n, half));
    rp_dequantize_row(RP_F16, half, (int64_t)n, x);
    return half;
}

/* Token 1 is padding. */
static Data random_data(const Case *c) {
    const size_t n = (size_t)(c->n * c->context), r = (size_t)(c->r * c->context);
    Data         d = {.q             = random_floats((size_t)(c->n * c->heads * c->tokens), 12),
                      .q_rope        = random_floats((size_t)(c->r * c->heads * c->tokens), 13),
                      .latent_values = random_floats(n, 14),
                      .key_values    = random_floats(r, 15),
                      .pos           = malloc((size_t)c->tokens * sizeof *d.pos)};
    d.latent = as_f16(d.latent_values, n), d.key = as_f16(d.key_values, r);
    for (int64_t t = 0; t < c->tokens; t++) d.pos[t] = t == 1 ? -1 : (int32_t)(c->context - c->tokens + t);
    return d;
}

static void free_data(Data *d) {
    free(d->q), free(d->q_rope), free(d->latent_values), free(d->key_values), free(d->latent), free(d->key),
        free(d->pos);
}

/* [n, tokens, heads] of rows that lie as [n, heads, tokens]. */
static RpTensorView by_token(float *data, int64_t n, int64_t tokens, int64_t heads) {
    const size_t row = (size_t)n * 4, token = row * (size_t)heads;
    return (RpTensorView){
        data, RP_F32, {n, tokens, heads, 1                     },
          {4, token,  row,   token * (size_t)tokens}
    };
}

/* q lies head by head, as the product with k_b leaves it, and q_rope token by token. */
static RpOpArgs args_of(const Case *c, const Data *d, int64_t t, int64_t tokens, float *q, float *y,
                        const RpOpParams *p) {
    return (RpOpArgs){
        .dst    = tensor(RP_F32, y, c->n, tokens, c->heads, 1),
        .src    = {tensor(RP_F32, q, c->n, tokens, c->heads, 1), tensor(RP_F16, d->latent, c->n, c->context, 1, 1),
                   tensor(RP_F16, d->key, c->r, c->context, 1, 1), tensor(RP_I32, d->pos + t, tokens, 1, 1, 1),
                   by_token(d->q_rope + t * c->heads * c->r, c->r, tokens, c->heads)},
        .params = p
    };
}

static void reference(const Case *c, const Data *d, double scale, double *y) {
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t t = 0; t < c->tokens; t++) {
            const float *q = d->q + c->n * (t + c->tokens * h), *rotated = d->q_rope + c->r * (h + c->heads * t);
            double      *out = y + c->n * (t + c->tokens * h), sum = 0.0;
            memset(out, 0, (size_t)c->n * sizeof *out);
            for (int64_t i = 0; i <= d->pos[t]; i++) {
                const float *latent = d->latent_values + c->n * i, *key = d->key_values + c->r * i;
                double       dot = 0.0;
                for (int64_t k = 0; k < c->n; k++) dot += (double)latent[k] * (double)q[k];
                for (int64_t k = 0; k < c->r; k++) dot += (double)key[k] * (double)rotated[k];
                const double e = exp(scale * dot);
                sum += e;
                for (int64_t k = 0; k < c->n; k++) out[k] += e * (double)latent[k];
            }
            for (int64_t k = 0; k < c->n && sum > 0.0; k++) out[k] /= sum;
        }
}

/* Row (t, h) of the results of all tokens, of one token in `alone`. */
static void expect_alone(const Case *c, const float *y, const float *alone, int64_t t, const char *where) {
    for (int64_t h = 0; h < c->heads; h++)
        cr_assert_arr_eq(alone + c->n * h, y + c->n * (t + c->tokens * h), (size_t)c->n * 4, "token %d, head %d %s",
                         (int)t, (int)h, where);
}

/* The same bits for a token alone (I8), on the CPU and on the device. */
static void check_alone(const Case *c, const Data *d, const RpOpParams *p, const float *y) {
    float *alone = malloc((size_t)(c->n * c->heads) * 4), *q = malloc((size_t)(c->n * c->heads) * 4);
#ifdef RP_TEST_CUDA
    const size_t bytes  = (size_t)(c->n * c->heads * c->tokens) * 4;
    float       *before = calloc(1, bytes), *device = malloc(bytes);
    RpOpArgs     all = args_of(c, d, 0, c->tokens, d->q, device, p);
    sim_sched(2, 5);
    OK(cuda_run(rp_cpu_latent_attention, &all, before));
#endif
    for (int64_t t = 0; t < c->tokens; t++) {
        for (int64_t h = 0; h < c->heads; h++)
            memcpy(q + c->n * h, d->q + c->n * (t + c->tokens * h), (size_t)c->n * 4);
        const RpOpArgs args = args_of(c, d, t, 1, q, alone, p);
        OK(run_workers(rp_cpu_latent_attention, &args, 2));
        expect_alone(c, y, alone, t, "on the CPU");
#ifdef RP_TEST_CUDA
        OK(cuda_run(rp_cpu_latent_attention, &args, before));
        expect_alone(c, device, alone, t, "on the device");
#endif
    }
#ifdef RP_TEST_CUDA
    free(before), free(device);
#endif
    free(alone), free(q);
}

static void check(Case c) {
    const size_t     n_q  = (size_t)(c.n * c.heads * c.tokens);
    Data             d    = random_data(&c);
    float           *y    = malloc(n_q * sizeof *y);
    double          *want = malloc(n_q * sizeof *want);
    const RpOpParams p    = {.latent_attention = {.scale = 0.3f}};
    const RpOpArgs   args = args_of(&c, &d, 0, c.tokens, d.q, y, &p);
    run_variants(rp_cpu_latent_attention, &args);
    reference(&c, &d, (double)0.3f, want);
    expect_near(y, want, n_q, 2e-6);
    check_alone(&c, &d, &p, y);
    free_data(&d);
    free(y), free(want);
}

Test(latent_attention, computes_the_softmax_weighted_sum) {
    check((Case){64, 16, 4, 3, 100}), check((Case){32, 8, 2, 1, 1});
}
Test(latent_attention, takes_vectors_of_any_size) {
    check((Case){24, 6, 3, 2, 40}), check((Case){512, 64, 2, 2, 70}), check((Case){5, 2, 1, 2, 33}),
        check((Case){500, 62, 1, 2, 35});
}
Test(latent_attention, shares_the_cache_among_many_heads) {
    check((Case){32, 16, 21, 2, 50}), check((Case){40, 8, 17, 1, 40});
}
Test(latent_attention, combines_the_chunks_of_a_long_context) {
    check((Case){16, 4, 3, 3, 900}), check((Case){20, 4, 5, 1, 513}), check((Case){16, 8, 9, 5, 300});
}

/* A block of rows of several tokens, some of which see only part of a tile, or nothing. */
Test(latent_attention, takes_a_prompt_from_its_first_position) {
    check((Case){32, 8, 3, 40, 40}), check((Case){16, 4, 2, 33, 70});
}

#ifdef RP_TEST_CUDA
/* With few multiprocessors a split has several tiles, and a block may have all of them. */
Test(latent_attention, adds_several_tiles_to_a_split) {
    for (cuda_n_sm = 1; cuda_n_sm < 4; cuda_n_sm++) check((Case){32, 8, 9, 2, 330});
    cuda_n_sm = 0;
}
#endif

/* A q8_act result has the bits of the f32 result quantised by the op quantize. */
static void check_quantized(Case c) {
    const int64_t    rows  = c.heads * c.tokens;
    const size_t     bytes = (size_t)rows * rp_row_bytes(RP_Q8_ACT, c.n);
    Data             d     = random_data(&c);
    float           *y     = calloc((size_t)(c.n * rows), sizeof *y);
    char            *got   = malloc(bytes), *want;
    const RpOpParams p =
                         {
                             .latent_attention = {.scale = 0.3f}
    },
                     to = {.latent_attention = {.scale = 0.3f, .dtype = RP_Q8_ACT}};
    RpOpArgs args = args_of(&c, &d, 0, c.tokens, d.q, y, &p), quantizing = args;
    quantizing.dst    = tensor(RP_Q8_ACT, got, c.n, c.tokens, c.heads, 1);
    quantizing.params = &to;
    run_variants(rp_cpu_latent_attention, &quantizing);
    OK(run_workers(rp_cpu_latent_attention, &args, 1));
    want = quantize_columns(y, c.n, rows);
    cr_assert_arr_eq(got, want, bytes, "CPU");
    free(want);
#ifdef RP_TEST_CUDA
    memset(y, 0, (size_t)(c.n * rows) * 4);
    OK(cuda_run(rp_cpu_latent_attention, &args, y));
    want = quantize_columns(y, c.n, rows);
    OK(cuda_run(rp_cpu_latent_attention, &quantizing, want));
    cr_assert_arr_eq(got, want, bytes, "device");
    free(want);
#endif
    free_data(&d);
    free(y), free(got);
}

Test(latent_attention, quantises_its_result_as_the_op_quantize_does) {
    check_quantized((Case){64, 16, 9, 1, 300}), check_quantized((Case){32, 8, 3, 4, 50}),
        check_quantized((Case){512, 64, 2, 1, 100});
}

/* Queries of very different sizes, among them zeros: each part has its own scale on the device. */
Test(latent_attention, adds_parts_of_any_size) {
    static const float sizes[] = {0.0f, 1e-30f, 1.0f, 30.0f};
    const Case         c       = {32, 8, 2, 1, 60};
    for (int i = 0; i < 16; i++) {
        Data             d = random_data(&c);
        float            y[64];
        double           want[64];
        const RpOpParams p = {.latent_attention = {.scale = 0.3f}};
        for (int k = 0; k < 64; k++) d.q[k] *= sizes[i / 4];
        for (int k = 0; k < 16; k++) d.q_rope[k] *= sizes[i % 4];
        const RpOpArgs args = args_of(&c, &d, 0, 1, d.q, y, &p);
        run_variants(rp_cpu_latent_attention, &args);
        reference(&c, &d, (double)0.3f, want);
        expect_near(y, want, 64, 1e-5);
        free_data(&d);
    }
}

/* In dst: the result of the kernel under test. Its bits are not compared with those of another run: whether a NaN has a
 * sign depends on the order of operands. */
static void run_once(const RpOpArgs *args) {
#ifdef RP_TEST_CUDA
    void *before = calloc(1, rp_view_extent_bytes(&args->dst));
    sim_sched(2, 5);
    OK(cuda_run(rp_cpu_latent_attention, args, before));
    free(before);
#else
    OK(run_workers(rp_cpu_latent_attention, args, 3));
#endif
}

/* A NaN or an infinity in a latent vector or a key reaches the tokens that see it and no other. */
Test(latent_attention, shows_a_nan_to_those_who_see_it) {
    enum { N = 32, R = 8, AT = 90 };
    static const uint16_t bad[] = {0x7e00, 0x7c00};
    const Case            c     = {N, R, 3, 24, 100};
    for (int which = 0; which < 4; which++) {
        Data             d = random_data(&c);
        float           *y = malloc((size_t)(c.n * c.heads * c.tokens) * sizeof *y);
        const RpOpParams p = {.latent_attention = {.scale = 0.3f}};
        if (which < 2)
            d.latent[N * AT + 7] = bad[which];
        else
            d.key[R * AT + 3] = bad[which - 2];
        const RpOpArgs args = args_of(&c, &d, 0, c.tokens, d.q, y, &p);
        run_once(&args);
        for (int64_t h = 0; h < c.heads; h++)
            for (int64_t t = 0; t < c.tokens; t++) {
                bool finite = true;
                for (int64_t i = 0; i < N; i++) finite = finite && isfinite(y[N * (t + c.tokens * h) + i]);
                /* a score of -infinity from an infinite key is a weight of 0; 0 * infinity of a latent is NaN */
                const bool hidden = which == 3 && d.q_rope[R * (h + c.heads * t) + 3] < 0.0f;
                cr_expect_eq(finite, d.pos[t] < AT || hidden, "case %d, token %d, head %d", which, (int)t, (int)h);
            }
        free_data(&d);
        free(y);
    }
}

Test(latent_attention, refuses_what_does_not_fit) {
    static float     x[1024], y[1024];
    static uint16_t  cache[1024];
    int32_t          pos[2] = {0, 1};
    const RpOpParams p =
                         {
                             .latent_attention = {.scale = 1.0f}
    },
                     to  = {.latent_attention = {.scale = 1.0f, .dtype = RP_Q8_ACT}};
    const RpOpArgs sound = {
        .dst = tensor(RP_F32, y, 16, 2, 3, 1),
        .src = {tensor(RP_F32, x, 16, 2, 3, 1), tensor(RP_F16, cache, 16, 9, 1, 1), tensor(RP_F16, cache, 4, 9, 1, 1),
                tensor(RP_I32, pos, 2, 1, 1, 1), tensor(RP_F32, x, 4, 2, 3, 1)},
        .params = &p
    };
    RpOpArgs args = sound;
    OK(run_workers(rp_cpu_latent_attention, &args, 1));
    args.latent_attention.q_rope = tensor(RP_F32, x, 4, 2, 2, 1);
    REFUSED(
        run_workers(rp_cpu_latent_attention, &args, 1), RP_E_SHAPE,
        "latent_attention: q_rope must be f32 [r,t,h] with contiguous rows, for the r of key and the t and h of q: q "
        "f32 [16,2,3], latent f16 [16,9], key f16 [4,9], pos i32 [2], q_rope f32 [4,2,2], result f32 [16,2,3]");
    args     = sound;
    args.dst = tensor(RP_F32, y, 16, 3, 2, 1);
    REFUSED(run_workers(rp_cpu_latent_attention, &args, 1), RP_E_SHAPE,
            "latent_attention: the result must be f32 of the shape of q: q f32 [16,2,3], latent f16 [16,9], key f16 "
            "[4,9], pos i32 [2], q_rope f32 [4,2,3], result f32 [16,3,2]");
    args        = sound;
    args.params = &to;
    REFUSED(run_workers(rp_cpu_latent_attention, &args, 1), RP_E_SHAPE,
            "latent_attention: latent vectors must be whole blocks of 32 where the result is q8_act: q f32 [16,2,3], "
            "latent f16 [16,9], key f16 [4,9], pos i32 [2], q_rope f32 [4,2,3], result f32 [16,2,3]");
}
