/* The op ssm_scan against the recurrence in double, written from its formulas; and tokens in chunks against all at
 * once, bit for bit. */
#include "tests/ops/recurrent/chunks.h"

/* Shape of a call, and its operands. */
typedef struct Scan {
    int64_t p, heads, n, groups, tokens;
    float  *x, *z, *dt, *b, *c, *a, *d, *bias, *state, *y;
} Scan;

static Scan scan_of(int64_t p, int64_t heads, int64_t n, int64_t groups, int64_t tokens) {
    const size_t channels = (size_t)(p * heads * tokens), inputs = (size_t)(n * groups * tokens);
    Scan         s = {.p = p, .heads = heads, .n = n, .groups = groups, .tokens = tokens};
    s.x = random_floats(channels, 1), s.z = random_floats(channels, 2);
    s.dt = random_floats((size_t)(heads * tokens), 3);
    s.b = random_floats(inputs, 4), s.c = random_floats(inputs, 5);
    s.a = random_floats((size_t)heads, 6), s.d = random_floats((size_t)heads, 7);
    s.bias  = random_floats((size_t)heads, 8);
    s.state = random_floats((size_t)(n * p * heads * SLOTS), 9);
    s.y     = malloc(channels * sizeof(float));
    for (int64_t h = 0; h < heads; h++) s.a[h] = -0.5f - fabsf(s.a[h]); /* the state decays */
    return s;
}

static void scan_free(Scan *s) {
    free(s->x), free(s->z), free(s->dt), free(s->b), free(s->c), free(s->a), free(s->d), free(s->bias), free(s->state);
    free(s->y);
}

/* Tokens first to first + t - 1. */
static RpOpArgs args_of(const void *operands, int64_t first, int64_t t, int32_t *slots) {
    const Scan   *s        = operands;
    const int64_t channels = first * s->p * s->heads, inputs = first * s->n * s->groups;
    return (RpOpArgs){
        .dst = tensor(RP_F32, s->y + channels, s->p, s->heads, t, 1),
        .src = {tensor(RP_F32, s->x + channels, s->p, s->heads, t, 1),
                tensor(RP_F32, s->z + channels, s->p, s->heads, t, 1),
                tensor(RP_F32, s->dt + first * s->heads, s->heads, t, 1, 1),
                tensor(RP_F32, s->b + inputs, s->n, s->groups, t, 1),
                tensor(RP_F32, s->c + inputs, s->n, s->groups, t, 1), tensor(RP_F32, s->a, 1, s->heads, 1, 1),
                tensor(RP_F32, s->d, 1, s->heads, 1, 1), tensor(RP_F32, s->bias, s->heads, 1, 1, 1),
                tensor(RP_F32, s->state, s->n * s->p * s->heads, SLOTS, 1, 1), tensor(RP_I32, slots, t + 1, 1, 1, 1)}
    };
}

/* One token of one head: S [n,p]. */
static void reference_step(const Scan *s, int64_t h, int64_t t, double *S, double *y) {
    const int64_t p = s->p, n = s->n, group = h / (s->heads / s->groups);
    const float  *x = s->x + (t * s->heads + h) * p, *z = s->z + (t * s->heads + h) * p;
    const float  *b = s->b + (t * s->groups + group) * n, *c = s->c + (t * s->groups + group) * n;
    const double  e = log(1.0 + exp((double)(s->dt[t * s->heads + h] + s->bias[h]))), g = exp((double)s->a[h] * e);
    for (int64_t j = 0; j < p; j++) {
        double sum = (double)s->d[h] * (double)x[j];
        for (int64_t i = 0; i < n; i++) {
            S[i * p + j] = g * S[i * p + j] + (double)b[i] * e * (double)x[j];
            sum += (double)c[i] * S[i * p + j];
        }
        y[j] = sum * (double)z[j] / (1.0 + exp(-(double)z[j]));
    }
}

typedef struct Shape {
    int64_t p, heads, n, groups, tokens;
    int32_t from;
} Shape;

static void check(Shape w) {
    Scan          s       = scan_of(w.p, w.heads, w.n, w.groups, w.tokens);
    const int64_t of_slot = w.n * w.p * w.heads, of_token = w.p * w.heads;
    double       *want = malloc((size_t)(of_token * w.tokens) * sizeof *want), *S = calloc((size_t)of_slot, sizeof *S);
    int32_t       slots[MAX_TOKENS + 1];
    keep_last(slots, w.from, w.tokens);
    for (int64_t i = 0; i < of_slot && w.from >= 0; i++) S[i] = (double)s.state[(int64_t)w.from * of_slot + i];
    for (int64_t t = 0; t < w.tokens; t++)
        for (int64_t h = 0; h < w.heads; h++)
            reference_step(&s, h, t, S + h * w.n * w.p, want + t * of_token + h * w.p);
    const RpOpArgs args = args_of(&s, 0, w.tokens, slots);
    run_variants(rp_cpu_ssm_scan, &args);
    expect_near(s.y, want, (size_t)(of_token * w.tokens), 1e-5);
    expect_near(s.state + of_slot, S, (size_t)of_slot, 4e-6);
    free(want), free(S);
    scan_free(&s);
}

Test(ssm_scan, follows_the_recurrence) {
    check((Shape){16, 4, 16, 2, 9, 0});
    check((Shape){64, 2, 128, 1, 3, -1});
    check((Shape){64, 3, 64, 3, 1, 1}); /* from and to one slot */
    check((Shape){40, 6, 8, 2, 4, 2});  /* a block and a rest of channels */
    check((Shape){7, 1, 9, 1, 3, -1});
    check((Shape){32, 2, 256, 1, 2, 0});
    check((Shape){80, 2, 40, 1, 1, 0}); /* a decode: a wide block and a narrow one */
}

