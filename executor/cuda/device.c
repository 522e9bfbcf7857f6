/* The device, its stream, its errors, and the weights that were uploaded to it: shared by all executors of one owner,
 * each weight once. */
#include "executor/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

RpStatus rp_cuda_check(CudaDevice *d, cudaError_t e, const char *what) {
    if (e == cudaSuccess) return RP_OK;
    (void)cudaGetLastError();
    /* After a fatal error every call returns that error: the query tells it from a failure of this call alone. A
     * capturing stream answers with an error of its own, which is not fatal. */
    const cudaError_t now = d->stream != NULL ? cudaStreamQuery(d->stream) : cudaSuccess;
    (void)cudaGetLastError();
    if (now != cudaSuccess && now != cudaErrorNotReady && now != cudaErrorStreamCaptureUnsupported &&
        now != cudaErrorStreamCaptureInvalidated) {
        d->failed = true;
        snprintf(d->failure, sizeof d->failure, "%s: %s", what, cudaGetErrorString(now));
    }
    return rp_fail(e == cudaErrorMemoryAllocation ? RP_E_NOMEM : RP_E_CUDA, "%s: %s: %s", d->id, what,
                   cudaGetErrorString(e));
}

RpStatus rp_cuda_named(const CudaDevice *d, RpStatus st) {
    char text[512];
    if (st != RP_E_CUDA) return st;
    snprintf(text, sizeof text, "%s", rp_last_error());
    return rp_fail(st, "%s: %s", d->id, text);
}

RpStatus rp_cuda_select(CudaDevice *d) {
    if (d->failed)
        return rp_fail(RP_E_CUDA, "%s has failed before (%s): open it anew, in a new process if need be",
                       d->id, d->failure);
    return rp_cuda_check(d, cudaSetDevice(d->index), "selection of the device");
}

RpStatus rp_cuda_enter(CudaDevice *d) {
    RP_TRY(rp_cuda_select(d));
    return d->looping ? rp_fail(RP_E_STATE, "%s: a reply is under way", d->id) : RP_OK;
}

RpStatus rp_cuda_alloc(CudaDevice *d, size_t bytes, const char *what, void **out) {
    const cudaError_t e = cudaMalloc(out, bytes > 0 ? bytes : CUDA_ALIGN);
    if (e != cudaErrorMemoryAllocation) return rp_cuda_check(d, e, what);
    (void)cudaGetLastError();
    return rp_fail(RP_E_NOMEM, "%s: %zu bytes for %s could not be allocated", d->id, bytes, what);
}

static RpStatus open_device(CudaDevice *d) {
    struct cudaDeviceProp p;
    RP_TRY(rp_cuda_check(d, cudaSetDevice(d->index), "selection of the device"));
    RP_TRY(rp_cuda_check(d, cudaGetDeviceProperties(&p, d->index), "properties of the device"));
    snprintf(d->name, sizeof d->name, "%s", p.name);
    d->major = p.major;
    return rp_cuda_check(d, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "stream");
}

