/* plan_walk.h - the dispatch loop over the steps of a plan. The CPU interpreter and CUDA capture both use
 * it (I7). */
#ifndef EXECUTOR_PLAN_WALK_H
#define EXECUTOR_PLAN_WALK_H

#include "base/kernels.h"

#include "graph/plan.h"

/* The kernels of a backend: the kernel of each op of the library, and the choice between the two kernels of a custom
 * op. */
typedef struct Kernels {
    RpOpKernel *(*of_op)(TensorOp op);
    bool        cuda;
    RpOpKernel *source; /* of custom ops whose CUDA kernel is source text; NULL: there is none */
} Kernels;

/* NULL for a custom op without a kernel for this backend. */
RpOpKernel *rp_kernel_of(const Kernels *kernels, TensorOp op);

/* RP_E_UNSUPPORTED, with op and node, if a step has no kernel in this backend, or on a GPU none for a registered type:
 * nothing is run elsewhere silently (I10). */
RP_NODISCARD RpStatus rp_check_kernel(const PlanStep *step, const Kernels *kernels);
RP_NODISCARD RpStatus rp_check_kernels(const ExecPlan *plan, const Kernels *kernels);

/* A plan of steps first <= i < end alone, for rp_plan_walk: its arguments and phases begin at `first` too. */
static inline ExecPlan rp_plan_part(const ExecPlan *plan, int first, int end) {
    ExecPlan part = *plan;
    part.steps += first;
    part.n_steps = end - first;
    return part;
}

/* Called after each phase of a step with its status; returns the status to go on with. */
typedef RpStatus StepEnd(void *user, RpStatus status, bool last_phase);

/* Runs steps 0 .. n_steps - 1 in order and stops at the first failure. phases[i] is the number of phases
 * of step i; NULL: one each. In a run on the CPU every worker calls this, with a barrier as step_end. CUDA
 * capture calls it once. */
RP_NODISCARD RpStatus rp_plan_walk(const ExecPlan *plan, const RpOpArgs *args, const int *phases,
                                   const Kernels *kernels, RpKernelCtx *ctx, StepEnd *step_end, void *user);

#endif
