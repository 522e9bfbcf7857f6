#include "executor/plan_walk.h"

RpStatus rp_plan_walk(const ExecPlan *plan, const OpArgs *args, OpKernel *const kernels[], KernelCtx *ctx,
                      StepEnd *step_end, void *user) {
    for (int i = 0; i < plan->n_steps; i++) {
        RpStatus status = kernels[plan->steps[i].op](&args[i], ctx);
        if (step_end != NULL) status = step_end(user, status);
        if (status != RP_OK) return status;
    }
    return RP_OK;
}
