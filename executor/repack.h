/* repack.h - repacked copies of weights (base/repack.h), which the CPU executors of a process share.
 *
 * A copy belongs to a weight at its address in the file. The first executor that wants it makes it, and the last one
 * that has it frees it. So all sessions of a model have one copy. */
#ifndef EXECUTOR_REPACK_H
#define EXECUTOR_REPACK_H

#include "executor/backend.h"
#include "executor/pool.h"

typedef struct RepackedCopy RepackedCopy;

/* The copies that an executor holds. Zero: none. */
typedef struct RepackSet {
    RepackedCopy **copies;
    int            n;
    size_t         bytes;
    double         seconds; /* that the missing copies took */
} RepackSet;

/* Makes or shares copies of all weights of e->plan that the kernels can read so, with all workers of the pool.
 * `choice` is that of RpExecutorOptions.repack. "auto" and "codebook" make none where their rule (docs/cpu.md) is
 * against it. RP_E_NOMEM if "on" cannot allocate. The set is to be closed in either case. */
RP_NODISCARD RpStatus rp_repack_open(const RpExecutor *e, const char *choice, ThreadPool *pool, RepackSet *set);
void                  rp_repack_close(RepackSet *set);

/* Points the arguments of all steps of e to the copies of the set. */
void rp_repack_point(const RepackSet *set, RpExecutor *e);

#endif
