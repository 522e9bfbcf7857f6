/* plan_walk.h - the one dispatch loop. */
#ifndef EXECUTOR_PLAN_WALK_H
#define EXECUTOR_PLAN_WALK_H

#include "reprise/kernel.h"

#include "graph/plan.h"

/* What a backend runs: its table for the ops of ops.h, and which kernel of an own op it takes. */
typedef struct Kernels {
    OpKernel *const *table;
    bool             cuda;
} Kernels;

/* NULL where this backend has none for an own op. */
OpKernel *rp_kernel_of(const Kernels *kernels, TensorOp op);

/* RP_E_UNSUPPORTED, with the node's name, where a step has no kernel. */
RP_NODISCARD RpStatus rp_check_kernels(const ExecPlan *plan, const Kernels *kernels);

/* Called after each phase of a step with its status; returns the status to go on with. */
typedef RpStatus StepEnd(void *user, RpStatus status, bool last_phase);

/* Runs steps[0..n) in order, until one fails; `phases` (or NULL: one each) says how often each is called. Every
 * worker of the CPU interpreter calls it at each run, with a barrier as step_end; capture calls it once. */
RP_NODISCARD RpStatus rp_plan_walk(const ExecPlan *plan, const OpArgs *args, const int *phases,
                                   const Kernels *kernels, KernelCtx *ctx, StepEnd *step_end, void *user);

#endif
