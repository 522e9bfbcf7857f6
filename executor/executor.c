#include "reprise/executor.h"

#include "executor/plan_walk.h"
#include "executor/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_ALIGN = 4096 };

struct Executor {
    const ExecPlan *plan;
    Executor       *owner; /* of the pool: itself, or the one it shares with */
    ThreadPool     *pool;
    char           *arena, *own_arena;
    void          **states; /* by the plan's state number */
    bool           *owns_state;
    OpArgs         *args; /* one a step, addresses filled in */
};

static void *new_memory(size_t bytes) {
    const size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return aligned_alloc(ARENA_ALIGN, rounded > 0 ? rounded : ARENA_ALIGN);
}

void rp_executor_free(Executor *e) {
    if (e == NULL) return;
    for (int i = 0; e->states != NULL && i < e->plan->n_states; i++)
        if (e->owns_state[i]) free(e->states[i]);
    if (e->owner == e) rp_pool_free(e->pool);
    free(e->own_arena);
    free(e->states);
    free(e->owns_state);
    free(e->args);
    free(e);
}

/* A positive number of an option or 0; anything else is an error. */
static RpStatus option_number(RpOption option, long max, long *out) {
    const char *text = rp_option(option);
    char       *end;
    errno = 0;
    *out  = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *out < 0 || *out > max)
        return rp_fail(RP_E_ARG, "%s='%s': a number from 0 to %ld is wanted", rp_option_name(option), text,
                       max);
    return RP_OK;
}

static RpStatus open_pool(const ExecutorOptions *o, ThreadPool **out) {
    long n = o->n_threads, spin_us = 0;
    RP_TRY(option_number(RP_OPT_SPIN_US, 1000000, &spin_us));
    if (n == 0) RP_TRY(option_number(RP_OPT_THREADS, RP_POOL_MAX, &n));
    if (n == 0) n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 0 || n > RP_POOL_MAX)
        return rp_fail(RP_E_ARG, "%ld threads: between 1 and %d can be used", n, RP_POOL_MAX);
    return rp_pool_new((int)n, spin_us, out);
}

static int find_state(const ExecPlan *plan, const TensorNode *node) {
    for (int i = 0; i < plan->n_states; i++)
        if (strcmp(rp_node_name(plan->states[i].node), rp_node_name(node)) == 0) return i;
    return -1;
}

static RpStatus open_states(Executor *e) {
    const ExecPlan *plan = e->plan;
    e->states            = calloc((size_t)plan->n_states + 1, sizeof *e->states);
    e->owns_state        = calloc((size_t)plan->n_states + 1, sizeof *e->owns_state);
    if (e->states == NULL || e->owns_state == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    for (int i = 0; i < plan->n_states; i++) {
        const PlanState *s      = &plan->states[i];
        const int        shared = e->owner != e ? find_state(e->owner->plan, s->node) : -1;
        if (shared >= 0) {
            const TensorView mine   = rp_node_view(s->node),
                             theirs = rp_node_view(e->owner->plan->states[shared].node);
            if (mine.dtype != theirs.dtype || memcmp(mine.ne, theirs.ne, sizeof mine.ne) != 0)
                return rp_fail(RP_E_SHAPE, "state '%s' has another shape in the executor to share with",
                               rp_node_name(s->node));
            e->states[i] = e->owner->states[shared];
            continue;
        }
        e->states[i] = calloc(1, s->bytes); /* pages come when they are first written */
        if (e->states[i] == NULL)
            return rp_fail(RP_E_NOMEM, "state '%s': %zu bytes could not be allocated", rp_node_name(s->node),
                           s->bytes);
        e->owns_state[i] = true;
    }
    return RP_OK;
}

static void *resolve(const Executor *e, PlanRef ref, void *weight) {
    switch (ref.space) {
    case SPACE_ARENA:
        return e->arena + ref.offset;
    case SPACE_STATE:
        return (char *)e->states[ref.state] + ref.offset;
    default:
        return (char *)weight + ref.offset;
    }
}

static RpStatus open_steps(Executor *e) {
    const ExecPlan *plan = e->plan;
    e->args              = calloc((size_t)plan->n_steps + 1, sizeof *e->args);
    if (e->args == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", plan->n_steps);
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s   = &plan->steps[i];
        e->args[i]          = s->args;
        e->args[i].dst.data = resolve(e, s->dst, NULL);
        for (int k = 0; k < RP_MAX_SRC; k++)
            if (s->args.src[k].ne[0] > 0) e->args[i].src[k].data = resolve(e, s->src[k], s->args.src[k].data);
    }
    return RP_OK;
}

static RpStatus open_memory(Executor *e, const ExecutorOptions *o) {
    if (o->share != NULL) {
        e->owner = o->share->owner;
        e->pool  = e->owner->pool;
        e->arena = e->owner->arena;
    } else {
        RP_TRY(open_pool(o, &e->pool));
    }
    if (e->owner == e || e->plan->memory.arena > e->owner->plan->memory.arena) {
        e->arena = e->own_arena = new_memory(e->plan->memory.arena);
        if (e->arena == NULL)
            return rp_fail(RP_E_NOMEM, "an arena of %zu bytes could not be allocated", e->plan->memory.arena);
    }
    RP_TRY(open_states(e));
    return open_steps(e);
}

RpStatus rp_executor_open(const ExecPlan *plan, const ExecutorOptions *options, Executor **out) {
    static const ExecutorOptions defaults = {0};
    *out                                  = NULL;
    RP_TRY(rp_cpu_isa_check());
    Executor *e = calloc(1, sizeof *e);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    e->plan           = plan;
    e->owner          = e;
    const RpStatus st = open_memory(e, options != NULL ? options : &defaults);
    if (st != RP_OK) {
        rp_executor_free(e);
        return st;
    }
    *out = e;
    return RP_OK;
}

/* ---- the CPU interpreter ---- */

static RpStatus end_of_step(void *pool, RpStatus status) { return rp_pool_barrier(pool, status); }

static RpStatus interpret(void *arg, int ith, int nth) {
    const Executor *e   = arg;
    KernelCtx       ctx = {.ith = ith, .nth = nth};
    return rp_plan_walk(e->plan, e->args, rp_cpu_kernels, &ctx, end_of_step, e->pool);
}

RpStatus rp_executor_run(Executor *e) { return rp_pool_run(e->pool, interpret, e); }

void *rp_executor_data(Executor *e, const TensorNode *node) {
    const PlanRef ref = rp_plan_ref(e->plan, node);
    if (ref.space == SPACE_WEIGHT || !rp_plan_keeps(e->plan, node)) return NULL;
    return resolve(e, ref, NULL);
}

int rp_executor_n_threads(const Executor *e) { return rp_pool_size(e->pool); }
