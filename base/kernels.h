/* kernels.h - the kernels of every op, and the memory that they need. reprise/kernel.h describes one call.
 *
 *   RpStatus st = rp_cpu_kernel(op)(&args, &ctx);        // the CPU kernel, once per worker and phase
 *
 * The functions are declared for each row of ops.h and private.h that is no view. */
#ifndef BASE_KERNELS_H
#define BASE_KERNELS_H

#include "reprise/cpu.h"
#include "reprise/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OP_VIEW(...)
#define OP(number, ID, name, required, sources, Params, fields, flags) RpOpKernel rp_cpu_##name;
RP_OPS(OP, OP_VIEW)
#undef OP

/* Calls and memory that the caller of a CPU kernel must provide. */
typedef struct CpuNeeds {
    int    phases;        /* calls per worker, with a barrier after each; at least 1 */
    size_t shared, local; /* bytes of RpKernelCtx.shared and .local; their contents last for the phases of one step */
} CpuNeeds;

/* Depends on dtypes, shapes and parameters only: the data pointers of `args` may be NULL. One phase for custom ops, and
 * for ops that do not define rp_needs_<op>. An op that needs more defines it beside its kernel. */
CpuNeeds         rp_cpu_needs(TensorOp op, const RpOpArgs *args);
typedef CpuNeeds NeedsFunction(const RpOpArgs *args);
#define OP(number, ID, name, required, sources, Params, fields, flags) NeedsFunction rp_needs_##name;
RP_OPS(OP, OP_VIEW)
#undef OP

/* The CUDA launchers. Each enqueues its kernels on ctx->stream and returns. It allocates nothing, queries nothing and
 * waits for nothing, so that it can be captured (I5). In a build without the CUDA toolkit they do not exist. */
#define OP(number, ID, name, required, sources, Params, fields, flags) RpOpKernel rp_cuda_##name;
RP_OPS(OP, OP_VIEW)
#undef OP
RpOpKernel *rp_cuda_kernel(TensorOp op); /* NULL for views and custom ops */

/* Bytes of RpKernelCtx.scratch that a launch needs; depends on shapes and on ctx->blas and ctx->tuning only. Launches
 * of one stream run one after the other, so one buffer of the largest size serves them all. 0 for ops that do not
 * define rp_cuda_<op>_scratch. An op that needs scratch memory defines it beside its launcher. */
enum { RP_SCRATCH_ZEROS = 16384 };
size_t         rp_cuda_scratch_bytes(TensorOp op, const RpOpArgs *args, const RpKernelCtx *ctx);
typedef size_t ScratchBytes(const RpOpArgs *args, const RpKernelCtx *ctx);
#define OP(number, ID, name, required, sources, Params, fields, flags) ScratchBytes rp_cuda_##name##_scratch;
RP_OPS(OP, OP_VIEW)
#undef OP
#undef OP_VIEW

/* Repacks a weight for the CUDA kernels. The blocks of a quantised tensor become planes, one per field of the block, so
 * that a lane loads 16 bytes of quants at once. Example, q5_0 with n blocks: 16 * n bytes of quants, 4 * n bytes of
 * fifth bits, 2 * n bytes of scales. The planes of each type: RP_QUANTS (base/dtypes.h). Float types are unchanged.
 *
 * `w` is a view of host memory; `out` is host memory of rp_cuda_weight_bytes(w) bytes. Between the matrices of a
 * quantised `w` there may be gaps, which planes do not have: kernels count the blocks of the tensor by its shape.
 * RP_E_UNSUPPORTED for other quantised views that are not contiguous, RP_E_DTYPE for q8_act. */
RP_NODISCARD RpStatus rp_cuda_repack(const RpTensorView *w, void *out);

/* Bytes of a weight on the device. Float types keep their gaps. */
size_t rp_cuda_weight_bytes(const RpTensorView *w);

#ifdef __cplusplus
}
#endif
#endif
