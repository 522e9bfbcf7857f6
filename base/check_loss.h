/* check_loss.h - the validation of types, shapes and parameters of the ops of losses and of the optimiser, as in check.h. */
#ifndef BASE_CHECK_LOSS_H
#define BASE_CHECK_LOSS_H

#include "base/check.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A source or result `what`: contiguous dtype [n0, n1]. */
static inline RpStatus rp_check_array(const char *op, const char *what, const RpTensorView *v, RpDtype dtype,
                                      int64_t n0, int64_t n1) {
    if (v->dtype == dtype && v->ne[0] == n0 && rp_view_rows(v) == n1 && rp_view_is_contiguous(v))
        return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %s %s [%lld,%lld], contiguous %s [%lld,%lld] is wanted", op, what,
                   rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)rp_view_rows(v),
                   rp_dtype_name(dtype), (long long)n0, (long long)n1);
}

static inline RpStatus rp_check_cross_entropy(const RpOpArgs *args) {
    const RpTensorView *x = &args->cross_entropy.x, *log_probs = &args->cross_entropy.log_probs;
    const int64_t       n = x->ne[0], rows = rp_view_rows(x);
    if (x->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "cross_entropy: logits %s: f32 is wanted", rp_dtype_name(x->dtype));
    RP_TRY(rp_check_array("cross_entropy", "targets", &args->cross_entropy.targets, RP_I32, rows, 1));
    if (rp_is_present(log_probs))
        RP_TRY(rp_check_array("cross_entropy", "log_probs", log_probs, RP_F32, n, rows));
    return rp_check_array("cross_entropy", "result", &args->dst, RP_F32, rows, 1);
}

static inline RpStatus rp_check_cross_entropy_backward(const RpOpArgs *args) {
    const int64_t rows = rp_view_rows(&args->dst);
    RP_TRY(rp_check_unary("cross_entropy_backward", args));
    RP_TRY(rp_check_array("cross_entropy_backward", "targets", &args->cross_entropy_backward.targets, RP_I32,
                          rows, 1));
    return rp_check_array("cross_entropy_backward", "dy", &args->cross_entropy_backward.dy, RP_F32, rows, 1);
}

static inline RpStatus rp_check_linear_sources(const char *op, const RpTensorView *x, const RpTensorView *w,
                                               const RpTensorView *targets, const RpTensorView *stats,
                                               const RpTensorView *chunk) {
    const int64_t k = w->ne[0], rows = x->ne[1];
    RP_TRY(rp_check_array(op, "x", x, RP_F32, k, rows));
    RP_TRY(rp_check_array(op, "w", w, RP_F32, k, w->ne[1]));
    RP_TRY(rp_check_array(op, "targets", targets, RP_I32, rows, 1));
    RP_TRY(rp_check_array(op, "stats", stats, RP_F32, RP_LINEAR_STATS, rows));
    return rp_check_array(op, "chunk", chunk, RP_F32, chunk->ne[0], rows);
}

static inline RpStatus rp_check_linear_cross_entropy(const RpOpArgs *args) {
    static const char op[] = "linear_cross_entropy";
    RP_TRY(rp_check_linear_sources(op, &args->linear_cross_entropy.x, &args->linear_cross_entropy.w,
                                   &args->linear_cross_entropy.targets, &args->linear_cross_entropy.stats,
                                   &args->linear_cross_entropy.chunk));
    return rp_check_array(op, "result", &args->dst, RP_F32, args->linear_cross_entropy.x.ne[1], 1);
}

static inline RpStatus rp_check_linear_cross_entropy_backward(const RpOpArgs *args) {
    static const char   op[] = "linear_cross_entropy_backward";
    const RpTensorView *x    = &args->linear_cross_entropy_backward.x,
                       *w    = &args->linear_cross_entropy_backward.w,
                       *dw   = &args->linear_cross_entropy_backward.dw;
    RP_TRY(rp_check_linear_sources(op, x, w, &args->linear_cross_entropy_backward.targets,
                                   &args->linear_cross_entropy_backward.stats,
                                   &args->linear_cross_entropy_backward.chunk));
    RP_TRY(rp_check_array(op, "dy", &args->linear_cross_entropy_backward.dy, RP_F32, x->ne[1], 1));
    if (rp_is_present(dw)) RP_TRY(rp_check_array(op, "dw", dw, RP_F32, w->ne[0], w->ne[1]));
    return rp_check_array(op, "result", &args->dst, RP_F32, x->ne[0], x->ne[1]);
}

static inline RpStatus rp_check_expert_load(const RpOpArgs *args) {
    const RpTensorView *ids     = &args->expert_load.ids;
    const int32_t       experts = args->params->expert_load.experts;
    if (experts < 1) return rp_fail(RP_E_ARG, "expert_load: %d experts", experts);
    RP_TRY(rp_check_array("expert_load", "ids", ids, RP_I32, ids->ne[0], rp_view_rows(ids)));
    if (rp_view_elems(ids) > 1 << 24) /* counts are exact in f32 */
        return rp_fail(RP_E_SHAPE, "expert_load: %lld ids: at most %d", (long long)rp_view_elems(ids),
                       1 << 24);
    if (rp_is_present(&args->expert_load.weights))
        RP_TRY(rp_check_array("expert_load", "weights", &args->expert_load.weights, RP_F32, rp_view_rows(ids),
                              1));
    return rp_check_array("expert_load", "result", &args->dst, RP_F32, experts, 1);
}

