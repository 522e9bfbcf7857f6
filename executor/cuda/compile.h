/* compile.h - several programs compiled at a time, or taken from the cache. */
#ifndef EXECUTOR_CUDA_COMPILE_H
#define EXECUTOR_CUDA_COMPILE_H

#include "executor/cuda/nvrtc.h"

/* One program to compile, and the result. The caller fills in `code` and frees `binary`. */
typedef struct CompileJob {
    CudaCode   code;
    CudaBinary binary; /* if status is RP_OK */
    RpStatus   status;
    bool       cached;      /* it comes from the cache */
    char       error[1024]; /* if status is not RP_OK */
    char       cache[512];  /* why the cache was not used for it; "" if it was */
} CompileJob;

/* Limits of compiling. After `progress` has returned false no further job begins, and the remaining jobs have the
 * status RP_E_CANCELLED. After limit_s seconds they have RP_E_NOT_AVAILABLE. `progress` NULL, limit_s 0: no limit. */
typedef struct CompileWatch {
    bool (*progress)(size_t done, size_t total, void *user); /* called by the thread of rp_compile_all */
    void  *user;
    double limit_s;
} CompileWatch;

/* Opens the compiler that REPRISE_NVRTC selects. RP_E_NOT_AVAILABLE if it is off or missing, RP_E_ARG for another value
 * of the option. */
RP_NODISCARD RpStatus rp_compiler_open(RpNvrtc **out);

/* Compiles every job, on as many threads as there are jobs and processors. Each job has a status of its own.
 * `watch` may be NULL. Returns false if its progress function returned false. */
RP_NODISCARD bool rp_compile_all(const RpNvrtc *n, CudaTarget target, CompileJob *jobs, int n_jobs,
                                 const CompileWatch *watch);

#endif