/* dt + bias above 20, where log(1 + exp(x)) is x, and far below 0, where the state stays. */
Test(ssm_scan, gates_may_be_large) {
    for (int k = 0; k < 3; k++) {
        Scan    s        = scan_of(8, 1, 4, 1, 1);
        int32_t slots[2] = {0, 1};
        double  S[32], y[8];
        s.bias[0] = k == 0 ? 25.0f : k == 1 ? -80.0f : 100.0f;
        s.a[0]    = k == 2 ? -20.0f : -0.05f;
        for (int i = 0; i < 8; i++) s.x[i] *= 0.01f;
        for (int i = 0; i < 32; i++) S[i] = (double)s.state[i];
        reference_step(&s, 0, 0, S, y);
        const RpOpArgs args = args_of(&s, 0, 1, slots);
        run_variants(rp_cpu_ssm_scan, &args);
        expect_near(s.y, y, 8, 1e-5);
        expect_near(s.state + 32, S, 32, 1e-5);
        scan_free(&s);
    }
}

static void check_chunks(int64_t p, int64_t n, bool one_slot) {
    Scan            s  = scan_of(p, 2, n, 1, CHUNKED_TOKENS);
    const ChunkedOp op = {rp_cpu_ssm_scan,    args_of, &s, s.y, s.state, (size_t)(p * 2 * CHUNKED_TOKENS),
                          (size_t)(n * p * 2)};
    expect_chunks_alike(&op, one_slot);
    scan_free(&s);
}

Test(ssm_scan, tokens_in_chunks_give_the_bits_of_all_at_once) {
    check_chunks(32, 16, false);
    check_chunks(32, 16, true);
    check_chunks(48, 5, false);
    check_chunks(80, 40, false);
}

Test(ssm_scan, sequences_have_the_bits_that_they_have_alone) {
    for (int64_t p = 32; p <= 48; p += 16) {
        Scan            s  = scan_of(p, 2, 16, 1, CHUNKED_TOKENS);
        const ChunkedOp op = {rp_cpu_ssm_scan,     args_of, &s, s.y, s.state, (size_t)(p * 2 * CHUNKED_TOKENS),
                              (size_t)(16 * p * 2)};
        expect_sequences_apart(&op, RP_SOURCE(ssm_scan, starts));
        scan_free(&s);
    }
}

/* The state after each of several tokens, from one call: those of separate calls. */
Test(ssm_scan, each_token_may_have_a_slot) {
    Scan         a = scan_of(32, 2, 8, 2, 3), b = scan_of(32, 2, 8, 2, 3);
    const size_t of_slot = 8 * 32 * 2;
    int32_t      all[4]  = {-1, 2, 0, 1};
    for (int64_t t = 0; t < 3; t++) {
        int32_t        one[2] = {t == 0 ? -1 : all[t], all[t + 1]};
        const RpOpArgs args   = args_of(&a, t, 1, one);
        run_variants(rp_cpu_ssm_scan, &args);
    }
    const RpOpArgs args = args_of(&b, 0, 3, all);
    run_variants(rp_cpu_ssm_scan, &args);
    cr_expect_arr_eq(a.state, b.state, 3 * of_slot * sizeof(float));
    cr_expect_arr_eq(a.y, b.y, 3 * 64 * sizeof(float));
    scan_free(&a), scan_free(&b);
}

Test(ssm_scan, padding_leaves_the_state_alone) {
    Scan           s        = scan_of(16, 2, 16, 1, 5);
    int32_t        slots[6] = {0, -1, -1, 2, -1, -1};
    float          padded[32 * 5], state[512];
    const RpOpArgs all = args_of(&s, 0, 5, slots), three = args_of(&s, 0, 3, slots);
    run_variants(rp_cpu_ssm_scan, &all);
    memcpy(padded, s.y, sizeof padded), memcpy(state, s.state + 2 * 512, sizeof state);
    memset(s.state + 2 * 512, 0, sizeof state);
    run_variants(rp_cpu_ssm_scan, &three);
    cr_expect_arr_eq(s.y, padded, 96 * sizeof(float));
    cr_expect_arr_eq(s.state + 2 * 512, state, sizeof state);
    for (int i = 96; i < 160; i++) cr_expect_eq(padded[i], 0.0f, "element %d is %g", i, (double)padded[i]);
    scan_free(&s);
}

Test(ssm_scan, refuses_what_does_not_fit) {
    Scan     s        = scan_of(8, 4, 2, 2, 1);
    int32_t  slots[2] = {0, 5};
    RpOpArgs args     = args_of(&s, 0, 1, slots);
    REFUSED(run_workers(rp_cpu_ssm_scan, &args, 1), RP_E_ARG, "ssm_scan: slot 5, the state has 3");
    args.ssm_scan.dt = tensor(RP_F32, s.dt, 3, 1, 1, 1);
    REFUSED(
        run_workers(rp_cpu_ssm_scan, &args, 1), RP_E_SHAPE,
        "ssm_scan: dt must be f32 [heads,t] with contiguous rows: x f32 [8,4], z f32 [8,4], dt f32 [3], b f32 [2,2], "
        "c f32 [2,2], a f32 [1,4], d f32 [1,4], bias f32 [4], state f32 [64,3], slots i32 [2], result f32 [8,4]");
    scan_free(&s);
}
