/* Captures the plan once; bind.c repoints its nodes later.
 *
 * The plan is walked while the stream captures. The hook RpKernelCtx.launch sees every launch, so the executor knows
 * which node belongs to which step:
 *
 *     walk:      step 0          step 1                    step 2
 *     hook:      launch          launch   launch           launch
 *     captured:  [0] step 0      [1] step 1, [2] step 1    [3] step 2     each with its node and kernel function
 *     graph:     inputs -> node 0 -> node 1 -> node 2 -> node 3 -> outputs */
#include "base/sized.h"

#include "base/argument.h"
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"
#include "executor/plan_walk.h"

#include "base/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The hook's state while the plan is captured: the step whose launches come now. */
typedef struct Recorder {
    CudaExecutor *c;
    int           step, capacity;
} Recorder;

/* The launch itself, which the capturing stream turns into a node. Launches that wait for earlier kernels themselves
 * get the PDL attribute, and the edge before their node becomes a programmatic one. */
static RpStatus launch_now(CudaExecutor *c, const RpKernelLaunch *l) {
    CudaDevice   *d = c->device;
    SpecialLaunch s;
    return rp_cuda_check(d, rp_cuda_launch(rp_cuda_special(c, l, &s), d->stream, c->pdl, d->tuning),
                         "launch of a kernel");
}

static RpStatus remember(Recorder *r, const RpKernelLaunch *l, cudaGraphNode_t node, int n_nodes) {
    CudaExecutor *c = r->c;
    if (c->n_captured == r->capacity) {
        const int capacity = 2 * r->capacity + c->base.plan->n_steps;
        Captured *grown    = realloc(c->captured, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d nodes", capacity);
        c->captured = grown;
        r->capacity = capacity;
    }
    Captured *n = &c->captured[c->n_captured++];
    *n          = (Captured){.step         = r->step,
                             .n_nodes      = n_nodes,
                             .node         = node,
                             .function     = l->function,
                             .shared_bytes = l->shared_bytes,
                             .any_type     = l->any_type || l->enqueue != NULL};
    memcpy(n->grid, l->grid, sizeof n->grid);
    memcpy(n->block, l->block, sizeof n->block);
    memcpy(n->addresses, l->addresses, sizeof n->addresses);
    return RP_OK;
}

/* A library may add any number of nodes: they are counted, and the last is remembered. */
static RpStatus record_library(Recorder *r, const RpKernelLaunch *l) {
    CudaDevice     *d    = r->c->device;
    cudaGraphNode_t node = NULL;
    size_t          before, after;
    RP_TRY(rp_cuda_check(d, rp_cuda_captured(d->stream, NULL, &before), "nodes of a capture"));
    RP_TRY(l->enqueue(l->arg, d->stream));
    RP_TRY(rp_cuda_check(d, rp_cuda_captured(d->stream, &node, &after), "nodes of a capture"));
    if (after <= before)
        return rp_fail(RP_E_STATE, "%s: %s has added no node", rp_node_name(r->c->base.plan->steps[r->step].node),
                       l->name);
    return remember(r, l, node, (int)(after - before));
}

/* Hook of the capture: launches, then asks the stream for the node that the launch has become. */
static RpStatus record(void *user, const RpKernelLaunch *l) {
    Recorder       *r    = user;
    cudaGraphNode_t node = NULL;
    if (l->enqueue != NULL) return record_library(r, l);
    RP_TRY(launch_now(r->c, l));
    RP_TRY(rp_cuda_check(r->c->device, rp_cuda_captured(r->c->device->stream, &node, NULL), "node of a capture"));
    return remember(r, l, node, 1);
}

/* After each step: it must have launched a kernel. */
static RpStatus next_step(void *user, RpStatus status, bool last_phase) {
    (void)last_phase;
    Recorder  *r        = user;
    const int  n        = r->c->n_captured;
    const bool launched = n > 0 && r->c->captured[n - 1].step == r->step;
    if (status == RP_OK && !launched)
        status =
            rp_fail(RP_E_STATE, "%s was captured without a kernel", rp_node_name(r->c->base.plan->steps[r->step].node));
    r->step++;
    return status == RP_OK ? rp_cuda_mark_step(r->c, r->step, r->c->pdl) : status;
}

/* The captured run. The copy of the token is the last one enqueued, so its node is the latest. */
static RpStatus enqueue(void *arg) {
    CudaExecutor *c   = arg;
    Recorder      r   = {.c = c};
    RpKernelCtx   ctx = rp_cuda_ctx(c, record, &r);
    RP_TRY(rp_cuda_enqueue_inputs(c));
    RP_TRY(rp_cuda_mark_step(c, 0, c->pdl));
    RP_TRY(rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, next_step, &r));
    RP_TRY(rp_cuda_enqueue_outputs(c));
    if (c->base.step == NULL) return RP_OK;
    return rp_cuda_check(c->device, rp_cuda_captured(c->device->stream, &c->token_node, NULL), "node of the token");
}

/* A kernel for quantised weights is compiled for one type. A wrong template would read the blocks of another type
 * without an error, so two steps with one kernel function must have weights of one type. */
