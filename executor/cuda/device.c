/* The device, its stream, and the weights that were uploaded to it: shared by all executors of one owner,
 * each weight once. */
#include "executor/cuda/cuda.h"

#include "base/clock.h"
#include "executor/cuda/tune.h"
#include "executor/touch.h"

#include <stdlib.h>
#include <string.h>

static RpStatus open_device(CudaDevice *d) {
    struct cudaDeviceProp p;
    RP_TRY(rp_cuda_check(d, cudaSetDevice(d->index), "selection of the device"));
    RP_TRY(rp_cuda_check(d, cudaGetDeviceProperties(&p, d->index), "properties of the device"));
    snprintf(d->name, sizeof d->name, "%s", p.name);
    d->major     = p.major;
    d->minor     = p.minor;
    d->simulated = p.memoryBusWidth == 0;
    d->tuning    = rp_tuning_of_device(p.multiProcessorCount, p.major, p.minor);
    RP_TRY(rp_cuda_check(d, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "stream"));
    return rp_cuda_tune(d, &p);
}

RpStatus rp_cuda_device_open(int index, CudaDevice **out) {
    char why[512];
    *out = NULL;
    if (rp_cuda_hangs(index, why, sizeof why))
        return rp_fail(RP_E_CUDA, "cuda:%d can be opened when an earlier run has ended, or in a new process (%s)",
                       index, why);
    CudaDevice *d = calloc(1, sizeof *d);
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
    rp_cuda_watchdog_close(d);
    rp_cuda_blas_close(d);
    rp_cuda_sources_close(d);
    rp_cuda_specials_close(d);
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
        bytes += aligned(rp_cuda_weight_bytes(&v));
    }
    return bytes;
}

/* Weights go through the two halves of a pinned buffer, in pieces, each half with a stream of its own, so that one
 * piece is copied to the device while the host reads or repacks the next:
 *
 *     half 0, stream 0   [piece 0]            [piece 2]              a half is written again when the event behind its
 *     half 1, stream 1             [piece 1]            [piece 3]    copy has been reached
 *
 * A quantised weight is repacked into a half if it fits, otherwise into `planes`, which holds one weight: its pieces
 * have left it when they are enqueued. */
typedef struct Upload {
    CudaDevice  *d;
    char        *pinned;
    void        *planes;
    size_t       half; /* bytes */
    cudaStream_t streams[2];
    cudaEvent_t  done[2];
    unsigned     n_pieces;
} Upload;

static RpStatus upload_check(const Upload *u, cudaError_t e) { return rp_cuda_check(u->d, e, "upload of weights"); }

/* Waits until the latest copy from half k has been made, and counts the time. */
static RpStatus upload_wait(const Upload *u, unsigned k) {
    const double      begin = rp_seconds();
    const cudaError_t e     = cudaEventSynchronize(u->done[k]);
    u->d->upload.wait_s += rp_seconds() - begin;
    return upload_check(u, e);
}

/* Makes the pages of a weight present and counts the time: those of a file that is mapped are read now. */
static void upload_read(const Upload *u, const char *from, size_t bytes) {
    const double begin = rp_seconds();
    rp_touch(from, bytes);
    u->d->upload.read_s += rp_seconds() - begin;
}

/* The half for the next piece, when nothing reads it any more. */
static RpStatus next_half(const Upload *u, char **half) {
    const unsigned k = u->n_pieces % 2;
    *half            = u->pinned + k * u->half;
    return upload_wait(u, k);
}

/* Sends the first n bytes of the next half. */
static RpStatus upload_half(Upload *u, char *to, size_t n) {
    const unsigned k = u->n_pieces++ % 2;
    RP_TRY(upload_check(u, cudaMemcpyAsync(to, u->pinned + k * u->half, n, cudaMemcpyHostToDevice, u->streams[k])));
    return upload_check(u, cudaEventRecord(u->done[k], u->streams[k]));
}

static RpStatus upload_bytes(Upload *u, char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += u->half) {
        const size_t n = bytes - at < u->half ? bytes - at : u->half;
        char        *half;
        upload_read(u, from + at, n);
        RP_TRY(next_half(u, &half));
        memcpy(half, from + at, n);
        RP_TRY(upload_half(u, to + at, n));
    }
    return RP_OK;
}

static RpStatus upload(Upload *u, const RpTensorView *v, char *to) {
    const size_t bytes = rp_cuda_weight_bytes(v);
    char        *half;
    if (!rp_dtype_is_quant(v->dtype)) return upload_bytes(u, to, v->data, bytes);
    upload_read(u, v->data, rp_view_extent_bytes(v));
    if (bytes > u->half) {
        RP_TRY(rp_cuda_repack(v, u->planes));
        return upload_bytes(u, to, u->planes, bytes);
    }
    RP_TRY(next_half(u, &half));
    RP_TRY(rp_cuda_repack(v, half));
    return upload_half(u, to, bytes);
}

/* The largest of the missing weights, or of those that are quantised. */
static size_t largest_missing(const CudaDevice *d, const ExecPlan *plan, bool quantised) {
    size_t largest = 1;
    for (int i = 0; i < rp_graph_n_nodes(plan->graph); i++) {
        const TensorNode *node = missing_weight(d, plan, i);
        if (node == NULL) continue;
        const RpTensorView v = rp_node_view(node);
        if (quantised && !rp_dtype_is_quant(v.dtype)) continue;
        if (rp_cuda_weight_bytes(&v) > largest) largest = rp_cuda_weight_bytes(&v);
    }
    return largest;
}

