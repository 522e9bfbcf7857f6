/* compile.h - several programs compiled at a time, or taken from the cache. */
#ifndef EXECUTOR_CUDA_COMPILE_H
#define EXECUTOR_CUDA_COMPILE_H

#include "executor/cuda/nvrtc.h"

/* One program and what became of it. The caller fills in `code` and frees `binary`. */
typedef struct CompileJob {
    CudaCode   code;
    CudaBinary binary; /* if status is RP_OK */
    RpStatus   status;
    bool       cached;      /* it comes from the cache */
    char       error[1024]; /* if status is not RP_OK */
    char       cache[512];  /* why the cache was not used for it; "" if it was */
} CompileJob;

/* Limits of compiling. No job begins any more when `progress`, which may be NULL, has returned false (the rest is
 * RP_E_CANCELLED), or after limit_s seconds, unless that is 0 (RP_E_NOT_AVAILABLE). */
typedef struct CompileWatch {
    bool (*progress)(size_t done, size_t total, void *user); /* called by the thread of rp_compile_all */
    void  *user;
    double limit_s;
} CompileWatch;

/* Opens the compiler that REPRISE_NVRTC selects. RP_E_NOT_AVAILABLE if it is off or missing, RP_E_ARG for another value
 * of the option. */
RP_NODISCARD RpStatus rp_compiler_open(RpNvrtc **out);

/* Compiles every job, on as many threads as there are jobs and processors. Jobs have a status each. `watch` may be
 * NULL. Returns false if its progress function has. */
RP_NODISCARD bool rp_compile_all(const RpNvrtc *n, CudaTarget target, CompileJob *jobs, int n_jobs,
                                 const CompileWatch *watch);

#endif
