/* The CPU interpreter. Every worker of the thread pool walks the whole plan and computes its part of each
 * step. A barrier follows each phase of a step; most kernels have one phase. Kernels divide their work by
 * shapes and by the number of workers only (I5), and results do not depend on that number (I8). All memory
 * is allocated at open (I3).
 *
 *     worker i   step 0 | step 1, phase 0 | step 1, phase 1 | step 2 | ...      | is a barrier of all workers */
#include "executor/backend.h"

#include "base/clock.h"
#include "base/option_number.h"
#include "executor/median.h"
#include "executor/plugin.h"
#include "executor/pool.h"
#include "executor/prefetch.h"
#include "executor/repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_ALIGN = 4096, SCRATCH_ALIGN = 128 };

/* Kernels that need scratch memory share one buffer:
 *
 *     scratch   [ shared_bytes | local_bytes of worker 0 | local_bytes of worker 1 | ... ]
 *     local memory of worker i = scratch + shared_bytes + i * local_bytes
 *
 * Both sizes are the largest need of any step, so the contents last for the phases of one step only. */
typedef struct CpuExecutor {
    RpExecutor  base;
    ThreadPool *pool;    /* of the owner, shared */
    int        *phases;  /* by step: its number of phases */
    char       *scratch; /* as above */
    size_t      shared_bytes, local_bytes;
    RepackSet   repacked; /* of the owner */
} CpuExecutor;

const Kernels rp_cpu_table = {.of_op = rp_cpu_kernel};

static CpuExecutor *cpu(RpExecutor *e) { return (CpuExecutor *)e; }

static void *new_memory(size_t bytes) {
    const size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return aligned_alloc(ARENA_ALIGN, rounded > 0 ? rounded : ARENA_ALIGN);
}

static void close_cpu(RpExecutor *e) {
    rp_plugin_close(e);
    rp_repack_close(&cpu(e)->repacked);
    if (e->owner == e) rp_pool_free(cpu(e)->pool);
    rp_executor_close_states(e);
    free(cpu(e)->phases);
    free(cpu(e)->scratch);
}

static RpStatus open_pool(const RpExecutorOptions *o, ThreadPool **out) {
    long n = o->n_threads, spin_us = 0;
    RP_TRY(rp_option_number(RP_OPT_SPIN_US, 1000000, &spin_us));
    if (n == 0) RP_TRY(rp_option_number(RP_OPT_THREADS, RP_POOL_MAX, &n));
    if (n == 0) n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 0 || n > RP_POOL_MAX) return rp_fail(RP_E_ARG, "%ld threads: must be from 1 to %d", n, RP_POOL_MAX);
    return rp_pool_new((int)n, spin_us, out);
}

static RpStatus new_state(RpExecutor *e, size_t bytes, const char *name, void **out) {
    (void)e;
    *out = calloc(1, bytes); /* pages are mapped on first write, not here */
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "state '%s': %zu bytes could not be allocated", name, bytes);
}

static void free_state(RpExecutor *e, void *state) {
    (void)e;
    free(state);
}

static void *weight_address(RpExecutor *e, const void *host) {
    (void)e;
    return (void *)(uintptr_t)host; /* kernels read weights directly from the mapped file */
}

