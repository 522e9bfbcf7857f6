/* Executors, without the details of a backend: opening, running, rebinding. */
#include "executor/plugin.h"

#include "base/argument.h"

#include "base/sized.h"
#include "executor/device.h"
#include "reprise/options.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct RpExecutorStates {
    RpExecutor *maker; /* the owner of the executor it was made for */
    int         n;
    void       *memory[]; /* by the state number of the owner's plan */
};

/* ---- open, run ---- */

/* Executors that were freed while a kernel of a run that was given up still used their memory. They are never freed. */
static RpExecutor     *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool hangs(const RpExecutor *e) { return e->backend->hangs != NULL && e->backend->hangs(e); }

static void keep(RpExecutor *e) {
    pthread_mutex_lock(&kept_lock);
    e->next_kept = kept;
    kept         = e;
    pthread_mutex_unlock(&kept_lock);
}

void rp_executor_free(RpExecutor *e) {
    if (e == NULL) return;
    if (hangs(e)) {
        keep(e);
        return;
    }
    e->backend->close(e);
    rp_executor_close_tensors(e);
    free(e->args);
    free(e);
}

static RpStatus check_options(const RpExecutorOptions *o) {
    if ((unsigned)o->mode > RP_MODE_LOOP)
        return rp_fail(RP_E_ARG, "launch mode %d: must be from 0 to %d", (int)o->mode, (int)RP_MODE_LOOP);
    if ((unsigned)o->columns > RP_COLUMNS_PROMPT)
        return rp_fail(RP_E_ARG, "columns %d: must be from 0 to %d", (int)o->columns, (int)RP_COLUMNS_PROMPT);
    if (o->repack != NULL && strcmp(o->repack, "on") != 0 && strcmp(o->repack, "off") != 0 &&
        strcmp(o->repack, "auto") != 0 && strcmp(o->repack, "codebook") != 0)
        return rp_fail(RP_E_ARG, "repack '%s': must be on, off, auto or codebook", o->repack);
    if (!(o->watchdog_s >= 0.0 && o->watchdog_s <= RP_WATCHDOG_MAX_S))
        return rp_fail(RP_E_ARG, "a watchdog of %g seconds: must be from 0 to %g", o->watchdog_s, RP_WATCHDOG_MAX_S);
    if (o->backend != NULL && o->share != NULL)
        return rp_fail(
            RP_E_ARG,
            "backend '%s': must not be given with share, an executor that shares has the backend of its owner",
            o->backend);
    if (o->backend != NULL && o->repack != NULL && strcmp(o->repack, "on") == 0)
        return rp_fail(RP_E_ARG, "backend '%s': repack must not be on, repacked weights are for the built-in kernels",
                       o->backend);
    if (o->step == NULL) return RP_OK;
    const RpTensorView v = rp_node_view(o->step);
    if (strcmp(rp_node_op_name(o->step), "state") != 0 || v.dtype != RP_I32 || rp_view_elems(&v) < RP_STEP_WORDS)
        return rp_fail(RP_E_ARG, "'%s' as step state: must be a state of at least %d i32", rp_node_name(o->step),
                       (int)RP_STEP_WORDS);
    return RP_OK;
}

/* Backends in shared objects run on the CPU, which they make the default. */
static RpStatus choose_device(const RpExecutorOptions *o, DeviceChoice *choice) {
    const char *name = o->device != NULL ? o->device : rp_option(RP_OPT_DEVICE);
    if (o->backend == NULL) return rp_device_choose(o->device, o->require_cuda, choice);
    if (o->require_cuda || (strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0))
        return rp_fail(RP_E_ARG, "backend '%s' runs plans on the CPU, device %s is asked for", o->backend,
                       o->require_cuda ? "cuda" : name);
    return rp_device_choose("cpu", false, choice);
}

