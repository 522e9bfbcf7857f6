/* kernel.h - the ABI between a plan and one kernel, the same for every backend (I7). A CPU kernel computes its part of
 * the result at once; a CUDA launcher only enqueues its kernel on a stream.
 *
 *   RpStatus relu(const OpArgs *args, KernelCtx *ctx) {              // CPU: every worker makes this call
 *       for (int64_t r = ctx->ith; r < rp_view_rows(&args->dst); r += ctx->nth) {
 *           const float *x = rp_view_row(&args->src[0], r);
 *           float       *y = rp_view_row(&args->dst, r);
 *           for (int64_t i = 0; i < args->dst.ne[0]; i++) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
 *       }
 *       return RP_OK;
 *   }
 *
 * A kernel allocates nothing, never blocks and divides its work by shapes only (I5). Whatever changes from token to
 * token arrives in a source tensor (I4). Every worker calls a CPU kernel with the same arguments; worker `ith` of `nth`
 * computes its part, and the bits of the result do not depend on `nth` (I8).
 */
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include "reprise/ops.h"
#include "reprise/options.h"
#include "reprise/status.h"
#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* what cudaStream_t points to */

/* All views borrow their memory: device memory for a CUDA launcher, host memory for a CPU kernel. */
typedef struct OpArgs {
    TensorView      dst;
    TensorView      src[RP_MAX_SRC]; /* an absent optional source has data NULL and ne 0 */
    const OpParams *params;
} OpArgs;

enum { RP_LAUNCH_ADDRESSES = 3 }; /* operands of a library call: w, x, y */

/* One launch of a CUDA launcher: of a kernel, or of another library, which launches by itself. */
typedef struct KernelLaunch {
    const char *name;     /* of the kernel in its source; static storage */
    const void *function; /* NULL with `enqueue` */
    unsigned    grid[3], block[3], shared_bytes;
    void      **arguments; /* valid during the call */
    bool        any_type;  /* reads no weights, so that one function may serve steps with weights of several types */
    /* Or NULL. Another library: this call puts its work on the stream. Captured nodes keep these addresses. */
    RpStatus (*enqueue)(void *arg, struct CUstream_st *stream);
    void       *arg; /* valid during the call */
    const void *addresses[RP_LAUNCH_ADDRESSES];
    /* Programmatic dependent launch is safe: the kernel executes griddepcontrol.wait before it touches memory that
     * earlier kernels write, so it may start while they still run. */
    bool waits;
} KernelLaunch;

typedef struct BlasLt BlasLt; /* blas.h */

/* The surroundings of one call. CUDA launchers use stream to constant, launch and user; CPU kernels ith to local. */
typedef struct KernelCtx {
    struct CUstream_st *stream;
    void    *scratch;        /* device memory of the stream; the first RP_SCRATCH_ZEROS bytes are 0 between launches */
    size_t   scratch_bytes;  /* at least rp_cuda_scratch_bytes of the op */
    BlasLt  *blas;           /* or NULL: computes the products with many columns that it was prepared for */
    bool     overlap;        /* use programmatic dependent launch for kernels that wait; without `launch` only */
    unsigned constant;       /* bit s: source s is a weight, which no kernel writes */
    int      ith, nth;       /* index of this worker, and the number of workers */
    int      phase;          /* 0 .. CpuNeeds.phases - 1; all workers have finished the phase before */
    void    *shared, *local; /* memory of all workers together, and of this worker alone (rp_cpu_needs) */
    /* Or NULL. CUDA launchers call it instead of launching: to record the launch, to repoint a captured node to new
     * addresses, or only to look at it. */
    RpStatus (*launch)(void *user, const KernelLaunch *launch);
    void *user;
} KernelCtx;

/* Validates types, shapes and parameters (check.h), then does its work. Errors name the op and both shapes. */
typedef RpStatus OpKernel(const OpArgs *args, KernelCtx *ctx);

#define OP(ID, name, min_src, max_src, Params, shape, flags) OpKernel rp_cpu_##name;
RP_KERNEL_OPS(OP)
#undef OP

/* Calls and memory that the caller of a CPU kernel must provide. */
typedef struct CpuNeeds {
    int    phases;        /* calls per worker, with a barrier after each; at least 1 */
    size_t shared, local; /* bytes of KernelCtx.shared and .local; their contents last for the phases of one step */
} CpuNeeds;

/* Depends on dtypes, shapes and parameters only: the data pointers of `args` may be NULL. One phase for custom ops. */
CpuNeeds rp_cpu_needs(TensorOp op, const OpArgs *args);

/* Indexed by TensorOp; NULL for views, which compute nothing. */
extern OpKernel *const rp_cpu_kernels[RP_OP_COUNT];

/* The CUDA launchers. Each enqueues its kernels on ctx->stream and returns. It allocates nothing, queries nothing and
 * waits for nothing, so that it can be captured (I5). In a build without the CUDA toolkit they do not exist. */
