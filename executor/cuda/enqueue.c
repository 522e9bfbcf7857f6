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

static RpStatus end_of_traced_step(void *nodes, RpStatus status, bool last_phase) {
    (void)last_phase;
    rp_traced_next(nodes, status);
    return status;
}

RpStatus rp_cuda_enqueue(CudaExecutor *c) {
    TracedNodes *nodes = c->base.nodes;
    RpKernelCtx  ctx   = rp_cuda_ctx(c, NULL, NULL);
    RP_TRY(rp_cuda_enqueue_inputs(c));
    if (c->base.plan->n_steps > 0) rp_traced_start(nodes, 0);
    RP_TRY(rp_cuda_named(c->device, rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx,
                                                 nodes != NULL ? end_of_traced_step : NULL, nodes)));
    return rp_cuda_enqueue_outputs(c);
}

RpStatus rp_cuda_run_steps(RpExecutor *e, int first, int end) {
    CudaExecutor  *c    = rp_cuda(e);
    const ExecPlan part = rp_plan_part(e->plan, first, end);
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_cuda_update_addresses(c));
    RpKernelCtx ctx = rp_cuda_ctx(c, NULL, NULL);
    RpStatus    st  = first == 0 ? rp_cuda_enqueue_inputs(c) : RP_OK;
    if (st == RP_OK && first < end) rp_traced_start(e->nodes, first);
    if (st == RP_OK)
        st = rp_cuda_named(c->device, rp_plan_walk(&part, e->args + first, NULL, &rp_cuda_table, &ctx,
                                                   e->nodes != NULL ? end_of_traced_step : NULL, e->nodes));
    if (st == RP_OK && end == e->plan->n_steps) st = rp_cuda_enqueue_outputs(c);
    const RpStatus waited = rp_cuda_check(c->device, cudaStreamSynchronize(c->device->stream), "part of a run");
    return st == RP_OK ? waited : st;
}
