/* The fused op latent: queries of latent attention from those of each head, and the stores of latent vector and key.
 * Bit for bit against the single ops (fused.h), and against the formula in double. */
#include "tests/support/fused.h"

enum { POS = 3, CONTEXT = 5 };

/* Stores f32 x into row pos of a cache. */
static void unfused_store(Runner *run, RpTensorView cache, RpTensorView x, RpTensorView pos) {
    const RpOpArgs args = {
        .dst = cache, .src = {x, cache, pos}
    };
    run(rp_cpu_copy, &args);
}

static RpTensorView unfused_rope(Runner *run, const RpOpArgs *as, float *x, float *y) {
    const RpOpParams   p    = {.rope = as->params->latent.rope};
    const RpTensorView to   = floats(y, p.rope.n_dims, 1);
    const RpOpArgs     args = {
            .dst = to, .src = {floats(x, p.rope.n_dims, 1), as->latent.pos, as->latent.factors},
                 .params = &p
    };
    run(rp_cpu_rope, &args);
    return to;
}

static void unfused(Runner *run, const RpOpArgs *as) {
    const RpTensorView  *k_b = &as->latent.k_b;
    const RpLatentParams p   = as->params->latent;
    const int64_t        d = k_b->ne[0], n = k_b->ne[1], heads = k_b->ne[2], r = p.rope.n_dims;
    float               *q = as->latent.q.data, *kv = as->latent.kv.data, *y = as->dst.data;
    for (int64_t h = 0; h < heads; h++) {
        const RpColumnParams round  = {.round = p.round};
        const RpTensorView   column = unfused_column(run, floats(q + h * (d + r), d, 1), (RpTensorView){0}, &round);
        RpTensorView         w      = *k_b;
        w.data = (char *)w.data + (size_t)h * w.nb[2], w.ne[2] = 1;
        run_op(run, rp_cpu_mul_mat, floats(y + h * n, n, 1), (RpOpParams){0}, w, column);
        unfused_rope(run, as, q + h * (d + r) + d, y + heads * n + h * r);
        free(column.data);
    }
    RpTensorView latent = new_floats(n, 1), key = new_floats(r, 1);
    run_op(run, rp_cpu_rms_norm, latent, (RpOpParams){.rms_norm = {.eps = p.eps}}, floats(kv, n, 1), as->latent.norm);
    unfused_rope(run, as, kv + n, key.data);
    const RpTensorView row = rp_is_present(&as->latent.rows) ? as->latent.rows : as->latent.pos;
    unfused_store(run, as->latent.latent, latent, row);
    unfused_store(run, as->latent.key, key, row);
    free(latent.data), free(key.data);
}

typedef struct Case {
    RpDtype    type;
    int64_t    n; /* elements of a head that k_b multiplies: d of the op */
    int64_t    rows, heads;
    int32_t    r, pos, row; /* row: of the caches, where it is apart from pos */
    RpRopeMode mode;
    bool       weight, factors, quantize, quantized, apart;
} Case;

