/* The op gated_delta against the recurrence in double, written from its formulas; and tokens in chunks against all at
 * once, bit for bit. */
#include "tests/ops/recurrent/chunks.h"

/* Shape of a call, and its operands. */
typedef struct Rule {
    int64_t    d, keys, heads, tokens;
    float     *q, *k, *v, *alpha, *beta, *a, *dt, *state, *y;
    RpOpParams params;
} Rule;

static Rule rule_of(int64_t d, int64_t keys, int64_t heads, int64_t tokens, bool grouped) {
    const size_t of_keys = (size_t)(d * keys * tokens), of_heads = (size_t)(d * heads * tokens),
                 gates = (size_t)(heads * tokens);
    Rule r             = {.d = d, .keys = keys, .heads = heads, .tokens = tokens};
    r.q = random_floats(of_keys, 1), r.k = random_floats(of_keys, 2), r.v = random_floats(of_heads, 3);
    r.alpha = random_floats(gates, 4), r.beta = random_floats(gates, 5);
    r.a = random_floats((size_t)heads, 6), r.dt = random_floats((size_t)heads, 7);
    r.state  = random_floats((size_t)(d * d * heads * SLOTS), 8);
    r.y      = malloc(of_heads * sizeof(float));
    r.params = (RpOpParams){
        .gated_delta = {.eps = 1e-6f, .grouped = grouped}
    };
    for (int64_t h = 0; h < heads; h++) r.a[h] = -0.5f - fabsf(r.a[h]); /* the state decays */
    return r;
}

static void rule_free(Rule *r) {
    free(r->q), free(r->k), free(r->v), free(r->alpha), free(r->beta), free(r->a), free(r->dt), free(r->state);
    free(r->y);
}

/* Tokens first to first + n - 1. Grouped gates are [heads of a key, keys, t], as some models have them. */
static RpOpArgs args_of(const void *operands, int64_t first, int64_t n, int32_t *slots) {
    const Rule   *r       = operands;
    const int64_t of_keys = first * r->d * r->keys, of_heads = first * r->d * r->heads, gates = first * r->heads,
                  n1 = r->params.gated_delta.grouped ? r->keys : 1, n0 = r->heads / n1;
    return (RpOpArgs){
        .dst    = tensor(RP_F32, r->y + of_heads, r->d, r->heads, n, 1),
        .src    = {tensor(RP_F32, r->q + of_keys, r->d, r->keys, n, 1),
                   tensor(RP_F32, r->k + of_keys, r->d, r->keys, n, 1),
                   tensor(RP_F32, r->v + of_heads, r->d, r->heads, n, 1), tensor(RP_F32, r->alpha + gates, n0, n1, n, 1),
                   tensor(RP_F32, r->beta + gates, n0, n1, n, 1), tensor(RP_F32, r->a, r->heads, 1, 1, 1),
                   tensor(RP_F32, r->dt, r->heads, 1, 1, 1), tensor(RP_F32, r->state, r->d * r->d * r->heads, SLOTS, 1, 1),
                   tensor(RP_I32, slots, n + 1, 1, 1, 1)},
        .params = &r->params
    };
}

static double length_of(const float *x, int64_t n, double eps) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum + eps);
}

/* One token of one head: S [d,d], rows of keys. */
static void reference_step(const Rule *r, int64_t h, int64_t t, double *S, double *y) {
    const int64_t d = r->d, key = r->params.gated_delta.grouped ? h / (r->heads / r->keys) : h % r->keys;
    const float  *q = r->q + (t * r->keys + key) * d, *k = r->k + (t * r->keys + key) * d,
                *v   = r->v + (t * r->heads + h) * d;
    const double eps = (double)r->params.gated_delta.eps, gate = (double)(r->alpha[t * r->heads + h] + r->dt[h]);
    const double g    = exp((double)r->a[h] * log(1.0 + exp(gate))),
                 b    = 1.0 / (1.0 + exp(-(double)r->beta[t * r->heads + h]));
    const double of_k = length_of(k, d, eps), of_q = length_of(q, d, eps) * sqrt((double)d);
    for (int64_t i = 0; i < d * d; i++) S[i] *= g;
    for (int64_t j = 0; j < d; j++) {
        double held = 0.0;
        for (int64_t i = 0; i < d; i++) held += S[i * d + j] * (double)k[i] / of_k;
        for (int64_t i = 0; i < d; i++) S[i * d + j] += (double)k[i] / of_k * b * ((double)v[j] - held);
        y[j] = 0.0;
        for (int64_t i = 0; i < d; i++) y[j] += S[i * d + j] * (double)q[i] / of_q;
    }
}

