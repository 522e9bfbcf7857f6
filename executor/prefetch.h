/* prefetch.h - the choice of the software prefetch (hint and distance) for this CPU. It is measured once
 * per process, on the weights of the first executor, and changes the speed but never a result (I8). */
#ifndef EXECUTOR_PREFETCH_H
#define EXECUTOR_PREFETCH_H

#include "executor/backend.h"

/* Sets rp_cpu_prefetch to the value of REPRISE_PREFETCH, or for "auto" to the fastest candidate. The
 * measurement takes a few milliseconds, at the first call with enough weights. RP_E_ARG for an invalid
 * value. */
RP_NODISCARD RpStatus rp_prefetch_choose(const RpExecutor *e);

enum { RP_PREFETCH_MAX_ROUNDS = 16 };

/* The candidate to use, by seconds[round * n + candidate] of the same work; rounds <= RP_PREFETCH_MAX_ROUNDS. Speeds
 * relative to candidate 0 are medians over the rounds. The first candidate within 10 % of the fastest is taken, so
 * that noise below that does not change the choice. */
int rp_prefetch_fastest(const double *seconds, int rounds, int n);

#endif
