/* Ops on tokens of several sequences, whose keys and values lie in blocks of one cache. The reference is each sequence
 * alone in a cache of its own, whose results have tests of their own (tests/ops): the bits must be the same (I8).
 * cudasim_kv_blocks is the same with the kernels of the device. */
#include "tests/support/blocks.h"
#include "tests/support/case.h"
#include "tests/support/shape_rule.h"

enum { BLOCK = 32, WIDTH = 24, N_CTX = BLOCK * WIDTH, N_SEQ = 3, N_ROWS = BLOCK * WIDTH * N_SEQ, MAX_TOKENS = 64 };

/* The op with several workers, or on the device, in another thread order and with other constants for each `way`. */
static void run(RpOpKernel *kernel, const RpOpArgs *args, int way) {
#ifdef RP_TEST_CUDA
    void *before = calloc(1, rp_view_extent_bytes(&args->dst));
    cuda_order   = way % 3;
    sim_sched(way % 3, 1);
    OK(cuda_run(kernel, args, before));
    free(before);
#else
    OK(run_workers(kernel, args, way));
#endif
}

/* Tokens of a step: their sequences and positions. */
typedef struct Tokens {
    int     n;
    int32_t seq[MAX_TOKENS], pos[MAX_TOKENS];
    int32_t table[N_SEQ][WIDTH];
} Tokens;

/* Blocks of all sequences in a mixed order. */
static void mix_blocks(Tokens *t) {
    for (int s = 0; s < N_SEQ; s++)
        for (int i = 0; i < WIDTH; i++) t->table[s][i] = (i * N_SEQ + s) * 7 % (WIDTH * N_SEQ);
}

static void add_tokens(Tokens *t, int32_t seq, int32_t first, int n) {
    for (int i = 0; i < n; i++, t->n++) t->seq[t->n] = seq, t->pos[t->n] = first + i;
}

static int32_t row_of(const Tokens *t, int32_t seq, int32_t pos) {
    return t->table[seq][pos / BLOCK] * BLOCK + pos % BLOCK;
}

/* Rows of each sequence [N_SEQ][N_CTX], of n heads of `bytes`, into the blocks of one cache [bytes,N_ROWS,n]. */
static char *scattered(const Tokens *t, const char *rows, size_t bytes, size_t n) {
    char *cache = malloc(N_ROWS * bytes * n);
    memset(cache, 0x7f, N_ROWS * bytes * n);
    for (int32_t s = 0; s < N_SEQ; s++)
        for (int32_t i = 0; i < N_CTX; i++)
            for (size_t h = 0; h < n; h++)
                memcpy(cache + (h * N_ROWS + (size_t)row_of(t, s, i)) * bytes,
                       rows + ((size_t)(s * N_CTX + i) * n + h) * bytes, bytes);
    return cache;
}

/* Random rows of n elements, for all sequences. */
static char *random_rows(RpDtype type, int64_t n, uint64_t seed) {
    float *x    = random_floats((size_t)n * N_SEQ * N_CTX, seed);
    char  *rows = malloc(rp_row_bytes(type, n) * N_SEQ * N_CTX);
    for (int64_t i = 0; i < N_SEQ * N_CTX; i++)
        OK(rp_quantize_row(type, x + i * n, n, rows + (size_t)i * rp_row_bytes(type, n)));
    free(x);
    return rows;
}

/* Rows of n heads of `bytes` of one sequence [N_CTX], as its own cache [bytes,N_CTX,n]. */
static char *alone_of(const char *rows, size_t bytes, size_t n) {
    char *cache = malloc(N_CTX * bytes * n);
    for (size_t i = 0; i < N_CTX; i++)
        for (size_t h = 0; h < n; h++) memcpy(cache + (h * N_CTX + i) * bytes, rows + (i * n + h) * bytes, bytes);
    return cache;
}

