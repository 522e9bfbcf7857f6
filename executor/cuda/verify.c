/* Computes every step twice from the same sources, on the device and by the CPU's kernel, and hands both results to a
 * callback. Errors do not accumulate: the CPU's kernel gets the device's sources, copied before each step. Weights
 * come from the model file, so a wrong upload or repacking shows too. */
#include "executor/cuda/cuda.h"

#include <stdlib.h>

/* Host copies of the tensors that a step reads and writes. An in-place result shares the copy of its source. */
typedef struct HostStep {
    RpOpArgs args;
    void    *owned[2 * RP_MAX_SRC + 4];
    int      n_owned;
} HostStep;

static RpStatus to_host(CudaDevice *d, HostStep *h, const RpTensorView *device, RpTensorView *out) {
    const size_t bytes = rp_view_extent_bytes(device);
    void        *copy  = malloc(bytes);
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a copy of %zu bytes", bytes);
    h->owned[h->n_owned++] = copy;
    *out                   = *device;
    out->data              = copy;
    return rp_cuda_check(d, cudaMemcpy(copy, device->data, bytes, cudaMemcpyDeviceToHost), "copy of a step's memory");
}

/* Copies a step's sources and result memory to the host. Weights are read from the plan's host memory: device memory
 * has them in planes. */
static RpStatus host_sources(const CudaExecutor *c, int step, HostStep *h) {
    const PlanStep *s = &c->base.plan->steps[step], *w = &c->base.weights->steps[step];
    const RpOpArgs *on = &c->base.args[step];
    RP_TRY(to_host(c->device, h, &on->dst, &h->args.dst));
    for (int k = 0; k < RP_MAX_SRC; k++) {
        h->args.src[k] = on->src[k];
        if (on->src[k].ne[0] <= 0) continue;
        if (s->src[k].space == SPACE_WEIGHT)
            h->args.src[k].data = (char *)w->args.src[k].data + w->src[k].offset;
        else if (on->src[k].data == on->dst.data)
            h->args.src[k].data = h->args.dst.data;
        else
            RP_TRY(to_host(c->device, h, &on->src[k], &h->args.src[k]));
    }
    return RP_OK;
}

static RpStatus memory_of(HostStep *h, size_t bytes, void **out) {
    *out = aligned_alloc(CUDA_ALIGN, (bytes / CUDA_ALIGN + 1) * CUDA_ALIGN);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu bytes of a step", bytes);
    h->owned[h->n_owned++] = *out;
    return RP_OK;
}

/* Runs the CPU's kernel with one worker, phase by phase. */
static RpStatus run_on_cpu(TensorOp op, HostStep *h) {
    const CpuNeeds needs = rp_cpu_needs(op, &h->args);
    RpKernelCtx    ctx   = {.ith = 0, .nth = 1};
    RP_TRY(memory_of(h, needs.shared, &ctx.shared));
    RP_TRY(memory_of(h, needs.local, &ctx.local));
    for (; ctx.phase < needs.phases; ctx.phase++) RP_TRY(rp_kernel_of(&rp_cpu_table, op)(&h->args, &ctx));
    return RP_OK;
}

static RpStatus compare(CudaExecutor *c, int step, HostStep *h, const RpTensorView *device, const RpTensorView *host,
                        RpVerifyCallback *callback, void *user, bool *go_on) {
    RpTensorView result;
    RP_TRY(to_host(c->device, h, device, &result));
    *go_on = callback(c->base.plan->steps[step].node, &result, result.data, host->data, user);
    return RP_OK;
}

/* The CPU's kernel runs first: an in-place op on the device overwrites its sources. Compared are the result and the
 * sources that the op writes to, such as a KV cache. */
static RpStatus verify_step(CudaExecutor *c, int step, HostStep *h, RpVerifyCallback *callback, void *user,
                            bool *go_on) {
    const PlanStep *s       = &c->base.plan->steps[step];
    const RpOpArgs *on      = &c->base.args[step];
    RpKernelCtx     on_cuda = rp_cuda_ctx(c, NULL, NULL);
    RP_TRY(rp_cuda_wait_steps(c, rp_node_name(s->node)));
    h->args.params = on->params;
    RP_TRY(host_sources(c, step, h));
    RP_TRY(run_on_cpu(s->op, h));
    on_cuda.op = s->op;
    rp_cuda_watch_from(c->device, step);
    RP_TRY(rp_kernel_of(&rp_cuda_table, s->op)(on, &on_cuda));
    RP_TRY(rp_cuda_wait_steps(c, rp_node_name(s->node)));
    RP_TRY(compare(c, step, h, &on->dst, &h->args.dst, callback, user, go_on));
    for (int k = 0; k < RP_MAX_SRC && *go_on; k++)
        if (rp_plan_step_writes(c->base.plan, step, k))
            RP_TRY(compare(c, step, h, &on->src[k], &h->args.src[k], callback, user, go_on));
    return RP_OK;
}

RpStatus rp_cuda_verify(RpExecutor *e, RpVerifyCallback *callback, void *user) {
    CudaExecutor *c     = rp_cuda(e);
    bool          go_on = true;
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_check_kernels(e->plan, &rp_cpu_table)); /* a custom op may have no CPU kernel to compare with */
    RP_TRY(rp_cuda_update_addresses(c));
    rp_cuda_watch_from(c->device, -1);
    RpStatus st = rp_cuda_enqueue_inputs(c);
    for (int i = 0; i < e->plan->n_steps && st == RP_OK && go_on; i++) {
        HostStep h = {0};
        rp_traced_start(e->nodes, i);
        st = verify_step(c, i, &h, callback, user, &go_on);
        rp_traced_end(e->nodes, st);
        for (int k = 0; k < h.n_owned; k++) free(h.owned[k]);
    }
    if (st == RP_OK) rp_cuda_watch_from(c->device, e->plan->n_steps);
    if (st == RP_OK) st = rp_cuda_enqueue_outputs(c);
    return rp_cuda_wait_after(c, st, "run of the plan");
}
