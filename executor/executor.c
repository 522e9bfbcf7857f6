/* Executors, without the details of a backend: opening, states, addresses, access to results, rebinding.
 * Addresses are computed at open and at each bind, never during a run (I3, I4). */
#include "executor/backend.h"

#include "base/argument.h"

#include "base/sized.h"
#include "executor/device.h"

#include <stdlib.h>
#include <string.h>

struct RpExecutorStates {
    RpExecutor *maker; /* the owner of the executor it was made for */
    int         n;
    void       *memory[]; /* by the state number of the owner's plan */
};

const char *rp_mode_name(RpExecMode mode) {
    static const char *const names[] = {[RP_MODE_AUTO]   = "auto",
                                        [RP_MODE_EAGER]  = "eager",
                                        [RP_MODE_REPLAY] = "replay",
                                        [RP_MODE_LOOP]   = "loop"};
    return (unsigned)mode < sizeof names / sizeof names[0] ? names[mode] : "?";
}

RpStatus rp_mode_from_name(const char *name, RpExecMode *out) {
    RP_NOT_NULL(name, "name");
    RP_NOT_NULL(out, "out");

    for (int m = RP_MODE_AUTO; m <= RP_MODE_LOOP; m++)
        if (strcmp(name, rp_mode_name((RpExecMode)m)) == 0) {
            *out = (RpExecMode)m;
            return RP_OK;
        }
    return rp_fail(RP_E_ARG, "'%s': auto, eager, replay or loop is wanted", name);
}

/* ---- states ----
 *
 * A session has one plan per chunk length. Their executors share what does not depend on the length:
 *
 *     owner: 256 tokens         has threads or device, weights, arena, states
 *       ^      ^      ^
 *      64     16  ..  1 token   has args; uses states of the same name, and the arena if it is large enough
 *
 * So all lengths read and write the same KV caches. Only one of these executors runs at a time. */

/* The number of the state with the name of `node`; -1 if the plan has none. */
static int find_state(const ExecPlan *plan, const TensorNode *node) {
    for (int i = 0; i < plan->n_states; i++)
        if (strcmp(rp_node_name(plan->states[i].node), rp_node_name(node)) == 0) return i;
    return -1;
}

