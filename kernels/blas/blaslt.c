/* cuBLASLt, opened by dlopen and never linked: the program runs on machines without it. A build whose toolkit lacks
 * the header has the stubs at the top.
 *
 *     rp_blaslt_open     dlopen, thirteen symbols, version check, cublasLtCreate
 *     rp_blaslt_prepare  per product: descriptors and one heuristic query, all before a capture begins (I9)
 *     rp_blaslt_enqueue  cublasLtMatmul with the chosen algorithm and the device's workspace
 *
 * A product that the library refuses is left to the kernels of kernels/, with the reason in rp_blaslt_reason (I10). */
#include "kernels/blas/blaslt.h"

#if defined(__has_include)
#if __has_include(<cublasLt.h>)
#define HAS_HEADER 1
#endif
#endif

#ifndef HAS_HEADER

RpStatus rp_blaslt_open(const char *path, RpBlasLt **out) {
    (void)path;
    *out = NULL;
    return rp_fail(RP_E_NOT_AVAILABLE, "cublasLt: the toolkit that this was built with lacks its header");
}
void        rp_blaslt_close(RpBlasLt *b) { (void)b; }
void        rp_blaslt_set_workspace(RpBlasLt *b, void *memory, size_t bytes) { (void)b, (void)memory, (void)bytes; }
const char *rp_blaslt_name(const RpBlasLt *b) { return (void)b, ""; }
int         rp_blaslt_products(const RpBlasLt *b) { return (void)b, 0; }
int         rp_blaslt_refused(const RpBlasLt *b) { return (void)b, 0; }
const char *rp_blaslt_reason(const RpBlasLt *b) { return (void)b, ""; }
RpStatus    rp_blaslt_prepare(RpBlasLt *b, const BlasProduct *p) { return (void)b, (void)p, RP_OK; }
BlasPlan   *rp_blaslt_find(RpBlasLt *b, const BlasProduct *p) { return (void)b, (void)p, NULL; }
RpStatus    rp_blaslt_enqueue(void *call, struct CUstream_st *stream) {
       (void)call, (void)stream;
       return rp_fail(RP_E_NOT_AVAILABLE, "cublasLt is not built in");
}

#else

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS(X)                                                                                                     \
    X(cublasLtGetVersion)                                                                                              \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)

struct BlasPlan {
    RpBlasLt              *owner;
    BlasProduct            product;
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t   algo;
    bool                   refused;
};

struct RpBlasLt {
    void *library;
#define X(name) __typeof__(&name) name;
    SYMBOLS(X)
#undef X
    cublasLtHandle_t handle;
    void            *workspace;
    size_t           workspace_bytes;
    BlasPlan       **plans; /* pointers, since a BlasCall points to its plan while the array grows */
    int              n_plans, n_refused;
    char             name[32], reason[256];
};

static const char *text_of(cublasStatus_t s) {
    switch (s) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "not initialised";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "not for this GPU";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the launch failed";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "not supported";
    default:
        return "unknown error";
    }
}

/* ---- opening ---- */

