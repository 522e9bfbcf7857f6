/* pool.h - a persistent thread pool whose workers run one function together, with barriers inside it.
 *
 * The calling thread is worker 0. A waiting worker spins for a while and then sleeps: an idle pool costs
 * nothing, and a busy one does not pay for a wake-up at each step. */
#ifndef EXECUTOR_POOL_H
#define EXECUTOR_POOL_H

#include "reprise/status.h"

#include <stdbool.h>

typedef struct ThreadPool ThreadPool;

/* The function, called by worker ith of nth. It returns the outcome of that worker. */
typedef RpStatus PoolTask(void *task, int ith, int nth);

/* n_threads counts the caller. spin_us: how long to spin before sleeping. RP_E_ARG for n_threads outside
 * 1..RP_POOL_MAX; RP_E_NOMEM if threads cannot be started. */
enum { RP_POOL_MAX = 512 };
RP_NODISCARD RpStatus rp_pool_new(int n_threads, long spin_us, ThreadPool **out);
void                  rp_pool_free(ThreadPool *pool);
int                   rp_pool_size(const ThreadPool *pool);

/* Runs the task on every worker and returns when all have ended. Returns the failure that was recorded
 * first, if any; its text is then rp_last_error() of the caller. */
RP_NODISCARD RpStatus rp_pool_run(ThreadPool *pool, PoolTask *task, void *arg);

/* Every worker calls it at the end of each phase with its own status, and waits for the others. All get
 * the same result: RP_OK, or the failure of one of them. So all workers leave a failed run at the same
 * step. */
RpStatus rp_pool_barrier(ThreadPool *pool, RpStatus status);

/* Workers hardly spin at present, since another program had a core of theirs. */
bool rp_pool_is_brief(const ThreadPool *pool);

#endif
