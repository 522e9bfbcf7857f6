/* Shape rules of the ops of losses and of the optimiser. n is the length of a row, t the number of tokens:
 *
 *     logits [n,t], targets i32 [t] -> cross_entropy [t]
 *     x [k,t], w [k,vocab], targets -> linear_cross_entropy [t];  its backward op: like x
 *     ids i32 [k,t], [weights [t]] -> expert_load [experts];  probs [experts,t], load -> aux_loss [1]
 *     gradients -> grad_norm: its state;  gradient, norm -> grad_clip;  gradient, parameter -> adamw: the parameter */
#include "graph/shape.h"

static bool is_matrix(const RpTensorView *v) {
    return v->dtype == RP_F32 && v->ne[2] == 1 && v->ne[3] == 1 && rp_shape_contiguous_rows(v);
}

static RpStatus check_targets(const RpTensorView *x, const RpTensorView *targets, const char **why) {
    if (!is_matrix(x)) REFUSE(RP_E_SHAPE, "the logits must be an f32 matrix of contiguous rows");
    if (!rp_shape_is_index(targets, x->ne[1]))
        REFUSE(RP_E_SHAPE, "targets must be i32, one per row of logits");
    return RP_OK;
}

SHAPE_RULE(cross_entropy) {
    (void)params;
    const RpTensorView *x = in->cross_entropy.x, *log_probs = in->cross_entropy.log_probs;
    RP_TRY(check_targets(x, in->cross_entropy.targets, why));
    if (log_probs != NULL &&
        (log_probs->dtype != RP_F32 || !rp_shape_same(log_probs, x) || !rp_view_is_contiguous(log_probs)))
        REFUSE(RP_E_SHAPE, "log_probs must be contiguous f32 of the shape of the logits");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(cross_entropy_backward) {
    const RpTensorView *x = in->cross_entropy_backward.x;
    RP_TRY(check_targets(x, in->cross_entropy_backward.targets, why));
    if (!rp_shape_is_vector(in->cross_entropy_backward.dy, x->ne[1]))
        REFUSE(RP_E_SHAPE, "dy must be f32, one per row of logits");
    return rp_shape_unary(in, params, out, why);
}

/* The sources that both ops have. */
static RpStatus check_linear(const RpTensorView *x, const RpTensorView *w, const RpTensorView *targets,
                             const RpTensorView *stats, const RpTensorView *chunk, const char **why) {
    if (!is_matrix(x) || !is_matrix(w) || !rp_view_is_contiguous(x) || !rp_view_is_contiguous(w) ||
        x->ne[0] != w->ne[0])
        REFUSE(RP_E_SHAPE, "x and w must be contiguous f32 matrices with rows of one length");
    if (!rp_shape_is_index(targets, x->ne[1])) REFUSE(RP_E_SHAPE, "targets must be i32, one per row of x");
    if (!is_matrix(stats) || !rp_view_is_contiguous(stats) || stats->ne[0] != RP_LINEAR_STATS ||
        stats->ne[1] != x->ne[1])
        REFUSE(RP_E_SHAPE, "stats must be contiguous f32, RP_LINEAR_STATS per row of x");
    if (!is_matrix(chunk) || !rp_view_is_contiguous(chunk) || chunk->ne[1] != x->ne[1])
        REFUSE(RP_E_SHAPE, "the chunk must be a contiguous f32 matrix with as many rows as x");
    return RP_OK;
}

SHAPE_RULE(linear_cross_entropy) {
    const RpTensorView *x = in->linear_cross_entropy.x;
    (void)params;
    RP_TRY(check_linear(x, in->linear_cross_entropy.w, in->linear_cross_entropy.targets,
                        in->linear_cross_entropy.stats, in->linear_cross_entropy.chunk, why));
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(linear_cross_entropy_backward) {
    const RpTensorView *x  = in->linear_cross_entropy_backward.x, *w = in->linear_cross_entropy_backward.w,
                       *dw = in->linear_cross_entropy_backward.dw;
    (void)params;
    RP_TRY(check_linear(x, w, in->linear_cross_entropy_backward.targets, in->linear_cross_entropy_backward.stats,
                        in->linear_cross_entropy_backward.chunk, why));
    if (!rp_shape_is_vector(in->linear_cross_entropy_backward.dy, x->ne[1]))
        REFUSE(RP_E_SHAPE, "dy must be f32, one per row of x");
    if (dw != NULL && (dw->dtype != RP_F32 || !rp_shape_same(dw, w) || !rp_view_is_contiguous(dw)))
        REFUSE(RP_E_SHAPE, "dw must be contiguous f32 of the shape of w");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(expert_load) {
    const RpTensorView *ids     = in->expert_load.ids;
    const int32_t       experts = params->expert_load.experts;
    if (experts < 1) REFUSE(RP_E_ARG, "there must be at least one expert");
    if (!rp_shape_is_choice(ids, ids->ne[0], ids->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    if (in->expert_load.weights != NULL && !rp_shape_is_vector(in->expert_load.weights, ids->ne[1]))
        REFUSE(RP_E_SHAPE, "the weights must be f32, one per token");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){experts, 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(aux_loss) {
    (void)params;
    const RpTensorView *probs = in->aux_loss.probs;
    if (!is_matrix(probs) || !rp_view_is_contiguous(probs))
        REFUSE(RP_E_SHAPE, "the probabilities must be a contiguous f32 matrix");
    if (!rp_shape_is_vector(in->aux_loss.load, probs->ne[0]))
        REFUSE(RP_E_SHAPE, "the load must be f32, one per expert");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){1, 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(aux_loss_backward) {
    const RpTensorView *load   = in->aux_loss_backward.load;
    const int32_t       tokens = params->aux_loss_backward.tokens;
    if (tokens < 1) REFUSE(RP_E_ARG, "there must be at least one token");
    if (!rp_shape_is_vector(load, load->ne[0])) REFUSE(RP_E_SHAPE, "the load must be an f32 vector");
    if (!rp_shape_is_vector(in->aux_loss_backward.dy, 1)) REFUSE(RP_E_SHAPE, "dy must be one f32");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){load->ne[0], tokens, 1, 1}, NULL);
    return RP_OK;
}

static bool is_contiguous_f32(const RpTensorView *v) {
    return v->dtype == RP_F32 && rp_view_is_contiguous(v);
}

SHAPE_RULE(grad_norm) {
    (void)params;
    if (!is_contiguous_f32(in->grad_norm.x)) REFUSE(RP_E_SHAPE, "the gradient must be contiguous f32");
    if (!rp_shape_is_vector(in->grad_norm.sums, RP_GRAD_NORM_FLOATS))
        REFUSE(RP_E_SHAPE, "the state must be f32 [RP_GRAD_NORM_FLOATS]");
    *out = *in->grad_norm.sums;
    return RP_OK;
}

SHAPE_RULE(grad_clip) {
    const RpTensorView *norm = in->grad_clip.norm;
    if (!is_contiguous_f32(in->grad_clip.x)) REFUSE(RP_E_SHAPE, "the gradient must be contiguous f32");
    if (!rp_shape_is_vector(norm, norm->ne[0]))
        REFUSE(RP_E_SHAPE, "the norm must be the first of an f32 vector");
    if (!(params->grad_clip.max_norm >= 0.0f)) REFUSE(RP_E_ARG, "max_norm must not be negative");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(adamw) {
    const RpAdamwParams *p     = &params->adamw;
    const RpTensorView  *param = in->adamw.param, *lr = in->adamw.lr, *step = in->adamw.step;
    if (!(p->beta1 >= 0.0f && p->beta1 < 1.0f) || !(p->beta2 >= 0.0f && p->beta2 < 1.0f))
        REFUSE(RP_E_ARG, "beta1 and beta2 must be from 0 to below 1");
    if (!(p->eps >= 0.0f) || !(p->weight_decay >= 0.0f))
        REFUSE(RP_E_ARG, "eps and weight_decay must not be negative");
    if (lr == NULL || !rp_shape_is_vector(lr, 1)) REFUSE(RP_E_SHAPE, "lr must be a source, one f32");
    if (step == NULL || !rp_shape_is_index(step, 1)) REFUSE(RP_E_SHAPE, "step must be a source, one i32");
    if (in->adamw.norm != NULL && !rp_shape_is_vector(in->adamw.norm, in->adamw.norm->ne[0]))
        REFUSE(RP_E_SHAPE, "the norm must be the first of an f32 vector");
    const RpTensorView *const same[] = {in->adamw.grad, param, in->adamw.m, in->adamw.v};
    for (int i = 0; i < 4; i++)
        if (!is_contiguous_f32(same[i]) || !rp_shape_same(same[i], param))
            REFUSE(RP_E_SHAPE, "grad, param, m and v must be contiguous f32 of one shape");
    *out = *param;
    return RP_OK;
}
