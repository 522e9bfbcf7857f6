/* executor.h - plan a finished graph, open an executor on the plan, run it as often as wanted.
 *
 *   ExecPlan *plan;  Executor *exec;
 *   RP_TRY(rp_plan_new(g, &plan));
 *   RP_TRY(rp_executor_open(plan, NULL, &exec));
 *   memcpy(rp_executor_data(exec, x), input, bytes);
 *   RP_TRY(rp_executor_run(exec));
 *   const float *out = rp_executor_data(exec, y);
 *
 * The plan fixes every address before anything is allocated; opening allocates, running does not (I3). The graph must
 * outlive its plan, and the plan its executors.
 */
#ifndef REPRISE_EXECUTOR_H
#define REPRISE_EXECUTOR_H

#include "reprise/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ExecPlan ExecPlan;
typedef struct Executor Executor;

/* Liveness and arena offsets of the graph, which it borrows. Deterministic: the same graph gives the same plan. */
RP_NODISCARD RpStatus rp_plan_new(const ComputeGraph *g, ExecPlan **out);
void                  rp_plan_free(ExecPlan *plan);

/* What running the plan takes, known before any of it is allocated. Bytes. */
typedef struct PlanMemory {
    size_t arena;   /* intermediate tensors, inputs and outputs */
    size_t unshared; /* what the arena would be without reuse */
    size_t weights; /* borrowed */
    size_t state;   /* the caches that live between runs */
    int    n_steps;
} PlanMemory;

PlanMemory rp_plan_memory(const ExecPlan *plan);

/* Bytes read and written by one run if every source and result moves once; positions count as full context. */
size_t rp_plan_traffic_bytes(const ExecPlan *plan);

/* One line a step: op, name, shape, where the result lies, its bytes and what it replaced; then the totals. */
RP_NODISCARD RpStatus rp_plan_dump(const ExecPlan *plan, DumpFormat format, FILE *out);

typedef struct ExecutorOptions {
    int       n_threads; /* 0: REPRISE_THREADS, or one a core */
    Executor *share;     /* or NULL: use this executor's threads, its arena if that is large enough, and its states by
                            name; it must outlive the new one */
} ExecutorOptions;

/* `options` may be NULL. RP_E_NOMEM says how much was asked for. */
RP_NODISCARD RpStatus rp_executor_open(const ExecPlan *plan, const ExecutorOptions *options, Executor **out);
void                  rp_executor_free(Executor *exec);

/* Runs every step once, from the calling thread; one run at a time over all executors that share. After an error the
 * executor can be run again. */
RP_NODISCARD RpStatus rp_executor_run(Executor *exec);

/* The memory of an input (write it before a run), an output (valid until the next run of any sharing executor), or a
 * state. NULL for a node whose memory is reused by others. Owned by the executor. */
void *rp_executor_data(Executor *exec, const TensorNode *node);

int rp_executor_n_threads(const Executor *exec);

#ifdef __cplusplus
}
#endif
#endif