static void check(int64_t d, int64_t keys, int64_t heads, int64_t tokens, bool grouped, int32_t from) {
    Rule          r       = rule_of(d, keys, heads, tokens, grouped);
    const int64_t of_slot = d * d * heads;
    double       *want = malloc((size_t)(d * heads * tokens) * sizeof *want), *S = calloc((size_t)of_slot, sizeof *S);
    int32_t       slots[MAX_TOKENS + 1];
    keep_last(slots, from, tokens);
    for (int64_t i = 0; i < of_slot && from >= 0; i++) S[i] = (double)r.state[(int64_t)from * of_slot + i];
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++) reference_step(&r, h, t, S + h * d * d, want + (t * heads + h) * d);
    const RpOpArgs args = args_of(&r, 0, tokens, slots);
    run_variants(rp_cpu_gated_delta, &args);
    expect_near(r.y, want, (size_t)(d * heads * tokens), 4e-6);
    expect_near(r.state + of_slot, S, (size_t)of_slot, 4e-6);
    free(want), free(S);
    rule_free(&r);
}

Test(gated_delta, follows_the_recurrence) {
    check(16, 2, 4, 9, false, 0);
    check(16, 2, 4, 5, true, -1);
    check(128, 1, 2, 3, false, 2);
    check(64, 1, 1, 1, false, 1); /* from and to one slot */
    check(40, 2, 6, 4, true, 0);  /* a block and a rest of columns */
    check(7, 1, 1, 3, false, -1);
    check(256, 1, 1, 2, false, 0);
    check(96, 1, 3, 19, false, 0); /* several blocks of columns, and more tokens than are normalised at a time */
    check(160, 1, 1, 1, false, 1); /* a decode: a wide block and a narrow one */
}

/* alpha + dt above 20, where log(1 + exp(x)) is x, and far below 0, where the state does not decay. */
Test(gated_delta, gates_may_be_large) {
    for (int k = 0; k < 3; k++) {
        Rule    r        = rule_of(8, 1, 1, 1, false);
        int32_t slots[2] = {0, 1};
        double  S[64], y[8];
        r.dt[0] = k == 0 ? 25.0f : k == 1 ? -80.0f : 100.0f;
        r.a[0]  = k == 2 ? -20.0f : -0.05f;
        for (int i = 0; i < 64; i++) S[i] = (double)r.state[i];
        reference_step(&r, 0, 0, S, y);
        const RpOpArgs args = args_of(&r, 0, 1, slots);
        run_variants(rp_cpu_gated_delta, &args);
        expect_near(r.y, y, 8, 4e-6);
        expect_near(r.state + 64, S, 64, 4e-6);
        rule_free(&r);
    }
}

static void check_chunks(int64_t d, bool one_slot) {
    Rule            r  = rule_of(d, 1, 2, CHUNKED_TOKENS, false);
    const ChunkedOp op = {rp_cpu_gated_delta, args_of, &r, r.y, r.state, (size_t)(d * 2 * CHUNKED_TOKENS),
                          (size_t)(d * d * 2)};
    expect_chunks_alike(&op, one_slot);
    rule_free(&r);
}

Test(gated_delta, tokens_in_chunks_give_the_bits_of_all_at_once) {
    check_chunks(32, false);
    check_chunks(32, true);
    check_chunks(48, false);
    check_chunks(160, false);
}

