/* cuBLASLt's thirteen symbols on the simulated device: D = alpha A B + beta D with f32 results, one thread a column.
 *
 * As strict as the library: a product must come with the algorithm that the heuristic chose for its shape, with
 * addresses as aligned as promised, and with a workspace if the algorithm needs one. Products with k >= 256
 * write to the workspace first and are copied from there by a second kernel, like split-K. */
#include "tests/sim/executor/fake_cublaslt.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>

#define RP_KERNEL(...) sim_kernel(__VA_ARGS__, #__VA_ARGS__)

namespace {

FakeStats stats;
char      setting[64];
int       calls_left;

struct Desc {
    cublasComputeType_t compute;
    bool                transposed[2]; /* A, B */
};
struct Layout { /* column-major: element (r, c) at r + ld * c */
    cudaDataType type;
    uint64_t     rows, cols;
    int64_t      ld;
};
struct Preference {
    size_t   workspace;
    uint32_t align[4];
};
/* Contents of an algorithm's opaque words: the shape and alignment that it was chosen for. */
struct Choice {
    uint64_t m, n, k;
    uint32_t align[4];
    uint32_t tag, via_workspace;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t), "room");
enum { TAG = 0x6c74 };

/* Operands of both kernels; m rows of results, k elements of a dot product. Strides in elements: of a along m and k, of
 * b along t and k. */
struct FakeArgs {
    const void  *a, *b;
    float       *d;
    cudaDataType type;
    int64_t      m, k, a_m, a_k, b_t, b_k, ldd;
    float        alpha, beta;
};

/* Whether the environment asks for this failure now; counts products down for "matmul:N". */
bool is_set(const char *what) {
    const char *now = getenv(FAKE_VARIABLE);
    if (now == nullptr) now = "";
    if (strcmp(now, setting) != 0) {
        snprintf(setting, sizeof setting, "%s", now);
        calls_left = strncmp(now, "matmul:", 7) == 0 ? atoi(now + 7) : 0;
    }
    if (strcmp(now, what) == 0) return true;
    return strcmp(what, "matmul") == 0 && strncmp(now, "matmul:", 7) == 0 && --calls_left == 0;
}

/* Handles are heap objects, counted so that tests find leaks. */
template <class T, class H> cublasStatus_t new_handle(H *out, const T &value) {
    T *p = (T *)calloc(1, sizeof *p);
    *p   = value;
    *out = (H)p;
    stats.live++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t free_handle(void *p) {
    if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    free(p);
    stats.live--;
    return CUBLAS_STATUS_SUCCESS;
}

float element(const void *p, cudaDataType type, int64_t i) {
    if (type == CUDA_R_32F) return ((const float *)p)[i];
    return type == CUDA_R_16F ? __half2float(((const __half *)p)[i]) : __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

/* d[t][m] = sum over k of a[m][k] b[t][k]; a block of one thread per column t. */
void fake_product(FakeArgs j) {
    const int64_t t = blockIdx.x;
    for (int64_t m = 0; m < j.m; m++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < j.k; k++)
            sum = fmaf(element(j.a, j.type, m * j.a_m + k * j.a_k), element(j.b, j.type, t * j.b_t + k * j.b_k), sum);
        j.d[t * j.ldd + m] = j.alpha * sum + (j.beta != 0.0f ? j.beta * j.d[t * j.ldd + m] : 0.0f);
    }
}
/* Workspace a[t][m] and beta d[t][m] to d[t][m]. */
void fake_collect(FakeArgs j) {
    for (int64_t m = 0; m < j.m; m++)
        j.d[blockIdx.x * j.ldd + m] =
            ((const float *)j.a)[blockIdx.x * j.m + m] + (j.beta != 0.0f ? j.beta * j.d[blockIdx.x * j.ldd + m] : 0.0f);
}

cudaError_t launch(const void *kernel, FakeArgs args, uint64_t n, cudaStream_t stream) {
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)n), c.blockDim = dim3(1), c.stream = stream;
    void *arguments[] = {&args, nullptr};
    return cudaLaunchKernelExC(&c, kernel, arguments);
}

/* Rows and columns of an operand as it is multiplied. */
uint64_t rows_of(const Layout *l, bool transposed) { return transposed ? l->cols : l->rows; }
uint64_t columns_of(const Layout *l, bool transposed) { return transposed ? l->rows : l->cols; }

bool aligned(const void *p, uint32_t to) { return to > 0 && (uintptr_t)p % to == 0; }

} // namespace

