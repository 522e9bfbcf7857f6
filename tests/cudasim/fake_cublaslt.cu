/* cuBLASLt's thirteen symbols over the simulated device. Strict where the library is: a product has to come
 * with the choice that was made for it, with addresses as aligned as was promised, and with a workspace where
 * the choice needs one. */
#include "tests/cudasim/fake_cublaslt.h"

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
    bool                transposed;
};
struct Layout {
    cudaDataType type;
    uint64_t     rows, cols;
    int64_t      ld;
};
struct Preference {
    size_t   workspace;
    uint32_t align[4];
};
/* What is kept in an algorithm's opaque words. */
struct Choice {
    uint64_t m, n, k;
    uint32_t align[4];
    uint32_t tag, in_parts;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t), "room");
enum { TAG = 0x6c74 };

struct FakeJob {
    const void  *a, *b;
    float       *d;
    cudaDataType type;
    int64_t      m, k, lda, ldb, ldd;
};

bool asked(const char *what) {
    const char *now = getenv(FAKE_VARIABLE);
    if (now == nullptr) now = "";
    if (strcmp(now, setting) != 0) {
        snprintf(setting, sizeof setting, "%s", now);
        calls_left = strncmp(now, "matmul:", 7) == 0 ? atoi(now + 7) : 0;
    }
    if (strcmp(now, what) == 0) return true;
    return strcmp(what, "matmul") == 0 && strncmp(now, "matmul:", 7) == 0 && --calls_left == 0;
}

template <class T, class H> cublasStatus_t give(H *out, const T &value) {
    T *p = (T *)calloc(1, sizeof *p);
    *p   = value;
    *out = (H)p;
    stats.live++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t take(void *p) {
    if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    free(p);
    stats.live--;
    return CUBLAS_STATUS_SUCCESS;
}

float element(const void *p, cudaDataType type, int64_t i) {
    if (type == CUDA_R_32F) return ((const float *)p)[i];
    return type == CUDA_R_16F ? __half2float(((const __half *)p)[i])
                              : __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

/* A block of one thread a column. */
void fake_product(FakeJob j) {
    const int64_t t = blockIdx.x;
    for (int64_t m = 0; m < j.m; m++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < j.k; k++)
            sum = fmaf(element(j.a, j.type, m * j.lda + k), element(j.b, j.type, t * j.ldb + k), sum);
        j.d[t * j.ldd + m] = sum;
    }
}
void fake_collect(FakeJob j) {
    for (int64_t m = 0; m < j.m; m++)
        j.d[blockIdx.x * j.ldd + m] = ((const float *)j.a)[blockIdx.x * j.m + m];
}

cudaError_t launch(const void *kernel, FakeJob job, uint64_t n, cudaStream_t stream) {
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)n), c.blockDim = dim3(1), c.stream = stream;
    void *arguments[] = {&job, nullptr};
    return cudaLaunchKernelExC(&c, kernel, arguments);
}

bool aligned(const void *p, uint32_t to) { return to > 0 && (uintptr_t)p % to == 0; }

} // namespace

extern "C" {
FakeStats fake_stats(void) { return stats; }

size_t cublasLtGetVersion(void) { return asked("version") ? 10000 : CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
    return asked("create") ? CUBLAS_STATUS_NOT_INITIALIZED : give(h, 1);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return take(h); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (asked("describe") || scale != CUDA_R_32F) return CUBLAS_STATUS_ALLOC_FAILED;
    return give(d, Desc{compute, false});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return take(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *v, size_t bytes) {
    if (what != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof(cublasOperation_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    ((Desc *)d)->transposed = *(const cublasOperation_t *)v == CUBLAS_OP_T;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
    if (ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    return give(l, Layout{type, rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return take((void *)l); }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
    return give(p, Preference{
                       0, {256, 256, 256, 256}
    });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return take((void *)p); }
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

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t    ld,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *n) {
    const Layout     *a = (const Layout *)la, *b = (const Layout *)lb, *d = (const Layout *)ld;
    const Preference *p = (const Preference *)pref;
    stats.choices++;
    *n = 0;
    if (asked("choose")) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wanted < 1 || !((const Desc *)desc)->transposed || a->type != b->type || d->type != CUDA_R_32F ||
        a->rows != b->rows || a->cols != d->rows || b->cols != d->cols ||
        ((const Desc *)desc)->compute !=
            (a->type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F))
        return CUBLAS_STATUS_INVALID_VALUE;
    Choice       c     = {a->cols, b->cols, a->rows, {}, TAG, 0};
    const size_t bytes = c.m * c.n * sizeof(float);
    memcpy(c.align, p->align, sizeof c.align);
    c.in_parts = c.k >= 256 && bytes <= p->workspace;
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &c, sizeof c);
    results->workspaceSize = c.in_parts ? bytes : 0;
    results->state         = CUBLAS_STATUS_SUCCESS;
    *n                     = 1;
    return CUBLAS_STATUS_SUCCESS;
}

#ifndef FAKE_WITHOUT_MATMUL
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *alpha, const void *pa,
                              cublasLtMatrixLayout_t la, const void *pb, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *pc, cublasLtMatrixLayout_t, void *pd,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream) {
    const Layout *a = (const Layout *)la, *b = (const Layout *)lb, *d = (const Layout *)ld;
    Choice        c;
    if (asked("matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (asked("nothing")) return CUBLAS_STATUS_SUCCESS;
    memcpy(&c, algo, sizeof c);
    if (c.tag != TAG || c.m != a->cols || c.n != b->cols || c.k != a->rows || *(const float *)alpha != 1.0f ||
        *(const float *)beta != 0.0f || pc != pd || !aligned(pa, c.align[0]) || !aligned(pb, c.align[1]) ||
        !aligned(pd, c.align[3]) ||
        (c.in_parts && (workspace == nullptr || bytes < c.m * c.n * sizeof(float))))
        return CUBLAS_STATUS_INVALID_VALUE;
    FakeJob job = {pa, pb, (float *)pd, a->type, (int64_t)c.m, (int64_t)c.k, a->ld, b->ld, d->ld};
    stats.products++;
    stats.in_parts += c.in_parts;
    if (c.in_parts) job.d = (float *)workspace, job.ldd = job.m;
    if (launch(RP_KERNEL(fake_product), job, c.n, stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!c.in_parts) return CUBLAS_STATUS_SUCCESS;
    job.a = workspace, job.d = (float *)pd, job.ldd = d->ld;
    return launch(RP_KERNEL(fake_collect), job, c.n, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}
#endif
}
