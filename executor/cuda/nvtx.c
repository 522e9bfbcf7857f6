/* NVTX ranges of runs, steps and nodes, for Nsight Systems: domain "reprise", categories 1, 2 and 3. A trace of its own
 * (reprise/trace.h), which is opened only if a tool is there. */
#include "executor/cuda/cuda.h"

#include <pthread.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static nvtxDomainHandle_t domain;
static RpTrace           *trace;
static bool               asked;

static void start(const RpTraceEvent *e, void *user) {
    (void)user;
    const nvtxEventAttributes_t a = {.version     = NVTX_VERSION,
                                     .size        = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                     .category    = (uint32_t)e->kind + 1,
                                     .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                     .message     = {.ascii = e->name}};
    (void)nvtxDomainRangePushEx(domain, &a);
}

static void end(const RpTraceEvent *e, void *user) {
    (void)e, (void)user;
    (void)nvtxDomainRangePop(domain);
}

/* Without a tool nvtxDomainCreateA gives NULL. */
static RpStatus attach(void) {
    const RpTraceOptions o = {.start = start, .end = end};
    if (asked) return RP_OK;
    domain = nvtxDomainCreateA("reprise");
    if (domain != NULL) {
        nvtxDomainNameCategoryA(domain, RP_TRACE_RUN + 1, "run");
        nvtxDomainNameCategoryA(domain, RP_TRACE_STEP + 1, "step");
        nvtxDomainNameCategoryA(domain, RP_TRACE_NODE + 1, "node");
        RP_TRY(rp_trace_open(&o, &trace));
    }
    asked = true;
    return RP_OK;
}

RpStatus rp_cuda_nvtx_open(void) {
    pthread_mutex_lock(&lock);
    const RpStatus st = attach();
    pthread_mutex_unlock(&lock);
    return st;
}
#else
RpStatus rp_cuda_nvtx_open(void) { return RP_OK; }
#endif
