/* The dispatch loop: kernel lookup by op, and for each step the calls
 *
 *     phase 0: kernel, step_end;  phase 1: kernel, step_end;  ...
 *
 * step_end may turn a status into another one: the barrier of the CPU passes a failure of one worker to
 * all. */
#include "executor/plan_walk.h"

#include "base/tuning.h"
#include "base/types/custom.h"

RpOpKernel *rp_kernel_of(const Kernels *kernels, TensorOp op) {
    const OpInfo *info = rp_op_info(op);
    if (info->custom == NULL) return kernels->of_op(op);
    if (!kernels->cuda) return info->custom->cpu;
    return info->source != NULL ? kernels->source : info->custom->cuda;
}

/* The result or a source of a custom type; NULL if there is none. */
static const RpTensorView *view_of_custom_type(const RpOpArgs *args) {
    if (rp_dtype_is_custom(args->dst.dtype)) return &args->dst;
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (rp_is_present(&args->src[k]) && rp_dtype_is_custom(args->src[k].dtype)) return &args->src[k];
    return NULL;
}

RpStatus rp_check_kernel(const PlanStep *s, const Kernels *kernels) {
    const char *op = rp_node_op_name(s->node), *name = rp_node_name(s->node);
    if (rp_kernel_of(kernels, s->op) == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s '%s': the op has no kernel for %s", op, name,
                       kernels->cuda ? "CUDA" : "the CPU");
    const RpTensorView *custom = kernels->cuda && rp_op_row(s->op) >= 0 ? view_of_custom_type(&s->args) : NULL;
    if (custom == NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s '%s': the registered type %s has no CUDA kernel", op, name,
                   rp_dtype_name(custom->dtype));
}

RpStatus rp_check_kernels(const ExecPlan *plan, const Kernels *kernels) {
    for (int i = 0; i < plan->n_steps; i++) RP_TRY(rp_check_kernel(&plan->steps[i], kernels));
    return RP_OK;
}

/* Bit k is set if source k is a weight, which no kernel writes: see RpKernelCtx.constant. */
static unsigned constant_sources(const PlanStep *s) {
    unsigned bits = 0;
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (s->src[k].space == SPACE_WEIGHT && s->args.src[k].ne[0] > 0) bits |= 1u << k;
    return bits;
}

/* Returns the weights that attention, step i, prefetches: those that the steps behind it read. */
static RpNextWeights next_weights(const ExecPlan *plan, const RpOpArgs *args, int i, const RpCudaTuning *tuning) {
    RpNextWeights next = {0};
    int64_t       left = tuning->next_bytes;
    for (int j = i + 1; j < plan->n_steps; j++) {
        const PlanStep *s = &plan->steps[j];
        if (!rp_next_weights_add(&next, s->op, &args[j], constant_sources(s), &left)) break;
    }
    return next;
}

RpStatus rp_plan_walk(const ExecPlan *plan, const RpOpArgs *args, const int *phases, const Kernels *kernels,
                      RpKernelCtx *ctx, StepEnd *step_end, void *user) {
    for (int i = 0; i < plan->n_steps; i++) {
        RpOpKernel   *kernel   = rp_kernel_of(kernels, plan->steps[i].op);
        const int     n_phases = phases != NULL ? phases[i] : 1;
        RpNextWeights next;
        if (kernels->cuda) ctx->constant = constant_sources(&plan->steps[i]);
        ctx->op   = plan->steps[i].op;
        ctx->next = NULL;
        if (ctx->op == RP_OP_ATTENTION && ctx->tuning != NULL && ctx->tuning->next_bytes > 0) {
            next      = next_weights(plan, args, i, ctx->tuning);
            ctx->next = &next;
        }
        for (ctx->phase = 0; ctx->phase < n_phases; ctx->phase++) {
            RpStatus status = kernel(&args[i], ctx);
            if (step_end != NULL) status = step_end(user, status, ctx->phase + 1 == n_phases);
            if (status != RP_OK) return status;
        }
    }
    return RP_OK;
}