RpStatus rp_executor_open_states(RpExecutor *e) {
    const ExecPlan *plan = e->plan;
    e->states            = calloc((size_t)plan->n_states + 1, sizeof *e->states);
    e->default_states    = calloc((size_t)plan->n_states + 1, sizeof *e->default_states);
    e->allocated_state   = calloc((size_t)plan->n_states + 1, sizeof *e->allocated_state);
    if (e->states == NULL || e->default_states == NULL || e->allocated_state == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    for (int i = 0; i < plan->n_states; i++) {
        const PlanState *s      = &plan->states[i];
        const int        shared = e->owner != e ? find_state(e->owner->plan, s->node) : -1;
        if (shared < 0) {
            RP_TRY(e->backend->new_state(e, s->bytes, rp_node_name(s->node), &e->default_states[i]));
            e->states[i]          = e->default_states[i];
            e->allocated_state[i] = true;
            continue;
        }
        const RpTensorView mine   = rp_node_view(s->node),
                           theirs = rp_node_view(e->owner->plan->states[shared].node);
        if (mine.dtype != theirs.dtype || memcmp(mine.ne, theirs.ne, sizeof mine.ne) != 0)
            return rp_fail(RP_E_SHAPE, "state '%s' has another shape in the executor to share with",
                           rp_node_name(s->node));
        e->states[i] = e->default_states[i] = e->owner->default_states[shared];
    }
    return RP_OK;
}

void rp_executor_close_states(RpExecutor *e) {
    for (int i = 0; e->allocated_state != NULL && i < e->plan->n_states; i++)
        if (e->allocated_state[i]) e->backend->free_state(e, e->default_states[i]);
    free(e->states);
    free(e->default_states);
    free(e->allocated_state);
}

/* ---- addresses ----
 *
 *     arena     e->arena + offset
 *     state i   e->states[i] + offset        bound states, else e->default_states[i]
 *     weight    its address in plan e->weights + offset */

void *rp_executor_address(const RpExecutor *e, PlanRef ref) {
    return ref.space == SPACE_ARENA ? e->arena + ref.offset : (char *)e->states[ref.state] + ref.offset;
}

/* Absent sources have ne 0 and no address. */
static RpStatus fill_source(RpExecutor *e, const PlanStep *s, const PlanStep *weights, int k,
                            WeightAddress *address, RpOpArgs *args) {
    const PlanRef ref = s->src[k];
    if (s->args.src[k].ne[0] <= 0) return RP_OK;
    if (ref.space != SPACE_WEIGHT) {
        args->src[k].data = rp_executor_address(e, ref);
        return RP_OK;
    }
    char *base = address(e, weights->args.src[k].data);
    if (base == NULL)
        return rp_fail(RP_E_STATE, "%s: source %d is not a weight of the bound plan", rp_node_name(s->node),
                       k);
    args->src[k].data = base + weights->src[k].offset;
    return RP_OK;
}

/* Zeros behind dtype, so that launches with equal views have equal arguments (executor/cuda/special.c). */
static void clear_gap(RpTensorView *v) {
    const size_t at = offsetof(RpTensorView, dtype) + sizeof v->dtype;
    memset((char *)v + at, 0, offsetof(RpTensorView, ne) - at);
}

RpStatus rp_executor_fill_args(RpExecutor *e, WeightAddress *address) {
    const ExecPlan *plan = e->plan;
    if (e->args == NULL) e->args = calloc((size_t)plan->n_steps + 1, sizeof *e->args);
    if (e->args == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", plan->n_steps);
    /* Step i of e->weights has the same op and shapes: rp_executor_weights_bind has checked it. */
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s = &plan->steps[i];
        e->args[i]        = s->args;
        clear_gap(&e->args[i].dst);
        for (int k = 0; k < RP_MAX_SRC; k++) clear_gap(&e->args[i].src[k]);
        e->args[i].dst.data = rp_executor_address(e, s->dst);
        for (int k = 0; k < RP_MAX_SRC; k++)
            RP_TRY(fill_source(e, s, &e->weights->steps[i], k, address, &e->args[i]));
    }
    return RP_OK;
}

/* ---- open, run ---- */

void rp_executor_free(RpExecutor *e) {
    if (e == NULL) return;
    e->backend->close(e);
    free(e->args);
    free(e);
}

static RpStatus check_options(const RpExecutorOptions *o) {
    if ((unsigned)o->mode > RP_MODE_LOOP)
        return rp_fail(RP_E_ARG, "there is no launch mode %d", (int)o->mode);
    if (o->step == NULL) return RP_OK;
    const RpTensorView v = rp_node_view(o->step);
    if (strcmp(rp_node_op_name(o->step), "state") != 0 || v.dtype != RP_I32 ||
        rp_view_elems(&v) < RP_STEP_WORDS)
        return rp_fail(RP_E_ARG, "'%s' is no step state: a state of at least %d i32 is wanted",
                       rp_node_name(o->step), (int)RP_STEP_WORDS);
    return RP_OK;
}

static RpStatus open_executor(const ExecPlan *plan, const RpExecutorOptions *o, RpExecutor **out) {
    DeviceChoice choice = {0};
    if (o->share == NULL) {
        RP_TRY(rp_device_choose(o->device, o->require_cuda, &choice));
    } else if (o->share->owner->info.fell_back) {
        /* The device is that of the owner, and so is the reason why it is not a GPU (I10). */
        choice.fell_back = true;
        memcpy(choice.reason, o->share->owner->reason, sizeof choice.reason);
    }
    const Backend *backend = o->share != NULL ? o->share->backend
                             : choice.cuda    ? &rp_cuda_backend
                                              : &rp_cpu_backend;
    RpExecutor    *e       = calloc(1, backend->bytes);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    e->backend                 = backend;
    e->plan                    = plan;
    e->weights                 = plan;
    e->step                    = o->step;
    e->owner                   = o->share != NULL ? o->share->owner : e; /* never a chain of owners */
    e->info.mode               = RP_MODE_EAGER;
    e->info.fell_back          = choice.fell_back;
    e->info.blas               = "";
    e->info.overlap            = "";
    e->info.tuning             = "";
    e->info.kernels            = "";
    e->info.reason             = memcpy(e->reason, choice.reason, sizeof e->reason);
    RpExecutorOptions resolved = *o;
    resolved.device            = choice.name;
    const RpStatus st          = backend->open(e, &resolved);
    if (st != RP_OK) {
        rp_executor_free(e);
        return st;
    }
    *out = e;
    return RP_OK;
}

RpStatus rp_executor_open_sized(const ExecPlan *plan, const RpExecutorOptions *options, size_t options_bytes,
                                RpExecutor **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(plan, "plan");

    RpExecutorOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpExecutorOptions"));
    RP_TRY(check_options(&o));
    return open_executor(plan, &o, out);
}

/* While other memory than the loop's is bound, replies are replayed, and the executor says so (I10). */
void rp_executor_info_sized(const RpExecutor *e, RpExecutorInfo *out, size_t out_bytes) {
    RpExecutorInfo info = {0};
    if (e != NULL) info = e->info;
    if (e != NULL && info.mode == RP_MODE_LOOP && !rp_executor_loops(e)) {
        info.mode   = RP_MODE_REPLAY;
        info.reason = "replay instead of loop: other states or weights are bound than those of the loop";
    }
    rp_sized_out(out, out_bytes, e != NULL ? &info : NULL, sizeof info);
}

int      rp_executor_n_threads(const RpExecutor *e) { return e != NULL ? e->info.n_threads : 0; }
RpStatus rp_executor_run(RpExecutor *e) {
    RP_NOT_NULL(e, "exec");
    return e->backend->run(e);
}
RpStatus rp_executor_poison(RpExecutor *e) {
    RP_NOT_NULL(e, "exec");
    return e->backend->poison(e);
}

void *rp_executor_data(RpExecutor *e, const TensorNode *node) {
    return e != NULL && node != NULL ? e->backend->data(e, node) : NULL;
}

RpStatus rp_executor_verify(RpExecutor *e, RpVerifyCallback *callback, void *user) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(callback, "callback");

    return e->backend->verify(e, callback, user);
}

