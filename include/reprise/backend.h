/* backend.h - a backend in a shared object: it runs the plans of executors instead of the interpreter, and may let the
 * built-in kernels run any of their steps. The library owns the memory. A backend gets the addresses of host memory
 * before its first run and after each bind. It leaves results there, or copies them there on request (`read`).
 *
 *   static RpStatus run(void *self, RpBackendPlan *plan) {
 *       const RpBackendHost *host = (const RpBackendHost *)self;
 *       for (int i = 0; i < host->n_steps(plan); i++)
 *           RP_TRY(host->run_steps(plan, i, i + 1));        // or compute step i from host->step_args(plan, i)
 *       return RP_OK;
 *   }
 *   const RpBackend *rp_backend(void) {                     // the one symbol of the shared object
 *       static const RpBackend backend = {.bytes = sizeof backend, .abi = RP_BACKEND_ABI, .name = "plain",
 *                                         .open = open_plain, .run = run, .describe = describe};
 *       return &backend;
 *   }
 *
 * RpExecutorOptions.backend, RpSessionOptions.backend and --backend of the program name it: a path with a '/', or the
 * NAME of NAME.so in REPRISE_BACKEND_DIR (or, if that is not set, in LIBDIR/reprise/backends). Shared object and folder
 * must belong to root or to the user and be writable by nobody else, and the last part of the path must not be a
 * symbolic link, because loading runs its code. The shared object need not link to the library; it gets the functions
 * in RpBackendHost.
 */
#ifndef REPRISE_BACKEND_H
#define REPRISE_BACKEND_H

#include "reprise/extend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Members at the end of the structs may come without a new one: look at `bytes`. */
enum { RP_BACKEND_ABI = 1 };

/* The name of the function of a shared object that returns its RpBackend, and its type. */
#define RP_BACKEND_SYMBOL "rp_backend"

typedef struct RpBackendPlan RpBackendPlan; /* opaque: a plan with the memory of one executor */

/* Functions of the library for backends. Pointers that they return are valid as long as the plan. */
typedef struct RpBackendHost {
    uint32_t bytes, abi; /* size of this struct, RP_BACKEND_ABI */
    int (*n_steps)(const RpBackendPlan *plan);
    int (*n_threads)(const RpBackendPlan *plan); /* workers of the interpreter; the caller of `run` is one of them */
    /* Op and name of the node of step i, 0 <= i < n_steps, and its operands. `data` is the current address of an
     * operand; it changes only before `bind`. An op from 512 on is private, and its operands are not described: run
     * such a step by run_steps. */
    TensorOp (*step_op)(const RpBackendPlan *plan, int i);
    const char *(*step_op_name)(const RpBackendPlan *plan, int i);
    const char *(*step_name)(const RpBackendPlan *plan, int i);
    const RpOpArgs *(*step_args)(const RpBackendPlan *plan, int i);
    unsigned (*step_constants)(const RpBackendPlan *plan,
                               int                  i); /* bit s: source s is a weight, which stays as it is */
    /* Runs steps first .. end - 1 by the built-in kernels on all workers. Only within `run`. */
    RpStatus (*run_steps)(RpBackendPlan *plan, int first, int end);
    void (*dequantize_row)(RpDtype dtype, const void *row, int64_t n, float *out); /* rp_dequantize_row */
    RpStatus (*fail)(RpStatus status, const char *text); /* rp_fail with a text; returns `status` */
} RpBackendHost;

/* The functions of a backend; `self` is what `open` made, one for each executor. All calls for one executor come from
 * one thread at a time. A failure is reported with the backend's name in front of its text. */
typedef struct RpBackend {
    uint32_t    bytes, abi; /* size of this struct, RP_BACKEND_ABI */
    const char *name;       /* in messages; not empty, static storage */
    /* Looks at the plan and allocates what runs need. Addresses are there already. */
    RpStatus (*open)(const RpBackendHost *host, RpBackendPlan *plan, void **self);
    /* Every step, in order. Inputs and states are in the memory of the plan; the host may have written to them. */
    RpStatus (*run)(void *self, RpBackendPlan *plan);
    /* Called when addresses have changed (other states, weights or tensors were bound). After a failure the earlier
     * addresses are bound again. May be NULL. */
    RpStatus (*bind)(void *self, RpBackendPlan *plan);
    /* Called before the host reads `bytes` bytes at `memory`. May be NULL if `run` leaves all results there. */
    RpStatus (*read)(void *self, RpBackendPlan *plan, const void *memory, size_t bytes);
    void (*free)(void *self); /* or NULL; also after a failed `open` that has set *self */
    /* What it does with this plan, in a line, for RpExecutorInfo.backend; valid as long as `self`. */
    const char *(*describe)(void *self);
} RpBackend;

typedef const RpBackend *RpBackendEntry(void);

#ifdef __cplusplus
}
#endif
#endif
