/* Records work of a stream as a CUDA graph, and instantiates graphs. */
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"

#include <stdio.h>

static RpStatus check_text(CudaDevice *d, cudaError_t e, const char *doing, const char *what) {
    char text[64];
    snprintf(text, sizeof text, "%s of %s", doing, what);
    return rp_cuda_check(d, e, text);
}

/* Ends the capture even after a failed step: the stream would stay in capture mode otherwise. */
RpStatus rp_cuda_record(CudaDevice *d, cudaGraph_t body, RpStatus (*enqueue_all)(void *arg), void *arg,
                        const char *what, cudaGraph_t *out) {
    const enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    *out                                  = NULL;
    RP_TRY(check_text(d,
                      body != NULL ? cudaStreamBeginCaptureToGraph(d->stream, body, NULL, NULL, 0, mode)
                                   : cudaStreamBeginCapture(d->stream, mode),
                      "begin", what));
    const RpStatus    st    = enqueue_all(arg);
    const cudaError_t ended = cudaStreamEndCapture(d->stream, out);
    if (st != RP_OK) (void)cudaGetLastError();
    RP_TRY(st);
    return check_text(d, ended, "end", what);
}

RpStatus rp_cuda_instantiate(CudaDevice *d, cudaGraph_t graph, const char *what, cudaGraphExec_t *out) {
    RP_TRY(check_text(d, cudaGraphInstantiate(out, graph, 0), "instantiation", what));
    return check_text(d, cudaGraphUpload(*out, d->stream), "upload", what);
}
