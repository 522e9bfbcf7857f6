/* Tokens whose mask the host makes while the device computes their logits (base/sampling/held.h). The steps before the
 * sampler are a graph of their own, captured when the executor is opened (I9). The sampler is launched behind the copy
 * of the mask, kernel by kernel, while that graph runs:
 *
 *     stream   front: inputs -> step 0 -> ... -> step n-2   mask -> sample   token
 *     host     launch   prepare(extra)                      enqueue          wait
 *
 * The pinned memory `extra` is written only while no copy of it is under way: each token is waited for. */
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"

#include "base/launch.h"
#include "executor/plan_walk.h"

static const PlanStep *last_step(const CudaExecutor *c) {
    const ExecPlan *plan = c->base.plan;
    return &plan->steps[plan->n_steps - 1];
}

size_t rp_cuda_extra_bytes(const CudaExecutor *c) {
    if (c->base.step == NULL || c->base.plan->n_steps < 2) return 0;
    const PlanStep *last = last_step(c);
    if (last->op != RP_OP_SAMPLE || !rp_is_present(&last->args.sample.extra)) return 0;
    return rp_view_extent_bytes(&last->args.sample.extra);
}

/* ---- capture ---- */

typedef struct Front {
    CudaExecutor *c;
    int           next, n_done; /* captured launches and steps so far */
} Front;

/* The launches are those of the whole plan in the same order, so each is stored with its node of that plan. */
static RpStatus record(void *user, const RpKernelLaunch *l) {
    Front        *f = user;
    CudaExecutor *c = f->c;
    CudaDevice   *d = c->device;
    SpecialLaunch s;
    Captured     *n = &c->captured[f->next++];
    if (l->enqueue != NULL) return l->enqueue(l->arg, d->stream);
    RP_TRY(rp_cuda_check(d, rp_cuda_launch(rp_cuda_special(c, l, &s), d->stream, c->pdl, d->tuning),
                         "launch of a kernel"));
    return rp_cuda_check(d, rp_cuda_captured(d->stream, &n->front, NULL), "node of a capture");
}

static RpStatus mark(void *user, RpStatus status, bool last_phase) {
    (void)last_phase;
    Front *f = user;
    return status == RP_OK ? rp_cuda_mark_step(f->c, ++f->n_done, f->c->pdl) : status;
}

static RpStatus enqueue(void *arg) {
    Front         *f    = arg;
    CudaExecutor  *c    = f->c;
    const ExecPlan part = rp_plan_part(c->base.plan, 0, c->base.plan->n_steps - 1);
    RpKernelCtx    ctx  = rp_cuda_ctx(c, record, f);
    RP_TRY(rp_cuda_enqueue_inputs(c));
    RP_TRY(rp_cuda_mark_step(c, 0, c->pdl));
    return rp_plan_walk(&part, c->base.args, NULL, &rp_cuda_table, &ctx, mark, f);
}

RpStatus rp_cuda_held_capture(CudaExecutor *c) {
    Front     f      = {.c = c};
    const int missed = c->special_missed;
    if (rp_cuda_extra_bytes(c) == 0) return RP_OK;
    RP_TRY(rp_cuda_record(c->device, NULL, enqueue, &f, "the capture", &c->front));
    c->special_missed = missed; /* counted in the whole plan */
    return rp_cuda_instantiate(c->device, c->front, "the graph", &c->front_exec);
}

/* ---- a token ---- */

static RpStatus start(CudaExecutor *c, TracedNodes *nodes) {
    RpExecutor *e = &c->base;
    rp_cuda_watch_from(c->device, -1);
    if (c->front_exec != NULL) {
        e->n_launches++;
        return rp_cuda_check(c->device, cudaGraphLaunch(c->front_exec, c->device->stream), "launch of the graph");
    }
    if (nodes != NULL) nodes->end = e->plan->n_steps - 1;
    RP_TRY(rp_cuda_enqueue_inputs(c));
    return rp_cuda_enqueue_steps(c, 0, e->plan->n_steps - 1, nodes);
}

static RpStatus sample(CudaExecutor *c, size_t n_words, TracedNodes *nodes) {
    RpExecutor *e    = &c->base;
    const int   last = e->plan->n_steps - 1;
    RP_TRY(rp_cuda_check(c->device,
                         cudaMemcpyAsync(e->args[last].sample.extra.data, c->extra, n_words * sizeof *c->extra,
                                         cudaMemcpyHostToDevice, c->device->stream),
                         "mask of a token"));
    for (int i = c->n_captured; nodes == NULL && i > 0 && c->captured[i - 1].step == last; i--) e->n_launches++;
    if (nodes != NULL) nodes->end = last + 1;
    RP_TRY(rp_cuda_enqueue_steps(c, last, last + 1, nodes));
    return rp_cuda_enqueue_outputs(c);
}

RpStatus rp_cuda_held(RpExecutor *e, RpHeldPrepare *prepare, void *user, int32_t *token) {
    CudaExecutor *c       = rp_cuda(e);
    size_t        n_words = 0;
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_cuda_update_addresses(c));
    TracedNodes *nodes = c->front_exec == NULL ? e->nodes : NULL;
    RpStatus     st    = start(c, nodes);
    if (st == RP_OK) {
        const bool before = rp_traced_call(e);
        st                = prepare(user, c->extra, &n_words);
        (void)rp_trace_mute(before);
    }
    if (st == RP_OK && n_words > 0) st = sample(c, n_words, nodes);
    /* Waits even after a failure, as a run does. */
    const RpStatus waited = rp_cuda_wait_steps(c, "run of the plan");
    if (waited != RP_OK) st = waited;
    *token = st == RP_OK && n_words > 0 ? *c->token : RP_HELD_NOT_SAMPLED;
    return st;
}