static RpStatus open_executor(const ExecPlan *plan, const RpExecutorOptions *o, RpExecutor **out) {
    DeviceChoice choice = {0};
    if (o->share == NULL) {
        RP_TRY(choose_device(o, &choice));
    } else if (o->share->owner->info.fell_back) {
        /* An executor that shares runs on the device of the owner. If that is not a GPU, the reason is the same (I10).
         * */
        choice.fell_back = true;
        memcpy(choice.reason, o->share->owner->reason, sizeof choice.reason);
    }
    const Backend *backend = o->share != NULL ? o->share->backend : choice.cuda ? &rp_cuda_backend : &rp_cpu_backend;
    RpExecutor    *e       = calloc(1, backend->bytes);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    e->backend                 = backend;
    e->plan                    = plan;
    e->weights                 = plan;
    e->step                    = o->step;
    e->owner                   = o->share != NULL ? o->share->owner : e; /* never a chain of owners */
    e->lender                  = o->share;
    e->info.mode               = RP_MODE_EAGER;
    e->info.fell_back          = choice.fell_back;
    e->info.blas               = "";
    e->info.overlap            = "";
    e->info.tuning             = "";
    e->info.kernels            = "";
    e->info.backend            = "";
    e->info.reason             = memcpy(e->reason, choice.reason, sizeof e->reason);
    RpExecutorOptions resolved = *o;
    resolved.device            = choice.name;
    if (o->backend != NULL) resolved.repack = "off";
    const RpStatus st = backend->open(e, &resolved);
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
    RP_TRY(rp_trace_environment());
    return open_executor(plan, &o, out);
}

int rp_executor_n_threads(const RpExecutor *e) { return e != NULL ? e->info.n_threads : 0; }

static RpStatus run(RpExecutor *e, void *arg) {
    (void)arg;
    return e->backend->run(e);
}

RpStatus rp_executor_run(RpExecutor *e) {
    RP_NOT_NULL(e, "exec");
    e->n_done = 0;
    RP_TRY(e->meanwhile != NULL ? rp_executor_step_with_calls(e, run, NULL) : rp_executor_step(e, NULL, run, NULL));
    e->n_done = e->plan->n_steps;
    return RP_OK;
}

static RpStatus run_part(RpExecutor *e, void *arg) {
    const StepPart *part = arg;
    return e->backend->run_steps(e, part->first, part->end);
}

RpStatus rp_executor_run_steps(RpExecutor *e, int first, int end) {
    RP_NOT_NULL(e, "exec");

    if (e->plugin != NULL) return rp_plugin_refuse(e, "a run in parts");
    if (first < 0 || end < first || end > e->plan->n_steps)
        return rp_fail(RP_E_ARG, "steps %d to %d: must be in order, and at most the %d of the plan", first, end,
                       e->plan->n_steps);
    if (first != 0 && first != e->n_done)
        return rp_fail(RP_E_ARG, "steps from %d on: must begin at step %d, or at 0 for a new run", first, e->n_done);
    StepPart part = {.run = "part of a run", .name = "part", .first = first, .end = end};
    e->n_done     = 0; /* after a failure no node has its value */
    RP_TRY(rp_executor_step(e, &part, run_part, &part));
    e->n_done = end;
    return RP_OK;
}

RpStatus rp_executor_run_while(RpExecutor *e, void (*meanwhile)(void *user), void *user) {
    if (e->backend->held == NULL) return rp_executor_run(e);
    e->meanwhile      = meanwhile;
    e->meanwhile_user = user;
    const RpStatus st = rp_executor_run(e);
    e->meanwhile      = NULL;
    return st;
}

RpStatus rp_executor_poison(RpExecutor *e) {
    RP_NOT_NULL(e, "exec");
    e->n_done = 0;
    return e->backend->poison(e);
}

void *rp_executor_data(RpExecutor *e, const TensorNode *node) {
    return e != NULL && node != NULL ? e->backend->data(e, node) : NULL;
}

typedef struct Verify {
    RpExecutor       *e;
    RpVerifyCallback *callback;
    void             *user;
} Verify;