static RpStatus open_scratch(CpuExecutor *c) {
    const ExecPlan *plan = c->base.plan;
    c->phases            = malloc(((size_t)plan->n_steps + 1) * sizeof *c->phases);
    if (c->phases == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", plan->n_steps);
    for (int i = 0; i < plan->n_steps; i++) {
        const CpuNeeds n = rp_cpu_needs(plan->steps[i].op, &plan->steps[i].args);
        c->phases[i]     = n.phases;
        if (n.shared > c->shared_bytes) c->shared_bytes = n.shared;
        if (n.local > c->local_bytes) c->local_bytes = n.local;
    }
    /* Rounded up so that no two workers write to the same cache line. */
    c->shared_bytes    = (c->shared_bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    c->local_bytes     = (c->local_bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    const size_t bytes = c->shared_bytes + c->local_bytes * (size_t)c->base.info.n_threads;
    c->scratch         = new_memory(bytes);
    if (c->scratch != NULL) return RP_OK;
    return rp_fail(RP_E_NOMEM, "scratch memory of %zu bytes could not be allocated", bytes);
}

static RpKernelCtx ctx_of(const CpuExecutor *c, int ith, int nth) {
    return (RpKernelCtx){.ith    = ith,
                         .nth    = nth,
                         .shared = c->scratch,
                         .local  = c->scratch + c->shared_bytes + c->local_bytes * (size_t)ith};
}

/* The arena is a reference-counted tensor: a result that rp_executor_tensor has returned keeps it alive. */
static RpStatus open_arena(RpExecutor *e) {
    const size_t  bytes   = e->plan->memory.arena;
    const int64_t words[] = {(int64_t)(bytes / sizeof(float)) + 1, 1, 1, 1};
    e->arena              = new_memory(bytes + sizeof(float));
    if (e->arena == NULL) return rp_fail(RP_E_NOMEM, "an arena of %zu bytes could not be allocated", bytes);
    const RpExternalMemory m = {
        .name = "arena", .view = rp_view_contiguous(RP_F32, words, e->arena), .release = free, .user = e->arena};
    return rp_external_new(&m, &e->arena_tensor);
}

/* After a failure rp_executor_free closes what was opened so far. */
static RpStatus open_cpu(RpExecutor *e, const RpExecutorOptions *o) {
    CpuExecutor *c      = cpu(e);
    e->info.device      = "cpu";
    e->info.device_name = rp_cpu_isa_name(rp_cpu_isa());
    RP_TRY(rp_cpu_isa_check());
    RP_TRY(rp_check_kernels(e->plan, &rp_cpu_table));
    if (o->require_graph) return rp_fail(RP_E_NOT_AVAILABLE, "a graph is required: the CPU has none");
    if (o->mode > RP_MODE_EAGER && !e->info.fell_back) /* else there is a reason already (I10) */
        snprintf(e->reason, sizeof e->reason, "eager instead of %s: the CPU has no graphs", rp_mode_name(o->mode));
    if (e->owner != e) {
        c->pool  = cpu(e->owner)->pool;
        e->arena = e->owner->arena;
    } else {
        RP_TRY(open_pool(o, &c->pool));
    }
    e->info.n_threads = rp_pool_size(c->pool);
    if (rp_executor_takes_arena(e))
        RP_TRY(open_arena(e));
    else
        e->arena_tensor = rp_external_hold(e->owner->arena_tensor);
    RP_TRY(open_scratch(c));
    RP_TRY(rp_executor_open_states(e));
    RP_TRY(rp_executor_fill_args(e, weight_address));
    if (e->owner == e) {
        RP_TRY(rp_prefetch_choose(e));
        RP_TRY(rp_repack_open(e, o->repack, c->pool, &c->repacked));
    }
    e->info.repack_bytes = cpu(e->owner)->repacked.bytes;
    e->info.repack_s     = cpu(e->owner)->repacked.seconds;
    rp_repack_point(&cpu(e->owner)->repacked, e);
    return o->backend != NULL || e->owner->plugin != NULL ? rp_plugin_open(e, o->backend) : RP_OK;
}

static double now_ns(void) { return 1e9 * rp_seconds(); }

static RpStatus end_of_step(void *pool, RpStatus status, bool last_phase) {
    (void)last_phase;
    return rp_pool_barrier(pool, status);
}

/* The task of each worker in a run. */
static RpStatus interpret(void *arg, int ith, int nth) {
    const CpuExecutor *c   = arg;
    RpKernelCtx        ctx = ctx_of(c, ith, nth);
    return rp_plan_walk(c->base.plan, c->base.args, c->phases, &rp_cpu_table, &ctx, end_of_step, c->pool);
}

typedef struct TracedWorker {
    ThreadPool  *pool;
    TracedNodes *nodes; /* NULL for all workers but 0 */
} TracedWorker;

static RpStatus end_of_traced_step(void *arg, RpStatus status, bool last_phase) {
    const TracedWorker *w = arg;
    status                = rp_pool_barrier(w->pool, status);
    if (w->nodes != NULL && (last_phase || status != RP_OK)) rp_traced_next(w->nodes, status);
    return status;
}

static RpStatus interpret_traced(void *arg, int ith, int nth) {
    const CpuExecutor *c   = arg;
    RpKernelCtx        ctx = ctx_of(c, ith, nth);
    TracedWorker       w   = {c->pool, ith == 0 ? c->base.nodes : NULL};
    if (c->base.plan->n_steps > 0) rp_traced_start(w.nodes, 0);
    return rp_plan_walk(c->base.plan, c->base.args, c->phases, &rp_cpu_table, &ctx, end_of_traced_step, &w);
}

static RpStatus run_cpu(RpExecutor *e) {
    if (e->plugin != NULL) return rp_plugin_run(e);
    return rp_pool_run(cpu(e)->pool, e->nodes != NULL ? interpret_traced : interpret, e);
}

typedef struct PartOfRun {
    const CpuExecutor *c;
    int                first, end;
    TracedNodes       *nodes; /* NULL: not traced */
} PartOfRun;

static RpStatus interpret_part(void *arg, int ith, int nth) {
    const PartOfRun  *r    = arg;
    const RpExecutor *e    = &r->c->base;
    const ExecPlan    part = rp_plan_part(e->plan, r->first, r->end);
    const RpOpArgs   *args = e->args + r->first;
    const int        *n    = r->c->phases + r->first;
    RpKernelCtx       ctx  = ctx_of(r->c, ith, nth);
    TracedWorker      w    = {r->c->pool, ith == 0 ? r->nodes : NULL};
    if (r->nodes == NULL) return rp_plan_walk(&part, args, n, &rp_cpu_table, &ctx, end_of_step, r->c->pool);
    if (part.n_steps > 0) rp_traced_start(w.nodes, r->first);
    return rp_plan_walk(&part, args, n, &rp_cpu_table, &ctx, end_of_traced_step, &w);
}

/* Steps that a backend in a shared object leaves to the built-in kernels are not traced. */
static RpStatus run_steps(RpExecutor *e, int first, int end) {
    PartOfRun r = {cpu(e), first, end, e->plugin == NULL ? e->nodes : NULL};
    return rp_pool_run(cpu(e)->pool, interpret_part, &r);
}

static void *data_of(RpExecutor *e, const TensorNode *node) {
    if (!rp_plan_keeps(e->plan, node)) return NULL;
    const PlanRef ref = rp_plan_ref(e->plan, node);
    return ref.space == SPACE_WEIGHT ? NULL : rp_executor_address(e, ref);
}

static RpStatus copy_bytes(RpExecutor *e, void *to, const void *from, size_t bytes, bool to_host) {
    if (to_host && e->plugin != NULL) RP_TRY(rp_plugin_read(e, from, bytes));
    memcpy(to, from, bytes);
    return RP_OK;
}

static RpStatus rebind(RpExecutor *e, const ExecPlan *weights) {
    e->weights = weights;
    RP_TRY(rp_executor_fill_args(e, weight_address));
    rp_repack_point(&cpu(e->owner)->repacked, e);
    return e->plugin != NULL ? rp_plugin_bind(e) : RP_OK;
}

/* ---- looking inside ---- */

/* Bytes of 0xff are a NaN in f32 and f16. Buffers of inputs, whose lifetime starts before the run, are
 * spared. */
static RpStatus poison(RpExecutor *e) {
    for (int i = 0; i < e->plan->n_buffers; i++) {
        const PlanBuffer *b   = &e->plan->buffers[i];
        const PlanRef     ref = {.space = SPACE_ARENA, .buffer = i, .offset = b->offset};
        if (b->first_step >= 0) memset(rp_executor_address(e, ref), 0xff, b->bytes);
    }
    return RP_OK;
}

/* The memory that a step writes: its result, and the sources that it writes to. */
typedef struct Written {
    const RpTensorView *views[RP_MAX_SRC + 1];
    int                 n;
    size_t              bytes;
} Written;

static Written written_by(const RpExecutor *e, int step) {
    const RpOpArgs *args = &e->args[step];
    Written         w    = {.views = {&args->dst}, .n = 1};
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (rp_plan_step_writes(e->plan, step, k)) w.views[w.n++] = &args->src[k];
    for (int i = 0; i < w.n; i++) w.bytes += rp_view_extent_bytes(w.views[i]);
    return w;
}

/* Copies all written views to `copy`, one after the other, or back if `put`. */
static void copy_written(const Written *w, char *copy, bool put) {
    for (int i = 0; i < w->n; i++) {
        const size_t bytes = rp_view_extent_bytes(w->views[i]);
        memcpy(put ? w->views[i]->data : copy, put ? copy : w->views[i]->data, bytes);
        copy += bytes;
    }
}

/* Runs one step on one worker, with the instruction set in use: restores `before`, runs, and copies the
 * results to `result`. */
static RpStatus run_step(const RpExecutor *e, int step, const Written *w, char *result, char *before) {
    RpKernelCtx ctx = ctx_of((const CpuExecutor *)e, 0, 1);
    copy_written(w, before, true);
    for (int n = ((const CpuExecutor *)e)->phases[step]; ctx.phase < n; ctx.phase++)
        RP_TRY(rp_kernel_of(&rp_cpu_table, e->plan->steps[step].op)(&e->args[step], &ctx));
    copy_written(w, result, false);
    return RP_OK;
}

/* Runs a step twice from the same state of memory, first with the plain kernels and then with those in
 * use, whose results stay in place for the next step.
 *
 *     copies   [ before | plain | got ]      w->bytes each, the written views one after the other */
static RpStatus verify_step(const RpExecutor *e, int step, const Written *w, char *copies, RpVerifyCallback *callback,
                            void *user, bool *go_on) {
    const RpCpuIsa isa    = rp_cpu_isa();
    char          *before = copies, *plain = copies + w->bytes, *got = copies + 2 * w->bytes;
    copy_written(w, before, false);
    RP_TRY(rp_cpu_isa_set(RP_ISA_PLAIN));
    RpStatus st = run_step(e, step, w, plain, before);
    RP_TRY(rp_cpu_isa_set(isa));
    if (st == RP_OK) st = run_step(e, step, w, got, before);
    for (int i = 0; i < w->n && st == RP_OK && *go_on; i++) {
        const size_t bytes = rp_view_extent_bytes(w->views[i]);
        *go_on             = callback(e->plan->steps[step].node, w->views[i], got, plain, user);
        got += bytes, plain += bytes;
    }
    return st;
}

static RpStatus verify(RpExecutor *e, RpVerifyCallback *callback, void *user) {
    RpStatus st    = e->plugin != NULL ? rp_plugin_refuse(e, "verify") : RP_OK;
    bool     go_on = true;
    for (int i = 0; i < e->plan->n_steps && st == RP_OK && go_on; i++) {
        const Written w      = written_by(e, i);
        char         *copies = malloc(3 * w.bytes);
        if (copies == NULL) return rp_fail(RP_E_NOMEM, "out of memory for copies of %zu bytes", w.bytes);
        rp_traced_start(e->nodes, i);
        st = verify_step(e, i, &w, copies, callback, user, &go_on);
        rp_traced_end(e->nodes, st);
        free(copies);
    }
    return st;
}

/* ends[i]: time at the end of step i; ends[-1]: at the start of the run. Worker 0 writes them. */
typedef struct TimedRun {
    CpuExecutor *c;
    double      *ends;
} TimedRun;

typedef struct TimedStep {
    ThreadPool *pool;
    double     *ends; /* NULL for all workers but 0 */
    int         n;
} TimedStep;

static RpStatus end_of_timed_step(void *arg, RpStatus status, bool last_phase) {
    TimedStep *t = arg;
    status       = rp_pool_barrier(t->pool, status);
    if (t->ends != NULL && last_phase) t->ends[t->n++] = now_ns();
    return status;
}

static RpStatus interpret_timed(void *arg, int ith, int nth) {
    const TimedRun *r   = arg;
    RpKernelCtx     ctx = ctx_of(r->c, ith, nth);
    TimedStep       t   = {r->c->pool, ith == 0 ? r->ends : NULL, 0};
    if (ith == 0) r->ends[-1] = now_ns();
    return rp_plan_walk(r->c->base.plan, r->c->base.args, r->c->phases, &rp_cpu_table, &ctx, end_of_timed_step, &t);
}

/* Alternates plain runs, for the total, and timed runs, for the steps. Medians are taken over
 *
 *     sample[0 * n_runs + r]          ns of plain run r
 *     sample[(i + 1) * n_runs + r]    ns of step i in timed run r
 *
 * `step` is the step state of a plan that samples; each run advances it, so it is written back. */
static RpStatus profile(RpExecutor *e, int n_runs, double *step_ns, double *total_ns, const void *step) {
    if (e->plugin != NULL) return rp_plugin_refuse(e, "profile");
    const size_t n      = (size_t)e->plan->n_steps;
    double      *ends   = calloc(n + 1, sizeof *ends);
    double      *sample = calloc((n + 1) * (size_t)n_runs, sizeof *sample);
    RpStatus     st     = ends != NULL && sample != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a profile");
    for (int r = 0; r < n_runs && st == RP_OK; r++) {
        TimedRun     t     = {cpu(e), ends + 1};
        const double start = now_ns();
        st                 = run_cpu(e);
        sample[(size_t)r]  = now_ns() - start;
        if (st == RP_OK) st = rp_executor_put_step(e, step);
        if (st == RP_OK) st = rp_pool_run(cpu(e)->pool, interpret_timed, &t);
        for (size_t i = 0; i < n; i++) sample[(i + 1) * (size_t)n_runs + (size_t)r] = ends[i + 1] - ends[i];
        if (st == RP_OK) st = rp_executor_put_step(e, step);
    }
    if (st == RP_OK) {
        *total_ns = rp_median(sample, n_runs);
        for (size_t i = 0; i < n; i++) step_ns[i] = rp_median(sample + (i + 1) * (size_t)n_runs, n_runs);
    }
    free(ends);
    free(sample);
    return st;
}

static RpStatus token_of(RpExecutor *e, int32_t *token) {
    memcpy(token, rp_executor_address(e, rp_plan_ref(e->plan, e->step)), sizeof *token);
    return RP_OK;
}

/* The CPU launches nothing: the fields that rp_executor_describe fills in are all there is. */
static RpStatus launch_of(const RpExecutor *e, int step, RpStepLaunch *out) {
    (void)e, (void)step, (void)out;
    return RP_OK;
}

const Backend rp_cpu_backend = {.bytes      = sizeof(CpuExecutor),
                                .open       = open_cpu,
                                .close      = close_cpu,
                                .run        = run_cpu,
                                .run_steps  = run_steps,
                                .data       = data_of,
                                .copy       = copy_bytes,
                                .new_state  = new_state,
                                .free_state = free_state,
                                .rebind     = rebind,
                                .verify     = verify,
                                .profile    = profile,
                                .poison     = poison,
                                .launch     = launch_of,
                                .token      = token_of};
