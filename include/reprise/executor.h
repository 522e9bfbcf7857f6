/* executor.h - plan a finished graph, open an executor on the plan, run it as often as wanted.
 *
 *   ExecPlan *plan;  Executor *exec;
 *   RP_TRY(rp_plan_new(g, &plan));
 *   RP_TRY(rp_executor_open(plan, NULL, &exec));
 *   memcpy(rp_executor_data(exec, x), input, bytes);
 *   RP_TRY(rp_executor_run(exec));
 *   const float *out = rp_executor_data(exec, y);
 *
 * The plan fixes every address before anything is allocated; opening allocates, running does not (I3). The graph must
 * outlive its plan, and the plan its executors.
 */
#ifndef REPRISE_EXECUTOR_H
#define REPRISE_EXECUTOR_H

#include "reprise/graph.h"
#include "reprise/kernel.h"
#include "reprise/step.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ExecPlan ExecPlan;
typedef struct Executor Executor;

/* Liveness and arena offsets of the graph, which it borrows. Deterministic: the same graph gives the same plan. */
RP_NODISCARD RpStatus rp_plan_new(const ComputeGraph *g, ExecPlan **out);
void                  rp_plan_free(ExecPlan *plan);

/* What running the plan takes, known before any of it is allocated. Bytes. */
typedef struct PlanMemory {
    size_t arena;    /* intermediate tensors, inputs and outputs */
    size_t unshared; /* what the arena would be without reuse */
    size_t weights;  /* borrowed */
    size_t state;    /* the caches that live between runs */
    int    n_steps;
} PlanMemory;

PlanMemory rp_plan_memory(const ExecPlan *plan);

/* The node of step i, NULL past the last. */
const TensorNode *rp_plan_step_node(const ExecPlan *plan, int i);

/* Bytes read and written by one run if every source and result moves once; positions count as full context. */
size_t rp_plan_traffic_bytes(const ExecPlan *plan);

/* One line a step: op, name, shape, where the result lies, its bytes and what it replaced; then the totals. */
RP_NODISCARD RpStatus rp_plan_dump(const ExecPlan *plan, DumpFormat format, FILE *out);

/* How a device is given its work. */
typedef enum ExecMode {
    RP_MODE_AUTO,   /* REPRISE_MODE, or the last of these that works */
    RP_MODE_EAGER,  /* a launch for each step; the CPU has only this */
    RP_MODE_REPLAY, /* the steps captured once; one launch a run */
    RP_MODE_LOOP   /* and a loop over them captured too; one launch a reply */
} ExecMode;

const char *rp_mode_name(ExecMode mode);

/* RP_E_ARG for a name that is none of them. */
RP_NODISCARD RpStatus rp_mode_from_name(const char *name, ExecMode *out);

typedef struct ExecutorOptions {
    int         n_threads; /* 0: REPRISE_THREADS, or one a core */
    Executor   *share; /* or NULL: use this executor's device, threads and weights, its arena if that is large
                            enough, and its states by name; it must outlive the new one, whose opening counts as a run:
                            outputs are lost */
    const char *device;        /* "auto", "cpu", "cuda" or "cuda:N"; NULL: REPRISE_DEVICE */
    bool        require_cuda;  /* RP_E_NOT_AVAILABLE where auto would take the CPU */
    bool        require_graph; /* an error where a plan cannot be captured, which is otherwise run eagerly */
    ExecMode    mode;
    const TensorNode
        *step; /* or NULL: a state that begins with a StepState (step.h), whose token the plan's last step
                               draws; of the outputs only the token then comes back from a device by itself, and
                               rp_executor_reply_begin can be used */
} ExecutorOptions;

/* `options` may be NULL. "auto" takes a CUDA device where there is one, else the CPU, and rp_executor_info says why; a
 * device that is named must be there. RP_E_NOMEM says how much was asked for and is found out before weights are
 * copied. RP_E_CUDA names the call that failed. */
