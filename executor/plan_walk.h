/* plan_walk.h - the one dispatch loop. */
#ifndef EXECUTOR_PLAN_WALK_H
#define EXECUTOR_PLAN_WALK_H

#include "reprise/kernel.h"

#include "graph/plan.h"

/* Called after each step with the step's status; returns the status to go on with. */
typedef RpStatus StepEnd(void *user, RpStatus status);

/* Runs steps[0..n) in order through the table of a backend, until one fails. Every worker of the CPU
 * interpreter calls it at each run, with a barrier as step_end; capture calls it once, with none. */
RP_NODISCARD RpStatus rp_plan_walk(const ExecPlan *plan, const OpArgs *args, OpKernel *const kernels[],
                                   KernelCtx *ctx, StepEnd *step_end, void *user);

#endif
