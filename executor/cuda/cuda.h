/* cuda.h - a plan on a CUDA device.
 *
 * Every address is fixed at open. The plan is run once eagerly, so that every kernel is loaded, then captured
 * into a graph that each run launches; where the plan draws tokens itself, a second graph loops over it. */
#ifndef EXECUTOR_CUDA_CUDA_H
#define EXECUTOR_CUDA_CUDA_H

#include "executor/backend.h"

#include "reprise/blas.h"
#include "reprise/loop.h"

#include <cuda_runtime_api.h>

enum {
    CUDA_ALIGN       = 256,
    CUDA_LOOP_DRIVER = 12040, /* the first with loops in graphs */
    CUDA_OVERLAP     = 9      /* compute capability from which kernels may overlap */
};

/* A weight on the host and its copy. */
typedef struct CudaWeight {
    const void *host;
    size_t      bytes;
    char       *device;
} CudaWeight;

/* What executors that share have in common; the owner's. */
typedef struct CudaDevice {
    int          index, major; /* major: of its compute capability */
    char         id[16], name[256];
    cudaStream_t stream;
    CudaWeight  *weights; /* by host address */
    int          n_weights;
    void       **slabs;
    int          n_slabs;
    bool         looping;   /* some executor's loop runs */
    BlasLt      *blas;      /* NULL before a plan wants it, and where there is none */
    void        *workspace; /* its */
    bool         blas_tried;
    char         blas_reason[256]; /* why there is none */
    bool         failed;
    char         failure[256];
} CudaDevice;

/* A copy between the host and the arena that belongs to each run. */
typedef struct Mirror {
    const TensorNode *node; /* whose host memory this is */
    size_t            bytes, offset;
    char             *device;
    bool              is_input;
} Mirror;

/* A kernel node of the captured plan; or the nodes, `node` the last of them, that another library has made,
 * which keep their addresses. */
typedef struct Captured {
    int             step, n_nodes;
    cudaGraphNode_t node;
    const void     *function; /* NULL: another library's */
    unsigned        grid[3], block[3], shared_bytes;
    bool            any_type;
    const void     *addresses[RP_LAUNCH_ADDRESSES];
} Captured;

typedef struct CudaLoop {
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
    LoopControl    *control;         /* on the device */
    LoopRing       *ring;            /* on the host */
    LoopControl    *staging;         /* pinned */
    uint32_t        next;            /* number of the next token to read */
    int32_t         in_launch, left; /* tokens of this launch not read yet; and of later ones */
    bool            running;
} CudaLoop;

typedef struct CudaExecutor {
    Executor    base;
    CudaDevice *device;
    char       *own_arena, *host;
    void    *scratch, *own_scratch; /* of launches, one at a time; the owner's where that is large enough */
    size_t   scratch_bytes;
    BlasLt  *blas;           /* the device's, where the plan has products for it */
    char     blas_text[512]; /* info.blas */
    Mirror  *mirrors;
    int      n_mirrors;
    char    *inputs; /* all of them in one copy: device address, */
    size_t   input_bytes;
    int32_t *token;        /* pinned: what comes back of the step state */
    cudaGraph_t     graph; /* of the plan; its nodes name those of `exec` */
    cudaGraphExec_t exec;
    cudaGraphNode_t token_node;
    bool            overlap; /* kernels are recorded as ones that may begin while those before them end */
    char            overlap_text[320]; /* info.overlap */
    bool            stale;             /* they still have addresses of what was bound before */
    Captured       *captured;
    int             n_captured;
    CudaLoop        loop;
} CudaExecutor;

static inline CudaExecutor *rp_cuda(Executor *e) { return (CudaExecutor *)e; }

/* For launches on the stream; with a hook, in place of them. */
static inline KernelCtx rp_cuda_ctx(const CudaExecutor *c,
                                    RpStatus (*hook)(void *user, const KernelLaunch *l), void *user) {
    return (KernelCtx){.stream        = c->device->stream,
                       .scratch       = c->scratch,
                       .scratch_bytes = c->scratch_bytes,
                       .blas          = c->blas,
                       .launch        = hook,
                       .user          = user};
}

/* RP_E_CUDA with the name of the call. An error that the device does not come back from is remembered. */
RP_NODISCARD RpStatus rp_cuda_check(CudaDevice *d, cudaError_t e, const char *what);

