/* backend.h - the internals of RpExecutor and the interface of its backends, CPU and CUDA. The struct of a
 * backend begins with an RpExecutor, so that a pointer to one is a pointer to the other. Every backend runs
 * the same plan (I7). */
#ifndef EXECUTOR_BACKEND_H
#define EXECUTOR_BACKEND_H

#include "executor/plan_walk.h"

#include "base/external/external.h"
#include "base/sampling/held.h"
#include "base/trace/trace.h"

/* Most seconds of RpExecutorOptions.watchdog_s. */
#define RP_WATCHDOG_MAX_S 1e6

typedef struct Backend        Backend;
typedef struct ExecutorPlugin ExecutorPlugin; /* plugin.c */

/* A step that is not just a whole run of the plan. */
typedef struct StepPart {
    const char *run, *name; /* of the events */
    int         first, end; /* the nodes first <= i < end */
    bool        calls_back; /* functions of the caller run in it, which may open and close traces */
    bool        whole;      /* a whole run of the plan */
} StepPart;

/* The nodes of a step that is traced, as they come. */
typedef struct TracedNodes {
    RpExecutor  *e;
    int          end;      /* the first node that does not run */
    bool         unlocked; /* StepPart.calls_back */
    uint64_t     opened;   /* of rp_trace_enter_unlocked */
    RpExecMode   mode;     /* of the launches */
    RpTraceEvent event;    /* of the node that runs; index -1: none has started */
    size_t       bytes_read, bytes_written;
    int          n_launches; /* sums of those that have ended */
} TracedNodes;

/* The reply in progress. */
typedef struct Reply {
    bool    active, in_loop; /* in_loop: the device samples by itself in a loop; else one run per token */
    bool    held;            /* tokens come from rp_executor_held_next */
    int32_t left;            /* tokens that may still be sampled */
    int32_t pos, n_ctx;      /* position of the next token to be run; the context length */
    int32_t end[RP_REPLY_MAX_END], n_end;
} Reply;

struct RpExecutor {
    const Backend     *backend;
    const ExecPlan    *plan;
    RpExecutor        *owner;  /* has threads, device and weights: this executor, or that of the one it shares with */
    RpExecutor        *lender; /* the one it shares with; NULL: none */
    char              *arena;
    RpExternalTensor  *arena_tensor;    /* holds the arena; NULL if it is memory of a GPU */
    RpExternalTensor **tensors;         /* by buffer of the plan: what is bound to it, or NULL */
    int                n_tensors;       /* of them that are bound */
    void             **states;          /* by state number of the plan: the memory in use */
    void             **default_states;  /* by state number: the memory in use while nothing is bound */
    bool              *allocated_state; /* by state number: allocated here, not taken from another executor */
    const RpExecutorStates *bound;      /* NULL: the default states */
    const ExecPlan         *weights;    /* the plan whose weights are bound */
    RpOpArgs               *args;       /* by step, with addresses */
    const TensorNode       *step;       /* RpExecutorOptions.step */
    ExecutorPlugin         *plugin;     /* a backend in a shared object; NULL: the built-in kernels */
    int                     n_done;     /* steps of the latest run that have run: n_steps, except between its parts */
    Reply                   reply;
    TracedNodes            *nodes;      /* NULL: the nodes of this step are not traced */
    int                     n_launches; /* of the host, since the latest step began; eager launches do not count */
    void (*meanwhile)(void *user);      /* of rp_executor_run_while, or NULL */
    void          *meanwhile_user;
    RpExecutorInfo info;
    char           reason[256]; /* storage of info.reason */
    RpExecutor    *next_kept;   /* executor.c */
};

/* Whether steps of a reply run in one launch (mode loop): nodes of the loop keep the addresses of the executor's own
 * memory and weights. */
static inline bool rp_executor_loops(const RpExecutor *e) {
    return e->info.mode == RP_MODE_LOOP && e->weights == e->plan && e->bound == NULL && e->n_tensors == 0;
}

