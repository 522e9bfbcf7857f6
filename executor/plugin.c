/* An executor whose steps are run by a backend in a shared object. The memory is that of the CPU interpreter, which
 * also runs the steps that the backend leaves to it:
 *
 *     run -> backend->run -> computes step 0
 *                         -> host->run_steps(1, 4) -> interpreter, all workers
 *                         -> computes step 4 ... */
#include "executor/plugin.h"

#include "executor/shared_object.h"
#include "reprise/options.h"
#include "reprise/quants.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RP_BACKEND_DIR
#define RP_BACKEND_DIR "/usr/local/lib/reprise/backends"
#endif

/* RpExecutor.plugin. */
struct ExecutorPlugin {
    Plugin loaded;
    bool   owns; /* closes the shared object; else the owner of the executor does */
    bool   running;
    void  *self;
    char   text[320]; /* info.backend */
};

/* ---- what a backend may call ---- */

static const RpExecutor *of(const RpBackendPlan *plan) { return (const RpExecutor *)plan; }
static RpBackendPlan    *plan_of(RpExecutor *e) { return (RpBackendPlan *)e; }

static const PlanStep *step(const RpBackendPlan *plan, int i) {
    return i >= 0 && i < of(plan)->plan->n_steps ? &of(plan)->plan->steps[i] : NULL;
}

static int      n_steps(const RpBackendPlan *plan) { return of(plan)->plan->n_steps; }
static int      n_threads(const RpBackendPlan *plan) { return of(plan)->info.n_threads; }
static TensorOp step_op(const RpBackendPlan *plan, int i) {
    return step(plan, i) != NULL ? step(plan, i)->op : (TensorOp)-1;
}
static const char *step_op_name(const RpBackendPlan *plan, int i) {
    return step(plan, i) != NULL ? rp_node_op_name(step(plan, i)->node) : "";
}
static const char *step_name(const RpBackendPlan *plan, int i) {
    return step(plan, i) != NULL ? rp_node_name(step(plan, i)->node) : "";
}
static const RpOpArgs *step_args(const RpBackendPlan *plan, int i) {
    return step(plan, i) != NULL ? &of(plan)->args[i] : NULL;
}

static unsigned step_constants(const RpBackendPlan *plan, int i) {
    const PlanStep *s    = step(plan, i);
    unsigned        bits = 0;
    for (int k = 0; s != NULL && k < RP_MAX_SRC; k++)
        if (s->src[k].space == SPACE_WEIGHT && s->args.src[k].ne[0] > 0) bits |= 1u << k;
    return bits;
}

static RpStatus run_steps(RpBackendPlan *plan, int first, int end) {
    RpExecutor *e = (RpExecutor *)plan;
    if (!e->plugin->running) return rp_fail(RP_E_STATE, "run_steps is for `run` only");
    if (first < 0 || end < first || end > e->plan->n_steps)
        return rp_fail(RP_E_ARG, "steps %d to %d: must be in order, and at most the %d of the plan", first, end,
                       e->plan->n_steps);
    return first == end ? RP_OK : e->backend->run_steps(e, first, end);
}

static const RpBackendHost host = {.bytes          = sizeof host,
                                   .abi            = RP_BACKEND_ABI,
                                   .n_steps        = n_steps,
                                   .n_threads      = n_threads,
                                   .step_op        = step_op,
                                   .step_op_name   = step_op_name,
                                   .step_name      = step_name,
                                   .step_args      = step_args,
                                   .step_constants = step_constants,
                                   .run_steps      = run_steps,
                                   .dequantize_row = rp_dequantize_row,
                                   .fail           = rp_shared_object_fail};

/* ---- calls of the backend ---- */

/* A failure gets the name of the backend. A backend that reports none with a text leaves an old one. */
static RpStatus named(const RpExecutor *e, const char *call, RpStatus st) {
    if (st == RP_OK) return RP_OK;
    return rp_fail(st, "backend %s, %s: %s", e->plugin->loaded.backend->name, call, rp_last_error());
}

RpStatus rp_plugin_run(RpExecutor *e) {
    ExecutorPlugin *p = e->plugin;
    p->running        = true;
    RpStatus st       = named(e, "run", p->loaded.backend->run(p->self, plan_of(e)));
    p->running        = false;
    for (int i = 0; i < e->plan->n_buffers && st == RP_OK && p->loaded.backend->read != NULL; i++) {
        const PlanBuffer *b   = &e->plan->buffers[i];
        const PlanRef     ref = {.space = SPACE_ARENA, .buffer = i, .offset = b->offset};
        if (b->first_step >= 0 && b->last_step >= e->plan->n_steps)
            st = rp_plugin_read(e, rp_executor_address(e, ref), b->bytes);
    }
    return st;
}

