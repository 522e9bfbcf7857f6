/* The op causal_conv, y[c,t] = open[c,t] * f(bias[c] + sum_j w[j,c] * gate[c,t-n+1+j] * x[c,t-n+1+j]), against the
 * formula in double; and tokens in chunks against all at once, bit for bit. */
#include "tests/ops/recurrent/chunks.h"

typedef struct Conv {
    int64_t    channels, taps, tokens;
    float     *x, *w, *bias, *window, *y;
    float     *gate, *open; /* with the rows of x, or NULL */
    RpOpParams params;
} Conv;

static Conv conv_of(int64_t channels, int64_t taps, int64_t tokens, bool biased, bool silu) {
    return (Conv){.channels = channels,
                  .taps     = taps,
                  .tokens   = tokens,
                  .x        = random_floats((size_t)(channels * tokens), 1),
                  .w        = random_floats((size_t)(channels * taps), 2),
                  .bias     = biased ? random_floats((size_t)channels, 3) : NULL,
                  .window   = random_floats((size_t)(channels * (taps - 1) * SLOTS), 4),
                  .y        = malloc((size_t)(channels * tokens) * sizeof(float)),
                  .params   = {.causal_conv = {.silu = silu}}};
}

static void conv_free(Conv *c) {
    free(c->x), free(c->w), free(c->bias), free(c->window), free(c->y), free(c->gate), free(c->open);
}

static Conv with_gates(Conv c) {
    c.gate = random_floats((size_t)(c.channels * c.tokens), 5);
    c.open = random_floats((size_t)(c.channels * c.tokens), 6);
    return c;
}

/* Tokens first to first + n - 1. */
static RpOpArgs args_of(const void *operands, int64_t first, int64_t n, int32_t *slots) {
    const Conv *c    = operands;
    RpOpArgs    args = {
           .dst    = tensor(RP_F32, c->y + first * c->channels, c->channels, n, 1, 1),
           .src    = {tensor(RP_F32, c->x + first * c->channels, c->channels, n, 1, 1),
                      tensor(RP_F32, c->w, c->taps, c->channels, 1, 1),
                      tensor(RP_F32, c->window, c->channels * (c->taps - 1), SLOTS, 1, 1),
                      tensor(RP_I32, slots, n + 1, 1, 1, 1)},
           .params = &c->params
    };
    if (c->bias != NULL) args.causal_conv.bias = tensor(RP_F32, c->bias, c->channels, 1, 1, 1);
    if (c->gate != NULL) args.causal_conv.gate = tensor(RP_F32, c->gate + first * c->channels, c->channels, n, 1, 1);
    if (c->open != NULL) args.causal_conv.open = tensor(RP_F32, c->open + first * c->channels, c->channels, n, 1, 1);
    return args;
}

/* Input of channel i before token t, from the window of a slot if t < 0. -1: zeros. */
static double input(const Conv *c, const float *window, int32_t from, int64_t i, int64_t t) {
    const int64_t at = t * c->channels + i;
    if (t >= 0) return c->gate != NULL ? (double)(c->x[at] * c->gate[at]) : (double)c->x[at];
    return from < 0 ? 0.0 : (double)window[((int64_t)from * (c->taps - 1) + c->taps - 1 + t) * c->channels + i];
}

static void check_conv(Conv c, int32_t from) {
    const int64_t channels = c.channels, taps = c.taps, tokens = c.tokens;
    const size_t  total = (size_t)(channels * tokens), rows = (size_t)(channels * (taps - 1) * SLOTS);
    double       *want = malloc(total * sizeof *want), *kept = malloc((size_t)(channels * (taps - 1)) * sizeof *kept);
    float        *before = memcpy(malloc(rows * sizeof(float)), c.window, rows * sizeof(float));
    int32_t       slots[MAX_TOKENS + 1];
    keep_last(slots, from, tokens);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < channels; i++) {
            double sum = c.bias != NULL ? (double)c.bias[i] : 0.0;
            for (int64_t j = 0; j < taps; j++)
                sum += (double)c.w[i * taps + j] * input(&c, before, from, i, t - taps + 1 + j);
            if (c.params.causal_conv.silu != 0) sum = sum / (1.0 + exp(-sum));
            want[t * channels + i] = c.open != NULL ? sum * (double)c.open[t * channels + i] : sum;
        }
    for (int64_t j = 0; j + 1 < taps; j++)
        for (int64_t i = 0; i < channels; i++)
            kept[j * channels + i] = input(&c, before, from, i, tokens - taps + 1 + j);
    const RpOpArgs args = args_of(&c, 0, tokens, slots);
    run_variants(rp_cpu_causal_conv, &args);
    expect_near(c.y, want, total, 1e-6);
    expect_near(c.window + channels * (taps - 1), kept, (size_t)(channels * (taps - 1)), 0.0);
    cr_expect_arr_eq(c.window, before, (size_t)(channels * (taps - 1)) * sizeof(float), "slot 0 was written");
    free(want), free(kept), free(before);
    conv_free(&c);
}

