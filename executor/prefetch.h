/* prefetch.h - which software prefetch suits this CPU: measured once a process, on the weights that are opened first. */
#ifndef EXECUTOR_PREFETCH_H
#define EXECUTOR_PREFETCH_H

#include "executor/backend.h"
#include "executor/pool.h"

/* Sets rp_cpu_prefetch as REPRISE_PREFETCH says, or by measurement: a few milliseconds, at the first call with enough
 * weights. RP_E_ARG where the option is not understood. */
RP_NODISCARD RpStatus rp_prefetch_choose(const Executor *e, ThreadPool *pool);

#endif
