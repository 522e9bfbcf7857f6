/* cuda.h - the CUDA backend: a plan on one device and one stream. All device memory is allocated and all graphs are
 * instantiated at open (I3, I9). Three launch modes:
 *
 *     eager    each run walks the plan and launches every kernel
 *     replay   each run launches one captured graph:   inputs -> step 0 -> ... -> step n-1 -> outputs
 *     loop     a plan that samples its tokens: one launch per 128 tokens of a reply, of a second graph
 *              while (condition) { step 0 -> ... -> step n-1 -> loop_end }
 *
 * A third graph has the steps before the sampler, for tokens whose mask the host makes meanwhile (held.c).
 *
 * With other KV caches or weights bound, the captured nodes get the new addresses (bind.c). */
#ifndef EXECUTOR_CUDA_CUDA_H
#define EXECUTOR_CUDA_CUDA_H

#include "executor/backend.h"

#include "base/blas.h"
#include "base/loop.h"
#include "base/tuning.h"
#include "reprise/device.h"

#include <cuda_runtime_api.h>

enum {
    CUDA_ALIGN        = 256,
    CUDA_UPLOAD_BYTES = 32 << 20, /* half of the pinned buffer that weights are uploaded through */
    CUDA_LOOP_DRIVER  = 12040,    /* the first driver with WHILE nodes in graphs */
    CUDA_PDL_MAJOR    = 9         /* major compute capability from which there is programmatic dependent launch */
};

/* Why nothing is measured or compiled for a device, with its name. */
#define CUDA_SIMULATED "%s reports no memory bus, so it is simulated"

/* A weight: address and size on the host, and its device copy, in planes if it is quantised. */
typedef struct CudaWeight {
    const void *host;
    size_t      bytes; /* on the device */
    size_t      nb2;   /* of the view on the host */
    char       *device;
} CudaWeight;

/* Bytes and seconds of all uploads of weights so far. The time that is neither reading nor waiting was repacking. */
typedef struct CudaUpload {
    size_t bytes;
    double all_s, read_s, wait_s; /* in all; reading the file; waiting for copies */
} CudaUpload;

/* A kernel that was compiled from source text. */
typedef struct SourceKernel {
    TensorOp         op;
    const void      *function; /* a cudaKernel_t, which launches take in place of a function */
    struct CUlib_st *library;  /* what cudaLibrary_t points to */
} SourceKernel;

/* Kernels that were compiled from source text (source.c). */
struct RpCudaSources {
    SourceKernel *kernels;
    int           n;
};

/* A kernel that was compiled for the constants of its launches (special.c). Word i of the arguments is words[i], or an
 * address if is_address[i]. */
typedef struct SpecialKernel {
    const void      *shipped;  /* the kernel of the library that it replaces */
    const void      *function; /* a cudaKernel_t; NULL: it was refused, the shipped one is launched */
    struct CUlib_st *library;
    unsigned         grid[3], block[3], shared_bytes;
    unsigned         n_words;
    uint64_t        *words;
    bool            *is_address;
} SpecialKernel;

/* The limit of runs that do not end (watchdog.c). */
typedef struct CudaWatchdog {
    double   limit_s;         /* 0: none, and no memory */
    int32_t *n_done, *mapped; /* pinned: the latest mark; its device address */
} CudaWatchdog;

/* How long a host has waited without a new mark. */
typedef struct CudaWatch {
    double  last, idle; /* seconds: of the latest look; without a new mark */
    int32_t n_done;
} CudaWatch;

