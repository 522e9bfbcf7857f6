/* Custom ops whose CUDA kernel is source text (reprise/source.h).
 *
 *     open     the plan's kernels that the device does not have -> compile (compile.c) -> cudaLibraryLoadData
 *              -> cudaLibraryGetKernel -> limits of every launch
 *     launch   launch rule -> one argument, a SourceArgs by value -> as any other kernel
 *     close    cudaLibraryUnload, when the device is closed
 *
 * A cudaKernel_t takes the place of a kernel's address in launches, in captured nodes and in attributes. */
#include "executor/cuda/compile.h"
#include "executor/cuda/cuda.h"

#include "base/argument.h"
#include "base/launch.h"
#include "base/op_table.h"
#include "base/sized.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_LIBRARY_RUNTIME = 12080 }; /* the first runtime with cudaLibraryLoadData */

/* The argument of a kernel, RpArgs of the prelude. */
typedef struct SourceArgs {
    RpTensorView   dst, src[RP_MAX_SRC];
    RpCustomParams params;
} SourceArgs;
_Static_assert(sizeof(RpTensorView) == 80 && offsetof(RpTensorView, dtype) == 8 && offsetof(RpTensorView, ne) == 16 &&
                   offsetof(RpTensorView, nb) == 48 && sizeof(RpCustomParams) == 64 &&
                   sizeof(SourceArgs) == 17 * 80 + 64 && RP_MAX_DIMS == 4,
               "the prelude declares these structs for the device");

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char prelude[] = "#define INFINITY __int_as_float(0x7f800000)\n"
                              "#define NAN __int_as_float(0x7fffffff)\n"
                              "enum {"
#define X(ID, name, elements, bytes, gguf) "RP_" #ID ","
    RP_DTYPES(X)
#undef X
        "};\n"
        "struct RpView { char *data; int dtype; long long ne[4]; long long nb[4]; };\n"
        "struct RpParams { float f[8]; int i[8]; };\n"
        "struct RpArgs {\n"
        "  RpView dst;\n"
        "  union { RpView src[" TEXT(
            RP_MAX_SRC) "]; struct { RpView x; } unary; struct { RpView a, b; } binary; };\n"
                        "  RpParams params;\n"
                        "};\n"
                        "static_assert(sizeof(RpArgs) == 1424, \"RpArgs\");\n"
                        "__device__ __forceinline__ long long rp_rows(const RpView &v) { return v.ne[1] * "
                        "v.ne[2] * v.ne[3]; }\n"
                        "__device__ __forceinline__ long long rp_elements(const RpView &v) { return v.ne[0] "
                        "* rp_rows(v); }\n"
                        "__device__ __forceinline__ char *rp_row(const RpView &v, long long r) {\n"
                        "  const long long r2 = r / v.ne[1];\n"
                        "  return v.data + r % v.ne[1] * v.nb[1] + r2 % v.ne[2] * v.nb[2] + r2 / v.ne[2] * "
                        "v.nb[3];\n"
                        "}\n"
                        "__device__ __forceinline__ void rp_wait() {\n"
                        "#if __CUDA_ARCH__ >= 900\n"
                        "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
                        "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
                        "#endif\n"
                        "}\n";

static CudaCode code_of(const char *owner, const RpCudaSource *s) {
    return (CudaCode){.owner     = owner,
                      .file      = s->file,
                      .prelude   = prelude,
                      .text      = s->text,
                      .kernel    = s->kernel,
                      .options   = s->options,
                      .n_options = s->n_options};
}

/* ---- launching ---- */

/* Limits of every CUDA device; those of the kernel are checked at open. */
static RpStatus check_launch(const char *op, const RpSourceLaunch *l) {
    const unsigned long long threads = (unsigned long long)l->block[0] * l->block[1] * l->block[2];
    if (l->grid[0] > 0 && l->grid[1] > 0 && l->grid[2] > 0 && l->grid[0] <= INT_MAX && l->grid[1] <= 65535 &&
        l->grid[2] <= 65535 && threads > 0 && threads <= 1024 && l->block[0] <= 1024 && l->block[1] <= 1024 &&
        l->block[2] <= 64)
        return RP_OK;
    return rp_fail(
        RP_E_ARG,
        "%s: a launch of %ux%ux%u blocks of %ux%ux%u threads: must be 1 to 2147483647 x 65535 x 65535 blocks of "
        "1 to 1024 threads",
        op, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2]);
}