extern "C" {
FakeStats fake_stats(void) { return stats; }

size_t cublasLtGetVersion(void) { return is_set("version") ? 10000 : CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
    return is_set("create") ? CUBLAS_STATUS_NOT_INITIALIZED : new_handle(h, 1);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return free_handle(h); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale) {
    if (is_set("describe") || scale != CUDA_R_32F) return CUBLAS_STATUS_ALLOC_FAILED;
    return new_handle(d, Desc{
                             compute, {false, false}
    });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return free_handle(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *v, size_t bytes) {
    const bool is_b = what == CUBLASLT_MATMUL_DESC_TRANSB;
    if ((what != CUBLASLT_MATMUL_DESC_TRANSA && !is_b) || bytes != sizeof(cublasOperation_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    ((Desc *)d)->transposed[is_b] = *(const cublasOperation_t *)v == CUBLAS_OP_T;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
    if (ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    return new_handle(l, Layout{type, rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return free_handle((void *)l); }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
    return new_handle(p, Preference{
                             0, {256, 256, 256, 256}
    });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return free_handle((void *)p); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t           pref,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *v,
                                                    size_t bytes) {
    Preference *p = (Preference *)pref;
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof p->workspace) {
        memcpy(&p->workspace, v, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    const int i = (int)what - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (i < 0 || i > 3 || bytes != sizeof p->align[0]) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->align[i], v, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Accepts f32 results and the compute type that Reprise must ask for. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t la,
                                              cublasLtMatrixLayout_t lb, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t ld, cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *n) {
    const Layout     *a = (const Layout *)la, *b = (const Layout *)lb, *d = (const Layout *)ld;
    const Preference *p = (const Preference *)pref;
    stats.choices++;
    *n = 0;
    if (is_set("choose")) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool *t = ((const Desc *)desc)->transposed;
    if (wanted < 1 || a->type != b->type || d->type != CUDA_R_32F || columns_of(a, t[0]) != rows_of(b, t[1]) ||
        rows_of(a, t[0]) != d->rows || columns_of(b, t[1]) != d->cols ||
        ((const Desc *)desc)->compute != (a->type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F))
        return CUBLAS_STATUS_INVALID_VALUE;
    Choice       c     = {d->rows, d->cols, rows_of(b, t[1]), {}, TAG, 0};
    const size_t bytes = c.m * c.n * sizeof(float);
    memcpy(c.align, p->align, sizeof c.align);
    c.via_workspace = c.k >= 256 && bytes <= p->workspace;
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &c, sizeof c);
    results->workspaceSize = c.via_workspace ? bytes : 0;
    results->state         = CUBLAS_STATUS_SUCCESS;
    *n                     = 1;
    return CUBLAS_STATUS_SUCCESS;
}

#ifndef FAKE_WITHOUT_MATMUL
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *pa,
                              cublasLtMatrixLayout_t la, const void *pb, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *pc, cublasLtMatrixLayout_t, void *pd, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream) {
    const Layout *a = (const Layout *)la, *b = (const Layout *)lb, *d = (const Layout *)ld;
    Choice        c;
    if (is_set("matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (is_set("nothing")) return CUBLAS_STATUS_SUCCESS;
    memcpy(&c, algo, sizeof c);
    const bool *t = ((const Desc *)desc)->transposed;
    if (c.tag != TAG || c.m != d->rows || c.n != d->cols || c.k != rows_of(b, t[1]) || pc != pd ||
        !aligned(pa, c.align[0]) || !aligned(pb, c.align[1]) || !aligned(pd, c.align[3]) ||
        (c.via_workspace && (workspace == nullptr || bytes < c.m * c.n * sizeof(float))))
        return CUBLAS_STATUS_INVALID_VALUE;
    FakeArgs args = {pa,
                     pb,
                     (float *)pd,
                     a->type,
                     (int64_t)c.m,
                     (int64_t)c.k,
                     t[0] ? a->ld : 1,
                     t[0] ? 1 : a->ld,
                     t[1] ? 1 : b->ld,
                     t[1] ? b->ld : 1,
                     d->ld,
                     *(const float *)alpha,
                     *(const float *)beta};
    stats.products++;
    stats.via_workspace += c.via_workspace;
    if (c.via_workspace) args.d = (float *)workspace, args.ldd = args.m, args.beta = 0.0f;
    if (launch(RP_KERNEL(fake_product), args, c.n, stream) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!c.via_workspace) return CUBLAS_STATUS_SUCCESS;
    args.a = workspace, args.d = (float *)pd, args.ldd = d->ld, args.beta = *(const float *)beta;
    return launch(RP_KERNEL(fake_collect), args, c.n, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                             : CUBLAS_STATUS_EXECUTION_FAILED;
}
#endif
}
