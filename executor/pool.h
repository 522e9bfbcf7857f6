/* pool.h - a team of threads that run one function together, with a barrier between its steps.
 *
 * The caller is member 0. Members that wait spin for a while and then sleep, so that an idle team costs
 * nothing and a busy one does not pay for a wake-up at each step. */
#ifndef EXECUTOR_POOL_H
#define EXECUTOR_POOL_H

#include "reprise/status.h"

typedef struct ThreadPool ThreadPool;

/* Member ith of nth; returns what the member found. */
typedef RpStatus PoolTask(void *task, int ith, int nth);

/* RP_E_ARG for n_threads outside 1..RP_POOL_MAX; RP_E_NOMEM where threads cannot be had. */
enum { RP_POOL_MAX = 512 };
RP_NODISCARD RpStatus rp_pool_new(int n_threads, long spin_us, ThreadPool **out);
void                  rp_pool_free(ThreadPool *pool);
int                   rp_pool_size(const ThreadPool *pool);

/* Runs the task on every member and returns when all have ended: the first failure of the lowest member,
 * whose text is then rp_last_error() of the caller. */
RP_NODISCARD RpStatus rp_pool_run(ThreadPool *pool, PoolTask *task, void *arg);

/* Called by every member at the end of each step with that member's status. Returns, to all alike, RP_OK or
 * the failure of one of them. */
RpStatus rp_pool_barrier(ThreadPool *pool, RpStatus status);

#endif