RpStatus rp_executor_profile(RpExecutor *e, int n_runs, double *step_ns, double *total_ns) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(step_ns, "step_ns");
    RP_NOT_NULL(total_ns, "total_ns");

    if (n_runs < 1) return rp_fail(RP_E_ARG, "a profile of %d runs", n_runs);
    if (e->step == NULL) return e->backend->profile(e, n_runs, step_ns, total_ns, NULL);
    /* Each run of a plan that samples advances the step state. The backend restores it from this copy. */
    const RpTensorView v     = rp_node_view(e->step);
    const size_t       bytes = rp_view_extent_bytes(&v);
    void              *step  = malloc(bytes);
    if (step == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a profile");
    RpStatus st = rp_executor_get(e, e->step, step, bytes);
    if (st == RP_OK) st = e->backend->profile(e, n_runs, step_ns, total_ns, step);
    free(step);
    return st;
}

/* *memory is the address of a node whose value outlasts a run. Memory of other nodes is reused, so access
 * is refused. */
static RpStatus kept_memory(const RpExecutor *e, const TensorNode *node, size_t bytes, void **memory) {
    const PlanRef      none = {.space = SPACE_WEIGHT};
    const PlanRef      ref  = rp_plan_keeps(e->plan, node) ? rp_plan_ref(e->plan, node) : none;
    const RpTensorView view = rp_node_view(node);
    if (ref.space == SPACE_WEIGHT)
        return rp_fail(RP_E_ARG, "'%s' is neither an input nor an output nor a state", rp_node_name(node));
    if (bytes > rp_view_extent_bytes(&view))
        return rp_fail(RP_E_ARG, "'%s': %zu bytes requested, it has %zu", rp_node_name(node), bytes,
                       rp_view_extent_bytes(&view));
    *memory = rp_executor_address(e, ref);
    return RP_OK;
}

RpStatus rp_executor_get(RpExecutor *e, const TensorNode *node, void *out, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(out, "out");

    void *memory = NULL;
    RP_TRY(kept_memory(e, node, bytes, &memory));
    return e->backend->copy(e, out, memory, bytes, true);
}

RpStatus rp_executor_set(RpExecutor *e, const TensorNode *node, const void *data, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(data, "data");

    void *memory = NULL;
    RP_TRY(kept_memory(e, node, bytes, &memory));
    return e->backend->copy(e, memory, data, bytes, false);
}

RpStatus rp_executor_put_step(RpExecutor *e, const void *step) {
    if (step == NULL) return RP_OK;
    const RpTensorView v = rp_node_view(e->step);
    return rp_executor_set(e, e->step, step, rp_view_extent_bytes(&v));
}

RpStatus rp_executor_describe(const ExecPlan *plan, int i, RpStepLaunch *out) {
    if (i < 0 || i >= plan->n_steps) return rp_fail(RP_E_ARG, "step %d of a plan of %d", i, plan->n_steps);
    *out = (RpStepLaunch){.node       = plan->steps[i].node,
                          .bytes      = rp_plan_step_bytes(plan, i),
                          .n_barriers = rp_cpu_needs(plan->steps[i].op, &plan->steps[i].args).phases};
    return RP_OK;
}

RpStatus rp_executor_launch_sized(const RpExecutor *e, int i, RpStepLaunch *out, size_t out_bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(out, "out");

    RpStepLaunch l;
    RP_TRY(rp_executor_describe(e->plan, i, &l));
    const RpStatus st = e->backend->launch(e, i, &l);
    rp_sized_out(out, out_bytes, &l, sizeof l);
    return st;
}

