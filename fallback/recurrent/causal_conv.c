/* y[c,t] = open[c,t] * f(bias[c] + sum_j w[j,c] * in[c,t-n+1+j]), in = gate * x, the taps in the order of j, with fma;
 * f = silu or none; the gates are optional.
 *
 * A worker has blocks of LANES channels. It takes up to RUN tokens at a time, whose inputs lie behind the n-1 inputs
 * before them:   in: [n-1 of the window | m new ones],   y[t] from in[t] to in[t+n-1].
 * So a token gets the same bits however a prompt is cut (I8). */
#include "fallback/recurrent/slots.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

enum { LANES = 64, RUN = 16 };

typedef struct ConvBlock {
    float w[RP_CONV_MAX_TAPS][LANES], bias[LANES], in[RP_CONV_MAX_TAPS - 1 + RUN][LANES], y[RUN][LANES];
} ConvBlock;

RP_BODY void convolve_taps(ConvBlock *b, int m, int n, bool silu) {
    for (int t = 0; t < m; t++) {
        float *y = b->y[t];
        for (int l = 0; l < LANES; l++) {
            float sum = b->bias[l];
            for (int j = 0; j < n; j++) sum = fmaf(b->w[j][l], b->in[t + j][l], sum);
            y[l] = sum;
        }
        if (silu)
            for (int l = 0; l < LANES; l++) y[l] = y[l] / (1.0f + rp_expf(-y[l]));
    }
}

/* Models have 4 taps, or 3 (LFM2). As constants these let the compiler vectorise over channels. */
RP_BODY void convolve_body(ConvBlock *b, int m, int n, bool silu) {
    if (n == 4)
        convolve_taps(b, m, 4, silu);
    else if (n == 3)
        convolve_taps(b, m, 3, silu);
    else
        convolve_taps(b, m, n, silu);
}
RP_VARIANTS(convolve, (ConvBlock * b, int m, int n, bool silu), (b, m, n, silu))

/* w[j,l] = taps[l * row + j] */
RP_BODY void transpose_taps(ConvBlock *b, const float *taps, int64_t row, int n, int lanes) {
    for (int j = 0; j < n; j++)
        for (int l = 0; l < lanes; l++) b->w[j][l] = taps[l * row + j];
}

RP_BODY void transpose_body(ConvBlock *b, const float *taps, int64_t row, int n, int lanes) {
    if (n == 4 && row == 4 && lanes == LANES)
        transpose_taps(b, taps, 4, 4, LANES);
    else
        transpose_taps(b, taps, row, n, lanes);
}
RP_VARIANTS(transpose, (ConvBlock * b, const float *taps, int64_t row, int n, int lanes), (b, taps, row, n, lanes))

/* Taps and bias of channels c to c + lanes - 1. The other lanes are 0. */
static void load(ConvBlock *b, const RpOpArgs *args, int64_t c, int lanes) {
    const RpTensorView *w    = &args->causal_conv.w;
    const float        *bias = rp_is_present(&args->causal_conv.bias) ? args->causal_conv.bias.data : NULL;
    if (lanes < LANES) memset(b, 0, sizeof *b);
    transpose(b, rp_view_row(w, c), (int64_t)(w->nb[1] / sizeof(float)), (int)w->ne[0], lanes);
    for (int l = 0; l < lanes; l++) b->bias[l] = bias != NULL ? bias[c + l] : 0.0f;
}

/* The inputs before a token, from the window of a slot. */
static void load_window(ConvBlock *b, const RpOpArgs *args, int32_t from, int64_t c, int lanes) {
    const int64_t channels = args->causal_conv.w.ne[1];
    for (int64_t j = 0; j + 1 < args->causal_conv.w.ne[0]; j++) {
        if (from < 0)
            memset(b->in[j], 0, sizeof b->in[j]);
        else
            memcpy(b->in[j], (const float *)rp_view_row(&args->causal_conv.window, from) + j * channels + c,
                   (size_t)lanes * sizeof(float));
    }
}