Test(gated_delta, sequences_have_the_bits_that_they_have_alone) {
    const int64_t dims[] = {32, 48, 160};
    for (int k = 0; k < 3; k++) {
        const int64_t   d  = dims[k];
        Rule            r  = rule_of(d, 1, 2, CHUNKED_TOKENS, false);
        const ChunkedOp op = {rp_cpu_gated_delta, args_of, &r, r.y, r.state, (size_t)(d * 2 * CHUNKED_TOKENS),
                              (size_t)(d * d * 2)};
        expect_sequences_apart(&op, RP_SOURCE(gated_delta, starts));
        rule_free(&r);
    }
}

/* The state after each of several tokens, from one call: those of separate calls. */
Test(gated_delta, each_token_may_have_a_slot) {
    Rule         a = rule_of(32, 2, 2, 3, false), b = rule_of(32, 2, 2, 3, false);
    const size_t of_slot = 32 * 32 * 2;
    int32_t      all[4]  = {-1, 2, 0, 1};
    for (int64_t t = 0; t < 3; t++) {
        int32_t        one[2] = {t == 0 ? -1 : all[t], all[t + 1]};
        const RpOpArgs args   = args_of(&a, t, 1, one);
        run_variants(rp_cpu_gated_delta, &args);
    }
    const RpOpArgs args = args_of(&b, 0, 3, all);
    run_variants(rp_cpu_gated_delta, &args);
    cr_expect_arr_eq(a.state, b.state, 3 * of_slot * sizeof(float));
    cr_expect_arr_eq(a.y, b.y, 3 * 64 * sizeof(float));
    rule_free(&a), rule_free(&b);
}

Test(gated_delta, padding_leaves_the_state_alone) {
    Rule           r        = rule_of(16, 1, 2, 5, false);
    int32_t        slots[6] = {0, -1, -1, 2, -1, -1};
    float          padded[32 * 5], state[512];
    const RpOpArgs all = args_of(&r, 0, 5, slots), three = args_of(&r, 0, 3, slots);
    run_variants(rp_cpu_gated_delta, &all);
    memcpy(padded, r.y, sizeof padded), memcpy(state, r.state + 2 * 512, sizeof state);
    memset(r.state + 2 * 512, 0, sizeof state);
    run_variants(rp_cpu_gated_delta, &three);
    cr_expect_arr_eq(r.y, padded, 96 * sizeof(float));
    cr_expect_arr_eq(r.state + 2 * 512, state, sizeof state);
    for (int i = 96; i < 160; i++) cr_expect_eq(padded[i], 0.0f, "element %d is %g", i, (double)padded[i]);
    rule_free(&r);
}

Test(gated_delta, refuses_what_does_not_fit) {
    Rule     r        = rule_of(8, 2, 4, 1, false);
    int32_t  slots[2] = {0, 5};
    RpOpArgs args     = args_of(&r, 0, 1, slots);
    REFUSED(run_workers(rp_cpu_gated_delta, &args, 1), RP_E_ARG, "gated_delta: slot 5, the state has 3");
    args.gated_delta.alpha = tensor(RP_F32, r.alpha, 3, 1, 1, 1);
    REFUSED(
        run_workers(rp_cpu_gated_delta, &args, 1), RP_E_SHAPE,
        "gated_delta: alpha and beta must be f32, one for each head of v and token: q f32 [8,2], k f32 [8,2], v f32 "
        "[8,4], alpha f32 [3], beta f32 [4], a f32 [4], dt f32 [4], state f32 [256,3], slots i32 [2], result f32 "
        "[8,4]");
    args                   = args_of(&r, 0, 1, slots);
    args.gated_delta.state = tensor(RP_F32, r.state, 255, 3, 1, 1);
    REFUSED(run_workers(rp_cpu_gated_delta, &args, 1), RP_E_SHAPE,
            "gated_delta: the state must be an f32 matrix, a row for each slot: q f32 [8,2], k f32 [8,2], v f32 [8,4], "
            "alpha f32 [4], beta f32 [4], a f32 [4], dt f32 [4], state f32 [255,3], slots i32 [2], result f32 [8,4]");
    rule_free(&r);
}