static RpStatus launch_shape(const OpInfo *info, const RpOpArgs *args, RpSourceLaunch *out) {
    const RpCudaSource *s   = info->source;
    const char         *why = "the launch rule failed";
    const int64_t       n   = s->grid == RP_GRID_ROWS ? rp_view_rows(&args->dst) : rp_view_elems(&args->dst),
                  blocks    = s->grid == RP_GRID_ROWS ? n : (n + s->block - 1) / s->block;
    *out                    = (RpSourceLaunch){
                           .grid  = {1, 1, 1},
                           .block = {1, 1, 1},
    };
    if (s->launch != NULL) {
        const RpStatus st = s->launch(args, out, &why);
        if (st != RP_OK) return rp_fail(st, "%s: launch rule: %s", info->name, why);
        return check_launch(info->name, out);
    }
    out->grid[0]      = blocks <= INT_MAX ? (unsigned)blocks : 0;
    out->block[0]     = s->block;
    out->shared_bytes = s->shared_bytes;
    return check_launch(info->name, out);
}

static const void *function_of(const RpCudaSources *sources, TensorOp op) {
    for (int i = 0; sources != NULL && i < sources->n; i++)
        if (sources->kernels[i].op == op) return sources->kernels[i].function;
    return NULL;
}

RpStatus rp_cuda_source_launch(const RpOpArgs *args, RpKernelCtx *ctx) {
    const OpInfo  *info        = rp_op_info(ctx->op);
    SourceArgs     a           = {.dst = args->dst};
    void          *arguments[] = {&a, NULL};
    RpSourceLaunch shape;
    RP_TRY(launch_shape(info, args, &shape));
    memcpy(a.src, args->src, sizeof a.src);
    if (args->params != NULL) a.params = args->params->custom;
    RpKernelLaunch l = {.name         = info->source->kernel,
                        .function     = function_of(ctx->sources, ctx->op),
                        .shared_bytes = shape.shared_bytes,
                        .arguments    = arguments,
                        .any_type     = true,
                        .waits        = (info->source->flags & RP_SOURCE_WAITS) != 0};
    memcpy(l.grid, shape.grid, sizeof l.grid);
    memcpy(l.block, shape.block, sizeof l.block);
    if (ctx->launch != NULL) return ctx->launch(ctx->user, &l);
    const cudaError_t e = rp_cuda_launch(&l, ctx->stream, ctx->overlap, rp_tuning_of(ctx));
    if (e == cudaSuccess) return RP_OK;
    return rp_fail(RP_E_CUDA, "%s%s: launch of %ux%ux%u blocks of %ux%ux%u threads: %s", rp_cuda_whence(e), info->name,
                   l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], cudaGetErrorString(e));
}

/* ---- opening ---- */

#if CUDART_VERSION >= 12080
static cudaError_t load_library(const char *code, struct CUlib_st **out) {
    return cudaLibraryLoadData(out, code, NULL, NULL, 0, NULL, NULL, 0);
}
static cudaError_t get_kernel(struct CUlib_st *library, const char *symbol, const void **out) {
    cudaKernel_t      kernel = NULL;
    const cudaError_t e      = cudaLibraryGetKernel(&kernel, library, symbol);
    *out                     = kernel;
    return e;
}
void rp_cuda_library_unload(struct CUlib_st *library) { (void)cudaLibraryUnload(library); }
#else
static cudaError_t load_library(const char *code, struct CUlib_st **out) {
    (void)code, (void)out;
    return cudaErrorNotSupported;
}
static cudaError_t get_kernel(struct CUlib_st *library, const char *symbol, const void **out) {
    (void)library, (void)symbol, (void)out;
    return cudaErrorNotSupported;
}
void rp_cuda_library_unload(struct CUlib_st *library) { (void)library; }
#endif

cudaError_t rp_cuda_library_probe(void) {
    struct CUlib_st  *library;
    const cudaError_t e = load_library(".version 7.0\n.target sm_75\n.address_size 64\n", &library);
    if (e == cudaSuccess) rp_cuda_library_unload(library);
    (void)cudaGetLastError();
    return e;
}