/* The state that executors with the same owner share. The owner opens and closes it. */
typedef struct CudaDevice {
    int                index, major, minor; /* compute capability */
    char               id[16], name[256];   /* "cuda:0", "NVIDIA ..." */
    RpCudaTuning       tuning;
    cudaStream_t       stream;
    CudaWeight        *weights; /* sorted by host address */
    int                n_weights;
    void             **slabs; /* allocations that hold the weights */
    int                n_slabs;
    CudaUpload         upload;
    bool               looping;   /* the loop of some executor runs: no other call may use the stream */
    RpBlasLt          *blas;      /* NULL until a plan needs it, or if it is unavailable */
    void              *workspace; /* device memory lent to blas */
    bool               blas_tried;
    char               blas_reason[256]; /* why it is unavailable */
    RpCudaSources      sources;
    bool               simulated; /* it reports no memory bus */
    SpecialKernel     *specials;
    int                n_specials;
    bool               failed; /* by an error that the device does not recover from */
    char               failure[512];
    CudaWatchdog       watchdog;
    bool               hung; /* a run was given up */
    struct CudaDevice *next_hung;
    RpCudaTuningInfo   tuned; /* where `tuning` comes from */
} CudaDevice;

/* A tensor of the arena with a copy in pinned host memory, copied at every run: an input before the first step, an
 * output after the last. Host address: CudaExecutor.host + offset. */
typedef struct Mirror {
    const TensorNode *node;
    size_t            bytes, offset;
    char             *device;
    bool              is_input;
} Mirror;

/* One launch of the captured plan. `node` is the node of a kernel, or the last of the n_nodes nodes that cuBLASLt added
 * (function NULL). The addresses in nodes of cuBLASLt never change. */
typedef struct Captured {
    int             step, n_nodes;
    cudaGraphNode_t node, front; /* front: in the graph of held tokens, or NULL */
    const void     *function;
    unsigned        grid[3], block[3], shared_bytes;
    bool            any_type; /* as in RpKernelLaunch */
    const void     *addresses[RP_LAUNCH_ADDRESSES];
} Captured;

/* The graph of mode loop and its memory, described in loop.c. */

typedef struct CudaLoop {
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
    LoopControl    *control;         /* on the device */
    LoopRing       *ring;            /* on the host */
    LoopRing       *mapped;          /* its device address */
    LoopControl    *staging;         /* pinned */
    uint32_t        next;            /* number of the next token that the host reads */
    uint32_t        first;           /* of the first token of the reply */
    int32_t         in_launch, left; /* tokens not read yet: of this launch; of later launches of the reply */
    bool            running;
} CudaLoop;

typedef struct CudaExecutor {
    RpExecutor   base;
    CudaDevice  *device;
    char        *private_arena;   /* NULL: the owner's arena is large enough */
    char        *host;            /* pinned: memory of the mirrors, then the token */
    void        *scratch;         /* of launches, which run one at a time: the owner's or the private one */
    void        *private_scratch; /* NULL: the owner's is large enough */
    size_t       scratch_bytes;
    RpCudaTuning tuning; /* of the device, for RpExecutorOptions.columns */
    RpColumns    columns;
    RpBlasLt    *blas;                                       /* the device's, if the plan has products for it */
    char         blas_text[512];                             /* info.blas */
    char         kernels_text[512];                          /* info.kernels */
    bool         special;                                    /* launches take the specialised kernels of the device */
    int          special_missed;                             /* launches whose constants no specialised kernel has */
    bool (*progress)(size_t done, size_t total, void *user); /* of RpExecutorOptions, while it opens */
    void    *progress_user;
    Mirror  *mirrors;
    int      n_mirrors;
    char    *inputs; /* device address of one copy for all inputs, or NULL: one copy each */
    size_t   input_bytes;
    int32_t *token; /* pinned: the token of the step state, copied after each run */
    int32_t *extra; /* pinned: the RpSampleExtra and the mask of a held token */
    /* Mode replay. Nodes belong to `graph`; they also name the nodes of `exec`, whose arguments can change. */
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t token_node;
    cudaGraph_t     front; /* the steps before the sampler, for held tokens; NULL: none */
    cudaGraphExec_t front_exec;
    bool            pdl;           /* kernels are captured with programmatic dependent launch */
    char            pdl_text[320]; /* info.overlap */
    int             old_code;      /* 10 * compute capability of a kernel compiled for one before 9.0; 0: none was */
    char            old_kernel[96];
    bool            stale;    /* args and captured nodes still have the addresses of an earlier binding */
    Captured       *captured; /* in the order of the launches */
    int             n_captured;
    CudaLoop        loop;
} CudaExecutor;

