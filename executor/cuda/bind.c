/* Addresses after other states or weights were bound, in the arguments and in captured nodes.
 *
 * Repointing: KV caches or weights of the same shapes at other addresses keep the graph and change only arguments.
 * The plan is walked twice more, with launch i matched to captured[i]:
 *
 *     1. check_same   the same kernel function for each? Otherwise an error, and nothing has changed
 *     2. repoint      cudaGraphExecKernelNodeSetParams(exec, captured[i].node, arguments of the launch)
 *
 * For example, binding the KV caches of a second context changes the pointers in the arguments of qkv and attention;
 * all other nodes get the arguments that they have. Nodes of cuBLASLt cannot be changed: their addresses must be the
 * same. Nothing is captured or instantiated again (I9). */
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"
#include "executor/plan_walk.h"

#include "base/launch.h"

#include <string.h>

typedef struct Repointer {
    CudaExecutor *c;
    int           next;
} Repointer;

/* First walk. The launcher may choose another kernel for other addresses, for instance if they are less aligned. */
static RpStatus check_same(void *user, const RpKernelLaunch *l) {
    Repointer *r = user;
    if (r->next == r->c->n_captured) return rp_fail(RP_E_STATE, "this memory needs more kernels than were captured");
    const Captured *n    = &r->c->captured[r->next++];
    const char     *name = rp_node_name(r->c->base.plan->steps[n->step].node);
    if (n->function != l->function) return rp_fail(RP_E_STATE, "%s needs another kernel with this memory", name);
    if (l->enqueue != NULL && memcmp(n->addresses, l->addresses, sizeof n->addresses) != 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s was captured by %s, whose nodes keep their addresses: other memory needs REPRISE_BLAS=off",
                       name, l->name);
    return RP_OK;
}

/* Second walk: grid, block and shared memory are those of the capture, the arguments are new. A specialised kernel
 * stays if the new memory differs in addresses only, else the node gets the shipped one. */
static RpStatus repoint(void *user, const RpKernelLaunch *l) {
    Repointer      *r = user;
    const Captured *n = &r->c->captured[r->next++];
    SpecialLaunch   s;
    if (l->enqueue != NULL) return RP_OK;
    l                                   = rp_cuda_special(r->c, l, &s);
    const struct cudaKernelNodeParams p = {
        .func           = (void *)(uintptr_t)l->function,
        .gridDim        = {l->grid[0],  l->grid[1],  l->grid[2] },
        .blockDim       = {l->block[0], l->block[1], l->block[2]},
        .sharedMemBytes = l->shared_bytes,
        .kernelParams   = l->arguments
    };
    /* The shipped kernel may not have been loaded yet, because a specialised one was launched instead. */
    RP_TRY(rp_cuda_check(r->c->device, rp_cuda_allow_shared(l->function, l->shared_bytes), "shared memory of a node"));
    RP_TRY(rp_cuda_check(r->c->device, cudaGraphExecKernelNodeSetParams(r->c->exec, n->node, &p),
                         "new addresses of a node"));
    if (n->front == NULL) return RP_OK;
    return rp_cuda_check(r->c->device, cudaGraphExecKernelNodeSetParams(r->c->front_exec, n->front, &p),
                         "new addresses of a node");
}

/* All nodes or none. The copy of the token follows as well: the step state may be bound to other memory. */
static RpStatus repoint_all(CudaExecutor *c) {
    Repointer   r   = {.c = c};
    RpKernelCtx ctx = rp_cuda_ctx(c, check_same, &r);
    RP_TRY(rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, NULL, NULL));
    if (r.next != c->n_captured) return rp_fail(RP_E_STATE, "this memory needs fewer kernels than were captured");
    r   = (Repointer){.c = c};
    ctx = rp_cuda_ctx(c, repoint, &r);
    RP_TRY(rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, NULL, NULL));
    if (c->base.step == NULL) return RP_OK;
    const void *token = rp_executor_address(&c->base, rp_plan_ref(c->base.plan, c->base.step));
    return rp_cuda_check(c->device,
                         cudaGraphExecMemcpyNodeSetParams1D(c->exec, c->token_node, c->token, token, sizeof *c->token,
                                                            cudaMemcpyDeviceToHost),
                         "new address of the token");
}

RpStatus rp_cuda_update_addresses(CudaExecutor *c) {
    if (!c->stale) return RP_OK;
    RP_TRY(rp_executor_fill_args(&c->base, rp_cuda_weight));
    if (c->exec != NULL) RP_TRY(repoint_all(c));
    c->stale = false;
    return RP_OK;
}