static RpStatus check_types(const CudaExecutor *c) {
    for (int i = 0; i < c->n_captured; i++)
        for (int j = 0; j < i; j++) {
            const PlanStep *a = &c->base.plan->steps[c->captured[i].step],
                           *b = &c->base.plan->steps[c->captured[j].step];
            if (c->captured[i].function != c->captured[j].function || c->captured[i].any_type ||
                c->captured[j].any_type)
                continue;
            const RpDtype x = a->args.unary.x.dtype, y = b->args.unary.x.dtype;
            if (x != y && (rp_dtype_is_quant(x) || rp_dtype_is_quant(y)))
                return rp_fail(RP_E_STATE, "one kernel was captured for '%s' of %s and '%s' of %s",
                               rp_node_name(a->node), rp_dtype_name(x), rp_node_name(b->node), rp_dtype_name(y));
            break; /* earlier ones were compared with j already */
        }
    return RP_OK;
}

/* The graph must consist of the launches, copies and marks that were counted, each launch with its own node (I10). */
static RpStatus check_nodes(const CudaExecutor *c, cudaGraph_t graph) {
    size_t    n       = 0;
    const int copies  = (c->inputs != NULL) + (c->base.step != NULL);
    int       mirrors = 0, kernels = rp_cuda_n_marks(c);
    for (int i = 0; i < c->n_captured; i++) kernels += c->captured[i].n_nodes;
    for (int i = 0; i < c->n_mirrors; i++) mirrors += !c->mirrors[i].is_input || c->inputs == NULL;
    RP_TRY(rp_cuda_check(c->device, cudaGraphGetNodes(graph, NULL, &n), "nodes of the capture"));
    if (n != (size_t)(kernels + copies + mirrors))
        return rp_fail(RP_E_STATE, "the capture has %zu nodes, the plan %d kernels and %d copies", n, kernels,
                       copies + mirrors);
    for (int i = 1; i < c->n_captured; i++)
        if (c->captured[i].node == c->captured[i - 1].node)
            return rp_fail(RP_E_STATE, "'%s' and '%s' have one node",
                           rp_node_name(c->base.plan->steps[c->captured[i].step].node),
                           rp_node_name(c->base.plan->steps[c->captured[i - 1].step].node));
    return check_types(c);
}

static RpStatus capture(CudaExecutor *c) {
    RP_TRY(rp_cuda_record(c->device, NULL, enqueue, c, "the capture", &c->graph));
    RP_TRY(check_nodes(c, c->graph));
    RP_TRY(rp_cuda_instantiate(c->device, c->graph, "the graph", &c->exec));
    return rp_cuda_held_capture(c);
}

RpStatus rp_cuda_capture(CudaExecutor *c) {
    const RpStatus st = capture(c);
    if (st != RP_OK) rp_cuda_capture_free(c);
    return st;
}

void rp_cuda_capture_free(CudaExecutor *c) {
    if (c->exec != NULL) (void)cudaGraphExecDestroy(c->exec);
    if (c->graph != NULL) (void)cudaGraphDestroy(c->graph);
    if (c->front_exec != NULL) (void)cudaGraphExecDestroy(c->front_exec);
    if (c->front != NULL) (void)cudaGraphDestroy(c->front);
    free(c->captured);
    c->exec = c->front_exec = NULL;
    c->graph = c->front = NULL;
    c->captured         = NULL;
    c->n_captured       = 0;
}

/* ---- inspecting launches ---- */

static RpStatus inspect(void *user, const RpKernelLaunch *l) {
    RpStepLaunch *out = user;
    out->n_kernels++;
    out->shared_bytes = l->shared_bytes;
    memcpy(out->grid, l->grid, sizeof out->grid);
    memcpy(out->block, l->block, sizeof out->block);
    out->kernel = l->name;
    return RP_OK;
}

RpStatus rp_cuda_launch_of(const RpExecutor *e, int step, RpStepLaunch *out) {
    const CudaExecutor *c   = (const CudaExecutor *)e;
    RpKernelCtx         ctx = rp_cuda_ctx(c, inspect, out);
    ctx.op                  = e->plan->steps[step].op;
    return rp_kernel_of(&rp_cuda_table, e->plan->steps[step].op)(&e->args[step], &ctx);
}

/* Without a device or an executor: launchers look at shapes only, so addresses may be missing. */
static RpStatus plan_launch(const ExecPlan *plan, int i, RpStepLaunch *out) {
    RP_TRY(rp_executor_describe(plan, i, out));
    RP_TRY(rp_check_kernel(&plan->steps[i], &rp_cuda_table));
    RpKernelCtx ctx   = {.launch = inspect, .user = out, .op = plan->steps[i].op};
    ctx.scratch_bytes = rp_cuda_scratch_bytes(plan->steps[i].op, &plan->steps[i].args, &ctx);
    return rp_kernel_of(&rp_cuda_table, plan->steps[i].op)(&plan->steps[i].args, &ctx);
}

RpStatus rp_cuda_plan_launch_sized(const ExecPlan *plan, int i, RpStepLaunch *out, size_t out_bytes) {
    RP_NOT_NULL(plan, "plan");
    RP_NOT_NULL(out, "out");

    RpStepLaunch   l  = {0};
    const RpStatus st = plan_launch(plan, i, &l);
    rp_sized_out(out, out_bytes, &l, sizeof l);
    return st;
}
