/* The description of a step of a plan, without the launches that a backend adds; names of launch modes. */
#include "executor/backend.h"

#include "base/argument.h"

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
    if (i < 0 || i >= plan->n_steps) return rp_fail(RP_E_ARG, "step %d of a plan of %d", i, plan->n_steps);
    *out = (RpStepLaunch){.node       = plan->steps[i].node,
                          .bytes      = rp_plan_step_bytes(plan, i),
                          .n_barriers = rp_cpu_needs(plan->steps[i].op, &plan->steps[i].args).phases};
    return RP_OK;
}
