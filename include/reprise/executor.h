/* executor.h - plan a finished graph, open an executor on the plan, run it any number of times. The plan fixes every
 * address before anything is allocated; opening allocates, running does not (I3).
 *
 *   ExecPlan *plan;  RpExecutor *exec;
 *   RP_TRY(rp_plan_new(g, &plan));
 *   RP_TRY(rp_executor_open(plan, NULL, &exec));
 *   memcpy(rp_executor_data(exec, x), input, bytes);     // x: an input of g
 *   RP_TRY(rp_executor_run(exec));
 *   const float *out = (const float *)rp_executor_data(exec, y);    // y: an output of g
 *   rp_executor_free(exec);
 *   rp_plan_free(plan);
 *
 * A plan borrows its graph and an executor borrows its plan: the graph must outlive the plan, the plan its executors.
 * One thread at a time may use an executor, or any of several that share (RpExecutorOptions.share). A process that was
 * forked after rp_executor_open cannot run it (RP_E_STATE with more than one thread); it can free it. A device cannot
 * be used after a fork at all: that is CUDA's rule.
 */
#ifndef REPRISE_EXECUTOR_H
#define REPRISE_EXECUTOR_H

#include "reprise/graph.h"
#include "reprise/kernel.h"
#include "reprise/step.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ExecPlan   ExecPlan;
typedef struct RpExecutor RpExecutor;

/* Computes liveness and arena offsets of a finished graph, which it borrows. Deterministic: the same graph gives the
 * same plan. The caller frees *out; on failure it is NULL. RP_E_STATE for an unfinished graph, RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_plan_new(const ComputeGraph *g, ExecPlan **out);
RP_API void                  rp_plan_free(ExecPlan *plan); /* NULL is allowed */

/* Memory that running the plan needs, in bytes, known before any of it is allocated. */
typedef struct RpPlanMemory {
    size_t arena;    /* intermediate tensors, inputs and outputs */
    size_t unshared; /* size of the arena if no two tensors shared memory */
    size_t weights;  /* borrowed from the graph */
    size_t state;    /* tensors that live between runs, such as the KV cache */
    int    n_steps;
} RpPlanMemory;

RP_API void                rp_plan_memory_sized(const ExecPlan *plan, RpPlanMemory *out, size_t out_bytes);
static inline RpPlanMemory rp_plan_memory(const ExecPlan *plan) {
    RpPlanMemory memory;
    rp_plan_memory_sized(plan, &memory, sizeof memory);
    return memory;
}

/* The node of step i, borrowed from the graph; NULL outside 0 <= i < n_steps. */
RP_API const TensorNode *rp_plan_step_node(const ExecPlan *plan, int i);

/* Where the value of a node lies. Steps count from 0. */
typedef struct RpNodePlace {
    const char       *space;      /* "arena", "state" or "weight"; static storage */
    const TensorNode *base;       /* the node whose memory it is: itself, except for views and stores; borrowed */
    size_t            offset;     /* bytes: in the arena, or from the start of the state or weight `base` */
    size_t            bytes;      /* from its first to its last element */
    int               step;       /* that computes it, or the node that it views; -1: a leaf */
    int               first_step; /* of its buffer in the arena, both inclusive; -1: written before the run. Several */
    int               last_step;  /* results may use the buffer in turn. n_steps: kept after the run. Else both 0 */
    bool              in_place;   /* computed in the buffer of its first source */
    bool              unused[7];  /* 0 */
} RpNodePlace;

