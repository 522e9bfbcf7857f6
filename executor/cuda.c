#include "executor/cuda.h"

#include "executor/plan_walk.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

/* A weight's memory on the host and where it lies on the device. */
typedef struct Upload {
    TensorView view;
    size_t     bytes, offset;
} Upload;

/* An input or output: its place in the host's memory and on the device. */
typedef struct Mirror {
    const TensorNode *node;
    size_t            bytes, offset;
    char             *device;
    bool              is_input;
} Mirror;

struct CudaExecutor {
    const ExecPlan *plan;
    cudaStream_t    stream;
    cudaGraphExec_t graph;
    char           *arena, *weights, *host, *scratch;
    size_t          scratch_bytes;
    void          **states;
    Upload         *uploads;
    int             n_uploads;
    Mirror         *mirrors;
    int             n_mirrors;
    OpArgs         *args; /* one a step, device addresses filled in */
};

static RpStatus check(cudaError_t e, const char *what) {
    return e == cudaSuccess ? RP_OK : rp_fail(RP_E_CUDA, "%s: %s", what, cudaGetErrorString(e));
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static RpStatus device_memory(size_t bytes, const char *what, char **out) {
    const cudaError_t e = cudaMalloc((void **)out, bytes > 0 ? bytes : ALIGN);
    if (e == cudaErrorMemoryAllocation)
        return rp_fail(RP_E_NOMEM, "%s: %zu bytes could not be allocated on the device", what, bytes);
    return check(e, what);
}

void rp_cuda_executor_free(CudaExecutor *e) {
    if (e == NULL) return;
    if (e->graph != NULL) (void)cudaGraphExecDestroy(e->graph);
    for (int i = 0; e->states != NULL && i < e->plan->n_states; i++) (void)cudaFree(e->states[i]);
    (void)cudaFree(e->arena);
    (void)cudaFree(e->weights);
    (void)cudaFree(e->scratch);
    if (e->host != NULL) (void)cudaFreeHost(e->host);
    if (e->stream != NULL) (void)cudaStreamDestroy(e->stream);
    free(e->states);
    free(e->uploads);
    free(e->mirrors);
    free(e->args);
    free(e);
}

/* ---- memory ---- */

static bool is_kind(const TensorNode *node, const char *kind) {
    return strcmp(rp_node_op_name(node), kind) == 0;
}

/* A quantised weight takes the way over `planes`, which holds one at a time. */
static RpStatus upload(CudaExecutor *e, const Upload *u, void *planes) {
    const void *from = u->view.data;
    if (rp_dtype_is_quant(u->view.dtype)) {
        RP_TRY(rp_cuda_pack(&u->view, planes));
        from = planes;
    }
    RP_TRY(check(cudaMemcpyAsync(e->weights + u->offset, from, u->bytes, cudaMemcpyHostToDevice, e->stream),
                 "upload of weights"));
    return from == planes ? check(cudaStreamSynchronize(e->stream), "upload of weights") : RP_OK;
}

static RpStatus upload_weights(CudaExecutor *e) {
    const ComputeGraph *g     = e->plan->graph;
    size_t              total = 0, largest = 1;
    e->uploads = calloc((size_t)rp_graph_n_nodes(g) + 1, sizeof *e->uploads);
    if (e->uploads == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a CUDA executor");
    for (int i = 0; i < rp_graph_n_nodes(g); i++) {
        if (!is_kind(rp_graph_node(g, i), "weight")) continue;
        const TensorView v         = rp_node_view(rp_graph_node(g, i));
        const size_t     bytes     = rp_view_span_bytes(&v);
        e->uploads[e->n_uploads++] = (Upload){v, bytes, total};
        total += aligned(bytes);
        if (rp_dtype_is_quant(v.dtype) && bytes > largest) largest = bytes;
    }
    RP_TRY(device_memory(total, "weights", &e->weights));
    void *planes = malloc(largest);
    if (planes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a weight of %zu bytes", largest);
    RpStatus st = RP_OK;
    for (int i = 0; i < e->n_uploads && st == RP_OK; i++) st = upload(e, &e->uploads[i], planes);
    free(planes);
    RP_TRY(st);
    return check(cudaStreamSynchronize(e->stream), "upload of weights");
}

static const Upload *upload_of(const CudaExecutor *e, const void *host) {
    for (int i = 0; i < e->n_uploads; i++)
        if (e->uploads[i].view.data == host) return &e->uploads[i];
    return NULL;
}

/* The planes of a quantised weight run over all of it: no part of it can be seen as a tensor of its own. */
static RpStatus check_whole(const CudaExecutor *e, const PlanStep *s, int k) {
    const TensorView *v = &s->args.src[k];
    if (s->src[k].space != SPACE_WEIGHT || !rp_dtype_is_quant(v->dtype)) return RP_OK;
    const Upload *u = upload_of(e, v->data);
    if (u == NULL || (s->src[k].offset == 0 && rp_view_is_packed(v) && rp_view_span_bytes(v) == u->bytes))
        return RP_OK;
    return rp_fail(
        RP_E_UNSUPPORTED,
        "%s: [%lld,%lld,%lld,%lld] is a part of a %s weight: on the device these can be used whole only",
        rp_node_name(s->node), (long long)v->ne[0], (long long)v->ne[1], (long long)v->ne[2],
        (long long)v->ne[3], rp_dtype_name(v->dtype));
}

static RpStatus open_states(CudaExecutor *e) {
    e->states = calloc((size_t)e->plan->n_states + 1, sizeof *e->states);
    if (e->states == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a CUDA executor");
    for (int i = 0; i < e->plan->n_states; i++)
        RP_TRY(device_memory(e->plan->states[i].bytes, rp_node_name(e->plan->states[i].node),
                             (char **)&e->states[i]));
    return RP_OK;
}

static RpStatus open_scratch(CudaExecutor *e) {
    for (int i = 0; i < e->plan->n_steps; i++) {
        const size_t bytes = rp_cuda_scratch_bytes(e->plan->steps[i].op, &e->args[i]);
        if (bytes > e->scratch_bytes) e->scratch_bytes = bytes;
    }
    RP_TRY(device_memory(e->scratch_bytes, "scratch memory", &e->scratch));
    return check(cudaMemsetAsync(e->scratch, 0, e->scratch_bytes > 0 ? e->scratch_bytes : ALIGN, e->stream),
                 "scratch memory");
}

static KernelCtx context(const CudaExecutor *e) {
    return (KernelCtx){.stream = e->stream, .scratch = e->scratch, .scratch_bytes = e->scratch_bytes};
}

static RpStatus zero_states(CudaExecutor *e) {
    for (int i = 0; i < e->plan->n_states; i++)
        RP_TRY(check(cudaMemsetAsync(e->states[i], 0, e->plan->states[i].bytes, e->stream), "states"));
    return check(cudaStreamSynchronize(e->stream), "states");
}

static char *resolve(const CudaExecutor *e, PlanRef ref, const void *weight) {
    if (ref.space == SPACE_ARENA) return e->arena + ref.offset;
    if (ref.space == SPACE_STATE) return (char *)e->states[ref.state] + ref.offset;
    const Upload *u = upload_of(e, weight);
    return u != NULL ? e->weights + u->offset + ref.offset : NULL;
}

static RpStatus open_steps(CudaExecutor *e) {
    const ExecPlan *plan = e->plan;
    e->args              = calloc((size_t)plan->n_steps + 1, sizeof *e->args);
    if (e->args == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", plan->n_steps);
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s   = &plan->steps[i];
        e->args[i]          = s->args;
        e->args[i].dst.data = resolve(e, s->dst, NULL);
        for (int k = 0; k < RP_MAX_SRC; k++) {
            if (s->args.src[k].ne[0] <= 0) continue;
            RP_TRY(check_whole(e, s, k));
            e->args[i].src[k].data = resolve(e, s->src[k], s->args.src[k].data);
            if (e->args[i].src[k].data == NULL)
                return rp_fail(RP_E_STATE, "%s: a source of it is no weight of the graph",
                               rp_node_name(s->node));
        }
    }
    return RP_OK;
}

/* Inputs, and what still holds its result when a run has ended. */
static RpStatus open_mirrors(CudaExecutor *e) {
    const ComputeGraph *g     = e->plan->graph;
    size_t              total = 0;
    e->mirrors                = calloc((size_t)rp_graph_n_nodes(g) + 1, sizeof *e->mirrors);
    if (e->mirrors == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a CUDA executor");
    for (int i = 0; i < rp_graph_n_nodes(g); i++) {
        const TensorNode *node = rp_graph_node(g, i);
        const bool        leaf = is_kind(node, "weight") || is_kind(node, "state");
        if (leaf || !rp_plan_keeps(e->plan, node)) continue;
        const PlanRef ref = rp_plan_ref(e->plan, node);
        if (ref.space != SPACE_ARENA) continue;
        const TensorView v         = rp_node_view(node);
        e->mirrors[e->n_mirrors++] = (Mirror){.node     = node,
                                              .bytes    = rp_view_span_bytes(&v),
                                              .offset   = total,
                                              .device   = e->arena + ref.offset,
                                              .is_input = is_kind(node, "input")};
        total += aligned(rp_view_span_bytes(&v));
    }
    RP_TRY(check(cudaMallocHost((void **)&e->host, total > 0 ? total : ALIGN),
                 "host memory of inputs and outputs"));
    memset(e->host, 0, total);
    return RP_OK;
}

void *rp_cuda_executor_data(CudaExecutor *e, const TensorNode *node) {
    for (int i = 0; i < e->n_mirrors; i++)
        if (e->mirrors[i].node == node) return e->host + e->mirrors[i].offset;
    return NULL;
}

/* ---- running ---- */

static RpStatus copy_mirrors(CudaExecutor *e, bool inputs) {
    for (int i = 0; i < e->n_mirrors; i++) {
        const Mirror *m    = &e->mirrors[i];
        char         *host = e->host + m->offset;
        if (m->is_input != inputs) continue;
        RP_TRY(check(inputs ? cudaMemcpyAsync(m->device, host, m->bytes, cudaMemcpyHostToDevice, e->stream)
                            : cudaMemcpyAsync(host, m->device, m->bytes, cudaMemcpyDeviceToHost, e->stream),
                     rp_node_name(m->node)));
    }
    return RP_OK;
}

static RpStatus enqueue(CudaExecutor *e) {
    KernelCtx ctx = context(e);
    RP_TRY(copy_mirrors(e, true));
    RP_TRY(rp_plan_walk(e->plan, e->args, rp_cuda_kernels, &ctx, NULL, NULL));
    return copy_mirrors(e, false);
}

/* A failed step would otherwise leave the stream capturing: the capture is ended whatever happened. */
static RpStatus capture(CudaExecutor *e) {
    cudaGraph_t graph = NULL;
    size_t      n     = 0;
    RP_TRY(
        check(cudaStreamBeginCapture(e->stream, cudaStreamCaptureModeThreadLocal), "begin of the capture"));
    RpStatus          st    = enqueue(e);
    const cudaError_t ended = cudaStreamEndCapture(e->stream, &graph);
    if (st == RP_OK) st = check(ended, "end of the capture");
    if (st == RP_OK) st = check(cudaGraphGetNodes(graph, NULL, &n), "nodes of the capture");
    if (st == RP_OK && n != (size_t)(e->plan->n_steps + e->n_mirrors))
        st = rp_fail(RP_E_STATE, "the capture has %zu nodes, the plan %d steps and %d copies", n,
                     e->plan->n_steps, e->n_mirrors);
    if (st == RP_OK) st = check(cudaGraphInstantiate(&e->graph, graph, 0), "instantiation of the graph");
    if (st == RP_OK) st = check(cudaGraphUpload(e->graph, e->stream), "upload of the graph");
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    return st;
}

RpStatus rp_cuda_executor_run(CudaExecutor *e, CudaMode mode) {
    RP_TRY(mode == CUDA_REPLAY ? check(cudaGraphLaunch(e->graph, e->stream), "launch of the graph")
                               : enqueue(e));
    return check(cudaStreamSynchronize(e->stream), "run of the plan");
}

/* ---- every step against the CPU ---- */

/* What a step reads and writes, on the host. A result that takes a source's memory takes its copy's too. */
typedef struct HostStep {
    OpArgs args;
    void  *owned[RP_MAX_SRC + 2];
    int    n_owned;
} HostStep;

static RpStatus to_host(HostStep *h, const TensorView *device, TensorView *out) {
    const size_t bytes = rp_view_span_bytes(device);
    void        *copy  = malloc(bytes);
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a copy of %zu bytes", bytes);
    h->owned[h->n_owned++] = copy;
    *out                   = *device;
    out->data              = copy;
    return check(cudaMemcpy(copy, device->data, bytes, cudaMemcpyDeviceToHost), "copy of a step's memory");
}

static RpStatus host_sources(const CudaExecutor *e, int step, HostStep *h) {
    const PlanStep *s  = &e->plan->steps[step];
    const OpArgs   *on = &e->args[step];
    RP_TRY(to_host(h, &on->dst, &h->args.dst));
    for (int k = 0; k < RP_MAX_SRC; k++) {
        h->args.src[k] = on->src[k];
        if (on->src[k].ne[0] <= 0) continue;
        if (s->src[k].space == SPACE_WEIGHT)
            h->args.src[k].data = (char *)s->args.src[k].data + s->src[k].offset;
        else if (on->src[k].data == on->dst.data)
            h->args.src[k].data = h->args.dst.data;
        else
            RP_TRY(to_host(h, &on->src[k], &h->args.src[k]));
    }
    return RP_OK;
}

static RpStatus verify_step(CudaExecutor *e, int step, HostStep *h, VerifyCallback *callback, void *user,
                            bool *go_on) {
    const PlanStep *s       = &e->plan->steps[step];
    KernelCtx       on_cuda = context(e), on_cpu = {.ith = 0, .nth = 1};
    TensorView      result;
    RP_TRY(check(cudaStreamSynchronize(e->stream), rp_node_name(s->node)));
    h->args.params = e->args[step].params;
    RP_TRY(host_sources(e, step, h));
    RP_TRY(rp_cpu_kernels[s->op](&h->args, &on_cpu));
    RP_TRY(rp_cuda_kernels[s->op](&e->args[step], &on_cuda));
    RP_TRY(check(cudaStreamSynchronize(e->stream), rp_node_name(s->node)));
    RP_TRY(to_host(h, &e->args[step].dst, &result));
    *go_on = callback(s->node, &result, result.data, h->args.dst.data, user);
    return RP_OK;
}

RpStatus rp_cuda_executor_verify(CudaExecutor *e, VerifyCallback *callback, void *user) {
    RpStatus st    = copy_mirrors(e, true);
    bool     go_on = true;
    for (int i = 0; i < e->plan->n_steps && st == RP_OK && go_on; i++) {
        HostStep h = {0};
        st         = verify_step(e, i, &h, callback, user, &go_on);
        for (int k = 0; k < h.n_owned; k++) free(h.owned[k]);
    }
    if (st == RP_OK) st = copy_mirrors(e, false);
    return st == RP_OK ? check(cudaStreamSynchronize(e->stream), "run of the plan") : st;
}

static RpStatus open_all(CudaExecutor *e) {
    RP_TRY(check(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking), "stream"));
    RP_TRY(device_memory(e->plan->memory.arena, "arena", &e->arena));
    RP_TRY(open_states(e));
    RP_TRY(upload_weights(e));
    RP_TRY(open_steps(e));
    RP_TRY(open_scratch(e));
    RP_TRY(open_mirrors(e));
    RP_TRY(zero_states(e));
    RP_TRY(rp_cuda_executor_run(e, CUDA_EAGER)); /* loads every kernel, before anything is captured */
    RP_TRY(zero_states(e));
    return capture(e);
}

RpStatus rp_cuda_executor_open(const ExecPlan *plan, CudaExecutor **out) {
    CudaExecutor *e = calloc(1, sizeof *e);
    *out            = NULL;
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a CUDA executor");
    e->plan           = plan;
    const RpStatus st = open_all(e);
    if (st != RP_OK) {
        rp_cuda_executor_free(e);
        return st;
    }
    *out = e;
    return RP_OK;
}
