/* cuBLASLt for the prefill plans (32 tokens and more): opened once per device, by the first plan with such products.
 * At open every product is described and prepared. Products that the library refuses stay with the kernels of
 * kernels/, and info.blas says so (I9, I10). */
#include "executor/cuda/cuda.h"
#include "executor/device.h"

#include "reprise/options.h"

#include <string.h>

size_t rp_cuda_plan_scratch(const CudaExecutor *c) {
    const ExecPlan   *plan = c->base.plan;
    const RpKernelCtx ctx  = rp_cuda_ctx(c, NULL, NULL);
    size_t            most = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const size_t bytes = rp_cuda_scratch_bytes(plan->steps[i].op, &plan->steps[i].args, &ctx);
        if (bytes > most) most = bytes;
    }
    return most;
}

static RpStatus open_library(CudaDevice *d, const char *path) {
    RP_TRY(rp_blaslt_open(path[0] != '\0' ? path : NULL, &d->blas));
    const RpStatus st = rp_cuda_alloc(d, RP_BLAS_WORKSPACE, "the workspace of cublasLt", &d->workspace);
    if (st != RP_OK) {
        rp_cuda_blas_close(d);
        return st;
    }
    rp_blaslt_set_workspace(d->blas, d->workspace, RP_BLAS_WORKSPACE);
    return RP_OK;
}

void rp_cuda_blas_close(CudaDevice *d) {
    rp_blaslt_close(d->blas);
    if (d->workspace != NULL) (void)cudaFree(d->workspace);
    d->blas      = NULL;
    d->workspace = NULL;
}

/* Opens the library once per device. A failure is remembered as the reason; only a library named by its path must
 * open, so that error is reported each time. */
static RpStatus open_once(CudaExecutor *c, const char *path) {
    CudaDevice *d = c->device;
    if (d->blas_tried) return RP_OK;
    const RpStatus st = open_library(d, path);
    (void)cudaGetLastError();
    if (st != RP_OK && (path[0] != '\0' || d->failed)) return st;
    d->blas_tried = true;
    if (st == RP_OK)
        c->base.info.device_bytes += RP_BLAS_WORKSPACE;
    else
        snprintf(d->blas_reason, sizeof d->blas_reason, "%.255s", rp_last_error());
    return RP_OK;
}

/* Dequantised tiles need scratch memory that the other kernels do not. If it does not fit, the plan does without the
 * library instead of failing. */
static RpStatus check_room(CudaExecutor *c) {
    const CudaExecutor *owner = rp_cuda(c->base.owner);
    const size_t        need  = rp_cuda_plan_scratch(c);
    size_t              have, whole;
    if (owner != c && need <= owner->scratch_bytes) return RP_OK;
    RP_TRY(rp_cuda_check(c->device, cudaMemGetInfo(&have, &whole), "memory of the device"));
    if (need + RP_DEVICE_MARGIN <= have) return RP_OK;
    snprintf(c->blas_text, sizeof c->blas_text, "no room for the %.3f GB of scratch memory that %s takes",
             (double)need / 1e9, rp_blaslt_name(c->blas));
    c->blas = NULL;
    return RP_OK;
}

/* Prepares every product of the plan; the library is dropped if it takes none. */
static RpStatus prepare(CudaExecutor *c) {
    const RpExecutor *e   = &c->base;
    const RpKernelCtx ctx = rp_cuda_ctx(c, NULL, NULL);
    int               n   = 0;
    for (int i = 0; i < e->plan->n_steps; i++) {
        bool taken = false;
        if (!rp_cuda_blas_wants(e->plan->steps[i].op, &e->args[i], &ctx)) continue;
        RP_TRY(rp_cuda_blas_prepare(c->blas, &e->args[i], &taken));
        n += taken;
    }
    if (n > 0) return check_room(c);
    snprintf(c->blas_text, sizeof c->blas_text, "%s refuses all: %s", rp_blaslt_name(c->blas),
             rp_blaslt_reason(c->blas));
    c->blas = NULL;
    return RP_OK;
}

/* A plan that samples its tokens runs in a loop. The library is kept out of its body, where capture_body expects one
 * node per launch. */
static bool wants(const CudaExecutor *c) {
    const RpExecutor *e   = &c->base;
    const RpKernelCtx ctx = rp_cuda_ctx(c, NULL, NULL);
    for (int i = 0; i < e->plan->n_steps && e->step == NULL; i++)
        if (rp_cuda_blas_wants(e->plan->steps[i].op, &e->args[i], &ctx)) return true;
    return false;
}

RpStatus rp_cuda_blas_open(CudaExecutor *c) {
    CudaDevice *d = c->device;
    const char *path;
    c->base.info.blas = c->blas_text;
    RP_TRY(rp_cuda_wanted_library(RP_OPT_BLAS, &path));
    if (c->columns != RP_COLUMNS_ANY || !wants(c)) return RP_OK;
    if (path == NULL) {
        snprintf(c->blas_text, sizeof c->blas_text, "%s=off", rp_option_name(RP_OPT_BLAS));
        return RP_OK;
    }
    RP_TRY(open_once(c, path));
    c->blas = d->blas;
    if (c->blas != NULL) return prepare(c);
    snprintf(c->blas_text, sizeof c->blas_text, "%s", d->blas_reason);
    return RP_OK;
}

void rp_cuda_blas_describe(CudaExecutor *c) {
    if (c->blas == NULL) return;
    snprintf(c->blas_text, sizeof c->blas_text, "%s%s%s", rp_blaslt_name(c->blas),
             rp_blaslt_refused(c->blas) > 0 ? ", not for " : "", rp_blaslt_reason(c->blas));
}