static void check(int64_t channels, int64_t taps, int64_t tokens, bool biased, bool silu, int32_t from) {
    check_conv(conv_of(channels, taps, tokens, biased, silu), from);
}

Test(causal_conv, sums_the_latest_inputs_of_each_channel) {
    check(70, 4, 9, false, true, 0);
    check(33, 4, 1, false, true, 2);
    check(16, 3, 2, true, false, -1);
    check(1, 2, 5, true, true, 1); /* from and to one slot */
    check(5, 8, 3, false, false, 0);
}

Test(causal_conv, multiplies_by_gates) {
    check_conv(with_gates(conv_of(70, 3, 9, false, false)), 0);
    check_conv(with_gates(conv_of(33, 3, 1, false, false)), 2);
    check_conv(with_gates(conv_of(16, 4, 5, true, true)), -1);
    Conv one = with_gates(conv_of(16, 4, 5, true, false)); /* the gate of x alone */
    free(one.open), one.open = NULL;
    check_conv(one, 1);
}

/* Every slot in turn, so that one call reads what an earlier one wrote. */
Test(causal_conv, tokens_in_chunks_give_the_bits_of_all_at_once) {
    Conv            c  = with_gates(conv_of(37, 4, CHUNKED_TOKENS, true, true));
    const ChunkedOp op = {rp_cpu_causal_conv, args_of, &c, c.y, c.window, 37 * CHUNKED_TOKENS, 37 * 3};
    expect_chunks_alike(&op, false);
    conv_free(&c);
}

Test(causal_conv, sequences_have_the_bits_that_they_have_alone) {
    Conv            c  = with_gates(conv_of(37, 4, CHUNKED_TOKENS, true, true));
    const ChunkedOp op = {rp_cpu_causal_conv, args_of, &c, c.y, c.window, 37 * CHUNKED_TOKENS, 37 * 3};
    expect_sequences_apart(&op, RP_SOURCE(causal_conv, starts));
    conv_free(&c);
}

Test(causal_conv, padding_leaves_the_window_alone) {
    Conv           c        = with_gates(conv_of(20, 4, 5, false, true));
    int32_t        slots[6] = {0, -1, -1, 2, -1, -1};
    float          padded[20 * 5], window[20 * 3];
    const RpOpArgs all = args_of(&c, 0, 5, slots), three = args_of(&c, 0, 3, slots);
    run_variants(rp_cpu_causal_conv, &all);
    memcpy(padded, c.y, sizeof padded), memcpy(window, c.window + 2 * 60, sizeof window);
    memset(c.window + 2 * 60, 0, sizeof window);
    run_variants(rp_cpu_causal_conv, &three);
    cr_expect_arr_eq(c.y, padded, 60 * sizeof(float));
    cr_expect_arr_eq(c.window + 2 * 60, window, sizeof window);
    for (int i = 60; i < 100; i++) cr_expect_eq(padded[i], 0.0f, "element %d is %g", i, (double)padded[i]);
    conv_free(&c);
}

Test(causal_conv, refuses_what_does_not_fit) {
    Conv     c        = conv_of(4, 4, 2, false, false);
    int32_t  slots[3] = {0, -1, 3};
    RpOpArgs args     = args_of(&c, 0, 2, slots);
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_ARG, "causal_conv: slot 3, the state has 3");
    args.causal_conv.w = tensor(RP_F32, c.w, 9, 4, 1, 1);
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_SHAPE,
            "causal_conv: there must be from 2 to 8 taps: x f32 [4,2], w f32 [9,4], window f32 [12,3], slots i32 [3], "
            "result f32 [4,2]");
    args                   = args_of(&c, 0, 2, slots);
    args.causal_conv.slots = tensor(RP_I32, slots, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_causal_conv, &args, 1), RP_E_SHAPE,
            "causal_conv: slots must be i32, one before the first token and one for each token: x f32 [4,2], w f32 "
            "[4,4], window f32 [12,3], slots i32 [2], result f32 [4,2]");
    conv_free(&c);
}