static void check(Case c) {
    const int64_t head = c.n + c.r, all = (c.rows + c.r) * c.heads;
    float        *q = random_floats((size_t)(head * c.heads), 41), *kv = random_floats((size_t)(c.rows + c.r), 42),
          *norm = random_floats((size_t)c.rows, 43), *factors = random_floats((size_t)c.r / 2, 44),
          *y         = malloc((size_t)all * 4);
    char     *k_b    = random_weights(c.type, c.n, c.rows * c.heads, 45);
    uint16_t *latent = calloc((size_t)(c.rows * CONTEXT), 2), *key = calloc((size_t)(c.r * CONTEXT), 2);
    for (int i = 0; i < c.r / 2; i++) factors[i] = 2.0f + factors[i];
    const RpOpParams p = {
        .latent = {
                   .round = c.quantize,
                   .eps   = 1e-5f,
                   .rope  = {.n_dims = c.r, .mode = c.mode, .freq_base = 1e4f, .freq_scale = 0.5f, .attn_factor = 1.0f}}
    };
    RpOpArgs args = {
        .dst    = floats(y, all, 1),
        .src    = {VIEW(c.type, k_b, c.n, c.rows, c.heads, 1), floats(q, head, c.heads), floats(kv, c.rows + c.r, 1),
                   tensor(RP_I32, &c.pos, 1, 1, 1, 1), VIEW(RP_F16, latent, c.rows, CONTEXT, 1, 1),
                   VIEW(RP_F16, key, c.r, CONTEXT, 1, 1)},
        .params = &p
    };
    if (c.weight) args.latent.norm = floats(norm, c.rows, 1);
    if (c.apart) args.latent.rows = tensor(RP_I32, &c.row, 1, 1, 1, 1);
    if (c.factors) args.latent.factors = floats(factors, c.r / 2, 1);
    check_fused(rp_cpu_latent, &args, unfused);
    free(q), free(kv), free(norm), free(factors), free(y), free(k_b), free(latent), free(key);
}

DEFINE_FOR_ALL_TYPES(1, 40, 128);

Test(latent, is_the_single_ops) {
    for_all_types((Case){.rows = 21, .heads = 3, .r = 8, .pos = POS, .weight = true});
    for_all_types((Case){.rows = 6, .heads = 2, .r = 6, .pos = POS, .mode = RP_ROPE_NEOX, .factors = true});
}

Test(latent, quantises_each_head) {
    for_all_types((Case){.rows = 21, .heads = 3, .r = 8, .pos = POS, .weight = true, .quantize = true});
}

/* The position of a padding token stores nothing, but queries are rotated. */
Test(latent, stores_nothing_at_no_position) {
    check((Case){.type = RP_F16, .n = 32, .rows = 16, .heads = 2, .r = 4, .pos = -1});
    check((Case){.type = RP_Q8_0, .n = 32, .rows = 16, .heads = 2, .r = 4, .pos = -1, .quantize = true});
}

/* A cache of blocks: the row is apart from the position, which may be larger than the cache. */
Test(latent, stores_in_the_row_that_is_given) {
    for (int32_t row = -1; row < CONTEXT; row++)
        check((Case){.type  = RP_F16,
                     .n     = 32,
                     .rows  = 16,
                     .heads = 2,
                     .r     = 4,
                     .pos   = row == 2 ? 70 : 1,
                     .row   = row,
                     .apart = true});
}

/* On the device: several row tiles, rows that warps share, the sizes of real models. */
Test(latent, takes_any_shape) {
    check((Case){
        .type = RP_Q8_0, .n = 128, .rows = 512, .heads = 2, .r = 64, .pos = POS, .weight = true, .quantize = true});
    check((Case){.type = RP_BF16, .n = 1600, .rows = 9, .heads = 1, .r = 2, .pos = 0, .weight = true});
    check((Case){.type = RP_F32, .n = 7, .rows = 300, .heads = 5, .r = 62, .pos = POS, .mode = RP_ROPE_NEOX});
}