static void *open_library(const char *path) {
    if (path != NULL) return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    void                    *library = NULL;
#ifndef RP_CUDASIM /* the real library cannot run on the simulated device */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
    static const char *const names[] = {"libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                                        "/usr/local/cuda/lib64/libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                                        "libcublasLt.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
#endif
    return library;
}

static RpStatus open_blas(RpBlasLt *b, const char *path) {
    const char *missing = NULL;
    b->library          = open_library(path);
    if (b->library == NULL) {
        const char *why = dlerror();
        return rp_fail(RP_E_NOT_AVAILABLE, "cublasLt: %s", why != NULL ? why : "no library");
    }
    /* ISO C has no cast from void * to a function pointer; POSIX guarantees that the bytes are the address. */
#define X(sym)                                                                                                         \
    {                                                                                                                  \
        void *address = dlsym(b->library, #sym);                                                                       \
        if (address == NULL && missing == NULL) missing = #sym;                                                        \
        memcpy(&b->sym, &address, sizeof address);                                                                     \
    }
    SYMBOLS(X)
#undef X
    if (missing != NULL) return rp_fail(RP_E_NOT_AVAILABLE, "cublasLt: the library has no %s", missing);
    const size_t v = b->cublasLtGetVersion();
    snprintf(b->name, sizeof b->name, "cublasLt %zu.%zu.%zu", v / 10000 % 1000, v / 100 % 100, v % 100);
    if (v / 10000 != CUBLAS_VER_MAJOR)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s, but this was built with version %d", b->name, CUBLAS_VER_MAJOR);
    const cublasStatus_t s = b->cublasLtCreate(&b->handle);
    if (s == CUBLAS_STATUS_SUCCESS) return RP_OK;
    b->handle = NULL;
    return rp_fail(RP_E_CUDA, "%s cannot be used: %s (%d)", b->name, text_of(s), (int)s);
}

RpStatus rp_blaslt_open(const char *path, RpBlasLt **out) {
    RpBlasLt *b = calloc(1, sizeof *b);
    *out        = NULL;
    if (b == NULL) return rp_fail(RP_E_NOMEM, "out of memory for cublasLt");
    const RpStatus st = open_blas(b, path);
    if (st != RP_OK) {
        rp_blaslt_close(b);
        return st;
    }
    *out = b;
    return RP_OK;
}

static void release(BlasPlan *p) {
    const RpBlasLt *b = p->owner;
    if (p->y != NULL) (void)b->cublasLtMatrixLayoutDestroy(p->y);
    if (p->x != NULL) (void)b->cublasLtMatrixLayoutDestroy(p->x);
    if (p->w != NULL) (void)b->cublasLtMatrixLayoutDestroy(p->w);
    if (p->op != NULL) (void)b->cublasLtMatmulDescDestroy(p->op);
    p->op = NULL;
    p->w = p->x = p->y = NULL;
}

void rp_blaslt_close(RpBlasLt *b) {
    if (b == NULL) return;
    for (int i = 0; i < b->n_plans; i++) {
        release(b->plans[i]);
        free(b->plans[i]);
    }
    free(b->plans);
    if (b->handle != NULL) (void)b->cublasLtDestroy(b->handle);
    if (b->library != NULL) (void)dlclose(b->library);
    free(b);
}

void rp_blaslt_set_workspace(RpBlasLt *b, void *memory, size_t bytes) {
    b->workspace       = memory;
    b->workspace_bytes = bytes;
}

const char *rp_blaslt_name(const RpBlasLt *b) { return b->name; }
int         rp_blaslt_products(const RpBlasLt *b) { return b->n_plans; }
int         rp_blaslt_refused(const RpBlasLt *b) { return b->n_refused; }
const char *rp_blaslt_reason(const RpBlasLt *b) { return b->reason; }

/* ---- products ---- */

/* Remembers a product that the library cannot compute, counted once, and why. */
static void refuse(BlasPlan *p, const char *call, cublasStatus_t s) {
    RpBlasLt *b = p->owner;
    if (!p->refused) b->n_refused++;
    p->refused = true;
    snprintf(b->reason, sizeof b->reason, "%s of %s [%lld,%lld] and %lld columns: %s (%d)", call,
             rp_dtype_name(p->product.type), (long long)p->product.inner, (long long)p->product.rows,
             (long long)p->product.columns, text_of(s), (int)s);
}

/* Field by field, since the struct may have padding. */
static bool same(const BlasProduct *a, const BlasProduct *b) {
    return a->rows == b->rows && a->columns == b->columns && a->inner == b->inner && a->ld_w == b->ld_w &&
           a->ld_x == b->ld_x && a->ld_y == b->ld_y && a->type == b->type && a->align_w == b->align_w &&
           a->align_x == b->align_x && a->align_y == b->align_y && a->w_across == b->w_across &&
           a->x_across == b->x_across;
}

static BlasPlan *lookup(const RpBlasLt *b, const BlasProduct *p) {
    for (int i = 0; i < b->n_plans; i++)
        if (same(&b->plans[i]->product, p)) return b->plans[i];
    return NULL;
}

BlasPlan *rp_blaslt_find(RpBlasLt *b, const BlasProduct *p) {
    BlasPlan *found = lookup(b, p);
    return found != NULL && !found->refused ? found : NULL;
}

/* The library's matrices are column-major: our w, rows of k elements, is its [k, m] and is transposed; x is [k, n]
 * and y [m, n] as they are:  y = w^T x. Across, w is its [m, k] as it is, and x its [n, k], transposed. */
static cublasStatus_t describe(BlasPlan *p) {
    const RpBlasLt         *b         = p->owner;
    const BlasProduct      *q         = &p->product;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    const cudaDataType_t    type      = q->type == RP_F16 ? CUDA_R_16F : q->type == RP_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    /* Pedantic: f32 products stay f32 even if the environment allows the library TF32. */
    const cublasComputeType_t compute = q->type == RP_F32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
    const uint64_t            m = (uint64_t)q->rows, n = (uint64_t)q->columns, k = (uint64_t)q->inner;
    cublasStatus_t            s = b->cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS && !q->w_across)
        s = b->cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    if (s == CUBLAS_STATUS_SUCCESS && q->x_across)
        s = b->cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &transpose, sizeof transpose);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = b->cublasLtMatrixLayoutCreate(&p->w, type, q->w_across ? m : k, q->w_across ? k : m, q->ld_w);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = b->cublasLtMatrixLayoutCreate(&p->x, type, q->x_across ? n : k, q->x_across ? k : n, q->ld_x);
    if (s == CUBLAS_STATUS_SUCCESS) s = b->cublasLtMatrixLayoutCreate(&p->y, CUDA_R_32F, m, n, q->ld_y);
    return s;
}

