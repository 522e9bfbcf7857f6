/* backend.h - what the backends of an Executor share. A backend's own struct begins with an Executor. */
#ifndef EXECUTOR_BACKEND_H
#define EXECUTOR_BACKEND_H

#include "executor/plan_walk.h"

typedef struct Backend Backend;

/* The reply under way. */
typedef struct Reply {
    bool    active, in_loop;
    int32_t left, pos, n_ctx; /* tokens that may still be drawn; position of the next to be run */
    int32_t end[RP_REPLY_MAX_END], n_end;
} Reply;

struct Executor {
    const Backend  *backend;
    const ExecPlan *plan;
    Executor       *owner; /* of threads, device and weights: itself, or the one it shares with */
    char           *arena;
    void          **states, **own_states; /* by the plan's state number: those that are bound, and its own */
    bool           *owns_state;
    const ExecutorStates *bound;   /* or NULL: its own */
    const ExecPlan       *weights; /* the plan whose weights are bound */
    OpArgs               *args;    /* one a step, addresses filled in */
    const TensorNode     *step;    /* ExecutorOptions.step */
    Reply                 reply;
    ExecutorInfo          info;
    char                  reason[256]; /* info.reason */
};

struct Backend {
    size_t bytes; /* of its struct */
    RpStatus (*open)(Executor *e, const ExecutorOptions *o);
    void (*close)(Executor *e); /* also what was opened in part */
    RpStatus (*run)(Executor *e);
    void *(*data)(Executor *e, const TensorNode *node);
    /* Between the host and memory of the backend. */
    RpStatus (*copy)(Executor *e, void *to, const void *from, size_t bytes, bool to_host);
    /* Zeroed memory for a state. */
    RpStatus (*new_state)(Executor *e, size_t bytes, const char *name, void **out);
    void (*free_state)(Executor *e, void *state);
    /* The states were exchanged, or the weights of another plan are wanted: addresses, and what was recorded
     * with them, follow. */
    RpStatus (*rebind)(Executor *e, const ExecPlan *weights);
    RpStatus (*verify)(Executor *e, VerifyCallback *callback, void *user);
    /* `step`: what e->step holds, put back before each run and at the end; or NULL. */
    RpStatus (*profile)(Executor *e, int n_runs, double *step_ns, double *total_ns, const void *step);
    RpStatus (*poison)(Executor *e);
    RpStatus (*launch)(const Executor *e, int step, StepLaunch *out); /* fills in the geometry */
    /* The token that the latest run has drawn. */
    RpStatus (*token)(Executor *e, int32_t *token);
    /* A loop on the device, where info.mode is RP_MODE_LOOP. */
    RpStatus (*loop_begin)(Executor *e, const Reply *r);
    RpStatus (*loop_next)(Executor *e, int32_t *token);
    RpStatus (*loop_end)(Executor *e);
};

extern const Backend rp_cpu_backend, rp_cuda_backend;
extern const Kernels rp_cpu_table, rp_cuda_table;

/* States of its own, or of the executor it shares with where that has one of the same name. */
RP_NODISCARD RpStatus rp_executor_open_states(Executor *e);
void                  rp_executor_close_states(Executor *e);

/* Where a weight lies for this backend, from where it lies on the host; NULL where it is unknown. */
typedef void *WeightAddress(Executor *e, const void *host);

/* Fills in args, with the weights that are bound. */
RP_NODISCARD RpStatus rp_executor_fill_args(Executor *e, WeightAddress *address);

/* Node and bytes of step i. RP_E_ARG past the last. */
RP_NODISCARD RpStatus rp_executor_describe(const ExecPlan *plan, int i, StepLaunch *out);

/* Writes the whole step state; nothing for NULL. A plan that draws tokens would otherwise run on past the context. */
RP_NODISCARD RpStatus rp_executor_put_step(Executor *e, const void *step);

/* Whether the owner's arena is too small for it. */
static inline bool rp_executor_takes_arena(const Executor *e) {
    return e->owner == e || e->plan->memory.arena > e->owner->plan->memory.arena;
}

/* The address of an arena or state reference. */
void *rp_executor_address(const Executor *e, PlanRef ref);

#endif
