/* gemm by cuBLASLt (REPRISE_BLAS), one opened library for each device. It is found at the first product that wants it,
 * and asked for an algorithm once for each shape and alignment, without a workspace. One thread at a time uses it. */
#include "nn/cuda/blas.h"

#include "base/blas.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { MAX_DEVICES = 64, MAX_SHAPES = 1024 }; /* further shapes are multiplied by the kernels of this library */

/* The library of one device. */
typedef struct Room {
    bool      tried; /* the search is over; it is not repeated */
    RpBlasLt *blas;  /* NULL: not found or switched off */
} Room;

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;
static Room            rooms[MAX_DEVICES]; /* guarded by in_use */

/* Searches the library at the first call. If REPRISE_BLAS is a path, it must open, and each call fails until it does.
 * With `auto` a failure only means that the kernels of this library are used. */
static RpStatus open_once(Room *r) {
    const char *path;
    if (r->tried) return RP_OK;
    RP_TRY(rp_cuda_wanted_library(RP_OPT_BLAS, &path));
    if (path != NULL) {
        const bool     named = path[0] != '\0';
        const RpStatus st    = rp_blaslt_open(named ? path : NULL, &r->blas);
        (void)cudaGetLastError();
        if (st != RP_OK && named) return st;
    }
    r->tried = true;
    return RP_OK;
}

/* The caller holds in_use. The launcher uses ctx->blas for shapes that were prepared, and its own kernel for others. */
static RpStatus run(Room *r, const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(open_once(r));
    if (r->blas != NULL && rp_blaslt_products(r->blas) < MAX_SHAPES) RP_TRY(rp_cuda_gemm_prepare(r->blas, args));
    ctx->blas = r->blas;
    return rp_cuda_kernel(RP_OP_GEMM)(args, ctx);
}

/* A product that cuBLASLt would not compute takes no lock. */
RpStatus rp_nn_run_gemm(int device, const RpOpArgs *args, RpKernelCtx *ctx) {
    if (device < 0 || device >= MAX_DEVICES || !rp_cuda_gemm_wants(args)) return rp_cuda_kernel(RP_OP_GEMM)(args, ctx);
    (void)pthread_mutex_lock(&in_use);
    const RpStatus st = run(&rooms[device], args, ctx);
    (void)pthread_mutex_unlock(&in_use);
    return st;
}
