/* Op causal_conv: a convolution over tokens, each channel with taps of its own, between two gates. */
#include "ops/recurrent/slots.h"

/* An f32 matrix [channels,t] of contiguous rows, which may lie apart. */
static bool is_rows(const RpTensorView *v, int64_t channels, int64_t t) {
    return v->dtype == RP_F32 && v->nb[0] == sizeof(float) && v->ne[0] == channels && v->ne[1] == t &&
           rp_view_rows(v) == t;
}

static const char *problem(const RpTensorView *x, const RpTensorView *w, const RpTensorView *window,
                           const RpTensorView *slots, const RpTensorView *bias, const RpTensorView *starts,
                           const RpTensorView *gate, const RpTensorView *open) {
    const int64_t taps = w->ne[0], channels = x->ne[0], t = x->ne[1];
    if (!is_rows(x, channels, t)) return "x must be an f32 matrix of contiguous rows";
    if (w->dtype != RP_F32 || w->ne[1] != channels || rp_view_rows(w) != channels || w->nb[0] != sizeof(float))
        return "w must be f32 with a contiguous row of taps for each channel of x";
    if (taps < 2 || taps > RP_CONV_MAX_TAPS) return "there must be from 2 to 8 taps";
    if (bias != NULL && !rp_is_vector(bias, channels)) return "the bias must be f32, one for each channel";
    if ((gate != NULL && !is_rows(gate, channels, t)) || (open != NULL && !is_rows(open, channels, t)))
        return "gates must have contiguous f32 rows and the shape of x";
    return rp_slots_problem(window, slots, starts, channels * (taps - 1), t);
}

static CHECK_RULE(check) {
    const RpTensorView *x   = &args->causal_conv.x;
    const char         *why = problem(x, &args->causal_conv.w, &args->causal_conv.window, &args->causal_conv.slots,
                                      rp_given(&args->causal_conv.bias), rp_given(&args->causal_conv.starts),
                                      rp_given(&args->causal_conv.gate), rp_given(&args->causal_conv.open));
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    RP_TRY(rp_check_result(op, args, RP_F32, x->ne[0], x->ne[1]));
    if (args->params->causal_conv.silu == 0 || args->params->causal_conv.silu == 1) return RP_OK;
    return rp_refuse(RP_E_ARG, op, args, "silu = %d must be 0 or 1", args->params->causal_conv.silu);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->causal_conv.x;
    *why = problem(x, in->causal_conv.w, in->causal_conv.window, in->causal_conv.slots, in->causal_conv.bias,
                   in->causal_conv.starts, in->causal_conv.gate, in->causal_conv.open);
    if (*why != NULL) return RP_E_SHAPE;
    if (params->causal_conv.silu != 0 && params->causal_conv.silu != 1) REFUSE(RP_E_ARG, "silu must be 0 or 1");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_causal_conv = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#a6d854"};