static RpStatus upload_open(Upload *u, const ExecPlan *plan) {
    const size_t planes = largest_missing(u->d, plan, true), largest = largest_missing(u->d, plan, false);
    u->half   = aligned(largest < CUDA_UPLOAD_BYTES ? largest : CUDA_UPLOAD_BYTES);
    u->planes = malloc(planes);
    if (u->planes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a weight of %zu bytes", planes);
    RP_TRY(upload_check(u, cudaMallocHost((void **)&u->pinned, 2 * u->half)));
    for (int k = 0; k < 2; k++) {
        RP_TRY(upload_check(u, cudaStreamCreateWithFlags(&u->streams[k], cudaStreamNonBlocking)));
        RP_TRY(upload_check(u, cudaEventCreateWithFlags(&u->done[k], cudaEventDisableTiming)));
    }
    return RP_OK;
}

/* After a failure too: copies that still read the pinned buffer are waited for. */
static void upload_close(Upload *u) {
    for (int k = 0; k < 2; k++) {
        if (u->streams[k] != NULL) (void)cudaStreamSynchronize(u->streams[k]);
        if (u->done[k] != NULL) (void)cudaEventDestroy(u->done[k]);
        if (u->streams[k] != NULL) (void)cudaStreamDestroy(u->streams[k]);
    }
    if (u->pinned != NULL) (void)cudaFreeHost(u->pinned);
    free(u->planes);
}

/* All elements of the weight; with gaps between its matrices, the same gaps. */
static bool is_whole(const RpTensorView *v, const CudaWeight *w) {
    if (rp_cuda_weight_bytes(v) != w->bytes) return false;
    return rp_view_is_contiguous(v) ? rp_view_extent_bytes(v) == w->bytes : v->nb[2] == w->nb2;
}

/* The planes of a quantised weight extend over the whole tensor, so a slice of it has no address. */
RpStatus rp_cuda_check_whole(const CudaDevice *d, const ExecPlan *plan) {
    for (int i = 0; i < plan->n_steps; i++)
        for (int k = 0; k < RP_MAX_SRC; k++) {
            const PlanStep     *s = &plan->steps[i];
            const RpTensorView *v = &s->args.src[k];
            if (s->src[k].space != SPACE_WEIGHT || v->ne[0] <= 0 || !rp_dtype_is_quant(v->dtype)) continue;
            const CudaWeight *w = find_weight(d, v->data);
            if (w == NULL || (s->src[k].offset == 0 && is_whole(v, w))) continue;
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: [%lld,%lld,%lld,%lld] is a part of a %s weight: on the device these can be "
                           "used whole only",
                           rp_node_name(s->node), (long long)v->ne[0], (long long)v->ne[1], (long long)v->ne[2],
                           (long long)v->ne[3], rp_dtype_name(v->dtype));
        }
    return RP_OK;
}

/* Room for the new entries before anything is allocated on the device, so that adding them cannot fail. */
static RpStatus grow(CudaDevice *d, int n_new) {
    CudaWeight *weights = realloc(d->weights, (size_t)(d->n_weights + n_new) * sizeof *weights);
    if (weights != NULL) d->weights = weights;
    void **slabs = realloc(d->slabs, (size_t)(d->n_slabs + 1) * sizeof *slabs);
    if (slabs != NULL) d->slabs = slabs;
    return weights != NULL && slabs != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for %d weights", n_new);
}

/* Uploads all missing weights to `slab`. New entries stay behind n_weights until all are uploaded: lookups need a
 * sorted table, and a failure leaves the old one unchanged. */
static RpStatus fill_slab(Upload *u, const ExecPlan *plan, char *slab) {
    CudaDevice *d = u->d;
    int         n = d->n_weights;
    RP_TRY(upload_open(u, plan));
    for (int i = 0; i < rp_graph_n_nodes(plan->graph); i++) {
        const TensorNode *node = missing_weight(d, plan, i);
        if (node == NULL) continue;
        const RpTensorView v = rp_node_view(node);
        RP_TRY(upload(u, &v, slab));
        d->weights[n++] = (CudaWeight){v.data, rp_cuda_weight_bytes(&v), v.nb[2], slab};
        slab += aligned(rp_cuda_weight_bytes(&v));
    }
    for (unsigned k = 0; k < 2; k++) RP_TRY(upload_wait(u, k));
    d->n_weights = n;
    qsort(d->weights, (size_t)n, sizeof *d->weights, by_host);
    return RP_OK;
}

/* One allocation for all missing weights of the plan. */
RpStatus rp_cuda_upload_weights(CudaDevice *d, const ExecPlan *plan) {
    const size_t total = rp_cuda_missing_weights(d, plan);
    Upload       u     = {.d = d};
    const double begin = rp_seconds();
    char        *slab;
    if (total == 0) return RP_OK;
    RP_TRY(grow(d, rp_graph_n_nodes(plan->graph)));
    RP_TRY(rp_cuda_alloc(d, total, "weights", (void **)&slab));
    const RpStatus st = fill_slab(&u, plan, slab);
    upload_close(&u);
    if (st != RP_OK) {
        (void)cudaFree(slab);
        return st;
    }
    d->slabs[d->n_slabs++] = slab;
    d->upload.bytes += total;
    d->upload.all_s += rp_seconds() - begin;
    return RP_OK;
}