RP_NODISCARD RpStatus rp_executor_open(const ExecPlan *plan, const ExecutorOptions *options, Executor **out);
void                  rp_executor_free(Executor *exec);

typedef struct ExecutorInfo {
    const char *device;      /* "cpu", "cuda:0" */
    const char *device_name; /* "avx512-vnni", "NVIDIA H200" */
    ExecMode    mode;        /* in use */
    const char
          *reason;    /* why not the GPU, or not the mode that was asked for; "" where nothing was given up */
    bool   fell_back; /* "auto" took the CPU though the library was built for CUDA */
    int    n_threads; /* of the CPU interpreter */
    size_t device_bytes; /* taken on a device by this executor alone: weights, states, arena */
    const char
        *blas; /* what has the products of long chunks on a device: "cublasLt 13.1.0", and what it refuses;
                                 or why the own kernels have them all; "" where the plan has none */
    const char *
        overlap; /* whether kernels of a graph begin while those before them end: "on", or why not; "" on the CPU */
} ExecutorInfo;

ExecutorInfo rp_executor_info(const Executor *exec);

/* Runs every step once, from the calling thread; one run at a time over all executors that share. After an error the
 * executor can be run again, except where the device itself has failed: then every call says so. */
RP_NODISCARD RpStatus rp_executor_run(Executor *exec);

/* Host memory of an input (write it before a run) or an output (valid until the next run of any sharing executor); on
 * the CPU of a state too. NULL for other nodes. Owned by the executor. */
void *rp_executor_data(Executor *exec, const TensorNode *node);

/* Copies an output or a state of any backend to or from the host: the first `bytes` of it. RP_E_ARG for a node whose
 * memory is reused by others. */
RP_NODISCARD RpStatus rp_executor_get(Executor *exec, const TensorNode *node, void *out, size_t bytes);
RP_NODISCARD RpStatus rp_executor_set(Executor *exec, const TensorNode *node, const void *data, size_t bytes);

int rp_executor_n_threads(const Executor *exec);

/* ---- the same executor on other memory ----
 *
 * Nothing is captured anew: the captured nodes are given the new addresses. The loop of RP_MODE_LOOP keeps those it was
 * captured with, so that while other memory is bound replies are made of single replays. Where binding fails, what was
 * bound before stays so. */

/* States of a context of its own, zeroed. The executor that they were made for, or those that share with it, can bind
 * them; it must outlive them. They must not be freed while they are bound. */
typedef struct ExecutorStates ExecutorStates;
RP_NODISCARD RpStatus         rp_executor_states_new(Executor *exec, ExecutorStates **out);
void                          rp_executor_states_free(ExecutorStates *states);
RP_NODISCARD RpStatus rp_executor_states_bind(Executor *exec, ExecutorStates *states); /* NULL: its own */

/* The weights of another plan of the same steps, parameters, shapes and types, which must outlive the executor; they are
 * copied to the device when first bound. NULL: its own. RP_E_SHAPE names the first step that differs, RP_E_UNSUPPORTED one
 * whose float weights cuBLASLt was captured with (REPRISE_BLAS=off avoids it); those that were bound stay. */
RP_NODISCARD RpStatus rp_executor_weights_bind(Executor *exec, const ExecPlan *plan);

/* ---- a whole reply ---- */

typedef struct ReplyOptions {
    const int32_t *state;      /* the step state to start from: its token is the first to be run */
    size_t         n_state;    /* words of it, at least those of a StepState */
    int32_t        max_tokens; /* > 0: how many are drawn at most */
    int32_t        n_ctx;      /* the reply ends where the context does */
    const int32_t *end;        /* tokens that end the reply, at most RP_REPLY_MAX_END */
    size_t         n_end;
} ReplyOptions;

/* Writes the step state and starts: its token is run, the next drawn, and so on, by one launch where the mode is
 * RP_MODE_LOOP. RP_E_STATE for an executor without a step state or with a reply under way. */
