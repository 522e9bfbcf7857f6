/* Op adamw: a step of the optimiser. */
#include "ops/op.h"

/* The parameters: those that torch.optim.AdamW accepts. A lr or step in a source is data, which the CPU kernel
 * checks. */
static RpStatus check_params(const char *op, const RpOpArgs *args, bool has_lr, bool has_step) {
    const RpAdamwParams     *p       = &args->params->adamw;
    const float              betas[] = {p->beta1, p->beta2}, sizes[] = {p->eps, p->weight_decay, p->lr};
    static const char *const names[] = {"eps", "weight_decay", "lr"};
    for (int i = 0; i < 2; i++)
        if (!(betas[i] >= 0.0f && betas[i] < 1.0f))
            return rp_refuse(RP_E_ARG, op, args, "beta%d = %g must be from 0 to below 1", i + 1, (double)betas[i]);
    for (int i = 0; i < (has_lr ? 2 : 3); i++)
        if (!(sizes[i] >= 0.0f))
            return rp_refuse(RP_E_ARG, op, args, "%s = %g must be 0 or more", names[i], (double)sizes[i]);
    if (has_step || p->step >= 1) return RP_OK;
    return rp_refuse(RP_E_ARG, op, args, "step = %d must be 1 or more", p->step);
}

static CHECK_RULE(check) {
    const RpTensorView *y = &args->dst, *lr = &args->adamw.lr, *step = &args->adamw.step, *norm = &args->adamw.norm;
    const RpTensorView *arrays[]     = {&args->adamw.grad, &args->adamw.param, &args->adamw.m, &args->adamw.v};
    static const char *const names[] = {"grad", "param", "m", "v"};
    for (int i = 0; i < 4; i++)
        RP_TRY(rp_check_array(op, args, names[i], arrays[i], RP_F32, y->ne[0], rp_view_rows(y)));
    if (rp_is_present(lr)) RP_TRY(rp_check_array(op, args, "lr", lr, RP_F32, 1, 1));
    if (rp_is_present(step)) RP_TRY(rp_check_array(op, args, "step", step, RP_I32, 1, 1));
    if (rp_is_present(norm)) RP_TRY(rp_check_array(op, args, "norm", norm, RP_F32, norm->ne[0], 1));
    if (y->data != args->adamw.param.data)
        return rp_refuse(RP_E_ARG, op, args, "the result must be the memory of param");
    return check_params(op, args, rp_is_present(lr), rp_is_present(step));
}

static SHAPE_RULE(shape) {
    const RpAdamwParams *p     = &params->adamw;
    const RpTensorView  *param = in->adamw.param, *lr = in->adamw.lr, *step = in->adamw.step;
    if (!(p->beta1 >= 0.0f && p->beta1 < 1.0f) || !(p->beta2 >= 0.0f && p->beta2 < 1.0f))
        REFUSE(RP_E_ARG, "beta1 and beta2 must be from 0 to below 1");
    if (!(p->eps >= 0.0f) || !(p->weight_decay >= 0.0f)) REFUSE(RP_E_ARG, "eps and weight_decay must not be negative");
    if (lr == NULL || !rp_shape_is_vector(lr, 1)) REFUSE(RP_E_SHAPE, "lr must be a source, one f32");
    if (step == NULL || !rp_shape_is_index(step, 1)) REFUSE(RP_E_SHAPE, "step must be a source, one i32");
    if (in->adamw.norm != NULL && !rp_shape_is_vector(in->adamw.norm, in->adamw.norm->ne[0]))
        REFUSE(RP_E_SHAPE, "the norm must be the first of an f32 vector");
    const RpTensorView *const same[] = {in->adamw.grad, param, in->adamw.m, in->adamw.v};
    for (int i = 0; i < 4; i++)
        if (!rp_shape_is_contiguous(same[i]) || !rp_shape_same(same[i], param))
            REFUSE(RP_E_SHAPE, "grad, param, m and v must be contiguous f32 of one shape");
    *out = *param;
    return RP_OK;
}

const OpRules rp_rules_adamw = {.shape = shape, .check = check, .gradient = rp_gradient_none};