/* Hooks that launch: a specialised kernel where there is one. `user` is the CudaExecutor. */
RP_NODISCARD RpStatus rp_cuda_special_now(void *user, const RpKernelLaunch *l);
/* Overlapping, with CudaExecutor.pdl. */
RP_NODISCARD RpStatus rp_cuda_special_in_loop(void *user, const RpKernelLaunch *l);

static inline CudaExecutor *rp_cuda(RpExecutor *e) { return (CudaExecutor *)e; }

/* Context for launches on the stream. With a hook, each launch calls it instead. */
static inline RpKernelCtx rp_cuda_ctx(const CudaExecutor *c, RpStatus (*hook)(void *user, const RpKernelLaunch *l),
                                      void               *user) {
    if (hook == NULL && c->special) {
        hook = rp_cuda_special_now;
        user = (void *)(uintptr_t)c;
    }
    return (RpKernelCtx){.stream        = c->device->stream,
                         .scratch       = c->scratch,
                         .scratch_bytes = c->scratch_bytes,
                         .blas          = c->blas,
                         .launch        = hook,
                         .user          = user,
                         .tuning        = &c->tuning,
                         .sources       = &c->device->sources};
}

/* RP_OK, or RP_E_CUDA (RP_E_NOMEM) with device, `what` and the error's text. If the device itself has failed, for
 * instance by an illegal access in a kernel, d->failed is set. */
RP_NODISCARD RpStatus rp_cuda_check(CudaDevice *d, cudaError_t e, const char *what);

/* Prefixes the error of a launcher, which names its op, with the device's id; RP_E_CUDA only. */
RP_NODISCARD RpStatus rp_cuda_named(const CudaDevice *d, RpStatus st);

/* Makes the device current, at the beginning of each call. RP_E_CUDA if it has failed before. */
RP_NODISCARD RpStatus rp_cuda_select(CudaDevice *d);

/* rp_cuda_select for a call that uses device memory: RP_E_STATE while a loop runs. */
RP_NODISCARD RpStatus rp_cuda_enter(CudaDevice *d);

/* ---- watchdog.c ---- */

/* `given_s` as RpExecutorOptions.watchdog_s. RP_E_ARG for a bad value in the environment. */
RP_NODISCARD RpStatus rp_cuda_watchdog_open(CudaDevice *d, double given_s);
void                  rp_cuda_watchdog_close(CudaDevice *d);

static inline bool rp_cuda_watches(const CudaDevice *d) { return d->watchdog.limit_s > 0.0; }

/* Marks in a captured plan: one before the first step and one after each. */
static inline int rp_cuda_n_marks(const CudaExecutor *c) {
    return rp_cuda_watches(c->device) ? c->base.plan->n_steps + 1 : 0;
}

/* Before work is enqueued on an idle stream: n_done steps have ended; -1: the inputs come first. */
void rp_cuda_watch_from(const CudaDevice *d, int32_t n_done);
/* Enqueues the mark behind step n_done - 1. Nothing without a limit. */
RP_NODISCARD RpStatus rp_cuda_mark_step(const CudaExecutor *c, int32_t n_done, bool overlap);

/* Wait until the stream has ended. After the limit RP_E_CUDA, and the device has failed: the text names `what`, or the
 * step of the plan that did not end. */
RP_NODISCARD RpStatus rp_cuda_wait(CudaDevice *d, const char *what);
RP_NODISCARD RpStatus rp_cuda_wait_steps(CudaExecutor *c, const char *what);
/* The same, also after a failure `st` of the calls: work that was enqueued before must not run while the memory is
 * reused. The failure and its text are kept, unless the watchdog has given the run up. */
RP_NODISCARD RpStatus rp_cuda_wait_after(CudaExecutor *c, RpStatus st, const char *what);

/* For hosts that poll something other than the stream: begins to wait; true if there was no new mark within the limit;
 * the failure of that case. */