RP_NODISCARD RpStatus rp_executor_reply_begin(Executor *exec, const ReplyOptions *options);

/* Waits for the next token. RP_E_STATE past the end of the reply, which the caller knows from the options. RP_E_ARG
 * where the logits were all NaN or -inf. RP_E_CUDA where the device failed meanwhile. */
RP_NODISCARD RpStatus rp_executor_reply_next(Executor *exec, int32_t *token);

/* Ends the reply, early or not, and waits until the device has stopped. Tokens that were not asked for are dropped;
 * *ran_on, where it is not NULL, says whether states may have run on to them. */
RP_NODISCARD RpStatus rp_executor_reply_end(Executor *exec, bool *ran_on);

/* ---- looking inside ---- */

/* One run in which every step is done twice, from the same sources: by the executor's kernel and by the reference, the
 * CPU's kernel (on the CPU: its plain variant). The callback sees both results as host memory, `view` telling their
 * shape; of a node that writes beside its result, such as into caches, that too, with the view of what was written to. Return
 * false to stop. */
typedef bool VerifyCallback(const TensorNode *node, const TensorView *view, const void *got, const void *want,
                            void *user);
RP_NODISCARD RpStatus rp_executor_verify(Executor *exec, VerifyCallback *callback, void *user);

/* How far `got` is from `want`, in parts of the largest of `want`; 0 for the same bytes. Of what was rounded as it was stored
 * (f16, q8_0, q8_act) a value next to the wanted one counts as the same; ids and other integers are the same or infinitely far
 * off. *at is the element that is furthest off, or NULL. */
double rp_verify_difference(const TensorNode *node, const TensorView *view, const void *got, const void *want,
                            size_t *at);

/* Fills the arena and the outputs with NaN, so that a run which leaves a step out is seen. Inputs stay. */
RP_NODISCARD RpStatus rp_executor_poison(Executor *exec);

/* Medians over n_runs: step_ns [n_steps] the time of each step, inside a replay where the mode is one (an instrumented
 * twin of the captured graph), and *total_ns that of a whole run without instruments. Inputs are those of the latest
 * run. */
RP_NODISCARD RpStatus rp_executor_profile(Executor *exec, int n_runs, double *step_ns, double *total_ns);

/* What is launched for a step. */
typedef struct StepLaunch {
    const TensorNode *node;
    size_t            bytes;      /* read and written if every source and result moves once */
    int               n_barriers; /* of the CPU interpreter: one after each phase of the kernel */
    int               n_kernels;
    const char       *kernel; /* name of the last of them, NULL on the CPU */
    unsigned          grid[3], block[3], shared_bytes;
} StepLaunch;

/* Step i of the plan; the geometry is that of the captured node. RP_E_ARG past the last. */
RP_NODISCARD RpStatus rp_executor_launch(const Executor *exec, int i, StepLaunch *out);

/* The same as a CUDA device would be asked for, by the launchers of this build: no device is needed.
 * RP_E_NOT_AVAILABLE in a build without the CUDA toolkit, node, bytes and n_barriers being filled in. */
RP_NODISCARD RpStatus rp_cuda_plan_launch(const ExecPlan *plan, int i, StepLaunch *out);

/* What was measured when the first executor with enough block-quantised weights was opened on the CPU, one entry a
 * candidate, the default first; the one in use is rp_cpu_prefetch (kernel.h). */
typedef struct CpuPrefetchTrial {
    CpuPrefetch prefetch;
    double      bytes_per_s; /* of weights, by all workers together */
    int         workers, rounds;
} CpuPrefetchTrial;

/* Fills at most `max` entries and returns their number; 0 where nothing was measured. */
int rp_cpu_prefetch_trials(CpuPrefetchTrial *out, int max);

#ifdef __cplusplus
}
#endif
#endif