/* Calls of the library in the callback are not traced: a step within a node would be no part of the plan. */
static bool call_back(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    const Verify *v      = user;
    TracedNodes  *nodes  = v->e->nodes;
    const bool    before = rp_trace_mute(true);
    v->e->nodes          = NULL;
    const bool go_on     = v->callback(node, view, got, want, v->user);
    v->e->nodes          = nodes;
    (void)rp_trace_mute(before);
    return go_on;
}

static RpStatus verify(RpExecutor *e, void *arg) {
    const Verify *v = arg;
    return e->nodes != NULL ? e->backend->verify(e, call_back, arg) : e->backend->verify(e, v->callback, v->user);
}

RpStatus rp_executor_verify(RpExecutor *e, RpVerifyCallback *callback, void *user) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(callback, "callback");

    Verify         v    = {e, callback, user};
    const StepPart part = {.run = "verify", .name = "verify", .end = e->plan->n_steps, .calls_back = true};
    e->n_done           = 0; /* the callback may stop it */
    return rp_executor_step(e, &part, verify, &v);
}

RpStatus rp_executor_profile(RpExecutor *e, int n_runs, double *step_ns, double *total_ns) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(step_ns, "step_ns");
    RP_NOT_NULL(total_ns, "total_ns");

    if (n_runs < 1) return rp_fail(RP_E_ARG, "a profile of %d runs: must be at least 1", n_runs);
    e->n_done = e->plan->n_steps;
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
    for (int i = 0; i < s->n && !hangs(s->maker); i++) s->maker->backend->free_state(s->maker, s->memory[i]);
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
        const RpStatus st = e->backend->new_state(e->owner, state->bytes, rp_node_name(state->node), &s->memory[s->n]);
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
        const int n = rp_executor_find_state(e->owner->plan, e->plan->states[i].node);
        if (n < 0) continue;
        e->states[i] = s != NULL ? s->memory[n] : e->default_states[i];
    }
    e->bound = s;
}

RpStatus rp_executor_states_bind(RpExecutor *e, RpExecutorStates *s) {
    RP_NOT_NULL(e, "exec");

    const RpExecutorStates *before = e->bound;
    if (s != NULL && s->maker != e->owner) return rp_fail(RP_E_ARG, "these states belong to another executor");
    /* All or nothing: if the backend cannot use the new addresses, the old ones are restored. */
    point_to_states(e, s);
    const RpStatus st = e->backend->rebind(e, e->weights);
    if (st == RP_OK) return RP_OK;
    point_to_states(e, before);
    return rp_executor_roll_back(e, e->weights, st);
}

static bool same_view(const RpTensorView *a, const RpTensorView *b) {
    return a->dtype == b->dtype && memcmp(a->ne, b->ne, sizeof a->ne) == 0 && memcmp(a->nb, b->nb, sizeof a->nb) == 0;
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
        return rp_fail(RP_E_SHAPE, "weights of a plan of %d steps: must have the %d steps of the executor's plan",
                       b->n_steps, a->n_steps);
    for (int i = 0; i < a->n_steps; i++) {
        const PlanStep *x = &a->steps[i], *y = &b->steps[i];
        if (!same_step(x, y))
            return rp_fail(
                RP_E_SHAPE, "step %d is %s '%s', in the plan of the weights %s '%s' with other sources or parameters",
                i, rp_node_op_name(x->node), rp_node_name(x->node), rp_node_op_name(y->node), rp_node_name(y->node));
    }
    return RP_OK;
}

RpStatus rp_executor_weights_bind(RpExecutor *e, const ExecPlan *plan) {
    RP_NOT_NULL(e, "exec");

    const ExecPlan *before = e->weights;
    if (plan != NULL) RP_TRY(check_same_steps(e->plan, plan));
    const RpStatus st = e->backend->rebind(e, plan != NULL ? plan : e->plan);
    return st == RP_OK ? RP_OK : rp_executor_roll_back(e, before, st);
}
