/* cuda.h - a plan on a CUDA device: every address fixed at open, the whole plan captured into a graph, then
 * replayed.
 *
 * Inputs are written and outputs read through host memory; the copies are nodes of the graph, so that a run
 * is one launch. */
#ifndef EXECUTOR_CUDA_H
#define EXECUTOR_CUDA_H

#include "graph/plan.h"

typedef struct CudaExecutor CudaExecutor;

typedef enum CudaMode {
    CUDA_EAGER, /* a launch for each step */
    CUDA_REPLAY /* one launch for all */
} CudaMode;

/* Uploads the weights, runs the plan once with its inputs zero so that every kernel is loaded, and captures
 * it. States are zero. RP_E_NOMEM says what was asked for; RP_E_CUDA names the call. The device is the
 * current one. */
RP_NODISCARD RpStatus rp_cuda_executor_open(const ExecPlan *plan, CudaExecutor **out);
void                  rp_cuda_executor_free(CudaExecutor *e);

/* Runs every step and waits for the outputs. Both modes give the same bits (I8). */
RP_NODISCARD RpStatus rp_cuda_executor_run(CudaExecutor *e, CudaMode mode);

/* One eager run in which every step is done a second time by the CPU's kernel, from the same sources: the
 * callback sees both results, `view` telling their shape. Return false to stop. Inputs are those of the
 * latest rp_cuda_executor_data. */
typedef bool VerifyCallback(const TensorNode *node, const TensorView *view, const void *cuda, const void *cpu,
                            void *user);
RP_NODISCARD RpStatus rp_cuda_executor_verify(CudaExecutor *e, VerifyCallback *callback, void *user);

/* Host memory of an input (write it before a run) or an output (valid until the next run); NULL for other
 * nodes. */
void *rp_cuda_executor_data(CudaExecutor *e, const TensorNode *node);

#endif