static inline RpStatus rp_check_aux_loss(const RpOpArgs *args) {
    const RpTensorView *probs = &args->aux_loss.probs;
    RP_TRY(rp_check_array("aux_loss", "probabilities", probs, RP_F32, probs->ne[0], rp_view_rows(probs)));
    RP_TRY(rp_check_array("aux_loss", "load", &args->aux_loss.load, RP_F32, probs->ne[0], 1));
    return rp_check_array("aux_loss", "result", &args->dst, RP_F32, 1, 1);
}

static inline RpStatus rp_check_aux_loss_backward(const RpOpArgs *args) {
    const int64_t experts = args->dst.ne[0], tokens = args->params->aux_loss_backward.tokens;
    RP_TRY(rp_check_array("aux_loss_backward", "load", &args->aux_loss_backward.load, RP_F32, experts, 1));
    RP_TRY(rp_check_array("aux_loss_backward", "dy", &args->aux_loss_backward.dy, RP_F32, 1, 1));
    return rp_check_array("aux_loss_backward", "result", &args->dst, RP_F32, experts, tokens);
}

/* Into how many parts of equal size grad_norm divides n elements. Part p has the groups of 4 elements from
 * groups * p / parts to groups * (p + 1) / parts - 1. The division depends on n only, and so does the order of the sum. */
static inline int64_t rp_grad_norm_parts(int64_t n) {
    const int64_t parts = (n + 4095) / 4096, most = RP_GRAD_NORM_PARTS;
    return parts < most ? parts : most;
}

/* x may have no elements: nn.h sets the sum to 0 by it. */
static inline RpStatus rp_check_grad_norm(const RpOpArgs *args) {
    const RpTensorView *x = &args->grad_norm.x, *sums = &args->grad_norm.sums;
    RP_TRY(rp_check_array("grad_norm", "x", x, RP_F32, x->ne[0], rp_view_rows(x)));
    RP_TRY(rp_check_array("grad_norm", "sums", sums, RP_F32, RP_GRAD_NORM_FLOATS, 1));
    if (args->dst.data != sums->data) return rp_fail(RP_E_ARG, "grad_norm: the result is not `sums`");
    return RP_OK;
}

static inline RpStatus rp_check_grad_clip(const RpOpArgs *args) {
    const RpTensorView *x = &args->grad_clip.x, *norm = &args->grad_clip.norm;
    RP_TRY(rp_check_array("grad_clip", "x", x, RP_F32, args->dst.ne[0], rp_view_rows(&args->dst)));
    RP_TRY(rp_check_array("grad_clip", "result", &args->dst, RP_F32, x->ne[0], rp_view_rows(x)));
    if (norm->ne[0] < 1) return rp_fail(RP_E_SHAPE, "grad_clip: no norm");
    RP_TRY(rp_check_array("grad_clip", "norm", norm, RP_F32, norm->ne[0], 1));
    if (args->params->grad_clip.max_norm >= 0.0f) return RP_OK;
    return rp_fail(RP_E_ARG, "grad_clip: max_norm = %g: 0 or more is wanted",
                   (double)args->params->grad_clip.max_norm);
}

/* The parameters: those that torch.optim.AdamW accepts. A lr or step in a source is data, which the CPU kernel checks. */
static inline RpStatus rp_check_adamw_params(const RpAdamwParams *p, bool has_lr, bool has_step) {
    const float              betas[] = {p->beta1, p->beta2}, sizes[] = {p->eps, p->weight_decay, p->lr};
    static const char *const names[] = {"eps", "weight_decay", "lr"};
    for (int i = 0; i < 2; i++)
        if (!(betas[i] >= 0.0f && betas[i] < 1.0f))
            return rp_fail(RP_E_ARG, "adamw: beta%d = %g: from 0 to below 1 is wanted", i + 1,
                           (double)betas[i]);
    for (int i = 0; i < (has_lr ? 2 : 3); i++)
        if (!(sizes[i] >= 0.0f))
            return rp_fail(RP_E_ARG, "adamw: %s = %g: 0 or more is wanted", names[i], (double)sizes[i]);
    if (has_step || p->step >= 1) return RP_OK;
    return rp_fail(RP_E_ARG, "adamw: step %d: steps count from 1", p->step);
}

static inline RpStatus rp_check_adamw(const RpOpArgs *args) {
    const RpTensorView *y = &args->dst, *lr = &args->adamw.lr, *step = &args->adamw.step;
    const RpTensorView *arrays[] = {&args->adamw.grad, &args->adamw.param, &args->adamw.m, &args->adamw.v};
    static const char *const names[] = {"grad", "param", "m", "v"};
    for (int i = 0; i < 4; i++)
        RP_TRY(rp_check_array("adamw", names[i], arrays[i], RP_F32, y->ne[0], rp_view_rows(y)));
    if (rp_is_present(lr)) RP_TRY(rp_check_array("adamw", "lr", lr, RP_F32, 1, 1));
    if (rp_is_present(step)) RP_TRY(rp_check_array("adamw", "step", step, RP_I32, 1, 1));
    if (rp_is_present(&args->adamw.norm))
        RP_TRY(rp_check_array("adamw", "norm", &args->adamw.norm, RP_F32, args->adamw.norm.ne[0], 1));
    if (y->data != args->adamw.param.data) return rp_fail(RP_E_ARG, "adamw: the result is not `param`");
    return rp_check_adamw_params(&args->params->adamw, rp_is_present(lr), rp_is_present(step));
}

#ifdef __cplusplus
}
#endif
#endif