RpStatus rp_plugin_bind(RpExecutor *e) {
    const RpBackend *b = e->plugin->loaded.backend;
    return b->bind != NULL ? named(e, "bind", b->bind(e->plugin->self, plan_of(e))) : RP_OK;
}

RpStatus rp_plugin_read(RpExecutor *e, const void *memory, size_t bytes) {
    const RpBackend *b = e->plugin->loaded.backend;
    return b->read != NULL ? named(e, "read", b->read(e->plugin->self, plan_of(e), memory, bytes)) : RP_OK;
}

RpStatus rp_plugin_refuse(const RpExecutor *e, const char *what) {
    return rp_fail(RP_E_UNSUPPORTED, "%s looks at the built-in kernels, not at backend %s", what,
                   e->plugin->loaded.backend->name);
}

/* ---- load ---- */

static RpStatus check_table(const char *path, const RpBackend *b) {
    if (b == NULL) return rp_fail(RP_E_NOT_AVAILABLE, "backend '%s': it cannot run here", path);
    if (b->abi != RP_BACKEND_ABI)
        return rp_fail(RP_E_UNSUPPORTED,
                       "backend '%s': it is made for version %u of the interface, this library has %d", path,
                       (unsigned)b->abi, (int)RP_BACKEND_ABI);
    if (b->bytes < sizeof *b)
        return rp_fail(RP_E_UNSUPPORTED, "backend '%s': its table has %u bytes, must be at least %zu", path,
                       (unsigned)b->bytes, sizeof *b);
    if (b->name == NULL || b->name[0] == '\0' || b->open == NULL || b->run == NULL || b->describe == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "backend '%s': its table lacks a name, open, run or describe", path);
    return RP_OK;
}

/* A name without '/' is that of NAME.so in the folder of backends. */
static RpStatus path_of(const char *name, char path[PATH_MAX]) {
    const char *folder = rp_option(RP_OPT_BACKEND_DIR);
    int         n;
    if (strchr(name, '/') != NULL)
        n = snprintf(path, PATH_MAX, "%s", name);
    else
        n = snprintf(path, PATH_MAX, "%s/%s.so", folder[0] != '\0' ? folder : RP_BACKEND_DIR, name);
    if (name[0] == '\0' || n >= PATH_MAX) return rp_fail(RP_E_ARG, "backend '%.80s': no name or path", name);
    return RP_OK;
}

static RpStatus table_of(const char *path, Plugin *out) {
    RpBackendEntry *entry  = NULL;
    void           *symbol = rp_shared_object_symbol(out->handle, RP_BACKEND_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    if (entry == NULL) return rp_fail(RP_E_UNSUPPORTED, "backend '%s': it has no function %s", path, RP_BACKEND_SYMBOL);
    out->backend = entry();
    return check_table(path, out->backend);
}

/* On failure *out has no handle. */
static RpStatus load_backend(const char *name, Plugin *out) {
    char path[PATH_MAX];
    *out = (Plugin){0};
    RP_TRY(path_of(name, path));
    RP_TRY(rp_shared_object_load("backend", path, &out->handle));
    const RpStatus st = table_of(path, out);
    if (st == RP_OK) return RP_OK;
    dlclose(out->handle);
    *out = (Plugin){0};
    return st;
}

/* ---- open, close ---- */

static RpStatus open_loaded(RpExecutor *e) {
    ExecutorPlugin *p = e->plugin;
    RP_TRY(named(e, "open", p->loaded.backend->open(&host, plan_of(e), &p->self)));
    const char *described = p->loaded.backend->describe(p->self);
    snprintf(p->text, sizeof p->text, "%s: %s", p->loaded.backend->name, described != NULL ? described : "");
    e->info.backend = p->text;
    return RP_OK;
}

RpStatus rp_plugin_open(RpExecutor *e, const char *name) {
    ExecutorPlugin *p = calloc(1, sizeof *p);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a backend");
    RpStatus st = RP_OK;
    p->owns     = e->owner == e;
    if (p->owns)
        st = load_backend(name, &p->loaded);
    else
        p->loaded = e->owner->plugin->loaded;
    if (st != RP_OK) {
        free(p);
        return st;
    }
    e->plugin = p;
    return open_loaded(e);
}

void rp_plugin_close(RpExecutor *e) {
    ExecutorPlugin *p = e->plugin;
    if (p == NULL) return;
    if (p->loaded.backend->free != NULL && p->self != NULL) p->loaded.backend->free(p->self);
    if (p->owns) dlclose(p->loaded.handle);
    free(p);
    e->plugin = NULL;
}