/* Limits of the heuristic: the workspace, and the alignments of the addresses, for which its default is 256 bytes. */
static cublasStatus_t prefer(const BlasPlan *p, cublasLtMatmulPreference_t preference) {
    const RpBlasLt *b = p->owner;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void                          *value;
        size_t                               bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,   &b->workspace_bytes, sizeof b->workspace_bytes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->product.align_w, sizeof p->product.align_w},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->product.align_x, sizeof p->product.align_x},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->product.align_y, sizeof p->product.align_y},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->product.align_y, sizeof p->product.align_y}
    };
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0] && s == CUBLAS_STATUS_SUCCESS; i++)
        s = b->cublasLtMatmulPreferenceSetAttribute(preference, attributes[i].attribute, attributes[i].value,
                                                    attributes[i].bytes);
    return s;
}

/* Asks for the best algorithm; one beyond the workspace counts as none. */
static cublasStatus_t choose(BlasPlan *p) {
    const RpBlasLt                 *b          = p->owner;
    cublasLtMatmulPreference_t      preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int                             n = 0;
    cublasStatus_t                  s = b->cublasLtMatmulPreferenceCreate(&preference);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    s = prefer(p, preference);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = b->cublasLtMatmulAlgoGetHeuristic(b->handle, p->op, p->w, p->x, p->y, p->y, preference, 1, &best, &n);
    (void)b->cublasLtMatmulPreferenceDestroy(preference);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    if (n < 1 || best.state != CUBLAS_STATUS_SUCCESS || best.workspaceSize > b->workspace_bytes)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    p->algo = best.algo;
    return CUBLAS_STATUS_SUCCESS;
}

RpStatus rp_blaslt_prepare(RpBlasLt *b, const BlasProduct *product) {
    if (lookup(b, product) != NULL) return RP_OK;
    BlasPlan **grown = realloc(b->plans, (size_t)(b->n_plans + 1) * sizeof(BlasPlan *));
    if (grown != NULL) b->plans = grown;
    BlasPlan *p = calloc(1, sizeof *p);
    if (grown == NULL || p == NULL) {
        free(p);
        return rp_fail(RP_E_NOMEM, "out of memory for a product");
    }
    b->plans[b->n_plans++] = p;
    p->owner               = b;
    p->product             = *product;
    cublasStatus_t s       = describe(p);
    if (s != CUBLAS_STATUS_SUCCESS)
        refuse(p, "description", s);
    else if ((s = choose(p)) != CUBLAS_STATUS_SUCCESS)
        refuse(p, "choice", s);
    if (p->refused) release(p);
    return RP_OK;
}

RpStatus rp_blaslt_enqueue(void *arg, struct CUstream_st *stream) {
    const BlasCall      *call = arg;
    BlasPlan            *p    = call->plan;
    RpBlasLt            *b    = p->owner;
    const cublasStatus_t s =
        b->cublasLtMatmul(b->handle, p->op, &call->alpha, call->w, p->w, call->x, p->x, &call->beta, call->y, p->y,
                          call->y, p->y, &p->algo, b->workspace, b->workspace_bytes, stream);
    if (s == CUBLAS_STATUS_SUCCESS) return RP_OK;
    refuse(p, "product", s);
    return rp_fail(RP_E_CUDA, "%s: %s", b->name, b->reason);
}

#endif
