/* prefetch.h - the choice of the software prefetch (hint and distance) for this CPU. It is measured once
 * per process, on the weights of the first executor, and changes the speed but never a result (I8). */
#ifndef EXECUTOR_PREFETCH_H
#define EXECUTOR_PREFETCH_H

#include "executor/backend.h"
#include "executor/pool.h"

/* Sets rp_cpu_prefetch to the value of REPRISE_PREFETCH, or for "auto" to the fastest candidate. The
 * measurement takes a few milliseconds, at the first call with enough weights. RP_E_ARG for an invalid
 * value. */
RP_NODISCARD RpStatus rp_prefetch_choose(const RpExecutor *e, ThreadPool *pool);

#endif