CudaWatch             rp_cuda_watch(const CudaDevice *d);
bool                  rp_cuda_is_over(const CudaDevice *d, CudaWatch *w);
RP_NODISCARD RpStatus rp_cuda_no_end(CudaExecutor *c);

/* Whether a run that was given up has still not ended on that GPU: freeing memory would wait for it. `why` may be NULL;
 * else it gets the failure. */
bool rp_cuda_hangs(int index, char *why, size_t why_bytes);
/* Backend.hangs. */
bool rp_cuda_executor_hangs(const RpExecutor *e);

/* Device memory, to be freed by cudaFree. RP_E_NOMEM names `what` and the size. */
RP_NODISCARD RpStatus rp_cuda_alloc(CudaDevice *d, size_t bytes, const char *what, void **out);

/* Opens device number `index` with a stream and no weights. The caller owns *out. */
RP_NODISCARD RpStatus rp_cuda_device_open(int index, CudaDevice **out);
void                  rp_cuda_device_close(CudaDevice *d);

/* The weights of a plan: bytes that are not on the device yet; the upload of these; the device address of a weight,
 * NULL if it was not uploaded. */
size_t                rp_cuda_missing_weights(const CudaDevice *d, const ExecPlan *plan);
RP_NODISCARD RpStatus rp_cuda_upload_weights(CudaDevice *d, const ExecPlan *plan);
void                 *rp_cuda_weight(RpExecutor *e, const void *host);
/* RP_E_UNSUPPORTED for a step that reads a slice of a quantised weight: planes have no slices. */
RP_NODISCARD RpStatus rp_cuda_check_whole(const CudaDevice *d, const ExecPlan *plan);

/* After a rebind (c->stale): fills the steps' arguments with the addresses that are bound now and repoints the
 * captured nodes. On a mismatch no node is changed. */
RP_NODISCARD RpStatus rp_cuda_update_addresses(CudaExecutor *c);

/* Sets c->blas if the plan has products for cuBLASLt and REPRISE_BLAS allows it. An unavailable library leaves it
 * NULL with a reason (I10); RP_E_ARG for an unknown value of the option, and an error for a library that is named
 * by its path but cannot be opened. */
RP_NODISCARD RpStatus rp_cuda_blas_open(CudaExecutor *c);
void                  rp_cuda_blas_close(CudaDevice *d);
/* Scratch memory of the plan in bytes: the largest need of any step, with c->blas. */
size_t rp_cuda_plan_scratch(const CudaExecutor *c);
/* Writes info.blas, once the plan's kernels are loaded. */
void rp_cuda_blas_describe(CudaExecutor *c);

/* Compiles and loads the kernels of source text that the plan needs and the device does not have yet; writes
 * info.kernels. RP_E_NOT_AVAILABLE without NVRTC, RP_E_ARG for errors in a source or a launch that the kernel does not
 * allow, RP_E_CUDA. */
RP_NODISCARD RpStatus rp_cuda_sources_open(CudaExecutor *c);
void                  rp_cuda_sources_close(CudaDevice *d);
/* Compiles the kernels of a decode step for the constants of their launches, as REPRISE_SPECIALIZE says, and adds
 * the outcome to info.kernels. A kernel that fails is launched as shipped (I10); RP_E_ARG for an unknown value of
 * the option. */
RP_NODISCARD RpStatus rp_cuda_specials_open(CudaExecutor *c);
/* Adds to info.kernels how many captured launches had constants that none of the kernels was compiled for (I10). */
void rp_cuda_specials_check(CudaExecutor *c);
void rp_cuda_specials_close(CudaDevice *d);

enum { SPECIAL_MAX_WORDS = 512 };

/* A launch of a specialised kernel in place of the shipped one. `launch` points to the other members. */
typedef struct SpecialLaunch {
    RpKernelLaunch launch;
    void          *arguments[2];
    uint64_t       addresses[SPECIAL_MAX_WORDS];
} SpecialLaunch;