/* f32 [dim,heads,n] in memory, seen as [dim,n,heads]. */
static RpTensorView by_token(float *x, int64_t dim, int64_t n, int64_t heads) {
    const size_t row = (size_t)dim * 4, token = row * (size_t)heads;
    return (RpTensorView){
        x, RP_F32, {dim, n,     heads, 1                },
          {4,   token, row,   token * (size_t)n}
    };
}

/* Runs the op with a result `to` of q8_act: it must be that of quantising the f32 result, which is contiguous. */
static void check_quantized(RpOpKernel *kernel, RpOpArgs args, RpDtype *dtype, RpTensorView to, int way) {
    const size_t bytes = (size_t)rp_view_rows(&to) * rp_row_bytes(RP_Q8_ACT, to.ne[0]);
    char        *want  = quantize_columns(args.dst.data, to.ne[0], rp_view_rows(&to));
    to.data            = malloc(bytes);
    args.dst           = to;
    *dtype             = RP_Q8_ACT;
    run(kernel, &args, way);
    *dtype = RP_F32;
    cr_assert_arr_eq(to.data, want, bytes, CASE(to.ne[0], to.ne[1], way));
    free(want), free(to.data);
}

static void check_attention(RpDtype type, int64_t dim, int64_t heads, int64_t kv, int32_t window, bool sinks,
                            Tokens *t) {
    const size_t head = rp_row_bytes(type, dim), n_kv = (size_t)kv, of_token = (size_t)(dim * heads);
    float       *q = random_floats(of_token * (size_t)t->n, 3), *y = malloc(of_token * (size_t)t->n * 4),
          *alone = malloc(of_token * (size_t)t->n * 4), *of_heads = random_floats((size_t)heads, 8);
    char *k = random_rows(type, dim * kv, 4), *v = random_rows(type, dim * kv, 5);
    char *k_cache = scattered(t, k, head, n_kv), *v_cache = scattered(t, v, head, n_kv);
    char *k_alone[N_SEQ], *v_alone[N_SEQ];
    for (size_t s = 0; s < N_SEQ; s++) {
        k_alone[s] = alone_of(k + s * N_CTX * head * n_kv, head, n_kv);
        v_alone[s] = alone_of(v + s * N_CTX * head * n_kv, head, n_kv);
    }
    RpOpParams p = {
        .attention = {.scale = 0.4f, .window = window, .block = BLOCK}
    };
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, dim, heads, t->n, 1),
        .src    = {by_token(q, dim, t->n, heads), tensor(type, k_cache, dim, N_ROWS, kv, 1),
                   tensor(type, v_cache, dim, N_ROWS, kv, 1), tensor(RP_I32, t->pos, t->n, 1, 1, 1)},
        .params = &p
    };
    args.attention.table = tensor(RP_I32, t->table, WIDTH, N_SEQ, 1, 1);
    args.attention.seq   = tensor(RP_I32, t->seq, t->n, 1, 1, 1);
    if (sinks) args.attention.sinks = tensor(RP_F32, of_heads, heads, 1, 1, 1);
    for (int i = 0; i < t->n; i++) {
        const RpOpParams one_p = {
            .attention = {.scale = 0.4f, .window = window}
        };
        RpOpArgs one = {
            .dst    = tensor(RP_F32, alone + of_token * (size_t)i, dim, heads, 1, 1),
            .src    = {by_token(q + of_token * (size_t)i, dim, 1, heads),
                       tensor(type, k_alone[t->seq[i]], dim, N_CTX, kv, 1),
                       tensor(type, v_alone[t->seq[i]], dim, N_CTX, kv, 1), tensor(RP_I32, t->pos + i, 1, 1, 1, 1)},
            .params = &one_p
        };
        one.attention.sinks = args.attention.sinks;
        run(rp_cpu_attention, &one, 2);
    }
    for (int way = 1; way <= 3; way++) {
        memset(y, -1, of_token * (size_t)t->n * 4);
        run(rp_cpu_attention, &args, way);
        for (int i = 0; i < t->n; i++)
            cr_assert_arr_eq(y + of_token * (size_t)i, alone + of_token * (size_t)i, of_token * 4,
                             "%s [%d,%d heads,%d], token %d of %d, way %d", rp_dtype_name(type), (int)dim, (int)heads,
                             (int)kv, i, t->n, way);
        if (dim % 32 == 0)
            check_quantized(rp_cpu_attention, args, &p.attention.dtype,
                            tensor(RP_Q8_ACT, NULL, dim * heads, t->n, 1, 1), way);
    }
    for (int s = 0; s < N_SEQ; s++) free(k_alone[s]), free(v_alone[s]);
    free(q), free(y), free(alone), free(k), free(v), free(k_cache), free(v_cache), free(of_heads);
}