/* ---- other memory ---- */

void rp_executor_states_free(RpExecutorStates *s) {
    if (s == NULL) return;
    for (int i = 0; i < s->n; i++) s->maker->backend->free_state(s->maker, s->memory[i]);
    free(s);
}

RpStatus rp_executor_states_new(RpExecutor *e, RpExecutorStates **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(e, "exec");

    const ExecPlan   *plan = e->owner->plan;
    RpExecutorStates *s    = calloc(1, sizeof *s + (size_t)plan->n_states * sizeof s->memory[0]);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d states", plan->n_states);
    s->maker = e->owner;
    for (; s->n < plan->n_states; s->n++) {
        const PlanState *state = &plan->states[s->n];
        const RpStatus   st =
            e->backend->new_state(e->owner, state->bytes, rp_node_name(state->node), &s->memory[s->n]);
        if (st != RP_OK) {
            rp_executor_states_free(s);
            return st;
        }
    }
    *out = s;
    return RP_OK;
}

/* States that the owner lacks stay: they are private to this executor. */
static void point_to_states(RpExecutor *e, const RpExecutorStates *s) {
    for (int i = 0; i < e->plan->n_states; i++) {
        const int n = find_state(e->owner->plan, e->plan->states[i].node);
        if (n < 0) continue;
        e->states[i] = s != NULL ? s->memory[n] : e->default_states[i];
    }
    e->bound = s;
}

/* Rolls a failed bind back to `weights`, and reports the original error even if that fails too. */
static RpStatus roll_back(RpExecutor *e, const ExecPlan *weights, RpStatus st) {
    char text[512];
    snprintf(text, sizeof text, "%s", rp_last_error());
    const RpStatus again = e->backend->rebind(e, weights); /* if it fails, the next run tries again */
    (void)again;
    return rp_fail(st, "%s", text);
}

RpStatus rp_executor_states_bind(RpExecutor *e, RpExecutorStates *s) {
    RP_NOT_NULL(e, "exec");

    const RpExecutorStates *before = e->bound;
    if (s != NULL && s->maker != e->owner)
        return rp_fail(RP_E_ARG, "these states belong to another executor");
    /* All or nothing: if the backend cannot use the new addresses, the old ones are restored. */
    point_to_states(e, s);
    const RpStatus st = e->backend->rebind(e, e->weights);
    if (st == RP_OK) return RP_OK;
    point_to_states(e, before);
    return roll_back(e, e->weights, st);
}

static bool same_view(const RpTensorView *a, const RpTensorView *b) {
    return a->dtype == b->dtype && memcmp(a->ne, b->ne, sizeof a->ne) == 0 &&
           memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

/* True if both steps differ in addresses at most. Parameters are compared as bytes, because the Params
 * structs have no implicit padding. */
static bool same_step(const PlanStep *x, const PlanStep *y) {
    const size_t bytes = rp_op_info(x->op)->params_bytes;
    if (x->op != y->op || memcmp(x->args.params, y->args.params, bytes) != 0) return false;
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (x->src[k].space != y->src[k].space || !same_view(&x->args.src[k], &y->args.src[k])) return false;
    return same_view(&x->args.dst, &y->args.dst);
}

/* Weights of plan b fit plan a if all steps agree. The error names the first step that differs. */
static RpStatus check_same_steps(const ExecPlan *a, const ExecPlan *b) {
    if (a->n_steps != b->n_steps)
        return rp_fail(RP_E_SHAPE, "weights of a plan of %d steps for one of %d", b->n_steps, a->n_steps);
    for (int i = 0; i < a->n_steps; i++) {
        const PlanStep *x = &a->steps[i], *y = &b->steps[i];
        if (!same_step(x, y))
            return rp_fail(
                RP_E_SHAPE,
                "step %d is %s '%s', in the plan of the weights %s '%s' with other sources or parameters", i,
                rp_node_op_name(x->node), rp_node_name(x->node), rp_node_op_name(y->node),
                rp_node_name(y->node));
    }
    return RP_OK;
}

RpStatus rp_executor_weights_bind(RpExecutor *e, const ExecPlan *plan) {
    RP_NOT_NULL(e, "exec");

    const ExecPlan *before = e->weights;
    if (plan != NULL) RP_TRY(check_same_steps(e->plan, plan));
    const RpStatus st = e->backend->rebind(e, plan != NULL ? plan : e->plan);
    return st == RP_OK ? RP_OK : roll_back(e, before, st);
}
