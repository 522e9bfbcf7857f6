/* How an executor launches: names of modes, what an executor runs on, and the description of a step of a plan without
 * the launches that a backend adds. */
#include "executor/backend.h"

#include "base/argument.h"
#include "base/sized.h"

#include <string.h>

const char *rp_mode_name(RpExecMode mode) {
    static const char *const names[] = {
        [RP_MODE_AUTO] = "auto", [RP_MODE_EAGER] = "eager", [RP_MODE_REPLAY] = "replay", [RP_MODE_LOOP] = "loop"};
    return (unsigned)mode < sizeof names / sizeof names[0] ? names[mode] : "?";
}

RpStatus rp_mode_from_name(const char *name, RpExecMode *out) {
    RP_NOT_NULL(name, "name");
    RP_NOT_NULL(out, "out");

    for (int m = RP_MODE_AUTO; m <= RP_MODE_LOOP; m++)
        if (strcmp(name, rp_mode_name((RpExecMode)m)) == 0) {
            *out = (RpExecMode)m;
            return RP_OK;
        }
    return rp_fail(RP_E_ARG, "'%s': must be auto, eager, replay or loop", name);
}

RpStatus rp_executor_describe(const ExecPlan *plan, int i, RpStepLaunch *out) {
    if (i < 0 || i >= plan->n_steps) return rp_fail(RP_E_ARG, "step %d: must be from 0 to %d", i, plan->n_steps - 1);
    *out = (RpStepLaunch){.node       = plan->steps[i].node,
                          .bytes      = rp_plan_step_bytes(plan, i),
                          .n_barriers = rp_cpu_needs(plan->steps[i].op, &plan->steps[i].args).phases};
    return RP_OK;
}

/* While other memory than the loop's is bound, replies are replayed, and the executor says so (I10). */
void rp_executor_info_sized(const RpExecutor *e, RpExecutorInfo *out, size_t out_bytes) {
    RpExecutorInfo info = {0};
    if (e != NULL) info = e->info;
    if (e != NULL && info.mode == RP_MODE_LOOP && !rp_executor_loops(e)) {
        info.mode   = RP_MODE_REPLAY;
        info.reason = "replay instead of loop: other states or weights are bound than those of the loop, or a tensor";
    }
    rp_sized_out(out, out_bytes, e != NULL ? &info : NULL, sizeof info);
}
