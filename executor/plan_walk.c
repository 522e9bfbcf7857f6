/* The dispatch loop: kernel lookup by op, and for each step the calls
 *
 *     phase 0: kernel, step_end;  phase 1: kernel, step_end;  ...
 *
 * step_end may turn a status into another one: the barrier of the CPU passes a failure of one worker to
 * all. */
#include "executor/plan_walk.h"

RpOpKernel *rp_kernel_of(const Kernels *kernels, TensorOp op) {
    const OpInfo *info = rp_op_info(op);
    if (info->custom == NULL) return kernels->of_op(op);
    if (!kernels->cuda) return info->custom->cpu;
    return info->source != NULL ? kernels->source : info->custom->cuda;
}

RpStatus rp_check_kernels(const ExecPlan *plan, const Kernels *kernels) {
    for (int i = 0; i < plan->n_steps; i++)
        if (rp_kernel_of(kernels, plan->steps[i].op) == NULL)
            return rp_fail(RP_E_UNSUPPORTED, "%s '%s': the op has no kernel for %s",
                           rp_node_op_name(plan->steps[i].node), rp_node_name(plan->steps[i].node),
                           kernels->cuda ? "CUDA" : "the CPU");
    return RP_OK;
}

/* Bit k is set if source k is a weight, which no kernel writes: see RpKernelCtx.constant. */
static unsigned constant_sources(const PlanStep *s) {
    unsigned bits = 0;
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (s->src[k].space == SPACE_WEIGHT && s->args.src[k].ne[0] > 0) bits |= 1u << k;
    return bits;
}

RpStatus rp_plan_walk(const ExecPlan *plan, const RpOpArgs *args, const int *phases, const Kernels *kernels,
                      RpKernelCtx *ctx, StepEnd *step_end, void *user) {
    for (int i = 0; i < plan->n_steps; i++) {
        RpOpKernel *kernel   = rp_kernel_of(kernels, plan->steps[i].op);
        const int   n_phases = phases != NULL ? phases[i] : 1;
        if (kernels->cuda) ctx->constant = constant_sources(&plan->steps[i]);
        ctx->op = plan->steps[i].op;
        for (ctx->phase = 0; ctx->phase < n_phases; ctx->phase++) {
            RpStatus status = kernel(&args[i], ctx);
            if (step_end != NULL) status = step_end(user, status, ctx->phase + 1 == n_phases);
            if (status != RP_OK) return status;
        }
    }
    return RP_OK;
}