/* The window of the token of in[last]. */
static void store_window(const ConvBlock *b, const RpOpArgs *args, int last, int32_t to, int64_t c, int lanes) {
    const int n      = (int)args->causal_conv.w.ne[0];
    float    *window = rp_view_row(&args->causal_conv.window, to);
    for (int j = 0; j + 1 < n; j++)
        memcpy(window + j * args->dst.ne[0] + c, b->in[last - n + 2 + j], (size_t)lanes * sizeof(float));
}

/* y[0..lanes) *= channels c to c + lanes - 1 of row t of a gate, if it is present. */
static void multiply(float *y, const RpTensorView *gate, int64_t t, int64_t c, int lanes) {
    if (!rp_is_present(gate)) return;
    const float *row = (const float *)rp_view_row(gate, t) + c;
    for (int l = 0; l < lanes; l++) y[l] *= row[l];
}

/* Tokens t to t + m - 1, which follow each other. */
static void convolve_run(ConvBlock *b, const RpOpArgs *args, int64_t t, int m, int64_t c, int lanes) {
    const int      n     = (int)args->causal_conv.w.ne[0];
    const int32_t *to    = (const int32_t *)args->causal_conv.slots.data + 1;
    const size_t   bytes = (size_t)lanes * sizeof(float);
    for (int i = 0; i < m; i++) {
        memcpy(b->in[n - 1 + i], (const float *)rp_view_row(&args->causal_conv.x, t + i) + c, bytes);
        multiply(b->in[n - 1 + i], &args->causal_conv.gate, t + i, c, lanes);
    }
    convolve(b, m, n, args->params->causal_conv.silu != 0);
    for (int i = 0; i < m; i++) {
        multiply(b->y[i], &args->causal_conv.open, t + i, c, lanes);
        memcpy((float *)rp_view_row(&args->dst, t + i) + c, b->y[i], bytes);
        if (to[t + i] >= 0) store_window(b, args, n - 1 + i, to[t + i], c, lanes);
    }
    memmove(b->in[0], b->in[m], (size_t)(n - 1) * sizeof b->in[0]);
}

static void convolve_block(const RpOpArgs *args, int64_t c, int lanes, int64_t n_tok) {
    const RpTensorView *slots = &args->causal_conv.slots, *starts = &args->causal_conv.starts;
    ConvBlock           b;
    load(&b, args, c, lanes);
    for (int64_t t = 0; t < n_tok;) {
        const int32_t from = rp_slot_before(slots, starts, t);
        if (from != SLOT_FOLLOWS) load_window(&b, args, from, c, lanes);
        int m = 1;
        while (m < RUN && t + m < n_tok && rp_slot_before(slots, starts, t + m) == SLOT_FOLLOWS) m++;
        convolve_run(&b, args, t, m, c, lanes);
        t += m;
    }
    for (int64_t t = n_tok; t < args->dst.ne[1]; t++)
        memset((float *)rp_view_row(&args->dst, t) + c, 0, (size_t)lanes * sizeof(float));
}

RpStatus rp_cpu_causal_conv(const RpOpArgs *args, RpKernelCtx *ctx) {
    int64_t n_tok = 0;
    RP_TRY(RP_CHECK(causal_conv, args));
    RP_TRY(rp_read_slots("causal_conv", &args->causal_conv.slots, &args->causal_conv.starts,
                         args->causal_conv.window.ne[1], &n_tok));
    const int64_t channels = args->dst.ne[0], blocks = (channels + LANES - 1) / LANES;
    for (int64_t i = blocks * ctx->ith / ctx->nth; i < blocks * (ctx->ith + 1) / ctx->nth; i++) {
        const int64_t left = channels - i * LANES;
        convolve_block(args, i * LANES, left < LANES ? (int)left : LANES, n_tok);
    }
    return RP_OK;
}