/* Drivers load lazily: only a question about the kernel shows whether they can use the code. */
static cudaError_t load_code(const char *code, const char *symbol, struct CUlib_st **library, const void **function) {
    struct cudaFuncAttributes a;
    cudaError_t               e = load_library(code, library);
    if (e != cudaSuccess) return e;
    e = get_kernel(*library, symbol, function);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, *function);
    if (e != cudaSuccess) rp_cuda_library_unload(*library);
    return e;
}

/* Loads the cubin, or the PTX if the driver cannot use the cubin: the driver may be older than NVRTC. */
cudaError_t rp_cuda_library_load(const CudaBinary *b, struct CUlib_st **library, const void **function) {
    const cudaError_t e =
        b->cubin != NULL ? load_code(b->cubin, b->symbol, library, function) : cudaErrorNoKernelImageForDevice;
    if (e != cudaErrorNoKernelImageForDevice && e != cudaErrorInvalidKernelImage) return e;
    (void)cudaGetLastError();
    return load_code(b->ptx, b->symbol, library, function);
}

static RpStatus load_one(CudaDevice *d, TensorOp op, const CudaBinary *b) {
    char          what[160];
    SourceKernel  k     = {.op = op};
    SourceKernel *grown = realloc(d->sources.kernels, (size_t)(d->sources.n + 1) * sizeof *grown);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a kernel", rp_op_info(op)->name);
    d->sources.kernels = grown;
    snprintf(what, sizeof what, "%.100s: loading of its kernel", rp_op_info(op)->name);
    const cudaError_t e = rp_cuda_library_load(b, &k.library, &k.function);
    if (e == cudaErrorNotSupported) {
        (void)cudaGetLastError();
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: %s: %s", d->id, what, cudaGetErrorString(e));
    }
    RP_TRY(rp_cuda_check(d, e, what));
    d->sources.kernels[d->sources.n++] = k;
    return RP_OK;
}

void rp_cuda_sources_close(CudaDevice *d) {
    for (int i = 0; i < d->sources.n; i++) rp_cuda_library_unload(d->sources.kernels[i].library);
    free(d->sources.kernels);
    d->sources = (RpCudaSources){0};
}

/* The ops of the plan that the device lacks, each once; returns their number. */
static int missing_ops(const CudaExecutor *c, TensorOp ops[RP_MAX_CUSTOM_OPS]) {
    const ExecPlan *plan = c->base.plan;
    int             n    = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const TensorOp op   = plan->steps[i].op;
        bool           have = rp_op_info(op)->source == NULL || function_of(&c->device->sources, op) != NULL;
        for (int k = 0; k < n && !have; k++) have = ops[k] == op;
        if (!have) ops[n++] = op;
    }
    return n;
}

/* info.kernels, for example "NVRTC 13.0, sm_90: 1 compiled, 2 from the cache". */
static void describe(CudaExecutor *c, const RpNvrtc *n, CudaTarget target, const CompileJob *jobs, int n_jobs) {
    int         cached = 0;
    const char *why    = "";
    for (int i = 0; i < n_jobs; i++) {
        cached += jobs[i].cached;
        if (why[0] == '\0') why = jobs[i].cache;
    }
    snprintf(c->kernels_text, sizeof c->kernels_text, "%s, %s_%d: %d compiled, %d from the cache%s%.400s",
             rp_nvrtc_name(n), target.is_virtual ? "compute" : "sm", target.architecture, n_jobs - cached, cached,
             why[0] != '\0' ? "; cache: " : "", why);
}

static RpStatus compile_and_load(CudaExecutor *c, const RpNvrtc *n, const TensorOp *ops, CompileJob *jobs, int n_jobs) {
    CudaTarget target;
    RpStatus   st = RP_OK;
    RP_TRY(rp_nvrtc_target(n, c->device->major, c->device->minor, &target));
    for (int i = 0; i < n_jobs; i++) jobs[i].code = code_of(rp_op_info(ops[i])->name, rp_op_info(ops[i])->source);
    const bool all =
        rp_compile_all(n, target, jobs, n_jobs, &(CompileWatch){.progress = c->progress, .user = c->progress_user});
    for (int i = 0; i < n_jobs && st == RP_OK; i++)
        st = jobs[i].status == RP_OK ? load_one(c->device, ops[i], &jobs[i].binary)
                                     : rp_fail(jobs[i].status, "%s", jobs[i].error);
    describe(c, n, target, jobs, n_jobs);
    return all || st != RP_OK ? st : rp_fail(RP_E_CANCELLED, "cancelled while kernels were compiled");
}

