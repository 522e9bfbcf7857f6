/* kernel.h - the ABI between a plan and one kernel; the same for every backend.
 *
 * A kernel allocates nothing and never blocks, and its division of work depends on shapes only; what changes from token
 * to token arrives in a source tensor (I4, I5). A CPU kernel is called by every worker with the same arguments and does
 * the share `ith` of `nth`; the bits of its result do not depend on `nth` (I8).
 *
 *   RpStatus rp_cpu_silu(const OpArgs *args, KernelCtx *ctx) {
 *       for (int64_t r = ctx->ith; r < rp_view_rows(&args->dst); r += ctx->nth) { ... }
 *       return RP_OK;
 *   }
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

typedef struct OpArgs {
    TensorView      dst;
    TensorView      src[RP_MAX_SRC]; /* an absent optional source has data NULL and ne 0 */
    const OpParams *params;
} OpArgs;

enum { RP_LAUNCH_ADDRESSES = 3 };

/* What a CUDA launcher would launch: a kernel, or the work of another library, which launches by itself. */
typedef struct KernelLaunch {
    const char *name; /* as the source has it */
    const void *function;
    unsigned    grid[3], block[3], shared_bytes;
    void      **arguments; /* valid during the call */
    bool        any_type;  /* reads no weights: one function serves steps with weights of any type */
    /* In place of the function: puts the work on the stream. Its nodes keep these addresses. */
    RpStatus (*enqueue)(void *arg, struct CUstream_st *stream);
    void       *arg; /* valid during the call */
    const void *addresses[RP_LAUNCH_ADDRESSES];
    /* The kernel executes griddepcontrol.wait before it touches what others write, so that it may be launched while the one
     * before it still runs (programmatic dependent launch). */
    bool waits;
} KernelLaunch;

typedef struct BlasLt BlasLt; /* blas.h */

typedef struct KernelCtx {
    struct CUstream_st *stream; /* CUDA launchers */
    void    *scratch; /* CUDA: device memory of the stream's own; its first RP_SCRATCH_ZEROS bytes are zero
                                          between launches */
    size_t   scratch_bytes; /* at least rp_cuda_scratch_bytes of the op */
    BlasLt  *blas;          /* CUDA: has the products of many columns that it was prepared for, or NULL */
    bool     overlap;       /* CUDA launchers without a hook: launches whose kernels wait may overlap */
    unsigned constant;      /* CUDA launchers: bit s: source s is a weight, which no kernel writes */
    int      ith, nth;      /* CPU kernels: this worker, of that many */
    int      phase;         /* CPU kernels of several phases: all workers have ended the one before */
    void    *shared, *local; /* CPU kernels: memory of all workers, and of this one (rp_cpu_needs) */
    /* CUDA launchers: called in place of each launch, to record it, to give its node new arguments, or only to look. */
    RpStatus (*launch)(void *user, const KernelLaunch *launch);
    void *user;
} KernelCtx;

typedef RpStatus OpKernel(const OpArgs *args, KernelCtx *ctx);

#define OP(ID, name, min_src, max_src, Params, shape, flags) OpKernel rp_cpu_##name;
RP_KERNEL_OPS(OP)
#undef OP

/* What a CPU kernel wants of its caller, by shapes only. */
typedef struct CpuNeeds {
    int    phases; /* how often each worker calls it, with a barrier between; at least 1 */
    size_t shared,
        local; /* bytes of KernelCtx.shared and KernelCtx.local; what is in them lasts for the phases of one call */
} CpuNeeds;

CpuNeeds rp_cpu_needs(TensorOp op, const OpArgs *args);

/* Indexed by TensorOp; NULL for view ops, which run nothing. */
extern OpKernel *const rp_cpu_kernels[RP_OP_COUNT];

/* The CUDA launchers: each enqueues its kernel on ctx->stream and returns; it allocates nothing, asks the device nothing
 * and waits for nothing, so that it can be captured (I5). */
#define OP(ID, name, min_src, max_src, Params, shape, flags) OpKernel rp_cuda_##name;
RP_KERNEL_OPS(OP)
#undef OP
extern OpKernel *const rp_cuda_kernels[RP_OP_COUNT];

