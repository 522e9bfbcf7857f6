/* blas.h - products with many columns by cuBLASLt, which is opened when it is first wanted and never linked. What the
 * library is asked before it computes, it is asked when an executor opens; a product that it refuses is left to the
 * kernels of the library's own.
 *
 *   BlasLt *b;
 *   RP_TRY(rp_blaslt_open(NULL, &b));
 *   rp_blaslt_set_workspace(b, memory, bytes);
 *   if (rp_cuda_blas_wants(op, args)) RP_TRY(rp_cuda_blas_prepare(b, args, &taken));
 *   KernelCtx ctx = {.blas = b, ...};
 */
#ifndef REPRISE_BLAS_H
#define REPRISE_BLAS_H

#include "reprise/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RP_BLAS_WORKSPACE   = 32 << 20, /* bytes, of device memory */
    RP_BLAS_MIN_COLUMNS = 32
};

/* For the current device. `path` is a file, or NULL: the library of the toolkit's version, where the system finds it.
 * RP_E_NOT_AVAILABLE says what is missing: the file, a symbol, the version; RP_E_CUDA where the library cannot be used
 * with the device. */
RP_NODISCARD RpStatus rp_blaslt_open(const char *path, BlasLt **out);
void                  rp_blaslt_close(BlasLt *b);

/* Device memory that it borrows, before anything is prepared. Launches that use it go to one stream. */
void rp_blaslt_set_workspace(BlasLt *b, void *memory, size_t bytes);

const char *rp_blaslt_name(const BlasLt *b);    /* "cublasLt 13.1.0" */
int         rp_blaslt_refused(const BlasLt *b); /* products that it has refused */
const char *rp_blaslt_reason(const BlasLt *b);  /* the latest of them and why, "" for none */

/* Whether a product has the columns and the types for it. */
bool rp_cuda_blas_wants(TensorOp op, const OpArgs *args);

/* Finds out how the library would compute it, with these addresses: once for each shape. *taken is false, and the
 * status RP_OK, where the library refuses. */
RP_NODISCARD RpStatus rp_cuda_blas_prepare(BlasLt *b, const OpArgs *args, bool *taken);

#ifdef __cplusplus
}
#endif
#endif