/* The launch to make for `l`: the launch of a specialised kernel with the same words, which is written to *s, or `l`
 * itself. */
const RpKernelLaunch *rp_cuda_special(CudaExecutor *c, const RpKernelLaunch *l, SpecialLaunch *s);

/* Loads the cubin, or the PTX if the driver cannot use the cubin, and finds its kernel; after a failure nothing is
 * loaded. cudaErrorNotSupported in a build with an older toolkit. */
struct CudaBinary;
cudaError_t rp_cuda_library_load(const struct CudaBinary *b, struct CUlib_st **library, const void **function);
void        rp_cuda_library_unload(struct CUlib_st *library);
cudaError_t rp_cuda_library_probe(void); /* loads PTX without kernels */

/* The launcher of every custom op with source text. */
RpOpKernel rp_cuda_source_launch;

/* Enqueue on the stream: the copies of all inputs; the copies of all outputs; a whole run. */
RP_NODISCARD RpStatus rp_cuda_enqueue_inputs(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_enqueue_outputs(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_enqueue(CudaExecutor *c);
/* Steps first <= i < end, one launch each. `nodes`: told of the nodes, or NULL. */
RP_NODISCARD RpStatus rp_cuda_enqueue_steps(CudaExecutor *c, int first, int end, TracedNodes *nodes);

/* ---- held.c ---- */

/* Bytes of the source `extra` of a plan that ends in `sample`; 0: it has none, and no tokens are held. */
size_t rp_cuda_extra_bytes(const CudaExecutor *c);
/* Captures the steps before the sampler, after the whole plan; nothing if no tokens are held. The caller frees the
 * graph, on failure too. */
RP_NODISCARD RpStatus rp_cuda_held_capture(CudaExecutor *c);
/* Backend.held. */
RP_NODISCARD RpStatus rp_cuda_held(RpExecutor *e, RpHeldPrepare *prepare, void *user, int32_t *token);

/* Backend.run_steps. */
RP_NODISCARD RpStatus rp_cuda_run_steps(RpExecutor *e, int first, int end);

/* Captures the work that `enqueue` puts on the device's stream, into the graph `body` or, for NULL, a new one. `what`
 * names it in errors ("the capture"). The caller owns *out, on failure too. */
RP_NODISCARD RpStatus rp_cuda_record(CudaDevice *d, cudaGraph_t body, RpStatus (*enqueue)(void *arg), void *arg,
                                     const char *what, cudaGraph_t *out);
RP_NODISCARD RpStatus rp_cuda_instantiate(CudaDevice *d, cudaGraph_t graph, const char *what, cudaGraphExec_t *out);

/* Captures and instantiates the plan. RP_E_STATE unless every step has a node of its own and each kernel for quantised
 * weights serves one type only. */
RP_NODISCARD RpStatus rp_cuda_capture(CudaExecutor *c);
void                  rp_cuda_capture_free(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_launch_of(const RpExecutor *e, int step, RpStepLaunch *out);

/* Mode loop (loop.c). RP_E_NOT_AVAILABLE with a driver that has no WHILE nodes. */
RP_NODISCARD RpStatus rp_cuda_loop_open(CudaExecutor *c);
void                  rp_cuda_loop_close(CudaExecutor *c);
RP_NODISCARD RpStatus rp_cuda_loop_begin(RpExecutor *e, const Reply *r);
RP_NODISCARD RpStatus rp_cuda_loop_next(RpExecutor *e, int32_t *token);
RP_NODISCARD RpStatus rp_cuda_loop_finish(RpExecutor *e);

/* Tells NVTX of runs, steps and nodes, if a tool such as Nsight Systems is there at the first call. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_cuda_nvtx_open(void);

/* Backend.verify and Backend.profile. */
RP_NODISCARD RpStatus rp_cuda_verify(RpExecutor *e, RpVerifyCallback *callback, void *user);
RP_NODISCARD RpStatus rp_cuda_profile(RpExecutor *e, int n_runs, double *step_ns, double *total_ns, const void *step);

#endif
