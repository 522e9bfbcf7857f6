/* Times each step within a replay: the plan is captured once more with an event record after every step, so kernels
 * run back to back as in a replay, but without PDL. The whole run is timed by the executor's own graph, which has no
 * events between its steps. Medians over the runs. */
#include "executor/cuda/cuda.h"
#include "executor/median.h"
#include "executor/plan_walk.h"

#include <stdlib.h>

typedef struct ProfileGraph {
    CudaExecutor   *c;
    cudaEvent_t    *events; /* [n_steps + 1]: before the first step, and after each */
    int             n;
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
} ProfileGraph;

/* Records the next event; cudaEventRecordExternal makes it a node that later runs record again. */
static RpStatus stamp(void *user, RpStatus status, bool last_phase) {
    (void)last_phase;
    ProfileGraph *t = user;
    RP_TRY(status);
    return rp_cuda_check(t->c->device,
                         cudaEventRecordWithFlags(t->events[t->n++], t->c->device->stream, cudaEventRecordExternal),
                         "event of a profile");
}

static RpStatus enqueue(void *arg) {
    ProfileGraph *t   = arg;
    RpKernelCtx   ctx = rp_cuda_ctx(t->c, NULL, NULL);
    RP_TRY(rp_cuda_enqueue_inputs(t->c));
    RP_TRY(stamp(t, RP_OK, true));
    RP_TRY(rp_plan_walk(t->c->base.plan, t->c->base.args, NULL, &rp_cuda_table, &ctx, stamp, t));
    return rp_cuda_enqueue_outputs(t->c);
}

static RpStatus open_graph(ProfileGraph *t) {
    CudaDevice *d = t->c->device;
    const int   n = t->c->base.plan->n_steps + 1;
    t->events     = calloc((size_t)n, sizeof *t->events);
    if (t->events == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d events", n);
    for (int i = 0; i < n; i++)
        RP_TRY(rp_cuda_check(d, cudaEventCreateWithFlags(&t->events[i], cudaEventDefault), "event"));
    RP_TRY(rp_cuda_record(d, NULL, enqueue, t, "a profile's capture", &t->graph));
    return rp_cuda_instantiate(d, t->graph, "a profile", &t->exec);
}

static void close_graph(ProfileGraph *t) {
    for (int i = 0; t->events != NULL && i <= t->c->base.plan->n_steps; i++)
        if (t->events[i] != NULL) (void)cudaEventDestroy(t->events[i]);
    if (t->exec != NULL) (void)cudaGraphExecDestroy(t->exec);
    if (t->graph != NULL) (void)cudaGraphDestroy(t->graph);
    free(t->events);
}

/* A whole run between two events: a replay, or eagerly if the plan is not captured. */
static RpStatus time_whole(ProfileGraph *t, double *ns) {
    CudaExecutor *c = t->c;
    CudaDevice   *d = c->device;
    float         ms;
    rp_cuda_watch_from(d, -1);
    RP_TRY(rp_cuda_check(d, cudaEventRecord(t->events[0], d->stream), "event"));
    RP_TRY(c->exec != NULL ? rp_cuda_check(d, cudaGraphLaunch(c->exec, d->stream), "launch of the graph")
                           : rp_cuda_enqueue(c));
    RP_TRY(rp_cuda_check(d, cudaEventRecord(t->events[1], d->stream), "event"));
    RP_TRY(rp_cuda_wait_steps(c, "run of the plan"));
    RP_TRY(rp_cuda_check(d, cudaEventElapsedTime(&ms, t->events[0], t->events[1]), "event"));
    *ns = 1e6 * (double)ms;
    return RP_OK;
}

static RpStatus time_steps(ProfileGraph *t, double *samples, int run, int n_runs) {
    CudaDevice *d = t->c->device;
    float       ms;
    RP_TRY(rp_cuda_check(d, cudaGraphLaunch(t->exec, d->stream), "launch of a profile"));
    RP_TRY(rp_cuda_wait(d, "run of a profile"));
    for (int i = 0; i < t->c->base.plan->n_steps; i++) {
        RP_TRY(rp_cuda_check(d, cudaEventElapsedTime(&ms, t->events[i], t->events[i + 1]), "event"));
        samples[(size_t)(i + 1) * (size_t)n_runs + (size_t)run] = 1e6 * (double)ms;
    }
    return RP_OK;
}

/* samples: row 0 the whole runs, row i + 1 step i, n_runs each. The step state is put back before every run, so that
 * each run computes the same token. */
RpStatus rp_cuda_profile(RpExecutor *e, int n_runs, double *step_ns, double *total_ns, const void *step) {
    ProfileGraph t = {.c = rp_cuda(e)};
    RP_TRY(rp_cuda_enter(t.c->device));
    RP_TRY(rp_cuda_update_addresses(t.c));
    const size_t n       = (size_t)e->plan->n_steps;
    double      *samples = calloc((n + 1) * (size_t)n_runs, sizeof *samples);
    RpStatus     st      = samples != NULL ? open_graph(&t) : rp_fail(RP_E_NOMEM, "out of memory for a profile");
    for (int r = -1; r < n_runs && st == RP_OK; r++) { /* run -1 is a warm-up, overwritten by run 0 */
        st = rp_executor_put_step(e, step);
        if (st == RP_OK) st = time_whole(&t, &samples[r < 0 ? 0 : r]);
        if (st == RP_OK) st = rp_executor_put_step(e, step);
        if (st == RP_OK) st = time_steps(&t, samples, r < 0 ? 0 : r, n_runs);
    }
    if (st == RP_OK) st = rp_executor_put_step(e, step);
    if (st == RP_OK) {
        *total_ns = rp_median(samples, n_runs);
        for (size_t i = 0; i < n; i++) step_ns[i] = rp_median(samples + (i + 1) * (size_t)n_runs, n_runs);
    }
    close_graph(&t);
    free(samples);
    return st;
}