/* One token of each sequence, parts of prompts beside them, and one token alone in a long context. */
static Tokens mixed(int which) {
    Tokens t = {0};
    mix_blocks(&t);
    if (which == 0) add_tokens(&t, 1, 40, 1), add_tokens(&t, 0, 0, 1), add_tokens(&t, 2, 700, 1);
    if (which == 1) add_tokens(&t, 2, 63, 20), add_tokens(&t, 0, 300, 1), add_tokens(&t, 1, 0, 33);
    if (which == 2) add_tokens(&t, 2, 767, 1);
    if (which == 3)
        add_tokens(&t, 0, 31, 2), add_tokens(&t, 1, 31, 2), add_tokens(&t, 0, 33, 1), add_tokens(&t, 1, -1, 1);
    return t;
}

Test(kv_blocks, attention_reads_the_blocks_of_each_sequence) {
    for (int i = 0; i < 4; i++) {
        Tokens t = mixed(i);
        check_attention(RP_F16, 64, 6, 2, 0, false, &t);
        check_attention(RP_Q8_0, 32, 4, 4, 0, true, &t);
        check_attention(RP_F16, 40, 3, 1, 50, false, &t);
    }
    Tokens few = mixed(0), many = mixed(1);
    check_attention(RP_F16, 128, 20, 2, 100, true, &few); /* on the device: several blocks for the heads of a token */
    check_attention(RP_F16, 128, 2, 2, 0, false, &many);  /* many tokens in a block */
    check_attention(RP_Q8_0, 64, 4, 2, 70, false, &many);
    check_attention(RP_Q8_0, 128, 3, 1, 0, false, &few);
    check_attention(RP_F16, 200, 2, 1, 0, false, &few);
    check_attention(RP_Q8_0, 512, 1, 1, 0, false, &few);
    check_attention(RP_F16, 128, 4, 2, 0, false, &few); /* the other kernels of the device */
    check_attention(RP_F16, 256, 9, 1, 0, false, &few);
    check_attention(RP_F16, 512, 1, 1, 0, false, &few);
    check_attention(RP_Q8_0, 128, 9, 1, 0, false, &few);
    check_attention(RP_Q8_0, 256, 1, 1, 0, false, &few);
    check_attention(RP_Q8_0, 256, 9, 1, 0, false, &few);
    check_attention(RP_F16, 96, 4, 2, 0, false, &few);
    check_attention(RP_F16, 96, 2, 2, 0, false, &many);
    check_attention(RP_F16, 256, 4, 1, 0, false, &few);
    check_attention(RP_F16, 200, 9, 1, 0, false, &few);
    check_attention(RP_F16, 300, 1, 1, 0, false, &few);
}

