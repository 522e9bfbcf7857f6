/* Mode loop: up to 128 tokens of a reply in one launch of a graph with a WHILE node.
 *
 *     graph:   WHILE (condition)
 *                body:  step 0 -> ... -> sample -> loop_end
 *
 *     device                                      mapped host memory             host (rp_cuda_loop_next)
 *     loop_end: slot = number << 32 | token  -->  ring[number % slots]    -->    waits until slot >> 32 == next
 *               sets the condition           <--  ring->stop              <--    rp_cuda_loop_finish
 *
 * The condition is set on the device (kernels/loop.cu): false after an end token, the last allowed token, the end of
 * the context, or a stop of the host. A longer reply takes several launches. The ring has at least as many slots
 * as a launch has tokens, so the device never overwrites a slot that the host has not read.
 *
 * Worked example: next = 1, 3 tokens allowed. The device writes numbers 1, 2, 3 into slots 1, 2, 3 and ends. The host
 * reads slot 1 as soon as its upper half is 1, while the device computes token 2. A slot left from an earlier reply
 * has another number, so it is never mistaken for a new token; numbers are not used twice. */
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"
#include "executor/plan_walk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SPINS       = 200,   /* reads of the slot before the host sleeps between them */
    NAP_NS      = 20000, /* 20 us */
    QUERY_EVERY = 8      /* naps between two queries of the stream: a failed device writes no token */
};

static RpStatus open_memory(CudaExecutor *c) {
    CudaLoop *l = &c->loop;
    RP_TRY(rp_cuda_alloc(c->device, sizeof *l->control, "the loop", (void **)&l->control));
    RP_TRY(rp_cuda_check(c->device, cudaMallocHost((void **)&l->staging, sizeof *l->staging), "the loop"));
    RP_TRY(rp_cuda_check(c->device, cudaHostAlloc((void **)&l->ring, sizeof *l->ring, cudaHostAllocMapped),
                         "ring of the loop"));
    memset(l->ring, 0, sizeof *l->ring);
    return rp_cuda_check(c->device, cudaHostGetDevicePointer((void **)&l->mapped, l->ring, 0), "ring of the loop");
}

typedef struct LoopBody {
    CudaExecutor              *c;
    cudaGraphConditionalHandle condition;
} LoopBody;

typedef struct BodyMarks {
    CudaExecutor *c;
    int32_t       n_done;
} BodyMarks;

static RpStatus mark_step(void *user, RpStatus status, bool last_phase) {
    (void)last_phase;
    BodyMarks *m = user;
    return status == RP_OK ? rp_cuda_mark_step(m->c, ++m->n_done, m->c->pdl) : status;
}

static RpStatus enqueue_body(void *arg) {
    const LoopBody *b     = arg;
    CudaExecutor   *c     = b->c;
    RpKernelCtx     ctx   = rp_cuda_ctx(c, c->special ? rp_cuda_special_in_loop : NULL, c);
    LoopEnd         end   = {.step      = rp_executor_address(&c->base, rp_plan_ref(c->base.plan, c->base.step)),
                             .control   = c->loop.control,
                             .ring      = c->loop.mapped,
                             .condition = b->condition};
    BodyMarks       marks = {c, 0};
    ctx.overlap           = c->pdl;
    RP_TRY(rp_cuda_mark_step(c, 0, c->pdl));
    RP_TRY(rp_cuda_named(c->device, rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx,
                                                 rp_cuda_watches(c->device) ? mark_step : NULL, &marks)));
    ctx.launch = NULL; /* the end of the loop runs as shipped */
    return rp_cuda_named(c->device, rp_cuda_loop_end(&end, &ctx));
}

static RpStatus capture_body(CudaExecutor *c, cudaGraph_t body, cudaGraphConditionalHandle condition) {
    LoopBody    b        = {c, condition};
    cudaGraph_t captured = NULL;
    size_t      n        = 0;
    RP_TRY(rp_cuda_record(c->device, body, enqueue_body, &b, "the loop's capture", &captured));
    RP_TRY(rp_cuda_check(c->device, cudaGraphGetNodes(body, NULL, &n), "nodes of the loop"));
    if (captured != body || n != (size_t)(c->n_captured + rp_cuda_n_marks(c)) + 1)
        return rp_fail(RP_E_STATE, "the loop's body has %zu nodes, the plan %d kernels", n, c->n_captured);
    return RP_OK;
}

/* Captures the plan a second time, into the body of a WHILE node whose condition is true at the start of each launch.
 * Its nodes are not repointed, so the loop runs only with the KV caches and weights that the executor was opened with
 * (executor/reply.c). */
RpStatus rp_cuda_loop_open(CudaExecutor *c) {
    CudaDevice                *d = c->device;
    CudaLoop                  *l = &c->loop;
    cudaGraphConditionalHandle condition;
    cudaGraphNode_t            node;
    struct cudaGraphNodeParams p;
    int                        driver = 0;
    RP_TRY(rp_cuda_check(d, cudaDriverGetVersion(&driver), "version of the driver"));
    if (driver < CUDA_LOOP_DRIVER)
        return rp_fail(RP_E_NOT_AVAILABLE, "the driver is for CUDA %d.%d, loops in graphs need %d.%d", driver / 1000,
                       driver % 1000 / 10, CUDA_LOOP_DRIVER / 1000, CUDA_LOOP_DRIVER % 1000 / 10);
    RP_TRY(open_memory(c));
    RP_TRY(rp_cuda_check(d, cudaGraphCreate(&l->graph, 0), "graph of the loop"));
    RP_TRY(rp_cuda_check(d, cudaGraphConditionalHandleCreate(&condition, l->graph, 1, cudaGraphCondAssignDefault),
                         "loop"));
    memset(&p, 0, sizeof p);
    p.type               = cudaGraphNodeTypeConditional;
    p.conditional.handle = condition;
    p.conditional.type   = cudaGraphCondTypeWhile;
    p.conditional.size   = 1;
    RP_TRY(rp_cuda_check(d, rp_cuda_add_node(&node, l->graph, &p), "loop"));
    RP_TRY(capture_body(c, p.conditional.phGraph_out[0], condition));
    return rp_cuda_instantiate(d, l->graph, "the loop", &l->exec);
}

