/* The work of a run in the stream of the device: inputs, the steps of the plan, outputs. Capture records it. */
#include "executor/cuda/cuda.h"

#include "executor/plan_walk.h"

static RpStatus copy_mirror(CudaExecutor *c, const Mirror *m) {
    char                     *host = c->host + m->offset;
    const enum cudaMemcpyKind way  = m->is_input ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    return rp_cuda_check(c->device,
                         cudaMemcpyAsync(m->is_input ? m->device : host, m->is_input ? host : m->device, m->bytes, way,
                                         c->device->stream),
                         rp_node_name(m->node));
}

RpStatus rp_cuda_enqueue_inputs(CudaExecutor *c) {
    CudaDevice *d = c->device;
    if (c->inputs != NULL)
        return rp_cuda_check(d, cudaMemcpyAsync(c->inputs, c->host, c->input_bytes, cudaMemcpyHostToDevice, d->stream),
                             "inputs");
    for (int i = 0; i < c->n_mirrors; i++) {
        const Mirror *m = &c->mirrors[i];
        if (m->is_input) RP_TRY(copy_mirror(c, m));
    }
    return RP_OK;
}

RpStatus rp_cuda_enqueue_outputs(CudaExecutor *c) {
    CudaDevice *d = c->device;
    if (c->base.step != NULL) {
        const void *token = rp_executor_address(&c->base, rp_plan_ref(c->base.plan, c->base.step));
        RP_TRY(rp_cuda_check(d, cudaMemcpyAsync(c->token, token, sizeof *c->token, cudaMemcpyDeviceToHost, d->stream),
                             "token"));
    }
    for (int i = 0; i < c->n_mirrors; i++) {
        const Mirror *m = &c->mirrors[i];
        if (!m->is_input) RP_TRY(copy_mirror(c, m));
    }
    return RP_OK;
}

/* With a watchdog the host waits after each EAGER_AHEAD steps: while a kernel does not end, the driver accepts about a
 * thousand more launches and then blocks. */
enum { EAGER_AHEAD = 128 };

typedef struct EagerWalk {
    CudaExecutor *c;
    TracedNodes  *nodes; /* or NULL */
    int32_t       n_done;
} EagerWalk;

static RpStatus end_of_step(void *user, RpStatus status, bool last_phase) {
    (void)last_phase;
    EagerWalk *w = user;
    if (w->nodes != NULL) rp_traced_next(w->nodes, status);
    if (status != RP_OK || !rp_cuda_watches(w->c->device)) return status;
    RP_TRY(rp_cuda_mark_step(w->c, ++w->n_done, false));
    return w->n_done % EAGER_AHEAD == 0 ? rp_cuda_wait_steps(w->c, "run of the plan") : RP_OK;
}

RpStatus rp_cuda_enqueue_steps(CudaExecutor *c, int first, int end, TracedNodes *nodes) {
    EagerWalk      w    = {c, nodes, first};
    const ExecPlan part = rp_plan_part(c->base.plan, first, end);
    RpKernelCtx    ctx  = rp_cuda_ctx(c, NULL, NULL);
    RP_TRY(rp_cuda_mark_step(c, first, false));
    if (first < end) rp_traced_start(nodes, first);
    return rp_cuda_named(c->device,
                         rp_plan_walk(&part, c->base.args + first, NULL, &rp_cuda_table, &ctx,
                                      w.nodes != NULL || rp_cuda_watches(c->device) ? end_of_step : NULL, &w));
}

RpStatus rp_cuda_enqueue(CudaExecutor *c) {
    RP_TRY(rp_cuda_enqueue_inputs(c));
    RP_TRY(rp_cuda_enqueue_steps(c, 0, c->base.plan->n_steps, c->base.nodes));
    return rp_cuda_enqueue_outputs(c);
}

RpStatus rp_cuda_run_steps(RpExecutor *e, int first, int end) {
    CudaExecutor *c = rp_cuda(e);
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_cuda_update_addresses(c));
    rp_cuda_watch_from(c->device, first == 0 ? -1 : first);
    RpStatus st = first == 0 ? rp_cuda_enqueue_inputs(c) : RP_OK;
    if (st == RP_OK) st = rp_cuda_enqueue_steps(c, first, end, e->nodes);
    if (st == RP_OK && end == e->plan->n_steps) st = rp_cuda_enqueue_outputs(c);
    return rp_cuda_wait_after(c, st, "part of a run");
}
