/* blas.h - matrix products with many columns by cuBLASLt, which is loaded with dlopen and never linked. All its setup
 * calls are made when an executor opens; products that it refuses are computed by Reprise's own kernels.
 *
 *   RpBlasLt *b;
 *   RP_TRY(rp_blaslt_open(NULL, &b));
 *   rp_blaslt_set_workspace(b, memory, RP_BLAS_WORKSPACE);
 *   if (rp_cuda_blas_wants(op, args, ctx)) RP_TRY(rp_cuda_blas_prepare(b, args, &taken));
 *   RpKernelCtx ctx = {.stream = stream, .blas = b};
 */
#ifndef BASE_BLAS_H
#define BASE_BLAS_H

#include "base/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RP_BLAS_WORKSPACE   = 32 << 20, /* bytes of device memory */
    RP_BLAS_MIN_COLUMNS = 32        /* products with fewer columns stay with Reprise's own kernels */
};

/* Opens the library for the current device. `path` is a file; NULL: the version of the toolkit that this was built
 * with, if the system has it. The caller closes *out; on failure it is NULL. RP_E_NOT_AVAILABLE says what is missing
 * (file, symbol, version); RP_E_CUDA if the library cannot use the device; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_blaslt_open(const char *path, RpBlasLt **out);
void                  rp_blaslt_close(RpBlasLt *b); /* NULL is allowed */

/* The value of an option that selects a library: *path is NULL for off, "" for auto, or a path. RP_E_ARG for others. */
RP_NODISCARD RpStatus rp_cuda_wanted_library(RpOption option, const char **path);

/* Lends it device memory until rp_blaslt_close. Call it before rp_cuda_blas_prepare. All products then share this
 * memory, so they must be launched on one stream. */
void rp_blaslt_set_workspace(RpBlasLt *b, void *memory, size_t bytes);

/* Texts are owned by `b`. */
const char *rp_blaslt_name(const RpBlasLt *b);     /* "cublasLt 13.1.0" */
int         rp_blaslt_products(const RpBlasLt *b); /* number of products that were prepared */
int         rp_blaslt_refused(const RpBlasLt *b);  /* number of products that it refused */
const char *rp_blaslt_reason(const RpBlasLt *b);   /* the latest of them and why; "" for none */

/* Whether this step is a product that the library may compute: mul_mat of a supported type without positions, one
 * weight matrix, and RP_BLAS_MIN_COLUMNS to 65535 columns; q8_act columns from RpCudaTuning.blas_columns on.
 * ctx->tuning is read, and no other member of ctx. */
bool rp_cuda_blas_wants(TensorOp op, const RpOpArgs *args, const RpKernelCtx *ctx);

/* Lets the library choose an algorithm for this product, once per shape, type and alignment of the addresses. *taken is
 * false, with RP_OK, if it refuses. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_cuda_blas_prepare(RpBlasLt *b, const RpOpArgs *args, bool *taken);

/* The same for op gemm, which no executor prepares: one product (batch 1) of at least RP_BLAS_MIN_COLUMNS rows, columns
 * and terms, whose c is the result itself or is not read. */
bool                  rp_cuda_gemm_wants(const RpOpArgs *args);
RP_NODISCARD RpStatus rp_cuda_gemm_prepare(RpBlasLt *b, const RpOpArgs *args);

#ifdef __cplusplus
}
#endif
#endif
