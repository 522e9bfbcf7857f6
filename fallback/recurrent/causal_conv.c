/* y[c,t] = open[c,t] * f(bias[c] + sum_j w[j,c] * in[c,t-n+1+j]), in = gate * x, the taps in the order of j, with fma;
 * f = silu or none; the gates are optional.
 *
 * A worker has blocks of LANES channels, and takes the tokens one after the other with the last n inputs of its
 * channels at hand. So a token gets the same bits however a prompt is cut (I8). */
#include "fallback/recurrent/slots.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

enum { LANES = 16 };

typedef struct ConvBlock {
    float w[RP_CONV_MAX_TAPS][LANES], x[RP_CONV_MAX_TAPS][LANES], bias[LANES], y[LANES];
} ConvBlock;

/* x[n-1] is the new input. */
RP_BODY void convolve_body(ConvBlock *b, int n, bool silu) {
    float sum[LANES];
    for (int l = 0; l < LANES; l++) sum[l] = b->bias[l];
    for (int j = 0; j < n; j++)
        for (int l = 0; l < LANES; l++) sum[l] = fmaf(b->w[j][l], b->x[j][l], sum[l]);
    if (silu)
        for (int l = 0; l < LANES; l++) sum[l] = sum[l] / (1.0f + rp_expf(-sum[l]));
    for (int l = 0; l < LANES; l++) b->y[l] = sum[l];
}
RP_VARIANTS(convolve, (ConvBlock * b, int n, bool silu), (b, n, silu))

/* Taps and bias of channels c to c + lanes - 1. */
static void load(ConvBlock *b, const RpOpArgs *args, int64_t c, int lanes) {
    const RpTensorView *w    = &args->causal_conv.w;
    const float        *bias = rp_is_present(&args->causal_conv.bias) ? args->causal_conv.bias.data : NULL;
    memset(b, 0, sizeof *b);
    for (int l = 0; l < lanes; l++) {
        const float *taps = rp_view_row(w, c + l);
        for (int64_t j = 0; j < w->ne[0]; j++) b->w[j][l] = taps[j];
        if (bias != NULL) b->bias[l] = bias[c + l];
    }
}

/* The window of a slot. */
static void load_window(ConvBlock *b, const RpOpArgs *args, int32_t from, int64_t c, int lanes) {
    const int64_t channels = args->causal_conv.w.ne[1];
    memset(b->x, 0, sizeof b->x);
    for (int64_t j = 0; j + 1 < args->causal_conv.w.ne[0] && from >= 0; j++)
        memcpy(b->x[j + 1], (const float *)rp_view_row(&args->causal_conv.window, from) + j * channels + c,
               (size_t)lanes * sizeof(float));
}

/* y[0..lanes) *= channels c to c + lanes - 1 of row t of a gate, if it is present. */
static void multiply(float *y, const RpTensorView *gate, int64_t t, int64_t c, int lanes) {
    if (!rp_is_present(gate)) return;
    const float *row = (const float *)rp_view_row(gate, t) + c;
    for (int l = 0; l < lanes; l++) y[l] *= row[l];
}

static void convolve_block(const RpOpArgs *args, int64_t c, int lanes, int64_t n_tok) {
    const RpTensorView *window = &args->causal_conv.window;
    const int32_t      *to     = (const int32_t *)args->causal_conv.slots.data + 1;
    const int           n      = (int)args->causal_conv.w.ne[0];
    const size_t        bytes  = (size_t)lanes * sizeof(float);
    ConvBlock           b;
    load(&b, args, c, lanes);
    for (int64_t t = 0; t < n_tok; t++) {
        const int32_t from = rp_slot_before(&args->causal_conv.slots, &args->causal_conv.starts, t);
        if (from != SLOT_FOLLOWS) load_window(&b, args, from, c, lanes);
        memmove(b.x[0], b.x[1], (size_t)(n - 1) * sizeof b.x[0]);
        memcpy(b.x[n - 1], (const float *)rp_view_row(&args->causal_conv.x, t) + c, bytes);
        multiply(b.x[n - 1], &args->causal_conv.gate, t, c, lanes);
        convolve(&b, n, args->params->causal_conv.silu != 0);
        multiply(b.y, &args->causal_conv.open, t, c, lanes);
        memcpy((float *)rp_view_row(&args->dst, t) + c, b.y, bytes);
        for (int j = 1; j < n && to[t] >= 0; j++)
            memcpy((float *)rp_view_row(window, to[t]) + (j - 1) * args->dst.ne[0] + c, b.x[j], bytes);
    }
    for (int64_t t = n_tok; t < args->dst.ne[1]; t++) memset((float *)rp_view_row(&args->dst, t) + c, 0, bytes);
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