void rp_cuda_loop_close(CudaExecutor *c) {
    CudaLoop *l = &c->loop;
    if (l->running && rp_cuda_loop_finish(&c->base) != RP_OK) l->running = false; /* closed despite the error */
    if (l->exec != NULL) (void)cudaGraphExecDestroy(l->exec);
    if (l->graph != NULL) (void)cudaGraphDestroy(l->graph);
    if (l->control != NULL) (void)cudaFree(l->control);
    if (l->staging != NULL) (void)cudaFreeHost(l->staging);
    if (l->ring != NULL) (void)cudaFreeHost((void *)l->ring);
    *l = (CudaLoop){0};
}

static_assert((int)RP_LOOP_TOKENS <= (int)RP_LOOP_SLOTS, "the ring has a slot for each token of a launch");

/* One launch of the loop, for some of the tokens left: cudaFree and cudaFreeHost of all threads wait for a launch that
 * runs, and a reply can take minutes. */
static RpStatus launch(CudaExecutor *c) {
    CudaDevice *d = c->device;
    CudaLoop   *l = &c->loop;
    l->in_launch  = l->left < RP_LOOP_TOKENS ? l->left : RP_LOOP_TOKENS;
    l->left -= l->in_launch;
    rp_cuda_watch_from(d, -1);
    l->staging->number = l->next;
    l->staging->left   = l->in_launch;
    RP_TRY(rp_cuda_check(d,
                         cudaMemcpyAsync(l->control, l->staging, sizeof *l->control, cudaMemcpyHostToDevice, d->stream),
                         "begin of a reply"));
    RP_TRY(rp_cuda_check(d, cudaGraphLaunch(l->exec, d->stream), "launch of the loop"));
    c->base.n_launches++;
    l->running = d->looping = true;
    return RP_OK;
}

RpStatus rp_cuda_loop_begin(RpExecutor *e, const Reply *r) {
    CudaExecutor *c = rp_cuda(e);
    CudaLoop     *l = &c->loop;
    RP_TRY(rp_cuda_enter(c->device));
    l->ring->stop     = 0;
    l->left           = r->left;
    l->next           = l->next == 0 ? 1 : l->next; /* a zeroed ring must not look like token number 0 */
    l->first          = l->next;
    l->staging->n_ctx = r->n_ctx;
    l->staging->n_end = r->n_end;
    memcpy(l->staging->end, r->end, sizeof l->staging->end);
    return launch(c);
}

/* Reads the next token if its slot holds it. */
static bool pop_token(CudaLoop *l, int32_t *token) {
    const uint64_t slot = __atomic_load_n(&l->ring->slots[l->next % RP_LOOP_SLOTS], __ATOMIC_ACQUIRE);
    if ((uint32_t)(slot >> 32) != l->next) return false;
    *token = (int32_t)(uint32_t)slot;
    l->next++;
    l->in_launch--;
    return true;
}

/* The stream is idle: the token was written before the query, or never will be. */
static RpStatus after_end(CudaExecutor *c, int32_t *token) {
    if (pop_token(&c->loop, token)) return RP_OK;
    return rp_fail(RP_E_STATE, "%s: the loop ended before its token %u", c->device->id, c->loop.next);
}

RpStatus rp_cuda_loop_next(RpExecutor *e, int32_t *token) {
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    CudaExecutor                *c   = rp_cuda(e);
    CudaLoop                    *l   = &c->loop;
    RP_TRY(rp_cuda_select(c->device));
    CudaWatch watch = rp_cuda_watch(c->device);
    if (l->in_launch == 0 && l->left > 0) RP_TRY(launch(c));
    for (unsigned i = 0;; i++) {
        if (pop_token(l, token)) return RP_OK;
        if (i < SPINS) continue;
        if (i % QUERY_EVERY == 0) {
            const cudaError_t now = cudaStreamQuery(c->device->stream);
            if (now == cudaSuccess) return after_end(c, token);
            if (now != cudaErrorNotReady) return rp_cuda_check(c->device, now, "reply");
            if (rp_cuda_is_over(c->device, &watch)) return rp_cuda_no_end(c);
        }
        nanosleep(&nap, NULL);
    }
}

RpStatus rp_cuda_loop_finish(RpExecutor *e) {
    CudaExecutor *c = rp_cuda(e);
    if (!c->loop.running) return RP_OK;
    c->loop.ring->stop = 1;
    const RpStatus st  = rp_cuda_wait_steps(c, "end of a reply");
    c->loop.running = c->device->looping = false;
    /* Skips the numbers of tokens that the loop has written and nobody has read. Before the 32-bit numbers wrap, the
     * ring is cleared. */
    c->loop.next += (uint32_t)c->loop.in_launch;
    c->loop.in_launch = c->loop.left = 0;
    if (c->loop.next > UINT32_MAX - 2 * RP_LOOP_SLOTS) {
        memset(c->loop.ring, 0, sizeof *c->loop.ring);
        c->loop.next = 1;
    }
    return st;
}