Test(latent, computes_the_documented_formula) {
    enum { D = 12, N = 5, R = 4, H = 2, HEAD = D + R };
    float *q = random_floats(HEAD * H, 60), *kv = random_floats(N + R, 61), *k_b = random_floats(D * N * H, 62),
          *norm                          = random_floats(N, 63), y[(N + R) * H], stored[N + R];
    uint16_t         latent[N * CONTEXT] = {0}, key[R * CONTEXT] = {0};
    int32_t          pos     = POS;
    double           squares = 0.0, want[(N + R) * H], cached[N + R];
    const RpOpParams p       = {
              .latent = {.eps = 1e-5f, .rope = {.n_dims = R, .freq_base = 100.0f, .freq_scale = 1.0f, .attn_factor = 1.0f}}
    };
    const RpOpArgs args = {
        .dst    = floats(y, (N + R) * H, 1),
        .src    = {VIEW(RP_F32, k_b, D, N, H, 1), floats(q, HEAD, H), floats(kv, N + R, 1),
                   tensor(RP_I32, &pos, 1, 1, 1, 1), VIEW(RP_F16, latent, N, CONTEXT, 1, 1),
                   VIEW(RP_F16, key, R, CONTEXT, 1, 1), floats(norm, N, 1)},
        .params = &p
    };
    run_variants(rp_cpu_latent, &args);
    for (int h = 0; h < H; h++)
        for (int m = 0; m < N; m++) {
            want[N * h + m] = 0.0;
            for (int k = 0; k < D; k++) want[N * h + m] += (double)k_b[D * (N * h + m) + k] * (double)q[HEAD * h + k];
        }
    for (int h = 0; h <= H; h++) /* the heads of q, then the key */
        for (int i = 0; i < R; i += 2) {
            const float *x     = h < H ? q + HEAD * h + D : kv + N;
            double      *to    = h < H ? want + N * H + R * h : cached + N;
            const double angle = POS * pow(100.0, -(double)i / R);
            to[i]              = (double)x[i] * cos(angle) - (double)x[i + 1] * sin(angle);
            to[i + 1]          = (double)x[i] * sin(angle) + (double)x[i + 1] * cos(angle);
        }
    for (int i = 0; i < N; i++) squares += (double)kv[i] * (double)kv[i];
    for (int i = 0; i < N; i++) cached[i] = (double)kv[i] * (double)norm[i] / sqrt(squares / N + 1e-5);
    expect_near(y, want, (N + R) * H, 1e-5);
    rp_dequantize_row(RP_F16, latent + N * POS, N, stored);
    rp_dequantize_row(RP_F16, key + R * POS, R, stored + N);
    expect_near(stored, cached, N + R, 1e-3); /* f16 */
    free(q), free(kv), free(k_b), free(norm);
}

Test(latent, refuses_what_does_not_fit) {
    static float     x[256], y[64];
    static uint16_t  cache[64];
    int32_t          pos = 0;
    const RpOpParams p = {.latent = {.rope = {.n_dims = 4, .freq_base = 100.0f}}}, none = {0};
    const RpOpArgs   sound = {
          .dst    = floats(y, 20, 1),
          .src    = {VIEW(RP_F32, x, 8, 6, 2, 1), floats(x, 12, 2), floats(x, 10, 1), tensor(RP_I32, &pos, 1, 1, 1, 1),
                     VIEW(RP_F16, cache, 6, 3, 1, 1), VIEW(RP_F16, cache, 4, 3, 1, 1)},
          .params = &p
    };
    RpOpArgs args = sound;
    OK(run_workers(rp_cpu_latent, &args, 1));
    args.latent.kv = floats(x, 9, 1);
    REFUSED(
        run_workers(rp_cpu_latent, &args, 1), RP_E_SHAPE,
        "latent: kv must be f32 [n+r], for the n of k_b and r rotated elements: k_b f32 [8,6,2], q f32 [12,2], kv f32 "
        "[9], pos i32 [1], latent f16 [6,3], key f16 [4,3], result f32 [20]");
    args     = sound;
    args.dst = floats(y, 21, 1);
    REFUSED(run_workers(rp_cpu_latent, &args, 1), RP_E_SHAPE,
            "latent: the result must be f32 [20]: k_b f32 [8,6,2], q f32 [12,2], kv f32 [10], pos i32 [1], latent f16 "
            "[6,3], key f16 [4,3], result f32 [21]");
    args        = sound;
    args.params = &none;
    REFUSED(run_workers(rp_cpu_latent, &args, 1), RP_E_SHAPE,
            "latent: n_dims = 0, freq_base = 0, eps = 0, round = 0: n_dims must be even, positive and at most 1024, "
            "and freq_base "
            "positive: k_b f32 [8,6,2], q f32 "
            "[12,2], "
            "kv f32 [10], pos i32 [1], latent f16 [6,3], key f16 [4,3], result f32 [20]");
}