#define OP(ID, name, min_src, max_src, Params, shape, flags) OpKernel rp_cuda_##name;
RP_KERNEL_OPS(OP)
#undef OP
extern OpKernel *const rp_cuda_kernels[RP_OP_COUNT];

/* Bytes of KernelCtx.scratch that a launch needs; depends on shapes only. Launches of one stream run one after the
 * other, so one buffer of the largest size serves them all. `blas` as in KernelCtx. */
enum { RP_SCRATCH_ZEROS = 16384 };
size_t rp_cuda_scratch_bytes(TensorOp op, const OpArgs *args, const BlasLt *blas);

/* Repacks a weight for the CUDA kernels. The blocks of a quantised tensor become planes, one per field of the block, so
 * that a lane loads 16 bytes of quants at once. For a tensor of n blocks (sizes in bytes per block):
 *
 *     q4_0: quants[n] 16, d[n] 2                       q4_1: quants[n] 16, d and m[n] 4
 *     q5_0: quants[n] 16, fifth bits[n] 4, d[n] 2      q5_1: quants[n] 16, fifth bits[n] 4, d and m[n] 4
 *     q8_0: quants[n] 32, d[n] 2                       q6_k: low bits[n] 128, high bits[n] 64, scales[n] 16, d[n] 2
 *     mxfp4: quants[n] 16, exponent[n] 1               q4_k, q5_k: whole blocks; float types: unchanged
 *
 * `w` is a view of host memory; `out` is host memory of rp_view_extent_bytes(w) bytes. RP_E_UNSUPPORTED for a quantised
 * `w` that is not contiguous: kernels count the blocks of the tensor by its view. RP_E_DTYPE for q8_act. */
RP_NODISCARD RpStatus rp_cuda_repack(const TensorView *w, void *out);

/* Whether the optional source i is present. */
static inline bool rp_has_src(const OpArgs *args, int i) { return args->src[i].ne[0] > 0; }

/* Instruction sets that the CPU kernels have variants for; those of one architecture in rising order. All variants give
 * the same bits (I8). */
typedef enum CpuIsa {
    RP_ISA_PLAIN,
    RP_ISA_AVX2,
    RP_ISA_AVX512_VNNI,
    RP_ISA_NEON,
    RP_ISA_NEON_DOTPROD,
    RP_ISA_COUNT
} CpuIsa;

/* The variant in use: the best that this CPU has, or the one that REPRISE_ISA names. */
CpuIsa rp_cpu_isa(void);

/* Checks REPRISE_ISA; rp_executor_open calls it. RP_E_ARG if it names no variant, RP_E_NOT_AVAILABLE if this CPU or
 * build lacks it. */
RP_NODISCARD RpStatus rp_cpu_isa_check(void);

/* "plain", "avx2", "avx512-vnni", "neon", "neon-dotprod"; "?" for any other number. Static storage. */
const char *rp_cpu_isa_name(CpuIsa isa);

/* Switches the variant of the whole process, for tests and measurements; not while an executor runs.
 * RP_E_NOT_AVAILABLE if this CPU or build lacks it, RP_E_ARG for a number that is no variant. */
RP_NODISCARD RpStatus rp_cpu_isa_set(CpuIsa isa);

/* Software prefetch of weights in the CPU kernels of products: the prefetch hint (into which cache) and the prefetch
 * distance (how far ahead). It changes the speed, never a result. */
typedef enum CpuPrefetchHint { RP_PREFETCH_NONE, RP_PREFETCH_L1, RP_PREFETCH_L2 } CpuPrefetchHint;

typedef struct CpuPrefetch {
    CpuPrefetchHint hint;
    int32_t         distance; /* bytes, a multiple of 64; 0 for RP_PREFETCH_NONE */
} CpuPrefetch;

/* The setting that all executors of this process use; RP_PREFETCH_DEFAULT until the first one is opened. */
#define RP_PREFETCH_DEFAULT ((CpuPrefetch){RP_PREFETCH_L2, 4096})
CpuPrefetch rp_cpu_prefetch(void);

/* Changes the setting, also while executors run. RP_E_ARG unless the distance is a multiple of 64 below 1 MiB. */
RP_NODISCARD RpStatus rp_cpu_prefetch_set(CpuPrefetch prefetch);

/* Writes "none", "l1:4096", ... to `out`, which has room for 16 bytes, and returns `out`. */
const char *rp_cpu_prefetch_text(CpuPrefetch prefetch, char *out);

/* Parses REPRISE_PREFETCH. *measure is true for auto: the setting is to be measured, and *out is the default. RP_E_ARG
 * for a value that is not understood. */
RP_NODISCARD RpStatus rp_cpu_prefetch_option(CpuPrefetch *out, bool *measure);

#ifdef __cplusplus
}
#endif
#endif