struct Backend {
    size_t bytes; /* size of its struct */
    RpStatus (*open)(RpExecutor *e, const RpExecutorOptions *o);
    void (*close)(RpExecutor *e); /* also after an open that failed halfway */
    /* Or NULL. True while `close` and `free_state` would wait for a run that does not end. */
    bool (*hangs)(const RpExecutor *e);
    RpStatus (*run)(RpExecutor *e);
    RpStatus (*run_steps)(RpExecutor *e, int first, int end);
    void *(*data)(RpExecutor *e, const TensorNode *node);
    /* Copies between host memory and memory of the backend. */
    RpStatus (*copy)(RpExecutor *e, void *to, const void *from, size_t bytes, bool to_host);
    /* Zeroed memory for a state. */
    RpStatus (*new_state)(RpExecutor *e, size_t bytes, const char *name, void **out);
    void (*free_state)(RpExecutor *e, void *state);
    /* e->states has changed, or the weights of another plan are to be used: updates args and the addresses
     * in captured nodes. */
    RpStatus (*rebind)(RpExecutor *e, const ExecPlan *weights);
    RpStatus (*verify)(RpExecutor *e, RpVerifyCallback *callback, void *user);
    /* `step`: the contents of e->step, written back before each run and at the end; NULL for a plan
     * without it. */
    RpStatus (*profile)(RpExecutor *e, int n_runs, double *step_ns, double *total_ns, const void *step);
    RpStatus (*poison)(RpExecutor *e);
    RpStatus (*launch)(const RpExecutor *e, int step, RpStepLaunch *out); /* fills in the geometry */
    /* The token that the latest run sampled. */
    RpStatus (*token)(RpExecutor *e, int32_t *token);
    /* A token as rp_executor_held_next says. NULL on the CPU. */
    RpStatus (*held)(RpExecutor *e, RpHeldPrepare *prepare, void *user, int32_t *token);
    /* The loop on the device. Only for info.mode == RP_MODE_LOOP. */
    RpStatus (*loop_begin)(RpExecutor *e, const Reply *r);
    RpStatus (*loop_next)(RpExecutor *e, int32_t *token);
    RpStatus (*loop_end)(RpExecutor *e);
};

extern const Backend rp_cpu_backend, rp_cuda_backend;
extern const Kernels rp_cpu_table, rp_cuda_table;

/* Runs a step. Tells of it while somebody listens (traced.c). `part` is NULL for a whole run of the plan. */
typedef RpStatus      StepBody(RpExecutor *e, void *arg);
RP_NODISCARD RpStatus rp_executor_traced(RpExecutor *e, const StepPart *part, StepBody *body, void *arg);

RP_NODISCARD static inline RpStatus rp_executor_step(RpExecutor *e, const StepPart *part, StepBody *body, void *arg) {
    return rp_trace_on() ? rp_executor_traced(e, part, body, arg) : body(e, arg);
}

/* A whole run in which functions of the caller run. */
RP_NODISCARD RpStatus rp_executor_step_with_calls(RpExecutor *e, StepBody *body, void *arg);

/* Call it before such a function: calls of the library within the function are not traced, because they belong to no
 * node. Returns the value for rp_trace_mute after the function. */
bool rp_traced_call(const RpExecutor *e);

/* For backends whose host sees the nodes of a step, with e->nodes: node i starts; the running node has ended with this
 * status; the running node has ended and, if RP_OK, the next one starts unless the step ends. NULL: nothing is
 * traced. */
void rp_traced_start(TracedNodes *t, int i);
void rp_traced_end(TracedNodes *t, RpStatus st);
void rp_traced_next(TracedNodes *t, RpStatus st);

/* The number of the state with the name of `node`; -1 if the plan has none. */
int rp_executor_find_state(const ExecPlan *plan, const TensorNode *node);

/* Uses the states of the lender that have the same name, else those of the owner, and allocates the others. */
RP_NODISCARD RpStatus rp_executor_open_states(RpExecutor *e);
void                  rp_executor_close_states(RpExecutor *e);

/* The address of a weight in this backend, from its address on the host; NULL if the weight is unknown. */
typedef void *WeightAddress(RpExecutor *e, const void *host);

/* Computes args from the arena, the states in use and the bound weights. */
RP_NODISCARD RpStatus rp_executor_fill_args(RpExecutor *e, WeightAddress *address);

/* Fills in node, bytes and n_barriers of step i. RP_E_ARG past the last step. */
RP_NODISCARD RpStatus rp_executor_describe(const ExecPlan *plan, int i, RpStepLaunch *out);

/* Writes the whole step state, unless `step` is NULL. Repeated runs of a plan that samples would otherwise
 * pass the end of the context. */
RP_NODISCARD RpStatus rp_executor_put_step(RpExecutor *e, const void *step);

/* True if the executor needs an arena of its own: it shares with none, or the owner's arena is too small. */
static inline bool rp_executor_takes_arena(const RpExecutor *e) {
    return e->owner == e || e->plan->memory.arena > e->owner->plan->memory.arena;
}

/* The tensor that is bound to an arena reference; NULL: none. */
static inline RpExternalTensor *rp_executor_bound(const RpExecutor *e, PlanRef ref) {
    return ref.space == SPACE_ARENA && e->n_tensors > 0 ? e->tensors[ref.buffer] : NULL;
}

/* Rolls a failed bind back to `weights`, and reports the original error even if that fails too. */
RP_NODISCARD RpStatus rp_executor_roll_back(RpExecutor *e, const ExecPlan *weights, RpStatus st);

/* Lets go of the bound tensors and of the arena. */
void rp_executor_close_tensors(RpExecutor *e);

/* The address of an arena or state reference. */
void *rp_executor_address(const RpExecutor *e, PlanRef ref);

#endif