Test(kv_blocks, latent_attention_reads_the_blocks_of_each_sequence) {
    enum { N = 64, R = 16, HEADS = 20 };
    char *latent = random_rows(RP_F16, N, 4), *key = random_rows(RP_F16, R, 5);
    for (int which = 0; which < 4; which++) {
        Tokens       t   = mixed(which);
        const size_t n_q = (size_t)(N * HEADS * t.n);
        float *q = random_floats(n_q, 6), *rope = random_floats((size_t)(R * HEADS * t.n), 7), *y = malloc(n_q * 4),
              alone[N * HEADS];
        char      *latents = scattered(&t, latent, N * 2, 1), *keys = scattered(&t, key, R * 2, 1);
        RpOpParams p = {
            .latent_attention = {.scale = 0.3f, .block = BLOCK}
        };
        const RpOpParams one_p = {.latent_attention = {.scale = 0.3f}};
        RpOpArgs         args  = {
                     .dst    = by_token(y, N, t.n, HEADS),
                     .src    = {by_token(q, N, t.n, HEADS), tensor(RP_F16, latents, N, N_ROWS, 1, 1),
                                tensor(RP_F16, keys, R, N_ROWS, 1, 1), tensor(RP_I32, t.pos, t.n, 1, 1, 1),
                                by_token(rope, R, t.n, HEADS)},
                     .params = &p
        };
        args.latent_attention.table = tensor(RP_I32, t.table, WIDTH, N_SEQ, 1, 1);
        args.latent_attention.seq   = tensor(RP_I32, t.seq, t.n, 1, 1, 1);
        run(rp_cpu_latent_attention, &args, 2);
        for (int i = 0; i < t.n; i++) {
            const size_t   at  = (size_t)t.seq[i] * N_CTX;
            const RpOpArgs one = {
                .dst = by_token(alone, N, 1, HEADS),
                .src = {by_token(q + i * N * HEADS, N, 1, HEADS), tensor(RP_F16, latent + at * N * 2, N, N_CTX, 1, 1),
                        tensor(RP_F16, key + at * R * 2, R, N_CTX, 1, 1), tensor(RP_I32, t.pos + i, 1, 1, 1, 1),
                        by_token(rope + i * R * HEADS, R, 1, HEADS)},
                .params = &one_p
            };
            run(rp_cpu_latent_attention, &one, 3);
            cr_assert_arr_eq(y + i * N * HEADS, alone, sizeof alone, CASE(which, i));
        }
        args.dst = tensor(RP_F32, y, N, t.n, HEADS, 1);
        run(rp_cpu_latent_attention, &args, 2);
        check_quantized(rp_cpu_latent_attention, args, &p.latent_attention.dtype,
                        tensor(RP_Q8_ACT, NULL, N, t.n, HEADS, 1), 2);
        free(q), free(rope), free(y), free(latents), free(keys);
    }
    free(latent), free(key);
}

Test(kv_blocks, tables_that_do_not_fit_are_refused) {
    Tokens     t = mixed(0);
    char      *k = malloc(N_ROWS * 64);
    float      q[3 * 32], y[3 * 32];
    RpOpParams p = {
        .attention = {.scale = 1.0f, .block = BLOCK}
    };
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, 32, 1, 3, 1),
        .src    = {by_token(q, 32, 3, 1), tensor(RP_F16, k, 32, N_ROWS, 1, 1), tensor(RP_F16, k, 32, N_ROWS, 1, 1),
                   tensor(RP_I32, t.pos, 3, 1, 1, 1)},
        .params = &p
    };
    const RpTensorView table = tensor(RP_I32, t.table, WIDTH, N_SEQ, 1, 1), seq = tensor(RP_I32, t.seq, 3, 1, 1, 1);
    args.attention.table = table, args.attention.seq = seq;
    t.seq[1] = 3;
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_ARG, "attention: token 1 is of sequence 3, the table has 3");
    t.seq[1]      = 0;
    t.table[2][7] = 72;
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_ARG,
            "attention: block 7 of sequence 2 is 72, the cache has 72");
    t.table[2][7]      = 0;
    args.attention.seq = (RpTensorView){0};
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "table, seq and block must be given together or not at all");
    args.attention.seq = tensor(RP_I32, t.seq, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "seq must be i32, one for each token of q, its dimension 1");
    args.attention.seq   = seq;
    args.attention.table = tensor(RP_F32, t.table, WIDTH, N_SEQ, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "table must be i32, a row of blocks for each sequence");
    args.attention.table = table;
    p.attention.block    = 48;
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE,
            "block must be a multiple of 32, and k must consist of whole blocks");
    p.attention.block = BLOCK;
    args.attention.k = args.attention.v = tensor(RP_F32, k, 32, 256, 1, 1);
    REFUSED(run_workers(rp_cpu_attention, &args, 1), RP_E_SHAPE, "k must not be f32 where there is a table");
    free(k);
}