/* Scratch memory that a launch takes, by shapes only; launches of one stream run one after the other, so that one buffer
 * of the largest size serves them all. `blas` as in KernelCtx. */
enum { RP_SCRATCH_ZEROS = 16384 };
size_t rp_cuda_scratch_bytes(TensorOp op, const OpArgs *args, const BlasLt *blas);

/* A weight as the CUDA kernels take it: a quantised one in planes over the whole tensor, one a field of its block, the
 * largest field first. q4_0: quants 16 bytes a block, d 2; q4_1: quants 16, d and m 4; q5_0: quants 16, fifth bits 4,
 * d 2; q5_1: quants 16, fifth bits 4, d and m 4; q8_0: quants 32, d 2; q6_k: low bits 128, high bits 64, scales 16, d 2;
 * mxfp4: quants 16, exponent 1. q4_k and q5_k stay in whole blocks, and float types as they are. `w` is a view of host
 * memory, `out` takes rp_view_extent_bytes(w) bytes. RP_E_UNSUPPORTED for quantised weights that are not packed: a kernel
 * counts the blocks of the tensor by its view, which must be the whole. */
RP_NODISCARD RpStatus rp_cuda_repack(const TensorView *w, void *out);

static inline bool rp_has_src(const OpArgs *args, int i) { return args->src[i].ne[0] > 0; }

/* The instruction sets that the CPU kernels have variants for, those of one architecture least first. */
typedef enum CpuIsa {
    RP_ISA_PLAIN,
    RP_ISA_AVX2,
    RP_ISA_AVX512_VNNI,
    RP_ISA_NEON,
    RP_ISA_NEON_DOTPROD,
    RP_ISA_COUNT
} CpuIsa;

/* The variant in use: the best that this CPU has, or what REPRISE_ISA asks for. */
CpuIsa rp_cpu_isa(void);

/* RP_E_ARG where REPRISE_ISA names no variant, RP_E_NOT_AVAILABLE where this CPU or build lacks it. Executors ask
 * before they open. */
RP_NODISCARD RpStatus rp_cpu_isa_check(void);

/* "plain", "avx2", "avx512-vnni", "neon", "neon-dotprod". */
const char *rp_cpu_isa_name(CpuIsa isa);

/* Another variant from now on, for tests and measurements; not while an executor runs.
 * RP_E_NOT_AVAILABLE where this CPU or build lacks it. */
RP_NODISCARD RpStatus rp_cpu_isa_set(CpuIsa isa);

/* Software prefetch of weights by the CPU kernels that multiply them: into which cache, and how far ahead. It changes the
 * speed, never a result. */
typedef enum CpuPrefetchHint { RP_PREFETCH_NONE, RP_PREFETCH_L1, RP_PREFETCH_L2 } CpuPrefetchHint;

typedef struct CpuPrefetch {
    CpuPrefetchHint hint;
    int32_t         distance; /* bytes, a multiple of 64; 0 for RP_PREFETCH_NONE */
} CpuPrefetch;

/* What all executors of this process use. Until the first one is opened that is RP_PREFETCH_DEFAULT. */
#define RP_PREFETCH_DEFAULT ((CpuPrefetch){RP_PREFETCH_L2, 4096})
CpuPrefetch rp_cpu_prefetch(void);

/* Another one from now on, also while executors run. RP_E_ARG unless the distance is a multiple of 64 below 1 MiB. */
RP_NODISCARD RpStatus rp_cpu_prefetch_set(CpuPrefetch prefetch);

/* "none", "l1:4096", ...; out has room for 16 bytes. Returns out. */
const char *rp_cpu_prefetch_text(CpuPrefetch prefetch, char *out);

/* What REPRISE_PREFETCH says; *measure is true for auto. RP_E_ARG where it is not understood. */
RP_NODISCARD RpStatus rp_cpu_prefetch_option(CpuPrefetch *out, bool *measure);

#ifdef __cplusplus
}
#endif
#endif