/* RP_E_ARG for a node of another graph, and for one that a pass took out of the graph. */
RP_API RP_NODISCARD RpStatus        rp_plan_place_sized(const ExecPlan *plan, const TensorNode *node, RpNodePlace *out,
                                                        size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_plan_place(const ExecPlan *plan, const TensorNode *node, RpNodePlace *out) {
    return rp_plan_place_sized(plan, node, out, sizeof *out);
}

/* Bytes read and written by one run with a full context, if every source and every result moves once. Only the fetched
 * rows of a table and the selected experts count. */
RP_API size_t rp_plan_traffic_bytes(const ExecPlan *plan);

/* XXH64 of what a plan computes. It covers the op, dtype, shape, strides, parameters and sources of each node of the
 * graph in order, and the names of leaves; so passes change it by the nodes that they make. It does not cover
 * addresses, values of weights, the device, or the number of threads. The same plan has the same hash in each process
 * and on each machine. RP_E_NOMEM; *out is 0 then. */
RP_API RP_NODISCARD RpStatus rp_plan_hash(const ExecPlan *plan, uint64_t *out);

/* Prints one line per step (op, name, shape, bytes, address, "in place") and the totals. RP_E_ARG for RP_DUMP_DOT,
 * RP_E_IO if `out` has an error. */
RP_API RP_NODISCARD RpStatus rp_plan_dump(const ExecPlan *plan, RpDumpFormat format, FILE *out);

/* Launch mode: how the steps reach a GPU. */
typedef enum RpExecMode {
    RP_MODE_AUTO,   /* REPRISE_MODE; if that is auto too, the last of these modes that works */
    RP_MODE_EAGER,  /* one launch per step; the CPU has only this mode */
    RP_MODE_REPLAY, /* the steps are captured once into a CUDA graph; one launch per run */
    RP_MODE_LOOP    /* also a loop over the steps is captured; one launch per RP_LOOP_TOKENS tokens */
} RpExecMode;

/* The most tokens of one launch in RP_MODE_LOOP. */
enum { RP_LOOP_TOKENS = 128 };

/* "auto", "eager", "replay", "loop"; "?" for no mode. Static storage. */
RP_API const char *rp_mode_name(RpExecMode mode);

/* RP_E_ARG for any other name. */
RP_API RP_NODISCARD RpStatus rp_mode_from_name(const char *name, RpExecMode *out);

/* On a GPU a product computes up to four columns by a GEMV, and more columns on tensor cores, with other bits. With
 * RP_COLUMNS_REPLY or RP_COLUMNS_PROMPT a column has the same bits in plans of any number of columns (docs/cuda.md). */
typedef enum RpColumns {
    RP_COLUMNS_ANY = 0, /* the number of columns decides */
    RP_COLUMNS_REPLY,   /* any number of columns is computed with the bits of one column */
    RP_COLUMNS_PROMPT /* any number of columns (of a plan of at least two) is computed with the bits of many columns */
} RpColumns;

typedef struct RpExecutorOptions {
    int n_threads; /* 0: REPRISE_THREADS, or one per core */
    /* Or NULL: use the device, threads and weights of this executor, its states of the same names, and its arena if
     * that is large enough. It must outlive the new executor, and opening the new one invalidates its outputs. */
    RpExecutor *share;
    const char *device;        /* "auto", "cpu", "cuda" or "cuda:N"; NULL: REPRISE_DEVICE. Borrowed for the call */
    bool        require_cuda;  /* fail with RP_E_NOT_AVAILABLE instead of falling back to the CPU */
    bool        require_graph; /* fail if the plan cannot be captured, instead of running it eagerly */
    RpExecMode  mode;
    /* Or NULL: a state that begins with an RpStepState (step.h) into which the last step of the plan samples; borrowed
     * from the graph. rp_executor_reply_begin needs it. A run on a GPU then copies only the token back; rp_executor_get
     * fetches other outputs. */
    const TensorNode *step;
    /* Or NULL. Called while kernels are compiled for a GPU (REPRISE_SPECIALIZE, source.h), by the thread that opens,
     * with the number of kernels done and in all; kernels of the cache count too. Return false to stop with
     * RP_E_CANCELLED. */
    bool (*compile_progress)(size_t done, size_t total, void *user);
    void *user; /* handed to `compile_progress` */
    /* Copy block-quantised weights to a layout of interleaved rows for the CPU kernels; results keep their bits. "on",
     * "off", "auto" (weights of types for which a measurement finds the copy faster, if the copies fit in memory) or
     * "codebook" (the same for IQ1, IQ2, IQ3 and TQ1 only, which decode 1.6 to 3 times as fast from the copy).
     * NULL: "off". Without effect on a GPU, and in an executor that shares, which has the copies of its owner. The
     * weights must not change while an executor has a copy. */
    const char *repack;
    /* Or NULL: the built-in kernels. A backend in a shared object (backend.h): a path with a '/', or the name of one in
     * REPRISE_BACKEND_DIR. It runs on the CPU, without repacked weights; verify, profile and runs in parts are refused.
     * RP_E_NOT_AVAILABLE if there is none, RP_E_ARG for one that others can write to, RP_E_UNSUPPORTED for another
     * version or machine. */
    const char *backend;
    RpColumns   columns;   /* cuBLASLt is used with RP_COLUMNS_ANY only. Without effect on the CPU */
    bool        unused[4]; /* 0 */
    /* Seconds: a run on a GPU fails if no step ends for so long. The text names the step that did not end and the one
     * before it. Each step then has one more kernel (docs/cuda.md). 0: REPRISE_WATCHDOG, or none; at most 1e6. Without
     * effect on the CPU, and in an executor that shares, which has the limit of its owner. */
    double watchdog_s;
} RpExecutorOptions;

/* Allocates states, arena and scratch memory, copies weights to a GPU and captures the plan there. `options` may be
 * NULL for the defaults. "auto" takes the first CUDA device if this build has code for it and it can be opened, else
 * the CPU; rp_executor_info gives the reason. A device that is named must exist and have code. Calls for an executor on
 * a GPU make that GPU the current CUDA device of the calling thread and leave it so, as do calls for its memory
 * (reprise/device.h). The caller frees *out; on failure it is NULL.
 * RP_E_NOMEM has the sizes; device memory is checked before weights are copied. RP_E_ARG for bad options, also of the
 * environment; RP_E_UNSUPPORTED for an op without a kernel for the device; RP_E_SHAPE for a shared state of another
 * shape; RP_E_NOT_AVAILABLE without the device; RP_E_CUDA names the call that failed. */
RP_API RP_NODISCARD RpStatus        rp_executor_open_sized(const ExecPlan *plan, const RpExecutorOptions *options,
                                                           size_t options_bytes, RpExecutor **out);
RP_NODISCARD static inline RpStatus rp_executor_open(const ExecPlan *plan, const RpExecutorOptions *options,
                                                     RpExecutor **out) {
    return rp_executor_open_sized(plan, options, sizeof *options, out);
}

/* NULL is allowed. An executor that shares is freed before the one that it shares with. Does not wait for a run that
 * has exceeded RpExecutorOptions.watchdog_s: while a kernel of it still runs, all memory of the executor stays
 * allocated until the process ends, since the kernel may write to it. Graph and plan can be freed. */
RP_API void rp_executor_free(RpExecutor *exec);

/* The texts are owned by the executor and valid as long as it is. */
typedef struct RpExecutorInfo {
    const char *device;       /* "cpu", "cuda:0" */
    const char *device_name;  /* "avx512-vnni", "NVIDIA H200" */
    RpExecMode  mode;         /* in use */
    const char *reason;       /* why not the GPU, or not the requested mode; "" without a fallback (I10) */
    bool        fell_back;    /* "auto" took the CPU although the library was built for CUDA */
    int         n_threads;    /* workers of the CPU interpreter */
    size_t      device_bytes; /* device memory that this executor itself allocated: weights, states, arena, scratch */
    /* GPU products of many columns: "cublasLt 13.1.0" and the shapes that it refused, or the reason why the library's
     * own kernels compute them; "" if the plan has no such product. */
    const char *blas;
    const char *overlap; /* programmatic dependent launch in captured graphs: "on", or why not; "" on the CPU */
    /* Kernels that NVRTC compiled: "NVRTC 13.0, sm_90: 1 compiled, 2 from the cache", and why the cache was not used.
     * First the kernels of source text (source.h), then the specialised kernels (REPRISE_SPECIALIZE), with the number
     * of launches that use the shipped kernel instead and the reason. "" if this executor had none to load. */
    const char *kernels;
    /* Weights that were copied to the GPU until this executor was open, by it and by the executors it shares with. */
    size_t      upload_bytes;
    double      upload_s;      /* seconds of these copies, with reading and repacking the file */
    double      upload_wait_s; /* part of upload_s: waiting for copies */
    double      upload_read_s; /* part of upload_s: reading the file; nearly 0 if the system has it in memory */
    const char *tuning;        /* where the constants of the GPU come from (RpCudaTuningInfo.text); "" on the CPU */
    size_t      repack_bytes; /* of repacked weights (RpExecutorOptions.repack), shared by all executors of a process */
    double      repack_s;     /* seconds that the copy took; nearly 0 if another executor had made it */
    const char *backend;      /* RpExecutorOptions.backend: its name, and what it does; "" for the built-in kernels */
} RpExecutorInfo;

RP_API void                  rp_executor_info_sized(const RpExecutor *exec, RpExecutorInfo *out, size_t out_bytes);
static inline RpExecutorInfo rp_executor_info(const RpExecutor *exec) {
    RpExecutorInfo info;
    rp_executor_info_sized(exec, &info, sizeof info);
    return info;
}

/* Copies the inputs to a GPU, runs every step once and copies the outputs back; returns when all is done. Executors
 * that share run one at a time. After an error the executor can run again, unless the device itself has failed, or a
 * run has exceeded RpExecutorOptions.watchdog_s (RP_E_CUDA): then every call reports that. RP_E_STATE while a reply of
 * RP_MODE_LOOP is under way; errors of kernels, RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus rp_executor_run(RpExecutor *exec);

/* Host memory of an input (write it before a run) or an output (valid until the next run of any executor that shares);
 * on the CPU also of a state. NULL for other nodes. Owned by the executor. */
RP_API void *rp_executor_data(RpExecutor *exec, const TensorNode *node);

/* Copies the first `bytes` of an input, an output or a state from the memory of the device, or into it. (A run on a GPU
 * overwrites inputs: write them through rp_executor_data.) RP_E_ARG for a weight, for an intermediate result, whose
 * memory is reused, and for more bytes than the node has. */
RP_API RP_NODISCARD RpStatus rp_executor_get(RpExecutor *exec, const TensorNode *node, void *out, size_t bytes);
RP_API RP_NODISCARD RpStatus rp_executor_set(RpExecutor *exec, const TensorNode *node, const void *data, size_t bytes);

/* The same from byte `offset` of the node's memory on: for example the rows of one head of a KV cache. */
RP_API RP_NODISCARD RpStatus rp_executor_get_at(RpExecutor *exec, const TensorNode *node, size_t offset, void *out,
                                                size_t bytes);
RP_API RP_NODISCARD RpStatus rp_executor_set_at(RpExecutor *exec, const TensorNode *node, size_t offset,
                                                const void *data, size_t bytes);

RP_API int rp_executor_n_threads(const RpExecutor *exec);

/* ---- rebinding: the same executor on other states or weights ----
 *
 * Nothing is captured again: the kernel nodes of the captured graph get the new addresses. The graph of RP_MODE_LOOP
 * keeps its addresses, so while other memory is bound a reply is one replay per token, and rp_executor_info has
 * RP_MODE_REPLAY with the reason. If binding fails, the earlier binding stays.
 *
 *   RpExecutorStates *other;
 *   RP_TRY(rp_executor_states_new(exec, &other));
 *   RP_TRY(rp_executor_states_bind(exec, other));     // run another sequence
 *   RP_TRY(rp_executor_states_bind(exec, NULL));      // and back */

/* A second set of states, zeroed: the KV cache of another sequence. Only the executor that made it and those that share
 * with it can bind it. Free it before that executor and not while it is bound. RP_E_NOMEM, RP_E_CUDA. */
typedef struct RpExecutorStates RpExecutorStates;
RP_API RP_NODISCARD RpStatus    rp_executor_states_new(RpExecutor *exec, RpExecutorStates **out);
RP_API void                     rp_executor_states_free(RpExecutorStates *states); /* NULL is allowed */

/* NULL binds the states that the executor was opened with. RP_E_ARG for states of another executor. */
RP_API RP_NODISCARD RpStatus rp_executor_states_bind(RpExecutor *exec, RpExecutorStates *states);

/* Binds the weights of another plan with the same steps, parameters, shapes and types; that plan must outlive the
 * executor. Weights are copied to a GPU when they are first bound. NULL binds the weights of the executor's plan.
 * RP_E_SHAPE names the first step that differs. RP_E_UNSUPPORTED names a step whose float weights cuBLASLt was captured
 * with: its nodes keep their addresses (REPRISE_BLAS=off avoids this). */
RP_API RP_NODISCARD RpStatus rp_executor_weights_bind(RpExecutor *exec, const ExecPlan *plan);

/* ---- a whole reply: run, sample, repeat ----
 *
 *   int32_t tokens[64];
 *   int     n = 0;
 *   const RpReplyOptions options = {
 *       .state = words, .n_state = n_words, .max_tokens = 64, .n_ctx = n_ctx, .end = &eos, .n_end = 1};
 *   RP_TRY(rp_executor_reply_begin(exec, &options));
 *   while (n < 64 && rp_executor_reply_next(exec, &tokens[n]) == RP_OK && tokens[n++] != eos) {}
 *   RP_TRY(rp_executor_reply_end(exec, NULL)); */

typedef struct RpReplyOptions {
    const int32_t *state;      /* step state to start from; its token is the first to be run. Copied, as `end` is */
    size_t         n_state;    /* its words: at least RP_STEP_WORDS, at most those of RpExecutorOptions.step */
    int32_t        max_tokens; /* most tokens to sample, > 0 */
    int32_t        n_ctx;      /* the reply ends when position n_ctx is reached */
    const int32_t *end;        /* tokens that end the reply, at most RP_REPLY_MAX_END */
    size_t         n_end;
} RpReplyOptions;

/* Writes the step state and starts. With RP_MODE_LOOP the device now runs and samples by itself, by one launch per
 * RP_LOOP_TOKENS tokens; in other modes every rp_executor_reply_next is one run. RP_E_STATE without
 * RpExecutorOptions.step or with a reply under way; RP_E_CONTEXT_FULL unless 0 <= RpStepState.pos < n_ctx; RP_E_ARG
 * for other bad options. */
RP_API RP_NODISCARD RpStatus        rp_executor_reply_begin_sized(RpExecutor *exec, const RpReplyOptions *options,
                                                                  size_t options_bytes);
RP_NODISCARD static inline RpStatus rp_executor_reply_begin(RpExecutor *exec, const RpReplyOptions *options) {
    return rp_executor_reply_begin_sized(exec, options, sizeof *options);
}

/* Waits for the next token. The reply ends after an end token, after max_tokens or at n_ctx; then RP_E_STATE. RP_E_ARG
 * if every logit was NaN or -inf, which also ends the reply; RP_E_CUDA if the device failed. */
RP_API RP_NODISCARD RpStatus rp_executor_reply_next(RpExecutor *exec, int32_t *token);

/* Ends the reply, early or not, and waits until the device has stopped; RP_OK without a reply. Tokens that were not
 * fetched are dropped. `ran_on` may be NULL; *ran_on is true if the device may have run such tokens, so that the states
 * contain them. */
RP_API RP_NODISCARD RpStatus rp_executor_reply_end(RpExecutor *exec, bool *ran_on);

/* ---- a run in parts, to read intermediate results ----
 *
 * The memory of an intermediate result is reused later in a run, so its value is read where the run has just computed
 * it:
 *
 *   RpNodePlace place;
 *   RP_TRY(rp_plan_place(plan, y, &place));
 *   RP_TRY(rp_executor_run_steps(exec, 0, place.step + 1));
 *   RP_TRY(rp_executor_read(exec, y, values, bytes));       // y: any node of the graph
 *   RP_TRY(rp_executor_run_steps(exec, place.step + 1, n_steps)); */

/* Runs steps first <= i < end, one launch each on a GPU, and returns when they are done: the bits are those of a whole
 * run. Step 0 begins a run and copies the inputs; the last step ends it and copies the outputs. Nothing is allocated.
 * RP_E_ARG unless 0 <= first <= end <= n_steps and `first` is 0 or the end of the call before; RP_E_STATE while a reply
 * of RP_MODE_LOOP is under way; errors of kernels, RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus rp_executor_run_steps(RpExecutor *exec, int first, int end);

/* Copies the first `bytes` of any computed node, input or state, as the steps that have run so far left it; the bytes
 * lie as the strides of rp_node_view say. `out` has the value of the node while no later step has overwritten it and no
 * executor that shares has run. RP_E_STATE if its step has not run yet, or if a later one has reused its memory, by
 * name; RP_E_ARG for a weight, a node of another graph and more bytes than it has. */
RP_API RP_NODISCARD RpStatus rp_executor_read(RpExecutor *exec, const TensorNode *node, void *out, size_t bytes);

/* ---- verification and profiling ---- */

/* `got` and `want` are results of `node` in host memory, both shaped as `view` says and valid during the call. A node
 * that also writes to a source (a KV cache) is reported once more for each, with the view of that source. Return false
 * to stop. */
typedef bool RpVerifyCallback(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                              void *user);

/* One run in which every step is computed twice from the same sources: by the executor's kernel (`got`) and by a
 * reference (`want`). The reference is the CPU kernel; on the CPU it is the plain variant of the kernel. */
RP_API RP_NODISCARD RpStatus rp_executor_verify(RpExecutor *exec, RpVerifyCallback *callback, void *user);

/* max |got - want| / max |want| over the elements; 0 for equal bytes, infinity if only one of two values is NaN.
 * Results that were rounded to f16, bf16, q8_0 or q8_act may differ by one quantisation step without counting. Ids and
 * other integers are equal or infinitely different; so are results of op quantize, and of op copy in f16, bf16 or q8_0.
 * A sum of q8_act counts if it is not that of the quants and the scale of its own row. Infinity for a NULL argument;
 * but `at` may be NULL. *at is the index of the element that differs most. */
RP_API double rp_verify_difference(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                                   size_t *at);

/* Fills intermediate results and outputs with NaN bytes (0xff), so that a step that a run leaves out shows. Inputs keep
 * their values for the next run. RP_E_STATE while a reply of RP_MODE_LOOP is under way; RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus rp_executor_poison(RpExecutor *exec);

/* Median times over n_runs runs, in nanoseconds: step_ns[n_steps] for each step, *total_ns for a run without
 * instruments. On a GPU the steps are timed in a second captured graph with an event after every step. Inputs stay as
 * they are; the step state, if there is one, is restored. RP_E_ARG for n_runs below 1, RP_E_NOMEM, errors of a run. */
RP_API RP_NODISCARD RpStatus rp_executor_profile(RpExecutor *exec, int n_runs, double *step_ns, double *total_ns);

/* The launches of one step. */
typedef struct RpStepLaunch {
    const TensorNode *node;                            /* borrowed from the graph */
    size_t            bytes;                           /* read and written if every source and result moves once */
    int               n_barriers;                      /* on the CPU: one after each phase of the kernel */
    int               n_kernels;                       /* on a GPU */
    const char       *kernel;                          /* name of the last of them, static storage; NULL on the CPU */
    unsigned          grid[3], block[3], shared_bytes; /* of that kernel */
} RpStepLaunch;

/* Describes step i. RP_E_ARG outside 0 <= i < n_steps. */
RP_API RP_NODISCARD RpStatus        rp_executor_launch_sized(const RpExecutor *exec, int i, RpStepLaunch *out,
                                                             size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_executor_launch(const RpExecutor *exec, int i, RpStepLaunch *out) {
    return rp_executor_launch_sized(exec, i, out, sizeof *out);
}

/* The launches that the CUDA launchers of this build would make for step i; needs no device. In a build without the
 * CUDA toolkit it fills in node, bytes and n_barriers and returns RP_E_NOT_AVAILABLE. */
RP_API RP_NODISCARD RpStatus        rp_cuda_plan_launch_sized(const ExecPlan *plan, int i, RpStepLaunch *out,
                                                              size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_cuda_plan_launch(const ExecPlan *plan, int i, RpStepLaunch *out) {
    return rp_cuda_plan_launch_sized(plan, i, out, sizeof *out);
}

#ifdef __cplusplus
}
#endif
#endif