/* Tokens of three sequences, each from its own state, against each sequence alone. */
Test(kv_blocks, recurrent_ops_start_each_sequence_from_its_state) {
    enum { CHANNELS = 20, TAPS = 4, T = 7, SLOTS = 5, WINDOW = CHANNELS * (TAPS - 1) };
    static const int32_t first[] = {0, 1, 5, T}, from[] = {2, -1, 0}, to[] = {3, 4, 0}; /* the last one in place */
    float               *x = random_floats(CHANNELS * T, 1), *w = random_floats(CHANNELS * TAPS, 2),
          *window = random_floats(WINDOW * SLOTS, 3);
    float      before[WINDOW * SLOTS], y[CHANNELS * T], alone[CHANNELS * T];
    int32_t    slots[T + 1] = {-1}, starts[T];
    RpOpParams p            = {.causal_conv = {.silu = 1}};
    memcpy(before, window, sizeof before);
    for (int s = 0; s < 3; s++)
        for (int32_t t = first[s]; t < first[s + 1]; t++)
            starts[t] = t == first[s] ? from[s] : -2, slots[1 + t] = t + 1 == first[s + 1] ? to[s] : -1;
    RpOpArgs args = {
        .dst    = tensor(RP_F32, y, CHANNELS, T, 1, 1),
        .src    = {tensor(RP_F32, x, CHANNELS, T, 1, 1), tensor(RP_F32, w, TAPS, CHANNELS, 1, 1),
                   tensor(RP_F32, window, WINDOW, SLOTS, 1, 1), tensor(RP_I32, slots, T + 1, 1, 1, 1)},
        .params = &p
    };
    args.causal_conv.starts = tensor(RP_I32, starts, T, 1, 1, 1);
    run(rp_cpu_causal_conv, &args, 2);
    for (int s = 0; s < 3; s++) {
        const int32_t n             = first[s + 1] - first[s];
        int32_t       of_one[T + 1] = {from[s], -1, -1, -1, -1, -1, -1, -1};
        float         state[WINDOW * SLOTS];
        memcpy(state, before, sizeof state);
        of_one[n]          = to[s];
        const RpOpArgs one = {
            .dst = tensor(RP_F32, alone, CHANNELS, n, 1, 1),
            .src = {tensor(RP_F32, x + first[s] * CHANNELS, CHANNELS, n, 1, 1), tensor(RP_F32, w, TAPS, CHANNELS, 1, 1),
                    tensor(RP_F32, state, WINDOW, SLOTS, 1, 1), tensor(RP_I32, of_one, n + 1, 1, 1, 1)},
            .params = &p
        };
        run(rp_cpu_causal_conv, &one, 1);
        cr_expect_arr_eq(y + first[s] * CHANNELS, alone, (size_t)(n * CHANNELS) * 4, CASE(s));
        cr_expect_arr_eq(window + to[s] * WINDOW, state + to[s] * WINDOW, WINDOW * 4, CASE(s));
    }
    starts[0] = -2;
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_ARG,
            "causal_conv: token 0 starts from slot -2, the state has 5");
    starts[0] = 5;
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_ARG,
            "causal_conv: token 0 starts from slot 5, the state has 5");
    args.causal_conv.starts = tensor(RP_I32, starts, T - 1, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_SHAPE, "starts must be i32, one for each token");
    free(x), free(w), free(window);
}