RpStatus rp_cuda_device_open(int index, CudaDevice **out) {
    CudaDevice *d = calloc(1, sizeof *d);
    *out          = NULL;
    if (d == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a device");
    d->index = index;
    snprintf(d->id, sizeof d->id, "cuda:%d", index);
    const RpStatus st = open_device(d);
    if (st != RP_OK) {
        rp_cuda_device_close(d);
        return st;
    }
    *out = d;
    return RP_OK;
}

/* Also closes what rp_cuda_device_open has opened in part. */
void rp_cuda_device_close(CudaDevice *d) {
    if (d == NULL) return;
    rp_cuda_blas_close(d);
    for (int i = 0; i < d->n_slabs; i++) (void)cudaFree(d->slabs[i]);
    if (d->stream != NULL) (void)cudaStreamDestroy(d->stream);
    free(d->slabs);
    free(d->weights);
    free(d);
}

/* ---- weights ---- */

static size_t aligned(size_t bytes) { return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN; }

static int by_host(const void *a, const void *b) {
    const CudaWeight *x = a, *y = b;
    return ((uintptr_t)x->host > (uintptr_t)y->host) - ((uintptr_t)x->host < (uintptr_t)y->host);
}

static const CudaWeight *find_weight(const CudaDevice *d, const void *host) {
    const CudaWeight key = {.host = host};
    return d->n_weights > 0 ? bsearch(&key, d->weights, (size_t)d->n_weights, sizeof key, by_host) : NULL;
}

void *rp_cuda_weight(RpExecutor *e, const void *host) {
    const CudaWeight *w = find_weight(rp_cuda(e)->device, host);
    return w != NULL ? w->device : NULL;
}

/* Node i if it is a weight that is not on the device yet, otherwise NULL. */
static const TensorNode *missing_weight(const CudaDevice *d, const ExecPlan *plan, int i) {
    const TensorNode *node = rp_graph_node(plan->graph, i);
    if (strcmp(rp_node_op_name(node), "weight") != 0) return NULL;
    return find_weight(d, rp_node_view(node).data) == NULL ? node : NULL;
}

size_t rp_cuda_missing_weights(const CudaDevice *d, const ExecPlan *plan) {
    size_t bytes = 0;
    for (int i = 0; i < rp_graph_n_nodes(plan->graph); i++) {
        const TensorNode *node = missing_weight(d, plan, i);
        if (node == NULL) continue;
        const RpTensorView v = rp_node_view(node);
        bytes += aligned(rp_view_extent_bytes(&v));
    }
    return bytes;
}

/* Enqueues the upload of one weight. A quantised one is repacked into `planes` first. That host buffer holds one
 * weight, so its copy is waited for before the next weight overwrites it. */
static RpStatus upload(CudaDevice *d, const RpTensorView *v, char *to, void *planes) {
    const bool  repacks = rp_dtype_is_quant(v->dtype);
    const void *from  = repacks ? planes : v->data;
    if (repacks) RP_TRY(rp_cuda_repack(v, planes));
    RP_TRY(rp_cuda_check(d,
                         cudaMemcpyAsync(to, from, rp_view_extent_bytes(v), cudaMemcpyHostToDevice, d->stream),
                         "upload of weights"));
    return repacks ? rp_cuda_check(d, cudaStreamSynchronize(d->stream), "upload of weights") : RP_OK;
}

static size_t largest_quantised(const CudaDevice *d, const ExecPlan *plan) {
    size_t largest = 1;
    for (int i = 0; i < rp_graph_n_nodes(plan->graph); i++) {
        const TensorNode *node = missing_weight(d, plan, i);
        if (node == NULL) continue;
        const RpTensorView v = rp_node_view(node);
        if (rp_dtype_is_quant(v.dtype) && rp_view_extent_bytes(&v) > largest) largest = rp_view_extent_bytes(&v);
    }
    return largest;
}

/* The planes of a quantised weight extend over the whole tensor, so a slice of it has no address. */
RpStatus rp_cuda_check_whole(const CudaDevice *d, const ExecPlan *plan) {
    for (int i = 0; i < plan->n_steps; i++)
        for (int k = 0; k < RP_MAX_SRC; k++) {
            const PlanStep   *s = &plan->steps[i];
            const RpTensorView *v = &s->args.src[k];
            if (s->src[k].space != SPACE_WEIGHT || v->ne[0] <= 0 || !rp_dtype_is_quant(v->dtype)) continue;
            const CudaWeight *w = find_weight(d, v->data);
            if (w == NULL ||
                (s->src[k].offset == 0 && rp_view_is_contiguous(v) && rp_view_extent_bytes(v) == w->bytes))
                continue;
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: [%lld,%lld,%lld,%lld] is a part of a %s weight: on the device these can be "
                           "used whole only",
                           rp_node_name(s->node), (long long)v->ne[0], (long long)v->ne[1],
                           (long long)v->ne[2], (long long)v->ne[3], rp_dtype_name(v->dtype));
        }
    return RP_OK;
}

/* Room for the new entries before anything is allocated on the device, so that adding them cannot fail. */
static RpStatus grow(CudaDevice *d, int n_new) {
    CudaWeight *weights = realloc(d->weights, (size_t)(d->n_weights + n_new) * sizeof *weights);
    if (weights != NULL) d->weights = weights;
    void **slabs = realloc(d->slabs, (size_t)(d->n_slabs + 1) * sizeof *slabs);
    if (slabs != NULL) d->slabs = slabs;
    return weights != NULL && slabs != NULL ? RP_OK
                                            : rp_fail(RP_E_NOMEM, "out of memory for %d weights", n_new);
}

/* Uploads all missing weights to `slab`. New entries stay behind n_weights until all are uploaded: lookups need a
 * sorted table, and a failure leaves the old one unchanged. */
static RpStatus fill_slab(CudaDevice *d, const ExecPlan *plan, char *slab, void *planes) {
    int n = d->n_weights;
    for (int i = 0; i < rp_graph_n_nodes(plan->graph); i++) {
        const TensorNode *node = missing_weight(d, plan, i);
        if (node == NULL) continue;
        const RpTensorView v = rp_node_view(node);
        RP_TRY(upload(d, &v, slab, planes));
        d->weights[n++] = (CudaWeight){v.data, rp_view_extent_bytes(&v), slab};
        slab += aligned(rp_view_extent_bytes(&v));
    }
    RP_TRY(rp_cuda_check(d, cudaStreamSynchronize(d->stream), "upload of weights"));
    d->n_weights = n;
    qsort(d->weights, (size_t)n, sizeof *d->weights, by_host);
    return RP_OK;
}

/* One allocation for all missing weights of the plan. */
RpStatus rp_cuda_upload_weights(CudaDevice *d, const ExecPlan *plan) {
    const size_t total = rp_cuda_missing_weights(d, plan);
    char        *slab;
    if (total == 0) return RP_OK;
    RP_TRY(grow(d, rp_graph_n_nodes(plan->graph)));
    RP_TRY(rp_cuda_alloc(d, total, "weights", (void **)&slab));
    const size_t largest = largest_quantised(d, plan);
    void        *planes  = malloc(largest);
    RpStatus     st      = planes != NULL ? fill_slab(d, plan, slab, planes)
                                          : rp_fail(RP_E_NOMEM, "out of memory for a weight of %zu bytes", largest);
    free(planes); /* no copy reads it any more: each was waited for */
    if (st == RP_OK)
        d->slabs[d->n_slabs++] = slab;
    else
        (void)cudaFree(slab); /* waits for copies under way */
    return st;
}