static RpStatus open_missing(CudaExecutor *c) {
    TensorOp  ops[RP_MAX_CUSTOM_OPS];
    const int n = missing_ops(c, ops);
    RpNvrtc  *nvrtc;
    if (n == 0) return RP_OK;
    if (CUDART_VERSION < CUDA_LIBRARY_RUNTIME)
        return rp_fail(RP_E_NOT_AVAILABLE,
                       "%s: kernels of source text need a build with CUDA 12.8 or newer, this is %d.%d",
                       rp_op_info(ops[0])->name, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    CompileJob *jobs = calloc((size_t)n, sizeof *jobs);
    if (jobs == NULL) return rp_fail(RP_E_NOMEM, "out of memory to compile %d kernels", n);
    RpStatus st = rp_compiler_open(&nvrtc);
    if (st == RP_OK) st = compile_and_load(c, nvrtc, ops, jobs, n);
    rp_nvrtc_close(nvrtc);
    for (int i = 0; i < n; i++) rp_cuda_binary_free(&jobs[i].binary);
    free(jobs);
    return st;
}

/* ---- limits of the kernels ---- */

/* Hook: a kernel may allow fewer threads than a device, by its registers, and needs an attribute for more than 48 KiB
 * of dynamic shared memory. */
static RpStatus check_limits(void *user, const RpKernelLaunch *l) {
    CudaDevice               *d = user;
    struct cudaFuncAttributes a;
    const unsigned            threads = l->block[0] * l->block[1] * l->block[2];
    RP_TRY(rp_cuda_check(d, cudaFuncGetAttributes(&a, l->function), l->name));
    if (threads > (unsigned)a.maxThreadsPerBlock)
        return rp_fail(RP_E_ARG, "%s: a launch with %u threads a block, its registers allow %d", l->name, threads,
                       a.maxThreadsPerBlock);
    if (l->shared_bytes <= (unsigned)a.maxDynamicSharedSizeBytes) return RP_OK;
    if (cudaFuncSetAttribute(l->function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)l->shared_bytes) ==
        cudaSuccess)
        return RP_OK;
    (void)cudaGetLastError();
    return rp_fail(RP_E_ARG, "%s: a launch with %u bytes of dynamic shared memory a block, more than the device has",
                   l->name, l->shared_bytes);
}

RpStatus rp_cuda_sources_open(CudaExecutor *c) {
    const ExecPlan *plan = c->base.plan;
    RpKernelCtx     ctx  = rp_cuda_ctx(c, check_limits, c->device);
    c->base.info.kernels = c->kernels_text;
    RP_TRY(open_missing(c));
    for (int i = 0; i < plan->n_steps; i++) {
        ctx.op = plan->steps[i].op;
        if (rp_op_info(ctx.op)->source != NULL) RP_TRY(rp_cuda_source_launch(&plan->steps[i].args, &ctx));
    }
    return RP_OK;
}

/* ---- compiling without a device ---- */

RpStatus rp_cuda_source_compile_sized(const RpCudaSource *source, size_t source_bytes, int major, int minor,
                                      char **log) {
    RP_NOT_NULL(source, "source");
    RP_OUT(log, "log");

    RpCudaSource s;
    RpNvrtc     *n;
    CudaTarget   target;
    CudaBinary   binary = {0};
    char         file[RP_SOURCE_FILE_BYTES];
    RP_TRY(rp_sized_in(&s, sizeof s, source, source_bytes, "RpCudaSource"));
    if (s.grid == RP_GRID_NONE && s.launch == NULL) s.grid = RP_GRID_ELEMENTS; /* compiling needs no launch rule */
    RP_TRY(rp_source_complete(&s, "source", file));
    if (major < 1 || major > 99 || minor < 0 || minor > 9)
        return rp_fail(RP_E_ARG, "%d.%d is no compute capability", major, minor);
    RP_TRY(rp_compiler_open(&n));
    RpStatus       st   = rp_nvrtc_target(n, major, minor, &target);
    const CudaCode code = code_of("source", &s);
    if (st == RP_OK) st = rp_nvrtc_compile(n, &code, target, &binary, log);
    rp_cuda_binary_free(&binary);
    rp_nvrtc_close(n);
    return st;
}