/* A kernel's refusal names its op: the device is added where that has failed. */
RP_NODISCARD RpStatus rp_cuda_named(const CudaDevice *d, RpStatus st);

/* At the begin of each call: the executor's device is made current; RP_E_CUDA where it has failed before. */
RP_NODISCARD RpStatus rp_cuda_select(CudaDevice *d);

/* The same for a call that uses memory; RP_E_STATE while a loop does. */
RP_NODISCARD RpStatus rp_cuda_enter(CudaDevice *d);

/* Device memory; RP_E_NOMEM says what for and how much. */
RP_NODISCARD RpStatus rp_cuda_alloc(CudaDevice *d, size_t bytes, const char *what, void **out);

RP_NODISCARD RpStatus rp_cuda_device_open(int index, CudaDevice **out);
void                  rp_cuda_device_close(CudaDevice *d);

/* Bytes of the plan's weights that are not on the device yet; and copies them there. */
size_t                rp_cuda_missing_weights(const CudaDevice *d, const ExecPlan *plan);
RP_NODISCARD RpStatus rp_cuda_upload_weights(CudaDevice *d, const ExecPlan *plan);
void                 *rp_cuda_weight(Executor *e, const void *host);
/* RP_E_UNSUPPORTED where a step reads a part of a quantised weight. */
RP_NODISCARD RpStatus rp_cuda_check_whole(const CudaDevice *d, const ExecPlan *plan);

/* Arguments and captured nodes get the addresses of what is bound, where they have others. */
RP_NODISCARD RpStatus rp_cuda_follow(CudaExecutor *c);

/* cuBLASLt for the plan, where it has products for it and the environment does not forbid it: c->blas.
 * RP_E_ARG for a value of the option that is not understood; the library's own failures only leave it NULL,
 * but where its path is named. Of `plan`: scratch memory with it. */
RP_NODISCARD RpStatus rp_cuda_blas_open(CudaExecutor *c);
void                  rp_cuda_blas_close(CudaDevice *d);
size_t                rp_cuda_plan_scratch(const CudaExecutor *c);
/* What became of it, once the plan's kernels are loaded. */
void rp_cuda_blas_describe(CudaExecutor *c);

/* Everything a run does, onto the stream: inputs, steps (by the hook of ctx), outputs. */
RP_NODISCARD RpStatus rp_cuda_enqueue_inputs(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_enqueue_outputs(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_enqueue(CudaExecutor *c);

/* Records what `enqueue` puts on the device's stream: into `body`, or NULL: a new graph. `what` is for errors: "the
 * capture". *out is the caller's on failure too. */
RP_NODISCARD RpStatus rp_cuda_record(CudaDevice *d, cudaGraph_t body, RpStatus (*enqueue)(void *arg),
                                     void *arg, const char *what, cudaGraph_t *out);
RP_NODISCARD RpStatus rp_cuda_instantiate(CudaDevice *d, cudaGraph_t graph, const char *what,
                                          cudaGraphExec_t *out);

/* Captures the plan; checks that every step has a node, and that no kernel serves weights of two types. */
RP_NODISCARD RpStatus rp_cuda_capture(CudaExecutor *c);
void                  rp_cuda_capture_free(CudaExecutor *c);
/* Gives the captured nodes the addresses in args. */
RP_NODISCARD RpStatus rp_cuda_repoint(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_launch_of(const Executor *e, int step, StepLaunch *out);

/* The loop over the plan. RP_E_NOT_AVAILABLE where driver or device have none. */
RP_NODISCARD RpStatus rp_cuda_loop_open(CudaExecutor *c);
void                  rp_cuda_loop_close(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_loop_begin(Executor *e, const Reply *r);
RP_NODISCARD RpStatus rp_cuda_loop_next(Executor *e, int32_t *token);
RP_NODISCARD RpStatus rp_cuda_loop_finish(Executor *e);

RP_NODISCARD RpStatus rp_cuda_verify(Executor *e, VerifyCallback *callback, void *user);
RP_NODISCARD RpStatus rp_cuda_profile(Executor *e, int n_runs, double *step_ns, double *total_ns,
                                      const void *step);

#endif
